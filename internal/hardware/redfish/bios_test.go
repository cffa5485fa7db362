package redfish

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"burnish/internal/device"
	"burnish/internal/testkit/redfishsim"
)

// requireRestartedOnce: the server was switched off and on, or on and off, and no more.
func requireRestartedOnce(t *testing.T, bmc *redfishsim.Server, power string) {
	t.Helper()
	state := bmc.State()
	require.Equal(t, power, state.Power)
	require.False(t, state.InPOST)
	require.Equal(t, 1, state.POSTs, "starts of the server")
	require.Equal(t, 2, state.ResetCount, "requests that changed the power state")
}

func requireDefaults(t *testing.T, bmc *redfishsim.Server) {
	t.Helper()
	state := bmc.State()
	require.False(t, state.BIOS.PendingReset, "the defaults are still only wanted")
	require.Empty(t, state.BIOS.Pending)
	for name, v := range state.BIOS.Defaults {
		require.EqualValues(t, v, state.BIOS.Attributes[name], name)
	}
}

// off is a server that is off.
func off(s *redfishsim.State) { s.Power = "Off" }

// wantedBIOS is set in tests: one attribute that differs, one that does not, one that is text in
// the arguments.
var wantedBIOS = map[string]any{"BootMode": "Bios", "SriovGlobalEnable": "Enabled", "AcPwrRcvryUserDelay": "90"}

// requireApplied: the wanted attributes are in force after one restart, and nothing else has changed.
func requireApplied(t *testing.T, bmc *redfishsim.Server, power string) {
	t.Helper()
	state := bmc.State()
	require.Equal(t, "Bios", state.BIOS.Attributes["BootMode"])
	require.Equal(t, "Enabled", state.BIOS.Attributes["SriovGlobalEnable"])
	require.EqualValues(t, 90, state.BIOS.Attributes["AcPwrRcvryUserDelay"])
	require.Equal(t, "TenantProfile", state.BIOS.Attributes["WorkloadProfile"], "what was not asked for has changed")
	require.Empty(t, state.BIOS.Pending)
	requireRestartedOnce(t, bmc, power)
}

// biosOrdeal runs a step with each trouble: it always ends well, after one restart.
func biosOrdeal(t *testing.T, p redfishsim.Personality, step string, args any, power string) {
	t.Helper()
	build := func(t *testing.T) *stepper {
		s := newStepper(t, p, quickBMC)
		if power == "Off" {
			s.bmc.Change(off)
		}
		return s
	}
	ordeal(t, build, step, args, func(t *testing.T, s *stepper, err error) {
		require.NoError(t, err, "said: %v", s.said)
		if args != nil {
			requireApplied(t, s.bmc, power)
			return
		}
		requireDefaults(t, s.bmc)
		requireRestartedOnce(t, s.bmc, power)
	}, power == "On")
}

// S3.36
func TestBIOSResetIsInterruptedEverywhere(t *testing.T) {
	each(t, func(t *testing.T, p redfishsim.Personality) { biosOrdeal(t, p, "bios_reset", nil, "On") })
	t.Run("off", func(t *testing.T) { biosOrdeal(t, redfishsim.Supermicro, "bios_reset", nil, "Off") })
}

// S3.36, S3.47
func TestBIOSApplyIsInterruptedEverywhere(t *testing.T) {
	each(t, func(t *testing.T, p redfishsim.Personality) {
		if p != redfishsim.OpenBMC { // it has no attributes
			biosOrdeal(t, p, "bios_apply", wantedBIOS, "On")
		}
	})
	t.Run("off", func(t *testing.T) { biosOrdeal(t, redfishsim.IDRAC, "bios_apply", wantedBIOS, "Off") })
}

// F11
func TestBIOSStepsChangeNothingOnAnotherServer(t *testing.T) {
	testAnotherSystem(t, redfishsim.ILO, "bios_reset", func(*stepper) any { return nil })
	testAnotherSystem(t, redfishsim.IDRAC, "bios_apply", func(*stepper) any { return wantedBIOS })
}

// tenantJob is a BIOS job of a tenant that waits for a reset, as on an iDRAC.
func tenantJob(s *redfishsim.State) {
	const id = "JID_471269999999"
	s.Tasks = append(s.Tasks, &redfishsim.Task{ID: id, Kind: redfishsim.KindBIOS, Name: "Configure: BIOS.Setup.1-1",
		State: "New", Status: "OK", JobType: "BIOSConfiguration", Start: time.Now()})
	s.Work = append(s.Work, &redfishsim.Work{Kind: redfishsim.KindBIOS, Task: id, Waits: true})
	tenantSettings(s)
}

// tenantSettings are settings that a tenant wants, and that are pending.
func tenantSettings(s *redfishsim.State) {
	s.BIOS.Pending = map[string]any{"WorkloadProfile": "Staged", "BootMode": "Bios"}
}

// F20. What is wanted may wait already; a repeated request makes no job for it.
func TestBIOSStepsTakeBackWhatATenantWants(t *testing.T) {
	same := func(s *redfishsim.State) {
		s.BIOS.Pending = map[string]any{"BootMode": "Bios", "SriovGlobalEnable": "Enabled", "AcPwrRcvryUserDelay": 90.0}
	}
	dell := []redfishsim.Personality{redfishsim.IDRAC}
	for name, tc := range map[string]struct {
		prepare func(*redfishsim.State)
		all     []redfishsim.Personality
		dialect redfishsim.Dialect
	}{
		"job":                             {tenantJob, dell, redfishsim.Dialect{}},
		"settings":                        {tenantSettings, append(dell, redfishsim.ILO, redfishsim.Supermicro), redfishsim.Dialect{}},
		"the same":                        {same, dell, redfishsim.Dialect{}},
		"the same, by a versioned action": {same, dell, redfishsim.Dialect{VersionedActions: true}},
	} {
		for _, p := range tc.all {
			build := func() *stepper {
				s := newStepper(t, p, quickBMC)
				s.bmc.Change(tc.prepare)
				s.bmc.Configure(func(c *redfishsim.Config) { c.RepeatMakesNoJob, c.Dialect = true, tc.dialect })
				return s
			}
			s := build()
			_, err := s.run("bios_apply", wantedBIOS)
			require.NoError(t, err, "%s %s", name, p)
			requireApplied(t, s.bmc, "On")

			s = build()
			_, err = s.run("bios_reset", nil)
			require.NoError(t, err, "%s %s", name, p)
			requireDefaults(t, s.bmc)
			requireRestartedOnce(t, s.bmc, "On")
			require.NotContains(t, s.bmc.Writes()[0].Path, "ResetBios", "before the tenant's settings were removed")
		}
	}
}

func TestBIOSResetSaysWhatItHasCompared(t *testing.T) {
	for name, want := range map[string]struct {
		p      redfishsim.Personality
		option redfishsim.Option
		note   string
	}{
		"attributes": {redfishsim.ILO, func(*redfishsim.Config, *redfishsim.State) {}, "8 of 10 attributes compared"},
		"no attributes": {redfishsim.OpenBMC, func(*redfishsim.Config, *redfishsim.State) {},
			"shows no BIOS attributes, so there is nothing to verify"},
		"no registry": {redfishsim.Supermicro, func(c *redfishsim.Config, _ *redfishsim.State) { c.NoRegistry = true },
			"no attribute registry, so there is nothing to verify"},
	} {
		t.Run(name, func(t *testing.T) {
			// POST ends when the step says that it waits for that.
			s := newStepper(t, want.p, quickBMC, func(c *redfishsim.Config, _ *redfishsim.State) { c.Delays.POST = time.Hour },
				want.option)
			s.mayGoOn = func() error {
				if slices.Contains(s.said, "waits for the end of POST") {
					s.bmc.Hurry()
				}
				return nil
			}
			note, err := s.run("bios_reset", nil)
			require.NoError(t, err)
			require.Contains(t, note, want.note)
			require.Equal(t, 1, s.bmc.State().POSTs, "it was restarted all the same")
		})
	}
}

func TestBIOSWaitsWhereTheEndOfPOSTIsNotShown(t *testing.T) {
	for name, tc := range map[string]struct {
		p      redfishsim.Personality
		option redfishsim.Option
	}{
		"nothing is shown": {redfishsim.Supermicro, func(c *redfishsim.Config,
			_ *redfishsim.State) {
			c.NoBootProgress = true
		}},
		"it stays None": {redfishsim.OpenBMC, func(c *redfishsim.Config,
			_ *redfishsim.State) {
			c.NoneBootProgress = true
		}},
		"it stays None, and when it was reset": {redfishsim.IDRAC, func(c *redfishsim.Config, _ *redfishsim.State) {
			c.NoneBootProgress, c.NoLastResetTime = true, true
		}},
		"only that drives are": {redfishsim.ILO, func(c *redfishsim.Config, _ *redfishsim.State) { c.EarlyDiscovery = true }},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStepper(t, tc.p, quickBMC, func(c *redfishsim.Config, _ *redfishsim.State) {
				c.Delays.POST = 60 * time.Millisecond
			}, tc.option)
			_, err := s.run("bios_reset", nil)
			require.NoError(t, err)
			requireDefaults(t, s.bmc)
			if tc.p == redfishsim.OpenBMC {
				requireRestartedOnce(t, s.bmc, "On")
				return // it has no attributes to set
			}
			_, err = s.run("bios_apply", wantedBIOS)
			require.NoError(t, err)
			require.Equal(t, 2, s.bmc.State().POSTs)
		})
	}
}

func TestBIOSStepsBeginDuringPOST(t *testing.T) {
	s := newStepper(t, redfishsim.ILO, quickBMC)
	s.bmc.Change(func(s *redfishsim.State) { s.InPOST, s.POSTDue = true, time.Now().Add(60*time.Millisecond) })
	_, err := s.run("bios_reset", nil)
	require.NoError(t, err)
	requireDefaults(t, s.bmc)
	for _, r := range s.bmc.Writes() {
		require.NotEqual(t, 400, r.Status, "%s %s was refused", r.Method, r.Path)
	}
}

// An iLO may refuse a change because POST began after the step has looked.
func TestBIOSChangeThatPOSTRefusesIsSentAgain(t *testing.T) {
	s := newStepper(t, redfishsim.ILO, quickBMC)
	s.bmc.Inject(redfishsim.Fault{Method: "POST", Path: "*ResetBios*", Kind: redfishsim.Respond, Status: 400, Times: 2,
		Body: `{"error": {"@Message.ExtendedInfo": [{"MessageId": "iLO.2.14.UnableToModifyDuringSystemPOST"}]}}`})
	_, err := s.run("bios_reset", nil)
	require.NoError(t, err)
	requireDefaults(t, s.bmc)
}

func TestBIOSResetThatIsDoneIsNotRepeated(t *testing.T) {
	s := newStepper(t, redfishsim.IDRAC, quickBMC)
	for range 2 {
		_, err := s.run("bios_reset", nil)
		require.NoError(t, err)
		requireRestartedOnce(t, s.bmc, "On")
	}
	// Another step has changed it since: it is begun again.
	_, err := s.run("bios_apply", wantedBIOS)
	require.NoError(t, err)
	_, err = s.run("bios_reset", nil)
	require.NoError(t, err)
	requireDefaults(t, s.bmc)
	require.Equal(t, 3, s.bmc.State().POSTs)
}

// S3.24
func TestServerThatABIOSStepSwitchedOffIsOnAfterItsFailure(t *testing.T) {
	s := newStepper(t, redfishsim.Supermicro, quickBMC)
	s.bmc.Inject(redfishsim.Fault{Method: "POST", Path: "*ComputerSystem.Reset", Skip: 1, Kind: redfishsim.Respond,
		Status: 403})
	_, err := s.run("bios_reset", nil)
	require.Equal(t, device.CodeCommandRefused, code(err), "%v", err)
	require.Equal(t, "On", s.bmc.State().Power)
}

func TestBIOSApplyAlwaysSendsTheApplyTime(t *testing.T) {
	for _, p := range []redfishsim.Personality{redfishsim.IDRAC, redfishsim.ILO, redfishsim.Supermicro} {
		s := newStepper(t, p, quickBMC, func(c *redfishsim.Config, _ *redfishsim.State) { c.RequireIfMatch = true })
		_, err := s.run("bios_apply", wantedBIOS)
		require.NoError(t, err)
		n := 0
		for _, r := range s.bmc.Requests() {
			if r.Method == "PATCH" && r.Status < 300 {
				require.Contains(t, r.Body, `"@Redfish.SettingsApplyTime"`)
				require.Contains(t, r.Body, `"SriovGlobalEnable"`, "what the BIOS shows already is sent too")
				n++
			}
		}
		require.Equal(t, 1, n)
	}
}

func TestBIOSApplyWithNothingToDo(t *testing.T) {
	for _, p := range []redfishsim.Personality{redfishsim.IDRAC, redfishsim.ILO, redfishsim.Supermicro} {
		s := newStepper(t, p, quickBMC)
		note, err := s.run("bios_apply", map[string]any{"BootMode": "Uefi", "AcPwrRcvryUserDelay": 60})
		require.NoError(t, err)
		require.Contains(t, note, "not restarted")
		require.Empty(t, s.bmc.Writes())
	}
}

// A tenant has asked for the defaults: what the BIOS shows now is not what it has after the reset.
func TestBIOSApplyHoldsThroughAPendingReset(t *testing.T) {
	for _, p := range []redfishsim.Personality{redfishsim.IDRAC, redfishsim.ILO, redfishsim.Supermicro} {
		s := newStepper(t, p, quickBMC)
		s.bmc.Change(func(s *redfishsim.State) { s.BIOS.PendingReset = true })
		_, err := s.run("bios_apply", wantedBIOS)
		require.NoError(t, err)
		require.Equal(t, "Enabled", s.bmc.State().BIOS.Attributes["SriovGlobalEnable"])
		require.Equal(t, "Bios", s.bmc.State().BIOS.Attributes["BootMode"])
	}
}

// S3.5: what the BMC answers is no success, nor what it shows while a job goes on.
func TestBIOSChangeThatTheBMCDoesNotCarryOut(t *testing.T) {
	never := func(c *redfishsim.Config, _ *redfishsim.State) { c.BIOSNeverApplies, c.ResetBIOSStatus = true, 204 }
	ends := func(how redfishsim.Ending) redfishsim.Option {
		return func(c *redfishsim.Config, _ *redfishsim.State) { c.Endings[redfishsim.KindBIOS] = how }
	}
	const reset, apply = `SecureBoot is "Disabled" instead of "Enabled"`, `BootMode is "Uefi" instead of "Bios"`
	for name, tc := range map[string]struct {
		p      redfishsim.Personality
		option redfishsim.Option
		args   any // of bios_apply; nil: it is bios_reset
		says   string
	}{
		"iDRAC":               {redfishsim.IDRAC, never, nil, reset},
		"iLO":                 {redfishsim.ILO, never, nil, reset},
		"Supermicro":          {redfishsim.Supermicro, never, nil, reset},
		"completed, critical": {redfishsim.IDRAC, ends(redfishsim.CompletedCritical), wantedBIOS, apply},
		"exception":           {redfishsim.IDRAC, ends(redfishsim.Exception), wantedBIOS, apply},
		"lies":                {redfishsim.IDRAC, ends(redfishsim.Lies), wantedBIOS, apply},
		// So is the task that would say that it has failed. Its job shows what is pending as if it were in force.
		"the answer is lost": {redfishsim.IDRAC, func(c *redfishsim.Config, _ *redfishsim.State) {
			c.Endings[redfishsim.KindBIOS], c.Delays.Settle = redfishsim.CompletedCritical, 200*time.Millisecond
		}, wantedBIOS, apply},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStepper(t, tc.p, quickBMC, tc.option)
			if strings.Contains(name, "lost") {
				s.bmc.Inject(redfishsim.Fault{Method: "PATCH", Kind: redfishsim.CutAfter})
			}
			step := map[bool]string{true: "bios_reset", false: "bios_apply"}[tc.args == nil]
			_, err := s.run(step, tc.args)
			require.Equal(t, device.CodeBIOSMismatch, code(err), "%v", err)
			require.ErrorContains(t, err, tc.says)
			require.Equal(t, "On", s.bmc.State().Power)
			require.Equal(t, 1, s.bmc.State().POSTs)
		})
	}
}

func TestBIOSApplyOfWhatTheBIOSCannotTake(t *testing.T) {
	for name, wrong := range map[string]map[string]any{
		"WorkloadProfile is neither text, a":  {"WorkloadProfile": []string{"a"}},
		"SetupPassword is a password":         {redfishsim.SetupPassword: "geheim"},
		"bios_apply has no attributes to set": {},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStepper(t, redfishsim.IDRAC, quickBMC)
			_, err := s.run("bios_apply", wrong)
			require.Equal(t, device.CodeBIOSSettingInvalid, code(err), "%v", err)
			require.ErrorContains(t, err, name)
			require.Empty(t, s.bmc.Writes())
		})
	}
	// The BMC says so itself, and the server is not restarted.
	for name, wrong := range map[string]map[string]any{
		"There is no property Boot":           {"Boot": "Uefi"},
		"SystemBiosVersion is read only":      {"SystemBiosVersion": "1"},
		"UEFI is not one of the values":       {"BootMode": "UEFI"},
		"true is not one of the values of Se": {"SecureBoot": true, "AcPwrRcvryUserDelay": "90"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStepper(t, redfishsim.IDRAC, quickBMC)
			_, err := s.run("bios_apply", wrong)
			require.Equal(t, device.CodeCommandRefused, code(err), "%v", err)
			require.ErrorContains(t, err, name)
			require.Zero(t, s.bmc.State().ResetCount)
		})
	}
	t.Run("no attributes", func(t *testing.T) {
		s := newStepper(t, redfishsim.OpenBMC, quickBMC)
		_, err := s.run("bios_apply", wantedBIOS)
		require.Equal(t, device.CodeBIOSSettingInvalid, code(err), "%v", err)
		require.Empty(t, s.bmc.Writes())
	})
}

func TestBIOSStepsWithoutALicense(t *testing.T) {
	s := newStepper(t, redfishsim.Supermicro, quickBMC, func(c *redfishsim.Config, _ *redfishsim.State) {
		c.Unlicensed = true
	})
	_, err := s.run("bios_reset", nil)
	require.Equal(t, device.CodeCommandRefused, code(err), "%v", err)
	require.ErrorContains(t, err, "Not licensed")
}
