package lifecycle_test

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"burnish/internal/api/approval"
	"burnish/internal/device"
	"burnish/workflows/contract"
)

// overrideKey signs as the API does.
var overrideKey = func() *approval.Key {
	key, err := approval.NewKey(bytes.Repeat([]byte("k"), 32))
	if err != nil {
		panic(err)
	}
	return key
}()

// makeUncleanable has a one-time-use device in state error that nothing can erase, with the
// data of i1.
func (w *deviceEnv) makeUncleanable() {
	w.t.Helper()
	w.signatures, w.oneTimeUse = overrideKey, true
	w.makeAvailable()
	w.host.discovery.Operation = ""
	w.signal(contract.SignalRefresh, contract.Hint{})
	w.pass(time.Minute)
	w.makeBound("i1")
	ok[contract.Result](w.unbind("i1"))
	w.reach(device.Error)
	w.idle()
}

// signed is the act as the API sends it for a principal; change alters the claims that it signs.
func (w *deviceEnv) signed(who string, in contract.OverrideInput,
	change ...func(*contract.OverrideClaims)) contract.OverrideInput {
	w.t.Helper()
	v := w.view()
	require.NotNil(w.t, v.Override, "it shows no numbers")
	in.Principal, in.By = "token:"+who, who
	c := in.Claims(v.UUID, *v.Override.Numbers, v.Override.Pending)
	for _, each := range change {
		each(&c)
	}
	in.Signature = overrideKey.Sign(c)
	return in
}

func (w *deviceEnv) newOverride(id string) contract.OverrideInput {
	return contract.OverrideInput{ID: id, Reason: "the drive is needed", ExpiresAt: w.clock().Add(time.Hour)}
}

func (w *deviceEnv) override(in contract.OverrideInput) *call {
	return w.send(contract.VerbOverride.Update(), "", in)
}

// overrideNow returns a device in state error without a clean.
func (w *deviceEnv) overrideNow() {
	w.t.Helper()
	id := fmt.Sprint("o", w.updatesSent)
	w.requestOverride(id)
	ok[contract.Result](w.override(w.signed("bob", contract.OverrideInput{Approve: id})))
}

// requestOverride has alice request an override.
func (w *deviceEnv) requestOverride(id string) {
	w.t.Helper()
	r := ok[contract.Result](w.override(w.signed("alice", w.newOverride(id))))
	require.NotNil(w.t, r.Device.Override, "it was requested, and the device shows nothing")
	require.NotNil(w.t, r.Device.Override.Pending, "it was requested, and does not wait for its approval")
	require.Equal(w.t, id, r.Device.Override.Pending.ID)
}

// refusedUnseen checks that a refusal left no event in the history.
func (c *call) refusedUnseen(code device.Code) contract.Refusal {
	c.w.t.Helper()
	r := c.refused(code)
	require.False(c.w.t, c.accepted, "the refused update is in the history")
	return r
}

// A one-time-use device that nothing can erase has a way out: two principals return it without
// a clean. It is reserved and read first, its host sees it, and everything that shows it says
// that it is not sanitized, and by whom.
//
// D2, S3.21, F4, F5, F24, F27
func TestOverride(t *testing.T) {
	w := newDeviceEnv(t, standardPolicy())
	w.makeUncleanable()
	w.requestOverride("x1")
	v := w.view()
	require.Equal(t, device.Error, v.DeviceState, "one principal changes nothing")
	require.Equal(t, 1, w.inventory.Reserved)
	require.Equal(t, "alice", v.Override.Pending.RequestedBy)

	w.override(w.signed("alice", contract.OverrideInput{Approve: "x1"})).refusedUnseen(device.CodeSamePrincipal)
	unsigned := w.signed("bob", contract.OverrideInput{Approve: "x1"})
	unsigned.Signature = nil
	w.override(unsigned).refusedUnseen(device.CodeOverrideUnsigned)

	w.nextRun() // the request survives
	calls := len(w.scheduledActivities)
	r := ok[contract.Result](w.override(w.signed("bob", contract.OverrideInput{Approve: "x1"})))
	require.Equal(t, device.Cleaning, r.Device.DeviceState)
	v = w.reach(device.Available)
	w.idle()
	require.Equal(t, []string{contract.ActivityEnsureReserved, contract.ActivityDiscover, contract.ActivityUnreserve},
		w.scheduledActivities[calls:])
	require.Zero(t, w.inventory.Reserved)
	require.Empty(t, w.recorded(), "the tenant's record is removed")
	w.requireMatchingGenerations()

	require.True(t, v.NotSanitized)
	require.False(t, v.Dirty)
	require.False(t, v.Maintenance)
	require.Empty(t, v.Fault)
	require.Nil(t, v.Override.Pending)
	require.Equal(t, "the drive is needed", v.Override.Approved.Reason)
	require.Equal(t, []string{"alice", "token:alice", "bob", "token:bob"},
		[]string{v.Override.Approved.RequestedBy, v.Override.Approved.RequestedAs,
			v.Override.Approved.ApprovedBy, v.Override.Approved.ApprovedAs})
	last := v.Cleans[len(v.Cleans)-1]
	require.Equal(t, "overridden", last.Outcome)
	require.Equal(t, v.Override.Approved, last.Override)
	require.True(t, w.publishedMemo.NotSanitized)
	require.Equal(t, []string{"alice", "bob"}, []string{v.Acts[len(v.Acts)-2].By, v.Acts[len(v.Acts)-1].By})

	// The next tenant's data are another matter.
	ok[contract.Result](w.bind("i2", "r2"))
	w.host.discovery.Operation = newFakeHost().discovery.Operation
	w.signal(contract.SignalRefresh, contract.Hint{})
	w.pass(time.Minute)
	ok[contract.Result](w.unbind("i2"))
	v = w.reach(device.Available)
	require.False(t, v.NotSanitized, "a full clean ends it")
	require.Nil(t, v.Override)
}

// Without the API's key there are no overrides.
//
// D2
func TestOverrideIsOff(t *testing.T) {
	w := newDeviceEnv(t, standardPolicy())
	w.makeUncleanable()
	in := w.signed("alice", w.newOverride("x1"))
	w.signatures = nil
	w.nextRun()
	r := w.override(in).refusedUnseen(device.CodeOverrideOff)
	require.Contains(t, r.Fault.Remedy, "BURNISH_API_KEY")
	require.Nil(t, w.view().Override.Pending)
}

// While an overridden device waits for its return, Nova re-creates its provider, as free, and an
// instance uses it: two principals have accepted other data, and it is cleaned.
//
// D2, F28
func TestOverrideAcceptsNoLaterData(t *testing.T) {
	w := newNovaDevice(t)
	w.signatures, w.oneTimeUse = overrideKey, true
	w.makeAvailable()
	w.allocatedByNova("c1")
	w.failStep("verify", 0, device.CodeIO)
	w.inventory.Free("c1")
	w.hintReconcile()
	w.reach(device.Error)
	w.idle()
	w.host.up = false
	w.overrideNow()
	w.pass(10 * time.Minute)
	require.Equal(t, device.Cleaning, w.view().DeviceState, "it waits for its host")
	w.requireNotOfferedAfterUse("c-used")
	w.recreateProvider(true)
	w.hintReconcile()
	w.pass(time.Minute)
	w.host.injectFault = nil
	w.host.restart()
	w.requireReturned()
	require.False(t, w.view().NotSanitized)
}

// A call of the inventory was asked for while the device was in error. Its override is approved, and an
// instance uses the device and leaves, before the call is carried out: its answer does not explain
// that use. The device is cleaned.
//
// D2, F28, F34
func TestOverrideIsNotExplainedByAnEarlierCall(t *testing.T) {
	read := contract.ActivityReadReservation
	for name, c := range map[string]struct {
		activity string
		ask      func(*deviceEnv)
	}{
		"a reservation": {contract.ActivityEnsureReserved, func(w *deviceEnv) {
			w.inventory.WriteByOther(0)
			w.hintReconcile()
		}},
		"a read":              {read, (*deviceEnv).hintReconcile},
		"the read of manage":  {read, func(w *deviceEnv) { w.ask(contract.VerbManage.Update()) }},
		"the read of retire":  {read, func(w *deviceEnv) { w.ask(contract.VerbRetire.Update()) }},
		"the read of release": {read, func(w *deviceEnv) { w.unbind("c1") }},
	} {
		for use, another := range map[string]bool{"under the same provider": false, "under another provider": true} {
			t.Run(name+", "+use, func(t *testing.T) {
				w := newNovaDevice(t)
				w.signatures, w.oneTimeUse = overrideKey, true
				w.makeAvailable()
				w.allocatedByNova("c1")
				w.failStep("verify", 0, device.CodeIO)
				w.inventory.Free("c1")
				w.hintReconcile()
				w.reach(device.Error)
				w.idle()
				w.host.injectFault = nil
				w.requestOverride("x1")
				approval := w.signed("bob", contract.OverrideInput{Approve: "x1"})
				w.requireNotOfferedAfterUse("c2")

				began := false
				w.lag = func(activity string) (before, after time.Duration) {
					if activity != c.activity || began {
						return time.Millisecond, time.Millisecond
					}
					began = true
					return 20 * time.Second, time.Millisecond
				}
				c.ask(w)
				w.until("the call", func() bool { return began })
				ok[contract.Result](w.override(approval))
				if another {
					w.inventory.Recreate("again")
				} else if w.inventory.Reserved == 1 {
					w.inventory.WriteByOther(0)
				}
				w.allocateUnseen("c2")
				w.inventory.Free("c2")
				w.returned()
				require.True(t, w.host.clean(), w.describe())
				require.False(t, w.view().NotSanitized)
			})
		}
	}
}
