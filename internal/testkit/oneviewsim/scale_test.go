package oneviewsim_test

import (
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"burnish/internal/testkit/oneviewsim"
)

// Many clients at once: each server gets one profile, whoever is first.
func TestManyClientsAtOnce(t *testing.T) {
	s := oneviewsim.Start(t, oneviewsim.Servers(4))
	c := login(t, s)
	template := c.profile("", "")
	var servers []string
	for i := range 4 {
		servers = append(servers, c.hardware(fmt.Sprintf("server-%d", i+1)))
	}
	failed := make(chan error, 100)
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			twin := &client{t: t, url: c.url, http: c.http, version: c.version, auth: c.auth}
			for j, server := range servers {
				body := map[string]any{"type": template["type"], "name": fmt.Sprintf("p-%d-%d", i, j), "serverHardwareUri": server}
				if r := twin.do("POST", posts, body); r.status != 202 {
					failed <- fmt.Errorf("%d %w", r.status, r.err)
				}
				twin.get("/rest/server-hardware")
				s.Requests()
				s.Violations()
				s.State()
			}
		})
	}
	all.Wait()
	close(failed)
	for err := range failed {
		require.NoError(t, err)
	}
	s.Hurry()
	s.Hurry()
	require.Len(t, s.Profiles(s.Username), 4)
	require.Len(t, s.Tasks(), 32)
	require.Empty(t, s.Violations())
}
