package client

import (
	"testing"

	"github.com/stretchr/testify/mock"
	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	sdkclient "go.temporal.io/sdk/client"
	"go.temporal.io/sdk/mocks"

	"burnish/internal/device"
	"burnish/workflows/contract"
)

// The last run of a device says that the instance has it, after the inventory's record said otherwise:
// the answer does not call it allocated.
//
// F38
func TestAnUnbindByTheRecordShowsNoEndedRun(t *testing.T) {
	has := released
	temporal, handle := mocks.NewClient(t), &mocks.WorkflowUpdateHandle{}
	temporal.On("UpdateWorkflow", mock.Anything, mock.Anything).Return(handle, nil)
	handle.On("Get", mock.Anything, mock.Anything).Return(nil)
	run := info("d1", map[string]*commonpb.Payload{contract.AttrState.GetName(): payload(t, device.Allocated)}, nil)
	run.Status = enumspb.WORKFLOW_EXECUTION_STATUS_TERMINATED
	describes(temporal, run)
	temporal.On("QueryWorkflow", mock.Anything, "device/d1", "", contract.QueryDevice).
		Return(valueOf[contract.DeviceStatus]{says: contract.DeviceStatus{Name: "d1", DeviceState: device.Allocated,
			InstanceUUID: &has}}, nil)
	result, err := New(temporal).Do(t.Context(), "d1", contract.VerbUnbind, contract.UnbindInput{Instance: released})
	require.NoError(t, err)
	require.Equal(t, contract.DeviceStatus{Name: "d1"}, result.Device)
	require.Contains(t, result.Note, "its workflow has ended")
}

// What the instance remembers, or the last run of a device, does not say that the device is bound
// already, where its workflow does not run, or does not know yet who has it. The instance is asked with
// the request and the tag of the bind.
//
// F38, S1.1
func TestOnlyADeviceItselfIsBoundAlready(t *testing.T) {
	has := released
	for name, tt := range map[string]struct {
		run   enumspb.WorkflowExecutionStatus
		state device.State
		code  device.Code
	}{
		"it says so":                   {enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING, device.Allocated, ""},
		"its run has ended":            {enumspb.WORKFLOW_EXECUTION_STATUS_TERMINATED, device.Allocated, device.CodeNotFound},
		"it does not know whose it is": {enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING, device.Unknown, device.CodeRefused},
	} {
		t.Run(name, func(t *testing.T) {
			temporal, handle := mocks.NewClient(t), &mocks.WorkflowUpdateHandle{}
			temporal.On("NewWithStartWorkflowOperation", mock.Anything, contract.WorkflowInstance, mock.Anything).Return(nil)
			var sent []any
			temporal.On("UpdateWithStartWorkflow", mock.Anything, mock.Anything).Run(func(args mock.Arguments) {
				sent = args.Get(1).(sdkclient.UpdateWithStartWorkflowOptions).UpdateOptions.Args
			}).Return(handle, nil)
			handle.On("Get", mock.Anything, mock.Anything).Run(func(args mock.Arguments) {
				*args.Get(1).(*contract.InstanceResult) = contract.InstanceResult{Already: true,
					Instance: contract.InstanceStatus{Devices: []contract.HeldDevice{{Name: "d1", Binding: 3}}}}
			}).Return(nil)
			run := info("d1", map[string]*commonpb.Payload{contract.AttrState.GetName(): payload(t, tt.state)}, nil)
			run.Status = tt.run
			describes(temporal, run)
			temporal.On("QueryWorkflow", mock.Anything, "device/d1", "", contract.QueryDevice).
				Return(valueOf[contract.DeviceStatus]{says: contract.DeviceStatus{Name: "d1", DeviceState: tt.state,
					InstanceUUID: &has}}, nil)
			asked := contract.BindInput{Instance: released, Request: "r1", Tag: "db"}
			result, err := New(temporal).Do(t.Context(), "d1", contract.VerbBind, asked)
			require.Equal(t, []any{contract.InstanceBindInput{Request: "r1", OfDevice: true,
				Devices: []contract.DeviceChoice{{Name: "d1", Tag: "db"}}}}, sent)
			if tt.code == "" {
				require.NoError(t, err)
				require.Equal(t, 3, result.Binding)
				return
			}
			refusal, ok := contract.RefusalOf(err)
			require.True(t, ok, "%v", err)
			require.Equal(t, tt.code, refusal.Fault.Code)
		})
	}
}
