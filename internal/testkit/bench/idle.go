package main

import (
	"context"
	"fmt"
	"runtime"
	"runtime/debug"
	"time"

	historypb "go.temporal.io/api/history/v1"
	sdkclient "go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"

	"burnish/internal/device"
	"burnish/workflows/client"
	"burnish/workflows/contract"
)

const (
	maxIdleEvents = 15
	maxIdleMemory = 56 // KiB a device
	// boundedDevices are enough that what a worker has once counts little.
	boundedDevices = 3000
)

// sample is an available device whose records are full, as its last continue-as-new carried it over.
// Idle devices are copies of it.
type sample struct {
	input  contract.DeviceInput
	memo   *contract.StatusMemo
	events int // of the run that then waits
}

// sample turns a device over until its records are full, and its run has just continued as new
// while it was available.
func (p *place) sample(ctx context.Context, id string) (x sample, err error) {
	const most = 1000
	before, err := p.settled(ctx, id)
	if err != nil {
		return x, err
	}
	for n := range most {
		if _, err := p.turnover(id)(ctx); err != nil {
			return x, err
		}
		now, err := p.settled(ctx, id)
		if err != nil {
			return x, err
		}
		begun := now.run != before.run // in this turnover
		before = now
		if !begun || n <= contract.KeptBindings {
			continue
		}
		events, err := p.history(ctx, id, now.run)
		if err != nil {
			return x, err
		}
		if x, err = sampleOf(events); err != nil || x.input.State.Device.State == device.Available {
			return x, err
		}
	}
	return x, fmt.Errorf("%s never continued as new while it was available, in %d turnovers", id, most)
}

func sampleOf(events []*historypb.HistoryEvent) (x sample, err error) {
	convert := converter.GetDefaultDataConverter()
	if err := convert.FromPayloads(started(events).GetInput(), &x.input); err != nil {
		return x, err
	}
	if x.input.State == nil {
		return x, fmt.Errorf("a device continued as new without its state")
	}
	x.events = len(events)
	if payload := started(events).GetMemo().GetFields()[contract.MemoStatus]; payload != nil {
		x.memo = &contract.StatusMemo{}
		err = convert.FromPayload(payload, x.memo)
	}
	return x, err
}

// availableStart is how the workflow of an available device starts that continued as new.
func availableStart(name, host, serial, kind string) sdkclient.StartWorkflowOptions {
	options := client.DeviceStart(contract.Enrollment{Name: name}, contract.Hardware{})
	options.TypedSearchAttributes = temporal.NewSearchAttributes(
		contract.AttrState.ValueSet(string(device.Available)), contract.AttrUUID.ValueSet(contract.DeviceUUID(name)),
		contract.AttrSerial.ValueSet(serial), contract.AttrType.ValueSet(kind), contract.AttrHost.ValueSet(host),
		contract.AttrNeedsOperator.ValueSet(false), contract.AttrDirty.ValueSet(false),
		contract.AttrUpdated.ValueSet(time.Now()))
	return options
}

// copy starts a copy under another name on this host, as if it had continued as new. Its provider
// has this generation, 0 for that of the sample's.
func (x sample) copy(ctx context.Context, p *place, name, host string, generation int64) error {
	options := availableStart(name, host, name, "BENCH")
	if x.memo != nil {
		memo := *x.memo
		memo.Name = name
		options.Memo = map[string]any{contract.MemoStatus: memo}
	}
	in, state := x.input, *x.input.State
	state.Name, state.UUID, state.Enrollment.Name, state.Host.Identity.Serial = name, contract.DeviceUUID(name), name, name
	state.Enrollment.Host = host
	if generation > 0 {
		state.Generation = generation
	}
	in.Name, in.State = name, &state
	_, err := p.sdk.ExecuteWorkflow(ctx, options, contract.WorkflowDeviceLifecycle, in)
	return err
}

// idle starts n idle devices, all of which this process's crew keeps in its cache, and measures what
// each takes of its memory: HeapInuse and StackInuse after garbage collection.
func (b *bench) idle(ctx context.Context, p *place, n int, start func(i int) (id string, err error)) error {
	const atOnce = 20 // otherwise the queue of first workflow tasks would only grow
	// Nothing comes after these starts that would fill the holes which their garbage leaves.
	defer debug.SetGCPercent(debug.SetGCPercent(10))
	before := usedMemory()
	if err := parallel(atOnce, n, func(i int) error {
		id, err := start(i)
		if err == nil {
			_, err = p.settled(ctx, id)
		}
		return err
	}); err != nil {
		return err
	}
	f := single(fmt.Sprintf("a worker's memory for each of %d idle devices", n), "KiB",
		(usedMemory()-before)/1024/float64(n))
	if n >= boundedDevices {
		f = f.atMost(maxIdleMemory)
	}
	b.add(f)
	return nil
}

// usedMemory is this process's, in bytes.
func usedMemory() float64 {
	for range 5 { // so often that stacks have shrunk
		runtime.GC()
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapInuse + m.StackInuse)
}
