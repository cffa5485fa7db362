package main

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"burnish/internal/device"
	"burnish/workflows/contract"
)

// dryRun asks what an action would do to each device, and prints the answers. What would be
// refused fails as the action itself does.
func (a *app) dryRun(ctx context.Context, l deviceClient, names []string, o action) error {
	return a.forEachDevice(len(names), parallelism, func(i int) outcome {
		name := names[i]
		rctx, cancel := a.requestContext(ctx)
		defer cancel()
		answer, err := l.Ask(rctx, name, o.verb, o.in)
		if err != nil {
			return failed(o.verb.Name, name, a.explain(ctx, l, name, err))
		}
		result := done(name, dryRunLine(name, o, answer))
		result.DryRun = &answer
		return result
	})
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
