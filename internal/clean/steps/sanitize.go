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

// Sanitize has the device erase itself completely by the locked-in operation (S2.53 to
// S2.56). It first waits for a sanitize that is already running; that one counts only if
// this clean had recorded beforehand that it would start it (F18). No command
// stops a sanitize: if the step ends, the sanitize continues (S2.54). A second run waits
// for the first one's sanitize.
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

// intentName is the name of the evidence of this step.
const intentName = "sanitize"

// sanitizeIntent is what is on stable storage before the command is issued. Only with it a
// sanitize is own.
type sanitizeIntent struct {
	// Command is dword 10 of this clean's sanitize command, Before the sanitize log just
	// before it.
	Command uint32            `json:"command"`
	Before  hardware.Sanitize `json:"before"`
	// SawRunning: the sanitize was observed running.
	SawRunning bool `json:"saw_running,omitempty"`
	// Proven: this clean's sanitize was done. Planted and Samples are what the verify
	// compares with.
	Proven  bool    `json:"proven,omitempty"`
	Planted planted `json:"planted"`
	Samples samples `json:"samples"`
	// Checked is the result of comparing them just after the sanitize.
	Checked string `json:"checked,omitempty"`
	// Repeated: this one follows another of this clean, before which nothing could be
	// planted.
	Repeated bool `json:"repeated,omitempty"`
}

// matches says whether the sanitize log proves that this clean's sanitize was done (F18).
func (i sanitizeIntent) matches(now hardware.Sanitize) bool {
	return now.State == hardware.SanitizeDone && now.GlobalErased && now.Command == i.Command &&
		(!i.Before.GlobalErased || i.SawRunning)
}

// sanitizeStarts is how often one attempt starts a sanitize while the log proves none.
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
			if own.Planted.complete() {
				break
			}
			own.Repeated = true // now the drive takes writes: plant, sanitize and compare
		}
		if recorded && starts > 0 && now.State == hardware.SanitizeFailed {
			return Outcome{}, &device.Fault{Class: device.NeedsOperator, Code: device.CodeSanitizeFailed,
				Message: "the drive reports that its sanitize failed",
				Remedy:  "clean it again, or retire it: until a sanitize succeeds it accepts no other command"}
		}
		if starts == sanitizeStarts {
			return Outcome{}, &device.Fault{Class: device.NeedsOperator, Code: device.CodeSanitizeFailed,
				Message: fmt.Sprintf("after %d sanitizes the drive's log does not prove one (%s, command 0x%x, global data "+
					"erased %t)", starts, now.State, now.Command, now.GlobalErased),
				Remedy: "check the drive's sanitize log, or erase it by another operation"}
		}
		if own, err = recordSanitizeIntent(ctx, w, drive, own, recorded, command); err != nil {
			return Outcome{}, err
		}
		recorded = true
		err = drive.StartSanitize(ctx, w.Operation)
		if f, ok := device.AsFault(err); ok && f.Code == device.CodeSanitizeRunning {
			// Another sanitize was started in between, perhaps by the same command; this
			// clean's was not.
			recorded, err = false, w.SaveEvidence(intentName, sanitizeIntent{})
		}
		if err != nil {
			return Outcome{}, err
		}
	}
	// Before the namespaces change: then other blocks may be at the same offsets.
	read := int64(0)
	if own.Checked, read, err = own.compare(ctx, w.Device); err != nil {
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
	return Outcome{Bytes: w.Enrolled.Size, Held: read, Method: string(w.Operation), Seed: own.Planted.Seed,
		Note: fmt.Sprintf("command 0x%x, global data erased; %s%s", command, own.Checked, security)}, nil
}

// compare fails where what was planted, or what the tenant left, is still there. read is how
// many bytes it read.
func (i sanitizeIntent) compare(ctx context.Context, from hardware.Handle) (note string, read int64, err error) {
	first, planted, err := i.Planted.changed(ctx, from)
	if err != nil {
		return "", 0, err
	}
	second, sampled, err := i.Samples.changed(ctx, from)
	return first + "; " + second, planted + sampled, err
}

// recordSanitizeIntent records that the next sanitize is this clean's, before it is started
// (F18). Each time it plants again: a sanitize that did not count may have erased what was
// planted before (F33). Writing also makes the log differ from that of an earlier sanitize,
// so that one that is too quick to be seen running is recognized.
func recordSanitizeIntent(ctx context.Context, w *Work, drive hardware.Sanitizer, own sanitizeIntent, recorded bool,
	command uint32) (sanitizeIntent, error) {
	writer, ok := w.Device.(hardware.EvidenceWriter)
	if !ok {
		return sanitizeIntent{}, unsupported(w, "prove its sanitize")
	}
	before, err := drive.Sanitize(ctx)
	if err != nil {
		return sanitizeIntent{}, err
	}
	hidden, err := ensureNamespace(ctx, w, before)
	if err != nil {
		return sanitizeIntent{}, err
	}
	if !recorded {
		own = sanitizeIntent{Repeated: own.Repeated}
	}
	if own.Samples.Size != w.Device.Size() || own.Samples.Seed == 0 {
		if own.Samples, err = takeSamples(ctx, w.Device); err != nil {
			return sanitizeIntent{}, err
		}
	}
	if own.Planted, err = plant(ctx, w, writer); err != nil {
		return sanitizeIntent{}, err
	}
	if hidden != "" {
		own.Planted.Missing = hidden
	}
	if own.Repeated && !own.Planted.complete() {
		return sanitizeIntent{}, notPlanted(own.Planted)
	}
	if before, err = drive.Sanitize(ctx); err != nil {
		return sanitizeIntent{}, err
	}
	own.Command, own.Before, own.SawRunning, own.Proven = command, before, false, false
	if err := w.SaveEvidence(intentName, own); err != nil {
		return sanitizeIntent{}, err
	}
	return own, w.Checkpoint(0)
}

// ensureNamespace creates one namespace of the full size where a tenant has changed the
// layout: nothing could be planted outside of the namespaces, and what is there might be
// reachable afterwards. A drive whose last sanitize failed refuses that until another one
// succeeds: hidden then says why.
func ensureNamespace(ctx context.Context, w *Work, before hardware.Sanitize) (hidden string, err error) {
	drive, ok := w.Device.(hardware.NamespaceManager)
	if !ok || !drive.CanConsolidate() {
		return "", nil
	}
	layout, err := drive.Layout(ctx)
	if err != nil || layout == device.LayoutWhole {
		return "", err
	}
	err = drive.Consolidate(ctx, func() error { return w.Checkpoint(0) })
	f, ok := device.AsFault(err)
	if ok && (f.Code == device.CodeSanitizeFailed || f.Code == device.CodeCommandRefused &&
		before.State == hardware.SanitizeFailed) {
		return f.Message, nil // not every drive reports why it refuses
	}
	return "", err
}

// waitForSanitize waits until no sanitize runs, and gives the sanitize log. If it observes
// this clean's sanitize running, it records that.
func waitForSanitize(ctx context.Context, w *Work, drive hardware.Sanitizer, own *sanitizeIntent,
	recorded bool) (hardware.Sanitize, error) {
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
					Message: "the drive does not leave its media verification state",
					Remedy:  "check the drive's sanitize log, then clean it again"}
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

// lastProgress is the evidence of a step that is retried until a sanitize has ended.
type lastProgress struct {
	Progress int64     `json:"progress"`
	Since    time.Time `json:"since"`
}

// failIfStalled turns running, the fault of a sanitize in progress, into one for the
// operator once the sanitize has made no progress for SanitizeStall.
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

// requireNoSanitize fails while a sanitize runs, whoever started it: nothing can be written
// until it ends. The fault is transient until the sanitize stalls.
func requireNoSanitize(ctx context.Context, w *Work) error {
	drive, ok := w.Device.(hardware.Sanitizer)
	if !ok || !drive.CanSanitize() {
		return nil
	}
	now, err := drive.Sanitize(ctx)
	if err != nil || now.State != hardware.SanitizeRunning {
		return err
	}
	return failIfStalled(ctx, w, &device.Fault{Class: device.Transient, Code: device.CodeSanitizeRunning,
		Message: fmt.Sprintf("a sanitize is running (%d of 65536 done)", now.Progress),
		Remedy:  "none: Burnish waits for it to end"})
}

func stallFault(w *Work, now hardware.Sanitize) error {
	return &device.Fault{Class: device.NeedsOperator, Code: device.CodeSanitizeStalled,
		Message: fmt.Sprintf("the drive's sanitize has been at %d of 65536 for %s", now.Progress, w.Settings.SanitizeStall),
		Remedy: "check the drive: a reset does not end a sanitize, and no second one can start; clean it again to " +
			"continue waiting"}
}

// unsupported is the fault of a device that cannot do what a step needs.
func unsupported(w *Work, what string) error {
	return &device.Fault{Class: device.NeedsOperator, Code: device.CodeNoErasePath,
		Message: fmt.Sprintf("the device cannot %s (its operation is %s)", what, w.Operation),
		Remedy:  "retire it, or enroll it with a driver that can erase it"}
}
