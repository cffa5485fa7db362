package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/mock"
	"github.com/stretchr/testify/require"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/activity"
	sdkclient "go.temporal.io/sdk/client"
	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/mocks"
	sdkworker "go.temporal.io/sdk/worker"
	"google.golang.org/grpc"

	"burnish/activities"
	"burnish/internal/config"
	"burnish/internal/device"
	"burnish/internal/hardware"
	"burnish/internal/hardware/drivers"
	"burnish/internal/host"
	"burnish/internal/telemetry"
	"burnish/internal/testkit/proc"
	"burnish/internal/testkit/site"
	"burnish/internal/testkit/testlog"
	"burnish/workflows/client"
	"burnish/workflows/contract"
)

// slots is a driver of simulated devices that finds them by itself.
type slots struct {
	hardware.Driver
	name   string
	broken error // of Init

	mu         sync.Mutex
	there      []hardware.Found
	inits      int
	discovered map[string]int // calls of Discover, by name
	// holds is foreign content of devices, by address.
	holds map[string]string
	// stuck has scans hang until it is closed; hanging counts them.
	stuck   chan struct{}
	hanging int
}

func (s *slots) Init(context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.inits++
	return s.broken
}

func (s *slots) Find(ctx context.Context) ([]hardware.Found, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if stuck := s.stuck; stuck != nil && activity.IsActivity(ctx) {
		s.hanging++
		s.mu.Unlock()
		<-stuck
		s.mu.Lock()
		return nil, errors.New("its worker has ended")
	}
	if s.inits == 0 {
		return nil, errors.New("asked before Init")
	}
	return slices.Clone(s.there), nil
}

func (s *slots) Discover(ctx context.Context, t hardware.Target, known device.Identity) (hardware.Discovery, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.discovered[t.Name]++
	i := slices.IndexFunc(s.there, func(f hardware.Found) bool { return f.Address == t.Address })
	switch {
	case i < 0:
		return hardware.Discovery{}, &device.Fault{Class: device.NeedsOperator, Code: device.CodeTargetMissing,
			Message: t.Address + " is empty"}
	case s.holds[t.Address] != "" && known == (device.Identity{}):
		return hardware.Discovery{}, &device.Fault{Class: device.NeedsOperator, Code: device.CodeFilesystemSignature,
			Message: "it holds " + s.holds[t.Address]}
	}
	t.Settings = map[string]string{"size": "1MiB", "serial": "S-" + t.Address}
	return s.Driver.Discover(ctx, t, known)
}

func (s *slots) sees(all ...hardware.Found) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.there = all
}

// sticks has scans hang from now on, or no more.
func (s *slots) sticks(until chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stuck = until
}

func (s *slots) hangs() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.hanging > 0
}

func (s *slots) discoveries(name string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.discovered[name]
}

func newSlots(name string, there ...hardware.Found) *slots {
	return &slots{name: name, there: there, discovered: map[string]int{}}
}

// with makes these drivers, each around a simulated one.
func with(all ...*slots) newDrivers {
	return func(_ []string, h drivers.Host) (map[string]hardware.Driver, error) {
		made := map[string]hardware.Driver{}
		for _, s := range all {
			fakes, err := drivers.New([]string{"fake"}, h)
			if err != nil {
				return nil, err
			}
			s.Driver = fakes["fake"]
			made[s.name] = s
		}
		return made, nil
	}
}

// settings are those of a worker of role all with a host name of its own.
func settings(t *testing.T) config.Worker {
	t.Helper()
	t.Setenv("BURNISH_ROLE", "all")
	t.Setenv("BURNISH_HOST", site.NewHost())
	t.Setenv("BURNISH_STATE_DIR", filepath.Join(t.TempDir(), "state"))
	t.Setenv("BURNISH_STOP_TIMEOUT", "1s")
	w, err := config.LoadWorker()
	require.NoError(t, err)
	return w
}

// cluster is a server that answers only the request for its ID.
type cluster struct {
	workflowservice.WorkflowServiceClient
}

func (cluster) GetClusterInfo(context.Context, *workflowservice.GetClusterInfoRequest,
	...grpc.CallOption) (*workflowservice.GetClusterInfoResponse, error) {
	return &workflowservice.GetClusterInfoResponse{ClusterId: "c1"}, nil
}

func newFigures(t *testing.T) *telemetry.Telemetry {
	t.Helper()
	figures, err := telemetry.New("test", "host", slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	return figures
}

// refused starts a host's worker that must not start, and gives its error. The client
// answers only the request for the cluster: a worker that polled would fail the test.
func refused(t *testing.T, drive newDrivers) error {
	t.Helper()
	c := &mocks.Client{}
	c.On("WorkflowService", mock.Anything).Return(cluster{})
	s := settings(t)
	h, err := startHost(s, &serverGuard{temporal: c, server: host.Server{Cluster: "c1", Namespace: "n1"}},
		newFigures(t), sdkworker.Options{}, slog.New(slog.DiscardHandler), drive)
	require.Error(t, err)
	require.NotContains(t, err.Error(), "\n")
	require.False(t, errors.As(err, new(usageError)), "exit code 1")
	require.NoError(t, h.stop())
	// The host is free again.
	again, err2 := host.Open(s.StateDir, s.Host, nil, host.WithCluster("c1"))
	require.NoError(t, err2)
	require.NoError(t, again.Close())
	return err
}

// A driver that cannot initialize its host keeps the worker from starting.
//
// S2.3
func TestAFailedInitKeepsTheWorkerFromStarting(t *testing.T) {
	s := newSlots("nvme")
	s.broken = &device.Fault{Class: device.NeedsOperator, Code: device.CodeToolTooOld, Message: "nvme is not installed",
		Remedy: "install nvme-cli"}
	err := refused(t, with(newSlots("other"), s))
	require.EqualError(t, err, "driver nvme: nvme is not installed; install nvme-cli")
	require.Equal(t, 1, s.inits)
}

// Two drivers that find the same device keep the worker from starting.
//
// S2.30
func TestTwoDriversKeepTheWorkerFromStarting(t *testing.T) {
	one := hardware.Found{Address: "0000:01:00.0"}
	err := refused(t, with(newSlots("nvme", one, hardware.Found{Address: "0000:02:00.0"}), newSlots("other", one)))
	require.ErrorContains(t, err, "InvalidConfiguration: the drivers nvme and other both find the device at 0000:01:00.0")
	fault, ok := device.AsFault(err)
	require.True(t, ok)
	require.Equal(t, device.CodeInvalidConfig, fault.Code)
}

// Drivers are initialized before they are asked for devices.
//
// S2.5
func TestDriversBeforeDiscovery(t *testing.T) {
	made, err := with(newSlots("nvme"))(nil, drivers.Host{StateDir: t.TempDir()})
	require.NoError(t, err)
	require.NoError(t, initDrivers(made), "Find comes after Init, or it fails")
}

// The states are recovered before the first scan, however long that takes. Without a driver
// that finds devices there is no scan.
//
// S2.5
func TestRecoveryBeforeDiscovery(t *testing.T) {
	this, err := host.Open(t.TempDir(), site.NewHost(), nil)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, this.Close()) })
	require.NoError(t, this.SaveRecord(host.Record{Name: "d1", Driver: "nvme"}))
	said := make(chan string, 10)
	c := &mocks.Client{}
	c.On("DescribeWorkflowExecution", mock.Anything, mock.Anything, "").
		Return(&workflowservice.DescribeWorkflowExecutionResponse{}, nil)
	answer := make(chan struct{})
	signal := func(name string, do func()) {
		c.On("SignalWithStartWorkflow", mock.Anything, mock.Anything, name, mock.Anything, mock.Anything, mock.Anything,
			mock.Anything).
			Run(func(mock.Arguments) { said <- name; do() }).Return(nil, nil)
	}
	signal(contract.SignalObserved, func() { <-answer })
	signal(contract.SignalScanNow, func() {})
	scanned := newSlots("nvme")
	scanned.inits = 1
	quiet := slog.New(slog.DiscardHandler)
	recovery := &activities.Recovery{Client: client.New(c), Log: quiet}
	h := hostWorker{host: this, offered: &activities.Offered{}}
	require.Len(t, hostTasks(recovery, h, time.Millisecond, 0), 3)
	require.Len(t, hostTasks(recovery, h, time.Millisecond, time.Minute), 5)
	h.scanner = &activities.HostScanner{Client: client.New(c), Host: this,
		Drivers: map[string]hardware.Driver{"nvme": scanned}, Log: quiet}
	stop := runTasks(t.Context(), quiet, hostTasks(recovery, h, time.Millisecond, 0)...)
	require.Equal(t, contract.SignalObserved, <-said)
	select {
	case early := <-said:
		require.Fail(t, "before the device had answered", early)
	case <-time.After(100 * time.Millisecond):
	}
	close(answer)
	require.Equal(t, contract.SignalScanNow, <-said)
	require.NoError(t, stop())
}

// devserver is a Temporal server for this test, with a client of a namespace of its own. `make
// test` builds it before.
func devserver(t *testing.T) *config.Connection {
	t.Helper()
	program := os.Getenv("BURNISH_DEVSERVER")
	if program == "" {
		program = filepath.Join("..", "bin", "burnish-devserver")
	}
	program, err := filepath.Abs(program)
	require.NoError(t, err)
	if _, err := os.Stat(program); err != nil {
		t.Skip("no burnish-devserver: make build makes it")
	}
	server := &site.Server{Program: program, Dir: t.TempDir(), Fast: true}
	require.NoError(t, server.Start(t.Context()))
	t.Cleanup(func() { require.NoError(t, server.Stop()) })
	const namespace = "worker-test"
	require.NoError(t, server.NewNamespace(t.Context(), namespace))
	return dial(t, sdkclient.Options{HostPort: server.Address, Namespace: namespace})
}

func dial(t *testing.T, options sdkclient.Options) *config.Connection {
	t.Helper()
	options.Logger = log.NewStructuredLogger(slog.New(slog.DiscardHandler))
	c, err := sdkclient.Dial(options)
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return &config.Connection{Client: c, Address: options.HostPort, Namespace: options.Namespace}
}

// running is a worker that runs in this process, with a connection and an identity of its own: a
// worker that starts ends the attempts that others have left.
type running struct {
	t     *testing.T
	at    *config.Connection
	stop  context.CancelFunc
	ended chan error
	log   *testlog.Log
}

func start(t *testing.T, at *config.Connection, s config.Worker, drive newDrivers) *running {
	t.Helper()
	return startWith(t, at, newFigures(t), s, drive)
}

func startWith(t *testing.T, at *config.Connection, figures *telemetry.Telemetry, s config.Worker,
	drive newDrivers) *running {
	t.Helper()
	identity, err := host.NewIdentity("worker test " + rand.Text())
	require.NoError(t, err)
	options := sdkclient.Options{HostPort: at.Address, Namespace: at.Namespace, Identity: identity.String()}
	figures.Options(&options)
	own := dial(t, options)
	ctx, stop := context.WithCancel(t.Context())
	r := &running{t: t, at: at, stop: stop, ended: make(chan error, 1), log: &testlog.Log{}}
	logger := slog.New(slog.NewTextHandler(r.log, nil))
	go func() {
		r.ended <- serve(ctx, s, own, identity, figures, logger,
			surroundings{newDrivers: drive, watch: 100 * time.Millisecond})
	}()
	return r
}

func (r *running) end() {
	r.t.Helper()
	r.stop()
	select {
	case err := <-r.ended:
		require.NoError(r.t, err)
	case <-time.After(time.Minute):
		require.Fail(r.t, "the worker did not stop")
	}
}

// await polls a condition, with a long limit because the machine runs other tests.
func await(t *testing.T, what string, ok func() (bool, string)) {
	t.Helper()
	require.NoError(t, proc.Await(t.Context(), 4*time.Minute, proc.PollEvery, what, ok))
}

// await queries the host's workflow until the condition is true.
func (r *running) await(name, what string, ok func(contract.HostScanState) bool) contract.HostScanState {
	r.t.Helper()
	var s contract.HostScanState
	await(r.t, what, func() (bool, string) {
		var err error
		s, err = client.New(r.at).HostScanState(r.t.Context(), name)
		return err == nil && ok(s), fmt.Sprintf("%+v %v\n%s", s, err, r.log)
	})
	return s
}

func (r *running) view(name string) contract.DeviceStatus {
	r.t.Helper()
	v, err := client.New(r.at).Query(r.t.Context(), name)
	require.NoError(r.t, err)
	return v
}

// TestAHostFindsItsDevices runs a worker against a real server: devices come,
// change, are removed, refused and forgotten, and the worker starts again while a scan of its
// predecessor has no result.
func TestAHostFindsItsDevices(t *testing.T) {
	at := devserver(t)
	s := settings(t)
	name := func(slot int) string { return fmt.Sprintf("%s_0000:%02x:00.0", s.Host, slot) }
	found := func(slot int, digest string) hardware.Found {
		return hardware.Found{Address: fmt.Sprintf("0000:%02x:00.0", slot), Type: "NVME", Digest: digest}
	}
	foreign := found(3, "a")
	one := found(1, "a")
	one.OneTimeUse = true
	scanned := newSlots("nvme", one, found(2, "a"), foreign)
	scanned.holds = map[string]string{foreign.Address: "ext4"}
	w := start(t, at, s, with(scanned))
	// The first scan enrolls, and what it has enrolled makes the host scan once more.
	state := w.await(s.Host, "the first scan", func(s contract.HostScanState) bool { return s.Scans > 0 })
	require.Equal(t, 2, state.Enrolled)
	require.Equal(t, 3, state.Last.Found)
	require.Len(t, state.Refused, 1)
	require.Equal(t, name(3), state.Refused[0].Name)
	require.Equal(t, device.CodeFilesystemSignature, state.Refused[0].Code)
	require.Contains(t, state.Refused[0].Reason, "it holds ext4")
	v := w.view(name(1))
	require.Equal(t, device.Manageable, v.DeviceState)
	require.Equal(t, "nvme", v.Driver)
	require.Equal(t, "NVME", v.Type)
	require.True(t, v.OneTimeUse)
	require.True(t, v.Dirty)

	before := scanned.discoveries(name(2))
	scanned.sees(one, found(2, "b"), foreign)
	w.await(s.Host, "the change to be published", func(s contract.HostScanState) bool {
		return s.KnownDigests[name(2)] == "b"
	})
	await(t, "the changed device to be discovered", func() (bool, string) {
		return scanned.discoveries(name(2)) > before, w.log.String()
	})
	require.Equal(t, 1, scanned.discoveries(name(3)), "a refused device is not tried again")

	scanned.sees(found(2, "b"), foreign)
	w.await(s.Host, "the missing device to be listed", func(s contract.HostScanState) bool {
		return slices.Equal(s.Missing, []string{name(1)})
	})
	await(t, "the missing device to report it", func() (bool, string) {
		v := w.view(name(1))
		return v.Fault == string(device.CodeTargetMissing) || strings.Contains(v.LastError, "is empty"), fmt.Sprintf("%+v", v)
	})
	scanned.sees(one, found(2, "b"), foreign)
	w.await(s.Host, "it to be back", func(s contract.HostScanState) bool {
		return len(s.Missing) == 0 && s.KnownDigests[name(1)] == "a"
	})

	ended := make(chan struct{})
	defer close(ended)
	scanned.sticks(ended)
	_, err := client.New(at).Do(t.Context(), name(2), contract.VerbRetire, contract.RetireInput{Reason: "sold"})
	require.NoError(t, err)
	_, err = client.New(at).Do(t.Context(), name(2), contract.VerbForget, contract.TenantInput{Reason: "sold"})
	require.NoError(t, err)
	await(t, "the scan after it to hang", func() (bool, string) { return scanned.hangs(), w.log.String() })
	w.end()

	scanned.sticks(nil)
	scanned.holds = nil // its owner has emptied it
	scanned.sees(one, found(2, "b"), foreign)
	w = start(t, at, s, with(scanned))
	state = w.await(s.Host, "the scan after the start", func(s contract.HostScanState) bool { return s.Enrolled == 3 })
	require.Equal(t, 1, state.Last.Forgotten, "the operator forgot it")
	require.Empty(t, state.Refused)
	require.Nil(t, state.Fault)
	await(t, "the device that was refused", func() (bool, string) {
		return w.view(name(3)).DeviceState == device.Manageable, w.log.String()
	})
	require.NotContains(t, w.log.String(), "level=ERROR")
	w.end()
}

// Without a driver that finds, no workflow of the host is started.
func TestNoFinderNoHostWorkflow(t *testing.T) {
	at := devserver(t)
	s := settings(t)
	w := start(t, at, s, drivers.New)
	await(t, "the worker to start", func() (bool, string) {
		return strings.Contains(w.log.String(), "worker started"), w.log.String()
	})
	w.end()
	_, err := at.DescribeWorkflowExecution(t.Context(), contract.HostScanWorkflowID(s.Host), "")
	require.ErrorContains(t, err, "not found")
}
