package lifecycle

import (
	"log/slog"
	"time"

	"burnish/internal/clean"
	"burnish/internal/device"
	"burnish/internal/logs"
	"burnish/workflows/contract"
)

// This file writes the lines by which the log of a control worker alone says what became of the device, and counts
// cleans and steps for its figures. A replay writes and counts nothing; a control worker that dies between a line and
// the end of its task leaves the line to its successor once more.

// about are the keys of the device, and some more.
func (d *State) about(more ...any) []any {
	return append([]any{logs.Device, d.Name, logs.UUID, d.UUID, logs.Serial, d.Host.Identity.Serial, logs.Host,
		d.Enrollment.Host}, more...)
}

// logEvent writes what an event has made of the bindings and of the reservation.
func (d *State) logEvent(was device.Device, kind device.EventKind) {
	before, now := was.Binding, d.Device.Binding
	if before != nil && (now == nil || now.Number != before.Number) {
		d.by.Log(slog.LevelInfo, logs.Unbound,
			d.about(logs.Binding, before.Number, logs.Instance, before.Instance, logs.Event, string(kind))...)
	}
	if now != nil && (before == nil || now.Number != before.Number) {
		d.by.Log(slog.LevelInfo, logs.Bound,
			d.about(logs.Binding, now.Number, logs.Instance, now.Instance, logs.Event, string(kind))...)
	}
	if kind == device.Returned && device.Offered(d.Device) {
		d.by.Log(slog.LevelInfo, logs.Returned, d.about(logs.Clean, d.Cleans, logs.Binding, d.Device.Bindings)...)
	}
}

// logFailure writes why the device is in state error.
func (d *State) logFailure(f *device.Fault) {
	about := d.about(logs.Clean, d.Cleans, logs.Binding, d.Device.Bindings, logs.Fault, string(f.Code),
		logs.Error, f.Message, logs.Remedy, f.Remedy)
	if c := d.Clean; c != nil && c.Next < len(c.Plan) {
		about = append(about, logs.Step, c.Plan[c.Next].Step)
	}
	if f.Code == device.CodeAborted {
		d.by.Log(slog.LevelInfo, logs.CleanAborted, about...)
		return
	}
	d.by.Log(slog.LevelWarn, logs.CleanFailed, about...)
}

// logRefused writes that an update or a signal was not carried out, and gives the error back; nil if there is none.
func (d *State) logRefused(asked contract.Verb, in contract.Input, err error) error {
	if err == nil {
		return nil
	}
	f := faultOf(err)
	about := d.about(logs.Verb, shownVerb(asked, in), logs.Fault, string(f.Code), logs.Error, f.Message,
		logs.Remedy, f.Remedy)
	if by := in.Act().By; by != "" {
		about = append(about, logs.By, by)
	}
	d.by.Log(slog.LevelInfo, logs.Refused, about...)
	return err
}

// logHostWait writes that a wait has begun to be one for an unreachable host, or has ended to be one. Of others nothing
// is written: the device shows them.
func (d *State) logHostWait(w contract.Wait, before, now device.Code) {
	switch of := device.CodeHostUnreachable; {
	case before != of && now == of:
		d.by.Log(slog.LevelWarn, logs.HostUnreachable, d.about(logs.Remedy, w.Fault.Remedy)...)
	case before == of && now != of:
		d.by.Log(slog.LevelWarn, logs.HostWaitEnded, d.about(logs.Duration, d.now.Sub(w.Since))...)
	}
}

// Figure is one figure: a count, or with Took how long something took.
type Figure struct {
	Name   string
	Labels map[string]string
	Count  int64
	Took   time.Duration
}

// countClean counts a clean that has ended.
func (d *State) countClean(s contract.CleanSummary) {
	labels := map[string]string{contract.LabelOutcome: s.Outcome, contract.LabelOperation: string(s.Operation)}
	d.by.Count(Figure{Name: contract.FigureCleanDuration, Labels: labels, Took: s.EndedAt.Sub(s.StartedAt)})
	d.by.Count(Figure{Name: contract.FigureCleans, Count: 1, Labels: map[string]string{
		contract.LabelOutcome: s.Outcome, contract.LabelOperation: string(s.Operation), contract.LabelModel: d.model()}})
}

// countStep counts a step of the host that has ended, before anything follows from it.
func (d *State) countStep(run *contract.CleanRun, result contract.StepResult, failed bool) {
	planned, end := run.Plan[run.Next], contract.ResultDone
	switch {
	case !d.cleans() || d.stopsClean() || d.Intent.Abort:
		end = contract.ResultStopped
	case failed:
		end = contract.ResultFailed
	}
	of := map[string]string{contract.LabelStep: planned.Step, contract.LabelModel: d.model()}
	d.by.Count(Figure{Name: contract.FigureSteps, Count: 1, Labels: with(of, contract.LabelResult, end)})
	if end != contract.ResultDone {
		return
	}
	d.by.Count(Figure{Name: contract.FigureStepDuration, Labels: of, Took: result.RunTime})
	if planned.Phase == string(clean.Erase) && result.Bytes > 0 {
		d.by.Count(Figure{Name: contract.FigureWipedBytes, Count: result.Bytes,
			Labels: with(of, contract.LabelMethod, result.Method)})
	}
}

func with(labels map[string]string, key, value string) map[string]string {
	out := map[string]string{key: value}
	for k, v := range labels {
		out[k] = v
	}
	return out
}
