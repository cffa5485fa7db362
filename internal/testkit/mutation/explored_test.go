package mutation

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

const (
	explorer  = "./internal/testkit/explorer"
	within    = "TestExploreWithin/"
	instances = "./workflows/instance"
	cloud     = "TestExploreInstance/"
)

// explored are fixes of the lifecycle, and of instances, that the explorer must miss when they are taken out. The
// rules' own tests are in mutations; these show that the search over the core finds what they mend.
var explored = []mutation{
	{
		rule: "F5", name: "explored: a clean that ends after its last step raises the reservation",
		file: "internal/lifecycle/apply.go",
		old:  `if device.MustReserve(was, next, e.Kind) {`,
		new:  `if device.MustReserve(was, next, e.Kind) && was.State != device.Cleaning {`,
		pkg:  explorer, test: within + "a_fault,_a_bind_and_an_act$",
	},
	{
		rule: "F27", name: "explored: the host looks before the reservation is lowered",
		file: "internal/lifecycle/offer.go",
		old:  `if d.Device.Unseen || d.now.Sub(j.SeenAt) > maxLookAge {`,
		new:  `if d.Device.Unseen = false; false {`,
		pkg:  explorer, test: within + "a_fault,_two_acts$",
	},
	{
		rule: "F30", name: "explored: an unbind waits for the burn of its own instance",
		file: "internal/lifecycle/binding.go",
		old:  `if j.Claimed = d.claimedFor(in.Instance); j.Claimed {`,
		new:  `if false {`,
		pkg:  explorer, test: within + "no_fault,_two_binds$",
	},
	{
		rule: "F36", name: "explored: already bound is answered after the record was read",
		file: "internal/lifecycle/binding.go",
		old:  `{ d.confirm(j, phGrantAgain) }`,
		new:  `{ d.grantedAgain(j, Outcome{}) }`,
		pkg:  explorer, test: within + "a_fault,_two_binds$",
	},
	{
		rule: "F36", name: "explored: the unbind of a tenant that the workflow does not know reads the record",
		file: "internal/lifecycle/requests.go",
		old:  `	case contract.VerbUnbind.Name, contract.VerbRebuild.Name:`,
		new:  `	case contract.VerbRebuild.Name:`,
		pkg:  explorer, test: within + "a_fault,_a_bind$",
	},
	{
		rule: "F39", name: "explored: a device is looked at before it is bound",
		file: "internal/lifecycle/binding.go",
		old:  `{ return d.ownedByBurnish() && !d.seenLately() }`,
		new:  `{ return false }`,
		pkg:  explorer, test: within + "a_fault,_a_bind$",
	},
	{
		rule: "F42", name: "explored: a claim is given back after the record was read",
		file: "internal/lifecycle/binding.go",
		old:  `	d.confirm(j, phUnclaimConfirmed) // its burn`,
		new:  `	d.unclaimConfirmed(j, Outcome{}) // its burn`,
		pkg:  explorer, test: within + "a_fault,_a_bind$",
	},
	{
		rule: "F42", name: "explored: a bind is refused after a look only if the record does not name its instance",
		file: "internal/lifecycle/binding.go",
		old: `	j.Refused = refused
	d.confirm(j, phUnlessBound)`,
		new: `	d.refused(j, refused)`,
		pkg: explorer, test: within + "a_fault,_a_bind$",
	},
	{
		rule: "F42", name: "explored: an unbind ends a binding whose bind began before it",
		file: "internal/lifecycle/reconcile.go",
		old:  `	return d.Claims > j.Claims && (d.Device.Binding`,
		new:  `	return d.Claims >= j.Claims && (d.Device.Binding`,
		pkg:  explorer, test: within + "two_faults,_a_bind$",
	},
	{
		rule: "F42", name: "explored: a binding of an ended run is one that was read: its tenant's next bind joins it",
		file: "internal/device/table.go",
		old: `		if d.Binding == nil || d.Binding.Instance != e.Instance {
			d.Bindings++
			d.Binding = &Binding{Number: d.Bindings, Instance: e.Instance, Observed: true}
		}
	}}
	nameSteps`,
		new: `		if d.Binding == nil || d.Binding.Instance != e.Instance {
			d.Bindings++
			d.Binding = &Binding{Number: d.Bindings, Instance: e.Instance, Observed: d.Owner == OwnerNova}
		}
	}}
	nameSteps`,
		pkg: explorer, test: within + "two_faults,_a_bind$",
	},
	{
		rule: "F24", name: "explored: the record names the instance that is bound",
		file: "internal/lifecycle/binding.go",
		old:  `d.BurnedFor, in.Record = instance, d.recordOf(instance)`,
		new:  `d.BurnedFor, in.Record = instance, d.recordOf("")`,
		pkg:  explorer, test: within + "a_fault,_a_bind$",
	},
	{
		rule: "F43", name: "explored: the ended run says that an operator holds a device of Nova's",
		file: "internal/lifecycle/reconcile.go",
		old:  `			found.Hold = previous.Hold`,
		new:  `			found.Hold = device.HoldNone`,
		pkg:  explorer, test: within + "a_fault,_two_acts,_Nova's$",
	},
	{
		rule: "F37", name: "explored: what a killed verify has read is read again",
		file: "internal/host/journal.go",
		old:  `case stored.Seq == want.Seq && stored.Done && !want.Reads:`,
		new:  `case stored.Seq == want.Seq && stored.Done:`,
		pkg:  explorer, test: within + "two_faults,_a_bind$",
	},
	{
		rule: "F39", name: "explored: a look that finds that others wrote to the device ends the offer",
		file: "internal/lifecycle/discovery.go",
		old:  `d.Written, found.Written = found.Written && !d.Device.Dirty, false`,
		new:  `d.Written, found.Written = false, false`,
		pkg:  explorer, test: within + "a_fault,_a_bind$",
	},
	{
		rule: "F34", name: "explored: a server that others may have used since its profile was removed is cleaned again",
		file: "internal/lifecycle/pool.go",
		old:  `if q == device.AskPoolApplied || q == device.AskPoolReturn {`,
		new:  `if q == device.AskPoolApplied {`,
		pkg:  explorer, test: within + "shared:_a_bind,_others$",
	},
	{
		rule: "F34", name: "explored: a tenant's profile is made on a server as Burnish has left it",
		file: "internal/lifecycle/pool.go",
		old:  `	if j.Profile.Tenant {`,
		new:  `	if false {`,
		pkg:  explorer, test: within + "shared:_a_bind,_others$",
	},
	{
		rule: "F42", name: "explored: a device whose burn was refused is given back",
		file: "workflows/instance/acquire.go",
		old: `	if err != nil {
		i.unbind(tried)
		return nil, err
	}`,
		new: `	if err != nil {
		i.settled(tried)
		return nil, err
	}`,
		pkg: instances, test: cloud + "a_fault,_bind$",
	},
	{
		rule: "F38", name: "explored: an instance that is terminated while it burns knows what it burned",
		file: "workflows/instance/acquire.go",
		old: `	i.unsettle(tried)
	i.doingNow(fmt.Sprintf("burn`,
		new: `	i.doingNow(fmt.Sprintf("burn`,
		pkg: instances, test: cloud + "a_fault,_bind$",
	},
	{
		rule: "F42", name: "explored: what a terminated run was about to get is given back",
		file: "workflows/instance/acquire.go",
		old:  `	i.unbind(slices.DeleteFunc(slices.Clone(i.Unsettled)`,
		new:  `	i.settled(slices.DeleteFunc(slices.Clone(i.Unsettled)`,
		pkg:  instances, test: cloud + "attach_and_detach$",
	},
	{
		rule: "F43", name: "explored: an operator's server is no lost race",
		file: "internal/device/table.go",
		old:  `{in(Cleaning), LostRace, when(named), Manageable, then(markDirty, stepsOver)},`,
		new:  `{in(Cleaning), LostRace, when(named), Error, then(markRaceLost, setCleanFailed)},`,
		pkg:  explorer, test: within + "shared:_two_acts,_others$",
	},
	{
		rule: "F38", name: "explored: a bind that is refused keeps what was bound to its instance before",
		file: "workflows/instance/acquire.go",
		old:  `		i.keep(older)`,
		new:  `		_ = older`,
		pkg:  instances, test: cloud + "evacuate$",
	},
	{
		rule: "F38", name: "explored: what is bound to an instance by a record is asked for",
		file: "internal/lifecycle/apply.go",
		old:  `d.Intent.AskInstance = e.Kind != device.Burned &&`,
		new:  `d.Intent.AskInstance = false &&`,
		pkg:  instances, test: cloud + "attach_and_detach$",
	},
}

func TestEveryExploredMutationHasItsPlace(t *testing.T) { havePlaces(t, explored) }

// TestTheExplorerMissesEachFix takes one of them out; with BURNISH_MUTATIONS=explored, as in `make soak`, each.
func TestTheExplorerMissesEachFix(t *testing.T) {
	all := explored
	if os.Getenv("BURNISH_MUTATIONS") != "explored" {
		all = all[:1]
	}
	for _, m := range all {
		t.Run(m.name, func(t *testing.T) { require.NoError(t, m.check(t.Context(), t.TempDir(), limit)) })
	}
}
