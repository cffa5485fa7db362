package redfish

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"

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
	// biosOff: the server was seen off since then. The next start brings what is wanted into force.
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
	// Work is the BMC's task of what was asked, where it has one.
	Work work `json:"work,omitzero"`
}

// biosStep is one run of a step that changes the BIOS: everything is asked for, the server is
// switched off and on, and what is in force is read back after POST.
type biosStep struct {
	h   *handle
	run hardware.StepRun
	// ask is the request for what is wanted, decided from what the BMC shows now; nil: it is in force.
	ask func(s *biosState) (*request, error)
	// check compares what is in force with what was wanted. It gives the differences, and
	// whether there was something to compare.
	check func(s *biosState) (differ []string, comparable bool)

	rec   biosRecord
	state *biosState // as last read
}

// do carries the step out, from where an earlier attempt was interrupted. already: everything is in
// force, and the server was not restarted.
func (b *biosStep) do(ctx context.Context) (already bool, err error) {
	if err := b.begin(ctx); err != nil {
		return false, err
	}
	if b.rec.Stage == biosBegun {
		if already, err := b.send(ctx); err != nil || already {
			return already, err
		}
	}
	b.h.percent = 20
	if err := b.h.restartFrom(ctx, b.run, &b.rec.Stage, b.save); err != nil {
		return false, err
	}
	if err := b.readBack(ctx); err != nil {
		return false, err
	}
	return false, b.save(biosDone)
}

// begin reads how far an earlier attempt has come. One that had ended counts only while the BIOS
// still shows its result: another step may have changed it.
func (b *biosStep) begin(ctx context.Context) error {
	found, err := b.run.Load(b.run.Step, &b.rec)
	if err != nil || found && b.rec.Stage != biosDone {
		return err
	}
	if found {
		if b.state, err = b.h.readBIOS(ctx); err != nil {
			return err
		}
		if differ, _ := b.check(b.state); len(differ) == 0 && len(b.state.jobs) == 0 {
			b.rec.Stage = biosStarted
			return nil
		}
	}
	b.rec = biosRecord{Stage: biosBegun}
	if !found {
		return nil
	}
	return b.save(biosBegun)
}

func (b *biosStep) save(stage biosStage) error {
	b.rec.Stage = stage
	return b.run.Save(b.run.Step, b.rec)
}

// send asks for what is wanted until the BMC has accepted it. What others want is taken back before,
// and so is what an earlier attempt has asked for without an answer: it may not have arrived.
func (b *biosStep) send(ctx context.Context) (already bool, err error) {
	why := "a BIOS job waits"
	err = b.h.until(ctx, b.run, b.h.driver.timing.post, func() (done bool, doing string, err error) {
		if err := b.h.endPOST(ctx, b.run); err != nil {
			return false, "", err
		}
		if _, b.state, err = b.h.takeBack(ctx, b.run); err != nil {
			return false, "", err
		}
		if b.state == nil { // there is none to see: the reading says why
			if b.state, err = b.h.readBIOS(ctx); err != nil {
				return false, "", err
			}
		}
		r, err := b.ask(b.state)
		if already = r == nil; err != nil || already {
			return already, "", err
		}
		got, err := b.h.change(ctx, *r)
		if err == nil {
			b.rec.Work = work{Target: r.Path, Task: b.h.taskOf(got)}
			return true, "", b.save(biosAsked)
		}
		if isLost(err) || mayBeAskedAgain(err) {
			why, err = hardware.OneLine(err.Error()), nil
		}
		return false, "asks for the BIOS settings: " + why, err
	}, func() error { return stuck("the BIOS settings could not be asked for: %s", why)() })
	return already && err == nil, err
}

// mayBeAskedAgain: the BMC refuses a change for now only: during POST, or while a job waits that
// was not seen yet.
func mayBeAskedAgain(err error) bool {
	r, ok := asRefusal(err)
	ids := []string{"DuringSystemPOST", "DuringPOST", "SYS011", "RAC0679"}
	return ok && (mayPass(err) || slices.ContainsFunc(ids, r.says))
}

// endPOST waits until POST has ended on a server that is on: before, some BMCs refuse changes.
func (h *handle) endPOST(ctx context.Context, run hardware.StepRun) error {
	s, err := h.readOnceSettled(ctx, run)
	if err != nil || s.PowerState == redfish.OffPowerState {
		return err
	}
	if ended, known := s.postEnded(); ended && known {
		return nil
	}
	return h.waitForPOST(ctx, run, postWait{})
}

// restartFrom switches the server off and on and waits for the end of POST, from the stage that an earlier
// attempt has come to. Off and on can be read, and so can be repeated; whether a reset was carried out
// cannot.
func (h *handle) restartFrom(ctx context.Context, run hardware.StepRun, stage *biosStage,
	save func(biosStage) error) error {
	if *stage == biosAsked {
		if err := h.powerOff(ctx, run); err != nil {
			return err
		}
		if err := save(biosOff); err != nil {
			return err
		}
	}
	if *stage != biosOff {
		return nil
	}
	before, err := h.readSystem(ctx)
	if err != nil {
		return err
	}
	if before.PowerState == redfish.OnPowerState {
		before = nil // an earlier attempt has switched it on
	} else if _, err := h.disarm(ctx, run); err != nil { // now that nothing of a tenant's runs any more
		return err
	}
	if err := h.powerOn(ctx, run); err != nil {
		return err
	}
	// Powered on is not started: the settings come into force during POST.
	if err := h.waitForPOST(ctx, run, postWait{before: before, started: true}); err != nil {
		return err
	}
	return save(biosStarted)
}

// awaitBIOSJobs waits until no BIOS job is left: before, some BMCs show what is pending as if it were in
// force. It gives the tasks that are left.
func (h *handle) awaitBIOSJobs(ctx context.Context, run hardware.StepRun) (all []*task, err error) {
	h.percent = 80
	var job *task
	err = h.until(ctx, run, h.driver.timing.post, func() (done bool, doing string, err error) {
		all, err = h.tasks(ctx)
		i := slices.IndexFunc(all, func(t *task) bool { return t.changesBIOS() && !t.isAnothers(h.system) })
		if err != nil || i < 0 {
			return err == nil, "", err
		}
		job = all[i]
		return false, "waits for the BIOS job " + job.String(), nil
	}, func() error {
		return hardware.Refused(device.CodeBIOSJobWaiting, "see the job on the BMC; clean the server again when it has ended",
			"the server has started, and a BIOS job has not ended: %s", job)
	})
	return all, err
}

// readBack compares what is in force once no BIOS job is left. A failure of our own task that can be read in
// the BIOS is no error by itself.
func (b *biosStep) readBack(ctx context.Context) (err error) {
	tasks, err := b.h.awaitBIOSJobs(ctx, b.run)
	if err != nil {
		return err
	}
	if b.state, err = b.h.readBIOSAfter(ctx, tasks); err != nil {
		return err
	}
	b.rec.Work.doing = "change of the BIOS"
	_, failed := b.h.follow(ctx, &b.rec.Work, func() error { return nil })
	fault, is := device.AsFault(failed)
	if failed != nil && (!is || fault.Code != device.CodeStepFailed) {
		return failed
	}
	differ, comparable := b.check(b.state)
	switch {
	case len(differ) > 0:
		why := ""
		if failed != nil {
			why = ": " + fault.Message
		}
		return hardware.Refused(device.CodeBIOSMismatch, "see the BMC's log and the server's console, correct the cause, "+
			"then clean the server",
			"after the server has started, its BIOS differs: %s%s", listed(differ), why)
	case !comparable:
		return failed
	}
	return nil
}

// powerSettled: the server is either on or off, and not on its way.
func (s *system) powerSettled() bool {
	return s.PowerState == redfish.OnPowerState || s.PowerState == redfish.OffPowerState
}

// readOnceSettled reads the system once its power is settled.
func (h *handle) readOnceSettled(ctx context.Context, run hardware.StepRun) (s *system, err error) {
	err = h.until(ctx, run, h.driver.timing.power, func() (bool, string, error) {
		var err error
		s, err = h.readSystem(ctx)
		return err == nil && s.powerSettled(), "waits until the server is on or off", err
	}, stuck("the server is neither on nor off for %v", h.driver.timing.power))
	return s, err
}

// runBIOSReset sets the BIOS back to its defaults. The BMC's word alone is no success: the BIOS
// is read after the server has started, where the BMC shows it.
func (h *handle) runBIOSReset(ctx context.Context, run hardware.StepRun) (string, error) {
	compared := 0
	b := &biosStep{h: h, run: run}
	b.ask = func(s *biosState) (*request, error) {
		target := string(cmp.Or(s.bios.Actions.Reset.Target, s.settingsBIOS.Actions.Reset.Target))
		if target == "" {
			return nil,
				hardware.Refused(device.CodeCommandRefused, "update the BMC's firmware, see its license, or disable the step",
					"the BMC cannot reset the BIOS: %s has no such action", s.path)
		}
		return &request{Method: http.MethodPost, Path: target}, nil
	}
	b.check = func(s *biosState) (differ []string, comparable bool) {
		compared, differ = notDefault(s.bios.Attributes, s.registry)
		for _, name := range s.pending().names() {
			differ = append(differ, name+" is still pending")
		}
		return differ, compared > 0
	}
	if _, err := b.do(ctx); err != nil {
		return "", err
	}
	if compared > 0 {
		return fmt.Sprintf("the BIOS has its defaults: %d of %d attributes compared; the others are read-only, the "+
			"server's own or without a default", compared, len(b.state.bios.Attributes)), nil
	}
	why := "no attribute has a default"
	if b.state.bios.Attributes == nil {
		why = "its BMC shows no BIOS attributes"
	} else if b.state.registry == nil {
		why = "its BMC has no attribute registry"
	}
	return "asked for the defaults and restarted the server; " + why + ", so there is nothing to verify", nil
}

// runBIOSApply sets the attributes that the step's arguments name. It always sends all of them: those
// that the BIOS shows already may be what a pending reset changes.
func (h *handle) runBIOSApply(ctx context.Context, run hardware.StepRun) (string, error) {
	args, err := parse(run.Args)
	given, ok := plainNumbers(args).(map[string]any)
	if err != nil || !ok || len(given) == 0 {
		return "", hardware.Refused(device.CodeBIOSSettingInvalid,
			"name the attributes in the policy, or with --arg ATTRIBUTE=VALUE", "bios_apply has no attributes to set")
	}
	b := &biosStep{h: h, run: run}
	b.ask = func(s *biosState) (*request, error) {
		if s.bios.Attributes == nil {
			return nil, hardware.Refused(device.CodeBIOSSettingInvalid, "take the BIOS settings of this model out of the policy",
				"the BMC shows no BIOS attributes: none can be set")
		}
		wanted, err := fit(given, s.bios.Attributes, s.registry)
		if err != nil || len(notInForce(s.bios.Attributes, wanted)) == 0 {
			return nil, err
		}
		return s.patch(wanted), nil
	}
	b.check = func(s *biosState) ([]string, bool) {
		wanted, err := fit(given, s.bios.Attributes, s.registry)
		if err != nil {
			return []string{err.Error()}, true
		}
		return notInForce(s.bios.Attributes, wanted), true
	}
	already, err := b.do(ctx)
	if err != nil {
		return "", err
	}
	if already {
		return fmt.Sprintf("not restarted: nothing is pending, and attributes that have their values already: %d",
			len(given)), nil
	}
	return fmt.Sprintf("attributes set, and read after the restart: %d", len(given)), nil
}
