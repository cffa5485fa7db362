package script

import (
	"context"
	"errors"
	"fmt"
	"os"
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
	for answer, says := range map[string]string{
		"": "not a JSON object", `{"note": "well"}`: "does not have", `{"doen": true}`: "doen",
		`{"done": true} {"done": true}`: "more than one", `{"done": true}} failed`: "more than one",
	} {
		_, err := parseStepReply([]byte(answer))
		require.ErrorContains(t, err, says)
	}
	for name, tt := range map[string]struct {
		body, says string
		code       device.Code
	}{
		"words":             {"echo done; exit 0", `"done"`, device.CodeToolOutputInvalid},
		"not done":          {`echo '{"done": false}'; exit 0`, "does not have", device.CodeToolOutputInvalid},
		"not the last":      {`echo '{"done": true}'; echo and then; exit 0`, "and then", device.CodeToolOutputInvalid},
		"on the wrong side": {`echo '{"done": true}' >&2; exit 0`, "not a JSON object", device.CodeToolOutputInvalid},
		"done and failed":   {`echo '{"done": true}'; echo "no luck" >&2; exit 3`, "exit status 3: no luck", device.CodeStepFailed},
		"killed":            {`echo '{"done": true}'; kill -9 $$`, "signal: killed", device.CodeStepFailed},
		"a user has it":     {`echo "user 12 has it" >&2; exit 75`, "user 12 has it", device.CodeTargetBusy},
		"no text":           {`printf 'Ger\344t \033[1mdefekt' >&2; exit 3`, "exit status 3: Ger\uFFFDt defekt", device.CodeStepFailed},
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

func TestAnswersToIdentify(t *testing.T) {
	for name, tt := range map[string]struct{ answer, says string }{
		"no serial":             {`{"model": "A100"}`, "no serial"},
		"a serial that is none": {`{"serial": "Not Applicable", "steps": ["erase_device", "verify"]}`, `no serial ("Not Applicable")`},
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
			_, err := parseIdentifyReply([]byte(tt.answer))
			require.ErrorContains(t, err, tt.says)
		})
	}
}

// The step waits for a short use to end. A longer one needs an operator.
//
// F12
func TestBusyDeviceIsRetried(t *testing.T) {
	r := newFakeHost(t)
	r.driver.busyTimeout = time.Minute
	r.write(t, "erase_device", "echo . >>asked; [ $(wc -l <asked) -ge 3 ] || exit 75")
	_, err := r.runStep(t, "erase_device")
	require.NoError(t, err, "the program is called until the device is free")
	r = newFakeHost(t)
	r.write(t, "erase_device", "exit 75")
	_, err = r.runStep(t, "erase_device")
	f := hardwaretest.RequireFault(t, err, device.CodeTargetBusy)
	require.Equal(t, device.NeedsOperator, f.Class)
	require.Contains(t, f.Remedy, "then clean h1_"+address)
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
		"that ends on SIGTERM": {"erase_device", "sleep 600", true},
		"that ignores SIGTERM": {"erase_device", "trap '' TERM; sleep 600 & wait; sleep 600", true},
		"that writes firmware": {"firmware_reflash", "until [ -e go ]; do sleep 0.02; done; : >written", false},
	} {
		t.Run(name, func(t *testing.T) {
			r := newFakeHost(t)
			h := r.open(t, true)
			r.write(t, tt.step, "echo $$ >pid.new; mv pid.new pid; "+tt.body)
			ctx, cancel := context.WithCancelCause(t.Context())
			ended := make(chan error, 1)
			go func() {
				_, err := h.(hardware.StepRunner).RunStep(ctx, hardware.StepRun{Step: tt.step, MayGoOn: neverStop})
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
			}, time.Minute, 5*time.Millisecond)
			cancel(canceled)
			if tt.ended {
				require.ErrorIs(t, <-ended, canceled)
				require.Eventually(t, func() bool { return len(alive(t, pid)) == 0 }, time.Minute, 5*time.Millisecond,
					"its children end with it")
				return
			}
			r.write(t, "go", "")
			require.ErrorIs(t, <-ended, canceled, "a canceled step reports the cancel")
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
			_, err := perform(t, h, "erase_device")
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
func TestAScriptChangedAfterItsCheckDoesNotRun(t *testing.T) {
	r := newFakeHost(t)
	path := r.rules["gpu"].Path
	evil := "#!/bin/sh\n" + strings.Repeat("touch "+filepath.Join(r.dir, "evil")+"\n", 200)
	r.write(t, "evil.sh", evil)
	r.write(t, "erase_device", "cat evil.sh >"+path)
	_, err := r.runStep(t, "erase_device")
	requireFault(t, err, device.CodeNotAllowed, "SHA-256") // by the check after it
	require.NoFileExists(t, filepath.Join(r.dir, "evil"))
	text, err := os.ReadFile(filepath.Join(r.dir, "memory"))
	require.NoError(t, err)
	require.Empty(t, text, "the program ran as it was checked")
}

// F13
func TestProgramInheritsNothingFromTheWorker(t *testing.T) {
	t.Setenv("BURNISH_AMQP_URL", "amqp://user:secret@broker")
	r := newFakeHost(t)
	r.write(t, "erase_device", "env >env; cat /proc/$PPID/environ >supervisor; ls /proc/$$/fd >fds; pwd >cwd; "+
		"id -u >uid; readlink /proc/$$/fd/0 >stdin")
	_, err := r.runStep(t, "erase_device")
	require.NoError(t, err)
	got := func(name string) string {
		text, err := os.ReadFile(filepath.Join(r.dir, name))
		require.NoError(t, err)
		return strings.TrimSpace(string(text))
	}
	require.NotContains(t, got("env"), "secret")
	require.Equal(t, "LC_ALL=C", strings.Trim(got("supervisor"), "\x00"))
	for _, want := range []string{"BURNISH_DEVICE=h1_" + address, "BURNISH_ADDRESS=" + address, "BURNISH_SERIAL=S1",
		"LC_ALL=C"} {
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
		require.NoError(t, os.Chmod(dir, 0o755), "so that the other user can enter")
	}
	require.NoError(t, os.Chmod(r.dir, 0o777))
	unprivileged := uint32(65534)
	s := r.rules["gpu"]
	s.UID = &unprivileged
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

// An error of mayGoOn stops the program, and nothing more is started.
//
// F1
func TestProgramStopsWhenMayGoOnFails(t *testing.T) {
	over := errors.New("another attempt has it")
	r := newFakeHost(t)
	h := r.open(t, true)
	_, err := h.(hardware.StepRunner).
		RunStep(t.Context(), hardware.StepRun{Step: "erase_device", MayGoOn: func() error { return over }})
	require.ErrorIs(t, err, over)
	require.NotContains(t, r.calls(t), "erase_device")
	r.write(t, "erase_device", ": >began; sleep 600")
	_, err = h.(hardware.StepRunner).RunStep(t.Context(), hardware.StepRun{Step: "erase_device", MayGoOn: func() error {
		if _, err := os.Stat(filepath.Join(r.dir, "began")); err == nil {
			return over
		}
		return nil
	}})
	require.ErrorIs(t, err, over)
}

// After an abort nothing is started, also if the step was waiting.
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
		_, err := h.(hardware.StepRunner).RunStep(ctx, hardware.StepRun{Step: "firmware_reflash", MayGoOn: neverStop})
		ended <- err
	}()
	require.Eventually(t, func() bool { _, err := os.Stat(filepath.Join(r.dir, "asked")); return err == nil }, time.Minute,
		5*time.Millisecond)
	cancel(aborted)
	require.ErrorIs(t, <-ended, aborted)
	before := len(r.calls(t))
	_, err := h.(hardware.StepRunner).RunStep(ctx, hardware.StepRun{Step: "firmware_reflash", MayGoOn: neverStop})
	require.ErrorIs(t, err, aborted)
	require.Len(t, r.calls(t), before)
}

// An identify that hangs is reported before its callers give up.
func TestAnIdentifyThatHangsIsAFault(t *testing.T) {
	require.Less(t, identifyTimeout+grace, time.Minute, "the limit of an identify")
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
