package redfish

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"burnish/internal/device"
	"burnish/internal/hardware"
	"burnish/internal/testkit/redfishsim"
)

var _ hardware.PowerController = (*handle)(nil)

// power makes one change of the power state.
func (s *stepper) power(action string) error {
	s.t.Helper()
	h := s.open()
	err := h.Power(s.t.Context(), action)
	require.NoError(s.t, h.Close())
	return err
}

func TestPowerIsIdempotent(t *testing.T) {
	each(t, func(t *testing.T, p redfishsim.Personality) {
		s := newStepper(t, p)
		for _, one := range []struct{ action, want string }{
			{hardware.PowerOn, "On"}, {hardware.PowerOff, "Off"}, {hardware.PowerOff, "Off"}, {hardware.PowerOn, "On"},
			{hardware.PowerReset, "On"}, {hardware.PowerOff, "Off"}, {hardware.PowerReset, "On"},
		} {
			require.NoError(t, s.power(one.action), one.action)
			require.Equal(t, one.want, s.bmc.State().Power, one.action)
		}
		require.Equal(t, device.CodeInvalidSetting, code(s.power("nmi")))
		require.Empty(t, s.bmc.WritesWithoutIdentity())
		require.Empty(t, s.bmc.OpenSessions())
	})
}

func TestAGracefulShutdownThatDoesNothingIsFollowedByOff(t *testing.T) {
	s := newStepper(t, redfishsim.IDRAC, func(c *redfishsim.Config, _ *redfishsim.State) { c.IgnoreGraceful = true })
	require.NoError(t, s.power(hardware.PowerOff))
	require.Equal(t, "Off", s.bmc.State().Power)
}

func TestOnlyAllowedResetsAreSent(t *testing.T) {
	s := newStepper(t, redfishsim.OpenBMC, func(c *redfishsim.Config, _ *redfishsim.State) {
		c.ResetTypes = []string{"ForceOn", "ForceOff", "PowerCycle"}
	})
	require.NoError(t, s.power(hardware.PowerOff))
	require.NoError(t, s.power(hardware.PowerOn))
	require.NoError(t, s.power(hardware.PowerReset))
	s = newStepper(t, redfishsim.OpenBMC, func(c *redfishsim.Config, _ *redfishsim.State) {
		c.ResetTypes = []string{"Nmi"}
	})
	require.Equal(t, device.CodeCommandRefused, code(s.power(hardware.PowerOff)))
	require.Empty(t, s.bmc.Writes())

	s = newStepper(t, redfishsim.OpenBMC)
	s.driver.timing.power, s.driver.timing.settle = 30*time.Millisecond, 10*time.Millisecond
	s.bmc.Inject(redfishsim.Fault{Method: http.MethodPost, Path: "*Reset", Kind: redfishsim.Respond,
		Status: http.StatusBadRequest, Times: -1,
		Body: `{"error":{"code":"Odd.1","message":"The chassis intrusion switch is open."}}`})
	err := s.power(hardware.PowerOff)
	require.Equal(t, device.CodeNoProgress, code(err), "%v", err)
	require.Contains(t, err.Error(), "intrusion switch")
}

// A power change while firmware is written destroys the server.
func TestNoPowerChangeWhileSomethingIsWritten(t *testing.T) {
	each(t, func(t *testing.T, p redfishsim.Personality) {
		for name, work := range map[string]*redfishsim.Work{
			"firmware": {Kind: redfishsim.KindFirmware, Component: "BIOS", Version: "9", Stage: "write"},
			"erase":    {Kind: redfishsim.KindErase, Drive: "S6CKNT0W700001"},
		} {
			s := newStepper(t, p)
			// Anybody's: an iLO has no task for it.
			taskless := p == redfishsim.ILO
			s.bmc.Change(func(state *redfishsim.State) {
				work.Started, work.Due = time.Now(), time.Now().Add(time.Hour)
				if !taskless {
					work.Task = "77"
					state.Tasks = append(state.Tasks, &redfishsim.Task{ID: "77", Name: "Something", Kind: work.Kind, State: "Running",
						Status: "OK", Start: time.Now()})
				}
				state.Work = append(state.Work, work)
			})
			for _, action := range []string{hardware.PowerOff, hardware.PowerReset} {
				err := s.power(action)
				require.Equal(t, device.CodeTargetBusy, code(err), "%s %s: %v", name, action, err)
			}
			require.Empty(t, s.bmc.Writes())
			h := s.open()
			s.driver.timing.post = 20 * time.Millisecond
			h.busyPatience = 20 * time.Millisecond
			var said []string
			run := hardware.StepRun{Step: "x", Save: s.save, Load: s.load, Progress: func(_ int, doing string) error {
				said = append(said, doing)
				return nil
			}}
			require.Equal(t, device.CodeTargetBusy, code(h.restart(t.Context(), run)))
			require.Contains(t, said[0], "waits: ")
			require.NoError(t, h.Close())
			require.Empty(t, s.bmc.Writes())
			require.Empty(t, s.bmc.State().Bricked)
			require.Empty(t, s.bmc.State().Interrupted)
		}
	})
}

func TestAServerThatDoesNotEndPOSTIsTheOperators(t *testing.T) {
	each(t, func(t *testing.T, p redfishsim.Personality) {
		s := newStepper(t, p, func(c *redfishsim.Config, _ *redfishsim.State) { c.Delays.POST = time.Hour })
		s.driver.timing.post = 150 * time.Millisecond
		_, err := s.run("bios_reset", nil)
		require.Equal(t, device.CodeNoProgress, code(err), "%v", err)
		require.ErrorContains(t, err, "POST has not ended")
	})
}

func TestPowerState(t *testing.T) {
	s := newStepper(t, redfishsim.Supermicro)
	h := s.open()
	for _, state := range []string{"On", "Off", "PoweringOn"} {
		s.bmc.Change(func(now *redfishsim.State) { now.Power, now.PowerNext = state, "" })
		got, err := h.PowerState(t.Context())
		require.NoError(t, err)
		require.Equal(t, powerWord(redfishPower(state)), got)
	}
	s.bmc.Inject(redfishsim.Fault{Path: "/redfish/v1/Systems/*", Kind: redfishsim.Respond, Status: http.StatusNotFound})
	_, err := h.PowerState(t.Context())
	require.Equal(t, device.CodeTargetMissing, code(err), "%v", err)
	require.NoError(t, h.Close())
}
