package redfish

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/stmcginnis/gofish/redfish"

	"burnish/internal/device"
	"burnish/internal/hardware"
)

// postEnded: POST is over, as far as the BMC says. known is false where it does not say: some have
// no BootProgress, or one that stays None whatever the server does.
func (s *system) postEnded() (ended, known bool) {
	if hpe := s.Oem.Hpe; hpe != nil && !slices.Contains([]string{"", "unknown", "null"}, strings.ToLower(hpe.PostState)) {
		post := slices.Contains([]string{"FinishedPost", "InPostDiscoveryComplete"}, hpe.PostState)
		if d := hpe.DeviceDiscoveryComplete; d != nil && d.DeviceDiscovery != "" {
			return post && d.DeviceDiscovery == "vMainDeviceDiscoveryComplete", true
		}
		return post, true
	}
	switch s.BootProgress.LastState {
	case "", redfish.NoneBootProgressTypes, redfish.OEMBootProgressTypes:
		return false, false
	case redfish.SystemHardwareInitializationCompleteBootProgressTypes, redfish.SetupEnteredBootProgressTypes,
		redfish.OSBootStartedBootProgressTypes, redfish.OSRunningBootProgressTypes:
		return true, true
	}
	return false, true
}

// startedAgo is how long ago the server was started, by the BMC's own clock; false where the BMC
// does not say.
func (s *system) startedAgo() (time.Duration, bool) {
	at, err := time.Parse(time.RFC3339, s.LastResetTime)
	if err != nil || s.now.IsZero() || at.Year() < 2000 {
		return 0, false
	}
	return s.now.Sub(at), true
}

// checkReady refuses a server that is off or in POST: its BMC does not know its drives yet.
func (h *handle) checkReady(s *system) error {
	remedy := "power the server on, wait until POST has ended, then try again"
	if s.PowerState != redfish.OnPowerState {
		return hardware.Refused(device.CodeServerNotReady, remedy,
			"the server is %s: its BMC lists its drives only while it is on", powerWord(s.PowerState))
	}
	ended, known := s.postEnded()
	if known && !ended {
		return hardware.Refused(device.CodeServerNotReady, remedy,
			"the server is in POST: its BMC lists its drives only after it")
	}
	if ago, ok := s.startedAgo(); !known && ok && ago < h.driver.timing.blindPOST {
		return hardware.Refused(device.CodeServerNotReady, "wait for "+h.driver.timing.blindPOST.String()+", then try again",
			"the server was started %v ago, and its BMC does not show when POST has ended", ago.Round(time.Second))
	}
	return nil
}

// postWait is what is known of the POST that is waited for.
type postWait struct {
	// before is the system before the reset that is waited for; nil: there was none. A BMC may
	// show the end of the last POST for a while after a reset: only one whose times have
	// changed, or that has shown POST, has started again; else it is believed after the time in
	// which BMCs show what has come of a request.
	before *system
	// started: the server may have been switched on just now, and the BMC's time of that may
	// be of the start before.
	started bool
}

// ensureOn switches the server on if it is off, and waits for the end of POST.
func (h *handle) ensureOn(ctx context.Context, run hardware.StepRun) error {
	s, err := h.readSystem(ctx)
	if err != nil {
		return err
	}
	on := s.PowerState == redfish.OnPowerState
	if ended, _ := s.postEnded(); on && ended {
		return nil
	}
	if err := h.powerOn(ctx, run); err != nil {
		return err
	}
	return h.waitForPOST(ctx, run, postWait{started: !on})
}

// waitForPOST waits until POST has ended. Where the BMC does not show it, that is so when a start
// takes no longer.
func (h *handle) waitForPOST(ctx context.Context, run hardware.StepRun, w postWait) error {
	t := h.driver.timing
	since, inPOST, on := time.Now(), w.before == nil, time.Time{}
	return h.until(ctx, run, t.post, func() (bool, string, error) {
		s, err := h.readSystem(ctx)
		if err != nil {
			return false, "", err
		}
		ended, known := s.postEnded()
		if hpe := s.Oem.Hpe; w.started && hpe != nil && hpe.PostState == "InPostDiscoveryComplete" {
			known = false // the drives are found, but what is pending may not be in force yet
		}
		switch {
		case s.PowerState != redfish.OnPowerState:
			inPOST, on = true, time.Time{}
		case !known:
			if on.IsZero() {
				on = time.Now()
			}
			ago, ok := s.startedAgo()
			over := time.Since(on) > t.blindPOST || ok && ago > t.blindPOST && !w.started && w.before == nil
			return over, "waits until the server has started: its BMC does not show POST", nil
		case !ended:
			inPOST = true
		case inPOST || s.hasRestarted(w.before) || time.Since(since) > t.settle:
			return true, "", nil
		}
		return false, "waits for the end of POST", nil
	}, stuck("POST has not ended within %v", t.post))
}

// hasRestarted: the BMC's times say that the server has started since before was read.
func (s *system) hasRestarted(before *system) bool {
	return s.LastResetTime != before.LastResetTime || s.BootProgress.LastStateTime != before.BootProgress.LastStateTime
}
