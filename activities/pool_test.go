package activities_test

import (
	"context"
	"errors"
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

// rack is an appliance with scripted answers.
type rack struct {
	oneview.Pools
	settings error
	found    oneview.Found
	err      error
	asked    []string
	got      oneview.Server
}

func (r *rack) Settings(string) (oneview.Settings, error) { return oneview.Settings{}, r.settings }

func (r *rack) Read(_ context.Context, appliance string, s oneview.Server) (oneview.Found, error) {
	r.asked, r.got = append(r.asked, "read "+appliance), s
	return r.found, r.err
}

func (r *rack) Apply(_ context.Context, appliance string, s oneview.Server,
	progress oneview.Progress) (oneview.Found, error) {
	r.asked, r.got = append(r.asked, "apply "+appliance), s
	return r.found, errors.Join(r.err, progress(50, "applying the profile"))
}

func (r *rack) Remove(_ context.Context, appliance string, s oneview.Server,
	progress oneview.Progress) (oneview.Found, error) {
	r.asked, r.got = append(r.asked, "remove "+appliance), s
	return r.found, errors.Join(r.err, progress(50, "removing the profile"))
}

var poolRequest = contract.PoolRequest{
	Name: "n1", UUID: "u1", Serial: "S1", State: contract.PoolState{Profile: "/rest/server-profiles/1", Applying: true},
	Pool: contract.Pool{Appliance: "rack1", Hardware: "/rest/server-hardware/1", Template: "/rest/server-profile-templates/1", Dynamic: true},
}

func callPool(t *testing.T, r *activities.Pools, name string) (contract.PoolSnapshot, error) {
	return execute[contract.PoolSnapshot](first(t), name, r.Activities()[name], poolRequest)
}

// Each activity makes its one call, with what the workflow records.
//
// S4.2, S4.19
func TestPoolActivities(t *testing.T) {
	for name, call := range map[string]string{
		contract.ActivityReadPool: "read rack1", contract.ActivityApplyProfile: "apply rack1",
		contract.ActivityRemoveProfile: "remove rack1",
	} {
		r := &rack{found: oneview.Found{Ownership: device.PoolOurs, Profile: "/rest/server-profiles/1", Power: "Off"}}
		found, err := callPool(t, &activities.Pools{Pools: r, Log: slog.New(slog.DiscardHandler)}, name)
		require.NoError(t, err)
		require.Equal(t, contract.PoolSnapshot{Ownership: device.PoolOurs, Profile: "/rest/server-profiles/1", Power: "Off"},
			found)
		require.Equal(t, []string{call}, r.asked)
		require.Equal(t, oneview.Server{Hardware: "/rest/server-hardware/1", Template: "/rest/server-profile-templates/1",
			UUID: "u1", Serial: "S1",
			Recorded: "/rest/server-profiles/1", Applying: true}, r.got)
	}
}

// An appliance that is not in the file is retried: the file is read again. What the appliance
// refuses is final, and what it does not answer is retried.
func TestFaultsOfPools(t *testing.T) {
	for name, tt := range map[string]struct {
		pools   oneview.Pools
		code    device.Code
		retried bool
	}{
		"no file":        {nil, device.CodeInvalidConfig, true},
		"not in it":      {&rack{settings: &device.Fault{Class: device.NeedsOperator, Code: device.CodeApplianceRefused, Message: "oneview.yaml has no appliance"}}, device.CodeInvalidConfig, true},
		"away":           {&rack{err: &device.Fault{Class: device.Transient, Code: device.CodeApplianceUnreachable, Message: "x"}}, device.CodeApplianceUnreachable, true},
		"taken":          {&rack{err: &device.Fault{Class: device.NeedsOperator, Code: device.CodeServerTaken, Message: "x"}}, device.CodeServerTaken, false},
		"another serial": {&rack{err: &device.Fault{Class: device.NeedsOperator, Code: device.CodeSerialMismatch, Message: "x"}}, device.CodeSerialMismatch, false},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := callPool(t, &activities.Pools{Pools: tt.pools, Log: slog.New(slog.DiscardHandler)},
				contract.ActivityApplyProfile)
			r, ok := contract.RefusalOf(err)
			require.True(t, ok)
			require.Equal(t, tt.code, r.Fault.Code)
			require.Equal(t, tt.retried, r.Fault.Class == device.Transient)
			require.Equal(t, "n1", r.Device)
		})
	}
}
