package oneview

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"burnish/internal/device"
	"burnish/internal/testkit/oneviewsim"
)

func TestCallsShareOneSessionWhichIsLoggedOut(t *testing.T) {
	r := newRig(t)
	errs := make(chan error, 20)
	var all sync.WaitGroup
	for range cap(errs) {
		all.Go(func() {
			_, err := r.pools.Read(r.Context(), "rack1", r.server)
			errs <- err
		})
	}
	all.Wait()
	close(errs)
	for err := range errs {
		require.NoError(t, err)
	}
	require.Equal(t, 1, r.sim.Counts().Logins)

	// A session that ends is made once more.
	r.sim.ExpireSessions()
	_, err := r.read()
	require.NoError(t, err)
	require.Equal(t, 2, r.sim.Counts().Logins)
	r.sim.Inject(oneviewsim.Unauthorized(oneviewsim.Fault{Path: "/rest/server-hardware/*", Times: -1}))
	_, err = r.read()
	requireFault(t, err, device.Transient, device.CodeApplianceUnreachable)
	require.Equal(t, 3, r.sim.Counts().Logins)
	r.sim.ClearFaults()

	// Close has a context of its own.
	_, err = r.read()
	require.NoError(t, err)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	require.NotEmpty(t, r.sim.OpenSessions(r.sim.Username))
	require.NoError(t, r.pools.Close(ended))
	sessions := r.sim.OpenSessions(r.sim.Username)
	require.Len(t, sessions, 2) // those that the 401s have hidden
	_, err = r.read()
	requireFault(t, err, device.Transient, device.CodeWorkerStopping)
	require.Equal(t, sessions, r.sim.OpenSessions(r.sim.Username))
}

func TestARefusedLoginIsNotRepeated(t *testing.T) {
	r := newRig(t)
	right := fileOf(r.sim, "")
	wrong := strings.Replace(right, r.sim.Password, "hunter2", 1)
	r.rewrite(wrong)
	for range 5 {
		_, err := r.read()
		require.Contains(t, requireFault(t, err, device.NeedsOperator, device.CodeApplianceRefused),
			"401 to the login (AUTHN_AUTH_FAIL)")
	}
	logins := func() (n int) {
		for _, one := range r.sim.Requests() {
			if one.Path == sessionsPath && one.Method == http.MethodPost {
				n++
			}
		}
		return n
	}
	require.Equal(t, 1, logins())
	// Another setting does not try it again, another login does.
	r.rewrite(wrong + "    page_size: 7\n")
	_, err := r.read()
	requireFault(t, err, device.NeedsOperator, device.CodeApplianceRefused)
	require.Equal(t, 1, logins())
	r.rewrite(right)
	_, err = r.read()
	require.NoError(t, err)
	require.Equal(t, 2, logins())

	// After a time it is tried once more.
	r.pools.timing.refusal = time.Millisecond
	r.rewrite(wrong)
	_, err = r.read()
	requireFault(t, err, device.NeedsOperator, device.CodeApplianceRefused)
	require.Eventually(t, func() bool {
		_, err = r.read()
		return logins() > 3
	}, time.Minute, 5*time.Millisecond)

	// An appliance that is starting has refused nothing.
	r.rewrite(right)
	r.sim.Inject(oneviewsim.Unavailable(oneviewsim.Fault{Method: http.MethodPost, Path: sessionsPath}))
	require.NoError(t, r.pools.Close(t.Context()))
	r.pools.closed = false
	_, err = r.read()
	requireFault(t, err, device.Transient, device.CodeApplianceUnreachable)
	_, err = r.read()
	require.NoError(t, err)
}

func TestTheFileIsReadAgain(t *testing.T) {
	r := newRig(t)
	_, err := r.read()
	require.NoError(t, err)
	r.rewrite(fileOf(r.sim, "    page_size: 7\n    periodic_check_interval: 0\n"))
	settings, err := r.pools.Settings("rack1")
	require.NoError(t, err)
	require.Equal(t, Settings{ApplyTimeout: time.Hour, PageSize: 7}, settings)
	_, err = r.read()
	require.NoError(t, err)
	require.Equal(t, 1, r.sim.Counts().Logins)

	// Another login is another session; the old one is logged out.
	r.rewrite(fileOf(r.sim, "    insecure: true\n"))
	_, err = r.read()
	require.NoError(t, err)
	require.Equal(t, 2, r.sim.Counts().Logins)
	require.Len(t, r.sim.OpenSessions(r.sim.Username), 1)

	r.rewrite("appliances: {rack1: {hunter2: 1}}")
	_, err = r.read()
	requireFault(t, err, device.NeedsOperator, device.CodeApplianceRefused)
	require.Equal(t, []string{"rack1"}, r.pools.Names())
	require.NoError(t, os.Remove(r.pools.file))
	_, err = r.pools.Settings("rack1")
	requireFault(t, err, device.NeedsOperator, device.CodeApplianceRefused)

	none, err := Open("")
	require.NoError(t, err)
	require.Empty(t, none.Names())
	_, err = none.Read(t.Context(), "rack1", r.server)
	require.Contains(t, requireFault(t, err, device.NeedsOperator, device.CodeApplianceRefused), "rack1")
	require.NoError(t, none.Close(t.Context()))
}

func TestTheHighestVersionThatBothKnowIsSpoken(t *testing.T) {
	for name, tt := range map[string]struct{ minimum, current, want int }{
		"same":    {120, 6200, 6200},
		"newer":   {120, 9000, 8000},
		"its own": {120, 5100, 5100}, // whatever release it is of
		"oldest":  {120, 300, 300},
		"too old": {100, 299, 0},
		"too new": {8001, 9000, 0},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, func(c *oneviewsim.Config, _ *oneviewsim.State) {
				c.MinimumVersion, c.CurrentVersion = tt.minimum, tt.current
			})
			_, err := r.read()
			if tt.want == 0 {
				require.Contains(t, requireFault(t, err, device.NeedsOperator, device.CodeApplianceRefused),
					"it speaks the API versions")
				return
			}
			require.NoError(t, err)
			s := r.pools.sessions["rack1"]
			require.Equal(t, tt.want, s.version)

			// An appliance that was updated, and kept its sessions, is asked again.
			r.sim.Configure(func(c *oneviewsim.Config) { c.MinimumVersion, c.CurrentVersion = 8000, 8000 })
			_, err = r.read()
			require.NoError(t, err)
			require.Equal(t, 8000, s.version)
		})
	}
}

// speak has the appliance updated, or put back, to one version of its API.
func (r *rig) speak(version int) {
	r.sim.Configure(func(c *oneviewsim.Config) { c.MinimumVersion, c.CurrentVersion = version, version })
}

// A read that is answered with 412, for whatever reason, gives up no session: it would stay open
// on the appliance. One whose version is not known any more when it ends is logged out too.
func TestAnUnknownVersionLeavesNoSessionOpen(t *testing.T) {
	mismatch := oneviewsim.Fault{Method: http.MethodGet, Path: "/rest/server-hardware/*"}
	always := mismatch
	always.Times = -1
	for name, disturb := range map[string]func(r *rig){
		"for once": func(r *rig) { r.sim.Inject(oneviewsim.Mismatch(mismatch)) },
		"for good": func(r *rig) { r.sim.Inject(oneviewsim.Mismatch(always)) },
		"updated": func(r *rig) {
			r.sim.Configure(func(c *oneviewsim.Config) { c.MinimumVersion, c.CurrentVersion = 8000, 8000 })
		},
		"and expired": func(r *rig) {
			r.sim.Configure(func(c *oneviewsim.Config) { c.MinimumVersion, c.CurrentVersion = 8000, 8000 })
			r.sim.ExpireSessions()
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			_, err := r.read()
			require.NoError(t, err)
			disturb(r)
			for range 5 {
				_, err = r.read()
				require.Equal(t, name != "for good", err == nil, "%v", err)
			}
			require.Len(t, r.sim.OpenSessions(r.sim.Username), 1)
			r.speak(300)
			require.NoError(t, r.pools.Close(t.Context()))
			require.Empty(t, r.sim.OpenSessions(r.sim.Username))
		})
	}
}

// A login whose caller gives up is not abandoned: the next call finds its session.
func TestALoginThatIsCanceledLeavesNoSessionOpen(t *testing.T) {
	r := newRig(t)
	r.sim.Inject(oneviewsim.Fault{Method: http.MethodPost, Path: sessionsPath, Kind: oneviewsim.HoldAfter})
	ctx, cancel := context.WithCancel(t.Context())
	gaveUp := make(chan error)
	go func() {
		_, err := r.pools.Read(ctx, "rack1", r.server)
		gaveUp <- err
	}()
	opened := func() bool { return len(r.sim.OpenSessions(r.sim.Username)) == 1 }
	require.Eventually(t, opened, time.Minute, time.Millisecond)
	cancel()
	r.sim.ClearFaults()
	require.ErrorIs(t, <-gaveUp, context.Canceled)
	_, err := r.read()
	require.NoError(t, err)
	require.Len(t, r.sim.OpenSessions(r.sim.Username), 1)
}

// served is an oneview.yaml of a handler.
func served(t *testing.T, handler http.HandlerFunc) (*Appliances, string) {
	t.Helper()
	web := httptest.NewServer(handler)
	t.Cleanup(web.Close)
	pools, err :=
		Open(writeFile(t, "appliances: {rack1: {url: \""+web.URL+"\", username: u, password: hunter2, insecure: true}}\n"))
	require.NoError(t, err)
	pools.timing = quickTiming()
	return pools, web.URL
}

// login answers as an appliance does up to the login; else false.
func login(w http.ResponseWriter, r *http.Request) bool {
	switch r.URL.Path {
	case versionPath:
		_, _ = w.Write([]byte(`{"currentVersion": 800, "minimumVersion": 120}`))
	case sessionsPath:
		_, _ = w.Write([]byte(`{"sessionID": "hunter2"}`))
	default:
		return false
	}
	return true
}

func TestNoRedirectIsFollowed(t *testing.T) {
	other := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		t.Errorf("%s %s with the session %q went to another host", r.Method, r.URL, r.Header.Get("auth"))
	}))
	defer other.Close()
	for _, path := range []string{versionPath, sessionsPath, hardwarePath + "/1"} {
		pools, _ := served(t, func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == path {
				http.Redirect(w, r, other.URL+r.URL.Path, http.StatusTemporaryRedirect)
				return
			}
			login(w, r)
		})
		_, err := pools.Read(t.Context(), "rack1", Server{Hardware: hardwarePath + "/1", Template: oneviewsim.TemplateURI,
			UUID: deviceUUID, Serial: "1"})
		requireFault(t, err, device.NeedsOperator, device.CodeApplianceRefused)
	}
}

func TestALinkToAnotherHostIsNotFollowed(t *testing.T) {
	r := newRig(t)
	_, err := r.read()
	require.NoError(t, err)
	s := r.pools.sessions["rack1"]
	host := s.base.Host
	for _, good := range []string{"/rest/tasks/1", "https://" + host + "/rest/tasks/1", " /rest/tasks/1 "} {
		require.Equal(t, "/rest/tasks/1", s.resource(good, tasksPath+"/"), good)
	}
	for _, bad := range []string{
		"", "https://elsewhere/rest/tasks/1", "//elsewhere/rest/tasks/1", "http://" + host + "/rest/tasks/1", "https://u:p@" +
			host + "/rest/tasks/1",
		"rest/tasks/1", "/rest/tasks/", "/rest/tasks", "/rest/tasks/../server-profiles/1", "/rest/tasks/1/2",
		"/rest/tasks/1?a=b", "/rest/tasks/1%2F2",
		"/rest/server-profiles/1", "/restore/tasks/1", "/rest/tasks/1#a", "mailto:a@b", "/rest/tasks/\x00",
	} {
		require.Empty(t, s.resource(bad, tasksPath+"/"), bad)
	}
	// The task on another host is not asked; the server itself shows the end.
	r.sim.Inject(oneviewsim.Fault{Method: http.MethodPost, Path: profilesPath, Kind: oneviewsim.OtherHost})
	_, err = r.apply()
	require.NoError(t, err)
	require.Empty(t, r.sim.Violations())
}

func TestAnAnswerIsBoundedAndOneLine(t *testing.T) {
	for name, tt := range map[string]struct {
		status int
		body   string
		class  device.Class
		code   device.Code
		says   string
	}{
		"too large":  {200, strings.Repeat(" ", largestAnswer+1), device.NeedsOperator, device.CodeApplianceRefused, "larger than"},
		"no JSON":    {200, "<html>", device.Transient, device.CodeToolOutputInvalid, "JSON"},
		"error page": {404, "<html>", device.NeedsOperator, device.CodeApplianceRefused, "no server"},
		"words":      {403, `{"errorCode": "NO", "message": "not\nyou", "recommendedActions": ["ask\nthem"]}`, device.NeedsOperator, device.CodeApplianceRefused, "403 to GET /rest/server-hardware/1: NO not you ask them"},
		"long words": {403, `{"message": "` + strings.Repeat("ä", 4000) + `"}`, device.NeedsOperator, device.CodeApplianceRefused, "…"},
		"busy":       {429, "", device.Transient, device.CodeApplianceUnreachable, "429"},
	} {
		t.Run(name, func(t *testing.T) {
			pools, _ := served(t, func(w http.ResponseWriter, r *http.Request) {
				if !login(w, r) {
					w.WriteHeader(tt.status)
					_, _ = w.Write([]byte(tt.body))
				}
			})
			_, err := pools.Read(t.Context(), "rack1", Server{Hardware: hardwarePath + "/1", Template: oneviewsim.TemplateURI,
				UUID: deviceUUID, Serial: "1"})
			said := requireFault(t, err, tt.class, tt.code)
			require.Contains(t, said, tt.says)
			require.Less(t, utf8.RuneCountInString(said), 500)
			require.True(t, utf8.ValidString(said))
		})
	}
}

// An appliance that is away is said once, without the URL of the request.
func TestAnAnswerThatIsLostNamesItsRequestOnce(t *testing.T) {
	r := newRig(t)
	r.sim.Inject(oneviewsim.Fault{Method: http.MethodGet, Path: r.server.Hardware, Times: -1, Kind: oneviewsim.CutBefore})
	_, err := r.read()
	said := requireFault(t, err, device.Transient, device.CodeApplianceUnreachable)
	require.Equal(t, 1, strings.Count(said, r.server.Hardware), said)
}

func TestAnApplianceThatDoesNotAnswerIsNotWaitedForForever(t *testing.T) {
	r := newRig(t)
	r.pools.timing.request = 20 * time.Millisecond
	r.sim.Inject(oneviewsim.Fault{Kind: oneviewsim.HangBefore, Times: -1})
	_, err := r.read()
	require.Contains(t, requireFault(t, err, device.Transient, device.CodeApplianceUnreachable), "longer than")
	r.sim.ClearFaults()
	r.pools.sessions["rack1"].timing.request = quickTiming().request
	r.sim.Down(true)
	_, err = r.read()
	requireFault(t, err, device.Transient, device.CodeApplianceUnreachable)
	r.sim.Down(false)
	_, err = r.read()
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = r.pools.Read(ctx, "rack1", r.server)
	require.ErrorIs(t, err, context.Canceled)
}
