package lifecycle

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"burnish/internal/device"
	"burnish/workflows/contract"
)

// uncleanable is a one-time-use device in state error that nothing can erase, with the data of i1.
func uncleanable(t *testing.T) *scene {
	t.Helper()
	s := available(t, true)
	s.host.Operation = ""
	s.decide(Hinted{Signal: contract.SignalRefresh})
	s.rest()
	s.ok(contract.VerbBind, contract.BindInput{Instance: "i1", Request: "r1"})
	s.ok(contract.VerbUnbind, contract.UnbindInput{Instance: "i1"})
	s.rest()
	require.Equal(t, device.Error, s.d.Device.State)
	s.signed = func(c contract.OverrideClaims, signature []byte) bool {
		text, err := json.Marshal(c)
		require.NoError(t, err)
		return string(text) == string(signature)
	}
	return s
}

// erasable: the device can be erased from now on.
func (s *scene) erasable() {
	s.host.Operation = "shred"
	s.decide(Hinted{Signal: contract.SignalRefresh})
	s.rest()
}

// sign is the act as the API sends it for a principal; change alters the claims that it signs.
func (s *scene) sign(who string, in contract.OverrideInput,
	change ...func(*contract.OverrideClaims)) contract.OverrideInput {
	in.Principal, in.By = "token:"+who, who
	return s.signAs(in, change...)
}

func (s *scene) signAs(in contract.OverrideInput, change ...func(*contract.OverrideClaims)) contract.OverrideInput {
	c := in.Claims(s.d.UUID, s.d.OverrideNumbers(), s.d.pendingOverride())
	for _, each := range change {
		each(&c)
	}
	text, err := json.Marshal(c)
	require.NoError(s, err)
	in.Signature = text
	return in
}

func (s *scene) newOverride(id string) contract.OverrideInput {
	return contract.OverrideInput{ID: id, Reason: "the drive is needed", ExpiresAt: s.now.Add(time.Hour)}
}

// requested has alice request an override.
func (s *scene) requested(id string) {
	s.Helper()
	r := s.ok(contract.VerbOverride, s.sign("alice", s.newOverride(id)))
	require.Equal(s, id, r.Device.Override.Pending.ID)
}

var approval = contract.OverrideInput{Approve: "x1"}

// Two principals return a device without a clean. It is reserved and read first, and its host sees it.
//
// D2, S3.21, F4, F5, F27
func TestTwoPrincipalsOverride(t *testing.T) {
	s := uncleanable(t)
	s.requested("x1")
	s.made = nil
	s.ok(contract.VerbOverride, s.sign("bob", approval))
	s.rest()
	require.Equal(t,
		[]string{contract.ActivityEnsureReserved, contract.ActivityDiscover, contract.ActivityUnreserve}, s.made)
	require.Equal(t, []any{device.Available, true, false, "", 0},
		[]any{s.d.Device.State, s.d.Device.NotSanitized, s.d.Device.Dirty, s.recorded(), s.inv.Reserved})
	s.matchingGenerations()
	given := s.d.Status().Override.Approved
	require.Equal(t, []string{"alice", "token:alice", "bob", "token:bob", "the drive is needed"},
		[]string{given.RequestedBy, given.RequestedAs, given.ApprovedBy, given.ApprovedAs, given.Reason})
	require.Equal(t, []any{"overridden", given, true}, []any{s.lastClean().Outcome, s.lastClean().Override,
		Memo(s.d.DeviceState).NotSanitized})
	s.boundTo("i2")
	s.erasable()
	s.turnsOver("i2")
	require.False(t, s.d.Device.NotSanitized, "a full clean ends it")
	require.Nil(t, s.d.Status().Override)
}

// Root and the worker's user are two principals of a unix socket, and may be one person.
//
// D2
func TestUsersOfASocketAreOnePerson(t *testing.T) {
	s := uncleanable(t)
	as := func(id string, in contract.OverrideInput) contract.OverrideInput {
		in.Principal = id
		return s.signAs(in)
	}
	s.ok(contract.VerbOverride, as("unix:0", s.newOverride("x1")))
	s.refused(device.CodeSamePrincipal, contract.VerbOverride, as("unix:990", approval))
	s.ok(contract.VerbOverride, as("token:bob", approval))
}

// Nothing but the right signature of the API, for another principal, in time and for this device as it is, is an
// approval; a refusal leaves no trace.
//
// D2
func TestOverrideRefused(t *testing.T) {
	forged := func(change func(*contract.OverrideClaims)) func(*scene) contract.OverrideInput {
		return func(s *scene) contract.OverrideInput { return s.sign("bob", approval, change) }
	}
	request := func(in contract.OverrideInput, expires time.Duration) func(*scene) contract.OverrideInput {
		return func(s *scene) contract.OverrideInput {
			if expires >= 0 {
				in.ExpiresAt = s.now.Add(expires)
			}
			return s.sign("bob", in)
		}
	}
	const none = -1
	for name, c := range map[string]struct {
		in   func(*scene) contract.OverrideInput
		code device.Code
	}{
		"the same principal": {func(s *scene) contract.OverrideInput { return s.sign("alice", approval) }, device.CodeSamePrincipal},
		"the same principal in capitals": {func(s *scene) contract.OverrideInput { return s.sign("ALICE", approval) },
			device.CodeSamePrincipal},
		"no signature": {func(s *scene) contract.OverrideInput {
			in := s.sign("bob", approval)
			in.Signature = nil
			return in
		}, device.CodeOverrideUnsigned},
		"another principal's signature": {func(s *scene) contract.OverrideInput {
			in := s.sign("bob", approval)
			in.Principal = "token:carol"
			return in
		}, device.CodeOverrideUnsigned},
		"no principal": {func(*scene) contract.OverrideInput { return approval }, device.CodeOverrideUnsigned},
		"another device's signature": {forged(func(c *contract.OverrideClaims) { c.Device = contract.DeviceUUID("d2") }),
			device.CodeOverrideUnsigned},
		"the signature of a request": {forged(func(c *contract.OverrideClaims) { c.Act = contract.OverrideRequest }),
			device.CodeOverrideUnsigned},
		"an altered reason": {forged(func(c *contract.OverrideClaims) { c.Reason = "another one" }), device.CodeOverrideUnsigned},
		"an altered expiry": {forged(func(c *contract.OverrideClaims) { c.ExpiresAt = c.ExpiresAt.Add(time.Hour) }),
			device.CodeOverrideUnsigned},
		"an earlier clean":            {forged(func(c *contract.OverrideClaims) { c.Numbers.Clean-- }), device.CodeOverrideUnsigned},
		"another request":             {request(contract.OverrideInput{Approve: "x2"}, none), device.CodeNotFound},
		"with a reason of its own":    {request(contract.OverrideInput{Approve: "x1", Reason: "mine"}, none), device.CodeInvalid},
		"a request without a reason":  {request(contract.OverrideInput{ID: "x2", Reason: " "}, time.Hour), device.CodeInvalid},
		"a request without an expiry": {request(contract.OverrideInput{ID: "x2", Reason: "r"}, none), device.CodeInvalid},
		"a request that has expired":  {request(contract.OverrideInput{ID: "x2", Reason: "r"}, 0), device.CodeInvalid},
		"a request for longer than a day": {request(contract.OverrideInput{ID: "x2", Reason: "r"}, 24*time.Hour+time.Minute),
			device.CodeInvalid},
		"an unsigned request": {func(s *scene) contract.OverrideInput { return s.newOverride("x2") }, device.CodeOverrideUnsigned},
	} {
		t.Run(name, func(t *testing.T) {
			s := uncleanable(t)
			s.requested("x1")
			s.refused(c.code, contract.VerbOverride, c.in(s))
			require.Equal(t, device.Error, s.d.Device.State)
			require.Equal(t, "x1", s.d.pendingOverride().ID, "the request still waits")
		})
	}
}

// Without the API's key there are no overrides, and there is none in another state than error.
//
// D2
func TestOverrideIsOff(t *testing.T) {
	s := uncleanable(t)
	in := s.sign("alice", s.newOverride("x1"))
	verify := s.signed
	s.signed = nil
	require.Contains(t, s.refused(device.CodeOverrideOff, contract.VerbOverride, in).Remedy, "BURNISH_API_KEY")
	s.signed = verify
	s.ok(contract.VerbManage, contract.TenantInput{})
	s.refused(device.CodeRefused, contract.VerbOverride, in)
}

// A requested override ends when the device changes, or at its expiry; maintenance is no change.
//
// D2
func TestPendingOverrideEnds(t *testing.T) {
	for name, change := range map[string]func(*scene){
		"manage":  func(s *scene) { s.ok(contract.VerbManage, contract.TenantInput{}) },
		"clean":   func(s *scene) { s.erasable(); s.ok(contract.VerbClean, contract.CleanInput{}) },
		"expiry":  func(s *scene) { s.pass(time.Hour + time.Second) },
		"another": func(s *scene) { s.requested("x2") },
		"a newer host": func(s *scene) {
			s.decide(Hinted{Signal: contract.SignalObserved, Hint: contract.Hint{Host: &contract.HostDeviceRecord{
				Enrollment: s.d.Enrollment, Identity: s.d.Host.Identity, Clean: s.d.Cleans + 7}}})
			s.rest()
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := uncleanable(t)
			s.requested("x1")
			late := s.sign("bob", approval)
			s.ok(contract.VerbMaintain, contract.MaintenanceInput{Reason: "fan"})
			require.NotNil(t, s.d.pendingOverride())
			change(s)
			if p := s.d.pendingOverride(); p != nil {
				require.Equal(t, "x2", p.ID)
			}
			_, err := s.do(contract.VerbOverride, late)
			require.Error(t, err)
		})
	}
}

// What was signed for the device as it was does not count for the device as it is: not for a request that was dropped,
// not after another failed clean or binding, not for a workflow that was begun again.
//
// D2
func TestOverrideSignaturesCountOnce(t *testing.T) {
	back := func(s *scene) { // in error, without another clean or binding
		s.ok(contract.VerbManage, contract.TenantInput{})
		s.ok(contract.VerbProvide, contract.ReasonInput{})
		s.rest()
	}
	used := func(s *scene) {
		s.ok(contract.VerbOverride, s.sign("bob", approval))
		s.rest()
		s.ok(contract.VerbBind, contract.BindInput{Instance: "i2", Request: "r2"})
		s.ok(contract.VerbUnbind, contract.UnbindInput{Instance: "i2"})
		s.rest()
	}
	for name, then := range map[string]func(*scene){
		"dropped":                               back,
		"granted, and the next tenant has left": used,
		"a failed clean": func(s *scene) {
			s.erasable()
			s.fails("zero", device.Permanent, device.CodeIO)
			s.ok(contract.VerbClean, contract.CleanInput{})
			s.rest()
		},
		"begun again": func(s *scene) {
			record := contract.HostDeviceRecord{Enrollment: s.d.Enrollment, Identity: s.d.Host.Identity, Clean: s.d.Cleans,
				Seq: s.d.Seq, Binding: s.d.Device.Bindings}
			s.now = s.now.Add(time.Hour)
			s.d = Recover(&record, s.now, s.by())
			s.decide(Come{})
			s.rest()
			back(s)
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := uncleanable(t)
			in := s.newOverride("x1")
			in.ExpiresAt = s.now.Add(23 * time.Hour)
			request := s.sign("alice", in)
			s.ok(contract.VerbOverride, request)
			approved := s.sign("bob", approval)
			then(s)
			require.Equal(t, device.Error, s.d.Device.State)
			s.refused(device.CodeOverrideUnsigned, contract.VerbOverride, request)
			s.refused(device.CodeNotFound, contract.VerbOverride, approved)
			s.requested("x1") // the same ID, signed anew
			s.refused(device.CodeOverrideUnsigned, contract.VerbOverride, approved)
		})
	}
}
