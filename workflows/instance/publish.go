package instance

import (
	"fmt"
	"strings"

	"go.temporal.io/sdk/workflow"

	"burnish/workflows/contract"
)

// published is what was last written to the server.
type published struct{ instance, host string }

// resume is what an earlier run has published: continue-as-new keeps search attributes.
func resume(s *contract.InstanceState) published { return published{s.UUID, hostOf(s.Devices)} }

// publish writes the search attributes if they changed, and the details always.
func (r *run) publish(ctx workflow.Context) {
	r.UpdatedAt = workflow.Now(ctx).UTC()
	if now := resume(r.InstanceState); now != r.published {
		host := contract.AttrHost.ValueUnset()
		if now.host != "" {
			host = contract.AttrHost.ValueSet(now.host)
		}
		if err := workflow.UpsertTypedSearchAttributes(ctx, contract.AttrInstance.ValueSet(now.instance), host); err != nil {
			workflow.GetLogger(ctx).Error("search attributes were not written", "instance", r.UUID, "error", err)
		} else {
			r.published = now
		}
	}
	workflow.SetCurrentDetails(ctx, r.details())
}

// details is the Markdown that the Web UI shows of the workflow. Tags are the tenant's text:
// they are quoted.
func (r *run) details() string {
	var b strings.Builder
	fmt.Fprintf(&b, "**%s**", r.Phase)
	if r.doing != "" {
		fmt.Fprintf(&b, ", %s", r.doing)
		if r.step != "" {
			fmt.Fprintf(&b, " (%s)", r.step)
		}
	}
	b.WriteString("\n\n")
	show := func(devices []contract.HeldDevice) {
		for _, d := range devices {
			fmt.Fprintf(&b, "- %s on %s, binding %d", d.Name, d.Host, d.Binding)
			if d.Tag != "" {
				fmt.Fprintf(&b, ", tag `%s`", strings.ReplaceAll(fmt.Sprintf("%q", d.Tag), "`", "'"))
			}
			b.WriteString("\n")
		}
	}
	show(r.Devices)
	if m := r.Move; m != nil {
		fmt.Fprintf(&b, "\n%s from %s to %s since %s; the source:\n\n", m.Verb, m.From, m.To,
			m.Since.UTC().Format("2006-01-02T15:04:05Z"))
		show(m.Source)
	}
	if len(r.Unsettled) > 0 {
		b.WriteString("\nnot its own, and not answered yet:\n\n")
		show(r.Unsettled)
	}
	if r.LastError != "" {
		fmt.Fprintf(&b, "\nlast error: %s\n", r.LastError)
	}
	return b.String()
}
