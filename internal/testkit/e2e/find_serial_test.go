package e2e

import (
	"fmt"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/temporal"

	"burnish/internal/device"
	"burnish/internal/testkit/site"
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
	serials := []string{"S1", "s1", `S1\`, `S1\\`, "it's", "it''s", "'S1'", `\`, `\'`, `S"1"`, "S%", "S_", "S!", "ü1",
		"tab\t1", `' OR DeviceState = 'available`}
	for i, serial := range serials {
		name := fmt.Sprintf("d%d", i)
		options := client.DeviceStart(contract.Enrollment{Name: name}, contract.Hardware{})
		options.TypedSearchAttributes = temporal.NewSearchAttributes(
			contract.AttrSerial.ValueSet(serial), contract.AttrState.ValueSet(string(device.Available)))
		// No worker runs: the workflow stays as it is started.
		_, err := s.Client.ExecuteWorkflow(t.Context(), options, contract.WorkflowDeviceLifecycle,
			contract.DeviceInput{Name: name})
		require.NoError(t, err)
	}
	for i, serial := range serials {
		name := fmt.Sprintf("d%d", i)
		Await(t, 20*time.Second, fmt.Sprintf("the device with serial %q to be found", serial), func() (bool, string) {
			found, err := s.Workflows().FindBySerial(t.Context(), serial, "another", "")
			require.NoError(t, err)
			require.False(t, found.Listed)
			return found.Other == name, "found " + found.Other
		})
		found, err := s.Workflows().FindBySerial(t.Context(), serial, name, "")
		require.NoError(t, err)
		require.Equal(t, client.SameSerial{Listed: true}, found, "no other device has serial %q", serial)
	}
}

// Two hosts enroll the same hardware at the same moment, so that neither finds the other's
// device before its own is enrolled. No device of the two is ever offered: an operator
// decides about both.
//
// F23
func TestTwoHostsEnrollOneSerial(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.Run(t, "all")
	other := s.Worker(t, "host")
	other.Host, other.StateDir = site.NewHost(), filepath.Join(s.Dir, "elsewhere")
	other.Start(t)
	const pairs = 4
	names := make(chan string, 2*pairs)
	var enrolling sync.WaitGroup
	for i := range pairs {
		for name, host := range map[string]string{fmt.Sprintf("a%d", i): s.Host, fmt.Sprintf("b%d", i): other.Host} {
			enrolling.Go(func() {
				r := s.Burnish(t, "enroll", name, "--host", host, "--driver", "fake", "--provide",
					"--set", fmt.Sprintf("size=1MiB,serial=SAME%d", i))
				if r.Code == 0 {
					names <- name
				}
			})
		}
	}
	enrolling.Wait()
	close(names)
	// It depends on the moment whether both were enrolled, or one, or neither: a refused
	// enrollment notifies the other device too.
	enrolled := 0
	for name := range names {
		enrolled++
		v := s.AwaitDevice(t, name, 30*time.Second, "to wait for its operator", func(v contract.DeviceStatus) bool {
			return v.NeedsOperator
		})
		require.Equal(t, []any{device.Error, string(device.CodeDuplicateSerial), true},
			[]any{v.DeviceState, v.Fault, v.Dirty}, v.LastError)
		s.RequireReserved(t, name, 1)
	}
	t.Logf("%d of %d devices were enrolled", enrolled, 2*pairs)
	require.Positive(t, enrolled)
}
