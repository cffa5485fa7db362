package client

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/mock"
	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	sdkclient "go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/mocks"

	"burnish/internal/device"
	"burnish/workflows/contract"
)

// statusValue is the answer to a query for an instance.
type statusValue struct {
	converter.EncodedValue
	status contract.InstanceStatus
}

func (v statusValue) Get(into any) error {
	*into.(*contract.InstanceStatus) = v.status
	return nil
}

const released = "3b1f0e62-7a8e-4b7f-9a55-0d6c1f2e4a90"

// lostInstance is a server on which the instance's workflow does not run: its last run says
// status, or err, and these devices say that they are its own, unless others is said of them.
func lostInstance(t *testing.T, status contract.InstanceStatus, err error, devices ...string) *mocks.Client {
	temporal := mocks.NewClient(t)
	temporal.On("UpdateWorkflow", mock.Anything, mock.Anything).
		Return(nil, serviceerror.NewNotFound("workflow execution already completed")).Once()
	temporal.On("QueryWorkflow", mock.Anything, contract.InstanceWorkflowID(released), "", contract.QueryInstance).
		Return(statusValue{status: status}, err)
	own := map[string]*commonpb.Payload{contract.AttrInstance.GetName(): payload(t, released),
		contract.AttrState.GetName(): payload(t, device.Allocated)}
	var listed []*workflowpb.WorkflowExecutionInfo
	for _, name := range devices {
		last, has := info(name, own, nil), released
		switch name {
		case "terminated":
			last.Status = enumspb.WORKFLOW_EXECUTION_STATUS_TERMINATED
		case "forgotten":
			last.Status = enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED
		case "left": // the listing lags behind
			has = "another"
		}
		listed = append(listed, info(name, own, nil))
		temporal.On("DescribeWorkflowExecution", mock.Anything, contract.WorkflowID(name), "").
			Return(&workflowservice.DescribeWorkflowExecutionResponse{WorkflowExecutionInfo: last}, nil)
		temporal.On("QueryWorkflow", mock.Anything, contract.WorkflowID(name), "", contract.QueryDevice).
			Return(deviceValue{status: contract.DeviceStatus{Name: name, InstanceUUID: &has}}, nil).Maybe()
	}
	temporal.On("ListWorkflow", mock.Anything, mock.Anything).
		Return(&workflowservice.ListWorkflowExecutionsResponse{Executions: listed}, nil).Maybe()
	return temporal
}

// deviceValue is the answer to a query for a device.
type deviceValue struct {
	converter.EncodedValue
	status contract.DeviceStatus
}

func (v deviceValue) Get(into any) error {
	*into.(*contract.DeviceStatus) = v.status
	return nil
}

// A release whose answer was lost may be repeated: an instance that is released is released
// already. One that is not known, and that no device has, is not.
func TestAReleasedInstanceIsReleasedAlready(t *testing.T) {
	temporal := lostInstance(t, contract.InstanceStatus{UUID: released, Phase: contract.InstanceReleased}, nil)
	result, err := New(temporal).DoInstance(t.Context(), released, contract.VerbInstanceRelease, contract.ReasonInput{})
	require.NoError(t, err)
	require.True(t, result.Already)
	require.Equal(t, contract.InstanceReleased, result.Instance.Phase)

	_, err = New(lostInstance(t, contract.InstanceStatus{}, serviceerror.NewNotFound("no workflow"))).
		DoInstance(t.Context(), released, contract.VerbInstanceRelease, contract.ReasonInput{})
	require.True(t, NotFound(err), "%v", err)
	_, err = New(lostInstance(t, contract.InstanceStatus{}, serviceerror.NewUnavailable("no worker"))).
		DoInstance(t.Context(), released, contract.VerbInstanceRelease, contract.ReasonInput{})
	require.ErrorContains(t, err, "no worker", "it may have been released")
}

// The workflow of an instance was terminated, or is past the server's retention: another run of
// it releases what the last one had, what it was about to get or to give back, and every device that
// says it is bound to the instance. So it does for the other acts.
//
// F38, F42
func TestALostInstanceIsReleased(t *testing.T) {
	held := func(names ...string) (all []contract.HeldDevice) {
		for _, name := range names {
			all = append(all, contract.HeldDevice{Name: name})
		}
		return all
	}
	for _, tt := range []struct {
		name   string
		status contract.InstanceStatus
		err    error
		listed []string
		want   []contract.HeldDevice
	}{
		{"terminated", contract.InstanceStatus{Phase: contract.InstanceActive, Devices: held("a", "b"), Addresses: []string{"192.0.2.7"}}, nil, []string{"a", "b"}, held("a", "b")},
		{"during an act", contract.InstanceStatus{Phase: contract.InstanceBinding}, nil, []string{"c"}, held("c")},
		{"during a move", contract.InstanceStatus{Phase: contract.InstanceMigrating, Devices: held("b"), Move: &contract.InstanceMove{Source: held("a")}}, nil, []string{"a", "b"}, held("b")},
		{"in mid-bind", contract.InstanceStatus{Phase: contract.InstanceBinding, Unsettled: held("a", "b")}, nil, nil, held("a", "b")},
		{"released, but one device says otherwise", contract.InstanceStatus{Phase: contract.InstanceReleased, Devices: held("x"), Addresses: []string{"192.0.2.9"}}, nil, []string{"c"}, held("c")},
		{"some devices say otherwise", contract.InstanceStatus{}, serviceerror.NewNotFound("no workflow"), []string{"a", "forgotten", "left", "terminated"}, held("a", "terminated")},
		{"past the retention", contract.InstanceStatus{}, serviceerror.NewNotFound("no workflow"), []string{"a", "b"}, held("a", "b")},
	} {
		t.Run(tt.name, func(t *testing.T) {
			temporal, handle := lostInstance(t, tt.status, tt.err, tt.listed...), &mocks.WorkflowUpdateHandle{}
			temporal.On("NewWithStartWorkflowOperation", mock.Anything, contract.WorkflowInstance,
				mock.MatchedBy(func(in contract.InstanceInput) bool {
					s := in.State
					phase, addresses := contract.InstanceActive, tt.status.Addresses
					if s.Move != nil {
						phase = contract.InstanceMigrating
					}
					if tt.status.Phase == contract.InstanceReleased {
						addresses = nil
					}
					return s.UUID == released && s.Phase == phase && slices.Equal(s.Addresses, addresses) &&
						assert.Equal(t, tt.want, s.Devices) && assert.Equal(t, tt.status.Move, s.Move)
				})).Return(nil).Once()
			verb := contract.VerbInstanceRelease
			if tt.status.Move != nil {
				verb = contract.VerbInstanceConfirm
			}
			temporal.On("UpdateWithStartWorkflow", mock.Anything,
				mock.MatchedBy(func(o sdkclient.UpdateWithStartWorkflowOptions) bool {
					return o.UpdateOptions.UpdateName == verb.Update()
				})).Return(handle, nil).Once()
			handle.On("Get", mock.Anything, mock.Anything).Return(nil).Once()
			_, err := New(temporal).DoInstance(t.Context(), released, verb, contract.ReasonInput{})
			require.NoError(t, err)
		})
	}
}
