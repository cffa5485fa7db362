package activities_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/mock"
	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	sdkclient "go.temporal.io/sdk/client"
	"go.temporal.io/sdk/mocks"
	"golang.org/x/sys/unix"

	"burnish/activities"
	"burnish/internal/device"
	"burnish/internal/host"
	"burnish/workflows/client"
	"burnish/workflows/contract"
)

// recovery is a worker that starts on a host, with the server's answers.
type recovery struct {
	*activities.Recovery
	fixture *testHost
	client  *mocks.Client

	mu    sync.Mutex
	ended []string // workflow and activity ID of each attempt that was ended
}

// gone is the identity of a process of this machine that has ended.
func gone(this host.Identity) string {
	this.Name, this.Started = "an earlier worker", "1" // this pid, but no process that lives
	return this.String()
}

func newRecovery(t *testing.T) *recovery {
	t.Helper()
	s := newTestHost(t)
	this, err := host.NewIdentity("this worker")
	require.NoError(t, err)
	r := &recovery{fixture: s, client: &mocks.Client{}}
	r.client.On("DescribeWorkflowExecution", mock.Anything, contract.HostScanWorkflowID(s.host.Name()), "").
		Return(nil, serviceerror.NewNotFound("no workflow")).Maybe()
	r.Recovery = &activities.Recovery{
		Client: client.New(r.client), Namespace: "burnish-test", Identity: this,
		Log: slog.New(slog.NewTextHandler(s.log, nil)),
	}
	return r
}

// remembers writes the host's record of a device.
func (r *recovery) remembers(t *testing.T, name, serial string) host.Record {
	t.Helper()
	require.NoError(t, r.fixture.host.SaveRecord(host.Record{
		Name: name, UUID: contract.DeviceUUID(name), Driver: "double", Settings: map[string]string{"a": "b"},
		Identity: device.Identity{Serial: serial, Size: diskSize}, Binding: 3, Clean: 4, Seq: 5, Generation: 6,
	}))
	return r.fixture.record(name)
}

func pending(id, step, worker string) *workflowpb.PendingActivityInfo {
	return &workflowpb.PendingActivityInfo{
		ActivityId: id, ActivityType: &commonpb.ActivityType{Name: step},
		State: enumspb.PENDING_ACTIVITY_STATE_STARTED, LastWorkerIdentity: worker,
	}
}

func described(status enumspb.WorkflowExecutionStatus,
	all ...*workflowpb.PendingActivityInfo) *workflowservice.DescribeWorkflowExecutionResponse {
	return &workflowservice.DescribeWorkflowExecutionResponse{
		WorkflowExecutionInfo: &workflowpb.WorkflowExecutionInfo{Status: status}, PendingActivities: all,
	}
}

const isRunning = enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING

// describes sets the server's description of a device's workflow.
func (r *recovery) describes(name string, answer *workflowservice.DescribeWorkflowExecutionResponse,
	err error) *mock.Call {
	return r.client.On("DescribeWorkflowExecution", mock.Anything, "device/"+name, "").Return(answer, err)
}

// ends makes the server accept the end of attempts, and requires that each is retried at
// once.
func (r *recovery) ends(t *testing.T, answer error) *mock.Call {
	return r.client.On("CompleteActivityByID", mock.Anything, "burnish-test", mock.Anything, "", mock.Anything, nil,
		mock.Anything).
		Run(func(args mock.Arguments) {
			err, ok := args.Get(6).(error)
			if !ok {
				t.Errorf("%v is not an error", args.Get(6))
				return
			}
			if refusal, ok := contract.RefusalOf(err); !ok || refusal.Fault.Code != device.CodeWorkerRestarted ||
				refusal.Fault.Class != device.Transient {
				t.Errorf("ended with %v", err)
			}
			r.mu.Lock()
			defer r.mu.Unlock()
			r.ended = append(r.ended, args.String(2)+" "+args.String(4))
		}).Return(answer)
}

func (r *recovery) endedAttempts() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Sorted(slices.Values(r.ended))
}

// F2
func TestOrphanEndsOnceItsFenceIsFree(t *testing.T) {
	t.Parallel()
	inBubble(t, "a child of a killed worker holds it", func(t *testing.T) {
		r := newRecovery(t)
		r.remembers(t, "d1", "S1")
		r.describes("d1", described(isRunning, pending("17", "zero", gone(r.Identity))), nil)
		r.ends(t, nil)
		orphan, err := os.OpenFile(r.fixture.lockFile("S1"), os.O_RDWR|os.O_CREATE, 0o600)
		require.NoError(t, err)
		require.NoError(t, unix.Flock(int(orphan.Fd()), unix.LOCK_EX))
		done := make(chan error, 1)
		go func() { done <- r.EndHostOrphans(t.Context(), r.fixture.host) }()
		pass(time.Minute)
		require.Empty(t, r.endedAttempts(), "ended while the device is in use")
		require.Contains(t, r.fixture.log.String(), "waiting for the last I/O of a killed worker")
		require.NoError(t, orphan.Close())
		require.NoError(t, <-done)
		require.Equal(t, []string{"device/d1 17"}, r.endedAttempts())
		require.NoError(t, freed(r.fixture, "S1"))
	})
	inBubble(t, "a device that waits does not delay the others", func(t *testing.T) {
		r := newRecovery(t)
		for i := range 3 {
			name := fmt.Sprint("d", i+1)
			r.remembers(t, name, fmt.Sprint("S", i+1))
			r.describes(name, described(isRunning, pending("17", "zero", gone(r.Identity))), nil)
		}
		r.ends(t, nil)
		held, err := r.fixture.host.Fence(t.Context(), "S1", nil)
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- r.EndHostOrphans(ctx, r.fixture.host) }()
		pass(time.Second)
		require.Equal(t, []string{"device/d2 17", "device/d3 17"}, r.endedAttempts())
		cancel()
		require.ErrorIs(t, <-done, context.Canceled)
		require.NoError(t, held.Close())
	})
	inBubble(t, "an attempt that was started again is not an orphan", func(t *testing.T) {
		r := newRecovery(t)
		r.remembers(t, "d1", "S1")
		r.describes("d1", described(isRunning, pending("17", "zero", gone(r.Identity))), nil).Once()
		r.describes("d1", described(isRunning, pending("17", "zero", r.Identity.String())), nil)
		r.ends(t, nil)
		held, err := r.fixture.host.Fence(t.Context(), "S1", nil)
		require.NoError(t, err)
		done := make(chan error, 1)
		go func() { done <- r.EndHostOrphans(t.Context(), r.fixture.host) }()
		pass(time.Minute)
		require.NoError(t, held.Close())
		require.NoError(t, <-done)
		require.Empty(t, r.endedAttempts(), "it ended the attempt that followed")
	})
}

// F2
func TestOnlyOrphansAreEnded(t *testing.T) {
	t.Parallel()
	scheduled := func(p *workflowpb.PendingActivityInfo) *workflowpb.PendingActivityInfo {
		p.State = enumspb.PENDING_ACTIVITY_STATE_SCHEDULED
		return p
	}
	t.Run("of a host", func(t *testing.T) {
		r := newRecovery(t)
		other := r.Identity
		other.Machine = "elsewhere"
		r.remembers(t, "d1", "S1")
		r.remembers(t, "d2", "S2")
		require.NoError(t, r.fixture.host.UpdateRecord("d2", func(to *host.Record) error { to.Forgotten = true; return nil }))
		r.describes("d1", described(isRunning,
			pending("1", "zero", gone(r.Identity)), pending("2", "verify", other.String()),
			pending("3", "Discover", gone(r.Identity)),
			pending("4", "Forget", gone(r.Identity)), pending("5", "zero", r.Identity.String()),
			scheduled(pending("6", "zero", gone(r.Identity))), pending("7", "EnsureReserved", gone(r.Identity)),
		), nil)
		r.ends(t, nil)
		require.NoError(t, r.EndHostOrphans(t.Context(), r.fixture.host))
		require.Equal(t, []string{"device/d1 1", "device/d1 2", "device/d1 3", "device/d1 4"}, r.endedAttempts(),
			"a host has one worker: attempts of any other process are orphans")
	})
	t.Run("of a control worker", func(t *testing.T) {
		r := newRecovery(t)
		other := r.Identity
		other.Machine, other.Started = "elsewhere", "1"
		rebooted := r.Identity
		rebooted.Boot = "earlier"
		r.client.On("ListWorkflow", mock.Anything,
			mock.MatchedBy(func(in *workflowservice.ListWorkflowExecutionsRequest) bool {
				return len(in.NextPageToken) == 0
			})).Return(listing([]byte("more"), "device/d1"), nil)
		r.client.On("ListWorkflow", mock.Anything,
			mock.MatchedBy(func(in *workflowservice.ListWorkflowExecutionsRequest) bool {
				return string(in.NextPageToken) == "more"
			})).Return(listing(nil, "device/d2"), nil)
		r.describes("d1", described(isRunning,
			pending("1", "EnsureReserved", gone(r.Identity)), pending("2", "Unreserve", rebooted.String()),
			pending("3", "EnsureProvider", "1234@somewhere@"),
			pending("4", "ReserveForBind", r.Identity.String()), pending("5", "EnsureReserved", other.String()),
			pending("6", "zero", gone(r.Identity)), scheduled(pending("7", "FindPreviousRun", gone(r.Identity))),
		), nil)
		r.describes("d2", described(isRunning, pending("8", "DeleteProvider", gone(r.Identity))), nil)
		r.ends(t, nil)
		require.NoError(t, r.EndControlOrphans(t.Context()))
		require.Equal(t, []string{"device/d1 1", "device/d1 2", "device/d2 8"}, r.endedAttempts())
	})
}

func listing(token []byte, ids ...string) *workflowservice.ListWorkflowExecutionsResponse {
	page := &workflowservice.ListWorkflowExecutionsResponse{NextPageToken: token}
	cleaning := &commonpb.Payload{Metadata: map[string][]byte{"encoding": []byte("json/plain")},
		Data: []byte(`"cleaning"`)}
	for _, id := range ids {
		page.Executions = append(page.Executions, &workflowpb.WorkflowExecutionInfo{
			Execution:        &commonpb.WorkflowExecution{WorkflowId: id},
			SearchAttributes: &commonpb.SearchAttributes{IndexedFields: map[string]*commonpb.Payload{contract.AttrState.GetName(): cleaning}},
		})
	}
	return page
}

// F2
func TestRecoveryReportsFailuresAndMayBeRepeated(t *testing.T) {
	t.Parallel()
	away := serviceerror.NewUnavailable("connection refused")
	t.Run("an attempt that the server no longer knows", func(t *testing.T) {
		r := newRecovery(t)
		r.remembers(t, "d1", "S1")
		r.describes("d1",
			described(isRunning, pending("1", "zero", gone(r.Identity)), pending("2", "Discover", gone(r.Identity))), nil)
		r.ends(t, serviceerror.NewNotFound("no such attempt"))
		require.NoError(t, r.EndHostOrphans(t.Context(), r.fixture.host))
		require.Len(t, r.endedAttempts(), 2)
	})
	t.Run("a workflow that is gone", func(t *testing.T) {
		r := newRecovery(t)
		r.remembers(t, "d1", "S1")
		r.describes("d1", nil, serviceerror.NewNotFound("no such workflow"))
		require.NoError(t, r.EndHostOrphans(t.Context(), r.fixture.host))
	})
	t.Run("the server refuses an end", func(t *testing.T) {
		r := newRecovery(t)
		r.remembers(t, "d1", "S1")
		r.describes("d1", described(isRunning, pending("1", "zero", gone(r.Identity))), nil)
		r.ends(t, away).Once()
		err := r.EndHostOrphans(t.Context(), r.fixture.host)
		require.ErrorIs(t, err, away)
		require.ErrorContains(t, err, "device/d1")
		r.ends(t, nil)
		require.NoError(t, r.EndHostOrphans(t.Context(), r.fixture.host))
		require.Len(t, r.endedAttempts(), 2)
	})
	t.Run("one of several", func(t *testing.T) {
		r := newRecovery(t)
		r.remembers(t, "d1", "S1")
		r.remembers(t, "d2", "S2")
		r.describes("d1", nil, away)
		r.describes("d2", described(isRunning, pending("1", "zero", gone(r.Identity))), nil)
		r.ends(t, nil)
		require.ErrorIs(t, r.EndHostOrphans(t.Context(), r.fixture.host), away)
		require.Equal(t, []string{"device/d2 1"}, r.endedAttempts())
	})
	t.Run("the listing", func(t *testing.T) {
		r := newRecovery(t)
		r.client.On("ListWorkflow", mock.Anything, mock.Anything).Return(listing([]byte("more"), "device/d1"), nil).Once()
		r.client.On("ListWorkflow", mock.Anything, mock.Anything).Return(nil, away)
		r.describes("d1", described(isRunning, pending("1", "EnsureReserved", gone(r.Identity))), nil)
		r.ends(t, nil)
		require.ErrorIs(t, r.EndControlOrphans(t.Context()), away)
		require.Equal(t, []string{"device/d1 1"}, r.endedAttempts(), "what was listed is ended")
	})
}

// hostStartReport is one signal-with-start to a device's workflow.
type hostStartReport struct {
	id, signal string
	hint       contract.Hint
	options    sdkclient.StartWorkflowOptions
	workflow   any
	input      contract.DeviceInput
}

// recordReports records what the worker sends to which workflow. The server accepts it,
// except for the workflows in refusing.
func (r *recovery) recordReports(all *[]hostStartReport, refusing map[string]error) {
	var mu sync.Mutex
	write := func(args mock.Arguments) {
		mu.Lock()
		defer mu.Unlock()
		one := hostStartReport{id: args.String(1), signal: args.String(2), workflow: args.Get(5)}
		one.hint, _ = args.Get(3).(contract.Hint)
		one.options, _ = args.Get(4).(sdkclient.StartWorkflowOptions)
		one.input, _ = args.Get(6).(contract.DeviceInput)
		*all = append(*all, one)
	}
	on := func(id any, answer error) {
		r.client.On("SignalWithStartWorkflow", mock.Anything, id, mock.Anything, mock.Anything, mock.Anything, mock.Anything,
			mock.Anything).
			Run(write).Return(nil, answer)
	}
	for id, answer := range refusing {
		on(id, answer)
	}
	on(mock.Anything, nil)
}

// F10
func TestReportHostStartSendsEachRecord(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]struct {
		run *workflowservice.DescribeWorkflowExecutionResponse
		err error
	}{
		"running":            {run: described(isRunning)},
		"gone":               {err: serviceerror.NewNotFound("no such workflow")},
		"terminated":         {run: described(enumspb.WORKFLOW_EXECUTION_STATUS_TERMINATED)},
		"failed":             {run: described(enumspb.WORKFLOW_EXECUTION_STATUS_FAILED)},
		"continued as a new": {run: described(enumspb.WORKFLOW_EXECUTION_STATUS_CONTINUED_AS_NEW)},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRecovery(t)
			record := r.remembers(t, "d1", "S1")
			r.describes("d1", answer.run, answer.err)
			var all []hostStartReport
			r.recordReports(&all, nil)
			require.NoError(t, r.ReportHostStart(t.Context(), r.fixture.host))
			require.Len(t, all, 1)
			known := &contract.HostDeviceRecord{
				Enrollment: contract.Enrollment{Name: "d1", Host: r.fixture.host.Name(), Driver: "double", Settings: map[string]string{"a": "b"}},
				Identity:   record.Identity, Binding: 3, Clean: 4, Seq: 5, Generation: 6,
			}
			one := all[0]
			require.Equal(t, "device/d1", one.id)
			require.Equal(t, contract.SignalObserved, one.signal)
			require.Equal(t, "host start", one.hint.Source)
			require.Equal(t, known, one.hint.Host)
			require.NotEmpty(t, one.hint.ObservedAt)
			require.Equal(t, client.DeviceStart(known.Enrollment, contract.HardwareOf(known.Identity)), one.options)
			require.Equal(t, contract.WorkflowDeviceLifecycle, one.workflow)
			require.Equal(t, contract.DeviceInput{Name: "d1", Recovered: known}, one.input)
			require.Equal(t, record, r.fixture.record("d1"))
		})
	}
	t.Run("the device of a completed workflow was forgotten", func(t *testing.T) {
		r := newRecovery(t)
		r.remembers(t, "d1", "S1")
		r.describes("d1", described(enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED), nil).Once()
		require.NoError(t, r.ReportHostStart(t.Context(), r.fixture.host))
		record := r.fixture.record("d1")
		require.True(t, record.Forgotten)
		require.EqualValues(t, 5, record.Seq, "the numbers stay")
		require.NoError(t, r.ReportHostStart(t.Context(), r.fixture.host), "a forgotten device is not reported")
	})
	t.Run("an error on one does not stop the others", func(t *testing.T) {
		away := serviceerror.NewUnavailable("connection refused")
		r := newRecovery(t)
		for _, name := range []string{"d1", "d2", "d3"} {
			r.remembers(t, name, strings.ToUpper(name))
		}
		r.describes("d1", nil, away)
		r.describes("d2", described(isRunning), nil)
		r.describes("d3", described(isRunning), nil)
		refused := errors.New("refused")
		var all []hostStartReport
		r.recordReports(&all, map[string]error{"device/d2": refused})
		err := r.ReportHostStart(t.Context(), r.fixture.host)
		require.ErrorIs(t, err, away)
		require.ErrorIs(t, err, refused)
		require.ErrorContains(t, err, "report the host start to d1")
		require.ErrorContains(t, err, "report the host start to d2")
		require.NotContains(t, err.Error(), "report the host start to d3")
		require.Len(t, all, 2)
	})
	t.Run("an unreadable record is logged and stops no other", func(t *testing.T) {
		r := newRecovery(t)
		r.remembers(t, "d1", "S1")
		r.remembers(t, "d2", "S2")
		corrupt(t, r.fixture.host.Dir()+"/devices/d1.json")
		r.describes("d2", described(isRunning), nil)
		var all []hostStartReport
		r.recordReports(&all, nil)
		require.NoError(t, r.ReportHostStart(t.Context(), r.fixture.host))
		require.Len(t, all, 1)
		require.Contains(t, r.fixture.log.String(), "d1.json cannot be trusted")
	})
}

func inState(t *testing.T, host string, state device.State) *commonpb.SearchAttributes {
	t.Helper()
	return attributes(t, contract.AttrHost, host, contract.AttrState, state)
}

// signals records what the server is signaled: the workflows of devices, and the names that a
// host's workflow learns of.
func (r *recovery) signals() (devices, forgotten *[]string) {
	devices, forgotten = &[]string{}, &[]string{}
	r.client.On("SignalWithStartWorkflow", mock.Anything, mock.Anything, mock.Anything, mock.Anything, mock.Anything,
		mock.Anything, mock.Anything).
		Run(func(args mock.Arguments) {
			r.mu.Lock()
			defer r.mu.Unlock()
			if in, ok := args.Get(3).(contract.ScanRequest); ok {
				*forgotten = in.ForgottenNow
			} else {
				*devices = append(*devices, args.String(1))
			}
		}).Return(nil, nil)
	return devices, forgotten
}

// What was forgotten while the host was away is forgotten when its worker starts, before any
// device is reported, also where the server has no run of it any more. A device of which a
// workflow runs was enrolled again, unless that is another host's; one that is being retired just
// now is left for the next start.
//
// F25, F35
func TestHostStartForgetsWhatWasLeft(t *testing.T) {
	t.Parallel()
	r := newRecovery(t)
	for _, name := range []string{"gone", "again", "ending", "elsewhere"} {
		r.remembers(t, name, "S-"+name)
	}
	r.client.ExpectedCalls = nil
	r.client.On("DescribeWorkflowExecution", mock.Anything, contract.HostScanWorkflowID(r.fixture.host.Name()), "").
		Return(&workflowservice.DescribeWorkflowExecutionResponse{WorkflowExecutionInfo: &workflowpb.WorkflowExecutionInfo{
			Memo: &commonpb.Memo{Fields: map[string]*commonpb.Payload{
				contract.MemoForgotten: payload(t, []string{"gone", "again", "ending", "elsewhere", "unheard"}),
			}},
		}}, nil)
	for _, name := range []string{"gone", "unheard"} {
		r.describes(name, nil, serviceerror.NewNotFound("no run"))
	}
	for name, state := range map[string]device.State{"again": device.Available, "ending": device.Retired} {
		run := described(isRunning)
		run.WorkflowExecutionInfo.SearchAttributes = inState(t, r.fixture.host.Name(), state)
		r.describes(name, run, nil)
	}
	elsewhere := described(isRunning)
	elsewhere.WorkflowExecutionInfo.SearchAttributes = inState(t, "another", device.Allocated)
	r.describes("elsewhere", elsewhere, nil)
	reported, forgotten := r.signals()
	require.NoError(t, r.ReportHostStart(t.Context(), r.fixture.host))
	require.ElementsMatch(t, []string{"gone", "again", "elsewhere", "unheard"}, *forgotten)
	require.ElementsMatch(t, []string{"device/again", "device/ending"}, *reported)
	require.True(t, r.fixture.record("gone").Forgotten && r.fixture.record("elsewhere").Forgotten)
	require.False(t, r.fixture.record("again").Forgotten)
}

// A device for which no workflow runs is brought back; a listing that lags behind brings
// nothing back, and neither does a run that forgot its device. A workflow whose numbers are lower
// than the host's is told those.
//
// F24, F36
func TestRecoverLost(t *testing.T) {
	t.Parallel()
	r := newRecovery(t)
	for _, name := range []string{"listed", "older", "unlisted", "reset", "gone", "forgotten"} {
		r.remembers(t, name, "S-"+name)
	}
	known := r.fixture.record("listed")
	listed := func(name string, bindings, cleans int) *workflowpb.WorkflowExecutionInfo {
		return deviceRun(name, inState(t, r.fixture.host.Name(), device.Available),
			statusMemo(t, contract.StatusMemo{Name: name, Bindings: bindings, Cleans: cleans}))
	}
	r.client.On("ListWorkflow", mock.Anything, mock.Anything).Return(&workflowservice.ListWorkflowExecutionsResponse{
		Executions: []*workflowpb.WorkflowExecutionInfo{listed("listed", known.Binding, known.Clean), listed("older", known.Binding, known.Clean-1)},
	}, nil)
	var compared []string
	r.client.On("SignalWorkflow", mock.Anything, mock.Anything, "", contract.SignalObserved, mock.Anything).
		Run(func(args mock.Arguments) {
			hint, ok := args.Get(4).(contract.Hint)
			require.True(t, ok && hint.Numbers && hint.Host.Clean == known.Clean)
			r.mu.Lock()
			defer r.mu.Unlock()
			compared = append(compared, args.String(1))
		}).Return(nil)
	unlisted := described(isRunning)
	unlisted.WorkflowExecutionInfo.SearchAttributes = inState(t, r.fixture.host.Name(), device.Available)
	r.describes("unlisted", unlisted, nil)
	r.describes("reset", described(isRunning), nil)
	r.describes("gone", nil, serviceerror.NewNotFound("no run"))
	r.describes("forgotten", described(enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED), nil)
	back, _ := r.signals()
	require.NoError(t, r.RecoverLost(t.Context(), r.fixture.host))
	require.Equal(t, []string{"device/gone"}, *back)
	require.ElementsMatch(t, []string{"device/older", "device/reset"}, compared,
		"its published numbers are lower than the host's, or it knows no device (F36)")
	require.True(t, r.fixture.record("forgotten").Forgotten)
}

// The record that a move has made is left to the move while the device's former workflow runs, at
// the host's start and in each sweep; once that has ended, the device is brought back.
//
// F23
func TestAMoveIsNotOvertakenByItsHost(t *testing.T) {
	t.Parallel()
	for former, brought := range map[enumspb.WorkflowExecutionStatus]bool{isRunning: false,
		enumspb.WORKFLOW_EXECUTION_STATUS_TERMINATED: true} {
		r := newRecovery(t)
		r.remembers(t, "new", "S-new")
		require.NoError(t, r.fixture.host.UpdateRecord("new", func(record *host.Record) error {
			record.MovedFrom = "old"
			return nil
		}))
		r.client.On("ListWorkflow", mock.Anything, mock.Anything).
			Return(&workflowservice.ListWorkflowExecutionsResponse{}, nil)
		r.describes("new", nil, serviceerror.NewNotFound("no run"))
		r.describes("old", described(former), nil)
		back, _ := r.signals()
		require.NoError(t, r.RecoverLost(t.Context(), r.fixture.host))
		require.Equal(t, brought, len(*back) == 1, "%s", former)
	}
}
