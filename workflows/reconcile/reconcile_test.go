package reconcile_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
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
	"burnish/workflows/reconcile"
)

// reconcileFixture is a cloud's workflow in the SDK's environment, with scripted runs.
type reconcileFixture struct {
	*testsuite.TestWorkflowEnvironment
	t               *testing.T
	start           time.Time
	mu              sync.Mutex // the environment runs each activity in a goroutine of its own
	full            []contract.ReconcileInput
	partial         []contract.ReconcileInput
	fullAt          []time.Duration // when each full run began
	candidatesAsked []contract.CandidatesInput
	// duration is how long a run takes.
	duration func(in contract.ReconcileInput) time.Duration
}

type reconcileFunc func(n int, in contract.ReconcileInput) (contract.ReconcileResult, error)

func nothingFound(int, contract.ReconcileInput) (contract.ReconcileResult, error) {
	return contract.ReconcileResult{}, nil
}

// newReconcileFixture calls do for each run, with the number of runs of the same kind.
func newReconcileFixture(t *testing.T, do reconcileFunc) *reconcileFixture {
	t.Helper()
	var suite testsuite.WorkflowTestSuite
	c := &reconcileFixture{TestWorkflowEnvironment: suite.NewTestWorkflowEnvironment(), t: t}
	c.duration = func(contract.ReconcileInput) time.Duration { return 0 }
	c.SetTestTimeout(time.Minute)
	c.SetWorkerOptions(worker.Options{DeadlockDetectionTimeout: time.Minute}) // a second is short beside other tests
	c.SetWorkflowRunTimeout(0)
	c.SetStartTime(epoch)
	c.start = epoch
	c.RegisterWorkflowWithOptions(reconcile.InventoryReconcile,
		workflow.RegisterOptions{Name: contract.WorkflowInventoryReconcile})
	c.RegisterActivityWithOptions(func(context.Context, contract.ReconcileInput) (contract.ReconcileResult, error) {
		return contract.ReconcileResult{}, errors.New("not scripted")
	}, activity.RegisterOptions{Name: contract.ActivityReconcileInventory})
	c.RegisterActivityWithOptions(func(_ context.Context, in contract.CandidatesInput) (contract.Candidates, error) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.candidatesAsked = append(c.candidatesAsked, in)
		return contract.Candidates{Devices: []contract.Candidate{{Name: "h1_0000:01:00.0", Host: "h1", Total: 1}},
			More: true}, nil
	}, activity.RegisterOptions{Name: contract.ActivityCandidates})
	c.OnActivity(contract.ActivityReconcileInventory, mock.Anything, mock.Anything).Return(
		func(ctx context.Context, in contract.ReconcileInput) (contract.ReconcileResult, error) {
			if queue := activity.GetInfo(ctx).TaskQueue; queue != contract.Queue {
				return contract.ReconcileResult{}, fmt.Errorf("queue %s", queue)
			}
			return do(c.record(in), in)
		}).AfterFn(func() time.Duration {
		return c.duration(contract.ReconcileInput{})
	})
	return c
}

// record gives the number of a run among those of its kind.
func (c *reconcileFixture) record(in contract.ReconcileInput) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(in.Hosts) > 0 || len(in.Instances) > 0 {
		c.partial = append(c.partial, in)
		return len(c.partial)
	}
	c.full = append(c.full, in)
	c.fullAt = append(c.fullAt, c.Now().Sub(c.start))
	return len(c.full)
}

func (c *reconcileFixture) request(after time.Duration, in contract.ReconcileRequest) {
	c.RegisterDelayedCallback(func() { c.SignalWorkflow(contract.SignalReconcileNow, in) }, after)
}

func (c *reconcileFixture) state() contract.InventoryReconcileState {
	c.t.Helper()
	value, err := c.QueryWorkflow(contract.QueryReconcile)
	require.NoError(c.t, err)
	var s contract.InventoryReconcileState
	require.NoError(c.t, value.Get(&s))
	return s
}

// startedHosts collects the first host of each partial run as it begins.
func (c *reconcileFixture) startedHosts() *[]string {
	var hosts []string
	c.SetOnActivityStartedListener(func(_ *activity.Info, _ context.Context, args converter.EncodedValues) {
		var in contract.ReconcileInput
		require.NoError(c.t, args.Get(&in))
		if len(in.Hosts) > 0 {
			hosts = append(hosts, in.Hosts[0])
		}
	})
	return &hosts
}

// summary is what the Web UI shows on top of the workflow.
func (c *reconcileFixture) summary() string {
	c.t.Helper()
	value, err := c.QueryWorkflow("__temporal_workflow_metadata")
	require.NoError(c.t, err)
	var raw converter.RawValue
	require.NoError(c.t, value.Get(&raw))
	return string(raw.Payload().GetData())
}

// run runs the workflow until the moment, and gives its state then.
func (c *reconcileFixture) run(until time.Duration,
	in contract.InventoryReconcileInput) contract.InventoryReconcileState {
	c.t.Helper()
	var s contract.InventoryReconcileState
	c.RegisterDelayedCallback(func() {
		s = c.state()
		c.CancelWorkflow()
	}, until)
	c.ExecuteWorkflow(contract.WorkflowInventoryReconcile, in)
	require.True(c.t, c.IsWorkflowCompleted())
	require.ErrorContains(c.t, c.GetWorkflowError(), "canceled")
	return s
}

var epoch = time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)

func refuse(class device.Class, code device.Code) error {
	return contract.Refuse(
		contract.Refusal{Fault: device.Fault{Class: class, Code: code, Message: "scripted " + string(code)}})
}

func pointerTo(d time.Duration) *time.Duration { return &d }

// A full run after each interval, regardless of signals.
//
// S0.30
func TestReconcilesAtEachInterval(t *testing.T) {
	c := newReconcileFixture(t, nothingFound)
	c.request(time.Minute, contract.ReconcileRequest{Interval: pointerTo(10 * time.Minute)})
	s := c.run(45*time.Minute, contract.InventoryReconcileInput{Cloud: "c"})
	require.Equal(t, []time.Duration{time.Minute, 11 * time.Minute, 21 * time.Minute, 31 * time.Minute, 41 * time.Minute},
		c.fullAt)
	require.Equal(t, 5, s.FullRuns)
	require.Equal(t, epoch.Add(41*time.Minute), s.ReconciledAt)
	require.Equal(t, epoch.Add(51*time.Minute), s.Next)
	require.Empty(t, c.partial)
}

// After the workflow was canceled, any first request starts the interval again.
func TestANotificationStartsTheInterval(t *testing.T) {
	c := newReconcileFixture(t, nothingFound)
	c.request(0, contract.ReconcileRequest{Source: "nova", Hosts: []string{"h1"}})
	c.run(25*time.Minute, contract.InventoryReconcileInput{Cloud: "c", Interval: 10 * time.Minute})
	require.Equal(t, []time.Duration{0, 10 * time.Minute, 20 * time.Minute}, c.fullAt)
	require.Len(t, c.partial, 1)
}

// BURNISH_SWEEP_INTERVAL=0: runs on request only, and the summary says so.
func TestIntervalZeroStopsTheTimer(t *testing.T) {
	c := newReconcileFixture(t, nothingFound)
	var shown, before string
	c.request(time.Minute, contract.ReconcileRequest{Interval: pointerTo(time.Hour)})
	c.RegisterDelayedCallback(func() { before = c.summary() }, 2*time.Minute)
	c.request(3*time.Minute, contract.ReconcileRequest{Hosts: []string{"h1"}, Interval: pointerTo(0)})
	c.RegisterDelayedCallback(func() { shown = c.summary() }, 4*time.Minute)
	c.request(50*time.Hour, contract.ReconcileRequest{})
	s := c.run(100*time.Hour, contract.InventoryReconcileInput{Cloud: "c"})
	require.Equal(t, []time.Duration{time.Minute, 50 * time.Hour}, c.fullAt)
	require.Zero(t, s.Interval)
	require.NotContains(t, before, "reconciles only on request")
	require.Contains(t, shown, "reconciles only on request")
}

// Workers with different settings do not postpone a run: a shorter interval counts from its
// request, a longer one after the next run.
func TestIntervalIsChangedByASignal(t *testing.T) {
	for name, c := range map[string]struct {
		requests map[time.Duration]time.Duration // time and interval of each request
		want     []time.Duration
	}{
		"shorter": {map[time.Duration]time.Duration{time.Minute: time.Hour, 10 * time.Minute: 5 * time.Minute},
			[]time.Duration{time.Minute, 15 * time.Minute, 20 * time.Minute, 25 * time.Minute}},
		"longer": {map[time.Duration]time.Duration{time.Minute: 5 * time.Minute, 2 * time.Minute: 20 * time.Minute},
			[]time.Duration{time.Minute, 6 * time.Minute, 26 * time.Minute}},
		"off and on": {map[time.Duration]time.Duration{time.Minute: 5 * time.Minute, 2 * time.Minute: 0, 20 * time.Minute: 8 * time.Minute},
			[]time.Duration{time.Minute, 28 * time.Minute}},
		"to and fro": {map[time.Duration]time.Duration{
			time.Minute: 10 * time.Minute, 5 * time.Minute: 9 * time.Minute, 8 * time.Minute: 10 * time.Minute,
			10 * time.Minute: 9 * time.Minute, 10*time.Minute + time.Second: 10 * time.Minute,
		}, []time.Duration{time.Minute, 11 * time.Minute, 21 * time.Minute}},
		"none": {map[time.Duration]time.Duration{time.Minute: -1}, []time.Duration{time.Minute}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newReconcileFixture(t, nothingFound)
			for at, pause := range c.requests {
				in := contract.ReconcileRequest{Interval: pointerTo(pause)}
				if at != time.Minute { // the first is a full run too
					in.Hosts = []string{"h1"}
				}
				w.request(at, in)
			}
			w.run(29*time.Minute, contract.InventoryReconcileInput{Cloud: "c"})
			require.Equal(t, c.want, w.fullAt)
		})
	}
}

// The next run is a whole interval after a requested one.
func TestARequestPostponesTheNextRun(t *testing.T) {
	c := newReconcileFixture(t, nothingFound)
	c.request(9*time.Minute, contract.ReconcileRequest{})
	c.run(20*time.Minute, contract.InventoryReconcileInput{Cloud: "c", Interval: 10 * time.Minute})
	require.Equal(t, []time.Duration{0, 9 * time.Minute, 19 * time.Minute}, c.fullAt)
}

// A signal during a run causes another run: the first may have read the changed part already.
func TestASignalDuringARunIsAnotherRun(t *testing.T) {
	c := newReconcileFixture(t, nothingFound)
	c.duration = func(contract.ReconcileInput) time.Duration { return 5 * time.Second }
	c.request(time.Minute, contract.ReconcileRequest{})
	for range 7 {
		c.request(time.Minute+2*time.Second, contract.ReconcileRequest{Source: "nova"})
	}
	s := c.run(time.Hour, contract.InventoryReconcileInput{Cloud: "c"})
	require.Len(t, c.full, 2, "one for all requests")
	require.Equal(t, 2, s.FullRuns)
	require.False(t, s.Requested)
}

// A permanent failure is shown, and the run is repeated after the interval; earlier results stay.
// Transient failures are retried by the activity.
func TestAFailureIsShownAndRetried(t *testing.T) {
	tries := 0
	c := newReconcileFixture(t, func(n int, in contract.ReconcileInput) (contract.ReconcileResult, error) {
		tries++
		switch tries {
		case 2:
			return contract.ReconcileResult{}, refuse(device.NeedsOperator, device.CodeInventoryInvalid)
		case 3:
			return contract.ReconcileResult{}, refuse(device.Transient, device.CodeInventoryUnavailable)
		}
		return contract.ReconcileResult{Missing: []string{"d7"}, Counts: contract.ReconcileCounts{Devices: 3, Missing: 1}},
			nil
	})
	var failed contract.InventoryReconcileState
	var shown string
	c.RegisterDelayedCallback(func() { failed, shown = c.state(), c.summary() }, 15*time.Minute)
	s := c.run(25*time.Minute, contract.InventoryReconcileInput{Cloud: "c", Interval: 10 * time.Minute})
	require.Equal(t, device.CodeInventoryInvalid, failed.Fault.Code)
	require.Equal(t, []string{"d7"}, failed.Missing)
	require.Equal(t, 1, failed.FullRuns)
	require.Contains(t, shown, "the last reconciliation failed: inventory_invalid")
	require.Nil(t, s.Fault)
	require.Equal(t, 2, s.FullRuns)
	require.Len(t, c.full, 4)
}

// Continue-as-new passes on everything that is pending, also signals that arrive while a run and
// the timer are under way.
func TestContinueAsNewLosesNothing(t *testing.T) {
	c := newReconcileFixture(t, func(int, contract.ReconcileInput) (contract.ReconcileResult, error) {
		return contract.ReconcileResult{Missing: []string{"d7"}, Mismatches: []contract.Mismatch{{Name: "d8", What: "odd"}},
			Counts: contract.ReconcileCounts{Devices: 9}}, nil
	})
	c.duration = func(contract.ReconcileInput) time.Duration { return time.Minute }
	c.request(time.Minute, contract.ReconcileRequest{Interval: pointerTo(time.Hour)})
	c.RegisterDelayedCallback(func() {
		c.SetContinueAsNewSuggested(true)
		c.SignalWorkflow(contract.SignalReconcileNow, contract.ReconcileRequest{Hosts: []string{"h1"}})
		c.SignalWorkflow(contract.SignalReconcileNow, contract.ReconcileRequest{Instances: []string{"i1"}, Full: true})
	}, time.Minute+30*time.Second)
	c.ExecuteWorkflow(contract.WorkflowInventoryReconcile, contract.InventoryReconcileInput{Cloud: "c"})
	var again *workflow.ContinueAsNewError
	require.ErrorAs(t, c.GetWorkflowError(), &again)
	require.Equal(t, contract.WorkflowInventoryReconcile, again.WorkflowType.Name)
	var in contract.InventoryReconcileInput
	require.NoError(t, converter.GetDefaultDataConverter().FromPayloads(again.Input, &in))
	s := in.State
	require.Equal(t, []string{"h1"}, s.Hosts)
	require.Equal(t, []string{"i1"}, s.Instances)
	require.True(t, s.Requested)
	require.Equal(t, time.Hour, s.Interval)
	require.Equal(t, []string{"d7"}, s.Missing)
	require.Equal(t, 1, s.FullRuns)
	require.Len(t, c.full, 1, "the new run does it")
	require.Empty(t, c.partial)

	next := newReconcileFixture(t, nothingFound)
	after := next.run(30*time.Minute, in)
	require.Len(t, next.full, 1)
	require.Equal(t, []string{"d7"}, next.full[0].Missing)
	require.Equal(t,
		[]contract.ReconcileInput{{Hosts: []string{"h1"}, Instances: []string{"i1"}, Missing: []string{"d7"}}}, next.partial)
	require.Equal(t, 2, after.FullRuns)
}

// A workflow that only waits for its timer continues as new at once, and the timer keeps its time.
func TestContinueAsNewKeepsTheTimer(t *testing.T) {
	c := newReconcileFixture(t, nothingFound)
	c.RegisterDelayedCallback(func() {
		c.SetContinueAsNewSuggested(true)
		c.SignalWorkflow(contract.SignalReconcileNow, contract.ReconcileRequest{Hosts: []string{"h1"}})
	}, 20*time.Minute)
	c.ExecuteWorkflow(contract.WorkflowInventoryReconcile,
		contract.InventoryReconcileInput{Cloud: "c", Interval: time.Hour})
	var again *workflow.ContinueAsNewError
	require.ErrorAs(t, c.GetWorkflowError(), &again)
	require.Equal(t, 20*time.Minute, c.Now().Sub(epoch))
	var in contract.InventoryReconcileInput
	require.NoError(t, converter.GetDefaultDataConverter().FromPayloads(again.Input, &in))
	require.Equal(t, epoch.Add(time.Hour), in.State.Next)
	require.False(t, in.State.Requested, "the timer did not fire")

	next := newReconcileFixture(t, nothingFound)
	next.SetStartTime(epoch.Add(20 * time.Minute))
	next.run(time.Hour, in)
	require.Equal(t, []time.Duration{time.Hour}, next.fullAt)
	require.Len(t, next.partial, 1)
}

// A signal that cannot be decoded changes nothing, and the next one is handled.
func TestACorruptReconcileNow(t *testing.T) {
	c := newReconcileFixture(t, nothingFound)
	c.RegisterDelayedCallback(func() { c.SignalWorkflow(contract.SignalReconcileNow, "now") }, time.Minute)
	c.request(2*time.Minute, contract.ReconcileRequest{})
	require.Equal(t, 1, c.run(time.Hour, contract.InventoryReconcileInput{Cloud: "c"}).FullRuns)
}

// A control worker lists the importable devices, also during a full run.
func TestCandidates(t *testing.T) {
	c := newReconcileFixture(t, nothingFound)
	c.duration = func(contract.ReconcileInput) time.Duration { return 5 * time.Minute }
	c.request(time.Minute, contract.ReconcileRequest{})
	var answer any
	var failure error
	c.RegisterDelayedCallback(func() {
		c.UpdateWorkflow(contract.UpdateCandidates, "u1", &testsuite.TestUpdateCallback{
			OnReject: func(err error) { failure = err }, OnAccept: func() {},
			OnComplete: func(out any, err error) { answer, failure = out, err },
		}, contract.CandidatesInput{Host: "h1", After: "h1_0", Limit: 7})
	}, 2*time.Minute)
	c.run(3*time.Minute, contract.InventoryReconcileInput{Cloud: "c"})
	require.NoError(t, failure)
	require.Equal(t, []contract.CandidatesInput{{Host: "h1", After: "h1_0", Limit: 7}}, c.candidatesAsked)
	require.Equal(t, contract.Candidates{Devices: []contract.Candidate{{Name: "h1_0000:01:00.0", Host: "h1", Total: 1}},
		More: true}, answer)
}

// Each full run gets the devices that were missing before; partial runs do not change them.
func TestMissingDevicesArePassedOn(t *testing.T) {
	c := newReconcileFixture(t, func(n int, in contract.ReconcileInput) (contract.ReconcileResult, error) {
		if len(in.Hosts) > 0 {
			return contract.ReconcileResult{Missing: []string{"other"}, Mismatches: []contract.Mismatch{{Name: "x"}}}, nil
		}
		return contract.ReconcileResult{Missing: []string{fmt.Sprint("d", n)}}, nil
	})
	c.request(15*time.Minute, contract.ReconcileRequest{Hosts: []string{"h1"}})
	s := c.run(25*time.Minute, contract.InventoryReconcileInput{Cloud: "c", Interval: 10 * time.Minute})
	require.Equal(t, []contract.ReconcileInput{{}, {Missing: []string{"d1"}}, {Missing: []string{"d2"}}}, c.full)
	require.Equal(t, []string{"d3"}, s.Missing)
	require.Empty(t, s.Mismatches)
}

// The summary names what needs the operator, and stays short.
func TestSummaryOfACloud(t *testing.T) {
	var missing []string
	for i := range 200 {
		missing = append(missing, fmt.Sprintf("h1_0000:%02x:00.0", i))
	}
	c := newReconcileFixture(t, func(int, contract.ReconcileInput) (contract.ReconcileResult, error) {
		return contract.ReconcileResult{
			Missing:    missing,
			Mismatches: []contract.Mismatch{{Name: "d8", What: "manageable, and the inventory has reserved=0 of 1, used=0"}},
			Counts:     contract.ReconcileCounts{Providers: 7, Devices: 9, Hinted: 2, Missing: 200, Mismatch: 1, Unenrolled: 4},
		}, nil
	})
	var before, shown string
	c.RegisterDelayedCallback(func() { before = c.summary() }, time.Second)
	c.request(time.Minute, contract.ReconcileRequest{})
	c.RegisterDelayedCallback(func() { shown = c.summary() }, 2*time.Minute)
	c.run(time.Hour, contract.InventoryReconcileInput{Cloud: "Cloud-1"})
	require.Contains(t, before, "no full reconciliation yet")
	for _, want := range []string{"Cloud-1", "7 providers of 9 devices, 2 asked", "200 missing", "1 mismatches",
		"4 not enrolled",
		"d8: manageable, and the inventory has reserved=0", missing[49], "and 150 more"} {
		require.Contains(t, shown, want)
	}
	require.NotContains(t, shown, missing[50])
	require.Less(t, len(shown), 8<<10)
	require.True(t, strings.HasPrefix(contract.ReconcileWorkflowID("Cloud-1"), "placement/cloud-1"))
}

// The state of a newer worker waits for a newer worker.
//
// F25
func TestStateOfANewerSchemaWaits(t *testing.T) {
	c := newReconcileFixture(t, nothingFound)
	c.ExecuteWorkflow(contract.WorkflowInventoryReconcile,
		contract.InventoryReconcileInput{Cloud: "c", State: &contract.InventoryReconcileState{Schema: contract.Schema + 1}})
	require.ErrorContains(t, c.GetWorkflowError(), "upgrade the control workers")
	require.ErrorAs(t, c.GetWorkflowError(), new(*temporal.PanicError))
}
