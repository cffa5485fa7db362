package guest

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"regexp"
	"slices"
)

// Paths in the guest.
const (
	// State is where the disk lies that survives a power failure.
	State = "/var/lib/burnish"
	// HostFile holds Config.HostYAML.
	HostFile = "/etc/burnish/host.yaml"
	// NVMe is the real nvme-cli.
	NVMe = "/usr/sbin/nvme"
	// Host is the address under which the guest reaches this machine's loopback.
	Host = "10.0.2.2"
)

// Config is the hardware of a guest, and what runs on it.
type Config struct {
	// Dir is a folder of this machine that the guest has for itself.
	Dir string
	// Controllers are the NVMe drives, Cards what else a tenant is given.
	Controllers []Controller
	Cards       []Card
	// ConfigDrive, if given, is the image of a disk that can only be read; the kernel can
	// mount ISO 9660.
	ConfigDrive string
	// InOrder makes the guest find its drives one after the other in the order of
	// Controllers, so that each boot gives their disks the same numbers. A real host
	// numbers them by whichever answers first.
	InOrder bool
	// Worker is a static program that starts with the guest, with Env and State as its
	// BURNISH_STATE_DIR; a guest without a worker is a bare machine.
	Worker string
	Env    map[string]string
	// Programs of this machine are copied to the same paths in the guest, with their
	// libraries.
	Programs []string
	// Modules of the kernel are loaded beside those of a guest's own devices: see Missing.
	Modules []string
	// Setup is a script that each boot runs before the worker starts.
	Setup string
	// HostYAML is the text of HostFile; it belongs to root.
	HostYAML string
	// Files are further files of the initial file system. They belong to root, and each boot
	// restores them.
	Files []File
	// IOMMU puts each card into an IOMMU group.
	IOMMU bool
	// MemoryMB is 768 where it is 0.
	MemoryMB int
}

// Controller is one NVMe controller.
type Controller struct {
	Serial string
	// Address is where its function 0 sits, as 0000:00:05.0: on bus 0, in slots 02 to 0f.
	// "" means the first free slot from 05 on; see Guest.Address.
	Address string
	// Subsystem puts the controller into an NVMe subsystem of its own. Without one its
	// namespaces cannot be detached.
	Subsystem  bool
	Namespaces []Namespace
}

// Namespace is one namespace of a controller. The first has the number 1.
type Namespace struct {
	// Image is the file that holds its bytes, made with Size where it is missing. Each
	// block's metadata lies behind all blocks.
	Image string
	Size  int64
	// BlockSize is 512 where it is 0. Metadata is the bytes that each block has beside it.
	BlockSize, Metadata int
	// Detached is of a namespace in a subsystem.
	Detached bool
	// WriteBytesPerSecond makes writes slow, so that a test can interrupt them.
	WriteBytesPerSecond int64
}

// Card is a PCI card with memory, such as a GPU: QEMU's ivshmem, whose BAR 2 is its memory. Or it is any
// other device of QEMU's.
type Card struct {
	// Device, if given, is QEMU's name of another device, with its properties.
	Device string
	// Address has the form of a Controller's. Behind a port it is the first of the port's own bus,
	// and Start gives it.
	Address string
	// Port puts the card behind a root port, below which the kernel can reset it.
	Port bool
	// Memory is the file that holds the memory's bytes, with and without power. It is made
	// with Size, a power of two, where it is missing.
	Memory string
	Size   int64

	port string // the address of its root port
}

// at is the address on bus 0 that the card takes: its own, or its root port's.
func (c *Card) at() *string {
	if c.Port {
		return &c.port
	}
	return &c.Address
}

// File is one file in the guest.
type File struct {
	Path string
	Mode fs.FileMode
	Text []byte
}

var addressForm = regexp.MustCompile(`^0000:00:0([2-9a-f])\.0$`)

// firstSlot is where those without an address begin.
const firstSlot = 5

// complete gives each controller and card its address, and makes the files that are missing.
func (c *Config) complete() error {
	if err := c.assignAddresses(); err != nil {
		return err
	}
	return c.makeImages()
}

// assignAddresses gives an address to those that have none.
func (c *Config) assignAddresses() error {
	var all []*string
	for i := range c.Controllers {
		all = append(all, &c.Controllers[i].Address)
	}
	for i := range c.Cards {
		all = append(all, c.Cards[i].at())
	}
	taken := map[string]bool{}
	for _, address := range all {
		if *address != "" && (!addressForm.MatchString(*address) || taken[*address]) {
			return fmt.Errorf("the address %q has another form, or is used twice", *address)
		}
		taken[*address] = true
	}
	slot := firstSlot
	for _, address := range all {
		for *address == "" {
			next := fmt.Sprintf("0000:00:%02x.0", slot)
			if !addressForm.MatchString(next) {
				return errors.New("there are more controllers and cards than slots")
			}
			if !taken[next] {
				*address = next
			}
			slot++
		}
	}
	// The firmware numbers the buses in the order of their ports.
	var ports []string
	for _, one := range c.Cards {
		ports = append(ports, one.port)
	}
	slices.Sort(ports)
	ports = slices.DeleteFunc(ports, func(port string) bool { return port == "" })
	for i := range c.Cards {
		if bus := slices.Index(ports, c.Cards[i].port); bus >= 0 {
			c.Cards[i].Address = fmt.Sprintf("0000:%02x:00.0", bus+1)
		}
	}
	return nil
}

// makeImages makes the files of cards and namespaces that have none yet.
func (c *Config) makeImages() error {
	for _, one := range c.Cards {
		if one.Device != "" {
			continue
		}
		if err := sparseFile(one.Memory, one.Size); err != nil {
			return fmt.Errorf("card %s: %w", one.Address, err)
		}
	}
	for _, one := range c.Controllers {
		for i, ns := range one.Namespaces {
			if err := sparseFile(ns.Image, ns.Size); err != nil {
				return fmt.Errorf("namespace %d of %s: %w", i+1, one.Serial, err)
			}
		}
	}
	return nil
}

// sparseFile makes a file of this size without any block, or checks the size of the one there is.
func sparseFile(path string, size int64) error {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	info, err := file.Stat()
	if err == nil && info.Size() == 0 {
		err = file.Truncate(size)
	} else if err == nil && info.Size() != size {
		err = fmt.Errorf("%s has %d bytes and not %d", path, info.Size(), size)
	}
	return errors.Join(err, file.Close())
}
