// Package oneview is the workflow of one appliance of OneView, which polls its servers
// (S4.8–S4.17): after each interval and on request, a control worker compares them page by
// page with the devices, and signals each device that differs. A device asks the appliance
// itself before it changes anything.
//
//	oneview.go  the run: signals, timer, rounds
//	publish.go  what operators see
//	updates.go  what operators ask of the appliance
package oneview

import (
	"cmp"
	"fmt"
	"time"

	"go.temporal.io/sdk/workflow"

	"burnish/internal/device"
	"burnish/workflows/calls"
	"burnish/workflows/contract"
)

// maxFailedPages in a row end a round: the appliance is not there, and the next round tries
// again.
const maxFailedPages = 3

// OneViewPoll polls an appliance after each interval and when it is asked to. It never ends
// by itself; a Cancel ends it until a control worker starts.
func OneViewPoll(ctx workflow.Context, in contract.OneViewInput) error {
	interval := max(in.Interval, 0)
	p := &polls{state: cmp.Or(in.State, &contract.OneViewState{Schema: contract.Schema, Appliance: in.Appliance,
		Interval: interval, TellAfter: in.TellAfter, Requested: interval > 0})}
	calls.RequireSchema("appliance "+in.Appliance, p.state.Schema)
	if err := p.register(ctx); err != nil {
		return err
	}
	p.publish(ctx)
	long := func() bool { return calls.NewRunDue(ctx) }
	if err := calls.Serve(ctx, func() func() { return p.next(ctx, long()) },
		func() bool { return p.idle(ctx) && long() }); err != nil {
		return err
	}
	return calls.ContinueAsNew(ctx, contract.WorkflowOneView,
		contract.OneViewInput{Appliance: p.state.Appliance, State: p.state})
}

// polls is one run of an appliance's workflow.
type polls struct {
	state   *contract.OneViewState
	signals workflow.Selector
	// reading: a page is being read. waiting: the timer runs, which stopTimer ends.
	reading, waiting bool
	stopTimer        workflow.CancelFunc
}

func (p *polls) register(ctx workflow.Context) error {
	err := workflow.SetQueryHandlerWithOptions(ctx, contract.QueryOneView,
		func() (contract.OneViewState, error) { return *p.state, nil },
		workflow.QueryHandlerOptions{
			Description: "When the last good round of the polls was, what it found, and the next round"})
	if err != nil {
		return err
	}
	if err := p.registerUpdates(ctx); err != nil {
		return err
	}
	p.signals = workflow.NewSelector(ctx)
	calls.Receive(ctx, p.signals, contract.SignalLookNow, func(in contract.LookRequest) { p.onLook(ctx, in) })
	return nil
}

// next is what must be done now; nil if nothing. A run with a long history starts nothing
// new: the next run does, also in the middle of a round.
func (p *polls) next(ctx workflow.Context, long bool) func() {
	s := p.state
	switch {
	case p.signals.HasPending():
		return func() { p.signals.Select(ctx) }
	case long:
		if p.stopTimer != nil {
			return p.endTimer
		}
	case p.reading:
	case !p.alarmAt().IsZero() && !workflow.Now(ctx).Before(p.alarmAt()):
		return func() { p.alarm(ctx) }
	case s.Round != nil:
		return calls.Start(ctx, &p.reading, p.readPage)
	case s.Requested:
		return func() { p.beginRound(ctx) }
	case s.Interval > 0 && !p.waiting:
		return calls.Start(ctx, &p.waiting, p.wait)
	}
	return nil
}

// idle says that nothing is under way and no client waits for an answer.
func (p *polls) idle(ctx workflow.Context) bool {
	return !p.reading && !p.waiting && workflow.AllHandlersFinished(ctx)
}

// onLook records the request of a signal. An interval of 0 asks for no round, and where the polls
// were on it ends what is under way, too. Where they are off it ends nothing: each worker that
// starts sends it, and what is under way was asked for by an operator.
func (p *polls) onLook(ctx workflow.Context, in contract.LookRequest) {
	s := p.state
	if in.TellAfter > 0 {
		s.TellAfter = in.TellAfter
	}
	before := s.Interval
	if in.Interval != nil {
		s.Interval = max(*in.Interval, 0)
	}
	switch off := in.Interval != nil && s.Interval == 0; {
	case !off:
		s.Requested = true
	case before > 0:
		s.Requested, s.Round, s.Next, s.Failing, s.NeedsOperator = false, nil, time.Time{}, time.Time{}, false
	}
	p.endTimer()
	p.publish(ctx)
}

func (p *polls) endTimer() {
	if p.stopTimer != nil {
		p.stopTimer()
		p.stopTimer = nil
	}
}

// wait waits for the next round, or for the alarm if that comes first.
func (p *polls) wait(ctx workflow.Context) {
	s := p.state
	until := s.Next
	if alarm := p.alarmAt(); !alarm.IsZero() && alarm.Before(until) {
		until = alarm
	}
	timer, stop := workflow.WithCancel(ctx)
	p.stopTimer = stop
	err := workflow.NewTimerWithOptions(timer, until.Sub(workflow.Now(ctx)),
		workflow.TimerOptions{Summary: "poll " + s.Appliance}).Get(timer, nil)
	stop()
	p.stopTimer = nil
	if err == nil && !workflow.Now(ctx).Before(s.Next) {
		s.Requested = true
	}
}

// alarmAt is when the operator is needed, unless a round is good before; zero is never.
func (p *polls) alarmAt() time.Time {
	s := p.state
	if s.Failing.IsZero() || s.NeedsOperator || s.Interval == 0 || s.TellAfter <= 0 {
		return time.Time{}
	}
	return s.Failing.Add(s.TellAfter)
}

func (p *polls) alarm(ctx workflow.Context) {
	s := p.state
	s.NeedsOperator = true
	workflow.GetLogger(ctx).Warn("no round of the polls was complete", "appliance", s.Appliance, "since", s.Failing,
		"fault", string(s.Fault.Code), "error", s.Fault.Message)
	p.publish(ctx)
}

func (p *polls) beginRound(ctx workflow.Context) {
	p.endTimer()
	p.state.Requested, p.state.Next = false, time.Time{}
	p.state.Round = &contract.PollRound{StartedAt: workflow.Now(ctx).UTC()}
	p.publish(ctx)
}

// pageSummary says which page an activity reads.
func pageSummary(appliance string, r contract.PollRound) string {
	if r.Start == 0 {
		return "poll " + appliance + " from its first server on"
	}
	return fmt.Sprintf("poll %s from server %d of %d on", appliance, r.Start+1, r.Total)
}

// readPage has one page of servers compared with their devices. A page that is not read
// changes nothing for its devices: the round goes on behind it, if the size of a page is
// known and the appliance has not failed too often.
func (p *polls) readPage(ctx workflow.Context) {
	s, r := p.state, p.state.Round
	opts := calls.WithPage(ctx, pageSummary(s.Appliance, *r))
	var page contract.PollPageResult
	err := workflow.ExecuteActivity(opts, contract.ActivityPollPage,
		contract.PollPageInput{Appliance: s.Appliance, Start: r.Start, Count: r.PageSize}).Get(opts, &page)
	if ctx.Err() != nil || s.Round != r { // canceled, or turned off meanwhile
		return
	}
	over := false
	if fault := calls.FaultIn(err); fault == nil {
		over = page.Next <= r.Start
		add(r, page)
	} else {
		workflow.GetLogger(ctx).Warn("a page of the polls was not read", "appliance", s.Appliance, "start", r.Start, "fault",
			string(fault.Code), "error", fault.Message)
		over = skip(r, fault)
	}
	if over {
		p.endRound(ctx)
	}
	p.publish(ctx)
}

// add adds what a page found to its round.
func add(r *contract.PollRound, page contract.PollPageResult) {
	c := &r.Counts
	c.Servers += page.Counts.Servers
	c.Devices += page.Counts.Devices
	c.Taken += page.Counts.Taken
	c.Freed += page.Counts.Freed
	c.TakenOnCleanFail += page.Counts.TakenOnCleanFail
	c.Failed += page.Counts.Failed
	r.Problems = append(r.Problems, page.Problems[:min(len(page.Problems), contract.KeptMismatches-len(r.Problems))]...)
	r.Total, r.Failed = page.Total, 0
	if page.Next > r.Start {
		r.PageSize, r.Start = page.Next-r.Start, page.Next
	}
}

// skip passes over a page that was not read, and says whether the round is over.
func skip(r *contract.PollRound, fault *device.Fault) (over bool) {
	r.Unread++
	r.Failed++
	if r.Fault == nil {
		r.Fault = fault
	}
	if r.PageSize == 0 {
		return true
	}
	r.Start += r.PageSize
	left := max(r.Total-r.Start, 0)
	if r.Failed == maxFailedPages {
		r.Unread += (left + r.PageSize - 1) / r.PageSize
		return true
	}
	return left == 0
}

// endRound records what the round found. The next one is a whole interval later, however
// long this one took.
func (p *polls) endRound(ctx workflow.Context) {
	s, r := p.state, p.state.Round
	now := workflow.Now(ctx).UTC()
	s.Round = nil
	s.Rounds++
	result := contract.ResultComplete
	if r.Unread > 0 {
		result = contract.ResultIncomplete
	}
	workflow.GetMetricsHandler(ctx).
		WithTags(map[string]string{contract.LabelAppliance: s.Appliance, contract.LabelResult: result}).
		Counter(contract.FigureOneViewRounds).Inc(1)
	s.Problems, s.Unread, s.Fault = r.Problems, r.Unread, r.Fault
	switch {
	case r.Unread == 0:
		s.Last, s.LastGood, s.Failing, s.NeedsOperator = r.Counts, now, time.Time{}, false
	case s.Failing.IsZero():
		s.Failing = r.StartedAt
	}
	if s.Interval > 0 {
		s.Next = now.Add(s.Interval)
	}
}
