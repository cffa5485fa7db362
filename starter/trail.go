package main

import (
	"cmp"
	"fmt"
	"strings"

	"burnish/internal/device"
	"burnish/workflows/contract"
)

// eventRows are the rows of a table of events, in the order of time.
func eventRows(events []contract.Event) [][]string {
	rows := [][]string{{"TIME", "EVENT", "BY", "FROM", "REASON", "FAULT"}}
	for _, e := range events {
		rows = append(rows, []string{local(e.At), eventText(e), byText(e.By), e.From, e.Reason, string(eventFault(e))})
	}
	return rows
}

// eventText says what happened, without who did it and why.
func eventText(e contract.Event) string {
	switch e.Kind {
	case contract.EventBindingBegan:
		return "began: " + bindingName(*e.Binding)
	case contract.EventBindingOver:
		return "ended: " + bindingName(*e.Binding)
	case contract.EventCleanBegan:
		return fmt.Sprintf("clean %d began", e.Clean.Number)
	case contract.EventCleanEnded:
		text := fmt.Sprintf("clean %d: %s", e.Clean.Number, outcomeText(e.Clean.Outcome))
		if where := failurePlace(e.Clean.Failure); where != "" {
			text += " at " + where
		}
		return text
	}
	return strings.TrimSpace(strings.ReplaceAll(e.Act.Verb, "_", "-") + " " + e.Act.Detail)
}

// eventFault is the fault of an act that failed, or of a clean.
func eventFault(e contract.Event) device.Code {
	switch {
	case e.Act != nil:
		return e.Act.Fault
	case e.Kind == contract.EventCleanEnded:
		return e.Clean.Fault
	}
	return ""
}

func bindingName(b device.Binding) string { return "binding " + bindingText(b.Number, b.Instance) }

// byText says who did something; whoever uses Temporal's own tools need not say so.
func byText(by string) string { return cmp.Or(by, "unknown") }

// momentText says when a binding began or ended, and by whom.
func momentText(m *device.Moment) string {
	if m == nil {
		return ""
	}
	return local(m.At) + " by " + byText(m.By)
}

// failurePlace says where a clean failed, as far as that is known.
func failurePlace(f *contract.CleanFailure) string {
	if f == nil || f.Step == "" {
		return ""
	}
	text := f.Step
	if f.Size > 0 {
		text += fmt.Sprintf(", %s of %s", size(f.Offset), size(f.Size))
	}
	if f.Attempt > 0 {
		text += fmt.Sprintf(", attempt %d", f.Attempt)
	}
	return text
}
