package main

import (
	"cmp"
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"burnish/internal/device"
	"burnish/starter/internal/jsonpath"
	"burnish/starter/internal/live"
	"burnish/starter/internal/terminal"
	"burnish/workflows/client"
	"burnish/workflows/contract"
)

// deviceList is the listing for programs.
type deviceList struct {
	Devices []contract.DeviceStatus `json:"devices"`
}

func (a *app) listCommand() *cobra.Command {
	var (
		f       filter
		columns []string
		sortBy  string
		watch   bool
	)
	var o listOutput
	cmd := &cobra.Command{
		Use:   "list [NAME…]",
		Short: "list devices",
		Long: `STEP is the running step, or queued:N for place N in the queue of the limits; show says why.
AGE is the time since the device last changed. A listing may miss a device
that changes while the list is read. show is exact.

A NAME may be a pattern in quotes: * is any text, ? one character, [ab] one of several. The
values of one flag are alternatives, and all flags must match. A SELECTOR is KEY=VALUE,
KEY!=VALUE, KEY (any value) or !KEY (none); of several with commas, all must match.

On a terminal that is too narrow, columns fall away; into a pipe or file all are written.
-o wide has more of them. The columns, of which --columns chooses any, and by one of which
--sort-by sorts, downwards as -COLUMN:

` + columnLines() + `

-o jsonpath=TEMPLATE prints parts of the object that -o json prints, as kubectl does. With
--watch it prints parts of one device.`,
		Example: `  burnish list --state error,pending_cleaning --host h1
  burnish list 'h1_*' --label rack=a1 --older-than 2d
  burnish list --needs-operator -o json
  burnish list --columns name,model,serial --sort-by -age
  burnish list -o jsonpath='{range .devices[*]}{.name}{"\n"}{end}'
  burnish list --host h1 --watch`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := f.setNames(args); err != nil {
				return err
			}
			if err := f.check(cmd.Flags()); err != nil {
				return err
			}
			s, err := a.shaped(o.wide, columns, sortBy)
			if err != nil {
				return err
			}
			return a.devices(cmd.Context(), func(l deviceClient) error {
				if watch {
					return a.watchList(cmd.Context(), l, &f, o, s)
				}
				views, err := a.find(cmd.Context(), l, &f)
				if err != nil {
					return err
				}
				limits := client.ShowPlaces(cmd.Context(), l, views)
				if f.by[client.ByNeedsOperator] != nil && limits.Limits == nil {
					limits = client.Limits(cmd.Context(), l, "")
				}
				for _, alarm := range limits.Alarms { // no device stands for it
					a.note("", fmt.Sprintf("the limits need the operator (%d wait): %s; %s", alarm.Waiting, alarm.Message,
						alarm.Remedy))
				}
				s.sort(views)
				return a.emitList(o, s, deviceList{Devices: views})
			})
		},
	}
	flags := cmd.Flags()
	f.selectors(flags)
	fieldFlags(flags, listedBy)
	flags.BoolVar(&f.all, "all", false, "include retired devices")
	funcFlag(flags, "output", "o", "table", "`FORMAT`: table, wide, name, json, yaml or jsonpath=TEMPLATE",
		func(text string) error { return o.set(text, &a.format) })
	flags.StringSliceVar(&columns, "columns", nil, "`A,B`: show these columns, in this order")
	flags.StringVar(&sortBy, "sort-by", "", "`COLUMN`: sort by this column, or by -COLUMN downwards (by name)")
	flags.BoolVarP(&watch, "watch", "w", false, "print a device again whenever it changes, until Ctrl-C")
	return cmd
}

// listOutput is what the -o of list has beside the formats of every command.
type listOutput struct {
	wide, name bool
	template   *jsonpath.Template
}

// set takes a format's name, or a template.
func (o *listOutput) set(text string, f *format) error {
	*o, *f = listOutput{}, formatTable
	switch kind, rest, _ := strings.Cut(text, "="); {
	case text == "wide":
		o.wide = true
	case text == "name":
		o.name = true
	case kind == "jsonpath":
		if strings.Contains(rest, ".items") {
			return fmt.Errorf(`of jsonpath: a listing is {"devices":[…]}, such as {.devices[*].name}; it has no items`)
		}
		template, err := jsonpath.Parse(rest)
		if err != nil {
			return fmt.Errorf("of jsonpath, such as jsonpath={.devices[*].name}: %w", err)
		}
		o.template = &template
	case oneOf(f, text, formats) != nil:
		return fmt.Errorf("must be one of table, wide, name, json, yaml, jsonpath=TEMPLATE")
	}
	return nil
}

// printTemplate prints parts of an object.
func (a *app) printTemplate(o listOutput, object any) error {
	if err := o.template.Print(a.stdout, object); err != nil {
		return failf(device.CodeInvalid, "see burnish list -o json", "jsonpath: %s", err)
	}
	return nil
}

// emitList prints a listing in its format.
func (a *app) emitList(o listOutput, s shape, list deviceList) error {
	switch {
	case o.template != nil:
		return a.printTemplate(o, list)
	case o.name:
		var names strings.Builder
		for _, v := range list.Devices {
			names.WriteString(oneLine(v.Name) + "\n")
		}
		return a.print(names.String())
	}
	return a.emit(list, func() string { return terminal.NewTable(list.Devices, s.columns).Text(a.width(), a.palette()) })
}

// watchList shows the listing, and then each device again whenever it changes.
func (a *app) watchList(ctx context.Context, l deviceClient, f *filter, o listOutput, s shape) error {
	known := map[string]contract.DeviceStatus{}
	look := func(ctx context.Context, view *live.Screen, first bool) (int, bool, error) {
		views, err := a.find(ctx, l, f)
		if err != nil {
			return len(known), false, err
		}
		client.ShowPlaces(ctx, l, views)
		s.sort(views)
		if view != nil {
			view.Show(live.Page{
				Table: terminal.NewTable(views, s.columns), Time: a.now(), Head: fmt.Sprintf("%d devices", len(views)),
				Keys: mapped(views, func(v contract.DeviceStatus) string { return v.Name }),
			})
			return len(views), false, nil
		}
		var changed []int
		for i, v := range views {
			if before, ok := known[v.Name]; !ok || !reflect.DeepEqual(before, v) {
				changed = append(changed, i)
			}
			// A listing lags: what it misses for a moment is not printed when it is back.
			known[v.Name] = v
		}
		return len(views), false, a.printChanged(o, s, views, changed, first)
	}
	lines := o.name || o.template != nil
	return a.follow(ctx, following{lines: lines, open: a.opening(l), look: look, stopped: a.stopped})
}

// printChanged prints devices of a listing that changed, in the columns of the whole listing.
func (a *app) printChanged(o listOutput, s shape, all []contract.DeviceStatus, changed []int, first bool) error {
	if a.format == formatTable && !o.name && o.template == nil {
		lines := terminal.NewTable(all, s.columns).Lines(changed, a.width(), a.palette())
		if !first {
			lines = lines[1:]
		}
		if len(lines) == 0 {
			return nil
		}
		return a.print(strings.Join(lines, "\n") + "\n")
	}
	for _, i := range changed {
		var err error
		if v := all[i]; o.template != nil {
			err = a.printTemplate(o, v)
		} else {
			err = a.printNext(v, func() string { return oneLine(v.Name) + "\n" })
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// listColumn is a column that a listing may have.
type listColumn = terminal.Column[contract.DeviceStatus]

// listColumns are all columns, in their order; those from usual on are columns of -o wide and --columns only.
func listColumns(now func() time.Time) (columns []listColumn, usual int) {
	add := func(title string, keep, least int, text func(v contract.DeviceStatus) string) {
		columns = append(columns, listColumn{Title: title, Keep: keep, Least: least, Text: text})
	}
	since := func(title string, keep int, at func(contract.DeviceStatus) time.Time) {
		add(title, keep, 0, func(v contract.DeviceStatus) string { return age(now(), at(v)) })
		columns[len(columns)-1].Order = func(a, b contract.DeviceStatus) int { return at(b).Compare(at(a)) }
	}
	add("NAME", 100, 16, func(v contract.DeviceStatus) string { return v.Name })
	add("STATE", 95, 12, func(v contract.DeviceStatus) string { return string(v.DeviceState) })
	add("DIRTY", 60, 0, func(v contract.DeviceStatus) string { return yes(v.Dirty) })
	add("HOST", 75, 8, func(v contract.DeviceStatus) string { return v.Hostname })
	add("TYPE", 50, 0, func(v contract.DeviceStatus) string { return v.Type })
	add("STEP", 80, 8, stepText)
	add("INSTANCE", 55, 9, func(v contract.DeviceStatus) string { return deref(v.InstanceUUID) })
	add("NEEDS-OPERATOR", 52, 0, func(v contract.DeviceStatus) string { return yes(v.NeedsOperator) })
	add("FAULT", 90, 10, func(v contract.DeviceStatus) string { return v.Fault })
	since("AGE", 70, func(v contract.DeviceStatus) time.Time { return v.UpdatedAt })
	usual = len(columns)
	add("VENDOR", 25, 6, func(v contract.DeviceStatus) string { return v.Vendor })
	add("MODEL", 45, 8, func(v contract.DeviceStatus) string { return v.Model })
	add("SERIAL", 40, 8, func(v contract.DeviceStatus) string { return v.Serial })
	add("SIZE", 30, 0, func(v contract.DeviceStatus) string {
		if v.SizeBytes == 0 {
			return ""
		}
		return size(v.SizeBytes)
	})
	columns[len(columns)-1].Order = func(a, b contract.DeviceStatus) int { return cmp.Compare(a.SizeBytes, b.SizeBytes) }
	add("DRIVER", 20, 0, func(v contract.DeviceStatus) string { return v.Driver })
	add("METHOD", 35, 0, func(v contract.DeviceStatus) string { return string(v.Operation) })
	add("OWNER", 15, 0, func(v contract.DeviceStatus) string { return string(v.Owner) })
	add("ON-HOLD", 28, 8, func(v contract.DeviceStatus) string {
		if !v.Maintenance {
			return ""
		}
		return cmp.Or(v.MaintenanceReason, "yes")
	})
	add("WAITS-FOR", 27, 8, func(v contract.DeviceStatus) string {
		if v.Waiting == nil {
			return ""
		}
		return v.Waiting.For
	})
	add("LABELS", 26, 8, func(v contract.DeviceStatus) string { return device.LabelsText(v.Labels) })
	since("ENROLLED", 10, func(v contract.DeviceStatus) time.Time { return v.CreatedAt })
	add("UUID", 5, 9, func(v contract.DeviceStatus) string { return v.UUID })
	return columns, usual
}

// stepText is the running step, and the place in the queue of the limits.
func stepText(v contract.DeviceStatus) string {
	step := ""
	if v.CleanStep != nil {
		step = v.CleanStep.Step
	}
	if w := v.Waiting; w != nil && w.Place > 0 {
		step = strings.TrimSpace(fmt.Sprintf("%s queued:%d", step, w.Place))
	}
	return step
}

// columnNames names all columns.
func columnNames() []string {
	columns, _ := listColumns(nil)
	return mapped(columns, func(c listColumn) string { return c.Title })
}

// columnLines are the names for the help.
func columnLines() string {
	return "  " + strings.Join(terminal.Wrap(strings.ToLower(strings.Join(columnNames(), ", ")), 80), "\n  ")
}

// columnNamed finds a column, in whatever case its name is written.
func columnNamed(columns []listColumn, flag, name string) (listColumn, error) {
	for _, c := range columns {
		if strings.EqualFold(c.Title, strings.TrimSpace(name)) {
			return c, nil
		}
	}
	return listColumn{}, usagef("--%s %q: must be one of %s", flag, name, strings.Join(columnNames(), ", "))
}

// shape is how a listing is shown: its columns and its order.
type shape struct {
	columns []listColumn
	sort    func([]contract.DeviceStatus)
}

// shaped reads --columns, --sort-by and -o wide.
func (a *app) shaped(wide bool, columns []string, sortBy string) (shape, error) {
	all, usual := listColumns(a.now)
	s := shape{columns: all, sort: func([]contract.DeviceStatus) {}} // they are listed by name
	if !wide {
		s.columns = all[:usual]
	}
	for i, name := range columns {
		c, err := columnNamed(all, "columns", name)
		if err != nil {
			return s, err
		}
		if i == 0 {
			s.columns = nil
		}
		// Those that were asked for are cut rather than left out, the last first.
		c.Keep, c.Least = 1000-i, cmp.Or(c.Least, 5)
		s.columns = append(s.columns, c)
	}
	if sortBy == "" {
		return s, nil
	}
	field, down := strings.CutPrefix(sortBy, "-")
	by, err := columnNamed(all, "sort-by", field)
	s.sort = func(views []contract.DeviceStatus) {
		slices.SortStableFunc(views, func(a, b contract.DeviceStatus) int { return by.Compare(a, b, down) })
	}
	return s, err
}

// listing is the usual table of devices.
func (a *app) listing(views []contract.DeviceStatus) string {
	columns, usual := listColumns(a.now)
	return terminal.NewTable(views, columns[:usual]).Text(a.width(), a.palette())
}
