package pci

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// tree is a sysfs of the test in the kernel's form: folders with devices, and a folder with
// links to them.
type tree struct {
	t    *testing.T
	root string
}

func newTree(t *testing.T) tree {
	tr := tree{t, t.TempDir()}
	require.NoError(t, os.MkdirAll(tr.devices(), 0o755))
	return tr
}

func (tr tree) devices() string { return filepath.Join(tr.root, "bus/pci/devices") }
func (tr tree) dir(address string) string {
	return filepath.Join(tr.root, "devices/pci0000:00", address)
}

// add makes a device. A value that starts with an arrow is a link, one that ends with a
// slash is a folder.
func (tr tree) add(address string, attributes map[string]string) {
	dir := tr.dir(address)
	require.NoError(tr.t, os.MkdirAll(dir, 0o755))
	all := map[string]string{"vendor": "0x8086\n", "device": "0x0a54\n", "class": "0x010802\n"}
	for name, value := range attributes {
		all[name] = value
	}
	for name, value := range all {
		path := filepath.Join(dir, name)
		if target, link := strings.CutPrefix(value, "->"); link {
			require.NoError(tr.t, os.Symlink(target, path))
			continue
		}
		if value == "/" {
			require.NoError(tr.t, os.MkdirAll(path, 0o755))
			continue
		}
		require.NoError(tr.t, os.WriteFile(path, []byte(value), 0o444))
	}
	require.NoError(tr.t, os.Symlink("../../../devices/pci0000:00/"+address, filepath.Join(tr.devices(), address)))
}

// write writes attributes into folders that are there.
func (tr tree) write(address string, attributes map[string]string) {
	for name, value := range attributes {
		require.NoError(tr.t, os.WriteFile(filepath.Join(tr.dir(address), name), []byte(value), 0o444))
	}
}

// remove removes the link first, as the kernel does.
func (tr tree) remove(address string) {
	require.NoError(tr.t, os.Remove(filepath.Join(tr.devices(), address)))
	require.NoError(tr.t, os.RemoveAll(tr.dir(address)))
}

func addresses(devices []Device) []string {
	var list []string
	for _, d := range devices {
		list = append(list, d.Address)
	}
	return list
}

// S2.6
func TestScanReadsWhatMatchingNeeds(t *testing.T) {
	tr := newTree(t)
	tr.add("0000:0a:00.0", map[string]string{
		"vendor": "0x8086", "device": "0x1572", "class": "0x020000", "sriov_totalvfs": "64\n", "sriov_numvfs": "2\n",
		"virtfn0": "->../0000:0a:02.0", "virtfn10": "->../0000:0a:03.2", "virtfn1": "->../0000:0a:02.1",
		"driver": "->../../../bus/pci/drivers/i40e", "iommu_group": "->../../../kernel/iommu_groups/24",
		"net/ens1f0": "/", "net/ens1": "/", "net/b": "/", "net/c": "/", "net/a": "/", "net/d": "/",
	})
	tr.add("0000:0a:02.0", map[string]string{
		"device": "0x154c", "physfn": "->../0000:0a:00.0", "driver": "->../../../bus/pci/drivers/vfio-pci", "net/ens1v0": "/",
	})
	tr.add("10000:01:00.0", map[string]string{"sriov_totalvfs": "0\n"})
	tr.add("0000:01:00.0", map[string]string{"vendor": "0x144D\n"})
	tr.add("8000:01:00.0", nil)

	devices, err := Scan(tr.devices())
	require.NoError(t, err)
	require.Equal(t, []Device{
		{Address: "0000:01:00.0", Vendor: "144d", Product: "0a54", Class: "010802", Type: Whole},
		{
			Address: "0000:0a:00.0", Vendor: "8086", Product: "1572", Class: "020000", Type: Physical,
			Functions: []string{"0000:0a:02.0", "0000:0a:02.1", "0000:0a:03.2"},
			Driver:    "i40e", IOMMUGroup: "24", Interfaces: []string{"a", "b", "c", "d", "ens1", "ens1f0"},
		},
		{
			Address: "0000:0a:02.0", Vendor: "8086", Product: "154c", Class: "010802", Type: Virtual,
			Parent: "0000:0a:00.0",
			Driver: "vfio-pci", Interfaces: []string{"ens1v0"},
		},
		{Address: "8000:01:00.0", Vendor: "8086", Product: "0a54", Class: "010802", Type: Whole},
		{Address: "10000:01:00.0", Vendor: "8086", Product: "0a54", Class: "010802", Type: Whole},
	}, devices)
}

// S2.4
func TestNoDeviceIsNoError(t *testing.T) {
	for _, folder := range []string{newTree(t).devices(), filepath.Join(t.TempDir(), "none")} {
		devices, err := Scan(folder)
		require.NoError(t, err)
		require.Empty(t, devices)
	}
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	_, err := Scan(file)
	require.ErrorIs(t, err, syscall.ENOTDIR)
}

// A device that cannot be read is reported, and hides no other.
func TestABrokenDeviceIsReported(t *testing.T) {
	for what, c := range map[string]struct {
		name, value, want string
	}{
		"no vendor":      {"vendor", "", "vendor"},
		"a long vendor":  {"vendor", "0x18086\n", `vendor: "0x18086" is more than FFFF`},
		"no class":       {"class", "/", "class"},
		"a strange link": {"physfn", "->../eth0", `physfn leads to "eth0"`},
		"no link":        {"driver", "i40e", "driver"},
		"strange VFs":    {"virtfn0", "->../eth0", `virtfn0 leads to "eth0"`},
		"no folder":      {"net", "x", "net"},
	} {
		t.Run(what, func(t *testing.T) {
			tr := newTree(t)
			tr.add("0000:01:00.0", nil)
			tr.add("0000:03:00.0", nil)
			tr.add("0000:02:00.0", map[string]string{c.name: c.value})
			devices, err := Scan(tr.devices())
			require.ErrorContains(t, err, "PCI device 0000:02:00.0: ")
			require.ErrorContains(t, err, c.want)
			require.Equal(t, []string{"0000:01:00.0", "0000:03:00.0"}, addresses(devices))
		})
	}
	tr := newTree(t)
	for address, lacks := range map[string]string{"0000:01:00.0": "device", "0000:02:00.0": "class"} {
		tr.add(address, nil)
		require.NoError(t, os.Remove(filepath.Join(tr.dir(address), lacks)))
	}
	tr.add("eth0", nil)
	devices, err := Scan(tr.devices())
	require.ErrorContains(t, err, "PCI device 0000:01:00.0: read device: ")
	require.ErrorContains(t, err, "PCI device 0000:02:00.0: read class: ")
	require.ErrorContains(t, err, "PCI device eth0: its name is not a PCI address")
	require.Empty(t, devices)
}

func TestADeviceThatVanishesIsLeftOut(t *testing.T) {
	for what, vanish := range map[string]func(tr tree, address string){
		"unplugged": tree.remove,
		"unplugged, its last attribute first": func(tr tree, address string) {
			require.NoError(tr.t, os.Remove(filepath.Join(tr.dir(address), "class")))
			tr.remove(address)
		},
	} {
		t.Run(what, func(t *testing.T) {
			tr := newTree(t)
			for _, address := range []string{"0000:01:00.0", "0000:02:00.0", "0000:03:00.0"} {
				tr.add(address, nil)
			}
			var seen []string
			s := &scanner{folder: tr.devices(), opened: func(address string) {
				seen = append(seen, address)
				switch address {
				case "0000:01:00.0":
					vanish(tr, "0000:03:00.0") // before it is opened
				case "0000:02:00.0":
					vanish(tr, "0000:02:00.0") // as it is read
				}
			}}
			devices, err := s.scan()
			require.NoError(t, err)
			require.Equal(t, []string{"0000:01:00.0"}, addresses(devices))
			require.Equal(t, []string{"0000:01:00.0", "0000:02:00.0"}, seen)
		})
	}
}

func TestAnotherDeviceInThePlaceIsReadAsAWhole(t *testing.T) {
	tr := newTree(t)
	const address = "0000:01:00.0"
	tr.add(address, map[string]string{"physfn": "->../0000:00:01.0"})
	opened := 0
	s := &scanner{folder: tr.devices(), opened: func(string) {
		if opened++; opened == 1 {
			tr.remove(address)
			tr.add(address, map[string]string{"vendor": "0x1234", "device": "0x5678"})
		}
	}}
	devices, err := s.scan()
	require.NoError(t, err)
	require.Equal(t,
		[]Device{{Address: address, Vendor: "1234", Product: "5678", Class: "010802", Type: Whole}}, devices)
	require.Equal(t, 2, opened)

	// A device that keeps changing is reported, and the scan ends.
	opened = 0
	s.opened = func(string) {
		opened++
		tr.remove(address)
		tr.add(address, nil)
	}
	devices, err = s.scan()
	require.ErrorContains(t, err, address)
	require.Empty(t, devices)
	require.Equal(t, maxReads, opened)
}

// The two errors that the kernel returns for a device that has just disappeared.
func TestErrorsOfARemovedDevice(t *testing.T) {
	require.True(t, isGone(&os.PathError{Op: "read", Path: "vendor", Err: syscall.ENODEV}))
	require.True(t, isGone(&os.PathError{Op: "open", Path: "vendor", Err: syscall.ENOENT}))
	require.False(t, isGone(&os.PathError{Op: "read", Path: "vendor", Err: syscall.EIO}))
	require.False(t, isGone(nil))
}

// The devices of this machine can be read.
func TestThisMachine(t *testing.T) {
	devices, err := Scan(Devices)
	require.NoError(t, err)
	require.True(t, slices.IsSortedFunc(devices, byAddress))
	for _, d := range devices {
		require.Regexp(t, kernelAddress, d.Address)
		require.Len(t, d.Vendor+d.Product+d.Class, 14, d.Address)
	}
}
