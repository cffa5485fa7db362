package redfish

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"burnish/internal/device"
	"burnish/internal/hardware"
	"burnish/internal/host"
	"burnish/internal/testkit/redfishsim"
	"burnish/internal/testkit/simserver"
)

// open opens the enrolled server.
func (s *stepper) open() *handle {
	s.t.Helper()
	opened, err := s.driver.Open(s.t.Context(), s.target, s.enrolled, true)
	require.NoError(s.t, err)
	h, is := opened.(*handle)
	require.True(s.t, is)
	return h
}

// logins counts the sessions that were asked for.
func (s *stepper) logins() int {
	n := 0
	for _, r := range s.bmc.Requests() {
		if r.Method == http.MethodPost && isSessions(r.Path) {
			n++
		}
	}
	return n
}

func isSessions(path string) bool {
	return strings.HasSuffix(strings.TrimSuffix(path, "/"), "/Sessions")
}

// sessionFiles are the files of open sessions.
func (s *stepper) sessionFiles() []string {
	s.t.Helper()
	files, err := filepath.Glob(filepath.Join(s.driver.host.StateDir, "redfish", "*"))
	require.NoError(s.t, err)
	return files
}

func TestOneSessionIsSharedAndLoggedOut(t *testing.T) {
	each(t, func(t *testing.T, p redfishsim.Personality) {
		s := newStepper(t, p)
		before := s.logins()
		canceled, cancel := context.WithCancel(t.Context())
		a, err := s.driver.Open(canceled, s.target, s.enrolled, true)
		require.NoError(t, err)
		b := s.open()
		require.Len(t, s.bmc.OpenSessions(), 1)
		require.Len(t, s.sessionFiles(), 1)
		text, err := os.ReadFile(s.sessionFiles()[0])
		require.NoError(t, err)
		require.Contains(t, string(text), "Sessions/")
		require.NotContains(t, string(text), s.bmc.State().Sessions[0].Token)
		require.NoError(t, a.Close())
		require.Len(t, s.bmc.OpenSessions(), 1)
		require.NoError(t, b.Check(t.Context()))
		require.NoError(t, b.Close())
		require.Equal(t, before+1, s.logins())
		require.Empty(t, s.bmc.OpenSessions())
		require.Empty(t, s.sessionFiles())
		a, err = s.driver.Open(canceled, s.target, s.enrolled, true)
		require.NoError(t, err)
		cancel()
		require.NoError(t, a.Close(), "a canceled step logs out, too")
		require.Empty(t, s.bmc.OpenSessions())
	})
}

func TestASessionThatTheBMCEndedIsMadeAgain(t *testing.T) {
	s := newStepper(t, redfishsim.IDRAC)
	h := s.open()
	s.bmc.Change(func(state *redfishsim.State) { state.Sessions = nil })
	require.NoError(t, h.Check(t.Context()))
	s.bmc.Change(func(state *redfishsim.State) { state.Sessions, state.Power = nil, "Off" })
	require.NoError(t, h.Power(t.Context(), hardware.PowerOn))
	require.NoError(t, h.Close())
	require.Empty(t, s.bmc.OpenSessions())
	require.Empty(t, s.bmc.WritesWithoutIdentity())

	s.bmc.Inject(redfishsim.Unauthorized(redfishsim.Fault{Path: "/redfish/v1/Systems/*", Times: -1}))
	_, err := s.driver.Open(t.Context(), s.target, s.enrolled, true)
	require.Equal(t, device.CodeBMCLoginRefused, code(err), "%v", err)
	require.Empty(t, s.bmc.OpenSessions())
}

// A step goes on without a session where there is no place for one, and its record says so.
func TestWhereTheSessionTableIsFullTheStepGoesOn(t *testing.T) {
	each(t, func(t *testing.T, p redfishsim.Personality) {
		s := newStepper(t, p)
		places := s.bmc.Config().MaxSessions
		s.bmc.Change(func(state *redfishsim.State) {
			for range places {
				state.Sessions = append(state.Sessions, &redfishsim.Session{ID: "other", User: "other"})
			}
		})
		note, err := s.run("bios_reset", nil)
		require.NoError(t, err)
		require.Contains(t, note, "requests, with HTTP Basic: the BMC's session table was full")
		require.NotContains(t, note, s.bmc.Password)
		requireDefaults(t, s.bmc)
		require.Len(t, s.bmc.OpenSessions(), places)
		require.Empty(t, s.sessionFiles())
		for _, r := range s.bmc.Requests() {
			require.NotContains(t, r.Body, s.bmc.Password)
		}
		s.bmc.Change(func(state *redfishsim.State) { state.Sessions = nil })
		note, err = s.run("security_check", nil)
		require.NoError(t, err)
		require.NotContains(t, note, "Basic", "the next step logs in again")
	})
}

func TestABMCWithoutASessionAndWithoutBasicIsAFault(t *testing.T) {
	s := newStepper(t, redfishsim.IDRAC)
	s.bmc.Configure(func(c *redfishsim.Config) { c.MaxSessions = 0 })
	s.bmc.Inject(redfishsim.Unauthorized(redfishsim.Fault{Path: "/redfish/v1/Systems/*", Times: -1}))
	_, err := s.driver.Open(t.Context(), s.target, s.enrolled, true)
	require.Equal(t, device.CodeBMCSessionLimit, code(err), "%v", err)
	fault, _ := device.AsFault(err)
	require.Equal(t, device.Transient, fault.Class)
	require.Contains(t, fault.Remedy, "end unused sessions on the BMC")
}

// A BMC falls over when it gets many requests at once.
func TestABMCGetsOneRequestAtATimeAndTenASecond(t *testing.T) {
	s := newStepper(t, redfishsim.IDRAC)
	require.Equal(t, 100*time.Millisecond, usualTiming.interval)
	a, b := s.open(), s.open()
	before := s.bmc.Count()
	s.bmc.Inject(redfishsim.Fault{Path: "/redfish/v1/Systems/*", Kind: redfishsim.HoldAfter})
	checked := make(chan error)
	go func() { checked <- a.Check(t.Context()) }()
	require.Eventually(t, func() bool { return s.bmc.Count() == before+1 }, time.Minute, time.Millisecond)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
	defer cancel()
	require.Error(t, b.Check(ctx))
	require.Equal(t, before+1, s.bmc.Count(), "the other waits for its turn")
	s.bmc.ClearFaults()
	require.NoError(t, <-checked)
	require.NoError(t, b.Check(t.Context()))
	require.NoError(t, errors.Join(a.Close(), b.Close()))

	s.restarted()
	s.driver.timing.interval = 20 * time.Millisecond
	before, began := s.bmc.Count(), time.Now()
	require.NoError(t, s.open().Close())
	require.GreaterOrEqual(t, time.Since(began), time.Duration(s.bmc.Count()-before-1)*s.driver.timing.interval)
}

// A worker that was killed leaves a session, which the next one deletes.
func TestTheSessionOfACrashIsDeletedAtTheNextLogin(t *testing.T) {
	each(t, func(t *testing.T, p redfishsim.Personality) {
		for _, full := range []bool{false, true} {
			s := newStepper(t, p)
			s.open() // and never closed
			left := s.bmc.OpenSessions()
			require.Len(t, left, 1)
			if full {
				s.bmc.Configure(func(c *redfishsim.Config) { c.MaxSessions = 1 })
			}
			s.restarted()
			h := s.open()
			require.NotEqual(t, left, s.bmc.OpenSessions())
			require.NoError(t, h.Close())
			require.Empty(t, s.bmc.OpenSessions())
			require.Empty(t, s.sessionFiles())
		}
	})
}

// A BMC that has restarted numbers its sessions from the first again.
func TestAnothersSessionWithTheSameNumberIsLeft(t *testing.T) {
	s := newStepper(t, redfishsim.OpenBMC)
	s.open() // and never closed
	s.bmc.Change(func(state *redfishsim.State) {
		state.Sessions[0].User, state.Sessions[0].Token = "monitoring", "x"
	})
	s.restarted()
	require.NoError(t, s.open().Close())
	require.Len(t, s.bmc.OpenSessions(), 1)
}

func TestALoginWithoutLocationIsLoggedOut(t *testing.T) {
	s := newStepper(t, redfishsim.Supermicro, func(c *redfishsim.Config, _ *redfishsim.State) {
		c.LoginWithoutLocation = true
		c.SessionsPath = "/redfish/v1/Sessions" // that of iDRAC 8
	})
	require.NoError(t, s.open().Close())
	require.Empty(t, s.bmc.OpenSessions())
}

// An account is locked after some wrong passwords.
func TestAWrongPasswordIsTriedOnceAndNeverShown(t *testing.T) {
	s := newStepper(t, redfishsim.IDRAC)
	right, wrong := s.driver.host.Secret, host.Secret{Username: "root", Password: "hunter2", CA: s.bmc.CA}
	s.driver.host.Secret = func(string) (host.Secret, error) { return wrong, nil }
	s.bmc.Inject(redfishsim.Fault{Method: http.MethodPost, Path: "*/Sessions", Kind: redfishsim.Respond,
		Status: http.StatusUnauthorized,
		Body: `{"error":{"code":"Base.1.8.GeneralError","message":"hunter2","@Message.ExtendedInfo":[` +
			`{"MessageId":"Base.1.8.PropertyValueError","Message":"The password hunter2 is wrong.",` +
			`"MessageArgs":["hunter2"]}]}}`})
	before := s.logins()
	_, err := s.driver.Open(t.Context(), s.target, s.enrolled, true)
	require.Equal(t, device.CodeBMCLoginRefused, code(err), "%v", err)
	require.NotContains(t, err.Error(), "hunter2")
	require.Contains(t, err.Error(), "PropertyValueError")
	fault, _ := device.AsFault(err)
	require.Equal(t, device.NeedsOperator, fault.Class)
	require.Equal(t, before+1, s.logins())
	// The secret is read again: no restart is needed.
	s.driver.host.Secret = right
	require.NoError(t, s.open().Close())
}

func TestOnlyABMCWithTheRightCertificateGetsThePassword(t *testing.T) {
	s := newStepper(t, redfishsim.IDRAC)
	_, other, _, err := simserver.Certificate("another authority")
	require.NoError(t, err)
	secret := host.Secret{Username: "root", Password: "hunter2", CA: string(other)}
	s.driver.host.Secret = func(string) (host.Secret, error) { return secret, nil }
	s.driver.timing.look = 10 * time.Millisecond
	before := s.bmc.Count()
	_, err = s.driver.Open(t.Context(), s.target, s.enrolled, true)
	require.ErrorContains(t, err, "certificate")
	secret.CA, secret.Hosts = s.bmc.CA, []string{"bmc.example", "192.0.2.0/24"}
	_, err = s.driver.Open(t.Context(), s.target, s.enrolled, true)
	require.Equal(t, device.CodeNotAllowed, code(err), "%v", err)
	require.NotContains(t, err.Error(), "hunter2")
	require.Equal(t, before, s.bmc.Count())
	secret.CA, secret.Insecure, secret.Hosts = "", true, []string{"127.0.0.0/8"}
	secret.Password = s.bmc.Password
	require.NoError(t, s.open().Close())
	secret.Insecure = false
	s.target.Settings["url"] = strings.Replace(s.bmc.SystemURL, "https", "http", 1)
	_, err = s.driver.Open(t.Context(), s.target, s.enrolled, true)
	require.Equal(t, device.CodeInvalidSetting, code(err), "%v", err)
}

// Go's client would send the token to the other host, and on 307 and 308 the password.
func TestRedirectsToAnotherHostAreRefused(t *testing.T) {
	var reached atomic.Int64
	elsewhere := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached.Add(1) }))
	defer elsewhere.Close()
	for _, status := range []int{301, 302, 303, 307, 308} {
		for name, path := range map[string]string{"login": "*/Sessions", "read": "/redfish/v1/Systems/*",
			"root": "/redfish/v1/"} {
			s := newStepper(t, redfishsim.Supermicro)
			s.restarted()
			s.bmc.Inject(redfishsim.Redirect(redfishsim.Fault{Path: path, Times: -1}, status, elsewhere.URL+
				"/redfish/v1/Systems/1"))
			_, err := s.driver.Open(t.Context(), s.target, s.enrolled, true)
			require.ErrorContains(t, err, "redirect", "%d %s", status, name)
			require.NotContains(t, err.Error(), s.bmc.Password)
		}
		s := newStepper(t, redfishsim.Supermicro)
		h := s.open()
		// A POST that becomes a GET would look like success.
		for _, to := range []string{elsewhere.URL, s.bmc.SystemURL} {
			s.bmc.Inject(redfishsim.Redirect(redfishsim.Fault{Method: http.MethodPost, Path: "*Reset"}, status, to))
			_, err := h.change(t.Context(),
				request{Method: http.MethodPost, Path: "/redfish/v1/Systems/1/Actions/ComputerSystem.Reset",
					Body: map[string]any{"ResetType": "On"}})
			r, ok := asRefusal(err)
			require.True(t, ok, "%d %s: %v", status, to, err)
			if to == elsewhere.URL || status < 307 {
				require.True(t, r.Redirect)
			}
		}
		_, err := h.Get(t.Context(), "@other.example/x")
		require.ErrorContains(t, err, "is not a path of a BMC")
		require.NoError(t, h.Close())
	}
	require.Zero(t, reached.Load())
}

// restarted gives the stepper a worker that was just started, on the same state directory.
func (s *stepper) restarted() {
	before := s.driver
	s.driver = New(before.host)
	s.driver.timing, s.driver.dial = before.timing, before.dial
}

// A login or logout whose request or answer is lost is repeated. The session of a login whose answer was lost is left
// to the BMC's own time-out; those that are known are deleted all the same.
func TestALostLoginOrLogoutIsRepeated(t *testing.T) {
	each(t, func(t *testing.T, p redfishsim.Personality) {
		for _, kind := range []redfishsim.FaultKind{redfishsim.CutBefore, redfishsim.CutAfter} {
			for _, method := range []string{http.MethodPost, http.MethodDelete} {
				s := newStepper(t, p)
				s.bmc.Inject(redfishsim.Fault{Method: method, Path: "*/Sessions*", Kind: kind})
				require.NoError(t, s.open().Close())
				left := 0
				if method == http.MethodPost && kind == redfishsim.CutAfter {
					left = 1
				}
				require.Len(t, s.bmc.OpenSessions(), left)
				require.Empty(t, s.sessionFiles())
			}
		}
	})
}

// A file of another version names no session that this one could delete.
func TestAnUnreadableSessionsFileIsReplaced(t *testing.T) {
	s := newStepper(t, redfishsim.IDRAC)
	h := s.open()
	path := s.sessionFiles()[0]
	require.NoError(t, h.Close())
	require.NoError(t, os.WriteFile(path, []byte(`{"uri": "/redfish/v1/x"}`), 0o600))
	require.NoError(t, s.open().Close())
	require.Empty(t, s.sessionFiles())
}

// A host's name has no case: two servers behind one BMC share a session, and neither deletes the other's.
func TestOneBMCHasOneSessionHoweverItsNameIsWritten(t *testing.T) {
	d, known := New(Host{}), map[*bmc]bool{}
	for _, url := range []string{"https://BMC1/redfish/v1/Systems/1", "https://bmc1/redfish/v1/Systems/2"} {
		h, err := d.connect(hardware.Target{Settings: map[string]string{"url": url, "secret": "rack"}})
		require.NoError(t, err)
		known[h.bmc] = true
	}
	require.Len(t, known, 1)
}
