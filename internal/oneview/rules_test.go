package oneview

import (
	"context"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"burnish/internal/device"
	"burnish/internal/hardware"
	"burnish/internal/testkit/oneviewsim"
)

// S4.23, S4.24
func TestATakenServerIsLeftAlone(t *testing.T) {
	for _, recorded := range []string{"", "/rest/server-profiles/ours"} {
		for _, applying := range []bool{false, true} {
			r := newRig(t)
			require.NoError(t, r.sim.Take("server-1"))
			r.server.Recorded, r.server.Applying = recorded, applying
			theirs := r.hardware()
			want := Found{Ownership: device.PoolTaken, Profile: theirs.Profile, Power: oneviewsim.On, Tag: r.tag()}
			found, err := r.read()
			require.NoError(t, err)
			require.Equal(t, want, found)
			found, err = r.remove()
			require.NoError(t, err)
			require.Equal(t, want, found)
			found, err = r.apply()
			require.Contains(t, requireFault(t, err, device.NeedsOperator, device.CodeServerTaken), theirs.Profile)
			require.Equal(t, want, found)
			require.Zero(t, r.sim.Counts().Writes)
			require.Equal(t, theirs, r.hardware())
		}
	}
}

// A profile with the device's UUID as its name is Burnish's only while one is requested.
func TestAProfileIsAdoptedByItsNameOnlyWhileOneIsRequested(t *testing.T) {
	r := newRig(t)
	_, err := r.apply()
	require.NoError(t, err)
	r.server.Recorded, r.server.Applying = "", false // it was forgotten
	found, err := r.read()
	require.NoError(t, err)
	require.Equal(t, device.PoolTaken, found.Ownership)
	writes := r.sim.Counts().Writes
	found, err = r.remove()
	require.NoError(t, err)
	require.Equal(t, device.PoolTaken, found.Ownership)
	_, err = r.pools.Apply(t.Context(), "rack1", r.server, nil)
	requireFault(t, err, device.NeedsOperator, device.CodeServerTaken)
	require.Equal(t, writes, r.sim.Counts().Writes)

	r.server.Applying = true
	found, err = r.read()
	require.NoError(t, err)
	require.Equal(t, device.PoolOurs, found.Ownership)
	_, err = r.apply()
	require.NoError(t, err)
	require.Equal(t, found.Profile, r.server.Recorded)
	require.Equal(t, writes, r.sim.Counts().Writes)

	// It is removed by its record, whatever its name is: migrated ones have another.
	r.sim.Change(func(s *oneviewsim.State) { s.Profiles[0].Name = "web-1" })
	_, err = r.remove()
	require.NoError(t, err)
	require.Empty(t, r.sim.Profiles(r.sim.Username))
	require.Empty(t, r.sim.Violations())

	// Who has not recorded the request applies nothing: a crash would leak it.
	_, err = r.pools.Apply(t.Context(), "rack1", r.server, nil)
	requireFault(t, err, device.Permanent, device.CodeInternal)
	require.Empty(t, r.sim.Profiles(r.sim.Username))
}

func TestAServerWithAnotherSerialNumberIsNotAskedAbout(t *testing.T) {
	r := newRig(t)
	good := r.server.Serial
	for _, serial := range []string{"", "CZ00000002", good + "1"} {
		r.server.Serial = serial
		for _, call := range []func() (Found, error){r.read, r.apply, r.remove} {
			_, err := call()
			requireFault(t, err, device.NeedsOperator, device.CodeSerialMismatch)
		}
	}
	require.Zero(t, r.sim.Counts().Writes)
	r.server.Serial = " " + strings.ToLower(good)
	_, err := r.apply()
	require.NoError(t, err)
	// It was swapped under its URI.
	r.sim.Change(func(s *oneviewsim.State) { s.Hardware[0].Serial = "CZ9" })
	writes := r.sim.Counts().Writes
	_, err = r.remove()
	requireFault(t, err, device.NeedsOperator, device.CodeSerialMismatch)
	require.Equal(t, writes, r.sim.Counts().Writes)
}

// Each request that changes something follows a read of the server, and nothing is in between.
//
// S4.13
func TestEveryChangeFollowsARead(t *testing.T) {
	r := newRig(t, serverIs(oneviewsim.On))
	_, err := r.apply()
	require.NoError(t, err)
	require.NoError(t, r.sim.SetPower("server-1", oneviewsim.On))
	_, err = r.remove()
	require.NoError(t, err)
	all := r.sim.Requests()
	writes := 0
	for i, one := range all {
		if one.Method == http.MethodGet || one.Path == sessionsPath {
			continue
		}
		writes++
		require.Equal(t, http.MethodGet+" "+r.server.Hardware, all[i-1].Method+" "+all[i-1].Path, "before %s %s",
			one.Method, one.Path)
	}
	require.Equal(t, 4, writes) // off, POST, off, DELETE
}

// Each change asks the lease right before it is sent: a worker that was frozen since its reads
// sends nothing.
//
// F32
func TestNoChangeWithoutTheLease(t *testing.T) {
	for left := range 4 { // off, POST, off, DELETE
		r := newRig(t, serverIs(oneviewsim.On))
		errOver, asked := errors.New("another attempt has the server"), 0
		ctx := hardware.WithLease(r.Context(), func(context.Context) error {
			if asked++; asked > left {
				return errOver
			}
			return nil
		})
		r.server.Applying = true
		found, err := r.pools.Apply(ctx, "rack1", r.server, nil)
		if left >= 2 {
			require.NoError(t, err)
			r.server.Recorded, r.server.Applying = found.Profile, false
			require.NoError(t, r.sim.SetPower("server-1", oneviewsim.On))
			_, err = r.pools.Remove(ctx, "rack1", r.server, nil)
		}
		require.ErrorIs(t, err, errOver)
		require.Equal(t, left, r.sim.Counts().Writes)
	}
}

// No other code sends a request that changes something.
func TestOnlyChangeAndTheSessionSend(t *testing.T) {
	files, err := filepath.Glob("*.go")
	require.NoError(t, err)
	allowed := map[string][]string{
		"Do": {"send"}, "NewRequestWithContext": {"send"}, "authorized": {"get", "change"},
		"send": {"authorized", "login", "negotiate", "end"}, "change": {"reach"},
	}
	calls := map[string]int{}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		require.NoError(t, err)
		for _, declared := range parsed.Decls {
			function, is := declared.(*ast.FuncDecl)
			if !is {
				continue
			}
			ast.Inspect(function, func(n ast.Node) bool {
				call, is := n.(*ast.CallExpr)
				if !is {
					return true
				}
				selector, is := call.Fun.(*ast.SelectorExpr)
				if !is {
					return true
				}
				callers, guarded := allowed[selector.Sel.Name]
				if inner, is := selector.X.(*ast.Ident); selector.Sel.Name == "send" && is && inner.Name == "c" {
					guarded = false // it makes a step, and sends nothing
				}
				if guarded {
					require.Contains(t, callers, function.Name.Name, "%s: %s calls %s", file, function.Name.Name, selector.Sel.Name)
					calls[selector.Sel.Name]++
				}
				return true
			})
		}
	}
	for name := range allowed {
		require.Positive(t, calls[name], name)
	}
}

// S4.25
func TestAServerThatIgnoresTheShutdownIsSwitchedOff(t *testing.T) {
	r := newRig(t, func(c *oneviewsim.Config, _ *oneviewsim.State) { c.IgnoreShutdown = true })
	_, err := r.apply()
	require.NoError(t, err)
	require.NoError(t, r.sim.SetPower("server-1", oneviewsim.On))
	_, err = r.remove()
	require.NoError(t, err)
	require.Equal(t, oneviewsim.Off, r.hardware().Power)
	require.Empty(t, r.sim.Violations())

	// One that cannot be switched off keeps its profile.
	_, err = r.apply()
	require.NoError(t, err)
	require.NoError(t, r.sim.SetPower("server-1", oneviewsim.On))
	r.sim.Inject(oneviewsim.Fault{Method: http.MethodPut, Times: -1, Kind: oneviewsim.ForTask,
		Task: oneviewsim.TaskFault{Ends: oneviewsim.Error, Effect: oneviewsim.NoEffect}})
	_, err = r.remove()
	require.Contains(t, requireFault(t, err, device.NeedsOperator, device.CodeProfileFailed), "SimulatedProblem")
	require.Len(t, r.sim.Profiles(r.sim.Username), 1)
	require.Empty(t, r.sim.Violations())
	r.sim.ClearFaults()
	r.sim.Change(func(s *oneviewsim.State) { s.Hardware[0].PowerLock = true })
	_, err = r.remove()
	require.Contains(t, requireFault(t, err, device.NeedsOperator, device.CodeApplianceRefused), "POWER_LOCKED")
	require.Len(t, r.sim.Profiles(r.sim.Username), 1)
}

// S4.30
func TestATaskThatDoesNotEndIsStuckAndThenFound(t *testing.T) {
	r := newRig(t)
	r.rewrite(fileOf(r.sim, "    apply_timeout: 1\n"))
	r.sim.Inject(oneviewsim.Fault{Method: http.MethodPost, Path: profilesPath, Kind: oneviewsim.ForTask,
		Task: oneviewsim.TaskFault{Stalls: true}})
	percent := map[int]bool{}
	r.server.Applying = true
	_, err := r.pools.Apply(t.Context(), "rack1", r.server, func(n int, doing string) error {
		percent[n] = true
		require.NotEmpty(t, doing)
		return nil
	})
	require.Contains(t, requireFault(t, err, device.NeedsOperator, device.CodeProfileStuck), "longer than 1s")
	require.True(t, percent[50], "%v", percent)
	require.Len(t, r.sim.Tasks(), 1)
	r.sim.Resume()
	r.sim.Hurry()
	_, err = r.apply()
	require.NoError(t, err)
	require.Len(t, r.sim.Tasks(), 1)
	require.Empty(t, r.sim.Violations())
}

func TestWhatTheApplianceRefusesIsSaidInItsWords(t *testing.T) {
	r := newRig(t)
	r.server.Template = templatesPath + "/none"
	_, err := r.apply()
	require.Contains(t, requireFault(t, err, device.NeedsOperator, device.CodeApplianceRefused), "it has no template")
	r.server.Template = oneviewsim.TemplateURI
	r.sim.Inject(oneviewsim.Fault{Method: http.MethodPost, Path: profilesPath, Times: -1, Kind: oneviewsim.Respond,
		Status: 400, Body: `{"errorCode": "NO_FIRMWARE", "message": "no\nbaseline", "recommendedActions": ["add one"]}`})
	_, err = r.apply()
	require.Contains(t, requireFault(t, err, device.NeedsOperator, device.CodeApplianceRefused),
		"400 to POST /rest/server-profiles: NO_FIRMWARE no baseline add one")
	require.Equal(t, 1, r.sim.Counts().Writes) // it is not repeated
	r.sim.ClearFaults()
	r.sim.Inject(oneviewsim.Fault{Method: http.MethodPost, Path: profilesPath, Kind: oneviewsim.ForTask,
		Task: oneviewsim.TaskFault{Ends: oneviewsim.Error}})
	_, err = r.apply()
	require.Contains(t, requireFault(t, err, device.NeedsOperator, device.CodeProfileFailed),
		"ended as Error: SimulatedProblem The task Create")
	r.server.Hardware = hardwarePath + "/none"
	_, err = r.read()
	require.Contains(t, requireFault(t, err, device.NeedsOperator, device.CodeApplianceRefused), "it has no server")
	require.ErrorContains(t, err, "retire and forget the device, then enroll it with the right server_hardware_uri")
	for _, bad := range []Server{
		{Hardware: "", Template: oneviewsim.TemplateURI, UUID: deviceUUID},
		{Hardware: "https://elsewhere/rest/server-hardware/1", Template: oneviewsim.TemplateURI, UUID: deviceUUID},
		{Hardware: hardwarePath + "/1/powerState", Template: oneviewsim.TemplateURI, UUID: deviceUUID},
		{Hardware: hardwarePath + "/1", Template: profilesPath + "/1", UUID: deviceUUID},
		{Hardware: hardwarePath + "/1", Template: oneviewsim.TemplateURI, UUID: "a' or 'b"},
	} {
		_, err = r.pools.Apply(t.Context(), "rack1", bad, nil)
		requireFault(t, err, device.NeedsOperator, device.CodeInvalid)
	}
	_, err = r.pools.Read(t.Context(), "rack9", r.server)
	require.Contains(t, requireFault(t, err, device.NeedsOperator, device.CodeApplianceRefused), `no appliance "rack9"`)
}

// A profile of Burnish's that another user has put on another server is theirs.
//
// S4.23
func TestAProfileOnAnotherServerIsLeftAlone(t *testing.T) {
	r := newRig(t)
	_, err := r.apply()
	require.NoError(t, err)
	r.sim.Change(func(s *oneviewsim.State) {
		s.Hardware[1].Profile, s.Hardware[1].State = s.Hardware[0].Profile, oneviewsim.ProfileApplied
		s.Hardware[0].Profile, s.Hardware[0].State = "", oneviewsim.NoProfileApplied
		s.Profiles[0].Hardware = s.Hardware[1].URI()
	})
	r.server.Applying = true
	writes := r.sim.Counts().Writes
	_, err = r.pools.Apply(t.Context(), "rack1", r.server, nil)
	require.Contains(t, requireFault(t, err, device.NeedsOperator, device.CodeApplianceRefused),
		"another user has put the profile")
	found, err := r.remove()
	require.NoError(t, err)
	require.Equal(t, device.PoolFree, found.Ownership)
	require.Equal(t, writes, r.sim.Counts().Writes)
	require.Len(t, r.sim.Profiles(r.sim.Username), 1)
}

// What a crash has asked for a moment ago may not show yet, and is found all the same.
func TestARequestThatDoesNotShowYetIsRemoved(t *testing.T) {
	r := newRig(t, func(c *oneviewsim.Config, _ *oneviewsim.State) { c.Delays.Accept = time.Hour })
	_, err := r.read()
	require.NoError(t, err)
	r.crash(oneviewsim.TaskFault{})
	require.Empty(t, r.sim.Profiles(r.sim.Username))
	r.pools.sessions["rack1"].timing.settle = time.Minute
	begun := false
	found, err := r.pools.Remove(t.Context(), "rack1", r.server, func(int, string) error {
		if !begun {
			begun = true
			r.sim.Configure(func(c *oneviewsim.Config) { c.Delays.Accept = time.Millisecond })
			r.hurry()
		}
		return nil
	})
	require.NoError(t, err)
	require.True(t, begun)
	require.Equal(t, device.PoolFree, found.Ownership)
	require.Empty(t, r.sim.Profiles(r.sim.Username))
}

// S4.1, S4.2, S4.3, S4.24
func TestTheAppliedProfileSaysWhoHasAServer(t *testing.T) {
	const ours, theirs = "/rest/server-profiles/1", "/rest/server-profiles/2"
	for _, recorded := range []string{"", ours} {
		for _, applying := range []bool{false, true} {
			for _, uuid := range []string{"", deviceUUID} {
				for _, applied := range []string{"", ours, theirs} {
					for _, name := range []string{"", deviceUUID, "web-1"} {
						s := Server{UUID: uuid, Recorded: recorded, Applying: applying}
						want := device.PoolTaken
						switch {
						case applied == "":
							want = device.PoolFree
						case applied == recorded:
							want = device.PoolOurs
						case applying && name == deviceUUID && uuid == deviceUUID:
							want = device.PoolOurs
						}
						require.Equal(t, want, s.Owner(applied, name), "%+v: %s, %q", s, applied, name)
					}
				}
			}
		}
	}
}

// serverIs sets the power of the first server.
func serverIs(power string) oneviewsim.Option {
	return func(_ *oneviewsim.Config, s *oneviewsim.State) { s.Hardware[0].Power = power }
}

// S4.19, S4.20, S4.22, S4.25
func TestAProfileIsAppliedReadAndRemoved(t *testing.T) {
	for _, form := range []oneviewsim.Form{oneviewsim.LocationOnly, oneviewsim.BodyOnly, oneviewsim.Both,
		oneviewsim.Absolute} {
		for _, power := range []string{oneviewsim.On, oneviewsim.Off} {
			t.Run(string(form)+" "+power, func(t *testing.T) {
				r := newRig(t, serverIs(power), func(c *oneviewsim.Config, _ *oneviewsim.State) { c.TaskForm = form })
				found, err := r.read()
				require.NoError(t, err)
				require.Equal(t, Found{Ownership: device.PoolFree, Power: power, Tag: r.tag()}, found)

				found, err = r.apply()
				require.NoError(t, err)
				all := r.sim.Profiles(r.sim.Username)
				require.Len(t, all, 1)
				require.Equal(t, Found{Ownership: device.PoolOurs, Profile: all[0].URI(), Power: "Off", Tag: r.tag()}, found)
				require.Equal(t, deviceUUID, all[0].Name)
				require.Equal(t, all[0].URI(), r.hardware().Profile)
				require.Equal(t, oneviewsim.ProfileApplied, r.hardware().State)

				writes := r.sim.Counts().Writes
				again, err := r.apply()
				require.NoError(t, err)
				require.Equal(t, found, again)
				require.Equal(t, writes, r.sim.Counts().Writes)

				require.NoError(t, r.sim.SetPower(r.server.Hardware, oneviewsim.On))
				found, err = r.remove()
				require.NoError(t, err)
				require.Equal(t, Found{Ownership: device.PoolFree, Power: "Off", Tag: r.tag()}, found)
				require.Empty(t, r.sim.Profiles(r.sim.Username))
				writes = r.sim.Counts().Writes
				_, err = r.remove()
				require.NoError(t, err)
				require.Equal(t, writes, r.sim.Counts().Writes)
				require.Empty(t, r.sim.Violations())
				require.Equal(t, 1, r.sim.Counts().Logins)
			})
		}
	}
}
