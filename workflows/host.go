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
const scanTimeout = 10 * time.Minute

// Host is one host that finds its devices by itself (S2.6): for each look_now it has
// the host survey which devices are there, and keeps what came of it. It has no timer
// and never ends by itself; a Cancel ends it until the host's worker signals again.
func HostScan(ctx workflow.Context, in contract.HostScanInput) error {
	h, err := newHostScan(in)
	if err != nil {
		return err
	}
	err = workflow.SetQueryHandlerWithOptions(ctx, contract.QueryHostScan,
		func() (contract.HostScanState, error) { return *h.state, nil },
		workflow.QueryHandlerOptions{Description: "What the last survey of this host found"})
	if err != nil {
		return err
	}
	// Read only where one is pending, and before the run may continue as new: so none
	// is lost (measured, as for devices).
	signals := workflow.NewSelector(ctx)
	signals.AddReceive(workflow.GetSignalChannel(ctx, contract.SignalScanNow), func(c workflow.ReceiveChannel, _ bool) {
		var look contract.ScanRequest
		if c.ReceiveAsync(&look) {
			h.state.Requested, h.state.WorkerStarted = true, h.state.WorkerStarted || look.WorkerStarted
		}
	})
	h.publishStatus(ctx)
	for {
		long := func() bool {
			info := workflow.GetInfo(ctx)
			return info.GetContinueAsNewSuggested() || info.GetCurrentHistoryLength() > continueAsNewThreshold
		}
		if err := workflow.Await(ctx, func() bool { return signals.HasPending() || h.state.Requested || long() }); err != nil {
			return err
		}
		switch {
		case signals.HasPending():
			signals.Select(ctx)
		case h.state.Requested && !long():
			if err := h.scan(ctx); err != nil {
				return err
			}
		default:
			return workflow.NewContinueAsNewError(ctx, contract.WorkflowHostScan, contract.HostScanInput{Host: h.state.Host, State: h.state})
		}
	}
}

// hostRun is one run of a host's workflow.
type hostScan struct {
	state *contract.HostScanState
}

func newHostScan(in contract.HostScanInput) (*hostScan, error) {
	h := &hostScan{state: in.State}
	if h.state == nil {
		h.state = &contract.HostScanState{Schema: contract.Schema, Host: in.Host}
	}
	if h.state.Schema > contract.Schema {
		return nil, fmt.Errorf("host %s: its state has schema %d, this worker knows %d: upgrade the control workers", in.Host, h.state.Schema, contract.Schema)
	}
	return h, nil
}

// survey has the host look, and keeps what it found. Only a Cancel is an error: what
// failed for good is shown, and the next look_now tries again.
func (h *hostScan) scan(ctx workflow.Context) error {
	s := h.state
	in := contract.ScanInput{Host: s.Host, KnownDigests: s.KnownDigests, Refused: s.Refused, Missing: s.Missing, RetryRefused: s.WorkerStarted}
	s.Requested, s.WorkerStarted = false, false
	opts := workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		TaskQueue:           contract.HostQueue(s.Host),
		StartToCloseTimeout: scanTimeout,
		RetryPolicy: &temporal.RetryPolicy{
			InitialInterval: time.Second, BackoffCoefficient: 2, MaximumInterval: time.Minute,
			NonRetryableErrorTypes: []string{notRegistered},
		},
		Summary: "survey " + s.Host,
	})
	var found contract.ScanResult
	err := workflow.ExecuteActivity(opts, contract.ActivityScanHost, in).Get(opts, &found)
	if err := ctx.Err(); err != nil {
		return err
	}
	s.ScannedAt = workflow.Now(ctx).UTC()
	if s.Fault = faultIn(err); s.Fault != nil {
		// What was to be tried again is still to be: the next look does.
		s.WorkerStarted = in.RetryRefused
		workflow.GetLogger(ctx).Warn("survey failed", "host", s.Host, "fault", string(s.Fault.Code), "error", s.Fault.Message)
	} else {
		h.record(found)
	}
	h.publishStatus(ctx)
	return nil
}

// keep takes over what a survey found.
func (h *hostScan) record(found contract.ScanResult) {
	s := h.state
	if s.KnownDigests == nil {
		s.KnownDigests = map[string]string{}
	}
	for _, name := range found.RemovedDigests {
		delete(s.KnownDigests, name)
	}
	for _, name := range workflow.DeterministicKeys(found.NewDigests) {
		s.KnownDigests[name] = found.NewDigests[name]
	}
	s.Refused, s.Missing, s.Last = found.Refused, found.Missing, found.Counts
	s.Scans++
	s.Enrolled += found.Counts.Enrolled
}

// show writes what the Web UI shows on top of the workflow.
func (h *hostScan) publishStatus(ctx workflow.Context) {
	s := h.state
	var b strings.Builder
	fmt.Fprintf(&b, "**%s**: ", s.Host)
	if s.ScannedAt.IsZero() {
		b.WriteString("no survey yet\n\n")
	} else {
		fmt.Fprintf(&b, "%d devices found, %d enrolled by the last survey, %d refused, %d missing\n\n",
			s.Last.Found, s.Last.Enrolled, len(s.Refused), len(s.Missing))
		fmt.Fprintf(&b, "- last survey: %s\n", s.ScannedAt.Format(time.RFC3339))
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
