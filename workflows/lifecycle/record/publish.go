package record

import (
	"go.temporal.io/sdk/workflow"

	"burnish/workflows/lifecycle/status"
)

// This file is when the status is written to the server. One write of search attributes is a
// sixth of what the server does for a turnover (measured): there is one in a workflow task, when
// all that the task does is done, and none for a step that takes a moment.

// Publish has the changed parts of the status written to the server before the task ends.
func (r *Record) Publish() { r.due = true }

// PublishNumbers has the numbers of the device written, too. A turnover changes them and does not
// write them: who compares them asks, and then they are as they are.
func (r *Record) PublishNumbers() { r.due, r.Published.Numbers = true, true }

// PublishDue says that something is to be written, and that no call is under way in this task
// whose answer may change it.
func (r *Record) PublishDue() bool { return r.due && r.inTask == 0 }

// PublishNow writes what is due. Another step of the same clean only becomes due (StepDue): the
// server's details of the workflow show it at once, the listing if it lasts.
func (r *Record) PublishNow(ctx workflow.Context) {
	r.due = false
	r.stepDue = r.Published.OnlyStepChanged(ctx, r.State)
	if r.stepDue {
		status.Show(ctx, r.State)
		return
	}
	r.Published.Publish(ctx, r.State)
}

// StepDue says that the listing shows an earlier step of the running clean.
func (r *Record) StepDue() bool { return r.stepDue }

// PublishStep writes the step that is due.
func (r *Record) PublishStep(ctx workflow.Context) {
	r.stepDue = false
	r.Published.Publish(ctx, r.State)
}
