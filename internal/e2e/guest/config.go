package guest

import (
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"
)

// Paths in the guest.
const (
	// State is where the disk lies that survives a power failure.
	State = "/var/lib/burnish"
	// HostFile holds Config.HostYAML.
	HostFile = "/etc/burnish/host.yaml"
	// NVMe is the real nvme-cli; the shell there would find nothing else by its name.
	NVMe = "/usr/sbin/nvme"
	// Host is the address under which the guest reaches this machine's loopback.
	Host = "10.0.2.2"
)

// Config is the hardware of a guest, and what runs on it.
type Config struct {
	// Dir is a folder of this machine that the guest has for itself.
	Dir string
	// Controllers are the NVMe drives.
	Controllers []Controller
	// InOrder makes the guest find its drives one after the other in the order of
	// Controllers, so that each boot gives their disks the same numbers. A real host
	// numbers them by whichever answers first.
	InOrder bool
	// Worker is a static program that starts with the guest, with Env and State as its
	// BURNISH_STATE_DIR; a guest without a worker is a bare machine.
	Worker string
	Env    map[string]string
	// Programs are of this machine, and have the same paths in the guest, with the
	// libraries that they are linked to.
	Programs []string
	// HostYAML is the text of HostFile; it belongs to root.
	HostYAML string
	// MemoryMB is 768 where it is 0.
	MemoryMB int
}

// Controller is one NVMe controller.
type Controller struct {
	Serial string
	// Address is where its function 0 sits, as 0000:00:05.0: on bus 0, in slots 02 to 0f.
	// "" gives the first free slot from 05 on; Guest.Address tells it.
	Address string
	// Subsystem puts the controller into an NVMe subsystem of its own. Without one its
	// namespaces can be neither shared nor detached.
	Subsystem  bool
	Namespaces []Namespace
	// Options are further properties of the emulated controller: mdts=5.
	Options string
}

// Namespace is one namespace of a controller; they count from 1.
type Namespace struct {
	// Image is the file that holds its bytes, made with Size where it is missing. Each
	// block's metadata lies behind all blocks.
	Image string
	Size  int64
	// BlockSize is 512 where it is 0. Metadata is the bytes that each block has beside it.
	BlockSize, Metadata int
	// Detached and Shared are of namespaces in a subsystem.
	Detached, Shared bool
	// WriteBytesPerSecond makes writes slow, so that a test can strike in their midst.
	WriteBytesPerSecond int64
	// Options are further properties of the emulated namespace.
	Options string
}

var addressForm = regexp.MustCompile(`^0000:00:0([2-9a-f])\.0$`)

// firstSlot is where controllers without an address begin.
const firstSlot = 5

// settle checks the configuration, and gives each controller its address.
func (c *Config) settle() error {
	taken := map[string]bool{}
	for i, one := range c.Controllers {
		switch {
		case one.Serial == "" || strings.ContainsAny(one.Serial+one.Options, " \t\n"):
			return fmt.Errorf("controller %d: the serial %q or the options %q are empty or hold blanks", i, one.Serial, one.Options)
		case one.Address == "":
			continue
		case !addressForm.MatchString(one.Address) || taken[one.Address]:
			return fmt.Errorf("controller %s: the address %q is of another form, or taken", one.Serial, one.Address)
		}
		taken[one.Address] = true
	}
	slot := firstSlot
	for i := range c.Controllers {
		for c.Controllers[i].Address == "" {
			address := fmt.Sprintf("0000:00:%02x.0", slot)
			if !addressForm.MatchString(address) {
				return errors.New("there are more controllers than slots")
			}
			if !taken[address] {
				c.Controllers[i].Address, taken[address] = address, true
			}
			slot++
		}
	}
	return c.images()
}

// images makes the files of namespaces that have none yet.
func (c *Config) images() error {
	for _, one := range c.Controllers {
		for i, ns := range one.Namespaces {
			if strings.Contains(ns.Image, ",") {
				return fmt.Errorf("namespace %d of %s: the image's path %q holds a comma", i+1, one.Serial, ns.Image)
			}
			if !one.Subsystem && (ns.Detached || ns.Shared) {
				return fmt.Errorf("namespace %d of %s: only those in a subsystem can be detached or shared", i+1, one.Serial)
			}
			if err := sized(ns.Image, ns.Size); err != nil {
				return fmt.Errorf("namespace %d of %s: %w", i+1, one.Serial, err)
			}
		}
	}
	return nil
}

// sized makes a sparse file of this size, or proves that there is one.
func sized(path string, size int64) error {
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
