package activities_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	sdkclient "go.temporal.io/sdk/client"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/worker"

	"burnish/activities"
	"burnish/internal/clean/steps"
	"burnish/internal/device"
	"burnish/internal/hardware"
	"burnish/internal/host"
	"burnish/internal/testkit/testlog"
	"burnish/workflows/contract"
)

// budget is that of every step here unless a test says otherwise.
const budget = time.Hour

// testHost is one host with its worker's activities and one disk, d1.
type testHost struct {
	t        *testing.T
	host     *host.Host
	hardware *activities.Hardware
	disk     *disk
	disks    *driver
	log      *testlog.Log
}

var testHosts atomic.Int64

// newTestHost makes a host with one slot more than it has disks.
func newTestHost(t *testing.T) *testHost {
	t.Helper()
	dir := t.TempDir()
	// Each test has its own host name: a machine runs one worker for each host name.
	name := fmt.Sprintf("act-%d-%d", os.Getpid(), testHosts.Add(1))
	h, err := host.Open(dir, name, host.DefaultRules(dir))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, h.Close()) })
	s := &testHost{t: t, host: h, disks: &driver{disks: map[string]*disk{}}, log: &testlog.Log{}}
	s.hardware = &activities.Hardware{
		Host: h, Drivers: map[string]hardware.Driver{"double": s.disks}, Steps: steps.All(),
		Slots: host.NewFairSemaphore(2), Log: slog.New(slog.NewTextHandler(s.log, nil)),
	}
	s.disk = s.add("d1", "S1")
	return s
}

// add adds another disk to the host.
func (s *testHost) add(name, serial string) *disk {
	d := newDisk(serial)
	s.disks.mu.Lock()
	s.disks.disks[name] = d
	s.disks.mu.Unlock()
	return d
}

// enrollment is that of a disk.
func (s *testHost) enrollment(name string) contract.Enrollment {
	return contract.Enrollment{Name: name, Host: s.host.Name(), Driver: "double", Owner: device.OwnerSelf}
}

// input is the first scheduling of a step on d1 in the clean "run/1".
func (s *testHost) input(step string) contract.StepInput { return s.inputFor("d1", step) }

func (s *testHost) inputFor(name, step string) contract.StepInput {
	disk, err := s.disks.disk(name)
	require.NoError(s.t, err)
	return contract.StepInput{
		Enrollment: s.enrollment(name), Identity: disk.identity, Operation: device.Shred, Step: step, Version: 1,
		Clean: "run/1", Number: 1, Seq: 1, Binding: 3, Generation: 7, Budget: budget,
	}
}

// entry is the journal's entry of d1.
func (s *testHost) entry() host.Entry {
	s.t.Helper()
	e, found, err := s.host.Journal("d1").Load()
	require.NoError(s.t, err)
	require.True(s.t, found, "no journal of d1")
	return e
}

// journaled describes the journal's entry of d1 in one line. A disk's goroutine may call it.
func (s *testHost) journaled() string {
	e, found, err := s.host.Journal("d1").Load()
	switch {
	case err != nil:
		return err.Error()
	case !found:
		return "nothing"
	}
	var b strings.Builder
	if e.Working {
		b.WriteString("working ")
	}
	if e.Done {
		b.WriteString("done ")
	}
	fmt.Fprintf(&b, "at %d", e.Offset/mib)
	return b.String()
}

// fenced fails if the fence of a serial is free.
func (s *testHost) fenced(serial string) error {
	f, err := s.tryFence(serial)
	if err == nil {
		return errors.Join(errors.New("the fence of "+serial+" is free"), f.Close())
	}
	if errors.Is(err, errFenceHeld) {
		return nil
	}
	return err
}

var errFenceHeld = errors.New("the fence is held")

// tryFence takes a fence without waiting.
func (s *testHost) tryFence(serial string) (*host.Fence, error) {
	ctx, cancel := context.WithCancelCause(s.t.Context())
	defer cancel(nil)
	return s.host.Fence(ctx, serial, func(string) { cancel(errFenceHeld) })
}

func (s *testHost) lockFile(serial string) string { return filepath.Join(s.host.Dir(), "lock", serial) }

func (s *testHost) journalFile(name string) string {
	return filepath.Join(s.host.Dir(), "journal", name+".json")
}

// server acts as the Temporal server for one attempt of an activity. The SDK's environment
// knows only first attempts, and shows only the heartbeats that it does not throttle: an
// interceptor adds both.
type server struct {
	attempt int32
	// lastProgress is the last heartbeat of the previous attempt; nil: none.
	lastProgress *contract.Progress
	// scanned is the last heartbeat of a scan.
	scanned *contract.ScanResult
	// metrics counts; nil counts nothing.
	metrics sdkclient.MetricsHandler
	// stop is closed when the worker stops.
	stop chan struct{}

	ctx context.Context
	end context.CancelCauseFunc

	mu    sync.Mutex
	beats []contract.Progress
	beat  chan struct{} // capacity 1
}

// first is the server of a first attempt; again is that of a later one.
func first(t *testing.T) *server { return again(t, 1) }

func again(t *testing.T, attempt int32) *server {
	ctx, end := context.WithCancelCause(t.Context())
	return &server{
		attempt: attempt, stop: make(chan struct{}), ctx: ctx, end: end, beat: make(chan struct{}, 1),
	}
}

// env is the SDK's environment with this server's interceptor.
func (s *server) env() *testsuite.TestActivityEnvironment {
	var suite testsuite.WorkflowTestSuite
	suite.SetLogger(log.NewStructuredLogger(slog.New(slog.DiscardHandler)))
	env := suite.NewTestActivityEnvironment()
	env.SetWorkerOptions(worker.Options{
		BackgroundActivityContext: s.ctx,
		Interceptors:              []interceptor.WorkerInterceptor{&serving{server: s}},
	})
	env.SetWorkerStopChannel(s.stop)
	if s.lastProgress != nil {
		env.SetHeartbeatDetails(*s.lastProgress)
	}
	return env
}

type serving struct {
	interceptor.WorkerInterceptorBase
	server *server
}

func (s *serving) InterceptActivity(_ context.Context,
	next interceptor.ActivityInboundInterceptor) interceptor.ActivityInboundInterceptor {
	i := &servingInbound{server: s.server}
	i.Next = next
	return i
}

type servingInbound struct {
	interceptor.ActivityInboundInterceptorBase
	server *server
}

func (i *servingInbound) Init(outbound interceptor.ActivityOutboundInterceptor) error {
	o := &servingOutbound{server: i.server}
	o.Next = outbound
	return i.Next.Init(o)
}

type servingOutbound struct {
	interceptor.ActivityOutboundInterceptorBase
	server *server
}

func (o *servingOutbound) GetInfo(ctx context.Context) activity.Info {
	info := o.Next.GetInfo(ctx)
	info.Attempt = o.server.attempt
	return info
}

func (o *servingOutbound) GetMetricsHandler(ctx context.Context) sdkclient.MetricsHandler {
	if o.server.metrics != nil {
		return o.server.metrics
	}
	return o.Next.GetMetricsHandler(ctx)
}

func (o *servingOutbound) RecordHeartbeat(ctx context.Context, details ...any) {
	if len(details) > 0 { // an inventory call says only that it runs
		if p, ok := details[0].(contract.Progress); ok {
			o.server.record(p)
		}
		if s, ok := details[0].(contract.ScanResult); ok {
			o.server.scanned = &s
		}
	}
	o.Next.RecordHeartbeat(ctx, details...)
}

func (s *server) record(p contract.Progress) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.beats) == 0 || s.beats[len(s.beats)-1] != p {
		s.beats = append(s.beats, p)
	}
	select {
	case s.beat <- struct{}{}:
	default:
	}
}

// heartbeats gives all heartbeats so far, without repetitions.
func (s *server) heartbeats() []contract.Progress {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.beats)
}

// last is the latest heartbeat.
func (s *server) last() contract.Progress {
	all := s.heartbeats()
	if len(all) == 0 {
		return contract.Progress{}
	}
	return all[len(all)-1]
}

// run runs one attempt of a step.
func (s *testHost) run(server *server, in contract.StepInput) (contract.StepAnswer, error) {
	i := slices.IndexFunc(s.hardware.Steps, func(step steps.Step) bool { return step.Name == in.Step })
	if i < 0 {
		return contract.StepAnswer{}, errors.New("no step " + in.Step)
	}
	return execute[contract.StepAnswer](server, in.Step, s.hardware.Step(s.hardware.Steps[i]), in)
}

// running is one attempt in a goroutine of its own.
type running struct {
	*server
	done   chan struct{}
	result contract.StepAnswer
	err    error
	took   time.Duration
}

func (s *testHost) start(server *server, in contract.StepInput) *running {
	r := &running{server: server, done: make(chan struct{})}
	began := time.Now()
	go func() {
		defer close(r.done)
		r.result, r.err = s.run(server, in)
		r.took = time.Since(began)
	}()
	return r
}

// waitUntilWaiting returns when a heartbeat's Waiting starts with the given text.
func (r *running) waitUntilWaiting(t *testing.T, waiting string) {
	t.Helper()
	for !strings.HasPrefix(r.last().Waiting, waiting) {
		select {
		case <-r.beat:
		case <-r.done:
			require.Fail(t, "the attempt ended", "before it said %q: %v", waiting, r.err)
		case <-t.Context().Done():
			require.Fail(t, "no heartbeat says "+waiting)
		}
	}
}

// wait returns when the attempt has ended.
func (r *running) wait(t *testing.T) (contract.StepAnswer, error) {
	t.Helper()
	select {
	case <-r.done:
	case <-t.Context().Done():
		require.Fail(t, "the attempt did not end")
	}
	return r.result, r.err
}

// over says whether the attempt has ended, once all other goroutines of the bubble wait.
func (r *running) over() bool {
	synctest.Wait()
	select {
	case <-r.done:
		return true
	default:
		return false
	}
}

// pass lets time pass in a bubble.
func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// requireFault requires an error with this code, and that the server retries it or not.
func requireFault(t *testing.T, err error, code device.Code, retried bool) contract.Refusal {
	t.Helper()
	require.Error(t, err)
	require.False(t, temporal.IsCanceledError(err), "canceled, want %s: %v", code, err)
	var app *temporal.ApplicationError
	require.ErrorAs(t, err, &app)
	require.Equal(t, string(code), app.Type(), err)
	require.Equal(t, retried, !app.NonRetryable(), "retried: %v", err)
	refusal, ok := contract.RefusalOf(err)
	require.True(t, ok)
	require.Equal(t, code, refusal.Fault.Code)
	require.Equal(t, retried, refusal.Fault.Class == device.Transient, "class %s of %s", refusal.Fault.Class, code)
	return refusal
}

// requireRetriedNow requires that the server starts the next attempt at once.
func requireRetriedNow(t *testing.T, err error, code device.Code) {
	t.Helper()
	requireFault(t, err, code, true)
	var app *temporal.ApplicationError
	require.ErrorAs(t, err, &app)
	require.Positive(t, app.NextRetryDelay())
	require.Less(t, app.NextRetryDelay(), time.Second)
}

// inBubble runs a test in a synctest bubble: time advances only while all goroutines wait.
func inBubble(t *testing.T, name string, f func(t *testing.T)) {
	t.Run(name, func(t *testing.T) { synctest.Test(t, f) })
}
