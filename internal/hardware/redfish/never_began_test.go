package redfish

import (
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"burnish/internal/device"
	"burnish/internal/testkit/redfishsim"
)

// updating gives a server whose drives were erased, so that its BMC has tasks, and the path of the
// request that gives it an image.
func updating(t *testing.T, p redfishsim.Personality) (s *stepper, b *hooked, path string) {
	t.Helper()
	b = startHooked(t, p, twoDrives)
	s = stepperOf(t, b.Server)
	_, err := s.run("erase_drives", nil)
	require.NoError(t, err)
	return s, b, b.Config().MultipartPath + "*"
}

// An image that the BMC has got whole and has not acted on, because the worker was killed: the next
// one reads until the BMC would show the update, and sends it once more. Where that happens twice,
// or nothing says that this BMC shows updates, the operator is called.
func TestAnUpdateThatNeverBeganAfterAKillIsSentOnceMore(t *testing.T) {
	each(t, func(t *testing.T, p redfishsim.Personality) {
		for kills := 1; kills <= 2; kills++ {
			s, b, path := updating(t, p)
			b.Inject(redfishsim.Fault{Method: http.MethodPost, Path: path, Kind: redfishsim.HangBefore, Times: kills})
			s.killAtFaults(b)
			_, err := s.toTheEnd("firmware_reflash", s.update("BIOS"))
			s.requireNoHarm()
			if kills == 2 {
				require.Equal(t, device.CodeFirmwareUnknown, code(err), "%v", err)
				require.Empty(t, b.Commits("BIOS"))
				continue
			}
			require.NoError(t, err)
			require.Len(t, b.Commits("BIOS"), 1)
		}
	})
	s, b := newStepperHooked(t, redfishsim.IDRAC)
	b.Inject(redfishsim.Fault{Method: http.MethodPost, Path: b.Config().MultipartPath + "*", Kind: redfishsim.HangBefore})
	s.killAtFaults(b)
	_, err := s.toTheEnd("firmware_reflash", s.update("BIOS"))
	require.Equal(t, device.CodeFirmwareUnknown, code(err), "a BMC without a task may show none: %v", err)
}

func newStepperHooked(t *testing.T, p redfishsim.Personality) (*stepper, *hooked) {
	t.Helper()
	b := startHooked(t, p, twoDrives)
	return stepperOf(t, b.Server), b
}

// killAtFaults ends the worker at each request that hangs.
func (s *stepper) killAtFaults(b *hooked) {
	var killed atomic.Int64
	go s.await(s.t.Context(), func() bool {
		n := int64(0)
		for _, r := range b.Requests() {
			if r.Fault == redfishsim.HangBefore {
				n++
			}
		}
		if n > killed.Load() {
			killed.Store(n)
			s.kill()
		}
		return false
	})
}

// A BMC that restarts when it has got a request and before it acts: where it says that it has
// restarted since, what it shows then is all that there is, and the request is sent once more.
func TestWhatABMCLostByItsRestartIsSentOnceMore(t *testing.T) {
	each(t, func(t *testing.T, p redfishsim.Personality) {
		says := p == redfishsim.IDRAC || p == redfishsim.OpenBMC
		t.Run("update", func(t *testing.T) {
			s, b, path := updating(t, p)
			b.Inject(redfishsim.Fault{Method: http.MethodPost, Path: path, Kind: redfishsim.RestartBefore})
			_, err := s.toTheEnd("firmware_reflash", s.update("BIOS"))
			s.requireNoHarm()
			require.Equal(t, !says, code(err) == device.CodeFirmwareUnknown, "%v", err)
			if says {
				require.NoError(t, err)
				require.Len(t, b.Commits("BIOS"), 1)
			}
		})
		t.Run("erase", func(t *testing.T) {
			says := p == redfishsim.IDRAC // an OpenBMC forgets its tasks
			s := newStepper(t, p, twoDrives)
			s.bmc.Inject(redfishsim.Fault{Method: http.MethodPost, Path: "*SecureErase*", Kind: redfishsim.RestartBefore})
			_, err := s.toTheEnd("erase_drives", nil)
			require.Equal(t, !says, code(err) == device.CodeEraseUnknown, "%v", err)
			if says {
				require.NoError(t, err)
				state := s.bmc.State()
				for _, d := range state.Drives() {
					require.Equal(t, 1, d.Erases, d.Serial)
				}
			}
		})
	})
}

// A BMC whose clock is set has not restarted.
func TestABMCWhoseClockIsSetHasNotRestarted(t *testing.T) {
	s := newStepper(t, redfishsim.IDRAC, twoDrives)
	s.bmc.Change(func(state *redfishsim.State) { state.BMCReset = time.Now().Add(-10 * time.Minute) })
	s.bmc.Inject(redfishsim.Fault{Method: http.MethodPost, Path: "*SecureErase*", Kind: redfishsim.CutBefore})
	set := false
	s.mayGoOn = func() error {
		if !set && s.posts("SecureErase") > 0 {
			set = true
			s.bmc.Configure(func(c *redfishsim.Config) { c.ClockSkew = time.Hour })
		}
		return nil
	}
	_, err := s.run("erase_drives", nil)
	require.True(t, set)
	require.Equal(t, device.CodeEraseUnknown, code(err), "%v", err)
}

// An image whose end the BMC has not got is sent again without a question: nothing can have begun.
func TestAnImageThatIsCutOffIsSentAgain(t *testing.T) {
	each(t, func(t *testing.T, p redfishsim.Personality) {
		s, b := newStepperHooked(t, p)
		b.Inject(redfishsim.Fault{Method: http.MethodPost, Path: b.Config().MultipartPath + "*", Kind: redfishsim.CutWithin})
		// More than the network holds.
		image := append(redfishsim.Image("BIOS", "9.9.9"), make([]byte, 16<<20)...)
		args := policy(t, "BIOS", image, "9.9.9", s.component("BIOS").Version)
		_, err := s.run("firmware_reflash", args)
		f, is := device.AsFault(err)
		require.True(t, is, "%v", err)
		require.Equal(t, device.Transient, f.Class)
		require.Contains(t, string(s.journal["firmware BIOS"]), `"phase":"sending"`)
		_, err = s.run("firmware_reflash", args)
		require.NoError(t, err)
		require.Len(t, b.Commits("BIOS"), 1)
		s.requireNoHarm()
	})
}

// An image that is uploaded and waits to be started shows that its start was never carried out.
func TestAStartThatNeverBeganIsSentOnceMore(t *testing.T) {
	for _, kind := range []redfishsim.FaultKind{redfishsim.HangBefore, redfishsim.RestartBefore, redfishsim.CutBefore} {
		s, b, _ := updating(t, redfishsim.Supermicro)
		b.Inject(redfishsim.Fault{Method: http.MethodPost, Path: "*StartUpdate", Kind: kind})
		s.killAtFaults(b)
		_, err := s.toTheEnd("firmware_reflash", s.update("BIOS"))
		require.NoError(t, err, kind)
		require.Len(t, b.Commits("BIOS"), 1)
		require.Equal(t, 2, s.posts("StartUpdate"))
		s.requireNoHarm()
	}
}
