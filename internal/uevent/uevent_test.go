package uevent

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"burnish/internal/testkit/loops"
)

func TestParse(t *testing.T) {
	t.Parallel()
	e, ok := parse([]byte("remove@/devices/pci0000:00/0000:00:04.0/nvme/nvme0/nvme0n1\x00ACTION=remove\x00" +
		"DEVPATH=/devices/pci0000:00/0000:00:04.0/nvme/nvme0/nvme0n1\x00SUBSYSTEM=block\x00DEVNAME=nvme0n1\x00"))
	require.True(t, ok)
	require.Equal(t,
		Event{Action: "remove", Subsystem: "block", Path: "/devices/pci0000:00/0000:00:04.0/nvme/nvme0/nvme0n1"}, e)
	require.False(t, e.Requested)
	e, _ = parse([]byte("change@/devices/virtual/block/loop0\x00SUBSYSTEM=block\x00SYNTH_UUID=0\x00"))
	require.True(t, e.Requested)
	for _, other := range []string{"", "libudev\x00\xfe\xed\xca\xfe", "add@relative\x00SUBSYSTEM=block\x00"} {
		_, ok := parse([]byte(other))
		require.False(t, ok, "%q", other)
	}
}

// A disk below a subsystem is that of the subsystem's controllers.
func TestControllersOfASubsystem(t *testing.T) {
	t.Parallel()
	const subsystem = "/devices/virtual/nvme-subsystem/nvme-subsys0"
	dir := t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(dir, subsystem, "nvme0n1"), 0o700))
	target := "../../../pci0000:00/0000:00:04.0/nvme/nvme0"
	require.NoError(t, os.Symlink(target, filepath.Join(dir, subsystem, "nvme0")))
	for path, want := range map[string][]string{
		subsystem + "/nvme0n1": {target}, subsystem + "/nvme0n2": {target}, subsystem: {target},
		"/devices/virtual/nvme-subsystem/nvme-subsys1/nvme1n1": nil, "/devices/virtual/block/loop0": nil,
	} {
		require.Equal(t, want, controllers(dir, path), path)
	}
}

// The kernel's own events arrive, and closing the socket ends a wait for one.
func TestAttachingALoopIsHeard(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root attaches loop devices")
	}
	s, err := Open()
	require.NoError(t, err)
	image := filepath.Join(t.TempDir(), "image")
	require.NoError(t, os.WriteFile(image, make([]byte, 1<<20), 0o600))
	loop, err := loops.Attach(image)
	if err != nil {
		t.Skipf("no loop device: %v", err)
	}
	defer func() { require.NoError(t, loops.Detach(loop)) }()
	heard, ended := make(chan Event, 64), make(chan error, 1)
	go func() {
		for {
			e, err := s.Read()
			if err != nil {
				ended <- err
				return
			}
			if e.Subsystem == "block" && strings.HasSuffix(e.Path, "/"+filepath.Base(loop)) {
				heard <- e
			}
		}
	}()
	select {
	case e := <-heard:
		require.Contains(t, []string{"add", "change"}, e.Action)
	case <-time.After(30 * time.Second):
		require.Fail(t, "the kernel's event did not come")
	}
	require.NoError(t, s.Close())
	select {
	case err := <-ended:
		require.Error(t, err)
	case <-time.After(30 * time.Second):
		require.Fail(t, "Read goes on after Close")
	}
}
