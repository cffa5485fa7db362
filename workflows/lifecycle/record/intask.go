package record

import (
	"go.temporal.io/sdk/workflow"

	"burnish/internal/device"
	"burnish/workflows/calls"
)

// InTask runs a call in this workflow task. Nothing is published meanwhile.
func (r *Record) InTask(call func() error) error {
	r.inTask++
	defer func() { r.inTask-- }()
	return call()
}

// Look makes a call that changes nothing: in this workflow task, and where that fails or is slow as
// the activity with these options.
func (r *Record) Look(ctx, opts workflow.Context, activity string, in, out any) error {
	err := r.InTask(func() error { return workflow.ExecuteLocalActivity(calls.Locally(opts), activity, in).Get(ctx, out) })
	if f := calls.FaultIn(err); f == nil || f.Class != device.Transient {
		return err
	}
	return workflow.ExecuteActivity(opts, activity, in).Get(ctx, out)
}
