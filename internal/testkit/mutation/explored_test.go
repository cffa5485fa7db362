package mutation

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

const (
	explorer = "./internal/testkit/explorer"
	within   = "TestExploreWithin/"
)

// explored are fixes of the lifecycle that the explorer must miss when they are taken out. The rules' own tests are in
// mutations; these show that the search over the core finds what they mend.
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
