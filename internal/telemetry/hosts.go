package telemetry

import (
	"context"
	"slices"
	"time"

	"burnish/internal/device"
	"burnish/workflows/client"
)

const (
	// listedFor is for how long a listing of the fleet says which hosts have devices.
	listedFor = time.Minute
	// maxHosts bounds the hosts that are shown.
	maxHosts = 1000
)

// hosts knows when a worker last polled each host's task queue. Only one round at a time
// reads it.
type hosts struct {
	client *client.Client
	// names are the hosts that have devices in service, as of listed.
	names  []string
	listed time.Time
	// last is when each host was last seen to poll: Temporal forgets it after some minutes.
	last map[string]time.Time
}

// read asks for the last poll of each host that has devices.
func (h *hosts) read(ctx context.Context) ([]sample, error) {
	if time.Since(h.listed) > listedFor {
		fleet, err := h.client.Fleet(ctx)
		if err != nil {
			return nil, err
		}
		h.listed, h.names = time.Now(), nil
		for _, e := range fleet {
			if e.Status.Hostname != "" && e.Status.DeviceState != device.Retired {
				h.names = append(h.names, e.Status.Hostname)
			}
		}
		slices.Sort(h.names)
		h.names = slices.Compact(h.names)
		h.names = h.names[:min(len(h.names), maxHosts)]
	}
	polled, err := h.client.LastPolls(ctx, h.names)
	if err != nil {
		return nil, err
	}
	last := map[string]time.Time{}
	all := make([]sample, len(h.names))
	for i, host := range h.names {
		last[host] = polled[i]
		if h.last[host].After(polled[i]) {
			last[host] = h.last[host]
		}
		all[i] = sample{figureHostPoll, unix(last[host]), []string{host}}
	}
	h.last = last
	return all, nil
}
