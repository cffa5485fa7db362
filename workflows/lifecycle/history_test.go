package lifecycle_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"burnish/internal/device"
	"burnish/workflows/contract"
)

// The query shows bindings and cleans after every continue-as-new; the answers to updates, which
// stay in the event history, do not contain them.
func TestHistoryIsInTheQueryOnly(t *testing.T) {
	w := newBound(t)
	first := ok[contract.Result](w.unbind("i1"))
	require.Empty(t, first.Device.Bindings)
	require.Empty(t, first.Device.Cleans)
	w.reach(device.Available)
	w.idle()
	w.state() // the next run
	w.makeBound("i2")
	want := []device.Binding{
		{Number: 1, Instance: "i1", Request: "r-i1"},
		{Number: 2, Instance: "i2", Request: "r-i2"},
	}
	have := w.view().Bindings
	for i := range have { // TestBindingsSayWhenAndByWhom
		have[i].Began, have[i].Over = nil, nil
	}
	require.Equal(t, want, have)
	require.Len(t, w.view().Cleans, 2)
}
