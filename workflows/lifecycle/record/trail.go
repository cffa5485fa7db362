package record

import (
	"go.temporal.io/sdk/workflow"

	"burnish/internal/device"
	"burnish/internal/logs"
	"burnish/workflows/calls"
	"burnish/workflows/contract"
)

// This file writes the lines by which the log of a control worker alone says what became of
// the device. A replay writes none; a control worker that dies between a line and the end of
// its task leaves the line to its successor once more.

// about are the keys of the device, and some more.
func (r *Record) about(more ...any) []any {
	s := r.State
	return append([]any{logs.Device, s.Name, logs.UUID, s.UUID, logs.Serial, s.Host.Identity.Serial, logs.Host,
		s.Enrollment.Host}, more...)
}

// logEvent writes what an event has made of the bindings and of the reservation.
func (r *Record) logEvent(ctx workflow.Context, was device.Device, kind device.EventKind) {
	before, now := was.Binding, r.State.Device.Binding
	if before != nil && (now == nil || now.Number != before.Number) {
		workflow.GetLogger(ctx).
			Info(logs.Unbound, r.about(logs.Binding, before.Number, logs.Instance, before.Instance, logs.Event, string(kind))...)
	}
	if now != nil && (before == nil || now.Number != before.Number) {
		workflow.GetLogger(ctx).
			Info(logs.Bound, r.about(logs.Binding, now.Number, logs.Instance, now.Instance, logs.Event, string(kind))...)
	}
	if kind == device.Returned && device.Offered(r.State.Device) {
		workflow.GetLogger(ctx).
			Info(logs.Returned, r.about(logs.Clean, r.State.Cleans, logs.Binding, r.State.Device.Bindings)...)
	}
}

// logFailure writes why the device is in state error.
func (r *Record) logFailure(ctx workflow.Context, f *device.Fault) {
	about := r.about(logs.Clean, r.State.Cleans, logs.Binding, r.State.Device.Bindings, logs.Fault, string(f.Code),
		logs.Error, f.Message, logs.Remedy, f.Remedy)
	if step := stepOf(r.State.Clean); step != "" {
		about = append(about, logs.Step, step)
	}
	if f.Code == device.CodeAborted {
		workflow.GetLogger(ctx).Info(logs.CleanAborted, about...)
		return
	}
	workflow.GetLogger(ctx).Warn(logs.CleanFailed, about...)
}

// LogRefused writes that an update or a signal was not carried out, and gives the error back;
// nil if there is none.
func (r *Record) LogRefused(ctx workflow.Context, verb string, in contract.Input, err error) error {
	if err == nil {
		return nil
	}
	f := calls.FaultOf(err)
	about := r.about(logs.Verb, verb, logs.Fault, string(f.Code), logs.Error, f.Message, logs.Remedy, f.Remedy)
	if by := in.Act().By; by != "" {
		about = append(about, logs.By, by)
	}
	workflow.GetLogger(ctx).Info(logs.Refused, about...)
	return err
}

// logHostWait writes that a wait has begun to be one for an unreachable host, or has ended to
// be one. Of others nothing is written: the device shows them.
func (r *Record) logHostWait(ctx workflow.Context, w contract.Wait, before, now device.Code) {
	switch of := device.CodeHostUnreachable; {
	case before != of && now == of:
		workflow.GetLogger(ctx).Warn(logs.HostUnreachable, r.about(logs.Remedy, w.Fault.Remedy)...)
	case before == of && now != of:
		workflow.GetLogger(ctx).Warn(logs.HostWaitEnded, r.about(logs.Duration, workflow.Now(ctx).Sub(w.Since))...)
	}
}

// stepOf is the step at which a clean is; "" if it has none.
func stepOf(run *contract.CleanRun) string {
	if run == nil || run.Next >= len(run.Plan) {
		return ""
	}
	return run.Plan[run.Next].Step
}
