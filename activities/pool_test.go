package activities_test

import (
	"context"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/api/serviceerror"

	"burnish/activities"
	"burnish/internal/device"
	"burnish/internal/hardware"
	"burnish/internal/oneview"
	"burnish/workflows/contract"
)

// leasedPool is an appliance that changes a server as the client does: under the caller's lease.
type leasedPool struct {
	oneview.Pools
	changes int
}

func (p *leasedPool) Settings(string) (oneview.Settings, error) { return oneview.Settings{}, nil }

func (p *leasedPool) Apply(ctx context.Context, _ string, _ oneview.Server, _ oneview.Progress) (oneview.Found, error) {
	if err := hardware.MayWrite(ctx); err != nil {
		return oneview.Found{}, err
	}
	p.changes++
	return oneview.Found{Ownership: device.PoolOurs, Profile: "/rest/server-profiles/1"}, nil
}

func (p *leasedPool) Remove(ctx context.Context, appliance string, s oneview.Server,
	progress oneview.Progress) (oneview.Found, error) {
	return p.Apply(ctx, appliance, s, progress)
}

// An attempt changes a server only while the Temporal server still expects it: one that was
// frozen, and replaced, changes nothing when it wakes up.
//
// F32
func TestAServersProfileIsChangedUnderTheLease(t *testing.T) {
	for _, name := range []string{contract.ActivityApplyProfile, contract.ActivityRemoveProfile} {
		pool := &leasedPool{}
		var answer error
		p := &activities.Pools{Pools: pool, Log: slog.New(slog.DiscardHandler),
			Confirm: func(context.Context, []byte, ...any) error { return answer }}
		in := contract.PoolRequest{Name: "node1", Pool: contract.Pool{Appliance: "rack1"}}

		answer = serviceerror.NewNotFound("the attempt timed out")
		_, err := execute[any](first(t), name, p.Activities()[name], in)
		require.ErrorContains(t, err, "contact to the server was lost")
		require.Zero(t, pool.changes)

		answer = nil
		_, err = execute[any](first(t), name, p.Activities()[name], in)
		require.NoError(t, err)
		require.Equal(t, 1, pool.changes)
	}
}
