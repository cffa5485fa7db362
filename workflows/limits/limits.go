// Package limits is the one workflow that keeps a fleet within the limits of its policy
// (S3.38): each clean asks it for a slot before its first step and gives the slot back after
// its last. Requests over the limits wait in the order of their arrival; none is refused. A
// device waits for a signal, with neither a timer nor an activity.
//
//	queue.go   which requests have a slot, and what the others wait for; pure
//	limits.go  the run: signals in, answers out
//	groups.go  devices that are cleaned together
//	checks.go  slots whose devices are lost, free devices, the devices of groups
//	publish.go what operators see
package limits

import (
	"cmp"
	"time"

	"go.temporal.io/sdk/workflow"

	"burnish/internal/device"
	"burnish/workflows/calls"
	"burnish/workflows/contract"
)

const (
	// checkAfter is how long nothing moves until the holders of slots are checked for the
	// first time; each further check comes after twice the time.
	checkAfter    = time.Minute
	maxCheckAfter = time.Hour
	// countAfter is how long after a clean its device is available and listed so.
	// maxCountAfter is the longest time between two counts of free devices.
	countAfter    = 5 * time.Second
	maxCountAfter = 5 * time.Minute
	// lookAfter is how long after a device came to a step together its group is looked at once more.
	lookAfter = 5 * time.Second
	// openAfter is how long devices that have slots may take to say so after a loss.
	openAfter = 10 * time.Second
	// maxAnswers is how many answers are under way at once.
	maxAnswers = 200
	// longHistory is the length, in events, from which a busy run continues as new. A clean
	// costs about a dozen.
	longHistory = 3000
)

// Limits answers requests until the policy has no limits any more and no request is left.
func Limits(ctx workflow.Context, in contract.LimitsInput) error {
	l, err := newLimits(in)
	if err != nil {
		return err
	}
	if err := l.register(ctx); err != nil {
		return err
	}
	err = calls.Serve(ctx, func() func() { return l.next(ctx) },
		func() bool { return l.idle(ctx) && (l.finished() || l.long(ctx)) })
	if err != nil || l.finished() {
		return err
	}
	state, err := packed(l.LimitsState)
	if err != nil {
		return err
	}
	return calls.ContinueAsNew(ctx, contract.WorkflowLimits, contract.LimitsInput{State: state})
}

// run is one run of the workflow. The queue's state survives it, the rest does not.
type run struct {
	queue
	signals workflow.Selector
	// changed: the queue must be settled.
	changed bool
	// sending counts the answers under way. Each of the others is true while its coroutine
	// runs.
	sending                                       int
	finding, checking, counting, looking, waiting bool
	// wakeAt is when the running timer ends.
	wakeAt time.Time
}

func newLimits(in contract.LimitsInput) (*run, error) {
	l := &run{changed: true}
	l.LimitsState = cmp.Or(in.State, &contract.LimitsState{Schema: contract.Schema, LimitsChange: in.LimitsChange})
	calls.RequireSchema("limits", l.Schema)
	return l, unpack(l.LimitsState)
}

func (l *run) register(ctx workflow.Context) error {
	err := workflow.SetQueryHandlerWithOptions(ctx, contract.QueryLimits,
		func(name string) (contract.LimitsStatus, error) { return l.status(name, contract.KeptQueue), nil },
		workflow.QueryHandlerOptions{Description: "Who waits for what, of one device or of all"})
	if err != nil {
		return err
	}
	err = workflow.SetUpdateHandlerWithOptions(ctx, contract.VerbResume.Update(),
		func(ctx workflow.Context, in contract.ResumeInput) (contract.ResumeResult, error) {
			return l.onResume(ctx, in), nil
		},
		workflow.UpdateHandlerOptions{Description: "Close the breaker of a step on a model", Validator: l.validateResume})
	if err != nil {
		return err
	}
	l.signals = workflow.NewSelector(ctx)
	calls.Receive(ctx, l.signals, contract.SignalSlotRequest, func(r contract.SlotRequest) {
		if r.Device != "" && r.Clean != "" {
			l.request(workflow.Now(ctx).UTC(), r)
		}
		l.changed = true
	})
	calls.Receive(ctx, l.signals, contract.SignalSlotReport, func(r contract.SlotReport) {
		l.report(workflow.Now(ctx).UTC(), r)
		l.changed = true
	})
	calls.Receive(ctx, l.signals, contract.SignalLimitsChanged, func(c contract.LimitsChange) {
		l.LimitsChange, l.MayTake, l.changed = c, 0, true
	})
	return nil
}

func (l *run) validateResume(in contract.ResumeInput) error {
	if in.Model == "" || in.Step == "" {
		return contract.Refuse(contract.Refusal{Fault: device.Fault{Class: device.Permanent, Code: device.CodeInvalid,
			Message: "the model or the step is missing", Remedy: "give --model and --step, as the alarm names them"}})
	}
	return nil
}

// onResume closes a breaker; its devices go on in their order.
func (l *run) onResume(ctx workflow.Context, in contract.ResumeInput) contract.ResumeResult {
	before := len(l.obstacles)
	act := in.Act()
	act.Verb, act.Request = contract.VerbResume.Update(), workflow.GetCurrentUpdateInfo(ctx).ID
	open := l.resume(in.Model, in.Step, act)
	if !open {
		return contract.ResumeResult{Already: true}
	}
	workflow.GetLogger(ctx).Info("a breaker was closed", "model", in.Model, "step", in.Step, "by", in.By)
	l.changed = true
	return contract.ResumeResult{Waiting: before}
}

// next is what must be done now; nil if nothing. A run with a long history starts nothing
// new: the next run does.
func (l *run) next(ctx workflow.Context) func() {
	now := workflow.Now(ctx)
	switch {
	case l.signals.HasPending():
		return func() { l.signals.Select(ctx) }
	case l.due(now) && !l.changed:
		return func() { l.onTime(now.UTC()) }
	case l.changed:
		return func() {
			l.changed = false
			l.settle(now.UTC())
			l.publish(ctx)
		}
	case l.long(ctx):
		return nil
	case !l.Found && !l.finding:
		return calls.Start(ctx, &l.finding, l.findCleans)
	case len(l.answers) > 0 && l.sending < maxAnswers:
		return func() { l.sendAnswer(ctx) }
	case passed(l.checkAt(), now):
		return calls.Start(ctx, &l.checking, l.checkHolders)
	case passed(l.countAt(), now):
		return calls.Start(ctx, &l.counting, l.countFree)
	case passed(l.groupsAt(), now):
		return calls.Start(ctx, &l.looking, l.findGroups)
	}
	if at := l.wake(); !at.IsZero() && (!l.waiting || at.Before(l.wakeAt)) && at.After(now) {
		return func() { l.startTimer(ctx, at) }
	}
	return nil
}

// long says that a new run must begin.
func (l *run) long(ctx workflow.Context) bool {
	info := workflow.GetInfo(ctx)
	events := info.GetCurrentHistoryLength()
	return info.GetContinueAsNewSuggested() || info.GetTargetWorkerDeploymentVersionChanged() || events > longHistory ||
		len(l.Slots) == 0 && events > calls.ContinueAsNewThreshold
}

// idle says that nothing is under way and no client waits for an answer. A timer is no work.
func (l *run) idle(ctx workflow.Context) bool {
	busy := l.finding || l.checking || l.counting || l.looking
	return !l.changed && l.sending == 0 && !busy && workflow.AllHandlersFinished(ctx)
}

// finished says that the policy has no limits any more, and no request is left.
func (l *run) finished() bool { return l.Limits == nil && l.Found && len(l.Slots) == 0 }

// sendAnswer sends the first answer that is due. A device whose workflow is lost no longer
// has a request: it makes a new one when it is back.
func (l *run) sendAnswer(ctx workflow.Context) {
	i := l.answers[0]
	l.answers = l.answers[1:]
	name, clean, answer := l.Slots[i].Device, l.Slots[i].Clean, l.answer(i)
	l.sending++
	workflow.Go(ctx, func(ctx workflow.Context) {
		hint := contract.Hint{Source: contract.LimitsWorkflowID, Slot: &answer}
		err := workflow.SignalExternalWorkflow(ctx, contract.WorkflowID(name), "", contract.SignalObserved, hint).
			Get(ctx, nil)
		l.sending--
		if err == nil {
			return
		}
		workflow.GetLogger(ctx).Warn("a device with a request for a slot cannot be signaled: its request ends", "device",
			name, "error", err)
		if i := l.index(name); i >= 0 && l.Slots[i].Clean == clean {
			l.remove(workflow.Now(ctx).UTC(), i)
			l.changed = true
		}
	})
}
