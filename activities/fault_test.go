package activities

import (
	"errors"
	"testing"
	"unicode/utf8"

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

// The server refuses a message that is not valid UTF-8, and the attempt would be lost.
func TestAFaultsMessageIsValidUTF8(t *testing.T) {
	err := contract.Refuse(
		contract.Refusal{Fault: device.Fault{Class: device.Permanent, Code: device.CodeIO, Message: "Ger\xe4t"}})
	var application *temporal.ApplicationError
	require.ErrorAs(t, err, &application)
	require.Equal(t, "Ger\uFFFDt", application.Message())
	var refusal contract.Refusal
	require.NoError(t, application.Details(&refusal))
	require.True(t, utf8.ValidString(refusal.Fault.Message))
}
