package activities_test

import (
	"testing"

	"github.com/stretchr/testify/mock"
	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"

	"burnish/internal/device"
	"burnish/internal/host"
	"burnish/workflows/contract"
)

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
// workflow runs was enrolled again; one that is being retired just now is left for the next
// start.
//
// F25
func TestHostStartForgetsWhatWasLeft(t *testing.T) {
	t.Parallel()
	r := newRecovery(t)
	for _, name := range []string{"gone", "again", "ending"} {
		r.remembers(t, name, "S-"+name)
	}
	r.client.ExpectedCalls = nil
	r.client.On("DescribeWorkflowExecution", mock.Anything, contract.HostScanWorkflowID(r.fixture.host.Name()), "").
		Return(&workflowservice.DescribeWorkflowExecutionResponse{WorkflowExecutionInfo: &workflowpb.WorkflowExecutionInfo{
			Memo: &commonpb.Memo{Fields: map[string]*commonpb.Payload{contract.MemoForgotten: payload(t, []string{"gone", "again", "ending", "unheard"})}},
		}}, nil)
	for _, name := range []string{"gone", "unheard"} {
		r.describes(name, nil, serviceerror.NewNotFound("no run"))
	}
	for name, state := range map[string]device.State{"again": device.Available, "ending": device.Retired} {
		run := described(isRunning)
		run.WorkflowExecutionInfo.SearchAttributes = inState(t, r.fixture.host.Name(), state)
		r.describes(name, run, nil)
	}
	reported, forgotten := r.signals()
	require.NoError(t, r.ReportHostStart(t.Context(), r.fixture.host))
	require.ElementsMatch(t, []string{"gone", "again", "unheard"}, *forgotten)
	require.ElementsMatch(t, []string{"device/again", "device/ending"}, *reported)
	require.True(t, r.fixture.record("gone").Forgotten)
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
	for _, name := range []string{"listed", "older", "unlisted", "gone", "forgotten"} {
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
	r.describes("unlisted", described(isRunning), nil)
	r.describes("gone", nil, serviceerror.NewNotFound("no run"))
	r.describes("forgotten", described(enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED), nil)
	back, _ := r.signals()
	require.NoError(t, r.RecoverLost(t.Context(), r.fixture.host))
	require.Equal(t, []string{"device/gone"}, *back)
	require.Equal(t, []string{"device/older"}, compared, "its published numbers are lower than the host's (F36)")
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
