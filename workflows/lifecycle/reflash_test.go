package lifecycle_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"burnish/internal/clean"
	"burnish/internal/device"
	"burnish/workflows/contract"
)

// The host enrolls the version that Burnish's own step gave the drive: it is recorded before
// the drive is offered, and the next clean compares with it.
//
// F20, F27
func TestANewFirmwareVersionIsEnrolledBeforeTheDriveIsOffered(t *testing.T) {
	w := newDrive(t, clean.ErasePolicy{})
	p := w.policy
	p.Firmware = []clean.FirmwarePolicy{
		{FirmwareImage: clean.FirmwareImage{From: []string{"1"}, To: "2", Image: "/fw", SHA256: "00"}}}
	w.setPolicy(p)
	w.host.discovery.Identity.Firmware = "1"
	w.host.discovery.SupportedSteps = []string{"firmware_reflash", "verify_firmware"}
	w.makeBound("i1")
	require.Equal(t, "1", w.view().Firmware)
	w.host.injectFault = func(what string, _ int) error {
		if what == "firmware_reflash" {
			w.host.discovery.Identity.Firmware = "2"
		}
		return nil
	}
	ok[contract.Result](w.unbind("i1"))
	require.Equal(t, "2", w.reach(device.Available).Firmware)
	require.Subset(t, stepsOf(w.view()), []string{"firmware_reflash", "verify_firmware"})
	seen := len(w.host.inputs)
	ok[contract.Result](w.bind("i2", "r2"))
	w.turnOver("i2")
	require.Greater(t, len(w.host.inputs), seen)
	for _, in := range w.host.inputs[seen:] {
		require.Equal(t, "2", in.Identity.Firmware, in.Step)
		if in.Step == "firmware_reflash" {
			require.JSONEq(t, `{"components":[{"from":["1"],"to":"2","image":"/fw","sha256":"00"}]}`, string(in.Args))
		}
	}
}
