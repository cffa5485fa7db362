package client

import (
	"testing"
	"time"

	"github.com/stretchr/testify/mock"
	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/mocks"
	"go.temporal.io/sdk/temporal"
	"google.golang.org/protobuf/types/known/timestamppb"

	"burnish/internal/device"
	"burnish/workflows/contract"
)

// A device's workflow that ends while a request is under way may have carried it out: the server's
// answer, that there is no such workflow or that it completed, is no refusal. Where it ended long
// before, or by itself, or never began, there is nothing that could have.
//
// F42
func TestRequestWhoseWorkflowEndsMayBeCarriedOut(t *testing.T) {
	now := time.Now()
	for name, tt := range map[string]struct {
		status enumspb.WorkflowExecutionStatus
		ended  time.Time
		state  device.State
		want   bool
	}{
		"terminated meanwhile":         {enumspb.WORKFLOW_EXECUTION_STATUS_TERMINATED, now, device.Available, true},
		"failed meanwhile":             {enumspb.WORKFLOW_EXECUTION_STATUS_FAILED, now, device.Available, true},
		"terminated, and back":         {enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING, time.Time{}, device.Unknown, true},
		"terminated yesterday":         {enumspb.WORKFLOW_EXECUTION_STATUS_TERMINATED, now.Add(-24 * time.Hour), device.Available, false},
		"forgotten":                    {enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED, now, device.Retired, false},
		"its enrollment was refused":   {enumspb.WORKFLOW_EXECUTION_STATUS_FAILED, now, device.Absent, false},
		"terminated on a clock ahead":  {enumspb.WORKFLOW_EXECUTION_STATUS_TERMINATED, now.Add(10 * time.Second), device.Available, true},
		"terminated on a clock behind": {enumspb.WORKFLOW_EXECUTION_STATUS_TERMINATED, now.Add(-10 * time.Second), device.Available, true},
	} {
		t.Run(name, func(t *testing.T) {
			run := info("d1", map[string]*commonpb.Payload{contract.AttrState.GetName(): payload(t, tt.state)}, nil)
			run.Status, run.CloseTime = tt.status, timestamppb.New(tt.ended)
			server := mocks.NewClient(t)
			describes(server, run)
			server.On("UpdateWorkflow", mock.Anything, mock.Anything).
				Return(nil, serviceerror.NewNotFound("workflow execution already completed"))
			for _, send := range []func() error{
				func() error {
					_, err := New(server).Send(t.Context(), "d1", contract.VerbBind, contract.BindInput{})
					return err
				},
				func() error {
					_, err := New(server).Send(t.Context(), "d1", contract.VerbUnbind, contract.UnbindInput{})
					return err
				},
			} {
				err := send()
				require.Equal(t, tt.want, Ended(err), "%v", err)
				require.Equal(t, tt.want, Unconfirmed(err))
				require.Equal(t, !tt.want, NotFound(err))
			}
		})
	}
	handle, server := mocks.NewWorkflowUpdateHandle(t), mocks.NewClient(t)
	handle.On("Get", mock.Anything, mock.Anything).
		Return(temporal.NewApplicationError("Workflow Update failed", "AcceptedUpdateCompletedWorkflow"))
	server.On("UpdateWorkflow", mock.Anything, mock.Anything).Return(handle, nil)
	_, err := New(server).Send(t.Context(), "d1", contract.VerbBind, contract.BindInput{})
	require.True(t, Ended(err) && Unconfirmed(err), "%v", err)
	_, refused := Fault(err)
	require.False(t, refused)
}
