package main

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
)

// What nvmesim does to a test is told by whoever measures without one.
func TestEmulatedOutsideOfATest(t *testing.T) {
	var order []int
	skipped, err := emulated(func(t testing.TB) error {
		t.Cleanup(func() { order = append(order, 1) })
		t.Cleanup(func() { order = append(order, 2) })
		t.Skipf("no drive\nhere: %d", 5)
		return errors.New("it went on")
	})
	require.NoError(t, err)
	require.Equal(t, "no drive here: 5", skipped)
	require.Equal(t, []int{2, 1}, order)

	skipped, err = emulated(func(t testing.TB) error {
		t.Errorf("a")
		t.Fatalf("b")
		return errors.New("it went on")
	})
	require.Empty(t, skipped)
	require.EqualError(t, err, "a\nb")

	broken := errors.New("broken")
	_, err = emulated(func(testing.TB) error { return broken })
	require.ErrorIs(t, err, broken)
}
