package e2e

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"burnish/internal/device"
	"burnish/internal/testkit/guest"
	"burnish/internal/testkit/suites/hardwaretest"
)

// The steps of a clean by what a card has.
var (
	memorySteps   = []string{"security_check", "zero", "verify", "pci_reset", "verify_properties"}
	firmwareSteps = []string{"security_check", "erase_device", "verify", "firmware_reflash", "verify_firmware",
		"pci_reset", "verify_properties"}
)

// The cards of TestGuestPCIMemory, whose memory is a file of this machine: no code of the product
// touches the witness. The power of the other's slot removes it for good.
const (
	accelerator = iota
	noReturn
)

// A card with memory is a tenant's, whose bytes and processes are left; its worker is killed at each
// step and in the middle; its memory keeps a page; and it is another one after a power failure. The
// inventory never offers it with a byte of a tenant's.
//
// F2, F8, F11, F12, F14, F40
func TestGuestPCIMemory(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	g := newPCIGuest(t, guest.Config{Cards: []guest.Card{
		accelerator: {Port: guest.Soldered, Memory: filepath.Join(dir, "accelerator"), Size: pciMemory},
		noReturn:    {Port: guest.Pluggable, Memory: filepath.Join(dir, "other"), Size: pciMemory},
	}})
	for i := range 2 {
		g.card(i).Stamp(t, 2)
		g.watch(t, g.card(i))
	}
	g.provide(t, 2)
	v := g.returned(t, accelerator, memorySteps...)
	zero, verify := v.Cleans[0].Steps[1], v.Cleans[0].Steps[2]
	require.Equal(t, [2]any{int64(pciMemory), g.driver.method}, [2]any{zero.Bytes, zero.Method})
	require.Equal(t, int64(pciMemory), verify.Bytes)
	g.withheld(t, noReturn, device.CodeTargetMissing)
	g.card(noReturn).RequireZero(t)

	for _, part := range []struct {
		name string
		run  func(*testing.T, pciGuest)
	}{
		{"a process that has it mapped", testPCIMapped},
		{"a worker that is killed", testPCIKills},
		{"a page that stays", testPCIKeptPage},
		{"another card in the same slot", testPCISwapped},
	} {
		t.Logf("%s, after %.1f s", part.name, g.Age().Seconds())
		if !t.Run(part.name, func(t *testing.T) { part.run(t, g) }) {
			return
		}
	}
}

// lend gives the accelerator to a tenant, whose bytes are everywhere in its memory, and takes it back.
func (g pciGuest) lend(t testing.TB, tenant string) {
	t.Helper()
	d := g.card(accelerator)
	g.Bind(t, d.Name, tenant)
	d.Stamp(t, 2)
	g.Unbind(t, d.Name, tenant)
}

// awaitInUse waits until a clean waits for the end of a use.
func (g pciGuest) awaitInUse(t testing.TB, i int) {
	t.Helper()
	poll(t, guestWithin, guestPollEvery, "a wait for the end of the use", func() (bool, string) {
		v := g.Show(t, g.card(i).Name)
		return v.Progress != nil && strings.Contains(v.Progress.Waiting, "not in use"), fmt.Sprintf("%+v", v)
	})
	g.RequireReserved(t, g.card(i).Name, 1)
}

// Nothing is written while a process has the memory mapped.
func testPCIMapped(t *testing.T, g pciGuest) {
	d := g.card(accelerator)
	g.Bind(t, d.Name, "alice")
	d.Stamp(t, 2)
	process := g.of(t, accelerator, "bar hold $card/resource2 >/dev/null 2>&1 & echo $!")
	g.Unbind(t, d.Name, "alice")
	g.awaitInUse(t, accelerator)
	d.RequireStamps(t, 2)
	g.shell(t, "kill %s", process)
	g.returned(t, accelerator, memorySteps...)
}

// A worker that gets a fiftieth of the processor is quick enough to answer, and slow enough to be
// hit in the middle of the memory.
func testPCIKills(t *testing.T, g pciGuest) {
	g.lend(t, "bob")
	for _, step := range memorySteps {
		g.killAt(t, accelerator, step)
	}
	g.returned(t, accelerator, memorySteps...)

	memory := g.card(accelerator)
	g.shell(t, `mount -t cgroup2 none /sys/fs/cgroup
cd /sys/fs/cgroup
echo +cpu >cgroup.subtree_control
mkdir slow
echo "2000 100000" >slow/cpu.max
pidof burnish-worker >slow/cgroup.procs`)
	g.lend(t, "carol")
	poll(t, guestWithin, 5*time.Millisecond, "the middle of the memory", func() (bool, string) {
		left, zero, _ := memory.Count(t, 2)
		return zero > memory.Blocks()/8, fmt.Sprint(left, zero)
	})
	g.shell(t, "kill -9 $(pidof burnish-worker)")
	left, zero, _ := memory.Count(t, 2)
	require.Positive(t, left, "the erase was too quick for this test")
	t.Logf("killed with %d of %d bytes erased", int64(zero)*hardwaretest.Block, memory.Size)
	g.returned(t, accelerator, memorySteps...)
}

// A second writer makes a page be there again whenever it was erased: the card stays with its
// operator until its memory holds what is written to it.
func testPCIKeptPage(t *testing.T, g pciGuest) {
	d := g.card(accelerator)
	g.Bind(t, d.Name, "dave")
	d.Stamp(t, 2)
	file, err := os.OpenFile(d.Path, os.O_RDWR, 0)
	require.NoError(t, err)
	page := make([]byte, 4096)
	const at = 5 * MiB
	_, err = file.ReadAt(page, at)
	require.NoError(t, err)
	stop, stopped := make(chan struct{}), make(chan error, 1)
	go func() {
		var err error
		for err == nil {
			select {
			case <-stop:
				stopped <- file.Close()
				return
			case <-time.After(time.Millisecond):
				_, err = file.WriteAt(page, at)
			}
		}
		stopped <- err
	}()
	g.Unbind(t, d.Name, "dave")
	g.withheld(t, accelerator, device.CodeVerifyFailed)
	close(stop)
	require.NoError(t, <-stopped)
	stamped, _, other := d.Count(t, 2)
	require.Equal(t, [2]int{8, 0}, [2]int{stamped, other}, "blocks of the page, and others")
	g.Must(t, "clean", d.Name)
	g.returned(t, accelerator, memorySteps...)
}

// While the host is without power, the card is replaced by one with more memory, which is
// somebody's. It is not touched.
func testPCISwapped(t *testing.T, g pciGuest) {
	d := g.card(accelerator)
	g.Bind(t, d.Name, "eve")
	require.NoError(t, g.Kill())
	other := Device{Name: "another card", Path: filepath.Join(t.TempDir(), "other"), Size: 2 * pciMemory}
	other.Stamp(t, 9)
	card := &g.Config.Cards[accelerator]
	card.Memory, card.Size = other.Path, other.Size
	g.boot(t)
	g.Unbind(t, d.Name, "eve")
	g.withheld(t, accelerator, device.CodeIdentityChanged)
	other.RequireStamps(t, 9)
}

// The cards of TestGuestPCIFunctions.
const (
	nic      = iota // its devlink is netdevsim's
	noUpdate        // it takes each firmware, and reports the version that it had
	gpu
	noReset // its kernel cannot reset it by its bus
	display // it is the host's own
)

// A NIC's firmware is written again, and what a tenant changed in it is put back, also when the
// worker is killed in between. A card that does not run the firmware which it took, or cannot be
// reset as the policy demands, stays with its operator. What the host lives on is never taken.
//
// F2, F11, F12, F14
func TestGuestPCIFunctions(t *testing.T) {
	t.Parallel()
	g := newPCIGuest(t, withDevlink(t,
		guest.Card{Port: guest.Soldered, Device: "virtio-net-pci,romfile=,mac=52:54:00:00:00:03"},
		guest.Card{Port: guest.Soldered, Device: "virtio-rng-pci"},
		guest.Card{Port: guest.Soldered, Device: "bochs-display,vgamem=16M"},
		guest.Card{Port: guest.Soldered, Device: "e1000e,romfile=,mac=52:54:00:00:00:04"},
		guest.Card{Device: "VGA,romfile="}))
	g.of(t, gpu, "echo 1 >$card/enable && bar fill $card/resource0 && echo 0 >$card/enable")
	g.provide(t, display)
	g.requireOwn(t)
	g.returned(t, gpu, memorySteps...)
	require.Equal(t, "0", g.of(t, gpu, "echo 1 >$card/enable && bar count $card/resource0 && echo 0 >$card/enable"))
	v := g.returned(t, nic, firmwareSteps...)
	require.Equal(t, "52:54:00:00:00:03", v.MAC)
	require.Equal(t, "10.20.30", v.Firmware)
	require.Equal(t, "1", g.shell(t, "grep -c 'flash pci/0000:01' /tmp/devlink.log"))
	require.Empty(t, g.shell(t, "ls /lib/firmware"), "the image's copy is gone")
	v = g.withheld(t, noUpdate, device.CodeFirmwareNotActive)
	require.Contains(t, v.LastError, "10.20.30")
	g.withheld(t, noReset, device.CodeStepFailed)

	// Another MAC, another setting of the device, and the interface in a network namespace.
	settings := func() string {
		return g.of(t, nic, "devlink dev param show; cat $card/virtio*/net/*/address")
	}
	before := settings()
	name := g.card(nic).Name
	g.Bind(t, name, "alice")
	process := g.of(t, nic, `devlink dev param set pci/0000:01:00.0 name max_macs value 16 cmode driverinit
devlink dev param set pci/0000:01:00.0 name test1 value false cmode driverinit
eth=$(ls $card/virtio*/net)
ip link set dev $eth address 02:00:00:00:00:99
unshare -n sleep 10000 >/dev/null 2>&1 &
echo $!
until [ "$(readlink /proc/$!/ns/net)" != "$(readlink /proc/self/ns/net)" ]; do usleep 1000; done
ip link set dev $eth netns $!
echo >/tmp/devlink.log`)
	g.Unbind(t, name, "alice")
	g.awaitInUse(t, nic)
	g.shell(t, "kill %s", process)

	// The kernel ends a firmware by itself: the next worker never writes beside it.
	flashing := func() int {
		return strings.Count(g.shell(t, "cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' ' '"), "devlink.real dev flash")
	}
	poll(t, guestWithin, guestPollEvery, "a firmware to be written", func() (bool, string) { return flashing() > 0, "" })
	g.shell(t, "kill -9 $(pidof burnish-worker)")
	poll(t, guestWithin, guestPollEvery, "the NIC to be available", func() (bool, string) {
		require.LessOrEqual(t, flashing(), 1, "two at once")
		v, err := g.Site.Site.Show(t.Context(), name)
		ended := err == nil && (v.DeviceState == device.Available || v.DeviceState == device.Error)
		return ended, fmt.Sprintf("%+v %v", v, err)
	})
	g.returned(t, nic, firmwareSteps...)
	t.Logf("written %s times", g.shell(t, "grep -c 'dev flash' /tmp/devlink.log"))
	require.Equal(t, before, settings())
}

// requireOwn asserts that what the host lives on is refused, whatever host.yaml allows: its network,
// the disk with the worker's records, what it shows, and bridges.
func (g pciGuest) requireOwn(t *testing.T) {
	t.Helper()
	const network = "ip addr show eth0 | grep -v valid_lft"
	before := g.shell(t, network)
	codes := map[string]device.Code{
		"0000:00:11.0": device.CodeTargetBusy, "0000:00:12.0": device.CodeInvalidSetting,
		g.Config.Cards[display].Address: device.CodeTargetBusy,
		"0000:00:05.0":                  device.CodeInvalidSetting, "0000:00:1f.0": device.CodeInvalidSetting,
	}
	each(t, slices.Collect(maps.Keys(codes)), func(_ int, address string) {
		enroll := []string{"enroll", "--host", g.Site.Host, "--driver", g.driver.name, "--address", address, "--provide"}
		g.Refused(t, codes[address], append(enroll, patiently()...)...)
		g.Refused(t, device.CodeNotFound, "show", g.Site.Host+"_"+address)
	})
	require.Equal(t, before, g.shell(t, network))
}
