package client

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	sdkclient "go.temporal.io/sdk/client"

	"burnish/internal/device"
)

// throttledServer lists devices, and refuses more than ten requests a second.
type throttledServer struct {
	sdkclient.Client
	t      *testing.T
	takes  time.Duration
	listed []*workflowpb.WorkflowExecutionInfo

	mu      sync.Mutex
	asked   []time.Time
	queries []string
}

func (s *throttledServer) ListWorkflow(ctx context.Context,
	in *workflowservice.ListWorkflowExecutionsRequest) (*workflowservice.ListWorkflowExecutionsResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	s.asked, s.queries = append(s.asked, now), append(s.queries, in.GetQuery())
	if n := len(s.asked); n > 10 && now.Sub(s.asked[n-11]) < time.Second {
		return nil, errors.New("namespace rate limit exceeded")
	}
	time.Sleep(s.takes) //nolint:forbidigo // the answer takes its time, on the test's own clock
	return &workflowservice.ListWorkflowExecutionsResponse{Executions: s.listed}, ctx.Err()
}

// A fleet that is enrolled at once stays below Temporal's limit of listing requests, and
// each device gets what is listed of it.
func TestManyEnrollmentsAtOnceNeedFewListings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const devices = 400
		server := &throttledServer{t: t, takes: 20 * time.Millisecond}
		for i := range devices {
			server.listed = append(server.listed, run(t, fmt.Sprint("other", i), fmt.Sprint("S", i), device.Available))
		}
		c := New(server)
		var done sync.WaitGroup
		began := time.Now()
		for i := range devices {
			done.Go(func() {
				found, err := c.FindBySerial(t.Context(), fmt.Sprint("S", i), fmt.Sprint("d", i), "")
				require.NoError(t, err)
				require.Equal(t, SameSerial{Other: fmt.Sprint("other", i)}, found)
				_, err = c.FindPreviousRun(t.Context(), fmt.Sprint("d", i))
				require.NoError(t, err)
			})
		}
		done.Wait()
		require.Less(t, time.Since(began), 10*time.Second)
		require.LessOrEqual(t, len(server.asked), 40)
		for _, query := range server.queries {
			require.LessOrEqual(t, strings.Count(query, ","), maxLookups+4)
		}
		time.Sleep(2 * lookupPause) //nolint:forbidigo // the last pause, on the test's own clock
	})
}

// A caller who no longer waits ends no other caller's request.
func TestALookupThatIsGivenUpEndsNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &throttledServer{t: t, takes: time.Second,
			listed: []*workflowpb.WorkflowExecutionInfo{run(t, "other", "S1", device.Available)}}
		c := New(server)
		impatient, cancel := context.WithCancel(t.Context())
		var done sync.WaitGroup
		done.Go(func() {
			_, err := c.FindBySerial(impatient, "S1", "d1", "")
			require.ErrorIs(t, err, context.Canceled)
		})
		synctest.Wait()
		done.Go(func() {
			found, err := c.FindBySerial(t.Context(), "S1", "d2", "")
			require.NoError(t, err)
			require.Equal(t, "other", found.Other)
		})
		synctest.Wait()
		cancel()
		done.Wait()
		require.Len(t, server.asked, 2, "the second began after the first request: it has one of its own")
		time.Sleep(2 * lookupPause) //nolint:forbidigo // the last pause, on the test's own clock
	})
}

// One device that cannot be compared exactly changes nothing for the others.
func TestALookupGivesEachOnlyItsOwn(t *testing.T) {
	require.Equal(t, "(WorkflowId STARTS_WITH 'device/o' OR WorkflowId IN ('device/d1', 'device/d2')) AND "+
		"ExecutionStatus IN ('Terminated', 'Canceled', 'TimedOut', 'Failed', 'Completed')",
		endedQuery([]string{"d1", "o'neil", "d2"}))
	require.Equal(t, "WorkflowType = 'DeviceLifecycle' AND ExecutionStatus IN ('Running', 'Terminated', 'Canceled', "+
		"'TimedOut', 'Failed') AND DeviceState != 'retired'", serialsQuery([]string{"S1", "'quoted"}))
	l := &lookups{query: endedQuery, value: func(e Execution) string { return e.Name }}
	batch := []*lookup{{value: "d1"}, {value: "d1"}, {value: "o'neil"}}
	server := &throttledServer{t: t}
	for _, name := range []string{"d1", "o'neil", "o'neill"} {
		server.listed = append(server.listed,
			&workflowpb.WorkflowExecutionInfo{Execution: &commonpb.WorkflowExecution{WorkflowId: "device/" + name}})
	}
	require.NoError(t, l.answer(t.Context(), New(server), batch))
	for _, each := range batch {
		require.Len(t, each.found, 1)
		require.Equal(t, each.value, each.found[0].Name)
	}
}
