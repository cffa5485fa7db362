package pci

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"

	"golang.org/x/sys/unix"

	"burnish/internal/device"
	"burnish/internal/hardware"
)

func (c *card) policyImages() (json.RawMessage, error) {
	first := c.functions[0].Device
	return c.host.Images(kindOf(first), first.Vendor, first.ID())
}

// firmware is what a device says of its own.
type firmware struct {
	// running is the version that runs, stored the one that the next start runs; "": it does not say.
	running, stored string
	// devlink tells it, and not mstflint.
	devlink bool
}

// is: this version runs, and the next start runs it too.
func (f firmware) is(version string) bool {
	return f.running == version && (f.stored == "" || f.stored == version)
}

// firmware reads the device's firmware; zero: it cannot be read. It waits while a flash is under way, whoever began
// it: the kernel does one thing at a time.
func (c *card) firmware(ctx context.Context) (firmware, error) {
	is, err := c.info(ctx)
	if err != nil {
		return firmware{}, err
	}
	for _, name := range []string{"fw", "fw.version", "fw.mgmt"} {
		if running := is.Versions.Running[name]; running != "" {
			return firmware{running, is.Versions.Stored[name], true}, nil
		}
	}
	if c.functions[0].Vendor != mellanox {
		return firmware{}, nil
	}
	text, err := c.ask(ctx, nil, "mstflint", "-d", c.functions[0].Address, "q")
	said := pairs(text)
	stored := said["fw version"]
	return firmware{running: cmp.Or(said["fw version(running)"], stored), stored: stored}, err
}

// checkFirmware refuses firmware that is neither the enrolled one nor one that Burnish wrote, unless the
// clean writes the policy's.
func (h *handle) checkFirmware(ctx context.Context) (notes []string, err error) {
	now, err := h.card.firmware(ctx)
	if err != nil || h.enrolled.Firmware == "" || now.running == h.enrolled.Firmware ||
		now.running == h.target.Reflashed {
		return nil, err
	}
	what := fmt.Sprintf("%s runs firmware %q, enrolled was %q", h.functions[0].Address, now.running, h.enrolled.Firmware)
	if images, err := h.policyImages(); err != nil || images != nil {
		return []string{what}, err
	}
	return nil, hardware.Refused(device.CodeFirmwareChanged,
		"write the vendor's firmware, or add it to the firmware policy; if the present one is intended, replace the device "+
			"by itself", "%s", what)
}

// image is that of a plan, or of this host's policy where the plan has none, and the firmware that it is for.
func (h *handle) image(ctx context.Context, run hardware.StepRun) (hardware.FirmwareImage, firmware, error) {
	args, err := run.Args, error(nil)
	if args == nil {
		args, err = h.policyImages()
	}
	want, wrong := hardware.OnlyFirmwareImage(run.Step, args)
	now, unread := h.card.firmware(ctx)
	if err = cmp.Or(err, wrong, unread); err == nil && now.running == "" {
		err = hardware.Refused(device.CodeFirmwareUnknown, "install devlink (iproute2), or mstflint, and load its driver",
			"the firmware of %s cannot be read on this host", h.functions[0].Address)
	}
	return want, now, err
}

// reflash writes the image of the policy, unless its version runs already and the policy does not want it again. A
// run after a crash waits for what the kernel still does, and writes it again.
func (h *handle) reflash(ctx context.Context, run hardware.StepRun) (string, error) {
	if err := h.attach(ctx); err != nil {
		return "", err
	}
	want, before, err := h.image(ctx, run)
	if err != nil {
		return "", err
	}
	if before.is(want.To) && want.Rewrite == "" {
		if h.target.Reflashed == want.To { // a run that could not say so wrote it
			err = run.Reflash(want.To)
		}
		return "it runs firmware " + want.To + " already", err
	}
	if before.running != want.To {
		if err := want.CheckFrom(h.functions[0].Address, before.running); err != nil {
			return "", err
		}
	}
	if err := h.flash(ctx, run, want, before.devlink); err != nil {
		return "", err
	}
	how := "reload" // or a reset: also of firmware of the same version, what ran before may not be what was written
	err = h.change(ctx, nil, "devlink", "dev", "reload", instance(h.functions[0]), "action", "fw_activate")
	if err != nil {
		how, err = h.reset(ctx, run)
	}
	if device.HasCode(err, device.CodeNoSuchStep) {
		err = hardware.FirmwareNotActive("firmware %s is written to %s, and neither a reload nor a reset that is safe "+
			"starts it", want.To, h.functions[0].Address)
	}
	if err != nil {
		return "", err
	}
	if _, err := h.verifyFirmware(ctx, run); err != nil {
		return "", err
	}
	if err := run.Reflash(want.To); err != nil {
		return "", err
	}
	return fmt.Sprintf("firmware %s written over %s, sha256 %.12s, activated by %s", want.To, before.running, want.SHA256,
		how), nil
}

// flash has devlink, or else mstflint, write the image. Nothing interrupts it: if this worker dies, the program
// holds the device's fence until it has ended.
func (h *handle) flash(ctx context.Context, run hardware.StepRun, want hardware.FirmwareImage,
	byDevlink bool) (err error) {
	file, err := h.place(want)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.Remove(file)) }()
	p := progress{run, "writing firmware " + want.To}
	if err := run.Progress(0, p.doing); err != nil {
		return err
	}
	if err := run.Reflash(want.To); err != nil {
		return err
	}
	command := []string{"devlink", "dev", "flash", instance(h.functions[0]), "file", filepath.Base(file)}
	if !byDevlink {
		command = []string{"mstflint", "-d", h.functions[0].Address, "-i", file, "-y", "burn"}
	}
	return h.change(ctx, p, command...)
}

// progress passes on how far the program is that prints to it.
type progress struct {
	run   hardware.StepRun
	doing string
}

var percentForm = regexp.MustCompile(`(\d{1,3}) *%`)

// Write accepts everything: half-written firmware must not be left.
func (p progress) Write(said []byte) (int, error) {
	if all := percentForm.FindAllSubmatch(said, -1); len(all) > 0 {
		n, _ := strconv.Atoi(string(all[len(all)-1][1])) // three digits
		_ = p.run.Progress(n, p.doing)
	}
	return len(said), nil
}

// place puts the bytes of an image where the kernel looks for firmware, also where it looks in another place first,
// under a name of their own: what is written is what was checked.
func (h *handle) place(want hardware.FirmwareImage) (path string, err error) {
	path = filepath.Join(h.images, fmt.Sprintf("burnish-%s-%.12s.bin", h.functions[0].Address, want.SHA256))
	err = os.MkdirAll(h.images, 0o755) // a host without firmware has none
	var file *os.File
	if err == nil {
		file, err = os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC|unix.O_NOFOLLOW, 0o600)
	}
	if err != nil {
		return "", hardware.IOFault("create", path, err)
	}
	_, err = want.CopyTo(file)
	if err = errors.Join(err, file.Close()); err != nil {
		return "", errors.Join(err, os.Remove(path))
	}
	return path, nil
}

// verifyFirmware proves that the device runs the policy's version, and starts with it the next time.
func (h *handle) verifyFirmware(ctx context.Context, run hardware.StepRun) (string, error) {
	want, now, err := h.image(ctx, run)
	if err == nil && !now.is(want.To) {
		err = hardware.FirmwareNotActive("%s runs firmware %q and has %q stored, the policy demands %q",
			h.functions[0].Address, now.running, now.stored, want.To)
	}
	return fmt.Sprintf("it runs firmware %s, as the policy demands", want.To), err
}
