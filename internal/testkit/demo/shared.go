package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"burnish/internal/device"
	"burnish/internal/testkit/oneviewsim"
	"burnish/internal/testkit/proc"
	"burnish/internal/testkit/simserver"
	"burnish/internal/testkit/site"
	"burnish/workflows/contract"
)

// theirs marks the bytes of the pool's other user.
const theirs = 0x0721E125

// startAppliance starts a simulated appliance, and writes the worker's oneview.yaml.
func (d *demo) startAppliance(ctx context.Context) error {
	dir, file := filepath.Join(d.Dir, "appliance"), filepath.Join(filepath.Dir(d.HostFile()), "oneview.yaml")
	a, err := oneviewsim.StartProcess(ctx, filepath.Join(filepath.Dir(d.Programs.Burnish), "burnish-oneview-sim"), dir,
		oneviewsim.Servers(1))
	if err != nil {
		return err
	}
	d.appliance = a
	text, err := json.Marshal(map[string]any{"appliances": map[string]any{"rack1": map[string]any{
		"url": a.URL, "username": a.Username, "password": a.Password, "domain": a.Domain, "ca": filepath.Join(dir, simserver.CAFile),
		"periodic_check_interval": 1,
	}}})
	if err != nil {
		return err
	}
	d.worker.Env = append(d.worker.Env, "BURNISH_ONEVIEW="+file)
	return os.WriteFile(file, text, 0o600)
}

// sharedServer is a simulated server that the appliance knows.
func (d *demo) sharedServer() (site.Device, error) {
	h, err := d.appliance.Server("server-1")
	return d.FakeDevice("server1", 64<<20, "serial="+h.Serial, "oneview=rack1", "server_hardware_uri="+h.URI(),
		"server_profile_template_uri="+oneviewsim.TemplateURI, "dynamic_allocation=true"), err
}

// shareServer has another user of the appliance take the server and free it.
func (d *demo) shareServer(ctx context.Context) error {
	s, err := d.sharedServer()
	if err != nil {
		return err
	}
	if err := d.requireFree(ctx); err != nil {
		return err
	}
	fmt.Println("  another user of the appliance applies a profile to the server, and writes on its disk")
	if err := d.appliance.Take("server-1"); err != nil {
		return err
	}
	if err := s.Stamp(theirs); err != nil {
		return err
	}
	if _, err := d.AwaitDevice(ctx, s.Name, time.Minute, "to be found taken", func(v contract.DeviceStatus) bool {
		return v.DeviceState == device.Manageable && v.Pool != nil && v.Pool.Taken
	}); err != nil {
		return err
	}
	if err := d.burnish(ctx, "list", "--type", "NODE"); err != nil {
		return err
	}
	r, err := d.Burnish(ctx, "bind", s.Name, "--instance", site.Instance(s.Name))
	if err != nil || r.Code == 0 {
		return fmt.Errorf("%s was bound while another user had it: %s (%w)", s.Name, r, err)
	}
	fmt.Printf("  a tenant is refused: %s", r.Stderr)
	fmt.Println("  the other user removes the profile")
	if err := d.appliance.Free("server-1"); err != nil {
		return err
	}
	if err := proc.Await(ctx, time.Minute, proc.PollEvery, "a poll to find the server freed", func() (bool, string) {
		v, err := d.Show(ctx, s.Name)
		return err == nil && v.DeviceState != device.Manageable, fmt.Sprint(v.DeviceState, err)
	}); err != nil {
		return err
	}
	if err := d.settle(ctx, repairable); err != nil {
		return err
	}
	left, zero, other, err := s.Count(theirs)
	if err != nil || left != 0 || other != 0 {
		return fmt.Errorf("%s: %d blocks of the other user and %d others are left (%w)", s.Name, left, other, err)
	}
	fmt.Printf("  %s: 0 blocks of the other user left, %d zero\n", s.Name, zero)
	if _, err := d.requireAvailable(ctx, s.Name); err != nil {
		return err
	}
	if err := d.requireFree(ctx); err != nil {
		return err
	}
	violations, err := d.appliance.Violations()
	if err != nil || len(violations) > 0 {
		return fmt.Errorf("what Burnish may not do on the appliance: %q (%w)", violations, err)
	}
	return d.burnish(ctx, "oneview", "status", "rack1")
}

// requireFree asserts that an available server has no profile: others may take it.
func (d *demo) requireFree(ctx context.Context) error {
	v, err := d.Show(ctx, "server1")
	if err != nil {
		return err
	}
	h, err := d.appliance.Server("server-1")
	if err != nil || h.Profile != "" || v.Pool == nil || v.Pool.Profile != "" {
		return fmt.Errorf("server1 is %s and has the profile %q (%w)", v.DeviceState, h.Profile, err)
	}
	fmt.Println("  server1 is available and has no server profile: its appliance may give it to others")
	return nil
}
