package client

import (
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

// listing answers the requests of pages as Temporal's SQL stores do, from runs in memory.
type listing struct {
	runs    []*workflowpb.WorkflowExecutionInfo
	lists   int
	counts  int
	largest int // answer
	// before is called before each answer.
	before func()
}

var (
	rangeOf = regexp.MustCompile(`DeviceUuid (>=?) '([0-9a-f-]{36})' AND DeviceUuid <= '([0-9a-f-]{36})'`)
	oneOf   = regexp.MustCompile(`DeviceUuid (?:IN \(([^)]*)\)|= ('[^']*'))`)
	inState = regexp.MustCompile(`DeviceState = '(\w+)'`)
	endedAt = regexp.MustCompile(`CloseTime > '([^']+)'`)
)

func field(run *workflowpb.WorkflowExecutionInfo, name string) string {
	return strings.Trim(string(run.GetSearchAttributes().GetIndexedFields()[name].GetData()), `"`)
}

// condition is the query's condition.
func condition(t *testing.T, query string) func(*workflowpb.WorkflowExecutionInfo) bool {
	bounds, some := rangeOf.FindStringSubmatch(query), oneOf.FindStringSubmatch(query)
	state, ended := inState.FindStringSubmatch(query), endedAt.FindStringSubmatch(query)
	var since time.Time
	if strings.Contains(query, "ExecutionStatus") {
		require.NotNil(t, ended, query)
		var err error
		since, err = time.Parse(time.RFC3339, ended[1])
		require.NoError(t, err)
	}
	return func(run *workflowpb.WorkflowExecutionInfo) bool {
		uuid := field(run, "DeviceUuid")
		return (bounds == nil || bounds[2] < uuid && uuid <= bounds[3] || bounds[1] == ">=" && uuid == bounds[2]) &&
			(some == nil || strings.Contains(some[1]+some[2], uuid)) &&
			(state == nil || state[1] == field(run, "DeviceState")) &&
			(run.GetStatus() == enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING || run.GetCloseTime().AsTime().After(since))
	}
}

func (l *listing) client(t *testing.T) *Client {
	c := &mocks.Client{}
	c.On("ListWorkflow", mock.Anything, mock.Anything).Return(func(_ context.Context, r *workflowservice.ListWorkflowExecutionsRequest) (*workflowservice.ListWorkflowExecutionsResponse, error) {
		l.lists++
		if l.before != nil {
			l.before()
		}
		var from int
		if token := string(r.GetNextPageToken()); token != "" {
			_, err := fmt.Sscan(token, &from)
			require.NoError(t, err)
		}
		answer, selects := &workflowservice.ListWorkflowExecutionsResponse{}, condition(t, r.GetQuery())
		for i, run := range l.runs[from:] {
			if !selects(run) {
				continue
			}
			if answer.Executions = append(answer.Executions, run); len(answer.Executions) == int(r.GetPageSize()) {
				answer.NextPageToken = fmt.Append(nil, from+i+1)
				break
			}
		}
		l.largest = max(l.largest, len(answer.GetExecutions()))
		return answer, nil
	})
	c.On("CountWorkflow", mock.Anything, mock.Anything).Return(func(_ context.Context, r *workflowservice.CountWorkflowExecutionsRequest) (*workflowservice.CountWorkflowExecutionsResponse, error) {
		l.counts++
		answer, selects := &workflowservice.CountWorkflowExecutionsResponse{}, condition(t, r.GetQuery())
		for _, run := range l.runs {
			if selects(run) {
				answer.Count++
			}
		}
		return answer, nil
	})
	return New(c)
}

func (l *listing) add(t *testing.T, name, uuid string, state device.State) *workflowpb.WorkflowExecutionInfo {
	run := info(name, map[string]*commonpb.Payload{"DeviceUuid": payload(t, uuid), "DeviceState": payload(t, string(state))}, nil)
	l.runs = append(l.runs, run)
	return run
}

func fleetOf(t *testing.T, n int, uuid func(i int) string) *listing {
	l := &listing{}
	for i := range n {
		l.add(t, fmt.Sprintf("d%04d", i), uuid(i), device.Available)
	}
	return l
}

func hashed(i int) string { return contract.DeviceUUID(fmt.Sprintf("d%04d", i)) }

// readPages reads all pages, checks their form, and returns the devices' UUIDs.
func readPages(t *testing.T, c *Client, f Filter, limit int) (all []string) {
	for after := ""; ; {
		page, more, err := c.Page(t.Context(), f, after, limit)
		require.NoError(t, err)
		require.LessOrEqual(t, len(page), limit)
		for _, e := range page {
			require.Greater(t, e.Status.UUID, after, "in order, after the marker")
			after = e.Status.UUID
			all = append(all, after)
		}
		if !more {
			return all
		}
		require.Len(t, page, limit, "others follow only a full page")
	}
}

func uuids(l *listing) (all []string) {
	for _, run := range l.runs {
		all = append(all, field(run, "DeviceUuid"))
	}
	slices.Sort(all)
	return slices.Compact(all)
}

func TestPagesShowEachDeviceOnce(t *testing.T) {
	for _, limit := range []int{1, 7, 1000} {
		l := fleetOf(t, 2500, hashed)
		require.Equal(t, uuids(l), readPages(t, l.client(t), Filter{}, limit))
		require.LessOrEqual(t, l.largest, pageSize)
		require.LessOrEqual(t, l.counts, 1)
		pages := 2500/limit + 1
		require.LessOrEqual(t, l.lists, pages+pages/5+5, "calls for %d pages", pages)
	}
}

// The keys are hashes. Pages stay exact where they are not.
func TestPagesWhateverTheDistribution(t *testing.T) {
	for name, uuid := range map[string]func(i int) string{
		"in one corner":           func(i int) string { return fmt.Sprintf("f0000000-0000-5000-8000-%012x", i) },
		"at both ends":            func(i int) string { return fmt.Sprintf("%08x-0000-5000-8000-000000000000", uint32(-(i%2))^uint32(i)) },
		"with the first and last": func(i int) string { return []string{firstUUID, lastUUID, hashed(i)}[min(i, 2)] },
	} {
		t.Run(name, func(t *testing.T) {
			l := fleetOf(t, 1500, uuid)
			for _, limit := range []int{100, 1000} {
				require.Equal(t, uuids(l), readPages(t, l.client(t), Filter{}, limit))
			}
		})
	}
}

func TestPagesOfFewAndNone(t *testing.T) {
	l := fleetOf(t, 1200, hashed)
	for _, i := range []int{3, 700, 1100} {
		l.runs[i].SearchAttributes.IndexedFields["DeviceState"] = payload(t, "error")
	}
	c := l.client(t)
	require.Len(t, readPages(t, c, Filter{States: []device.State{device.Error}}, 2), 3)
	require.Empty(t, readPages(t, c, Filter{States: []device.State{device.Cleaning}}, 2))
	require.Empty(t, readPages(t, (&listing{}).client(t), Filter{}, 5))
	early := Filter{Match: func(v contract.DeviceStatus) bool { return v.Name < "d0100" }}
	require.Len(t, readPages(t, c, early, 30), 100)
}

// continueAsNew has a device continue as new: its run ends, and the new one is listed later
// or at once. An older ending may be listed late too.
func (l *listing) continueAsNew(t *testing.T, i int, state device.State, shown bool) {
	ended := l.runs[i]
	ended.Status, ended.CloseTime = enumspb.WORKFLOW_EXECUTION_STATUS_CONTINUED_AS_NEW, timestamppb.Now()
	if shown {
		next := l.add(t, strings.TrimPrefix(ended.GetExecution().GetWorkflowId(), "device/"), field(ended, "DeviceUuid"), state)
		next.StartTime = timestamppb.New(ended.GetStartTime().AsTime().Add(time.Second))
	}
}

func TestADeviceThatContinuesAsNewIsOnOnePage(t *testing.T) {
	const n = 500
	l := fleetOf(t, n, hashed)
	want, random := uuids(l), rand.New(rand.NewPCG(1, 2))
	current := make([]int, n) // the last run of each device
	for i := range current {
		current[i] = i
	}
	unlisted := map[int]bool{}
	l.before = func() {
		for i := range unlisted { // now their new run is listed
			ended := l.runs[current[i]]
			next := l.add(t, fmt.Sprintf("d%04d", i), field(ended, "DeviceUuid"), device.Available)
			next.StartTime = timestamppb.New(ended.GetStartTime().AsTime().Add(time.Second))
			current[i] = len(l.runs) - 1
			delete(unlisted, i)
		}
		for range 20 {
			i := random.IntN(n)
			if unlisted[i] {
				continue
			}
			shown := random.IntN(2) == 0
			if l.continueAsNew(t, current[i], device.Available, shown); shown {
				current[i] = len(l.runs) - 1
			} else {
				unlisted[i] = true
			}
		}
	}
	c := l.client(t)
	for _, limit := range []int{7, 100} {
		require.Equal(t, want, readPages(t, c, Filter{}, limit))
	}
}

// An ended run stands for its device only until another run is listed.
func TestAnEndedRunGivesNoOldState(t *testing.T) {
	l := fleetOf(t, 3, hashed)
	l.continueAsNew(t, 0, device.Allocated, true)
	l.continueAsNew(t, 1, device.Available, false)
	c := l.client(t)
	require.Equal(t, []string{hashed(2), hashed(1)}, readPages(t, c, Filter{States: []device.State{device.Available}}, 10))
	l.runs[1].CloseTime = timestamppb.New(time.Now().Add(-time.Hour))
	require.Equal(t, []string{hashed(2)}, readPages(t, c, Filter{States: []device.State{device.Available}}, 10), "it ended long ago")
	l.runs[2].Status, l.runs[2].CloseTime = enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED, timestamppb.Now()
	require.Equal(t, []string{hashed(0)}, readPages(t, c, Filter{}, 10), "it was forgotten")
}

func TestRunByUUID(t *testing.T) {
	l := fleetOf(t, 3, hashed)
	l.continueAsNew(t, 1, device.Available, true)
	l.runs[2].Status, l.runs[2].CloseTime = enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED, timestamppb.New(clock)
	c := l.client(t)
	e, found, err := c.ByUUID(t.Context(), hashed(1))
	require.NoError(t, err)
	require.True(t, found && e.Running)
	require.Equal(t, "d0001", e.Name)
	e, found, err = c.ByUUID(t.Context(), hashed(2))
	require.NoError(t, err)
	require.True(t, found && e.Forgotten)
	_, found, err = c.ByUUID(t.Context(), lastUUID)
	require.NoError(t, err)
	require.False(t, found)
}
