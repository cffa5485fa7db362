package nova_test

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
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

// oneDevice is a Placement with one device that an instance has left.
type oneDevice struct {
	*openstack.Scheduler
	seen *openstack.Recorder // of the sample's requests
	id   string
}

func newOneDevice(t *testing.T) *oneDevice {
	t.Helper()
	server := openstack.Start(t, openstack.Options{})
	d := &oneDevice{Scheduler: openstack.NewScheduler(t, server.URL), seen: openstack.Record(t, server.URL)}
	d.id = d.Device(d.Host("h1"), "h1", "0000:0a:00.0", "CUSTOM_PCI_8086_0A54")
	d.Burn(d.id)
	return d
}

// polls are how often the sample has looked for devices, puts the answers to what it wrote.
func (d *oneDevice) polls() (n int) {
	for _, e := range d.seen.Exchanges() {
		if strings.HasPrefix(e.Path, "/resource_providers?") {
			n++
		}
	}
	return n
}

func (d *oneDevice) puts() (answers []int) {
	for _, e := range d.seen.Exchanges() {
		if e.Method == http.MethodPut {
			answers = append(answers, e.Status)
		}
	}
	return answers
}

func reserved(t *testing.T, s *openstack.Scheduler, id string) any {
	t.Helper()
	have, err := s.Inventory(t.Context(), id)
	require.NoError(t, err)
	return have.Fields["reserved"]
}

// section is that of Nova's configuration.
func (d *oneDevice) section() string {
	return "auth_type = admin_token\nendpoint = " + d.seen.URL + "\ntoken = " + openstack.DefaultToken + "\n"
}

func (d *oneDevice) requireFreed(t *testing.T) {
	t.Helper()
	require.Eventually(t, func() bool { return reserved(t, d.Scheduler, d.id) == 0.0 }, soon, 20*time.Millisecond)
}

// runSample runs the sample as an operator does. Its cleaning command records the name of
// the device, and fails or waits while a file named fail or wait exists: flags are those that
// exist at the start.
func runSample(t *testing.T, s *testQueue, d *oneDevice, poll time.Duration,
	flags ...string) (dir string, out *testlog.Log) {
	t.Helper()
	dir, out, _ = startSample(t, s, d.section(), poll, flags...)
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
	d := newOneDevice(t)
	d.SetReserved(d.id, 0)
	instance := uuid.NewString()
	require.NoError(t, d.Allocate(t.Context(), d.id, instance))
	d.Burn(d.id)
	dir, _ := runSample(t, s, d, time.Hour)
	// More than once if its queue still holds another test's notifications.
	require.Eventually(t, func() bool { return d.polls() > 0 }, soon, 10*time.Millisecond)
	require.NoError(t, d.Deallocate(t.Context(), "", instance))
	require.NoError(t, p.Send(messagebus.Instance("instance.delete.end", instance, "h1")))
	d.requireFreed(t)
	require.Equal(t, []string{"h1_0000:0A:00.0"}, cleaned(dir))
	require.Equal(t, []int{200}, d.puts())
}

// An allocation during the clean must not be lost.
func TestTheSampleDoesNotLowerBehindAnAllocation(t *testing.T) {
	s := needsSample(t)
	d := newOneDevice(t)
	dir, _ := runSample(t, s, d, 100*time.Millisecond, "wait")
	require.Eventually(t, func() bool { return len(cleaned(dir)) == 1 }, soon, 10*time.Millisecond, "by polling alone")
	instance := uuid.NewString()
	d.SetReserved(d.id, 0)
	require.NoError(t, d.Allocate(t.Context(), d.id, instance))
	d.Burn(d.id)
	require.NoError(t, os.Remove(filepath.Join(dir, "wait")))
	require.Eventually(t, func() bool { return len(d.puts()) == 1 }, soon, 10*time.Millisecond)
	before := d.polls()
	require.Eventually(t, func() bool { return d.polls() > before+2 }, soon, 10*time.Millisecond)
	require.Equal(t, []int{409}, d.puts())
	require.Equal(t, 1.0, reserved(t, d.Scheduler, d.id), "a device in use is left alone")
	// It starts over once that instance is gone.
	require.NoError(t, d.Deallocate(t.Context(), "", instance))
	d.requireFreed(t)
	require.Len(t, cleaned(dir), 2)
}

// A device whose clean failed stays reserved, and its clean is retried.
func TestTheSampleKeepsWhatItCouldNotClean(t *testing.T) {
	s := needsSample(t)
	d := newOneDevice(t)
	dir, out := runSample(t, s, d, 100*time.Millisecond, "fail")
	require.Eventually(t, func() bool { return strings.Contains(out.String(), "h1_0000:0A:00.0 stays reserved") }, soon,
		10*time.Millisecond)
	require.Empty(t, d.puts())
	require.NoError(t, os.Remove(filepath.Join(dir, "fail")))
	d.requireFreed(t)
}

// Otherwise two commands would clean one device, and the first could write to it after
// the second has made it available.
func TestTheSampleWaitsForACommandThatOutlivedIt(t *testing.T) {
	s := needsSample(t)
	d := newOneDevice(t)
	dir, _, again := startSample(t, s, d.section(), 100*time.Millisecond, "wait")
	require.Eventually(t, func() bool { return len(cleaned(dir)) == 1 }, soon, 10*time.Millisecond)
	asked := d.polls()
	again()
	require.Never(t, func() bool { return d.polls() > asked }, 3*time.Second, 100*time.Millisecond)
	require.NoError(t, os.Remove(filepath.Join(dir, "wait")))
	d.requireFreed(t)
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
	dir, _, _ := startSample(t, s,
		fmt.Sprintf("auth_type = password\nauth_url = %s/v3\nusername = %s\npassword = %s\nproject_name = %s\n"+
			"user_domain_name = Default\nproject_domain_name = Default\nregion_name = %s\n",
			keystone.URL, openstack.User, openstack.Password, openstack.Project, openstack.Region), 100*time.Millisecond)
	require.Eventually(t, func() bool { return reserved(t, scheduler, device) == 0.0 }, soon, 50*time.Millisecond)
	require.Equal(t, []string{"h1_0000:0A:00.0"}, cleaned(dir))
	require.Equal(t, 1.0, reserved(t, scheduler, held), "in use")
	require.NoError(t, scheduler.Deallocate(t.Context(), "", tenant))
	require.Eventually(t, func() bool { return reserved(t, scheduler, held) == 0.0 }, soon, 50*time.Millisecond)
}
