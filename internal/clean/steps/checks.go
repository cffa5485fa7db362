package steps

import (
	"cmp"
	"context"
	"fmt"

	"burnish/internal/clean"
	"burnish/internal/device"
	"burnish/internal/hardware"
)

// SecurityCheck removes or reports what a tenant may have left outside of user data, before
// anything resets the device (F20). A second run finds what is left.
func SecurityCheck() Step {
	return Step{
		Step: clean.Step{
			Name: "security_check", Interface: "management", Phase: clean.Prepare, Priority: 100, Version: 1, Guards: true,
			Abortable: true,
			Applies:   func(s clean.Subject) bool { return isNVMe(s) || supportedByDriver("security_check")(s) },
			Timeout:   fixedBudget,
		},
		Writes: true,
		Run:    runSecurityCheck,
	}
}

func runSecurityCheck(ctx context.Context, w *Work) (Outcome, error) {
	drive, ok := w.Device.(hardware.SecurityCleaner)
	if !ok {
		return runOnDriver(ctx, w, "security_check")
	}
	if !w.Operation.Sanitizes() {
		// A drive need not refuse this check meanwhile, but it refuses the zeroes.
		if err := requireNoSanitize(ctx, w); err != nil {
			return Outcome{}, err
		}
	}
	note, err := drive.Secure(ctx, func() error { return w.Checkpoint(0) })
	switch f, ok := device.AsFault(err); {
	case !ok || f.Code != device.CodeSanitizeFailed && f.Code != device.CodeSanitizeRunning:
	case w.Operation.Sanitizes():
		note, err = "deferred until a sanitize is done: "+f.Message, w.SaveEvidence(deferredCheckName, true)
	case f.Code == device.CodeSanitizeRunning:
		err = failIfStalled(ctx, w, err)
	}
	return Outcome{Method: "identify", Note: note}, err
}

// deferredCheckName is the evidence that the check is still due: while a sanitize runs, or
// after one failed, the drive refuses it. The step sanitize finishes it.
const deferredCheckName = "security_check"

// finishDeferredCheck does the check that was deferred, before anything resets the device.
func finishDeferredCheck(ctx context.Context, w *Work) (note string, err error) {
	var due bool
	if _, err := w.LoadEvidence(deferredCheckName, &due); err != nil || !due {
		return "", err
	}
	drive, ok := w.Device.(hardware.SecurityCleaner)
	if !ok {
		return "", nil
	}
	note, err = drive.Secure(ctx, func() error { return w.Checkpoint(0) })
	return "; " + note, err
}

// WearCheck keeps a device that has exceeded its wear limits from the next tenant (S0.32).
// It only reads; a second run reads again.
func WearCheck() Step {
	return Step{
		Step: clean.Step{
			Name: "wear_check", Interface: "management", Phase: clean.Prepare, Priority: 95, Version: 1, Guards: true,
			Abortable: true,
			Applies:   isNVMe, Timeout: fixedBudget,
		},
		Run: runWearCheck,
	}
}

// critical are the bits of the Critical Warning that take a device out of use: spare below
// its threshold, reliability degraded, read only.
const critical = 1<<0 | 1<<2 | 1<<3

func runWearCheck(ctx context.Context, w *Work) (Outcome, error) {
	drive, ok := w.Device.(hardware.HealthReporter)
	if !ok {
		return Outcome{}, unsupported(w, "report its wear")
	}
	now, err := drive.Health(ctx)
	if err != nil {
		return Outcome{}, err
	}
	used, spare := cmp.Or(w.Settings.Wear.PercentUsed, 100), max(w.Settings.Wear.Spare, now.SpareThreshold)
	var why string
	switch {
	case now.Critical&critical != 0:
		why = fmt.Sprintf("its critical warning is 0x%02x", now.Critical)
	case now.PercentUsed > used:
		why = fmt.Sprintf("%d percent of its life are used, the limit is %d", now.PercentUsed, used)
	case now.Spare < spare:
		why = fmt.Sprintf("it has %d percent of its spare capacity left, the limit is %d", now.Spare, spare)
	default:
		return Outcome{Method: "smart_log",
			Note: fmt.Sprintf("%d percent of its life used, %d percent spare", now.PercentUsed, now.Spare)}, nil
	}
	return Outcome{}, &device.Fault{Class: device.NeedsOperator, Code: device.CodeWearLimitExceeded,
		Message: "the device is worn out: " + why, Remedy: "retire or replace it; the limits are in the policy (wear)"}
}
