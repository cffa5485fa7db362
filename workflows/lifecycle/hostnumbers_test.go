package lifecycle_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"burnish/internal/device"
	"burnish/workflows/contract"
)

// rollBack makes the host know one more clean than the workflow, as after the server's
// database was put back to before it.
func (w *deviceEnv) rollBack(lastStep string) {
	h := w.host
	last := h.inputs[len(h.inputs)-1]
	h.record.Seq, h.record.Clean = last.Seq+3, last.Number+1
	h.journal = journal{clean: "the clean after the rollback", step: lastStep, seq: last.Seq + 3, done: true,
		offset: blocks}
	h.journal.result = contract.StepResult{Step: lastStep, Clean: "the clean after the rollback", Seq: last.Seq + 3}
}

// A workflow that was put back to an earlier moment gives out a number that its host knows.
// It continues with the host's numbers, and uses none of them for another step.
//
// F26
func TestTheHostsNumbersAreTakenOver(t *testing.T) {
	for _, step := range []string{"zero", "verify"} {
		w := newBound(t)
		w.host.writeAsTenant("i1")
		before := len(w.host.inputs)
		w.rollBack(step)
		known := w.host.record
		ok[contract.Result](w.unbind("i1"))
		v := w.reach(device.Available)
		require.True(t, w.host.clean())
		var used []int64
		for _, in := range w.host.inputs[before:] {
			used = append(used, in.Seq)
		}
		require.Equal(t, []int64{known.Seq - 2, known.Seq + 1, known.Seq + 3}, used,
			"zero has a second number, for a verify in its activity")
		last := v.Cleans[len(v.Cleans)-1]
		require.Equal(t, known.Clean+1, last.Number, "the number of a clean that the host knows is used again")
		require.Len(t, last.Steps, 2)
	}
}

// The database is put back to a clean that waits for its host's discovery, and the host has worked for a
// later tenant since: the clean was reserved before that, and does not begin.
//
// F26, F36
func TestACleanThatItsHostHasOvertakenDoesNotBegin(t *testing.T) {
	w := newAvailable(t)
	w.host.up = false
	w.terminate()
	w.until("the discovery", func() bool {
		v, calls := w.view(), w.scheduledActivities
		return w.runs == 2 && v.DeviceState == device.PendingCleaning && calls[len(calls)-1] == contract.ActivityDiscover
	})
	tenant := "i2"
	w.inventory.tenant = &tenant
	w.inventory.rest = device.Record{Witness: device.WitnessBound, Tenant: tenant, Bindings: 1, Cleans: 9}
	w.inventory.generation += 5
	w.host.record.Seq, w.host.record.Clean = w.host.record.Seq+3, 9
	w.host.writeAsTenant(tenant)
	w.host.restart()
	v := w.reach(device.Allocated)
	require.Equal(t, tenant, *v.InstanceUUID)
	w.pass(time.Hour)
	require.Equal(t, tenant, w.host.blocks[0], "it was erased")
	ok[contract.Result](w.unbind(tenant))
	w.requireReturned()
}

// F26
func TestAResultOfOtherWorkDoesNotCount(t *testing.T) {
	for what, change := range map[string]func(*contract.StepResult){
		"another step":       func(r *contract.StepResult) { r.Step = "verify" },
		"no step":            func(r *contract.StepResult) { r.Step = "" },
		"another clean":      func(r *contract.StepResult) { r.Clean += "/1" },
		"another scheduling": func(r *contract.StepResult) { r.Seq-- },
	} {
		t.Run(what, func(t *testing.T) {
			w := newBound(t)
			w.host.misreport = func(r *contract.StepResult) {
				if r.Step == "zero" {
					change(r)
				}
			}
			ok[contract.Result](w.unbind("i1"))
			v := w.reach(device.Error)
			require.Equal(t, string(device.CodeResultMismatch), v.Fault)
			require.True(t, v.NeedsOperator)
			require.True(t, v.Dirty)
			require.Equal(t, 1, w.inventory.reserved)
			w.host.misreport = nil
			w.nextRun()
			ok[contract.Result](w.cleanUp())
			w.reach(device.Available)
		})
	}
}
