package client

import (
	"testing"

	"github.com/stretchr/testify/mock"
	"github.com/stretchr/testify/require"
	failurepb "go.temporal.io/api/failure/v1"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/mocks"

	"burnish/workflows/contract"
)

// An act whose device does not answer goes on without limit: the instance shows which device
// it is. Without an act under way its own last error is shown.
func TestInstanceShowsWhatItsActWaitsFor(t *testing.T) {
	for doing, want := range map[string]string{
		"release": "release is tried again, after attempt 3: unbind is not answered yet: d1: it is not known yet who has it",
		"":        "bind failed: too late",
	} {
		c := &mocks.Client{}
		answer := valueOf[contract.InstanceStatus]{
			says: contract.InstanceStatus{UUID: "u", Doing: doing, LastError: "bind failed: too late"}}
		c.On("QueryWorkflow", mock.Anything, "instance/u", "", contract.QueryInstance).Return(answer, nil)
		c.On("DescribeWorkflowExecution", mock.Anything, "instance/u", "").
			Return(&workflowservice.DescribeWorkflowExecutionResponse{
				PendingActivities: []*workflowpb.PendingActivityInfo{{
					Attempt:     4,
					LastFailure: &failurepb.Failure{Message: "unbind is not answered yet: d1:\nit is not known yet who has it"},
				}},
			}, nil)
		status, err := New(c).Instance(t.Context(), "u")
		require.NoError(t, err)
		require.Equal(t, want, status.LastError)
	}
}
