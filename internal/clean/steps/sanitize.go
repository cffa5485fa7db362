package steps

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"burnish/internal/clean"
	"burnish/internal/device"
	"burnish/internal/hardware"
)

// Sanitize has the device erase all of itself by the locked-in operation (S2.53 to
// S2.56). A sanitize that runs already is followed and none is started beside it; it
// counts only if this clean had recorded, before, that it would start it (SAFETY F18).
// A second run follows the first one's.
func Sanitize() Step {
	return Step{
		Step: clean.Step{
			Name: "sanitize", Interface: "deploy", Phase: clean.Erase, Priority: 90, Version: 1, Abortable: true,
			Applies: func(s clean.Subject) bool { return s.Operation.Sanitizes() }, Timeout: twiceTheEstimate,
		},
		Writes: true,
		Run:    runSanitize,
	}
}

// intentName is what the step keeps its intent under.
const intentName = "sanitize"

// sanitizeIntent is what is on stable storage before the command is issued. Only with it a
// sanitize is own.
type sanitizeIntent struct {
	// Command is dword 10 of ours, Before the device's word just before it.
	Command uint32            `json:"command"`
	Before  hardware.Sanitize `json:"before"`
	// SawRunning: the device was seen at it.
	SawRunning bool `json:"saw_running,omitempty"`
	// Proven: it was done, and ours; Samples is what the verify compares with.
	Proven  bool    `json:"proven,omitempty"`
	Samples samples `json:"samples"`
	// Checked is what the samples read like just after it.
	Checked string `json:"checked,omitempty"`
	// Blind: the device could not be made to show all that it has before they were taken.
	NoSamples bool `json:"noSamples,omitempty"`
}

// matches says whether the device's word means that our own sanitize was done (F18).
func (i sanitizeIntent) matches(now hardware.Sanitize) bool {
	return now.State == hardware.SanitizeDone && now.GlobalErased && now.Command == i.Command &&
		(!i.Before.GlobalErased || i.SawRunning)
}

// sanitizeStarts is how often one clean starts a sanitize whose end does not prove
// itself.
const sanitizeStarts = 3

func runSanitize(ctx context.Context, w *Work) (Outcome, error) {
	drive, ok := w.Device.(hardware.Sanitizer)
	if !ok {
		return Outcome{}, unsupported(w, "be sanitized")
	}
	command, err := drive.SanitizeCommand(w.Operation)
	if err != nil {
		return Outcome{}, err
	}
	own := sanitizeIntent{}
	recorded, err := w.LoadEvidence(intentName, &own)
	if err != nil {
		return Outcome{}, err
	}
	if recorded && own.Command != command {
		recorded = false
	}
	for starts := 0; ; starts++ {
		now, err := waitForSanitize(ctx, w, drive, &own, recorded)
		if err != nil {
			return Outcome{}, err
		}
		if recorded && own.matches(now) {
			if !own.NoSamples {
				break
			}
			recorded = false // now it can be shown, and another one compared
		}
		if recorded && starts > 0 && now.State == hardware.SanitizeFailed {
			return Outcome{}, &device.Fault{Class: device.NeedsOperator, Code: device.CodeSanitizeFailed,
				Message: "the drive says that its sanitize failed", Remedy: "clean it again, or retire it: until a sanitize works it takes nothing else"}
		}
		if starts == sanitizeStarts {
			return Outcome{}, &device.Fault{Class: device.NeedsOperator, Code: device.CodeSanitizeFailed,
				Message: fmt.Sprintf("after %d sanitizes the drive's log does not prove one (%s, command 0x%x, global data erased %t)", starts, now.State, now.Command, now.GlobalErased),
				Remedy:  "look at the drive's sanitize log, or erase it by another operation"}
		}
		if own, err = recordSanitizeIntent(ctx, w, drive, own, recorded, command, now); err != nil {
			return Outcome{}, err
		}
		recorded = true
		err = drive.StartSanitize(ctx, w.Operation)
		if f, ok := device.AsFault(err); ok && f.Code == device.CodeSanitizeRunning {
			// Somebody else's came between, perhaps by the same command: ours never began.
			recorded, err = false, w.SaveEvidence(intentName, sanitizeIntent{})
		}
		if err != nil {
			return Outcome{}, err
		}
	}
	// Before anything is cut anew: later another block may lie at the same place.
	if own.Checked, err = own.Samples.changed(ctx, w.Device); err != nil {
		return Outcome{}, err
	}
	own.Proven = true
	if err := w.SaveEvidence(intentName, own); err != nil {
		return Outcome{}, err
	}
	if err := w.Device.Check(ctx); err != nil {
		return Outcome{}, err
	}
	security, err := finishDeferredCheck(ctx, w)
	if err != nil {
		return Outcome{}, err
	}
	return Outcome{Bytes: w.Enrolled.Size, Method: string(w.Operation),
		Note: fmt.Sprintf("command 0x%x, global data erased; %d blocks sampled before%s", command, len(own.Samples.Blocks), security)}, nil
}

// recordSanitizeIntent records that the next sanitize is ours, before it is one (F18).
func recordSanitizeIntent(ctx context.Context, w *Work, drive hardware.Sanitizer, own sanitizeIntent, recorded bool, command uint32, before hardware.Sanitize) (sanitizeIntent, error) {
	noSamples, err := own.NoSamples, error(nil)
	if !recorded {
		if noSamples, err = ensureNamespace(ctx, w, before); err != nil {
			return sanitizeIntent{}, err
		}
	}
	if before, err = makeLogDistinct(ctx, w, drive, before); err != nil {
		return sanitizeIntent{}, err
	}
	if !recorded {
		taken, err := takeSamples(ctx, w.Device)
		if err != nil {
			return sanitizeIntent{}, err
		}
		own = sanitizeIntent{Samples: taken, NoSamples: noSamples}
	}
	own.Command, own.Before, own.SawRunning, own.Proven = command, before, false, false
	if err := w.SaveEvidence(intentName, own); err != nil {
		return sanitizeIntent{}, err
	}
	return own, w.Checkpoint(0)
}

// makeLogDistinct has something written where the drive says that nothing was since its last
// sanitize: the end of a quick one could not be told from that (F18). Where it cannot be
// written, one is to be seen at work.
func makeLogDistinct(ctx context.Context, w *Work, drive hardware.Sanitizer, before hardware.Sanitize) (hardware.Sanitize, error) {
	const at = evidenceBlock // beside the first block, which is sampled
	if !before.GlobalErased || w.Device.Size() < at+evidenceBlock {
		return before, nil
	}
	if err := w.Checkpoint(0); err != nil {
		return before, err
	}
	if err := w.Device.Check(ctx); err != nil {
		return before, err
	}
	err := w.Device.ZeroAt(ctx, at, evidenceBlock)
	if err == nil {
		err = w.Device.Flush(ctx)
	}
	if err != nil {
		return before, context.Cause(ctx)
	}
	return drive.Sanitize(ctx)
}

// ensureNamespace has the drive show all that it has, where a tenant has cut it otherwise: what lies
// in no disk could not be sampled, and be there still when it is cut anew. A drive whose
// last sanitize failed refuses that until another one is done: it is noSamples until then.
func ensureNamespace(ctx context.Context, w *Work, before hardware.Sanitize) (noSamples bool, err error) {
	drive, ok := w.Device.(hardware.NamespaceManager)
	if !ok || !drive.CanConsolidate() || w.Device.Size() == w.Enrolled.Size {
		return false, nil
	}
	err = drive.Consolidate(ctx, func() error { return w.Checkpoint(0) })
	f, ok := device.AsFault(err)
	if ok && (f.Code == device.CodeSanitizeFailed || f.Code == device.CodeCommandRefused && before.State == hardware.SanitizeFailed) {
		return true, nil // not every drive says why it refuses
	}
	return false, err
}

// waitForSanitize waits until no sanitize runs, and gives the device's last word. That one of
// ours was seen at work is recorded.
func waitForSanitize(ctx context.Context, w *Work, drive hardware.Sanitizer, own *sanitizeIntent, recorded bool) (hardware.Sanitize, error) {
	const first, most = 100 * time.Millisecond, 2 * time.Second
	pause, seen, since, left := first, int64(-1), time.Now(), false
	for {
		now, err := drive.Sanitize(ctx)
		if err != nil {
			return now, err
		}
		if now.Verifying {
			if left {
				return now, &device.Fault{Class: device.NeedsOperator, Code: device.CodeSanitizeFailed,
					Message: "the drive does not leave its media verification state", Remedy: "look at the drive's sanitize log, then clean it again"}
			}
			left = true
			if err := w.Checkpoint(0); err != nil {
				return now, err
			}
			if err := drive.ExitMediaVerification(ctx); err != nil {
				return now, err
			}
			continue
		}
		if now.State != hardware.SanitizeRunning {
			return now, nil
		}
		if recorded && !own.SawRunning && now.Command == own.Command {
			own.SawRunning = true
			if err := w.SaveEvidence(intentName, *own); err != nil {
				return now, err
			}
		}
		if now.Progress != seen {
			seen, since = now.Progress, time.Now()
		}
		if w.Settings.SanitizeStall > 0 && time.Since(since) > w.Settings.SanitizeStall {
			return now, stallFault(w, now)
		}
		if err := w.Checkpoint(w.Enrolled.Size / 65536 * now.Progress); err != nil {
			return now, err
		}
		timer := time.NewTimer(pause)
		select {
		case <-ctx.Done():
			timer.Stop()
			return now, context.Cause(ctx)
		case <-timer.C:
		}
		pause = min(2*pause, most)
	}
}

// lastProgress is what a step keeps that comes back until somebody's sanitize has ended.
type lastProgress struct {
	Progress int64     `json:"progress"`
	Since    time.Time `json:"since"`
}

// failIfStalled turns the fault of a sanitize that is waited for into the operator's, once
// it stands still for too long.
func failIfStalled(ctx context.Context, w *Work, running error) error {
	const name = "standing"
	drive, ok := w.Device.(hardware.Sanitizer)
	if !ok {
		return running
	}
	now, err := drive.Sanitize(ctx)
	if err != nil || now.State != hardware.SanitizeRunning {
		return cmp.Or(err, running)
	}
	if now.Verifying { // it ends by nothing else
		if err := w.Checkpoint(0); err != nil {
			return err
		}
		if err := drive.ExitMediaVerification(ctx); err != nil {
			return err
		}
	}
	if w.Settings.SanitizeStall <= 0 {
		return running
	}
	var last lastProgress
	found, err := w.LoadEvidence(name, &last)
	if err != nil {
		return err
	}
	if !found || last.Progress != now.Progress {
		return cmp.Or(w.SaveEvidence(name, lastProgress{Progress: now.Progress, Since: time.Now()}), running)
	}
	if time.Since(last.Since) > w.Settings.SanitizeStall {
		return stallFault(w, now)
	}
	return running
}

func stallFault(w *Work, now hardware.Sanitize) error {
	return &device.Fault{Class: device.NeedsOperator, Code: device.CodeSanitizeStalled,
		Message: fmt.Sprintf("the drive's sanitize stands at %d of 65536 for %s", now.Progress, w.Settings.SanitizeStall),
		Remedy:  "look at the drive: a reset does not end a sanitize, and no other is started; clean it again to go on watching"}
}

// unsupported is the fault of a device that lacks what a step needs.
func unsupported(w *Work, what string) error {
	return &device.Fault{Class: device.NeedsOperator, Code: device.CodeNoErasePath,
		Message: fmt.Sprintf("the device cannot %s (its operation is %s)", what, w.Operation),
		Remedy:  "retire it, or enrol it with a driver that can erase it"}
}
