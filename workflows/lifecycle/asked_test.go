package lifecycle_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"burnish/internal/device"
	"burnish/workflows/contract"
)

const askedInstance = "11111111-2222-3333-4444-555555555555"

// A device that comes back as an instance's, by the inventory's record or by its ended run, asks that
// instance. One that says that it has left leaves the device to the operator, who is called: nothing
// is erased. His unbind ends it. One that is bound by a request asks nobody.
//
// F38
func TestDeviceThatComesBackAsksItsInstance(t *testing.T) {
	for name, tt := range map[string]struct {
		previous contract.PreviousRun
		answer   contract.InstanceAnswer
		late     bool
	}{
		"it has it":                  {answer: contract.InstanceAnswer{}},
		"it has left":                {answer: contract.InstanceAnswer{Left: true}},
		"it has left, after a while": {answer: contract.InstanceAnswer{Left: true}, late: true},
		"it has left, by its run":    {previous: contract.PreviousRun{RunID: "ended", Instance: askedInstance}, answer: contract.InstanceAnswer{Left: true}},
	} {
		t.Run(name, func(t *testing.T) {
			w := recovered(t, func(w *deviceEnv) {
				w.makeBound(askedInstance)
				w.pass(time.Minute)
				require.Empty(t, w.asked)
			})
			w.previousRun, w.instanceSays = tt.previous, tt.answer
			if tt.late {
				w.unasked = lostAnswer()
				w.pass(5 * time.Minute)
				w.unasked = nil
			}
			w.until("allocated, and asked", func() bool { return w.view().DeviceState == device.Allocated && len(w.asked) > 0 })
			w.pass(time.Hour)
			require.Equal(t, contract.InstanceQuestion{Instance: askedInstance, Device: "d1"}, w.asked[0])
			v := w.view()
			require.Equal(t, device.Allocated, v.DeviceState)
			require.Equal(t, tt.answer.Left, v.NeedsOperator, "%s", w.describe())
			require.Equal(t, tt.answer.Left, v.Fault == string(device.CodeTenantLeft))
			require.Equal(t, askedInstance, w.host.blocks[0])
			asked := len(w.asked)
			w.pass(time.Hour)
			require.Len(t, w.asked, asked, "it is asked once")
			ok[contract.Result](w.unbind(askedInstance))
			require.Empty(t, w.reach(device.Available).Fault)
			require.True(t, w.host.clean())
		})
	}
}
