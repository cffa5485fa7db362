package lifecycle

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"burnish/internal/device"
	"burnish/workflows/contract"
)

// waitsForCapacity is an available device that waits until it may leave the offer: for the answer of the limits, or for
// somebody who takes the question.
func waitsForCapacity(t *testing.T, limitsAway bool) (*scene, *Job) {
	t.Helper()
	s := newScene(t).offers()
	s.policy.Limits, s.limitsAway = &device.Limits{FreeCapacity: device.Capacity{Devices: 1}}, limitsAway
	manage, err := s.send(contract.VerbManage, contract.TenantInput{})
	require.NoError(t, err)
	if limitsAway {
		s.until(contract.ActivityRequestSlot)
	} else {
		s.rest()
	}
	require.False(t, manage.Ended)
	require.True(t, s.slots[0].TakesCapacity)
	return s, manage
}

// reports are what was sent to the limits.
func (s *scene) reports() (all []contract.SlotReport) {
	for _, m := range s.d.Mail {
		if report, is := m.In.(contract.SlotReport); is {
			all = append(all, report)
		}
	}
	return all
}

// A device that waits to leave the offer stays in it: a tenant who binds it has it, and an abort ends the wait, also
// where no worker takes the question.
//
// S3.38
func TestWhatWaitsToLeaveTheOfferIsInIt(t *testing.T) {
	for _, limitsAway := range []bool{false, true} {
		s, manage := waitsForCapacity(t, limitsAway)
		s.boundTo("i1")
		s.rest()
		require.Contains(t, s.faultOf(device.CodeInUse, manage.Err).Remedy, "unbind d1 --instance i1")
		require.Equal(t, []any{device.Allocated, "i1"}, []any{s.d.Device.State, s.d.instance()})

		s, manage = waitsForCapacity(t, limitsAway)
		s.ok(contract.VerbAbort, noInput)
		s.rest()
		require.Contains(t, s.faultOf(device.CodeAborted, manage.Err).Message, "stays in the offer")
		require.Equal(t, []any{device.Available, 0}, []any{s.d.Device.State, s.inv.Reserved})
	}
}

// A clean that waits for its slot has begun no step, and an abort ends the wait: the request is given back.
//
// S3.38, F9
func TestAnAbortEndsTheWaitForASlot(t *testing.T) {
	for _, limitsAway := range []bool{false, true} {
		s := tenant(t)
		s.policy.Limits, s.limitsAway = &device.Limits{ConcurrentCleans: 1}, limitsAway
		steps := len(s.inputs)
		s.released("i1")
		s.lasts(time.Hour)
		require.Equal(t, []any{device.PendingCleaning, steps}, []any{s.d.Device.State, len(s.inputs)})
		s.ok(contract.VerbAbort, noInput)
		s.kept(device.Error, device.CodeAborted)
		require.True(t, slices.ContainsFunc(s.reports(), func(r contract.SlotReport) bool {
			return r.Over && r.Clean == s.slots[0].Clean
		}))
	}
}
