package lifecycle_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"burnish/internal/device"
	"burnish/internal/testkit/inventorysim"
	"burnish/workflows/contract"
)

var ann = contract.Caller{By: "ann (42)", From: "192.0.2.7"}

// verbs are those of the device's acts.
func (w *deviceEnv) verbs() (verbs []string) {
	w.t.Helper()
	for _, a := range w.view().Acts {
		verbs = append(verbs, strings.TrimSpace(a.Verb+" "+a.Detail))
	}
	return verbs
}

// lastAct is the newest.
func (w *deviceEnv) lastAct() contract.Act {
	w.t.Helper()
	acts := w.view().Acts
	require.NotEmpty(w.t, acts)
	return acts[len(acts)-1]
}

// The device keeps who did what, from where, when and why.
func TestActsAreKept(t *testing.T) {
	w := newAvailable(t)
	w.pass(time.Minute)
	at := w.clock().Truncate(time.Second)
	c := w.send(contract.VerbMaintain.Update(), "", contract.MaintenanceInput{Reason: "a new\nfan", Caller: ann})
	ok[contract.Result](c)
	last := w.lastAct()
	require.WithinDuration(t, at, last.At, 2*time.Second)
	require.Zero(t, last.At.Nanosecond()%int(time.Millisecond))
	last.At = time.Time{}
	require.Equal(t, contract.Act{Verb: "maintain", By: "ann (42)", From: "192.0.2.7", Reason: "a new fan", Request: c.id},
		last)
	ok[contract.Result](w.maintain(true))
	require.Equal(t, []string{"enroll provide", "maintain", "maintain off"}, w.verbs())
	ok[contract.Result](w.bind("i1", "r1"))
	w.turnOver("i1")
	w.nextRun()
	require.Equal(t, []string{"enroll provide", "maintain", "maintain off", "bind i1", "unbind i1"}, w.verbs(),
		"in a later run too")
}

// A request that is refused leaves no act, a repeated one leaves one, and one that has nothing
// to change leaves none.
func TestActsAreThoseThatChangedSomething(t *testing.T) {
	w := newAvailable(t)
	before := w.verbs()
	w.cleanUp().refused(device.CodeRefused)
	ok[contract.Result](w.ask(contract.VerbProvide.Update()))
	require.Equal(t, before, w.verbs())
	c := w.ask(contract.VerbManage.Update())
	ok[contract.Result](c)
	ok[contract.Result](w.ask(contract.VerbManage.Update()))
	ok[contract.Result](w.send(c.verb, c.id, c.in))
	w.nextRun()
	ok[contract.Result](w.send(c.verb, c.id, c.in))
	require.Equal(t, append(before, "manage"), w.verbs())
}

// An act that was accepted and failed says so.
func TestActsThatFailedSayWhy(t *testing.T) {
	w := newAvailable(t)
	w.inventory.InjectFault = inventorysim.Times(1, "PutReserved", true, inventorysim.Fails(device.NeedsOperator, device.CodeInventoryInvalid))
	w.bind("i1", "r1").refused(device.CodeInventoryInvalid)
	require.Equal(t, device.CodeInventoryInvalid, w.lastAct().Fault)
	w.reach(device.Available)
}

// The clean signal is an act too, unless it is refused.
func TestActsOfTheCleanSignal(t *testing.T) {
	w := newDeviceEnv(t, standardPolicy())
	w.makeFailed()
	w.idle()
	before := w.verbs()
	w.signal(contract.SignalClean, contract.CleanInput{Reason: "again", Caller: ann})
	w.signal(contract.SignalClean, contract.CleanInput{Reason: "twice", Caller: ann})
	w.reach(device.Available)
	require.Equal(t, append(before, "clean"), w.verbs())
	require.Equal(t, "again", w.lastAct().Reason)
}

// The last 20 acts are kept, with bounded texts.
func TestActsAreBounded(t *testing.T) {
	w := newAvailable(t)
	for i := range 15 {
		ok[contract.Result](w.send(contract.VerbMaintain.Update(), "",
			contract.MaintenanceInput{Reason: fmt.Sprint("hold ", i)}))
		ok[contract.Result](w.maintain(true))
	}
	acts := w.view().Acts
	require.Len(t, acts, 20)
	require.Equal(t, "hold 5", acts[0].Reason)
	long := strings.Repeat("ä", 1000)
	for range 12 {
		ok[contract.Result](w.send(contract.VerbMaintain.Update(), "",
			contract.MaintenanceInput{Reason: long, Caller: contract.Caller{By: long, From: long}}))
		ok[contract.Result](w.maintain(true))
	}
	acts = w.view().Acts
	size := 0
	for _, a := range acts {
		size += len(a.By) + len(a.From) + len(a.Reason) + len(a.Request)
	}
	require.LessOrEqual(t, size, 20*5*contract.KeptActText)
	require.Len(t, acts, 20)
	require.Equal(t, strings.Repeat("ä", 98)+"…", acts[len(acts)-2].Reason)
}

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
