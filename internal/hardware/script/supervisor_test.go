package script

import (
	"encoding/json"
	"errors"
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

	"burnish/internal/device"
)

// detached starts a process that closes every descriptor and leaves the program's group, like
// Python's subprocess, sudo or a daemon. It writes its number to the file left.
const detached = `python3 -c 'import subprocess; p = subprocess.Popen(["sleep", "600"], start_new_session=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL); open("left.new", "w").write(str(p.pid))'; mv left.new left`

// leftovers is the number of the process that a test's program started.
func (r *fakeHost) leftovers(t *testing.T) (pid int) {
	t.Helper()
	require.Eventually(t, func() bool {
		text, err := os.ReadFile(filepath.Join(r.dir, "left"))
		if err != nil {
			return false
		}
		pid, err = strconv.Atoi(string(text))
		return err == nil
	}, time.Minute, 5*time.Millisecond)
	t.Cleanup(func() {
		if t.Failed() { // the process may still run
			_ = unix.Kill(pid, unix.SIGKILL)
		}
	})
	return pid
}

// withFence gives the host a locked fence, and a function that checks the lock.
func (r *fakeHost) withFence(t *testing.T) (fence *os.File, locked func() bool) {
	t.Helper()
	path := filepath.Join(r.dir, "fence")
	fence, err := os.Create(path)
	require.NoError(t, err)
	require.NoError(t, unix.Flock(int(fence.Fd()), unix.LOCK_EX))
	r.target.Fence = fence
	return fence, func() bool {
		other, err := os.Open(path)
		require.NoError(t, err)
		defer other.Close()
		return unix.Flock(int(other.Fd()), unix.LOCK_EX|unix.LOCK_NB) != nil
	}
}

// holders lists the other processes that have a file open.
func holders(t *testing.T, path string) (pids []string) {
	t.Helper()
	all, err := filepath.Glob("/proc/[0-9]*/fd/*")
	require.NoError(t, err)
	self := fmt.Sprintf("/proc/%d/", os.Getpid())
	for _, fd := range all {
		if to, err := os.Readlink(fd); err == nil && to == path && !strings.HasPrefix(fd, self) {
			pids = append(pids, fd)
		}
	}
	return pids
}

// While a verb runs, a second process holds the device and the fence too, even if the program
// closes its descriptors.
//
// F1
func TestAVerbHoldsTheFenceAndTheDevice(t *testing.T) {
	r := newFakeHost(t)
	fence, _ := r.withFence(t)
	h := r.open(t, true)
	r.write(t, "erase_device", "exec 3>&- 4>&- 5>&-; : >began; until [ -e go ]; do sleep 0.02; done")
	ended := make(chan error, 1)
	go func() {
		_, err := perform(t, h, "erase_device")
		ended <- err
	}()
	require.Eventually(t, func() bool { _, err := os.Stat(filepath.Join(r.dir, "began")); return err == nil }, time.Minute,
		5*time.Millisecond)
	config := filepath.Join(r.deviceDir(), "config")
	require.Len(t, holders(t, fence.Name()), 1)
	require.Len(t, holders(t, config), 1)
	r.write(t, "go", "")
	require.NoError(t, <-ended)
	require.Empty(t, holders(t, fence.Name()))
	require.Empty(t, holders(t, config))
}

// When a verb has ended, none of its child processes is running.
//
// F1
func TestNoChildOutlivesItsVerb(t *testing.T) {
	for name, start := range map[string]string{
		"detached":     detached,
		"in its group": "sleep 600 >/dev/null 2>&1 & echo -n $! >left.new; mv left.new left",
		"two deep":     "setsid sh -c 'echo -n $$ >left.new; mv left.new left; sleep 600 & wait' & until [ -e left ]; do :; done",
	} {
		t.Run(name, func(t *testing.T) {
			r := newFakeHost(t)
			r.write(t, "erase_device", start)
			_, err := r.runStep(t, "erase_device")
			require.NoError(t, err)
			require.ErrorIs(t, unix.Kill(r.leftovers(t), 0), unix.ESRCH)
		})
	}
}

// After the worker is killed, its program and all children are ended, and until then the fence
// and the device are held. Firmware is still written to its end.
//
// F1
func TestWhenTheWorkerDies(t *testing.T) {
	for name, tt := range map[string]struct {
		verb, body string
		finishes   bool
	}{
		"an erase ends":            {"erase_device", detached + "; sleep 600", false},
		"one that ignores SIGTERM": {"erase_device", "trap '' TERM; " + detached + "; sleep 600; sleep 600", false},
		"a firmware is finished":   {"firmware_reflash", detached + "; until [ -e go ]; do sleep 0.02; done; : >written", true},
	} {
		t.Run(name, func(t *testing.T) {
			r := newFakeHost(t)
			r.driver.grace = time.Second
			fence, locked := r.withFence(t)
			r.write(t, tt.verb, tt.body)
			// The worker's end closes the supervisor's standard input.
			c, err := r.driver.openDevice(r.target, device.Identity{})
			require.NoError(t, err)
			require.NoError(t, c.Lock(t.Context()))
			p, err := r.driver.program("gpu")
			require.NoError(t, err)
			line, err := json.Marshal(launchRequest{
				Args: []string{"gpu", tt.verb, address}, Env: []string{"PATH=" + os.Getenv("PATH")}, Held: 3, Grace: r.driver.grace,
				Uninterruptible: uninterruptible(tt.verb),
			})
			require.NoError(t, err)
			kept := exec.Command(supervisorBinary, Subcommand)
			kept.ExtraFiles = []*os.File{fence, c.Config, p.bytes}
			input, err := kept.StdinPipe()
			require.NoError(t, err)
			require.NoError(t, kept.Start())
			_, err = input.Write(append(line, '\n'))
			require.NoError(t, err)
			pid := r.leftovers(t)
			require.NoError(t, errors.Join(fence.Close(), c.Config.Close(), p.bytes.Close()))
			require.True(t, locked())
			r.target.Fence = nil
			require.NoError(t, input.Close())
			if tt.finishes {
				require.True(t, locked())
				r.write(t, "go", "")
			}
			require.NoError(t, kept.Wait())
			require.ErrorIs(t, unix.Kill(pid, 0), unix.ESRCH)
			require.False(t, locked())
			_, err = os.Stat(filepath.Join(r.dir, "written"))
			require.Equal(t, tt.finishes, err == nil)
			h, err := r.driver.Open(t.Context(), r.target, r.discover(t).Identity, true)
			require.NoError(t, err)
			require.NoError(t, h.Close())
		})
	}
}
