package redfish

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"burnish/internal/device"
	"burnish/internal/testkit/redfishsim"
)

// plantBIOS leaves BIOS settings for the next reset, as a tenant does.
func (s *stepper) plantBIOS(applyTime bool) {
	s.t.Helper()
	h := s.open()
	state, err := h.readBIOS(s.t.Context())
	require.NoError(s.t, err)
	body := map[string]any{"Attributes": map[string]any{"BootMode": "Bios"}}
	if applyTime {
		body["@Redfish.SettingsApplyTime"] = map[string]any{"ApplyTime": "OnReset"}
	}
	_, err = h.change(s.t.Context(), request{Method: http.MethodPatch, Path: state.settings, Body: body})
	require.NoError(s.t, err)
	require.NoError(s.t, h.Close())
	require.NotEmpty(s.t, s.bmc.State().BIOS.Pending)
}

// F20
func TestPendingBIOSSettingsAreTakenBackBeforeAReset(t *testing.T) {
	for _, p := range []redfishsim.Personality{redfishsim.IDRAC, redfishsim.ILO, redfishsim.Supermicro} {
		for _, applyTime := range []bool{false, true} {
			t.Run(string(p), func(t *testing.T) {
				s := newStepper(t, p)
				s.plantBIOS(applyTime)
				resets := s.bmc.State().ResetCount
				note, err := s.run("security_check", nil)
				require.NoError(t, err)
				require.Contains(t, note, "taken back: ")
				state := s.bmc.State()
				for name, value := range state.BIOS.Pending {
					require.Equal(t, state.BIOS.Attributes[name], value, name)
				}
				require.Empty(t, state.Work)
				require.Equal(t, resets, state.ResetCount)
				require.Empty(t, s.bmc.WritesWithoutIdentity())
				note, err = s.run("security_check", nil)
				require.NoError(t, err)
				require.Contains(t, note, "nothing waits for a reset; ")
			})
		}
	}
}

// F20
func TestWhatCannotBeTakenBackIsTheOperators(t *testing.T) {
	for _, tc := range []struct {
		p      redfishsim.Personality
		leaves func(*redfishsim.State)
		way    string // which the BMC refuses
		names  string
	}{
		{redfishsim.Supermicro, tenantSettings, "PATCH *", "BootMode; WorkloadProfile"},
		{redfishsim.IDRAC, tenantSettings, "POST *ClearPending", "BootMode; WorkloadProfile"},
		{redfishsim.IDRAC, tenantJob, "DELETE *JID_*", "JID_471269999999"},
	} {
		s := newStepper(t, tc.p)
		s.bmc.Change(tc.leaves)
		method, path, _ := strings.Cut(tc.way, " ")
		s.bmc.Inject(redfishsim.Fault{Method: method, Path: path, Kind: redfishsim.Respond, Times: -1,
			Status: http.StatusMethodNotAllowed})
		_, err := s.run("security_check", nil)
		require.Equal(t, device.CodeBIOSJobWaiting, code(err), "%s: %v", tc.way, err)
		require.ErrorContains(t, err, tc.names)
		require.Zero(t, s.bmc.State().ResetCount)
	}
	for _, p := range []redfishsim.Personality{redfishsim.Supermicro, redfishsim.OpenBMC, redfishsim.ILO} {
		s := newStepper(t, p)
		s.stageFirmware()
		resets := s.bmc.State().ResetCount
		_, err := s.run("security_check", nil)
		require.Equal(t, device.CodeFirmwareChanged, code(err), "%s: %v", p, err)
		require.Equal(t, resets, s.bmc.State().ResetCount)
	}
}

// Where the BMC refuses the registry, what differs may be a tenant's setting.
func TestPendingSettingsAreNotOverlookedWithoutTheRegistry(t *testing.T) {
	s := newStepper(t, redfishsim.Supermicro)
	s.bmc.Inject(redfishsim.Fault{Method: http.MethodGet, Path: "*/Registries*", Kind: redfishsim.Respond,
		Status: http.StatusForbidden, Times: -1})
	_, err := s.run("security_check", nil)
	require.NoError(t, err)
	s.bmc.Change(tenantSettings)
	_, err = s.run("security_check", nil)
	require.Equal(t, device.CodeCommandRefused, code(err), "%v", err)
	require.Empty(t, s.bmc.Writes())
}

// stageFirmware leaves firmware of the BIOS for the next reset. An iLO has no task for it.
func (s *stepper) stageFirmware() {
	config := s.bmc.Config()
	s.bmc.Change(func(state *redfishsim.State) {
		work := &redfishsim.Work{Kind: redfishsim.KindFirmware, Waits: true, Component: "BIOS", Version: "9.9.9"}
		state.Work = append(state.Work, work)
		if config.UpdateForm == redfishsim.NoTaskOK {
			return
		}
		work.Task = "7"
		if config.JobIDs {
			work.Task = "JID_471269259999"
		}
		state.Tasks = append(state.Tasks, &redfishsim.Task{ID: work.Task, Name: "Firmware Update", JobType: "FirmwareUpdate",
			Kind: redfishsim.KindFirmware, State: "New", Status: "OK", Start: time.Now(),
			TargetURI: "/redfish/v1/UpdateService/upload", Operation: http.MethodPost})
	})
}

// F20
func TestAJobOfATenantIsDeleted(t *testing.T) {
	s := newStepper(t, redfishsim.IDRAC)
	s.stageFirmware()
	note, err := s.run("security_check", nil)
	require.NoError(t, err)
	require.Contains(t, note, "JID_471269259999")
	require.Empty(t, s.bmc.State().Work)
	require.Empty(t, s.bmc.WritesWithoutIdentity())
}

// A job of another system behind the same BMC is not this clean's to delete.
func TestAJobOfAnotherSystemIsLeft(t *testing.T) {
	s := newStepper(t, redfishsim.Supermicro)
	s.bmc.Change(func(state *redfishsim.State) {
		state.Tasks = append(state.Tasks, &redfishsim.Task{ID: "7", Name: "BIOS config", State: "Pending", Status: "OK",
			Start: time.Now(), TargetURI: "/redfish/v1/Systems/2/Bios/Settings", Operation: http.MethodPatch})
	})
	for _, step := range []string{"security_check", "bios_reset"} {
		_, err := s.run(step, nil)
		require.NoError(t, err)
	}
	state := s.bmc.State()
	require.Contains(t, taskIDs(&state), "7")
}

func taskIDs(state *redfishsim.State) (all []string) {
	for _, task := range state.Tasks {
		all = append(all, task.ID)
	}
	return all
}

// A request that is lost is not success, and is not repeated before a look.
func TestTakingBackSurvivesEachLostRequest(t *testing.T) {
	for _, p := range []redfishsim.Personality{redfishsim.IDRAC, redfishsim.Supermicro} {
		build := func(t *testing.T) *stepper {
			s := newStepper(t, p)
			s.plantBIOS(true)
			return s
		}
		ordeal(t, build, "security_check", nil, func(t *testing.T, s *stepper, err error) {
			require.NoError(t, err)
			state := s.bmc.State()
			for name, value := range state.BIOS.Pending {
				require.Equal(t, state.BIOS.Attributes[name], value, name)
			}
		}, true)
	}
}
