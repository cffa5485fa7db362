package pci

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"

	"burnish/internal/device"
)

// Devices is where Linux lists its PCI devices.
const Devices = "/sys/bus/pci/devices"

// Scan reads the devices in folder, which is Devices or a folder of the same form, and
// sorts them by address (S2.6). It only reads attributes and links. A device that
// disappears meanwhile is left out. If another device takes an address meanwhile, the
// address is read again, so that no entry mixes two devices. Without devices, or without
// the folder, the list is empty (S2.4). The error joins the errors of single devices,
// each with its address; the list holds the others.
func Scan(folder string) ([]Device, error) {
	return (&scanner{folder: folder}).scan()
}

// ReadDevice reads the device at address, as Scan does; false where there is none.
func ReadDevice(folder, address string) (Device, bool, error) {
	d, found, err := (&scanner{folder: folder}).device(address)
	if err != nil {
		return Device{}, false, fmt.Errorf("PCI device %s: %w", address, err)
	}
	return d, found, nil
}

// scanner is one scan. Tests set opened, which is called with each device after its
// directory is opened and before anything in it is read.
type scanner struct {
	folder string
	opened func(address string)
}

// kernelAddress is an address as the kernel writes it; its domain may be longer than
// the four digits that a spec can name.
var kernelAddress = regexp.MustCompile(`^[0-9a-f]{4,8}:[0-9a-f]{2}:[01][0-9a-f]\.[0-7]$`)

func (s *scanner) scan() ([]Device, error) {
	entries, err := os.ReadDir(s.folder)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list the PCI devices: %w", err)
	}
	var (
		devices []Device
		errs    []error
	)
	for _, entry := range entries {
		d, found, err := s.device(entry.Name())
		switch {
		case err != nil:
			errs = append(errs, fmt.Errorf("PCI device %s: %w", entry.Name(), err))
		case found:
			devices = append(devices, d)
		}
	}
	slices.SortFunc(devices, byAddress)
	return devices, errors.Join(errs...)
}

// byAddress orders by number: a longer domain is a larger one.
func byAddress(a, b Device) int {
	return cmp.Or(cmp.Compare(len(a.Address), len(b.Address)), cmp.Compare(a.Address, b.Address))
}

// maxReads bounds how often a device that changes meanwhile is read.
const maxReads = 3

func (s *scanner) device(address string) (d Device, found bool, err error) {
	if !kernelAddress.MatchString(address) {
		return Device{}, false, errors.New("its name is not a PCI address")
	}
	link := filepath.Join(s.folder, address)
	for range maxReads {
		if d, err = s.read(link, address); err == nil {
			return d, true, nil
		}
		if !isGone(err) {
			return Device{}, false, err
		}
		if _, statErr := os.Stat(link); isGone(statErr) {
			return Device{}, false, nil
		}
	}
	return Device{}, false, err
}

// isGone says whether err means that the file no longer exists. sysfs returns ENODEV for
// an attribute that is open already.
func isGone(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENODEV)
}

// read reads one device through its open directory: a device that takes the address
// later has another directory.
func (s *scanner) read(link, address string) (d Device, err error) {
	root, err := os.OpenRoot(link)
	if err != nil {
		return Device{}, fmt.Errorf("open: %w", err)
	}
	defer func() { err = errors.Join(err, root.Close()) }()
	if s.opened != nil {
		s.opened(address)
	}
	dir := attributes{root: root}
	d = Device{
		Address: address, Type: Whole,
		Vendor: dir.hex("vendor", 4), Product: dir.hex("device", 4),
		Driver: dir.link("driver"), IOMMUGroup: dir.link("iommu_group"),
		Parent: dir.address("physfn"), Interfaces: dir.names("net"),
	}
	d.MAC = dir.mac(d.Interfaces)
	possible, hasFunctions := dir.text("sriov_totalvfs")
	for _, name := range dir.names(".") {
		if strings.HasPrefix(name, "virtfn") {
			d.Functions = append(d.Functions, dir.address(name))
		}
	}
	// Last, because every device has a class: if it can still be read, an attribute that
	// was missing above does not exist, and the device is not gone.
	d.Class = dir.hex("class", 6)
	slices.SortFunc(d.Functions, func(a, b string) int { return byAddress(Device{Address: a}, Device{Address: b}) })
	switch {
	case d.Parent != "":
		d.Type = Virtual
	case hasFunctions && possible != "0":
		d.Type = Physical
	}
	return d, dir.err
}

// attributes reads the attributes of one device. It keeps the first error; after that,
// the results of its methods are meaningless.
type attributes struct {
	root *os.Root
	err  error
}

// largestAttribute is one page, the limit in sysfs.
const largestAttribute = 4096

func (a *attributes) text(name string) (text string, there bool) {
	if a.err != nil {
		return "", false
	}
	file, err := a.root.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return "", false
	}
	if err != nil {
		a.err = fmt.Errorf("open %s: %w", name, err)
		return "", false
	}
	content, err := io.ReadAll(io.LimitReader(file, largestAttribute))
	if err = errors.Join(err, file.Close()); err != nil {
		a.err = fmt.Errorf("read %s: %w", name, err)
		return "", false
	}
	return strings.TrimSpace(string(content)), true
}

// hex reads a number that every device has, as width digits in lower case.
func (a *attributes) hex(name string, width int) string {
	text, there := a.text(name)
	if a.err != nil {
		return ""
	}
	if !there {
		a.err = fmt.Errorf("read %s: %w", name, fs.ErrNotExist)
		return ""
	}
	digits, why := hexadecimal(text, width, 1<<(4*width)-1)
	if why != "" {
		a.err = fmt.Errorf("%s: %s", name, why)
	}
	return digits
}

// mac is the MAC that the hardware brought along: a guest to which the device is passed sees
// that one, and none that the host gave its only interface meanwhile. "" if there is none.
func (a *attributes) mac(interfaces []string) string {
	if a.err != nil || len(interfaces) != 1 {
		return ""
	}
	folder := "net/" + interfaces[0] + "/"
	kind, _ := a.text(folder + "addr_assign_type")
	text, _ := a.text(folder + "address")
	if errors.Is(a.err, syscall.EINVAL) { // the interface is being removed
		a.err = nil
		return ""
	}
	mac, err := device.CanonicalMAC(text)
	if err != nil || kind != "0" { // 0 is NET_ADDR_PERM
		return "" // InfiniBand's are longer
	}
	return mac
}

// link gives the last element of a link's target; "" where there is no link.
func (a *attributes) link(name string) string {
	if a.err != nil {
		return ""
	}
	target, err := a.root.Readlink(name)
	if errors.Is(err, fs.ErrNotExist) {
		return ""
	}
	if err != nil {
		a.err = fmt.Errorf("read the link %s: %w", name, err)
		return ""
	}
	return filepath.Base(target)
}

// address is a link to another device.
func (a *attributes) address(name string) string {
	to := a.link(name)
	if to != "" && !kernelAddress.MatchString(to) {
		a.err = fmt.Errorf("the link %s leads to %q, which is not a PCI address", name, to)
	}
	return to
}

// names lists a folder, sorted; none where it is not there.
func (a *attributes) names(folder string) []string {
	if a.err != nil {
		return nil
	}
	dir, err := a.root.Open(folder)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		a.err = fmt.Errorf("open %s: %w", folder, err)
		return nil
	}
	names, err := dir.Readdirnames(-1)
	if err = errors.Join(err, dir.Close()); err != nil {
		a.err = fmt.Errorf("list %s: %w", folder, err)
	}
	slices.Sort(names)
	return names
}
