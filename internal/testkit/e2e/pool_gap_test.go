package e2e

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"burnish/internal/device"
	"burnish/internal/testkit/oneviewsim"
	"burnish/workflows/contract"
)

// Others take a server, write to it and leave it while an answer of the appliance is slow: to the
// removal of Burnish's profile, or to a look during a bind. It is cleaned before it is offered, and
// the tenant does not get it.
//
// F34
func TestOthersUseAServerWhileAnAnswerIsSlow(t *testing.T) {
	t.Parallel()
	s := newPoolSite(t, newSite(t), []string{"rack1"}, oneviewsim.Servers(1))
	rack := s.appliances["rack1"]
	s.Run(t, "all", s.env()...)
	d := s.shared(t, "node1", "rack1", "server-1", true)
	s.enroll(t, d, "--provide")
	s.requireIdle(t, "node1", "rack1", "server-1")
	s.Must(t, "bind", "node1", "--instance", Instance("alice"), "--timeout", "2m")

	use := func(f oneviewsim.Fault, nonce uint64) {
		t.Helper()
		f.Kind = oneviewsim.HoldAfter
		before, err := rack.Requests()
		require.NoError(t, err)
		require.NoError(t, rack.Inject(f))
		if f.Method == http.MethodDelete {
			s.Must(t, "unbind", "node1", "--instance", Instance("alice"))
		}
		Await(t, time.Minute, "the slow answer", func() (bool, string) {
			all, err := rack.Requests()
			if err != nil {
				return false, err.Error()
			}
			for _, r := range all[len(before):] {
				if len(r.Faults) > 0 && s.server(t, "rack1", "server-1").Profile == "" {
					return true, ""
				}
			}
			return false, ""
		})
		require.NoError(t, rack.Take("server-1"))
		d.Stamp(t, nonce)
		require.NoError(t, rack.Free("server-1"))
		require.NoError(t, rack.ClearFaults())
	}
	requireCleaned := func(cleans int, nonce uint64) {
		t.Helper()
		s.AwaitStatus(t, "node1", time.Minute, "to be cleaned again", func(v contract.DeviceStatus) bool {
			return len(v.Cleans) == cleans && v.DeviceState == device.Available
		})
		s.requireIdle(t, "node1", "rack1", "server-1")
		stamped, _, _ := d.Count(t, nonce)
		require.Zero(t, stamped)
		s.requireRules(t, "rack1")
	}
	use(oneviewsim.Fault{Method: http.MethodDelete, Path: profileOne}, 7)
	requireCleaned(3, 7)

	refused := make(chan error, 1)
	go func() {
		_, err := s.Workflows().Send(t.Context(), "node1", contract.VerbBind,
			contract.BindInput{Instance: Instance("bob"), Request: "r1"})
		refused <- err
	}()
	use(oneviewsim.Fault{Method: http.MethodGet, Path: "*/new-profile"}, 8)
	r, ok := contract.RefusalOf(<-refused)
	require.True(t, ok)
	require.Equal(t, device.CodeConflict, r.Fault.Code)
	requireCleaned(4, 8)
	s.Must(t, "bind", "node1", "--instance", Instance("bob"), "--timeout", "2m")
}
