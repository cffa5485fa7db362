package lifecycle

import (
	"crypto/sha256"
	"encoding/json"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	core "burnish/internal/lifecycle"
	"burnish/workflows/contract"
)

// This file is when the status is written to the server, and what of it. One write of search attributes is a sixth of
// what the server does for a turnover (measured): there is one in a workflow task, when all that the task does is done,
// and none for a step that takes a moment.

// stepShownAfter is how long a step lasts until the listing shows it in place of the step before it.
const stepShownAfter = time.Second

// publish writes what has changed. Another step of the same clean only becomes due: the server's details of
// the workflow
// show it at once, the listing if it lasts.
func (r *run) publish(ctx workflow.Context) {
	d := r.device
	d.Publish = false
	r.published.all, d.PublishNumbers = r.published.all || d.PublishNumbers, false
	if !d.StepLasts && r.published.onlyStepChanged(ctx, d.DeviceState) {
		if d.StepShownAt.IsZero() || d.StepShown != d.Seq {
			d.StepShownAt, d.StepShown = workflow.Now(ctx).Add(stepShownAfter), d.Seq
		}
		show(ctx, d)
		return
	}
	d.StepLasts, d.StepShownAt = false, time.Time{}
	r.published.publish(ctx, d.DeviceState)
	show(ctx, d)
}

// publisher writes to the server what listings and the Web UI show of a device. It writes
// changes only, because one upsert is a sixth of the server's time for a turnover
// (measured).
type publisher struct {
	attributes core.Attributes
	memo       [sha256.Size]byte // of its JSON, which is long, without the numbers
	// all has bindings and cleans written, which alone are no reason to write; numbers are
	// those that were.
	all     bool
	numbers [2]int
}

// resumePublisher returns the publisher of a run that continues an earlier one: continue-as-new
// keeps search attributes and memo.
func resumePublisher(ctx workflow.Context, s *contract.DeviceState) publisher {
	if workflow.GetTypedSearchAttributes(ctx).Size() == 0 {
		return publisher{}
	}
	return publisher{attributes: core.AttributesOf(s), memo: digestOf(ctx, core.Memo(s))}
}

// started says that this run or an earlier one has published something.
func (p *publisher) started() bool { return *p != publisher{} }

// publish writes search attributes and memo if they changed. A
// device that is not enrolled is not published.
func (p *publisher) publish(ctx workflow.Context, s *contract.DeviceState) {
	if !s.Enrolled {
		return
	}
	attributes, memo := core.AttributesOf(s), core.Memo(s)
	digest := digestOf(ctx, memo)
	numbers := [2]int{memo.Bindings, memo.Cleans}
	memoChanged := digest != p.memo || p.all && numbers != p.numbers
	p.all = false
	if attributes != p.attributes || memoChanged {
		if err := workflow.UpsertTypedSearchAttributes(ctx, updates(attributes, s.UpdatedAt)...); err != nil {
			workflow.GetLogger(ctx).Error("search attributes were not written", "device", s.Name, "error", err)
		} else {
			p.attributes = attributes
		}
	}
	if memoChanged {
		if err := workflow.UpsertMemo(ctx, map[string]any{contract.MemoStatus: memo}); err != nil {
			workflow.GetLogger(ctx).Error("memo was not written", "device", s.Name, "error", err)
		} else {
			p.memo, p.numbers = digest, numbers
		}
	}
}

// onlyStepChanged says that nothing but the step of a running clean differs from what is
// published.
func (p *publisher) onlyStepChanged(ctx workflow.Context, s *contract.DeviceState) bool {
	now := core.AttributesOf(s)
	if now.Step == p.attributes.Step || now.Step == "" || p.attributes.Step == "" {
		return false
	}
	now.Step = p.attributes.Step
	return now == p.attributes && digestOf(ctx, core.Memo(s)) == p.memo
}

// show sets the details that the Web UI shows of this run. It leaves no event.
func show(ctx workflow.Context, d *core.State) {
	if d.Enrolled {
		workflow.SetCurrentDetails(ctx, core.Details(d))
	}
}

func digestOf(ctx workflow.Context, m contract.StatusMemo) [sha256.Size]byte {
	m.Bindings, m.Cleans = 0, 0
	text, err := json.Marshal(m)
	if err != nil {
		workflow.GetLogger(ctx).Error("memo cannot be encoded", "device", m.Name, "error", err)
	}
	return sha256.Sum256(text)
}

// updates are the search attributes as the server takes them.
func updates(a core.Attributes, at time.Time) []temporal.SearchAttributeUpdate {
	word := func(key temporal.SearchAttributeKeyKeyword, value string) temporal.SearchAttributeUpdate {
		if value == "" {
			return key.ValueUnset()
		}
		return key.ValueSet(value)
	}
	return []temporal.SearchAttributeUpdate{
		word(contract.AttrState, a.State), word(contract.AttrUUID, a.UUID), word(contract.AttrSerial, a.Serial),
		word(contract.AttrType, a.Type), word(contract.AttrHost, a.Host), word(contract.AttrInstance, a.Instance),
		word(contract.AttrStep, a.Step), word(contract.AttrFault, a.Fault),
		contract.AttrNeedsOperator.ValueSet(a.NeedsOperator), contract.AttrDirty.ValueSet(a.Dirty),
		contract.AttrUpdated.ValueSet(at),
	}
}
