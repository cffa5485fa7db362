package e2e

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"burnish/internal/clean/steps"
	"burnish/internal/device"
	"burnish/internal/host"
)

// A worker is killed while it verifies, or when it is done and has not reported it; somebody else
// writes to what it has read. The next worker reads the device from its first byte, and does not
// offer it.
//
// F37
func TestWhatWasReadBeforeAKillProvesNothing(t *testing.T) {
	t.Parallel()
	for what, reached := range map[string]func(e host.Entry) bool{
		"in mid-verify":         func(e host.Entry) bool { return e.Offset >= steps.Chunk },
		"done and not reported": func(e host.Entry) bool { return e.Done },
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			s := newSite(t)
			proxy := NewProxy(t, s.Server.Address)
			w := s.Worker(t, "all")
			w.Address = proxy.Address
			w.Start(t)
			d := s.Device(t, "fake", "d1", 320*MiB, 3*time.Second) // a step that follows another would end before
			s.Enroll(t, d, "--provide")
			verified := func(ok func(host.Entry) bool) func() (bool, string) {
				return func() (bool, string) {
					e, _ := s.Journal(t, "d1")
					return e.Step == "verify" && ok(e), fmt.Sprintf("%s at %d, done %v", e.Step, e.Offset, e.Done)
				}
			}
			for last := int64(0); ; {
				PollFast(t, time.Minute, "d1 to be verified", verified(func(e host.Entry) bool { return e.Seq > last }))
				proxy.Partition() // the server learns of no result
				e, _ := s.Journal(t, "d1")
				if !e.Done {
					break
				}
				// It may have learned of it: once more.
				last = e.Seq
				proxy.Heal()
				s.AwaitReturned(t, d, time.Minute)
				s.Bind(t, "d1", "another")
				s.Unbind(t, "d1", "another")
			}
			Await(t, time.Minute, "d1 to be verified, "+what, verified(reached))
			w.Kill(t)
			secret := []byte("somebody's secret")
			file, err := os.OpenFile(d.Path, os.O_RDWR, 0)
			require.NoError(t, err)
			_, err = file.WriteAt(secret, 4096)
			require.NoError(t, err)
			require.NoError(t, file.Close())
			w.Address = s.Server.Address // what the dead worker sent stays in the proxy
			w.Start(t)
			v := s.AwaitState(t, "d1", time.Minute, device.Error)
			require.Equal(t, string(device.CodeVerifyFailed), v.Fault)
			require.Contains(t, v.LastError, "verify failed at byte 4096")
			s.RequireReserved(t, "d1", 1)

			s.Must(t, "clean", "d1", "--wait", "--timeout", "60s")
			v = s.AwaitReturned(t, d, 10*time.Second)
			proved := v.Cleans[len(v.Cleans)-1].Steps
			require.Equal(t, d.Size, proved[len(proved)-1].HeldBytes)
		})
	}
}
