package activities_test

import (
	"context"
	"errors"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/mock"
	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
	sdkclient "go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/mocks"
	"go.temporal.io/sdk/temporal"
	"google.golang.org/protobuf/types/known/timestamppb"

	"burnish/activities"
	"burnish/internal/device"
	"burnish/internal/inventory"
	"burnish/internal/inventory/file"
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
	// runs are how the last runs of devices ended, a moment ago if they are not running.
	runs map[string]enumspb.WorkflowExecutionStatus
	sent []sdkclient.UpdateWorkflowOptions
	// meet, if set, is closed by the device that is asked last, and each waits for it.
	meet    chan struct{}
	awaited int
}

func newAskedDevices(t testing.TB, answers map[string][]any) *askedDevices {
	s := &askedDevices{Client: &mocks.Client{}, answers: answers, runs: map[string]enumspb.WorkflowExecutionStatus{}}
	s.On("DescribeWorkflowExecution", mock.Anything, mock.Anything, "").
		Return(func(_ context.Context, id, _ string) (*workflowservice.DescribeWorkflowExecutionResponse, error) {
			if s.runs[id] == 0 {
				return nil, serviceerror.NewNotFound("no such workflow")
			}
			run := described(s.runs[id])
			run.WorkflowExecutionInfo.SearchAttributes = attributes(t, contract.AttrState, device.Allocated)
			run.WorkflowExecutionInfo.CloseTime = timestamppb.Now()
			return run, nil
		})
	s.On("UpdateWorkflow", mock.Anything, mock.Anything).
		Return(func(ctx context.Context, o sdkclient.UpdateWorkflowOptions) (sdkclient.WorkflowUpdateHandle, error) {
			return s.update(ctx, o)
		})
	return s
}

func (s *askedDevices) update(ctx context.Context,
	o sdkclient.UpdateWorkflowOptions) (sdkclient.WorkflowUpdateHandle, error) {
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
	handle := &mocks.WorkflowUpdateHandle{}
	if err, failed := all[0].(error); failed {
		if _, answered := contract.RefusalOf(err); !answered {
			return nil, err
		}
		handle.On("Get", mock.Anything, mock.Anything).Return(err)
		return handle, nil
	}
	handle.On("Get", mock.Anything, mock.Anything).Return(func(_ context.Context, into any) error {
		p, err := converter.GetDefaultDataConverter().ToPayloads(all[0])
		return errors.Join(err, converter.GetDefaultDataConverter().FromPayloads(p, into))
	})
	return handle, nil
}

// ask runs one attempt of an activity that asks devices.
func ask(t *testing.T, s sdkclient.Client, name string, in any) (contract.DevicesAnswer, error) {
	t.Helper()
	return askWith(t, s, nil, name, in)
}

// askWith is ask with an inventory.
func askWith(t *testing.T, s sdkclient.Client, store inventory.Store, name string,
	in any) (contract.DevicesAnswer, error) {
	t.Helper()
	do := (&activities.Instances{Client: client.New(s), Store: store}).Activities()[name]
	return execute[contract.DevicesAnswer](first(t), name, do, in)
}

func bound(name string, binding int) contract.Result {
	return contract.Result{Binding: binding, Device: contract.DeviceStatus{Name: name, Type: "NVME", Hostname: "h1",
		Serial: "S-" + name, DeviceState: device.Allocated}}
}

func refusedBy(name string, state device.State) error {
	return contract.Refuse(contract.Refusal{Device: name, State: state,
		Fault: device.Fault{Class: device.Permanent, Code: device.CodeRefused, Message: "cannot bind it"}})
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
	s := newAskedDevices(t,
		map[string][]any{"device/d1": {bound("d1", 3)}, "device/d2": {refusedBy("d2", device.Cleaning)}})
	s.meet, s.awaited = make(chan struct{}), 3 // all are asked at once
	answer, err := ask(t, s, contract.ActivityBurnDevices, call("d1", "d2", "d3"))
	require.NoError(t, err)
	require.Len(t, answer.Outcomes, 3)
	require.Equal(t, contract.DeviceOutcome{State: device.Allocated,
		Device: contract.HeldDevice{Name: "d1", Type: "NVME", Host: "h1", Serial: "S-d1", Binding: 3}}, answer.Outcomes[0])
	require.Equal(t, []any{"d2", device.Cleaning, device.CodeRefused},
		[]any{answer.Outcomes[1].Device.Name, answer.Outcomes[1].State, answer.Outcomes[1].Fault.Code})
	require.Equal(t, device.CodeNotFound, answer.Outcomes[2].Fault.Code)
	for _, o := range s.sent {
		name := o.WorkflowID[len("device/"):]
		require.Equal(t, []any{contract.BindInput{Instance: someInstance, Request: "r1", Tag: "tag " + name, Managed: true}},
			o.Args)
		require.Equal(t, "run/1/burn", o.UpdateID)
	}
}

// A device is asked whether its instance still has it by the request of that binding, by what cannot bind it.
//
// F36
func TestDevicesAreAskedToConfirm(t *testing.T) {
	s := newAskedDevices(t,
		map[string][]any{"device/d1": {bound("d1", 3)}, "device/d2": {refusedBy("d2", device.Cleaning)}})
	in := call("d1", "d2")
	in.Request, in.Devices[0].Request = "", "its own"
	answer, err := ask(t, s, contract.ActivityConfirmDevices, in)
	require.NoError(t, err)
	require.Equal(t, 3, answer.Outcomes[0].Device.Binding)
	require.Equal(t, device.CodeRefused, answer.Outcomes[1].Fault.Code)
	require.Len(t, s.sent, 2)
	for _, o := range s.sent {
		held := contract.BindInput{Instance: someInstance, Tag: "tag d2", Managed: true, Held: true}
		if o.WorkflowID == "device/d1" {
			held.Tag, held.Request = "tag d1", "its own"
		}
		require.Equal(t, []any{held}, o.Args)
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
			s := newAskedDevices(t, map[string][]any{"device/d1": {bound("d1", 1)}, "device/d2": {lost, bound("d2", 1)}})
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
	s := newAskedDevices(t,
		map[string][]any{"device/d1": {refusedBy("d1", device.Unknown),
			contract.Result{Device: contract.DeviceStatus{Name: "d1"}}}, "device/d2": {refusedBy("d2", device.Retired)}})
	_, err := ask(t, s, contract.ActivityUnbindDevices, call("d1", "d2"))
	require.ErrorContains(t, err, "not known yet who has it")
	answer, err := ask(t, s, contract.ActivityUnbindDevices, call("d1", "d2"))
	require.NoError(t, err)
	require.Nil(t, answer.Outcomes[0].Fault)
	require.NotNil(t, answer.Outcomes[1].Fault)
	require.Equal(t, []any{contract.UnbindInput{Instance: someInstance, ByInstance: true}}, s.sent[0].Args)
}

// A run that ends before it has answered is no answer to a burn: what it had begun may have taken
// effect, or another run carries the same update out again. A claim ends with its run.
//
// F42
func TestDeviceWhoseRunEndedIsAskedAgain(t *testing.T) {
	ended := temporal.NewApplicationError("Workflow Update failed because the Workflow completed before the Update "+
		"completed.", "AcceptedUpdateCompletedWorkflow")
	gone := serviceerror.NewNotFound("workflow execution already completed")
	s := newAskedDevices(t, map[string][]any{"device/d1": {ended, bound("d1", 1)}, "device/d2": {gone, bound("d2", 1)}})
	s.runs["device/d2"] = enumspb.WORKFLOW_EXECUTION_STATUS_TERMINATED
	_, err := ask(t, s, contract.ActivityBurnDevices, call("d1", "d2"))
	require.Regexp(t, "d[12]: its workflow ended before it had answered", err)
	answer, err := ask(t, s, contract.ActivityBurnDevices, call("d1", "d2"))
	require.NoError(t, err)
	require.Equal(t, []int{1, 1}, []int{answer.Outcomes[0].Device.Binding, answer.Outcomes[1].Device.Binding})

	s = newAskedDevices(t, map[string][]any{"device/d1": {ended}, "device/d2": {gone}})
	s.runs["device/d2"] = enumspb.WORKFLOW_EXECUTION_STATUS_TERMINATED
	answer, err = ask(t, s, contract.ActivityClaimDevices, call("d1", "d2"))
	require.NoError(t, err)
	for _, outcome := range answer.Outcomes {
		require.Equal(t, device.CodeNotFound, outcome.Fault.Code)
	}
}

// A device that has no workflow, or whose run has just begun, may come back with its binding: that it
// is not bound to the instance, only the inventory's record says. Until it does, the unbind waits.
//
// F38
func TestUnbindOfADeviceWithoutAWorkflowIsAnsweredByTheRecord(t *testing.T) {
	const other = "00000000-0000-0000-0000-0000000000aa"
	none, self, someone := "", someInstance, other
	begun :=
		contract.Refuse(contract.Refusal{Device: "d1", Fault: device.Fault{Class: device.Permanent, Code: device.CodeNotFound,
			Message: "this device is not enrolled"}})
	for name, tt := range map[string]struct {
		provider bool
		tenant   *string
		consumer string
		waits    string // "": it is answered
	}{
		"no provider":            {provider: false},
		"recorded as free":       {provider: true, tenant: &none},
		"another's":              {provider: true, tenant: &someone},
		"another consumer's":     {provider: true, tenant: &none, consumer: other},
		"its own":                {provider: true, tenant: &self, waits: "records that this instance has it"},
		"its own, as a consumer": {provider: true, tenant: &none, consumer: someInstance, waits: "records that this instance has it"},
		"nothing recorded":       {provider: true, waits: "does not record who has it"},
	} {
		for run, answers := range map[string][]any{"no workflow": nil, "its run has just begun": {begun}} {
			t.Run(name+", "+run, func(t *testing.T) {
				store, err := file.New(t.TempDir())
				require.NoError(t, err)
				id := contract.DeviceUUID("d1")
				if tt.provider {
					require.NoError(t, store.Create(t.Context(), inventory.Provider{UUID: id, Name: "d1", Class: "CUSTOM_X"}))
					var record *device.Record
					if tt.tenant != nil {
						record = &device.Record{Witness: device.WitnessFree}
						if *tt.tenant != "" {
							record = &device.Record{Witness: device.WitnessBound, Tenant: *tt.tenant}
						}
					}
					_, err := store.PutReserved(t.Context(), id, 0, 0, record)
					require.NoError(t, err)
				}
				if tt.consumer != "" {
					require.NoError(t, store.UnsafeAllocate(t.Context(), id, tt.consumer))
				}
				answer, err := askWith(t, newAskedDevices(t, map[string][]any{"device/d1": answers}), store,
					contract.ActivityUnbindDevices, call("d1"))
				if tt.waits != "" {
					require.ErrorContains(t, err, "d1: it has no workflow, and the inventory "+tt.waits)
					refusal, ok := contract.RefusalOf(err)
					require.True(t, ok && refusal.Fault.Class == device.Transient, "the server tries it again")
					return
				}
				require.NoError(t, err)
				require.Equal(t, device.CodeNotFound, answer.Outcomes[0].Fault.Code)
			})
		}
	}
	// A workflow that has just ended may have begun what the record does not show yet; an inventory
	// that does not answer says nothing.
	dir := t.TempDir()
	store, err := file.New(dir)
	require.NoError(t, err)
	s := newAskedDevices(t, nil)
	s.runs["device/d1"] = enumspb.WORKFLOW_EXECUTION_STATUS_TERMINATED
	_, err = askWith(t, s, store, contract.ActivityUnbindDevices, call("d1"))
	require.ErrorContains(t, err, "its workflow ended before it had answered")
	require.NoError(t, os.RemoveAll(dir))
	_, err = askWith(t, newAskedDevices(t, nil), store, contract.ActivityUnbindDevices, call("d1"))
	require.ErrorContains(t, err, "the inventory does not say who has it")
}

// What an instance asks of its devices, it asks in the name of the person whose request it
// carries out, and with that reason.
func TestActsOfAnInstanceNameThePerson(t *testing.T) {
	for _, name := range []string{
		contract.ActivityClaimDevices, contract.ActivityBurnDevices, contract.ActivityUnclaimDevices,
		contract.ActivityUnbindDevices, contract.ActivityRebuildDevices, contract.ActivityConfirmDevices,
	} {
		t.Run(name, func(t *testing.T) {
			var result any = contract.Result{Device: contract.DeviceStatus{Name: "d1"}}
			if name == contract.ActivityClaimDevices || name == contract.ActivityBurnDevices {
				result = bound("d1", 1)
			}
			s := newAskedDevices(t, map[string][]any{"device/d1": {result}})
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

// An instance that was released, or that does nothing and knows nothing of a device, does not have it. One that is
// about to get or to give it back, and one without a workflow, does not say so. One that is doing something else is
// asked again.
//
// F38
func TestInstanceIsAskedForADevice(t *testing.T) {
	held := []contract.HeldDevice{{Name: "d1"}}
	for name, tt := range map[string]struct {
		status contract.InstanceStatus
		err    error
		left   bool
	}{
		"it has it":              {contract.InstanceStatus{Phase: contract.InstanceActive, Devices: held}, nil, false},
		"it leaves it by a move": {contract.InstanceStatus{Phase: contract.InstanceMigrating, Move: &contract.InstanceMove{Source: held}}, nil, false},
		"it gives it back":       {contract.InstanceStatus{Phase: contract.InstanceReleasing, Unsettled: held, Doing: "release"}, nil, false},
		"it does something":      {contract.InstanceStatus{Phase: contract.InstanceBinding, Doing: "bind"}, nil, false},
		"it has another":         {contract.InstanceStatus{Phase: contract.InstanceActive, Devices: []contract.HeldDevice{{Name: "d2"}}}, nil, true},
		"it was released":        {contract.InstanceStatus{Phase: contract.InstanceReleased}, nil, true},
		"it has no workflow":     {contract.InstanceStatus{}, serviceerror.NewNotFound("none"), false},
	} {
		t.Run(name, func(t *testing.T) {
			s := &mocks.Client{}
			value := &mocks.Value{}
			value.On("Get", mock.Anything).
				Run(func(args mock.Arguments) { *args.Get(0).(*contract.InstanceStatus) = tt.status }).Return(nil)
			s.On("QueryWorkflow", mock.Anything, contract.InstanceWorkflowID(someInstance), "", contract.QueryInstance).
				Return(value, tt.err)
			s.On("DescribeWorkflowExecution", mock.Anything, mock.Anything, "").Return(described(isRunning), nil)
			answer, err := (&activities.Instances{Client: client.New(s)}).
				AskInstance(t.Context(), contract.InstanceQuestion{Instance: someInstance, Device: "d1"})
			if name == "it does something" {
				require.ErrorContains(t, err, "does not say yet")
				return
			}
			require.NoError(t, err)
			require.Equal(t, tt.left, answer.Left)
		})
	}
}
