package redfish

import (
	"errors"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"burnish/internal/hardware"
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

// closing calls a function when the idle connections are closed.
type closing struct {
	http.RoundTripper
	closed func()
}

func (c closing) CloseIdleConnections() { c.closed() }

// A user who leaves while the last one logs out must not take away the session that the next
// user makes: two sessions of one worker would then delete each other as orphans.
func TestWhoLeavesLateLeavesTheNextSessionAlone(t *testing.T) {
	s := newStepper(t, redfishsim.IDRAC)
	first := s.open()
	b := first.c.bmc
	before := s.logins()
	closes := 0 // of the first BMC, whose session is held meanwhile
	var next hardware.Handle
	var failed error
	b.http.Transport = closing{b.http.Transport, func() {
		if closes++; closes == 2 {
			next, failed = s.driver.Open(t.Context(), s.target, s.enrolled, true)
		}
	}}
	s.bmc.Inject(redfishsim.Fault{Method: http.MethodDelete, Path: "*/Sessions/*", Kind: redfishsim.HoldAfter})
	left := make(chan error, 2)
	go func() { left <- first.Close() }()
	require.Eventually(t, func() bool { return len(s.bmc.OpenSessions()) == 0 }, time.Minute, time.Millisecond)

	late, err := s.driver.connect(s.target)
	require.NoError(t, err)
	require.Same(t, b, late.c.bmc)
	go func() { left <- late.Close() }()
	require.Eventually(t, func() bool {
		s.driver.mu.Lock()
		defer s.driver.mu.Unlock()
		return b.users == 0
	}, time.Minute, time.Millisecond)
	s.bmc.ClearFaults()
	require.NoError(t, errors.Join(<-left, <-left))
	require.NoError(t, failed)
	if next == nil { // nothing of the first BMC was touched after its end
		next = s.open()
	}
	another := s.open()
	require.Equal(t, before+1, s.logins(), "one session")
	require.Len(t, s.bmc.OpenSessions(), 1)
	require.NoError(t, errors.Join(next.Check(t.Context()), next.Close(), another.Check(t.Context()), another.Close()))
	require.Empty(t, s.bmc.OpenSessions())
	require.Empty(t, s.driver.bmcs)
	require.Empty(t, s.sessionFiles())
}
