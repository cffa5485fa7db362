package redfish

import (
	"testing"

	"github.com/stretchr/testify/require"

	"burnish/internal/testkit/redfishsim"
)

func TestBIOSReset(t *testing.T) {
	each(t, func(t *testing.T, p redfishsim.Personality) {
		s := newStepper(t, p)
		note, err := s.run("bios_reset", nil)
		require.NoError(t, err)
		t.Log(note)
		state := s.bmc.State()
		for name, v := range state.BIOS.Defaults {
			require.EqualValues(t, v, state.BIOS.Attributes[name], name)
		}
		require.Equal(t, 2, state.ResetCount)
		require.Equal(t, "On", state.Power)
		for _, r := range s.bmc.Requests() {
			t.Log(r.Number, r.Method, r.Path, r.Status)
		}
	})
}

func TestBIOSApply(t *testing.T) {
	each(t, func(t *testing.T, p redfishsim.Personality) {
		s := newStepper(t, p)
		note, err := s.run("bios_apply", map[string]any{"BootMode": "Bios", "AcPwrRcvryUserDelay": "90"})
		if p == redfishsim.OpenBMC {
			require.Error(t, err)
			return
		}
		require.NoError(t, err)
		t.Log(note)
		state := s.bmc.State()
		require.Equal(t, "Bios", state.BIOS.Attributes["BootMode"])
		require.EqualValues(t, 90, state.BIOS.Attributes["AcPwrRcvryUserDelay"])
		require.Equal(t, 2, state.ResetCount)
	})
}

func TestVerifyProperties(t *testing.T) {
	each(t, func(t *testing.T, p redfishsim.Personality) {
		s := newStepper(t, p)
		note, err := s.run("verify_properties", nil)
		require.NoError(t, err)
		t.Log(note)
	})
}
