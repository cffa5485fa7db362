package telemetry

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/mock"
	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	taskqueuepb "go.temporal.io/api/taskqueue/v1"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	sdkclient "go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/mocks"
	"google.golang.org/protobuf/types/known/timestamppb"

	"burnish/internal/device"
	"burnish/workflows/client"
	"burnish/workflows/contract"
)

// fleetServer answers as a Temporal server with devices on some hosts.
type fleetServer struct {
	*mocks.Client
	mu     sync.Mutex
	counts map[string]int64 // by a part of the query
	hosts  []string
	polled map[string]time.Time
	err    error // of every count
	calls  map[string]int
}

func newFleetServer(t *testing.T) *fleetServer {
	s := &fleetServer{Client: mocks.NewClient(t), counts: map[string]int64{}, polled: map[string]time.Time{},
		calls: map[string]int{}}
	s.On("CountWorkflow", mock.Anything, mock.Anything).Return(s.count).Maybe()
	s.On("ListWorkflow", mock.Anything, mock.Anything).Return(s.list).Maybe()
	s.On("DescribeTaskQueue", mock.Anything, mock.Anything, enumspb.TASK_QUEUE_TYPE_ACTIVITY).Return(s.describe).Maybe()
	return s
}

func (s *fleetServer) count(_ context.Context,
	r *workflowservice.CountWorkflowExecutionsRequest) (*workflowservice.CountWorkflowExecutionsResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls["count"]++
	for part, n := range s.counts {
		if strings.Contains(r.GetQuery(), part) {
			return &workflowservice.CountWorkflowExecutionsResponse{Count: n}, s.err
		}
	}
	return &workflowservice.CountWorkflowExecutionsResponse{}, s.err
}

func (s *fleetServer) list(context.Context,
	*workflowservice.ListWorkflowExecutionsRequest) (*workflowservice.ListWorkflowExecutionsResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls["list"]++
	answer := &workflowservice.ListWorkflowExecutionsResponse{}
	for _, host := range s.hosts {
		fields := map[string]*commonpb.Payload{}
		for name, value := range map[string]string{contract.AttrHost.GetName(): host,
			contract.AttrState.GetName(): string(device.Available)} {
			payload, err := converter.GetDefaultDataConverter().ToPayload(value)
			if err != nil {
				return nil, err
			}
			fields[name] = payload
		}
		answer.Executions = append(answer.Executions, &workflowpb.WorkflowExecutionInfo{
			Execution: &commonpb.WorkflowExecution{WorkflowId: contract.WorkflowID("d-" + host)},
			Status:    enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING,

			SearchAttributes: &commonpb.SearchAttributes{IndexedFields: fields},
		})
	}
	return answer, nil
}

func (s *fleetServer) describe(_ context.Context, queue string,
	_ enumspb.TaskQueueType) (*workflowservice.DescribeTaskQueueResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls["describe"]++
	answer := &workflowservice.DescribeTaskQueueResponse{}
	if at, ok := s.polled[queue]; ok {
		answer.Pollers = []*taskqueuepb.PollerInfo{{LastAccessTime: timestamppb.New(at)}}
	}
	return answer, nil
}

func (s *fleetServer) called(what string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.calls[what]
}

func showFleet(t *testing.T, s *fleetServer) *Telemetry {
	t.Helper()
	f := newTelemetry(t)
	stop, err := f.ShowFleet(Fleet{Client: client.New(s), Log: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, stop()) })
	return f
}

// However often and by however many the figures are read, Temporal is asked once in 15
// seconds, and not at all while no request reads them.
//
// S2.102
func TestTheFleetIsCountedAtMostOnceInAWhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFleetServer(t)
		s.counts["DeviceState = 'available'"], s.counts["NeedsOperator = true"] = 7, 2
		f := showFleet(t, s)
		<-time.After(time.Hour)
		require.Zero(t, s.called("count"))
		perRound := len(device.States()) + 3
		var reading sync.WaitGroup
		for range 10 {
			reading.Go(func() { scrape(t, f) })
		}
		reading.Wait()
		require.Equal(t, perRound, s.called("count"))
		<-time.After(roundInterval - time.Second)
		all := scrape(t, f)
		require.InDelta(t, 7, all["burnish_devices{state=available}"], 0)
		require.Zero(t, all["burnish_devices{state=error}"])
		require.InDelta(t, 2, all["burnish_devices_needing_operator{}"], 0)
		require.Equal(t, perRound, s.called("count"))
		<-time.After(time.Second)
		scrape(t, f)
		require.Equal(t, 2*perRound, s.called("count"))
	})
}

// Figures that could not be read are missing, and counted; the others are there.
func TestFiguresThatCannotBeReadAreMissing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFleetServer(t)
		s.hosts = []string{"h1"}
		f := showFleet(t, s)
		require.Contains(t, scrape(t, f), "burnish_devices{state=available}")
		s.err = errors.New("away")
		<-time.After(roundInterval)
		all := scrape(t, f)
		require.NotContains(t, all, "burnish_devices{state=available}", "it is old")
		require.NotContains(t, all, "burnish_devices_needing_operator{}")
		require.Contains(t, all, "burnish_host_last_poll_timestamp_seconds{host=h1}")
		require.InDelta(t, 1, all["burnish_collection_errors_total{part=devices}"], 0)
		require.InDelta(t, 1, all["burnish_collection_errors_total{part=operator}"], 0)
		require.Zero(t, all["burnish_collection_errors_total{part=hosts}"])
		s.err = nil
		<-time.After(roundInterval)
		require.Contains(t, scrape(t, f), "burnish_devices{state=available}")
	})
}

// Each host with devices is shown with its last poll, also after Temporal has forgotten it; a
// host that has none any more goes.
func TestEachHostHasItsLastPoll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFleetServer(t)
		for i := range 10 {
			s.hosts = append(s.hosts, fmt.Sprintf("h%d", i))
			s.polled[contract.HostQueue(s.hosts[i])] = time.Now().Add(-time.Duration(i) * time.Minute)
		}
		delete(s.polled, contract.HostQueue("h9"))
		f, began := showFleet(t, s), time.Now()
		shown := func(host string) (float64, bool) {
			at, ok := scrape(t, f)["burnish_host_last_poll_timestamp_seconds{host="+host+"}"]
			return at, ok
		}
		at, ok := shown("h8")
		require.True(t, ok)
		require.InDelta(t, unix(began.Add(-8*time.Minute)), at, 0.001)
		at, ok = shown("h9")
		require.True(t, ok)
		require.Zero(t, at)
		require.Equal(t, 1, s.called("list"))
		require.Equal(t, 10, s.called("describe"))

		s.polled = map[string]time.Time{}
		<-time.After(roundInterval)
		at, _ = shown("h8")
		require.InDelta(t, unix(began.Add(-8*time.Minute)), at, 0.001)
		require.Equal(t, 1, s.called("list"), "the fleet is rarely listed")

		s.hosts = s.hosts[:3]
		<-time.After(listedFor)
		_, ok = shown("h8")
		require.False(t, ok)
		_, ok = shown("h1")
		require.True(t, ok)
	})
}

// A worker that has stopped asks nothing.
func TestAStoppedWorkerReadsNoFigures(t *testing.T) {
	s := newFleetServer(t)
	f := newTelemetry(t)
	stop, err := f.ShowFleet(Fleet{Client: client.New(s), Log: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	require.NoError(t, stop())
	require.NotContains(t, scrape(t, f), "burnish_devices{state=available}")
	require.Zero(t, s.called("count"))
}

// The last good sweep and the last good round of the polls are shown as they are in their
// workflows; 0 where the workflow does not run, nothing where it is off.
func TestTheLastSweepAndRoundAreShown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		s := newFleetServer(t)
		states := map[string]any{
			contract.ReconcileWorkflowID("cloud"): contract.InventoryReconcileState{Interval: time.Minute, ReconciledAt: began},
			contract.OneViewWorkflowID("good"):    contract.OneViewState{Interval: time.Minute, LastGood: began.Add(-time.Hour)},
			contract.OneViewWorkflowID("off"):     contract.OneViewState{LastGood: began},
		}
		s.On("QueryWorkflow", mock.Anything, mock.Anything, "", mock.Anything).
			Return(func(_ context.Context, id, _, _ string, _ ...any) (converter.EncodedValue, error) {
				state, ok := states[id]
				if !ok {
					return nil, serviceerror.NewNotFound(id)
				}
				payloads, err := converter.GetDefaultDataConverter().ToPayloads(state)
				return sdkclient.NewValue(payloads), err
			})
		f := newTelemetry(t)
		stop, err := f.ShowFleet(Fleet{Client: client.New(s), Cloud: "cloud", Appliances: func() []string {
			return []string{"good", "lost", "off"}
		}, Log: slog.New(slog.DiscardHandler)})
		require.NoError(t, err)
		defer func() { require.NoError(t, stop()) }()
		all := scrape(t, f)
		require.Equal(t, map[string]float64{"burnish_reconcile_last_success_timestamp_seconds{cloud=cloud}": unix(began)},
			map[string]float64(all.With("burnish_reconcile_last")))
		require.Equal(t, map[string]float64{
			"burnish_oneview_last_success_timestamp_seconds{appliance=good}": unix(began.Add(-time.Hour)),
			"burnish_oneview_last_success_timestamp_seconds{appliance=lost}": 0,
		}, map[string]float64(all.With("burnish_oneview_last")))
		states[contract.ReconcileWorkflowID("cloud")] = contract.InventoryReconcileState{ReconciledAt: began}
		<-time.After(roundInterval)
		require.Empty(t, scrape(t, f).With("burnish_reconcile_last"))
	})
}
