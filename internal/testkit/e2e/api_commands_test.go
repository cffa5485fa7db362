package e2e

import (
	"context"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"burnish/internal/device"
	"burnish/internal/testkit/proc"
	"burnish/workflows/contract"
)

// bothWays is a site whose commands go to Temporal, and to its API on a unix socket.
type bothWays struct {
	*Site
	socket string
	web    Caller // at the socket
}

// serveBothWays starts a worker with an API.
func serveBothWays(t *testing.T) bothWays {
	t.Helper()
	b := bothWays{Site: newSite(t)}
	b.socket = filepath.Join(b.Dir, "api.sock")
	b.Run(t, "all", "BURNISH_API_ADDRESS=unix:"+b.socket, "BURNISH_HOST_SILENT_AFTER=2s", "BURNISH_API_RATE=1000")
	b.web = overUnix(t, b.socket)
	b.web.AwaitReady(t)
	return b
}

// OverAPI runs a command that has no way to Temporal.
func (b bothWays) OverAPI(t *testing.T, args ...string) proc.Result {
	t.Helper()
	return b.at(t, "unix:"+b.socket, args...)
}

// at is OverAPI at another address.
func (b bothWays) at(t *testing.T, address string, args ...string) proc.Result {
	t.Helper()
	return b.overAPI(t, map[string]string{"BURNISH_API": address}, args...)
}

// overAPI runs a command that has no way to Temporal, with these variables.
func (s *Site) overAPI(t *testing.T, variables map[string]string, args ...string) proc.Result {
	t.Helper()
	var r proc.Result
	Await(t, time.Minute, "Keystone to answer", func() (bool, string) { // a busy machine's may be too slow for the API
		cmd := exec.CommandContext(context.WithoutCancel(t.Context()), programs.Burnish, args...)
		cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + s.Dir, "TZ=UTC", "TEMPORAL_ADDRESS=127.0.0.1:1"}
		for name, value := range variables {
			cmd.Env = append(cmd.Env, name+"="+value)
		}
		var err error
		r, err = proc.Run(cmd)
		require.NoError(t, err)
		return !strings.Contains(r.Stderr, "Keystone does not answer"), r.Stderr
	})
	return r
}

// passing is what differs between two runs of one command: times, durations, what they do to
// a table's columns, the serial of a simulated device, and who asked, which is compared apart.
var passing = []struct {
	form *regexp.Regexp
	as   string
}{
	{regexp.MustCompile(`\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?(Z| [A-Z]{2,5}|[+-]\d\d:\d\d)?`), "TIME"},
	{regexp.MustCompile(`("?(run_time|request|estimate)"?:) [^\s,]+`), "$1 X"},
	{regexp.MustCompile(`\b(\d+h)?(\d+m)?\d+(\.\d+)?(s|ms|µs)\b`), "DURATION"},
	{regexp.MustCompile(`FAKE[0-9A-F]{12}`), "SERIAL"},
	{regexp.MustCompile(`(?m)(DURATION|TIME)[ ]*$`), "$1"},
	{regexp.MustCompile(` +`), " "},
	{regexp.MustCompile(`"UUID"`), "UUID"}, // YAML quotes some of them
	{regexp.MustCompile(`(?m)^ *"?(by|from)"?: .*\n`), ""},
}

func lasting(text string, also ...string) string {
	text = strings.NewReplacer(also...).Replace(text)
	for _, p := range passing {
		text = p.form.ReplaceAllString(text, p.as)
	}
	return text
}

// requireSame compares two runs. also are pairs: what is replaced before, and by what.
func requireSame(t *testing.T, direct, api proc.Result, also ...string) {
	t.Helper()
	assert.Equal(t, direct.Code, api.Code, "%s\n%s", direct, api)
	assert.Equal(t, lasting(direct.Stdout, also...), lasting(api.Stdout, also...), direct.Args)
	assert.Equal(t, lasting(direct.Stderr, also...), lasting(api.Stderr, also...), direct.Args)
}

// awaitSame compares two runs of a command that changes nothing, and may be repeated until both
// have read the same listing, which follows the devices a moment later.
func (b bothWays) awaitSame(t *testing.T, args ...string) {
	t.Helper()
	var direct, api proc.Result
	_ = proc.AwaitSlowly(t.Context(), patience*10*time.Second, "the same answer", func() (bool, string) {
		direct, api = b.Burnish(t, args...), b.OverAPI(t, args...)
		return direct.Code == api.Code && lasting(direct.Stdout) == lasting(api.Stdout) &&
			lasting(direct.Stderr) == lasting(api.Stderr), ""
	})
	requireSame(t, direct, api)
}

// Each command over Temporal and over the API: the same output, messages and exit codes.
func TestCommandsOverTheAPI(t *testing.T) {
	t.Parallel()
	b := serveBothWays(t)
	// One device is used over Temporal, its twin over the API.
	const left, right = "twin-a", "twin-b"
	twins := []string{left, "twin-x", right, "twin-x", contract.DeviceUUID(left), "UUID",
		contract.DeviceUUID(right), "UUID"}
	both := func(args ...string) {
		t.Helper()
		for i, arg := range args {
			args[i] = strings.ReplaceAll(arg, "TWIN", left)
		}
		direct := b.Burnish(t, args...)
		for i, arg := range args {
			args[i] = strings.ReplaceAll(arg, left, right)
		}
		requireSame(t, direct, b.OverAPI(t, args...), twins...)
	}
	alice, bob := Instance("alice"), Instance("bob")
	both("enroll", "TWIN", "--host", b.Host, "--driver", "fake", "--set", "size=1MiB,fault=fail:zero@50%x1")
	both("enroll", "TWIN", "--host", b.Host, "--driver", "fake", "--set", "size=1MiB,fault=fail:zero@50%x1")
	both("enroll", "TWIN", "--host", b.Host, "--driver", "block")
	both("bind", "TWIN", "--instance", alice)
	both("provide", "TWIN", "--reason", "new", "--wait")
	both("show", "TWIN")
	both("provide", "TWIN")
	both("clean", "TWIN", "--reason", "once more", "--wait")
	both("clean", "TWIN", "-o", "json")
	both("bind", "TWIN", "--instance", alice, "--tag", "boot TWIN", "--request", "r1")
	both("bind", "TWIN", "--instance", alice, "--tag", "boot TWIN", "--request", "r1")
	both("bind", "TWIN", "--instance", bob)
	both("rebuild", "TWIN", "--instance", alice)
	both("manage", "TWIN")
	both("unbind", "TWIN", "--instance", bob)
	both("unbind", "TWIN", "--instance", alice)
	b.AwaitState(t, left, 30*time.Second, device.Available)
	b.AwaitState(t, right, 30*time.Second, device.Available)
	both("abort", "TWIN")
	both("release-hold", "TWIN")
	both("power", "TWIN", "off")
	both("maintain", "TWIN", "--reason", "disk", "-o", "yaml")
	both("maintain", "TWIN", "--off")
	both("manage", "TWIN", "--reason", "look", "-o", "json")
	both("clean", "TWIN", "--steps", "zero,nonsense")
	both("clean", "TWIN", "--steps", "zero", "--wait")
	both("clean", "TWIN", "--runbook", "none")
	both("validate", "TWIN")
	both("validate", "TWIN", "--steps", "zero", "-o", "json")
	both("replace", "TWIN")
	both("move", "TWIN", "TWIN")
	both("steps", "TWIN")
	b.awaitSame(t, "list", "--state", "available")
	both("retire", "TWIN", "--reason", "worn out")
	both("show", "TWIN", "-o", "yaml")
	both("override", "TWIN", "--reason")
	both("clean", "TWIN", "absent", "-o", "json") // in the order that was asked for

	for _, command := range []string{
		"list", "list --all", "list --all -o json", "list -o yaml", "list --needs-operator", "list --awaiting-cleaning",
		"list --one-time-use --all",
		"list --host nowhere", "list --model none --all", "list --fault step_failed", "list --type fake --all",
		"list --state retired,error",
		"show " + left + " -o json", "show " + contract.DeviceUUID(right), "show absent", "show " +
			contract.DeviceUUID("absent"),
		"steps " + left + " -o json", "history absent", "history absent -o json", "validate absent",
		"plan --fleet", "plan --fleet -o json", "import check", "import --from placement --timeout 1s", "oneview status",
		"oneview status rack1", "oneview migrate",
		"resume --model M --step zero", "release-hold absent", "clean --state error --dry-run", "forget absent",
		"watch absent",
		"watch " + left, "enroll --from oneview --template /rest/server-profile-templates/x",
	} {
		args := strings.Fields(command)
		b.awaitSame(t, args...)
	}
	doctor := b.OverAPI(t, "doctor")
	require.Zero(t, doctor.Code, doctor)
	require.Regexp(t,
		`(?m)^OK +api: unix:\S+ answers; .*\n(?:.*\n)*OK +search attributes: all 11 exist\n(?:.*\n)*OK +worker: queue burnish is polled$`, doctor.Stdout)

	// Why, and who, stands in the history of each.
	histories := map[string]string{left: b.Must(t, "history", left), right: b.OverAPI(t, "history", right).Stdout}
	for name, by := range map[string]string{left: `\S+@\S+ +-`, right: `\S+ \(unix:\d+\) +unix`} {
		require.Regexp(t, `(?m)UTC +provide +`+by+` +new +-$`, histories[name])
		require.Regexp(t, `(?m)UTC +retire +`+by+` +worn out +-$`, histories[name])
	}
	both("forget", "TWIN")
	both("show", "TWIN")
}

// A change whose answer is lost is sent again, and is carried out once: its answer is the first
// one.
func TestALostAnswerOfTheAPI(t *testing.T) {
	t.Parallel()
	b := serveBothWays(t)
	var lost sync.Map // the keys whose first answer was
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		onward := r.Clone(r.Context())
		onward.RequestURI, onward.URL.Scheme, onward.URL.Host, onward.Host = "", "http", "localhost", "localhost"
		answer, err := b.web.Client.Do(onward)
		if err != nil {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		body, err := io.ReadAll(answer.Body)
		key := r.Header.Get("Idempotency-Key")
		if _, before := lost.LoadOrStore(key, true); err != nil || answer.Body.Close() != nil || key != "" && !before {
			panic(http.ErrAbortHandler)
		}
		maps.Copy(w.Header(), answer.Header)
		w.WriteHeader(answer.StatusCode)
		_, _ = w.Write(body) // the client sees what is missing
	}))
	t.Cleanup(proxy.Close)
	const name = "lost-1"
	alice := Instance("alice")
	for _, tt := range []struct{ command, says string }{
		{"enroll " + name + " --host " + b.Host + " --driver fake --set size=1MiB", name + ": enrolled, now manageable; simulated\n"},
		{"provide " + name + " --wait", name + ": provided, now available\n"},
		{"bind " + name + " --instance " + alice, name + ": bound, binding 1 of instance " + alice + "\n"},
		{"unbind " + name + " --instance " + alice, name + ": unbound, now (pending_cleaning|cleaning|available)\n"},
	} {
		r := b.at(t, proxy.URL, strings.Fields(tt.command)...)
		require.Zero(t, r.Code, r)
		require.Regexp(t, "^"+tt.says+"$", r.Stdout)
	}
	b.AwaitState(t, name, 30*time.Second, device.Available)
	r := b.at(t, proxy.URL, "clean", name)
	require.Equal(t, 1, r.Code, r)
	require.Contains(t, r.Stderr, "cannot clean a device in state available")
	var history struct {
		Acts   []contract.Act
		Cleans []contract.CleanSummary
	}
	require.NoError(t, json.Unmarshal([]byte(b.at(t, proxy.URL, "history", name, "-o", "json").Stdout), &history))
	var verbs []string
	for _, act := range history.Acts {
		verbs = append(verbs, act.Verb)
	}
	require.Equal(t, []string{"enroll", "provide", "claim", "burn", "unbind"}, verbs)
	require.Len(t, history.Cleans, 2)
}

// With the credentials that `openstack` takes the command line needs no token: its user stands in
// the device's history, and one who may only read changes nothing.
func (a *API) commandsWithKeystone(t *testing.T) {
	admin, viewer := a.Admin.Environment(), a.Viewer.Environment()
	admin["BURNISH_API"], viewer["BURNISH_API"] = a.URL, a.URL
	r := a.overAPI(t, admin, "enroll", "ks-1", "--host", a.Host, "--driver", "fake", "--set", "size=1MiB")
	require.Zero(t, r.Code, r)
	r = a.overAPI(t, viewer, "manage", "ks-1", "--reason", "mine")
	require.Equal(t, 1, r.Code, r)
	require.Regexp(t, `^burnish: manage ks-1: the policy does not allow you cyborg:device:manage; .*\n$`, r.Stderr)
	r = a.overAPI(t, viewer, "list")
	require.Equal(t, 1, r.Code, r)
	require.Contains(t, r.Stderr, "cyborg:device:get_details")
	r = a.overAPI(t, admin, "--api", a.URL, "history", "ks-1")
	require.Regexp(t, `(?m)UTC +enroll +ada \(keystone:[0-9a-f]{32}\) +127\.0\.0\.1 `, r.Stdout)
	require.NotContains(t, r.Stdout, "mine")
	admin["OS_PASSWORD"] = "wrong"
	r = a.overAPI(t, admin, "list")
	require.Equal(t, 1, r.Code, r)
	require.Regexp(t,
		`^burnish: list: Keystone at \S+ refuses these credentials; correct the OS_ variables or clouds\.yaml\n$`, r.Stderr)
}
