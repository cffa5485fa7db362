package main

import (
	"bytes"
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/temporal"

	"burnish/internal/device"
	"burnish/workflows/client"
	"burnish/workflows/contract"
)

// clock is the present time of all tests.
var clock = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// fakeClient answers as Temporal would; a nil function is a call that the test
// does not expect.
type fakeClient struct {
	// shown is the one device, where onDescribe and onQuery are nil.
	shown      *contract.DeviceStatus
	onEnroll   func(contract.EnrollInput) (contract.Result, error)
	onUpdate   func(ctx context.Context, name, update string, input any) (contract.Result, error)
	onDescribe func(name string) (client.Execution, error)
	onQuery    func(ctx context.Context, name string) (contract.DeviceStatus, error)
	onValidate func(name string, in contract.CleanInput) (contract.CleanPlan, error)
	onDryRun   func(name, update string, in any) (contract.DryRun, error)
	onFacts    func(name string) (contract.DiscoveryResult, error)
	onList     func(query string) ([]client.Execution, error)
	onPolled   func(queue string) (time.Time, error)
	lastPoll   time.Time
	pollErr    error
	// served are the clouds; importable answers what can be imported from one.
	served     []string
	reconciled contract.InventoryReconcileState
	importable func(cloud string, in contract.CandidatesInput) (contract.Candidates, error)

	// appliances are served; inPool answers for their servers, onPool who has one.
	appliances []string
	// onAppliances gives the appliances, instead.
	onAppliances func() []string
	inPool       func(in contract.ServersInput) (contract.Servers, error)
	onPool       func(in contract.PoolRequest) (contract.PoolSnapshot, error)
	// polled are the appliances that have a workflow.
	polled map[string]contract.OneViewState

	// limits are the answer of the workflow of the limits; nil: there is none.
	limits    *contract.LimitsStatus
	limitsErr error
	onResume  func(contract.ResumeInput) (contract.ResumeResult, error)

	onInstance     func(ctx context.Context, instance, update string, input any) (contract.InstanceResult, error)
	onShowInstance func(ctx context.Context, instance string) (contract.InstanceStatus, error)

	onAttributes func() (map[string]string, error)
	onDiagnosis  func() (client.Diagnosis, error)
	diagnosisEnd time.Time // when the caller of Diagnosis gives up

	mu   sync.Mutex
	sent []string // "update name", in order of arrival
}

func (f *fakeClient) Do(ctx context.Context, name string, v contract.Verb, in contract.Input) (contract.Result, error) {
	if enroll, ok := in.(contract.EnrollInput); ok {
		return f.onEnroll(enroll)
	}
	f.mu.Lock()
	f.sent = append(f.sent, v.Update()+" "+name)
	f.mu.Unlock()
	answer, err := f.onUpdate(ctx, name, v.Update(), in)
	if v.Name == contract.VerbBind.Name {
		answer.Binding = answer.Device.Binding
	}
	return answer, err
}

func (f *fakeClient) Ask(_ context.Context, name string, v contract.Verb, in contract.Input) (contract.DryRun, error) {
	return f.onDryRun(name, v.Update(), in)
}

func (f *fakeClient) LimitsStatus(context.Context, string) (contract.LimitsStatus, bool, error) {
	if f.limits == nil || f.limitsErr != nil {
		return contract.LimitsStatus{}, false, f.limitsErr
	}
	return *f.limits, true, nil
}

func (f *fakeClient) Resume(_ context.Context, in contract.ResumeInput) (contract.ResumeResult, error) {
	return f.onResume(in)
}

func (f *fakeClient) Describe(_ context.Context, name string) (client.Execution, error) {
	if f.onDescribe == nil {
		return running(*f.shown), nil
	}
	return f.onDescribe(name)
}

func (f *fakeClient) Query(ctx context.Context, name string) (contract.DeviceStatus, error) {
	if f.onQuery == nil {
		return *f.shown, nil
	}
	return f.onQuery(ctx, name)
}

func (f *fakeClient) Validate(_ context.Context, name string, in contract.CleanInput) (contract.CleanPlan, error) {
	return f.onValidate(name, in)
}

func (f *fakeClient) Discovery(_ context.Context, name string) (contract.DiscoveryResult, error) {
	return f.onFacts(name)
}

func (f *fakeClient) List(_ context.Context, filter client.Filter) ([]client.Execution, error) {
	found, err := f.onList(filter.Query())
	// Several may list at once.
	found = slices.DeleteFunc(slices.Clone(found), func(e client.Execution) bool { return !filter.Selects(&e.Status) })
	slices.SortFunc(found, func(a, b client.Execution) int { return strings.Compare(a.Name, b.Name) })
	return found, err
}

func (f *fakeClient) Clouds(context.Context) ([]string, error) { return f.served, nil }

func (f *fakeClient) OneViewState(_ context.Context, appliance string) (contract.OneViewState, error) {
	s, ok := f.polled[appliance]
	if !ok {
		return s, serviceerror.NewNotFound("no workflow")
	}
	return s, nil
}

func (f *fakeClient) ReconcileState(context.Context, string) (contract.InventoryReconcileState, error) {
	return f.reconciled, nil
}

func (f *fakeClient) Candidates(_ context.Context, cloud string,
	in contract.CandidatesInput) (contract.Candidates, error) {
	return f.importable(cloud, in)
}

func (f *fakeClient) Appliances(context.Context) ([]string, error) {
	if f.onAppliances != nil {
		return f.onAppliances(), nil
	}
	return append(slices.Sorted(maps.Keys(f.polled)), f.appliances...), nil
}

func (f *fakeClient) Servers(_ context.Context, in contract.ServersInput) (contract.Servers, error) {
	return f.inPool(in)
}

func (f *fakeClient) ReadPool(_ context.Context, in contract.PoolRequest) (contract.PoolSnapshot, error) {
	return f.onPool(in)
}

func (f *fakeClient) LastPoll(_ context.Context, queue string) (time.Time, error) {
	if f.onPolled != nil {
		return f.onPolled(queue)
	}
	return f.lastPoll, f.pollErr
}

func (f *fakeClient) Server(context.Context) (client.Server, error) {
	return client.Server{Address: "temporal:7233", Namespace: "burnish", Cluster: "c1"}, nil
}

func (f *fakeClient) SearchAttributes(context.Context) (map[string]string, error) {
	return f.onAttributes()
}

// Diagnosis is that of an installation without devices, unless a test says otherwise.
func (f *fakeClient) Diagnosis(ctx context.Context) (client.Diagnosis, error) {
	f.diagnosisEnd, _ = ctx.Deadline()
	if f.onDiagnosis == nil {
		return client.Diagnosis{}, nil
	}
	return f.onDiagnosis()
}

func (f *fakeClient) Close() {}

// ran is the result of one invocation.
type ran struct {
	code        int
	out, errors string
}

// burnish runs one command line over l. The answer is the input of a terminal; without an
// answer there is no terminal.
func burnish(t *testing.T, l deviceClient, answer string, args ...string) ran {
	t.Helper()
	return burnishWith(t, l, func(a *app, _ func()) {
		a.stdin, a.terminal = strings.NewReader(answer), func() bool { return answer != "" }
	}, args...)
}

// burnishWith runs one command line over l, in an invocation that change changes.
func burnishWith(t *testing.T, l deviceClient, change func(a *app, ctrlC func()), args ...string) ran {
	t.Helper()
	ctx, ctrlC := context.WithCancel(t.Context())
	defer ctrlC()
	var out, errors bytes.Buffer
	a := &app{
		stdin: strings.NewReader(""), stdout: &out, stderr: &errors, terminal: func() bool { return false },
		now: func() time.Time { return clock }, getenv: func(string) string { return "" },
		pause: func(ctx context.Context, _ time.Duration) error { return ctx.Err() },
	}
	if change(a, ctrlC); a.dial == nil {
		a.dial = dialing(t, l)
	}
	code := a.run(ctx, args)
	return ran{code, out.String(), errors.String()}
}

// running is the server's record of a device.
func running(v contract.DeviceStatus) client.Execution {
	return client.Execution{Name: v.Name, Running: true, Started: clock, Status: v}
}

// in is a device in a state.
func in(name string, s device.State) contract.DeviceStatus {
	return contract.DeviceStatus{
		Name: name, UUID: contract.DeviceUUID(name), DeviceState: s, Status: device.Enabled, CreatedAt: clock,
		UpdatedAt: clock,
	}
}

// refuse is a refusal as Temporal returns it.
func refuse(name string, s device.State, f device.Fault) error {
	return temporal.NewApplicationErrorWithOptions(f.Message, string(f.Code), temporal.ApplicationErrorOptions{
		NonRetryable: true,
		Details:      []any{contract.Refusal{Fault: f, Device: name, State: s}},
	})
}

// gone is Temporal's answer for a workflow that does not exist.
func gone() error { return serviceerror.NewNotFound("workflow not found for ID: device/none") }

// noAnswer blocks until the request times out, as Temporal does if no worker answers.
func noAnswer(ctx context.Context) error {
	<-ctx.Done()
	return ctx.Err()
}

// DoInstance notes a request for an instance, and answers it.
func (f *fakeClient) DoInstance(ctx context.Context, instance string, v contract.Verb,
	in contract.Input) (contract.InstanceResult, error) {
	f.mu.Lock()
	f.sent = append(f.sent, v.Update()+" "+instance)
	f.mu.Unlock()
	return f.onInstance(ctx, instance, v.Update(), in)
}

func (f *fakeClient) Instance(ctx context.Context, instance string) (contract.InstanceStatus, error) {
	return f.onShowInstance(ctx, instance)
}
