package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"burnish/internal/device"
	"burnish/workflows/client"
	"burnish/workflows/contract"
)

// restless is a device that changes its state and continues as new as fast as it can.
func restless(ctx workflow.Context, in contract.DeviceInput) error {
	for _, s := range []device.State{device.Allocated, device.Available} {
		if err := workflow.UpsertTypedSearchAttributes(ctx, contract.AttrState.ValueSet(string(s))); err != nil {
			return err
		}
		if err := workflow.Sleep(ctx, 50*time.Millisecond); err != nil {
			return err
		}
	}
	return workflow.NewContinueAsNewError(ctx, contract.WorkflowDeviceLifecycle, in)
}

// startDevices starts workflows that stand for devices, and returns their UUIDs in order once
// all are listed.
func startDevices(t *testing.T, s *Site, n int) (uuids []string) {
	for i := range n {
		name := fmt.Sprintf("d%d", i)
		options := client.DeviceStart(contract.Enrollment{Name: name}, contract.Hardware{})
		options.TypedSearchAttributes = temporal.NewSearchAttributes(
			contract.AttrUUID.ValueSet(contract.DeviceUUID(name)), contract.AttrState.ValueSet(string(device.Available)))
		_, err := s.Client.ExecuteWorkflow(t.Context(), options, contract.WorkflowDeviceLifecycle,
			contract.DeviceInput{Name: name})
		require.NoError(t, err)
		uuids = append(uuids, contract.DeviceUUID(name))
	}
	slices.Sort(uuids)
	Await(t, 20*time.Second, "all devices to be listed", func() (bool, string) {
		listed, err := s.Client.CountWorkflow(t.Context(),
			&workflowservice.CountWorkflowExecutionsRequest{Query: (client.Filter{}).Query()})
		require.NoError(t, err)
		return listed.GetCount() == int64(n), fmt.Sprint(listed.GetCount())
	})
	return uuids
}

// fleetOf reads the fleet, and returns the UUIDs in its order.
func fleetOf(t *testing.T, c *client.Client) (uuids []string) {
	all, err := c.Fleet(t.Context())
	require.NoError(t, err)
	for _, e := range all {
		uuids = append(uuids, e.Status.UUID)
	}
	return uuids
}

// While devices continue as new all the time, each is once in the fleet that the real server lists,
// whose rows of the ended and of the new run change at different moments.
func TestTheFleetWhileDevicesContinueAsNew(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	want := startDevices(t, s, 60)
	w := worker.New(s.Client, contract.Queue, worker.Options{})
	w.RegisterWorkflowWithOptions(restless, workflow.RegisterOptions{Name: contract.WorkflowDeviceLifecycle})
	require.NoError(t, w.Start())
	t.Cleanup(w.Stop)
	c := s.Workflows()
	rounds, plain := 50, 0
	for round := range rounds {
		require.Equal(t, want, fleetOf(t, c), "after %d rounds", round)
		listed, err := c.List(t.Context(), client.Filter{})
		require.NoError(t, err)
		if len(listed) < len(want) {
			plain++
		}
	}
	t.Logf("%d rounds; a plain listing missed devices %d times", rounds, plain)
}

// A device whose workflow ended is no longer in the fleet, and is still found by its UUID.
func TestTheFleetOfTheRealServer(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	want := startDevices(t, s, 40)
	c := s.Workflows()
	require.Equal(t, want, fleetOf(t, c))
	e, found, err := c.ByUUID(t.Context(), want[7])
	require.NoError(t, err)
	require.True(t, found)
	require.Equal(t, want[7], contract.DeviceUUID(e.Name))
	require.NoError(t, s.Client.TerminateWorkflow(t.Context(), contract.WorkflowID(e.Name), "", "test"))
	Await(t, 10*time.Second, "the device to be gone", func() (bool, string) {
		left := fleetOf(t, c)
		return !slices.Contains(left, want[7]) && len(left) == len(want)-1, strings.Join(left, " ")
	})
	e, found, err = c.ByUUID(t.Context(), want[7])
	require.NoError(t, err)
	require.True(t, found && !e.Running, "a marker that is no longer there is still known")
}
