package e2e

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"burnish/internal/device"
)

// One device from one tenant to the next.
func TestTurnover(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.Run(t, "all")
	turnovers := map[string]func(*testing.T){}
	for _, kind := range []string{"fake", "block"} {
		turnovers[kind] = func(t *testing.T) {
			size := int64(8 * MiB)
			if kind == "block" {
				size += 3*512 + 100 // a tail that O_DIRECT refuses
			}
			d := s.Device(t, kind, kind, size, 300*time.Millisecond)

			s.Enroll(t, d, "--one-time-use")
			v := s.Show(t, kind)
			require.Equal(t, device.Manageable, v.DeviceState)
			require.True(t, v.Dirty)
			s.RequireReserved(t, kind, 1)
			d.RequireStamps(t, 1)

			s.Must(t, "provide", kind, "--wait", "--timeout", "60s")
			s.RequireReserved(t, kind, 0)
			d.RequireZero(t)

			for tenant, nonce := range map[string]uint64{"alice": 2, "bob": 3} {
				s.Bind(t, kind, tenant)
				s.RequireReserved(t, kind, 1)
				v := s.Show(t, kind)
				require.Equal(t, device.Allocated, v.DeviceState)
				require.Equal(t, Instance(tenant), *v.InstanceUUID)
				d.Stamp(t, nonce)
				s.Refused(t, device.CodeRefused, "bind", kind, "--instance", Instance("somebody"))
				s.Refused(t, device.CodeRefused, "unbind", kind, "--instance", Instance("somebody"))
				d.RequireStamps(t, nonce)

				s.Unbind(t, kind, tenant)
				s.AwaitReturned(t, d, 30*time.Second)
			}
			v = s.Show(t, kind)
			require.Len(t, v.Cleans, 3)
			last := v.Cleans[2]
			require.Equal(t, "cleaned", last.Outcome)
			require.Len(t, last.Steps, 2)
			for i, step := range []string{"zero", "verify"} {
				require.Equal(t, step, last.Steps[i].Step)
				require.Equal(t, d.Size, last.Steps[i].Bytes)
				require.Zero(t, last.Steps[i].ReprocessedBytesMax)
			}
		}
	}
	beside(t, turnovers)
}
