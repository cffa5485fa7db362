package redfish

import (
	"errors"
	"net/http"
	"sync"
	"testing"
	"time"

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
	require.Empty(t, s.sessionFiles())
}

// Who comes while the last one logs out waits, and makes a new session.
func TestWhoComesDuringALogoutGetsANewSession(t *testing.T) {
	s := newStepper(t, redfishsim.IDRAC)
	first := s.open()
	before := s.logins()
	s.bmc.Inject(redfishsim.Fault{Method: http.MethodDelete, Path: "*/Sessions/*", Kind: redfishsim.HoldAfter})
	left := make(chan error, 1)
	go func() { left <- first.Close() }()
	require.Eventually(t, func() bool { return len(s.bmc.OpenSessions()) == 0 }, time.Minute, time.Millisecond)
	next, err := s.driver.connect(s.target)
	require.NoError(t, err)
	s.bmc.ClearFaults()
	next.enrolled = s.enrolled
	require.NoError(t, next.Check(t.Context()))
	require.NoError(t, <-left)
	require.NoError(t, next.Check(t.Context()))
	require.Equal(t, before+1, s.logins(), "one session")
	require.Len(t, s.bmc.OpenSessions(), 1)
	require.NoError(t, next.Close())
	require.Empty(t, s.bmc.OpenSessions())
	require.Empty(t, s.sessionFiles())
}
