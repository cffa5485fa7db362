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
		a, b := s.open(), s.open()
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
		require.Empty(t, s.driver.bmcs)
		idle := s.bmc.Count()
		require.NoError(t, s.open().Close())
		require.Greater(t, s.bmc.Count(), idle)
	})
}

// A canceled step must not leave its session open.
func TestACanceledStepLogsOut(t *testing.T) {
	s := newStepper(t, redfishsim.IDRAC)
	ctx, cancel := context.WithCancel(t.Context())
	opened, err := s.driver.Open(ctx, s.target, s.enrolled, true)
	require.NoError(t, err)
	cancel()
	h, is := opened.(*handle)
	require.True(t, is)
	require.NoError(t, h.c.bmc.release(ctx))
	require.Empty(t, s.bmc.OpenSessions())
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

func TestAFullSessionTableIsWaitedForVisibly(t *testing.T) {
	for _, p := range []redfishsim.Personality{redfishsim.IDRAC, redfishsim.ILO} {
		s := newStepper(t, p)
		places := s.bmc.Config().MaxSessions
		full := func(state *redfishsim.State) {
			for range places {
				state.Sessions = append(state.Sessions, &redfishsim.Session{ID: "other", User: "other", Used: time.Now()})
			}
		}
		s.bmc.Change(full)
		h, err := s.driver.connect(s.target)
		require.NoError(t, err)
		var said []string
		h.c.report = func(doing string) error {
			if said = append(said, doing); len(said) == 3 {
				s.bmc.Change(func(state *redfishsim.State) { state.Sessions = nil })
			}
			return nil
		}
		_, err = h.c.readSystem(t.Context(), h.system)
		require.NoError(t, err)
		require.Len(t, said, 3)
		require.Contains(t, said[0], "session table")
		require.NoError(t, h.Close())

		s.bmc.Change(full)
		s.driver.timing.sessions = 20 * time.Millisecond
		_, err = s.driver.Open(t.Context(), s.target, s.enrolled, true)
		require.Equal(t, device.CodeBMCSessionLimit, code(err), "%v", err)
		fault, _ := device.AsFault(err)
		require.Equal(t, device.Transient, fault.Class)

		stop := errors.New("stop")
		h, err = s.driver.connect(s.target)
		require.NoError(t, err)
		h.c.report = func(string) error { return stop }
		_, err = h.c.readSystem(t.Context(), h.system)
		require.ErrorIs(t, err, stop)
		require.NoError(t, h.Close())
	}
}

// Who cannot show the wait must not wait long: an operator sees the fault instead.
func TestWithoutAReportAFullSessionTableIsAFaultSoon(t *testing.T) {
	s := newStepper(t, redfishsim.IDRAC)
	s.driver.timing.look, s.driver.timing.sessions = 20*time.Millisecond, time.Hour
	places := s.bmc.Config().MaxSessions
	s.bmc.Change(func(state *redfishsim.State) {
		for range places {
			state.Sessions = append(state.Sessions, &redfishsim.Session{ID: "other", User: "other", Used: time.Now()})
		}
	})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for what, look := range map[string]func() error{
		"Open":     func() error { _, err := s.driver.Open(ctx, s.target, s.enrolled, true); return err },
		"Discover": func() error { _, err := s.driver.Discover(ctx, s.target, s.enrolled); return err },
	} {
		err := look()
		require.Equal(t, device.CodeBMCSessionLimit, code(err), "%s: %v", what, err)
		fault, _ := device.AsFault(err)
		require.Equal(t, device.Transient, fault.Class)
		require.Contains(t, fault.Message, "no free session")
		require.Contains(t, fault.Message, "RAC0218")
		require.Contains(t, fault.Remedy, "end unused sessions on the BMC")
	}
	require.Empty(t, s.driver.bmcs)

	// Who shows it waits on.
	h, err := s.driver.connect(s.target)
	require.NoError(t, err)
	shown, began := 0, time.Now()
	h.c.report = func(doing string) error {
		require.Contains(t, doing, "session table")
		if shown++; time.Since(began) > 3*s.driver.timing.look {
			s.bmc.Change(func(state *redfishsim.State) { state.Sessions = nil })
		}
		return nil
	}
	_, err = h.c.readSystem(ctx, h.system)
	require.NoError(t, err)
	require.Greater(t, shown, 1)
	require.NoError(t, h.Close())
	require.Empty(t, s.bmc.OpenSessions())
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
			after := New(s.driver.host)
			after.timing = quickTiming
			s.driver = after
			h := s.open()
			require.Len(t, s.bmc.OpenSessions(), 1)
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
	s.driver = New(s.driver.host)
	s.driver.timing = quickTiming
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
		Body:   `{"error":{"code":"Base.1.8.GeneralError","message":"hunter2","@Message.ExtendedInfo":[{"MessageId":"Base.1.8.PropertyValueError","Message":"The password hunter2 is wrong.","MessageArgs":["hunter2"]}]}}`})
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
	require.Equal(t, before, s.bmc.Count())
	secret.CA, secret.Insecure = "", true
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
		require.NoError(t, h.Close())
	}
	require.Zero(t, reached.Load())
}

func TestALinkToAnotherHostIsNotFollowed(t *testing.T) {
	s := newStepper(t, redfishsim.Supermicro)
	h := s.open()
	own := h.c.bmc.base.Host
	for link, want := range map[string]string{
		"/redfish/v1/x":                      "/redfish/v1/x",
		"https://" + own + "/redfish/v1/x?a": "/redfish/v1/x?a",
		"https://other.example/redfish/v1/x": "",
		"http://" + own + "/redfish/v1/x":    "/redfish/v1/x",
		"https://127.0.0.1/redfish/v1/x":     "", // another port
		"//other.example/x":                  "",
		"@other.example/x":                   "/redfish/v1/Systems/@other.example/x",
		"https://u:p@" + own + "/x":          "",
		"relative":                           "/redfish/v1/Systems/relative",
		"../Chassis/1":                       "/redfish/v1/Chassis/1",
		"redfish/v1/Chassis/1":               "/redfish/v1/Chassis/1",
		"https://" + own:                     "",
		"":                                   "",
		"javascript:x":                       "",
	} {
		require.Equal(t, want, h.c.bmc.path("/redfish/v1/Systems/1", link), link)
	}
	_, err := h.c.Get(t.Context(), "@other.example/x")
	require.Error(t, err)
	require.NoError(t, h.Close())
}
