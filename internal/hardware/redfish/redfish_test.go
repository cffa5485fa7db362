package redfish

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"burnish/internal/device"
	"burnish/internal/hardware"
	"burnish/internal/testkit/redfishsim"
)

func (s *stepper) discover(known device.Identity) (hardware.Discovery, error) {
	s.t.Helper()
	return s.driver.Discover(s.t.Context(), s.target, known)
}

func TestDiscoverReadsWhoTheServerIs(t *testing.T) {
	each(t, func(t *testing.T, p redfishsim.Personality) {
		s := newStepper(t, p)
		found, err := s.discover(device.Identity{})
		require.NoError(t, err)
		state := s.bmc.State()
		want := state.Serial
		if want == "" {
			want = state.ChassisSerial
		}
		require.Equal(t, hardware.CanonicalSerial(want), found.Identity.Serial)
		require.Equal(t, state.Manufacturer, found.Identity.Vendor)
		require.Equal(t, state.SKU, found.Identity.Product)
		require.Zero(t, found.Identity.Size)
		require.Equal(t, Type, found.Type)
		require.Equal(t, device.SecureErase, found.Operation)
		require.Equal(t, []string{"security_check", "erase_drives", "verify", "firmware_reflash", "verify_firmware",
			"bios_reset", "boot_restore", "secure_boot_restore", "tpm_clear", "bios_apply", "bmc_reset", "bmc_restore",
			"verify_properties"}, found.SupportedSteps)
		properties, err := device.ParseProperties(found.Identity.Properties)
		require.NoError(t, err)
		require.Equal(t, []any{2, 64, int64(131072)}, []any{properties.CPUs, properties.Cores, properties.MemoryMiB})
		require.Equal(t, []device.Link{{Name: "GPU.Slot.7", Width: 16, Speed: "Gen4"},
			{Name: "NIC.Slot.3", Width: 16, Speed: "Gen4"}}, properties.Links)
		var serials []string
		for _, d := range properties.Drives {
			serials = append(serials, d.Serial)
			require.Positive(t, d.CapacityBytes)
			require.NotEmpty(t, d.Model)
		}
		require.ElementsMatch(t, []string{"S6CKNT0W700001", "S6CKNT0W700002", "PHLN123400001P6AGN", "PHYH0420003W480C",
			"PHYH0420003X480C"}, serials, "each once, wherever it is listed")
		require.Contains(t, found.Note, found.Identity.Serial)
		require.Empty(t, s.bmc.Writes())
		require.Empty(t, s.bmc.OpenSessions())
		text, err := json.Marshal(found)
		require.NoError(t, err)
		require.NotContains(t, string(text), s.bmc.Password)
	})
}

// S3.5: a later look never replaces what was enrolled, and needs no server that is on.
func TestALaterLookKeepsWhatWasEnrolled(t *testing.T) {
	each(t, func(t *testing.T, p redfishsim.Personality) {
		s := newStepper(t, p)
		first, err := s.discover(device.Identity{})
		require.NoError(t, err)
		s.bmc.Change(func(state *redfishsim.State) {
			state.Power, state.CPUs = "Off", 1
			state.Storages[0].Drives[0].Missing = true
		})
		again, err := s.discover(first.Identity)
		require.NoError(t, err)
		require.Equal(t, first.Identity.Properties, again.Identity.Properties)
		s.bmc.Change(func(state *redfishsim.State) { state.Serial, state.ChassisSerial = "OTHER", "OTHER" })
		_, err = s.discover(first.Identity)
		require.Equal(t, device.CodeSerialMismatch, code(err), "%v", err)
	})
}

func TestWhatIsNotEnrolled(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(*redfishsim.State)
		want   device.Code
	}{
		"off": {func(s *redfishsim.State) { s.Power = "Off" }, device.CodeServerNotReady},
		"in POST": {func(s *redfishsim.State) { s.InPOST, s.POSTDue = true, time.Now().Add(time.Hour) },
			device.CodeServerNotReady},
		"no drive": {func(s *redfishsim.State) {
			for _, storage := range s.Storages {
				storage.Drives, storage.Volumes = nil, nil
			}
		}, device.CodeTargetMissing},
		"no serial": {func(s *redfishsim.State) { s.Serial, s.ChassisSerial = "", "To Be Filled By O.E.M." },
			device.CodeIdentityChanged},
	} {
		t.Run(name, func(t *testing.T) {
			each(t, func(t *testing.T, p redfishsim.Personality) {
				s := newStepper(t, p)
				s.bmc.Change(tt.change)
				_, err := s.discover(device.Identity{})
				require.Equal(t, tt.want, code(err), "%v", err)
				require.Empty(t, s.bmc.OpenSessions())
			})
		})
	}
}

func TestTheChassisSerialStandsInForAPlaceholder(t *testing.T) {
	const none = "System Serial Number"
	s := newStepper(t, redfishsim.Supermicro)
	s.bmc.Change(func(state *redfishsim.State) { state.Serial, state.ChassisSerial = none, "  C 1 " })
	found, err := s.discover(device.Identity{})
	require.NoError(t, err)
	require.Equal(t, "C_1", found.Identity.Serial)
	s.bmc.Change(func(state *redfishsim.State) { state.ChassisSerial = "Chassis Serial Number" })
	_, err = s.discover(device.Identity{})
	require.ErrorContains(t, err, none)
}

// F13
func TestOnlyAnAllowedServerIsDiscoveredAndOpened(t *testing.T) {
	s := newStepper(t, redfishsim.IDRAC)
	no := hardware.Refused(device.CodeNotAllowed, "", "no")
	s.driver.host.Allow = func(serial string) error {
		require.Equal(t, s.enrolled.Serial, serial)
		return no
	}
	_, err := s.discover(device.Identity{})
	require.Equal(t, device.CodeNotAllowed, code(err))
	_, err = s.driver.Open(t.Context(), s.target, s.enrolled, false)
	require.Equal(t, device.CodeNotAllowed, code(err))
	require.Empty(t, s.bmc.OpenSessions())
}

func TestSettingsAreChecked(t *testing.T) {
	s := newStepper(t, redfishsim.IDRAC)
	good := s.target.Settings
	for _, bad := range []map[string]string{
		{}, {"url": good["url"]}, {"url": good["url"], "secret": "rack", "user": "x"},
		{"url": "https://u:hunter2@127.0.0.1/redfish/v1/Systems/1", "secret": "rack"},
		{"url": "https://u:hunter2%@127.0.0.1/redfish/v1/Systems/1", "secret": "rack"},
		{"url": "ftp://127.0.0.1/redfish/v1/Systems/1", "secret": "rack"},
		{"url": "https://127.0.0.1/redfish/v1/", "secret": "rack"},
		{"url": "https://127.0.0.1/redfish/v1/Systems/1?a=hunter2", "secret": "rack"},
		{"url": "https:///redfish/v1/Systems/1", "secret": "rack"},
	} {
		s.target.Settings = bad
		_, err := s.discover(device.Identity{})
		require.Equal(t, device.CodeInvalidSetting, code(err), "%v: %v", bad, err)
		require.NotContains(t, err.Error(), "hunter2")
	}
	s.target.Settings = map[string]string{"secret": "rack", "url": good["url"] + "-other"}
	_, err := s.discover(device.Identity{})
	require.Equal(t, device.CodeTargetMissing, code(err), "%v", err)
}

func TestStepsNeedAWritableHandle(t *testing.T) {
	s := newStepper(t, redfishsim.IDRAC)
	opened, err := s.driver.Open(t.Context(), s.target, s.enrolled, false)
	require.NoError(t, err)
	h, is := opened.(*handle)
	require.True(t, is)
	for _, step := range allSteps() {
		if step.readOnly {
			continue
		}
		_, err := h.RunStep(t.Context(), hardware.StepRun{Step: step.name, MayGoOn: s.mayGoOn})
		require.Equal(t, device.CodeInternal, code(err), step.name)
	}
	_, err = h.RunStep(t.Context(), hardware.StepRun{Step: "odd", MayGoOn: s.mayGoOn})
	require.Equal(t, device.CodeNoSuchStep, code(err))
	require.Error(t, h.Power(t.Context(), hardware.PowerOff))
	require.Zero(t, h.Size())
	require.Equal(t, "redfish", h.Method())
	require.Error(t, h.ZeroAt(t.Context(), 0, 4096))
	_, err = h.ReadAt(nil, 0)
	require.Error(t, err)
	require.NoError(t, h.Flush(t.Context()))
	require.NoError(t, h.Close())
	require.Empty(t, s.bmc.Writes())
}

func TestARefusalForALicenseSaysSo(t *testing.T) {
	s := newStepper(t, redfishsim.Supermicro)
	s.bmc.Inject(redfishsim.Fault{Path: "/redfish/v1/Systems/*", Kind: redfishsim.Respond, Status: http.StatusForbidden,
		Body: `{"error":{"code":"x","message":"Not licensed to perform this request. ` +
			`The following licenses DCMS are needed."}}`})
	_, err := s.driver.Open(t.Context(), s.target, s.enrolled, true)
	require.Equal(t, device.CodeCommandRefused, code(err), "%v", err)
	require.True(t, strings.Contains(err.Error(), "install the BMC's license"), err.Error())
}
