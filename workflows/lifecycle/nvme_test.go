package lifecycle_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"burnish/internal/clean"
	"burnish/internal/clean/steps"
	"burnish/internal/device"
	"burnish/workflows/contract"
)

// newDrive is an environment whose device is an NVMe drive that can do everything.
func newDrive(t *testing.T, erase clean.ErasePolicy) *deviceEnv {
	t.Helper()
	p := standardPolicy()
	p.NVMe, p.SanitizeStall, p.Wear = erase, time.Hour, device.WearLimits{PercentUsed: 80}
	w := newDeviceEnv(t, p)
	w.host.steps = steps.All().Versions()
	w.host.discovery.Operation, w.host.discovery.Type = "", "NVME"
	w.host.discovery.Layout = device.LayoutWhole
	w.host.discovery.Capabilities = &device.Capabilities{CryptoErase: true, BlockErase: true, WriteZeroes: true,
		ManageNamespaces: true}
	w.host.discovery.Estimates = map[device.Operation]time.Duration{device.CryptoErase: time.Hour}
	w.host.discovery.Identity.Vendor, w.host.discovery.Identity.Product = "8086", "0a54"
	return w
}

// rediscoverDrive makes the host discover the device again.
func (w *deviceEnv) rediscoverDrive() {
	w.signal(contract.SignalRefresh, contract.Hint{})
	w.pass(time.Minute)
}

func (w *deviceEnv) erasePolicy(erase clean.ErasePolicy) {
	p := w.policy
	p.NVMe = erase
	w.setPolicy(p)
	w.nextRun() // by a worker with the new policy
}

func stepsOf(v contract.DeviceStatus) []string {
	var names []string
	for _, s := range v.Cleans[len(v.Cleans)-1].Steps {
		names = append(names, s.Step)
	}
	return names
}

// The operation, type, class and traits are recorded and shown (S2.32, S2.33, S2.15); the steps
// have the policy's limits.
//
// S2.26, S2.34, S2.106
func TestTheResolvedOperationIsRecordedAndShown(t *testing.T) {
	w := newDrive(t, clean.ErasePolicy{})
	e := w.enrollment()
	e.Address, e.Type = "0000:01:00.0", ""
	ok[contract.Result](w.send(contract.VerbEnroll.Update(), "", contract.EnrollInput{Enrollment: e, Provide: true}))
	w.reach(device.Available)
	require.Equal(t, device.CryptoErase, w.view().Operation)
	board := contract.BoardInfo{ProductID: "0a54", PCIAddress: "0000:01:00.0", Operation: device.CryptoErase}
	require.Equal(t, board, w.view().StdBoardInfo)
	require.Equal(t, board, w.publishedMemo.StdBoardInfo, "for listings")
	require.Equal(t, device.CryptoErase, w.publishedMemo.Operation)
	require.Equal(t, "NVME", w.view().Type, "its driver's")
	require.Equal(t, []string{"security_check", "wear_check", "sanitize", "consolidate_namespaces", "verify"},
		stepsOf(w.view()))
	require.True(t, w.host.clean())
	for _, in := range w.host.inputs {
		require.Equal(t, device.CryptoErase, in.Operation)
		require.Equal(t, device.WearLimits{PercentUsed: 80}, in.Settings.Wear)
		require.Equal(t, time.Hour, in.Settings.SanitizeStall)
		if in.Step == "sanitize" {
			require.Equal(t, 2*time.Hour, in.Budget, "twice its own estimate")
		}
	}
	require.Equal(t, e.Name, w.inventory.created.Name)
	require.Equal(t, "CUSTOM_NVME_8086_0A54", w.inventory.created.Class)
	require.Contains(t, w.inventory.created.Traits, "HW_NVME_CES")
	require.Contains(t, w.inventory.created.Traits, "HW_NVME_WZS")
}

// A new policy does not replace the operation of a device that is in use; in error it does
// (S2.29).
//
// S2.28, S2.99
func TestANewPolicyReplacesNothingWhileTheDriveIsUsed(t *testing.T) {
	w := newDrive(t, clean.ErasePolicy{})
	w.makeBound("i1")
	w.erasePolicy(clean.ErasePolicy{Action: clean.ActionZero})
	w.rediscoverDrive()
	require.Equal(t, device.CryptoErase, w.view().Operation)
	w.host.injectFault = func(what string, _ int) error {
		if what == "sanitize" {
			return refuse(device.NeedsOperator, device.CodeSanitizeFailed)
		}
		return nil
	}
	ok[contract.Result](w.unbind("i1"))
	w.reach(device.Error)
	require.Equal(t, device.CryptoErase, w.view().Operation, "no fallback to another operation")
	// The operator's retry has the same operation …
	w.host.injectFault = func(what string, _ int) error {
		require.NotEqual(t, "zero", what)
		if what == "sanitize" {
			return refuse(device.NeedsOperator, device.CodeSanitizeFailed)
		}
		return nil
	}
	ok[contract.Result](w.ask(contract.VerbClean.Update()))
	w.reach(device.Error)
	// … until discovery in error has replaced it.
	w.host.injectFault = nil
	w.rediscoverDrive()
	require.Equal(t, device.WriteZeroes, w.view().Operation)
	ok[contract.Result](w.ask(contract.VerbClean.Update()))
	w.reach(device.Available)
	require.Contains(t, stepsOf(w.view()), "zero")
	require.NotContains(t, stepsOf(w.view()), "sanitize")
}

// A drive that cannot satisfy the policy is refused at enrollment, and later taken out of the
// pool. It is never returned as one that nothing can clean (D4), although it is not one-time-use.
//
// S2.25, S2.98
func TestAPolicyThatCannotBeSatisfiedExcludes(t *testing.T) {
	t.Run("at enrollment", func(t *testing.T) {
		w := newDrive(t, clean.ErasePolicy{Action: clean.ActionSanitize})
		w.host.discovery.Capabilities = &device.Capabilities{WriteZeroes: true}
		w.enroll(true).refused(device.CodePolicyUnsatisfied)
		w.pass(time.Minute)
		require.False(t, w.live)
		require.False(t, w.host.known, "the host has no record of it")
	})
	t.Run("while it is offered", func(t *testing.T) {
		w := newDrive(t, clean.ErasePolicy{})
		w.host.discovery.Capabilities = &device.Capabilities{WriteZeroes: true}
		w.makeAvailable()
		w.erasePolicy(clean.ErasePolicy{Strategy: clean.StrategyCrypto})
		w.rediscoverDrive()
		w.idle()
		v := w.view()
		require.Equal(t, device.Error, v.DeviceState)
		require.Equal(t, string(device.CodePolicyUnsatisfied), v.Fault)
		require.Equal(t, 1, w.inventory.reserved)
		ok[contract.Result](w.ask(contract.VerbClean.Update()))
		require.Equal(t, string(device.CodePolicyUnsatisfied), w.reach(device.Error).Fault)
		// The configuration is corrected.
		w.erasePolicy(clean.ErasePolicy{})
		w.rediscoverDrive()
		ok[contract.Result](w.ask(contract.VerbClean.Update()))
		w.reach(device.Available)
		require.Len(t, w.defects, 1, "an error is logged")
		require.Contains(t, w.defects[0], "the erase policy excludes the device")
	})
	t.Run("while it is bound", func(t *testing.T) {
		w := newDrive(t, clean.ErasePolicy{})
		w.makeBound("i1")
		w.erasePolicy(clean.ErasePolicy{Action: clean.ActionZero})
		w.host.discovery.Capabilities = &device.Capabilities{}
		w.rediscoverDrive()
		w.turnOver("i1")
		require.Equal(t, device.CryptoErase, w.view().Cleans[len(w.view().Cleans)-1].Operation, "the recorded operation")
	})
}

// A drive that is recovered by its host while it cannot satisfy the policy is not returned
// uncleaned.
//
// D4
func TestADriveWithoutAnOperationIsNeverReturnedUncleaned(t *testing.T) {
	w := newDrive(t, clean.ErasePolicy{})
	w.makeBound("i1")
	w.host.discovery.Capabilities = &device.Capabilities{}
	w.erasePolicy(clean.ErasePolicy{Action: clean.ActionSanitize})
	w.terminate()
	w.pass(time.Minute)
	w.reach(device.Allocated)
	ok[contract.Result](w.unbind("i1"))
	v := w.reach(device.Error)
	require.Equal(t, string(device.CodePolicyUnsatisfied), v.Fault)
	require.False(t, v.NotSanitized)
	require.Equal(t, 1, w.inventory.reserved)
}

func TestAChangedLayoutTakesTheDeviceOutOfTheOffer(t *testing.T) {
	w := newDrive(t, clean.ErasePolicy{})
	w.makeAvailable()
	w.host.discovery.Layout = device.LayoutSplit
	w.rediscoverDrive()
	w.idle()
	v := w.view()
	require.Equal(t, device.Error, v.DeviceState)
	require.Equal(t, string(device.CodeNamespaceLayoutMismatch), v.Fault)
	require.True(t, v.Dirty)
	require.Equal(t, 1, w.inventory.reserved)
}

// A worn drive is quarantined until a check finds it within its limits.
//
// S0.32
func TestAWornDriveIsQuarantined(t *testing.T) {
	w := newDrive(t, clean.ErasePolicy{})
	w.makeBound("i1")
	w.host.injectFault = func(what string, _ int) error {
		if what == "wear_check" {
			return refuse(device.NeedsOperator, device.CodeWearLimitExceeded)
		}
		return nil
	}
	ok[contract.Result](w.unbind("i1"))
	v := w.reach(device.Error)
	require.Equal(t, string(device.MaintenanceQuarantined), v.MaintenanceReason)
	require.True(t, v.NeedsOperator)
	require.False(t, w.host.clean(), "nothing was erased")
	ended := ok[contract.Result](w.send(contract.VerbMaintain.Update(), "", contract.MaintenanceInput{Off: true}))
	require.False(t, ended.Already)
	require.False(t, ended.Device.Maintenance, "the operator ends a quarantine")
	ok[contract.Result](w.ask(contract.VerbClean.Update()))
	require.Equal(t, string(device.MaintenanceQuarantined), w.reach(device.Error).MaintenanceReason)
	w.host.injectFault = nil
	ok[contract.Result](w.ask(contract.VerbClean.Update()))
	v = w.reach(device.Available)
	require.False(t, v.Maintenance)
}

// Discovery enrolls a device as manageable; the operator's `enroll --provide` then provides it.
func TestEnroll_ProvidesADiscoveredDevice(t *testing.T) {
	w := newDrive(t, clean.ErasePolicy{})
	ok[contract.Result](w.enroll(false))
	require.Equal(t, device.Manageable, w.view().DeviceState)
	require.False(t, ok[contract.Result](w.enroll(true)).Already)
	w.reach(device.Available)
	require.True(t, ok[contract.Result](w.enroll(true)).Already)
}
