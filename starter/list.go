package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"burnish/starter/internal/terminal"
	"burnish/workflows/contract"
)

// deviceList is the listing for programs.
type deviceList struct {
	Devices []contract.DeviceStatus `json:"devices"`
}

func (a *app) listCommand() *cobra.Command {
	var f filter
	cmd := &cobra.Command{
		Use:   "list",
		Short: "list devices",
		Long: `STEP is the running step, or queued:N for place N in the queue of the limits; show says why.
AGE is the time since the device last changed. A listing may miss a device
that changes while the list is read. show is exact.`,
		Example: `  burnish list --state error,pending_cleaning --host h1
  burnish list --needs-operator -o json`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := f.check(cmd.Flags()); err != nil {
				return err
			}
			return a.devices(cmd.Context(), func(l deviceClient) error {
				views, err := a.find(cmd.Context(), l, &f)
				if err != nil {
					return err
				}
				limits := a.withPlaces(cmd.Context(), l, views)
				if f.needsOperator && limits.Limits == nil {
					limits = a.limits(cmd.Context(), l, "")
				}
				a.noteAlarms(limits.Alarms)
				return a.emit(deviceList{Devices: views}, func() string { return a.listing(views) })
			})
		},
	}
	flags := cmd.Flags()
	f.selectors(flags)
	flags.BoolVar(&f.needsOperator, "needs-operator", false, "only those that need an operator")
	flags.BoolVar(&f.awaitingCleaning, "awaiting-cleaning", false, "only those that wait for a clean: pending_cleaning, and error while dirty")
	flags.BoolVar(&f.oneTimeUse, "one-time-use", false, "only those that are cleaned after every tenant")
	flags.BoolVar(&f.all, "all", false, "include retired devices")
	return cmd
}

// find gives the devices that match the filter, from the listing alone: no workflow
// is queried.
func (a *app) find(ctx context.Context, l deviceClient, f *filter) ([]contract.DeviceStatus, error) {
	rctx, cancel := a.requestContext(ctx)
	defer cancel()
	found, err := l.List(rctx, f.query())
	if err != nil {
		return nil, a.explain(ctx, l, "", err)
	}
	return f.keep(found), nil
}

// listing is the table of a listing. Where the terminal is too narrow, columns fall away.
func (a *app) listing(views []contract.DeviceStatus) string {
	color := func(title string) func(int, string) terminal.Color {
		return func(_ int, cell string) terminal.Color { return colorOf(title, cell) }
	}
	t := terminal.Table{Columns: []terminal.Column{
		{Title: "NAME", Keep: 100, Least: 16},
		{Title: "STATE", Keep: 95, Color: color("STATE")},
		{Title: "DIRTY", Keep: 60},
		{Title: "HOST", Keep: 75, Least: 8},
		{Title: "TYPE", Keep: 50},
		{Title: "STEP", Keep: 80, Least: 8},
		{Title: "INSTANCE", Keep: 55, Least: 9},
		{Title: "NEEDS-OPERATOR", Keep: 65, Color: color("NEEDS-OPERATOR")},
		{Title: "FAULT", Keep: 90, Least: 10, Color: color("FAULT")},
		{Title: "AGE", Keep: 70},
	}}
	for _, v := range views {
		var step, instance string
		if v.CleanStep != nil {
			step = v.CleanStep.Step
		}
		if w := v.Waiting; w != nil && w.Place > 0 {
			step = strings.TrimSpace(fmt.Sprintf("%s queued:%d", step, w.Place))
		}
		if v.InstanceUUID != nil {
			instance = *v.InstanceUUID
		}
		t.Rows = append(t.Rows, []string{
			v.Name, string(v.DeviceState), yes(v.Dirty), v.Hostname, v.Type, step, instance,
			yes(v.NeedsOperator), v.Fault, age(a.now(), v.UpdatedAt),
		})
	}
	return t.Text(a.width(), a.palette())
}
