package contract

// The figures that workflows and activities count, by their names without the suffix of
// their kind (_total, _seconds): internal/telemetry describes them and exports them.
const (
	FigureCleans        = "burnish_cleans"
	FigureCleanDuration = "burnish_clean_duration"
	FigureSteps         = "burnish_steps"
	FigureStepDuration  = "burnish_step_duration"
	FigureWipedBytes    = "burnish_wiped_bytes"
	FigureLimitsWait    = "burnish_limits_wait"
	FigureStepAttempts  = "burnish_step_attempts"
	FigureOneViewRounds = "burnish_oneview_rounds"
)

// The labels of the figures.
const (
	LabelOutcome   = "outcome"
	LabelModel     = "model"
	LabelOperation = "operation"
	LabelStep      = "step"
	LabelResult    = "result"
	LabelMethod    = "method"
	LabelAppliance = "appliance"
)

// The results of a step, of an attempt at one, and of a round of the polls.
const (
	ResultDone       = "done"
	ResultFailed     = "failed"
	ResultStopped    = "stopped"  // aborted, or the device was in use
	ResultRetried    = "retried"  // another attempt follows
	ResultRepeated   = "repeated" // an earlier attempt had done it, and its answer was lost
	ResultComplete   = "complete"
	ResultIncomplete = "incomplete"
)
