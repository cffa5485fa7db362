package activities

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"
	"golang.org/x/sys/unix"

	"burnish/internal/device"
)

// lease is an attempt's right to write, which ends with time (F32). The server gives the
// device to another attempt, and the workflow may give it to another instance, once this
// attempt has been silent for its heartbeat time-out. An attempt cannot know that it was
// silent: its process may have been frozen, or its machine suspended. So it writes only while
// the server's last answer to this attempt is at most a third of the time-out old. The
// heartbeats of the SDK do not count: they are throttled, and nothing shows when one was
// answered.
//
// What was already issued is not stopped by this: writes of at most hardware.MaxWrite bytes
// together, one command to a drive, or one program.
type lease struct {
	// ctx and info are the activity's.
	ctx  context.Context
	info activity.Info
	// confirm sends a heartbeat with the details, and fails unless the server still expects
	// this attempt; nil: nothing is asked.
	confirm func(ctx context.Context, token []byte, details ...any) error
	details func() any
	// waits shows that the attempt waits for the server's answer, or, with "", that it goes on.
	waits func(code device.Code, what string)
	// clock replaces the machine's own in tests.
	clock func() time.Duration
	log   *slog.Logger
	// acknowledged is when the last request was sent that the server answered, by a clock
	// that counts while the machine is suspended.
	acknowledged time.Duration
	asked        bool
	// first is the answer to the question that begin asked, until check has taken it.
	first chan confirmation
}

// confirmation is what became of a question to the server.
type confirmation struct {
	sent time.Duration // by the lease's clock
	err  error
}

// newLease is the lease of a step, or of a change of the power.
func (a *attempt) newLease(ctx context.Context) *lease {
	l := &lease{
		ctx: ctx, info: a.info, confirm: a.Confirm, clock: a.Clock, waits: a.heartbeats.wait,
		details: func() any { return a.heartbeats.now() },
		log:     a.Log.With("device", a.in.Enrollment.Name, "step", a.step.Name),
	}
	if a.before != nil {
		l.acknowledged, l.asked = a.before.acknowledged, a.before.asked
	}
	return l
}

// timeout is that of the attempt's heartbeats.
func (l *lease) timeout() time.Duration {
	if l.info.HeartbeatTimeout <= 0 {
		return defaultHeartbeat
	}
	return l.info.HeartbeatTimeout
}

// defaultHeartbeat replaces the heartbeat time-out of an activity that has none.
const defaultHeartbeat = 30 * time.Second

// leaseRetryInterval is the pause between two requests to a server that does not answer.
const leaseRetryInterval = time.Second

// check returns nil while the attempt may write. Where the last answer is too old it asks the
// server, and waits for an answer until the heartbeat time-out has passed: by then the
// server has given up the attempt. Only the step's goroutine calls it.
func (l *lease) check(ctx context.Context) error {
	if l.confirm == nil {
		return nil
	}
	timeout := l.timeout()
	waited := false
	defer func() {
		if waited {
			l.waits("", "")
		}
	}()
	for {
		now, err := l.now()
		if err != nil {
			return err
		}
		if l.asked && now-l.acknowledged <= timeout/3 {
			return nil
		}
		answer := l.confirmed(ctx)
		answered, clockErr := l.now()
		if clockErr != nil {
			return clockErr
		}
		if err = answer.err; err == nil {
			l.acknowledged, l.asked = answer.sent, true
			// Frozen while it asked: the answer may be as old as the question.
			if answered-answer.sent <= timeout/3 {
				return nil
			}
			err = errors.New("its answer came too late")
		}
		lost := answered-l.acknowledged > timeout
		if refused(err) || !l.asked || lost {
			l.log.Warn("the server does not confirm this attempt: nothing is written", "error", err)
			if temporal.IsCanceledError(err) {
				l.awaitCancel()
			}
			return errLostContact
		}
		waited = true
		if err := l.pause(ctx); err != nil {
			return err
		}
	}
}

// refused says whether the server's answer is that this attempt is over; any other error is
// a missing answer.
func refused(err error) bool {
	return temporal.IsCanceledError(err) || errors.Is(err, activity.ErrActivityPaused) ||
		errors.Is(err, activity.ErrActivityReset) ||
		errors.As(err, new(*serviceerror.NotFound)) || errors.As(err, new(*serviceerror.NamespaceNotFound))
}

// begin asks the server beside what makes the device ready. The first check waits for the answer.
func (l *lease) begin() {
	if l.confirm == nil || l.asked {
		return
	}
	l.first = make(chan confirmation, 1)
	go func() { l.first <- l.ask(l.ctx) }()
}

// confirmed is the answer to begin's question, or else to a new one.
func (l *lease) confirmed(ctx context.Context) confirmation {
	if l.first == nil {
		return l.ask(ctx)
	}
	answer := <-l.first
	l.first = nil
	return answer
}

// ask sends a heartbeat that the server answers, and waits at most confirmTimeout.
func (l *lease) ask(ctx context.Context) confirmation {
	sent, err := l.now()
	if err == nil {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), confirmTimeout)
		defer cancel()
		err = l.confirm(ctx, l.info.TaskToken, l.details())
	}
	return confirmation{sent, err}
}

// pause waits before the server is asked again.
func (l *lease) pause(ctx context.Context) error {
	l.waits(device.CodeServerUnreachable, "waiting for the server to confirm that the step may continue to write")
	timer := time.NewTimer(leaseRetryInterval)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-l.ctx.Done():
		return errLostContact
	case <-activity.GetWorkerStopChannel(l.ctx):
		return errStopping
	}
}

// awaitCancel waits until the SDK has learned of a cancellation too, by its next heartbeat:
// only then may the attempt end as canceled.
func (l *lease) awaitCancel() {
	timer := time.NewTimer(confirmTimeout)
	defer timer.Stop()
	select {
	case <-l.ctx.Done():
	case <-timer.C:
	}
}

// now is the time since the machine's start; unlike Go's monotonic clock it counts while the
// machine is suspended.
func (l *lease) now() (time.Duration, error) {
	if l.clock != nil {
		return l.clock(), nil
	}
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &now); err != nil {
		return 0, fmt.Errorf("read the machine's clock: %w", err)
	}
	return time.Duration(now.Nano()), nil
}
