package oneview

import (
	"fmt"
	"net/http"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"burnish/internal/device"
	"burnish/internal/testkit/oneviewsim"
)

// S4.31
func TestPagesGiveEveryServerOnceByOneRequestEach(t *testing.T) {
	r := newRig(t, oneviewsim.Servers(250))
	require.NoError(t, r.sim.Take("server-7"))
	for count, requests := range map[int]int{100: 3, 250: 3, 1000: 3, 60: 5, 125: 3} { // it gives 100 at most
		var all []Hardware
		_, err := r.read()
		require.NoError(t, err)
		before := r.sim.Count()
		for start, pages := 0, 1; ; pages++ {
			page, err := r.pools.Page(t.Context(), "rack1", start, count)
			require.NoError(t, err)
			require.Equal(t, 250, page.Total)
			all = append(all, page.Servers...)
			if start = page.Next; start == 0 {
				break
			}
		}
		require.Equal(t, requests, r.sim.Count()-before, count)
		require.Len(t, all, 250)
		taken := 0
		uris := map[string]bool{}
		for _, h := range all {
			uris[h.URI] = true
			require.NotEmpty(t, h.Serial)
			if h.Profile != "" {
				taken++
				require.Equal(t, "server-7", h.Name)
				require.Equal(t, "On", h.Power)
				require.Equal(t, oneviewsim.ProfileApplied, h.State)
			}
		}
		require.Len(t, uris, 250)
		require.Equal(t, 1, taken)
	}
}

// pagesOf serves pages by a function, which gives their body by start.
func pagesOf(t *testing.T, body func(start, count int) string) *Appliances {
	t.Helper()
	pools, _ := served(t, func(w http.ResponseWriter, r *http.Request) {
		if login(w, r) {
			return
		}
		start, err := strconv.Atoi(r.URL.Query().Get("start"))
		if err != nil {
			t.Error(err)
		}
		count, err := strconv.Atoi(r.URL.Query().Get("count"))
		if err != nil {
			t.Error(err)
		}
		_, _ = fmt.Fprint(w, body(start, count))
	})
	return pools
}

func TestPagesThatShrinkRepeatOrLieEnd(t *testing.T) {
	member := func(n int) string {
		return fmt.Sprintf(`{"uri": "/rest/server-hardware/%d", "serverProfileUri": null}`, n)
	}
	for name, tt := range map[string]struct {
		body  func(start, count int) string
		pages int // at most
		want  int // servers
	}{
		"honest": {func(start, _ int) string {
			return fmt.Sprintf(`{"start": %d, "total": 3, "members": [%s]}`, start, member(start))
		}, 3, 3},
		"a server whose answer lacks its profile is not free": {func(start, _ int) string {
			return fmt.Sprintf(`{"start": %d, "total": 2, "members": [%s, {"uri": "/rest/server-hardware/9"}]}`, start,
				member(start))
		}, 1, 1},
		"empty": {func(int, int) string { return `{"start": 0, "total": 0, "members": []}` }, 1, 0},
		"a total that is too large": {func(start, _ int) string {
			if start >= 2 {
				return fmt.Sprintf(`{"start": %d, "total": 1000000000, "members": []}`, start)
			}
			return fmt.Sprintf(`{"start": %d, "total": 1000000000, "members": [%s]}`, start, member(start))
		}, 3, 2},
		"no end": {func(start, _ int) string {
			return fmt.Sprintf(`{"start": %d, "total": 1000000000, "members": [%s]}`, start, member(start))
		}, 20, -1},
		"a total that is too small": {func(start, _ int) string {
			if start == 2 {
				return fmt.Sprintf(`{"start": 2, "total": 1, "members": [%s], "nextPageUri": null}`, member(2))
			}
			return fmt.Sprintf(
				`{"start": %d, "total": 1, "members": [%s], "nextPageUri": "/rest/server-hardware?start=%d&count=1"}`, start,
				member(start), start+1)
		}, 3, 3},
		"a next page that is this one": {func(start, _ int) string {
			return fmt.Sprintf(`{"start": %d, "total": 2, "members": [%s], "nextPageUri": "/rest/server-hardware?start=0"}`,
				start, member(start))
		}, 2, 2},
		"a next page that leaves servers out": {func(start, _ int) string {
			return fmt.Sprintf(`{"start": %d, "total": 4, "members": [%s], "nextPageUri": "/rest/server-hardware?start=%d"}`,
				start, member(start), min(start+3, 4))
		}, 5, 5},
		"a next page elsewhere": {func(start, _ int) string {
			return fmt.Sprintf(
				`{"start": %d, "total": 1, "members": [%s], "nextPageUri": "https://elsewhere/rest/server-hardware?start=1"}`,
				start, member(start))
		}, 1, 1},
		"members that repeat": {func(start, _ int) string {
			return fmt.Sprintf(`{"start": %d, "total": 2, "members": [%s, %[2]s, null, {"uri": "/other/1"}]}`, start, member(1))
		}, 1, 1},
		"without start": {func(start, _ int) string {
			return fmt.Sprintf(`{"total": 2, "members": [%s]}`, member(start))
		}, 2, 2},
	} {
		t.Run(name, func(t *testing.T) {
			pools := pagesOf(t, tt.body)
			pages, start := 0, 0
			seen := map[string]bool{}
			for pages < tt.pages {
				page, err := pools.Page(t.Context(), "rack1", start, 1)
				require.NoError(t, err)
				pages++
				for _, h := range page.Servers {
					seen[h.URI] = true
				}
				if page.Next == 0 {
					start = 0
					break
				}
				require.Greater(t, page.Next, start)
				start = page.Next
			}
			if tt.want >= 0 {
				require.Zero(t, start, "it goes on after %d pages", pages)
				require.Len(t, seen, tt.want)
			}
		})
	}
	// What has no end ends at a number of servers that no appliance has.
	pools := pagesOf(t, func(start, _ int) string {
		return fmt.Sprintf(`{"start": %d, "total": 1000000000, "members": [%s]}`, start, member(start))
	})
	page, err := pools.Page(t.Context(), "rack1", maxServers, 1)
	require.NoError(t, err)
	require.Zero(t, page.Next)
}

func TestAPageThatIsAnotherOneIsRefused(t *testing.T) {
	pools := pagesOf(t, func(int, int) string {
		return `{"start": 0, "total": 9, "members": [{"uri": "/rest/server-hardware/1"}]}`
	})
	_, err := pools.Page(t.Context(), "rack1", 1, 1)
	requireFault(t, err, device.NeedsOperator, device.CodeApplianceRefused)
	for _, bad := range [][2]int{{-1, 1}, {0, 0}, {0, maxPageSize + 1}, {maxServers + 1, 1}} {
		_, err = pools.Page(t.Context(), "rack1", bad[0], bad[1])
		requireFault(t, err, device.Permanent, device.CodeInvalid)
	}
}
