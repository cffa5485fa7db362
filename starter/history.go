package main

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"burnish/internal/device"
	"burnish/workflows/contract"
)

// deviceHistory is a device's history for programs.
type deviceHistory struct {
	contract.History

	current int // number of the binding that lasts; 0 for none
}

func (a *app) historyCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "history NAME|UUID",
		Short: "list a device's bindings, cleans and acts, the newest last",
		Long: `It lists at most the last 20 bindings, 20 cleans and 20 acts, and then all of them in the
order of time: what was requested or happened, when, by whom, from where and why. By
"burnish" is what no person asked for, as the clean after a binding; by "unknown" what
came from Temporal's own tools, which need not say who uses them. For each step of a
clean it shows the bytes, the method, the run time, the time it waited, and the most
bytes that a crash can have caused to be processed twice; for a clean that failed, the
step, how far it was, the attempt and the message. It needs a running control worker.`,
		Example: "  burnish history h1_0000:01:00.0 -o json",
		Args:    oneName("NAME or UUID"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withDevice(cmd.Context(), args[0], func(l deviceClient, name string) error {
				v, err := a.answered(cmd.Context(), l, name)
				if err != nil {
					return err
				}
				p := deviceHistory{contract.HistoryOf(v), v.Binding}
				return a.emit(p, func() string { return p.table(a) })
			})
		},
	}
}

// table is the history in the format table.
func (p deviceHistory) table(a *app) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s, now %s\n", p.Name, p.State)
	if len(p.Bindings) == 0 {
		b.WriteString("\nno binding yet\n")
	} else {
		rows := [][]string{{"BINDING", "INSTANCE", "TAG", "BEGAN", "ENDED"}}
		for _, t := range p.Bindings {
			ended := cmp.Or(momentText(t.Over), yes(t.Number != p.current))
			rows = append(rows, []string{strconv.Itoa(t.Number), t.Instance, quoted(t.Tag), momentText(t.Began), ended})
		}
		b.WriteString("\n" + a.columns(rows))
	}
	if len(p.Cleans) == 0 && p.State != device.Cleaning {
		b.WriteString("\nno clean yet\n")
	}
	for _, c := range p.Cleans {
		b.WriteString("\n" + cleanSummaryLine(c) + "\n")
		if len(c.Steps) == 0 {
			continue
		}
		rows := [][]string{{"STEP", "BYTES", "METHOD", "RUN TIME", "REPROCESSED", "NOTE"}}
		for _, s := range c.Steps {
			var redone string
			if s.ReprocessedBytesMax > 0 {
				redone = "up to " + size(s.ReprocessedBytesMax)
			}
			rows = append(rows, []string{s.Step, size(s.Bytes), s.Method, roundDuration(s.RunTime).String(), redone, s.Note})
		}
		b.WriteString(a.columns(rows))
	}
	if p.State == device.Cleaning { // it is listed when it has ended
		b.WriteString("\na clean is running: see burnish show " + p.Name + "\n")
	}
	if events := p.Events(); len(events) > 0 {
		b.WriteString("\n" + a.columns(eventRows(events)))
	}
	return b.String()
}

// outcomeText gives the outcome of a clean for people.
func outcomeText(outcome string) string {
	switch outcome {
	case "steps_done":
		return "finished named steps"
	case "in_use":
		return "stopped, the device is in use"
	case "overridden":
		return "skipped, not sanitized"
	}
	return outcome
}

// timesText gives a clean's run time, and the time that it waited.
func timesText(c contract.CleanSummary) string {
	waited := max(c.EndedAt.Sub(c.StartedAt)-c.RunTime, 0)
	return fmt.Sprintf("run time %s, waited %s", roundDuration(c.RunTime), roundDuration(waited))
}

// cleanSummaryLine is one clean without its steps.
func cleanSummaryLine(c contract.CleanSummary) string {
	text := fmt.Sprintf("clean %d: %s", c.Number, outcomeText(c.Outcome))
	if c.Override != nil {
		return oneLine(text + ", " + approvalText(*c.Override))
	}
	if c.Operation != "" {
		text += " (method: " + string(c.Operation) + ")"
	}
	if c.Runbook != "" {
		text += " by the runbook " + c.Runbook + " (" + c.RunbookDigest + ")"
	}
	text += fmt.Sprintf(", from %s to %s, %s", local(c.StartedAt), local(c.EndedAt), timesText(c))
	if c.Fault != "" {
		text += ", fault " + string(c.Fault)
	}
	if where := failurePlace(c.Failure); where != "" {
		text += " at " + where
	}
	if c.Failure != nil && c.Failure.Message != "" {
		text += ": " + c.Failure.Message
	}
	if c.By != "" {
		text += ", by " + c.By
	}
	if c.Reason != "" {
		text += ", reason: " + c.Reason
	}
	return oneLine(text)
}

// eventRows are the rows of a table of events, in the order of time.
func eventRows(events []contract.Event) [][]string {
	rows := [][]string{{"TIME", "EVENT", "BY", "FROM", "REASON", "FAULT"}}
	for _, each := range events {
		e := eventOf("", each)
		rows = append(rows, []string{local(e.Time), e.Event, byText(e.By), e.From, e.Reason, string(e.Fault)})
	}
	return rows
}

// eventOf is an event of a device's history.
func eventOf(name string, e contract.Event) deviceEvent {
	shown := deviceEvent{Time: e.At.UTC(), Device: name, By: e.By, From: e.From, Reason: e.Reason}
	switch e.Kind {
	case contract.EventBindingBegan:
		shown.Kind, shown.Event = "binding", "began: "+bindingName(*e.Binding)
	case contract.EventBindingOver:
		shown.Kind, shown.Event = "binding", "ended: "+bindingName(*e.Binding)
	case contract.EventCleanBegan:
		shown.Kind, shown.Event = "clean", fmt.Sprintf("clean %d began", e.Clean.Number)
	case contract.EventCleanEnded:
		shown.Kind, shown.Fault = "clean", e.Clean.Fault
		shown.Event = fmt.Sprintf("clean %d: %s", e.Clean.Number, outcomeText(e.Clean.Outcome))
		if where := failurePlace(e.Clean.Failure); where != "" {
			shown.Event += " at " + where
		}
	default:
		shown.Kind, shown.Fault = "act", e.Act.Fault
		shown.Event = strings.TrimSpace(strings.ReplaceAll(e.Act.Verb, "_", "-") + " " + e.Act.Detail)
	}
	return shown
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
