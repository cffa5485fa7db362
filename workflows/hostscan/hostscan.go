// Package hostscan is the workflow of one host, which discovers its devices automatically
// (S2.6): the host's worker scans for devices and enrolls the new ones, and the workflow
// keeps the result.
package hostscan

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"go.temporal.io/sdk/workflow"

	"burnish/workflows/calls"
	"burnish/workflows/contract"
)

// scanTimeout bounds one scan: each enrollment in it waits for its own answer.
const scanTimeout = 10 * time.Minute

// HostScan scans once for each scan_now. It has no timer and never ends by itself; a
// Cancel ends it until the host's worker signals again.
func HostScan(ctx workflow.Context, in contract.HostScanInput) error {
	h := &hostScan{state: cmp.Or(in.State, &contract.HostScanState{Schema: contract.Schema, Host: in.Host})}
	calls.RequireSchema("host "+in.Host, h.state.Schema)
	err := workflow.SetQueryHandlerWithOptions(ctx, contract.QueryHostScan,
		func() (contract.HostScanState, error) { return *h.state, nil },
		workflow.QueryHandlerOptions{Description: "What the last scan of this host found"})
	if err != nil {
		return err
	}
	signals := workflow.NewSelector(ctx)
	calls.Receive(ctx, signals, contract.SignalScanNow, func(in contract.ScanRequest) {
		if len(in.Forget) > 0 || len(in.ForgottenNow) > 0 {
			h.keepForgotten(ctx, in)
		} else {
			h.state.Requested, h.state.WorkerStarted = true, h.state.WorkerStarted || in.WorkerStarted
		}
	})
	h.publishStatus(ctx)
	for {
		if err := workflow.Await(ctx, func() bool {
			return signals.HasPending() || h.state.Requested ||
				calls.NewRunDue(ctx)
		}); err != nil {
			return err
		}
		switch {
		case signals.HasPending():
			signals.Select(ctx)
		case h.state.Requested && !calls.NewRunDue(ctx):
			if err := h.scan(ctx); err != nil {
				return err
			}
		default:
			return calls.ContinueAsNew(ctx, contract.WorkflowHostScan,
				contract.HostScanInput{Host: h.state.Host, State: h.state})
		}
	}
}

// hostScan is one run of a host's workflow.
type hostScan struct {
	state *contract.HostScanState
}

// keepForgotten keeps the names of devices that the host must forget, until it has. The memo
// shows them: a host's worker reads it before any worker answers a query.
func (h *hostScan) keepForgotten(ctx workflow.Context, in contract.ScanRequest) {
	s := h.state
	s.Forgotten = slices.DeleteFunc(s.Forgotten, func(name string) bool { return slices.Contains(in.ForgottenNow, name) })
	for _, name := range in.Forget {
		if !slices.Contains(s.Forgotten, name) {
			s.Forgotten = append(s.Forgotten, name)
		}
	}
	if err := workflow.UpsertMemo(ctx, map[string]any{contract.MemoForgotten: s.Forgotten}); err != nil {
		workflow.GetLogger(ctx).Error("memo was not written", "host", s.Host, "error", err)
	}
	h.publishStatus(ctx)
}

// scan runs one scan and records its result. Only a Cancel is an error: a failed scan is
// shown, and the next scan_now tries again.
func (h *hostScan) scan(ctx workflow.Context) error {
	s := h.state
	in := contract.ScanInput{Host: s.Host, KnownDigests: s.KnownDigests, Refused: s.Refused, Missing: s.Missing,
		RetryRefused: s.WorkerStarted}
	s.Requested, s.WorkerStarted = false, false
	opts := calls.WithLongCall(ctx, contract.HostQueue(s.Host), "scan "+s.Host, scanTimeout, 0)
	var found contract.ScanResult
	err := workflow.ExecuteActivity(opts, contract.ActivityScanHost, in).Get(opts, &found)
	if err := ctx.Err(); err != nil {
		return err
	}
	s.ScannedAt = workflow.Now(ctx).UTC()
	if s.Fault = calls.FaultIn(err); s.Fault != nil {
		// The next scan tries the refused devices again.
		s.WorkerStarted = in.RetryRefused
		workflow.GetLogger(ctx).Warn("scan failed", "host", s.Host, "fault", string(s.Fault.Code), "error", s.Fault.Message)
	} else {
		h.record(found)
	}
	h.publishStatus(ctx)
	return nil
}

// record keeps the result of a scan.
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

// publishStatus writes the details that the Web UI shows of the workflow.
func (h *hostScan) publishStatus(ctx workflow.Context) {
	s := h.state
	var b strings.Builder
	fmt.Fprintf(&b, "**%s**: ", s.Host)
	if s.ScannedAt.IsZero() {
		b.WriteString("no scan yet\n\n")
	} else {
		fmt.Fprintf(&b, "%d devices found, %d enrolled by the last scan, %d refused, %d missing\n\n",
			s.Last.Found, s.Last.Enrolled, len(s.Refused), len(s.Missing))
		fmt.Fprintf(&b, "- last scan: %s\n", s.ScannedAt.Format(time.RFC3339))
	}
	if s.Fault != nil {
		fmt.Fprintf(&b, "- the last scan failed: %s: %s\n", s.Fault.Code, s.Fault.Error())
	}
	for _, r := range s.Refused {
		fmt.Fprintf(&b, "- refused %s: %s: %s\n", r.Name, r.Code, r.Reason)
	}
	if len(s.Missing) > 0 {
		fmt.Fprintf(&b, "- missing: %s\n", strings.Join(s.Missing, ", "))
	}
	if len(s.Forgotten) > 0 {
		fmt.Fprintf(&b, "- forgotten while the host was away: %s\n", strings.Join(s.Forgotten, ", "))
	}
	workflow.SetCurrentDetails(ctx, b.String())
}
