package nvme_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"burnish/internal/clean"
	"burnish/internal/clean/steps"
	"burnish/internal/device"
	"burnish/internal/hardware"
	"burnish/internal/hardware/block"
	"burnish/internal/hardware/nvme"
	"burnish/internal/pci"
	"burnish/internal/testkit/nvmesim"
	"burnish/internal/testkit/suites/hardwaretest"
)

// tenant is the nonce in the tenant's data.
const tenant = 7

// driveFixture is a host with emulated drives. nvme-cli, the driver and the steps are real.
type driveFixture struct {
	t      *testing.T
	site   *nvmesim.Host
	driver *nvme.Driver
	// proc is the procfs that the driver sees.
	proc string
	// allow is the host's rule; nil allows everything.
	allow func(pci.Device) error
	specs pci.Specs
}

func newDriveFixture(t *testing.T, controllers ...nvmesim.Controller) *driveFixture {
	t.Helper()
	b := &driveFixture{t: t, site: nvmesim.New(t, controllers...), proc: nvmesim.QuietProc(t)}
	b.driver = nvme.New(nvme.Host{
		Allow: func(d pci.Device) error {
			if b.allow != nil {
				return b.allow(d)
			}
			return nil
		},
		Specs:  func() (pci.Specs, error) { return b.specs, nil },
		Tool:   b.site.Tool(),
		Run:    b.site.Run,
		Kernel: block.Kernel{Proc: b.proc, Sys: b.site.Sys, Dev: b.site.Dev},
	})
	return b
}

// showThisProcess has the driver look for users in this process, too.
func (b *driveFixture) showThisProcess() {
	b.t.Helper()
	pid := strconv.Itoa(os.Getpid())
	require.NoError(b.t, os.Symlink(filepath.Join("/proc", pid), filepath.Join(b.proc, pid)))
}

func (b *driveFixture) target(i int) hardware.Target {
	return hardware.Target{Name: "d", Driver: "nvme", Address: b.site.State(i).Address}
}

// enroll discovers drive i for the first time.
func (b *driveFixture) enroll(i int) hardware.Discovery {
	b.t.Helper()
	found, err := b.driver.Discover(b.t.Context(), b.target(i), device.Identity{})
	require.NoError(b.t, err)
	return found
}

// writeAsTenant fills all of drive i's media with stamps, whatever its namespaces are.
func (b *driveFixture) writeAsTenant(i int) {
	b.t.Helper()
	media := hardwaretest.File(b.site.Media(i))
	size, err := media.Size()
	require.NoError(b.t, err)
	require.NoError(b.t, hardwaretest.Stamp(media, size, tenant))
	b.site.MarkWritten(i)
}

// tenantBlocks counts the tenant's blocks on drive i's media.
func (b *driveFixture) tenantBlocks(i int) int {
	b.t.Helper()
	media := hardwaretest.File(b.site.Media(i))
	size, err := media.Size()
	require.NoError(b.t, err)
	found, err := hardwaretest.Find(media, size, tenant)
	require.NoError(b.t, err)
	return found
}

// cleanRun is one clean, with the steps run as a host runs them. Evidence and resume points
// survive an attempt, as in the journal.
type cleanRun struct {
	*driveFixture
	target    hardware.Target
	found     hardware.Discovery
	enrolled  device.Identity
	operation device.Operation
	settings  device.StepSettings
	evidence  map[string]json.RawMessage
	offsets   map[string]int64
	// args are the arguments of each step. reflashed is what the host recorded.
	args      json.RawMessage
	reflashed string
	// save, if set, is called for each record, with what writes it.
	save func(write func() error) error
	// checkpoints and saves count both.
	checkpoints, saves int
	// stop, if set, is called at each checkpoint.
	stop func(step string, offset int64) error
	done map[string]steps.Outcome
}

func (b *driveFixture) clean(i int, found hardware.Discovery, operation device.Operation) *cleanRun {
	return &cleanRun{driveFixture: b, target: b.target(i), found: found, enrolled: found.Identity, operation: operation,
		evidence: map[string]json.RawMessage{}, offsets: map[string]int64{}, done: map[string]steps.Outcome{}}
}

// enrolled is a clean, by this operation, of an enrolled drive that was changed since, as the kernel
// knows it now.
func enrolled(t *testing.T, operation device.Operation, changes ...func(*nvmesim.Controller)) *cleanRun {
	t.Helper()
	b := newDriveFixture(t, nvmesim.Drive("S1"))
	return b.changed(b.enroll(0), operation, changes...)
}

// used is enrolled of a drive that a tenant filled before the changes.
func used(t *testing.T, operation device.Operation, changes ...func(*nvmesim.Controller)) *cleanRun {
	t.Helper()
	b := newDriveFixture(t, nvmesim.Drive("S1"))
	found := b.enroll(0)
	b.writeAsTenant(0)
	return b.changed(found, operation, changes...)
}

func (b *driveFixture) changed(found hardware.Discovery, operation device.Operation,
	changes ...func(*nvmesim.Controller)) *cleanRun {
	b.t.Helper()
	for _, change := range changes {
		b.site.Change(0, change)
	}
	if changes != nil {
		b.site.Rescan(0)
	}
	b.site.ClearLog()
	return b.clean(0, found, operation)
}

// again is another clean of the same drive.
func (r *cleanRun) again(operation device.Operation) *cleanRun { return r.clean(0, r.found, operation) }

// change changes the drive.
func (r *cleanRun) change(do func(*nvmesim.Controller)) { r.site.Change(0, do) }

// sent are the commands of these opcodes that the drives got; none means all that change a drive.
func (b *driveFixture) sent(opcodes ...uint8) []nvmesim.Command {
	b.t.Helper()
	if opcodes == nil {
		opcodes = changes
	}
	return slices.DeleteFunc(b.site.Log(), func(c nvmesim.Command) bool { return !slices.Contains(opcodes, c.Opcode) })
}

// requireClean runs these steps, or the whole plan: then nothing of the tenant is left.
func (r *cleanRun) requireClean(names ...string) {
	r.t.Helper()
	if names == nil {
		names = r.fullPlan()
	}
	_, err := r.all(r.t.Context(), names...)
	require.NoError(r.t, err)
	require.Zero(r.t, r.tenantBlocks(0))
}

// requireRefused requires that a step is refused, and that the tenant's bytes and the drive stay as
// they are.
func (r *cleanRun) requireRefused(code device.Code, step string) refusal {
	r.t.Helper()
	before := r.tenantBlocks(0)
	f := fault(r.t, code, r.step(r.t.Context(), step))
	require.Equal(r.t, before, r.tenantBlocks(0))
	return f
}

// fullPlan is the planner's plan for the drive.
func (r *cleanRun) fullPlan() []string {
	r.t.Helper()
	planner, err := clean.NewPlanner(steps.All().Planning(), clean.Policy{})
	require.NoError(r.t, err)
	plan, fault := planner.Full(clean.Subject{Name: "d", NVMe: true, Operation: r.operation,
		Capabilities: *r.found.Capabilities, Size: r.enrolled.Size, HostSteps: steps.All().Versions()})
	require.Nil(r.t, fault)
	var names []string
	for _, p := range plan {
		names = append(names, p.Step.Name)
	}
	return names
}

// step runs one attempt of one step.
func (r *cleanRun) step(ctx context.Context, name string) (err error) {
	r.t.Helper()
	all := steps.All()
	at := slices.IndexFunc(all, func(s steps.Step) bool { return s.Name == name })
	require.GreaterOrEqual(r.t, at, 0, name)
	target := r.target
	target.Step, target.Reflashed = name, r.reflashed
	handle, err := r.driver.Open(ctx, target, r.enrolled, all[at].Writes)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, handle.Close()) }()
	outcome, err := all[at].Run(ctx, &steps.Work{
		Device: handle, Operation: r.operation, Enrolled: r.enrolled, Resume: r.offsets[name], Settings: r.settings,
		Args:     r.args,
		Progress: func(int, string) {},
		Reflash: func(revision string) error {
			return r.record(func() error {
				r.reflashed = revision
				return nil
			})
		},
		SaveEvidence: func(name string, value any) error {
			text, err := json.Marshal(value)
			return errors.Join(err, r.record(func() error {
				r.evidence[name] = text
				return nil
			}))
		},
		LoadEvidence: func(name string, into any) (bool, error) {
			text, ok := r.evidence[name]
			if !ok {
				return false, nil
			}
			return true, json.Unmarshal(text, into)
		},
		Record: func(offset int64) error {
			r.offsets[name] = offset
			r.checkpoints++
			if r.stop != nil {
				return r.stop(name, offset)
			}
			return nil
		},
	})
	if err == nil {
		r.done[name] = outcome
	}
	return err
}

// attempts runs a step as its activity does: again after a transient fault.
func (r *cleanRun) attempts(name string) (err error) {
	r.t.Helper()
	for range 5 {
		err = r.step(r.t.Context(), name)
		if f, ok := device.AsFault(err); !ok || f.Class != device.Transient {
			break
		}
	}
	return err
}

// record writes to the host's records.
func (r *cleanRun) record(write func() error) error {
	r.saves++
	if r.save != nil {
		return r.save(write)
	}
	return write()
}

// all runs a whole plan and returns the first error with its step.
func (r *cleanRun) all(ctx context.Context, names ...string) (string, error) {
	r.t.Helper()
	for _, name := range names {
		if err := r.step(ctx, name); err != nil {
			return name, err
		}
	}
	return "", nil
}

// refusal is the part of a fault that tests compare.
type refusal struct {
	Class           device.Class
	Message, Remedy string
}

// fault requires an error with this code.
func fault(t *testing.T, code device.Code, err error) refusal {
	t.Helper()
	require.Error(t, err)
	f, ok := device.AsFault(err)
	require.True(t, ok, "%v", err)
	require.Equal(t, code, f.Code, f.Message)
	require.NotContains(t, f.Error(), "\n")
	require.NotEmpty(t, f.Remedy)
	return refusal{f.Class, f.Message, f.Remedy}
}
