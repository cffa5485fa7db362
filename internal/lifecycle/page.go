package lifecycle

import (
	"fmt"
	"strings"
	"time"

	"burnish/workflows/contract"
)

// This file derives what listings and the Web UI show of a device.

// Attributes are the search attributes' values; empty ones are unset.
type Attributes struct {
	State, UUID, Serial, Type, Host, Instance, Step, Fault string
	NeedsOperator, Dirty                                   bool
}

// AttributesOf are those of a device.
func AttributesOf(s *contract.DeviceState) Attributes {
	a := Attributes{
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

// Details is the Markdown that the Web UI shows of the workflow.
func Details(d *State) string {
	s := d.DeviceState
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
	line("allowed actions", strings.Join(d.allowedActions(), ", "))
	return b.String()
}
