package activities_test

import (
	"bytes"
	"context"
	"fmt"
	"sync"
	"time"

	"burnish/internal/clean/steps"
	"burnish/internal/device"
	"burnish/internal/hardware"
)

const (
	mib = 1 << 20
	// diskSize is two and a half chunks: there is a first, a middle and a last one.
	diskSize = 2*steps.Chunk + steps.Chunk/2
)

// disk is the double of one device. It knows the content of each mebibyte, counts handles
// and writers, and lets a test intercept each call.
type disk struct {
	// clearAction, clearStrategy and liveMigratable are what Discover reports.
	clearAction, clearStrategy string
	liveMigratable             bool
	// reflashed is Target.Reflashed of the last Open.
	reflashed string
	identity  device.Identity
	// on is asked before each call takes effect; its error is the call's.
	on func(call string, offset int64, ctx context.Context) error
	// takes is how long each ZeroAt lasts; the context may cut it short.
	takes time.Duration

	mu          sync.Mutex
	cells       []cell
	unseen      string
	dirtyByte   int64 // one byte that is not zero, whatever is written; -1: none
	calls       []string
	opens       int
	writers     int // in ZeroAt at this moment
	mostWriters int
	handles     int // open for writing at this moment
	mostHandles int
}

// cell is what a mebibyte holds.
type cell byte

const (
	tenants cell = iota // the tenant's bytes
	written             // zeroes that a power cut takes away
	durable             // zeroes
)

func newDisk(serial string) *disk {
	return &disk{
		identity:  device.Identity{Serial: serial, Vendor: "Burnish", Model: "double", Size: diskSize},
		cells:     make([]cell, diskSize/mib),
		dirtyByte: -1,
	}
}

// tenantsBytes is what a mebibyte holds that was not zeroed.
var tenantsBytes = bytes.Repeat([]byte{0xA5}, mib)

// driver opens its disks by the target's name.
type driver struct {
	mu    sync.Mutex
	disks map[string]*disk
	// found, if set, is called first by Discover; its error is Discover's.
	found func(t hardware.Target, known device.Identity) error
}

func (d *driver) Name() string { return "double" }

func (d *driver) disk(name string) (*disk, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if disk := d.disks[name]; disk != nil {
		return disk, nil
	}
	return nil, &device.Fault{Class: device.NeedsOperator, Code: device.CodeTargetMissing, Message: name + " is not there"}
}

func (d *driver) Discover(_ context.Context, t hardware.Target, known device.Identity) (hardware.Discovery, error) {
	if d.found != nil {
		if err := d.found(t, known); err != nil {
			return hardware.Discovery{}, err
		}
	}
	disk, err := d.disk(t.Name)
	if err != nil {
		return hardware.Discovery{}, err
	}
	return hardware.Discovery{Identity: disk.identity, Operation: device.Shred, Note: "a double",
		ClearAction: disk.clearAction, ClearStrategy: disk.clearStrategy, LiveMigratable: disk.liveMigratable}, nil
}

func (d *driver) Open(ctx context.Context, t hardware.Target, enrolled device.Identity,
	writable bool) (hardware.Handle, error) {
	disk, err := d.disk(t.Name)
	if err != nil {
		return nil, err
	}
	if err := disk.call(ctx, "open", 0); err != nil {
		return nil, err
	}
	if field := enrolled.Differs(disk.identity); field != "" {
		return nil, changed(field)
	}
	disk.mu.Lock()
	defer disk.mu.Unlock()
	disk.opens++
	if writable {
		disk.handles++
		disk.mostHandles = max(disk.mostHandles, disk.handles)
	}
	disk.reflashed = t.Reflashed
	return &diskHandle{disk: disk, enrolled: enrolled, writable: writable}, nil
}

func changed(field string) error {
	return &device.Fault{Class: device.NeedsOperator, Code: device.CodeIdentityChanged, Message: "another " + field +
		" than enrolled"}
}

// call records a call and lets the test intercept it.
func (d *disk) call(ctx context.Context, name string, offset int64) error {
	line := name
	if name == "zero" || name == "read" {
		line = fmt.Sprintf("%s %d", name, offset/mib)
	}
	d.mu.Lock()
	d.calls = append(d.calls, line)
	on := d.on
	d.mu.Unlock()
	if on == nil {
		return nil
	}
	return on(name, offset, ctx)
}

func (d *disk) intercept(on func(call string, offset int64, ctx context.Context) error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.on = on
}

// history gives the calls so far, without reads.
func (d *disk) history() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	var all []string
	for _, call := range d.calls {
		if call[0] != 'r' {
			all = append(all, call)
		}
	}
	return all
}

func (d *disk) opened() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.opens
}

// durableUpTo is how far zeroes are on stable storage without a gap.
func (d *disk) durableUpTo() int64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	for i, c := range d.cells {
		if c != durable {
			return int64(i) * mib
		}
	}
	return d.identity.Size
}

// durableBefore makes the disk durably zero before an offset, as earlier attempts would.
func (d *disk) durableBefore(offset int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for i := range d.cells {
		if int64(i)*mib < offset {
			d.cells[i] = durable
		}
	}
}

type diskHandle struct {
	disk     *disk
	enrolled device.Identity
	writable bool
}

func (h *diskHandle) Size() int64    { return h.enrolled.Size }
func (h *diskHandle) Method() string { return "double" }

func (h *diskHandle) ZeroAt(ctx context.Context, offset, n int64) error {
	d := h.disk
	if !h.writable || offset%mib != 0 || n%mib != 0 || offset < 0 || offset+n > h.Size() {
		return fmt.Errorf("zero %d bytes at %d of %d, writable %v", n, offset, h.Size(), h.writable)
	}
	if err := hardware.MayWrite(ctx); err != nil {
		return err
	}
	d.mu.Lock()
	d.writers++
	d.mostWriters = max(d.mostWriters, d.writers)
	d.mu.Unlock()
	defer func() {
		d.mu.Lock()
		d.writers--
		d.mu.Unlock()
	}()
	if err := d.call(ctx, "zero", offset); err != nil {
		return err
	}
	if d.takes > 0 {
		select {
		case <-time.After(d.takes):
		case <-ctx.Done():
			return fmt.Errorf("zero, stopped at %d: %w", offset, ctx.Err())
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for i := offset / mib; i < (offset+n)/mib; i++ {
		d.cells[i] = written
	}
	return nil
}

func (h *diskHandle) ReadAt(p []byte, offset int64) (int, error) {
	d := h.disk
	if err := d.call(context.Background(), "read", offset); err != nil {
		return 0, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	clear(p)
	for i, c := range d.cells[offset/mib : (offset+int64(len(p))+mib-1)/mib] {
		if c == tenants {
			copy(p[i*mib:], tenantsBytes)
		}
	}
	if at := d.dirtyByte - offset; d.dirtyByte >= 0 && at >= 0 && at < int64(len(p)) {
		p[at] = 0xA5
	}
	return len(p), nil
}

func (h *diskHandle) Unseen() string { return h.disk.unseen }

func (h *diskHandle) Flush(ctx context.Context) error {
	if err := h.disk.call(ctx, "flush", 0); err != nil {
		return err
	}
	h.disk.mu.Lock()
	defer h.disk.mu.Unlock()
	for i, c := range h.disk.cells {
		if c == written {
			h.disk.cells[i] = durable
		}
	}
	return nil
}

func (h *diskHandle) Check(ctx context.Context) error {
	if err := h.disk.call(ctx, "check", 0); err != nil {
		return err
	}
	if field := h.enrolled.Differs(h.disk.identity); field != "" {
		return changed(field)
	}
	return nil
}

func (h *diskHandle) Close() error {
	err := h.disk.call(context.Background(), "close", 0)
	h.disk.mu.Lock()
	defer h.disk.mu.Unlock()
	if h.writable {
		h.disk.handles--
	}
	return err
}
