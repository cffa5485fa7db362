package nvmesim_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"burnish/internal/hardware/nvme/nvmecli"
	"burnish/internal/testkit/nvmesim"
)

// small is a drive of 1 MiB.
func small(serial string) nvmesim.Controller {
	drive := nvmesim.Drive(serial)
	drive.Capacity = 1 << 20
	drive.Namespaces[0].Blocks = 1 << 20 / 512
	return drive
}

func TestFeatures(t *testing.T) {
	s := nvmesim.New(t, small("S1"))
	node := s.Node(0)
	value := func(which string) string {
		out := string(done(t, s, "get-feature", node, "-f", "4", "-s", which))
		_, after, found := strings.Cut(out, "value:")
		require.True(t, found, out)
		return strings.TrimSpace(after)
	}
	done(t, s, "set-feature", node, "-f", "4", "-v", "0x150")
	require.Contains(t, value("0"), "150")
	require.Contains(t, value("1"), "157")
	done(t, s, "reset", node)
	require.Contains(t, value("0"), "157", "it was not saved")
	done(t, s, "set-feature", node, "-f", "4", "-v", "0x150", "-s")
	done(t, s, "reset", node)
	require.Contains(t, value("0"), "150")
	require.Contains(t, value("2"), "150")
	refused(t, s, 0x10d, "set-feature", node, "-f", "7", "-v", "1", "-s")
	refused(t, s, nvmecli.StatusInvalidField, "get-feature", node, "-f", "0x30")

	done(t, s, "set-feature", node, "-n", "1", "-f", "0x84", "-v", "1")
	require.True(t, received(t, s, node, identify(0, 1), nvmecli.ParseNamespace).WriteProtected)
	refused(t, s, 0x20, "sanitize", node, "-a", "2")
	require.Equal(t, "0", attribute(t, s, "block/nvme0n1/ro"))
	done(t, s, "ns-rescan", node)
	require.Equal(t, "1", attribute(t, s, "block/nvme0n1/ro"))
}

func TestInjection(t *testing.T) {
	drive := nvmesim.Drive("S1")
	drive.Inject = []nvmesim.Injection{
		{Opcode: nvmesim.GetLog, CDW10: 0x02, Mask: 0xff, Status: 0x4006, Times: 2, Skip: 1},
		{Opcode: nvmesim.ManageNamespace, CDW10: 1, Mask: 0xf, Status: 0x6, Times: 1, AfterEffect: true},
		{Opcode: nvmesim.AttachNamespace, NoEffect: true, Times: 1},
		{Opcode: nvmesim.Rescan, Errno: int(unix.EIO), Times: 1},
		{Opcode: nvmesim.GetFeatures, Kill: true, Times: 1},
		{Opcode: nvmesim.SetFeatures, SwapTo: "S9", Times: 1},
	}
	s := nvmesim.New(t, drive)
	node := s.Node(0)
	done(t, s, healthLog.Args(node, false)...)
	refused(t, s, nvmecli.Status(6), healthLog.Args(node, false)...)
	done(t, s, sanitizeLogPage.Args(node, false)...)
	refused(t, s, nvmecli.Status(6), healthLog.Args(node, false)...)
	done(t, s, healthLog.Args(node, false)...)

	refused(t, s, nvmecli.Status(6), "delete-ns", node, "-n", "1")
	require.Equal(t, []string{"nvme0"}, nodes(t, s), "the command took effect")
	done(t, s, "create-ns", node, "--nsze", "8", "--ncap", "8", "--flbas", "0")
	done(t, s, "attach-ns", node, "-n", "1", "-c", "0")
	require.Equal(t, []string{"nvme0"}, nodes(t, s), "nothing was attached")
	done(t, s, "attach-ns", node, "-n", "1", "-c", "0")
	require.Equal(t, []string{"nvme0", "nvme0n1"}, nodes(t, s))
	_, complaint, err := nvme(t, s, "ns-rescan", node)
	require.Error(t, err)
	_, ok := nvmecli.ParseStatus(complaint)
	require.False(t, ok)
	_, _, err = nvme(t, s, "get-feature", node, "-f", "4")
	require.ErrorContains(t, err, "signal: killed")
	done(t, s, "set-feature", node, "-f", "4", "-v", "0x150")
	require.Equal(t, "S9", received(t, s, node, controllerData, nvmecli.ParseController).Serial)
}

// A command that hangs can be killed and leaves no process.
func TestHang(t *testing.T) {
	drive := nvmesim.Drive("S1")
	drive.Inject = []nvmesim.Injection{{Opcode: nvmesim.SanitizeDrive, Hang: true, AfterEffect: true, Times: 1}}
	s := nvmesim.New(t, drive)
	c := exec.Command(s.Tool(), "sanitize", s.Node(0), "-a", "4")
	require.NoError(t, c.Start())
	require.Eventually(t, func() bool { return len(s.Log()) == 1 }, time.Minute, 10*time.Millisecond)
	tracees := traced(t, c.Process.Pid)
	require.Len(t, tracees, 1)
	require.NoError(t, c.Process.Kill())
	require.Error(t, c.Wait())
	require.Eventually(t, func() bool {
		return unix.Kill(tracees[0], 0) != nil || state(tracees[0]) == "Z"
	}, time.Minute, 10*time.Millisecond)
	require.Equal(t, nvmecli.SanitizeInProgress, sanitizeLog(t, s).Status)
}

// traced are the processes that the threads of another process trace.
func traced(t *testing.T, tracer int) []int {
	t.Helper()
	all, err := filepath.Glob("/proc/[0-9]*/status")
	require.NoError(t, err)
	var found []int
	for _, one := range all {
		text, err := os.ReadFile(one)
		if err != nil {
			continue // It ended.
		}
		var pid, by int
		for line := range strings.Lines(string(text)) {
			name, value, _ := strings.Cut(line, ":")
			switch name {
			case "Pid":
				pid = number(t, value)
			case "TracerPid":
				by = number(t, value)
			}
		}
		// TracerPid is the thread that traces, which may be any of the process.
		if _, err := os.Stat(fmt.Sprintf("/proc/%d/task/%d", tracer, by)); err == nil {
			found = append(found, pid)
		}
	}
	return found
}

func number(t *testing.T, text string) int {
	t.Helper()
	n, err := strconv.Atoi(strings.TrimSpace(text))
	require.NoError(t, err)
	return n
}

// state is that of a process, "Z" for a zombie.
func state(pid int) string {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return ""
	}
	_, after, _ := strings.Cut(string(text), ") ")
	return after[:min(1, len(after))]
}

// After nvme was killed at any moment, a rescan repairs the host.
func TestKilledAnywhere(t *testing.T) {
	s := nvmesim.New(t, small("S1"))
	for i := range 12 {
		for _, command := range []string{"detach-ns", "attach-ns"} {
			ctx, cancel := context.WithTimeout(t.Context(), time.Duration(5+4*i)*time.Millisecond)
			err := exec.CommandContext(ctx, s.Tool(), command, s.Node(0), "-n", "1", "-c", "0").Run()
			cancel()
			done(t, s, "ns-rescan", s.Node(0))
			want := []string{"nvme0"}
			if s.State(0).Namespaces[0].Attached {
				want = append(want, "nvme0n1")
				require.Len(t, contents(t, s, "nvme0n1"), 1<<20)
			}
			require.Equal(t, want, nodes(t, s), "%s: %v", command, err)
		}
	}
}

// The next host removes what a killed test process left.
func TestLeftoversAreRemoved(t *testing.T) {
	const variable = "BURNISH_NVMETEST_DIE"
	if os.Getenv(variable) != "" {
		s := nvmesim.New(t, small("S1"))
		require.NoError(t, os.WriteFile(os.Getenv(variable), []byte(s.Dir), 0o600))
		require.NoError(t, unix.Kill(os.Getpid(), unix.SIGKILL))
	}
	t.Setenv("TMPDIR", t.TempDir()) // another process's new host would remove them, too
	nvmesim.New(t, small("S1"))     // it skips the test where emulation is unavailable
	name := filepath.Join(t.TempDir(), "dir")
	c := exec.Command(os.Args[0], "-test.run=^TestLeftoversAreRemoved$")
	c.Env = append(os.Environ(), variable+"="+name)
	require.ErrorContains(t, c.Run(), "killed")
	dir, err := os.ReadFile(name)
	require.NoError(t, err)
	s := nvmesim.New(t, small("S1"))
	require.NoDirExists(t, string(dir))
	require.DirExists(t, s.Dir)
	files, err := filepath.Glob("/sys/block/loop*/loop/backing_file")
	require.NoError(t, err)
	for _, file := range files {
		text, _ := os.ReadFile(file) // Another test's file may be removed meanwhile.
		require.NotContains(t, string(text), string(dir))
	}
}
