package e2e

import (
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"burnish/internal/device"
	"burnish/internal/testkit/guest"
	"burnish/internal/testkit/proc"
	"burnish/internal/testkit/site"
	"burnish/workflows/contract"
)

// A host with PCI devices of every kind, real but for their silicon. netdevsim is a devlink without a PCI
// function: a program in front of devlink calls its instances by the functions that they stand for.

// pciBuses says what is behind each root port. The number of its bus is that of its place.
var pciBuses = []string{"accelerator", "e1000e", "virtio", "liar", "gpu", "keeper"}

// pciSize is the memory of the accelerators and of the GPU.
const pciSize = 16 * MiB

// pciImage is the firmware that the policy has.
const pciImage = "known good"

// pciPolicy is what an operator writes about these models at first, or once they know better: that bus resets
// are not for e1000e, and that firmware is written again. It knows the host's own network and disk too.
func pciPolicy(corrected bool) string {
	image := fmt.Sprintf(`image: /srv/firmware.bin, sha256: "%x"`, sha256.Sum256([]byte(pciImage)))
	e1000e, again := "", ""
	if corrected {
		e1000e, again = ", reset: forbid bus", ", rewrite: always"
	}
	return fmt.Sprintf(`
models:
- {model: "1af4:1110", memory: bar 2 size 16MiB}
- {model: "1234:1111", memory: bar 0 size 16MiB}
- {model: "8086:10d3", memory: none%s}
- {model: "1af4:1041", memory: none, reset: require flr}
- {model: "1af4:1044", memory: none, reset: require flr}
- {model: "1af4:1000", memory: none}
- {model: "1af4:1001", memory: none}
firmware:
- {model: "1af4:1041", from: ["10.20.30"], to: "10.20.30", %[2]s%[3]s}
- {model: "1af4:1044", from: ["10.20.30"], to: "10.20.31", %[2]s}
`, e1000e, image, again)
}

// The guest's own network, disk and display are at these addresses.
const hostsNetwork, hostsDisk, hostsDisplay = "0000:00:11.0", "0000:00:12.0", "0000:00:02.0"

// devlinkByFunction calls netdevsimN by the function on bus N, and keeps a record of each flash.
const devlinkByFunction = `#!/bin/sh
args=$*
for bus in 3 4; do
	args=${args//pci\/0000:0$bus:00.0/netdevsim\/netdevsim$bus}
done
case $args in
*pci/*) exec /sbin/devlink "$@" ;; # a function without devlink
esac
set -- $args
if [ "$2" = flash ]; then
	echo "$3" >>/run/flashes
	exec /sbin/devlink "$@"
fi
said=$(/sbin/devlink "$@")
code=$?
for bus in 3 4; do
	said=${said//netdevsim\/netdevsim$bus/pci\/0000:0$bus:00.0}
done
printf %s "$said"
exit $code
`

// The rules allow all of the host at first, and then what is behind the ports.
const pciRulesAtFirst = `allow: {device_spec: [{vendor_id: "1af4"}, {vendor_id: "1234"}, {product_id: "10d3"}]}`

func pciRules() string {
	var all []string
	for i := range pciBuses {
		all = append(all, fmt.Sprintf(`{address: "0000:%02x:00.0"}`, i+1))
	}
	return fmt.Sprintf("allow: {device_spec: [%s]}", strings.Join(all, ", "))
}

// pciSetup makes the devlinks of the two functions whose firmware the policy has.
const pciSetup = `for bus in 3 4; do
	echo "$bus 1" >/sys/bus/netdevsim/new_device
done
`

// pciGuest is that host. Devices are named by what is behind their port.
type pciGuest struct {
	*guestSite
	dir string
	// killed is how often a worker was killed.
	killed int
}

const firstE1000e, otherE1000e = "52:54:00:00:00:02", "52:54:00:00:00:99"

func bootPCI(t *testing.T) *pciGuest {
	t.Helper()
	modules := []string{"psample", "netdevsim", "e1000e", "vfio-pci"}
	if why := guest.Missing(modules...); why != "" {
		t.Skipf("no guest can be made here: %s", why)
	}
	p := &pciGuest{dir: t.TempDir()}
	policy, tenant := filepath.Join(p.dir, "policy.yaml"), filepath.Join(p.dir, "pcitenant")
	require.NoError(t, os.WriteFile(policy, []byte(pciPolicy(false)), 0o600))
	require.NoError(t, proc.Compile(root, "./internal/testkit/cmd/pcitenant", tenant))
	program, err := os.ReadFile(tenant)
	require.NoError(t, err)
	s := newSite(t)
	s.Host = "guest1"
	memory := func(name string) guest.Card {
		d := Device{Name: name, Path: filepath.Join(p.dir, name), Size: pciSize}
		d.Stamp(t, 1)
		return guest.Card{Port: true, Memory: d.Path, Size: d.Size}
	}
	booted := beginBoot(t, s, guestDriver{
		name: "pci", method: "pci",
		env: map[string]string{"BURNISH_DRIVERS": "block,pci", "BURNISH_POLICY": "/etc/burnish/policy.yaml",
			"BURNISH_MAX_CLEANS_PER_HOST": fmt.Sprint(len(pciBuses))},
		rules: pciRulesAtFirst,
	}, guest.Config{
		Cards: []guest.Card{
			memory("accelerator"),
			{Port: true, Device: "e1000e,mac=" + firstE1000e},
			{Port: true, Device: "virtio-net-pci,mac=52:54:00:00:00:03,romfile="},
			{Port: true, Device: "virtio-rng-pci"},
			{Port: true, Device: "bochs-display"},
			memory("keeper"),
			{Address: hostsDisplay, Device: "VGA"},
		},
		IOMMU:    true,
		Modules:  modules,
		Programs: []string{"/sbin/devlink", "/bin/ip", "/sbin/ethtool"},
		Setup:    pciSetup,
		Files: []guest.File{
			{Path: "/etc/burnish/policy.yaml", Mode: 0o600, Text: []byte(pciPolicy(false))},
			{Path: "/srv/firmware.bin", Mode: 0o600, Text: []byte(pciImage)},
			{Path: "/usr/sbin/devlink", Mode: 0o755, Text: []byte(devlinkByFunction)},
			{Path: "/usr/sbin/pcitenant", Mode: 0o755, Text: program},
		},
	})
	s.Run(t, "control", "BURNISH_POLICY="+policy)
	p.guestSite = booted()
	return p
}

// at is the address of what is behind a port.
func (p *pciGuest) at(name string) string {
	for i, one := range pciBuses {
		if one == name {
			return fmt.Sprintf("0000:%02x:00.0", i+1)
		}
	}
	return ""
}

// device is what is behind a port. One whose memory has a witness has its path.
func (p *pciGuest) device(name string) Device {
	d := Device{Name: p.Site.Host + "_" + p.at(name)}
	if name == "accelerator" || name == "keeper" {
		d.Path, d.Size = filepath.Join(p.dir, name), pciSize
	}
	return d
}

// awaitEnd waits until a clean has ended, in available with every byte zero, or in error.
func (p *pciGuest) awaitEnd(t testing.TB, name string, want device.State) contract.DeviceStatus {
	t.Helper()
	d := p.device(name)
	v := p.awaitCleanEnd(t, d)
	require.Equal(t, want, v.DeviceState, "%s: %s", name, v.LastError)
	if want == device.Error {
		p.RequireReserved(t, d.Name, 1)
		return v
	}
	p.AwaitReserved(t, d.Name, 0)
	if d.Path != "" {
		d.RequireZero(t)
	}
	return v
}

// requireStep asserts that the last clean ran a step with such a note, and gives the names of all of its steps.
func requireStep(t testing.TB, v contract.DeviceStatus, step, note string) []string {
	t.Helper()
	last := v.Cleans[len(v.Cleans)-1]
	for _, one := range last.Steps {
		if one.Step == step {
			require.Contains(t, one.Note, note)
			return stepNames(last)
		}
	}
	require.Fail(t, "no such step", "%s of %v", step, stepNames(last))
	return nil
}

// hasFailed asserts the fault of a device in error.
func hasFailed(t testing.TB, v contract.DeviceStatus, code device.Code, says string) {
	t.Helper()
	require.Equal(t, string(code), v.Fault, v.LastError)
	require.Contains(t, v.LastError, says)
	require.NotEmpty(t, v.Remedy)
	require.True(t, v.NeedsOperator)
	require.True(t, v.Dirty)
}

// nonZero is how many bytes of the GPU's memory are not zero, as its tenant sees them.
func (p *pciGuest) nonZero(t testing.TB) string {
	t.Helper()
	return p.shell(t, "pcitenant count %s 0", p.at("gpu"))
}

// witness checks at any time that the memory of what the inventory offers is zero.
func (p *pciGuest) witness(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	done, looks := make(chan struct{}), 0
	go func() {
		defer close(done)
		offered := func(d Device) bool {
			is, err := p.Site.Site.Provider(d.Name)
			return err == nil && is.Reserved == 0
		}
		look := time.NewTicker(guestPollEvery)
		defer look.Stop()
		for ; ctx.Err() == nil; <-look.C {
			for _, name := range []string{"accelerator", "keeper"} {
				d := p.device(name)
				if !offered(d) {
					continue
				}
				_, zero, _, err := site.Device(d).Count(0)
				if offered(d) && (err != nil || zero != d.Blocks()) {
					t.Errorf("the inventory offers %s, of which %d blocks are not zero (%v)", name, d.Blocks()-zero, err)
					return
				}
				looks++
			}
		}
	}()
	t.Cleanup(func() {
		stop()
		<-done
		require.Positive(t, looks)
	})
}

// awaitKilled waits until so many more workers were killed. The guest starts the next one.
func (p *pciGuest) awaitKilled(t testing.TB, more int) {
	t.Helper()
	p.killed += more
	Await(t, guestWithin, "the worker to be killed", func() (bool, string) {
		return strings.Count(p.WorkerLog(), "killed by signal 9") == p.killed, ""
	})
}

// Devices of every kind are cleaned before anybody has them, come back from hostile tenants, kills and a
// power failure, and never before nothing is left: the memory of two of them is a file of this machine, the
// witness, which no code of the product touches. Emulation is slow: what can be at once is.
//
// F1, F2, F11, F12, F20
func TestGuestPCI(t *testing.T) {
	t.Parallel()
	p := bootPCI(t)
	p.awaitReady(t)
	p.witness(t)
	for _, part := range []struct {
		name string
		test func(*testing.T)
	}{
		{"before anybody has them", func(t *testing.T) {
			beside(t, map[string]func(*testing.T){
				"the host's own parts": p.testHostsOwn, "first cleans": p.testFirstCleans,
			})
		}},
		{"hostile tenants", p.testTenants},
		{"a device that was swapped", p.testSwapped},
	} {
		began := time.Now()
		if !t.Run(part.name, part.test) {
			return
		}
		t.Logf("%s: %.1f s", part.name, time.Since(began).Seconds())
	}
}

// The rules allow all, the policy knows all, and an operator enrolls them by hand.
func (p *pciGuest) testHostsOwn(t *testing.T) {
	const look = `cd /sys/bus/pci/devices
for f in %s %s %s; do
	readlink $f/driver
	cat $f/driver_override $f/enable
done
busybox ip -4 addr show eth0 | grep inet
grep vda /proc/mounts`
	before := p.shell(t, look, hostsNetwork, hostsDisk, hostsDisplay)
	each(t, []string{hostsNetwork, hostsDisk, hostsDisplay}, func(i int, address string) {
		d := Device{Name: p.Site.Host + "_" + address, Driver: "pci"}
		code := []device.Code{device.CodeTargetBusy, device.CodeInvalidSetting, device.CodeTargetBusy}[i]
		p.Refused(t, code, append(p.EnrollArgs(d), "--address", address)...)
		p.Refused(t, device.CodeNotFound, "show", d.Name)
	})
	require.Equal(t, before, p.shell(t, look, hostsNetwork, hostsDisk, hostsDisplay))
}

func (p *pciGuest) testFirstCleans(t *testing.T) {
	p.shell(t, "pcitenant fill %s 0", p.at("gpu"))
	require.Equal(t, fmt.Sprint(pciSize), p.nonZero(t))
	// The keeper's firmware writes a page of its own, again and again.
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	file, err := os.OpenFile(p.device("keeper").Path, os.O_WRONLY, 0)
	require.NoError(t, err)
	kept := make(chan error, 1)
	go func() {
		again := time.NewTicker(time.Millisecond)
		defer again.Stop()
		for {
			if _, err := file.WriteAt([]byte("a page that stays"), 7*4096); err != nil || ctx.Err() != nil {
				kept <- err
				return
			}
			<-again.C
		}
	}()
	each(t, pciBuses, func(_ int, name string) {
		p.AwaitState(t, p.device(name).Name, guestWithin, device.Manageable)
		p.Must(t, "provide", p.device(name).Name)
	})
	want := map[string]device.State{"e1000e": device.Error, "liar": device.Error, "keeper": device.Error}
	all := map[string]contract.DeviceStatus{}
	for _, name := range pciBuses {
		state, fails := want[name]
		if !fails {
			state = device.Available
		}
		all[name] = p.awaitEnd(t, name, state)
	}
	stop()
	require.NoError(t, <-kept)
	require.NoError(t, file.Close())

	for _, name := range []string{"accelerator", "gpu"} {
		steps := requireStep(t, all[name], "pci_reset", "a reset erases nothing")
		require.Equal(t, []string{"security_check", "zero", "verify", "pci_reset", "verify_properties"}, steps)
		last := all[name].Cleans[0].Steps
		require.Equal(t, [2]any{int64(pciSize), "pci"}, [2]any{last[1].Bytes, last[1].Method})
		require.Equal(t, int64(pciSize), last[2].Bytes)
	}
	require.Equal(t, [2]string{"GPU", "0"}, [2]string{all["gpu"].Type, p.nonZero(t)})
	require.Equal(t, "NIC", all["virtio"].Type)
	steps := requireStep(t, all["virtio"], "firmware_reflash", "it runs firmware 10.20.30 already")
	require.Equal(t, []string{"security_check", "erase_device", "verify", "firmware_reflash", "verify_firmware",
		"pci_reset", "verify_properties"}, steps)
	require.Equal(t, "10.20.30", all["virtio"].Firmware)
	hasFailed(t, all["e1000e"], device.CodeStepFailed, "cannot be reset by bus")
	hasFailed(t, all["liar"], device.CodeFirmwareNotActive, `runs firmware "10.20.30"`)
	hasFailed(t, all["keeper"], device.CodeVerifyFailed, "")
}

// Hostile tenants: each leaves the device as no policy wants it, and some go on to use it. The operator has
// corrected the policy and the rules, which are read when a worker starts: the one after the first kill.
func (p *pciGuest) testTenants(t *testing.T) {
	p.shell(t, "cat >/etc/burnish/policy.yaml <<'END'\n%s\nEND\necho '%s' >%s", pciPolicy(true), pciRules(),
		guest.HostFile)
	var killInSteps func(*testing.T)
	beside(t, map[string]func(*testing.T){
		"killed in the middle of the memory": p.killInMemory,
		"settings":                           func(t *testing.T) { killInSteps = p.changeSettings(t) },
	})
	beside(t, map[string]func(*testing.T){
		"an interface of another MAC in a namespace": func(t *testing.T) {
			p.Must(t, "clean", p.device("e1000e").Name)
			requireStep(t, p.awaitEnd(t, "e1000e", device.Available), "pci_reset", "reset by pm")
			p.testInterface(t)
		},
		"a process that maps the memory": func(t *testing.T) {
			p.Must(t, "clean", p.device("keeper").Name)
			p.awaitEnd(t, "keeper", device.Available)
			p.testMapped(t)
		},
		"bytes over the whole memory, and a guest": p.testMemory,
		"the memory goes on":                       func(t *testing.T) { p.awaitEnd(t, "accelerator", device.Available) },
		"settings, and killed in each step":        killInSteps,
	})
}

// bind gives a device to a tenant.
func (p *pciGuest) bind(t testing.TB, name, tenant string) {
	t.Helper()
	p.Bind(t, p.device(name).Name, tenant)
	p.AwaitReserved(t, p.device(name).Name, 1)
}

// away runs a process in a network namespace of its own, moves an interface to it, and gives a command that
// ends it.
func (p *pciGuest) away(t testing.TB, netdev string) (end string) {
	t.Helper()
	pid := p.shell(t, `busybox unshare -n sleep 100000 >/dev/null 2>&1 &
until [ "$(readlink /proc/$!/ns/net)" != "$(readlink /proc/$$/ns/net)" ]; do usleep 10000; done
busybox ip link set %s netns $! && echo $!`, netdev)
	return "kill -9 " + pid
}

// unbindInUse unbinds a device that somebody still uses, waits until the host says so, and ends the use.
func (p *pciGuest) unbindInUse(t testing.TB, name, says, end string) contract.DeviceStatus {
	t.Helper()
	d := p.device(name)
	p.Unbind(t, d.Name, "alice")
	poll(t, guestWithin, guestPollEvery, name+" to be found in use", func() (bool, string) {
		v, err := p.Site.Site.Show(t.Context(), d.Name)
		seen := v.LastError
		if v.Progress != nil {
			seen += v.Progress.Waiting
		}
		return err == nil && strings.Contains(seen, says), fmt.Sprintf("%+v %v", v, err)
	})
	p.RequireReserved(t, d.Name, 1)
	if d.Path != "" {
		d.RequireStamps(t, 2)
	}
	p.shell(t, "%s", end)
	if v := p.awaitCleanEnd(t, d); v.DeviceState == device.Error { // the host does not wait forever
		hasFailed(t, v, device.CodeTargetBusy, says)
		p.Must(t, "clean", d.Name)
	}
	return p.awaitEnd(t, name, device.Available)
}

func (p *pciGuest) testInterface(t *testing.T) {
	p.bind(t, "e1000e", "alice")
	const settings = "/bin/ip link show %[1]s | grep -o 'ether [0-9a-f:]*'; /sbin/ethtool -k %[1]s"
	netdev := p.shell(t, "ls /sys/bus/pci/devices/%s/net", p.at("e1000e"))
	before := p.shell(t, settings, netdev)
	require.Contains(t, before, firstE1000e)
	p.shell(t, "/bin/ip link set %[1]s address 02:00:00:00:00:66 && /sbin/ethtool -K %[1]s tso off", netdev)
	require.NotEqual(t, before, p.shell(t, settings, netdev))
	v := p.unbindInUse(t, "e1000e", "in a network namespace of its own", p.away(t, netdev))
	require.Equal(t, before, p.shell(t, settings, p.shell(t, "ls /sys/bus/pci/devices/%s/net", p.at("e1000e"))))
	require.Equal(t, firstE1000e, v.MAC)
}

func (p *pciGuest) testMemory(t *testing.T) {
	p.bind(t, "gpu", "alice")
	p.shell(t, "pcitenant fill %s 0", p.at("gpu"))
	require.Equal(t, fmt.Sprint(pciSize), p.nonZero(t))
	// What a guest's emulator opens.
	pid := p.shell(t, `cd /sys/bus/pci/devices/%[1]s
echo vfio-pci >driver_override; echo %[1]s >/sys/bus/pci/drivers_probe
group=/dev/vfio/$(basename $(readlink iommu_group))
sleep 100000 3<>$group >/dev/null 2>&1 & echo $!`, p.at("gpu"))
	p.unbindInUse(t, "gpu", "a guest still has", "kill -9 "+pid)
	require.Equal(t, "0", p.nonZero(t))
}

func (p *pciGuest) testMapped(t *testing.T) {
	p.bind(t, "keeper", "alice")
	p.device("keeper").Stamp(t, 2)
	pid := p.shell(t, "pcitenant hold %s 2 >/dev/null 2>&1 & echo $!", p.at("keeper"))
	p.unbindInUse(t, "keeper", "mapped by process "+pid, "kill -9 "+pid)
}

// killInMemory kills the worker while a part of the accelerator's memory is zero and another is not.
func (p *pciGuest) killInMemory(t *testing.T) {
	d := p.device("accelerator")
	const tries = 3
	for try := range tries {
		p.bind(t, "accelerator", "alice")
		d.Stamp(t, 2)
		p.shell(t, "pcitenant kill %s 2 $(pidof burnish-worker) >/dev/null 2>&1 &", p.at("accelerator"))
		p.Unbind(t, d.Name, "alice")
		p.awaitKilled(t, 1)
		left, zero, _ := d.Count(t, 2)
		t.Logf("the worker was killed with %d of %d blocks left", left, left+zero)
		require.Positive(t, zero)
		if left > 0 {
			return
		}
		p.awaitEnd(t, "accelerator", device.Available)
		require.Less(t, try, tries-1, "the memory was erased too quickly for this test")
	}
}

// changeSettings has a tenant change settings. Then they are put back, and the worker dies in each step. Firmware whose
// write lost its worker is written again, by one at a time.
func (p *pciGuest) changeSettings(t *testing.T) (killInSteps func(*testing.T)) {
	d := p.device("virtio")
	p.bind(t, "virtio", "alice")
	const settings = `for name in max_macs test1; do
	/sbin/devlink dev param show netdevsim/netdevsim3 name $name
done`
	before := p.shell(t, settings)
	p.shell(t, `set -- /sbin/devlink dev
"$@" param set netdevsim/netdevsim3 name max_macs value 16 cmode driverinit &&
"$@" param set netdevsim/netdevsim3 name test1 value false cmode driverinit && "$@" reload netdevsim/netdevsim3`)
	require.NotEqual(t, before, p.shell(t, settings))
	netdev := p.shell(t, `/sbin/devlink port show netdevsim/netdevsim3/0 | sed 's,.*netdev \([^ ]*\).*,\1,'`)
	// An earlier worker was killed while it had it unbound. Only its driver tells its serial.
	end := fmt.Sprintf("cd /sys/bus/pci/devices/%[1]s; echo burnish >driver_override; echo %[1]s >driver/unbind; ",
		p.at("virtio")) + p.away(t, netdev)
	flashes := func(t *testing.T) string { return p.shell(t, "grep -c netdevsim3 /run/flashes; true") }
	require.Equal(t, "0", flashes(t))
	return func(t *testing.T) {
		journal := path.Join(guest.State, "journal", d.Name+".json")
		killer := p.shell(t, "pcitenant steps %s >/run/killed 2>&1 & echo $!", journal)
		v := p.unbindInUse(t, "virtio", "in another network namespace", end)
		steps := requireStep(t, v, "firmware_reflash", "firmware 10.20.30 written over 10.20.30")
		require.Equal(t, steps, strings.Fields(p.shell(t, "kill -9 %s && cat /run/killed", killer)))
		p.awaitKilled(t, len(steps))
		require.Equal(t, before, p.shell(t, settings))
		require.Equal(t, "2", flashes(t), "the one that lost its worker, and another")
		require.Empty(t, p.shell(t, "ls /lib/firmware"), "no image was left")
	}
}

// The power fails while tenants have two devices. The NIC that is in the slot when it is back is another one.
func (p *pciGuest) testSwapped(t *testing.T) {
	d := p.device("accelerator")
	for _, name := range []string{"accelerator", "e1000e"} {
		p.bind(t, name, "bob")
	}
	d.Stamp(t, 3)
	require.NoError(t, p.Kill())
	p.Guest.Config.Cards[1].Device = "e1000e,mac=" + otherE1000e
	p.boot(t)
	for _, name := range []string{"accelerator", "e1000e"} {
		p.Unbind(t, p.device(name).Name, "bob")
	}
	v := p.awaitEnd(t, "e1000e", device.Error)
	hasFailed(t, v, device.CodeSerialMismatch, "52-54-00-ff-ff-00-00-99")
	p.awaitEnd(t, "accelerator", device.Available)
}
