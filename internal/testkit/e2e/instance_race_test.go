package e2e

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"burnish/internal/testkit/proc"
	"burnish/workflows/contract"
)

// Two instances ask for the same devices at once, in opposite order, again and again: one has
// all of them, or both are refused. Nothing is held by the loser, and nothing is cleaned for it.
func TestInstancesInOppositeOrder(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	devices := f.host(t).enroll(t, "", "d1", "d2", "d3")
	reversed := slices.Clone(devices)
	slices.Reverse(reversed)
	wins := map[string]int{}
	for round := range 5 {
		before := f.statuses(t, devices...)
		tenants := [2]string{Instance(fmt.Sprint("up ", round)), Instance(fmt.Sprint("down ", round))}
		errs := make([]error, len(tenants))
		results := atOnce(len(tenants), func(i int) (r proc.Result) {
			args := append(patiently(), "instance", "bind", tenants[i])
			r, errs[i] = f.Site.Site.Burnish(t.Context(), append(args, named([][]Device{devices, reversed}[i]...)...)...)
			return r
		})
		winner := ""
		for i, r := range results {
			require.NoError(t, errs[i])
			require.Contains(t, []int{0, 1}, r.Code, r)
			if r.Code == 0 {
				require.Empty(t, winner, "round %d: both have the devices: %v", round, results)
				winner = tenants[i]
				wins[[]string{"up", "down"}[i]]++
			}
		}
		for i, d := range devices {
			now, bindings := f.status(t, d), len(before[i].Bindings)
			if winner != "" {
				bindings++
				require.True(t, heldBy(winner)(now), "round %d: %+v", round, now)
			} else {
				require.True(t, isAvailable(now), "round %d: %+v", round, now)
			}
			require.Len(t, now.Bindings, bindings, "round %d: %s was bound to no other", round, d.Name)
			require.Len(t, now.Cleans, len(before[i].Cleans), "round %d: %s is not cleaned for the loser", round, d.Name)
		}
		for _, tenant := range tenants {
			if tenant == winner {
				require.Len(t, f.instance(t, tenant).Devices, len(devices))
				f.act(t, "release", tenant)
				continue
			}
			// Its workflow ends by itself.
			Await(t, 20*time.Second, "the loser to end", func() (bool, string) {
				v, err := f.Workflows().Instance(t.Context(), tenant)
				return err == nil && v.Phase == contract.InstanceReleased && len(v.Devices) == 0, fmt.Sprintf("%+v %v", v, err)
			})
		}
		f.awaitReturned(t, devices...)
	}
	t.Logf("wins: %v", wins)
}
