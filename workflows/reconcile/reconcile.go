// Package reconcile is the workflow of one cloud, which compares the providers in its
// inventory with the devices (S0.30): after each interval and on request, a control worker
// compares them and sends a hint to each device that differs.
package reconcile

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

const (
	// These bound a reconciliation of all devices, and of those of some hosts.
	fullReconcileTimeout    = 10 * time.Minute
	partialReconcileTimeout = time.Minute
	// reconcileHeartbeat ends a reconciliation that stops heartbeating: it does so at each
	// request.
	reconcileHeartbeat = 30 * time.Second
	// maxHosts bounds the hosts or instances of a partial reconciliation; for more, all
	// devices are compared.
	maxHosts = 50
)

// InventoryReconcile reconciles all devices after each interval, and those of some hosts
// or instances as soon as they are named: a partial reconciliation does not wait for a
// full one. It never ends by itself; a Cancel ends it until a control worker or a
// notification signals again.
func InventoryReconcile(ctx workflow.Context, in contract.InventoryReconcileInput) error {
	p := &inventoryReconcile{state: cmp.Or(in.State, &contract.InventoryReconcileState{Schema: contract.Schema,
		Cloud: in.Cloud, Interval: max(in.Interval, 0)})}
	calls.RequireSchema("cloud "+in.Cloud, p.state.Schema)
	if err := p.register(ctx); err != nil {
		return err
	}
	p.publishStatus(ctx)
	long := func() bool { return calls.NewRunDue(ctx) }
	if err := calls.Serve(ctx, func() func() { return p.next(ctx, long()) },
		func() bool { return p.idle(ctx) && long() }); err != nil {
		return err
	}
	return calls.ContinueAsNew(ctx, contract.WorkflowInventoryReconcile,
		contract.InventoryReconcileInput{Cloud: p.state.Cloud, State: p.state})
}

// inventoryReconcile is one run of a cloud's workflow.
type inventoryReconcile struct {
	state   *contract.InventoryReconcileState
	signals workflow.Selector
	// reconcilingAll: a full reconciliation runs; reconcilingSome counts the partial ones.
	// waiting: the wait for Next runs, which stopTimer ends.
	reconcilingAll, waiting bool
	reconcilingSome         int
	stopTimer               workflow.CancelFunc
}

func (p *inventoryReconcile) register(ctx workflow.Context) error {
	err := workflow.SetQueryHandlerWithOptions(ctx, contract.QueryReconcile,
		func() (contract.InventoryReconcileState, error) { return *p.state, nil },
		workflow.QueryHandlerOptions{Description: "What the last reconciliation of this cloud's inventory found"})
	if err != nil {
		return err
	}
	err = workflow.SetUpdateHandlerWithOptions(ctx, contract.UpdateCandidates, p.candidates,
		workflow.UpdateHandlerOptions{Description: "Which devices have a one-time-use provider and are not enrolled"})
	if err != nil {
		return err
	}
	p.signals = workflow.NewSelector(ctx)
	calls.Receive(ctx, p.signals, contract.SignalReconcileNow,
		func(in contract.ReconcileRequest) { p.onReconcileRequest(ctx, in) })
	return nil
}

// next is what must be done now; nil if nothing. A run with a long history starts nothing
// new: the next run does.
func (p *inventoryReconcile) next(ctx workflow.Context, long bool) func() {
	s := p.state
	switch {
	case p.signals.HasPending():
		return func() { p.signals.Select(ctx) }
	case (len(s.Hosts) > 0 || len(s.Instances) > 0) && p.canReconcile(ctx, long):
		in := contract.ReconcileInput{Hosts: s.Hosts, Instances: s.Instances, Missing: s.Missing}
		return func() {
			s.Hosts, s.Instances = nil, nil
			p.reconcilingSome++
			workflow.Go(ctx, func(ctx workflow.Context) {
				p.reconcileSome(ctx, in)
				p.reconcilingSome--
			})
		}
	case long:
		if p.stopTimer != nil {
			return p.endTimer
		}
	case s.Requested && !p.reconcilingAll:
		return calls.Start(ctx, &p.reconcilingAll, p.reconcileAll)
	case s.Interval > 0 && !s.Requested && !p.reconcilingAll && !p.waiting:
		return calls.Start(ctx, &p.waiting, p.wait)
	}
	return nil
}

// maxConcurrentReconciles bounds the partial reconciliations that run at once.
const maxConcurrentReconciles = 4

// canReconcile says whether a partial reconciliation may start. A released device waits
// for it: therefore it starts beside earlier ones and, even if the history is long, beside
// a full one.
func (p *inventoryReconcile) canReconcile(ctx workflow.Context, long bool) bool {
	return p.reconcilingSome < maxConcurrentReconciles &&
		(!long || p.reconcilingAll && !workflow.GetInfo(ctx).GetContinueAsNewSuggested())
}

// idle says that nothing is under way and no client waits for an answer.
func (p *inventoryReconcile) idle(ctx workflow.Context) bool {
	return !p.reconcilingAll && p.reconcilingSome == 0 && !p.waiting && workflow.AllHandlersFinished(ctx)
}

// onReconcileRequest records the request of a signal.
func (p *inventoryReconcile) onReconcileRequest(ctx workflow.Context, in contract.ReconcileRequest) {
	s := p.state
	if in.Interval != nil && max(*in.Interval, 0) != s.Interval {
		next := workflow.Now(ctx).Add(max(*in.Interval, 0))
		// Workers with different settings must not postpone the next one repeatedly.
		if s.Interval == 0 || next.Before(s.Next) {
			s.Next = next
		}
		s.Interval = max(*in.Interval, 0)
		p.endTimer()
		p.publishStatus(ctx)
	}
	add := func(to *[]string, what []string) {
		for _, one := range what {
			if one = strings.ToLower(one); one != "" && !slices.Contains(*to, one) {
				*to = append(*to, one)
			}
		}
	}
	add(&s.Hosts, in.Hosts)
	add(&s.Instances, in.Instances)
	if len(s.Hosts) > maxHosts || len(s.Instances) > maxHosts {
		s.Hosts, s.Instances, s.Requested = nil, nil, true
	}
	s.Requested = s.Requested || in.Full || len(in.Hosts) == 0 && len(in.Instances) == 0
}

func (p *inventoryReconcile) endTimer() {
	if p.stopTimer != nil {
		p.stopTimer()
		p.stopTimer = nil
	}
}

// wait waits for the time of the next full reconciliation.
func (p *inventoryReconcile) wait(ctx workflow.Context) {
	until := p.state.Next
	timer, stop := workflow.WithCancel(ctx)
	p.stopTimer = stop
	err := workflow.NewTimerWithOptions(timer, until.Sub(workflow.Now(ctx)),
		workflow.TimerOptions{Summary: "reconcile " + p.state.Cloud}).Get(timer, nil)
	stop()
	p.stopTimer = nil
	// A full reconciliation during the wait has postponed the next one.
	if err == nil && !workflow.Now(ctx).Before(p.state.Next) {
		p.state.Requested = true
	}
}

// reconcileAll has all devices compared with their providers.
func (p *inventoryReconcile) reconcileAll(ctx workflow.Context) {
	s := p.state
	s.Requested = false
	s.Next = workflow.Now(ctx).Add(s.Interval)
	var found contract.ReconcileResult
	if p.runActivity(ctx, fullReconcileTimeout, "reconcile "+s.Cloud, contract.ReconcileInput{Missing: s.Missing},
		&found) {
		s.Missing, s.Mismatches, s.Unreadable, s.Last = found.Missing, found.Mismatches, found.Unreadable, found.Counts
		s.ReconciledAt = workflow.Now(ctx).UTC()
		s.FullRuns++
	}
	p.publishStatus(ctx)
}

// reconcileSome has the devices of some hosts and instances compared.
func (p *inventoryReconcile) reconcileSome(ctx workflow.Context, in contract.ReconcileInput) {
	s := p.state
	var found contract.ReconcileResult
	if p.runActivity(ctx, partialReconcileTimeout, "reconcile "+strings.Join(slices.Concat(in.Hosts, in.Instances), " "),
		in, &found) {
		s.PartialRuns++
	} else {
		s.Requested = s.Requested || s.Interval == 0 // otherwise the timer starts the next full one
	}
	p.publishStatus(ctx)
}

// runActivity runs one reconciliation. A failed one is shown, and the next one tries again.
func (p *inventoryReconcile) runActivity(ctx workflow.Context, timeout time.Duration, summary string,
	in contract.ReconcileInput, found *contract.ReconcileResult) bool {
	if len(summary) > 100 {
		summary = summary[:100]
	}
	opts := calls.WithLongCall(ctx, contract.Queue, summary, timeout, reconcileHeartbeat)
	opts = workflow.WithScheduleToCloseTimeout(opts, timeout)
	err := workflow.ExecuteActivity(opts, contract.ActivityReconcileInventory, in).Get(opts, found)
	if ctx.Err() != nil {
		return false
	}
	if p.state.Fault = calls.FaultIn(err); p.state.Fault != nil {
		workflow.GetLogger(ctx).Warn("reconciliation failed", "cloud", p.state.Cloud, "fault", string(p.state.Fault.Code),
			"error", p.state.Fault.Message)
	}
	return p.state.Fault == nil
}

// candidates answers which devices could be imported.
func (p *inventoryReconcile) candidates(ctx workflow.Context,
	in contract.CandidatesInput) (found contract.Candidates, err error) {
	opts := calls.WithClientDeadline(ctx, "candidates of "+p.state.Cloud)
	opts = workflow.WithHeartbeatTimeout(workflow.WithStartToCloseTimeout(opts, calls.ClientDeadline), reconcileHeartbeat)
	err = workflow.ExecuteActivity(opts, contract.ActivityCandidates, in).Get(opts, &found)
	return found, err
}

// publishStatus writes the details that the Web UI shows of the workflow.
func (p *inventoryReconcile) publishStatus(ctx workflow.Context) {
	s := p.state
	var b strings.Builder
	fmt.Fprintf(&b, "**%s**: ", s.Cloud)
	if s.ReconciledAt.IsZero() {
		b.WriteString("no full reconciliation yet\n\n")
	} else {
		fmt.Fprintf(&b, "%d providers of %d devices, %d asked to re-check, %d missing, %d mismatches, %d not enrolled, %d "+
			"unreadable\n\n",
			s.Last.Providers, s.Last.Devices, s.Last.Hinted, s.Last.Missing, s.Last.Mismatch, s.Last.Unenrolled,
			s.Last.Unreadable)
		fmt.Fprintf(&b, "- last full reconciliation: %s\n", s.ReconciledAt.Format(time.RFC3339))
	}
	if s.Interval == 0 {
		b.WriteString("- reconciles only on request (BURNISH_SWEEP_INTERVAL=0)\n")
	}
	if s.Fault != nil {
		fmt.Fprintf(&b, "- the last reconciliation failed: %s: %s\n", s.Fault.Code, s.Fault.Error())
	}
	for _, m := range s.Unreadable {
		fmt.Fprintf(&b, "- %s cannot be read: %s\n", m.Name, m.What)
	}
	for _, m := range s.Mismatches {
		fmt.Fprintf(&b, "- %s: %s\n", m.Name, m.What)
	}
	if n := len(s.Missing); n > 0 {
		shown := s.Missing[:min(n, contract.KeptMismatches)]
		fmt.Fprintf(&b, "- without a provider: %s", strings.Join(shown, ", "))
		if n > len(shown) {
			fmt.Fprintf(&b, " and %d more", n-len(shown))
		}
		b.WriteString("\n")
	}
	workflow.SetCurrentDetails(ctx, b.String())
}
