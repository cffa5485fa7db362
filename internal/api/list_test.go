package api

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"burnish/internal/api/access"
	"burnish/internal/device"
	"burnish/workflows/client"
	"burnish/workflows/contract"
)

func (f *fakeDevices) Fleet(context.Context) (all []client.Execution, err error) {
	for name, v := range f.statuses {
		all = append(all, client.Execution{Name: name, Running: true, Status: v})
	}
	slices.SortFunc(all, func(a, b client.Execution) int { return strings.Compare(a.Status.UUID, b.Status.UUID) })
	return all, f.err
}

func (f *fakeDevices) LimitsStatus(context.Context, string) (contract.LimitsStatus, bool, error) {
	return f.limits, true, f.err
}

// fleetOf is a fleet whose devices differ in everything that they are sorted by, with equals.
func fleetOf(n int) *fakeDevices {
	f := &fakeDevices{statuses: map[string]contract.DeviceStatus{}}
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for i := range n {
		name := fmt.Sprintf("d%04d", i)
		f.statuses[name] = contract.DeviceStatus{
			Name: name, UUID: contract.DeviceUUID(name), Type: []string{"NVME", "DISK", "NODE"}[i%3], Vendor: fmt.Sprint(i % 7),
			Model:    fmt.Sprintf("m,%d", i%5),
			Hostname: fmt.Sprintf("h%d", i%11), Status: device.Enabled, DeviceState: device.States()[i%len(device.States())],
			Serial:    fmt.Sprintf("S%d", i),
			CreatedAt: at.Add(time.Duration(i%13) * time.Hour), UpdatedAt: at.Add(time.Duration(i%17) * time.Minute),
			OneTimeUse: i%2 == 0, NeedsOperator: i%10 == 0, Dirty: i%3 == 0,
		}
	}
	return f
}

type listed struct {
	Devices []map[string]any `json:"devices"`
	Links   []pageLink       `json:"devices_links"`
}

func list(t *testing.T, h http.Handler, path string, headers ...string) (page listed) {
	t.Helper()
	w := send(t, h, "GET", path, "", append(headers, at21)...)
	require.Equal(t, http.StatusOK, w.Code, w.Body.String())
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &page))
	require.NotNil(t, page.Devices)
	return page
}

// follow reads pages by their links until there is none.
func follow(t *testing.T, h http.Handler, path string, limit int) (names []string) {
	t.Helper()
	asked, err := url.Parse(path)
	require.NoError(t, err)
	for seen := map[string]bool{}; ; {
		require.False(t, seen[path], "the same page again")
		seen[path] = true
		page := list(t, h, path, admin)
		for _, d := range page.Devices {
			names = append(names, d["name"].(string))
		}
		if len(page.Links) == 0 {
			return names
		}
		require.Len(t, page.Devices, limit)
		require.Equal(t, "next", page.Links[0].Rel)
		path = page.Links[0].Href
		next, err := url.Parse(path)
		require.NoError(t, err)
		require.Equal(t, "/v2/devices", next.Path)
		for name, values := range asked.Query() {
			if name != "marker" {
				require.Equal(t, values, next.Query()[name], "the link keeps %s", name)
			}
		}
		require.Equal(t, page.Devices[limit-1]["uuid"], next.Query().Get("marker"))
	}
}

func TestPagesOfEveryOrder(t *testing.T) {
	devices := fleetOf(2500)
	h := testServer(t, devices)
	all := func(compare func(a, b *contract.DeviceStatus) int) (names []string) {
		var sorted []contract.DeviceStatus
		for _, v := range devices.statuses {
			sorted = append(sorted, v)
		}
		slices.SortFunc(sorted, func(a, b contract.DeviceStatus) int {
			return cmp.Or(compare(&a, &b), strings.Compare(a.UUID, b.UUID))
		})
		for _, v := range sorted {
			names = append(names, v.Name)
		}
		return names
	}
	for _, limit := range []int{7, 1000} {
		want := all(orderBy("uuid"))
		require.Equal(t, want, follow(t, h, fmt.Sprintf("/v2/devices?fields=name,uuid&limit=%d", limit), limit))
	}
	for _, key := range orderNames {
		want := all(orderBy(key))
		for _, sort := range []string{"sort=" + key + ":asc", "sort_key=" + key, "sort_key=" + key + "&sort_dir=asc"} {
			require.Equal(t, want[0], list(t, h, "/v2/devices?limit=1&"+sort, admin).Devices[0]["name"], sort)
		}
		require.Equal(t, want, follow(t, h, "/v2/devices?limit=1000&fields=name,uuid&sort="+key, 1000), key)
		slices.Reverse(want)
		require.Equal(t, want, follow(t, h, "/v2/devices?limit=1000&fields=name,uuid&sort_dir=desc&sort_key="+key, 1000), key)
	}
}

// A client that goes on after the last page, as openstacksdk does with a limit, gets an empty
// one.
func TestLastPages(t *testing.T) {
	h := testServer(t, fleetOf(10))
	for _, sort := range []string{"", "&sort=name", "&sort=uuid:desc"} {
		page := list(t, h, "/v2/devices?limit=10"+sort, admin)
		require.Len(t, page.Devices, 10)
		require.Empty(t, page.Links, "none follows a full last page")
		after := page.Devices[9]["uuid"].(string)
		page = list(t, h, "/v2/devices?limit=10&marker="+after+sort, admin)
		require.Empty(t, page.Devices, sort)
		require.Empty(t, page.Links)
	}
	require.Len(t, list(t, h, "/v2/devices", admin).Devices, 10)
	require.Empty(t, list(t, testServer(t, fleetOf(0)), "/v2/devices", reader).Devices)
}

// The marker of a device that the filter no longer selects still has its place.
func TestMarkerOfAnotherState(t *testing.T) {
	for _, sort := range []string{"uuid", "name", "hostname:desc"} {
		devices := fleetOf(40)
		h := testServer(t, devices)
		path := "/v2/devices?state=error&sort=" + sort
		whole := follow(t, h, path+"&limit=2", 2)
		first := list(t, h, path+"&limit=2", admin)
		marker := first.Devices[1]["name"].(string)
		v := devices.statuses[marker]
		v.DeviceState = device.Retired
		devices.statuses[marker] = v
		h.(*server).fleet.until = time.Time{}
		require.Equal(t, whole[2:], follow(t, h, first.Links[0].Href, 2), sort)
	}
}

// A parameter is the filter of its field, under either name: one value, several, or such with commas where no value has
// one. How a field is compared, its own test shows.
func TestFilters(t *testing.T) {
	h := testServer(t, fleetOf(200)).(*server)
	for query, want := range map[string]client.Filter{
		"type=NVME,disk&vendor=3":              {client.ByType: {"NVME", "DISK"}, client.ByVendor: {"3"}},
		"vendor=3&vendor=4":                    {client.ByVendor: {"3", "4"}},
		"hostname=H1,%20h2":                    {client.ByHost: {"h1", "h2"}},
		"host=h1&model=m,3":                    {client.ByHost: {"h1"}, client.ByModel: {"m,3"}},
		"state=error&state=retired":            {client.ByState: {"error", "retired"}},
		"needs_operator=True&name=d0042,d0043": {client.ByNeedsOperator: {"true"}, client.ByName: {"d0042", "d0043"}},
		"":                                     {},
	} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/v2/devices?"+query, nil)
		c := &call{server: h, r: r, version: newest, who: access.Principal{Roles: []string{"admin"}}}
		q, err := c.listQuery()
		require.NoError(t, err, query)
		require.Equal(t, want, q.filter, query)
	}
	found := list(t, h, "/v2/devices?limit=1000&state=error&type=nvme", admin).Devices
	require.NotEmpty(t, found)
	for _, d := range found {
		require.Equal(t, "error NVME", d["device_state"].(string)+" "+d["type"].(string))
	}
}

func TestListRefusesWhatItDoesNotKnow(t *testing.T) {
	h := testServer(t, fleetOf(3))
	const unknown = "ffffffff-0000-5000-8000-000000000000"
	for query, names := range map[string]string{
		"limit=0": "limit", "limit=-1": "limit", "limit=1001": "limit", "limit=x": "limit", "limit=": "limit",
		"limit=1&limit=2": "limit",
		"marker=":         "marker", "marker=x": "marker", "marker=" + unknown: "marker",
		"marker=" + unknown + "&sort=name": "marker", "marker={" + unknown[:34] + "}": "marker",
		"marker=" + unknown + "&marker=" + unknown: "marker", "Marker=" + unknown: "Marker",
		"sort=color": "sort", "sort=": "sort", "sort=uuid:": "sort", "sort=uuid:up": "sort", "sort=uuid,name": "sort",
		"sort_key=": "sort_key", "sort_key=serial": "sort_key",
		"sort_dir=up": "sort_dir", "sort=uuid&sort_dir=asc": "sort_dir", "sort=uuid&sort=name": "sort",
		"fields=": "fields", "fields=uuid,color": "color", "type=": "type", "type=NVME,": "type",
		"state=dirty": "state", "device_state=Error": "device_state",
		"status=on": "status", "needs_operator=perhaps": "needs_operator",
		"needs_operator=true,false": "needs_operator", "needs_operator=true&needs_operator=false": "needs_operator",
		"name=a%20b": "name", "color=red": "color", "state=error&device_state=error": "device_state",
		"host=a&hostname=b": "hostname",
	} {
		p := requireProblem(t, send(t, h, "GET", "/v2/devices?"+query, "", admin, at21), http.StatusBadRequest,
			device.CodeInvalid)
		require.Contains(t, p.Message, names, query)
	}
	for _, query := range []string{"limit=%zz", "a;b=c"} {
		requireProblem(t, send(t, h, "GET", "/v2/devices?"+query, "", admin, at21), http.StatusBadRequest, device.CodeInvalid)
	}
	for _, query := range []string{"device_state=error", "state=error", "sort=device_state", "fields=uuid,device_state"} {
		p := requireProblem(t, send(t, h, "GET", "/v2/devices?"+query, "", admin), http.StatusBadRequest, device.CodeInvalid)
		require.Contains(t, p.Remedy, "2.1", query)
	}
}

// Whoever does not see a field must not learn it by a filter or an order.
func TestReadersUseCyborgsFieldsOnly(t *testing.T) {
	h := testServer(t, fleetOf(20))
	for _, query := range []string{"name=d0001", "serial=S1", "instance=x", "fault=io", "needs_operator=true",
		"awaiting_cleaning=true", "one_time_use=false",
		"sort=name", "sort_key=name", "fields=uuid,serial", "fields=instance_uuid"} {
		requireProblem(t, send(t, h, "GET", "/v2/devices?"+query, "", reader, at21), http.StatusForbidden,
			device.CodeForbidden)
	}
	path := "/v2/devices?state=error,available&type=NVME&sort=updated_at:desc&limit=1"
	page := list(t, h, path, reader)
	require.Len(t, page.Devices, 1)
	for field := range page.Devices[0] {
		require.Contains(t, cyborgFields, field)
	}
	require.Len(t, page.Links, 1)
	require.Equal(t, map[string]any{"uuid": page.Devices[0]["uuid"]}, list(t, h, path+"&fields=uuid", reader).Devices[0])
}

// What the limits know of a device's place is shown to whom may see it.
func TestPlacesInTheQueue(t *testing.T) {
	devices := fleetOf(2)
	v := devices.statuses["d0001"]
	v.Waiting = &contract.StatusWait{For: contract.WaitSlot, Place: 9}
	devices.statuses["d0001"] = v
	devices.limits = contract.LimitsStatus{Waiting: []contract.SlotWait{{Device: "d0001", Place: 3}}}
	h := testServer(t, devices)
	page := list(t, h, "/v2/devices?name=d0001", admin)
	require.EqualValues(t, 3, page.Devices[0]["waiting"].(map[string]any)["place"])
	w := send(t, h, "GET", "/v2/devices/d0001", "", admin, at21)
	require.Contains(t, w.Body.String(), `"place":3`)
}

// Without a control worker's answer the device is shown as Temporal knows it, and a header
// says so.
func TestShowWithoutAWorker(t *testing.T) {
	devices := fleetOf(2)
	w := send(t, testServer(t, silent{devices}), "GET", "/v2/devices/d0001", "", admin, at21)
	require.Equal(t, http.StatusOK, w.Code, w.Body.String())
	require.Contains(t, w.Header().Get("Warning"), "no control worker")
	require.Contains(t, w.Body.String(), `"name":"d0001"`)
	w = send(t, testServer(t, devices), "GET", "/v2/devices/d0001", "", admin, at21)
	require.Empty(t, w.Header().Get("Warning"))
}

// silent devices have no worker.
type silent struct{ *fakeDevices }

func (silent) Query(context.Context, string) (contract.DeviceStatus, error) {
	return contract.DeviceStatus{}, context.DeadlineExceeded
}
