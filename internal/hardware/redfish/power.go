package redfish

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/stmcginnis/gofish/redfish"

	"burnish/internal/device"
	"burnish/internal/hardware"
)

// powerWord is a power state for an operator.
func powerWord(s redfish.PowerState) string {
	if s == "" {
		return "in an unknown power state"
	}
	return strings.ToLower(string(s))
}

// PowerState reads the power state; see hardware.PowerController.
func (h *handle) PowerState(ctx context.Context) (string, error) {
	s, err := h.readSystem(ctx)
	if err != nil {
		return "", h.notFound(err)
	}
	return powerWord(s.PowerState), nil
}

// Power changes the power state; see hardware.PowerController. The operating system is asked
// to shut down first, and switched off if it does not.
func (h *handle) Power(ctx context.Context, action string) error {
	if !h.writable {
		return hardware.CallerError("%s was opened for reading only", h.target.Name)
	}
	run := hardware.StepRun{Step: "power", MayGoOn: func() error { return nil },
		Progress: func(int, string) error { return nil }}
	var err error
	switch action {
	case hardware.PowerOn:
		err = h.powerOn(ctx, run)
	case hardware.PowerOff:
		err = h.shutdown(ctx, run)
	case hardware.PowerReset:
		if err = h.powerOff(ctx, run); err == nil {
			err = h.powerOn(ctx, run)
		}
	default:
		err = hardware.Invalid("the power action must be on, off or reset, not %q", action)
	}
	return refused(err)
}

// shutdown asks the operating system to shut down, and switches the server off where it does
// not within its time: a GracefulShutdown may do nothing.
func (h *handle) shutdown(ctx context.Context, run hardware.StepRun) error {
	s, err := h.readSystem(ctx)
	if err != nil || s.PowerState == redfish.OffPowerState {
		return err
	}
	if slices.Contains(s.Actions.Reset.Allowed, string(redfish.GracefulShutdownResetType)) &&
		s.PowerState == redfish.OnPowerState {
		if err := h.reset(ctx, run, s, redfish.GracefulShutdownResetType); err != nil {
			return err
		}
		off, err := h.becomes(ctx, run, redfish.OffPowerState, h.driver.timing.graceful)
		if off || err != nil {
			return err
		}
	}
	return h.powerOff(ctx, run)
}

// powerOn switches the server on; one that is on stays so.
func (h *handle) powerOn(ctx context.Context, run hardware.StepRun) error {
	err := h.powerTo(ctx, run, redfish.OnPowerState, redfish.OnResetType, redfish.ForceOnResetType,
		redfish.PushPowerButtonResetType)
	h.off = h.off && err != nil
	return err
}

// powerOff switches the server off; one that is off stays so.
func (h *handle) powerOff(ctx context.Context, run hardware.StepRun) error {
	h.off = h.wasOn
	return h.powerTo(ctx, run, redfish.OffPowerState, redfish.ForceOffResetType, redfish.PushPowerButtonResetType)
}

// switchOnAgain switches a server on again that a failed step has found on and switched off. A step whose
// context has ended is another attempt's to continue.
func (h *handle) switchOnAgain(ctx context.Context, run hardware.StepRun) error {
	if ctx.Err() != nil || !h.off {
		return nil //nolint:nilerr // the step's own error says so
	}
	h.patience = h.driver.timing.look
	if err := h.powerOn(ctx, run); err != nil {
		return fmt.Errorf("the step has switched the server off, and it could not be switched on again: %w", err)
	}
	return nil
}

// powerTo brings the server into a power state and waits for it. Where the state does not change after a
// request, the request is sent again: it asks for a state, and a server that is in it refuses.
func (h *handle) powerTo(ctx context.Context, run hardware.StepRun, want redfish.PowerState,
	ways ...redfish.ResetType) error {
	t, began := h.driver.timing, time.Now()
	for tries := 0; ; tries++ {
		s, err := h.readSystem(ctx)
		if err != nil || s.PowerState == want {
			return err
		}
		if tries > 0 && time.Since(began) > t.power {
			return hardware.Refused(device.CodeNoProgress, "see the server's console, then clean it again",
				"the server has not become %s within %v: it is %s%s", powerWord(want), t.power, powerWord(s.PowerState),
				h.resetRefusal)
		}
		if s.PowerState != redfish.PoweringOnPowerState && s.PowerState != redfish.PoweringOffPowerState {
			if err := h.reset(ctx, run, s, ways...); err != nil {
				return err
			}
		}
		if is, err := h.becomes(ctx, run, want, t.settle); is || err != nil {
			return err
		}
	}
}

// becomes waits until the server is in this power state, for so long at most.
func (h *handle) becomes(ctx context.Context, run hardware.StepRun, want redfish.PowerState,
	within time.Duration) (is bool, err error) {
	err = h.until(ctx, run, within, func() (bool, string, error) {
		s, err := h.readSystem(ctx)
		is = err == nil && s.PowerState == want
		return is, "waits until the server is " + powerWord(want), err
	}, nil)
	return is, err
}

// reset sends the first of these resets that the server has. That it is so already is no
// error, and neither is a lost answer: the caller waits for the state.
func (h *handle) reset(ctx context.Context, run hardware.StepRun, s *system, ways ...redfish.ResetType) error {
	target := string(s.Actions.Reset.Target)
	if target == "" {
		return hardware.Refused(device.CodeCommandRefused, "see the BMC's license and the rights of the secret's user",
			"the BMC offers no reset of %s", h.system)
	}
	way := ways[0]
	allowed, err := h.allowedValues(ctx, s.Actions.Reset.Allowed, s.Actions.Reset.ActionInfo, "ResetType")
	if err != nil {
		return err
	}
	if len(allowed) > 0 {
		i := slices.IndexFunc(ways, func(w redfish.ResetType) bool { return slices.Contains(allowed, string(w)) })
		if i < 0 {
			return hardware.Refused(device.CodeCommandRefused, "change the power state by hand",
				"the BMC has none of the resets %v, only %v", ways, allowed)
		}
		way = ways[i]
	}
	if _, err := h.waitUntilNothingWrites(ctx, run, s); err != nil {
		return err
	}
	if err := h.progress(run, h.percent, "sends the reset "+string(way)); err != nil {
		return err
	}
	_, err = h.change(ctx, request{Method: http.MethodPost, Path: target, Body: map[string]any{"ResetType": way}})
	h.resetRefusal = ""
	refusal, answered := asRefusal(err)
	if isLost(err) || answered && (refusal.Status < 300 || refusal.Status >= http.StatusInternalServerError ||
		slices.Contains([]int{http.StatusConflict, http.StatusBadRequest}, refusal.Status)) {
		h.resetRefusal = "; " + err.Error()
		return nil // on when on, off when off, or unknown: the caller reads the state
	}
	return err
}

// look is what the BMC showed at one time: it is read once for all that is decided from it.
type look struct {
	system  *system
	tasks   []*task
	service *updateService // nil: the BMC shows none
	bios    *biosState     // nil: not read, or none to see
}

// waitUntilNothingWrites waits for the end of what a change of the power state would
// interrupt, and gives the look that has found nothing. An operator's request does not wait: it is
// refused. s is the system where it was just read.
func (h *handle) waitUntilNothingWrites(ctx context.Context, run hardware.StepRun, s *system) (now *look, err error) {
	var busy error
	err = h.until(ctx, run, h.busyPatience, func() (bool, string, error) {
		now, busy = h.checkNothingWrites(ctx, s)
		s = nil
		if f, ok := device.AsFault(busy); ok && f.Code == device.CodeTargetBusy {
			return false, "waits: " + f.Message, nil
		}
		return true, "", busy
	}, func() error { return busy })
	return now, err
}

// checkNothingWrites refuses with target_busy while firmware is written or a drive is erased,
// by ours or another's task: a change of the power state then destroys the one and stops the
// other. What waits for the next reset does not count.
func (h *handle) checkNothingWrites(ctx context.Context, s *system) (_ *look, err error) {
	if s == nil {
		if s, err = h.readSystem(ctx); err != nil {
			return nil, err
		}
	}
	now := &look{system: s}
	if now.tasks, err = h.tasks(ctx); err != nil {
		return nil, err
	}
	if i := slices.IndexFunc(now.tasks, func(t *task) bool { return !t.waits }); i >= 0 {
		return nil, hardware.Busy("the BMC's task %s is running, %d %%: the power state is not changed meanwhile",
			now.tasks[i], now.tasks[i].PercentComplete)
	}
	// There may be no update service, or no license for it. Only an iLO says what it is doing.
	switch now.service, err = h.readUpdateService(ctx); {
	case ignoreRefusal(err) != nil:
		return nil, err
	case err != nil:
		now.service = nil
	case now.service.busy() != "":
		return nil, hardware.Busy("the BMC's update service is %s: the power state is not changed meanwhile",
			now.service.busy())
	}
	doing, err := h.driveOperations(ctx, s)
	if err == nil && doing != "" {
		err = hardware.Busy("%s: the power state is not changed meanwhile", doing)
	}
	return now, err
}

// driveOperations is what one of the system's drives is doing, "" for nothing. A BMC without a
// task for an erase shows it there. Drives that it does not give say nothing.
func (h *handle) driveOperations(ctx context.Context, s *system) (string, error) {
	if s.PowerState == redfish.OffPowerState {
		return "", nil
	}
	listed, err := h.listedDrives(ctx, s)
	if err != nil {
		return "", ignoreRefusal(err)
	}
	for _, shown := range listed {
		if err := ignoreRefusal(h.get(ctx, shown.path, shown)); err != nil {
			return "", err
		}
		if o := (&drive{Shown: []*driveResource{shown}}).operation(); o != nil {
			return fmt.Sprintf("the drive %s is being worked on (%s, %d %%)", strings.TrimSpace(shown.SerialNumber),
				hardware.OneLine(o.OperationName), o.PercentageComplete), nil
		}
	}
	return "", nil
}

// ignoreRefusal drops the refusal of a read. In POST, a BMC does not know its drives.
func ignoreRefusal(err error) error {
	if refusedRead(err) {
		return nil
	}
	return err
}
