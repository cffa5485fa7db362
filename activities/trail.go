package activities

import (
	"sync"

	"burnish/internal/device"
	"burnish/internal/logs"
	"burnish/workflows/contract"
)

// This file writes the lines by which the log of a host alone says what was done to its
// devices. A further attempt of a step writes none of them again. A worker that is killed
// between the end of a step and its line leaves it to the next worker, which may write it
// once more: such a line has the same device, clean and step.

// trail is what a worker has written of each device since it started.
type trail struct {
	mu      sync.Mutex
	written map[string]written
}

// written has, for one device, the clean that began last, and the steps that resumed, waited
// for a slot and ended last.
type written struct{ began, resumed, queued, ended string }

// first says that now is the first time that a line about the device has this subject.
func (t *trail) first(device string, line func(*written) *string, subject string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	w := t.written[device]
	if *line(&w) == subject {
		return false
	}
	*line(&w) = subject
	if t.written == nil {
		t.written = map[string]written{}
	}
	t.written[device] = w
	return true
}

// firstOf is first for a line about the attempt's step.
func (a *attempt) firstOf(line func(*written) *string) bool {
	return a.trail.first(a.in.Enrollment.Name, line, a.clean()+" "+a.step.Name)
}

// about are the keys of the attempt's device, clean and step, and some more.
func (a *attempt) about(more ...any) []any {
	return append(a.aboutClean(logs.Step, a.step.Name), more...)
}

func (a *attempt) aboutClean(more ...any) []any {
	e := a.in.Enrollment
	return append([]any{logs.Device, e.Name, logs.UUID, contract.DeviceUUID(e.Name), logs.Serial, a.in.Identity.Serial,
		logs.Host, e.Host,
		logs.Clean, a.in.Number, logs.Binding, a.in.Binding}, more...)
}

// logStart writes that the clean begins, or that its step goes on.
func (a *attempt) logStart() {
	if !a.begun && a.trail.first(a.in.Enrollment.Name, func(w *written) *string { return &w.began }, a.evidenceOf()) {
		a.Log.Info(logs.CleanStarted, a.about(logs.Path, a.path(), logs.Bytes, a.in.Identity.Size, logs.Operation,
			string(a.in.Operation))...)
	}
	if a.firstOf(func(w *written) *string { return &w.resumed }) && a.resumes {
		a.Log.Info(logs.StepResumed, a.about(logs.Offset, a.entry.Offset, logs.Attempt, a.info.Attempt)...)
	}
}

// path is where the device is: its path, or its address.
func (a *attempt) path() string {
	if a.in.Identity.Path != "" {
		return a.in.Identity.Path
	}
	return a.in.Enrollment.Address
}

// logEnd writes how the step ended, unless it is retried, or another scheduling of it has
// its place, or its end was written before.
func (a *attempt) logEnd(result contract.StepResult, err error) {
	f := faultIn(err)
	if retriedFault(err) != nil || f != nil && f.Code == device.CodeSuperseded ||
		!a.firstOf(func(w *written) *string { return &w.ended }) {
		return
	}
	offset := int64(0)
	if a.heartbeats != nil {
		offset = a.heartbeats.now().Offset // the step's goroutine may still be running
	}
	switch {
	case err == nil:
		about := a.about(logs.Path, a.path(), logs.Bytes, result.Bytes, logs.Method, result.Method, logs.Duration,
			result.RunTime)
		if a.seed != 0 {
			about = append(about, logs.Seed, a.seed)
		}
		if result.Note != "" {
			about = append(about, logs.Note, result.Note)
		}
		if result.ReprocessedBytesMax != 0 {
			about = append(about, logs.Reprocessed, result.ReprocessedBytesMax)
		}
		a.Log.Info(logs.StepDone, about...)
		if !a.in.More {
			a.Log.Info(logs.CleanEnded, a.aboutClean()...)
		}
	case f == nil: // canceled
		a.Log.Info(logs.StepStopped, a.about(logs.Offset, offset)...)
	default:
		a.Log.Warn(logs.StepFailed, a.about(logs.Offset, offset, logs.Fault, string(f.Code), logs.Error, f.Message,
			logs.Remedy, f.Remedy)...)
	}
}
