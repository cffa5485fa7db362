package e2e

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/temporal"

	"burnish/internal/device"
	"burnish/workflows/client"
	"burnish/workflows/contract"
)

// A drive reports its serial itself. Whatever it contains, the real server finds the
// other device that has it, and no device that has another.
//
// F23
func TestFindBySerial(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	serials := []string{"S1", "s1", `S1\`, `S1\\`, "it's", "it''s", "'S1'", `\`, `\'`, `S"1"`, "S%", "S_", "S!", "ü1", "tab\t1", `' OR DeviceState = 'available`}
	for i, serial := range serials {
		name := fmt.Sprintf("d%d", i)
		options := client.DeviceStart(name)
		options.TypedSearchAttributes = temporal.NewSearchAttributes(
			contract.AttrSerial.ValueSet(serial), contract.AttrState.ValueSet(string(device.Available)))
		// No worker runs: the workflow stays as it is started.
		_, err := s.Client.ExecuteWorkflow(t.Context(), options, contract.WorkflowDeviceLifecycle, contract.DeviceInput{Name: name})
		require.NoError(t, err)
	}
	for i, serial := range serials {
		name := fmt.Sprintf("d%d", i)
		Await(t, 20*time.Second, fmt.Sprintf("the device with serial %q to be found", serial), func() (bool, string) {
			found, err := s.Workflows().FindBySerial(t.Context(), serial, "another")
			require.NoError(t, err)
			return found == name, "found " + found
		})
		found, err := s.Workflows().FindBySerial(t.Context(), serial, name)
		require.NoError(t, err)
		require.Empty(t, found, "no other device has serial %q", serial)
	}
}
