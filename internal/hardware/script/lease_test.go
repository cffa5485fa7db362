package script

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"burnish/internal/hardware"
)

// F32
func TestNoProgramStartsWithoutTheRightToWrite(t *testing.T) {
	r := newFakeHost(t)
	handle := r.open(t, true).(hardware.StepRunner)
	ended := errors.New("the lease has ended")
	ctx := hardware.WithLease(t.Context(), func(context.Context) error { return ended })
	_, err := handle.RunStep(ctx, hardware.StepRun{Step: "erase_device", MayGoOn: neverStop})
	require.ErrorIs(t, err, ended)
	require.NotContains(t, r.calls(t), "erase_device")
	_, err = handle.RunStep(t.Context(), hardware.StepRun{Step: "erase_device", MayGoOn: neverStop})
	require.NoError(t, err)
	require.Contains(t, r.calls(t), "erase_device")
}
