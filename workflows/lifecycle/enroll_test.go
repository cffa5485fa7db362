package lifecycle_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"burnish/internal/device"
	"burnish/workflows/contract"
)

// A refused enrollment leaves nothing behind: the workflow fails. A completed workflow means that
// its device was forgotten.
func TestEnroll_RefusedEndsTheWorkflow(t *testing.T) {
	for name, c := range map[string]struct {
		lead func(*deviceEnv)
		in   func(*contract.Enrollment)
		code device.Code
	}{
		"no worker polls for the host": {func(w *deviceEnv) { w.host.crash() }, nil, device.CodeHostUnreachable},
		"the host refuses it": {func(w *deviceEnv) {
			w.host.injectFault = func(string, int) error { return refuse(device.NeedsOperator, device.CodeNotAllowed) }
		}, nil, device.CodeNotAllowed},
		"the host fails again and again": {func(w *deviceEnv) {
			w.host.injectFault = func(string, int) error { return refuse(device.Transient, device.CodeStateDirError) }
		}, nil, device.CodeStateDirError},
		"another name": {func(*deviceEnv) {}, func(e *contract.Enrollment) { e.Name = "d2" }, device.CodeInvalid},
		"the inventory refuses it": {func(w *deviceEnv) {
			w.inventory.injectFault = func(string, bool) error {
				return fault(device.NeedsOperator, device.CodeInventoryInvalid)()
			}
		}, nil, device.CodeInventoryInvalid},
		"the inventory is unavailable": {func(w *deviceEnv) {
			w.inventory.injectFault = func(string, bool) error { return lostAnswer() }
		}, nil, device.CodeInventoryUnavailable},
	} {
		t.Run(name, func(t *testing.T) {
			w := newDeviceEnv(t, standardPolicy())
			c.lead(w)
			e := w.enrollment()
			if c.in != nil {
				c.in(&e)
			}
			enroll := w.send(contract.VerbEnroll.Update(), "", contract.EnrollInput{Enrollment: e, Provide: true})
			w.within(time.Hour, "the end", func() bool { return !w.live })
			enroll.refused(c.code)
			ended, is := contract.RefusalOf(w.finishErr)
			require.True(t, is, "failed, not completed: %v", w.finishErr)
			require.Equal(t, c.code, ended.Fault.Code)
			require.False(t, w.host.known, "the host has no record of it")
			require.Empty(t, w.host.inputs)
			require.Zero(t, w.upserts+w.memos, "never shown as a device")
		})
	}
}

// A refused enrollment and a valid one at the same time: the valid one succeeds.
func TestEnroll_SecondRequestInTime(t *testing.T) {
	w := newDeviceEnv(t, standardPolicy())
	first := true
	w.host.injectFault = func(string, int) error {
		if first {
			first = false
			return refuse(device.NeedsOperator, device.CodeNotAllowed)
		}
		return nil
	}
	a, b := w.enroll(false), w.enroll(false)
	a.refused(device.CodeNotAllowed)
	ok[contract.Result](b)
	w.pass(time.Minute)
	require.True(t, w.live)
	require.Equal(t, device.Manageable, w.view().DeviceState)
}

func TestEnroll_IsIdempotent(t *testing.T) {
	w := newDeviceEnv(t, standardPolicy())
	a, b := w.enroll(true), w.enroll(true)
	require.False(t, ok[contract.Result](a).Already)
	require.True(t, ok[contract.Result](b).Already)
	require.Equal(t, 1, count(w.scheduledActivities, "Discover"))
	w.reach(device.Available)
	w.nextRun()
	w.idle()
	names := len(w.scheduledActivities)
	require.True(t, ok[contract.Result](w.enroll(true)).Already)
	w.makeBound("i1")
	require.True(t, ok[contract.Result](w.enroll(true)).Already)
	require.Len(t, w.scheduledActivities, names+1, "the bind's own ReserveForBind")
	require.Equal(t, device.Allocated, w.view().DeviceState)
}

// The same name with other settings is refused.
//
// F13
func TestEnrollWithOtherSettingsIsRefused(t *testing.T) {
	w := newDeviceEnv(t, standardPolicy())
	ok[contract.Result](w.enroll(false))
	for name, change := range map[string]func(*contract.Enrollment){
		"driver":      func(e *contract.Enrollment) { e.Driver = "block" },
		"host":        func(e *contract.Enrollment) { e.Host = "h2" },
		"address":     func(e *contract.Enrollment) { e.Address = "0000:01:00.0" },
		"owner":       func(e *contract.Enrollment) { e.Owner = device.OwnerNova },
		"settings":    func(e *contract.Enrollment) { e.Settings = map[string]string{"path": "/dev/other"} },
		"fewer":       func(e *contract.Enrollment) { e.Settings = nil },
		"one-time":    func(e *contract.Enrollment) { e.OneTimeUse = true },
		"more of it":  func(e *contract.Enrollment) { e.Settings = map[string]string{"path": "/dev/d1", "x": "y"} },
		"the host up": func(e *contract.Enrollment) { e.Host, e.Driver = "H1", "other" },
	} {
		e := w.enrollment()
		change(&e)
		before := w.view()
		w.send(contract.VerbEnroll.Update(), "", contract.EnrollInput{Enrollment: e, Provide: true}).
			refused(device.CodeAlreadyExists)
		require.Equal(t, before, w.view(), name)
	}
	e := w.enrollment()
	e.Settings = nil
	r := w.send(contract.VerbEnroll.Update(), "", contract.EnrollInput{Enrollment: e}).refused(device.CodeAlreadyExists)
	require.Contains(t, r.Fault.Message, "other settings: path=/dev/d1")
	e = w.enrollment()
	e.Host = "H1"
	require.True(t, ok[contract.Result](w.send(contract.VerbEnroll.Update(), "", contract.EnrollInput{Enrollment: e})).
		Already)
}

// Before it is enrolled a device accepts only enroll.
func TestEnroll_ComesFirst(t *testing.T) {
	w := newDeviceEnv(t, standardPolicy())
	w.host.injectFault = func(string, int) error { return refuse(device.Transient, device.CodeStateDirError) }
	enroll := w.enroll(false)
	w.pass(time.Second / 2)
	w.bind("i1", "r1").refused(device.CodeNotFound)
	w.ask(contract.VerbForget.Update()).refused(device.CodeNotFound)
	w.signal(contract.SignalClean, nil)
	w.signal(contract.SignalRefresh, contract.Hint{})
	w.host.injectFault = nil
	ok[contract.Result](enroll)
	require.Equal(t, device.Manageable, w.view().DeviceState)
}

// The numbers continue from the host's record of an earlier enrollment.
//
// F10
func TestNumbersNeverGoBack(t *testing.T) {
	w := newDeviceEnv(t, standardPolicy())
	w.host.record = contract.HostDeviceRecord{Binding: 7, Clean: 9, Seq: 40}
	w.makeAvailable()
	require.Greater(t, w.host.inputs[0].Seq, int64(40))
	require.Greater(t, w.host.inputs[0].Number, 9)
	require.Equal(t, 8, w.makeBound("i1"))
}

// A fake device is never in an inventory from which schedulers allocate.
//
// F13
func TestFakeDeviceIsRefusedInARealInventory(t *testing.T) {
	for _, imported := range []bool{false, true} {
		for _, owner := range owners {
			w := newDeviceEnv(t, standardPolicy())
			w.calls.Real, w.owner = true, owner
			e := w.enrollment()
			e.Driver = "fake"
			code := device.CodeNotAllowed
			if imported && owner == device.OwnerSelf {
				code = device.CodeInvalid
			}
			w.send(contract.VerbEnroll.Update(), "", contract.EnrollInput{Enrollment: e, Import: imported}).refused(code)
			require.Empty(t, w.inventory.writes)
		}
	}
}

// A use that ends between the read of manage, maintain or retire and its reservation still
// counts: the device is cleaned.
//
// D9
func TestReleasedBetweenTheReadAndTheReservation(t *testing.T) {
	for i, verb := range []string{contract.VerbManage.Update(), contract.VerbMaintain.Update(),
		contract.VerbRetire.Update(), contract.VerbManage.Update()} {
		w := newNovaDevice(t).available()
		require.True(t, w.inventory.allocate("c1"))
		if i == 3 {
			w.inventory.writeByOther(1)
		}
		w.host.writeAsTenant("c1")
		w.inventory.injectFault = func(call string, after bool) error {
			if call == "Reservation" && after {
				w.inventory.free("c1")
			}
			return nil
		}
		w.ask(verb).refused(device.CodeInUse)
		w.pass(time.Minute)
		w.hintReconcile()
		w.requireReturned()
	}
}

// What is not enrolled cannot be retired, and its path is more likely wrong than gone.
func TestEnrollOfAMissingPathNamesTheEnrollment(t *testing.T) {
	for said, want := range map[string]string{
		"put the device back, or retire it":              "correct the path or address in the enrollment, or attach the device to host h1, then enroll it again",
		"check the server's drives, and enroll it again": "check the server's drives, and enroll it again",
	} {
		w := newDeviceEnv(t, standardPolicy())
		w.host.injectFault = func(string, int) error {
			return contract.Refuse(
				contract.Refusal{Fault: device.Fault{Class: device.NeedsOperator, Code: device.CodeTargetMissing,
					Message: "no /dev/sdx", Remedy: said}})
		}
		enroll := w.send(contract.VerbEnroll.Update(), "", contract.EnrollInput{Enrollment: w.enrollment()})
		w.within(time.Hour, "the end", func() bool { return !w.live })
		enroll.refused(device.CodeTargetMissing)
		ended, is := contract.RefusalOf(w.finishErr)
		require.True(t, is)
		require.Equal(t, want, ended.Fault.Remedy)
	}
}
