package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"burnish/internal/device"
	"burnish/internal/testkit/suites/hardwaretest"
	"burnish/workflows/contract"
)

// The steps of a clean by what a card has.
var (
	memorySteps   = []string{"security_check", "zero", "verify", "pci_reset", "verify_properties"}
	firmwareSteps = []string{"security_check", "erase_device", "verify", "firmware_reflash", "verify_firmware", "pci_reset",
		"verify_properties"}
)

// What the driver pci does with the cards of one guest, in this order.
//
// F2, F8, F11, F12, F14, F40
func TestGuestPCI(t *testing.T) {
	t.Parallel()
	g := newPCIGuest(t)
	for _, part := range []struct {
		name string
		run  func(*testing.T, pciGuest)
	}{
		{"the first clean", testPCIFirstClean},
		{"a hostile tenant", testPCIHostileTenant},
		{"a worker that is killed", testPCIKills},
		{"a memory that keeps a page", testPCIKeptPage},
		{"other cards in the same slots", testPCISwapped},
	} {
		began := time.Now()
		if !t.Run(part.name, func(t *testing.T) { part.run(t, g) }) && os.Getenv("X") == "" {
			return
		}
		t.Logf("%s took %.1f s", part.name, time.Since(began).Seconds())
	}
}

// What the host lives on is never taken, whatever host.yaml allows: its network, the disk with the
// worker's records, and what it shows.
func (g pciGuest) requireOwn(t *testing.T) {
	t.Helper()
	const network = "ip addr show eth0 | grep -v valid_lft"
	before := g.shell(t, network)
	each(t, []struct {
		address string
		code    device.Code
	}{
		{"0000:00:11.0", device.CodeTargetBusy},
		{"0000:00:12.0", device.CodeInvalidSetting},
		{g.Config.Cards[display].Address, device.CodeTargetBusy},
		{"0000:00:05.0", device.CodeInvalidSetting}, // a root port
		{"0000:00:1f.0", device.CodeInvalidSetting}, // the chipset
	}, func(_ int, own struct {
		address string
		code    device.Code
	}) {
		enroll := []string{"enroll", "--host", g.Site.Host, "--driver", g.driver.name, "--address", own.address, "--provide"}
		g.Refused(t, own.code, append(enroll, patiently()...)...)
		g.Refused(t, device.CodeNotFound, "show", g.Site.Host+"_"+own.address)
	})
	require.Equal(t, before, g.shell(t, network))
}

// Each card is found, and is cleaned before its first tenant; those that do not come back from a reset, or do not
// run the firmware that they took, stay with their operator.
func testPCIFirstClean(t *testing.T, g pciGuest) {
	for _, i := range []int{accelerator, noReturn} {
		d := g.card(i)
		d.Stamp(t, 2)
		g.watch(t, d)
	}
	g.of(t, gpu, "echo 1 >$card/enable && bar fill $card/resource0 && echo 0 >$card/enable")
	for i := range display {
		g.AwaitState(t, g.card(i).Name, guestWithin, device.Manageable)
		g.Must(t, "provide", g.card(i).Name)
	}
	g.requireOwn(t)
	v := g.returned(t, accelerator, memorySteps...)
	for _, step := range v.Cleans[0].Steps[1:3] {
		require.Equal(t, [2]any{int64(pciMemory), g.driver.method}, [2]any{step.Bytes, step.Method}, step.Step)
	}
	g.returned(t, gpu, memorySteps...)
	require.Equal(t, "0", g.count(t, gpu))
	v = g.returned(t, nic, firmwareSteps...)
	require.Equal(t, "52:54:00:00:00:03", v.MAC)
	require.Equal(t, "10.20.30", v.Firmware)
	require.Equal(t, "1", g.shell(t, "grep -c 'flash pci/0000:03' /tmp/devlink.log"))
	require.Empty(t, g.shell(t, "ls /lib/firmware"), "the image's copy is gone")

	g.withheld(t, noReturn, device.CodeTargetMissing)
	g.card(noReturn).RequireZero(t)
	v = g.withheld(t, noUpdate, device.CodeFirmwareNotActive)
	require.Contains(t, v.LastError, "10.20.30")
	g.withheld(t, noReset, device.CodeStepFailed)
}

// count is how many bytes of the GPU's memory are not zero.
func (g pciGuest) count(t testing.TB, i int) string {
	t.Helper()
	return g.of(t, i, "echo 1 >$card/enable && bar count $card/resource0 && echo 0 >$card/enable")
}

// A tenant leaves bytes in the whole memory and a process that has it mapped, another MAC, another
// setting of the device, and the interface in a network namespace of its own. Nothing is written
// while a process or a namespace has a card; then all of it is put back.
func testPCIHostileTenant(t *testing.T, g pciGuest) {
	settings := func() string {
		return g.of(t, nic, "devlink dev param show pci/0000:03:00.0; cat $card/virtio*/net/*/address")
	}
	before := settings()
	for _, i := range []int{accelerator, gpu, nic} {
		g.Bind(t, g.card(i).Name, "alice")
	}
	memory := g.card(accelerator)
	memory.Stamp(t, 2)
	holder := g.of(t, accelerator, "bar hold $card/resource2 >/dev/null 2>&1 & echo $!")
	g.of(t, gpu, "echo 1 >$card/enable && bar fill $card/resource0 && echo 0 >$card/enable")
	namespace := g.of(t, nic, `devlink dev param set pci/0000:03:00.0 name max_macs value 16 cmode driverinit
devlink dev param set pci/0000:03:00.0 name test1 value false cmode driverinit
eth=$(ls $card/virtio*/net)
ip link set dev $eth address 02:00:00:00:00:99
unshare -n sleep 10000 >/dev/null 2>&1 &
echo $!
until [ "$(readlink /proc/$!/ns/net)" != "$(readlink /proc/self/ns/net)" ]; do usleep 1000; done
ip link set dev $eth netns $!`)
	for _, i := range []int{accelerator, gpu, nic} {
		g.Unbind(t, g.card(i).Name, "alice")
	}
	g.returned(t, gpu, memorySteps...)
	require.Equal(t, "0", g.count(t, gpu))
	for i, process := range map[int]string{accelerator: holder, nic: namespace} {
		poll(t, guestWithin, guestPollEvery, "a wait for the end of the use", func() (bool, string) {
			v := g.Show(t, g.card(i).Name)
			return v.Progress != nil && strings.Contains(v.Progress.Waiting, "not in use"), fmt.Sprintf("%+v", v)
		})
		memory.RequireStamps(t, 2)
		g.RequireReserved(t, g.card(i).Name, 1)
		g.shell(t, "kill %s", process)
	}
	g.returned(t, accelerator, memorySteps...)
	g.returned(t, nic, firmwareSteps...)
	require.Equal(t, before, settings())
}

// The worker is killed at each step, in the middle of the memory, and in the middle of a firmware,
// which the kernel ends by itself: the next one never writes beside it.
func testPCIKills(t *testing.T, g pciGuest) {
	memory, name := g.card(accelerator), g.card(accelerator).Name
	g.Bind(t, name, "bob")
	memory.Stamp(t, 2)
	g.Unbind(t, name, "bob")
	for _, step := range memorySteps {
		g.killAt(t, accelerator, step)
	}
	g.returned(t, accelerator, memorySteps...)

	// A worker that gets a fiftieth of the processor is quick enough to answer, and slow enough to
	// be hit.
	g.Bind(t, name, "carol")
	memory.Stamp(t, 2)
	g.shell(t, `mount -t cgroup2 none /sys/fs/cgroup
cd /sys/fs/cgroup
echo +cpu >cgroup.subtree_control
mkdir slow
echo "2000 100000" >slow/cpu.max
pidof burnish-worker >slow/cgroup.procs`)
	g.Unbind(t, name, "carol")
	poll(t, guestWithin, 5*time.Millisecond, "the middle of the memory", func() (bool, string) {
		left, zero, _ := memory.Count(t, 2)
		return zero > memory.Blocks()/8, fmt.Sprint(left, zero)
	})
	g.shell(t, "kill -9 $(pidof burnish-worker)")
	left, zero, _ := memory.Count(t, 2)
	require.Positive(t, left, "the erase was too quick for this test")
	t.Logf("killed with %d of %d bytes erased", int64(zero)*hardwaretest.Block, memory.Size)
	g.returned(t, accelerator, memorySteps...)

	d := g.card(nic)
	g.Bind(t, d.Name, "bob")
	g.shell(t, "echo >/tmp/devlink.log")
	g.Unbind(t, d.Name, "bob")
	flashing := func() (n int) {
		return strings.Count(g.shell(t, "cat /proc/[0-9]*/cmdline | tr '\\0' ' '"), "devlink.real dev flash")
	}
	poll(t, guestWithin, guestPollEvery, "a firmware to be written", func() (bool, string) { return flashing() > 0, "" })
	g.shell(t, "kill -9 $(pidof burnish-worker)")
	ended := func(v contract.DeviceStatus, err error) bool { return err == nil && v.DeviceState == device.Available }
	poll(t, guestWithin, guestPollEvery, "the NIC to be available", func() (bool, string) {
		require.LessOrEqual(t, flashing(), 1, "two at once")
		v, err := g.Site.Site.Show(t.Context(), d.Name)
		return ended(v, err), fmt.Sprintf("%+v %v", v, err)
	})
	g.returned(t, nic, firmwareSteps...)
	t.Logf("written %s times", g.shell(t, "grep -c 'dev flash' /tmp/devlink.log"))
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

// While the host is without power, two cards are replaced: one by a card with more memory, which
// is somebody's, one by another of the same model. Neither is touched.
func testPCISwapped(t *testing.T, g pciGuest) {
	for _, i := range []int{accelerator, nic} {
		g.Bind(t, g.card(i).Name, "eve")
	}
	require.NoError(t, g.Kill())
	cards := g.Config.Cards
	others := Device{Name: "another card", Path: filepath.Join(t.TempDir(), "other"), Size: 2 * pciMemory}
	others.Stamp(t, 9)
	cards[accelerator].Memory, cards[accelerator].Size = others.Path, others.Size
	cards[nic].Device = "virtio-net-pci,romfile=,mac=52:54:00:00:00:99"
	g.boot(t)
	for i, code := range map[int]device.Code{accelerator: device.CodeIdentityChanged, nic: device.CodeSerialMismatch} {
		g.Unbind(t, g.card(i).Name, "eve")
		g.withheld(t, i, code)
	}
	others.RequireStamps(t, 9)
}
