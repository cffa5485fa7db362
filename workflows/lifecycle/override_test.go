package lifecycle_test

import (
	"bytes"
	"fmt"
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
