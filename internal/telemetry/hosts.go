package telemetry

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"burnish/workflows/client"
	"burnish/workflows/contract"
)

const (
	// maxHosts bounds the hosts that are shown.
	maxHosts = 1000
	// maxSearches bounds the searches for further hosts in one round.
	maxSearches = 10
	// forgetAfter is when the hosts are searched for again, so that those without devices go.
	forgetAfter = 10 * time.Minute
	// hostsAtOnce bounds the questions about hosts that are open at once.
	hostsAtOnce = 8
)

// hosts knows when a worker last polled each host's task queue. Only one round at a time
// reads it.
type hosts struct {
	client *client.Client
	// known are those of the last complete search, found those of the one that began at since.
	known, found []string
	since        time.Time
	// last is when each host was last seen to poll: Temporal forgets it after some minutes.
	last map[string]time.Time
}

// read asks for the last poll of each host that has devices.
func (h *hosts) read(ctx context.Context) ([]sample, error) {
	if err := h.search(ctx); err != nil {
		return nil, err
	}
	shown := slices.Concat(h.known, h.found)
	slices.Sort(shown)
	shown = slices.Compact(shown)
	polled, err := h.lastPolls(ctx, shown)
	if err != nil {
		return nil, err
	}
	var all []sample
	for i, host := range shown {
		if polled[i].After(h.last[host]) {
			h.last[host] = polled[i]
		}
		all = append(all, sample{figureHostPoll, unix(h.last[host]), []string{host}})
	}
	return all, nil
}

// search looks for further hosts, and now and then for all of them anew.
func (h *hosts) search(ctx context.Context) error {
	if time.Since(h.since) > forgetAfter {
		h.found, h.since = nil, time.Now()
	}
	for range maxSearches {
		further, err := h.client.FurtherHosts(ctx, h.found)
		if err != nil {
			return err
		}
		h.found = append(h.found, further[:min(len(further), maxHosts-len(h.found))]...)
		if len(further) == 0 || len(h.found) == maxHosts {
			h.known = slices.Clone(h.found)
			maps.DeleteFunc(h.last, func(host string, _ time.Time) bool { return !slices.Contains(h.known, host) })
			break
		}
	}
	return nil
}

// lastPolls asks for each of these hosts.
func (h *hosts) lastPolls(ctx context.Context, names []string) ([]time.Time, error) {
	polled := make([]time.Time, len(names))
	failed := make([]error, len(names))
	slots := make(chan struct{}, hostsAtOnce)
	var asking sync.WaitGroup
	for i, host := range names {
		slots <- struct{}{}
		asking.Go(func() {
			defer func() { <-slots }()
			polled[i], failed[i] = h.client.LastPoll(ctx, contract.HostQueue(host))
		})
	}
	asking.Wait()
	for _, err := range failed {
		if err != nil {
			return nil, err
		}
	}
	return polled, nil
}
