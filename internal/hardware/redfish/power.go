package redfish

import (
	"context"
	"net/http"
	"slices"
	"strings"

	"github.com/stmcginnis/gofish/redfish"

	"burnish/internal/device"
	"burnish/internal/hardware"
)

// powerRun is what a change of the power state reports to: the running step.
type powerRun = hardware.StepRun

// postEnded: POST is over, as far as the BMC says. known is false where it does not say.
func (s *system) postEnded() (ended, known bool) {
	if hpe := s.hpe(); hpe != nil && hpe.PostState != "" {
		post := slices.Contains([]string{"FinishedPost", "InPostDiscoveryComplete"}, hpe.PostState)
		if d := hpe.DeviceDiscoveryComplete; d != nil && d.DeviceDiscovery != "" {
			return post && strings.HasSuffix(d.DeviceDiscovery, "DiscoveryComplete"), true
		}
		return post, true
	}
	switch s.BootProgress.LastState {
	case "":
		return false, false
	case redfish.SystemHardwareInitializationCompleteBootProgressTypes, redfish.SetupEnteredBootProgressTypes,
		redfish.OSBootStartedBootProgressTypes, redfish.OSRunningBootProgressTypes:
		return true, true
	}
	return false, true
}

// checkReady refuses a server that is off or in POST: its BMC does not know its drives yet.
func checkReady(s *system) error {
	remedy := "power the server on, wait until POST has ended, then try again"
	if s.PowerState != redfish.OnPowerState {
		return hardware.Refused(device.CodeServerNotReady, remedy, "the server is %s: its BMC lists its drives only while it is on", strings.ToLower(string(s.PowerState)))
	}
	if ended, known := s.postEnded(); known && !ended {
		return hardware.Refused(device.CodeServerNotReady, remedy, "the server is in POST: its BMC lists its drives only after it")
	}
	return nil
}

// ensureOn switches the server on if it is off, and waits for the end of POST.
func (h *handle) ensureOn(ctx context.Context, run powerRun) error {
	s, err := h.c.readSystem(ctx, h.system)
	if err != nil {
		return err
	}
	if s.PowerState != redfish.OnPowerState {
		if err := h.powerOn(ctx, run); err != nil {
			return err
		}
	}
	return h.waitForPOST(ctx, run, nil)
}

// restart resets the server, or switches it on where it is off, and waits for the end of POST.
func (h *handle) restart(ctx context.Context, run powerRun) error {
	before, err := h.c.readSystem(ctx, h.system)
	if err != nil {
		return err
	}
	if before.PowerState == redfish.OffPowerState {
		if err := h.powerOn(ctx, run); err != nil {
			return err
		}
		return h.waitForPOST(ctx, run, before)
	}
	if err := h.reset(ctx, run, before, redfish.ForceRestartResetType, redfish.PowerCycleResetType, redfish.GracefulRestartResetType); err != nil {
		return err
	}
	return h.waitForPOST(ctx, run, before)
}

// powerOn switches the server on; one that is on stays so.
func (h *handle) powerOn(ctx context.Context, run powerRun) error {
	return h.powerTo(ctx, run, redfish.OnPowerState, redfish.OnResetType, redfish.ForceOnResetType, redfish.PushPowerButtonResetType)
}

// powerOff switches the server off; one that is off stays so.
func (h *handle) powerOff(ctx context.Context, run powerRun) error {
	return h.powerTo(ctx, run, redfish.OffPowerState, redfish.ForceOffResetType, redfish.PushPowerButtonResetType)
}

// powerTo brings the server into a power state and waits for it.
func (h *handle) powerTo(ctx context.Context, run powerRun, want redfish.PowerState, ways ...redfish.ResetType) error {
	waiting := h.c.bmc.timing.wait(h.c.bmc.timing.power)
	defer waiting.stop()
	sent := false
	for {
		s, err := h.c.readSystem(ctx, h.system)
		if err != nil {
			return err
		}
		if s.PowerState == want {
			return nil
		}
		if !sent && s.PowerState != redfish.PoweringOnPowerState && s.PowerState != redfish.PoweringOffPowerState {
			if err := h.reset(ctx, run, s, ways...); err != nil {
				return err
			}
			sent = true
		}
		if err := h.progress(run, h.percent, "waits until the server is "+strings.ToLower(string(want))); err != nil {
			return err
		}
		if again, err := waiting.next(ctx, 0); err != nil {
			return err
		} else if !again {
			return hardware.Refused(device.CodeNoProgress, "see the server's console, then clean it again",
				"the server has not become %s within %v: it is %s", want, h.c.bmc.timing.power, s.PowerState)
		}
	}
}

// reset sends the first of these resets that the server has. That it is so already is no
// error, and neither is a lost answer: the caller waits for the state.
func (h *handle) reset(ctx context.Context, run powerRun, s *system, ways ...redfish.ResetType) error {
	if err := h.checkNothingWrites(ctx); err != nil {
		return err
	}
	target := h.c.path(s.Actions.Reset.Target)
	if target == "" {
		return hardware.Refused(device.CodeCommandRefused, "see the BMC's license and the rights of the secret's user", "the BMC offers no reset of %s", h.system)
	}
	way := ways[0]
	if len(s.Actions.Reset.Allowed) > 0 {
		i := slices.IndexFunc(ways, func(w redfish.ResetType) bool { return slices.Contains(s.Actions.Reset.Allowed, w) })
		if i < 0 {
			return hardware.Refused(device.CodeCommandRefused, "change the power state by hand", "the BMC has none of the resets %v, only %v", ways, s.Actions.Reset.Allowed)
		}
		way = ways[i]
	}
	if err := h.progress(run, h.percent, "sends the reset "+string(way)); err != nil {
		return err
	}
	_, err := h.change(ctx, request{Method: http.MethodPost, Path: target, Body: map[string]any{"ResetType": way}})
	if isLost(err) || hasStatus(err, http.StatusConflict) || hasStatus(err, http.StatusBadRequest) {
		return nil //nolint:nilerr // on when on, off when off: the caller reads the state
	}
	return err
}

// checkNothingWrites refuses a change of the power state while a task runs on the BMC, ours or
// another's: firmware may be being written, or a drive erased.
func (h *handle) checkNothingWrites(ctx context.Context) error {
	all, err := h.c.tasks(ctx)
	if err != nil {
		return err
	}
	for _, t := range all {
		if t.active() && t.TaskState != redfish.PendingTaskState && t.TaskState != redfish.NewTaskState {
			return hardware.Busy("the BMC's task %s (%s) is running, %d %%: the power state is not changed meanwhile", t.ODataID, t.Name, t.PercentComplete)
		}
	}
	return nil
}

// waitForPOST waits until POST has ended. before is the system before the reset that is waited
// for; nil: there was none.
func (h *handle) waitForPOST(ctx context.Context, run powerRun, before *system) error {
	waiting := h.c.bmc.timing.wait(h.c.bmc.timing.post)
	defer waiting.stop()
	for {
		s, err := h.c.readSystem(ctx, h.system)
		if err != nil {
			return err
		}
		ended, known := s.postEnded()
		if s.PowerState == redfish.OnPowerState && (ended || !known) && (before == nil || s.hasRestarted(before)) {
			return nil
		}
		if err := h.progress(run, h.percent, "waits for the end of POST"); err != nil {
			return err
		}
		if again, err := waiting.next(ctx, 0); err != nil {
			return err
		} else if !again {
			return hardware.Refused(device.CodeNoProgress, "see the server's console, then clean it again",
				"POST has not ended within %v", h.c.bmc.timing.post)
		}
	}
}

// hasRestarted: the server has begun to start since before was read, as far as the BMC says.
func (s *system) hasRestarted(before *system) bool {
	if s.LastResetTime != "" && before.LastResetTime != "" {
		return s.LastResetTime != before.LastResetTime
	}
	if s.BootProgress.LastStateTime != "" && before.BootProgress.LastStateTime != "" {
		return s.BootProgress.LastStateTime != before.BootProgress.LastStateTime
	}
	return true
}
