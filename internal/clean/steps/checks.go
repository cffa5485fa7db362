package steps

import (
	"cmp"
	"context"
	"fmt"

	"burnish/internal/clean"
	"burnish/internal/device"
	"burnish/internal/hardware"
)

// SecurityCheck looks for what a tenant may have left outside of user data, before
// anything resets the device (SAFETY F20). A second run finds the same.
func SecurityCheck() Step {
	return Step{
		Step: clean.Step{
			Name: "security_check", Interface: "management", Phase: clean.Prepare, Priority: 100, Version: 1, Abortable: true,
			Applies: isNVMe, Timeout: fixedBudget,
		},
		Writes: true,
		Run:    runSecurityCheck,
	}
}

func runSecurityCheck(ctx context.Context, w *Work) (Outcome, error) {
	drive, ok := w.Device.(hardware.SecurityCleaner)
	if !ok {
		return Outcome{}, unsupported(w, "tell what a tenant may have left outside of user data")
	}
	note, err := drive.Secure(ctx, func() error { return w.Checkpoint(0) })
	switch f, ok := device.AsFault(err); {
	case !ok || f.Code != device.CodeSanitizeFailed && f.Code != device.CodeSanitizeRunning:
	case w.Operation.Sanitizes():
		note, err = "put off until a sanitize is done: "+f.Message, w.SaveEvidence(deferredCheckName, true)
	case f.Code == device.CodeSanitizeRunning:
		err = failIfStalled(ctx, w, err)
	}
	return Outcome{Method: "identify", Note: note}, err
}

// deferredCheckName is what is kept where the check could not be: a drive at whose sanitize somebody
// has to look first, as one runs or the last one failed. The step sanitize does.
const deferredCheckName = "security_check"

// finishDeferredCheck makes up for a check that was put off, before anything resets the device.
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

// WearCheck keeps a device that is worn out from the next tenant (S0.32). It only
// reads.
func WearCheck() Step {
	return Step{
		Step: clean.Step{
			Name: "wear_check", Interface: "management", Phase: clean.Prepare, Priority: 95, Version: 1, Abortable: true,
			Applies: isNVMe, Timeout: fixedBudget,
		},
		Run: runWearCheck,
	}
}

// critical are the warnings that quarantine: spare below threshold, reliability
// degraded, read only.
const critical = 1<<0 | 1<<2 | 1<<3

func runWearCheck(ctx context.Context, w *Work) (Outcome, error) {
	drive, ok := w.Device.(hardware.HealthReporter)
	if !ok {
		return Outcome{}, unsupported(w, "tell its wear")
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
		why = fmt.Sprintf("%d percent of its life are used, and %d may be", now.PercentUsed, used)
	case now.Spare < spare:
		why = fmt.Sprintf("it has %d percent of its spare capacity, and %d are needed", now.Spare, spare)
	default:
		return Outcome{Method: "smart_log", Note: fmt.Sprintf("%d percent of its life used, %d percent spare", now.PercentUsed, now.Spare)}, nil
	}
	return Outcome{}, &device.Fault{Class: device.NeedsOperator, Code: device.CodeWearLimitExceeded,
		Message: "the device is worn out: " + why, Remedy: "retire or replace it; the limits stand in the policy (wear)"}
}
