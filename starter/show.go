package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"burnish/internal/device"
	"burnish/workflows/client"
	"burnish/workflows/contract"
)

func (a *app) showCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "show NAME|UUID",
		Short: "show one device and the progress of its running step",
		Long: `If no control worker answers, it shows what the Temporal server knows, and says so on
standard error.`,
		Example: "  burnish show h1_0000:01:00.0",
		Args:    oneName("NAME or UUID"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withStatus(cmd.Context(), args[0], func(v contract.DeviceStatus) error {
				return a.emit(v, func() string { return a.deviceTable(v) })
			})
		},
	}
}

func (a *app) stepsCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "steps NAME",
		Short:   "list the steps of a device's full clean, in order",
		Long:    "The table also lists the arguments that clean --arg and runbooks may give each step.",
		Example: "  burnish steps h1_0000:01:00.0 -o json",
		Args:    oneName("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withStatus(cmd.Context(), args[0], func(v contract.DeviceStatus) error {
				planned := append([]contract.CleanStep{}, v.Steps...)
				return a.emit(planned, func() string {
					rows := [][]string{{"STEP", "PRIORITY", "INTERFACE"}}
					for _, s := range planned {
						rows = append(rows, []string{s.Step, priority(s), s.Interface})
					}
					withArguments(rows)
					return a.columns(rows)
				})
			})
		},
	}
}

// withStatus gives show the device of a NAME or UUID.
func (a *app) withStatus(ctx context.Context, arg string, show func(contract.DeviceStatus) error) error {
	return a.withDevice(ctx, arg, func(l deviceClient, name string) error {
		v, note, err := a.deviceStatus(ctx, l, name)
		if err != nil {
			return err
		}
		if note != "" {
			a.note(name, note)
		}
		return show(v)
	})
}

// withDevice connects, and gives do the device's name, which arg is or whose UUID it is.
func (a *app) withDevice(ctx context.Context, arg string, do func(l deviceClient, name string) error) error {
	name, err := canonical(arg)
	if err != nil {
		return err
	}
	return a.devices(ctx, func(l deviceClient) error {
		if id, ok := standardUUID(arg); ok {
			if name, err = a.nameOf(ctx, l, id, name); err != nil {
				return err
			}
		}
		return do(l, name)
	})
}

// nameOf resolves a device's UUID. None found: it may be a NAME of that form.
func (a *app) nameOf(ctx context.Context, l deviceClient, id, name string) (string, error) {
	rctx, cancel := a.requestContext(ctx)
	defer cancel()
	found, err := l.List(rctx, client.Filter{UUID: id})
	if err != nil {
		return "", a.explain(ctx, l, "", err)
	}
	if len(found) == 0 {
		return name, nil
	}
	return found[0].Name, nil
}

// standardUUID gives a UUID of the 36-character form in lower case.
func standardUUID(s string) (string, bool) {
	if len(s) != 36 {
		return "", false
	}
	id, err := uuid.Parse(s)
	return id.String(), err == nil
}

// deviceTable is one device for people: what does not apply is left out.
func (a *app) deviceTable(v contract.DeviceStatus) string {
	var rows [][]string
	add := func(key, value string) {
		if value != "" {
			rows = append(rows, []string{key, value})
		}
	}
	add("name", v.Name)
	add("uuid", v.UUID)
	add("state", string(v.DeviceState))
	add("dirty", yes(v.Dirty))
	add("status", string(v.Status))
	if v.Maintenance {
		add("maintenance", v.MaintenanceReason)
	}
	var asked contract.StatusOverride
	if v.Override != nil {
		asked = *v.Override
	}
	switch {
	case v.NotSanitized && asked.Approved != nil:
		add("sanitized", "no: "+approvalText(*asked.Approved))
	case v.NotSanitized:
		add("sanitized", "no: returned without a full clean")
	}
	if p := asked.Pending; p != nil {
		add("override", fmt.Sprintf("requested by %s on %s, reason: %s", p.RequestedBy, local(p.RequestedAt), p.Reason))
		add("to approve", fmt.Sprintf("until %s, somebody else: burnish override %s --approve %s", local(p.ExpiresAt),
			v.Name, p.ID))
	}
	if v.InstanceUUID != nil {
		add("binding", bindingText(v.Binding, *v.InstanceUUID))
	}
	add("claimed by", v.ClaimedBy)
	if v.CleanStep != nil {
		add("step", fmt.Sprintf("%s (%s, priority %s)", v.CleanStep.Step, v.CleanStep.Interface, priority(*v.CleanStep)))
	}
	add("runbook", v.Runbook)
	add("progress", progressLine(v.Progress))
	if p := v.Progress; p != nil && !p.ProgressAt.IsZero() {
		add("last progress", age(a.now(), p.ProgressAt)+" ago, "+local(p.ProgressAt))
	}
	if p := v.Progress; p != nil && !p.BudgetEnds.IsZero() {
		add("budget ends", local(p.BudgetEnds))
	}
	if w := v.Waiting; w != nil {
		add("waiting", fmt.Sprintf("%s, for %s: %s", w.For, age(a.now(), w.Since), w.Message))
	}
	add("needs operator", yes(v.NeedsOperator))
	add("fault", v.Fault)
	add("last error", v.LastError)
	add("last refusal", v.LastRefusal)
	add("remedy", v.Remedy)
	add("host", v.Hostname)
	add("type", v.Type)
	add("driver", v.Driver)
	add("vendor", v.Vendor)
	add("model", v.Model)
	add("serial", v.Serial)
	add("mac", v.MAC)
	add("method", string(v.Operation))
	add("erase policy", v.ErasePolicy)
	add("one-time-use", yes(v.OneTimeUse))
	if v.LiveMigratable {
		add("live-migratable", "yes")
	}
	add("owner", string(v.Owner))
	add("labels", device.LabelsText(v.Labels))
	if v.Pool != nil {
		for _, row := range poolRows(*v.Pool) {
			add(row[0], row[1])
		}
	}
	steps := make([]string, len(v.Steps))
	for i, s := range v.Steps {
		steps[i] = s.Step
	}
	add("steps", strings.Join(steps, ", "))
	if n := len(v.Cleans); n > 0 {
		last := v.Cleans[n-1]
		text := fmt.Sprintf("%s, ended %s, %s", outcomeText(last.Outcome), local(last.EndedAt), timesText(last))
		if last.Override != nil {
			text = outcomeText(last.Outcome)
		}
		if last.Runbook != "" {
			text += ", runbook " + last.Runbook
		}
		if last.Fault != "" {
			text += ", fault " + string(last.Fault)
		}
		add("last clean", text)
		add("failed step", failurePlace(last.Failure))
	}
	add("created", local(v.CreatedAt))
	add("updated", local(v.UpdatedAt))
	return a.pairs(rows)
}

// approvalText says by whom a device was returned without a clean.
func approvalText(o contract.Override) string {
	return fmt.Sprintf("override requested by %s on %s, approved by %s on %s, reason: %s",
		o.RequestedBy, local(o.RequestedAt), o.ApprovedBy, local(o.ApprovedAt), o.Reason)
}

// bindingText names the binding of an instance.
func bindingText(number int, instance string) string {
	return fmt.Sprintf("%d of instance %s", number, instance)
}

// priority gives a step's priority as it was written.
func priority(s contract.CleanStep) string {
	return strconv.FormatFloat(s.Priority, 'f', -1, 64)
}

// progressLine says how far a step is, and what it waits for.
func progressLine(p *contract.StatusProgress) string {
	if p == nil {
		return ""
	}
	var parts []string
	if p.Total > 0 {
		parts = append(parts, fmt.Sprintf("%.1f %% (%s of %s)", p.Percent, size(p.Done), size(p.Total)))
	}
	if p.Attempt > 1 {
		parts = append(parts, fmt.Sprintf("attempt %d", p.Attempt))
	}
	if p.Waiting != "" {
		parts = append(parts, p.Waiting)
	}
	return strings.Join(parts, ", ")
}
