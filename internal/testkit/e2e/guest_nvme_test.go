package e2e

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"burnish/internal/device"
	"burnish/internal/testkit/guest"
	"burnish/workflows/contract"
)

// What the driver nvme does with drives whose commands a real nvme-cli and a real kernel
// carry. These drives have Write Zeroes and no Sanitize, and they refuse the namespace
// management that they announce.

// withNVMe cleans NVMe drives by their PCI address.
var withNVMe = guestDriver{
	name: "nvme", method: "write_zeroes",
	env:   map[string]string{"BURNISH_DRIVERS": "block,nvme"},
	rules: `allow: {device_spec: [{vendor_id: "1b36", product_id: "0010"}]}`,
	device: func(_ testing.TB, g *guestSite, serial string) (Device, []string) {
		address := g.Address(serial)
		return Device{Name: g.Site.Host + "_" + address}, []string{"--address", address}
	},
}

// The same as with the driver block, by the drive's own Write Zeroes.
//
// F2
func TestGuestNVMeLosesPower(t *testing.T) {
	t.Parallel()
	testLosesPower(t, withNVMe)
}

// What the drives say of themselves decides how they are erased; one that could keep bytes
// beside what is erased never comes back.
//
// S2.27, F17
func TestGuestNVMe(t *testing.T) {
	t.Parallel()
	const size = 8 * MiB
	dir := t.TempDir()
	namespace := func(name string, change func(*guest.Namespace)) guest.Namespace {
		ns := stampedNamespace(t, dir, name, size, 1)
		if change != nil {
			change(&ns)
		}
		return ns
	}
	drive := func(serial string, namespaces ...guest.Namespace) guest.Controller {
		return guest.Controller{Serial: serial, Subsystem: true, Namespaces: namespaces}
	}
	g := newGuestSite(t, withNVMe,
		drive("WHOLE", namespace("whole", nil)),
		drive("BLOCKS4K", namespace("blocks4k", func(ns *guest.Namespace) { ns.BlockSize = 4096 })),
		drive("DETACHED", namespace("attached", nil),
			namespace("detached", func(ns *guest.Namespace) { ns.Detached = true })),
		drive("TWO", namespace("first", nil), namespace("second", nil)),
		drive("METADATA", namespace("metadata", func(ns *guest.Namespace) { ns.Metadata = 8 })),
		drive("BARE"),
	)

	inOrder, others := []string{"WHOLE", "BLOCKS4K"}, []string{"DETACHED", "TWO", "METADATA"}
	for _, serial := range slices.Concat(others, inOrder) {
		flags := []string{"--provide"}
		if serial == "DETACHED" || serial == "METADATA" {
			// It is not known whose data is in a namespace that cannot be read (F15).
			d := g.drive(t, serial)
			g.Refused(t, "filesystem_signature", g.EnrollArgs(d, g.flags(t, d)...)...)
			g.Refused(t, device.CodeNotFound, "show", d.Name)
			flags = append(flags, "--accept-signature", "hidden_namespace")
		}
		g.enroll(t, g.drive(t, serial), flags...)
	}

	// A drive without a namespace has nothing to address; a device that device_spec does not
	// match is refused.
	empty, flags := withNVMe.device(t, g, "BARE")
	empty.Driver = withNVMe.name
	g.Refused(t, "namespace_layout_mismatch", g.EnrollArgs(empty, flags...)...)
	g.Refused(t, device.CodeNotFound, "show", empty.Name)
	network := Device{Name: g.Site.Host + "_0000:00:11.0", Driver: withNVMe.name}
	g.Refused(t, device.CodeInvalidSetting, g.EnrollArgs(network, "--address", "0000:00:11.0")...)

	// Drives without a peculiarity come back, by the operation that their capabilities give.
	for _, serial := range inOrder {
		d := g.drive(t, serial)
		v := g.awaitReturned(t, d)
		require.Equal(t, device.WriteZeroes, v.Operation, serial)
		require.Equal(t, serial, v.Serial)
		require.Equal(t, "NVME", v.Type, serial)
		last := v.Cleans[0]
		require.Equal(t, "cleaned", last.Outcome)
		require.Equal(t, device.WriteZeroes, last.Operation)
		names := stepNames(last)
		require.NotContains(t, names, "sanitize", serial)
		require.Equal(t, []string{"zero", "verify"}, names[len(names)-2:], serial)
		zero := last.Steps[len(names)-2]
		require.Equal(t, "write_zeroes", zero.Method, serial)
		require.Equal(t, d.Size, zero.Bytes, serial)
	}

	// The others end in error and stay reserved; a second clean ends as the first.
	failed := func(serial string) Device {
		d := g.drive(t, serial)
		v := g.awaitCleanEnd(t, d)
		require.Equal(t, device.Error, v.DeviceState, serial)
		require.Equal(t, string(device.CodeCommandRefused), v.Fault, "%s: %s", serial, v.LastError)
		require.Contains(t, v.LastError, "the drive refused identify-namespace", serial)
		require.NotEmpty(t, v.Remedy)
		require.True(t, v.Dirty)
		require.True(t, v.NeedsOperator)
		g.RequireReserved(t, d.Name, 1)
		return d
	}
	for _, serial := range others {
		failed(serial)
	}
	r := g.Burnish(t, "clean", failed("DETACHED").Name, "--wait", "--timeout", "60s")
	require.Equal(t, 1, r.Code, r)
	require.Len(t, g.Show(t, failed("DETACHED").Name).Cleans, 2)
	for _, c := range g.Config.Controllers[2:] {
		for i, ns := range c.Namespaces {
			data := int64(size)
			if ns.Metadata > 0 {
				data = size / 2 // where the metadata begins is the drive's business
			}
			each := Device{Name: c.Serial, Path: ns.Image, Size: size}
			stamps, _, _ := each.Count(t, 1)
			require.GreaterOrEqual(t, int64(stamps), data/512, "namespace %d of %s was changed without its drive coming back",
				i+1, c.Serial)
		}
	}
}

// A drive that the kernel finds again under another name and number is still the enrolled
// one, by its slot and serial.
//
// F11
func TestGuestNVMeIsRenamed(t *testing.T) {
	t.Parallel()
	const size = 8 * MiB
	dir := t.TempDir()
	g := newGuestSite(t, withNVMe,
		guest.Controller{Serial: "FIRST", Namespaces: []guest.Namespace{stampedNamespace(t, dir, "first", size, 1)}},
		guest.Controller{Serial: "SECOND", Namespaces: []guest.Namespace{stampedNamespace(t, dir, "second", size, 2)}},
	)
	d := g.drive(t, "SECOND")
	g.enroll(t, d, "--provide")
	g.awaitReturned(t, d)
	g.Bind(t, d.Name, "alice")
	before := g.disk(t, "SECOND")
	// The kernel gives the lowest number that is free, and a process that has a drive open, such
	// as the worker that looks at it, keeps its number from being free: then it is done again.
	after := before
	for range 20 {
		g.shell(t, `cd /sys/bus/pci/drivers/nvme
first=%s second=%s
echo $first >unbind && echo $second >unbind
echo $second >bind
until ls $second/nvme/nvme*/nvme*n* >/dev/null 2>&1; do usleep 10000; done
echo $first >bind
until ls $first/nvme/nvme*/nvme*n* >/dev/null 2>&1; do usleep 10000; done`, g.Address("FIRST"), g.Address("SECOND"))
		if after = g.disk(t, "SECOND"); after != before {
			break
		}
	}
	require.NotEqual(t, before, after)
	g.copyAsTenant(t, "FIRST", "SECOND", size)
	d.RequireStamps(t, 1)
	g.Unbind(t, d.Name, "alice")
	g.awaitReturned(t, d)
	Device{Name: "the other drive", Path: g.drive(t, "FIRST").Path, Size: size}.RequireStamps(t, 1)
}

// stepNames are those of a clean, in the order in which they ran.
func stepNames(c contract.CleanSummary) []string {
	var all []string
	for _, s := range c.Steps {
		all = append(all, s.Step)
	}
	return all
}
