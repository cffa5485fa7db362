package client

import (
	"testing"

	"github.com/stretchr/testify/mock"
	"github.com/stretchr/testify/require"
	sdkclient "go.temporal.io/sdk/client"
	"go.temporal.io/sdk/mocks"

	"burnish/internal/device"
	"burnish/workflows/contract"
)

// Whatever starts a device's workflow says what the hardware is, for the Web UI.
func TestStartsHaveASummary(t *testing.T) {
	const summary = "Acme X1, serial S1, host h1, driver nvme"
	const details = "- model: Acme X1\n- serial: S1\n- host: h1\n- driver: nvme\n"
	enrollment := contract.Enrollment{Name: "h1_0000:01:00.0", Host: "h1", Driver: "nvme", Type: "NVME"}
	described := mock.MatchedBy(func(o sdkclient.StartWorkflowOptions) bool {
		return o.ID == "device/h1_0000:01:00.0" && o.StaticSummary == summary && o.StaticDetails == details
	})

	t.Run("enroll", func(t *testing.T) {
		c, handle := &mocks.Client{}, &mocks.WorkflowUpdateHandle{}
		c.On("NewWithStartWorkflowOperation", described, contract.WorkflowDeviceLifecycle, mock.Anything).Return(nil).Once()
		c.On("UpdateWithStartWorkflow", mock.Anything, mock.Anything).Return(handle, nil).Once()
		handle.On("Get", mock.Anything, mock.Anything).Return(nil).Once()
		_, err := New(c).Do(t.Context(), enrollment.Name, contract.VerbEnroll,
			contract.EnrollInput{Enrollment: enrollment, Hardware: contract.Hardware{Model: "Acme X1", Serial: "S1"}})
		require.NoError(t, err)
		c.AssertExpectations(t)
	})
	t.Run("recover", func(t *testing.T) {
		c := &mocks.Client{}
		c.On("SignalWithStartWorkflow", mock.Anything, "device/h1_0000:01:00.0", contract.SignalObserved, mock.Anything,
			described, contract.WorkflowDeviceLifecycle, mock.Anything).
			Return(nil, nil).Once()
		record := contract.HostDeviceRecord{Enrollment: enrollment, Identity: device.Identity{Model: "Acme X1", Serial: "S1"}}
		require.NoError(t, New(c).Recover(t.Context(), record, clock))
		c.AssertExpectations(t)
	})
}
