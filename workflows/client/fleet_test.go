package client

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/mock"
	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/mocks"
	"google.golang.org/protobuf/types/known/timestamppb"

	"burnish/internal/device"
	"burnish/workflows/contract"
)

// listing answers requests as Temporal's SQL stores do, from runs in memory: first those that
// run, by their start, then the others by their end, the latest first. A page begins after the
// last run of the page before, where that stood.
type listing struct {
	runs []*workflowpb.WorkflowExecutionInfo
	size int // of a page
	// before is called before each answer.
	before func()
}

var (
	ofUUID  = regexp.MustCompile(`DeviceUuid = '([^']*)'`)
	endedAt = regexp.MustCompile(`CloseTime > '([^']+)'`)
)

func field(run *workflowpb.WorkflowExecutionInfo, name string) string {
	return strings.Trim(string(run.GetSearchAttributes().GetIndexedFields()[name].GetData()), `"`)
}

// position is where a run stands: the least is first.
func position(run *workflowpb.WorkflowExecutionInfo) string {
	const last = 1 << 62
	closed := int64(last)
	if at := run.GetCloseTime(); at != nil {
		closed = at.AsTime().UnixNano()
	}
	return fmt.Sprintf("%020d %020d %s", last-closed, last-run.GetStartTime().AsTime().UnixNano(),
		run.GetExecution().GetRunId())
}

// condition is the query's condition.
func condition(t *testing.T, query string) func(*workflowpb.WorkflowExecutionInfo) bool {
	uuid, ended := ofUUID.FindStringSubmatch(query), endedAt.FindStringSubmatch(query)
	var since time.Time
	if strings.Contains(query, "ExecutionStatus") {
		require.NotNil(t, ended, query)
		var err error
		since, err = time.Parse(time.RFC3339, ended[1])
		require.NoError(t, err)
	}
	return func(run *workflowpb.WorkflowExecutionInfo) bool {
		return (uuid == nil || uuid[1] == field(run, "DeviceUuid")) &&
			(run.GetCloseTime() == nil || run.GetCloseTime().AsTime().After(since))
	}
}

func (l *listing) client(t *testing.T) *Client {
	c := &mocks.Client{}
	c.On("ListWorkflow", mock.Anything, mock.Anything).
		Return(func(_ context.Context,
			r *workflowservice.ListWorkflowExecutionsRequest) (*workflowservice.ListWorkflowExecutionsResponse, error) {
			if l.before != nil {
				l.before()
			}
			answer, selects := &workflowservice.ListWorkflowExecutionsResponse{}, condition(t, r.GetQuery())
			sorted := slices.SortedFunc(slices.Values(l.runs), func(a, b *workflowpb.WorkflowExecutionInfo) int {
				return cmp.Compare(position(a), position(b))
			})
			for _, run := range sorted {
				if at := position(run); at > string(r.GetNextPageToken()) && selects(run) {
					if len(answer.GetExecutions()) == l.size {
						answer.NextPageToken = []byte(position(answer.GetExecutions()[l.size-1]))
						break
					}
					answer.Executions = append(answer.Executions, run)
				}
			}
			return answer, nil
		})
	return New(c)
}

// add adds the next run of a device.
func (l *listing) add(t *testing.T, i int, state device.State) *workflowpb.WorkflowExecutionInfo {
	run := info(fmt.Sprintf("d%04d", i),
		map[string]*commonpb.Payload{"DeviceUuid": payload(t, hashed(i)), "DeviceState": payload(t, string(state))}, nil)
	run.Execution.RunId = fmt.Sprint(len(l.runs))
	run.StartTime = timestamppb.New(clock.Add(time.Duration(len(l.runs)) * time.Second))
	l.runs = append(l.runs, run)
	return run
}

// continueAsNew ends the run of a device.
func continueAsNew(run *workflowpb.WorkflowExecutionInfo) {
	run.Status, run.CloseTime = enumspb.WORKFLOW_EXECUTION_STATUS_CONTINUED_AS_NEW, timestamppb.Now()
}

func fleetOf(t *testing.T, n int) *listing {
	l := &listing{size: pageSize}
	for i := range n {
		l.add(t, i, device.Available)
	}
	return l
}

func hashed(i int) string { return contract.DeviceUUID(fmt.Sprintf("d%04d", i)) }

// inState reads the fleet, and returns the UUIDs of those in a state; all if it is "".
func inState(t *testing.T, c *Client, state device.State) (uuids []string) {
	t.Helper()
	all, err := c.Fleet(t.Context())
	require.NoError(t, err)
	for _, e := range all {
		if state == "" || e.Status.DeviceState == state {
			uuids = append(uuids, e.Status.UUID)
		}
	}
	return uuids
}

// While some of them continue as new all the time, and Temporal lists their new runs at once or
// later, each device of the fleet is listed once.
func TestTheFleetHasADeviceThatContinuesAsNewOnce(t *testing.T) {
	const n = 500
	l := fleetOf(t, n)
	var want []string
	current := make([]*workflowpb.WorkflowExecutionInfo, n) // the last listed run of each device
	for i := range current {
		current[i], want = l.runs[i], append(want, hashed(i))
	}
	slices.Sort(want)
	random, unlisted := rand.New(rand.NewPCG(1, 2)), map[int]bool{}
	l.before = func() {
		for i := range unlisted { // now their new run is listed
			current[i] = l.add(t, i, device.Available)
			delete(unlisted, i)
		}
		for range max(1, l.size/5) {
			if i := random.IntN(n); !unlisted[i] {
				continueAsNew(current[i])
				if unlisted[i] = random.IntN(2) == 0; !unlisted[i] {
					current[i] = l.add(t, i, device.Available)
					delete(unlisted, i)
				}
			}
		}
	}
	c := l.client(t)
	for _, l.size = range []int{7, 100} {
		for range 5 {
			require.Equal(t, want, inState(t, c, ""))
		}
	}
}

// An ended run stands for its device only until another run is listed.
func TestAnEndedRunGivesNoOldState(t *testing.T) {
	l := fleetOf(t, 3)
	continueAsNew(l.runs[0])
	l.add(t, 0, device.Allocated)
	continueAsNew(l.runs[1])
	c := l.client(t)
	require.Equal(t, []string{hashed(2), hashed(1)}, inState(t, c, device.Available))
	l.runs[1].CloseTime = timestamppb.New(time.Now().Add(-time.Hour))
	require.Equal(t, []string{hashed(2)}, inState(t, c, device.Available), "it ended long ago")
	l.runs[2].Status, l.runs[2].CloseTime = enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED, timestamppb.Now()
	require.Equal(t, []string{hashed(0)}, inState(t, c, ""), "it was forgotten")
	l.add(t, 2, device.Absent)
	require.Equal(t, []string{hashed(0)}, inState(t, c, ""), "its enrollment was never finished")
}

func TestRunByUUID(t *testing.T) {
	l := fleetOf(t, 3)
	continueAsNew(l.runs[1])
	l.add(t, 1, device.Available)
	l.runs[2].Status, l.runs[2].CloseTime = enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED, timestamppb.New(clock)
	c := l.client(t)
	e, found, err := c.ByUUID(t.Context(), hashed(1))
	require.NoError(t, err)
	require.True(t, found && e.Running)
	require.Equal(t, "d0001", e.Name)
	e, found, err = c.ByUUID(t.Context(), hashed(2))
	require.NoError(t, err)
	require.True(t, found && e.Forgotten)
	_, found, err = c.ByUUID(t.Context(), hashed(3))
	require.NoError(t, err)
	require.False(t, found)
}
