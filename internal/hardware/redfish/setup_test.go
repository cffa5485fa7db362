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

// restoring are the steps that bring back how a server was set up, in the order of a clean, with what takes
// away what would start something else before.
var restoring = []string{"security_check", "bios_reset", stepBootRestore, stepSecureBootRestore, stepTPMClear,
	stepBMCRestore}

// hostile is a server that a hostile tenant has had, and what it was before.
func hostile(t *testing.T, p redfishsim.Personality, options ...redfishsim.Option) (*stepper, redfishsim.Setup) {
	t.Helper()
	s := newStepper(t, p, append(options, quickBMC)...)
	before := s.bmc.State().Setup
	s.bmc.Change(func(state *redfishsim.State) {
		state.Plant(p)
		for _, drive := range state.Drives() {
			drive.Content = "" // erased
		}
	})
	return s, before
}

// requireNothingLeft asserts that the server is set up as before, and that nothing of the tenant's is there.
func requireNothingLeft(t *testing.T, s *stepper, before redfishsim.Setup) {
	t.Helper()
	state := s.bmc.State()
	state.Setup.TPM.Clears, before.TPM.Clears = 0, 0
	require.Equal(t, before, state.Setup)
	require.Empty(t, state.Sessions)
	require.Empty(t, s.bmc.Violations())
}

// S3.36
func TestAHostileTenantLeavesNothingOnAServer(t *testing.T) {
	each(t, func(t *testing.T, p redfishsim.Personality) {
		s, before := hostile(t, p)
		for _, step := range restoring {
			note, err := s.run(step, nil)
			require.NoError(t, err, step)
			require.NotContains(t, note, redfishsim.Tenant)
			t.Logf("%s: %s", step, note)
		}
		requireNothingLeft(t, s, before)
		state := s.bmc.State()
		if name, _, _ := redfishsim.TPMAttribute(p); name != "" {
			require.Equal(t, 1, state.Setup.TPM.Clears)
		}
		t.Logf("starts: %d", state.POSTs)
		// A second clean of a server that nobody had restarts it for the TPM alone.
		s.newClean()
		note, err := s.run("security_check", nil)
		require.NoError(t, err)
		require.Contains(t, note, "nothing waits for a reset; ")
		for _, step := range restoring[2:] {
			_, err := s.run(step, nil)
			require.NoError(t, err, step)
		}
		require.LessOrEqual(t, s.bmc.State().POSTs-state.POSTs, 1)
		requireNothingLeft(t, s, before)
	})
}

// What was recorded holds no secret, and all that the BMC shows.
func TestASetupIsRecordedWithoutSecrets(t *testing.T) {
	each(t, func(t *testing.T, p redfishsim.Personality) {
		s := newStepper(t, p)
		properties, err := device.ParseProperties(s.enrolled.Properties)
		require.NoError(t, err)
		require.NotContains(t, s.enrolled.Properties, "secret-of-monitoring")
		require.NotContains(t, s.enrolled.Properties, s.bmc.Password)
		require.Equal(t, map[string]string{"root": "Administrator, enabled", "monitor": "ReadOnly, enabled"},
			properties.Setup[device.SetupAccounts])
		require.Len(t, properties.Setup[device.SetupSubscriptions], 1)
		require.NotEmpty(t, properties.Setup[device.SetupCertificates])
		if p == redfishsim.IDRAC {
			require.Equal(t, map[string]string{redfishsim.SetupPassword: "not set"}, properties.Setup[device.SetupPasswords])
		}
	})
}

// A BIOS password of a tenant keeps the operator out of the setup, and the BMC cannot take it away.
func TestABIOSPasswordOfATenantIsTheOperators(t *testing.T) {
	s := newStepper(t, redfishsim.IDRAC, quickBMC)
	s.bmc.Change(func(state *redfishsim.State) {
		state.BIOS.Attributes[redfishsim.SetupPassword] = redfishsim.PasswordShown
	})
	_, err := s.run("bios_reset", nil)
	require.NoError(t, err)
	_, err = s.run(stepBMCRestore, nil)
	require.Equal(t, device.CodeSetupMismatch, code(err), "%v", err)
	require.ErrorContains(t, err, "bios_passwords: SetupPassword is set instead of not set")
	require.NotContains(t, err.Error(), redfishsim.PasswordShown)
}

// A BMC that says yes and does nothing, one that refuses, and a TPM that waits for somebody: the server is an
// operator's.
func TestWhatStaysOnAServerIsAnOperators(t *testing.T) {
	for name, c := range map[string]struct {
		p      redfishsim.Personality
		option redfishsim.Option
		step   string
		code   device.Code
		says   string
	}{
		"an account that stays": {redfishsim.ILO, func(_ *redfishsim.Config, s *redfishsim.State) {
			s.Setup.Accounts = append(s.Setup.Accounts,
				&redfishsim.Account{ID: "8", User: "built-in", Role: "None", Stays: true})
		}, stepBMCRestore, "", ""},
		"accounts": {redfishsim.IDRAC, ignores("accounts"), stepBMCRestore, device.CodeSetupMismatch,
			"accounts: mallory was not there"},
		"keys": {redfishsim.XCC, ignores("keys"), stepBMCRestore, device.CodeSetupMismatch, "keys: monitor"},
		"subscriptions": {redfishsim.OpenBMC, ignores("subscriptions"), stepBMCRestore, device.CodeSetupMismatch,
			"mallory.example"},
		"media": {redfishsim.ILO, ignores("media"), "security_check", device.CodeSetupMismatch, "CD1 was not there"},
		"protocols": {redfishsim.Supermicro, ignores("protocols"), stepBMCRestore, device.CodeSetupMismatch,
			"IPMI is enabled, port 623 instead of disabled"},
		"boot": {redfishsim.IDRAC, ignores("boot"), "security_check", device.CodeSetupMismatch,
			"Continuous to Cd instead of Disabled"},
		"keys of boot": {redfishsim.XCC, ignores("secure_boot"), stepSecureBootRestore, device.CodeSetupMismatch,
			"secure_boot"},
		"lockdown": {redfishsim.Supermicro, ignores("lockdown"), "security_check", device.CodeSetupMismatch, "lockdown"},
		"tpm": {redfishsim.Supermicro, ignores("tpm"), stepTPMClear, device.CodeTPMNotCleared,
			"does not show that"},
		"tpm presence": {redfishsim.ILO, func(c *redfishsim.Config, _ *redfishsim.State) { c.TPMPresence = true },
			stepSecureBootRestore, // which shares its restart
			device.CodeTPMNotCleared, "console"},
	} {
		t.Run(name, func(t *testing.T) {
			s, _ := hostile(t, c.p, c.option)
			s.driver.timing.post = 2 * time.Second
			var err error
			for _, step := range restoring {
				if _, err = s.run(step, nil); err != nil {
					require.Equal(t, c.step, step, "%v", err)
					break
				}
			}
			if c.code == "" {
				require.NoError(t, err)
				return
			}
			require.Error(t, err)
			f, _ := device.AsFault(err)
			require.Equal(t, c.code, f.Code, "%v", err)
			require.Contains(t, f.Message, c.says)
			require.NotContains(t, f.Message, s.bmc.Password)
			require.Empty(t, s.bmc.Violations())
		})
	}
}

func ignores(what string) redfishsim.Option {
	return func(c *redfishsim.Config, _ *redfishsim.State) { c.Ignores = []string{what} }
}

// A foreign account that cannot be deleted is disabled, and the server is an operator's.
func TestAForeignAccountThatStaysIsDisabled(t *testing.T) {
	s, _ := hostile(t, redfishsim.IDRAC)
	s.bmc.Change(func(state *redfishsim.State) {
		for _, a := range state.Setup.Accounts {
			a.Stays = a.User == redfishsim.Tenant
		}
	})
	_, err := s.run(stepBMCRestore, nil)
	require.Equal(t, device.CodeSetupMismatch, code(err), "%v", err)
	for _, a := range s.bmc.State().Setup.Accounts {
		require.Equal(t, a.User != redfishsim.Tenant, a.Enabled, a.User)
	}
}

// A server with a golden profile gets what that says, and what it leaves out as recorded; a profile that the
// policy does not know is the operator's.
func TestAGoldenProfileTakesThePlaceOfTheRecord(t *testing.T) {
	s, before := hostile(t, redfishsim.OpenBMC)
	golden := device.RestoreArgs{Golden: "rack", Setup: device.Setup{
		device.SetupProtocols: {"HTTPS": "enabled, port 443", "SSH": "disabled, port 22", "IPMI": "disabled, port 623",
			"KVMIP": "enabled, port 5900"}}}
	_, err := s.run(stepBMCRestore, golden)
	require.NoError(t, err)
	state := s.bmc.State()
	require.False(t, state.Setup.Protocols["SSH"].Enabled)
	require.Equal(t, before.Accounts, state.Setup.Accounts)
	_, err = s.run(stepBMCRestore, device.RestoreArgs{Golden: "other"})
	require.Equal(t, device.CodeInvalidSetting, code(err), "%v", err)
}

// What the policy requires and the BMC does not offer is an operator's, before and after.
func TestAPolicyMayRequireThatAnItemIsCovered(t *testing.T) {
	s := newStepper(t, redfishsim.OpenBMC, quickBMC)
	note, err := s.run(stepTPMClear, nil)
	require.NoError(t, err)
	require.Contains(t, note, "not covered: tpm")
	_, err = s.run(stepTPMClear, device.RestoreArgs{Require: []string{device.SetupTPM}})
	require.Equal(t, device.CodeNotCovered, code(err), "%v", err)
}

func TestWhatTheBMCDoesNotShowAnyMoreIsADifference(t *testing.T) {
	s := newStepper(t, redfishsim.ILO, quickBMC)
	s.bmc.Inject(redfishsim.Fault{Method: http.MethodGet, Path: "*/EventService/", Kind: redfishsim.Respond, Status: 403,
		Times: -1})
	_, err := s.run(stepBMCRestore, nil)
	require.Equal(t, device.CodeSetupMismatch, code(err), "%v", err)
	require.ErrorContains(t, err, "subscriptions")
}

// A server that was enrolled without a record keeps what it has: nothing says what is foreign.
func TestWithoutARecordNothingIsTakenAway(t *testing.T) {
	s, _ := hostile(t, redfishsim.IDRAC)
	s.enrolled.Properties = ""
	before := s.bmc.State().Setup.Accounts
	note, err := s.run(stepBMCRestore, nil)
	require.NoError(t, err)
	require.Contains(t, note, "not recorded at the enrollment: accounts")
	require.Equal(t, before, s.bmc.State().Setup.Accounts)
}

// F11
func TestRestoringStepsChangeNothingOnAnotherServer(t *testing.T) {
	for _, step := range []string{stepTPMClear, stepBMCRestore} {
		testAnotherSystem(t, redfishsim.IDRAC, step, func(s *stepper) any {
			s.bmc.Change(func(state *redfishsim.State) { state.Plant(redfishsim.IDRAC) })
			return nil
		})
	}
}

// S3.36
func TestRestoringStepsAreInterruptedEverywhere(t *testing.T) {
	for step, all := range map[string][]redfishsim.Personality{
		stepBootRestore: {redfishsim.IDRAC, redfishsim.Supermicro}, // with the later ones
		stepTPMClear:    {redfishsim.IDRAC},
		stepBMCRestore:  {redfishsim.IDRAC, redfishsim.XCC},
	} {
		for _, p := range all {
			t.Run(string(p)+" "+step, func(t *testing.T) {
				before := redfishsim.New(p).State().Setup
				build := func(t *testing.T) *stepper {
					s, _ := hostile(t, p)
					return s
				}
				ordeal(t, build, step, nil, func(t *testing.T, s *stepper, err error) {
					require.NoError(t, err, "said: %v", s.said)
					state := s.bmc.State().Setup
					switch step {
					case stepBootRestore:
						// What an iDRAC does not delete is disabled.
						require.Equal(t, before.Order, state.Order[:len(before.Order)])
						require.Equal(t, "Disabled", state.Override)
					case stepTPMClear:
						require.Empty(t, state.TPM.Owner)
					default:
						require.Equal(t, before.Accounts, state.Accounts)
						require.Equal(t, before.Subscriptions, state.Subscriptions)
						require.Equal(t, before.Protocols, state.Protocols)
						require.Equal(t, before.Interfaces, state.Interfaces)
					}
				}, false)
			})
		}
	}
}

// A lockdown is lifted for a step and set again as it was recorded, and a session that begins while those of others
// are ended is its owner's.
func TestALockdownIsSetAgainAndLaterSessionsStay(t *testing.T) {
	for _, p := range []redfishsim.Personality{redfishsim.IDRAC, redfishsim.Supermicro} {
		s := newStepper(t, p, quickBMC, func(_ *redfishsim.Config, s *redfishsim.State) { s.Setup.Lockdown = true })
		session := func(id string) {
			s.bmc.Change(func(state *redfishsim.State) {
				state.Sessions = append(state.Sessions, &redfishsim.Session{ID: id, Token: id, User: "other"})
			})
		}
		session("earlier")
		came := false
		s.mayGoOn = func() error {
			if !came && strings.Contains(strings.Join(s.said, "\n"), "restores sessions") {
				came = true
				session("later")
			}
			return nil
		}
		for _, step := range []string{"bios_reset", stepBMCRestore} {
			_, err := s.run(step, nil)
			require.NoError(t, err, step)
			require.True(t, s.bmc.State().Setup.Lockdown, step)
		}
		require.Equal(t, []string{"later"}, s.bmc.OpenSessions())
	}
}
