package main

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	sdk "go.temporal.io/sdk/temporal"

	"burnish/internal/device"
	"burnish/workflows/contract"
)

// clock is the one time of all tests.
var clock = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// fakeClient answers as Temporal would; a nil function is a call that the test
// does not expect.
type fakeClient struct {
	onEnroll   func(contract.EnrollInput) (contract.Result, error)
	onUpdate   func(ctx context.Context, name, update string, input any) (contract.Result, error)
	onDescribe func(name string) (execution, error)
	onQuery    func(ctx context.Context, name string) (contract.DeviceStatus, error)
	onFacts    func(name string) (contract.DiscoveryResult, error)
	onList     func(query string) ([]execution, error)
	onPolled   func(queue string) (time.Time, error)
	lastPoll   time.Time
	pollErr    error
	// served are the clouds; importable answers what can be imported from one.
	served     []string
	importable func(cloud string, in contract.CandidatesInput) (contract.Candidates, error)

	onAttributes func() (map[string]enumspb.IndexedValueType, error)

	mu   sync.Mutex
	sent []string // "update name", in order of arrival
}

func (f *fakeClient) enroll(_ context.Context, in contract.EnrollInput) (contract.Result, error) {
	return f.onEnroll(in)
}

func (f *fakeClient) update(ctx context.Context, name, update string, input, result any) error {
	f.mu.Lock()
	f.sent = append(f.sent, update+" "+name)
	f.mu.Unlock()
	answer, err := f.onUpdate(ctx, name, update, input)
	switch into := result.(type) {
	case *contract.Result:
		*into = answer
	case *contract.BindResult:
		*into = contract.BindResult{Binding: answer.Device.Binding, Device: answer.Device, Already: answer.Already}
	default:
		return fmt.Errorf("unexpected result %T", result)
	}
	return err
}

func (f *fakeClient) describe(_ context.Context, name string) (execution, error) {
	return f.onDescribe(name)
}

func (f *fakeClient) query(ctx context.Context, name string) (contract.DeviceStatus, error) {
	return f.onQuery(ctx, name)
}

func (f *fakeClient) facts(_ context.Context, name string) (contract.DiscoveryResult, error) {
	return f.onFacts(name)
}

func (f *fakeClient) list(_ context.Context, query string) ([]execution, error) {
	return f.onList(query)
}

func (f *fakeClient) clouds(context.Context) ([]string, error) { return f.served, nil }

func (f *fakeClient) candidates(_ context.Context, cloud string, in contract.CandidatesInput) (contract.Candidates, error) {
	return f.importable(cloud, in)
}

func (f *fakeClient) lastPolled(_ context.Context, queue string, _ enumspb.TaskQueueType) (time.Time, error) {
	if f.onPolled != nil {
		return f.onPolled(queue)
	}
	return f.lastPoll, f.pollErr
}

func (f *fakeClient) searchAttributes(context.Context) (map[string]enumspb.IndexedValueType, error) {
	return f.onAttributes()
}

func (f *fakeClient) endpoint() (string, string) { return "temporal:7233", "burnish" }

func (f *fakeClient) close() {}

// ran is what one invocation left behind.
type ran struct {
	code        int
	out, errors string
}

// burnish runs one command line over l. The answer stands on a terminal's input;
// without one there is no terminal.
func burnish(t *testing.T, l deviceClient, answer string, args ...string) ran {
	t.Helper()
	var out, errors bytes.Buffer
	a := &app{
		stdin: strings.NewReader(answer), stdout: &out, stderr: &errors,
		dial:     func(context.Context) (deviceClient, error) { return l, nil },
		terminal: func() bool { return answer != "" },
		now:      func() time.Time { return clock },
		pause: func(ctx context.Context, _ time.Duration) error {
			return ctx.Err()
		},
	}
	code := a.run(t.Context(), args)
	return ran{code, out.String(), errors.String()}
}

// running is what the server knows of a device.
func running(v contract.DeviceStatus) execution {
	return execution{name: v.Name, running: true, started: clock, view: v}
}

// in is a device in a state.
func in(name string, s device.State) contract.DeviceStatus {
	return normalize(contract.DeviceStatus{Name: name, UUID: contract.DeviceUUID(name), DeviceState: s, Status: device.Enabled, CreatedAt: clock, UpdatedAt: clock})
}

// refuse is a refusal as it comes out of Temporal.
func refuse(name string, s device.State, f device.Fault) error {
	return sdk.NewApplicationErrorWithOptions(f.Message, string(f.Code), sdk.ApplicationErrorOptions{
		NonRetryable: true,
		Details:      []any{contract.Refusal{Fault: f, Device: name, State: s}},
	})
}

// gone is Temporal's answer for a workflow that is not there.
func gone() error { return serviceerror.NewNotFound("workflow not found for ID: device/none") }

// silent waits out the request, as Temporal does where no worker answers.
func silent(ctx context.Context) error {
	<-ctx.Done()
	return ctx.Err()
}
