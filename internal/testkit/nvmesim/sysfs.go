package nvmesim

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// The command sets besides NVM.
const (
	keyValue = 1
	zoned    = 2
)

const (
	nvmeDriver = "nvme"
	pciRoot    = "devices/pci0000:00"
	subsystems = "devices/virtual/nvme-subsystem"
)

// fullDevice is the number of /dev/full, which hardly anybody has open, and of each controller: nvme-cli only checks
// for a character device.
var fullDevice = unix.Mkdev(1, 7)

// tree writes below sys and dev and keeps the first error.
type tree struct {
	dir string
	err error
}

func (t *tree) sys(name string) string { return filepath.Join(t.dir, "sys", name) }
func (t *tree) dev(name string) string { return filepath.Join(t.dir, "dev", name) }

func (t *tree) check(err error) {
	if t.err == nil {
		t.err = err
	}
}

func (t *tree) directory(name string) { t.check(os.MkdirAll(t.sys(name), 0o755)) }

// attribute writes a file with a newline, as in sysfs.
func (t *tree) attribute(name, format string, args ...any) {
	t.directory(filepath.Dir(name))
	t.check(os.WriteFile(t.sys(name), fmt.Appendf(nil, format+"\n", args...), 0o644))
}

// link makes a relative symlink, as in sysfs. It replaces one that a killed nvme left; node
// does the same.
func (t *tree) link(name, target string) {
	t.directory(filepath.Dir(name))
	relative, err := filepath.Rel(filepath.Dir(t.sys(name)), t.sys(target))
	t.check(err)
	t.remove(name)
	t.check(os.Symlink(relative, t.sys(name)))
}

func (t *tree) remove(names ...string) {
	for _, name := range names {
		t.check(os.RemoveAll(t.sys(name)))
	}
}

// node makes a device node.
func (t *tree) node(name string, kind uint32, number uint64) {
	t.removeNode(name)
	if err := unix.Mknod(t.dev(name), kind|0o600, int(number)); err != nil {
		t.check(fmt.Errorf("make the node %s: %w", name, err))
	}
}

func (t *tree) removeNode(name string) {
	if err := os.Remove(t.dev(name)); !errors.Is(err, os.ErrNotExist) {
		t.check(err)
	}
}

func (s *slot) pciPath() string { return pciRoot + "/" + s.Controller.Address }
func (s *slot) sysPath() string {
	return s.pciPath() + "/nvme/" + s.Name
}
func (s *slot) subsystemPath() string {
	return fmt.Sprintf("%s/nvme-subsys%d", subsystems, s.Subsystem)
}

// plug shows the PCI function without a driver.
func (w *state) plug(s *slot) error {
	t := &tree{dir: w.dir}
	c := s.Controller
	t.attribute(s.pciPath()+"/vendor", "0x%04x", c.VendorID)
	t.attribute(s.pciPath()+"/device", "0x%04x", c.ProductID)
	t.attribute(s.pciPath()+"/class", "0x010802")
	t.attribute(s.pciPath()+"/numa_node", "0")
	t.link("bus/pci/devices/"+c.Address, s.pciPath())
	t.link(s.pciPath()+"/subsystem", "bus/pci")
	for _, name := range []string{nvmeDriver, "vfio-pci"} {
		t.directory("bus/pci/drivers/" + name)
	}
	for _, name := range []string{"class/nvme", "class/nvme-subsystem", "class/block", "block", "dev/block"} {
		t.directory(name)
	}
	t.check(os.MkdirAll(t.dev(""), 0o755))
	return t.err
}

// unplug removes the PCI function.
func (w *state) unplug(s *slot) error {
	err := w.bind(s, "")
	t := &tree{dir: w.dir, err: err}
	t.remove("bus/pci/devices/"+s.Controller.Address, s.pciPath())
	return t.err
}

// bind binds the function to a driver, "" for none.
func (w *state) bind(s *slot, driver string) error {
	t := &tree{dir: w.dir}
	if s.Driver == nvmeDriver {
		t.check(w.hideController(s))
	}
	if s.Driver != "" {
		t.remove(s.pciPath()+"/driver", "bus/pci/drivers/"+s.Driver+"/"+s.Controller.Address)
	}
	s.Driver = driver
	if driver != "" {
		t.link(s.pciPath()+"/driver", "bus/pci/drivers/"+driver)
		t.link("bus/pci/drivers/"+driver+"/"+s.Controller.Address, s.pciPath())
	}
	if driver == nvmeDriver {
		t.check(w.showController(s))
	}
	return t.err
}

func (w *state) showController(s *slot) error {
	s.Subsystem = s.number()
	for _, other := range w.subsystem(s) {
		if other != s {
			s.Subsystem = other.Subsystem
			break
		}
	}
	t := &tree{dir: w.dir}
	c := s.Controller
	t.attribute(s.sysPath()+"/dev", "%d:%d", unix.Major(fullDevice), unix.Minor(fullDevice))
	t.attribute(s.sysPath()+"/address", "%s", c.Address)
	t.attribute(s.sysPath()+"/cntlid", "%d", c.CNTLID)
	t.attribute(s.sysPath()+"/state", "live")
	t.attribute(s.sysPath()+"/transport", "pcie")
	for _, directory := range []string{s.sysPath(), s.subsystemPath()} {
		// The kernel keeps the padding.
		t.attribute(directory+"/serial", "%-20s", c.Serial)
		t.attribute(directory+"/model", "%-40s", c.Model)
		t.attribute(directory+"/firmware_rev", "%-8s", c.Firmware)
		t.attribute(directory+"/subsysnqn", "%s", c.SubsystemNQN)
	}
	t.link(s.sysPath()+"/device", s.pciPath())
	t.link(s.sysPath()+"/subsystem", "class/nvme")
	t.link("class/nvme/"+s.Name, s.sysPath())
	t.link(s.subsystemPath()+"/"+s.Name, s.sysPath())
	if name := "class/nvme-subsystem/" + filepath.Base(s.subsystemPath()); t.err == nil && len(w.subsystem(s)) == 1 {
		t.link(name, s.subsystemPath())
	}
	t.node(s.Name, unix.S_IFCHR, fullDevice)
	t.check(w.scan(s))
	return t.err
}

func (w *state) hideController(s *slot) error {
	t := &tree{dir: w.dir}
	for _, d := range slices.Clone(s.Disks) {
		t.check(w.hideDisk(s, d))
	}
	t.removeNode(s.Name)
	t.remove("class/nvme/"+s.Name, s.subsystemPath()+"/"+s.Name, s.pciPath()+"/nvme")
	if len(w.subsystem(s)) == 1 {
		t.remove("class/nvme-subsystem/"+filepath.Base(s.subsystemPath()), s.subsystemPath())
	}
	return t.err
}

// rescan updates what the host shows of a controller.
func (w *state) rescan(s *slot) error {
	if s.Driver != nvmeDriver {
		return nil
	}
	t := &tree{dir: w.dir}
	t.attribute(s.sysPath()+"/firmware_rev", "%-8s", s.Controller.Firmware)
	t.check(w.scan(s))
	return t.err
}

// scan makes the disks match the namespaces.
func (w *state) scan(s *slot) error {
	var err error
	for _, d := range slices.Clone(s.Disks) {
		if n := s.namespace(d.NSID); n == nil || *n != d.Namespace || !w.complete(d) {
			err = errors.Join(err, w.hideDisk(s, d))
		}
	}
	for i := range s.Controller.Namespaces {
		n := &s.Controller.Namespaces[i]
		shown := slices.ContainsFunc(s.Disks, func(d disk) bool { return d.NSID == n.NSID })
		if n.Attached && n.CSI != keyValue && !shown {
			err = errors.Join(err, w.showDisk(s, n))
		}
	}
	return err
}

// complete reports whether all files of a disk exist. Some are missing if an nvme was killed
// while it showed or hid the disk.
func (w *state) complete(d disk) bool {
	t := &tree{dir: w.dir}
	paths := []string{t.sys("block/" + cmp.Or(d.Hidden, d.Name))}
	if d.Name != "" {
		paths = append(paths, t.sys("block/"+d.Name), t.dev(d.Name))
	}
	for _, path := range paths {
		if _, err := os.Stat(path); err != nil {
			return false
		}
	}
	return d.Name == "" || d.Loop >= 0 && strings.HasPrefix(loopFile(d.Loop), w.dir+"/")
}

// instance is a namespace's number in the subsystem, the lowest free one, unless the
// namespace is shared with another controller.
func (w *state) instance(s *slot, nsid uint32) (number int, shared bool) {
	taken := map[int]bool{}
	for _, other := range w.subsystem(s) {
		for _, d := range other.Disks {
			if d.NSID == nsid && other != s {
				return d.Instance, true
			}
			taken[d.Instance] = true
		}
	}
	for number = 1; taken[number]; {
		number++
	}
	return number, false
}

func (w *state) showDisk(s *slot, n *Namespace) error {
	number, shared := w.instance(s, n.NSID)
	d := disk{NSID: n.NSID, Instance: number, Loop: -1, Namespace: *n, Name: fmt.Sprintf("%sn%d", s.Name, number)}
	home, above := s.sysPath()+"/", s.sysPath()
	t := &tree{dir: w.dir}
	sectors := s.bytes(n) / 512
	if s.Controller.Formats[n.Format].Metadata != 0 && !s.Controller.ShowsMetadata {
		sectors = 0
	}
	if s.Controller.Multipath {
		d.Hidden = fmt.Sprintf("nvme%dc%dn%d", s.Subsystem, s.number(), number)
		d.Name, home, above = fmt.Sprintf("nvme%dn%d", s.Subsystem, number), s.subsystemPath()+"/", s.subsystemPath()
		if shared {
			d.Name = ""
		}
	}
	// Saved before the disk is shown, so that it can be hidden if this process is killed.
	s.Disks = append(s.Disks, d)
	t.check(w.save())
	if d.Hidden != "" {
		hidden := s.sysPath() + "/" + d.Hidden
		t.diskAttributes(hidden, s, n, sectors, 1)
		t.link(hidden+"/device", s.sysPath())
		t.diskLinks(hidden, "")
	}
	if d.Name != "" && t.err == nil {
		t.check(w.showHead(t, s, n, &s.Disks[len(s.Disks)-1], home+d.Name, sectors))
		t.link(home+d.Name+"/device", above)
	}
	return t.err
}

// showHead shows a disk that can be opened.
func (w *state) showHead(t *tree, s *slot, n *Namespace, d *disk, home string, sectors uint64) error {
	file, flags := w.media(s), uint32(0)
	if sectors == 0 {
		file = filepath.Join(w.dir, "media", "none")
		t.check(os.WriteFile(file, nil, 0o600))
	}
	if n.WriteProtected {
		flags = readOnly
	}
	loop, err := attach(file, n.Offset*min(sectors, 1), sectors*512, int(s.blockSize(n)), flags)
	if err != nil {
		return err
	}
	d.Loop = loop
	number, err := loopDevice(loop)
	if err != nil {
		return err
	}
	t.diskAttributes(home, s, n, sectors, 0)
	device := fmt.Sprintf("%d:%d", unix.Major(number), unix.Minor(number))
	t.attribute(home+"/dev", "%s", device)
	t.diskLinks(home, device)
	t.node(d.Name, unix.S_IFBLK, number)
	return t.err
}

func (t *tree) diskAttributes(home string, s *slot, n *Namespace, sectors uint64, hidden int) {
	ro := 0
	if n.WriteProtected {
		ro = 1
	}
	t.attribute(home+"/nsid", "%d", n.NSID)
	t.attribute(home+"/size", "%d", sectors)
	t.attribute(home+"/ro", "%d", ro)
	t.attribute(home+"/hidden", "%d", hidden)
	t.attribute(home+"/removable", "0")
	t.attribute(home+"/queue/logical_block_size", "%d", s.blockSize(n))
	zeroes, zones := 0, "none"
	if c := s.Controller; c.KeptWriteZeroes || c.ONCS&(1<<3) != 0 && !c.WriteZeroesQuirk {
		zeroes = 128 << 10
	}
	if n.CSI == zoned {
		zones = "host-managed"
	}
	t.attribute(home+"/queue/write_zeroes_max_bytes", "%d", zeroes)
	t.attribute(home+"/queue/zoned", "%s", zones)
	t.directory(home + "/holders")
	t.directory(home + "/slaves")
	t.link(home+"/subsystem", "class/block")
}

// diskLinks makes the links below sys that lead to a disk.
func (t *tree) diskLinks(home, device string) {
	name := filepath.Base(home)
	t.link("block/"+name, home)
	t.link("class/block/"+name, home)
	if device != "" {
		t.link("dev/block/"+device, home)
	}
}

func (w *state) hideDisk(s *slot, d disk) error {
	t := &tree{dir: w.dir}
	for _, name := range []string{d.Hidden, d.Name} {
		if name == "" {
			continue
		}
		home := s.sysPath() + "/" + name
		if name == d.Name {
			t.removeNode(name)
			if d.Hidden != "" {
				home = s.subsystemPath() + "/" + name
			}
		}
		if device, err := os.ReadFile(t.sys(home + "/dev")); err == nil {
			t.remove("dev/block/" + strings.TrimSpace(string(device)))
		}
		t.remove("block/"+name, "class/block/"+name, home)
	}
	if d.Loop >= 0 {
		t.check(detach(w.dir, d.Loop))
	}
	s.Disks = slices.DeleteFunc(s.Disks, func(other disk) bool { return other.NSID == d.NSID })
	return t.err
}
