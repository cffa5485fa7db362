package activities_test

import (
	"bytes"
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

	"github.com/stretchr/testify/mock"
	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/activity"
	sdkclient "go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/mocks"
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
		Slots: host.NewSlots(2), Log: slog.New(slog.NewTextHandler(s.log, nil)),
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
// oneSlot leaves the host one slot, which another clean has until release.
func (s *testHost) oneSlot(t *testing.T) (release func()) {
	t.Helper()
	s.hardware.Slots = host.NewSlots(1)
	return s.takeSlot(t)
}

// takeSlot waits for the host's slot: a step answers a moment before it gives its own back.
func (s *testHost) takeSlot(t *testing.T) (release func()) {
	t.Helper()
	give, err := s.hardware.Slots.Acquire(t.Context(), host.Claim{Key: "other"}, func(int) {})
	require.NoError(t, err)
	return func() { give(false) }
}

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
	// scheduled is when the first attempt was asked for; zero: this one was, now.
	scheduled time.Time
	// lastProgress is the last heartbeat of the previous attempt; nil: none.
	lastProgress *contract.Progress
	// scanned is the last heartbeat of a scan, at first that of the previous attempt; nil: none.
	scanned *contract.ScanResult
	// metrics counts; nil counts nothing.
	metrics sdkclient.MetricsHandler
	// stop is closed when the worker stops.
	stop chan struct{}

	ctx context.Context
	end context.CancelCauseFunc

	mu    sync.Mutex
	beats []contract.Progress
	bare  int           // heartbeats that say only that the activity runs
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
	if s.scanned != nil {
		env.SetHeartbeatDetails(*s.scanned)
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
	if !o.server.scheduled.IsZero() {
		info.ScheduledTime = o.server.scheduled
	}
	return info
}

func (o *servingOutbound) GetMetricsHandler(ctx context.Context) sdkclient.MetricsHandler {
	if o.server.metrics != nil {
		return o.server.metrics
	}
	return o.Next.GetMetricsHandler(ctx)
}

func (o *servingOutbound) RecordHeartbeat(ctx context.Context, details ...any) {
	if len(details) == 0 { // an inventory call says only that it runs
		o.server.mu.Lock()
		o.server.bare++
		o.server.mu.Unlock()
	} else if p, ok := details[0].(contract.Progress); ok {
		o.server.record(p)
	} else if found, ok := details[0].(contract.ScanResult); ok {
		o.server.scanned = &found
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

// execute runs one attempt of an activity.
func execute[T any](s *server, name string, do, in any) (T, error) {
	env := s.env()
	env.RegisterActivityWithOptions(do, activity.RegisterOptions{Name: name})
	var out T
	value, err := env.ExecuteActivity(name, in)
	if err == nil && value.HasValue() {
		err = value.Get(&out)
	}
	return out, err
}

func payload(t testing.TB, value any) *commonpb.Payload {
	t.Helper()
	p, err := converter.GetDefaultDataConverter().ToPayload(value)
	require.NoError(t, err)
	return p
}

// attributes are search attributes of these names and values in turn.
func attributes(t testing.TB, namesAndValues ...any) *commonpb.SearchAttributes {
	t.Helper()
	fields := map[string]*commonpb.Payload{}
	for i := 0; i < len(namesAndValues); i += 2 {
		fields[namesAndValues[i].(interface{ GetName() string }).GetName()] = payload(t, namesAndValues[i+1])
	}
	return &commonpb.SearchAttributes{IndexedFields: fields}
}

func statusMemo(t testing.TB, status contract.StatusMemo) *commonpb.Memo {
	t.Helper()
	return &commonpb.Memo{Fields: map[string]*commonpb.Payload{contract.MemoStatus: payload(t, status)}}
}

// deviceRun is a device's workflow as the server lists it.
func deviceRun(name string, found *commonpb.SearchAttributes, memo *commonpb.Memo) *workflowpb.WorkflowExecutionInfo {
	return &workflowpb.WorkflowExecutionInfo{
		Execution: &commonpb.WorkflowExecution{WorkflowId: contract.WorkflowID(name)}, Status: isRunning,
		SearchAttributes: found, Memo: memo,
	}
}

// lists makes the server answer each listing.
func lists(c *mocks.Client,
	answer func(query string, page []byte) (runs []*workflowpb.WorkflowExecutionInfo, next []byte, err error)) {
	c.On("ListWorkflow", mock.Anything, mock.Anything).Return(
		func(_ context.Context,
			in *workflowservice.ListWorkflowExecutionsRequest) (*workflowservice.ListWorkflowExecutionsResponse, error) {
			runs, next, err := answer(in.GetQuery(), in.GetNextPageToken())
			return &workflowservice.ListWorkflowExecutionsResponse{Executions: runs, NextPageToken: next}, err
		})
}

const (
	mib = 1 << 20
	// diskSize is two and a half chunks: there is a first, a middle and a last one.
	diskSize = 2*steps.Chunk + steps.Chunk/2
)

// disk is the double of one device. It knows the content of each mebibyte, counts handles
// and writers, and lets a test intercept each call.
type disk struct {
	// clearAction, clearStrategy and liveMigratable are what Discover reports.
	clearAction, clearStrategy string
	liveMigratable             bool
	// reflashed is Target.Reflashed of the last Open.
	reflashed string
	identity  device.Identity
	// on is asked before each call takes effect; its error is the call's.
	on func(call string, offset int64, ctx context.Context) error
	// takes is how long each ZeroAt lasts; the context may cut it short.
	takes time.Duration

	mu          sync.Mutex
	cells       []cell
	unseen      string
	dirtyByte   int64 // one byte that is not zero, whatever is written; -1: none
	calls       []string
	opens       int
	writers     int // in ZeroAt at this moment
	mostWriters int
	handles     int // open for writing at this moment
	mostHandles int
}

// cell is what a mebibyte holds.
type cell byte

const (
	tenants cell = iota // the tenant's bytes
	written             // zeroes that a power cut takes away
	durable             // zeroes
)

func newDisk(serial string) *disk {
	return &disk{
		identity:  device.Identity{Serial: serial, Vendor: "Burnish", Model: "double", Size: diskSize},
		cells:     make([]cell, diskSize/mib),
		dirtyByte: -1,
	}
}

// tenantsBytes is what a mebibyte holds that was not zeroed.
var tenantsBytes = bytes.Repeat([]byte{0xA5}, mib)

// driver opens its disks by the target's name.
type driver struct {
	mu    sync.Mutex
	disks map[string]*disk
	// found, if set, is called first by Discover; its error is Discover's.
	found func(t hardware.Target, known device.Identity) error
}

func (d *driver) Name() string { return "double" }

func (d *driver) disk(name string) (*disk, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if disk := d.disks[name]; disk != nil {
		return disk, nil
	}
	return nil, &device.Fault{Class: device.NeedsOperator, Code: device.CodeTargetMissing, Message: name + " is not there"}
}

func (d *driver) Discover(_ context.Context, t hardware.Target, known device.Identity) (hardware.Discovery, error) {
	if d.found != nil {
		if err := d.found(t, known); err != nil {
			return hardware.Discovery{}, err
		}
	}
	disk, err := d.disk(t.Name)
	if err != nil {
		return hardware.Discovery{}, err
	}
	return hardware.Discovery{Identity: disk.identity, Operation: device.Shred, Note: "a double",
		ClearAction: disk.clearAction, ClearStrategy: disk.clearStrategy, LiveMigratable: disk.liveMigratable}, nil
}

func (d *driver) Open(ctx context.Context, t hardware.Target, enrolled device.Identity,
	writable bool) (hardware.Handle, error) {
	disk, err := d.disk(t.Name)
	if err != nil {
		return nil, err
	}
	if err := disk.call(ctx, "open", 0); err != nil {
		return nil, err
	}
	if field := enrolled.Differs(disk.identity); field != "" {
		return nil, changed(field)
	}
	disk.mu.Lock()
	defer disk.mu.Unlock()
	disk.opens++
	if writable {
		disk.handles++
		disk.mostHandles = max(disk.mostHandles, disk.handles)
	}
	disk.reflashed = t.Reflashed
	return &diskHandle{disk: disk, enrolled: enrolled, writable: writable}, nil
}

func changed(field string) error {
	return &device.Fault{Class: device.NeedsOperator, Code: device.CodeIdentityChanged, Message: "another " + field +
		" than enrolled"}
}

// call records a call and lets the test intercept it.
func (d *disk) call(ctx context.Context, name string, offset int64) error {
	line := name
	if name == "zero" || name == "read" {
		line = fmt.Sprintf("%s %d", name, offset/mib)
	}
	d.mu.Lock()
	d.calls = append(d.calls, line)
	on := d.on
	d.mu.Unlock()
	if on == nil {
		return nil
	}
	return on(name, offset, ctx)
}

func (d *disk) intercept(on func(call string, offset int64, ctx context.Context) error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.on = on
}

// history gives the calls so far, without reads.
func (d *disk) history() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	var all []string
	for _, call := range d.calls {
		if call[0] != 'r' {
			all = append(all, call)
		}
	}
	return all
}

func (d *disk) opened() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.opens
}

// durableUpTo is how far zeroes are on stable storage without a gap.
func (d *disk) durableUpTo() int64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	for i, c := range d.cells {
		if c != durable {
			return int64(i) * mib
		}
	}
	return d.identity.Size
}

// durableBefore makes the disk durably zero before an offset, as earlier attempts would.
func (d *disk) durableBefore(offset int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for i := range d.cells {
		if int64(i)*mib < offset {
			d.cells[i] = durable
		}
	}
}

type diskHandle struct {
	disk     *disk
	enrolled device.Identity
	writable bool
}

func (h *diskHandle) Size() int64    { return h.enrolled.Size }
func (h *diskHandle) Method() string { return "double" }

func (h *diskHandle) ZeroAt(ctx context.Context, offset, n int64) error {
	d := h.disk
	if !h.writable || offset%mib != 0 || n%mib != 0 || offset < 0 || offset+n > h.Size() {
		return fmt.Errorf("zero %d bytes at %d of %d, writable %v", n, offset, h.Size(), h.writable)
	}
	if err := hardware.MayWrite(ctx); err != nil {
		return err
	}
	d.mu.Lock()
	d.writers++
	d.mostWriters = max(d.mostWriters, d.writers)
	d.mu.Unlock()
	defer func() {
		d.mu.Lock()
		d.writers--
		d.mu.Unlock()
	}()
	if err := d.call(ctx, "zero", offset); err != nil {
		return err
	}
	if d.takes > 0 {
		select {
		case <-time.After(d.takes):
		case <-ctx.Done():
			return fmt.Errorf("zero, stopped at %d: %w", offset, ctx.Err())
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for i := offset / mib; i < (offset+n)/mib; i++ {
		d.cells[i] = written
	}
	return nil
}

func (h *diskHandle) ReadAt(p []byte, offset int64) (int, error) {
	d := h.disk
	if err := d.call(context.Background(), "read", offset); err != nil {
		return 0, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	clear(p)
	for i, c := range d.cells[offset/mib : (offset+int64(len(p))+mib-1)/mib] {
		if c == tenants {
			copy(p[i*mib:], tenantsBytes)
		}
	}
	if at := d.dirtyByte - offset; d.dirtyByte >= 0 && at >= 0 && at < int64(len(p)) {
		p[at] = 0xA5
	}
	return len(p), nil
}

func (h *diskHandle) Unseen() string { return h.disk.unseen }

func (h *diskHandle) Flush(ctx context.Context) error {
	if err := h.disk.call(ctx, "flush", 0); err != nil {
		return err
	}
	h.disk.mu.Lock()
	defer h.disk.mu.Unlock()
	for i, c := range h.disk.cells {
		if c == written {
			h.disk.cells[i] = durable
		}
	}
	return nil
}

func (h *diskHandle) Check(ctx context.Context) error {
	if err := h.disk.call(ctx, "check", 0); err != nil {
		return err
	}
	if field := h.enrolled.Differs(h.disk.identity); field != "" {
		return changed(field)
	}
	return nil
}

func (h *diskHandle) Close() error {
	err := h.disk.call(context.Background(), "close", 0)
	h.disk.mu.Lock()
	defer h.disk.mu.Unlock()
	if h.writable {
		h.disk.handles--
	}
	return err
}
