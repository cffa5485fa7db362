package lifecycle

import (
	"maps"
	"slices"
)

// Clone is a copy of the state that shares nothing which Decide changes: what would happen to a device can be asked of
// it.
func (d *State) Clone() *State {
	out := *d
	kept := *d.DeviceState
	out.DeviceState = &kept
	if c := d.Device.Claim; c != nil {
		claim := *c
		kept.Device.Claim = &claim
	}
	if b := d.Device.Binding; b != nil {
		binding := *b
		kept.Device.Binding = &binding
	}
	if c := d.Clean; c != nil {
		run := *c
		run.Results, run.Statements = slices.Clip(run.Results), slices.Clip(run.Statements)
		if run.Slot != nil {
			slot := *run.Slot
			run.Slot = &slot
		}
		kept.Clean = &run
	}
	kept.Waits = slices.Clone(d.Waits)
	kept.Enrollment.Labels = maps.Clone(d.Enrollment.Labels)
	if d.Taking != nil {
		taking := *d.Taking
		out.Taking = &taking
	}
	out.Queue, out.Mail = slices.Clone(d.Queue), slices.Clone(d.Mail)
	out.Jobs = make([]*Job, len(d.Jobs))
	for i, j := range d.Jobs {
		job := *j
		job.Back = slices.Clone(job.Back)
		if j.Run == d.Clean {
			job.Run = kept.Clean
		} else if j.Run != nil {
			run := *j.Run
			job.Run = &run
		}
		if j.Slot != nil {
			slot := *j.Slot
			if j.Slot == d.Taking {
				job.Slot = out.Taking
			} else {
				job.Slot = &slot
			}
		}
		out.Jobs[i] = &job
	}
	return &out
}
