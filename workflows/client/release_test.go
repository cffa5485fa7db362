package client

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/mock"
	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/api/serviceerror"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	sdkclient "go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/mocks"

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
// status, or err, and these devices say that they are its own.
func lostInstance(t *testing.T, status contract.InstanceStatus, err error, devices ...string) *mocks.Client {
	temporal := mocks.NewClient(t)
	temporal.On("UpdateWorkflow", mock.Anything, mock.Anything).Return(nil, serviceerror.NewNotFound("workflow execution already completed")).Once()
	temporal.On("QueryWorkflow", mock.Anything, contract.InstanceWorkflowID(released), "", contract.QueryInstance).Return(statusValue{status: status}, err).Once()
	var listed []*workflowpb.WorkflowExecutionInfo
	for _, name := range devices {
		listed = append(listed, info(name, map[string]*commonpb.Payload{contract.AttrInstance.GetName(): payload(t, released)}, nil))
	}
	temporal.On("ListWorkflow", mock.Anything, mock.Anything).Return(&workflowservice.ListWorkflowExecutionsResponse{Executions: listed}, nil).Maybe()
	return temporal
}

// A release whose answer was lost may be repeated: an instance that is released is released
// already. One that is not known, and that no device has, is not.
func TestAReleasedInstanceIsReleasedAlready(t *testing.T) {
	temporal := lostInstance(t, contract.InstanceStatus{UUID: released, Phase: contract.InstanceReleased}, nil)
	result, err := New(temporal).InstanceRelease(t.Context(), released, contract.InstanceActInput{})
	require.NoError(t, err)
	require.True(t, result.Already)
	require.Equal(t, contract.InstanceReleased, result.Instance.Phase)

	_, err = New(lostInstance(t, contract.InstanceStatus{}, serviceerror.NewNotFound("no workflow"))).InstanceRelease(t.Context(), released, contract.InstanceActInput{})
	require.True(t, NotFound(err), "%v", err)
	_, err = New(lostInstance(t, contract.InstanceStatus{}, serviceerror.NewUnavailable("no worker"))).InstanceRelease(t.Context(), released, contract.InstanceActInput{})
	require.ErrorContains(t, err, "no worker", "it may have been released")
}

// The workflow of an instance was terminated, or is past the server's retention: another run of
// it releases what the last one says, and every device that says it is bound to the instance.
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
		{"past the retention", contract.InstanceStatus{}, serviceerror.NewNotFound("no workflow"), []string{"a", "b"}, held("a", "b")},
	} {
		t.Run(tt.name, func(t *testing.T) {
			temporal, handle := lostInstance(t, tt.status, tt.err, tt.listed...), &mocks.WorkflowUpdateHandle{}
			temporal.On("NewWithStartWorkflowOperation", mock.Anything, contract.WorkflowInstance, mock.MatchedBy(func(in contract.InstanceInput) bool {
				s := in.State
				return s.UUID == released && s.Phase == contract.InstanceActive && slices.Equal(s.Addresses, tt.status.Addresses) &&
					assert.Equal(t, tt.want, s.Devices) && assert.Equal(t, tt.status.Move, s.Move)
			})).Return(nil).Once()
			temporal.On("UpdateWithStartWorkflow", mock.Anything, mock.MatchedBy(func(o sdkclient.UpdateWithStartWorkflowOptions) bool {
				return o.UpdateOptions.UpdateName == contract.UpdateInstanceRelease
			})).Return(handle, nil).Once()
			handle.On("Get", mock.Anything, mock.Anything).Return(nil).Once()
			_, err := New(temporal).InstanceRelease(t.Context(), released, contract.InstanceActInput{})
			require.NoError(t, err)
		})
	}
}
