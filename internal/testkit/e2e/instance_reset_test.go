package e2e

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"burnish/workflows/contract"
)

// An instance's workflow is reset to an earlier moment, and Temporal sends the acts after it once more, or not: the
// instance has what it had, no tenant's byte is lost, and the next acts go on from there.
//
// F36, F38
func TestAResetOfAnInstanceChangesNothing(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	h1, h2 := f.host(t), f.host(t)
	stories := map[string]func(*testing.T){}
	for name, c := range map[string]struct {
		to                  string // after this act
		again, moves, older bool   // older: the reset run is that of an earlier life of the instance
	}{
		"a": {to: ""},
		"b": {to: contract.VerbInstanceAttach.Update(), again: true}, // the detach would wipe what is attached since
		"c": {to: contract.VerbInstanceBind.Update(), moves: true},
		"d": {to: contract.VerbInstanceBind.Update(), older: true},
		"e": {to: contract.VerbInstanceBind.Update(), older: true, again: true}, // the release would wipe what is bound since
	} {
		stories[name] = func(t *testing.T) {
			devices, others := h1.enroll(t, name+"1", name+"2", name+"3"), h2.enroll(t, name+"4", name+"5")
			vm := Instance("reset " + name)
			once := append(named(devices[1]), "--request-id", "R")
			id := contract.InstanceWorkflowID(vm)
			of := runOf(id, "")
			if c.older {
				f.act(t, "bind", vm, named(devices[0])...)
				described, err := f.Client.DescribeWorkflowExecution(t.Context(), id, "")
				require.NoError(t, err)
				of = described.GetWorkflowExecutionInfo().GetExecution()
				f.act(t, "release", vm)
				f.awaitReturned(t, devices[0])
			}
			f.act(t, "bind", vm, named(devices[0])...)
			f.act(t, "attach", vm, once...)
			f.act(t, "detach", vm, devices[1].Name)
			f.awaitReturned(t, devices[1])
			f.act(t, "attach", vm, named(devices[1])...)
			stampAll(t, 2, devices[:2]...)
			if c.moves {
				f.act(t, "migrate", vm, "--to", h2.Host, "--device", name+"4", "--device", name+"5")
			}
			had := f.instance(t, vm)

			resetTo(t, f.Site, of, taskOf(t, f.Site, of, c.to), c.again)
			RequireThroughout(t, time.Second, "the instance has what it had", func() (bool, string) {
				v := f.instance(t, vm)
				require.Equal(t, []any{had.Phase, had.Devices, had.Move}, []any{v.Phase, v.Devices, v.Move})
				return true, ""
			})
			f.requireHeld(t, vm, 2, devices[:2]...)
			if c.moves {
				f.requireHeldNow(t, vm, others...)
				f.act(t, "revert", vm)
				f.awaitReturned(t, others...)
			}
			f.act(t, "attach", vm, once...) // which was granted, and ended
			f.act(t, "attach", vm, named(devices[2])...)
			f.requireHeldNow(t, vm, devices...)
			f.requireHeld(t, vm, 2, devices[:2]...)
			f.act(t, "release", vm)
			f.awaitReturned(t, devices...)
		}
	}
	beside(t, stories)
}
