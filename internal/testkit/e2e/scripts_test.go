package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/stretchr/testify/require"

	"burnish/internal/device"
	"burnish/internal/testkit/proc"
	"burnish/workflows/contract"
)

// The command line as its users type it, script by script, against a real server and
// worker: every command, and every exit code.
func TestScripts(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob(filepath.Join("testdata", "*.txt"))
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, script := range files {
		t.Run(strings.TrimSuffix(filepath.Base(script), ".txt"), func(t *testing.T) {
			t.Parallel()
			s := newSite(t)
			w := s.Worker(t, "all", "BURNISH_HOST_SILENT_AFTER=2s")
			testscript.RunT(inPlace{t}, testscript.Params{
				Files: []string{script}, WorkdirRoot: t.TempDir(), RequireUniqueNames: true,
				Setup: func(env *testscript.Env) error {
					env.Setenv("PATH", filepath.Dir(programs.Burnish)+string(os.PathListSeparator)+env.Getenv("PATH"))
					env.Setenv("TEMPORAL_ADDRESS", s.Server.Address)
					env.Setenv("TEMPORAL_NAMESPACE", s.Namespace)
					env.Setenv("TZ", "UTC")
					env.Setenv("HOST", s.Host)
					env.Setenv("FILES", s.Files)
					env.Setenv("ALICE", Instance("alice"))
					env.Setenv("BOB", Instance("bob"))
					return nil
				},
				Cmds: map[string]func(*testscript.TestScript, bool, []string){
					"exits":  exits,
					"expand": expand,
					"uuidof": uuidOf,

					"interrupted": interrupted,
					"await":       func(ts *testscript.TestScript, _ bool, args []string) { awaitLine(ts, s, args) },
					"listed":      func(ts *testscript.TestScript, _ bool, args []string) { listedLine(ts, s, args) },
					"reserved":    func(ts *testscript.TestScript, _ bool, args []string) { reservedLine(ts, s, args) },
					"worker": func(_ *testscript.TestScript, _ bool, args []string) {
						switch args[0] {
						case "start":
							w.Start(t)
						case "kill":
							w.Kill(t)
						}
					},
				},
			})
		})
	}
}

// inPlace runs scripts in the test's own place, one after the other (see beside).
type inPlace struct{ *testing.T }

func (inPlace) Parallel()     {}
func (inPlace) Verbose() bool { return testing.Verbose() }

func (p inPlace) Run(name string, do func(testscript.T)) {
	p.T.Run(name, func(t *testing.T) { do(inPlace{t}) })
}

// exits is `exits CODE PROGRAM ARGS…`: the program ends with exactly this code.
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE PROGRAM ARGS…")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	got := 0
	err = ts.Exec(args[1], args[2:]...)
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		got = exit.ExitCode()
	} else {
		ts.Check(err)
	}
	if got != want {
		ts.Fatalf("exit code %d, want %d\n%s%s", got, want, ts.ReadFile("stdout"), ts.ReadFile("stderr"))
	}
}

// interrupted is `interrupted PROGRAM ARGS…`: the program gets Ctrl-C once it has
// written something, and then ends with exit code 130.
func interrupted(ts *testscript.TestScript, _ bool, args []string) {
	cmd := exec.Command(filepath.Join(filepath.Dir(programs.Burnish), args[0]), args[1:]...)
	for _, name := range []string{"PATH", "HOME", "TEMPORAL_ADDRESS", "TEMPORAL_NAMESPACE", "TZ"} {
		cmd.Env = append(cmd.Env, name+"="+ts.Getenv(name))
	}
	out, err := os.Create(ts.MkAbs("interrupted.stdout"))
	ts.Check(err)
	cmd.Stdout = out
	p, err := proc.Start(args[0], ts.MkAbs("interrupted.stderr"), cmd)
	ts.Check(err)
	ts.Check(out.Close())
	ts.Defer(func() { ts.Check(p.Kill()) })
	ts.Check(proc.Await(context.Background(), patience*30*time.Second, proc.PollEvery, "the first output",
		func() (bool, string) {
			return ts.ReadFile("interrupted.stdout") != "", p.Log()
		}))
	ts.Check(p.Signal(syscall.SIGINT))
	code, err := p.Wait(patience * 30 * time.Second)
	ts.Check(err)
	fmt.Fprint(ts.Stdout(), ts.ReadFile("interrupted.stdout"))
	fmt.Fprint(ts.Stderr(), p.Log())
	if code != 130 {
		ts.Fatalf("exit code %d, not 130: %s", code, p.Log())
	}
}

// awaitLine is `await NAME STATE`, or `await NAME FIELD=TEXT` of `show`'s table, or `await
// NAME reserved=N` of the inventory's file, which may follow the state.
func awaitLine(ts *testscript.TestScript, s *Site, args []string) {
	field, text, isField := strings.Cut(args[1], "=")
	_, err := s.Site.AwaitDevice(context.Background(), args[0], patience*30*time.Second, "to be "+args[1],
		func(v contract.DeviceStatus) bool {
			if !isField {
				return v.DeviceState == device.State(args[1])
			}
			p, err := s.Site.Provider(args[0])
			if field == "reserved" {
				return err == nil && fmt.Sprint(p.Reserved) == text
			}
			seen := map[string]string{"fault": v.Fault, "last_refusal": v.LastRefusal}
			if v.CleanStep != nil {
				seen["step"] = v.CleanStep.Step
			}
			return strings.Contains(seen[field], text)
		})
	ts.Check(err)
}

// listedLine is `listed NAME…`: it waits until the listing, which may be a moment older, shows of
// these devices what they say themselves.
func listedLine(ts *testscript.TestScript, s *Site, names []string) {
	type facts struct {
		State            device.State
		Fault            string
		Dirty, NeedsHelp bool
	}
	of := func(v contract.DeviceStatus) facts { return facts{v.DeviceState, v.Fault, v.Dirty, v.NeedsOperator} }
	ts.Check(proc.AwaitSlowly(context.Background(), patience*30*time.Second, "the listing to be as the devices are",
		func() (bool, string) {
			out, err := s.Site.Must(context.Background(), "list", "--all", "-o", "json")
			ts.Check(err)
			var list struct{ Devices []contract.DeviceStatus }
			ts.Check(json.Unmarshal([]byte(out), &list))
			listed := map[string]facts{}
			for _, v := range list.Devices {
				listed[v.Name] = of(v)
			}
			for _, name := range names {
				v, err := s.Site.Show(context.Background(), name)
				if have, ok := listed[name]; err != nil || !ok || have != of(v) {
					return false, fmt.Sprintf("%s: %+v listed, %+v shown, %v", name, have, of(v), err)
				}
			}
			return true, ""
		}))
}

// reservedLine is `reserved NAME N`, of the inventory's file.
func reservedLine(ts *testscript.TestScript, s *Site, args []string) {
	p, err := s.Site.Provider(args[0])
	ts.Check(err)
	if fmt.Sprint(p.Reserved) != args[1] {
		ts.Fatalf("%s: reserved %d, want %s", args[0], p.Reserved, args[1])
	}
}

// expand is `expand FILE`: its variables are replaced by the script's.
func expand(ts *testscript.TestScript, _ bool, args []string) {
	text := os.Expand(ts.ReadFile(args[0]), ts.Getenv)
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), []byte(text), 0o600))
}

// uuidOf is `uuidof FILE`: UUID is set to the uuid of the device in the JSON file.
func uuidOf(ts *testscript.TestScript, _ bool, args []string) {
	var v struct{ UUID string }
	ts.Check(json.Unmarshal([]byte(ts.ReadFile(args[0])), &v))
	ts.Setenv("UUID", v.UUID)
}
