package hostscan_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/mock"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"burnish/internal/device"
	"burnish/workflows/contract"
	"burnish/workflows/hostscan"
)

// scanFixture is a host's workflow in the SDK's environment, with a scripted scan.
type scanFixture struct {
	*testsuite.TestWorkflowEnvironment
	t      *testing.T
	inputs []contract.ScanInput
}

func newScanFixture(t *testing.T, scan func(n int, in contract.ScanInput) (contract.ScanResult, error)) *scanFixture {
	t.Helper()
	var suite testsuite.WorkflowTestSuite
	l := &scanFixture{TestWorkflowEnvironment: suite.NewTestWorkflowEnvironment(), t: t}
	l.SetTestTimeout(time.Minute)
	l.SetWorkerOptions(worker.Options{DeadlockDetectionTimeout: time.Minute}) // a second is short beside other tests
	l.RegisterWorkflowWithOptions(hostscan.HostScan, workflow.RegisterOptions{Name: contract.WorkflowHostScan})
	l.RegisterActivityWithOptions(func(context.Context, contract.ScanInput) (contract.ScanResult, error) {
		return contract.ScanResult{}, errors.New("not scripted")
	}, activity.RegisterOptions{Name: contract.ActivityScanHost})
	l.OnActivity(contract.ActivityScanHost, mock.Anything, mock.Anything).Return(
		func(ctx context.Context, in contract.ScanInput) (contract.ScanResult, error) {
			l.inputs = append(l.inputs, in)
			if queue := activity.GetInfo(ctx).TaskQueue; queue != contract.HostQueue("h1") {
				return contract.ScanResult{}, fmt.Errorf("queue %s", queue)
			}
			return scan(len(l.inputs), in)
		})
	return l
}

// at does something at a moment of the environment's own time.
func (l *scanFixture) at(after time.Duration, do func()) { l.RegisterDelayedCallback(do, after) }

func (l *scanFixture) requestScan(after time.Duration, in contract.ScanRequest) {
	l.at(after, func() { l.SignalWorkflow(contract.SignalScanNow, in) })
}

func (l *scanFixture) state() contract.HostScanState {
	l.t.Helper()
	value, err := l.QueryWorkflow(contract.QueryHostScan)
	require.NoError(l.t, err)
	var s contract.HostScanState
	require.NoError(l.t, value.Get(&s))
	return s
}

// run runs the workflow until the moment; its state then is what is returned.
func (l *scanFixture) run(until time.Duration, in contract.HostScanInput) contract.HostScanState {
	l.t.Helper()
	var s contract.HostScanState
	l.at(until, func() {
		s = l.state()
		l.CancelWorkflow()
	})
	l.ExecuteWorkflow(contract.WorkflowHostScan, in)
	require.True(l.t, l.IsWorkflowCompleted())
	return s
}

func refuse(class device.Class, code device.Code) error {
	return contract.Refuse(
		contract.Refusal{Fault: device.Fault{Class: class, Code: code, Message: "scripted " + string(code)}})
}

func found(digests map[string]string) contract.ScanResult {
	return contract.ScanResult{NewDigests: digests,
		Counts: contract.ScanCounts{Found: len(digests), Enrolled: len(digests)}}
}

// Each scan_now is one scan on the host's own queue, and its digests are passed to the next.
func TestScanNowIsOneScan(t *testing.T) {
	l := newScanFixture(t, func(n int, _ contract.ScanInput) (contract.ScanResult, error) {
		if n == 1 {
			return found(map[string]string{"h1_0000:01:00.0": "a", "h1_0000:02:00.0": "b"}), nil
		}
		return contract.ScanResult{
			NewDigests: map[string]string{"h1_0000:02:00.0": "c"}, RemovedDigests: []string{"h1_0000:01:00.0"},
			Refused: []contract.RefusedDevice{{Name: "h1_0000:03:00.0", Driver: "nvme", Digest: "d", Code: device.CodeFilesystemSignature, Reason: "it holds ext4"}},
			Missing: []string{"h1_0000:01:00.0"}, Counts: contract.ScanCounts{Found: 2, Hinted: 2, Refused: 1, Missing: 1},
		}, nil
	})
	l.requestScan(time.Minute, contract.ScanRequest{WorkerStarted: true})
	l.requestScan(time.Hour, contract.ScanRequest{})
	l.requestScan(2*time.Hour, contract.ScanRequest{})
	s := l.run(100*time.Hour, contract.HostScanInput{Host: "h1"})
	require.Len(t, l.inputs, 3, "and no timer")
	require.Equal(t, contract.ScanInput{Host: "h1", RetryRefused: true}, l.inputs[0])
	require.Equal(t,
		contract.ScanInput{Host: "h1", KnownDigests: map[string]string{"h1_0000:01:00.0": "a", "h1_0000:02:00.0": "b"}},
		l.inputs[1])
	require.Equal(t, map[string]string{"h1_0000:02:00.0": "c"}, l.inputs[2].KnownDigests)
	require.Equal(t, []string{"h1_0000:01:00.0"}, l.inputs[2].Missing)
	require.Equal(t, s.Refused, l.inputs[2].Refused)
	require.Equal(t, 3, s.Scans)
	require.Equal(t, 2, s.Enrolled)
	require.Equal(t, contract.ScanCounts{Found: 2, Hinted: 2, Refused: 1, Missing: 1}, s.Last)
	require.False(t, s.Requested)
	require.Nil(t, s.Fault)
	require.False(t, s.ScannedAt.IsZero())
}

// The summary in the Web UI names what needs the operator.
func TestSummaryOfAHost(t *testing.T) {
	l := newScanFixture(t, func(int, contract.ScanInput) (contract.ScanResult, error) {
		return contract.ScanResult{
			Refused: []contract.RefusedDevice{{Name: "h1_0000:03:00.0", Code: device.CodeFilesystemSignature, Reason: "it holds ext4"}},
			Missing: []string{"h1_0000:01:00.0"}, Counts: contract.ScanCounts{Found: 7},
		}, nil
	})
	var shown string
	l.requestScan(time.Minute, contract.ScanRequest{})
	l.at(2*time.Minute, func() {
		value, err := l.QueryWorkflow("__temporal_workflow_metadata")
		require.NoError(t, err)
		var raw converter.RawValue
		require.NoError(t, value.Get(&raw))
		shown = string(raw.Payload().GetData())
	})
	l.run(time.Hour, contract.HostScanInput{Host: "h1"})
	for _, want := range []string{"7 devices found", "1 refused", "1 missing",
		"refused h1_0000:03:00.0: filesystem_signature: it holds ext4", "missing: h1_0000:01:00.0"} {
		require.Contains(t, shown, want)
	}
}

// A scan that fails transiently is retried by the activity's policy; the workflow gets the
// final result only.
func TestATransientFailureIsRetried(t *testing.T) {
	l := newScanFixture(t, func(n int, _ contract.ScanInput) (contract.ScanResult, error) {
		if n < 5 {
			return contract.ScanResult{}, refuse(device.Transient, device.CodeInventoryUnavailable)
		}
		return found(map[string]string{"h1_0000:01:00.0": "a"}), nil
	})
	l.requestScan(time.Minute, contract.ScanRequest{WorkerStarted: true})
	s := l.run(100*time.Hour, contract.HostScanInput{Host: "h1"})
	require.Len(t, l.inputs, 5)
	require.Equal(t, l.inputs[0], l.inputs[4])
	require.Equal(t, 1, s.Scans)
	require.Nil(t, s.Fault)
}

// A scan that fails permanently is shown and changes nothing; the next scan_now scans again,
// including devices that were refused before.
func TestAPermanentFailureIsShown(t *testing.T) {
	known := map[string]string{"h1_0000:01:00.0": "a"}
	l := newScanFixture(t, func(n int, _ contract.ScanInput) (contract.ScanResult, error) {
		if n == 1 {
			return contract.ScanResult{}, refuse(device.NeedsOperator, device.CodeInvalidConfig)
		}
		return contract.ScanResult{}, nil
	})
	var between contract.HostScanState
	l.requestScan(time.Minute, contract.ScanRequest{WorkerStarted: true})
	l.at(time.Hour, func() { between = l.state() })
	l.requestScan(2*time.Hour, contract.ScanRequest{})
	s := l.run(100*time.Hour,
		contract.HostScanInput{Host: "h1",
			State: &contract.HostScanState{Schema: 1, Host: "h1", KnownDigests: known, Scans: 3}})
	require.Equal(t, device.CodeInvalidConfig, between.Fault.Code)
	require.Equal(t, known, between.KnownDigests)
	require.Equal(t, 3, between.Scans)
	require.Len(t, l.inputs, 2)
	require.True(t, l.inputs[1].RetryRefused)
	require.Nil(t, s.Fault)
	require.Equal(t, 4, s.Scans)
}

// A worker without the scan activity is called once.
func TestAHostWorkerThatIsTooOld(t *testing.T) {
	var suite testsuite.WorkflowTestSuite
	l := &scanFixture{TestWorkflowEnvironment: suite.NewTestWorkflowEnvironment(), t: t}
	l.SetTestTimeout(time.Minute)
	l.SetWorkerOptions(worker.Options{DeadlockDetectionTimeout: time.Minute}) // a second is short beside other tests
	l.RegisterWorkflowWithOptions(hostscan.HostScan, workflow.RegisterOptions{Name: contract.WorkflowHostScan})
	l.RegisterActivityWithOptions(func(context.Context, contract.ScanInput) (contract.ScanResult, error) {
		return contract.ScanResult{}, nil
	}, activity.RegisterOptions{Name: contract.ActivityScanHost})
	asked := 0
	l.OnActivity(contract.ActivityScanHost, mock.Anything, mock.Anything).Return(
		func(context.Context, contract.ScanInput) (contract.ScanResult, error) {
			asked++
			return contract.ScanResult{},
				temporal.NewApplicationError("unable to find activityType=ScanHost", "ActivityNotRegisteredError")
		})
	l.requestScan(time.Minute, contract.ScanRequest{})
	s := l.run(100*time.Hour, contract.HostScanInput{Host: "h1"})
	require.Equal(t, 1, asked)
	require.Equal(t, device.CodeHostWorkerTooOld, s.Fault.Code)
}

// Signals during a scan cause one more scan, with all that they request.
func TestNoScanRequestIsLost(t *testing.T) {
	l := newScanFixture(t, func(n int, in contract.ScanInput) (contract.ScanResult, error) {
		return contract.ScanResult{}, nil
	})
	l.SetOnActivityStartedListener(func(*activity.Info, context.Context, converter.EncodedValues) {
		if len(l.inputs) == 0 {
			l.SignalWorkflow(contract.SignalScanNow, contract.ScanRequest{WorkerStarted: true})
			l.SignalWorkflow(contract.SignalScanNow, contract.ScanRequest{})
		}
	})
	l.requestScan(time.Minute, contract.ScanRequest{})
	l.run(time.Hour, contract.HostScanInput{Host: "h1"})
	require.Len(t, l.inputs, 2)
	require.False(t, l.inputs[0].RetryRefused)
	require.True(t, l.inputs[1].RetryRefused)
}

// A signal that cannot be decoded changes nothing, and the next one is handled.
func TestACorruptSignal(t *testing.T) {
	l := newScanFixture(t, func(int, contract.ScanInput) (contract.ScanResult, error) {
		return contract.ScanResult{}, nil
	})
	l.at(time.Minute, func() { l.SignalWorkflow(contract.SignalScanNow, "now") })
	l.requestScan(time.Hour, contract.ScanRequest{})
	s := l.run(2*time.Hour, contract.HostScanInput{Host: "h1"})
	require.Equal(t, 1, s.Scans)
}

// Continue-as-new passes on the whole state; a signal in the same task is not lost.
func TestContinueAsNewLosesNothing(t *testing.T) {
	l := newScanFixture(t, func(n int, _ contract.ScanInput) (contract.ScanResult, error) {
		return contract.ScanResult{
			NewDigests: map[string]string{fmt.Sprint("d", n): "x"}, Missing: []string{"gone"},
			Refused: []contract.RefusedDevice{{Name: "r", Digest: "y"}}, Counts: contract.ScanCounts{Enrolled: 1},
		}, nil
	})
	l.requestScan(time.Minute, contract.ScanRequest{})
	l.SetOnActivityStartedListener(func(*activity.Info, context.Context, converter.EncodedValues) {
		l.SetCurrentHistoryLength(100000)
		l.SignalWorkflow(contract.SignalScanNow, contract.ScanRequest{WorkerStarted: true})
	})
	l.ExecuteWorkflow(contract.WorkflowHostScan, contract.HostScanInput{Host: "h1"})
	var again *workflow.ContinueAsNewError
	require.ErrorAs(t, l.GetWorkflowError(), &again)
	require.Equal(t, contract.WorkflowHostScan, again.WorkflowType.Name)
	var in contract.HostScanInput
	require.NoError(t, converter.GetDefaultDataConverter().FromPayloads(again.Input, &in))
	require.Equal(t, "h1", in.Host)
	s := in.State
	require.True(t, s.Requested, "the signal in the same task")
	require.True(t, s.WorkerStarted)
	require.Equal(t, map[string]string{"d1": "x"}, s.KnownDigests)
	require.Equal(t, []string{"gone"}, s.Missing)
	require.Len(t, s.Refused, 1)
	require.Equal(t, 1, s.Scans)
	require.Equal(t, 1, s.Enrolled)
	require.Len(t, l.inputs, 1, "the new run does it")

	next := newScanFixture(t, func(int, contract.ScanInput) (contract.ScanResult, error) {
		return contract.ScanResult{}, nil
	})
	after := next.run(time.Hour, in)
	require.Len(t, next.inputs, 1)
	require.True(t, next.inputs[0].RetryRefused)
	require.Equal(t, s.KnownDigests, next.inputs[0].KnownDigests)
	require.Equal(t, 2, after.Scans)
}

// The state of a newer worker waits for a newer worker.
//
// F25
func TestStateOfANewerSchemaWaits(t *testing.T) {
	l := newScanFixture(t, nil)
	l.ExecuteWorkflow(contract.WorkflowHostScan,
		contract.HostScanInput{Host: "h1", State: &contract.HostScanState{Schema: contract.Schema + 1, Host: "h1"}})
	require.ErrorContains(t, l.GetWorkflowError(), "upgrade the control workers")
	require.ErrorAs(t, l.GetWorkflowError(), new(*temporal.PanicError))
	require.True(t, strings.HasPrefix(contract.HostScanWorkflowID("H1"), "host/h1"))
}
