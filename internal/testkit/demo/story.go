package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/google/uuid"

	"burnish/internal/clean/steps"
	"burnish/internal/config"
	"burnish/internal/device"
	"burnish/internal/host"
	"burnish/internal/testkit/suites/hardwaretest"
	"burnish/workflows/contract"
)

const (
	fileSize = 256 << 20
	bigSize  = 2 << 30
)

// nonce marks the tenant's bytes, block by block.
const nonce = 0x7E4A47

// file is one real file that stands for a drive.
type file struct {
	name, path string
	size       int64
}

// tell is the story; its first error ends it.
func tell(ctx context.Context, s *site, target string) (err error) {
	var files []file
	for i := range 4 {
		files = append(files, file{fmt.Sprintf("disk%d", i+1), filepath.Join(s.dir, "files", fmt.Sprintf("disk%d.img", i+1)), fileSize})
	}
	for _, f := range files {
		if err := f.fill(true); err != nil {
			return err
		}
	}
	big := file{"big", filepath.Join(s.dir, "files", "big.img"), bigSize}
	l, why, err := newLoop(s.dir)
	if err != nil {
		return err
	}
	if l != nil {
		defer func() { err = errors.Join(err, l.close()) }()
		if err := s.allow(l.path, filepath.Join(s.dir, "drive", "disk.img")); err != nil {
			return err
		}
	}
	if target != "" {
		own, err := own(s, target)
		if err != nil {
			return err
		}
		files = append(files, own)
	}
	chapters := []struct {
		title string
		tell  func(context.Context, *site, []file) error
	}{
		{"Four files of 256 MiB and four simulated devices become Burnish's; whatever is on them is wiped first", enrol},
		{"A tenant gets each device; it is burned before anybody may use it", bindAll},
		{"The tenants leave; in the middle of the wipe the worker is killed with kill -9", crash},
		{"A file of 2 GiB full of bytes is enrolled; in the middle of its wipe server and worker are killed, both with kill -9", func(ctx context.Context, s *site, _ []file) error {
			return crashAll(ctx, s, big)
		}},
		{"A loop device over a file on a file system of its own: what lies below is counted", func(ctx context.Context, s *site, _ []file) error {
			if l == nil {
				fmt.Printf("  left out: %s\n", why)
				return nil
			}
			return below(ctx, s, l)
		}},
		{"A device whose step fails waits for its operator, burned; the operator's clean repairs it", repair},
		{"Any Temporal client may trigger a clean, with a raw signal", byAnyClient},
		{"Everything is clean and back in the pool", final},
	}
	for i, c := range chapters {
		fmt.Printf("\n%d. %s.\n\n", i+1, c.title)
		if err := c.tell(ctx, s, files); err != nil {
			return fmt.Errorf("chapter %d: %w", i+1, err)
		}
	}
	return nil
}

func own(s *site, target string) (file, error) {
	path, err := filepath.EvalSymlinks(target)
	if err != nil {
		return file{}, err
	}
	path = absolute(path)
	info, err := os.Stat(path)
	if err != nil {
		return file{}, err
	}
	return file{"own", path, info.Size()}, s.allow(path)
}

// fill writes a tenant's bytes into every block.
func (f file) fill(create bool) (err error) {
	flags := os.O_RDWR
	if create {
		flags |= os.O_CREATE | os.O_EXCL
	}
	out, err := os.OpenFile(f.path, flags, 0o600)
	if err != nil {
		return err
	}
	defer func() {
		if closeErr := out.Close(); err == nil {
			err = closeErr
		}
	}()
	if err := hardwaretest.Stamp(out, f.size, nonce); err != nil {
		return err
	}
	return out.Sync()
}

// count counts the blocks with the tenant's bytes, the zero ones, and all others.
func (f file) count() (tenant, zero, other int, err error) {
	in, err := os.Open(f.path)
	if err != nil {
		return 0, 0, 0, err
	}
	defer in.Close()
	return hardwaretest.Count(in, f.size, nonce)
}

// fakes are the simulated devices: kind and settings. Two have a fault in the script
// that happens once, in the middle of their first wipe.
var fakes = []struct {
	name, kind string
	settings   []string
}{
	{"nic1", "NIC", []string{"size=64MiB", "delay=1s"}},
	{"nvme1", "NVME", []string{"size=64MiB", "delay=2s"}},
	{"gpu1", "GPU", []string{"size=64MiB", "fault=fail:zero@40%x1"}},
	{"server1", "SERVER", []string{"size=64MiB", "fault=fail:zero@40%x1"}},
}

// repairable are the devices that wait for their operator until the chapter of repairs.
var repairable = map[string]device.State{"gpu1": device.Error, "server1": device.Error}

func enrol(ctx context.Context, s *site, files []file) error {
	for _, f := range files {
		if err := s.enroll(f); err != nil {
			return err
		}
	}
	for _, f := range fakes {
		args := []string{"enroll", f.name, "--host", s.host, "--driver", "fake", "--type", f.kind, "--one-time-use", "--provide"}
		for _, setting := range f.settings {
			args = append(args, "--set", setting)
		}
		s.enrolled++
		if _, err := s.burnish(args...); err != nil {
			return err
		}
	}
	if err := s.settle(ctx, repairable); err != nil {
		return err
	}
	_, err := s.burnish("list")
	return err
}

func (s *site) enroll(f file) error {
	s.enrolled++
	_, err := s.burnish("enroll", f.name, "--host", s.host, "--driver", "block", "--set", "path="+f.path, "--one-time-use", "--provide")
	return err
}

// settle waits until each device is in the state named, or available.
func (s *site) settle(ctx context.Context, want map[string]device.State) error {
	return await(ctx, 90*time.Second, "the devices to settle", func() (bool, error) {
		all, err := s.devices()
		if err != nil || len(all) < s.enrolled {
			return false, err
		}
		for _, v := range all {
			state, ok := want[v.Name]
			if !ok {
				state = device.Available
			}
			if v.DeviceState != state {
				return false, nil
			}
		}
		return true, nil
	})
}

func bindAll(ctx context.Context, s *site, files []file) error {
	for _, f := range files {
		if err := s.bind(f); err != nil {
			return err
		}
	}
	for _, name := range []string{"nic1", "nvme1"} {
		if _, err := s.burnish("bind", name, "--instance", instance(name)); err != nil {
			return err
		}
	}
	if _, err := s.quietly("bind", files[0].name, "--instance", instance("another")); err == nil {
		return fmt.Errorf("%s was bound twice", files[0].name)
	}
	fmt.Printf("  a second tenant for %s is refused\n", files[0].name)
	return nil
}

// bind gives a device to its tenant, who writes all over it.
func (s *site) bind(f file) error {
	if _, err := s.burnish("bind", f.name, "--instance", instance(f.name)); err != nil {
		return err
	}
	if reserved, err := s.reserved(f.name); err != nil || reserved != 1 {
		return fmt.Errorf("%s is bound and its reservation is %d, want 1 (%w)", f.name, reserved, err)
	}
	if err := f.fill(false); err != nil {
		return err
	}
	tenant, _, other, err := f.count()
	if err != nil || int64(tenant) != (f.size+hardwaretest.Block-1)/hardwaretest.Block || other != 0 {
		return fmt.Errorf("%s: %d blocks carry the tenant's bytes, %d others (%w)", f.name, tenant, other, err)
	}
	fmt.Printf("  %s: reserved 1 of 1; the tenant wrote: %d of %d blocks are the tenant's\n", f.name, tenant, tenant)
	return nil
}

// instance is a tenant's UUID, the same in each run.
func instance(name string) string {
	return uuid.NewSHA1(uuid.NameSpaceURL, []byte("burnish:demo:"+name)).String()
}

// clean asserts that nothing of the tenant is left and the device is given back.
func (s *site) clean(f file) error {
	tenant, zero, other, err := f.count()
	if err != nil || tenant != 0 || other != 0 {
		return fmt.Errorf("%s: %d blocks of the tenant and %d others are left (%w)", f.name, tenant, other, err)
	}
	reserved, err := s.reserved(f.name)
	if err != nil || reserved != 0 {
		return fmt.Errorf("%s is clean and its reservation is %d, want 0 (%w)", f.name, reserved, err)
	}
	v, err := s.device(f.name)
	if err != nil {
		return err
	}
	if v.DeviceState != device.Available || v.Dirty || len(v.Cleans) == 0 {
		return fmt.Errorf("%s is %s, dirty %v", f.name, v.DeviceState, v.Dirty)
	}
	last := v.Cleans[len(v.Cleans)-1]
	var twice int64
	for _, step := range last.Steps {
		twice += step.ReprocessedBytesMax
	}
	if twice > 2*steps.Chunk {
		return fmt.Errorf("%s: the record says that up to %d bytes were done twice", f.name, twice)
	}
	fmt.Printf("  %s: 0 blocks of the tenant left, %d zero; reserved 0 of 1; %s\n", f.name, zero, record(last))
	return nil
}

func record(c contract.CleanSummary) string {
	var parts []string
	for _, step := range c.Steps {
		parts = append(parts, fmt.Sprintf("%s %d MiB (%s)", step.Step, step.Bytes>>20, step.Method))
	}
	return strings.Join(parts, ", ")
}

func repair(ctx context.Context, s *site, _ []file) error {
	if _, err := s.burnish("list", "--needs-operator"); err != nil {
		return err
	}
	v, err := s.device("gpu1")
	if err != nil {
		return err
	}
	reserved, err := s.reserved("gpu1")
	if err != nil || reserved != 1 || !v.Dirty || !v.NeedsOperator {
		return fmt.Errorf("gpu1: reserved %d, dirty %v, needs operator %v (%w)", reserved, v.Dirty, v.NeedsOperator, err)
	}
	fmt.Printf("  gpu1: %s; reserved 1 of 1. To do: %s\n", v.LastError, v.Remedy)
	_, err = s.burnish("clean", "gpu1", "--wait")
	return err
}

func byAnyClient(ctx context.Context, s *site, _ []file) error {
	if err := os.Setenv("TEMPORAL_ADDRESS", s.address); err != nil {
		return err
	}
	c, err := config.Dial(ctx, slog.New(slog.DiscardHandler), "")
	if err != nil {
		return err
	}
	defer c.Close()
	fmt.Printf("$ temporal workflow signal --workflow-id %s --name clean\n", contract.WorkflowID("server1"))
	if err := c.SignalWorkflow(ctx, contract.WorkflowID("server1"), "", contract.SignalClean, nil); err != nil {
		return err
	}
	return s.settle(ctx, nil)
}

func final(_ context.Context, s *site, _ []file) error {
	all, err := s.devices()
	if err != nil {
		return err
	}
	for _, v := range all {
		reserved, err := s.reserved(v.Name)
		if err != nil || reserved != 0 || v.Dirty || v.DeviceState != device.Available {
			return fmt.Errorf("%s: %s, dirty %v, reserved %d (%w)", v.Name, v.DeviceState, v.Dirty, reserved, err)
		}
	}
	_, err = s.burnish("list")
	return err
}

func names(files []file) []string {
	var all []string
	for _, f := range files {
		all = append(all, f.name)
	}
	return all
}

// reserved reads the device's reservation where a scheduler would.
func (s *site) reserved(name string) (int, error) {
	text, err := os.ReadFile(filepath.Join(s.dir, "state", "inventory", contract.DeviceUUID(name)+".json"))
	if err != nil {
		return 0, err
	}
	var provider struct {
		Reserved int `json:"reserved"`
	}
	return provider.Reserved, json.Unmarshal(text, &provider)
}

// journal reads the host's resume point of a device, as far as there is one.
func (s *site) journal(name string) (host.Entry, bool) {
	text, err := os.ReadFile(filepath.Join(s.dir, "state", "journal", name+".json"))
	if err != nil {
		return host.Entry{}, false
	}
	var stored struct {
		Data host.Entry `json:"data"`
	}
	return stored.Data, json.Unmarshal(text, &stored) == nil
}

// zeroesFrom counts the bytes that are zero from offset on, up to the first that is
// not: what was wiped and not yet journalled.
func (f file) zeroesFrom(offset int64) (int64, error) {
	in, err := os.Open(f.path)
	if err != nil {
		return 0, err
	}
	defer in.Close()
	p := make([]byte, 1<<20)
	total := int64(0)
	for at := offset; at < f.size; {
		n, err := in.ReadAt(p, at)
		for _, b := range p[:n] {
			if b != 0 {
				return total, nil
			}
			total++
		}
		if at += int64(n); err != nil && at < f.size {
			return total, err
		}
	}
	return total, nil
}
