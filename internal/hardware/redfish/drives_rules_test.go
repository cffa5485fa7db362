package redfish

import (
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"burnish/internal/device"
	"burnish/internal/testkit/redfishsim"
)

// Where the drives are not the enrolled ones, or one cannot be erased, none is.
func TestNothingIsErasedBeforeEveryDriveCanBe(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*redfishsim.State)
		want   device.Code
		names  string
	}{
		"one missing": {func(s *redfishsim.State) { s.Storages[0].Drives[1].Missing = true }, device.CodeDrivesChanged,
			"missing drive S6CKNT0W700002"},
		"one extra": {func(s *redfishsim.State) {
			s.Storages[1].Drives = append(s.Storages[1].Drives, extraDrive())
		}, device.CodeDrivesChanged, "extra drive EXTRA1"},
		"one exchanged": {func(s *redfishsim.State) { s.Storages[0].Drives[0].Serial = "OTHER1" },
			device.CodeDrivesChanged, "missing drive S6CKNT0W700001; extra drive OTHER1"},
		"one not erasable": {func(s *redfishsim.State) { s.Storages[2].Drives[1].NotErasable = true },
			device.CodeDriveNotErasable, "PHYH0420003X480C"},
		"in a volume": {func(s *redfishsim.State) {
			s.Storages[0].Volumes = []redfishsim.Volume{{ID: "1", Drives: []string{"Disk.0", "Disk.1"}}}
		}, device.CodeDriveNotErasable, "S6CKNT0W700001"},
		"only unknown ways": {func(s *redfishsim.State) { s.Storages[1].Drives[0].Sanitizations = []string{"Shred"} },
			device.CodeDriveNotErasable, "only Shred"},
	} {
		t.Run(name, func(t *testing.T) {
			each(t, func(t *testing.T, p redfishsim.Personality) {
				s := newStepper(t, p)
				s.bmc.Change(c.change)
				_, err := s.run("erase_drives", nil)
				require.Equal(t, c.want, code(err), "%v", err)
				require.ErrorContains(t, err, c.names)
				require.Zero(t, s.bmc.Changes())
				_, err = s.run("verify", nil)
				require.Error(t, err)
			})
		})
	}
}

func extraDrive() *redfishsim.Drive {
	return &redfishsim.Drive{ID: "Extra.0", Serial: "EXTRA1", Model: "M", Protocol: "NVMe", CapacityBytes: 1 << 30,
		Content: "x"}
}

// The best way that a drive offers is used, and no other than it offers.
func TestTheBestSanitizationIsUsed(t *testing.T) {
	for _, c := range []struct {
		offers []string
		want   string
	}{
		{[]string{"Overwrite", "BlockErase", "CryptographicErase"}, `{"SanitizationType":"CryptographicErase"}`},
		{[]string{"Overwrite", "BlockErase"}, `{"SanitizationType":"BlockErase"}`},
		{[]string{"Overwrite"}, `{"SanitizationType":"Overwrite"}`},
		{nil, `{}`},
	} {
		t.Run(fmt.Sprint(c.offers), func(t *testing.T) {
			s := newStepper(t, redfishsim.OpenBMC, twoDrives, func(_ *redfishsim.Config, s *redfishsim.State) {
				s.Storages[1].Drives[0].Sanitizations = c.offers
			})
			_, err := s.run("erase_drives", nil)
			require.NoError(t, err)
			require.Contains(t, s.bodies("/Nvme.0/Actions/"), c.want)
		})
	}
}

// bodies are those of the writes to paths with this in them.
func (s *stepper) bodies(path string) []string {
	var all []string
	for _, w := range s.bmc.Writes() {
		if strings.Contains(w.Path, path) && w.Status < 300 {
			all = append(all, w.Body)
		}
	}
	return all
}

// An erase that a tenant has started is waited for, and does not count.
func TestATenantsEraseDoesNotCount(t *testing.T) {
	for _, staged := range []bool{false, true} {
		t.Run(fmt.Sprintf("staged %v", staged), func(t *testing.T) {
			each(t, func(t *testing.T, p redfishsim.Personality) {
				if staged && p == redfishsim.ILO {
					return // its erases have no task, and are not staged
				}
				s := newStepper(t, p, func(c *redfishsim.Config, _ *redfishsim.State) {
					c.EraseStaged = staged
					c.Delays.Erase = time.Hour // until the tenant is gone
				})
				// The tenant is another client, with this driver's means.
				tenant := &stepper{t: t, bmc: s.bmc, driver: s.driver, target: s.target, enrolled: s.enrolled}
				tenant.journal = map[string][]byte{}
				tenant.mayGoOn = func() error {
					if len(tenant.bodies("SecureErase")) == 5 {
						return &device.Fault{Class: device.Permanent, Code: device.CodeAborted, Message: "enough"}
					}
					return nil
				}
				_, err := tenant.run("erase_drives", nil)
				require.Equal(t, device.CodeAborted, code(err))
				require.Len(t, s.bmc.TenantData(), 5)
				const soon = 150 * time.Millisecond
				s.bmc.Configure(func(c *redfishsim.Config) {
					if c.Delays.Erase = soon; p == redfishsim.ILO {
						c.Delays.Erase = 2 * time.Second // no task: it is seen while it runs, or never
					}
				})
				s.bmc.Change(func(state *redfishsim.State) {
					for _, work := range state.Work {
						work.Due = time.Now().Add(soon)
					}
					for _, storage := range state.Storages {
						for _, d := range storage.Drives {
							d.Lies = d.Erases == 1 // the tenant's erases leave the data
						}
					}
				})
				_, err = s.run("verify", nil)
				require.Equal(t, device.CodeVerifyFailed, code(err))
				note, err := s.run("erase_drives", nil)
				require.NoError(t, err)
				require.Contains(t, note, "5 drives erased")
				require.Contains(t, note, "PHLN123400001P6AGN CryptographicErase")
				state := s.bmc.State()
				for _, d := range state.Drives() {
					require.Equal(t, 2, d.Erases, d.Serial)
				}
				s.requireNoHarm()
			})
		})
	}
}

// Staged erases are carried out in POST. They get one reset, together.
func TestStagedErasesGetTheirReset(t *testing.T) {
	each(t, func(t *testing.T, p redfishsim.Personality) {
		if p == redfishsim.ILO {
			return // its erases have no task, and are not staged
		}
		s := newStepper(t, p, func(c *redfishsim.Config, _ *redfishsim.State) { c.EraseStaged = true })
		_, err := s.run("erase_drives", nil)
		require.NoError(t, err)
		require.Empty(t, s.bmc.TenantData())
		require.Equal(t, 2, s.bmc.State().ResetCount, "off and on")
		s.requireNoHarm()
	})
}

// A task that ends in any other way than Completed and OK, without a critical message, has
// erased nothing.
func TestAnEraseThatFailedIsNoErase(t *testing.T) {
	for _, how := range []redfishsim.Ending{redfishsim.CompletedCritical, redfishsim.CompletedMessage,
		redfishsim.Exception, redfishsim.Canceled, redfishsim.Stalls} {
		t.Run(string(how), func(t *testing.T) {
			each(t, func(t *testing.T, p redfishsim.Personality) {
				if p == redfishsim.ILO && how != redfishsim.Stalls {
					return // without a task nothing says that it failed
				}
				s := newStepper(t, p, twoDrives, func(c *redfishsim.Config, s *redfishsim.State) {
					c.Endings[redfishsim.KindErase] = how
					for _, storage := range s.Storages {
						storage.Drives[0].CapacityBytes = 1 << 20
					}
				})
				s.settings.SanitizeStall = 100 * time.Millisecond
				_, err := s.run("erase_drives", nil)
				want := device.CodeStepFailed
				if how == redfishsim.Stalls {
					want = device.CodeNoProgress
				}
				require.Equal(t, want, code(err), "%v", err)
				_, err = s.run("verify", nil)
				require.Equal(t, device.CodeVerifyFailed, code(err))
			})
		})
	}
}

// Verify believes only this clean's evidence, of the drives that are there now, healthy and idle: one that is being
// erased, or whose erase waits for a reset, would take the next tenant's data.
func TestVerifyNeedsEvidenceForEachDrive(t *testing.T) {
	state := func(change func(*redfishsim.State)) func(*stepper) {
		return func(s *stepper) { s.bmc.Change(change) }
	}
	for name, tc := range map[string]struct {
		change func(*stepper)
		want   device.Code
		says   string
	}{
		"one more": {state(func(s *redfishsim.State) {
			s.Storages[0].Drives = append(s.Storages[0].Drives, extraDrive())
		}), device.CodeDrivesChanged, "extra drive EXTRA1"},
		"off":                 {state(off), device.CodeServerNotReady, "off"},
		"of an earlier clean": {(*stepper).newClean, device.CodeVerifyFailed, "no record"},
		"busy":                {state(erasing), device.CodeVerifyFailed, "it is busy: Sanitize"},
		"waits": {func(s *stepper) {
			at := s.bmc.Writes()[0].Path
			s.bmc.Change(func(state *redfishsim.State) {
				state.Tasks = append(state.Tasks, &redfishsim.Task{ID: "JID_77", Name: "Odd", State: "Pending", Status: "OK",
					Start: time.Now(), TargetURI: at, Operation: http.MethodPost})
			})
		}, device.CodeVerifyFailed, "the task JID_77 (Odd) is Pending"},
		"of an odd state": {func(s *stepper) {
			s.speaking(redfishsim.Dialect{Properties: map[string]any{"Status": odd}})
		}, device.CodeVerifyFailed, "never seen"},
	} {
		t.Run(name, func(t *testing.T) {
			each(t, func(t *testing.T, p redfishsim.Personality) {
				if name == "waits" && p == redfishsim.IDRAC {
					return // its tasks do not say of which drive they are
				}
				s := newStepper(t, p, twoDrives)
				_, err := s.run("erase_drives", nil)
				require.NoError(t, err)
				_, err = s.run("verify", nil)
				require.NoError(t, err)
				tc.change(s)
				changes := s.bmc.Changes()
				_, err = s.run("verify", nil)
				require.Equal(t, tc.want, code(err), "%v", err)
				require.ErrorContains(t, err, tc.says)
				require.Equal(t, changes, s.bmc.Changes(), "verify only reads")
			})
		})
	}
}

// erasing is a server of which a drive is being erased, by whomever.
func erasing(s *redfishsim.State) {
	s.Work = append(s.Work, &redfishsim.Work{Kind: redfishsim.KindErase, Drive: "PHLN123400001P6AGN", Started: time.Now(),
		Due: time.Now().Add(time.Hour)})
}

// Many drives are erased at once, but not all.
func TestOnlySoManyDrivesAreErasedAtOnce(t *testing.T) {
	s := newStepper(t, redfishsim.OpenBMC, func(c *redfishsim.Config, s *redfishsim.State) {
		for n := range 12 {
			d := extraDrive()
			d.ID, d.Serial = fmt.Sprintf("More.%d", n), fmt.Sprintf("MORE%d", n)
			s.Storages[0].Drives = append(s.Storages[0].Drives, d)
		}
		c.Delays.Erase = 100 * time.Millisecond
	})
	most := 0
	s.mayGoOn = func() error {
		most = max(most, len(s.bmc.State().Work))
		return nil
	}
	_, err := s.run("erase_drives", nil)
	require.NoError(t, err)
	require.Empty(t, s.bmc.TenantData())
	require.LessOrEqual(t, most, erasesAtOnce)
	require.Greater(t, most, 1)
}

// A system that was exchanged for another before the request of this number gets none that changes
// anything.
func (s *stepper) requireNothingForAnother(step string, args any, number int) {
	s.t.Helper()
	at, writes := s.bmc.Count()+number-1, atomic.Int64{}
	writes.Store(-1)
	s.bmc.Inject(redfishsim.Fault{Number: at, Kind: redfishsim.SlowAfter, Then: func() {
		s.bmc.Change(func(state *redfishsim.State) { state.Serial, state.ChassisSerial = "ANOTHER", "ANOTHER" })
		writes.Store(int64(len(s.bmc.Writes())))
	}})
	_, err := s.toTheEnd(step, args)
	if writes.Load() < 0 {
		return // it had ended
	}
	if next := s.bmc.Requests()[at:]; len(next) > 0 && next[0].Method != http.MethodGet {
		return // the waits of this run were others: the identity was read just before
	}
	require.Equal(s.t, device.CodeSerialMismatch, code(err), "%v", err)
	require.EqualValues(s.t, writes.Load(), len(s.bmc.Writes()))
}

func testAnotherSystem(t *testing.T, p redfishsim.Personality, step string, args func(s *stepper) any) {
	t.Helper()
	build := func(t *testing.T) *stepper {
		return newStepper(t, p, twoDrives)
	}
	var log []redfishsim.Request
	virtually(t, func(t *testing.T) {
		s := build(t)
		before := s.bmc.Count()
		_, err := s.run(step, args(s))
		require.NoError(t, err)
		log = s.bmc.Requests()[before:]
	})
	begin, wait := severalAtOnce(t)
	defer wait()
	for _, number := range worthTrouble(log, trouble{reads: true}) {
		if log[number-1].Method != http.MethodGet || number == 1 {
			continue // its identity was read just before
		}
		begin(fmt.Sprint(step, number), func(t *testing.T) {
			s := build(t)
			s.requireNothingForAnother(step, args(s), number)
		})
	}
}

// F11
func TestAnotherSystemIsNotErased(t *testing.T) {
	each(t, func(t *testing.T, p redfishsim.Personality) {
		testAnotherSystem(t, p, "erase_drives", func(*stepper) any { return nil })
	})
}

// F11
func TestAnotherSystemIsNotUpdated(t *testing.T) {
	each(t, func(t *testing.T, p redfishsim.Personality) {
		testAnotherSystem(t, p, "firmware_reflash", func(s *stepper) any { return s.update("BIOS") })
	})
}

// A large drive that shows whole percents only is given the time that they take.
func TestALargeDriveStallsLater(t *testing.T) {
	large := &drive{Shown: []*driveResource{{CapacityBytes: 20_000_000_000_000}}}
	require.Equal(t, 50_000*time.Second, stallOf(10*time.Minute, large))
	require.Equal(t, 10*time.Minute, stallOf(10*time.Minute, &drive{Shown: []*driveResource{{CapacityBytes: 1 << 30}}}))
	require.Zero(t, stallOf(0, large))
}

// A BMC lists its drives one by one after a reset.
func TestDrivesAreNotCountedDuringAReset(t *testing.T) {
	s := newStepper(t, redfishsim.IDRAC, twoDrives)
	h := s.open()
	s.bmc.Inject(redfishsim.Fault{Method: http.MethodGet, Path: "*/Drives/*", Kind: redfishsim.HoldAfter})
	listed := make(chan error)
	before := s.bmc.Count()
	go func() {
		_, err := h.drives(t.Context())
		listed <- err
	}()
	require.Eventually(t, func() bool {
		all := s.bmc.Requests()[before:]
		return len(all) > 0 && all[len(all)-1].Fault == redfishsim.HoldAfter
	}, time.Minute, time.Millisecond)
	s.bmc.Change(func(state *redfishsim.State) { state.LastReset = state.LastReset.Add(time.Hour) })
	s.bmc.ClearFaults()
	err := <-listed
	require.Equal(t, device.CodeServerNotReady, code(err), "%v", err)
	require.NoError(t, h.Close())
}
