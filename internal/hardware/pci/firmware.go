package pci

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"burnish/internal/device"
	"burnish/internal/hardware"
)

// image is what the firmware policy has for one component.
type image struct {
	Component string   `json:"component"`
	From      []string `json:"from"`
	To        string   `json:"to"`
	Path      string   `json:"image"`
	SHA256    string   `json:"sha256"`
	Rewrite   string   `json:"rewrite"`
}

// eachImage calls do with the images of a plan, or with those of this host's policy where the plan has none.
func (h *handle) eachImage(run hardware.StepRun, do func(image) (string, error)) (string, error) {
	var given struct {
		Components []image `json:"components"`
	}
	args, err := run.Args, error(nil)
	if args == nil {
		args, err = h.policyImages()
	}
	if args != nil && err == nil {
		err = json.Unmarshal(args, &given)
	}
	if err != nil || len(given.Components) == 0 {
		return "", hardware.Refused(device.CodeInvalidSetting, "correct the firmware policy",
			"%s: the firmware policy has no image for %s (%v)", run.Step, h.target.Name, err)
	}
	var notes []string
	for _, one := range given.Components {
		note, err := do(one)
		if err != nil {
			return "", err
		}
		notes = append(notes, note)
	}
	return strings.Join(notes, "; "), nil
}

func (c *card) policyImages() (json.RawMessage, error) {
	first := c.functions[0].Device
	return c.host.Images(kindOf(first), first.Vendor, modelOf(first))
}

// firmware is what a component says of itself.
type firmware struct {
	// running is the version that runs, stored the one that the next start runs; "": it does not say.
	running, stored string
	// devlink tells it, and not mstflint.
	devlink bool
}

// firmwareOf reads the firmware of a component; zero: nothing tells it. It waits while a flash is under
// way, whoever began it: the kernel does one thing at a time.
func (c *card) firmwareOf(ctx context.Context, wanted string) (f firmware, err error) {
	info, err := c.info(ctx)
	if err != nil {
		return f, err
	}
	if name := component(info.Versions.Running, wanted); name != "" {
		return firmware{info.Versions.Running[name], info.Versions.Stored[name], true}, nil
	}
	if c.functions[0].Vendor != mellanox || wanted != "" {
		return f, nil
	}
	text, _, err := c.ask(ctx, nil, "mstflint", "-d", c.functions[0].Address, "q")
	for _, pair := range pairs(text, "") {
		switch pair[0] {
		case "fw version":
			f.stored = pair[1]
		case "fw version(running)":
			f.running = pair[1]
		}
	}
	f.running = cmp.Or(f.running, f.stored)
	return f, err
}

// checkFirmware refuses firmware that is neither the enrolled one nor one that Burnish wrote, unless the
// clean writes the policy's.
func (h *handle) checkFirmware(ctx context.Context) (notes []string, err error) {
	now, err := h.firmwareOf(ctx, "")
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

// reflash writes each image of the policy.
func (h *handle) reflash(ctx context.Context, run hardware.StepRun) (string, error) {
	if err := h.attach(ctx, h.enrolled); err != nil {
		return "", err
	}
	return h.eachImage(run, func(want image) (string, error) { return h.writeImage(ctx, run, want) })
}

// written is what is saved about the write of one image.
type written struct {
	SHA256 string `json:"sha256"`
	From   string `json:"from"`
	// Ended: the kernel said that it is written.
	Ended bool `json:"ended"`
}

// writeImage writes one image, unless its version runs already and the policy does not want it again. A run
// after a crash waits for what the kernel still does, and writes again what has not ended.
func (h *handle) writeImage(ctx context.Context, run hardware.StepRun, want image) (string, error) {
	now, err := h.component(ctx, want)
	if err != nil {
		return "", err
	}
	name := "pci_firmware " + want.Component
	var before written
	resumed, err := run.Load(name, &before)
	if err != nil {
		return "", err
	}
	if resumed = resumed && before.SHA256 == want.SHA256; !resumed {
		before = written{SHA256: want.SHA256, From: now.running}
	}
	switch {
	case before.Ended:
	case !resumed && now.running == want.To && want.Rewrite == "":
		return "it runs firmware " + want.To + " already", nil
	case now.running != want.To && !slices.Contains(want.From, now.running):
		return "", hardware.Refused(device.CodeFirmwareNotListed,
			"find out where it comes from; if it may be updated, add it to the firmware policy (from)",
			"%s runs firmware %q, and the policy allows updates to %q from %s only", h.functions[0].Address, now.running,
			want.To, cmp.Or(strings.Join(want.From, ", "), "no version"))
	default:
		if err := h.flash(ctx, run, want, now, func() error { return run.Save(name, before) }); err != nil {
			return "", err
		}
		before.Ended = true
		if err := run.Save(name, before); err != nil {
			return "", err
		}
	}
	how, err := h.activate(ctx, run, want)
	if err != nil {
		return "", err
	}
	if err := run.Reflash(want.To); err != nil {
		return "", err
	}
	return fmt.Sprintf("firmware %s written over %s, sha256 %.12s, %s", want.To, before.From, want.SHA256, how), nil
}

// component reads the firmware that an image is for.
func (h *handle) component(ctx context.Context, want image) (firmware, error) {
	now, err := h.firmwareOf(ctx, want.Component)
	if err == nil && now.running == "" {
		err = hardware.Refused(device.CodeFirmwareUnknown, "install devlink (iproute2), or mstflint, and load its driver",
			"nothing on this host tells the firmware %q of %s", want.Component, h.functions[0].Address)
	}
	return now, err
}

// flash has the kernel, or mstflint, write the image. begin is called directly before. Nothing interrupts
// it: if this worker dies, the program holds the device's fence until it has ended.
func (h *handle) flash(ctx context.Context, run hardware.StepRun, want image, now firmware,
	begin func() error) (err error) {
	file, err := h.place(want)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.Remove(file)) }()
	if err := run.Progress(0, "writing firmware "+want.To); err != nil {
		return err
	}
	if err := errors.Join(run.Reflash(want.To), begin()); err != nil {
		return err
	}
	command := []string{"devlink", "dev", "flash", instance(&h.functions[0]), "file", filepath.Base(file)}
	switch {
	case !now.devlink:
		command = []string{"mstflint", "-d", h.functions[0].Address, "-i", file, "-y", "burn"}
	case want.Component != "":
		command = append(command, "component", want.Component)
	}
	var percent atomic.Int64
	ended := make(chan error, 1)
	go func() {
		ended <- h.change(ctx, func(said string) {
			for _, found := range percentForm.FindAllStringSubmatch(said, -1) {
				n, _ := strconv.Atoi(found[1]) // three digits
				percent.Store(int64(n))
			}
		}, command[0], command[1:]...)
	}()
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case err := <-ended:
			return err
		case <-tick.C: // its error does not matter: half-written firmware must not be left
			_ = run.Progress(int(percent.Load()), "writing firmware "+want.To)
		}
	}
}

var percentForm = regexp.MustCompile(`(\d{1,3}) *%`)

// place puts the bytes of an image where the kernel looks for firmware, under a name of their own, and checks
// them there: what is written is what was checked.
func (h *handle) place(want image) (path string, err error) {
	from, err := hardware.OpenImage(want.Path)
	if err != nil {
		return "", err
	}
	defer func() { _ = from.Close() }() // it is only read
	folder := h.firmware
	if set, err := os.ReadFile(filepath.Join(h.sys, "module/firmware_class/parameters/path")); err == nil {
		folder = cmp.Or(strings.TrimSpace(string(set)), folder)
	}
	if err := os.MkdirAll(folder, 0o755); err != nil { // a host without firmware has none
		return "", hardware.IOFault("create", folder, err)
	}
	path = filepath.Join(folder, fmt.Sprintf("burnish-%s-%.12s.bin", h.functions[0].Address, want.SHA256))
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return "", hardware.IOFault("remove an older", path, err)
	}
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return "", hardware.IOFault("create", path, err)
	}
	sum := sha256.New()
	_, err = io.Copy(io.MultiWriter(file, sum), from)
	switch err = errors.Join(err, file.Close()); {
	case err != nil:
		err = hardware.IOFault("copy "+want.Path+" to", path, err)
	case fmt.Sprintf("%x", sum.Sum(nil)) != want.SHA256:
		err = hardware.InvalidImage("the image %s has the SHA-256 %x, the policy names %s", want.Path, sum.Sum(nil),
			want.SHA256)
	default:
		return path, nil
	}
	return "", errors.Join(err, os.Remove(path))
}

// activate has the device run what was written, by a reload or by a reset, and proves by its version that
// it does. Firmware of the same version is started again too: what ran before may not be what was written.
func (h *handle) activate(ctx context.Context, run hardware.StepRun, want image) (how string, err error) {
	how = "activated by reload"
	err = h.change(ctx, nil, "devlink", "dev", "reload", instance(&h.functions[0]), "action", "fw_activate")
	if err != nil {
		ways, err := h.resetWays()
		if err == nil && len(ways) == 0 {
			err = h.notActive("firmware %s is written to %s, and neither a reload nor a reset that is safe starts it", want.To,
				h.functions[0].Address)
		}
		if err != nil {
			return "", err
		}
		way, err := h.reset(ctx, run)
		if err != nil {
			return "", err
		}
		how = "activated by a reset (" + way + ")"
	}
	return how, h.checkRuns(ctx, want)
}

// checkRuns proves that a component runs the policy's version, and starts with it the next time.
func (h *handle) checkRuns(ctx context.Context, want image) error {
	now, err := h.component(ctx, want)
	if err == nil && (now.running != want.To || now.stored != "" && now.stored != want.To) {
		err = h.notActive("%s runs firmware %q and has %q stored, the policy demands %q", h.functions[0].Address,
			now.running, now.stored, want.To)
	}
	return err
}

// notActive is the fault of firmware that is written and does not run.
func (h *handle) notActive(format string, args ...any) error {
	return hardware.Refused(device.CodeFirmwareNotActive,
		"power-cycle the host, then clean it; if the version stays, update it with the vendor's tool", format, args...)
}

// verifyFirmware proves that each component has the policy's version.
func (h *handle) verifyFirmware(ctx context.Context, run hardware.StepRun) (string, error) {
	return h.eachImage(run, func(want image) (string, error) {
		return fmt.Sprintf("it runs firmware %s, as the policy demands", want.To), h.checkRuns(ctx, want)
	})
}
