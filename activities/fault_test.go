package activities

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/temporal"

	"burnish/internal/device"
	"burnish/workflows/contract"
)

// Discover waits for a device in use for a limited time, because a clean waits for it.
//
// F12
func TestDiscoverOfADeviceInUseEnds(t *testing.T) {
	busy := &device.Fault{Class: device.Transient, Code: device.CodeTargetBusy, Message: "it is mounted",
		Remedy: "end that use"}
	for attempt := int32(1); attempt < maxBusyAttempts; attempt++ {
		require.Equal(t, error(busy), escalateBusy(busy, attempt, "d1"))
	}
	f, ok := device.AsFault(escalateBusy(busy, maxBusyAttempts, "d1"))
	require.True(t, ok)
	require.Equal(t, device.Fault{Class: device.NeedsOperator, Code: device.CodeTargetBusy, Message: "it is mounted",
		Remedy: "end that use, then clean d1"}, *f)
	for _, other := range []error{nil, errors.New("no"), &device.Fault{Class: device.Transient, Code: device.CodeIO}} {
		require.Equal(t, other, escalateBusy(other, 100, "d1"))
	}
}

func TestTheClassOfAFaultSaysWhetherTheServerRetries(t *testing.T) {
	full := device.Fault{Code: "a_code", Message: "what happened", Remedy: "what to do"}
	for class, retried := range map[device.Class]bool{device.Transient: true, device.Permanent: false,
		device.NeedsOperator: false} {
		for name, wrap := range map[string]func(error) error{
			"":        func(err error) error { return err },
			"wrapped": func(err error) error { return fmt.Errorf("zero: %w", err) },
			"joined":  func(err error) error { return errors.Join(errors.New("close"), err) },
		} {
			want := full
			want.Class = class
			err := asError(wrap(&want), "d1")
			app, refusal := refusedBy(t, err)
			require.Equal(t, contract.Refusal{Fault: want, Device: "d1"}, refusal, "%v, %s", class, name)
			require.Equal(t, retried, !app.NonRetryable())
			require.Contains(t, app.Error(), "what happened")
		}
	}
	app, refusal := refusedBy(t, asError(errors.New("unforeseen"), "d1"))
	require.False(t, app.NonRetryable())
	require.Equal(t, device.Fault{Class: device.Transient, Code: device.CodeInternal, Message: "unforeseen"},
		refusal.Fault)
	app, _ = refusedBy(t, asError(errors.New("Ger\xe4t"), "d1"))
	require.Equal(t, "Ger\uFFFDt", app.Message(), "the server refuses what is not valid UTF-8")
	require.True(t, temporal.IsCanceledError(asError(temporal.NewCanceledError(), "d1")))
	require.NoError(t, asError(nil, "d1"))
}

func refusedBy(t *testing.T, err error) (*temporal.ApplicationError, contract.Refusal) {
	t.Helper()
	var app *temporal.ApplicationError
	require.ErrorAs(t, err, &app)
	refusal, ok := contract.RefusalOf(err)
	require.True(t, ok)
	return app, refusal
}

// S0.24: a live migration finds marked devices only, and the instance keeps the mark, as it
// keeps the MAC that its document needs.
func TestMarkOfALiveMigratableDevice(t *testing.T) {
	t.Parallel()
	marked := contract.DeviceStatus{Name: "h1_a", Type: "NIC", MAC: "52:54:00:00:00:01", LiveMigratable: true}
	plain := contract.DeviceStatus{Name: "h1_b", Type: "NIC"}
	live := contract.DeviceRequest{Type: "NIC", LiveMigratable: true}
	require.True(t, (&candidate{status: marked}).fits(live))
	require.False(t, (&candidate{status: plain}).fits(live))
	require.True(t, (&candidate{status: plain}).fits(contract.DeviceRequest{Type: "NIC"}))
	require.True(t, held(marked).LiveMigratable)
	require.Equal(t, marked.MAC, held(marked).MAC)
}
