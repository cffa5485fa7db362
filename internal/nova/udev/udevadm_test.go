package udev

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// sysDevice is a device of a tree like /sys: what it has beside its subsystem and uevent.
type sysDevice struct {
	path, subsystem, uevent string
	attributes              map[string]string
}

// A guest's devices. Each disk but the first has something of the first one.
var (
	pciSlot = func(address string) sysDevice {
		return sysDevice{path: "/devices/pci0000:00/" + address, subsystem: "bus/pci", uevent: "PCI_SLOT_NAME=" +
			address + "\n"}
	}
	nvmeAt = func(number int, above, serial string) []sysDevice {
		controller := fmt.Sprintf("%s/nvme/nvme%d", above, number)
		return []sysDevice{
			{path: controller, subsystem: "class/nvme", uevent: fmt.Sprintf("MAJOR=240\nMINOR=%[1]d\nDEVNAME=nvme%[1]d\n", number), attributes: map[string]string{"serial": fmt.Sprintf("%-20s\n", serial)}},
			disk(fmt.Sprintf("%s/nvme%dn1", controller, number), fmt.Sprintf("nvme%dn1", number), 259, number, ""),
		}
	}
	disk = func(path, name string, major, minor int, more string) sysDevice {
		return sysDevice{path: path, subsystem: "class/block",
			uevent: fmt.Sprintf("MAJOR=%d\nMINOR=%d\nDEVNAME=%s\nDEVTYPE=disk\n%s", major, minor, name, more)}
	}
	nic = func(above string, number int, mac, more string) sysDevice {
		return sysDevice{path: fmt.Sprintf("%s/net/eth%d", above, number), subsystem: "class/net",
			uevent:     fmt.Sprintf("INTERFACE=eth%[1]d\nIFINDEX=%[2]d\n%[3]s", number, number+2, more),
			attributes: map[string]string{"address": mac + "\n", "ifindex": fmt.Sprintf("%d\n", number+2), "addr_assign_type": "0\n"}}
	}
)

// tree makes the devices below a new folder.
func tree(t *testing.T, devices []sysDevice) string {
	t.Helper()
	root := t.TempDir()
	for _, d := range devices {
		dir := filepath.Join(root, d.path)
		require.NoError(t, os.MkdirAll(dir, 0o755))
		require.NoError(t, os.MkdirAll(filepath.Join(root, d.subsystem), 0o755))
		up, err := filepath.Rel(dir, filepath.Join(root, d.subsystem))
		require.NoError(t, err)
		require.NoError(t, os.Symlink(up, filepath.Join(dir, "subsystem")))
		require.NoError(t, os.WriteFile(filepath.Join(dir, "uevent"), []byte(d.uevent), 0o644))
		for name, value := range d.attributes {
			require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(value), 0o644))
		}
	}
	return root
}

// inNamespace runs udevadm on each device whose path is an argument, in a mount namespace with
// the tree as /sys, the rules alone, and nothing of the machine's own udev.
const inNamespace = `set -e
mount --bind "$1/sys" /sys
mount -t tmpfs tmpfs /dev
touch /dev/null
mount -t tmpfs tmpfs /run
mkdir -p /run/none /run/udev/rules.d
cp "$1/65-burnish.rules" /run/udev/rules.d
for dir in /etc/udev/rules.d /lib/udev/rules.d; do
	[ ! -d $dir ] || mount --bind /run/none $dir
done
shift
export SYSTEMD_DEVICE_VERIFY_SYSFS=0
for path; do
	rm -rf /run/udev/data /run/udev/tags /run/udev/links
	echo "DEVICE $path"
	udevadm test --action=add "/sys$path" 2>&1
done`

// udevadm is what udev itself makes of a document's rules: for each device, by the last part of
// its path, its tags and links. Anything that it says about the rules fails the test.
func udevadm(t *testing.T, devices []sysDevice, document string) map[string]string {
	t.Helper()
	if _, err := exec.LookPath("udevadm"); err != nil {
		t.Skip("udevadm is missing (package udev)")
	}
	if os.Getuid() != 0 {
		t.Skip("a mount namespace with a /sys of its own needs root")
	}
	dir := t.TempDir()
	require.NoError(t, os.Rename(tree(t, devices), filepath.Join(dir, "sys")))
	rules, err := Rules([]byte(document))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "65-burnish.rules"), []byte(rules), 0o644))
	args := []string{"--mount", "sh", "-c", inNamespace, "sh", dir}
	for _, d := range devices {
		if strings.HasSuffix(d.subsystem, "/block") || strings.HasSuffix(d.subsystem, "/net") ||
			strings.HasSuffix(d.subsystem, "/pci") {
			args = append(args, d.path)
		}
	}
	out, err := exec.CommandContext(t.Context(), "unshare", args...).CombinedOutput()
	require.NoError(t, err, "%s", out)
	found := map[string]string{}
	device := ""
	for line := range strings.Lines(string(out)) {
		line = strings.TrimSuffix(line, "\n")
		key, value, _ := strings.Cut(line, "=")
		path, starts := strings.CutPrefix(line, "DEVICE ")
		switch {
		case starts:
			device = filepath.Base(path)
		case key == "CURRENT_TAGS":
			found[device] = strings.Trim(value, ":") + found[device]
		case key == "DEVLINKS":
			found[device] += " " + value
		case strings.Contains(line, "65-burnish.rules:") && !strings.Contains(line, " LINK '"):
			t.Errorf("udev says about the rules: %s", line)
		}
	}
	return found
}

// S1.27
func TestUdevMarksWhatTheDocumentMeans(t *testing.T) {
	t.Parallel()
	slot1, slot2, slot3 := pciSlot("0000:00:02.0"), pciSlot("0000:00:03.0"), pciSlot("0000:00:09.0")
	behind := pciSlot("0000:00:04.0/0000:05:00.0")
	behind.uevent = "PCI_SLOT_NAME=0000:05:00.0\n"
	scsi := slot3.path + "/virtio1/host0/target1:0:2/1:0:2:0"
	usb := slot3.path + "/usb1/1-2/1-2:1.0/host3/target3:0:0/3:0:0:0/block/sdb"
	devices := []sysDevice{
		slot1, slot2, slot3, pciSlot("0000:00:04.0"), behind,
		disk(scsi+"/block/sda", "sda", 8, 0, ""),
		disk(usb, "sdb", 8, 16, "ID_SCSI_SERIAL=USB-1\n"),
		disk(slot3.path+"/ata2/host4/target4:0:1/4:0:1:0/block/sdc", "sdc", 8, 32, ""),
		disk(slot3.path+"/ata2/host4/target4:0:0/4:0:0:0/block/sdd", "sdd", 8, 48, "ID_SERIAL_SHORT=S2\n"),
		disk("/devices/vbd-51712/block/xvda", "xvda", 202, 0, ""),
		disk("/devices/virtual/block/dm-0", "dm-0", 253, 0, "ID_SERIAL_SHORT=S2\n"),
		disk("/devices/virtual/nvme-subsystem/nvme-subsys7/nvme7n1", "nvme7n1", 259, 7, ""),
		{path: "/devices/virtual/nvme-subsystem/nvme-subsys7", subsystem: "class/nvme-subsystem", attributes: map[string]string{"serial": "     PADDED IN FRONT\n"}},
		nic(slot1.path, 0, "52:54:00:00:00:01", ""),
		nic(slot2.path, 1, "52:54:00:00:00:01", ""),
		nic(slot3.path, 2, "52:54:00:00:00:02", ""),
		nic("/devices/virtual", 3, "52:54:00:00:00:02", "DEVTYPE=vlan\n"),
		nic("/devices/vif-1", 4, "52:54:00:00:00:03", ""),
	}
	set := nic(behind.path, 5, "52:54:00:00:00:02", "")
	set.attributes["addr_assign_type"] = "3\n" // a bond gave it another card's
	devices = append(devices, set)
	virtio := disk(slot1.path+"/virtio0/block/vda", "vda", 254, 0, "")
	virtio.attributes = map[string]string{"serial": "0f6e9a3c-77e0-4d2c-9"}
	devices = append(devices, virtio)
	devices = append(devices, nvmeAt(0, slot1.path, "S1")...)
	devices = append(devices, nvmeAt(1, slot2.path, "S1")...)
	devices = append(devices, nvmeAt(2, behind.path, "S3")...)
	// they inherit serial and address
	for _, partition := range []string{behind.path + "/nvme/nvme2/nvme2n1/nvme2n1p1", scsi + "/block/sda/sda1"} {
		name := filepath.Base(partition)
		devices = append(devices, sysDevice{path: partition, subsystem: "class/block",
			uevent: fmt.Sprintf("MAJOR=259\nMINOR=%d\nDEVNAME=%s\nDEVTYPE=partition\n", 64+len(name), name)})
	}
	for _, c := range []struct {
		name, devices string
		want          map[string]string
	}{
		{"a disk by its serial", `{"type":"disk","bus":"none","address":"none","serial":"S3","tags":["db"]}`, map[string]string{"nvme2n1": "burnish-disk-db /dev/burnish/disk/db"}},
		{"a padded serial", `{"type":"disk","bus":"none","serial":"S3      ","tags":["db"]}`, map[string]string{"nvme2n1": "burnish-disk-db /dev/burnish/disk/db"}},
		{"two drives of one serial, at its address", `{"type":"disk","bus":"pci","address":"0000:00:03.0","serial":"S1","tags":["db"]}`, map[string]string{"nvme1n1": "burnish-disk-db /dev/burnish/disk/db"}},
		{"one serial for two roles",
			`{"type":"disk","bus":"pci","address":"0000:00:03.0","serial":"S1","tags":["b"]},{"type":"disk","bus":"pci","address":"0000:00:02.0","serial":"S1","tags":["a"]}`, map[string]string{
				"nvme0n1": "burnish-disk-a /dev/burnish/disk/a", "nvme1n1": "burnish-disk-b /dev/burnish/disk/b"}},
		{"by a property of udev's, not what lies on it", `{"type":"disk","bus":"scsi","address":"9:9:9:9","serial":"S2","tags":["db"]}`, map[string]string{"sdd": "burnish-disk-db /dev/burnish/disk/db"}},
		{"a SCSI serial", `{"type":"disk","bus":"usb","serial":"USB-1","tags":["db"]}`, map[string]string{"sdb": "burnish-disk-db /dev/burnish/disk/db"}},
		{"what virtio shows of a serial", `{"type":"disk","bus":"pci","address":"0000:00:02.0","serial":"0f6e9a3c-77e0-4d2c-9a54-e23faf6f6d38","tags":["db"]}`, map[string]string{"vda": "burnish-disk-db /dev/burnish/disk/db"}},
		{"a drive with two paths, its serial padded in front", `{"type":"disk","bus":"pci","address":"0000:00:0b.0","serial":"PADDED IN FRONT","tags":["db"]}`, map[string]string{"nvme7n1": "burnish-disk-db /dev/burnish/disk/db"}},
		{"a disk on SCSI", `{"type":"disk","bus":"scsi","address":"1:0:2:0","tags":["db"]}`, map[string]string{"sda": "burnish-disk-db /dev/burnish/disk/db"}},
		{"a disk on USB", `{"type":"disk","bus":"usb","address":"1:2","tags":["db"]}`, map[string]string{"sdb": "burnish-disk-db /dev/burnish/disk/db"}},
		{"a disk on IDE", `{"type":"disk","bus":"ide","address":"1:1","tags":["db"]}`, map[string]string{"sdc": "burnish-disk-db /dev/burnish/disk/db"}},
		{"a disk on Xen", `{"type":"disk","bus":"xen","address":"51712","tags":["db"]}`, map[string]string{"xvda": "burnish-disk-db /dev/burnish/disk/db"}},
		{"Xen's two buses", `{"type":"disk","bus":"ide","address":"0:0","serial":"X","tags":["db"]},{"type":"disk","bus":"xen","address":"0","path":"/dev/xvda","serial":"X","tags":["db"]}`, map[string]string{"xvda": "burnish-disk-db /dev/burnish/disk/db"}},
		{"not what is behind a bridge", `{"type":"disk","bus":"pci","address":"0000:00:04.0","tags":["db"]}`, nil},
		{"a disk by its address", `{"type":"disk","bus":"pci","address":"0000:05:00.0","tags":["db"]}`, map[string]string{"nvme2n1": "burnish-disk-db /dev/burnish/disk/db"}},
		{"a card by its MAC, not what lies on it", `{"type":"nic","bus":"pci","address":"0000:3b:00.0","mac":"52-54-00-00-00-02","tags":["up"]}`, map[string]string{"eth2": "burnish-nic-up"}},
		{"one MAC for two roles", `{"type":"nic","bus":"pci","address":"0000:00:02.0","mac":"52:54:00:00:00:01","tags":["a"]},{"type":"nic","bus":"pci","address":"0000:00:03.0","mac":"52:54:00:00:00:01","tags":["b"]}`, map[string]string{"eth0": "burnish-nic-a", "eth1": "burnish-nic-b"}},
		{"cards in a container", `{"type":"nic","bus":"none","devname":"eth0","mac":"52:54:00:00:00:01","tags":["a"]},{"type":"nic","bus":"none","devname":"eth1","mac":"52:54:00:00:00:01","tags":["b"]}`, map[string]string{"eth0": "burnish-nic-a", "eth1": "burnish-nic-b"}},
		{"a card on Xen", `{"type":"nic","bus":"xen","address":"1","mac":"?","tags":["up"]}`, map[string]string{"eth4": "burnish-nic-up"}},
		{"a device of another type", `{"type":"gpu","bus":"pci","address":"0000:00:09.0","serial":"S1","tags":["up"]}`, map[string]string{"0000:00:09.0": "burnish-gpu-up"}},
		{"a serial that is a pattern", `{"type":"disk","bus":"none","serial":"*","tags":["db"]},{"type":"disk","bus":"none","serial":"S[0-9]","tags":["da"]},{"type":"disk","bus":"none","serial":"?3|S3","tags":["dc"]}`, nil},
		{"a tag full of udev's own characters", `{"type":"disk","bus":"none","serial":"S3","tags":["$kernel %k *[?]|\"\\\n\r\\"]}`, map[string]string{"nvme2n1": "burnish-disk-_24kernel_20_25k_20_2a_5b_3f_5d_7c_22_5c_0a_0d_5c /dev/burnish/disk/_24kernel_20_25k_20_2a_5b_3f_5d_7c_22_5c_0a_0d_5c"}},
		{"what is too long for udev, and another device", `{"type":"disk","bus":"none","serial":"` + strings.Repeat("S", 17000) + `","tags":["long"]},{"type":"disk","bus":"none","serial":"S3","tags":["db"]}`, map[string]string{"nvme2n1": "burnish-disk-db /dev/burnish/disk/db"}},
		{"the longest tag", `{"type":"disk","bus":"none","serial":"S3","tags":["` + strings.Repeat("🂡", 60) + `"]}`, map[string]string{"nvme2n1": "burnish-disk-" + Encode(strings.Repeat("🂡", 60)) + " /dev/burnish/disk/" + Encode(strings.Repeat("🂡", 60))}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			found := udevadm(t, devices, `{"devices":[`+c.devices+`]}`)
			if c.want == nil {
				c.want = map[string]string{}
			}
			require.Equal(t, c.want, found)
		})
	}
}
