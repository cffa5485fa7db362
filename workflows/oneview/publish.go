package oneview

import (
	"fmt"
	"strings"
	"time"

	"go.temporal.io/sdk/workflow"

	"burnish/internal/device"
	"burnish/workflows/calls"
	"burnish/workflows/contract"
)

// publish writes what the Web UI shows, and the alarm if it changed.
func (p *polls) publish(ctx workflow.Context) {
	s := p.state
	var fault device.Code
	if s.NeedsOperator {
		fault = s.Fault.Code
	}
	calls.PublishFault(ctx, &s.Published, fault)
	workflow.SetCurrentDetails(ctx, details(s))
}

// details is the Markdown that the Web UI shows of the workflow.
func details(s *contract.OneViewState) string {
	var b strings.Builder
	fmt.Fprintf(&b, "**%s**: ", s.Appliance)
	if s.LastGood.IsZero() {
		b.WriteString("no good round yet\n\n")
	} else {
		c := s.Last
		fmt.Fprintf(&b, "%d servers, %d devices, %d taken, %d freed, %d taken on clean fail, %d failed\n\n", c.Servers,
			c.Devices, c.Taken, c.Freed, c.TakenOnCleanFail, c.Failed)
		fmt.Fprintf(&b, "- last good round: %s\n", s.LastGood.Format(time.RFC3339))
	}
	if s.NeedsOperator {
		fmt.Fprintf(&b, "- **needs the operator**: no good round since %s: %s; %s\n", s.Failing.Format(time.RFC3339),
			s.Fault.Message, s.Fault.Remedy)
	}
	if s.Fault != nil {
		fmt.Fprintf(&b, "- the last round was not complete: %d pages were not read: %s: %s\n", s.Unread, s.Fault.Code,
			s.Fault.Error())
	}
	switch r := s.Round; {
	case r != nil:
		fmt.Fprintf(&b, "- a round runs since %s: %d of %d servers\n", r.StartedAt.Format(time.RFC3339), r.Start, r.Total)
	case s.Interval == 0:
		b.WriteString("- polls are off (periodic_check_interval: 0); the signal look_now asks for a round\n")
	case !s.Next.IsZero():
		fmt.Fprintf(&b, "- next round: %s\n", s.Next.UTC().Format(time.RFC3339))
	}
	for _, m := range s.Problems {
		fmt.Fprintf(&b, "- %s: %s\n", m.Name, m.What)
	}
	return b.String()
}
