package activities_test

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"burnish/activities"
	"burnish/internal/device"
	"burnish/internal/inventory"
	"burnish/workflows/contract"
)

// reports keeps what was reported to workflows.
type reports struct {
	mu   sync.Mutex
	all  []contract.WaitReport
	fail error
}

func (r *reports) send(_ context.Context, _, _ string, in contract.WaitReport) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.fail != nil {
		return r.fail
	}
	r.all = append(r.all, in)
	return nil
}

// take gives what was reported since the last take.
func (r *reports) take() []contract.WaitReport {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := r.all
	r.all = nil
	return all
}

func reporting(t *testing.T) (*testHost, *reports, contract.StepInput) {
	s, sent := newTestHost(t), &reports{}
	s.hardware.Report = sent.send
	in := s.input("zero")
	in.Settings.TellAfter = 5 * time.Minute
	return s, sent, in
}

// A step on which all goes well reports nothing, however long it takes.
func TestAStepReportsNothingWhileAllGoesWell(t *testing.T) {
	t.Parallel()
	inBubble(t, "zero", func(t *testing.T) {
		s, sent, in := reporting(t)
		s.disk.takes = 3 * time.Minute
		_, err := s.run(first(t), in)
		require.NoError(t, err)
		require.Empty(t, sent.take())
	})
}

// A failed attempt reports its cause once, and the first progress after it reports the end.
//
// F29
func TestAFailedAttemptIsReported(t *testing.T) {
	t.Parallel()
	inBubble(t, "a full state directory", func(t *testing.T) {
		s, sent, in := reporting(t)
		stopAtOffset(t, s, first(t), in, 0)
		sent.take()
		repair := unsavable(t, s.journalFile("d1"))
		attempt := again(t, 2)
		_, err := s.run(attempt, in)
		requireFault(t, err, device.CodeStateDirError, true)
		got := sent.take()
		require.Len(t, got, 1)
		require.Equal(t, contract.WaitHost, got[0].For)
		require.Equal(t, device.CodeStateDirError, got[0].Fault.Code)
		require.NotEmpty(t, got[0].Fault.Remedy)
		require.Equal(t, in.Seq, got[0].Seq)

		last := attempt.last()
		next := again(t, 3)
		next.lastProgress = &last
		_, err = s.run(next, in)
		requireFault(t, err, device.CodeStateDirError, true)
		require.Empty(t, sent.take(), "the same cause again")

		repair()
		last = next.last()
		healed := again(t, 4)
		healed.lastProgress = &last
		s.disk.takes = 10 * time.Second
		_, err = s.run(healed, in)
		require.NoError(t, err)
		require.Equal(t, []contract.WaitReport{{For: contract.WaitHost, Seq: in.Seq}}, sent.take(), "it goes on")
	})
}

// A step that runs without progress is reported when that has lasted for TellAfter, and its
// next progress too; show has the time of the last progress.
//
// F29
func TestAStepWithoutProgressIsReported(t *testing.T) {
	t.Parallel()
	inBubble(t, "zero", func(t *testing.T) {
		s, sent, in := reporting(t)
		began := time.Now().UTC()
		in.Settings.TellAfter = time.Minute
		s.disk.takes = 150 * time.Second
		server := first(t)
		r := s.start(server, in)
		// What is checked ends only with the step.
		pass(50 * time.Second)
		early := sent.take()
		pass(20 * time.Second)
		stalled, shown := sent.take(), server.last()
		pass(90 * time.Second)
		on, later := sent.take(), server.last()
		pass(150 * time.Second)
		more := sent.take()
		_, err := r.wait(t)
		require.NoError(t, err)

		require.Empty(t, early)
		require.Len(t, stalled, 1)
		require.True(t, stalled[0].Stalled)
		require.Equal(t, device.CodeNoProgress, stalled[0].Fault.Code)
		require.Equal(t, began, shown.ProgressAt)
		require.Equal(t, began.Add(budget), shown.BudgetEnds)
		require.Equal(t, []contract.WaitReport{{For: contract.WaitHost, Seq: in.Seq}}, on, "it goes on")
		require.Equal(t, began.Add(150*time.Second), later.ProgressAt)
		require.Len(t, more, 2, "once for each time")
	})
}

// A step that waits for a slot reports that soon, and that it works when it does. Its queue
// moves: the operator is called only if it does not, also over several attempts.
//
// F29
func TestAWaitForASlotIsReported(t *testing.T) {
	t.Parallel()
	inBubble(t, "zero", func(t *testing.T) {
		s, sent, in := reporting(t)
		release := s.oneSlot(t)
		var last *contract.Progress
		attempt := func(n int32) {
			server := again(t, n)
			server.lastProgress = last
			_, err := s.run(server, in)
			requireRetriedNow(t, err, device.CodeWaitingForSlot)
			p := server.last()
			last = &p
		}
		attempt(1)
		got := sent.take()
		require.Len(t, got, 1)
		require.Equal(t, device.CodeWaitingForSlot, got[0].Fault.Code)
		require.True(t, got[0].Moving)
		require.False(t, got[0].Stalled)
		for n := range int32(8) {
			attempt(n + 2)
		}
		require.Empty(t, sent.take())
		attempt(10)
		attempt(11)
		got = sent.take()
		require.Len(t, got, 1)
		require.True(t, got[0].Stalled)
		release()
		s.disk.takes = time.Minute
		server := again(t, 12)
		server.lastProgress = last
		_, err := s.run(server, in)
		require.NoError(t, err)
		require.NotEmpty(t, sent.take(), "it works")
	})
}

// A step that a host took up after it was reported as unreachable reports that at once.
//
// F29
func TestAStepReportsThatItsHostIsBack(t *testing.T) {
	t.Parallel()
	inBubble(t, "zero", func(t *testing.T) {
		s, sent, in := reporting(t)
		in.ReportStart = true
		s.disk.takes = time.Minute
		r := s.start(first(t), in)
		pass(2 * time.Second)
		require.Equal(t, []contract.WaitReport{{For: contract.WaitHost, Seq: in.Seq}}, sent.take())
		_, err := r.wait(t)
		require.NoError(t, err)
	})
}

// A report that does not arrive is sent again.
func TestAReportIsRepeatedUntilItArrives(t *testing.T) {
	t.Parallel()
	inBubble(t, "zero", func(t *testing.T) {
		s, sent, in := reporting(t)
		sent.fail = errors.New("no server")
		in.ReportStart = true
		s.disk.takes = time.Minute
		r := s.start(first(t), in)
		pass(10 * time.Second)
		require.Empty(t, sent.take())
		sent.mu.Lock()
		sent.fail = nil
		sent.mu.Unlock()
		pass(2 * time.Second)
		require.Len(t, sent.take(), 1)
		_, err := r.wait(t)
		require.NoError(t, err)
	})
}

// Calls of a device's workflow that fail are reported from the second attempt on, more and
// more rarely; those of other workflows are not.
//
// F29
func TestFailedCallsAreReported(t *testing.T) {
	t.Parallel()
	away := inventory.Unavailable("inventory", "make it available", errors.New("no answer"))
	for _, tt := range []struct {
		name     string
		workflow string
		fail     error
		attempts int32
		want     []int32 // the attempts that are reported
	}{
		{"away", contract.WorkflowDeviceLifecycle, away, 9, []int32{2, 4, 8}},
		{"refused for good", contract.WorkflowDeviceLifecycle, inventory.Invalid("wrong", "correct it"), 2, nil},
		{"answered", contract.WorkflowDeviceLifecycle, nil, 2, nil},
		{"another workflow", contract.WorkflowInventoryReconcile, away, 2, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			sent := &reports{}
			var got []int32
			for n := int32(1); n <= tt.attempts; n++ {
				runCall(t, again(t, n), sent, &typed{name: tt.workflow}, func(context.Context) error { return refusing(tt.fail) })
				for _, r := range sent.take() {
					got = append(got, n)
					require.Equal(t, contract.WaitInventory, r.For)
					require.Equal(t, device.CodeInventoryUnavailable, r.Fault.Code)
				}
			}
			require.Equal(t, tt.want, got)
		})
	}
}

// A call that has a heartbeat time-out shows that its worker lives, whatever its workflow; one of a
// device that takes long is reported once.
//
// F29
func TestACallThatTakesLong(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		call            typed
		beats, reported int
	}{
		"of a device":            {typed{name: contract.WorkflowDeviceLifecycle, heartbeat: time.Minute}, 6, 1},
		"of another workflow":    {typed{name: contract.WorkflowInventoryReconcile, heartbeat: time.Minute}, 6, 0},
		"without a heartbeat":    {typed{name: contract.WorkflowHostScan}, 0, 0},
		"that reports by itself": {typed{name: contract.WorkflowDeviceLifecycle, heartbeat: time.Minute, except: true}, 0, 0},
	} {
		inBubble(t, name, func(t *testing.T) {
			server, sent := again(t, 3), &reports{}
			runCall(t, server, sent, &tt.call, func(context.Context) error { <-time.After(20 * time.Second); return nil })
			require.Equal(t, tt.beats, server.bare)
			require.Len(t, sent.take(), tt.reported)
		})
	}
	inBubble(t, "that panics", func(t *testing.T) {
		server := again(t, 1)
		runCall(t, server, &reports{}, &typed{heartbeat: time.Minute}, func(context.Context) error { panic("a defect") })
		pass(time.Minute)
		require.Zero(t, server.bare)
	})
}

// refusing is the error of a call that fails with a fault; nil is none.
func refusing(fault error) error {
	if f, ok := device.AsFault(fault); ok {
		return contract.Refuse(contract.Refusal{Fault: *f, Device: "d1"})
	}
	return nil
}

// runCall runs one attempt of a control call.
func runCall(t *testing.T, server *server, sent *reports, call *typed, do func(context.Context) error) {
	t.Helper()
	var suite testsuite.WorkflowTestSuite
	env := suite.NewTestActivityEnvironment()
	reporter := &activities.WaitReporter{Report: sent.send, Log: slog.New(slog.DiscardHandler)}
	if call.except {
		reporter.Except = []string{contract.ActivityReadReservation}
	}
	env.SetWorkerOptions(worker.Options{Interceptors: []interceptor.WorkerInterceptor{reporter, &serving{server: server},
		call}})
	env.RegisterActivityWithOptions(do, activity.RegisterOptions{Name: contract.ActivityReadReservation})
	_, _ = env.ExecuteActivity(contract.ActivityReadReservation)
}

// typed makes the activity one of a workflow of this type, on the control queue.
type typed struct {
	interceptor.WorkerInterceptorBase
	interceptor.ActivityInboundInterceptorBase
	interceptor.ActivityOutboundInterceptorBase
	name      string
	heartbeat time.Duration
	except    bool
}

func (i *typed) InterceptActivity(_ context.Context,
	next interceptor.ActivityInboundInterceptor) interceptor.ActivityInboundInterceptor {
	i.ActivityInboundInterceptorBase.Next = next
	return i
}

func (i *typed) Init(out interceptor.ActivityOutboundInterceptor) error {
	i.ActivityOutboundInterceptorBase.Next = out
	return i.ActivityInboundInterceptorBase.Next.Init(i)
}

func (i *typed) GetInfo(ctx context.Context) activity.Info {
	info := i.ActivityOutboundInterceptorBase.Next.GetInfo(ctx)
	info.WorkflowType, info.TaskQueue = &workflow.Type{Name: i.name}, contract.Queue
	info.HeartbeatTimeout = i.heartbeat
	return info
}
