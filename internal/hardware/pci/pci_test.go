package pci

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"burnish/internal/clean/steps"
	"burnish/internal/device"
	"burnish/internal/hardware"
	"burnish/internal/testkit/suites/hardwaretest"
)

// F1, F11, F14, F19, F32
func TestSuite(t *testing.T) {
	h := newFakeHost(t)
	made := 0
	hardwaretest.Run(t, hardwaretest.Fixture{
		Driver: h, Sizes: []int64{hardware.Align, 2*hardware.ZeroesLen + 3*hardware.Align},
		New: func(t *testing.T, size int64) hardwaretest.Device {
			made++
			at := fmt.Sprintf("0000:%02x:00.0", made)
			h.add(at, "1af4:1110", "050000", "accel", uint64(made))
			path := h.memory(at, size)
			h.host.Models = []device.Model{{ID: "1af4:1110", Memory: device.Memory{BAR: 2, Size: size}}}
			target := h.target()
			target.Address, target.Step = at, stepZero
			return hardwaretest.Device{Target: target, Backdoor: hardwaretest.File(path)}
		},
	})
}

func TestWhatGoesToATenantTogetherIsOneDevice(t *testing.T) {
	group := func(h *fakeHost, address, group string) {
		h.group(address, group)
	}
	h := newFakeHost(t)
	h.add(address, "1af4:1050", "030000", "", 7)
	h.add("0000:01:00.1", "1af4:1052", "040300", "snd_hda_intel", 7)
	h.add("0000:02:00.0", "1af4:1052", "040300", "", 8)
	found := h.enroll()
	require.Equal(t, "GPU", found.Type)
	require.Equal(t, "1af4:1050", found.Identity.Model)
	require.Equal(t, "1af4:1050 0000:0000 rev 00; 1af4:1052 0000:0000 rev 00", found.Identity.Subsystem)

	h.add("0000:00:02.0", "8086:3420", "060400", "pcieport", 0)
	for _, at := range []string{address, "0000:00:02.0", "0000:02:00.0"} {
		group(h, at, "12")
	}
	c, err := h.Driver.open(h.target(), device.Identity{})
	require.NoError(t, err)
	require.Len(t, c.functions, 2, "those of the group but its bridge")
	require.Equal(t, "0000:02:00.0", c.functions[1].Address)
	c.closeAndJoin(&err)
	require.NoError(t, err)

	target := h.target()
	target.Settings["functions"] = address
	c, err = h.Driver.open(target, device.Identity{})
	require.NoError(t, err)
	require.Len(t, c.functions, 1, "those that the operator names")
	c.closeAndJoin(&err)
	require.NoError(t, err)

	all, err := h.Find(t.Context())
	require.NoError(t, err)
	require.Len(t, all, 2, "each device once")
	require.Equal(t, []string{address, "0000:01:00.1"}, []string{all[0].Address, all[1].Address})

	h.specs = `[{"vendor_id": "1af4", "product_id": "1050"}]`
	require.Contains(t, h.fails(device.Identity{}, device.CodeNotAllowed).Message, "0000:02:00.0")
}

func TestAModelWithoutAnEntryDoesNotBecomeAvailable(t *testing.T) {
	h := newFakeHost(t)
	h.add(address, "1af4:1111", "030000", "", 7)
	fault := h.fails(device.Identity{}, device.CodePolicyUnsatisfied)
	require.Equal(t, device.NeedsOperator, fault.Class)
	require.Contains(t, fault.Remedy, `{model: "1af4:1111", memory: "bar N size S"}`)

	h = newFakeHost(t)
	h.add(address, "1af4:1110", "050000", "", 7)
	h.memory(address, 32<<10)
	require.Contains(t, h.fails(device.Identity{}, device.CodePolicyUnsatisfied).Message, "the rest would not be erased")
	h = newFakeHost(t)
	h.host.Models[2].Memory.Script = "other"
	h.add(address, "1af4:1050", "030000", "", 7)
	_ = h.fails(device.Identity{}, device.CodeNotAllowed)
}

func TestTheStepsOfADevice(t *testing.T) {
	for _, tt := range []struct {
		ids, methods, images string
		operation            device.Operation
		size                 int64
		steps                []string
	}{
		{"1af4:1110", "bus", "", device.Shred, 64 << 10, []string{stepSecurity, stepProperties, stepReset}},
		{"1af4:1050", "", "", device.Script, 0, []string{stepSecurity, stepProperties, stepErase, stepVerify}},
		{"15b3:1017", "flr", `{}`, device.Script, 0,
			[]string{stepSecurity, stepProperties, stepErase, stepVerify, stepReflash, stepVerifyFirmware, stepReset}},
	} {
		h := newFakeHost(t)
		h.add(address, tt.ids, "050000", "", 7)
		h.file(node(address)+"reset_method", tt.methods)
		h.images = tt.images
		found := h.enroll()
		require.Equal(t, tt.operation, found.Operation)
		require.Equal(t, tt.size, found.Identity.Size)
		require.Equal(t, tt.steps, found.SupportedSteps)
		require.Equal(t, map[string]float64{"pci_reset": 35}, found.Priorities)
	}
}

func TestMemoryIsErasedByTheProgramOfThePolicy(t *testing.T) {
	h := newFakeHost(t)
	h.add(address, "1af4:1050", "030000", "", 7)
	opened := h.openAs(h.enroll().Identity)
	s := newSteps(t)
	for _, step := range []string{stepErase, stepVerify} {
		note, err := s.run(opened, step)
		require.NoError(t, err)
		require.Equal(t, "script gpu: done", note)
	}
	require.Equal(t, []string{"gpu erase_device " + address, "gpu verify " + address}, h.calls)

	h = newFakeHost(t)
	h.add(address, "15b3:1017", "020000", "", 7)
	note, err := s.run(h.openAs(h.enroll().Identity), stepErase)
	require.NoError(t, err)
	require.Contains(t, note, "nothing was erased", "no step claims what it did not see")
	require.Empty(t, h.calls)
}

// The steps zero and verify work on the memory as on a disk: from the resume point on, and every byte.
func TestMemoryIsZeroedFromTheResumePointAndReadBack(t *testing.T) {
	h := newFakeHost(t)
	h.add(address, "1af4:1110", "050000", "accel", 7)
	known := h.enroll().Identity
	do := func(step steps.Step, resume int64) (steps.Outcome, error) {
		opened := h.openFor(step.Name, known)
		defer func() { require.NoError(t, opened.Close()) }()
		return step.Run(t.Context(), &steps.Work{Device: opened, Operation: device.Shred, Enrolled: known, Resume: resume,
			Record: func(int64) error { return nil }})
	}
	_, err := do(steps.Zero(), 16<<10)
	require.NoError(t, err)
	_, err = do(steps.Verify(), 0)
	require.Contains(t, hardwaretest.RequireFault(t, err, device.CodeVerifyFailed).Message, "at byte 0:")
	memory := h.read(node(address) + "resource2")
	require.Equal(t, strings.Repeat("t", 16<<10)+strings.Repeat("\x00", 48<<10), memory)
	_, err = do(steps.Zero(), 0)
	require.NoError(t, err)
	outcome, err := do(steps.Verify(), 0)
	require.NoError(t, err)
	require.EqualValues(t, 64<<10, outcome.Held, "under one hold")
	require.Equal(t, "pci", h.openFor("", known).Method())
}

// While the memory is written and read, no driver has the device.
func TestMemoryIsWrittenWithoutADriver(t *testing.T) {
	h := newFakeHost(t)
	h.add(address, "1af4:1110", "050000", "accel", 7)
	opened := h.openFor(stepZero, h.enroll().Identity)
	require.NoError(t, opened.ZeroAt(t.Context(), 0, opened.Size()))
	require.Empty(t, opened.functions[0].Driver)
	require.Equal(t, "burnish", h.read(node(address)+"driver_override"))
	require.Equal(t, []string{"driver_override=burnish", "unbind=" + address, "enable=1"}, h.wrote[:3])
	require.NoError(t, opened.closeMemory())
	require.NoError(t, opened.attach(t.Context()))
	require.Equal(t, "accel", opened.functions[0].Driver)
	require.Equal(t, "(null)", h.read(node(address)+"driver_override"))
}

// A region that shows one part of a memory in several places, or drops what is written to it, is not zeroed
// by zeroes.
func TestARegionThatIsNoMemoryIsNotZeroed(t *testing.T) {
	part := make([]byte, 8192)
	require.True(t, keepsMarks(part))
	h := newFakeHost(t)
	h.add(address, "1af4:1110", "050000", "", 7)
	opened := h.openFor(stepZero, h.enroll().Identity)
	require.NoError(t, opened.closeMemory())
	opened.memory = aliased(t, int(opened.Size()))
	hardwaretest.RequireFault(t, opened.ZeroAt(t.Context(), 0, opened.Size()), device.CodeOverwriteUnsupported)
}

// The memory of a device that leaves its bus is a fault, not the end of the worker.
func TestMemoryThatGoesAwayIsAFault(t *testing.T) {
	h := newFakeHost(t)
	h.add(address, "1af4:1110", "050000", "", 7)
	opened := h.openFor(stepZero, h.enroll().Identity)
	require.NoError(t, os.Truncate(filepath.Join(h.root, node(address)+"resource2"), 0))
	_, err := opened.ReadAt(make([]byte, 1), 0)
	require.Contains(t, hardwaretest.RequireFault(t, err, device.CodeIO).Message, "went away")
	hardwaretest.RequireFault(t, opened.ZeroAt(t.Context(), 0, opened.Size()), device.CodeIO)
}

// A worker's environment may have its keys and passwords.
func TestAProgramInheritsNothingOfTheEnvironment(t *testing.T) {
	t.Setenv("TEMPORAL_API_KEY", "hunter2")
	program := filepath.Join(t.TempDir(), "devlink")
	require.NoError(t, os.WriteFile(program, []byte("#!/bin/sh\ncat /proc/$$/environ\n"), 0o700))
	c := card{Driver: New(Host{}), ran: map[string]bool{}}
	environment, err := c.ask(t.Context(), nil, program)
	require.NoError(t, err)
	require.True(t, c.ran[program])
	require.Contains(t, environment, "LC_ALL=C")
	require.NotContains(t, environment, "hunter2")
}
