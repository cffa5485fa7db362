package pci

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"burnish/internal/device"
	"burnish/internal/hardware"
	"burnish/internal/hardware/pcifunction"
	"burnish/internal/pci"
	"burnish/internal/testkit/suites/hardwaretest"
)

const address = "0000:01:00.0"

// fakeHost is a host with PCI functions in a directory, whose kernel and programs are of this test.
type fakeHost struct {
	*Driver
	t       *testing.T
	root    string
	specs   string
	images  string // the firmware policy's, as JSON
	refuses map[string]error
	// wrote are the writes to sysfs, ran the commands that change something.
	wrote, ran []string
	// programs answer the commands by their words; the longest that fits counts.
	programs map[string]func(args []string) (stdout, stderr string)
	// onWrite is called after each write to sysfs.
	onWrite func(name, text string)
	calls   []string // of the operator's program
	runs    func(*exec.Cmd)
	// addresses are those of each network interface.
	addresses []net.Addr
}

func newFakeHost(t *testing.T) *fakeHost {
	t.Helper()
	h := &fakeHost{t: t, root: t.TempDir(), specs: `[{"vendor_id": "1af4"}, {"vendor_id": "15b3"}]`,
		refuses: map[string]error{}, programs: map[string]func([]string) (string, string){}}
	h.Driver = New(Host{
		Allow: func(d pci.Device) error {
			specs, err := h.host.Specs()
			require.NoError(t, err)
			if _, matches, _ := specs.Match(d); !matches {
				return hardware.Refused(device.CodeNotAllowed, "add it", "%s is not allowed", d.Address)
			}
			return nil
		},
		Specs: func() (pci.Specs, error) { return pci.ParseSpecs([]byte(h.specs)) },
		Models: []device.Model{
			{ID: "1af4:1110", Memory: device.Memory{BAR: 2, Size: 64 << 10}},
			{ID: "15b3:1017", Memory: device.Memory{None: true}},
			{ID: "1af4:1050", Memory: device.Memory{Script: "gpu"}},
		},
		Images: func(string, string, string) (json.RawMessage, error) {
			if h.images == "" {
				return nil, nil
			}
			return json.RawMessage(h.images), nil
		},
		Programs: h,
	})
	h.kernel.Sys, h.kernel.Dev, h.kernel.Search.Proc = h.root+"/sys", h.root+"/dev", h.root+"/proc"
	h.kernel.Addresses = func(string) ([]net.Addr, error) { return h.addresses, nil }
	h.Driver.images = h.root + "/firmware"
	h.returns = 50 * time.Millisecond
	h.Driver.write, h.Driver.run = h.writeSysfs, h.runProgram
	for _, dir := range strings.Fields("sys/bus/pci/devices sys/bus/pci/drivers sys/class/net dev/vfio proc") {
		require.NoError(t, os.MkdirAll(filepath.Join(h.root, dir), 0o755))
	}
	h.file("sys/bus/pci/drivers_probe", "")
	h.program("devlink", "", "kernel answers: No such device")
	h.program("ip", "[{}]", "")
	h.program("ethtool", "", "netlink error: Operation not supported")
	return h
}

func (h *fakeHost) file(name, text string) string {
	h.t.Helper()
	path := filepath.Join(h.root, name)
	require.NoError(h.t, os.MkdirAll(filepath.Dir(path), 0o755))
	require.NoError(h.t, os.WriteFile(path, []byte(text), 0o644))
	return path
}

func (h *fakeHost) link(target, name string) {
	h.t.Helper()
	path := filepath.Join(h.root, name)
	require.NoError(h.t, os.MkdirAll(filepath.Dir(path), 0o755))
	require.NoError(h.t, os.RemoveAll(path))
	require.NoError(h.t, os.Symlink(target, path))
}

// program has a command answer.
func (h *fakeHost) program(words, stdout, stderr string) {
	h.programs[words] = func([]string) (string, string) { return stdout, stderr }
}

// devlink makes a function a device of devlink.
func (h *fakeHost) devlink(address string) {
	h.program("devlink -j dev show pci/"+address, `{"dev": {"pci/`+address+`": {}}}`, "")
}

// group puts a function into an IOMMU group.
func (h *fakeHost) group(address, number string) {
	h.t.Helper()
	const groups = "kernel/iommu_groups/"
	h.link("../../../"+groups+number, node(address)+"iommu_group")
	h.link("../../../../devices/pci0000:00/"+address, "sys/"+groups+number+"/devices/"+address)
}

// node is where a function is below sysfs.
func node(address string) string { return "sys/devices/pci0000:00/" + address + "/" }

// configSpace is a configuration space with a serial number; 0: without one.
func configSpace(ids string, serial uint64) []byte {
	config := make([]byte, 4096)
	var vendor, product uint16
	_, _ = fmt.Sscanf(ids, "%04x:%04x", &vendor, &product)
	binary.LittleEndian.PutUint16(config, vendor)
	binary.LittleEndian.PutUint16(config[2:], product)
	config[4], config[6], config[0x34], config[0x40] = 2, 1<<4, 0x40, 0x10
	if serial != 0 {
		binary.LittleEndian.PutUint32(config[0x100:], 0x10003)
		binary.LittleEndian.PutUint64(config[0x104:], serial)
	}
	return config
}

// add adds a function.
func (h *fakeHost) add(address, ids, class, driver string, serial uint64) {
	h.t.Helper()
	at := node(address)
	vendor, product, _ := strings.Cut(ids, ":")
	for name, text := range map[string]string{
		"vendor": "0x" + vendor, "device": "0x" + product, "class": "0x" + class, "enable": "0", "reset": "",
		"reset_method": "flr bus", "driver_override": "(null)", "config": string(configSpace(ids, serial)),
		"current_link_speed": "8.0 GT/s PCIe", "current_link_width": "4",
	} {
		h.file(at+name, text)
	}
	h.memory(address, 64<<10)
	h.link("../../../devices/pci0000:00/"+address, "sys/bus/pci/devices/"+address)
	h.driver(address, driver)
}

// memory makes BAR 2 of a function.
func (h *fakeHost) memory(address string, size int64) (path string) {
	h.t.Helper()
	path = h.file(node(address)+"resource2", "")
	require.NoError(h.t, os.WriteFile(path, []byte(strings.Repeat("t", int(size))), 0o600))
	return path
}

func (h *fakeHost) driver(address, driver string) {
	h.t.Helper()
	require.NoError(h.t, os.RemoveAll(filepath.Join(h.root, node(address)+"driver")))
	if driver == "" {
		return
	}
	h.file("sys/bus/pci/drivers/"+driver+"/unbind", "")
	h.link("../../../bus/pci/drivers/"+driver, node(address)+"driver")
}

// read reads a file of the host's.
func (h *fakeHost) read(name string) string {
	h.t.Helper()
	text, err := os.ReadFile(filepath.Join(h.root, name))
	require.NoError(h.t, err)
	return string(text)
}

// writeSysfs is the kernel: it does what a write of an attribute asks for.
func (h *fakeHost) writeSysfs(path, text string) error {
	name, err := filepath.Rel(h.root, path)
	require.NoError(h.t, err)
	h.wrote = append(h.wrote, filepath.Base(name)+"="+strings.TrimSpace(text))
	if err := h.refuses[filepath.Base(name)]; err != nil {
		return &os.PathError{Op: "write", Path: path, Err: err}
	}
	address := strings.TrimSpace(text)
	switch filepath.Base(name) {
	case "unbind":
		h.driver(address, "")
	case "drivers_probe":
		if override := strings.TrimSpace(h.read(node(address) + "driver_override")); override != "burnish" {
			h.driver(address, override)
		}
	case "driver_override":
		if text == "\n" {
			text = "(null)"
		}
		require.NoError(h.t, os.WriteFile(path, []byte(text), 0o644))
	case "sriov_numvfs", "reset_method", "power":
		require.NoError(h.t, os.WriteFile(path, []byte(text), 0o644))
	}
	if h.onWrite != nil {
		h.onWrite(name, text)
	}
	return nil
}

// runProgram is the host's programs.
func (h *fakeHost) runProgram(cmd *exec.Cmd) error {
	if h.runs != nil {
		h.runs(cmd)
	}
	args := append([]string{filepath.Base(cmd.Args[0])}, cmd.Args[1:]...)
	words := strings.Join(args, " ")
	best := ""
	for known := range h.programs {
		if strings.HasPrefix(words, known) && len(known) > len(best) {
			best = known
		}
	}
	if best == "" {
		return exec.ErrNotFound
	}
	if cmd.SysProcAttr.Pdeathsig == 0 {
		h.ran = append(h.ran, words)
	}
	stdout, stderr := h.programs[best](args)
	if cmd.Stdout != nil {
		_, err := cmd.Stdout.Write([]byte(stdout))
		require.NoError(h.t, err)
	}
	if stderr != "" {
		_, err := cmd.Stderr.Write([]byte(stderr))
		require.NoError(h.t, err)
		return &exec.ExitError{}
	}
	return nil
}

// Allowed and Call are the operator's programs.
func (h *fakeHost) Allowed(name string) error {
	if name != "gpu" {
		return hardware.Refused(device.CodeNotAllowed, "add it", "there is no script %q", name)
	}
	return nil
}

func (h *fakeHost) Call(_ context.Context, name, verb string, _ hardware.Target, f *pcifunction.Function,
	_ string, _ func() error) (string, error) {
	if f.Config == nil {
		return "", errors.New("no lock")
	}
	h.calls = append(h.calls, name+" "+verb+" "+f.Address)
	return "script gpu: done", nil
}

func (h *fakeHost) target() hardware.Target {
	return hardware.Target{Name: "h1_" + address, Driver: "pci", Address: address, Settings: map[string]string{}}
}

// enroll discovers the device.
func (h *fakeHost) enroll() hardware.Discovery {
	h.t.Helper()
	found, err := h.Discover(h.t.Context(), h.target(), device.Identity{})
	require.NoError(h.t, err)
	return found
}

// open opens the enrolled device.
func (h *fakeHost) openAs(enrolled device.Identity) *handle {
	h.t.Helper()
	return h.openFor("", enrolled)
}

// openFor opens the enrolled device for a step.
func (h *fakeHost) openFor(step string, enrolled device.Identity) *handle {
	h.t.Helper()
	target := h.target()
	target.Step = step
	opened, err := h.Open(h.t.Context(), target, enrolled, true)
	require.NoError(h.t, err)
	h.t.Cleanup(func() { _ = opened.Close() })
	return opened.(*handle)
}

// fails discovers the device as one that is enrolled, and gives the fault.
func (h *fakeHost) fails(known device.Identity, code device.Code) *device.Fault {
	h.t.Helper()
	_, err := h.Discover(h.t.Context(), h.target(), known)
	return hardwaretest.RequireFault(h.t, err, code)
}

// cleanRun runs steps of one clean, which share what is saved.
type cleanRun struct {
	t        *testing.T
	saved    map[string]string
	progress []string
	flashed  []string
	args     string
}

func newSteps(t *testing.T) *cleanRun { return &cleanRun{t: t, saved: map[string]string{}} }

func (s *cleanRun) run(h *handle, step string) (string, error) {
	s.t.Helper()
	return s.runIn(s.t.Context(), h, step)
}

func (s *cleanRun) runIn(ctx context.Context, h *handle, step string) (string, error) {
	s.t.Helper()
	run := hardware.StepRun{
		Step: step, MayGoOn: func() error { return nil },
		Progress: func(percent int, doing string) error {
			s.progress = append(s.progress, fmt.Sprintf("%d %s", percent, doing))
			return nil
		},
		Save: func(name string, value any) error {
			text, err := json.Marshal(value)
			s.saved[name] = string(text)
			return err
		},
		Load: func(name string, into any) (bool, error) {
			text, ok := s.saved[name]
			if !ok {
				return false, nil
			}
			return true, json.Unmarshal([]byte(text), into)
		},
		Reflash: func(revision string) error { s.flashed = append(s.flashed, revision); return nil },
	}
	if s.args != "" {
		run.Args = json.RawMessage(s.args)
	}
	return h.RunStep(ctx, run)
}
