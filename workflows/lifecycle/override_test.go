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
	require.Equal(t, 1, w.inventory.reserved)
	require.Equal(t, "alice", v.Override.Pending.RequestedBy)

	w.nextRun() // the request survives
	calls := len(w.scheduledActivities)
	r := ok[contract.Result](w.override(w.signed("bob", contract.OverrideInput{Approve: "x1"})))
	require.Equal(t, device.Cleaning, r.Device.DeviceState)
	v = w.reach(device.Available)
	w.idle()
	require.Equal(t, []string{contract.ActivityEnsureReserved, contract.ActivityDiscover, contract.ActivityUnreserve},
		w.scheduledActivities[calls:])
	require.Zero(t, w.inventory.reserved)
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

// Root and the worker's user are two principals of a unix socket, and may be one person.
//
// D2
func TestUsersOfASocketAreOnePerson(t *testing.T) {
	w := newDeviceEnv(t, standardPolicy())
	w.makeUncleanable()
	as := func(id string, in contract.OverrideInput) *call {
		signed := w.signed("x", in, func(c *contract.OverrideClaims) { c.Principal = id })
		signed.Principal = id
		return w.override(signed)
	}
	ok[contract.Result](as("unix:0", w.newOverride("x1")))
	as("unix:990", contract.OverrideInput{Approve: "x1"}).refusedUnseen(device.CodeSamePrincipal)
	ok[contract.Result](as("token:bob", contract.OverrideInput{Approve: "x1"}))
}

// Nothing but the right signature of the API, for another principal, in time and for this
// device as it is, is an approval; a refusal leaves no trace.
//
// D2
func TestOverrideRefused(t *testing.T) {
	approve := contract.OverrideInput{Approve: "x1"}
	for name, c := range map[string]struct {
		send func(w *deviceEnv) contract.OverrideInput
		code device.Code
	}{
		"the same principal": {func(w *deviceEnv) contract.OverrideInput { return w.signed("alice", approve) }, device.CodeSamePrincipal},
		"the same principal in capitals": {func(w *deviceEnv) contract.OverrideInput { return w.signed("ALICE", approve) },
			device.CodeSamePrincipal},
		"no signature": {func(w *deviceEnv) contract.OverrideInput {
			in := w.signed("bob", approve)
			in.Signature = nil
			return in
		}, device.CodeOverrideUnsigned},
		"another principal's signature": {func(w *deviceEnv) contract.OverrideInput {
			in := w.signed("bob", approve)
			in.Principal = "token:carol"
			return in
		}, device.CodeOverrideUnsigned},
		"no principal": {func(w *deviceEnv) contract.OverrideInput {
			return contract.OverrideInput{Approve: "x1"}
		}, device.CodeOverrideUnsigned},
		"another device's signature": {func(w *deviceEnv) contract.OverrideInput {
			return w.signed("bob", approve, func(c *contract.OverrideClaims) { c.Device = contract.DeviceUUID("d2") })
		}, device.CodeOverrideUnsigned},
		"the signature of a request": {func(w *deviceEnv) contract.OverrideInput {
			return w.signed("bob", approve, func(c *contract.OverrideClaims) { c.Act = contract.OverrideRequest })
		}, device.CodeOverrideUnsigned},
		"an altered reason": {func(w *deviceEnv) contract.OverrideInput {
			return w.signed("bob", approve, func(c *contract.OverrideClaims) { c.Reason = "another one" })
		}, device.CodeOverrideUnsigned},
		"an altered expiry": {func(w *deviceEnv) contract.OverrideInput {
			return w.signed("bob", approve, func(c *contract.OverrideClaims) { c.ExpiresAt = c.ExpiresAt.Add(time.Hour) })
		}, device.CodeOverrideUnsigned},
		"an earlier clean": {func(w *deviceEnv) contract.OverrideInput {
			return w.signed("bob", approve, func(c *contract.OverrideClaims) { c.Numbers.Clean-- })
		}, device.CodeOverrideUnsigned},
		"another request": {func(w *deviceEnv) contract.OverrideInput {
			return w.signed("bob", contract.OverrideInput{Approve: "x2"})
		}, device.CodeNotFound},
		"with a reason of its own": {func(w *deviceEnv) contract.OverrideInput {
			return w.signed("bob", contract.OverrideInput{Approve: "x1", Reason: "mine"})
		}, device.CodeInvalid},
		"a request without a reason": {func(w *deviceEnv) contract.OverrideInput {
			return w.signed("bob", contract.OverrideInput{ID: "x2", Reason: " ", ExpiresAt: w.clock().Add(time.Hour)})
		}, device.CodeInvalid},
		"a request without an expiry": {func(w *deviceEnv) contract.OverrideInput {
			return w.signed("bob", contract.OverrideInput{ID: "x2", Reason: "r"})
		}, device.CodeInvalid},
		"a request that has expired": {func(w *deviceEnv) contract.OverrideInput {
			return w.signed("bob", contract.OverrideInput{ID: "x2", Reason: "r", ExpiresAt: w.clock()})
		}, device.CodeInvalid},
		"a request for longer than a day": {func(w *deviceEnv) contract.OverrideInput {
			return w.signed("bob",
				contract.OverrideInput{ID: "x2", Reason: "r", ExpiresAt: w.clock().Add(24*time.Hour + time.Minute)})
		}, device.CodeInvalid},
		"an unsigned request": {func(w *deviceEnv) contract.OverrideInput { return w.newOverride("x2") }, device.CodeOverrideUnsigned},
	} {
		t.Run(name, func(t *testing.T) {
			w := newDeviceEnv(t, standardPolicy())
			w.makeUncleanable()
			w.requestOverride("x1")
			w.override(c.send(w)).refusedUnseen(c.code)
			require.Equal(t, device.Error, w.view().DeviceState)
			require.Equal(t, 1, w.inventory.reserved)
			require.Equal(t, "x1", w.view().Override.Pending.ID, "the request still waits")
		})
	}
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

// Only a device in state error can be overridden: in every other state the update is refused.
func TestOverrideOnlyFromError(t *testing.T) {
	w := newDeviceEnv(t, standardPolicy())
	w.makeUncleanable()
	in := w.signed("alice", w.newOverride("x1"))
	ok[contract.Result](w.ask(contract.VerbManage.Update()))
	require.Nil(t, w.view().Override, "it shows nothing to sign")
	w.override(in).refusedUnseen(device.CodeRefused)
}

// A requested override ends when the device changes, or at its expiry; maintenance is no change.
//
// D2
func TestPendingOverrideEnds(t *testing.T) {
	for name, change := range map[string]func(*deviceEnv){
		"manage": func(w *deviceEnv) { ok[contract.Result](w.ask(contract.VerbManage.Update())) },
		"clean": func(w *deviceEnv) {
			w.host.discovery.Operation = newFakeHost().discovery.Operation
			w.signal(contract.SignalRefresh, contract.Hint{})
			w.pass(time.Minute)
			ok[contract.Result](w.cleanUp())
		},
		"expiry":  func(w *deviceEnv) { w.pass(time.Hour + time.Second) },
		"another": func(w *deviceEnv) { w.requestOverride("x2") },
		"a newer host": func(w *deviceEnv) {
			h := w.host.hint(w.clock())
			h.Host.Clean += 7
			w.signal(contract.SignalObserved, h)
			w.pass(time.Minute)
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newDeviceEnv(t, standardPolicy())
			w.makeUncleanable()
			w.requestOverride("x1")
			late := w.signed("bob", contract.OverrideInput{Approve: "x1"})
			ok[contract.Result](w.maintain(false))
			require.NotNil(t, w.view().Override.Pending)
			change(w)
			if o := w.view().Override; o != nil && o.Pending != nil {
				require.Equal(t, "x2", o.Pending.ID)
			}
			w.override(late).wait()
			require.Error(t, w.open[len(w.open)-1].err)
			require.Equal(t, 1, w.inventory.reserved)
		})
	}
}

// A request that was dropped is not repeated by its signature, although the device has come
// back to error without another clean or binding.
//
// D2
func TestDroppedOverrideIsNotRepeated(t *testing.T) {
	w := newDeviceEnv(t, standardPolicy())
	w.makeUncleanable()
	request := w.signed("alice", w.newOverride("x1"))
	before := *w.view().Override.Numbers
	ok[contract.Result](w.override(request))
	ok[contract.Result](w.ask(contract.VerbManage.Update()))
	ok[contract.Result](w.ask(contract.VerbProvide.Update()))
	now := *w.reach(device.Error).Override.Numbers
	require.Equal(t, []any{before.Since, before.Clean, before.Binding}, []any{now.Since, now.Clean, now.Binding})
	w.override(request).refusedUnseen(device.CodeOverrideUnsigned)
}

// The numbers that a signature is over change with each binding and each failed clean: what
// was signed for the device before does not return it after it.
//
// D2
func TestOverrideNumbersFollowTheDevice(t *testing.T) {
	w := newDeviceEnv(t, standardPolicy())
	w.signatures = overrideKey
	w.makeBound("i1")
	w.failStep("zero", 0, device.CodeIO)
	ok[contract.Result](w.unbind("i1"))
	v := w.reach(device.Error)
	numbers := *v.Override.Numbers
	require.Equal(t, v.CreatedAt, numbers.Since.Truncate(time.Second),
		"it is another one when the workflow is begun again")
	require.Equal(t, []int{2, 1, 0}, []int{numbers.Clean, numbers.Binding, numbers.Override})
	before := w.signed("alice", contract.OverrideInput{ID: "x1", Reason: "r", ExpiresAt: w.clock().Add(23 * time.Hour)})
	ok[contract.Result](w.cleanUp())
	w.until("the next failed clean", func() bool {
		return w.view().DeviceState == device.Error &&
			w.activitiesInFlight == 0
	})
	w.override(before).refusedUnseen(device.CodeOverrideUnsigned)
}

// Signatures that were read in the history never count again: not for the next request, not
// after the next failed clean, not once the device has come back to error without one, and not
// for a workflow that was begun again.
//
// D2
func TestOverrideSignaturesCountOnce(t *testing.T) {
	for name, again := range map[string]func(*deviceEnv){
		"after the next failed clean": func(w *deviceEnv) {
			ok[contract.Result](w.bind("i2", "r2"))
			w.host.writeAsTenant("i2")
			ok[contract.Result](w.unbind("i2"))
		},
		"back in error without a clean": func(w *deviceEnv) {
			ok[contract.Result](w.ask(contract.VerbManage.Update()))
			w.host.writeAsTenant("i2")
			h := w.host.hint(w.clock())
			h.Host.Clean++ // which makes it unknown, and dirty
			w.signal(contract.SignalObserved, h)
			w.pass(time.Minute)
		},
		"begun again": func(w *deviceEnv) {
			w.terminate()
			w.pass(time.Hour)
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newDeviceEnv(t, standardPolicy())
			w.makeUncleanable()
			request := w.signed("alice", w.newOverride("x1"))
			request.ExpiresAt = w.clock().Add(23 * time.Hour)
			request = w.signed("alice", request)
			ok[contract.Result](w.override(request))
			approval := w.signed("bob", contract.OverrideInput{Approve: "x1"})
			ok[contract.Result](w.override(approval))
			w.returned()
			again(w)
			if s := w.settled().DeviceState; s != device.Error {
				ok[contract.Result](w.ask(contract.VerbManage.Update()))
				w.ask(contract.VerbProvide.Update()).wait()
				w.settled()
			}
			require.Equal(t, device.Error, w.view().DeviceState, w.describe())
			w.override(request).refusedUnseen(device.CodeOverrideUnsigned)
			w.override(approval).refusedUnseen(device.CodeNotFound)
			w.requestOverride("x1") // the same ID, signed anew
			w.override(approval).refusedUnseen(device.CodeOverrideUnsigned)
		})
	}
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
	w.inventory.free("c1")
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
			w.inventory.writeByOther(0)
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
				w.inventory.free("c1")
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
					w.inventory.recreate("again")
				} else if w.inventory.reserved == 1 {
					w.inventory.writeByOther(0)
				}
				w.allocateUnseen("c2")
				w.inventory.free("c2")
				w.returned()
				require.True(t, w.host.clean(), w.describe())
				require.False(t, w.view().NotSanitized)
			})
		}
	}
}
