package proc_test

import (
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"burnish/internal/testkit/proc"
)

func launch(t *testing.T, log, script string) *proc.Process {
	t.Helper()
	p, err := proc.Start("shell", log, exec.Command("sh", "-c", script))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, p.KillGroup()) })
	return p
}

func TestProcessIsStartedFrozenAndEnded(t *testing.T) {
	log := filepath.Join(t.TempDir(), "log")
	first := launch(t, log, "echo earlier >&2")
	code, err := first.Wait(time.Minute)
	require.NoError(t, err)
	require.Zero(t, code)
	require.Contains(t, first.Log(), "earlier")
	require.False(t, first.Alive())

	p := launch(t, log, "trap 'exit 3' TERM; echo ready; while :; do read -t 1 x; done </dev/zero")
	require.NoError(t, p.Await(t.Context(), time.Minute, func(log string) bool { return strings.Contains(log, "ready") }))
	require.NotContains(t, p.Log(), "earlier", "the log of this process only")
	require.NoError(t, p.Freeze())
	require.NoError(t, p.Thaw())
	require.True(t, p.Alive())
	require.ErrorContains(t, p.Stop(), "exit code 3")
	require.False(t, p.Ended().IsZero())
	require.NoError(t, p.Stop(), "it has ended")
	require.NoError(t, p.Kill(), "it has ended")
}

func TestAwaitOfAProcessThatEnds(t *testing.T) {
	p := launch(t, filepath.Join(t.TempDir(), "log"), "echo no such file; exit 1")
	require.ErrorContains(t, p.Await(t.Context(), time.Minute, func(log string) bool { return false }), "no such file")
}

func TestKillGroupLeavesNoChild(t *testing.T) {
	p := launch(t, filepath.Join(t.TempDir(), "log"), "sleep 100 & echo $!; wait")
	require.NoError(t, p.Await(t.Context(), time.Minute, func(log string) bool { return log != "" }))
	child, err := strconv.Atoi(strings.TrimSpace(p.Log()))
	require.NoError(t, err)
	require.NoError(t, p.KillGroup())
	require.ErrorIs(t, syscall.Kill(-p.PID(), 0), syscall.ESRCH)
	require.Positive(t, child)
}

func TestRunGivesExitCodeAndOutput(t *testing.T) {
	r, err := proc.Run(exec.Command("sh", "-c", "echo out; echo err >&2; exit 4"))
	require.NoError(t, err)
	require.Equal(t, [3]any{"out\n", "err\n", 4}, [3]any{r.Stdout, r.Stderr, r.Code})
	require.ErrorContains(t, r.Err(), "exit code 4")
	_, err = proc.Run(exec.Command("sh", "-c", "kill -9 $$"))
	require.Error(t, err, "it was killed")
}

func TestFreePortsAreDistinct(t *testing.T) {
	ports, err := proc.FreePorts(0, 0, 0)
	require.NoError(t, err)
	require.NotEqual(t, ports[0], ports[1])
	_, err = proc.FreePorts(ports[2], ports[2])
	require.Error(t, err)
}

// A port that stands for any is not one that the kernel gives to others, and is given once.
func TestFreePortsStayFree(t *testing.T) {
	given := map[int]bool{}
	for range 200 {
		ports, err := proc.FreePorts(0)
		require.NoError(t, err)
		require.False(t, given[ports[0]], ports[0])
		given[ports[0]] = true
		require.Less(t, ports[0], 20000)
	}
	address, err := proc.FreeAddress()
	require.NoError(t, err)
	require.Regexp(t, `^127\.0\.0\.1:1\d{4}$`, address)
}
