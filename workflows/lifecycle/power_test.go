package lifecycle_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/temporal"

	"burnish/internal/device"
	"burnish/workflows/contract"
)

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

func (w *deviceEnv) setPower(action, instance string) *call {
	return w.send(contract.VerbPower.Update(), "",
		contract.PowerInput{Target: action, Instance: instance, Caller: contract.Caller{By: "test"}})
}

// S3.28, S3.29
func TestPowerByState(t *testing.T) {
	for name, tt := range map[string]struct {
		lead    func(*deviceEnv)
		allowed bool
	}{
		"manageable":       {func(w *deviceEnv) { ok[contract.Result](w.enroll(false)) }, true},
		"available":        {func(w *deviceEnv) { w.makeAvailable() }, true},
		"claimed":          {func(w *deviceEnv) { w.makeAvailable(); ok[contract.Result](w.claim("i1", time.Hour)) }, false},
		"error":            {func(w *deviceEnv) { w.makeFailed() }, true},
		"retired":          {func(w *deviceEnv) { w.makeAvailable(); ok[contract.Result](w.ask(contract.VerbRetire.Update())) }, true},
		"cleaning":         {func(w *deviceEnv) { w.makeBound("i1"); ok[contract.Result](w.unbind("i1")); w.stepRuns("verify") }, false},
		"pending cleaning": {func(w *deviceEnv) { w.makeBound("i1"); ok[contract.Result](w.unbind("i1")) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := newPowered(t)
			tt.lead(w)
			c := w.setPower("off", "")
			if !tt.allowed {
				c.refused(device.CodeRefused)
				require.Empty(t, w.host.powerCalls, "nothing reached the hardware")
				return
			}
			require.Equal(t, "power off was carried out; the device is off", ok[contract.Result](c).Note)
			require.Equal(t, []string{"off"}, w.host.powerCalls)
		})
	}
}

// F31
func TestPowerOfABoundDeviceNamesItsInstance(t *testing.T) {
	w := newPowered(t)
	w.makeBound("i1")
	w.setPower("reset", "").refused(device.CodeInUse)
	w.setPower("reset", "i2").refused(device.CodeInUse)
	require.Empty(t, w.host.powerCalls)
	ok[contract.Result](w.setPower("reset", "i1"))
	require.Equal(t, []string{"reset"}, w.host.powerCalls)
	require.Equal(t, "i1", *w.view().InstanceUUID)
	w.setPower("burn", "i1").refused(device.CodeInvalid)
}

// A reset is sent at most once, also where its answer was lost; on and off are repeated.
func TestAResetIsSentOnce(t *testing.T) {
	w := newPowered(t)
	ok[contract.Result](w.enroll(false))
	lost := true
	w.host.power = func(action string) (contract.PowerResult, error) {
		switch {
		case action == "":
			return contract.PowerResult{State: "on"}, nil
		case lost && action == "on":
			lost = false
			return contract.PowerResult{}, refuse(device.Transient, device.CodeWorkerRestarted)
		case lost:
			return contract.PowerResult{}, temporal.NewTimeoutError(enumspb.TIMEOUT_TYPE_HEARTBEAT, nil)
		}
		return contract.PowerResult{State: action}, nil
	}
	r := w.setPower("reset", "").refused(device.CodePowerUnknown)
	require.Contains(t, r.Fault.Message, "whether the device was reset is not known")
	require.Contains(t, r.Fault.Message, "it is on now")
	require.Equal(t, []string{"reset", ""}, w.host.powerCalls)
	ok[contract.Result](w.setPower("on", ""))
	require.Equal(t, []string{"reset", "", "on", "on"}, w.host.powerCalls)

	// What the hardware refuses is known.
	w.host.power = func(string) (contract.PowerResult, error) {
		return contract.PowerResult{}, refuse(device.NeedsOperator, device.CodeTargetBusy)
	}
	w.setPower("reset", "").refused(device.CodeTargetBusy)
	// A host that is away got nothing.
	w.host.up = false
	calls := len(w.host.powerCalls)
	w.setPower("reset", "").refused(device.CodeHostUnreachable)
	require.Len(t, w.host.powerCalls, calls)
}

// A request of a device without power control is refused.
func TestADeviceWithoutPowerControl(t *testing.T) {
	w := newDeviceEnv(t, standardPolicy())
	ok[contract.Result](w.enroll(false))
	c := w.setPower("on", "").wait()
	require.ErrorContains(t, c.err, "power")
	require.NotContains(t, w.scheduledActivities, contract.ActivityPower)
}
