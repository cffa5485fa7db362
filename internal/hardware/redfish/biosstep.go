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

// biosStep is one run of a step that changes the BIOS.
type biosStep struct {
	cycle
	// want is the request for what is wanted, decided from what the BMC shows now; nil: it is in force.
	want func(s *biosState) (*request, error)
	// compare compares what is in force with what was wanted. It gives the differences, and
	// whether there was something to compare.
	compare func(s *biosState) (differ []string, comparable bool)

	state *biosState // as last read
}

func (h *handle) biosStep(run hardware.StepRun) *biosStep {
	return &biosStep{cycle: cycle{h: h, run: run, name: run.Step}}
}

// ask asks for what is wanted until the BMC has accepted it. What others want is taken back before,
// and so is what an earlier attempt has asked for without an answer: it may not have arrived.
func (b *biosStep) ask(ctx context.Context) (asked bool, err error) {
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
		r, err := b.want(b.state)
		if err != nil || r == nil {
			return err == nil, "", err
		}
		got, err := b.h.change(ctx, *r)
		if err == nil {
			asked, b.rec.Work = true, work{Target: r.Path, Task: b.h.taskOf(got)}
			return true, "", nil
		}
		if isLost(err) || mayBeAskedAgain(err) {
			why, err = hardware.OneLine(err.Error()), nil
		}
		return false, "asks for the BIOS settings: " + why, err
	}, func() error { return stuck("the BIOS settings could not be asked for: %s", why)() })
	return asked, err
}

// check compares what is in force after the restart. A failure of our own task that can be read in
// the BIOS is no error by itself. What an earlier attempt has found right counts only while the BIOS still shows
// it: another step may have changed it.
func (b *biosStep) check(ctx context.Context) (done bool, err error) {
	if b.rec.Stage != stageRestarted && b.rec.Stage != stageDone {
		return false, nil
	}
	if b.state, err = b.h.readBIOS(ctx); err != nil {
		return false, err
	}
	differ, comparable := b.compare(b.state)
	if b.rec.Stage == stageDone {
		return len(differ) == 0 && len(b.state.jobs) == 0, nil
	}
	b.rec.Work.doing = "change of the BIOS"
	_, failed := b.h.follow(ctx, &b.rec.Work, func() error { return nil })
	fault, is := device.AsFault(failed)
	switch {
	case failed != nil && (!is || fault.Code != device.CodeStepFailed || !comparable):
		return false, failed
	case len(differ) > 0:
		why := ""
		if failed != nil {
			why = ": " + fault.Message
		}
		return false, hardware.Refused(device.CodeBIOSMismatch, "see the BMC's log and the server's console, correct the "+
			"cause, then clean the server", "after the server has started, its BIOS differs: %s%s", listed(differ), why)
	}
	return true, b.save(stageDone)
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
	b := h.biosStep(run)
	b.want = func(s *biosState) (*request, error) {
		target := string(cmp.Or(s.bios.Actions.Reset.Target, s.settingsBIOS.Actions.Reset.Target))
		if target == "" {
			return nil,
				hardware.Refused(device.CodeCommandRefused, "update the BMC's firmware, see its license, or disable the step",
					"the BMC cannot reset the BIOS: %s has no such action", s.path)
		}
		return &request{Method: http.MethodPost, Path: target}, nil
	}
	b.compare = func(s *biosState) (differ []string, comparable bool) {
		compared, differ = notDefault(s.bios.Attributes, s.registry)
		for _, name := range s.pending().names() {
			differ = append(differ, name+" is still pending")
		}
		return differ, compared > 0
	}
	if err := b.do(ctx, b.check, b.ask); err != nil {
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
	b := h.biosStep(run)
	b.want = func(s *biosState) (*request, error) {
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
	b.compare = func(s *biosState) ([]string, bool) {
		wanted, err := fit(given, s.bios.Attributes, s.registry)
		if err != nil {
			return []string{err.Error()}, true
		}
		return notInForce(s.bios.Attributes, wanted), true
	}
	if err := b.do(ctx, b.check, b.ask); err != nil {
		return "", err
	}
	if b.restarts() == 0 {
		return fmt.Sprintf("not restarted: nothing is pending, and attributes that have their values already: %d",
			len(given)), nil
	}
	return fmt.Sprintf("attributes set, and read after the restart: %d", len(given)), nil
}
