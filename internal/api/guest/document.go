// Package guest serves the guests of instances the document that says which of their devices
// is which, as Nova's metadata service does: on a listener of its own, to the instance that
// asks alone.
package guest

import (
	"context"
	"fmt"

	"golang.org/x/sync/errgroup"

	"burnish/internal/nova/metadata"
	"burnish/workflows/client"
	"burnish/workflows/contract"
)

// Instances is the part of client.Client that documents are made from.
type Instances interface {
	Instance(ctx context.Context, uuid string) (contract.InstanceStatus, error)
	// Describe gives what a device has published: who has it, once an act is answered. It costs
	// a fifth of a query, and needs no worker.
	Describe(ctx context.Context, name string) (client.Execution, error)
}

// Read gives an instance as its document shows it, see current. found is false if it has no
// document.
func Read(ctx context.Context, from Instances, uuid string) (status contract.InstanceStatus, found bool, err error) {
	status, err = from.Instance(ctx, uuid)
	if err != nil {
		if client.NotFound(err) {
			err = nil
		}
		return contract.InstanceStatus{}, false, err
	}
	return current(ctx, from, status)
}

// current leaves an instance those of its devices that are bound to it now, as each of them
// has published: the instance learns of a binding that ends without it a moment later. found is
// false if the instance gives its devices back, or has. A device that cannot be asked is an
// error.
func current(ctx context.Context, from Instances,
	status contract.InstanceStatus) (_ contract.InstanceStatus, found bool, err error) {
	switch status.Phase {
	case contract.InstanceBinding, contract.InstanceActive, contract.InstanceMigrating:
	default: // releasing, released
		return contract.InstanceStatus{}, false, nil
	}
	status.Devices, err = bound(ctx, from, status)
	return status, err == nil, err
}

// maxAsked is how many devices of one instance are asked at once.
const maxAsked = 32

// bound gives the instance's devices that are bound to it.
func bound(ctx context.Context, from Instances, status contract.InstanceStatus) ([]contract.HeldDevice, error) {
	var asked errgroup.Group
	asked.SetLimit(maxAsked)
	has := make([]bool, len(status.Devices))
	for i, held := range status.Devices {
		asked.Go(func() error {
			e, err := from.Describe(ctx, held.Name)
			switch {
			case client.NotFound(err): // nothing is known of it: then it is not bound
			case err != nil:
				return fmt.Errorf("ask device %s for its binding: %w", held.Name, err)
			default:
				has[i] = e.Status.InstanceUUID != nil && *e.Status.InstanceUUID == status.UUID
			}
			return nil
		})
	}
	if err := asked.Wait(); err != nil {
		return nil, err
	}
	shown := make([]contract.HeldDevice, 0, len(status.Devices))
	for i, held := range status.Devices {
		if has[i] {
			shown = append(shown, held)
		}
	}
	return shown, nil
}

// Document is the instance's meta_data.json. One that the schema does not allow is an error:
// guests rely on its form.
func Document(status contract.InstanceStatus) ([]byte, error) {
	return metadata.New(status).JSON()
}
