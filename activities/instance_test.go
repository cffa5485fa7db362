package activities_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/mock"
	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/activity"
	sdkclient "go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/mocks"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"

	"burnish/activities"
	"burnish/internal/device"
	"burnish/workflows/client"
	"burnish/workflows/contract"
)

const someInstance = "3b1f0e62-7a8e-4b7f-9a55-0d6c1f2e4a90"

// askedDevices is a server with devices that answer updates. Each answer is used once, the last
// one again.
type askedDevices struct {
	*mocks.Client
	mu      sync.Mutex
	answers map[string][]any // by device: a BindResult, a Result or an error
	sent    []sdkclient.UpdateWorkflowOptions
	// meet, if set, is closed by the device that is asked last, and each waits for it.
	meet    chan struct{}
	awaited int
}

func newAskedDevices(answers map[string][]any) *askedDevices {
	s := &askedDevices{Client: &mocks.Client{}, answers: answers}
	s.On("UpdateWorkflow", mock.Anything, mock.Anything).Return(func(ctx context.Context, o sdkclient.UpdateWorkflowOptions) (sdkclient.WorkflowUpdateHandle, error) {
		return s.update(ctx, o)
	})
	return s
}

func (s *askedDevices) update(ctx context.Context, o sdkclient.UpdateWorkflowOptions) (sdkclient.WorkflowUpdateHandle, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sent = append(s.sent, o)
	if s.meet != nil {
		if s.awaited--; s.awaited == 0 {
			close(s.meet)
		}
		s.mu.Unlock()
		select {
		case <-s.meet:
		case <-ctx.Done():
		}
		s.mu.Lock()
	}
	all := s.answers[o.WorkflowID]
	if len(all) == 0 {
		return nil, serviceerror.NewNotFound("no such workflow")
	}
	if len(all) > 1 {
		s.answers[o.WorkflowID] = all[1:]
	}
	if err, failed := all[0].(error); failed {
		return nil, err
	}
	handle := &mocks.WorkflowUpdateHandle{}
	handle.On("Get", mock.Anything, mock.Anything).Return(func(_ context.Context, into any) error {
		p, err := converter.GetDefaultDataConverter().ToPayloads(all[0])
		return errors.Join(err, converter.GetDefaultDataConverter().FromPayloads(p, into))
	})
	return handle, nil
}

// ask runs one attempt of an activity that asks devices.
func ask(t *testing.T, s sdkclient.Client, name string, in any) (contract.DevicesAnswer, error) {
	t.Helper()
	env := new(testsuite.WorkflowTestSuite).NewTestActivityEnvironment()
	do := (&activities.Instances{Client: client.New(s)}).Activities()[name]
	env.RegisterActivityWithOptions(do, activity.RegisterOptions{Name: name})
	value, err := env.ExecuteActivity(name, in)
	var answer contract.DevicesAnswer
	if err == nil && value.HasValue() {
		err = value.Get(&answer)
	}
	return answer, err
}

func bound(name string, binding int) contract.BindResult {
	return contract.BindResult{Binding: binding, Device: contract.DeviceStatus{Name: name, Type: "NVME", Hostname: "h1", Serial: "S-" + name, DeviceState: device.Allocated}}
}

func refusedBy(name string, state device.State) error {
	return contract.Refuse(contract.Refusal{Device: name, State: state, Fault: device.Fault{Class: device.Permanent, Code: device.CodeRefused, Message: "cannot bind it"}})
}

func call(names ...string) contract.DevicesCall {
	in := contract.DevicesCall{ID: "run/1", Instance: someInstance, Request: "r1", Deadline: time.Now().Add(time.Hour)}
	for _, name := range names {
		in.Devices = append(in.Devices, contract.DeviceCall{Name: name, Tag: "tag " + name})
	}
	return in
}

// Each device gives a definite answer: granted, refused, or that there is no such device. The
// outcomes are in the order of the call, and each update names its instance, request and tag.
func TestDevicesAreAskedForDefiniteAnswers(t *testing.T) {
	s := newAskedDevices(map[string][]any{"device/d1": {bound("d1", 3)}, "device/d2": {refusedBy("d2", device.Cleaning)}})
	s.meet, s.awaited = make(chan struct{}), 3 // all are asked at once
	answer, err := ask(t, s, contract.ActivityBurnDevices, call("d1", "d2", "d3"))
	require.NoError(t, err)
	require.Len(t, answer.Outcomes, 3)
	require.Equal(t, contract.DeviceOutcome{State: device.Allocated,
		Device: contract.HeldDevice{Name: "d1", Type: "NVME", Host: "h1", Serial: "S-d1", Binding: 3}}, answer.Outcomes[0])
	require.Equal(t, []any{"d2", device.Cleaning, device.CodeRefused}, []any{answer.Outcomes[1].Device.Name, answer.Outcomes[1].State, answer.Outcomes[1].Fault.Code})
	require.Equal(t, device.CodeNotFound, answer.Outcomes[2].Fault.Code)
	for _, o := range s.sent {
		name := o.WorkflowID[len("device/"):]
		require.Equal(t, []any{contract.BindInput{Instance: someInstance, Request: "r1", Tag: "tag " + name, Managed: true}}, o.Args)
		require.Equal(t, "run/1/burn", o.UpdateID)
	}
}

// Without an answer it is open what a device does: there is no outcome at all, and the next
// attempt asks by the same IDs.
func TestDevicesWithoutAnAnswerAreAskedAgain(t *testing.T) {
	for name, lost := range map[string]error{
		"connection lost": serviceerror.NewUnavailable("closing"),
		"out of time":     sdkclient.NewWorkflowUpdateServiceTimeoutOrCanceledError(context.DeadlineExceeded),
		"a busy server":   serviceerror.NewResourceExhausted(0, "busy"),
	} {
		t.Run(name, func(t *testing.T) {
			s := newAskedDevices(map[string][]any{"device/d1": {bound("d1", 1)}, "device/d2": {lost, bound("d2", 1)}})
			answer, err := ask(t, s, contract.ActivityBurnDevices, call("d1", "d2"))
			require.Error(t, err)
			require.Empty(t, answer.Outcomes)
			refusal, ok := contract.RefusalOf(err)
			require.True(t, ok)
			require.Equal(t, device.Transient, refusal.Fault.Class, "the server tries it again")
			answer, err = ask(t, s, contract.ActivityBurnDevices, call("d1", "d2"))
			require.NoError(t, err)
			require.Equal(t, 1, answer.Outcomes[1].Device.Binding)
			ids := map[string]bool{}
			for _, o := range s.sent {
				ids[o.WorkflowID+" "+o.UpdateID] = true
			}
			require.Len(t, s.sent, 4)
			require.Len(t, ids, 2)
		})
	}
}

// A device of which it is not known who has it may turn out to be the instance's: its refusal
// to be unbound is no answer. Any other state's is.
func TestUnbindWaitsUntilItIsKnownWhoHasTheDevice(t *testing.T) {
	s := newAskedDevices(map[string][]any{"device/d1": {refusedBy("d1", device.Unknown), contract.Result{Device: contract.DeviceStatus{Name: "d1"}}}, "device/d2": {refusedBy("d2", device.Retired)}})
	_, err := ask(t, s, contract.ActivityUnbindDevices, call("d1", "d2"))
	require.ErrorContains(t, err, "not known yet who has it")
	answer, err := ask(t, s, contract.ActivityUnbindDevices, call("d1", "d2"))
	require.NoError(t, err)
	require.Nil(t, answer.Outcomes[0].Fault)
	require.NotNil(t, answer.Outcomes[1].Fault)
	require.Equal(t, []any{contract.UnbindInput{Instance: someInstance, ByInstance: true}}, s.sent[0].Args)
}

// A run that ends before it has answered is answered for by the server. A device that was reset
// has another run, which carries the same update out again: what it does is not guessed.
func TestDeviceThatWasResetIsAskedAgain(t *testing.T) {
	ended := temporal.NewApplicationError("Workflow Update failed because the Workflow completed before the Update completed.", "AcceptedUpdateCompletedWorkflow")
	s := newAskedDevices(map[string][]any{"device/d1": {ended, bound("d1", 1)}, "device/d2": {ended}})
	for id, status := range map[string]enumspb.WorkflowExecutionStatus{
		"device/d1": enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING, "device/d2": enumspb.WORKFLOW_EXECUTION_STATUS_TERMINATED,
	} {
		s.On("DescribeWorkflowExecution", mock.Anything, id, "").Return(described(status), nil)
	}
	_, err := ask(t, s, contract.ActivityBurnDevices, call("d1", "d2"))
	require.ErrorContains(t, err, "d1: Workflow Update failed")
	require.NotContains(t, err.Error(), "d2")
	answer, err := ask(t, s, contract.ActivityBurnDevices, call("d1", "d2"))
	require.NoError(t, err)
	require.Equal(t, 1, answer.Outcomes[0].Device.Binding)
	require.Equal(t, device.CodeNotFound, answer.Outcomes[1].Fault.Code, "it was terminated")
}

// What an instance asks of its devices, it asks in the name of the person whose request it
// carries out, and with that reason.
func TestActsOfAnInstanceNameThePerson(t *testing.T) {
	for _, name := range []string{
		contract.ActivityClaimDevices, contract.ActivityBurnDevices, contract.ActivityUnclaimDevices, contract.ActivityUnbindDevices, contract.ActivityRebuildDevices,
	} {
		t.Run(name, func(t *testing.T) {
			var result any = contract.Result{Device: contract.DeviceStatus{Name: "d1"}}
			if name == contract.ActivityClaimDevices || name == contract.ActivityBurnDevices {
				result = bound("d1", 1)
			}
			s := newAskedDevices(map[string][]any{"device/d1": {result}})
			in := call("d1")
			in.Caller, in.Reason = contract.Caller{By: "ann (42)", From: "192.0.2.7"}, "a demo"
			_, err := ask(t, s, name, in)
			require.NoError(t, err)
			require.Len(t, s.sent, 1)
			sent, ok := s.sent[0].Args[0].(contract.Input)
			require.True(t, ok)
			act := sent.Act()
			require.Equal(t, []string{"ann (42)", "192.0.2.7", "a demo"}, []string{act.By, act.From, act.Reason})
		})
	}
}
