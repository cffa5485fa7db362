package activities_test

import (
	"context"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/mock"
	"github.com/stretchr/testify/require"
	"go.temporal.io/api/serviceerror"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/mocks"

	"burnish/activities"
	"burnish/internal/device"
	"burnish/workflows/client"
	"burnish/workflows/contract"
)

// fleetServer is a server with devices: as listed, and as they are.
type fleetServer struct {
	*mocks.Client
	listed, real map[string]device.State
	mu           sync.Mutex // devices are asked several at once
	asked        []string
}

func infoOf(t *testing.T, name string, state device.State) *workflowpb.WorkflowExecutionInfo {
	t.Helper()
	run := deviceRun(name, attributes(t, contract.AttrState, state), nil)
	run.Execution.RunId = "r"
	return run
}

func newFleetServer(t *testing.T) *fleetServer {
	s := &fleetServer{Client: &mocks.Client{}, listed: map[string]device.State{}, real: map[string]device.State{}}
	lists(s.Client, func(query string, _ []byte) (runs []*workflowpb.WorkflowExecutionInfo, _ []byte, _ error) {
		for name, state := range s.listed {
			if strings.Contains(query, "'"+string(state)+"'") {
				runs = append(runs, infoOf(t, name, state))
			}
		}
		return runs, nil, nil
	})
	s.On("CountWorkflow", mock.Anything, mock.Anything).Return(&workflowservice.CountWorkflowExecutionsResponse{Count: 50},
		nil)
	for _, name := range []string{"d1", "d2", "d3", "d4"} {
		s.On("DescribeWorkflowExecution", mock.Anything, contract.WorkflowID(name), "").Return(
			func(context.Context, string, string) *workflowservice.DescribeWorkflowExecutionResponse {
				return &workflowservice.DescribeWorkflowExecutionResponse{WorkflowExecutionInfo: infoOf(t, name, s.real[name])}
			}, func(context.Context, string, string) error {
				if s.real[name] == "" {
					return serviceerror.NewNotFound("no such workflow")
				}
				return nil
			})
	}
	s.On("SignalWorkflow", mock.Anything, mock.Anything, "", contract.SignalObserved, mock.Anything).
		Run(func(args mock.Arguments) {
			if hint, ok := args.Get(4).(contract.Hint); ok && hint.Slot.Again {
				s.mu.Lock()
				defer s.mu.Unlock()
				s.asked = append(s.asked, args.String(1))
			}
		}).Return(nil)
	return s
}

// A slot is lost where its device has no workflow, or is not being cleaned; the server is asked
// for each, because a listing lags behind.
func TestLostHoldersOfSlots(t *testing.T) {
	s := newFleetServer(t)
	s.real = map[string]device.State{"d1": device.Cleaning, "d2": device.PendingCleaning, "d3": device.Available}
	l := &activities.Limits{Client: client.New(s)}
	found, err := l.CheckHolders(t.Context(), contract.HoldersInput{Cleaned: []string{"d4", "d3", "d2", "d1"}})
	require.NoError(t, err)
	require.Equal(t, []string{"d3", "d4"}, found.Lost)
	found, err = l.CheckHolders(t.Context(), contract.HoldersInput{Taking: []string{"d1", "d3"}})
	require.NoError(t, err)
	require.Equal(t, []string{"d1"}, found.Lost)
}

func TestRunningCleansAreAskedOnceMore(t *testing.T) {
	s := newFleetServer(t)
	s.listed = map[string]device.State{"d1": device.Cleaning, "d2": device.PendingCleaning, "d3": device.Available}
	found, err := (&activities.Limits{Client: client.New(s)}).FindCleans(t.Context())
	require.NoError(t, err)
	require.Equal(t, 2, found.Asked)
	require.ElementsMatch(t, []string{"device/d1", "device/d2"}, s.asked)
}

// What is being taken out of the offer, or was and is still listed as available, is not free.
func TestFreeDevicesAreCounted(t *testing.T) {
	s := newFleetServer(t)
	for _, name := range []string{"d1", "d2", "d3", "d4"} {
		s.listed[name], s.real[name] = device.Available, device.Available
	}
	l := &activities.Limits{Client: client.New(s)}
	count := func(taking, withdrawn []string) contract.CountFreeResult {
		found, err := l.CountFree(t.Context(), contract.CountFreeInput{Taking: taking, Withdrawn: withdrawn})
		require.NoError(t, err)
		require.Equal(t, 50, found.InService)
		return found
	}
	require.Equal(t, 4, count(nil, nil).Free)
	require.Equal(t, 3, count([]string{"d1"}, nil).Free)
	s.real["d2"] = device.Manageable
	found := count(nil, []string{"d2"})
	require.Equal(t, 3, found.Free, "the listing lags behind")
	require.Empty(t, found.Settled)
	delete(s.listed, "d2")
	found = count(nil, []string{"d2", "d3"})
	require.Equal(t, 3, found.Free)
	require.Equal(t, []string{"d2", "d3"}, found.Settled, "the listing shows it, or it is back")
}
