package nvme

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"burnish/internal/device"
	"burnish/internal/hardware"
	"burnish/internal/hardware/nvme/nvmecli"
	"burnish/internal/hardware/nvme/privileged"
	"burnish/internal/hardware/pcifunction"
	"burnish/internal/pci"
)

// controller is one NVMe controller. Its device node stays open for as long as it is used.
type controller struct {
	*Driver
	privileged.DevicePath
	pci pci.Device
	// drive has the node open, in this process or in the helper.
	drive privileged.Drive
	// id is the latest answer to Identify Controller.
	id nvmecli.Controller
	// fence, if there is one, is passed to each child process that changes the drive.
	fence *os.File
	// reflashed is hardware.Target.Reflashed.
	reflashed string
	options
}

// controller opens the controller at the target's address and reads its identity. The
// caller closes it.
func (d *Driver) controller(ctx context.Context, t hardware.Target, known device.Identity) (_ *controller, err error) {
	chosen, err := settings(t)
	if err != nil {
		return nil, err
	}
	address, err := pcifunction.Address(t)
	if err != nil {
		return nil, err
	}
	c := &controller{Driver: d, fence: t.Fence, reflashed: t.Reflashed, options: chosen}
	if c.pci, err = privileged.FindController(d.sys, address); err != nil {
		return nil, err
	}
	// The host's rules may refuse another drive without saying that it is another one (F27).
	if serial := d.kernelSerial(address); known.Serial != "" && serial != "" && serial != known.Serial {
		return nil, hardware.Changed("serial", address)
	}
	if err := d.host.Allow(c.pci); err != nil {
		return nil, err
	}
	if c.pci, err = d.ensureHostDriver(ctx, c.pci, chosen.rebind && t.Step != "", t.Fence); err != nil {
		return nil, err
	}
	if c.drive, err = d.executor.Open(ctx, address); err != nil {
		return nil, err
	}
	c.DevicePath = c.drive.Path()
	defer func() {
		if err != nil {
			c.closeAndJoin(&err)
		}
	}()
	if known.Path != "" && known.Path != address {
		return nil, hardware.Changed("path", fmt.Sprintf("enrolled at %s, opened at %s", known.Path, address))
	}
	return c, c.readIdentity(ctx)
}

// readIdentity reads Identify Controller through the open node.
func (c *controller) readIdentity(ctx context.Context) error {
	output, err := c.drive.Read(ctx, privileged.Request{Verb: privileged.IdentifyController})
	if err != nil {
		return asFault(err)
	}
	if c.id, err = nvmecli.ParseController(output); err != nil {
		return err
	}
	if c.id.Serial = hardware.CanonicalSerial(c.id.Serial); c.id.Serial == "" {
		return hardware.Invalid("the drive at %s reports no serial, so it cannot be distinguished from another drive",
			c.Address)
	}
	return nil
}

// query runs a command that only reads. It first compares the serial that the kernel
// shows: after a swap of drives the kernel shows another one.
func (c *controller) query(ctx context.Context, r privileged.Request) ([]byte, error) {
	if serial, err := c.Attribute("serial"); err != nil {
		return nil, err
	} else if hardware.CanonicalSerial(serial) != c.id.Serial {
		return nil,
			hardware.Changed("serial", fmt.Sprintf("%s has serial %q, enrolled was %q", c.Controller, serial, c.id.Serial))
	}
	return c.drive.Read(ctx, r)
}

// ask queries one data structure, and reads it.
func ask[T any](ctx context.Context, c *controller, r privileged.Request,
	read func([]byte) (T, error)) (answer T, err error) {
	output, err := c.query(ctx, r)
	if err != nil {
		return answer, asFault(err)
	}
	return read(output)
}

// askIfKnown is ask of a drive that may not have the command; then the answer is zero, and known is
// false.
func askIfKnown[T any](ctx context.Context, c *controller, r privileged.Request,
	read func([]byte) (T, error)) (answer T, known bool, err error) {
	output, err := c.query(ctx, r)
	if unsupported(err) {
		return answer, false, nil
	}
	if err != nil {
		return answer, false, asFault(err)
	}
	answer, err = read(output)
	return answer, true, err
}

// checkExclusive refuses a drive whose subsystem has, or may have, another controller
// (F12): another host could reach the same namespaces through it.
func (c *controller) checkExclusive(ctx context.Context) error {
	shared := func(how string) error {
		return hardware.Refused(device.CodeTargetShared, "leave the drive only one controller",
			"the drive at %s can be reached through another controller: %s", c.Address, how)
	}
	subsystem, err := c.Subsystem()
	if err != nil {
		return err
	}
	if subsystem != "" {
		entries, err := os.ReadDir(subsystem)
		if err != nil {
			return fmt.Errorf("list the subsystem of %s: %w", c.Controller, err)
		}
		for _, entry := range entries {
			if name := entry.Name(); isController(name) && name != c.Controller {
				return shared(name)
			}
		}
	}
	const mayHaveMore = 1 << 1 // CMIC
	if c.id.CMIC&mayHaveMore == 0 {
		return nil
	}
	ids, err := ask(ctx, c, privileged.Request{Verb: privileged.Controllers}, nvmecli.ParseControllerList)
	if err != nil {
		return err
	}
	for _, id := range ids {
		if id != c.id.ID {
			return shared(fmt.Sprintf("controller %d", id))
		}
	}
	return nil
}

// isController: name is that of a controller (nvme0), not of a namespace or path.
func isController(name string) bool {
	number, ok := strings.CutPrefix(name, "nvme")
	_, err := strconv.Atoi(number)
	return ok && err == nil
}

// estimates reads how long each sanitize takes.
func (c *controller) estimates(ctx context.Context) (map[device.Operation]time.Duration, error) {
	log, err := c.sanitizeLog(ctx)
	if err != nil {
		return nil, err
	}
	estimates := map[device.Operation]time.Duration{}
	for operation, takes := range map[device.Operation]time.Duration{device.CryptoErase: log.CryptoErase,
		device.BlockErase: log.BlockErase} {
		if takes != nvmecli.NoEstimate {
			estimates[operation] = takes
		}
	}
	return estimates, nil
}

// digest changes whenever sysfs shows another drive, driver or namespace layout, or the
// host's rules have another erase policy for it. It sends no command to the drive.
func (d *Driver) digest(dev pci.Device, entry pci.Spec) string {
	sum := sha256.New()
	fmt.Fprintln(sum, dev.Address, dev.Vendor, dev.Product, dev.Driver, len(dev.Functions))
	// the pattern is valid
	controllers, _ := filepath.Glob(filepath.Join(d.sys, "bus/pci/devices", dev.Address, "nvme/nvme*"))
	for _, dir := range controllers {
		for _, name := range []string{"serial", "model", "firmware_rev", "state", "subsysnqn"} {
			text, _ := os.ReadFile(filepath.Join(dir, name)) // a missing file correctly changes the digest
			fmt.Fprintln(sum, name, strings.TrimSpace(string(text)))
		}
		sizes, _ := filepath.Glob(filepath.Join(dir, "nvme*n*/size")) // the pattern is valid
		for _, file := range sizes {
			text, _ := os.ReadFile(file) // as above
			fmt.Fprintln(sum, filepath.Base(filepath.Dir(file)), strings.TrimSpace(string(text)))
		}
	}
	if action, strategy := entry.ClearAction(), entry.ClearStrategy(); action != "" || strategy != "" {
		fmt.Fprintln(sum, action, strategy)
	}
	if entry.LiveMigratable() {
		fmt.Fprintln(sum, "live_migratable")
	}
	return hex.EncodeToString(sum.Sum(nil)[:8])
}

// kernelSerial is the serial that sysfs shows for the drive at an address.
func (d *Driver) kernelSerial(address string) string {
	return hardware.CanonicalSerial(d.kernelAttribute(address, "serial"))
}

// kernelAttribute is what sysfs shows for the drive at an address, or "".
func (d *Driver) kernelAttribute(address, name string) string {
	all, err := filepath.Glob(filepath.Join(d.sys, "bus/pci/devices", address, "nvme/nvme*"))
	if err != nil || len(all) != 1 {
		return ""
	}
	text, _ := hardware.Attribute(all[0], name) // of a drive that is being removed the enrollment will report it
	return text
}

// closeAndJoin closes the drive and joins its error to *err.
func (c *controller) closeAndJoin(err *error) {
	if closeErr := c.drive.Close(); closeErr != nil {
		*err = errors.Join(*err, closeErr)
	}
}
