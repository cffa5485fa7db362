package limits_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
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
	"burnish/workflows/limits"
)

// fleet is the workflow of the limits, with devices that only record their answers.
type fleet struct {
	*testing.T
	*testsuite.TestWorkflowEnvironment
	mu         sync.Mutex // the environment runs each signal and each activity in a goroutine of its own
	answers    []string   // "device granted|code|hold", in their order
	activities []string
	timers     int
	lost       []string
	away       string // its workflow is lost
	running    int    // cleans that ask once more
	free       contract.CountFreeResult
	needs      []bool
	granted    func(name string) // called for each slot; nil: nothing
}

func newFleet(t *testing.T) *fleet {
	f := &fleet{T: t}
	var suite testsuite.WorkflowTestSuite
	f.TestWorkflowEnvironment = suite.NewTestWorkflowEnvironment()
	f.SetStartTime(time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC))
	f.SetTestTimeout(2 * time.Minute)
	f.SetWorkerOptions(worker.Options{DeadlockDetectionTimeout: time.Minute}) // a second is short beside other tests
	f.RegisterWorkflowWithOptions(limits.Limits, workflow.RegisterOptions{Name: contract.WorkflowLimits})
	note := func(name string, do any) {
		f.RegisterActivityWithOptions(do, activity.RegisterOptions{Name: name})
	}
	note(contract.ActivityFindCleans, func(context.Context) (contract.FindCleansResult, error) {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.activities = append(f.activities, contract.ActivityFindCleans)
		return contract.FindCleansResult{Asked: f.running}, nil
	})
	note(contract.ActivityCheckHolders, func(_ context.Context, in contract.HoldersInput) (contract.HoldersResult, error) {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.activities = append(f.activities, contract.ActivityCheckHolders+" "+strings.Join(in.Cleaned, " "))
		return contract.HoldersResult{Lost: f.lost}, nil
	})
	note(contract.ActivityCountFree,
		func(_ context.Context, in contract.CountFreeInput) (contract.CountFreeResult, error) {
			f.mu.Lock()
			defer f.mu.Unlock()
			f.activities = append(f.activities, contract.ActivityCountFree+" "+strings.Join(in.Withdrawn, " "))
			free := f.free
			free.Free -= len(in.Taking)
			return free, nil
		})
	f.OnSignalExternalWorkflow(mock.Anything, mock.Anything, mock.Anything, contract.SignalObserved, mock.Anything).Return(
		func(_, id, _, _ string, arg any) error {
			hint, ok := arg.(contract.Hint)
			if !ok || hint.Slot == nil {
				return fmt.Errorf("not an answer: %v", arg)
			}
			f.mu.Lock()
			defer f.mu.Unlock()
			name := strings.TrimPrefix(id, "device/")
			if name == f.away {
				return errors.New("not found")
			}
			what := "granted"
			switch a := hint.Slot; {
			case len(a.Hold) > 0:
				what = "hold " + strings.Join(a.Hold, " ")
			case a.Stalled:
				what = "stalled"
			case !a.Granted:
				what = string(a.Why.Code)
			}
			f.answers = append(f.answers, name+" "+what)
			if f.granted != nil && what == "granted" {
				f.granted(name)
			}
			return nil
		})
	f.OnUpsertTypedSearchAttributes(mock.MatchedBy(func(a temporal.SearchAttributes) bool {
		needs, _ := a.GetBool(contract.AttrNeedsOperator)
		if len(f.needs) == 0 || f.needs[len(f.needs)-1] != needs { // a mock may match twice
			f.needs = append(f.needs, needs)
		}
		return true
	})).Return(nil)
	f.SetOnTimerScheduledListener(func(string, time.Duration) { f.timers++ })
	return f
}

// sent gives the answers so far.
func (f *fleet) sent() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.answers)
}

// done gives the activities so far.
func (f *fleet) done() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.activities)
}

// change changes what the activities and the devices answer.
func (f *fleet) change(do func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	do()
}

func (f *fleet) at(d time.Duration, do func()) { f.RegisterDelayedCallback(do, d) }

func (f *fleet) ask(name string) {
	f.SignalWorkflow(contract.SignalSlotRequest,
		contract.SlotRequest{Device: name, Clean: name + "/1", Host: "h1", Model: "M", Steps: []string{"zero", "verify"}})
}

func (f *fleet) end(name, failed string) {
	f.SignalWorkflow(contract.SignalSlotReport,
		contract.SlotReport{Device: name, Clean: name + "/1", Failed: failed, Fault: device.CodeIO, Over: true})
}

func (f *fleet) run(limits *device.Limits) {
	f.ExecuteWorkflow(contract.WorkflowLimits,
		contract.LimitsInput{LimitsChange: contract.LimitsChange{Limits: limits, TellAfter: 5 * time.Minute}})
	require.True(f, f.IsWorkflowCompleted())
}

// off ends the workflow: the policy has no limits any more.
func (f *fleet) off(d time.Duration, names ...string) {
	f.at(d, func() {
		f.SignalWorkflow(contract.SignalLimitsChanged, contract.LimitsChange{})
		for _, name := range names {
			f.end(name, "")
		}
	})
}

// A device that waits costs nothing: neither the workflow nor anything else runs a timer or an
// activity for it, but one timer for the whole queue.
func TestWaitingForASlotCostsNoPolling(t *testing.T) {
	f := newFleet(t)
	const devices = 40
	f.at(time.Second, func() {
		for i := range devices {
			f.ask(fmt.Sprint("d", i))
		}
	})
	for i := range devices {
		f.at(time.Duration(i+2)*30*time.Second, func() { f.end(fmt.Sprint("d", i), "") })
	}
	f.off(time.Hour)
	f.run(&device.Limits{ConcurrentCleans: 1})
	require.NoError(t, f.GetWorkflowError())
	require.Equal(t, []string{contract.ActivityFindCleans}, f.activities, "a queue that moves is not checked")
	require.Less(t, f.timers, devices, "one timer for all, which is not set again for each move")
	granted := 0
	for _, answer := range f.sent() {
		if strings.HasSuffix(answer, " granted") {
			require.Equal(t, fmt.Sprintf("d%d granted", granted), answer, "in the order of arrival")
			granted++
		}
	}
	require.Equal(t, devices, granted)
	require.Empty(t, f.needs)
}

// The slot of a device whose workflow is lost comes back.
func TestALostHoldersSlotComesBack(t *testing.T) {
	f := newFleet(t)
	f.at(time.Second, func() { f.ask("d1"); f.ask("d2") })
	f.at(2*time.Second, func() { f.change(func() { f.lost = []string{"d1"} }) })
	f.at(2*time.Minute, func() { require.Contains(t, f.sent(), "d2 granted") })
	f.off(3*time.Minute, "d2")
	f.run(&device.Limits{ConcurrentCleans: 1})
	require.NoError(t, f.GetWorkflowError())
	require.Contains(t, f.activities, contract.ActivityCheckHolders+" d1")
}

// A device whose workflow cannot be signaled has no request any more.
func TestADeviceThatIsGoneHoldsUpNobody(t *testing.T) {
	f := newFleet(t)
	f.away = "d1"
	f.at(time.Second, func() { f.ask("d1"); f.ask("d2") })
	f.at(2*time.Second, func() { require.Contains(t, f.sent(), "d2 granted") })
	f.off(time.Minute, "d2")
	f.run(&device.Limits{ConcurrentCleans: 1})
	require.NoError(t, f.GetWorkflowError())
}

// A queue that does not move calls the operator once, for all who wait.
//
// F29
func TestAQueueThatDoesNotMoveCallsTheOperator(t *testing.T) {
	f := newFleet(t)
	f.at(time.Second, func() {
		for _, name := range []string{"d1", "d2", "d3", "d4"} {
			f.ask(name)
		}
	})
	f.at(4*time.Minute, func() { require.Empty(t, f.needs) })
	f.at(6*time.Minute, func() {
		require.Equal(t, []bool{true}, f.needs)
		status := f.status("")
		require.Len(t, status.Alarms, 1)
		require.Equal(t, 3, status.Alarms[0].Waiting)
		require.Contains(t, status.Alarms[0].Message, "nothing has moved in the queue since 2030-01-01T00:00:01Z; the "+
			"first is d2")
	})
	f.at(7*time.Minute, func() { f.end("d1", "") })
	f.at(8*time.Minute, func() { require.Equal(t, []bool{true, false}, f.needs) })
	f.off(9*time.Minute, "d2", "d3", "d4")
	f.run(&device.Limits{ConcurrentCleans: 1})
	require.NoError(t, f.GetWorkflowError())
	require.Equal(t, 1, strings.Count(strings.Join(f.sent(), "\n"), "stalled"), "%v", f.sent())
	require.Contains(t, f.sent(), "d2 stalled")
}

func (f *fleet) status(name string) contract.LimitsStatus {
	value, err := f.QueryWorkflow(contract.QueryLimits, name)
	require.NoError(f, err)
	var status contract.LimitsStatus
	require.NoError(f, value.Get(&status))
	return status
}

func (f *fleet) resume(model, step string, answer func(contract.ResumeResult, error)) {
	f.UpdateWorkflow(contract.VerbResume.Update(), fmt.Sprint(model, step, f.Now()), &testsuite.TestUpdateCallback{
		OnAccept: func() {}, OnReject: func(err error) { answer(contract.ResumeResult{}, err) },
		OnComplete: func(result any, err error) {
			in, _ := result.(contract.ResumeResult)
			answer(in, err)
		},
	}, contract.ResumeInput{Model: model, Step: step})
}

func TestABreakerIsOneAlarmUntilResume(t *testing.T) {
	f := newFleet(t)
	f.at(time.Second, func() { f.ask("d1"); f.ask("d2"); f.ask("d3") })
	f.at(2*time.Second, func() { f.end("d1", "zero"); f.end("d2", "zero") })
	f.at(3*time.Second, func() { f.ask("d4"); f.ask("d5") })
	f.at(time.Hour, func() {
		require.Equal(t, []bool{true}, f.needs)
		require.Len(t, f.status("").Alarms, 1)
		require.Equal(t, 2, f.status("").Queued)
		f.resume("M", "", func(_ contract.ResumeResult, err error) { require.ErrorContains(t, err, "step is missing") })
		f.resume("M", "zero", func(r contract.ResumeResult, err error) {
			require.NoError(t, err)
			require.False(t, r.Already)
		})
	})
	f.at(time.Hour+time.Second, func() {
		f.resume("M", "zero", func(r contract.ResumeResult, err error) {
			require.NoError(t, err)
			require.True(t, r.Already)
		})
	})
	f.off(2*time.Hour, "d3", "d4", "d5")
	f.run(&device.Limits{Breaker: 2})
	require.NoError(t, f.GetWorkflowError())
	require.Equal(t, []bool{true, false}, f.needs)
	require.Subset(t, f.sent(), []string{"d3 hold zero", "d4 breaker_open", "d5 breaker_open"})
	require.ElementsMatch(t, []string{"d3 granted", "d4 granted", "d5 granted"}, f.sent()[len(f.sent())-3:],
		"%v", f.sent())
	for _, done := range f.activities {
		require.NotContains(t, done, contract.ActivityCheckHolders, "who waits for an operator's resume needs no check")
	}
}

// After a loss of the queue nothing is granted until those with slots could say so.
func TestAfterALossThoseWithSlotsSayItFirst(t *testing.T) {
	f := newFleet(t)
	f.running = 2
	f.at(time.Second, func() { f.ask("d2") })
	f.at(2*time.Second, func() {
		f.SignalWorkflow(contract.SignalSlotRequest, contract.SlotRequest{Device: "d1", Clean: "d1/1", Granted: true})
	})
	f.at(time.Minute-time.Second, func() { require.NotContains(t, f.sent(), "d2 granted") })
	f.at(time.Minute, func() { f.end("d1", "") })
	f.at(time.Minute+time.Second, func() { require.Contains(t, f.sent(), "d2 granted") })
	f.off(2*time.Minute, "d2")
	f.run(&device.Limits{ConcurrentCleans: 1})
	require.NoError(t, f.GetWorkflowError())
}

func TestFreeDevicesAreCountedOnlyWhileARequestWaits(t *testing.T) {
	f := newFleet(t)
	f.free = contract.CountFreeResult{InService: 100, Free: 10}
	take := func(name string) {
		f.SignalWorkflow(contract.SignalSlotRequest,
			contract.SlotRequest{Device: name, Clean: name + "/1", TakesCapacity: true})
	}
	f.at(time.Minute, func() { require.Len(t, f.done(), 1); take("m1"); take("m2") })
	f.at(2*time.Minute, func() {
		require.NotContains(t, f.sent(), "m1 granted", "10 of 100 are free, and must stay so")
		f.change(func() { f.free.Free = 11 })
	})
	f.at(20*time.Minute, func() {
		require.Contains(t, f.sent(), "m1 granted")
		require.NotContains(t, f.sent(), "m2 granted")
		f.SignalWorkflow(contract.SignalSlotReport,
			contract.SlotReport{Device: "m1", Clean: "m1/1", Over: true, Withdrawn: true})
		f.change(func() { f.free = contract.CountFreeResult{InService: 100, Free: 11, Settled: []string{"m1"}} })
	})
	f.at(40*time.Minute, func() { require.Contains(t, f.sent(), "m2 granted") })
	f.off(time.Hour, "m2")
	f.run(&device.Limits{FreeCapacity: device.Capacity{Percent: 10}})
	require.NoError(t, f.GetWorkflowError())
	require.Contains(t, f.activities, contract.ActivityCountFree+" m1")
	require.Less(t, len(f.activities), 30)
}

// A run with a long history hands everything over.
func TestALongRunContinuesAsNew(t *testing.T) {
	f := newFleet(t)
	f.at(time.Second, func() { f.ask("d1"); f.ask("d2") })
	f.at(2*time.Second, func() { f.ask("d3") })
	f.at(3*time.Second, func() { f.SetContinueAsNewSuggested(true) })
	f.run(&device.Limits{ConcurrentCleans: 1})
	var next *workflow.ContinueAsNewError
	require.ErrorAs(t, f.GetWorkflowError(), &next)

	again := newFleet(t)
	again.at(time.Second, func() {
		require.Equal(t, 2, again.status("").Queued)
		require.Contains(t, again.status("d3").Waiting[0].Message, "2nd in line")
		again.end("d1", "")
	})
	again.at(2*time.Second, func() { require.Contains(t, again.sent(), "d2 granted") })
	again.off(time.Minute, "d2", "d3")
	in := contract.LimitsInput{}
	require.NoError(t, converter.GetDefaultDataConverter().FromPayloads(next.Input, &in))
	again.ExecuteWorkflow(contract.WorkflowLimits, in)
	require.NoError(t, again.GetWorkflowError())
	require.NotContains(t, again.activities, contract.ActivityFindCleans)
}

// A thousand servers through fifty slots: while any waits, every slot is busy. Each signal takes
// 50 ms on its way, and a clean 20 s, half more or less.
func TestAThousandServersKeepFiftySlotsBusy(t *testing.T) {
	const devices, slots, latency = 1000, 50, 50 * time.Millisecond
	random := rand.New(rand.NewPCG(1, 2))
	f := newFleet(t)
	cleaned, running, most := 0, 0, 0
	var busy time.Duration
	var from, to time.Time
	f.granted = func(name string) {
		f.at(latency, func() { // the device begins
			if cleaned == 0 && running == slots-1 {
				from = f.Now()
			}
			running++
			most = max(most, running)
			to = f.Now() // the last one that gets a slot
			work := time.Duration(float64(20*time.Second) * (0.5 + random.Float64()))
			began := f.Now()
			f.at(work, func() {
				running--
				cleaned++
				busy += f.Now().Sub(began)
				f.at(latency, func() { f.end(name, "") })
			})
		})
	}
	f.at(time.Second, func() {
		for i := range devices {
			f.ask(fmt.Sprintf("node%04d", i))
		}
	})
	f.off(30 * time.Minute)
	f.run(&device.Limits{ConcurrentCleans: slots})
	require.NoError(t, f.GetWorkflowError())
	require.Equal(t, devices, cleaned)
	require.Equal(t, slots, most)
	share := float64(busy-20*time.Second*slots/2) / float64(slots) / float64(to.Sub(from))
	require.GreaterOrEqual(t, share, 0.95, "of the time from %s to %s", from, to)
	require.LessOrEqual(t, len(f.sent()), 8*devices, "a device gets its place a few times")
	require.Equal(t, []string{contract.ActivityFindCleans}, f.activities)
}
