// Package pci cleans PCI functions of every kind, such as NICs, GPUs and accelerators, by what
// Linux itself offers for them: settings and firmware by devlink, memory by a region of the device
// (a BAR), resets by sysfs. What goes to a tenant together is one device: the functions of an IOMMU
// group. Where a device keeps its memory no kernel knows: the policy says so for each model, and a
// model without an entry is refused.
//
// A reset leaves a device's memory as it was (measured). No step takes one for an erase.
package pci

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"time"

	"burnish/internal/device"
	"burnish/internal/hardware"
	"burnish/internal/hardware/pcifunction"
	"burnish/internal/pci"
)

// Host is what the driver needs from its host.
type Host struct {
	// Allow returns nil if the host's rules let Burnish destroy this PCI device (F13), and Specs gives
	// the device_spec in force, which also selects the devices to find.
	Allow func(pci.Device) error
	Specs func() (pci.Specs, error)
	// Models is what the policy knows of each model. Images gives the arguments of firmware_reflash that
	// it has for a device, or nil.
	Models []device.Model
	Images func(kind, vendor, model string) (json.RawMessage, error)
	// Programs are the operator's.
	Programs Programs
}

// Programs runs the operator's programs; the driver script is one.
type Programs interface {
	// Allowed is nil if there is a program of this name, and it is what the host's rules say.
	Allowed(name string) error
	// Call runs a verb of it on a function, and gives its note. The caller has it locked, and has proved
	// that nothing else uses it.
	Call(ctx context.Context, name, verb string, t hardware.Target, f *pcifunction.Function, serial string,
		mayGoOn func() error) (note string, err error)
}

// Driver finds and opens PCI devices by the address of their first function.
type Driver struct {
	host   Host
	kernel pcifunction.Kernel
	// images is where the kernel looks for firmware.
	images string
	// write writes a file of sysfs, run runs a program.
	write func(path, text string) error
	run   func(*exec.Cmd) error
	// returns is how long a device may take until it answers after a reset, or is bound.
	returns time.Duration
}

// New returns the driver.
func New(h Host) *Driver {
	kernel := pcifunction.TheKernel()
	kernel.Search.NotSelf = true // it maps the memory itself
	return &Driver{host: h, kernel: kernel, images: "/lib/firmware", run: (*exec.Cmd).Run, returns: time.Minute,
		write: func(path, text string) error { return os.WriteFile(path, []byte(text), 0) }}
}

// Name is what `enroll --driver` takes.
func (d *Driver) Name() string { return "pci" }

// kinds are the types of devices by the base class of their first function.
var kinds = map[string]string{"02": "NIC", "03": "GPU", "12": "ACCELERATOR"}

func kindOf(dev pci.Device) string { return cmp.Or(kinds[dev.Class[:2]], "PCI") }

// Find lists the devices that device_spec matches; see hardware.Finder.
func (d *Driver) Find(context.Context) ([]hardware.Found, error) {
	return pcifunction.Find(d.kernel.Devices(), d.host.Specs,
		func(dev pci.Device, entry pci.Spec, found *hardware.Found) (bool, error) {
			if pcifunction.Other(dev) != "" || isBridge(dev) {
				return false, nil
			}
			found.Type, found.Model = kindOf(dev), dev.ID()
			found.Digest = fmt.Sprintf("%s %s %s %s", dev.ID(), dev.Driver, dev.IOMMUGroup, entry.Tags())
			functions, err := d.together(dev)
			return len(functions) > 0 && functions[0] == dev.Address, err
		})
}

// Discover reads the device at t.Address, whose memory and resets must be as the policy says; see hardware.Driver.
func (d *Driver) Discover(ctx context.Context, t hardware.Target,
	known device.Identity) (found hardware.Discovery, err error) {
	c, err := d.open(t, known)
	if err != nil {
		return hardware.Discovery{}, err
	}
	defer c.closeAndJoin(&err)
	if err := c.Check(ctx); err != nil {
		return hardware.Discovery{}, err
	}
	first, isNew := c.functions[0].Device, known == (device.Identity{})
	entry, _, err := pcifunction.Match(d.host.Specs, first)
	if err != nil {
		return hardware.Discovery{}, err
	}
	found = hardware.Discovery{Identity: c.now, Type: kindOf(first), LiveMigratable: entry.LiveMigratable(),
		Operation: device.Script, Priorities: map[string]float64{stepReset: resetPriority}}
	if c.model.Memory.Size > 0 {
		found.Operation = device.Shred
	}
	found.SupportedSteps, err = c.supportedSteps()
	if err == nil && isNew {
		found.Identity.Properties, err = c.record(ctx)
	}
	if err != nil {
		return hardware.Discovery{}, err
	}
	runs, err := c.firmware(ctx)
	if isNew || runs.running != "" && runs.running == t.Reflashed {
		found.Identity.Firmware = runs.running
	}
	found.Note = fmt.Sprintf("%s, %d functions, serial %s", first.ID(), len(c.functions),
		cmp.Or(found.Identity.Serial, "none: known by its place"))
	return found, err
}

// Open opens and locks the enrolled device, and proves that it is the enrolled one and that nothing
// else uses it; see hardware.Driver. For the steps that write or read its memory it maps that.
func (d *Driver) Open(ctx context.Context, t hardware.Target, enrolled device.Identity,
	writable bool) (_ hardware.Handle, err error) {
	c, err := d.open(t, enrolled)
	if err != nil {
		return nil, err
	}
	h := &handle{card: c, writable: writable}
	defer func() {
		if err != nil {
			err = errors.Join(err, h.Close())
		}
	}()
	if enrolled == (device.Identity{}) {
		return nil, hardware.Changed("path", t.Name+" was never enrolled")
	}
	if err := c.each(func(f *pcifunction.Function) error { return f.Lock(ctx) }); err != nil { // F1
		return nil, err
	}
	if err := h.Check(ctx); err != nil {
		return nil, err
	}
	if h.byPlace { // a worker that was killed left it unbound: its driver is to tell its serial
		if err := h.attach(ctx); err != nil {
			return nil, err
		}
		if err := h.settled(ctx); err != nil {
			return nil, err
		}
	}
	if h.Size() > 0 && (t.Step == stepZero || t.Step == stepVerify) {
		if err := h.openMemory(ctx); err != nil {
			return nil, err
		}
	}
	return h, nil
}

// The steps of this driver's devices. All but zero it carries out itself.
const (
	stepSecurity       = "security_check"
	stepZero           = "zero"
	stepErase          = "erase_device"
	stepVerify         = "verify"
	stepReflash        = "firmware_reflash"
	stepVerifyFirmware = "verify_firmware"
	stepReset          = "pci_reset"
	stepProperties     = "verify_properties"
)

// resetPriority is that of pci_reset for this driver: before what the device consists of is compared.
const resetPriority = 35

// handle is one opened device.
type handle struct {
	*card
	writable bool
	// memory is the device's, mapped; nil while it is not. Every function is unbound meanwhile.
	memory []byte
}

// supportedSteps are the steps that are for this device.
func (c *card) supportedSteps() ([]string, error) {
	all := []string{stepSecurity, stepProperties}
	if c.model.Memory.Size == 0 {
		all = append(all, stepErase, stepVerify)
	}
	images, err := c.policyImages()
	if images != nil {
		all = append(all, stepReflash, stepVerifyFirmware)
	}
	ways, failed := c.resetWays()
	if len(ways) > 0 {
		all = append(all, stepReset)
	}
	return all, errors.Join(err, failed)
}

// RunStep runs a step of the driver; see hardware.StepRunner.
func (h *handle) RunStep(ctx context.Context, run hardware.StepRun) (note string, err error) {
	steps := map[string]func(context.Context, hardware.StepRun) (string, error){
		stepSecurity: h.secure, stepErase: h.eraseByProgram, stepVerify: h.eraseByProgram, stepReflash: h.reflash,
		stepVerifyFirmware: h.verifyFirmware, stepReset: h.reset, stepProperties: h.verifyProperties,
	}
	step, ok := steps[run.Step]
	if !ok {
		return "", hardware.Refused(device.CodeNoSuchStep, "choose another step", "the driver pci has no step %s for %s",
			run.Step, h.target.Name)
	}
	if reads := []string{stepVerify, stepVerifyFirmware}; !h.writable && !slices.Contains(reads, run.Step) {
		return "", hardware.CallerError("%s was opened for reading only, and %s would change it", h.target.Name, run.Step)
	}
	if err := run.MayGoOn(); err != nil {
		return "", err
	}
	if note, err = step(ctx, run); err != nil {
		return "", err
	}
	return note, h.settled(ctx)
}

// settled is Check once drivers were bound: an interface may take a moment to come after its driver.
func (h *handle) settled(ctx context.Context) error {
	return hardware.PollBusy(ctx, h.returns, 50*time.Millisecond, func() error { return h.Check(ctx) })
}

// eraseByProgram has the operator's program erase the memory, or verify that. Of a model without memory
// it says no more than the policy does.
func (h *handle) eraseByProgram(ctx context.Context, run hardware.StepRun) (string, error) {
	if h.model.Memory.None {
		return fmt.Sprintf("nothing was erased and nothing read: by the policy %s has no memory", h.model.ID), nil
	}
	return h.host.Programs.Call(ctx, h.model.Memory.Script, run.Step, h.target, h.functions[0], h.enrolled.Serial,
		run.MayGoOn)
}

// Size is the size of the memory that is a BAR, else 0.
func (h *handle) Size() int64 { return h.model.Memory.Size }

// Unseen says which users of the device were not looked for; see hardware.UserSearcher.
func (h *handle) Unseen() string { return h.unseen }

// Method is the name of the driver.
func (h *handle) Method() string { return "pci" }

// Close gives up the memory and the configuration spaces, which releases the locks.
func (h *handle) Close() error {
	err := h.closeMemory()
	h.closeAndJoin(&err)
	return err
}
