package lifecycle

import (
	"log/slog"
	"time"

	"go.temporal.io/sdk/workflow"

	"burnish/internal/clean"
	"burnish/internal/device"
	core "burnish/internal/lifecycle"
	"burnish/workflows/contract"
)

// asIs answers with this worker's settings as they are. Only what leaves no history asks it: a request that arrives,
// and a query.
type asIs struct {
	*Lifecycle
	ctx workflow.Context
}

func (l *Lifecycle) asIs(ctx workflow.Context) asIs { return asIs{l, ctx} }

func (s asIs) Policy() clean.Policy { return s.Planner.Policy().WithoutLists() }

func (s asIs) Plan(of clean.Subject, full bool, asked clean.Request) core.RecordedPlan {
	return core.Plan(s.Planner, of, full, asked)
}

func (s asIs) Steps(of clean.Subject) []contract.CleanStep { return core.Steps(s.Planner, of) }

func (s asIs) Choose(of device.Capabilities, action, strategy string) core.Choice {
	operation, fault := s.Planner.Policy().NVMe.For(action, strategy).Resolve(of)
	return core.Choice{Operation: operation, Fault: fault}
}

func (s asIs) Signed() (verify func(contract.OverrideClaims, []byte) bool, now time.Time) {
	if s.Signatures != nil {
		verify = s.Signatures.Verify
	}
	return verify, workflow.Now(s.ctx)
}

func (s asIs) Archive(of contract.Archive, clean contract.CleanSummary) contract.Archive {
	archive, err := of.With(clean)
	if err != nil {
		workflow.GetLogger(s.ctx).Error("a clean was not archived", "error", err)
	}
	return archive
}

func (s asIs) Run() string { return workflow.GetInfo(s.ctx).FirstRunID }

func (s asIs) Log(level slog.Level, message string, about ...any) {
	log := workflow.GetLogger(s.ctx)
	switch level {
	case slog.LevelError:
		log.Error(message, about...)
	case slog.LevelWarn:
		log.Warn(message, about...)
	default:
		log.Info(message, about...)
	}
}

// Count counts nothing while a history is replayed: the SDK's handler sees to that. No event depends on it.
func (s asIs) Count(f core.Figure) {
	figures := workflow.GetMetricsHandler(s.ctx).WithTags(f.Labels)
	if f.Count != 0 {
		figures.Counter(f.Name).Inc(f.Count)
		return
	}
	figures.Timer(f.Name).Record(f.Took)
}

// recorder answers as asIs does, and records each answer in the history: a replay sees the same one.
type recorder struct{ asIs }

func (r *run) recorder(ctx workflow.Context) recorder { return recorder{r.asIs(ctx)} }

// recorded is an answer that the history has, or gets.
func recorded[T any](s recorder, answer func() T) (T, error) {
	var out T
	err := workflow.SideEffect(s.ctx, func(workflow.Context) any { return answer() }).Get(&out)
	if err != nil {
		workflow.GetLogger(s.ctx).Error("recorded settings are unreadable", "error", err)
	}
	return out, err
}

// Policy is the safe one where the recorded one is unreadable.
func (s recorder) Policy() clean.Policy {
	p, err := recorded(s, s.asIs.Policy)
	if err != nil {
		return clean.Policy{Automated: true, OnEnroll: true}
	}
	return p
}

func (s recorder) Plan(of clean.Subject, full bool, asked clean.Request) core.RecordedPlan {
	made, err := recorded(s, func() core.RecordedPlan { return s.asIs.Plan(of, full, asked) })
	if err != nil {
		made.Fault = unreadable("plan", err)
	}
	return made
}

func (s recorder) Steps(of clean.Subject) []contract.CleanStep {
	steps, _ := recorded(s, func() []contract.CleanStep { return s.asIs.Steps(of) }) // an error is logged
	return steps
}

func (s recorder) Choose(of device.Capabilities, action, strategy string) core.Choice {
	made, err := recorded(s, func() core.Choice { return s.asIs.Choose(of, action, strategy) })
	if err != nil {
		made.Fault = unreadable("choice", err)
	}
	return made
}

func unreadable(what string, err error) *device.Fault {
	return &device.Fault{Class: device.NeedsOperator, Code: device.CodeInternal,
		Message: "the recorded " + what + " is unreadable: " + err.Error()}
}

var _ core.Settings = recorder{}
