package main

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/mock"
	"github.com/stretchr/testify/require"
	sdkclient "go.temporal.io/sdk/client"
	"go.temporal.io/sdk/mocks"

	"burnish/internal/config"
	"burnish/internal/oneview"
	"burnish/workflows/client"
	"burnish/workflows/contract"
)

// fileOf plays oneview.yaml: the intervals of its appliances. next changes it.
type fileOf struct {
	oneview.Pools
	intervals map[string]time.Duration
	looks     int
	next      map[int]func() // before the look of this number
}

func (f *fileOf) Names() []string {
	f.looks++
	if change := f.next[f.looks]; change != nil {
		change()
	}
	var names []string
	for _, name := range []string{"rack1", "rack2", "rack3"} {
		if _, ok := f.intervals[name]; ok {
			names = append(names, name)
		}
	}
	return names
}

func (f *fileOf) Settings(name string) (oneview.Settings, error) {
	return oneview.Settings{Interval: f.intervals[name]}, nil
}

// Each appliance gets a round when the worker starts, with its interval; once more when the
// file has another interval or another appliance, and not otherwise. What fails is tried again.
//
// S4.14
func TestTheWorkerStartsThePolls(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	file := &fileOf{intervals: map[string]time.Duration{"rack1": 5 * time.Minute, "rack2": 0}}
	file.next = map[int]func(){
		5: func() { file.intervals["rack1"] = time.Minute },
		6: func() { file.intervals["rack3"] = time.Hour },
		9: cancel,
	}
	type request struct {
		id       string
		interval time.Duration
	}
	var requests []request
	c := &mocks.Client{}
	c.On("SignalWithStartWorkflow", mock.Anything, mock.Anything, contract.SignalLookNow, mock.Anything, mock.Anything,
		contract.WorkflowOneView, mock.Anything).Return(
		func(_ context.Context, id, _ string, in any, _ sdkclient.StartWorkflowOptions, _ any,
			args ...any) (sdkclient.WorkflowRun, error) {
			look, start := in.(contract.LookRequest), args[0].(contract.OneViewInput)
			require.Equal(t, 7*time.Minute, look.TellAfter)
			require.Equal(t, contract.OneViewInput{Appliance: start.Appliance, Interval: *look.Interval,
				TellAfter: 7 * time.Minute}, start)
			require.Equal(t, id, contract.OneViewWorkflowID(start.Appliance))
			if requests = append(requests, request{start.Appliance, start.Interval}); len(requests) == 2 {
				return nil, errors.New("the server is busy")
			}
			return nil, nil
		})
	settings := config.Worker{OneView: "oneview.yaml"}
	settings.Policy.TellAfter = 7 * time.Minute
	tasks := pollTasks(settings, file, client.New(c), time.Millisecond)
	require.Len(t, tasks, 1)
	require.ErrorContains(t, tasks[0].do(ctx), "signal oneview/rack2: the server is busy")
	require.ErrorIs(t, tasks[0].do(ctx), context.Canceled)
	require.Equal(t, []request{{"rack1", 5 * time.Minute}, {"rack2", 0}, {"rack2", 0}, {"rack1", time.Minute},
		{"rack3", time.Hour}}, requests)
}

// Without BURNISH_ONEVIEW nothing is polled.
func TestNoPollsWithoutOneView(t *testing.T) {
	pools, stop, err := openPools(config.Worker{}, nil)
	require.NoError(t, err)
	require.Empty(t, pools.Names())
	require.NoError(t, stop())
	require.Empty(t, pollTasks(config.Worker{}, pools, nil, time.Minute))
}
