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
func (d *demo) play(ctx context.Context, target string) (err error) {
	for i := range 4 {
		d.files = append(d.files, d.FileDevice(fmt.Sprintf("disk%d", i+1), fileSize))
		if err := d.files[i].Stamp(nonce); err != nil {
			return err
		}
	}
	l, why, err := newLoop(d.Dir)
	if err != nil {
		return err
	}
	if l != nil {
		defer func() { err = errors.Join(err, l.close()) }()
		if err := d.allow(l.Path, filepath.Join(d.Dir, "drive", "disk.img")); err != nil {
			return err
		}
	}
	if target != "" {
		if err := d.addOwn(target); err != nil {
			return err
		}
	}
	chapters := []struct {
		title string
		play  func(context.Context) error
	}{
		{"Four files of 256 MiB, four simulated devices and a server of a shared pool are enrolled; whatever is on them is wiped first", d.enrollAll},
		{"A tenant gets each device; the device is burned before the tenant may use it", d.bindAll},
		{"The tenants leave; in the middle of the wipe the worker is killed with kill -9", d.crashWorker},
		{"A file of 2 GiB full of bytes is enrolled; in the middle of its wipe server and worker are killed, both with kill -9", d.crashAll},
		{"A loop device over a file on a file system of its own: what lies below is counted",
			func(ctx context.Context) error {
				if l == nil {
					fmt.Printf("  left out: %s\n", why)
					return nil
				}
				return d.turnLoopOver(ctx, l)
			}},
		{"Another user of a shared pool takes a server and frees it; Burnish notices both, and cleans it before a tenant gets it", d.shareServer},
		{"A device whose step fails waits for its operator, burned; the operator's clean repairs it", d.repair},
		{"Any Temporal client may trigger a clean, with a raw signal", d.cleanBySignal},
		{"Everything is clean and back in the offer", d.checkAll},
	}
	for i, c := range chapters {
		fmt.Printf("\n%d. %s.\n\n", i+1, c.title)
		if err := c.play(ctx); err != nil {
			return fmt.Errorf("chapter %d: %w", i+1, err)
		}
	}
	return nil
}

// addOwn adds the operator's own file to the tenants' files.
func (d *demo) addOwn(target string) error {
	path, err := filepath.EvalSymlinks(target)
	if err != nil {
		return err
	}
	if path, err = filepath.Abs(path); err != nil {
		return err
	}
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	d.files = append(d.files, site.Device{Name: "own", Driver: "block", Path: path, Size: info.Size(),
		Set: []string{"path=" + path}})
	return d.allow(path)
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

func (d *demo) enrollAll(ctx context.Context) error {
	for _, f := range d.files {
		if err := d.enroll(ctx, f); err != nil {
			return err
		}
	}
	for _, f := range fakes {
		one := site.Device{Name: f.name, Driver: "fake", Set: append([]string{"size=64MiB"}, f.settings...)}
		if err := d.enroll(ctx, one, "--type", f.kind); err != nil {
			return err
		}
	}
	server, err := d.sharedServer()
	if err != nil {
		return err
	}
	if err := d.enroll(ctx, server, "--type", "NODE"); err != nil {
		return err
	}
	if err := d.settle(ctx, repairable); err != nil {
		return err
	}
	return d.burnish(ctx, "list")
}

func (d *demo) enroll(ctx context.Context, f site.Device, flags ...string) error {
	d.enrolled++
	return d.burnish(ctx, d.EnrollArgs(f, append(flags, "--one-time-use", "--provide")...)...)
}

// settle waits until each device is in the state named, or available.
func (d *demo) settle(ctx context.Context, want map[string]device.State) error {
	return proc.Await(ctx, 90*time.Second, proc.PollEvery, "the devices to settle", func() (bool, string) {
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
	})
}

func (d *demo) bindAll(ctx context.Context) error {
	for _, f := range d.files {
		if err := d.bind(ctx, f); err != nil {
			return err
		}
	}
	for _, name := range []string{"nic1", "nvme1"} {
		if err := d.burnish(ctx, "bind", name, "--instance", site.Instance(name)); err != nil {
			return err
		}
	}
	first := d.files[0].Name
	if r, err := d.Burnish(ctx, "bind", first, "--instance", site.Instance("another")); err != nil || r.Code == 0 {
		return errors.Join(err, fmt.Errorf("%s was bound twice: %s", first, r))
	}
	fmt.Printf("  a second tenant for %s is refused\n", first)
	return nil
}

// bind gives a device to its tenant, who writes all over it.
func (d *demo) bind(ctx context.Context, f site.Device) error {
	if err := d.burnish(ctx, "bind", f.Name, "--instance", site.Instance(f.Name)); err != nil {
		return err
	}
	if p, err := d.Provider(f.Name); err != nil || p.Reserved != 1 {
		return fmt.Errorf("%s is bound and its reservation is %d, want 1 (%w)", f.Name, p.Reserved, err)
	}
	if err := f.Stamp(nonce); err != nil {
		return err
	}
	tenant, _, other, err := f.Count(nonce)
	if err != nil || tenant != f.Blocks() || other != 0 {
		return fmt.Errorf("%s: %d blocks carry the tenant's bytes, %d others (%w)", f.Name, tenant, other, err)
	}
	fmt.Printf("  %s: reserved 1 of 1; the tenant wrote: %d of %d blocks are the tenant's\n", f.Name, tenant, tenant)
	return nil
}

func (d *demo) unbind(ctx context.Context, name string) error {
	return d.burnish(ctx, "unbind", name, "--instance", site.Instance(name))
}

// requireClean asserts that nothing of the tenant is left and the device is available.
func (d *demo) requireClean(ctx context.Context, f site.Device) error {
	tenant, zero, other, err := f.Count(nonce)
	if err != nil || tenant != 0 || other != 0 {
		return fmt.Errorf("%s: %d blocks of the tenant and %d others are left (%w)", f.Name, tenant, other, err)
	}
	v, err := d.requireAvailable(ctx, f.Name)
	if err != nil {
		return err
	}
	if len(v.Cleans) == 0 {
		return fmt.Errorf("%s has no record of a clean", f.Name)
	}
	var reprocessed int64
	var parts []string
	for _, step := range v.Cleans[len(v.Cleans)-1].Steps {
		if step.Step != "verify" { // which proves only what it read under one hold
			reprocessed += step.ReprocessedBytesMax
		}
		parts = append(parts, fmt.Sprintf("%s %d MiB (%s)", step.Step, step.Bytes>>20, step.Method))
	}
	if reprocessed > 2*steps.MaxRepeated {
		return fmt.Errorf("%s: the record says that up to %d bytes were wiped twice", f.Name, reprocessed)
	}
	fmt.Printf("  %s: 0 blocks of the tenant left, %d zero; reserved 0 of 1; %s\n", f.Name, zero,
		strings.Join(parts, ", "))
	return nil
}

// requireAvailable asserts that a device is clean, available and not reserved.
func (d *demo) requireAvailable(ctx context.Context, name string) (contract.DeviceStatus, error) {
	v, err := d.Show(ctx, name)
	if err != nil {
		return v, err
	}
	p, err := d.Provider(name)
	if err != nil || p.Reserved != 0 || v.Dirty || v.DeviceState != device.Available {
		return v, fmt.Errorf("%s: %s, dirty %v, reserved %d (%w)", name, v.DeviceState, v.Dirty, p.Reserved, err)
	}
	return v, nil
}

func (d *demo) repair(ctx context.Context) error {
	if err := d.burnish(ctx, "list", "--needs-operator"); err != nil {
		return err
	}
	v, err := d.Show(ctx, "gpu1")
	if err != nil {
		return err
	}
	p, err := d.Provider("gpu1")
	if err != nil || p.Reserved != 1 || !v.Dirty || !v.NeedsOperator {
		return fmt.Errorf("gpu1: reserved %d, dirty %v, needs operator %v (%w)", p.Reserved, v.Dirty, v.NeedsOperator, err)
	}
	fmt.Printf("  gpu1: %s; reserved 1 of 1. Remedy: %s\n", v.LastError, v.Remedy)
	return d.burnish(ctx, "clean", "gpu1", "--wait")
}

func (d *demo) cleanBySignal(ctx context.Context) error {
	c, err := d.Server.Dial(d.Namespace)
	if err != nil {
		return err
	}
	defer c.Close()
	fmt.Printf("$ temporal workflow signal --workflow-id %s --name clean\n", contract.WorkflowID("gpu2"))
	if err := client.New(c).RequestClean(ctx, "gpu2", contract.CleanInput{}); err != nil {
		return err
	}
	return d.settle(ctx, nil)
}

func (d *demo) checkAll(ctx context.Context) error {
	all, err := d.List(ctx)
	if err != nil {
		return err
	}
	for _, v := range all {
		if _, err := d.requireAvailable(ctx, v.Name); err != nil {
			return err
		}
	}
	return d.burnish(ctx, "list")
}
