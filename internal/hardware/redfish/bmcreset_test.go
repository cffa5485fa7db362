package redfish

import (
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"burnish/internal/device"
	"burnish/internal/host"
	"burnish/internal/testkit/redfishsim"
	"burnish/internal/testkit/simserver"
)

// secretHas changes the secret of the BMC.
func (s *stepper) secretHas(change func(*host.Secret)) {
	before := s.driver.host.Secret
	s.driver.host.Secret = func(name string) (host.Secret, error) {
		secret, err := before(name)
		change(&secret)
		return secret, err
	}
}

func firstPassword(s *host.Secret) { s.FirstPassword = redfishsim.FirstPassword }

// alone is a BMC with one account and no subscription. Others that a reset takes away cannot be made again: their
// secrets are not recorded.
func alone(_ *redfishsim.Config, s *redfishsim.State) {
	s.Setup.Accounts, s.Setup.Subscriptions = s.Setup.Accounts[:1], nil
}

// A BMC is reset to its defaults, with its accounts or with the first password, which is changed, and what that
// has changed is set back as it was recorded. One that has no reset which keeps its address is not reset.
func TestABMCIsResetToItsDefaults(t *testing.T) {
	for name, change := range map[string]func(*host.Secret){"accounts stay": func(*host.Secret) {},
		"first password": firstPassword} {
		t.Run(name, func(t *testing.T) {
			each(t, func(t *testing.T, p redfishsim.Personality) {
				virtually(t, func(t *testing.T) {
					s, before := hostile(t, p, alone)
					s.secretHas(change)
					note, err := s.run(stepBMCReset, nil)
					require.NoError(t, err)
					if p != redfishsim.IDRAC && p != redfishsim.XCC {
						require.Contains(t, note, "not covered")
						require.Zero(t, s.bmc.State().Defaults)
						return
					}
					require.Contains(t, note, "is the same one")
					require.NotContains(t, note, redfishsim.FirstPassword)
					require.Positive(t, s.bmc.State().Defaults)
					require.False(t, s.bmc.State().FirstPassword)
					_, err = s.run("security_check", nil)
					require.NoError(t, err)
					_, err = s.run(stepBMCRestore, nil)
					require.NoError(t, err)
					state := s.bmc.State().Setup
					require.Equal(t, before.Accounts, state.Accounts)
					require.Equal(t, before.Protocols, state.Protocols)
					require.Equal(t, before.Interfaces, state.Interfaces)
					require.Equal(t, before.Lockdown, state.Lockdown)
					require.Empty(t, s.bmc.Violations())
					require.Empty(t, s.bmc.OpenSessions())
				})
			})
		})
	}
}

// A BMC that restarts by itself right before the request was not reset by it: its restart says nothing.
func TestARestartBeforeTheRequestIsNotTheReset(t *testing.T) {
	virtually(t, func(t *testing.T) {
		s := newStepper(t, redfishsim.IDRAC, quickBMC, alone)
		armed := false
		s.mayGoOn = func() error {
			if !armed && slices.Contains(s.said, "resets the BMC to its defaults") {
				armed = true
				s.bmc.Inject(redfishsim.Fault{Method: http.MethodGet, Path: "/redfish/v1/Systems/*",
					Kind: redfishsim.RestartBefore})
			}
			return nil
		}
		_, err := s.run(stepBMCReset, nil)
		require.NoError(t, err)
		require.True(t, armed)
		require.Equal(t, 1, s.bmc.State().Defaults)
		require.Equal(t, 1, s.posts("ResetToDefaults"))
	})
}

// A BMC that refuses the new password twice for want of a condition has not got it: the next attempt sets it.
func TestAPasswordThatIsNotSetIsSetAgain(t *testing.T) {
	virtually(t, func(t *testing.T) {
		s := newStepper(t, redfishsim.IDRAC, quickBMC, alone)
		s.secretHas(firstPassword)
		s.bmc.Inject(redfishsim.Fault{Method: http.MethodPatch, Path: "/redfish/v1/AccountService/Accounts/*",
			Kind: redfishsim.Respond, Status: http.StatusPreconditionRequired, Times: 2})
		_, err := s.run(stepBMCReset, nil)
		require.Equal(t, device.CodeBMCLoginRefused, code(err), "%v", err)
		require.True(t, s.bmc.State().FirstPassword)
		_, err = s.run(stepBMCReset, nil)
		require.NoError(t, err)
		require.False(t, s.bmc.State().FirstPassword)
		require.Equal(t, 1, s.bmc.State().Defaults)
	})
}

// Older ones of OpenBMC call the parameter otherwise.
func TestABMCWithTheOlderParameterIsReset(t *testing.T) {
	virtually(t, func(t *testing.T) {
		s := newStepper(t, redfishsim.OpenBMC, quickBMC, alone, func(c *redfishsim.Config, _ *redfishsim.State) {
			c.Defaults, c.OlderDefaults = []string{"ResetAll", keepsUsers}, true
		})
		_, err := s.run(stepBMCReset, nil)
		require.NoError(t, err)
		require.Positive(t, s.bmc.State().Defaults)
	})
}

// S3.36: whatever fails at a reset of the BMC, it comes back with the account of the secret, which is never locked.
func TestAResetOfTheBMCIsInterruptedEverywhere(t *testing.T) {
	for name, tc := range map[string]struct {
		p      redfishsim.Personality
		change func(*host.Secret)
	}{
		"first password":              {redfishsim.IDRAC, firstPassword},
		"accounts stay":               {redfishsim.IDRAC, func(*host.Secret) {}},
		"cut off, and first password": {redfishsim.XCC, firstPassword},
		"cut off":                     {redfishsim.XCC, func(*host.Secret) {}},
	} {
		t.Run(name, func(t *testing.T) {
			build := func(t *testing.T) *stepper {
				s := newStepper(t, tc.p, quickBMC, alone)
				s.secretHas(tc.change)
				return s
			}
			ordeal(t, build, stepBMCReset, nil, func(t *testing.T, s *stepper, err error) {
				if slices.ContainsFunc(s.bmc.Requests(), func(r redfishsim.Request) bool {
					return isSessions(r.Path) && r.Fault == redfishsim.Respond && r.Status == http.StatusUnauthorized
				}) {
					// The waits of this run were others: a password that is refused is the operator's at once.
					require.Equal(t, device.CodeBMCLoginRefused, code(err), "%v", err)
					require.Empty(t, s.bmc.Violations())
					return
				}
				require.NoError(t, err, "said: %v", s.said)
				state := s.bmc.State()
				require.Positive(t, state.Defaults)
				require.False(t, state.FirstPassword)
				require.Len(t, state.Setup.Accounts, 1)
				require.True(t, state.Setup.Accounts[0].Enabled)
				require.Empty(t, s.bmc.Violations())
				_, err = s.run(stepBMCRestore, nil)
				require.NoError(t, err)
			}, false)
		})
	}
}

// A BMC that comes back as another one, or not at all, is the operator's. Another certificate is accepted only of a
// BMC that the step has reset, and that the secret's authority vouches for.
func TestABMCThatComesBackAsAnotherIsTheOperators(t *testing.T) {
	for name, tc := range map[string]struct {
		option redfishsim.Option
		change func(*host.Secret)
		// comes is what has become of the server when its BMC is back.
		comes func(*redfishsim.State)
		code  device.Code
		says  string
	}{
		"not at all": {option: func(c *redfishsim.Config, _ *redfishsim.State) { c.NeverBack = true },
			code: device.CodeBMCUnreachable, says: "has not come back"},
		"a certificate of its authority":                     {option: shows(simserver.Renewed)},
		"a certificate of its authority, and first password": {option: shows(simserver.Renewed), change: firstPassword},
		"a certificate of nobody": {option: shows(simserver.Foreign), code: device.CodeBMCUnreachable,
			says: "certificate"},
		"a certificate of nobody, which nobody checks": {option: shows(simserver.Foreign),
			change: func(s *host.Secret) { s.Insecure = true }, code: device.CodeSetupMismatch, says: "certificates"},
		"a certificate of nobody, which nobody checks, and first password": {option: shows(simserver.Foreign),
			change: func(s *host.Secret) { s.Insecure = true; firstPassword(s) }, code: device.CodeIdentityChanged,
			says: "gets no password"},
		"another service": {comes: func(s *redfishsim.State) { s.UUID = "other" }, code: device.CodeIdentityChanged,
			says: "UUID"},
		"another service, and first password": {comes: func(s *redfishsim.State) { s.UUID = "other" },
			change: firstPassword, code: device.CodeIdentityChanged, says: "gets no password"},
		"another server": {comes: func(s *redfishsim.State) { s.Serial, s.ChassisSerial = "OTHER", "OTHER" },
			code: device.CodeSerialMismatch, says: "OTHER"},
	} {
		t.Run(name, func(t *testing.T) {
			virtually(t, func(t *testing.T) {
				options := []redfishsim.Option{quickBMC, alone}
				if tc.option != nil {
					options = append(options, tc.option)
				}
				s := newStepper(t, redfishsim.IDRAC, options...)
				s.driver.timing.restart = time.Second
				if tc.change != nil {
					s.secretHas(tc.change)
				}
				s.mayGoOn = func() error {
					if tc.comes != nil && s.bmc.State().Defaults > 0 {
						s.bmc.Change(tc.comes)
					}
					return nil
				}
				note, err := s.run(stepBMCReset, nil)
				if tc.code == "" {
					require.NoError(t, err)
					require.Contains(t, note, "with another certificate")
					for range 2 { // this clean, and the next one
						_, err = s.run(stepBMCRestore, nil)
						require.NoError(t, err)
						s.newClean()
						s.restarted()
					}
					return
				}
				require.Equal(t, tc.code, code(err), "%v", err)
				require.ErrorContains(t, err, tc.says)
				f, _ := device.AsFault(err)
				require.Equal(t, device.NeedsOperator, f.Class)
				require.NotContains(t, err.Error(), redfishsim.FirstPassword)
				require.Empty(t, s.bmc.Violations())
			})
		})
	}
}

func shows(certificate simserver.Shown) redfishsim.Option {
	return func(c *redfishsim.Config, _ *redfishsim.State) { c.AnotherCertificate = certificate }
}

// A BMC that has another certificate, and was not reset by the step, is the operator's.
func TestAnotherCertificateIsTheOperators(t *testing.T) {
	each(t, func(t *testing.T, p redfishsim.Personality) {
		s := newStepper(t, p, quickBMC)
		s.bmc.Change(func(state *redfishsim.State) { state.Shown = simserver.Renewed })
		_, err := s.run(stepBMCRestore, nil)
		require.Equal(t, device.CodeSetupMismatch, code(err), "%v", err)
		require.ErrorContains(t, err, "certificates")
		require.Empty(t, s.bmc.Writes())
	})
}

// The request of a BMC that says yes and does not restart is not sent again.
func TestABMCThatDoesNotRestartIsTheOperators(t *testing.T) {
	virtually(t, func(t *testing.T) {
		s := newStepper(t, redfishsim.IDRAC, quickBMC, alone, ignores("defaults"))
		s.driver.timing.restart = time.Second
		began := time.Now()
		_, err := s.run(stepBMCReset, nil)
		require.Equal(t, device.CodeNoProgress, code(err), "%v", err)
		require.GreaterOrEqual(t, time.Since(began), s.driver.timing.restart)
		require.Equal(t, 1, s.posts("ResetToDefaults"))
	})
}

// A wrong password locks the account after some tries: the first one, which may be wrong again, is tried twice.
func TestTheFirstPasswordIsTriedTwiceAtMost(t *testing.T) {
	each(t, func(t *testing.T, p redfishsim.Personality) {
		s := newStepper(t, p)
		s.secretHas(firstPassword)
		h := s.open()
		// A worker was killed before it sent the reset.
		require.NoError(t, h.bmc.saveReset(bmcReset{Kind: keepsNetwork, Serial: s.enrolled.Serial,
			Service: s.bmc.State().UUID}))
		require.NoError(t, h.Close())
		for range 4 {
			s.restarted()
			require.NoError(t, s.open().Close())
		}
		wrong := slices.DeleteFunc(s.bmc.Requests(), func(r redfishsim.Request) bool {
			return !isSessions(r.Path) || r.Status != http.StatusUnauthorized
		})
		require.Len(t, wrong, 2)
		require.Empty(t, s.bmc.Violations())
	})
}

// A BMC that has just come back answers slowly: a login without an answer was refused for no password.
func TestALoginWithoutAnAnswerIsNoWrongPassword(t *testing.T) {
	for _, kind := range []redfishsim.FaultKind{redfishsim.CutBefore, redfishsim.CutAfter} {
		t.Run(string(kind), func(t *testing.T) {
			virtually(t, func(t *testing.T) {
				s := newStepper(t, redfishsim.IDRAC, quickBMC, alone)
				s.secretHas(firstPassword)
				armed := false
				s.mayGoOn = func() error {
					if !armed && slices.Contains(s.said, "resets the BMC to its defaults") {
						armed = true
						s.bmc.Inject(redfishsim.Fault{Method: http.MethodPost, Path: "/redfish/v1/SessionService/Sessions*",
							Kind: kind, Times: 3})
					}
					return nil
				}
				_, err := s.run(stepBMCReset, nil)
				require.NoError(t, err)
				require.True(t, armed)
				require.False(t, s.bmc.State().FirstPassword)
				require.Empty(t, s.bmc.Violations())
			})
		})
	}
}
