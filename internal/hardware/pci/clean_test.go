package pci

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"burnish/internal/device"
	"burnish/internal/hardware"
	"burnish/internal/testkit/suites/hardwaretest"
)

// F10, F11
func TestTheIdentityOfADevice(t *testing.T) {
	vpd := append([]byte{0x82, 3, 0, 'a', 'b', 'c', 0x90, 10, 0, 'P', 'N', 1, 'x', 'S', 'N', 3}, 'S', 'N', '7')
	for name, tt := range map[string]struct {
		number uint64
		change func(h *fakeHost)
		serial string
	}{
		"its Device Serial Number": {0x0011223344556677, nil, "00-11-22-33-44-55-66-77"},
		"its vital product data":   {0, func(h *fakeHost) { h.file(node(address)+"vpd", string(vpd)) }, "SN7"},
		"its permanent MAC": {0, func(h *fakeHost) {
			h.class(address, "net", "eth0", nil)
			h.program("ethtool -P", "Permanent address: 02:00:00:00:00:01\n", "")
		}, "02:00:00:00:00:01"},
		"a MAC that is not its own": {0, func(h *fakeHost) {
			h.class(address, "net", "eth0", nil)
			h.program("ethtool -P", "Permanent address: not set\n", "")
		}, ""},
		"what devlink says": {0, func(h *fakeHost) {
			h.driver(address, "mlx5_core")
			h.versions("1.0", "1.0")
		}, "MT1"},
		"what devlink says of another's": {0, func(h *fakeHost) {
			h.driver(address, "vfio-pci")
			h.versions("1.0", "1.0")
			h.group(address, "12")
			h.kernel.OpenGroup = func(string) (int, error) { return unix.Open(os.DevNull, unix.O_RDONLY|unix.O_CLOEXEC, 0) }
		}, ""},
		"none": {0, nil, ""},
		"ones": {^uint64(0), nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			h := newFakeHost(t)
			h.add(address, "15b3:1017", "120000", "", tt.number)
			if tt.change != nil {
				tt.change(h)
			}
			found := h.enroll()
			require.Equal(t, tt.serial, found.Identity.Serial)
			if tt.serial == "" {
				require.Contains(t, found.Note, "known by its place")
			}
			again, err := h.Discover(t.Context(), h.target(), found.Identity)
			require.NoError(t, err)
			require.Equal(t, found.Identity, again.Identity)
			h.openAs(found.Identity)
		})
	}
}

func TestAnotherDeviceInTheSlotIsRefused(t *testing.T) {
	h := newFakeHost(t)
	h.add(address, "1af4:1110", "050000", "", 7)
	known := h.enroll().Identity
	h.add(address, "1af4:1110", "050000", "", 8)
	_ = h.fails(known, device.CodeSerialMismatch)
	h.add(address, "1af4:1050", "050000", "", 7)
	_ = h.fails(known, device.CodeIdentityChanged)
	h.add(address, "1af4:1110", "050000", "", 7)
	h.memory(address, 128<<10) // of which the policy's size would be erased
	_ = h.fails(known, device.CodeIdentityChanged)
	h.add(address, "1af4:1110", "050000", "", 7)
	opened := h.openFor(stepVerify, known)
	h.file(node(address)+"config", string(configSpace("1af4:1050", 7)))
	fault := hardwaretest.RequireFault(t, opened.Flush(t.Context()), device.CodeIdentityChanged)
	require.Contains(t, fault.Message, "1af4:1050")
	h.file(node(address)+"config", strings.Repeat("\xff", 4096))
	fault = hardwaretest.RequireFault(t, opened.Check(t.Context()), device.CodeTargetMissing)
	require.Contains(t, fault.Message, "left the bus")
}

func TestTheStrongestResetThatIsSafe(t *testing.T) {
	slot := func(h *fakeHost) {
		h.file("sys/bus/pci/slots/4/address", address[:len(address)-2])
		h.file("sys/bus/pci/slots/4/power", "1")
	}
	for name, tt := range map[string]struct {
		change func(h *fakeHost)
		rule   device.ResetRule
		way    string
		writes []string
	}{
		"the slot's power": {slot, device.ResetRule{}, "slot", []string{"power=0", "power=1"}},
		"a bus reset":      {nil, device.ResetRule{}, "bus", []string{"reset_method=bus", "reset=1", "reset_method=flr bus"}},
		"not the slot's power": {slot, device.ResetRule{Forbid: []string{"slot"}}, "bus",
			[]string{"reset_method=bus", "reset=1", "reset_method=flr bus"}},
		"what the policy requires": {slot, device.ResetRule{Require: "flr"}, "flr",
			[]string{"reset_method=flr", "reset=1", "reset_method=flr bus"}},
		"not what reaches another device": {func(h *fakeHost) {
			slot(h)
			h.add("0000:01:01.0", "8086:10d3", "020000", "", 9)
		}, device.ResetRule{}, "flr", []string{"reset_method=flr", "reset=1", "reset_method=flr bus"}},
	} {
		t.Run(name, func(t *testing.T) {
			h := newFakeHost(t)
			h.add(address, "1af4:1110", "050000", "accel", 7)
			h.host.Models[0].Reset = tt.rule
			if tt.change != nil {
				tt.change(h)
			}
			opened := h.openAs(h.enroll().Identity)
			h.wrote = nil
			note, err := newSteps(t).run(opened, stepReset)
			require.NoError(t, err)
			require.Equal(t, "reset by "+tt.way+"; a reset erases nothing", note)
			require.Equal(t, slices.Concat([]string{"driver_override=burnish", "unbind=" + address}, tt.writes,
				[]string{"driver_override=accel", "drivers_probe=" + address, "driver_override="}), h.wrote)
			require.Equal(t, "accel", opened.functions[0].Driver)
		})
	}
}

// A reset of one bus would leave the other's functions as they were.
func TestADeviceOnTwoBusesIsNotResetByBus(t *testing.T) {
	h := newFakeHost(t)
	for _, at := range []string{address, "0000:02:00.0"} {
		h.add(at, "1af4:1110", "050000", "", 7)
		h.group(at, "12")
		h.file(node(at)+"reset_method", "bus")
	}
	require.NotContains(t, h.enroll().SupportedSteps, stepReset)
}

func TestAResetThatFailsIsAnOperators(t *testing.T) {
	start := func() (*fakeHost, *handle) {
		h := newFakeHost(t)
		h.add(address, "1af4:1110", "050000", "", 7)
		return h, h.openAs(h.enroll().Identity)
	}
	h, opened := start()
	h.refuses["reset"] = unix.ENOTTY
	_, err := newSteps(t).run(opened, stepReset)
	fault := hardwaretest.RequireFault(t, err, device.CodeStepFailed)
	require.Equal(t, device.NeedsOperator, fault.Class)
	require.Contains(t, fault.Message, "cannot be reset by bus: inappropriate ioctl")
	require.Equal(t, "flr bus", h.read(node(address)+"reset_method"), "the order of the ways is put back")

	h, opened = start()
	h.onWrite = func(name, _ string) {
		if filepath.Base(name) == "reset" {
			h.file(node(address)+"config", strings.Repeat("\xff", 4096))
		}
	}
	_, err = newSteps(t).run(opened, stepReset)
	fault = hardwaretest.RequireFault(t, err, device.CodeTargetMissing)
	require.Equal(t, device.NeedsOperator, fault.Class)
	require.Contains(t, fault.Message, "does not answer")

	h, _ = start()
	h.host.Models[0].Reset = device.ResetRule{Require: "pm"}
	require.Contains(t, h.fails(device.Identity{}, device.CodePolicyUnsatisfied).Message, "requires that")
}

// versions has devlink tell a device's firmware.
func (h *fakeHost) versions(running, stored string) {
	h.program("devlink -j dev info", fmt.Sprintf(`{"info": {"pci/%s": {"serial_number": "MT1", "versions": `+
		`{"running": {"fw.mgmt": %q}, "stored": {"fw.mgmt": %q}}}}}`, address, running, stored), "")
}

// settings are those of a NIC, which its programs show and change.
type settings map[string]string

// nic has the programs show and change the settings of a NIC.
func (h *fakeHost) nic(now settings) {
	h.class(address, "net", "eth0", nil)
	show := func(words, form string, names ...string) {
		h.programs[words] = func([]string) (string, string) {
			var values []any
			for _, name := range names {
				values = append(values, now[name])
			}
			return fmt.Sprintf(form, values...), ""
		}
	}
	change := func(words, name string, value int) {
		h.programs[words] = func(args []string) (string, string) {
			now[name] = args[value]
			return "", ""
		}
	}
	h.devlink(address)
	show("devlink -j dev param show", `{"param": {"pci/`+address+`": [{"name": "max_macs", "values": `+
		`[{"cmode": "driverinit", "value": %s}]}, {"name": "secret", "values": [{"cmode": "permanent"}]}]}}`, "max_macs")
	h.program("devlink -j dev param show pci/", "", "Parameter name expected.") // as iproute2 answers
	change("devlink dev param set pci/"+address+" name max_macs cmode driverinit value", "max_macs", 10)
	show("devlink -j dev eswitch show", `{"dev": {"pci/`+address+`": {"mode": %q}}}`, "mode")
	change("devlink dev eswitch set", "mode", 6)
	show("devlink -j port show",
		`{"port": {"pci/`+address+`/0": {"type": "eth", "netdev": "eth0", "flavour": "physical"}%s}}`, "ports")
	h.programs["devlink port del"] = func([]string) (string, string) { now["ports"] = ""; return "", "" }
	h.program("devlink dev reload", "", "")
	show("ip -j link show", `[{"flags": ["BROADCAST"], "address": %q}]`, "mac")
	change("ip link set", "mac", 6)
	show("ethtool -P", "Permanent address: %s\n", "own")
	show("ethtool --show-priv-flags", "Private flags for eth0:\nrx_cqe : %s\n", "flag")
	change("ethtool --set-priv-flags", "flag", 4)
	show("ethtool -k", "Features for eth0:\nrx-checksumming: on [fixed]\n\ttx-nocache-copy: %s\n", "feature")
	change("ethtool -K", "feature", 4)
	show("ethtool -l", "Channel parameters for eth0:\nPre-set maximums:\nCombined:\t8\nCurrent hardware settings:\n"+
		"RX:\t\tn/a\nCombined:\t%s\n", "queues")
	change("ethtool -L", "queues", 4)
	show("mstconfig -d",
		"Device #1:\n\nConfigurations:      Next Boot\n   NUM_OF_VFS     %s\n   SRIOV_EN     True(1)\n", "vfs")
	h.programs["mstconfig -y -d"] = func(args []string) (string, string) {
		_, now["vfs"], _ = strings.Cut(args[5], "=")
		return "", ""
	}
}

func nicSettings() settings {
	return settings{"max_macs": "32", "mode": "legacy", "mac": "02:00:00:00:00:01", "flag": "off", "feature": "on",
		"queues": "4", "vfs": "8", "ports": "", "own": "02:00:00:00:00:01"}
}

// nicInUse is a NIC that is enrolled, and whose settings a tenant changed.
func nicInUse(t *testing.T) (h *fakeHost, now settings, known device.Identity) {
	h = newFakeHost(t)
	h.add(address, "15b3:1017", "020000", "mlx5_core", 7)
	now = nicSettings()
	h.nic(now)
	known = h.enroll().Identity
	for name, value := range map[string]string{"max_macs": "16", "mode": "switchdev", "mac": "02:00:00:00:00:66",
		"flag": "on", "feature": "off", "queues": "1", "vfs": "127",
		"ports": `, "pci/` + address + `/32768": {"type": "eth", "netdev": "eth0", "flavour": "pcisf"}`} {
		now[name] = value
	}
	return h, now, known
}

func TestWhatATenantSetIsPutBack(t *testing.T) {
	h, now, known := nicInUse(t)
	opened := h.openAs(known)
	note, err := newSteps(t).run(opened, stepSecurity)
	require.NoError(t, err)
	require.Equal(t, nicSettings(), now)
	require.Contains(t, note, "sub-function pci/"+address+"/32768 removed")
	require.Contains(t, note, "put back 0 devlink eswitch mode, ")
	require.Contains(t, h.ran, "devlink dev reload pci/"+address, "what counts after a reload is reloaded")
	note, err = newSteps(t).run(opened, stepSecurity)
	require.NoError(t, err)
	require.Equal(t, "nothing to put back", note)
	note, err = newSteps(t).run(opened, stepProperties)
	require.NoError(t, err)
	require.Contains(t, note, "facts as at the enrollment")
}

func TestASettingThatStaysIsAnOperators(t *testing.T) {
	h, _, known := nicInUse(t)
	h.program("devlink dev eswitch set", "", "")
	opened := h.openAs(known)
	_, err := newSteps(t).run(opened, stepSecurity)
	require.Contains(t, hardwaretest.RequireFault(t, err, device.CodePropertiesMismatch).Message,
		`0 devlink eswitch mode: "switchdev" instead of "legacy"`)
	delete(h.programs, "ethtool --show-priv-flags")
	delete(h.programs, "ethtool -k")
	delete(h.programs, "ethtool -l")
	delete(h.programs, "ethtool")
	_, err = newSteps(t).run(opened, stepSecurity)
	fault := hardwaretest.RequireFault(t, err, device.CodePropertiesMismatch)
	require.Contains(t, fault.Message, "--set-priv-flags rx_cqe",
		"what cannot be read any more is not taken for put back")
	h.program("devlink dev eswitch set", "", "kernel answers: Invalid argument")
	_, err = newSteps(t).run(opened, stepSecurity)
	require.Contains(t, hardwaretest.RequireFault(t, err, device.CodeCommandRefused).Message, "Invalid argument")
}

func TestVirtualFunctionsAreRemoved(t *testing.T) {
	h := newFakeHost(t)
	h.add(address, "15b3:1017", "020000", "", 7)
	known := h.enroll().Identity
	h.file(node(address)+"sriov_totalvfs", "8")
	h.add("0000:01:00.2", "15b3:1018", "020000", "", 0)
	h.link("../0000:01:00.2", node(address)+"virtfn0")
	h.link("../"+address, node("0000:01:00.2")+"physfn")
	h.onWrite = func(name, text string) {
		if filepath.Base(name) == "sriov_numvfs" && text == "0" {
			require.NoError(t, os.Remove(filepath.Join(h.root, node(address)+"virtfn0")))
		}
	}
	note, err := newSteps(t).run(h.openAs(known), stepSecurity)
	require.NoError(t, err)
	require.Contains(t, note, "1 virtual functions removed")
}

// S3.5
func TestADeviceIsNothingMoreAndNothingLessThanAtTheEnrollment(t *testing.T) {
	has := func(name, text string) func(*fakeHost) {
		return func(h *fakeHost) { h.file(node(address)+name, text) }
	}
	config := func(change func(c []byte)) func(h *fakeHost) {
		return func(h *fakeHost) {
			c := configSpace("1af4:1110", 7)
			change(c)
			h.file(node(address)+"config", string(c))
		}
	}
	for name, tt := range map[string]struct {
		change func(h *fakeHost)
		says   string
	}{
		"a slower link":   {has("current_link_speed", "2.5 GT/s PCIe"), "current_link_speed"},
		"a narrower link": {has("current_link_width", "1"), "current_link_width"},
		"another BAR": {func(h *fakeHost) {
			at := filepath.Join(h.root, node(address))
			require.NoError(t, os.Rename(at+"/resource0", at+"/resource1"))
		}, "size of resource1"},
		"a capability":    {config(func(c []byte) { c[0x41], c[0x50] = 0x50, 0x11 }), "capabilities"},
		"another command": {config(func(c []byte) { c[5] = 4 }), "command"},
		"another ROM":     {has("rom", "evil"), "rom of firmware"},
		"no ROM": {func(h *fakeHost) {
			require.NoError(t, os.Remove(filepath.Join(h.root, node(address)+"rom")))
		}, "rom of firmware"},
		"nothing":          {func(*fakeHost) {}, ""},
		"bus mastering":    {config(func(c []byte) { c[4] |= 1 << 2 }), ""},
		"another firmware": {func(h *fakeHost) { h.versions("2", "2"); h.file(node(address)+"rom", "new") }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			h := newFakeHost(t)
			h.add(address, "1af4:1110", "050000", "accel", 7)
			h.file(node(address)+"rom", "rom")
			h.file(node(address)+"resource0", "registers")
			h.versions("1", "1")
			known := h.enroll().Identity
			h.driver(address, "")
			tt.change(h)
			note, err := newSteps(t).run(h.openAs(known), stepProperties)
			if tt.says != "" {
				require.Contains(t, hardwaretest.RequireFault(t, err, device.CodePropertiesMismatch).Message, tt.says)
				return
			}
			require.NoError(t, err)
			require.Contains(t, note, "facts as at the enrollment")
			driver, err := os.Readlink(filepath.Join(h.root, node(address)+"driver"))
			require.NoError(t, err)
			require.Equal(t, "accel", filepath.Base(driver), "it is bound as before")
		})
	}
}

// F32
func TestNoStepChangesTheDeviceWithoutTheRightToWrite(t *testing.T) {
	ended := errors.New("the lease has ended")
	for _, step := range []string{stepSecurity, stepReflash, stepReset, stepProperties} {
		t.Run(step, func(t *testing.T) {
			h, _, known := nicInUse(t)
			h.flashing(t, "1.0", "2.0")
			h.image("firmware 2", "1.0", "2.0", "")
			opened := h.openAs(known)
			require.NoError(t, opened.detach(t.Context()))
			h.wrote, h.ran = nil, nil
			ctx := hardware.WithLease(t.Context(), func(context.Context) error { return ended })
			_, err := newSteps(t).runIn(ctx, opened, step)
			require.ErrorIs(t, err, ended)
			require.Empty(t, h.wrote)
			require.Empty(t, h.ran)
		})
	}
}

// What lists ports and parameters waits for the firmware of every other device: only devlink's own devices are asked.
func TestADeviceWithoutDevlinkWaitsForNoOther(t *testing.T) {
	h := newFakeHost(t)
	h.add(address, "1af4:1110", "050000", "accel", 0)
	for _, list := range []string{"port show", "dev param show"} {
		h.programs["devlink -j "+list] = func([]string) (string, string) {
			t.Errorf("it lists %s", list)
			return "{}", ""
		}
	}
	opened := h.openAs(h.enroll().Identity)
	for _, step := range []string{stepSecurity, stepProperties} {
		_, err := newSteps(t).run(opened, step)
		require.NoError(t, err)
	}
}

// An interface may take a moment to come after its driver: the end of a step waits for it.
func TestTheEndOfAStepWaitsForInterfaces(t *testing.T) {
	h, now, known := nicInUse(t)
	now["ports"] = ""
	opened := h.openAs(known)
	h.returns = time.Minute
	asked := 0
	h.kernel.Addresses = func(string) ([]net.Addr, error) {
		if asked++; asked < 3 {
			return nil, errors.New("no such network interface")
		}
		return nil, nil
	}
	_, err := newSteps(t).run(opened, stepErase)
	require.NoError(t, err)
	require.Greater(t, asked, 2)
}

// A worker that was killed left a device unbound. Only its driver tells its serial: it is bound, and another one
// is found.
//
// F11
func TestADeviceThatWasLeftUnboundIsIdentified(t *testing.T) {
	const own, another = "02:00:00:00:00:01", "02:00:00:00:00:02"
	for mac, code := range map[string]device.Code{own: "", another: device.CodeSerialMismatch} {
		h := newFakeHost(t)
		h.add(address, "15b3:1017", "020000", "mlx5_core", 0)
		now := nicSettings()
		h.nic(now)
		known := h.enroll().Identity
		require.Equal(t, own, known.Serial)
		killed := h.openAs(known)
		require.NoError(t, errors.Join(killed.detach(t.Context()), killed.Close()))
		require.NoError(t, os.RemoveAll(filepath.Join(h.root, node(address)+"net")))
		_, err := h.Discover(t.Context(), h.target(), known)
		require.NoError(t, err)
		h.onWrite = func(name, _ string) {
			if filepath.Base(name) == "drivers_probe" {
				now["own"] = mac
				h.nic(now)
			}
		}
		opened, err := h.Open(t.Context(), h.target(), known, true)
		if code != "" {
			hardwaretest.RequireFault(t, err, code)
			continue
		}
		require.NoError(t, err)
		require.Equal(t, "mlx5_core", opened.(*handle).functions[0].Driver)
		require.NoError(t, opened.Close())
	}
}
