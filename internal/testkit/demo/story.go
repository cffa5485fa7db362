package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"burnish/internal/clean/steps"
	"burnish/internal/device"
	"burnish/internal/testkit/must"
	"burnish/internal/testkit/proc"
	"burnish/internal/testkit/site"
	"burnish/workflows/client"
	"burnish/workflows/contract"
)

const (
	fileSize = 256 << 20
	bigSize  = 2 << 30
)

// nonce marks the tenant's bytes, block by block.
const nonce = 0x7E4A47

// play runs the chapters; the first error ends it.
func (d *demo) play(ctx context.Context, target string) {
	for i := range 4 {
		d.files = append(d.files, d.FileDevice(fmt.Sprintf("disk%d", i+1), fileSize))
		must.Do(d.files[i].Stamp(nonce))
	}
	l, why := newLoop(d.Dir)
	if l != nil {
		d.allow(l.Path, filepath.Join(d.Dir, "drive", "disk.img"))
	}
	if target != "" {
		d.addOwn(target)
	}
	chapters := []struct {
		title string
		play  func(context.Context)
	}{
		{"Four files of 256 MiB, four simulated devices and a server of a shared pool are enrolled; whatever is on them is wiped first", d.enrollAll},
		{"A tenant gets each device; the device is burned before the tenant may use it", d.bindAll},
		{"The tenants leave; in the middle of the wipe the worker is killed with kill -9", d.crashWorker},
		{"A file of 2 GiB full of bytes is enrolled; in the middle of its wipe server and worker are killed, both with kill -9", d.crashAll},
		{"A loop device over a file on a file system of its own: what lies below is counted",
			func(ctx context.Context) {
				if l == nil {
					fmt.Printf("  left out: %s\n", why)
					return
				}
				d.turnLoopOver(ctx, l)
			}},
		{"Another user of a shared pool takes a server and frees it; Burnish notices both, and cleans it before a tenant gets it", d.shareServer},
		{"A device whose step fails waits for its operator, burned; the operator's clean repairs it", d.repair},
		{"Any Temporal client may trigger a clean, with a raw signal", d.cleanBySignal},
		{"Everything is clean and back in the offer", d.checkAll},
	}
	err := must.Try(func() {
		for i, c := range chapters {
			fmt.Printf("\n%d. %s.\n\n", i+1, c.title)
			err := must.Try(func() { c.play(ctx) })
			must.Be(err == nil, "chapter %d: %w", i+1, err)
		}
	})
	if l != nil {
		err = errors.Join(err, l.close())
	}
	must.Do(err)
}

// addOwn adds the operator's own file to the tenants' files.
func (d *demo) addOwn(target string) {
	path := must.Get(filepath.Abs(must.Get(filepath.EvalSymlinks(target))))
	info := must.Get(os.Stat(path))
	d.files = append(d.files, site.Device{Name: "own", Driver: "block", Path: path, Size: info.Size(),
		Set: []string{"path=" + path}})
	d.allow(path)
}

// fakes are the simulated devices. Two have a fault that happens once, in the middle of
// their first wipe.
var fakes = []struct {
	name, kind string
	settings   []string
}{
	{"nic1", "NIC", []string{"delay=1s"}},
	{"nvme1", "NVME", []string{"delay=2s"}},
	{"gpu1", "GPU", []string{"fault=fail:zero@40%x1"}},
	{"gpu2", "GPU", []string{"fault=fail:zero@40%x1"}},
}

// repairable are the devices that wait for their operator until the chapter of repairs.
var repairable = map[string]device.State{"gpu1": device.Error, "gpu2": device.Error}

func (d *demo) enrollAll(ctx context.Context) {
	for _, f := range d.files {
		d.enroll(ctx, f)
	}
	for _, f := range fakes {
		one := site.Device{Name: f.name, Driver: "fake", Set: append([]string{"size=64MiB"}, f.settings...)}
		d.enroll(ctx, one, "--type", f.kind)
	}
	d.enroll(ctx, d.sharedServer(), "--type", "NODE")
	d.settle(ctx, repairable)
	d.burnish(ctx, "list")
}

func (d *demo) enroll(ctx context.Context, f site.Device, flags ...string) {
	d.enrolled++
	d.burnish(ctx, d.EnrollArgs(f, append(flags, "--one-time-use", "--provide")...)...)
}

// settle waits until each device is in the state named, or available.
func (d *demo) settle(ctx context.Context, want map[string]device.State) {
	must.Do(proc.Await(ctx, 90*time.Second, proc.PollEvery, "the devices to settle", func() (bool, string) {
		all, err := d.List(ctx)
		if err != nil || len(all) < d.enrolled {
			return false, fmt.Sprintf("%d of %d devices, %v", len(all), d.enrolled, err)
		}
		for _, v := range all {
			state, ok := want[v.Name]
			if !ok {
				state = device.Available
			}
			if v.DeviceState != state {
				return false, fmt.Sprintf("%s is %s: %s", v.Name, v.DeviceState, v.LastError)
			}
		}
		return true, ""
	}))
}

func (d *demo) bindAll(ctx context.Context) {
	for _, f := range d.files {
		d.bind(ctx, f)
	}
	for _, name := range []string{"nic1", "nvme1"} {
		d.burnish(ctx, "bind", name, "--instance", site.Instance(name))
	}
	first := d.files[0].Name
	r := must.Get(d.Burnish(ctx, "bind", first, "--instance", site.Instance("another")))
	must.Be(r.Code != 0, "%s was bound twice: %s", first, r)
	fmt.Printf("  a second tenant for %s is refused\n", first)
}

// bind gives a device to its tenant, who writes all over it.
func (d *demo) bind(ctx context.Context, f site.Device) {
	d.burnish(ctx, "bind", f.Name, "--instance", site.Instance(f.Name))
	reserved := must.Get(d.Provider(f.Name)).Reserved
	must.Be(reserved == 1, "%s is bound and its reservation is %d, want 1", f.Name, reserved)
	must.Do(f.Stamp(nonce))
	tenant, _, other, err := f.Count(nonce)
	must.Do(err)
	must.Be(tenant == f.Blocks() && other == 0, "%s: %d blocks carry the tenant's bytes, %d others", f.Name, tenant, other)
	fmt.Printf("  %s: reserved 1 of 1; the tenant wrote: %d of %d blocks are the tenant's\n", f.Name, tenant, tenant)
}

func (d *demo) unbind(ctx context.Context, name string) {
	d.burnish(ctx, "unbind", name, "--instance", site.Instance(name))
}

// requireClean asserts that nothing of the tenant is left and the device is available.
func (d *demo) requireClean(ctx context.Context, f site.Device) {
	tenant, zero, other, err := f.Count(nonce)
	must.Do(err)
	must.Be(tenant == 0 && other == 0, "%s: %d blocks of the tenant and %d others are left", f.Name, tenant, other)
	v := d.requireAvailable(ctx, f.Name)
	must.Be(len(v.Cleans) > 0, "%s has no record of a clean", f.Name)
	var reprocessed int64
	var parts []string
	for _, step := range v.Cleans[len(v.Cleans)-1].Steps {
		if step.Step != "verify" { // which proves only what it read under one hold
			reprocessed += step.ReprocessedBytesMax
		}
		parts = append(parts, fmt.Sprintf("%s %d MiB (%s)", step.Step, step.Bytes>>20, step.Method))
	}
	must.Be(reprocessed <= 2*steps.MaxRepeated, "%s: the record says that up to %d bytes were wiped twice", f.Name,
		reprocessed)
	fmt.Printf("  %s: 0 blocks of the tenant left, %d zero; reserved 0 of 1; %s\n", f.Name, zero,
		strings.Join(parts, ", "))
}

// requireAvailable asserts that a device is clean, available and not reserved.
func (d *demo) requireAvailable(ctx context.Context, name string) contract.DeviceStatus {
	v, reserved := must.Get(d.Show(ctx, name)), must.Get(d.Provider(name)).Reserved
	must.Be(reserved == 0 && !v.Dirty && v.DeviceState == device.Available, "%s: %s, dirty %v, reserved %d", name,
		v.DeviceState, v.Dirty, reserved)
	return v
}

func (d *demo) repair(ctx context.Context) {
	d.burnish(ctx, "list", "--needs-operator")
	v, reserved := must.Get(d.Show(ctx, "gpu1")), must.Get(d.Provider("gpu1")).Reserved
	must.Be(reserved == 1 && v.Dirty && v.NeedsOperator, "gpu1: reserved %d, dirty %v, needs operator %v", reserved,
		v.Dirty, v.NeedsOperator)
	fmt.Printf("  gpu1: %s; reserved 1 of 1. Remedy: %s\n", v.LastError, v.Remedy)
	d.burnish(ctx, "clean", "gpu1", "--wait")
}

func (d *demo) cleanBySignal(ctx context.Context) {
	c := must.Get(d.Server.Dial(d.Namespace))
	defer c.Close()
	fmt.Printf("$ temporal workflow signal --workflow-id %s --name clean\n", contract.WorkflowID("gpu2"))
	must.Do(client.New(c).RequestClean(ctx, "gpu2", contract.CleanInput{}))
	d.settle(ctx, nil)
}

func (d *demo) checkAll(ctx context.Context) {
	for _, v := range must.Get(d.List(ctx)) {
		d.requireAvailable(ctx, v.Name)
	}
	d.burnish(ctx, "list")
}
