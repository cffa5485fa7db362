package lifecycle_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"burnish/internal/device"
	"burnish/workflows/contract"
)

var ann = contract.Caller{By: "ann (42)", From: "192.0.2.7"}

// A key stands for one request: another body under it is refused, in a later run too.
func TestARequestKeyStandsForOneBody(t *testing.T) {
	w := newAvailable(t)
	in := contract.MaintenanceInput{Reason: "fan"}
	first, other := contract.RequestID("k1", []byte("fan")), contract.RequestID("k1", []byte("disk"))
	ok[contract.Result](w.send(contract.VerbMaintain.Update(), first, in))
	for range 2 {
		w.send(contract.VerbMaintain.Update(), other, contract.MaintenanceInput{Reason: "disk"}).
			refused(device.CodeRequestReused)
		ok[contract.Result](w.send(contract.VerbMaintain.Update(), first, in))
		w.nextRun()
	}
	ok[contract.Result](w.send(contract.VerbMaintain.Update(), contract.RequestID("k2", []byte("disk")),
		contract.MaintenanceInput{Reason: "disk"}))
	require.Contains(t, w.view().MaintenanceReason, "disk")
}

// An enrollment is remembered by its request too: repeated much later, it provides nothing.
func TestRepeated_EnrollmentProvidesOnce(t *testing.T) {
	w := newDeviceEnv(t, standardPolicy())
	c := w.enroll(true)
	ok[contract.Result](c)
	w.reach(device.Available)
	ok[contract.Result](w.ask(contract.VerbManage.Update()))
	w.nextRun()
	ok[contract.Result](w.send(c.verb, c.id, c.in))
	w.pass(time.Hour)
	require.Equal(t, device.Manageable, w.view().DeviceState)
}
