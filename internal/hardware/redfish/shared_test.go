package redfish

import (
	"errors"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"burnish/internal/testkit/redfishsim"
)

// Steps, looks and power changes of several servers share a BMC's session, which ends and begins
// meanwhile.
func TestASessionIsSharedByManyAtOnce(t *testing.T) {
	s := newStepper(t, redfishsim.IDRAC)
	var all sync.WaitGroup
	failed := make([]error, 8)
	for i := range failed {
		all.Go(func() {
			for n := range 6 {
				opened, err := s.driver.Open(t.Context(), s.target, s.enrolled, false)
				if err != nil {
					failed[i] = err
					return
				}
				if i == 0 && n%2 == 1 {
					s.bmc.Change(func(state *redfishsim.State) { state.Sessions = nil })
				}
				failed[i] = errors.Join(failed[i], opened.Check(t.Context()), opened.Close())
			}
		})
	}
	all.Wait()
	require.NoError(t, errors.Join(failed...))
	require.Empty(t, s.bmc.OpenSessions())
	require.Empty(t, s.driver.bmcs)
	require.Empty(t, s.sessionFiles())
}
