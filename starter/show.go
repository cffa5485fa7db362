package main

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
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

// withOneOrAll is withDevice, or, without an argument, gives "" for all devices.
func (a *app) withOneOrAll(ctx context.Context, args []string, do func(l deviceClient, name string) error) error {
	if len(args) == 0 {
		return a.devices(ctx, func(l deviceClient) error { return do(l, "") })
	}
	return a.withDevice(ctx, args[0], do)
}

// nameOf resolves a device's UUID. None found: it may be a NAME of that form.
func (a *app) nameOf(ctx context.Context, l deviceClient, id, name string) (string, error) {
	found, err := a.listed(ctx, l, client.Filter{client.ByUUID: {id}})
	if err != nil || len(found) == 0 {
		return name, err
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

// deviceStatus gives one device as its workflow reports it, with the progress of the running
// step. If no worker answers, the status is the server's own, and note says so.
func (a *app) deviceStatus(ctx context.Context, l deviceClient,
	name string) (v contract.DeviceStatus, note string, err error) {
	v, err = ask(ctx, a, l, name, func(ctx context.Context) (contract.DeviceStatus, error) {
		v, unanswered, err := client.Status(ctx, l, name, client.QueryTimeout, a.now())
		if unanswered != nil {
			note = "no control worker answered (" + reason(unanswered) + "); this is what the Temporal server knows"
		}
		return v, err
	})
	return v, note, err
}

// answered is deviceStatus where only the workflow's own answer, which has the history, will do.
func (a *app) answered(ctx context.Context, l deviceClient, name string) (contract.DeviceStatus, error) {
	return ask(ctx, a, l, name, func(ctx context.Context) (contract.DeviceStatus, error) {
		v, unanswered, err := client.Status(ctx, l, name, a.timeout.limit, a.now())
		return v, cmp.Or(err, unanswered)
	})
}

// queried gives a device as its workflow reports it.
func (a *app) queried(ctx context.Context, l deviceClient, name string) (contract.DeviceStatus, error) {
	return ask(ctx, a, l, name, func(ctx context.Context) (contract.DeviceStatus, error) { return l.Query(ctx, name) })
}

// reason says in a few words why a query was not answered.
func reason(err error) string {
	if client.TimedOut(err) {
		return fmt.Sprintf("none within %s", client.QueryTimeout)
	}
	return err.Error()
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
	for _, item := range device.SetupItems {
		if entries, recorded := v.Setup[item]; recorded {
			add(strings.ReplaceAll(item, "_", " "), setupText(entries))
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

// setupText is one item of how a server was set up when it was enrolled.
func setupText(entries map[string]string) string {
	var all []string
	for _, key := range slices.Sorted(maps.Keys(entries)) {
		all = append(all, key+": "+entries[key])
	}
	return cmp.Or(strings.Join(all, "; "), "none")
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

// poolRows are the pool of a device for people.
func poolRows(p contract.StatusPool) [][]string {
	model := "pre-allocation: the profile stays on the server"
	if p.Dynamic {
		model = "dynamic: a profile only while the server is used"
	}
	profile := p.Profile
	switch {
	case p.Applying && profile == "":
		profile = "requested, not recorded yet"
	case profile == "" && p.Dynamic:
		profile = "none of ours"
	}
	rows := [][]string{
		{"pool", p.Appliance + ", " + model}, {"server hardware", p.Hardware}, {"profile template", p.Template},
		{"applied profile", profile},
	}
	if p.LostRace {
		rows = append(rows, []string{"lost race", "yes: others took the server while Burnish was about to use it"})
	}
	return rows
}
