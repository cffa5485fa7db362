package status

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"burnish/workflows/contract"
)

// Publisher writes to the server what listings and the Web UI show of a device. It writes
// changes only, because one upsert is a sixth of the server's time for a turnover
// (measured).
type Publisher struct {
	attributes attributes
	memo       [sha256.Size]byte // of its JSON, which is long, without the numbers
	// Numbers has bindings and cleans written, which alone are no reason to write; numbers are
	// those that were.
	Numbers bool
	numbers [2]int
}

// Resume returns the Publisher of a run that continues an earlier one: continue-as-new
// keeps search attributes and memo.
func Resume(ctx workflow.Context, s *contract.DeviceState) Publisher {
	if workflow.GetTypedSearchAttributes(ctx).Size() == 0 {
		return Publisher{}
	}
	return Publisher{attributes: attributesOf(s), memo: digestOf(ctx, memo(s))}
}

// Started says that this run or an earlier one has published something.
func (p *Publisher) Started() bool { return *p != Publisher{} }

// Publish writes search attributes and memo if they changed, and the details always. A
// device that is not enrolled is not published.
func (p *Publisher) Publish(ctx workflow.Context, s *contract.DeviceState) {
	if !s.Enrolled {
		return
	}
	attributes, memo := attributesOf(s), memo(s)
	digest := digestOf(ctx, memo)
	numbers := [2]int{memo.Bindings, memo.Cleans}
	memoChanged := digest != p.memo || p.Numbers && numbers != p.numbers
	p.Numbers = false
	if attributes != p.attributes || memoChanged {
		if err := workflow.UpsertTypedSearchAttributes(ctx, attributes.updates(s.UpdatedAt)...); err != nil {
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
	Show(ctx, s)
}

// OnlyStepChanged says that nothing but the step of a running clean differs from what is
// published.
func (p *Publisher) OnlyStepChanged(ctx workflow.Context, s *contract.DeviceState) bool {
	now := attributesOf(s)
	if now.Step == p.attributes.Step || now.Step == "" || p.attributes.Step == "" {
		return false
	}
	now.Step = p.attributes.Step
	return now == p.attributes && digestOf(ctx, memo(s)) == p.memo
}

// Show sets the details that the Web UI shows of this run. It leaves no event.
func Show(ctx workflow.Context, s *contract.DeviceState) {
	workflow.SetCurrentDetails(ctx, details(s))
}

func digestOf(ctx workflow.Context, m contract.StatusMemo) [sha256.Size]byte {
	m.Bindings, m.Cleans = 0, 0
	text, err := json.Marshal(m)
	if err != nil {
		workflow.GetLogger(ctx).Error("memo cannot be encoded", "device", m.Name, "error", err)
	}
	return sha256.Sum256(text)
}

// attributes are the search attributes' values; empty ones are unset.
type attributes struct {
	State, UUID, Serial, Type, Host, Instance, Step, Fault string
	NeedsOperator, Dirty                                   bool
}

func (a attributes) updates(at time.Time) []temporal.SearchAttributeUpdate {
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

func attributesOf(s *contract.DeviceState) attributes {
	a := attributes{
		State: string(s.Device.State), UUID: s.UUID, Serial: s.Host.Identity.Serial, Type: s.Enrollment.Type,
		Host: s.Enrollment.Host, NeedsOperator: needsOperator(s), Dirty: s.Device.Dirty,
	}
	if b := s.Device.Binding; b != nil {
		a.Instance = b.Instance
	}
	if f := Fault(s); f != nil {
		a.Fault = string(f.Code)
	}
	if step := cleanStep(s); step != nil {
		a.Step = step.Step
	}
	return a
}

// details is the Markdown that the Web UI shows of the workflow.
func details(s *contract.DeviceState) string {
	var b strings.Builder
	words, _ := describe(s)
	fmt.Fprintf(&b, "**%s** on %s: **%s**", s.Name, s.Enrollment.Host, words)
	if s.Device.Dirty {
		b.WriteString(", dirty")
	}
	if s.Device.NotSanitized {
		b.WriteString(", not sanitized")
	}
	b.WriteString("\n\n")
	line := func(what, text string) {
		if text != "" {
			fmt.Fprintf(&b, "- %s: %s\n", what, contract.Markdown(text))
		}
	}
	line("model", s.Host.Identity.Model)
	line("serial", s.Host.Identity.Serial)
	line("driver", s.Enrollment.Driver)
	if step := cleanStep(s); step != nil {
		c := s.Clean
		line("step", fmt.Sprintf("%s (%d of %d), scheduled %s", step.Step, c.Next+1, len(c.Plan),
			c.StepAt.Format(time.RFC3339)))
	}
	if c := s.Clean; c != nil {
		line("runbook", c.Runbook)
	}
	line("maintenance", maintenanceReason(s))
	line("pool", poolText(s))
	if o := s.Override; o != nil {
		if p := o.Pending; p != nil {
			line("override requested",
				fmt.Sprintf("by %s until %s: %s", p.RequestedBy, p.ExpiresAt.Format(time.RFC3339), p.Reason))
		}
		if p := o.Approved; p != nil {
			line("not sanitized", fmt.Sprintf("override requested by %s, approved by %s on %s: %s", p.RequestedBy, p.ApprovedBy,
				p.ApprovedAt.Format(time.RFC3339), p.Reason))
		}
	}
	if w := wait(s); w != nil {
		line("waiting", fmt.Sprintf("for the %s since %s: %s", w.For, w.Since.Format(time.RFC3339), w.Fault.Message))
	}
	line("last error", lastError(s))
	line("last refusal", s.LastRefusal)
	if f := Fault(s); f != nil {
		line("fault", string(f.Code))
		line("remedy", f.Remedy)
	}
	line("allowed actions", strings.Join(allowedActions(s), ", "))
	return b.String()
}
