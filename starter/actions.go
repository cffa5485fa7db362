package main

import (
	"context"
	"os"
	"os/user"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"burnish/internal/device"
	"burnish/workflows/contract"
)

// action is a verb with its input, which a command sends to each of its devices.
type action struct {
	verb contract.Verb
	in   contract.Input
	// does and done are as in contract.Command.
	does, done string
	wait       bool
	// said gives the line of its answer; nil: the one of most verbs.
	said func(name string, r contract.Result) string
}

// line is its answer in one line.
func (o action) line(name string, r contract.Result) string {
	if o.said != nil {
		return o.said(name, r)
	}
	return resultLine(name, o.done, r)
}

// reasonFlag adds the flag by which an operator says why.
func reasonFlag(cmd *cobra.Command, reason *string, usage string) {
	cmd.Flags().StringVar(reason, "reason", "", usage)
}

// operator says who runs this command, for the device's history.
func operator() contract.Caller {
	who, err := user.Current()
	if err != nil {
		return contract.Caller{}
	}
	host, err := os.Hostname()
	if err != nil {
		return contract.Caller{By: who.Username}
	}
	return contract.Caller{By: who.Username + "@" + host}
}

// actOnDevices sends the action to the named devices, and to those that a pattern or the
// selectors match.
func (a *app) actOnDevices(ctx context.Context, c *selection, names []string, o action) error {
	limited, cancel := a.waitLimit(ctx)
	defer cancel()
	byFilter := len(names) == 0 || len(c.globs) > 0
	ask := question{does: o.does, n: len(names), above: asksAbove(o.verb.May, byFilter), yes: c.yes || c.dryRun}
	if !byFilter {
		if err := a.refuse(ask); err != nil { // before a server is contacted
			return err
		}
	}
	return a.devices(ctx, func(l deviceClient) error {
		ask.show = func() (string, error) {
			views, err := a.named(ctx, l, names)
			return a.affected(views), err
		}
		if byFilter {
			views, err := a.find(ctx, l, &c.filter)
			if err != nil {
				return err
			}
			if len(names) == 0 {
				ask.show = func() (string, error) { return a.affected(views), nil }
			}
			for _, v := range views {
				if !slices.Contains(names, v.Name) {
					names = append(names, v.Name)
				}
			}
			if len(names) == 0 {
				a.note("", "no device matches these selectors")
			}
			ask.n = len(names)
		}
		switch err := a.confirm(ctx, ask); {
		case err != nil:
			return err
		case c.dryRun:
			return a.dryRun(ctx, l, names, o)
		case !byFilter && len(names) == 1:
			return a.actOne(ctx, limited, l, names[0], o)
		}
		return a.actMany(ctx, limited, l, names, o)
	})
}

// actOne sends the action to one device, and prints its whole answer.
func (a *app) actOne(ctx, limited context.Context, l deviceClient, name string, o action) error {
	result, err := a.act(ctx, limited, l, name, o, make(chan struct{}, 1))
	if err != nil {
		return err
	}
	return a.emit(result, func() string { return o.line(name, result) + "\n" })
}

// act sends the action to one device, and waits for the end of its clean if that is asked for. slots
// bounds the concurrent requests.
func (a *app) act(ctx, limited context.Context, l deviceClient, name string, o action,
	slots chan struct{}) (contract.Result, error) {
	slots <- struct{}{}
	result, err := a.send(ctx, l, name, o)
	<-slots
	if err == nil && o.wait {
		result.Device, err = a.await(ctx, limited, l, name, slots)
	}
	return result, err
}

// actMany sends the action to all devices, and then waits for them.
func (a *app) actMany(ctx, limited context.Context, l deviceClient, names []string, o action) error {
	slots := make(chan struct{}, parallelism)
	width := parallelism
	if o.wait {
		width = len(names)
	}
	return a.forEachDevice(len(names), width, false, func(i int) outcome {
		name := names[i]
		result, err := a.act(ctx, limited, l, name, o, slots)
		return outcomeOf(o.verb.Name, name, o.line(name, result), err)
	})
}

// send sends one action to one device.
func (a *app) send(ctx context.Context, l deviceClient, name string, o action) (contract.Result, error) {
	if f := notAsked(ctx, name); f != nil {
		return contract.Result{}, f
	}
	return ask(ctx, a, l, name, func(ctx context.Context) (contract.Result, error) {
		return l.Do(ctx, name, o.verb, o.in)
	})
}

// dryRun asks what an action would do to each device, and prints the answers. What would be
// refused fails as the action itself does.
func (a *app) dryRun(ctx context.Context, l deviceClient, names []string, o action) error {
	return a.forEachDevice(len(names), parallelism, false, func(i int) outcome { return a.dryRunOne(ctx, l, names[i], o) })
}

func (a *app) dryRunOne(ctx context.Context, l deviceClient, name string, o action) outcome {
	answer, err := ask(ctx, a, l, name, func(ctx context.Context) (contract.DryRun, error) {
		return l.Ask(ctx, name, o.verb, o.in)
	})
	result := outcomeOf(o.verb.Name, name, dryRunLine(name, o, answer), err)
	if err == nil {
		result.DryRun = &answer
	}
	return result
}

// dryRunLine says in one line what an action would do.
func dryRunLine(name string, o action, would contract.DryRun) string {
	state := would.State.String()
	if would.State == device.Absent {
		state = "not enrolled"
	}
	parts := []string{name + ": would " + o.does + " it, then " + state}
	if would.Already {
		parts[0] = name + ": would change nothing: already " + o.done + " (state: " + state + ")"
	}
	if would.Instance != "" {
		parts = append(parts, "ends the binding of instance "+would.Instance)
	}
	if len(would.Steps) > 0 {
		parts = append(parts, "steps "+strings.Join(would.Steps, ", "))
	}
	if would.Note != "" {
		parts = append(parts, would.Note)
	}
	return oneLine(strings.Join(parts, "; "))
}

// noteNoDryRun says in the help of a command that changes something, and so takes a reason,
// where it has no dry run.
func noteNoDryRun(cmd *cobra.Command) {
	if flags := cmd.Flags(); flags.Lookup("reason") != nil && flags.Lookup("dry-run") == nil {
		cmd.Long = strings.TrimPrefix(cmd.Long+"\n\n"+noDryRun, "\n\n")
	}
}

const noDryRun = "It has no --dry-run."
