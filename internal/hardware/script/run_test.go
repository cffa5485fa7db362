package script

import (
	"context"
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
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"burnish/internal/device"
	"burnish/internal/hardware"
	"burnish/internal/testkit/suites/hardwaretest"
)

// Exit status 0 alone is not success, and no answer hides a failure.
//
// F22
func TestOnlyDoneTrueIsSuccess(t *testing.T) {
	for name, tt := range map[string]struct {
		body, says string
		code       device.Code
	}{
		"nothing":           {"exit 0", "not a JSON object", device.CodeToolOutputInvalid},
		"words":             {"echo done; exit 0", `"done"`, device.CodeToolOutputInvalid},
		"not done":          {`echo '{"done": false}'; exit 0`, "does not have", device.CodeToolOutputInvalid},
		"nothing of done":   {`echo '{"note": "well"}'; exit 0`, "does not have", device.CodeToolOutputInvalid},
		"misspelt":          {`echo '{"doen": true}'; exit 0`, "doen", device.CodeToolOutputInvalid},
		"two":               {`echo '{"done": true} {"done": true}'; exit 0`, "more than one", device.CodeToolOutputInvalid},
		"not the last":      {`echo '{"done": true}'; echo and then; exit 0`, "and then", device.CodeToolOutputInvalid},
		"on the wrong side": {`echo '{"done": true}' >&2; exit 0`, "not a JSON object", device.CodeToolOutputInvalid},
		"done and failed":   {`echo '{"done": true}'; echo "no luck" >&2; exit 3`, "exit status 3: no luck", device.CodeStepFailed},
		"killed":            {`echo '{"done": true}'; kill -9 $$`, "signal: killed", device.CodeStepFailed},
		"somebody has it":   {`echo "user 12 has it" >&2; exit 75`, "user 12 has it", device.CodeTargetBusy},
		"and more":          {`echo '{"done": true}} failed'; exit 0`, "more than one", device.CodeToolOutputInvalid},
		"no text":           {`printf 'Ger\344t \033[1mdefekt' >&2; exit 3`, "exit status 3: Ger\uFFFDt \uFFFD[1mdefekt", device.CodeStepFailed},
	} {
		t.Run(name, func(t *testing.T) {
			r := newFakeHost(t)
			r.write(t, "erase_device", tt.body)
			_, err := r.runStep(t, "erase_device")
			requireFault(t, err, tt.code, tt.says)
			require.True(t, utf8.ValidString(err.Error()))
		})
	}
}

// S0.31
func TestAnswersToIdentify(t *testing.T) {
	for name, tt := range map[string]struct{ answer, says string }{
		"no serial":             {`{"model": "A100"}`, "no serial"},
		"a serial of two lines": {`{"serial": "S\n1"}`, "printable line"},
		"a serial in spaces":    {`{"serial": " S1"}`, "printable line"},
		"a long one":            {`{"serial": "` + strings.Repeat("S", 129) + `"}`, "printable line"},
		"another field":         {`{"serial": "S1", "steeps": []}`, "steeps"},
		"another type":          {`{"serial": 1}`, "number"},
		"no erase":              {`{"serial": "S1"}`, "does not offer erase_device"},
		"no verify":             {`{"serial": "S1", "steps": ["erase_device"]}`, "does not offer verify"},
		"a step of another":     {`{"serial": "S1", "steps": ["sanitize"]}`, `"sanitize"`},
		"a step twice":          {`{"serial": "S1", "steps": ["pci_reset", "pci_reset"]}`, "twice"},
		"a size below zero":     {`{"serial": "S1", "size": -1}`, "-1"},
		"an estimate of words":  {`{"serial": "S1", "estimate": "long"}`, `"long"`},
		"an estimate of years":  {`{"serial": "S1", "estimate": "10000h"}`, "10000h"},
		"a list":                {`["S1"]`, "not a JSON object"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newFakeHost(t)
			r.write(t, "identity", tt.answer)
			_, err := r.driver.Discover(t.Context(), r.target, device.Identity{})
			requireFault(t, err, device.CodeToolOutputInvalid, tt.says)
		})
	}
}

// A use that ends is waited for. Any other needs an operator.
//
// F12
func TestBusyDeviceIsRetried(t *testing.T) {
	r := newFakeHost(t)
	r.driver.busyTimeout = time.Minute
	r.write(t, "erase_device", "echo . >>asked; [ $(wc -l <asked) -ge 3 ] || exit 75")
	_, err := r.runStep(t, "erase_device")
	require.NoError(t, err)
	r = newFakeHost(t)
	r.driver.busyTimeout = 2 * time.Second // an overloaded machine takes long for one call
	r.write(t, "erase_device", "exit 75")
	_, err = r.runStep(t, "erase_device")
	f := hardwaretest.RequireFault(t, err, device.CodeTargetBusy)
	require.Equal(t, device.NeedsOperator, f.Class)
	require.Contains(t, f.Remedy, "then clean h1_"+address)
	require.Greater(t, len(r.calls(t)), 4, "it is called more than once")
}

// Cancel ends the program and its children, even if it ignores the signal. A verb that writes
// firmware is not interrupted.
//
// F9
func TestACancelEndsTheProgram(t *testing.T) {
	canceled := errors.New("the operator aborts")
	for name, tt := range map[string]struct {
		step, body string
		ended      bool
	}{
		"that listens":         {"erase_device", "sleep 600", true},
		"that does not":        {"erase_device", "trap '' TERM; sleep 600 & wait; sleep 600", true},
		"that writes firmware": {"firmware_reflash", "until [ -e go ]; do sleep 0.02; done; : >written", false},
	} {
		t.Run(name, func(t *testing.T) {
			r := newFakeHost(t)
			h := r.open(t, true)
			r.write(t, tt.step, "echo $$ >pid.new; mv pid.new pid; "+tt.body)
			ctx, cancel := context.WithCancelCause(t.Context())
			ended := make(chan error, 1)
			go func() {
				_, err := h.(hardware.StepRunner).RunStep(ctx, tt.step, neverStop)
				ended <- err
			}()
			var pid int
			require.Eventually(t, func() bool {
				text, err := os.ReadFile(filepath.Join(r.dir, "pid"))
				if err != nil {
					return false
				}
				pid, err = strconv.Atoi(strings.TrimSpace(string(text)))
				return err == nil
			}, 20*time.Second, 5*time.Millisecond)
			cancel(canceled)
			if tt.ended {
				require.ErrorIs(t, <-ended, canceled)
				require.Eventually(t, func() bool { return len(alive(t, pid)) == 0 }, 20*time.Second, 5*time.Millisecond, "what it started ends with it")
				return
			}
			r.write(t, "go", "")
			require.ErrorIs(t, <-ended, canceled, "what comes after it is not done")
			require.FileExists(t, filepath.Join(r.dir, "written"))
		})
	}
}

// alive lists the running processes of a process group. Zombies do not count.
func alive(t *testing.T, group int) (pids []string) {
	t.Helper()
	all, err := filepath.Glob("/proc/[0-9]*/stat")
	require.NoError(t, err)
	for _, file := range all {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // it ended
		}
		_, after, _ := strings.Cut(string(text), ") ")
		fields := strings.Fields(after) // state, parent, group
		if fields[2] == strconv.Itoa(group) && fields[0] != "Z" {
			pids = append(pids, file)
		}
	}
	return pids
}

// Only the program that host.yaml describes runs, even if its file changes.
//
// F13
func TestOnlyTheProgramInHostYAML(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(t *testing.T, r *fakeHost, path string)
		says   string
	}{
		"other bytes":         {func(t *testing.T, _ *fakeHost, path string) { appendTo(t, path, "\n") }, "SHA-256"},
		"others may write it": {func(t *testing.T, _ *fakeHost, path string) { require.NoError(t, os.Chmod(path, 0o775)) }, "can be written by others"},
		"another owner": {func(_ *testing.T, r *fakeHost, _ string) {
			s := r.rules["gpu"]
			s.Owner = "4242"
			r.rules["gpu"] = s
		}, "its owner must be 4242"},
		"an unknown owner": {func(_ *testing.T, r *fakeHost, _ string) {
			s := r.rules["gpu"]
			s.Owner = "no-such-user"
			r.rules["gpu"] = s
		}, "no-such-user"},
		"a link": {func(t *testing.T, _ *fakeHost, path string) {
			require.NoError(t, os.Rename(path, path+".2"))
			require.NoError(t, os.Symlink(path+".2", path))
		}, "symbolic link"},
		"a folder": {func(t *testing.T, _ *fakeHost, path string) {
			require.NoError(t, os.Remove(path))
			require.NoError(t, os.Mkdir(path, 0o755))
		}, "is not a regular file"},
		"a pipe": {func(t *testing.T, _ *fakeHost, path string) {
			require.NoError(t, os.Remove(path))
			require.NoError(t, unix.Mkfifo(path, 0o700))
		}, "is not a regular file"},
		"gone":      {func(t *testing.T, _ *fakeHost, path string) { require.NoError(t, os.Remove(path)) }, "no such file"},
		"too large": {func(t *testing.T, _ *fakeHost, path string) { require.NoError(t, os.Truncate(path, maxProgramSize+1)) }, "larger than"},
		"an unknown user": {func(_ *testing.T, r *fakeHost, _ string) {
			s, uid := r.rules["gpu"], uint32(3_999_999_999)
			s.UID = &uid
			r.rules["gpu"] = s
		}, "3999999999"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newFakeHost(t)
			h := r.open(t, true)
			before := len(r.calls(t))
			tt.change(t, r, r.rules["gpu"].Path)
			_, err := h.(hardware.StepRunner).RunStep(t.Context(), "erase_device", neverStop)
			requireFault(t, err, device.CodeNotAllowed, tt.says)
			require.Len(t, r.calls(t), before)
		})
	}
}

func appendTo(t *testing.T, path, text string) {
	t.Helper()
	file, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	require.NoError(t, err)
	_, err = file.WriteString(text)
	require.NoError(t, errors.Join(err, file.Close()))
}

// A shell reads a script while it runs. Changes to the file after the check must not run.
//
// F13
func TestWhatIsWrittenAfterTheCheckDoesNotRun(t *testing.T) {
	r := newFakeHost(t)
	path := r.rules["gpu"].Path
	evil := "#!/bin/sh\n" + strings.Repeat("touch "+filepath.Join(r.dir, "evil")+"\n", 200)
	r.write(t, "evil.sh", evil)
	r.write(t, "erase_device", "cat evil.sh >"+path)
	_, err := r.runStep(t, "erase_device")
	requireFault(t, err, device.CodeNotAllowed, "SHA-256") // by the look after it
	require.NoFileExists(t, filepath.Join(r.dir, "evil"))
	text, err := os.ReadFile(filepath.Join(r.dir, "memory"))
	require.NoError(t, err)
	require.Empty(t, text, "the program went on as it was checked")
}

// F13
func TestProgramInheritsNothingFromTheWorker(t *testing.T) {
	t.Setenv("BURNISH_AMQP_URL", "amqp://user:secret@broker")
	r := newFakeHost(t)
	r.write(t, "erase_device", "env >env; ls /proc/$$/fd >fds; pwd >cwd; id -u >uid; readlink /proc/$$/fd/0 >stdin")
	_, err := r.runStep(t, "erase_device")
	require.NoError(t, err)
	got := func(name string) string {
		text, err := os.ReadFile(filepath.Join(r.dir, name))
		require.NoError(t, err)
		return strings.TrimSpace(string(text))
	}
	require.NotContains(t, got("env"), "secret")
	for _, want := range []string{"BURNISH_DEVICE=h1_" + address, "BURNISH_ADDRESS=" + address, "BURNISH_SERIAL=S1", "LC_ALL=C"} {
		require.Contains(t, got("env"), want)
	}
	require.Equal(t, "/dev/null", got("stdin"))
	require.Equal(t, fmt.Sprint(os.Geteuid()), got("uid"))
}

// F13
func TestAProgramRunsAsItsUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can become another user")
	}
	r := newFakeHost(t)
	for dir := r.dir; dir != "/"; dir = filepath.Dir(dir) {
		require.NoError(t, os.Chmod(dir, 0o755), "for the other user to come here")
	}
	require.NoError(t, os.Chmod(r.dir, 0o777))
	nobody := uint32(65534)
	s := r.rules["gpu"]
	s.UID = &nobody
	r.rules["gpu"] = s
	r.write(t, "erase_device", "id -u >uid; id -G >groups; rm memory")
	_, err := r.runStep(t, "erase_device")
	require.NoError(t, err)
	for file, want := range map[string]string{"uid": "65534", "groups": "65534"} {
		text, err := os.ReadFile(filepath.Join(r.dir, file))
		require.NoError(t, err)
		require.Equal(t, want, strings.TrimSpace(string(text)), file)
	}
}

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
	}, 20*time.Second, 5*time.Millisecond)
	t.Cleanup(func() {
		if t.Failed() { // what the test looked for may live
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

// While a verb runs, not only the worker holds the device and the fence, even if the program
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
		_, err := h.(hardware.StepRunner).RunStep(t.Context(), "erase_device", neverStop)
		ended <- err
	}()
	require.Eventually(t, func() bool { _, err := os.Stat(filepath.Join(r.dir, "began")); return err == nil }, 20*time.Second, 5*time.Millisecond)
	config := filepath.Join(r.deviceDir(), "config")
	require.Len(t, holders(t, fence.Name()), 1)
	require.Len(t, holders(t, config), 1)
	r.write(t, "go", "")
	require.NoError(t, <-ended)
	require.Empty(t, holders(t, fence.Name()))
	require.Empty(t, holders(t, config))
}

// When a verb has ended, nothing that it started is running.
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
		"an erase ends":          {"erase_device", detached + "; sleep 600", false},
		"one that does not hear": {"erase_device", "trap '' TERM; " + detached + "; sleep 600; sleep 600", false},
		"a firmware is finished": {"firmware_reflash", detached + "; until [ -e go ]; do sleep 0.02; done; : >written", true},
	} {
		t.Run(name, func(t *testing.T) {
			r := newFakeHost(t)
			r.driver.grace = time.Second
			fence, locked := r.withFence(t)
			r.write(t, tt.verb, tt.body)
			// The worker's end closes the supervisor's standard input.
			c, err := r.driver.openDevice(r.target, device.Identity{})
			require.NoError(t, err)
			require.NoError(t, c.lock(t.Context()))
			p, err := r.driver.program("gpu")
			require.NoError(t, err)
			line, err := json.Marshal(launchRequest{
				Args: []string{"gpu", tt.verb, address}, Env: []string{"PATH=" + os.Getenv("PATH")}, Held: 3, Grace: r.driver.grace, Uninterruptible: uninterruptible(tt.verb),
			})
			require.NoError(t, err)
			kept := exec.Command(supervisorBinary, Subcommand)
			kept.ExtraFiles = []*os.File{fence, c.config, p.bytes}
			input, err := kept.StdinPipe()
			require.NoError(t, err)
			require.NoError(t, kept.Start())
			_, err = input.Write(append(line, '\n'))
			require.NoError(t, err)
			pid := r.leftovers(t)
			require.NoError(t, errors.Join(fence.Close(), c.config.Close(), p.bytes.Close()))
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

// An error of mayGoOn stops what runs, and nothing more is started.
//
// F1
func TestProgramStopsWhenMayGoOnFails(t *testing.T) {
	over := errors.New("another attempt has it")
	r := newFakeHost(t)
	h := r.open(t, true)
	_, err := h.(hardware.StepRunner).RunStep(t.Context(), "erase_device", func() error { return over })
	require.ErrorIs(t, err, over)
	require.NotContains(t, r.calls(t), "erase_device")
	r.write(t, "erase_device", ": >began; sleep 600")
	_, err = h.(hardware.StepRunner).RunStep(t.Context(), "erase_device", func() error {
		if _, err := os.Stat(filepath.Join(r.dir, "began")); err == nil {
			return over
		}
		return nil
	})
	require.ErrorIs(t, err, over)
}

// After an abort nothing is started, whatever was waited for.
//
// F9
func TestNothingIsStartedAfterAnAbort(t *testing.T) {
	r := newFakeHost(t)
	r.driver.busyTimeout = time.Minute
	h := r.open(t, true)
	r.write(t, "firmware_reflash", ": >asked; exit 75")
	ctx, cancel := context.WithCancelCause(t.Context())
	aborted := errors.New("the operator aborts")
	ended := make(chan error, 1)
	go func() {
		_, err := h.(hardware.StepRunner).RunStep(ctx, "firmware_reflash", neverStop)
		ended <- err
	}()
	require.Eventually(t, func() bool { _, err := os.Stat(filepath.Join(r.dir, "asked")); return err == nil }, 20*time.Second, 5*time.Millisecond)
	cancel(aborted)
	require.ErrorIs(t, <-ended, aborted)
	before := len(r.calls(t))
	_, err := h.(hardware.StepRunner).RunStep(ctx, "firmware_reflash", neverStop)
	require.ErrorIs(t, err, aborted)
	require.Len(t, r.calls(t), before)
}

// An identify that hangs is reported before its callers give up.
func TestAnIdentifyThatHangsIsAFault(t *testing.T) {
	require.Less(t, identifyTimeout+grace, time.Minute, "what a look may take")
	r := newFakeHost(t)
	r.driver.identifyTimeout = 200 * time.Millisecond
	r.write(t, "identify", "sleep 600")
	_, err := r.driver.Discover(t.Context(), r.target, device.Identity{})
	requireFault(t, err, device.CodeStepFailed, "it did not end within 200ms")
}

func TestOnlyTheEndOfALongOutputIsKept(t *testing.T) {
	r := newFakeHost(t)
	r.write(t, "erase_device", "yes 'a line of what a tool says' | head -c 20000000; echo")
	_, err := r.runStep(t, "erase_device")
	require.NoError(t, err)
	var kept tail
	for range 1000 {
		_, err := kept.Write(make([]byte, 1000))
		require.NoError(t, err)
		require.LessOrEqual(t, len(kept.kept), 2*tailSize)
	}
	_, err = kept.Write([]byte("first\nlast\n\n"))
	require.NoError(t, err)
	require.Equal(t, "last", kept.lastLine())
}
