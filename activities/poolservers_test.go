package activities_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/sdk/mocks"

	"burnish/activities"
	"burnish/internal/device"
	"burnish/internal/oneview"
	"burnish/workflows/client"
	"burnish/workflows/contract"
)

// racks is an appliance with some servers. It only gives pages.
type racks struct {
	oneview.Pools
	servers []oneview.Hardware
	asked   []int // the start of each page
	fails   error
}

func (r *racks) Page(_ context.Context, _ string, start, count int) (oneview.Page, error) {
	r.asked = append(r.asked, start)
	if r.fails != nil {
		return oneview.Page{}, r.fails
	}
	end := min(start+count, len(r.servers))
	page := oneview.Page{Servers: r.servers[start:end], Total: len(r.servers)}
	if end < len(r.servers) {
		page.Next = end
	}
	return page, nil
}

// findServers asks for servers of an appliance, while devices with these serials are enrolled.
func findServers(t *testing.T, r *racks, enrolled []string,
	in contract.ServersInput) (contract.Servers, []string, error) {
	t.Helper()
	var queries []string
	server := &mocks.Client{}
	lists(server, func(query string, _ []byte) (runs []*workflowpb.WorkflowExecutionInfo, _ []byte, _ error) {
		queries = append(queries, query)
		for i, serial := range enrolled {
			if strings.Contains(query, "'"+serial+"'") {
				found := attributes(t, contract.AttrState, device.Available, contract.AttrSerial, serial, contract.AttrType,
					contract.TypeNode)
				runs = append(runs, deviceRun(fmt.Sprintf("node%d", i), found, nil))
			}
		}
		return runs, nil, nil
	})
	p := &activities.PoolServers{Client: client.New(server), Pools: r}
	found, err := execute[contract.Servers](first(t), contract.ActivityFindServers, p.FindServers, in)
	return found, queries, err
}

// Servers that are enrolled are counted only, however their serial numbers are written.
func TestServersThatAreNotEnrolled(t *testing.T) {
	t.Parallel()
	r := &racks{servers: []oneview.Hardware{
		{URI: "/rest/server-hardware/1", Name: "a", Serial: "CZ1", UUID: "u1", Model: "Gen10", Type: "t", Group: "g", Profile: "/rest/server-profiles/1"},
		{URI: "/rest/server-hardware/2", Name: "b", Serial: "cz2 "},
		{URI: "/rest/server-hardware/3", Name: "c", Serial: "C Z 3"},
		{URI: "/rest/server-hardware/4", Name: "d", Serial: ""},
		{URI: "/rest/server-hardware/5", Name: "x", Serial: "CZ5"},
	}}
	found, queries, err := findServers(t, r, []string{"CZ2", "C_Z_3"},
		contract.ServersInput{Appliance: "rack1", Limit: 100, Filter: map[string]string{"name": "?", "serial": "*"}})
	require.NoError(t, err)
	require.Equal(t, contract.Servers{Enrolled: 2, Servers: []contract.PoolServer{
		{Hardware: "/rest/server-hardware/1", Name: "a", Serial: "CZ1", UUID: "u1", Model: "Gen10", Type: "t", Group: "g", Profile: "/rest/server-profiles/1"},
		{Hardware: "/rest/server-hardware/4", Name: "d"},
		{Hardware: "/rest/server-hardware/5", Name: "x", Serial: "CZ5"},
	}}, found)
	require.Len(t, queries, 1, "one listing a page")
	require.Contains(t, queries[0], "DeviceType = 'NODE'")

	found, _, err = findServers(t, r, nil, contract.ServersInput{Limit: 100, Filter: map[string]string{"name": "x"}})
	require.NoError(t, err)
	require.Len(t, found.Servers, 1)
	_, queries, err = findServers(t, r, nil,
		contract.ServersInput{Limit: 100, Filter: map[string]string{"name": "nothing"}})
	require.NoError(t, err)
	require.Empty(t, queries)
}

// An answer ends after the page in which it has enough; the next one goes on there. Pages on
// which nothing matches are passed over.
func TestServersInPages(t *testing.T) {
	t.Parallel()
	r := &racks{}
	for i := range 1700 {
		model := "old"
		if i >= 1200 {
			model = "new"
		}
		r.servers = append(r.servers, oneview.Hardware{URI: fmt.Sprintf("/rest/server-hardware/%d", i),
			Name: fmt.Sprintf("n%d", i), Serial: fmt.Sprintf("S%d", i), Model: model})
	}
	in := contract.ServersInput{Limit: 5000, Filter: map[string]string{"model": "new"}}
	seen := map[string]bool{}
	for answers := 1; ; answers++ {
		found, _, err := findServers(t, r, nil, in)
		require.NoError(t, err)
		require.LessOrEqual(t, len(found.Servers), 200)
		for _, s := range found.Servers {
			require.False(t, seen[s.Serial])
			seen[s.Serial] = true
		}
		if found.Next == 0 {
			require.Equal(t, 6, answers, "one of ten pages without any, then one for each page")
			break
		}
		in.Start = found.Next
	}
	require.Len(t, seen, 500)
	for i, start := range r.asked {
		require.Equal(t, i*100, start)
	}
	require.Len(t, r.asked, 17)

	r.fails = &device.Fault{Class: device.Transient, Code: device.CodeApplianceUnreachable, Message: "it does not answer"}
	_, _, err := findServers(t, r, nil, in)
	require.ErrorContains(t, err, "it does not answer")
	r.fails = errors.New("broken")
	_, _, err = findServers(t, r, nil, in)
	require.Error(t, err)
}
