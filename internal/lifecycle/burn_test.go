package lifecycle

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"burnish/internal/device"
	"burnish/internal/inventory"
	"burnish/internal/testkit/inventorysim"
	"burnish/workflows/contract"
)

// Each code of an inventory at each request of a burn, before it had effect and with its answer lost: what may have
// been burned is cleaned before it is offered.
//
// S0.6, S2.96
func TestFailedBurnIsCleanedNeverOffered(t *testing.T) {
	codes := []struct {
		class device.Class
		code  device.Code
	}{
		{device.NeedsOperator, device.CodeInventoryInvalid}, {device.Permanent, device.CodeInUse},
		{device.Permanent, device.CodeAlreadyBurned}, {device.NeedsOperator, device.CodeInventoryGenerationAhead},
		{device.Permanent, device.CodeNoProvider}, {device.Permanent, device.CodeInternal},
		{device.NeedsOperator, device.CodeRefused},
	}
	for _, at := range []string{"Usages", "Reservation", "PutReserved"} {
		for _, after := range []bool{false, true} {
			for _, c := range codes {
				t.Run(fmt.Sprintf("%s after=%v %s", at, after, c.code), func(t *testing.T) {
					s := newScene(t).offers()
					s.offeredClean()
					s.inv.InjectFault = inventorysim.Times(1, at, after, inventorysim.Fails(c.class, c.code))
					bind, err := s.send(contract.VerbBind, bindI1)
					require.NoError(t, err)
					s.bytes = "i1" // the burn may have succeeded
					s.until(contract.ActivityReserveForBind)
					s.end(s.d.Jobs[0])
					if after && at == "PutReserved" &&
						(c.code == device.CodeAlreadyBurned || c.code == device.CodeInventoryGenerationAhead) {
						// The inventory knows more than the workflow, and records the instance, which has the device (F24): its
						// bind is granted (F42).
						s.rest()
						require.NoError(t, bind.Err)
						require.Equal(t, []any{1, "i1", "i1"}, []any{bind.Result.Binding, s.d.instance(), s.bytes})
						s.turnsOver("i1")
						return
					}
					require.NotEqual(t, device.Available, s.d.Device.State)
					s.returned()
					s.faultOf(c.code, bind.Err)
					require.Equal(t, []any{2, ""}, []any{s.wiped, s.d.Status().Fault})
					s.boundTo("i2")
				})
			}
		}
	}
}

// A call whose answer is lost once is repeated, and the second attempt recognizes its own write.
func TestLostAnswersAreRetried(t *testing.T) {
	for _, at := range []string{"Usages", "Reservation", "PutReserved"} {
		for _, after := range []bool{false, true} {
			s := newScene(t).offers()
			s.inv.InjectFault = inventorysim.Times(1, at, after, inventorysim.LostAnswer)
			s.boundTo("i1").turnsOver("i1")
			require.Equal(t, 2, s.wiped, "%s after=%v: one clean, not two", at, after)
		}
	}
}

// The inventory does not answer while the bind waits: the bind fails within two minutes, and the device is cleaned when
// the inventory answers again; nothing destructive happens before that.
func TestUnavailableInventoryFailsTheBind(t *testing.T) {
	for _, at := range []bool{false, true} {
		s := newScene(t).offers()
		gone := false
		s.inv.InjectFault = func(call string, after bool) error {
			if gone = gone || call == "PutReserved" && after == at; gone {
				return inventorysim.LostAnswer()
			}
			return nil
		}
		asked := s.now
		s.refusal(device.CodeInventoryUnavailable, contract.VerbBind, bindI1)
		require.Less(t, s.now.Sub(asked), 2*time.Minute)
		s.bytes = "i1"
		s.lasts(10 * time.Minute)
		require.Equal(t, []any{device.PendingCleaning, 1}, []any{s.d.Device.State, s.wiped})
		s.inv.InjectFault = nil
		s.offeredClean()
		s.returned()
	}
}

// The call's end is not known, and its write arrives later.
//
// S0.6
func TestUnknownOutcomeOfABurnIsReported(t *testing.T) {
	s := newScene(t).offers()
	s.fails(contract.ActivityReserveForBind, device.Transient, device.CodeTimeout)
	s.refusal(device.CodeReservationUnknown, contract.VerbBind, bindI1)
	s.bytes = "i1"
	s.offeredClean()
	generation := s.inv.Generation
	s.returned()
	_, err := s.inv.PutReserved(t.Context(), s.d.UUID, generation, 1, nil)
	require.Equal(t, inventory.Conflict(s.d.UUID, generation), err)
	s.ok(contract.VerbMaintain, fan)
}

// Burned by another client between two readings, or in use by Nova's consumer, who keeps it.
//
// S0.27
func TestAlreadyBurnedIsRefused(t *testing.T) {
	s := newScene(t).offers()
	s.inv.WriteByOther(1)
	s.bytes = "c-unknown"
	s.offeredClean()
	s.refusal(device.CodeAlreadyBurned, contract.VerbBind, bindI1)
	s.returned()
	require.True(t, s.inv.Allocate("c1"))
	s.bytes = "c1"
	s.refusal(device.CodeInUse, contract.VerbBind, bindI1)
	s.kept(device.Allocated, "")
	require.Equal(t, []any{"c1", "c1"}, []any{s.d.instance(), s.bytes})
}

// The device is invalidated or lost while the burn waits for its answer, or for its turn: the record says who gets it.
func TestStateChangesWhileTheBurnWaits(t *testing.T) {
	bind := func(s *scene) *Job {
		j, err := s.send(contract.VerbBind, bindI1)
		require.NoError(s, err)
		return j
	}
	t.Run("its host is ahead", func(t *testing.T) {
		s := newScene(t).offers()
		j := bind(s)
		s.until(contract.ActivityReserveForBind)
		s.hostStarts(func(r *contract.HostDeviceRecord) { r.Seq += 5 })
		s.rest()
		require.NoError(t, j.Err, "what its record says it is granted (F24, F42)")
		require.Equal(t, "i1", s.d.instance())
		s.turnsOver("i1")
	})
	t.Run("lost", func(t *testing.T) {
		s := newScene(t).offers()
		j := bind(s)
		s.until(contract.ActivityReserveForBind)
		s.ok(contract.VerbRetire, lost("i1"))
		s.rest()
		require.Error(t, j.Err)
		require.Empty(t, s.d.instance())
	})
	t.Run("lost before its turn", func(t *testing.T) {
		s := newScene(t).offers()
		s.hint()
		s.until(contract.ActivityReadReservation)
		j := bind(s)
		s.ok(contract.VerbRetire, lost("i1"))
		s.rest()
		s.faultOf(device.CodeConflict, j.Err)
		require.NotContains(t, s.made, contract.ActivityReserveForBind)
	})
}

// A read that is under way recognizes the burn's write as Burnish's own.
func TestBindDuringACheck(t *testing.T) {
	s := newScene(t).offers()
	s.hint()
	s.until(contract.ActivityReadReservation)
	s.made = nil
	s.boundTo("i1").rest()
	require.Equal(t, "i1", s.d.instance())
	require.NotContains(t, s.made, contract.ActivityFindPreviousRun, "it was invalidated")
}

// The inventory is ahead of a workflow that was reset: the previous run is read before anything is erased.
//
// F10
func TestBindFindsANewerInventory(t *testing.T) {
	for code, newer := range map[device.Code]func(*inventorysim.Inventory){
		device.CodeInventoryGenerationAhead: func(s *inventorysim.Inventory) { s.Allocate("c"); s.Free("c") },
		device.CodeAlreadyBurned:            func(s *inventorysim.Inventory) { s.WriteByOther(1) },
	} {
		s := newScene(t).offers()
		newer(s.inv)
		s.inv.Tenant, s.bytes = new("i7"), "i7"
		s.previous = contract.PreviousRun{RunID: "reset", Instance: "i7"}
		s.refusal(code, contract.VerbBind, bindI1)
		s.rest()
		require.Equal(t, []any{device.Allocated, "i7", "i7"}, []any{s.d.Device.State, s.d.instance(), s.bytes})
	}
}
