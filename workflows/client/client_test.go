package client

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/mock"
	"github.com/stretchr/testify/require"
	"go.temporal.io/api/serviceerror"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	sdkclient "go.temporal.io/sdk/client"
	"go.temporal.io/sdk/mocks"

	"burnish/internal/device"
	"burnish/workflows/contract"
)

// FindBySerial reads on while what the server found has another serial or is the device
// itself.
func TestFindBySerialComparesExactly(t *testing.T) {
	temporal := mocks.NewClient(t)
	temporal.On("ListWorkflow", mock.Anything, mock.Anything).Return(&workflowservice.ListWorkflowExecutionsResponse{
		NextPageToken: []byte("more"),
		Executions: []*workflowpb.WorkflowExecutionInfo{
			run(t, "d1", `S1\`, device.Available), run(t, "d2", `S1"`, device.Available), run(t, "d3", `S1\`, device.Retired),
		},
	}, nil).Once()
	temporal.On("ListWorkflow", mock.Anything, mock.Anything).Return(&workflowservice.ListWorkflowExecutionsResponse{
		Executions: []*workflowpb.WorkflowExecutionInfo{run(t, "d4", `S1\`, device.Available)},
	}, nil).Once()
	found, err := New(temporal).FindBySerial(t.Context(), `S1\`, "d1", "")
	require.NoError(t, err)
	require.Equal(t, "d4", found.Other)
}

// A device without a serial has no duplicate, and the server is not asked.
func TestFindBySerialWithoutASerial(t *testing.T) {
	found, err := New(mocks.NewClient(t)).FindBySerial(t.Context(), "", "d1", "")
	require.NoError(t, err)
	require.Zero(t, found)
}

// An error that does not prove that the request had no effect says so; an answer proves it.
func TestUnconfirmed(t *testing.T) {
	for name, tt := range map[string]struct {
		err error
		// sent: it may be carried out if it was sent; accepted: if it was accepted.
		sent, accepted bool
	}{
		"connection lost":  {serviceerror.NewUnavailable("closing"), true, true},
		"out of time":      {context.DeadlineExceeded, true, true},
		"the SDK's time":   {sdkclient.NewWorkflowUpdateServiceTimeoutOrCanceledError(context.DeadlineExceeded), true, true},
		"canceled":         {context.Canceled, true, true},
		"a failed task":    {serviceerror.NewWorkflowNotReady("unexpected workflow task failure"), true, true},
		"no workflow":      {serviceerror.NewNotFound("none"), false, true},
		"denied":           {serviceerror.NewPermissionDenied("no", ""), false, true},
		"a busy server":    {serviceerror.NewResourceExhausted(0, "busy"), false, true},
		"refused":          {&device.Fault{Code: device.CodeRefused}, false, false},
		"invalid argument": {serviceerror.NewInvalidArgument("no"), false, true},
	} {
		t.Run(name, func(t *testing.T) {
			temporal := mocks.NewClient(t)
			temporal.On("DescribeWorkflowExecution", mock.Anything, "device/d1", "").
				Return(nil, serviceerror.NewNotFound("none")).Maybe()
			temporal.On("UpdateWorkflow", mock.Anything, mock.Anything).Return(nil, tt.err).Once()
			_, err := New(temporal).Send(t.Context(), "d1", contract.VerbUnbind, contract.UnbindInput{})
			require.ErrorIs(t, err, tt.err)
			require.Equal(t, tt.sent, Unconfirmed(err))

			handle := mocks.NewWorkflowUpdateHandle(t)
			handle.On("Get", mock.Anything, mock.Anything).Return(tt.err)
			temporal.On("UpdateWorkflow", mock.Anything, mock.Anything).Return(handle, nil).Once()
			_, err = New(temporal).Send(t.Context(), "d1", contract.VerbUnbind, contract.UnbindInput{})
			require.Equal(t, tt.accepted, Accepted(err), "accepted, and no answer says how it ended")
		})
	}
}

func TestFault(t *testing.T) {
	for name, tt := range map[string]struct {
		err  error
		code device.Code
	}{
		"a refusal":      {&device.Fault{Code: device.CodeRefused}, device.CodeRefused},
		"no namespace":   {serviceerror.NewNamespaceNotFound("n"), device.CodeUnreachable},
		"denied":         {serviceerror.NewPermissionDenied("no", ""), device.CodeUnreachable},
		"no server":      {serviceerror.NewUnavailable("down"), device.CodeUnreachable},
		"a busy server":  {serviceerror.NewResourceExhausted(0, "busy"), device.CodeUnreachable},
		"no workflow":    {serviceerror.NewNotFound("none"), ""},
		"another":        {errors.New("another"), ""},
		"out of time":    {context.DeadlineExceeded, ""},
		"an application": {&device.Fault{Code: device.CodeStepFailed, Message: "m"}, device.CodeStepFailed},
	} {
		t.Run(name, func(t *testing.T) {
			refusal, ok := Fault(tt.err)
			require.Equal(t, tt.code != "", ok)
			require.Equal(t, tt.code, refusal.Fault.Code)
		})
	}
}
