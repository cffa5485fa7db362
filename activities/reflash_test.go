package activities_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"burnish/internal/device"
	"burnish/internal/hardware"
	"burnish/internal/host"
)

// The host records the firmware that a step gives a device before the device can run it. It
// counts for the same unit, in this clean and the next, until the device has another tenant.
//
// F20
func TestReflashIsRecordedUntilTheNextBinding(t *testing.T) {
	t.Parallel()
	s := newTestHost(t)
	crash := &device.Fault{Class: device.Transient, Code: device.CodeIO, Message: "the worker is gone"}
	s.disk.intercept(func(call string, _ int64, _ context.Context) error {
		if call == "perform firmware_reflash" {
			return crash
		}
		return nil
	})
	in := s.input("firmware_reflash")
	_, err := s.run(first(t), in)
	require.Error(t, err, "it ended after the record")
	s.disk.intercept(nil)
	require.Equal(t, host.Reflashed{Revision: "2.0", Serial: "S1", Binding: 3}, s.record("d1").Reflashed)

	var seen string
	s.disks.found = func(t hardware.Target, _ device.Identity) error {
		seen = t.Reflashed
		return nil
	}
	seq := in.Seq
	for _, tt := range []struct {
		serial  string
		binding int
		want    string
	}{{"S1", 3, "2.0"}, {"S1", 4, ""}, {"S2", 3, ""}} {
		seq++
		s.disk.identity.Serial = tt.serial
		next := s.input("zero")
		next.Seq, next.Binding, next.Clean = seq, tt.binding, "run/2"
		_, err := s.run(first(t), next)
		require.NoError(t, err)
		require.Equal(t, tt.want, s.disk.reflashed, "step, %+v", tt)
	}
	for _, tt := range []struct {
		binding int
		want    string
	}{{4, ""}, {3, "2.0"}} {
		s.disk.identity.Serial = "S1"
		look := s.firstDiscovery("d1")
		look.Known, look.Binding = s.disk.identity, tt.binding
		_, err := s.discover(t, look)
		require.NoError(t, err)
		require.Equal(t, tt.want, seen, "discovery, binding %d", tt.binding)
	}
}
