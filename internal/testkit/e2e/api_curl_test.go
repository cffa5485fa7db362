package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/stretchr/testify/require"

	"burnish/internal/device"
	"burnish/internal/testkit/proc"
	"burnish/workflows/contract"
)

var updateAnswers = flag.Bool("update", false, "write the answers in testdata/api again")

// The scripts of testdata/api use the API with curl, as the document of Cyborg's driver shows
// it, and compare whole answers.
//
// S3.31
func (a *API) curlScripts(t *testing.T) {
	files, err := filepath.Glob(filepath.Join("testdata", "api", "*.txt"))
	require.NoError(t, err)
	require.NotEmpty(t, files)
	admin, viewer := a.Admin.Token(t), a.Viewer.Token(t)
	testscript.RunT(inPlace{t}, testscript.Params{
		Files: files, WorkdirRoot: t.TempDir(), RequireUniqueNames: true, UpdateScripts: *updateAnswers,
		Setup: func(env *testscript.Env) error {
			env.Setenv("PATH", filepath.Dir(programs.Burnish)+string(os.PathListSeparator)+env.Getenv("PATH"))
			env.Setenv("TEMPORAL_ADDRESS", a.Server.Address)
			env.Setenv("TEMPORAL_NAMESPACE", a.Namespace)
			env.Setenv("TZ", "UTC")
			env.Setenv("HOST", a.Host)
			env.Setenv("URL", a.URL)
			env.Setenv("ADMIN", "X-Auth-Token: "+admin)
			env.Setenv("VIEWER", "X-Auth-Token: "+viewer)
			env.Setenv("V21", "OpenStack-API-Version: accelerator 2.1")
			env.Setenv("ALICE", Instance("alice"))
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"curl":  curl,
			"exits": exits,
			"uuid":  uuidOfName,
			"await": func(ts *testscript.TestScript, _ bool, args []string) { awaitLine(ts, a.Site, args) },
		},
	})
}

// uuidOfName is `uuid VARIABLE NAME`: it sets the variable to the device's UUID, which answers
// show as the variable's name.
func uuidOfName(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) != 2 {
		ts.Fatalf("usage: uuid VARIABLE NAME")
	}
	ts.Setenv(args[0], contract.DeviceUUID(args[1]))
	ts.Setenv("NAMED", ts.Getenv("NAMED")+" "+args[0])
}

var (
	shownHeaders = []string{"Allow", "Content-Type", "OpenStack-API-Version", "Retry-After", "Vary", "WWW-Authenticate"}
	timeInJSON   = regexp.MustCompile(`"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ"`)
)

// curl is `curl ARGS…`: it prints the answer's status, the headers of shownHeaders and the
// body, whose JSON is indented and whose times are TIME; the host and UUIDs stand there by the
// names of their variables.
func curl(ts *testscript.TestScript, neg bool, args []string) {
	if neg {
		ts.Fatalf("curl always gets an answer here")
	}
	ts.Check(proc.AwaitSlowly(context.Background(), patience*time.Minute, "Keystone to answer the API",
		func() (bool, string) {
			ts.Check(ts.Exec("curl", append([]string{"-sS", "--max-time", "60", "-i"}, args...)...))
			return !strings.Contains(ts.ReadFile("stdout"), string(device.CodeAuthenticationUnavailable)), ""
		}))
	head, body, found := strings.Cut(ts.ReadFile("stdout"), "\r\n\r\n")
	if !found {
		ts.Fatalf("no answer: %s", ts.ReadFile("stdout"))
	}
	lines := strings.Split(head, "\r\n")
	out := []string{lines[0]}
	for _, line := range lines[1:] {
		name, _, _ := strings.Cut(line, ":")
		if slices.ContainsFunc(shownHeaders, func(shown string) bool { return strings.EqualFold(shown, name) }) {
			out = append(out, line)
		}
	}
	slices.Sort(out[1:])
	if strings.HasPrefix(strings.TrimSpace(body), "{") || strings.HasPrefix(strings.TrimSpace(body), "[") {
		var indented bytes.Buffer
		ts.Check(json.Indent(&indented, []byte(body), "", "  "))
		body = indented.String()
	}
	body = timeInJSON.ReplaceAllString(body, `"TIME"`)
	for _, name := range append([]string{"HOST"}, strings.Fields(ts.Getenv("NAMED"))...) {
		body = strings.ReplaceAll(body, ts.Getenv(name), name)
	}
	_, err := ts.Stdout().Write([]byte(strings.Join(out, "\n") + "\n\n" + strings.TrimSpace(body) + "\n"))
	ts.Check(err)
}
