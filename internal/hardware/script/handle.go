package script

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"burnish/internal/device"
	"burnish/internal/hardware"
)

// handle is one opened device.
type handle struct {
	*pciDevice
	enrolled device.Identity
	writable bool
}

// Check proves that the device is the enrolled one and that nothing else uses it.
func (h *handle) Check(ctx context.Context) error {
	_, err := h.check(ctx, nil)
	return err
}

func (h *handle) check(ctx context.Context, mayGoOn func() error) (identifyReply, error) {
	reply, identity, err := h.identify(ctx, h.enrolled, mayGoOn)
	if err != nil {
		return identifyReply{}, err
	}
	if field := h.enrolled.Differs(identity); field != "" {
		return identifyReply{}, hardware.Changed(field, h.Address)
	}
	return reply, nil
}

// RunStep calls the program; see hardware.StepRunner.
func (h *handle) RunStep(ctx context.Context, run hardware.StepRun) (note string, err error) {
	step, mayGoOn := run.Step, run.MayGoOn
	if !h.writable && step != verify {
		return "", fmt.Errorf("%s was opened for reading only, and %s would change it", h.Address, step)
	}
	err = h.retryBusy(ctx, func() error {
		reply, err := h.check(ctx, mayGoOn)
		if err != nil {
			return err
		}
		if !slices.Contains(reply.Steps, step) {
			return hardware.Refused(device.CodeNoSuchStep, "correct the script, or signal refresh to "+h.target.Name+
				", then clean it",
				"script %s does not offer %s for %s any more", h.script, step, h.Address)
		}
		note, err = h.step(ctx, step, h.enrolled, mayGoOn)
		return err
	})
	if err != nil {
		return "", err
	}
	if uninterruptible(step) {
		// The device may have left the bus and returned.
		if err := h.AwaitReturn(ctx, h.busyTimeout); err != nil {
			return "", err
		}
	}
	if err := h.retryBusy(ctx, func() error { return h.Check(ctx) }); err != nil {
		return "", err
	}
	return note, nil
}

// busyTimeout is how long the device may be in use before an operator is called, busyPause
// the time between two checks.
const (
	busyTimeout = 20 * time.Second
	busyPause   = time.Second
)

// retryBusy repeats try while the device is in use, until busyTimeout. Then an operator must
// end the use.
func (h *handle) retryBusy(ctx context.Context, try func() error) error {
	err := hardware.PollBusy(ctx, h.busyTimeout, h.busyPause, try)
	if f, ok := device.AsFault(err); ok && f.Code == device.CodeTargetBusy {
		return hardware.Refused(f.Code, f.Remedy+", then clean "+h.target.Name, "%s", f.Message)
	}
	return err
}

// Size is what the program reported, or 0.
func (h *handle) Size() int64 { return h.enrolled.Size }

// Unseen says which users of the device were not looked for; see hardware.UserSearcher.
func (h *handle) Unseen() string { return h.notSeen }

// Method is the name of the driver.
func (h *handle) Method() string { return "script" }

// errNoBytes: only the program can reach the device's bytes.
var errNoBytes = errors.New("the driver script cannot address the bytes of a device")

// ZeroAt, ReadAt and Flush are not supported.
func (h *handle) ZeroAt(context.Context, int64, int64) error { return errNoBytes }

func (h *handle) ReadAt([]byte, int64) (int, error) { return 0, errNoBytes }

func (h *handle) Flush(context.Context) error { return nil }

// Close closes the configuration space, which releases the lock.
func (h *handle) Close() error { return h.Function.Close() }
