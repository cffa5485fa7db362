package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"

	"burnish/internal/device"
	"burnish/workflows/contract"
)

// sample is a device that was turned over many times, as the fleet of the memory
// measurement will be: its input is what its last continue-as-new carried over.
type sample struct {
	product contract.DeviceInput
	entity  entity
	bytes   int // of the input
	// what continue-as-new carries over beside the input
	state device.State
	facts *contract.StatusMemo
}

func (s *side) sample(ctx context.Context, id string, run idleRun) (sample, error) {
	payloads := run.input.GetInput()
	var x sample
	x.bytes = payloads.Size()
	convert := converter.GetDefaultDataConverter()
	if !s.product {
		err := convert.FromPayloads(payloads, &x.entity)
		x.state = x.entity.State
		return x, err
	}
	if err := convert.FromPayloads(payloads, &x.product); err != nil {
		return x, err
	}
	if x.product.State == nil {
		return x, fmt.Errorf("%s continued as new without its state", id)
	}
	x.state = x.product.State.Device.State
	if p := run.input.GetMemo().GetFields()[contract.MemoStatus]; p != nil {
		x.facts = &contract.StatusMemo{}
		return x, convert.FromPayload(p, x.facts)
	}
	return x, nil
}

// start starts the copy of a sample under another name, as if it had continued as new.
func (s *side) start(ctx context.Context, x sample, n int) error {
	name := fmt.Sprintf("%s-idle-%d", s.name, n)
	options := contract.StartOptions(name)
	options.TaskQueue = s.queue
	attributes := contract.AttrState.ValueSet(string(x.state))
	options.TypedSearchAttributes = temporal.NewSearchAttributes(attributes, contract.AttrUUID.ValueSet(contract.DeviceUUID(name)),
		contract.AttrSerial.ValueSet(name), contract.AttrType.ValueSet("BENCH"), contract.AttrHost.ValueSet(s.host),
		contract.AttrNeedsOperator.ValueSet(false), contract.AttrDirty.ValueSet(false), contract.AttrUpdated.ValueSet(time.Now()))
	if x.facts != nil {
		facts := *x.facts
		facts.Name = name
		options.Memo = map[string]any{contract.MemoStatus: facts}
	}
	if !s.product {
		e := x.entity
		e.Enrolment.Name, e.Host.Identity.Serial = name, name
		_, err := s.client.ExecuteWorkflow(ctx, options, entityWorkflow, e)
		return err
	}
	state := *x.product.State
	state.Name, state.UUID, state.Enrollment.Name, state.Host.Identity.Serial = name, contract.DeviceUUID(name), name, name
	_, err := s.client.ExecuteWorkflow(ctx, options, contract.WorkflowDeviceLifecycle, contract.DeviceInput{Name: name, State: &state})
	return err
}

// footing is what one idle device takes of its worker's memory.
type footing struct {
	devices int
	// KiB: perDevice is heap and stack; live is the part of heap that is objects, not
	// room between them.
	perDevice, heap, live, stack float64
}

// idleMemory starts a worker with nothing to do and gives it a fleet of idle devices
// by a sample, all of which it keeps in memory.
func (b *bench) idleMemory(ctx context.Context, s side, x sample) (f footing, err error) {
	dir := filepath.Join(b.dir, "memory-"+s.name)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return f, err
	}
	// In memory: what is asked here is not how fast the server writes.
	srv, err := startServer(b.program(), "", dir)
	if err != nil {
		return f, err
	}
	defer func() { err = errors.Join(err, srv.end()) }()
	t := task{Product: s.product, Queue: s.queue, Host: s.host, Address: srv.address, Dir: dir, Cache: b.cache(), Slots: 1}
	if b.profiles != "" {
		t.HeapProfile = filepath.Join(b.profiles, s.name+".heap")
	}
	if s.workers, err = startWorkers(s.name, dir, t); err != nil {
		return f, err
	}
	defer func() { err = errors.Join(err, s.workers.end()) }()
	if s.client, err = client.Dial(client.Options{HostPort: srv.address, Logger: silent{}}); err != nil {
		return f, err
	}
	defer s.client.Close()
	before, err := s.workers.measure(ctx, true)
	if err != nil {
		return f, err
	}
	deadline := time.Now().Add(b.idleTime)
	for f.devices < b.idle && time.Now().Before(deadline) {
		// By the hundred: a queue of first tasks would only grow.
		const batch = 100
		err := together(batch, func(i int) error { return s.start(ctx, x, f.devices+i) })
		if err != nil {
			return f, err
		}
		f.devices += batch
		if err := s.allCached(ctx, f.devices); err != nil {
			return f, err
		}
	}
	after, err := s.workers.measure(ctx, true)
	if err != nil {
		return f, err
	}
	each := func(after, before uint64) float64 {
		return (float64(after) - float64(before)) / 1024 / float64(f.devices)
	}
	f.heap, f.live, f.stack = each(after.Heap, before.Heap), each(after.Live, before.Live), each(after.Stack, before.Stack)
	f.perDevice = f.heap + f.stack
	return f, nil
}

// allCached waits until the worker has every device in memory.
func (s *side) allCached(ctx context.Context, devices int) error {
	var m memory
	for deadline := time.Now().Add(cycleWithin); time.Now().Before(deadline); {
		var err error
		if m, err = s.workers.measure(ctx, false); err != nil || m.Cached == int64(devices) {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(10 * time.Millisecond):
		}
	}
	return fmt.Errorf("%d of %d devices are in the worker's memory", m.Cached, devices)
}

// silent is a Temporal logger that says nothing.
type silent struct{}

// Debug is log.Logger's.
func (silent) Debug(string, ...any) {}

// Info is log.Logger's.
func (silent) Info(string, ...any) {}

// Warn is log.Logger's.
func (silent) Warn(string, ...any) {}

// Error is log.Logger's.
func (silent) Error(string, ...any) {}

// describe says what the sample has been through.
func (x sample) describe() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%.1f KiB of state", float64(x.bytes)/1024)
	if st := x.product.State; st != nil {
		cleans, err := st.Archive.Cleans()
		if err != nil {
			return err.Error()
		}
		fmt.Fprintf(&b, ": %d tenancies, %d cleans, %d updates remembered", len(st.History), len(cleans), len(st.Recent))
	}
	return b.String()
}
