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
)

// deviceListing is a page of devices.
type deviceListing struct {
	Devices []deviceView `json:"devices"`
	Links   []pageLink   `json:"devices_links,omitempty"`
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
	all, err := c.fleet.read(ctx)
	if err != nil {
		return nil, err
	}
	marker, err := c.findMarker(ctx, q, all)
	if err != nil {
		return nil, err
	}
	var selected []*contract.DeviceStatus
	for i := range all {
		v := &all[i].Status
		if (all[i].Err != nil || q.filter.Selects(v)) && (q.marker == "" || q.sort.compare(v, &marker) > 0) {
			selected = append(selected, v)
		}
	}
	slices.SortFunc(selected, q.sort.compare)
	var page []contract.DeviceStatus
	for _, v := range selected[:min(q.limit, len(selected))] {
		page = append(page, *v)
	}
	if c.may(ruleDetail) {
		client.ShowPlaces(ctx, c.Devices, page)
	}
	listing, view := deviceListing{Devices: []deviceView{}}, viewsOf(q.fields)
	for i := range page {
		c.know(page[i].Name)
		listing.Devices = append(listing.Devices, view(&page[i]))
	}
	if len(selected) > len(page) {
		listing.Links = []pageLink{{Rel: "next", Href: c.nextPage(page[len(page)-1].UUID)}}
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
func (c *call) findMarker(ctx context.Context, q listQuery,
	all []client.Execution) (marker contract.DeviceStatus, err error) {
	if q.marker == "" {
		return marker, nil
	}
	if at := slices.IndexFunc(all, func(e client.Execution) bool { return e.Status.UUID == q.marker }); at >= 0 {
		return all[at].Status, nil
	}
	e, found, err := c.Devices.ByUUID(ctx, q.marker)
	switch {
	case err != nil:
		return marker, err
	case !found:
		return marker, invalid("marker: there is no device with the UUID "+q.marker, "begin again without a marker")
	}
	return e.Status, nil
}
