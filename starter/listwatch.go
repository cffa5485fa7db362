package main

import (
	"context"
	"fmt"
	"reflect"
	"strings"
	"time"

	"burnish/starter/internal/live"
	"burnish/workflows/contract"
)

// watchList shows the listing, and then each device again whenever it changes.
func (a *app) watchList(parent context.Context, l deviceClient, f *filter, o listOutput, s shape) error {
	known := map[string]contract.DeviceStatus{}
	onTerminal := !o.name && o.template == nil
	look := func(ctx context.Context, view *live.Screen, first bool) (int, error) {
		views, err := a.find(ctx, l, f)
		if err != nil {
			return len(known), err
		}
		a.withPlaces(ctx, l, views)
		s.sort(views)
		if view != nil {
			view.Show(s.page(views, a.now()))
			return len(views), nil
		}
		var changed []contract.DeviceStatus
		for _, v := range views {
			if before, ok := known[v.Name]; !ok || !reflect.DeepEqual(before, v) {
				changed = append(changed, v)
			}
			// A listing lags: what it misses for a moment is not printed when it is back.
			known[v.Name] = v
		}
		return len(views), a.printChanged(o, s, views, changed, first)
	}
	return a.goOn(parent, l, pollInterval, onTerminal, a.opening, look)
}

// page is the listing in a live view.
func (s shape) page(views []contract.DeviceStatus, now time.Time) live.Page {
	columns := make([]live.Column[contract.DeviceStatus], len(s.columns))
	for i, c := range s.columns {
		text := func(v contract.DeviceStatus) string { return c.text(v, now) }
		columns[i] = live.Column[contract.DeviceStatus]{Column: c.Column, Text: text, Order: c.order}
	}
	name := func(v contract.DeviceStatus) string { return v.Name }
	p := live.NewPage(views, columns, name, name)
	p.Time, p.Head = now, fmt.Sprintf("%d devices", len(views))
	return p
}

// printChanged prints devices of a listing that changed, in the columns of the whole listing.
func (a *app) printChanged(o listOutput, s shape, all, changed []contract.DeviceStatus, first bool) error {
	if a.format == formatTable && !o.name && o.template == nil {
		lines := s.table(all, a.now()).Lines(a.width(), a.palette())
		var printed []string
		if first {
			printed = lines[:1]
		}
		next := 0
		for i, v := range all {
			if next < len(changed) && v.Name == changed[next].Name {
				printed, next = append(printed, lines[i+1]), next+1
			}
		}
		if len(printed) == 0 {
			return nil
		}
		return a.print(strings.Join(printed, "\n") + "\n")
	}
	for _, v := range changed {
		if o.template != nil {
			if err := o.template.Print(a.stdout, v); err != nil {
				return templateFailure(err)
			}
		} else if err := a.printNext(v, func() string { return oneLine(v.Name) + "\n" }); err != nil {
			return err
		}
	}
	return nil
}
