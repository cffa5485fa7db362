package lifecycle_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"burnish/internal/device"
	"burnish/workflows/contract"
)

// This file has what tests do to a device again and again.

// recorded is who has the device by its provider's record.
func (w *deviceEnv) recorded() string {
	if w.inventory.Tenant == nil {
		return "no record"
	}
	return *w.inventory.Tenant
}

func (w *deviceEnv) claim(instance string, within time.Duration) *call {
	return w.send(contract.VerbClaim.Update(), "", contract.BindInput{
		Instance: instance, Request: "r-" + instance, Deadline: w.clock().Add(within).Format(time.RFC3339),
	})
}

func (w *deviceEnv) unclaim(instance string) *call {
	return w.send(contract.VerbUnclaim.Update(), "", contract.BindInput{Instance: instance, Request: "r-" + instance})
}

// makeFailed brings the device into error by a failing step.
func (w *deviceEnv) makeFailed() {
	w.t.Helper()
	w.makeBound("i1")
	w.host.injectFault = func(what string, block int) error {
		if what == "zero" && block == 2 {
			return refuse(device.Permanent, device.CodeIO)
		}
		return nil
	}
	ok[contract.Result](w.unbind("i1"))
	w.reach(device.Error)
	w.host.injectFault = nil
}

// replaceHardware puts other hardware, full of data, into the slot.
func (w *deviceEnv) replaceHardware(serial string) {
	w.host.discovery.Identity.Serial = serial
	w.host.writeAsTenant("unknown data")
}

func (w *deviceEnv) replace(in contract.ReplaceInput) *call {
	return w.send(contract.VerbReplace.Update(), "", in)
}

func (w *deviceEnv) move(to string) *call {
	e := w.enrollment()
	e.Name = to
	return w.send(contract.VerbMove.Update(), "", contract.MoveInput{Enrollment: e})
}

// makeSerialMismatch brings the device into error by a clean that finds other hardware.
func (w *deviceEnv) makeSerialMismatch() {
	w.t.Helper()
	w.makeAvailable()
	w.makeBound("i1")
	w.replaceHardware("S2")
	ok[contract.Result](w.unbind("i1"))
	require.Equal(w.t, string(device.CodeSerialMismatch), w.reach(device.Error).Fault)
	require.Equal(w.t, [blocks]string{"unknown data", "unknown data", "unknown data", "unknown data"}, w.host.blocks,
		"nothing was written")
}

// newNovaDevice is an environment whose device is Nova's, one-time-use.
func newNovaDevice(t *testing.T) *deviceEnv {
	w := newDeviceEnv(t, standardPolicy())
	w.owner, w.oneTimeUse = device.OwnerNova, true
	return w
}

// newPowered is a device with power control.
func newPowered(t *testing.T) *deviceEnv {
	w := newDeviceEnv(t, standardPolicy())
	w.makePowered()
	return w
}

func (w *deviceEnv) makePowered() {
	w.host.discovery.Power = true
	w.host.power = func(action string) (contract.PowerResult, error) {
		return contract.PowerResult{State: map[string]string{"off": "off"}[action]}, nil
	}
}

// hintFromNewerHost is a hint whose record is newer than the workflow's.
func (w *deviceEnv) hintFromNewerHost(change func(*contract.HostDeviceRecord)) contract.Hint {
	h := w.host.hint(w.clock())
	change(h.Host)
	return h
}

func count(all []string, one string) int {
	n := 0
	for _, s := range all {
		if s == one {
			n++
		}
	}
	return n
}
