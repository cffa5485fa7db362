package steps_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// resettable is a device that keeps its identity through a reset.
type resettable struct {
	*memory
	failure error
}

func (r *resettable) Reset(context.Context) error {
	if err := r.call("reset"); err != nil {
		return err
	}
	return r.failure
}

// What a drive's cache still holds proves nothing about its media: the verify resets it
// before its first read, and reads nothing if that fails.
//
// F19
func TestAVerifyResetsTheDriveBeforeItReads(t *testing.T) {
	j := allZeroes(1 << 20)
	drive := &resettable{memory: j.memory}
	w := j.work()
	w.Device = drive
	_, err := verify(t.Context(), w)
	require.NoError(t, err)
	require.Equal(t, []string{"checkpoint 0", "reset"}, j.calls[:2])
	require.True(t, strings.HasPrefix(j.calls[2], "read "), "%v", j.calls)

	j = allZeroes(1 << 20)
	drive = &resettable{memory: j.memory, failure: errors.New("it did not come back")}
	w = j.work()
	w.Device = drive
	_, err = verify(t.Context(), w)
	require.ErrorIs(t, err, drive.failure)
	require.Equal(t, []string{"checkpoint 0", "reset"}, j.calls)
}
