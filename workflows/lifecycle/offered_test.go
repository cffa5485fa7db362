package lifecycle_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"burnish/internal/device"
	"burnish/workflows/contract"
)

// eventOfHardware is what the host sends when the kernel reports a change.
var eventOfHardware = contract.Hint{Source: "event of the kernel", Hardware: true}

// writeUnseen: somebody writes to the device, which its host finds until it is zeroed.
func (w *deviceEnv) writeUnseen() {
	w.host.writeAsTenant("unknown data")
	w.host.discovery.Written = true
	w.host.zeroed = func(int) { w.host.discovery.Written = false }
}

// Of a device of Nova's the inventory is asked first: a guest that starts takes it from the host's
// driver. One that others wrote to is cleaned.
//
// F39
func TestAnEventOfANovaDevice(t *testing.T) {
	t.Run("its guest starts", func(t *testing.T) {
		w := newNovaDevice(t).available()
		require.True(t, w.inventory.allocate("c1"))
		w.host.injectFault = func(string, int) error { return refuse(device.Transient, device.CodeTargetBusy) }
		w.host.looks = nil
		w.signal(contract.SignalRefresh, eventOfHardware)
		w.reach(device.Allocated)
		w.pass(time.Hour)
		require.Empty(t, w.host.looks)
		require.Empty(t, w.view().LastError)
	})
	t.Run("others write to it", func(t *testing.T) {
		w := newNovaDevice(t).available()
		w.writeUnseen()
		w.signal(contract.SignalRefresh, eventOfHardware)
		w.until("its clean", func() bool { return len(w.view().Cleans) == 2 && w.view().DeviceState == device.Available })
		w.idle()
		require.True(t, w.host.clean())
	})
}
