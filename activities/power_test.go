package activities_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"

	"burnish/internal/device"
	"burnish/internal/hardware"
	"burnish/internal/hardware/fake"
	"burnish/internal/host"
	"burnish/workflows/contract"
)

// newPowered is a host with a fake server of this power state, and the call that changes it.
func newPowered(t *testing.T,
	settings map[string]string) (*testHost, func(action string, change ...func(*contract.PowerCall)) (string, error)) {
	t.Helper()
	s := newTestHost(t)
	driver := fake.New(s.host.Dir(), func() error { return nil })
	s.hardware.Drivers["fake"] = driver
	settings["size"] = "1MiB"
	e := contract.Enrollment{Name: "node1", Host: s.host.Name(), Driver: "fake", Owner: device.OwnerSelf,
		Settings: settings}
	found, err := s.discover(t, contract.DiscoverInput{Enrollment: e, UUID: contract.DeviceUUID(e.Name)})
	require.NoError(t, err)
	require.Equal(t, settings["power"] != "", found.Power)
	return s, func(action string, change ...func(*contract.PowerCall)) (string, error) {
		in := contract.PowerCall{Enrollment: e, Identity: found.Identity, Action: action, Seq: 4, Binding: 2}
		for _, c := range change {
			c(&in)
		}
		result, err := execute[contract.PowerResult](first(t), contract.ActivityPower, s.hardware.Power, in)
		return result.State, err
	}
}

func TestPowerOfADevice(t *testing.T) {
	t.Parallel()
	_, power := newPowered(t, map[string]string{"power": "on"})
	for _, step := range []struct{ action, state string }{{"", "on"}, {"off", "off"}, {"off", "off"}, {"", "off"},
		{"on", "on"}, {"reset", "on"}} {
		state, err := power(step.action)
		require.NoError(t, err)
		require.Equal(t, step.state, state, step.action)
	}
}

// Nothing reaches the hardware of a device that its host knows to be cleaned, or to have
// another tenant.
//
// S3.28
func TestPowerOfADeviceThatTheHostKnowsBetter(t *testing.T) {
	t.Parallel()
	s, power := newPowered(t, map[string]string{"power": "on"})
	require.NoError(t, s.host.UpdateRecord("node1", func(r *host.Record) error { r.Seq, r.Binding = 5, 2; return nil }))
	_, err := power("off")
	requireFault(t, err, device.CodeSuperseded, false)
	require.NoError(t, s.host.UpdateRecord("node1", func(r *host.Record) error { r.Seq, r.Binding = 4, 3; return nil }))
	_, err = power("off")
	requireFault(t, err, device.CodeSuperseded, false)
	require.NoError(t, s.host.UpdateRecord("node1", func(r *host.Record) error { r.Binding = 2; return nil }))
	state, err := power("")
	require.NoError(t, err)
	require.Equal(t, "on", state)
}

// Other hardware, and a driver without power control, are refused.
func TestPowerIsRefused(t *testing.T) {
	t.Parallel()
	s, power := newPowered(t, map[string]string{})
	_, err := power("on")
	requireFault(t, err, device.CodeNoPowerControl, false)
	_, err = power("")
	requireFault(t, err, device.CodeNoPowerControl, false)
	disk, err := s.disks.disk("d1")
	require.NoError(t, err)
	_, err = power("on", func(in *contract.PowerCall) { in.Enrollment, in.Identity = s.enrollment("d1"), disk.identity })
	require.Contains(t, requireFault(t, err, device.CodeNoPowerControl, false).Fault.Message, "no power control")

	_, power = newPowered(t, map[string]string{"power": "on"})
	_, err = power("off", func(in *contract.PowerCall) { in.Identity.Serial = "ANOTHER" })
	require.Error(t, err)
	_, err = power("burn")
	require.Error(t, err)
}

// A change of the power and a step never work at one device at once: whoever has its fence
// goes first, and the power does not wait for long.
//
// F1
func TestPowerWaitsForNoStep(t *testing.T) {
	t.Parallel()
	s, power := newPowered(t, map[string]string{"power": "on", "serial": "NODE1"})
	fence, err := s.host.Fence(t.Context(), "NODE1", func(string) {})
	require.NoError(t, err)
	_, err = power("off")
	requireFault(t, err, device.CodeTargetBusy, false)
	require.NoError(t, fence.Close())
	state, err := power("off")
	require.NoError(t, err)
	require.Equal(t, "off", state)
}

// F32
func TestPowerAsksTheServerFirst(t *testing.T) {
	t.Parallel()
	s, power := newPowered(t, map[string]string{"power": "on"})
	s.hardware.Confirm = func(context.Context, []byte, ...any) error { return activity.ErrActivityReset }
	_, err := power(hardware.PowerOff)
	require.Error(t, err)
	s.hardware.Confirm = nil
	state, err := power("")
	require.NoError(t, err)
	require.Equal(t, "on", state)
}
