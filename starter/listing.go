package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"burnish/internal/device"
	"burnish/starter/internal/terminal"
	"burnish/workflows/contract"
)

// listColumn is a column that a listing may have.
type listColumn struct {
	terminal.Column
	// wide is a column of -o wide and --columns only.
	wide bool
	text func(v contract.DeviceStatus, now time.Time) string
	// order compares two devices that have something there; nil compares the texts.
	order func(a, b contract.DeviceStatus) int
}

// listColumns are all columns, in their order.
func listColumns() []listColumn {
	titled := func(title string, keep, least int) terminal.Column {
		return terminal.Column{Title: title, Keep: keep, Least: least, Color: func(_ int, cell string) terminal.Color {
			return colorOf(title, cell)
		}}
	}
	of := func(text func(contract.DeviceStatus) string) func(contract.DeviceStatus, time.Time) string {
		return func(v contract.DeviceStatus, _ time.Time) string { return text(v) }
	}
	since := func(title string, keep int, wide bool, at func(contract.DeviceStatus) time.Time) listColumn {
		return listColumn{
			Column: titled(title, keep, 0), wide: wide,
			text:  func(v contract.DeviceStatus, now time.Time) string { return age(now, at(v)) },
			order: func(a, b contract.DeviceStatus) int { return at(b).Compare(at(a)) },
		}
	}
	return []listColumn{
		{Column: titled("NAME", 100, 16), text: of(func(v contract.DeviceStatus) string { return v.Name })},
		{Column: titled("STATE", 95, 12), text: of(func(v contract.DeviceStatus) string { return string(v.DeviceState) })},
		{Column: titled("DIRTY", 60, 0), text: of(func(v contract.DeviceStatus) string { return yes(v.Dirty) })},
		{Column: titled("HOST", 75, 8), text: of(func(v contract.DeviceStatus) string { return v.Hostname })},
		{Column: titled("TYPE", 50, 0), text: of(func(v contract.DeviceStatus) string { return v.Type })},
		{Column: titled("STEP", 80, 8), text: of(stepText)},
		{Column: titled("INSTANCE", 55, 9), text: of(func(v contract.DeviceStatus) string { return deref(v.InstanceUUID) })},
		{Column: titled("NEEDS-OPERATOR", 52, 0), text: of(func(v contract.DeviceStatus) string { return yes(v.NeedsOperator) })},
		{Column: titled("FAULT", 90, 10), text: of(func(v contract.DeviceStatus) string { return v.Fault })},
		since("AGE", 70, false, func(v contract.DeviceStatus) time.Time { return v.UpdatedAt }),
		{wide: true, Column: titled("VENDOR", 25, 6), text: of(func(v contract.DeviceStatus) string { return v.Vendor })},
		{wide: true, Column: titled("MODEL", 45, 8), text: of(func(v contract.DeviceStatus) string { return v.Model })},
		{wide: true, Column: titled("SERIAL", 40, 8), text: of(func(v contract.DeviceStatus) string { return v.Serial })},
		{
			wide: true, Column: titled("SIZE", 30, 0),
			text: of(func(v contract.DeviceStatus) string {
				if v.SizeBytes == 0 {
					return ""
				}
				return size(v.SizeBytes)
			}),
			order: func(a, b contract.DeviceStatus) int { return cmp.Compare(a.SizeBytes, b.SizeBytes) },
		},
		{wide: true, Column: titled("DRIVER", 20, 0), text: of(func(v contract.DeviceStatus) string { return v.Driver })},
		{wide: true, Column: titled("METHOD", 35, 0), text: of(func(v contract.DeviceStatus) string { return string(v.Operation) })},
		{wide: true, Column: titled("OWNER", 15, 0), text: of(func(v contract.DeviceStatus) string { return string(v.Owner) })},
		{wide: true, Column: titled("ON-HOLD", 28, 8), text: of(func(v contract.DeviceStatus) string {
			if !v.Maintenance {
				return ""
			}
			return cmp.Or(v.MaintenanceReason, "yes")
		})},
		{wide: true, Column: titled("WAITS-FOR", 27, 8), text: of(func(v contract.DeviceStatus) string {
			if v.Waiting == nil {
				return ""
			}
			return v.Waiting.For
		})},
		{wide: true, Column: titled("LABELS", 26, 8), text: of(func(v contract.DeviceStatus) string { return device.LabelsText(v.Labels) })},
		since("ENROLLED", 10, true, func(v contract.DeviceStatus) time.Time { return v.CreatedAt }),
		{wide: true, Column: titled("UUID", 5, 9), text: of(func(v contract.DeviceStatus) string { return v.UUID })},
	}
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

func deref(text *string) string {
	if text == nil {
		return ""
	}
	return *text
}

// columnNames names all columns.
func columnNames() []string {
	var names []string
	for _, c := range listColumns() {
		names = append(names, c.Title)
	}
	return names
}

// columnLines are the names for the help.
func columnLines() string {
	return "  " + strings.Join(terminal.Wrap(strings.ToLower(strings.Join(columnNames(), ", ")), 80), "\n  ")
}

// columnNamed finds a column, in whatever case its name is written.
func columnNamed(flag, name string) (listColumn, error) {
	for _, c := range listColumns() {
		if strings.EqualFold(c.Title, strings.TrimSpace(name)) {
			return c, nil
		}
	}
	return listColumn{}, usagef("--%s %q: must be one of %s", flag, name, strings.Join(columnNames(), ", "))
}

// shape is how a listing is shown: its columns and its order.
type shape struct {
	columns []listColumn
	order   func(a, b contract.DeviceStatus) int
}

// plainShape is a listing by name, in its usual columns, or in all of them.
func plainShape(wide bool) shape {
	return shape{columns: slices.DeleteFunc(listColumns(), func(c listColumn) bool { return c.wide && !wide })}
}

// listing is the usual table of devices.
func (a *app) listing(views []contract.DeviceStatus) string {
	return plainShape(false).table(views, a.now()).Text(a.width(), a.palette())
}

// shaped reads --columns, --sort-by and -o wide.
func shaped(wide bool, columns []string, sortBy string) (shape, error) {
	var s shape
	for _, name := range columns {
		c, err := columnNamed("columns", name)
		if err != nil {
			return s, err
		}
		// Those that were asked for are cut rather than left out, the last first.
		c.Keep, c.Least = 1000-len(s.columns), cmp.Or(c.Least, 5)
		s.columns = append(s.columns, c)
	}
	if len(columns) == 0 {
		s = plainShape(wide)
	}
	if sortBy == "" {
		return s, nil
	}
	field, down := strings.CutPrefix(sortBy, "-")
	c, err := columnNamed("sort-by", field)
	if err != nil {
		return s, err
	}
	s.order = c.comparing(down)
	return s, nil
}

// comparing orders devices by a column, and by name where that is the same. Devices with
// nothing there come last in both directions.
func (c listColumn) comparing(down bool) func(a, b contract.DeviceStatus) int {
	var none time.Time
	return func(a, b contract.DeviceStatus) int {
		textA, textB := c.text(a, none), c.text(b, none)
		order := c.order
		if order == nil {
			order = func(contract.DeviceStatus, contract.DeviceStatus) int { return strings.Compare(textA, textB) }
		}
		var way int
		switch {
		case textA == "" && textB == "":
		case textA == "":
			return 1
		case textB == "":
			return -1
		default:
			way = order(a, b)
		}
		if down {
			way = -way
		}
		return cmp.Or(way, strings.Compare(a.Name, b.Name))
	}
}

// sort puts a listing into its order.
func (s shape) sort(views []contract.DeviceStatus) {
	if s.order != nil {
		slices.SortFunc(views, s.order)
	}
}

// table is a listing for people.
func (s shape) table(views []contract.DeviceStatus, now time.Time) terminal.Table {
	var t terminal.Table
	for _, c := range s.columns {
		t.Columns = append(t.Columns, c.Column)
	}
	for _, v := range views {
		row := make([]string, len(s.columns))
		for i, c := range s.columns {
			row[i] = c.text(v, now)
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}
