package cleaning

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"go.temporal.io/sdk/workflow"

	"burnish/internal/clean"
	"burnish/internal/device"
	"burnish/workflows/contract"
)

// pause carries out a step of the workflow itself: hold waits until the operator releases it,
// wait for a time. Neither reaches a host, spends budget or polls; runCtx ends both at once.
func (d *Cleaning) pause(runCtx, ctx workflow.Context, run *contract.CleanRun,
	p contract.Planned) (contract.StepResult, error) {
	began := workflow.Now(ctx)
	run.StepAt, run.ReleasedBy = began.UTC(), ""
	d.Publish()
	var note string
	var err error
	if p.Step == clean.StepHold {
		note, err = d.hold(runCtx, ctx, run, p.Args)
	} else {
		note, err = d.wait(runCtx, ctx, run, p.Args)
	}
	run.ReleasedBy = ""
	if err != nil {
		return contract.StepResult{}, err
	}
	return contract.StepResult{Step: p.Step, Note: note}, nil
}

func (d *Cleaning) hold(runCtx, ctx workflow.Context, run *contract.CleanRun, text json.RawMessage) (string, error) {
	var args clean.HoldArgs
	if err := json.Unmarshal(text, &args); err != nil {
		return "", badArgs(clean.StepHold, err)
	}
	began := workflow.Now(ctx)
	d.WaitingUntil(ctx, contract.WaitHold, &device.Fault{
		Class: device.NeedsOperator, Code: device.CodeOnHold,
		Message: "on hold: " + args.Reason, Remedy: "release-hold " + d.State.Name,
	}, began)
	defer d.EndWait(ctx, contract.WaitHold)
	if err := workflow.Await(runCtx, func() bool { return run.ReleasedBy != "" }); err != nil {
		return "", err
	}
	return fmt.Sprintf("%s; released after %s by %s", args.Reason, workflow.Now(ctx).Sub(began).Round(time.Second),
		run.ReleasedBy), nil
}

func (d *Cleaning) wait(runCtx, ctx workflow.Context, run *contract.CleanRun, text json.RawMessage) (string, error) {
	var args clean.WaitArgs
	if err := json.Unmarshal(text, &args); err != nil {
		return "", badArgs(clean.StepWait, err)
	}
	pause, err := time.ParseDuration(args.For)
	if err != nil {
		return "", badArgs(clean.StepWait, err)
	}
	d.WaitingUntil(ctx, contract.WaitTimer, &device.Fault{
		Class: device.Transient, Code: device.CodeRunbookWait,
		Message: fmt.Sprintf("the runbook %s waits until %s", run.Runbook,
			workflow.Now(ctx).Add(pause).UTC().Format(time.RFC3339)),
		Remedy: "wait, or abort " + d.State.Name,
	}, time.Time{})
	defer d.EndWait(ctx, contract.WaitTimer)
	timer := workflow.NewTimerWithOptions(runCtx, pause, workflow.TimerOptions{Summary: "runbook of " + d.State.Name})
	if err := timer.Get(runCtx, nil); err != nil {
		return "", err
	}
	return "waited for " + args.For, nil
}

func badArgs(step string, err error) error {
	return &device.Fault{Class: device.NeedsOperator, Code: device.CodeInternal, Message: step +
		": the recorded arguments are unreadable: " + err.Error()}
}

// ReleaseHold ends the step hold. Its caller has checked that there is one.
func (d *Cleaning) ReleaseHold(ctx workflow.Context, in contract.ReasonInput) {
	run := d.State.Clean
	if run == nil {
		return
	}
	by := in.By
	if by == "" {
		by = "an operator"
	}
	if in.Reason != "" {
		by += ": " + in.Reason
	}
	run.ReleasedBy = oneLine(by)
	d.EndWait(ctx, contract.WaitHold) // a second release finds none
}

// maxNote bounds what the archive keeps of a release.
const maxNote = 300

// oneLine gives a text on one line, cut where it is too long.
func oneLine(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	if len(text) > maxNote {
		text = strings.ToValidUTF8(text[:maxNote], "") + "…"
	}
	return text
}
