package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"

	"burnish/internal/device"
	"burnish/internal/testkit/proc"
	"burnish/internal/testkit/site"
	"burnish/workflows/client"
	"burnish/workflows/contract"
)

// sample is a device after many turnovers: what its last continue-as-new carried over. The
// idle devices of the memory measurement are copies of it.
type sample struct {
	product contract.DeviceInput
	entity  entity
	bytes   int // of the input
	state   device.State
	memo    *contract.StatusMemo
}

func newSample(v *variant, id string, run *historypb.WorkflowExecutionStartedEventAttributes) (x sample, err error) {
	convert := converter.GetDefaultDataConverter()
	x.bytes = run.GetInput().Size()
	if !v.Product {
		err := convert.FromPayloads(run.GetInput(), &x.entity)
		x.state = x.entity.State
		return x, err
	}
	if err := convert.FromPayloads(run.GetInput(), &x.product); err != nil {
		return x, err
	}
	if x.product.State == nil {
		return x, fmt.Errorf("%s continued as new without its state", id)
	}
	x.state = x.product.State.Device.State
	if payload := run.GetMemo().GetFields()[contract.MemoStatus]; payload != nil {
		x.memo = &contract.StatusMemo{}
		err = convert.FromPayload(payload, x.memo)
	}
	return x, err
}

// startCopy starts a copy of a sample under another name on this host, as if it had continued as
// new. Its provider has this generation, 0 for that of the sample's.
func (v *variant) startCopy(ctx context.Context, x sample, name, host string, generation int64) error {
	options := client.DeviceStart(contract.Enrollment{Name: name}, contract.Hardware{})
	options.TaskQueue = v.Queue
	options.TypedSearchAttributes = temporal.NewSearchAttributes(
		contract.AttrState.ValueSet(string(x.state)), contract.AttrUUID.ValueSet(contract.DeviceUUID(name)),
		contract.AttrSerial.ValueSet(name), contract.AttrType.ValueSet("BENCH"), contract.AttrHost.ValueSet(host),
		contract.AttrNeedsOperator.ValueSet(false), contract.AttrDirty.ValueSet(false), contract.AttrUpdated.ValueSet(time.Now()))
	if x.memo != nil {
		memo := *x.memo
		memo.Name = name
		options.Memo = map[string]any{contract.MemoStatus: memo}
	}
	if !v.Product {
		e := x.entity
		e.Enrollment.Name, e.Host.Identity.Serial = name, name
		_, err := v.client.ExecuteWorkflow(ctx, options, entityWorkflow, e)
		return err
	}
	in, state := x.product, *x.product.State
	state.Name, state.UUID, state.Enrollment.Name, state.Host.Identity.Serial = name, contract.DeviceUUID(name), name, name
	state.Enrollment.Host = host
	if generation > 0 {
		state.Generation = generation
	}
	in.Name, in.State = name, &state
	_, err := v.client.ExecuteWorkflow(ctx, options, contract.WorkflowDeviceLifecycle, in)
	return err
}

// idleMemory measures a worker's memory for each idle device: product, then baseline.
func (b *bench) idleMemory(ctx context.Context, variants []*variant, samples []sample) error {
	var used []deviceMemory
	for i, x := range samples {
		b.progress("memory: idle devices of variant %s", variants[i].name)
		m, err := b.memoryOf(ctx, variants[i], x)
		if err := errors.Join(err, b.stop()); err != nil {
			return err
		}
		used = append(used, m)
	}
	b.note("memory: %d idle devices (baseline: %d), all of them in the worker's cache of %d; each with %s (baseline: %s)",
		used[0].devices, used[1].devices, b.cacheSize(), samples[0], samples[1])
	b.add(
		boundedMemory(counted("worker's memory an idle device", "KiB", used[0].heap+used[0].stack, used[1].heap+used[1].stack), used[0].devices),
		counted("  of it heap", "KiB", used[0].heap, used[1].heap),
		counted("  of that in live objects", "KiB", used[0].live, used[1].live),
		counted("  of it stacks", "KiB", used[0].stack, used[1].stack),
	)
	return nil
}

// boundedMemory is the figure of a worker's memory a device, with its bound if there are so many
// devices that what a worker has once counts little.
func boundedMemory(f figure, devices int) figure {
	if devices < boundedDevices {
		return f
	}
	return f.atMost(maxIdleMemory)
}

// cacheSize holds all idle devices, with room to spare.
func (b *bench) cacheSize() int { return b.idle + b.idle/10 }

// deviceMemory is what one idle device takes of its worker's memory, in KiB. live is the
// part of the heap that is objects, not free space between them.
type deviceMemory struct {
	devices           int
	heap, live, stack float64
}

// memoryOf starts a worker and gives it idle devices, which it all keeps in its cache.
func (b *bench) memoryOf(ctx context.Context, of *variant, x sample) (m deviceMemory, err error) {
	v := &variant{name: "memory-" + of.name, task: task{Product: of.Product, Queue: of.Queue, Host: of.Host, Cache: b.cacheSize(), Slots: 1}}
	dir, err := b.folder(v.name)
	if err != nil {
		return m, err
	}
	// In memory: the speed of the server's disk is not measured here.
	server := &site.Server{Program: b.programs.Server, Dir: dir, InMemory: true}
	b.atEnd(func() error { return server.Process.Stop() })
	if err := server.Start(ctx); err != nil {
		return m, err
	}
	v.Address = server.Address
	if b.profiles != "" {
		v.HeapProfile = filepath.Join(b.profiles, of.name+".heap")
	}
	if err := b.startVariant(ctx, v); err != nil {
		return m, err
	}
	before, err := v.worker.usedMemory(ctx, true)
	if err != nil {
		return m, err
	}
	for deadline := time.Now().Add(b.idleTime); m.devices < b.idle && time.Now().Before(deadline); {
		// In batches: otherwise the queue of first workflow tasks would only grow.
		const batch = 100
		if err := parallel(batch, func(i int) error {
			return v.startCopy(ctx, x, fmt.Sprintf("%s-idle-%d", v.name, m.devices+i), v.Host, 0)
		}); err != nil {
			return m, err
		}
		m.devices += batch
		if err := v.awaitCached(ctx, m.devices); err != nil {
			return m, err
		}
	}
	after, err := v.worker.usedMemory(ctx, true)
	each := func(after, before uint64) float64 {
		return (float64(after) - float64(before)) / 1024 / float64(m.devices)
	}
	m.heap, m.live, m.stack = each(after.Heap, before.Heap), each(after.Live, before.Live), each(after.Stack, before.Stack)
	return m, err
}

// awaitCached waits until the worker's cache holds so many devices.
func (v *variant) awaitCached(ctx context.Context, n int) error {
	var failed error
	err := proc.Await(ctx, turnoverWithin, 10*time.Millisecond, fmt.Sprintf("%d devices in the worker's cache", n), func() (bool, string) {
		m, err := v.worker.usedMemory(ctx, false)
		failed = err
		return err != nil || m.Cached == int64(n), fmt.Sprint(m.Cached)
	})
	return errors.Join(err, failed)
}

// String says what the device has been through.
func (x sample) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%.1f KiB of state", float64(x.bytes)/1024)
	if s := x.product.State; s != nil {
		cleans, err := s.Archive.Cleans()
		if err != nil {
			return err.Error()
		}
		fmt.Fprintf(&b, ": %d bindings, %d cleans, %d updates recorded", len(s.History), len(cleans), len(s.Recent))
	}
	return b.String()
}
