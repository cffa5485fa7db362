package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/stretchr/testify/require"

	"burnish/internal/device"
	"burnish/internal/testkit/testlog"
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
			testscript.Run(t, testscript.Params{
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
// written something, and then ends with exit code 0.
func interrupted(ts *testscript.TestScript, _ bool, args []string) {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, filepath.Join(filepath.Dir(programs.Burnish), args[0]), args[1:]...)
	for _, name := range []string{"PATH", "HOME", "TEMPORAL_ADDRESS", "TEMPORAL_NAMESPACE", "TZ"} {
		cmd.Env = append(cmd.Env, name+"="+ts.Getenv(name))
	}
	var out, errs testlog.Log
	first := make(chan struct{})
	cmd.Stdout, cmd.Stderr = io.MultiWriter(&out, &firstWrite{c: first}), &errs
	ts.Check(cmd.Start())
	select {
	case <-first:
	case <-ctx.Done():
	}
	ts.Check(cmd.Process.Signal(os.Interrupt))
	err := cmd.Wait()
	fmt.Fprint(ts.Stdout(), out.String())
	fmt.Fprint(ts.Stderr(), errs.String())
	ts.Check(err)
}

// opener closes a channel at the first write.
type firstWrite struct {
	once sync.Once
	c    chan struct{}
}

func (o *firstWrite) Write(p []byte) (int, error) {
	o.once.Do(func() { close(o.c) })
	return len(p), nil
}

// awaitLine is `await NAME STATE`, or `await NAME FIELD=TEXT` of `show`'s table.
func awaitLine(ts *testscript.TestScript, s *Site, args []string) {
	deadline := time.Now().Add(30 * time.Second)
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		v, r, err := s.show(args[0])
		ts.Check(err)
		what, text, field := strings.Cut(args[1], "=")
		seen := map[string]string{"fault": v.Fault, "step": "", "last_refusal": v.LastRefusal}
		if v.CleanStep != nil {
			seen["step"] = v.CleanStep.Step
		}
		if r.Code == 0 && (!field && v.DeviceState == device.State(args[1]) || field && strings.Contains(seen[what], text)) {
			return
		}
		if time.Now().After(deadline) {
			ts.Fatalf("not %s: %v", args[1], r)
		}
		<-tick.C
	}
}

// reservedLine is `reserved NAME N`, of the inventory's file.
func reservedLine(ts *testscript.TestScript, s *Site, args []string) {
	p, err := s.provider(args[0])
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
