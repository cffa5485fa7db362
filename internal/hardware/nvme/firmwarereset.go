package nvme

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"burnish/internal/device"
	"burnish/internal/hardware"
	"burnish/internal/hardware/nvme/nvmecli"
	"burnish/internal/hardware/nvme/privileged"
)

// activationTimeout is how long a drive may take until it is back with new firmware.
const activationTimeout = 2 * time.Minute

// resetsFor lists the resets that make a committed image run, as the drive's answer demands.
// A reset of the controller is tried first also where a conventional reset is demanded: most
// drives activate by it, and on the others it changes nothing.
func (u update) resetsFor() []privileged.Verb {
	switch {
	case u.Status == nil, *u.Status == nvmecli.StatusNeedsReset:
		return []privileged.Verb{privileged.Reset, privileged.SubsystemReset}
	case *u.Status == nvmecli.StatusNeedsSubsystemReset:
		return []privileged.Verb{privileged.SubsystemReset}
	}
	return []privileged.Verb{privileged.Reset}
}

// activate resets the drive until it runs the committed image. It does not reset a drive on
// which something else is staged.
func (r *reflash) activate(ctx context.Context) error {
	var why error
	for _, kind := range r.resetsFor() {
		if r.c.id.Firmware == r.To {
			return nil
		}
		slots, err := r.c.firmwareLog(ctx)
		if err != nil {
			return err
		}
		if !r.activates(slots) {
			break
		}
		if err := r.run.Progress(70, fmt.Sprintf("resetting the drive (%s) to activate firmware %s", kind, r.To)); err !=
			nil {
			return err
		}
		err = r.send(ctx, r.run.MayGoOn, privileged.Request{Verb: kind}, nil)
		if f := asFailure(err); f != nil && kind == privileged.SubsystemReset {
			why = f // many drives and hosts support none
			continue
		}
		r.resets = append(r.resets, string(kind))
		// A drive that is away for a moment after its reset is no error yet.
		if err := r.findAgain(ctx, err); err != nil {
			return err
		}
	}
	if r.c.id.Firmware == r.To {
		return nil
	}
	message := fmt.Sprintf("the drive at %s accepted firmware %q in slot %d and runs %q", r.c.Address, r.To, r.Slot,
		r.c.id.Firmware)
	if len(r.resets) > 0 {
		message += " after " + strings.Join(r.resets, ", ")
	}
	if why != nil {
		message += fmt.Sprintf("; %v", why)
	}
	return hardware.Refused(device.CodeFirmwareNotActive, "power-cycle the host, then clean it; if the version stays, "+
		"update it with the vendor's tool or retire it", "%s", message)
}

// activates: the next reset activates the committed image, as far as the drive says. A drive
// need not say which slot is next (0).
func (u update) activates(slots nvmecli.Firmware) bool {
	return slots.Revisions[u.Slot] == u.To && (slots.Next == 0 || slots.Revisions[slots.Next] == u.To)
}

// findAgain waits until the drive with the enrolled serial is back after its reset, whatever
// its number is now, and holds it as before. reset is the error of the reset.
func (r *reflash) findAgain(ctx context.Context, reset error) error {
	err := reset
	return hardware.Poll(ctx, activationTimeout, func() (again bool, _ error) {
		// The kernel is resetting it: it stays open and its disks stay claimed.
		if state, gone := r.c.Attribute("state"); gone == nil && state != "live" {
			return true, hardware.Missing("the controller %s is %q after its reset", r.c.Controller, state)
		}
		if err == nil {
			err = r.Check(ctx)
		}
		if err == nil || !isAway(err) {
			return false, err
		}
		err = r.reopen(ctx)
		return err != nil && isAway(err), err
	})
}

// isAway: the drive is not there, or not usable, and may be in a moment. Another drive in its
// place is not that.
func isAway(err error) bool {
	return device.HasCode(err, device.CodeTargetMissing, device.CodeTargetBusy, device.CodeIO) || asFailure(err) != nil
}

// asFailure gives the failed command in err, or nil.
func asFailure(err error) *privileged.Failure {
	var f *privileged.Failure
	errors.As(err, &f)
	return f
}

// reopen opens the drive again, under the number that it has now, and takes it as Open does.
func (h *handle) reopen(ctx context.Context) error {
	if err := errors.Join(h.release(), h.c.drive.Close()); err != nil {
		return err
	}
	reflashed := h.c.reflashed
	c, err := h.c.controller(ctx, h.target, h.enrolled)
	if err != nil {
		return err
	}
	c.reflashed, h.c = reflashed, c
	return h.take(ctx)
}

// finish proves that the drive is healthy on its new firmware.
func (r *reflash) finish(ctx context.Context) (string, error) {
	if err := r.Check(ctx); err != nil {
		return "", err
	}
	if err := r.checkHealthy(ctx); err != nil {
		return "", err
	}
	if err := r.run.Reflash(r.To); err != nil {
		return "", err
	}
	note := fmt.Sprintf("firmware %s to %s in slot %d, sha256 %.12s", r.From, r.To, r.Slot, r.SHA256)
	if len(r.resets) > 0 {
		note += ", activated by " + strings.Join(r.resets, ", ")
	}
	return note, nil
}
