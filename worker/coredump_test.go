package main

import (
	"bufio"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// playWorker has this test's program be a worker.
const playWorker = "PLAY_WORKER"

func TestMain(m *testing.M) {
	if os.Getenv(playWorker) != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

// abort starts a program without a limit of core dumps, waits for a line with a text, and says how the
// program ended after SIGABRT.
func abort(t *testing.T, awaited string, program ...string) syscall.WaitStatus {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "/bin/sh", append([]string{"-c", `ulimit -c unlimited; exec "$@"`, "sh"},
		program...)...)
	cmd.Dir = t.TempDir()
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), playWorker + "=1", "GOTRACEBACK=crash", "TEMPORAL_ADDRESS=127.0.0.1:1",
		"BURNISH_STATE_DIR=" + cmd.Dir}
	_, err := cmd.StdinPipe() // which stays open: a shell that reads from it waits
	require.NoError(t, err)
	said, err := cmd.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	lines := bufio.NewScanner(said)
	found := false
	for !found && lines.Scan() {
		found = strings.Contains(lines.Text(), awaited)
	}
	require.True(t, found, "%s does not say %q", program, awaited)
	require.NoError(t, cmd.Process.Signal(syscall.SIGABRT))
	for lines.Scan() { // its stacks
	}
	require.Error(t, cmd.Wait())
	status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus)
	require.True(t, ok)
	require.Equal(t, syscall.SIGABRT, status.Signal(), "%v", cmd.ProcessState)
	return status
}

// Its keys and passwords would be in it.
func TestAWorkerLeavesNoCoreDump(t *testing.T) {
	if !abort(t, "ready", "/bin/sh", "-c", "echo ready >&2; read never").CoreDump() {
		t.Skip("this machine makes no core dumps")
	}
	require.False(t, abort(t, "waiting for the server", os.Args[0]).CoreDump())
}
