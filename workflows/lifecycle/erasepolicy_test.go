package lifecycle_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"burnish/internal/clean"
	"burnish/internal/device"
	"burnish/workflows/contract"
)

// A device's entry of device_spec decides how it is erased; the policy for all devices is
// only the default, and another one does not replace what the entry says.
//
// S2.105
func TestADevicesOwnErasePolicyComesFirst(t *testing.T) {
	w := newDrive(t, clean.ErasePolicy{})
	w.host.discovery.ClearAction = "zero"
	w.makeAvailable()
	require.Equal(t, device.WriteZeroes, w.view().Operation)
	require.Equal(t, "clear_action=zero", w.view().ErasePolicy)
	require.Contains(t, stepsOf(w.view()), "zero")

	w.erasePolicy(clean.ErasePolicy{Action: clean.ActionSanitize})
	w.rediscoverDrive()
	require.Equal(t, device.WriteZeroes, w.view().Operation, "its own action")
	w.erasePolicy(clean.ErasePolicy{Action: clean.ActionSanitize, Strategy: clean.StrategyBlock})
	w.rediscoverDrive()
	require.Equal(t, device.WriteZeroes, w.view().Operation, "with the strategy of all")
	w.host.discovery.ClearAction = ""
	w.rediscoverDrive()
	require.Equal(t, device.BlockErase, w.view().Operation, "the entry has none any more")
	require.Empty(t, w.view().ErasePolicy)
}

// A locked-in operation is kept while the device is in use, whatever the entry says meanwhile.
//
// S2.26
func TestAnEntrysPolicyReplacesNothingWhileTheDriveIsUsed(t *testing.T) {
	w := newDrive(t, clean.ErasePolicy{})
	w.makeBound("i1")
	w.host.discovery.ClearAction, w.host.discovery.ClearStrategy = "sanitize", "block"
	w.rediscoverDrive()
	require.Equal(t, device.CryptoErase, w.view().Operation)
	require.Equal(t, "clear_action=sanitize clear_strategy=block", w.view().ErasePolicy)
	ok[contract.Result](w.unbind("i1"))
	w.reach(device.Available)
	require.Equal(t, device.CryptoErase, w.view().Cleans[len(w.view().Cleans)-1].Operation)
	w.rediscoverDrive()
	require.Equal(t, device.BlockErase, w.view().Operation, "the next clean's")
}

// Half of the pair comes from the policy for all devices, and together they are
// contradictory, or nothing that the device can do: it is not offered until that is corrected.
func TestHalfAnErasePolicyIsCheckedTogetherWithTheRest(t *testing.T) {
	for name, tt := range map[string]struct {
		global clean.ErasePolicy
		change func(*contract.DiscoveryResult)
		code   device.Code
	}{
		"contradictory": {clean.ErasePolicy{Strategy: clean.StrategyCrypto}, func(r *contract.DiscoveryResult) { r.ClearAction = "zero" }, device.CodeInvalidSetting},
		"unsatisfied": {clean.ErasePolicy{Action: clean.ActionSanitize}, func(r *contract.DiscoveryResult) {
			r.ClearStrategy, r.Capabilities = "block", &device.Capabilities{CryptoErase: true}
		}, device.CodePolicyUnsatisfied},
	} {
		t.Run(name, func(t *testing.T) {
			w := newDrive(t, tt.global)
			w.makeAvailable()
			before := w.host.discovery
			tt.change(&w.host.discovery)
			w.rediscoverDrive()
			w.idle()
			v := w.view()
			require.Equal(t, device.Error, v.DeviceState)
			require.Equal(t, string(tt.code), v.Fault)
			require.Equal(t, 1, w.inventory.reserved)
			require.Equal(t, device.CryptoErase, v.Operation, "nothing is replaced")
			ok[contract.Result](w.ask(contract.VerbClean.Update()))
			require.Equal(t, string(tt.code), w.reach(device.Error).Fault)
			w.host.discovery = before
			w.rediscoverDrive()
			ok[contract.Result](w.ask(contract.VerbClean.Update()))
			w.reach(device.Available)
			w.pass(time.Minute)
		})
	}
}
