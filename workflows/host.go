package workflows

import (
	"fmt"
	"strings"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"burnish/workflows/contract"
)

// surveyWithin bounds one survey: each enrolment in it waits for its own answer.
const surveyWithin = 10 * time.Minute

// Host is one host that finds its devices by itself (S2.6): for each look_now it has
// the host survey which devices are there, and keeps what came of it. It has no timer
// and never ends by itself; a Cancel ends it until the host's worker signals again.
func Host(ctx workflow.Context, in contract.HostInput) error {
	h, err := newHost(in)
	if err != nil {
		return err
	}
	err = workflow.SetQueryHandlerWithOptions(ctx, contract.QueryHost,
		func() (contract.HostState, error) { return *h.state, nil },
		workflow.QueryHandlerOptions{Description: "What the last survey of this host found"})
	if err != nil {
		return err
	}
	// Read only where one is pending, and before the run may continue as new: so none
	// is lost (measured, as for devices).
	signals := workflow.NewSelector(ctx)
	signals.AddReceive(workflow.GetSignalChannel(ctx, contract.SignalLookNow), func(c workflow.ReceiveChannel, _ bool) {
		var look contract.LookNow
		if c.ReceiveAsync(&look) {
			h.state.Due, h.state.Started = true, h.state.Started || look.Started
		}
	})
	h.show(ctx)
	for {
		long := func() bool {
			info := workflow.GetInfo(ctx)
			return info.GetContinueAsNewSuggested() || info.GetCurrentHistoryLength() > quietHistory
		}
		if err := workflow.Await(ctx, func() bool { return signals.HasPending() || h.state.Due || long() }); err != nil {
			return err
		}
		switch {
		case signals.HasPending():
			signals.Select(ctx)
		case h.state.Due && !long():
			if err := h.survey(ctx); err != nil {
				return err
			}
		default:
			return workflow.NewContinueAsNewError(ctx, contract.WorkflowHost, contract.HostInput{Host: h.state.Host, State: h.state})
		}
	}
}

// hostRun is one run of a host's workflow.
type hostRun struct {
	state *contract.HostState
}

func newHost(in contract.HostInput) (*hostRun, error) {
	h := &hostRun{state: in.State}
	if h.state == nil {
		h.state = &contract.HostState{Schema: contract.Schema, Host: in.Host}
	}
	if h.state.Schema > contract.Schema {
		return nil, fmt.Errorf("host %s: its state has schema %d, this worker knows %d: upgrade the control workers", in.Host, h.state.Schema, contract.Schema)
	}
	return h, nil
}

// survey has the host look, and keeps what it found. Only a Cancel is an error: what
// failed for good is shown, and the next look_now tries again.
func (h *hostRun) survey(ctx workflow.Context) error {
	s := h.state
	in := contract.SurveyInput{Host: s.Host, Told: s.Told, Refused: s.Refused, Missing: s.Missing, Again: s.Started}
	s.Due, s.Started = false, false
	opts := workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		TaskQueue:           contract.HostQueue(s.Host),
		StartToCloseTimeout: surveyWithin,
		RetryPolicy: &temporal.RetryPolicy{
			InitialInterval: time.Second, BackoffCoefficient: 2, MaximumInterval: time.Minute,
			NonRetryableErrorTypes: []string{notRegistered},
		},
		Summary: "survey " + s.Host,
	})
	var found contract.Surveyed
	err := workflow.ExecuteActivity(opts, contract.ActivitySurvey, in).Get(opts, &found)
	if err := ctx.Err(); err != nil {
		return err
	}
	s.LookedAt = workflow.Now(ctx).UTC()
	if s.Fault = faultIn(err); s.Fault != nil {
		// What was to be tried again is still to be: the next look does.
		s.Started = in.Again
		workflow.GetLogger(ctx).Warn("survey failed", "host", s.Host, "fault", string(s.Fault.Code), "error", s.Fault.Message)
	} else {
		h.keep(found)
	}
	h.show(ctx)
	return nil
}

// keep takes over what a survey found.
func (h *hostRun) keep(found contract.Surveyed) {
	s := h.state
	if s.Told == nil {
		s.Told = map[string]string{}
	}
	for _, name := range found.Gone {
		delete(s.Told, name)
	}
	for _, name := range workflow.DeterministicKeys(found.Told) {
		s.Told[name] = found.Told[name]
	}
	s.Refused, s.Missing, s.Last = found.Refused, found.Missing, found.Counts
	s.Surveys++
	s.Enrolled += found.Counts.Enrolled
}

// show writes what the Web UI shows on top of the workflow.
func (h *hostRun) show(ctx workflow.Context) {
	s := h.state
	var b strings.Builder
	fmt.Fprintf(&b, "**%s**: ", s.Host)
	if s.LookedAt.IsZero() {
		b.WriteString("no survey yet\n\n")
	} else {
		fmt.Fprintf(&b, "%d devices found, %d enrolled by the last survey, %d refused, %d missing\n\n",
			s.Last.Found, s.Last.Enrolled, len(s.Refused), len(s.Missing))
		fmt.Fprintf(&b, "- last survey: %s\n", s.LookedAt.Format(time.RFC3339))
	}
	if s.Fault != nil {
		fmt.Fprintf(&b, "- the last survey failed: %s: %s\n", s.Fault.Code, s.Fault.Error())
	}
	for _, r := range s.Refused {
		fmt.Fprintf(&b, "- refused %s: %s: %s\n", r.Name, r.Code, r.Reason)
	}
	if len(s.Missing) > 0 {
		fmt.Fprintf(&b, "- missing: %s\n", strings.Join(s.Missing, ", "))
	}
	workflow.SetCurrentDetails(ctx, b.String())
}
