package redfish

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"burnish/internal/testkit/redfishsim"
)

// restarted gives the stepper a worker that was just started, on the same state directory.
func (s *stepper) restarted() {
	before := s.driver
	s.driver = New(before.host)
	s.driver.timing = before.timing
}

// others puts sessions of other clients on the BMC: of the same user from another host now, from
// this host before, with a context of another worker, and of another user from this host now.
func (s *stepper) others() (ids []string) {
	contexts := s.bmc.Config().SessionContext
	s.bmc.Change(func(state *redfishsim.State) {
		for id, one := range map[string]redfishsim.Session{
			"another host": {Origin: "192.0.2.7", Created: time.Now()},
			"before":       {Origin: "127.0.0.1", Created: time.Now().Add(-time.Minute)},
			"another work": {Origin: "127.0.0.1", Created: time.Now(), Context: "burnish ANOTHER"},
			"monitoring":   {Origin: "127.0.0.1", Created: time.Now(), User: "monitoring"},
		} {
			one.ID, one.Token, one.Used = id, id, time.Now()
			if one.User == "" {
				one.User = s.bmc.Username
			}
			if one.Context != "" && !contexts {
				continue // nothing shows that it is another's
			}
			state.Sessions = append(state.Sessions, &one)
			ids = append(ids, id)
		}
	})
	return ids
}

// loginDisturbance is what happens to one login.
type loginDisturbance struct {
	name string
	kind redfishsim.FaultKind
	// kills: the worker ends with it. stops: no login follows, the step ends.
	kills, stops bool
}

var loginDisturbances = []loginDisturbance{
	{"not received", redfishsim.CutBefore, false, false},
	{"answer lost", redfishsim.CutAfter, false, false},
	{"BMC restarts after", redfishsim.RestartAfter, false, false},
	{"killed before", redfishsim.HangBefore, true, false},
	{"killed after", redfishsim.HangAfter, true, false},
	{"answer lost at the end", redfishsim.CutAfter, false, true},
}

// Whatever happens to a login, no session of ours is open after the next one or after the end of
// the step, and those of others are; but for a BMC that shows neither context nor client nor time.
func TestALoginWithoutAnAnswerLeavesNoSession(t *testing.T) {
	each(t, func(t *testing.T, p redfishsim.Personality) {
		for _, d := range loginDisturbances {
			t.Run(d.name, func(t *testing.T) {
				s := newStepper(t, p)
				others := s.others()
				s.restarted()
				s.bmc.Inject(redfishsim.Fault{Method: http.MethodPost, Path: "*/Sessions*", Kind: d.kind})
				ctx, kill := context.WithCancel(t.Context())
				defer kill()
				if d.kills {
					before := s.bmc.Count()
					go func() {
						s.await(ctx, func() bool {
							all := s.bmc.Requests()[before:]
							return len(all) > 0 && all[len(all)-1].Fault != ""
						})
						kill()
					}()
				}
				h, err := s.driver.connect(s.target)
				require.NoError(t, err)
				if d.stops {
					h.c.patience = 0
				}
				_, err = h.c.readSystem(ctx, h.system)
				require.Equal(t, d.kills || d.stops, err != nil, "%v", err)
				if d.kills {
					s.restarted() // nothing of the first worker runs any more
					h = s.open()
				}
				require.NoError(t, h.Close())
				open := s.bmc.OpenSessions()
				left := p == redfishsim.Supermicro && (d.kind == redfishsim.CutAfter || d.kind == redfishsim.HangAfter)
				switch {
				case d.kind == redfishsim.RestartAfter && !s.bmc.Config().SessionsSurvive:
					require.Empty(t, open)
				case left:
					require.Len(t, open, len(others)+1, "what is not proved is left to the BMC")
				default:
					require.ElementsMatch(t, others, open)
				}
			})
		}
	})
}

// Logins that were lost until the session table is full are found with the password itself.
func TestLostLoginsThatFillTheTableAreDeleted(t *testing.T) {
	for _, p := range []redfishsim.Personality{redfishsim.IDRAC, redfishsim.ILO, redfishsim.OpenBMC} {
		s := newStepper(t, p, func(c *redfishsim.Config, _ *redfishsim.State) { c.MaxSessions = 3 })
		s.restarted()
		s.bmc.Inject(redfishsim.Fault{Method: http.MethodPost, Path: "*/Sessions*", Kind: redfishsim.CutAfter, Times: 3 +
			s.refusals()})
		h := s.open()
		require.Len(t, s.bmc.OpenSessions(), 1, p)
		require.NoError(t, h.Close())
		require.Empty(t, s.bmc.OpenSessions(), p)
	}
}

// refusals are the logins that a BMC refuses for their context.
func (s *stepper) refusals() int {
	if s.bmc.Config().RefuseContext {
		return 1
	}
	return 0
}

// Of more sessions than lost logins, nothing says which are ours.
func TestMoreSessionsThanLostLoginsAreLeft(t *testing.T) {
	s := newStepper(t, redfishsim.IDRAC)
	s.bmc.Change(func(state *redfishsim.State) {
		state.Sessions = append(state.Sessions, &redfishsim.Session{ID: "twin", Token: "twin", User: s.bmc.Username,
			Origin: "127.0.0.1", Created: time.Now(), Used: time.Now()})
	})
	s.bmc.Inject(redfishsim.Fault{Method: http.MethodPost, Path: "*/Sessions", Kind: redfishsim.CutAfter})
	require.NoError(t, s.open().Close())
	require.Len(t, s.bmc.OpenSessions(), 2)
	// Later it is not looked for any more.
	require.NotEmpty(t, s.sessionFiles())
	h, err := s.driver.connect(s.target)
	require.NoError(t, err)
	f, err := h.c.bmc.loadSessions()
	require.NoError(t, err)
	require.Len(t, f.Pending, 1)
	f.Pending[0].Began = f.Pending[0].Began.Add(-3 * s.driver.timing.login)
	require.NoError(t, h.c.bmc.saveSessions(f))
	require.NoError(t, h.Close())
	require.NoError(t, s.open().Close())
	require.Empty(t, s.sessionFiles())
}

// A logout whose request or answer is lost is repeated: the session has ended all the same.
func TestALostLogoutIsRepeated(t *testing.T) {
	each(t, func(t *testing.T, p redfishsim.Personality) {
		for _, kind := range []redfishsim.FaultKind{redfishsim.CutBefore, redfishsim.CutAfter} {
			s := newStepper(t, p)
			h := s.open()
			s.bmc.Inject(redfishsim.Fault{Method: http.MethodDelete, Path: "*/Sessions/*", Kind: kind})
			require.NoError(t, h.Close())
			require.Empty(t, s.bmc.OpenSessions())
			require.Empty(t, s.sessionFiles())
		}
	})
}

// The request of a login that is journaled has not left yet.
func TestALoginIsJournaledBeforeItIsSent(t *testing.T) {
	s := newStepper(t, redfishsim.OpenBMC)
	before := s.logins()
	h, err := s.driver.connect(s.target)
	require.NoError(t, err)
	b := h.c.bmc
	require.NoError(t, b.findSessions(t.Context()))
	journaled := 0
	_, err = b.send(t.Context(),
		request{Method: http.MethodPost, Path: b.sessions, Body: map[string]string{"UserName": "x"}, Intent: func() error {
			journaled++
			require.Equal(t, before, s.logins())
			return errKilled
		}}, nil)
	require.ErrorIs(t, err, errKilled)
	require.Equal(t, 1, journaled)
	require.Equal(t, before, s.logins(), "what is not journaled is not sent")

	s.bmc.Inject(redfishsim.Fault{Method: http.MethodPost, Path: "*/Sessions", Kind: redfishsim.HangAfter})
	ctx, kill := context.WithCancel(t.Context())
	go func() {
		s.await(ctx, func() bool { return s.logins() > before })
		kill()
	}()
	_, err = h.c.readSystem(ctx, h.system)
	require.Error(t, err)
	f, err := b.loadSessions()
	require.NoError(t, err)
	require.Len(t, f.Pending, 1)
	require.True(t, strings.HasPrefix(f.Pending[0].Context, "burnish "))
	require.WithinDuration(t, time.Now(), f.Pending[0].Sent, time.Minute)
	require.NoError(t, h.Close())
	require.Empty(t, s.bmc.OpenSessions())
}
