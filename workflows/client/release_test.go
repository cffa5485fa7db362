package client

import (
	"testing"

	"github.com/stretchr/testify/mock"
	"github.com/stretchr/testify/require"
	"go.temporal.io/api/serviceerror"
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

// A release whose answer was lost may be repeated: an instance that is released is released
// already. One that is not known, or whose workflow ended in another way, is not.
func TestAReleasedInstanceIsReleasedAlready(t *testing.T) {
	const instance = "3b1f0e62-7a8e-4b7f-9a55-0d6c1f2e4a90"
	ended := serviceerror.NewNotFound("workflow execution already completed")
	for _, tt := range []struct {
		name    string
		phase   contract.InstancePhase
		err     error
		already bool
	}{
		{"released", contract.InstanceReleased, nil, true},
		{"terminated while it had devices", contract.InstanceActive, nil, false},
		{"not known", "", serviceerror.NewNotFound("no workflow"), false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			temporal := mocks.NewClient(t)
			temporal.On("UpdateWorkflow", mock.Anything, mock.Anything).Return(nil, ended).Once()
			temporal.On("QueryWorkflow", mock.Anything, contract.InstanceWorkflowID(instance), "", contract.QueryInstance).
				Return(statusValue{status: contract.InstanceStatus{UUID: instance, Phase: tt.phase}}, tt.err).Once()
			result, err := New(temporal).InstanceRelease(t.Context(), instance, contract.InstanceActInput{})
			require.Equal(t, tt.already, result.Already)
			if tt.already {
				require.NoError(t, err)
				require.Equal(t, tt.phase, result.Instance.Phase)
				return
			}
			require.True(t, NotFound(err), "%v", err)
		})
	}
}
