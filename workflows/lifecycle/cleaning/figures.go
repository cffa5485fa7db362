package cleaning

import (
	"go.temporal.io/sdk/workflow"

	"burnish/internal/clean"
	"burnish/internal/device"
	"burnish/workflows/contract"
)

// This file counts cleans and steps for the figures of the control worker. The SDK's handler
// counts nothing while a history is replayed, and no event of the history depends on it.

// meterClean counts a clean that has ended.
func (d *Cleaning) meterClean(ctx workflow.Context, s contract.CleanSummary) {
	figures := workflow.GetMetricsHandler(ctx).
		WithTags(map[string]string{contract.LabelOutcome: s.Outcome, contract.LabelOperation: string(s.Operation)})
	figures.Timer(contract.FigureCleanDuration).Record(s.EndedAt.Sub(s.StartedAt))
	figures.WithTags(map[string]string{contract.LabelModel: d.model()}).Counter(contract.FigureCleans).Inc(1)
}

// meterStep counts a step of the host that has ended, before anything follows from it.
func (d *Cleaning) meterStep(ctx workflow.Context, run *contract.CleanRun, result contract.StepResult, err error,
	wrong *device.Fault) {
	planned, end := run.Plan[run.Next], contract.ResultDone
	switch {
	case !d.CleanUnderWay() || d.Reservation.StopsClean() || d.State.Intent.Abort:
		end = contract.ResultStopped
	case err != nil, wrong != nil:
		end = contract.ResultFailed
	}
	figures := workflow.GetMetricsHandler(ctx).
		WithTags(map[string]string{contract.LabelStep: planned.Step, contract.LabelModel: d.model()})
	figures.WithTags(map[string]string{contract.LabelResult: end}).Counter(contract.FigureSteps).Inc(1)
	if end != contract.ResultDone {
		return
	}
	figures.Timer(contract.FigureStepDuration).Record(result.RunTime)
	if planned.Phase == string(clean.Erase) && result.Bytes > 0 {
		figures.WithTags(map[string]string{contract.LabelMethod: result.Method}).Counter(contract.FigureWipedBytes).
			Inc(result.Bytes)
	}
}
