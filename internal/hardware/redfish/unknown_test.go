package redfish

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"burnish/internal/device"
	"burnish/internal/hardware"
	"burnish/internal/testkit/redfishsim"
)

// posts counts the POSTs to paths with this in them, whatever has come of them.
func (s *stepper) posts(path string) int {
	n := 0
	for _, w := range s.bmc.Writes() {
		if w.Method == http.MethodPost && strings.Contains(w.Path, path) {
			n++
		}
	}
	return n
}

// An erase whose answer was lost is sent again once none of the drive runs, and the task of an earlier
// erase is not taken for its own. A request that was lost twice is, too.
func TestALostEraseIsSentAgainOnceNoneRuns(t *testing.T) {
	each(t, func(t *testing.T, p redfishsim.Personality) {
		for _, tc := range []struct {
			kind          redfishsim.FaultKind
			times, erases int
		}{
			{redfishsim.CutBefore, 1, 1}, {redfishsim.CutBefore, 2, 1}, {redfishsim.CutAfter, 1, 2},
			{redfishsim.RestartBefore, 1, 1}, {redfishsim.RestartAfter, 1, 2},
		} {
			s := newStepper(t, p, twoDrives)
			_, err := s.run("erase_drives", nil)
			require.NoError(t, err)
			s.bmc.Change(func(state *redfishsim.State) { state.Storages[1].Drives[0].Content = "of the next tenant" })
			s.newClean()
			before, erases := s.posts("Nvme.0"), s.bmc.State().Storages[1].Drives[0].Erases
			s.bmc.Inject(redfishsim.Fault{Method: "POST", Path: "*Nvme.0*", Kind: tc.kind, Times: tc.times})
			_, err = s.run("erase_drives", nil)
			require.NoError(t, err)
			require.Equal(t, before+1+tc.times, s.posts("Nvme.0"))
			require.Equal(t, erases+tc.erases, s.bmc.State().Storages[1].Drives[0].Erases)
			require.Empty(t, s.bmc.TenantData())
			_, err = s.run("verify", nil)
			require.NoError(t, err)
			s.requireNoHarm()
		}
	})
}

// A task that is gone proves nothing where the drive did not show its erase either. What never shows
// is the operator's in the end.
func TestATaskThatIsGoneIsUnknown(t *testing.T) {
	each(t, func(t *testing.T, p redfishsim.Personality) {
		s := newStepper(t, p, twoDrives, func(c *redfishsim.Config, _ *redfishsim.State) {
			if c.EraseForm != redfishsim.NoTask {
				c.Delays.Erase = time.Hour
			} else {
				c.Delays.Erase = 0 // it has ended before it can be seen
			}
		})
		s.mayGoOn = func() error {
			s.bmc.Change(func(state *redfishsim.State) { state.Work, state.Tasks = nil, nil })
			return nil
		}
		_, err := s.run("erase_drives", nil)
		require.Equal(t, device.CodeEraseUnknown, code(err), "%v", err)
		require.Equal(t, maxTries, s.posts("Nvme.0"))
		_, err = s.run("verify", nil)
		require.Equal(t, device.CodeVerifyFailed, code(err))
	})
}

// Where there is no task, the drive must have shown an erase: what else it does is none.
func TestASelfTestIsNoErase(t *testing.T) {
	s := newStepper(t, redfishsim.ILO, twoDrives)
	s.bmc.Configure(func(c *redfishsim.Config) { c.Delays.Erase = 200 * time.Millisecond })
	s.speaking(redfishsim.Dialect{Properties: map[string]any{"OperationName": "DeviceSelfTest", "Operation": nil}})
	_, err := s.run("erase_drives", nil)
	require.Equal(t, device.CodeEraseUnknown, code(err), "%v", err)
	require.ErrorContains(t, err, "has shown an erase, but DeviceSelfTest")
	_, err = s.run("verify", nil)
	require.Equal(t, device.CodeVerifyFailed, code(err), "%v", err)
}

// BMCs show an erase some time after they have accepted it: until then it may be running.
func TestALostEraseIsNotSentAgainAtOnce(t *testing.T) {
	s := newStepper(t, redfishsim.Supermicro, twoDrives)
	h := s.open()
	run := hardware.StepRun{Save: s.save, Progress: func(int, string) error { return nil }}
	e := &eraser{h: h, run: run, pauses: quickTiming.wait(always)}
	defer e.pauses.stop()
	require.NoError(t, e.judge(t.Context()))
	r := e.records[0]
	r.Tries, r.quiet = 1, time.Now().Add(time.Minute)
	require.NoError(t, e.begin(t.Context(), r, nil))
	require.Zero(t, s.posts("SecureErase"))
	r.quiet = time.Now().Add(-time.Minute)
	require.NoError(t, e.begin(t.Context(), r, nil))
	require.Equal(t, 1, s.posts("SecureErase"))
	require.Equal(t, 2, r.Tries)
	require.NoError(t, h.Close())
}

// An erase that was accepted, and that nothing shows to the next worker, is sent again by that one.
func TestAnAcceptedEraseThatIsGoneIsSentAgainByTheNextWorker(t *testing.T) {
	each(t, func(t *testing.T, p redfishsim.Personality) {
		s := newStepper(t, p, twoDrives)
		killed := false
		s.onSave = func(_ int, store func() error) error {
			if err := store(); err != nil || killed || !strings.Contains(string(s.journal[eraseEvidence]), `"accepted"`) {
				return err
			}
			killed = true
			s.bmc.Change(func(state *redfishsim.State) { state.Work, state.Tasks = nil, nil })
			s.kill()
			return errKilled
		}
		_, err := s.toTheEnd("erase_drives", nil)
		require.NoError(t, err)
		require.True(t, killed)
		require.Equal(t, 3, s.posts("SecureErase"))
		require.Empty(t, s.bmc.TenantData())
		s.requireNoHarm()
	})
}

// A worker that dies when the BMC has the image continues where it was.
func TestAnUpdateGoesOnAfterACrash(t *testing.T) {
	each(t, func(t *testing.T, p redfishsim.Personality) {
		s := newStepper(t, p, twoDrives)
		s.bmc.Inject(redfishsim.Fault{Method: http.MethodPost, Path: s.bmc.Config().MultipartPath + "*",
			Kind: redfishsim.HangAfter, Then: s.kill})
		_, err := s.toTheEnd("firmware_reflash", s.update("BIOS"))
		require.Positive(t, s.kills)
		if p == redfishsim.XCC { // it shows neither a task nor what waits for the reset: that is the operator's
			require.Equal(t, device.CodeFirmwareUnknown, code(err), "%v", err)
			require.LessOrEqual(t, len(s.bmc.Commits("BIOS")), 1)
			return
		}
		require.NoError(t, err)
		require.Len(t, s.bmc.Commits("BIOS"), 1)
		s.requireNoHarm()
	})
}

// A worker that dies while the BMC fetches the image does not serve it again.
func TestAnImageIsNotServedAgainAfterACrash(t *testing.T) {
	s := newStepper(t, redfishsim.IDRAC, twoDrives, func(c *redfishsim.Config, _ *redfishsim.State) {
		c.MultipartPath = ""
	})
	s.target.Settings[imageAddress] = "127.0.0.1"
	s.bmc.Inject(redfishsim.Fault{Method: "POST", Path: "*SimpleUpdate", Kind: redfishsim.HangAfter, Then: s.kill})
	_, err := s.toTheEnd("firmware_reflash", s.update("BIOS"))
	require.Positive(t, s.kills)
	if err != nil {
		require.Contains(t, []device.Code{device.CodeFirmwareUnknown, device.CodeStepFailed}, code(err), "%v", err)
	} else {
		require.Equal(t, "9.9.9", s.component("BIOS").Version)
	}
	require.LessOrEqual(t, len(s.bmc.Commits("BIOS")), 1)
	require.Equal(t, 1, s.posts("SimpleUpdate"))
	s.requireNoHarm()
}

// An image, or the start of one that was uploaded, is sent once in a clean: where the worker was killed, or the BMC
// has restarted before it acted, the operator is called, whose clean sends it. The task of an earlier update is not
// taken for its own.
func TestAnUpdateThatNeverBeganIsTheOperators(t *testing.T) {
	each(t, func(t *testing.T, p redfishsim.Personality) {
		for _, kind := range []redfishsim.FaultKind{redfishsim.HangBefore, redfishsim.RestartBefore, redfishsim.CutBefore} {
			s := newStepper(t, p, twoDrives)
			_, err := s.run("firmware_reflash",
				policy(t, "BIOS", redfishsim.Image("BIOS", "9.9.8"), "9.9.8", s.component("BIOS").Version))
			require.NoError(t, err)
			s.newClean()
			path, starts := s.bmc.Config().MultipartPath, p == redfishsim.Supermicro && kind != redfishsim.RestartBefore
			if starts {
				path = "/redfish/v1/UpdateService/Actions/UpdateService.StartUpdate"
			}
			fault := redfishsim.Fault{Method: http.MethodPost, Path: path + "*", Kind: kind}
			if kind == redfishsim.HangBefore {
				fault.Then = s.kill
			}
			s.bmc.Inject(fault)
			args, before := s.update("BIOS"), s.posts(path)
			for range 2 {
				_, err := s.toTheEnd("firmware_reflash", args)
				require.Equal(t, device.CodeFirmwareUnknown, code(err), "%s: %v", kind, err)
			}
			require.Len(t, s.bmc.Commits("BIOS"), 1)
			require.Equal(t, before+1, s.posts(path))
			s.requireNoHarm()
			s.newClean()
			s.bmc.ClearFaults()
			if starts { // its upload is staged, and nobody's
				s.bmc.Change(func(state *redfishsim.State) { state.Upload = nil })
			}
			_, err = s.toTheEnd("firmware_reflash", args)
			require.NoError(t, err)
			require.Len(t, s.bmc.Commits("BIOS"), 2)
		}
	})
}

// An image whose end the BMC has not got is sent again without a question: nothing can have begun.
func TestAnImageThatIsCutOffIsSentAgain(t *testing.T) {
	each(t, func(t *testing.T, p redfishsim.Personality) {
		s := newStepper(t, p, twoDrives)
		s.bmc.Inject(redfishsim.Fault{Method: http.MethodPost, Path: s.bmc.Config().MultipartPath + "*",
			Kind: redfishsim.CutWithin})
		// More than the network holds.
		image := append(redfishsim.Image("BIOS", "9.9.9"), make([]byte, 16<<20)...)
		_, err := s.run("firmware_reflash", policy(t, "BIOS", image, "9.9.9", s.component("BIOS").Version))
		require.NoError(t, err)
		require.Len(t, s.bmc.Commits("BIOS"), 1)
		s.requireNoHarm()
	})
}

// Names of firmware differ from vendor to vendor; what was, what is a copy and what is staged is
// not what runs.
func TestTheRunningEntryIsFound(t *testing.T) {
	dell := []*software{
		{ID: "Previous-159-2.17.0__BIOS.Setup.1-1", Name: "BIOS", Version: "2.17.0"},
		{ID: "Installed-159-2.18.1__BIOS.Setup.1-1", Name: "BIOS", Version: "2.18.1"},
		{ID: "Available-159-2.19.0__BIOS.Setup.1-1", Name: "BIOS", Version: "2.19.0"},
		{ID: "Installed-25227-5.10__iDRAC.Embedded.1-1", Name: "Integrated Dell Remote Access Controller", Version: "5.10"},
	}
	supermicro := []*software{
		{ID: "Backup_BIOS", Name: "Backup BIOS", Version: "1.4"}, {ID: "Golden_BIOS", Name: "BIOS", Version: "1.0"},
		{ID: "Staging_BIOS", Name: "BIOS", Version: "1.5"}, {ID: "BIOS", Name: "BIOS", Version: "1.4b"}, {ID: "BMC",
			Name: "BMC", Version: "01.01.06"},
	}
	hpe := []*software{
		{ID: "1", Name: "iLO 5", Version: "2.72 Sep 04 2022"}, {ID: "7", Name: "Redundant System ROM",
			Version: "U54 v2.66 (04/20/2022)"},
		{ID: "6", Name: "System ROM", Version: "U54 v2.68 (07/14/2022)"},
	}
	openbmc := []*software{
		{ID: "bios_active", Name: "Host image", Version: "1.08"}, {ID: "4ab1", Name: "BMC image", Version: "2.12.0"},
		{ID: "77c2", Name: "BMC image", Version: "2.13.0", Status: resourceStatus{State: "StandbySpare"}},
	}
	for _, c := range []struct {
		all             []*software
		component, want string
	}{
		{dell, "BIOS", "2.18.1"}, {dell, "bios.setup.1-1", "2.18.1"}, {dell, "BMC", "5.10"},
		{supermicro, "BIOS", "1.4b"}, {supermicro, "BMC", "01.01.06"},
		{hpe, "System ROM", "U54 v2.68 (07/14/2022)"}, {hpe, "BIOS", "U54 v2.68 (07/14/2022)"}, {hpe, "6",
			"U54 v2.68 (07/14/2022)"}, {hpe, "bmc", "2.72 Sep 04 2022"},
		{openbmc, "bios_active", "1.08"}, {openbmc, "BIOS", "1.08"}, {openbmc, "BMC", "2.12.0"},
	} {
		found, err := runningOf(c.all, c.component, "/redfish/v1/Systems/1")
		require.NoError(t, err)
		require.Equal(t, c.want, found.Version)
	}
	for _, component := range []string{"Redundant System ROM", "7", "GPU"} {
		_, err := runningOf(hpe, component, "/redfish/v1/Systems/1")
		require.Equal(t, device.CodeInvalidSetting, code(err))
	}
	_, err := runningOf(append(dell, &software{ID: "Installed-1-1__BIOS.Setup.2-1", Name: "BIOS", Version: "1"}), "BIOS",
		"/redfish/v1/Systems/1")
	require.Equal(t, device.CodeInvalidSetting, code(err), "which of the two is unknown")
}
