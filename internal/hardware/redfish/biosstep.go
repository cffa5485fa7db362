package redfish

import (
	"context"
	"time"

	"github.com/stmcginnis/gofish/redfish"

	"burnish/internal/device"
	"burnish/internal/hardware"
)

// biosStage is how far a step that changes the BIOS has come.
type biosStage string

const (
	// biosBegun: nothing is known to be wanted.
	biosBegun biosStage = "begun"
	// biosAsked: the BMC has accepted all that is wanted. It is pending.
	biosAsked biosStage = "asked"
	// biosOff: the server was seen off since then. The next start brings what is wanted
	// into force.
	biosOff biosStage = "off"
	// biosStarted: POST has ended since then.
	biosStarted biosStage = "started"
	// biosDone: what was read back was right.
	biosDone biosStage = "done"
)

// biosRecord is the progress of such a step, as it is journaled on the host. It holds what the
// BMC does not show: most do not say that a reset of the BIOS is pending, and none says reliably
// whether the server was reset since.
type biosRecord struct {
	Stage biosStage `json:"stage"`
	// FoundOff: the server was off when the step began, and is switched off in the end.
	FoundOff bool `json:"found_off,omitempty"`
	// Stale: what others wanted may have come into force with what was asked. Again: that
	// was so, and everything was asked for once more.
	Stale bool `json:"stale,omitempty"`
	Again bool `json:"again,omitempty"`
	// Work is the BMC's task of what was asked, where it has one.
	Work work `json:"work,omitzero"`
}

// biosStep is one run of a step that changes the BIOS: everything is asked for, the server is
// switched off and on, and what is in force is read back after POST.
type biosStep struct {
	h   *handle
	run hardware.StepRun
	// next decides what to send; see move.
	next func(s *biosState, refused map[string]bool) (move, error)
	// check compares what is in force with what was wanted. It gives the differences, and
	// whether there was something to compare.
	check func(s *biosState) (differ []string, comparable bool)

	rec     biosRecord
	state   *biosState // as last read
	already bool
}

// do carries the step out, from where an earlier attempt was interrupted.
func (b *biosStep) do(ctx context.Context) error {
	if err := b.begin(ctx); err != nil {
		return err
	}
	for {
		if b.rec.Stage == biosBegun {
			if asked, err := b.ask(ctx); err != nil || !asked {
				return err
			}
		}
		if err := b.restart(ctx); err != nil {
			return err
		}
		again, err := b.readBack(ctx)
		if err != nil {
			return err
		}
		if !again {
			return b.leave(ctx)
		}
	}
}

// begin reads how far an earlier attempt has come. One that had ended counts only while the BIOS
// still shows its result: another step may have changed it.
func (b *biosStep) begin(ctx context.Context) error {
	found, err := b.run.Load(b.run.Step, &b.rec)
	if err != nil {
		return err
	}
	if found && b.rec.Stage != biosDone {
		return nil
	}
	s, err := b.h.readOnceSettled(ctx, b.run)
	if err != nil {
		return err
	}
	if found {
		if b.state, err = b.h.readBIOS(ctx, nil); err != nil {
			return err
		}
		if differ, _ := b.check(b.state); len(differ) == 0 && len(b.state.jobs) == 0 {
			b.rec.Stage = biosStarted
			return nil
		}
	}
	b.rec = biosRecord{FoundOff: s.PowerState == redfish.OffPowerState}
	return b.save(biosBegun)
}

func (b *biosStep) save(stage biosStage) error {
	b.rec.Stage = stage
	return b.run.Save(b.run.Step, b.rec)
}

// ask sends what next decides until everything is wanted. It returns false where everything is
// in force already.
func (b *biosStep) ask(ctx context.Context) (asked bool, err error) {
	if err := b.endPOST(ctx); err != nil {
		return false, err
	}
	refusedBefore := map[string]bool{}
	waiting := b.h.c.bmc.timing.wait(b.h.c.bmc.timing.post)
	defer waiting.stop()
	for {
		if b.state, err = b.h.readBIOS(ctx, b.state); err != nil {
			return false, err
		}
		m, err := b.next(b.state, refusedBefore)
		switch {
		case err != nil:
			return false, err
		case m.already:
			b.already = true
			return false, nil
		case m.asked:
			return true, b.save(biosAsked)
		}
		if err := b.h.progress(b.run, 10, m.doing); err != nil {
			return false, err
		}
		why := m.doing
		if m.send != nil {
			done, err := b.send(ctx, m, refusedBefore)
			if err != nil {
				return false, err
			}
			if done == nil && m.last {
				return true, b.save(biosAsked)
			}
			if done == nil {
				continue
			}
			why = done.Error()
		}
		if again, err := waiting.next(ctx, 0); err != nil {
			return false, err
		} else if !again {
			return false,
				hardware.Refused(device.CodeNoProgress, "see the BMC's jobs and the server's console, then clean it again",
					"the BIOS settings could not be asked for within %v: %s", b.h.c.bmc.timing.post, hardware.OneLine(why))
		}
	}
}

// send sends a move's request. It returns why it must be decided once more, or nil.
func (b *biosStep) send(ctx context.Context, m move, refusedBefore map[string]bool) (why error, err error) {
	b.rec.Stale = b.rec.Stale || m.stale
	b.rec.Work = work{Target: m.send.Path, Sent: b.h.c.bmc.clock(), Began: time.Now().Round(0)}
	got, err := b.h.change(ctx, *m.send)
	switch {
	case err == nil:
		b.rec.Work.Answered, b.rec.Work.Task = true, b.h.c.taskOf(got)
		return nil, nil
	case isLost(err):
		return err, nil // what has come of it is read
	case inPOST(err):
		return err, b.endPOST(ctx)
	case mayBeAskedAgain(err):
		return err, nil
	}
	if _, ok := asRefusal(err); ok && !m.last {
		refusedBefore[m.send.Path] = true
		return err, nil
	}
	return nil, err
}

// endPOST waits until POST has ended on a server that is on: before, some BMCs refuse changes.
func (b *biosStep) endPOST(ctx context.Context) error {
	s, err := b.h.readOnceSettled(ctx, b.run)
	if err != nil || s.PowerState == redfish.OffPowerState {
		return err
	}
	return b.h.waitForPOST(ctx, b.run, postWait{})
}

// restart switches the server off and on and waits for the end of POST. Off and on can be read,
// and so can be repeated; whether a reset was carried out cannot.
func (b *biosStep) restart(ctx context.Context) error {
	if b.rec.Stage == biosAsked {
		b.h.percent = 20
		if err := b.h.powerOff(ctx, b.run); err != nil {
			return err
		}
		if err := b.save(biosOff); err != nil {
			return err
		}
	}
	if b.rec.Stage == biosOff {
		b.h.percent = 40
		before, err := b.h.c.readSystem(ctx, b.h.system)
		if err != nil {
			return err
		}
		if before.PowerState == redfish.OnPowerState {
			before = nil // an earlier attempt has switched it on
		}
		if err := b.h.powerOn(ctx, b.run); err != nil {
			return err
		}
		// Powered on is not started: the settings come into force during POST.
		if err := b.waitForStart(ctx, before); err != nil {
			return err
		}
		return b.save(biosStarted)
	}
	return nil
}

// waitForStart waits for the end of POST. Where the BMC does not show it, it waits until the BIOS
// shows what was wanted and did not show before, or else for the time that a start takes at most.
func (b *biosStep) waitForStart(ctx context.Context, before *system) error {
	differed := false
	if b.state != nil {
		differ, _ := b.check(b.state)
		differed = len(differ) > 0
	}
	sooner := func() (is bool, err error) {
		if !differed {
			return false, nil
		}
		if b.state, err = b.h.readBIOS(ctx, b.state); err != nil {
			return false, err
		}
		differ, _ := b.check(b.state)
		return len(differ) == 0 && len(b.state.jobs) == 0, nil
	}
	if err := b.h.waitForPOST(ctx, b.run, postWait{before: before, started: true, sooner: sooner}); err != nil {
		return err
	}
	waiting := b.h.c.bmc.timing.wait(b.h.c.bmc.timing.blindPOST)
	defer waiting.stop()
	for {
		s, err := b.h.c.readSystem(ctx, b.h.system)
		if err != nil || s.hasStarted() {
			return err
		}
		if is, err := sooner(); is || err != nil {
			return err
		}
		if err := b.h.progress(b.run, 60, "waits for the end of POST: the drives are found"); err != nil {
			return err
		}
		if again, err := waiting.next(ctx, 0); err != nil || !again {
			return err
		}
	}
}

// hasStarted: all of a POST that was waited for is over. That an iLO has found the drives is
// earlier: the BIOS is still as it was.
func (s *system) hasStarted() bool {
	hpe := s.hpe()
	return hpe == nil || hpe.PostState != "InPostDiscoveryComplete"
}

// readBack reads what is in force, once no BIOS job is left. It returns true where everything
// must be asked for once more: what others wanted came into force as well.
func (b *biosStep) readBack(ctx context.Context) (again bool, err error) {
	b.h.percent = 80
	failed, err := b.taskFailed(ctx)
	if err != nil {
		return false, err
	}
	if err := b.waitForJobs(ctx); err != nil {
		return false, err
	}
	differ, comparable := b.check(b.state)
	switch {
	case len(differ) > 0 && b.rec.Stale && !b.rec.Again:
		b.rec = biosRecord{FoundOff: b.rec.FoundOff, Again: true}
		return true, b.save(biosBegun)
	case len(differ) > 0 && failed != nil:
		return false, mismatch(differ, ": "+failed.Message)
	case len(differ) > 0:
		return false, mismatch(differ, "")
	case failed != nil && !comparable:
		return false, failed
	}
	return false, nil
}

func mismatch(differ []string, why string) error {
	return hardware.Refused(device.CodeBIOSMismatch, "see the BMC's log and the server's console, correct the cause, "+
		"then clean the server",
		"after the server has started, its BIOS differs: %s%s", listed(differ), why)
}

// taskFailed follows our own task to its end. A failure that can be read in the BIOS is no error
// here: what is in force decides. One that is gone says nothing.
func (b *biosStep) taskFailed(ctx context.Context) (*device.Fault, error) {
	if b.rec.Work.Task == "" {
		return nil, nil
	}
	silent := b.run
	silent.Save = func(string, any) error { return nil }
	b.rec.Work.action = action{Name: b.run.Step, Doing: "changes the BIOS", Stall: b.h.c.bmc.timing.post}
	_, err := b.h.followTask(ctx, silent, &b.rec.Work)
	if f, ok := device.AsFault(err); ok && f.Code == device.CodeStepFailed {
		return f, nil
	}
	return nil, err
}

// waitForJobs waits until no BIOS job is left, and reads the BIOS then: before, some BMCs show
// what is pending as if it were in force.
func (b *biosStep) waitForJobs(ctx context.Context) (err error) {
	waiting := b.h.c.bmc.timing.wait(b.h.c.bmc.timing.post)
	defer waiting.stop()
	for {
		if b.state, err = b.h.readBIOS(ctx, b.state); err != nil {
			return err
		}
		if len(b.state.jobs) == 0 {
			return nil
		}
		if err := b.h.progress(b.run, b.h.percent, "waits for the BIOS job "+b.state.jobs[0].name); err != nil {
			return err
		}
		if again, err := waiting.next(ctx, 0); err != nil {
			return err
		} else if !again {
			return hardware.Refused(device.CodeBIOSJobWaiting,
				"see the job on the BMC; clean the server again when it has ended",
				"the server has started, and a BIOS job has not ended: %s", b.state.jobs[0].name)
		}
	}
}

// leave leaves the server as it was found.
func (b *biosStep) leave(ctx context.Context) error {
	if b.rec.FoundOff {
		b.h.percent = 90
		if err := b.h.powerOff(ctx, b.run); err != nil {
			return err
		}
	}
	return b.save(biosDone)
}

// readOnceSettled reads the system once it is either on or off, and not on its way.
func (h *handle) readOnceSettled(ctx context.Context, run hardware.StepRun) (*system, error) {
	waiting := h.c.bmc.timing.wait(h.c.bmc.timing.power)
	defer waiting.stop()
	for {
		s, err := h.c.readSystem(ctx, h.system)
		if err != nil || s.PowerState == redfish.OnPowerState || s.PowerState == redfish.OffPowerState {
			return s, err
		}
		if err := h.progress(run, h.percent, "waits until the server is on or off"); err != nil {
			return nil, err
		}
		if again, err := waiting.next(ctx, 0); err != nil {
			return nil, err
		} else if !again {
			return nil, hardware.Refused(device.CodeNoProgress, "see the server's console, then clean it again",
				"the server has been %s for %v", powerWord(s.PowerState), h.c.bmc.timing.power)
		}
	}
}
