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
	return Step{Step: clean.Describe(clean.StepSanitize), Writes: true, Run: runSanitize}
}

// intentName is what the step keeps its intent under.
const intentName = clean.StepSanitize

// intent is what is on stable storage before the command is issued. Only with it a
// sanitize is ours.
type intent struct {
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
	Blind bool `json:"blind,omitempty"`
}

// proves says whether the device's word means that our own sanitize was done (F18).
func (i intent) proves(now hardware.Sanitize) bool {
	return now.State == hardware.SanitizeDone && now.GlobalErased && now.Command == i.Command &&
		(!i.Before.GlobalErased || i.SawRunning)
}

// sanitizeStarts is how often one clean starts a sanitize whose end does not prove
// itself.
const sanitizeStarts = 3

func runSanitize(ctx context.Context, w *Work) (Outcome, error) {
	drive, ok := w.Device.(hardware.Sanitizer)
	if !ok {
		return Outcome{}, cannot(w, "be sanitized")
	}
	command, err := drive.SanitizeCommand(w.Operation)
	if err != nil {
		return Outcome{}, err
	}
	ours := intent{}
	mine, err := w.Recall(intentName, &ours)
	if err != nil {
		return Outcome{}, err
	}
	if mine && ours.Command != command {
		mine = false
	}
	for starts := 0; ; starts++ {
		now, err := follow(ctx, w, drive, &ours, mine)
		if err != nil {
			return Outcome{}, err
		}
		if mine && ours.proves(now) {
			if !ours.Blind {
				break
			}
			mine = false // now it can be shown, and another one compared
		}
		if mine && starts > 0 && now.State == hardware.SanitizeFailed {
			return Outcome{}, &device.Fault{Class: device.NeedsOperator, Code: device.CodeSanitizeFailed,
				Message: "the drive says that its sanitize failed", Remedy: "clean it again, or retire it: until a sanitize works it takes nothing else"}
		}
		if starts == sanitizeStarts {
			return Outcome{}, &device.Fault{Class: device.NeedsOperator, Code: device.CodeSanitizeFailed,
				Message: fmt.Sprintf("after %d sanitizes the drive's log does not prove one (%s, command 0x%x, global data erased %t)", starts, now.State, now.Command, now.GlobalErased),
				Remedy:  "look at the drive's sanitize log, or erase it by another operation"}
		}
		if ours, err = declare(ctx, w, drive, ours, mine, command, now); err != nil {
			return Outcome{}, err
		}
		mine = true
		err = drive.StartSanitize(ctx, w.Operation)
		if f, ok := device.AsFault(err); ok && f.Code == device.CodeSanitizeRunning {
			// Somebody else's came between, perhaps by the same command: ours never began.
			mine, err = false, w.Keep(intentName, intent{})
		}
		if err != nil {
			return Outcome{}, err
		}
	}
	// Before anything is cut anew: later another block may lie at the same place.
	if ours.Checked, err = ours.Samples.changed(ctx, w.Device); err != nil {
		return Outcome{}, err
	}
	ours.Proven = true
	if err := w.Keep(intentName, ours); err != nil {
		return Outcome{}, err
	}
	if err := w.Device.Check(ctx); err != nil {
		return Outcome{}, err
	}
	security, err := madeUp(ctx, w)
	if err != nil {
		return Outcome{}, err
	}
	return Outcome{Bytes: w.Enrolled.Size, Method: string(w.Operation),
		Note: fmt.Sprintf("command 0x%x, global data erased; %d blocks sampled before%s", command, len(ours.Samples.Blocks), security)}, nil
}

// declare records that the next sanitize is ours, before it is one (F18).
func declare(ctx context.Context, w *Work, drive hardware.Sanitizer, ours intent, mine bool, command uint32, before hardware.Sanitize) (intent, error) {
	blind, err := ours.Blind, error(nil)
	if !mine {
		if blind, err = reveal(ctx, w, before); err != nil {
			return intent{}, err
		}
	}
	if before, err = written(ctx, w, drive, before); err != nil {
		return intent{}, err
	}
	if !mine {
		taken, err := takeSamples(ctx, w.Device)
		if err != nil {
			return intent{}, err
		}
		ours = intent{Samples: taken, Blind: blind}
	}
	ours.Command, ours.Before, ours.SawRunning, ours.Proven = command, before, false, false
	if err := w.Keep(intentName, ours); err != nil {
		return intent{}, err
	}
	return ours, w.Checkpoint(0)
}

// written has something written where the drive says that nothing was since its last
// sanitize: the end of a quick one could not be told from that (F18). Where it cannot be
// written, one is to be seen at work.
func written(ctx context.Context, w *Work, drive hardware.Sanitizer, before hardware.Sanitize) (hardware.Sanitize, error) {
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

// reveal has the drive show all that it has, where a tenant has cut it otherwise: what lies
// in no disk could not be sampled, and be there still when it is cut anew. A drive whose
// last sanitize failed refuses that until another one is done: it is blind until then.
func reveal(ctx context.Context, w *Work, before hardware.Sanitize) (blind bool, err error) {
	drive, ok := w.Device.(hardware.Namespaced)
	if !ok || !drive.Consolidates() || w.Device.Size() == w.Enrolled.Size {
		return false, nil
	}
	err = drive.Consolidate(ctx, func() error { return w.Checkpoint(0) })
	f, ok := device.AsFault(err)
	if ok && (f.Code == device.CodeSanitizeFailed || f.Code == device.CodeCommandRefused && before.State == hardware.SanitizeFailed) {
		return true, nil // not every drive says why it refuses
	}
	return false, err
}

// follow waits until no sanitize runs, and gives the device's last word. That one of
// ours was seen at work is recorded.
func follow(ctx context.Context, w *Work, drive hardware.Sanitizer, ours *intent, mine bool) (hardware.Sanitize, error) {
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
			if err := drive.LeaveVerification(ctx); err != nil {
				return now, err
			}
			continue
		}
		if now.State != hardware.SanitizeRunning {
			return now, nil
		}
		if mine && !ours.SawRunning && now.Command == ours.Command {
			ours.SawRunning = true
			if err := w.Keep(intentName, *ours); err != nil {
				return now, err
			}
		}
		if now.Progress != seen {
			seen, since = now.Progress, time.Now()
		}
		if w.StallAfter > 0 && time.Since(since) > w.StallAfter {
			return now, stalled(w, now)
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

// standing is what a step keeps that comes back until somebody's sanitize has ended.
type standing struct {
	Progress int64     `json:"progress"`
	Since    time.Time `json:"since"`
}

// standsStill turns the fault of a sanitize that is waited for into the operator's, once
// it stands still for too long.
func standsStill(ctx context.Context, w *Work, running error) error {
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
		if err := drive.LeaveVerification(ctx); err != nil {
			return err
		}
	}
	if w.StallAfter <= 0 {
		return running
	}
	var last standing
	found, err := w.Recall(name, &last)
	if err != nil {
		return err
	}
	if !found || last.Progress != now.Progress {
		return cmp.Or(w.Keep(name, standing{Progress: now.Progress, Since: time.Now()}), running)
	}
	if time.Since(last.Since) > w.StallAfter {
		return stalled(w, now)
	}
	return running
}

func stalled(w *Work, now hardware.Sanitize) error {
	return &device.Fault{Class: device.NeedsOperator, Code: device.CodeSanitizeStalled,
		Message: fmt.Sprintf("the drive's sanitize stands at %d of 65536 for %s", now.Progress, w.StallAfter),
		Remedy:  "look at the drive: a reset does not end a sanitize, and no other is started; clean it again to go on watching"}
}

// cannot is the fault of a device that lacks what a step needs.
func cannot(w *Work, what string) error {
	return &device.Fault{Class: device.NeedsOperator, Code: device.CodeNoErasePath,
		Message: fmt.Sprintf("the device cannot %s (its operation is %s)", what, w.Operation),
		Remedy:  "retire it, or enrol it with a driver that can erase it"}
}
