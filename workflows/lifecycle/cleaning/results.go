package cleaning

import (
	"errors"
	"fmt"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"burnish/internal/device"
	"burnish/workflows/contract"
)

// noteFailure keeps how far a step was when it failed: its host says so with the fault, or its
// last heartbeat did.
func (d *Cleaning) noteFailure(run *contract.CleanRun, err error) {
	d.failure = contract.CleanFailure{}
	if err == nil {
		return
	}
	var last contract.Progress
	var late *temporal.TimeoutError
	if errors.As(err, &late) && late.HasLastHeartbeatDetails() && late.LastHeartbeatDetails(&last) == nil {
		d.failure.Offset, d.failure.Size = last.Offset, last.Size
	}
	if r, ok := contract.RefusalOf(err); ok && r.Progress != nil {
		d.failure.Offset, d.failure.Size, d.failure.Attempt = r.Progress.Offset, r.Progress.Size, r.Attempt
	}
	d.failure.Step = run.Plan[run.Next].Step
}

// failureOf is where and why the clean ends with a fault.
func (d *Cleaning) failureOf(run *contract.CleanRun, f *device.Fault) *contract.CleanFailure {
	failure := contract.CleanFailure{Message: f.Message}
	if run.Next < len(run.Plan) {
		if failure.Step = run.Plan[run.Next].Step; failure.Step == d.failure.Step {
			failure.Offset, failure.Size, failure.Attempt = d.failure.Offset, d.failure.Size, d.failure.Attempt
		}
	}
	return &failure
}

// ended records how one step of the plan ended, the scheduling seq of it, and says whether the
// clean has ended with it.
func (d *Cleaning) ended(ctx workflow.Context, run *contract.CleanRun, seq int64, result contract.StepResult,
	err error) bool {
	d.countFailure(run, err)
	d.noteFailure(run, err)
	wrong := mismatch(run, seq, result)
	d.meterStep(ctx, run, result, err, wrong)
	if d.interrupted(ctx, err) {
		return true
	}
	if wrong != nil {
		d.countFailure(run, wrong)
		d.finish(ctx, "failed", wrong)
		return true
	}
	d.Discovery.Saw(workflow.Now(ctx).UTC())
	if result.Firmware != "" {
		d.State.Host.Identity.Firmware = result.Firmware
	}
	result.Clean, result.Seq, result.Firmware = "", 0, "" // known by now
	run.Results, run.RunTime = append(run.Results, result), run.RunTime+result.RunTime
	run.Next, run.Resume, run.NextAllowed = run.Next+1, nil, false
	d.reportCanary(ctx, run)
	return false
}

// nextEnded is ended for a step that its host began in the activity of the one before it.
func (d *Cleaning) nextEnded(ctx workflow.Context, run *contract.CleanRun, next contract.NextResult) bool {
	var result contract.StepResult
	var err error
	if next.Refusal != nil {
		err = contract.Refuse(*next.Refusal)
	} else if next.Result != nil {
		result = *next.Result
	}
	return d.ended(ctx, run, run.Seq+1, result, err)
}

// mismatch is the fault of a result that is not of the step that was asked for, in this
// clean and this scheduling (F26): a host may answer from a record of other work.
func mismatch(run *contract.CleanRun, seq int64, got contract.StepResult) *device.Fault {
	wanted := run.Plan[run.Next].Step
	if got.Step == wanted && got.Clean == run.ID && got.Seq == seq {
		return nil
	}
	return resultMismatch(
		fmt.Sprintf("the host answered %s (clean %s, scheduling %d) with the result of %q (clean %q, scheduling %d)",
			wanted, run.ID, seq, got.Step, got.Clean, got.Seq))
}

// incomplete is the fault of a clean that would end without a result for each step of its
// plan, in the plan's order (F26).
func incomplete(run *contract.CleanRun) *device.Fault {
	if len(run.Plan) == 0 {
		return resultMismatch("the plan has no step")
	}
	for i, planned := range run.Plan {
		if i >= len(run.Results) || run.Results[i].Step != planned.Step {
			return resultMismatch("there is no result of the step " + planned.Step)
		}
	}
	if len(run.Results) > len(run.Plan) {
		return resultMismatch("there are more results than steps")
	}
	return nil
}

func resultMismatch(message string) *device.Fault {
	return &device.Fault{
		Class: device.NeedsOperator, Code: device.CodeResultMismatch, Message: message,
		Remedy: "check that the workers of its host are of one release, then clean the device again",
	}
}
