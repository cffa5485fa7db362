package api

import (
	"context"
	"net/url"
	"slices"

	"burnish/workflows/client"
	"burnish/workflows/contract"
)

const (
	// defaultLimit and maxLimit are the devices on a page.
	defaultLimit = 100
	maxLimit     = 1000
	// partLimit is how many devices are read at a time for another order.
	partLimit = 750
)

// deviceListing is a page of devices.
type deviceListing struct {
	Devices []deviceView
	Links   []pageLink
}

// appendJSON writes the page without a second look at what each device wrote.
func (l deviceListing) appendJSON(b []byte) ([]byte, error) {
	b = append(b, `{"devices":[`...)
	for i, v := range l.Devices {
		if i > 0 {
			b = append(b, ',')
		}
		var err error
		if b, err = v.appendJSON(b); err != nil {
			return nil, err
		}
	}
	b = append(b, ']')
	if len(l.Links) > 0 {
		links, err := encode(l.Links)
		if err != nil {
			return nil, err
		}
		b = append(append(b, `,"devices_links":`...), links...)
	}
	return append(b, '}'), nil
}

// devicesDocument is the form of a deviceListing with all fields.
type devicesDocument struct {
	Devices []contract.DeviceStatus `json:"devices"`
	Links   []pageLink              `json:"devices_links,omitempty"`
}

// pageLink leads to the next page. Its reference is relative to the host, so that it holds
// behind a proxy and on a unix socket too; openstacksdk resolves one that begins with /v
// against the service's endpoint.
type pageLink struct {
	Rel  string `json:"rel"`
	Href string `json:"href"`
}

// listDevices is GET /v2/devices.
func listDevices(ctx context.Context, c *call) (any, error) {
	q, err := c.listQuery()
	if err != nil {
		return nil, err
	}
	marker, err := c.findMarker(ctx, q)
	if err != nil {
		return nil, err
	}
	var page []client.Execution
	var more bool
	if q.sort.key == "uuid" && !q.sort.descending {
		page, more, err = c.page(ctx, q.filter, q.marker, q.limit)
	} else {
		page, more, err = c.sortedPage(ctx, q, marker)
	}
	if err != nil {
		return nil, err
	}
	statuses := make([]contract.DeviceStatus, len(page))
	for i, e := range page {
		if statuses[i] = e.Status; e.Err != nil {
			c.Log.Warn("a device cannot be read whole", "device", e.Name, "error", e.Err)
		}
		c.names.add(e.Name)
	}
	c.withPlaces(ctx, statuses)
	listing := deviceListing{Devices: make([]deviceView, len(statuses))}
	for i, v := range statuses {
		listing.Devices[i] = deviceView{v, q.fields}
	}
	if more {
		listing.Links = []pageLink{{Rel: "next", Href: c.nextPage(statuses[len(statuses)-1].UUID)}}
	}
	return listing, nil
}

// nextPage is the reference to the page after a device, with the same parameters.
func (c *call) nextPage(marker string) string {
	query := c.r.URL.Query()
	query.Set("marker", marker)
	return (&url.URL{Path: c.route.Path, RawQuery: query.Encode()}).String()
}

// findMarker returns the device that the marker names, in the state in which Temporal last
// listed it: a page after it begins where it is, whether or not the filter selects it. A
// device that was forgotten while a client reads pages is still found. An unknown marker is
// refused: a client whose marker is ignored would read the first page again and again.
func (c *call) findMarker(ctx context.Context, q listQuery) (client.Execution, error) {
	if q.marker == "" {
		return client.Execution{}, nil
	}
	if _, known := c.names.get(q.marker); known && q.sort.key == "uuid" {
		return client.Execution{Status: contract.DeviceStatus{UUID: q.marker}}, nil
	}
	e, found, err := c.Devices.ByUUID(ctx, q.marker)
	switch {
	case err != nil:
		return e, err
	case !found:
		return e, invalid("marker: there is no device with the UUID "+q.marker, "begin again without a marker")
	}
	c.names.add(e.Name)
	return e, nil
}

// page reads devices in the order of their UUIDs.
func (c *call) page(ctx context.Context, f client.Filter, after string, limit int) (page []client.Execution, more bool, err error) {
	err = c.pages.read(ctx, maxPageHeld, func() error {
		page, more, err = c.Devices.Page(ctx, f, after, limit)
		return err
	})
	return page, more, err
}

// sortedPage reads all devices once and keeps those of the page: its memory does not depend
// on the fleet.
func (c *call) sortedPage(ctx context.Context, q listQuery, marker client.Execution) (kept []client.Execution, more bool, err error) {
	compare := q.sort.compare
	for after, others := "", true; others; {
		var part []client.Execution
		if part, others, err = c.page(ctx, q.filter, after, partLimit); err != nil {
			return nil, false, err
		}
		for _, e := range part {
			if after = e.Status.UUID; q.marker == "" || compare(e.Status, marker.Status) > 0 {
				kept = append(kept, e)
			}
		}
		kept = firstOf(kept, q.limit+1, compare)
	}
	return kept[:min(q.limit, len(kept))], len(kept) > q.limit, nil
}

// firstOf sorts the devices and keeps the first n.
func firstOf(all []client.Execution, n int, compare func(a, b contract.DeviceStatus) int) []client.Execution {
	slices.SortFunc(all, func(a, b client.Execution) int { return compare(a.Status, b.Status) })
	kept := all[:min(n, len(all))]
	clear(all[len(kept):]) // for the garbage collector
	return kept
}

// withPlaces puts each place in the queue of the limits into the devices that wait there.
// Without an answer their own, which are older, remain.
func (c *call) withPlaces(ctx context.Context, all []contract.DeviceStatus) {
	name, waits := contract.WaitForSlot(all)
	if !waits || !c.may(ruleDetail) {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, queryTimeout)
	defer cancel()
	limits, _, err := c.Devices.LimitsStatus(ctx, name)
	if err != nil {
		c.Log.Debug("the limits did not answer", "error", err)
	}
	limits.ShowPlaces(all)
}
