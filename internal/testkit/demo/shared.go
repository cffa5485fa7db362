package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"burnish/internal/device"
	"burnish/internal/testkit/must"
	"burnish/internal/testkit/oneviewsim"
	"burnish/internal/testkit/proc"
	"burnish/internal/testkit/simserver"
	"burnish/internal/testkit/site"
	"burnish/workflows/contract"
)

// theirs marks the bytes of the pool's other user.
const theirs = 0x0721E125

// startAppliance starts a simulated appliance, and writes the worker's oneview.yaml.
func (d *demo) startAppliance(ctx context.Context) {
	dir, file := filepath.Join(d.Dir, "appliance"), filepath.Join(filepath.Dir(d.HostFile()), "oneview.yaml")
	a := must.Get(oneviewsim.StartProcess(ctx, filepath.Join(filepath.Dir(d.Programs.Burnish), "burnish-oneview-sim"), dir,
		oneviewsim.Servers(1)))
	d.appliance = a
	text := must.Get(json.Marshal(map[string]any{"appliances": map[string]any{"rack1": map[string]any{
		"url": a.URL, "username": a.Username, "password": a.Password, "domain": a.Domain,
		"ca":                      filepath.Join(dir, simserver.CAFile),
		"periodic_check_interval": 1,
	}}}))
	d.worker.Env = append(d.worker.Env, "BURNISH_ONEVIEW="+file)
	must.Do(os.WriteFile(file, text, 0o600))
}

// sharedServer is a simulated server that the appliance knows.
func (d *demo) sharedServer() site.Device {
	h := must.Get(d.appliance.Server("server-1"))
	return d.FakeDevice("server1", 64<<20, "serial="+h.Serial, "oneview=rack1", "server_hardware_uri="+h.URI(),
		"server_profile_template_uri="+oneviewsim.TemplateURI, "dynamic_allocation=true")
}

// shareServer has another user of the appliance take the server and free it.
func (d *demo) shareServer(ctx context.Context) {
	s := d.sharedServer()
	d.requireFree(ctx)
	fmt.Println("  another user of the appliance applies a profile to the server, and writes on its disk")
	must.Do(d.appliance.Take("server-1"))
	must.Do(s.Stamp(theirs))
	must.Get(d.AwaitDevice(ctx, s.Name, time.Minute, "to be found taken", func(v contract.DeviceStatus) bool {
		return v.DeviceState == device.Manageable && v.Pool != nil && v.Pool.Taken
	}))
	d.burnish(ctx, "list", "--type", "NODE")
	r := must.Get(d.Burnish(ctx, "bind", s.Name, "--instance", site.Instance(s.Name)))
	must.Be(r.Code != 0, "%s was bound while another user had it: %s", s.Name, r)
	fmt.Printf("  a tenant is refused: %s", r.Stderr)
	fmt.Println("  the other user removes the profile")
	must.Do(d.appliance.Free("server-1"))
	must.Do(proc.Await(ctx, time.Minute, proc.PollEvery, "a poll to find the server freed", func() (bool, string) {
		v, err := d.Show(ctx, s.Name)
		return err == nil && v.DeviceState != device.Manageable, fmt.Sprint(v.DeviceState, err)
	}))
	d.settle(ctx, repairable)
	left, zero, other, err := s.Count(theirs)
	must.Do(err)
	must.Be(left == 0 && other == 0, "%s: %d blocks of the other user and %d others are left", s.Name, left, other)
	fmt.Printf("  %s: 0 blocks of the other user left, %d zero\n", s.Name, zero)
	d.requireAvailable(ctx, s.Name)
	d.requireFree(ctx)
	violations := must.Get(d.appliance.Violations())
	must.Be(len(violations) == 0, "what Burnish may not do on the appliance: %q", violations)
	d.burnish(ctx, "oneview", "status", "rack1")
}

// requireFree asserts that an available server has no profile: others may take it.
func (d *demo) requireFree(ctx context.Context) {
	v := must.Get(d.Show(ctx, "server1"))
	h := must.Get(d.appliance.Server("server-1"))
	must.Be(h.Profile == "" && v.Pool != nil && v.Pool.Profile == "", "server1 is %s and has the profile %q",
		v.DeviceState, h.Profile)
	fmt.Println("  server1 is available and has no server profile: its appliance may give it to others")
}
