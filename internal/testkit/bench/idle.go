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
	"burnish/internal/testkit/must"
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
func (p *place) sample(ctx context.Context, id string) (x sample) {
	const most = 1000
	before := must.Get(p.settled(ctx, id))
	for n := range most {
		must.Get(p.turnover(id)(ctx))
		now := must.Get(p.settled(ctx, id))
		begun := now.run != before.run // in this turnover
		before = now
		if !begun || n <= contract.KeptBindings {
			continue
		}
		if x = sampleOf(must.Get(p.history(ctx, id, now.run))); x.input.State.Device.State == device.Available {
			return x
		}
	}
	must.Be(false, "%s never continued as new while it was available, in %d turnovers", id, most)
	return x
}

func sampleOf(events []*historypb.HistoryEvent) (x sample) {
	convert := converter.GetDefaultDataConverter()
	must.Do(convert.FromPayloads(started(events).GetInput(), &x.input))
	must.Be(x.input.State != nil, "a device continued as new without its state")
	x.events = len(events)
	if payload := started(events).GetMemo().GetFields()[contract.MemoStatus]; payload != nil {
		x.memo = &contract.StatusMemo{}
		must.Do(convert.FromPayload(payload, x.memo))
	}
	return x
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
func (x sample) copy(ctx context.Context, p *place, name, host string, generation int64) (id string) {
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
	must.Get(p.sdk.ExecuteWorkflow(ctx, options, contract.WorkflowDeviceLifecycle, in))
	return options.ID
}

// idle starts n idle devices, all of which this process's crew keeps in its cache, and measures what
// each takes of its memory: HeapInuse and StackInuse after garbage collection.
func (b *bench) idle(ctx context.Context, p *place, n int, start func(i int) (id string)) {
	const atOnce = 20 // otherwise the queue of first workflow tasks would only grow
	// Nothing comes after these starts that would fill the holes which their garbage leaves.
	defer debug.SetGCPercent(debug.SetGCPercent(10))
	before := usedMemory()
	collect(atOnce, n, func(i int) position { return must.Get(p.settled(ctx, start(i))) })
	f := single(fmt.Sprintf("a worker's memory for each of %d idle devices", n), "KiB",
		(usedMemory()-before)/1024/float64(n))
	if n >= boundedDevices {
		f = f.atMost(maxIdleMemory)
	}
	b.add(f)
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
