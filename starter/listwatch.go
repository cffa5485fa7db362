package main

import (
	"context"
	"errors"
	"reflect"
	"strings"

	"burnish/workflows/contract"
)

// watchList prints the listing, and then each device again whenever it changes.
func (a *app) watchList(parent context.Context, l deviceClient, f *filter, o listOutput, s shape) error {
	ctx, cancel := a.waitLimit(parent)
	defer cancel()
	known := map[string]contract.DeviceStatus{}
	err := a.follow(ctx, pollInterval, a.noteOnce, func(first bool) (int, bool, error) {
		views, err := a.find(ctx, l, f)
		if err != nil {
			return len(known), false, err
		}
		a.withPlaces(ctx, l, views)
		s.sort(views)
		var changed []contract.DeviceStatus
		now := make(map[string]contract.DeviceStatus, len(views))
		for _, v := range views {
			now[v.Name] = v
			if before, ok := known[v.Name]; !ok || !reflect.DeepEqual(before, v) {
				changed = append(changed, v)
			}
		}
		// A listing lags: what it misses for a moment is not printed when it is back.
		for name, v := range now {
			known[name] = v
		}
		return len(views), false, a.printChanged(o, s, views, changed, first)
	})
	if errors.Is(err, errStopped) {
		return a.stopped(parent)
	}
	return err
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
		switch {
		case o.name:
			if err := a.print(oneLine(v.Name) + "\n"); err != nil {
				return err
			}
			continue
		case o.template != nil:
			if err := o.template.Print(a.stdout, v); err != nil {
				return templateFailure(err)
			}
			continue
		case a.format == formatYAML:
			if err := a.print("---\n"); err != nil {
				return err
			}
		}
		if err := encode(a.stdout, a.format, compact, v); err != nil {
			return err
		}
	}
	return nil
}
