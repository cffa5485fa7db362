package activities

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"go.temporal.io/sdk/activity"

	"burnish/internal/device"
	"burnish/internal/hardware"
	"burnish/internal/oneview"
	"burnish/workflows/contract"
)

// Pools holds the activities that ask a shared pool's appliance for one server.
type Pools struct {
	// Pools are the appliances that this worker knows; nil if it has no oneview.yaml.
	Pools oneview.Pools
	// Confirm is as in Hardware; nil: nothing is asked before a server is changed.
	Confirm func(ctx context.Context, token []byte, details ...any) error
	Log     *slog.Logger
}

// Activities gives all activities of shared pools by name.
func (p *Pools) Activities() map[string]any {
	return map[string]any{
		contract.ActivityReadPool: p.ReadPool, contract.ActivityApplyProfile: p.ApplyProfile,
		contract.ActivityRemoveProfile: p.RemoveProfile,
	}
}

// ReadPool reads who has the device's server, by the profile on it (S4.1 to S4.3). It
// changes nothing. Retried: an appliance that does not answer, or that this worker's file
// does not have. Final: another server than the one that the host saw.
func (p *Pools) ReadPool(ctx context.Context, in contract.PoolRequest) (contract.PoolSnapshot, error) {
	return p.call(ctx, in, func(ctx context.Context, _ oneview.Progress) (oneview.Found, error) {
		return p.Pools.Read(ctx, in.Pool.Appliance, serverOf(in))
	})
}

// ApplyProfile makes sure that the server has Burnish's profile, and waits until it has. A
// second run finds the profile, or the task, of the first. Retried: as ReadPool. Final: a
// server that others have (server_taken), of which nothing is changed; what the appliance
// refuses.
func (p *Pools) ApplyProfile(ctx context.Context, in contract.PoolRequest) (contract.PoolSnapshot, error) {
	return p.call(ctx, in, func(ctx context.Context, progress oneview.Progress) (oneview.Found, error) {
		return p.Pools.Apply(ctx, in.Pool.Appliance, serverOf(in), progress)
	})
}

// RemoveProfile switches the server off and removes Burnish's profile, and waits until it is
// gone. A second run finds it done. A profile that is not Burnish's stays (S4.23), and its
// server keeps its power (S4.26). Retried: as ReadPool. Final: what the appliance refuses.
func (p *Pools) RemoveProfile(ctx context.Context, in contract.PoolRequest) (contract.PoolSnapshot, error) {
	return p.call(ctx, in, func(ctx context.Context, progress oneview.Progress) (oneview.Found, error) {
		return p.Pools.Remove(ctx, in.Pool.Appliance, serverOf(in), progress)
	})
}

func (p *Pools) call(ctx context.Context, in contract.PoolRequest,
	do func(context.Context, oneview.Progress) (oneview.Found, error)) (contract.PoolSnapshot, error) {
	if p.Pools == nil {
		return contract.PoolSnapshot{}, asError(&device.Fault{Class: device.Transient, Code: device.CodeInvalidConfig,
			Message: "this control worker has no oneview.yaml, and " + in.Name + " is in the pool of " + in.Pool.Appliance,
			Remedy:  "set BURNISH_ONEVIEW to the oneview.yaml that names " + in.Pool.Appliance + ", on every control worker"},
			in.Name)
	}
	if _, err := p.Pools.Settings(in.Pool.Appliance); err != nil {
		return contract.PoolSnapshot{}, asError(retriedWithFile(err), in.Name)
	}
	progress := &profileProgress{progress: contract.Progress{Step: activity.GetInfo(ctx).ActivityType.Name}}
	defer beatWhileItRuns(callHeartbeat, nil, func() { activity.RecordHeartbeat(ctx, progress.now()) })()
	lease := &lease{
		ctx: ctx, info: activity.GetInfo(ctx), confirm: p.Confirm, details: func() any { return progress.now() },
		waits: func(_ device.Code, what string) { progress.set(0, what) }, log: p.Log.With("device", in.Name),
	}
	found, err := do(hardware.WithLease(ctx, lease.check), func(percent int, doing string) error {
		progress.set(percent, doing)
		return ctx.Err()
	})
	if err != nil {
		return contract.PoolSnapshot{}, explain(ctx, err, in.Name)
	}
	return contract.PoolSnapshot{Ownership: found.Ownership, Profile: found.Profile, Power: found.Power, Tag: found.Tag,
		Gap: found.Gap}, nil
}

// retriedWithFile is the fault of a file that does not have the appliance: the call is tried
// again until the operator has changed the file.
func retriedWithFile(err error) error {
	f, ok := device.AsFault(err)
	if !ok {
		return err
	}
	again := *f
	again.Class, again.Code = device.Transient, device.CodeInvalidConfig
	return &again
}

func serverOf(in contract.PoolRequest) oneview.Server {
	return oneview.Server{
		Hardware: in.Pool.Hardware, Template: in.Pool.Template, UUID: in.UUID, Serial: in.Serial,
		Recorded: in.State.Profile, Applying: in.State.Applying, Tag: in.State.Tag,
	}
}

// profileProgress is how far the appliance's task is.
type profileProgress struct {
	mu       sync.Mutex
	progress contract.Progress
}

func (p *profileProgress) set(percent int, doing string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if percent != p.progress.Percent || doing != p.progress.Doing {
		p.progress.ProgressAt = time.Now().UTC().Truncate(time.Second)
	}
	p.progress.Percent, p.progress.Doing = percent, doing
}

func (p *profileProgress) now() contract.Progress {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.progress
}
