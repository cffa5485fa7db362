package nova_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"burnish/internal/testkit/messagebus"
	"burnish/internal/testkit/openstack"
	"burnish/internal/testkit/testlog"
)

const sample = "../../deploy/sample/cleanup_listener.py"

// The page shows the program as it is run here.
//
// S0.37
func TestThePageShowsTheSample(t *testing.T) {
	page, err := os.ReadFile("../../docs/sample-listener.md")
	require.NoError(t, err)
	program, err := os.ReadFile(sample)
	require.NoError(t, err)
	require.Contains(t, string(page), "```python\n"+string(program)+"```\n")
}

// oneDevice is the little of Placement that the sample uses, with one device in it.
type oneDevice struct {
	mu                         sync.Mutex
	used, reserved, generation int
	puts                       []int // the answers to PUT
	asked                      int
	version                    string
}

func (d *oneDevice) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.version = r.Header.Get("OpenStack-API-Version")
	answer := func(code int, body any) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(code)
		_ = json.NewEncoder(w).Encode(body)
	}
	const provider = "/resource_providers/8d3a"
	switch r.Method + " " + r.URL.Path {
	case "GET /resource_providers":
		if r.URL.Query().Get("required") != "HW_PCI_ONE_TIME_USE" {
			answer(400, nil)
			return
		}
		d.asked++
		answer(200,
			map[string]any{
				"resource_providers": []any{map[string]any{"uuid": "8d3a", "name": "h1_0000:0A:00.0", "generation": d.generation}}})
	case "GET " + provider + "/inventories":
		answer(200, map[string]any{"resource_provider_generation": d.generation,
			"inventories": map[string]any{"CUSTOM_PCI_8086_0A54": map[string]any{
				"total": 1, "reserved": d.reserved, "min_unit": 1, "max_unit": 1, "step_size": 1, "allocation_ratio": 1.0}}})
	case "GET " + provider + "/usages":
		answer(200, map[string]any{"resource_provider_generation": d.generation,
			"usages": map[string]int{"CUSTOM_PCI_8086_0A54": d.used}})
	case "PUT " + provider + "/inventories/CUSTOM_PCI_8086_0A54":
		var body struct {
			Generation *int `json:"resource_provider_generation"`
			Total      int  `json:"total"`
			Reserved   *int `json:"reserved"`
		}
		code := 200
		switch err := json.NewDecoder(r.Body).Decode(&body); {
		case err != nil || body.Generation == nil || body.Total != 1 || body.Reserved == nil:
			code = 400
		case *body.Generation != d.generation:
			code = 409
		default:
			d.reserved = *body.Reserved
			d.generation++
		}
		d.puts = append(d.puts, code)
		answer(code, map[string]any{"errors": []any{map[string]any{"status": code}}})
	default:
		answer(404, nil)
	}
}

// serve gives the section of Nova's configuration with its address.
func (d *oneDevice) serve(t *testing.T) (placement string) {
	t.Helper()
	api := httptest.NewServer(d)
	t.Cleanup(api.Close)
	return "auth_type = none\nendpoint = " + api.URL + "\n"
}

// change changes the device as Nova does in Placement.
func (d *oneDevice) change(what func(*oneDevice)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	what(d)
}

func (d *oneDevice) is(what func(*oneDevice) bool) func() bool {
	return func() bool {
		d.mu.Lock()
		defer d.mu.Unlock()
		return what(d)
	}
}

// runSample runs the sample as an operator does. Its cleaning command records the name of
// the device, and fails or waits while a file named fail or wait exists: flags are those that
// exist at the start.
func runSample(t *testing.T, s *testQueue, d *oneDevice, poll time.Duration,
	flags ...string) (dir string, out *testlog.Log) {
	t.Helper()
	dir, out, _ = startSample(t, s, d.serve(t), poll, flags...)
	return dir, out
}

// startSample is runSample for any Placement; again kills the sample and starts it again.
func startSample(t *testing.T, s *testQueue, placement string, poll time.Duration,
	flags ...string) (dir string, out *testlog.Log, again func()) {
	t.Helper()
	dir, out = t.TempDir(), &testlog.Log{}
	write := func(name, text string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte(text), mode))
		return path
	}
	conf := write("nova.conf", fmt.Sprintf("[DEFAULT]\ntransport_url = %s\n[placement]\n%s", s.broker.TransportURL(),
		placement), 0o600)
	clean := write("clean", "#!/bin/sh\necho \"$1\" >>"+dir+"/cleaned\nwhile [ -e "+dir+
		"/wait ]; do sleep 0.05; done\n[ ! -e "+dir+"/fail ]\n", 0o700)
	for _, flag := range flags {
		write(flag, "", 0o600)
	}
	var p *exec.Cmd
	start := func() {
		p = exec.Command("/usr/bin/python3", sample, conf, clean)
		p.Env = []string{"PATH=/usr/bin:/bin", "HOME=" + dir, fmt.Sprintf("POLL_SECONDS=%f", poll.Seconds())}
		// Its children must not delay the end of the test.
		p.Stdout, p.Stderr, p.WaitDelay = out, out, 100*time.Millisecond
		require.NoError(t, p.Start())
	}
	kill := func() {
		require.NoError(t, p.Process.Kill())
		require.Error(t, p.Wait()) // it was killed
	}
	start()
	t.Cleanup(func() {
		kill()
		if t.Failed() {
			t.Log(out)
		}
	})
	return dir, out, func() { kill(); start() }
}

// cleaned lists the devices that the command has cleaned so far.
func cleaned(dir string) []string {
	text, err := os.ReadFile(filepath.Join(dir, "cleaned"))
	if err != nil {
		return nil
	}
	return strings.Fields(string(text))
}

func needsSample(t *testing.T) *testQueue {
	t.Helper()
	if _, err := os.Stat("/usr/lib/python3/dist-packages/keystoneauth1"); err != nil {
		t.Skip("no keystoneauth1 (package python3-keystoneauth1)")
	}
	s := newTestQueue(t)
	s.exchange = "nova" // the only one that the sample supports
	return s
}

// It is triggered only by a notification: the next poll would be in an hour.
//
// S0.37
func TestTheSampleCleansWhatAnInstanceLeft(t *testing.T) {
	s := needsSample(t)
	p := s.novaRuns()
	d := &oneDevice{used: 1, reserved: 1, generation: 7}
	dir, _ := runSample(t, s, d, time.Hour)
	// More than once if its queue still holds another test's notifications.
	require.Eventually(t, d.is(func(d *oneDevice) bool { return d.asked > 0 }), soon, 10*time.Millisecond)
	d.change(func(d *oneDevice) {
		require.Equal(t, "placement 1.26", d.version)
		d.used = 0 // which does not change the generation
	})
	require.NoError(t, p.Send(messagebus.Instance("instance.delete.end", uuid.NewString(), "h1")))
	require.Eventually(t, d.is(func(d *oneDevice) bool { return d.reserved == 0 && d.generation == 8 }), soon,
		10*time.Millisecond)
	require.Equal(t, []string{"h1_0000:0A:00.0"}, cleaned(dir))
	d.change(func(d *oneDevice) { require.Equal(t, []int{200}, d.puts) })
}

// An allocation during the clean must not be lost.
func TestTheSampleDoesNotLowerBehindAnAllocation(t *testing.T) {
	s := needsSample(t)
	d := &oneDevice{reserved: 1, generation: 7}
	dir, _ := runSample(t, s, d, 100*time.Millisecond, "wait")
	require.Eventually(t, func() bool { return len(cleaned(dir)) == 1 }, soon, 10*time.Millisecond, "by polling alone")
	d.change(func(d *oneDevice) { d.used, d.generation = 1, d.generation+1 })
	require.NoError(t, os.Remove(filepath.Join(dir, "wait")))
	require.Eventually(t, d.is(func(d *oneDevice) bool { return len(d.puts) == 1 }), soon, 10*time.Millisecond)
	var before int
	d.change(func(d *oneDevice) { before = d.asked })
	require.Eventually(t, d.is(func(d *oneDevice) bool { return d.asked > before+2 }), soon, 10*time.Millisecond)
	d.change(func(d *oneDevice) {
		require.Equal(t, []int{409}, d.puts)
		require.Equal(t, 1, d.reserved, "a device in use is left alone")
		d.used = 0
	})
	// It starts over once that instance is gone.
	require.Eventually(t, d.is(func(d *oneDevice) bool { return d.reserved == 0 }), soon, 10*time.Millisecond)
	require.Len(t, cleaned(dir), 2)
}

// A device whose clean failed stays reserved, and its clean is retried.
func TestTheSampleKeepsWhatItCouldNotClean(t *testing.T) {
	s := needsSample(t)
	d := &oneDevice{reserved: 1, generation: 7}
	dir, out := runSample(t, s, d, 100*time.Millisecond, "fail")
	require.Eventually(t, func() bool { return strings.Contains(out.String(), "h1_0000:0A:00.0 stays reserved") }, soon,
		10*time.Millisecond)
	d.change(func(d *oneDevice) { require.Equal(t, 1, d.reserved); require.Empty(t, d.puts) })
	require.NoError(t, os.Remove(filepath.Join(dir, "fail")))
	require.Eventually(t, d.is(func(d *oneDevice) bool { return d.reserved == 0 }), soon, 10*time.Millisecond)
}

// Otherwise two commands would clean one device, and the first could write to it after
// the second has made it available.
func TestTheSampleWaitsForACommandThatOutlivedIt(t *testing.T) {
	s := needsSample(t)
	d := &oneDevice{reserved: 1, generation: 7}
	dir, _, again := startSample(t, s, d.serve(t), 100*time.Millisecond, "wait")
	require.Eventually(t, func() bool { return len(cleaned(dir)) == 1 }, soon, 10*time.Millisecond)
	asked := 0
	d.change(func(d *oneDevice) { asked = d.asked })
	again()
	require.Never(t, d.is(func(d *oneDevice) bool { return d.asked > asked }), 3*time.Second, 100*time.Millisecond)
	require.NoError(t, os.Remove(filepath.Join(dir, "wait")))
	require.Eventually(t, d.is(func(d *oneDevice) bool { return d.reserved == 0 }), soon, 10*time.Millisecond)
	require.Len(t, cleaned(dir), 2)
}

// It uses Keystone, as in nova.conf, and the real Placement.
func TestTheSampleWithKeystone(t *testing.T) {
	s := needsSample(t)
	keystone := openstack.StartKeystone(t, openstack.KeystoneOptions{})
	server := openstack.Start(t, openstack.Options{Keystone: keystone})
	keystone.Register(t, server.URL)
	scheduler := openstack.NewScheduler(t, server.URL)
	scheduler.Token = keystone.Token(t)
	root := scheduler.Host("h1")
	device := scheduler.Device(root, "h1", "0000:0a:00.0", "CUSTOM_PCI_8086_0A54")
	held := scheduler.Device(root, "h1", "0000:0b:00.0", "CUSTOM_PCI_8086_0A54")
	tenant := uuid.NewString()
	require.NoError(t, scheduler.Allocate(t.Context(), held, tenant))
	scheduler.Burn(device)
	scheduler.Burn(held)
	reserved := func(id string) any {
		have, err := scheduler.Inventory(t.Context(), id)
		require.NoError(t, err)
		return have.Fields["reserved"]
	}
	dir, _, _ := startSample(t, s,
		fmt.Sprintf("auth_type = password\nauth_url = %s/v3\nusername = %s\npassword = %s\nproject_name = %s\n"+
			"user_domain_name = Default\nproject_domain_name = Default\nregion_name = %s\n",
			keystone.URL, openstack.User, openstack.Password, openstack.Project, openstack.Region), 100*time.Millisecond)
	require.Eventually(t, func() bool { return reserved(device) == 0.0 }, soon, 50*time.Millisecond)
	require.Equal(t, []string{"h1_0000:0A:00.0"}, cleaned(dir))
	require.Equal(t, 1.0, reserved(held), "in use")
	require.NoError(t, scheduler.Deallocate(t.Context(), "", tenant))
	require.Eventually(t, func() bool { return reserved(held) == 0.0 }, soon, 50*time.Millisecond)
}
