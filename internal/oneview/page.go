package oneview

import (
	"context"
	"fmt"
	"net/url"
	"strconv"

	"burnish/internal/device"
)

// maxServers bounds where a page may begin: an appliance manages some thousand servers.
const maxServers = 1_000_000

// Page gives the servers from start on, count of them at most, in one request. Next is always
// larger than start, whatever the appliance says, so that a round ends.
func (p *Appliances) Page(ctx context.Context, appliance string, start, count int) (Page, error) {
	if start < 0 || start > maxServers || count < 1 || count > maxPageSize {
		return Page{}, &device.Fault{Class: device.Permanent, Code: device.CodeInvalid,
			Message: fmt.Sprintf("start %d or count %d of a page is not valid", start, count)}
	}
	s, settings, err := p.acquire(ctx, appliance)
	if err != nil {
		return Page{}, err
	}
	defer p.release(ctx, s)
	var got struct {
		Start   *int              `json:"start"`
		Total   int               `json:"total"`
		Next    string            `json:"nextPageUri"`
		Members []*serverHardware `json:"members"`
	}
	query := url.Values{"start": {strconv.Itoa(start)}, "count": {strconv.Itoa(count)}, "sort": {"uri:ascending"}}
	if _, err := s.get(ctx, hardwarePath+"?"+query.Encode(), &got); err != nil {
		return Page{}, s.fault(ctx, err)
	}
	if got.Start != nil && *got.Start != start {
		return Page{}, s.refused("see the appliance", "it gives the servers from %d on where %d was asked for",
			*got.Start, start)
	}
	page := Page{Total: max(got.Total, 0), Next: s.next(got.Next, start, len(got.Members), got.Total)}
	seen := make(map[string]bool, len(got.Members))
	for _, h := range got.Members {
		if h == nil || !h.answersProfile {
			continue
		}
		uri := s.resource(h.URI, hardwarePath+"/")
		if uri == "" || seen[uri] {
			continue
		}
		seen[uri] = true
		profile := h.Profile
		if link := s.resource(profile, profilesPath+"/"); link != "" {
			profile = link
		}
		if settings.IgnoreTags {
			h.Tag = ""
		}
		page.Servers = append(page.Servers, Hardware{
			URI: uri, Name: h.Name, Serial: h.Serial, UUID: h.UUID, Model: h.Model,
			Profile: profile, Power: h.Power, State: h.State, Type: h.Type, Group: h.Group, Tag: h.Tag,
		})
	}
	return page, nil
}

// next is where the page begins that follows one of n servers from start on; 0: there is none.
// No server between the two is left out, and a page without servers is the last.
func (s *session) next(link string, start, n, total int) int {
	if n == 0 {
		return 0
	}
	after := start + n
	if u, err := url.Parse(s.link(link, hardwarePath)); err == nil && u.Path == hardwarePath {
		if its, err := strconv.Atoi(u.Query().Get("start")); err == nil && its > start {
			after = min(after, its)
			total = max(total, after+1)
		}
	}
	if after >= total || after > maxServers {
		return 0
	}
	return after
}
