package steps_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"burnish/internal/clean/steps"
	"burnish/internal/device"
	"burnish/internal/hardware"
)

// drive is a memory that acts as an NVMe drive: it has a command that writes zeroes, and a
// complete namespace or not.
type drive struct {
	*memory
	incomplete error
	zero       func(offset int64) error
}

var (
	_ hardware.ZeroWriter       = (*drive)(nil)
	_ hardware.NamespaceManager = (*drive)(nil)
)

func (d *drive) WriteZeroesAt(_ context.Context, offset, n int64) error {
	if err := d.call("write_zeroes %d+%d", offset, n); err != nil {
		return err
	}
	if d.zero != nil {
		if err := d.zero(offset); err != nil {
			return err
		}
	}
	for b := offset / blockSize; b*blockSize < offset+n; b++ {
		d.blocks[b] = cached
	}
	return nil
}

func (d *drive) Layout(context.Context) (device.Layout, error) { return device.LayoutWhole, nil }

func (d *drive) CheckComplete(context.Context) error {
	d.calls = append(d.calls, "complete")
	return d.incomplete
}

func (d *drive) CanConsolidate() bool { return true }

func (d *drive) Consolidate(context.Context, func() error) error { return d.call("consolidate") }

func work(d *drive, operation device.Operation) *steps.Work {
	return &steps.Work{Device: d, Operation: operation, Enrolled: device.Identity{Size: d.size},
		Record: func(int64) error { return nil }}
}

// If the drive's write zeroes fails, no other way is tried.
//
// F16, S2.27, S2.58
func TestAnErrorOfWriteZeroesIsFinal(t *testing.T) {
	refused := &device.Fault{Class: device.Permanent, Code: device.CodeIO, Message: "no"}
	d := &drive{memory: newMemory(200*mib, tenants), zero: func(offset int64) error {
		if offset >= steps.Chunk {
			return refused
		}
		return nil
	}}
	_, err := steps.Zero().Run(t.Context(), work(d, device.WriteZeroes))
	require.ErrorIs(t, err, refused)
	require.NotContains(t, fmt.Sprint(d.calls), "zero 0+", "no ordinary write")
	d.zero = nil
	_, err = steps.Zero().Run(t.Context(), work(d, device.WriteZeroes))
	require.NoError(t, err)
	require.Equal(t, -1, d.left())
	// If the device has no such command, there are no ordinary writes either.
	_, err = steps.Zero().Run(t.Context(), &steps.Work{Device: newMemory(mib, tenants), Operation: device.WriteZeroes,
		Record: func(int64) error { return nil }})
	f, ok := device.AsFault(err)
	require.True(t, ok)
	require.Equal(t, device.CodeNoErasePath, f.Code)
}

// F17
func TestAnIncompleteNamespaceIsNeitherZeroedNorVerified(t *testing.T) {
	split := &device.Fault{Class: device.NeedsOperator, Code: device.CodeNamespaceLayoutMismatch,
		Message: "one is detached"}
	for _, operation := range []device.Operation{device.WriteZeroes, device.Shred} {
		for _, step := range []steps.Step{steps.Zero(), steps.Verify(), steps.ConsolidateNamespaces()} {
			d := &drive{memory: newMemory(mib, zeroed), incomplete: split}
			_, err := step.Run(t.Context(), work(d, operation))
			require.ErrorIs(t, err, split, step.Name)
			require.NotContains(t, fmt.Sprint(d.calls), "zero", step.Name)
		}
	}
	d := &drive{memory: newMemory(mib, tenants)}
	d.zero = func(int64) error { d.incomplete = split; return nil }
	_, err := steps.Zero().Run(t.Context(), work(d, device.WriteZeroes))
	require.ErrorIs(t, err, split, "it became so meanwhile")
}
