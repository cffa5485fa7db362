package fake

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"burnish/internal/device"
	"burnish/internal/hardware"
	"burnish/internal/testkit/suites/hardwaretest"
)

const nonce = 11

func allowed() error { return nil }

func target(name string, settings ...string) hardware.Target {
	t := hardware.Target{Name: name, Driver: "fake", Settings: map[string]string{}}
	for i := 0; i < len(settings); i += 2 {
		t.Settings[settings[i]] = settings[i+1]
	}
	return t
}

func TestSuite(t *testing.T) {
	dir := t.TempDir()
	made := 0
	hardwaretest.Run(t, hardwaretest.Fixture{
		Driver: New(dir, allowed),
		New: func(t *testing.T, size int64) hardwaretest.Device {
			made++
			name := fmt.Sprintf("d%d", made)
			return hardwaretest.Device{
				Target:   target(name, "size", fmt.Sprint(size)),
				Backdoor: hardwaretest.File(filepath.Join(dir, "fake", name, "contents")),
			}
		},
		Write: maxWrite,
	})
}

// enrolled makes a stamped device of 8 MiB and returns its identity.
func enrolled(t *testing.T, d *Driver, of hardware.Target) (device.Identity, hardwaretest.File) {
	t.Helper()
	if of.Settings["size"] == "" {
		of.Settings["size"] = "8MiB"
	}
	found, err := d.Discover(t.Context(), of, device.Identity{})
	require.NoError(t, err)
	contents := hardwaretest.File(filepath.Join(d.dir, "fake", of.Name, "contents"))
	require.NoError(t, hardwaretest.Stamp(contents, found.Identity.Size, nonce))
	return found.Identity, contents
}

// open opens the device in a step and closes it with the test.
func open(t *testing.T, d *Driver, of hardware.Target, who device.Identity, step string) hardware.Handle {
	t.Helper()
	of.Step = step
	h, err := d.Open(t.Context(), of, who, true)
	require.NoError(t, err)
	t.Cleanup(func() {
		if err := h.Close(); err != nil {
			require.ErrorIs(t, err, os.ErrClosed)
		}
	})
	return h
}

func TestDefaults(t *testing.T) {
	d := New(t.TempDir(), allowed)
	found, err := d.Discover(t.Context(), target("d1"), device.Identity{})
	require.NoError(t, err)
	other, err := d.Discover(t.Context(), target("d2"), device.Identity{})
	require.NoError(t, err)
	require.NotEqual(t, found.Identity.Serial, other.Identity.Serial, "each name has a serial of its own")
	require.Equal(t, device.Identity{Serial: found.Identity.Serial, Vendor: "Burnish", Model: "fake", Size: 64 << 20},
		found.Identity)
	require.Equal(t, device.Shred, found.Operation)

	info, err := os.Stat(filepath.Join(d.dir, "fake/d1/contents"))
	require.NoError(t, err)
	require.EqualValues(t, 64<<20, info.Size())
	require.Less(t, info.Sys().(*syscall.Stat_t).Blocks*512, int64(1<<20), "new contents are sparse")
	text, err := os.ReadFile(filepath.Join(d.dir, "fake/d1/state.json"))
	require.NoError(t, err)
	require.True(t, json.Valid(text))
	left, err := os.ReadDir(filepath.Join(d.dir, "fake/d1"))
	require.NoError(t, err)
	require.Len(t, left, 2, "no temporary file is left")
}

func TestSettings(t *testing.T) {
	d := New(t.TempDir(), allowed)
	found, err := d.Discover(t.Context(), target("d1", "size", "1MiB", "serial", "S1", "vendor", "Acme", "model",
		"Model 9", "erase", "none", "mac", "52:54:00:AB:CD:EF", "live_migratable", "yes",
		"delay", "200ms", "fault", "fail:zero@40%x1; hang:sanitize ;crash:verify"), device.Identity{})
	require.NoError(t, err)
	who := device.Identity{Serial: "S1", Vendor: "Acme", Model: "Model 9", Size: 1 << 20, MAC: "52:54:00:ab:cd:ef"}
	require.Equal(t, who, found.Identity)
	require.True(t, found.LiveMigratable)
	require.Empty(t, found.Operation, "nothing can erase it")
	require.Equal(t, "simulated; a full pass takes 200ms; faults: fail:zero@40%x1 hang:sanitize@0%x1 crash:verify@0%x1",
		found.Note)
	found, err = d.Discover(t.Context(), target("d1", "size", "1MiB", "serial", "S1", "vendor", "Acme", "model", "Model 9",
		"mac", "52:54:00:00:00:01", "live_migratable", "no"), who)
	require.NoError(t, err, "another MAC is no other device")
	require.Equal(t, "52:54:00:00:00:01", found.Identity.MAC)
	require.False(t, found.LiveMigratable)
}

func TestInvalidSettingsAreNamed(t *testing.T) {
	type invalid struct{ key, value, says string }
	all := []invalid{
		{"size", "64MB", `size: "64MB" is not a valid size`},
		{"size", "0", `size: "0" is not a valid size`},
		{"delay", "fast", `delay: "fast" is not a valid duration`},
		{"delay", "-1s", `delay: "-1s" is not a valid duration`},
		{"erase", "some", `erase: "some" is not allowed`},
		{"serial", "", `serial: "" is not allowed`},
		{"serial", "../x", `serial: "../x" is not allowed`},
		{"serial", " S", `serial: " S" is not allowed`},
		{"model", "a\nb", `model: "a\nb" is not allowed`},
		{"shade", "green", `no setting "shade"`},
		{"mac", "52:54:00:ab:cd", "52:54:00:ab:cd"},
		{"live_migratable", "maybe", `"maybe" is not allowed`},
		{"fault", "fail:zero;", `fault: "" is none`},
		{"fault", "fail:zero;melt:zero", `fault: "melt:zero" is none`},
		{"fault", "fail:zero;hang:zero;fail:zero@0%x1", `fault: "fail:zero@0%x1" is a duplicate`},
	}
	for _, fault := range []string{"", "fail", "fail:", "fail:Zero", "fail:zero@40", "fail:zero@%", "fail:zero@101%",
		"fail:zero@-1%", "fail:zerox0", "fail:zerox99999999999999999999", "fail:zero@40%xtwo"} {
		says := fmt.Sprintf("fault: %q is none: want a form such as fail:zero@40%%x1", fault)
		all = append(all, invalid{"fault", fault, says})
	}
	for _, tc := range all {
		t.Run(tc.key+"="+tc.value, func(t *testing.T) {
			d := New(t.TempDir(), allowed)
			_, err := d.Discover(t.Context(), target("d1", tc.key, tc.value), device.Identity{})
			require.Contains(t, hardwaretest.RequireFault(t, err, device.CodeInvalidSetting).Message, tc.says)
			require.NoDirExists(t, filepath.Join(d.dir, "fake"), "a refused device is not created")
		})
	}
	_, err := New(t.TempDir(), allowed).Discover(t.Context(), target("../up"), device.Identity{})
	hardwaretest.RequireFault(t, err, device.CodeInvalidSetting)
}

func TestFaultScript(t *testing.T) {
	faults, err := parseScript("fail:zero;fail:zero@40%;hang:wipe_extrax3;crash:verify@100%x12;transient:zero@7%")
	require.NoError(t, err)
	require.Equal(t, []injected{
		{fail, "zero", 0, 1}, {fail, "zero", 40, 1}, {hang, "wipe_extra", 0, 3}, {crash, "verify", 100, 12}, {transient, "zero", 7, 1},
	}, faults)
	const size = 10<<20 + 777
	require.Zero(t, faults[0].point(size))
	require.EqualValues(t, 4<<20, faults[1].point(size))
	require.EqualValues(t, size, faults[3].point(size), "100% is the very end")
}

// F13
func TestNotAllowedIsRefusedAndNothingIsMade(t *testing.T) {
	dir := t.TempDir()
	refuses := New(dir, func() error {
		return hardware.Refused(device.CodeNotAllowed, "allow it", "a real inventory is set")
	})
	_, err := refuses.Discover(t.Context(), target("d1"), device.Identity{})
	require.Contains(t, hardwaretest.RequireFault(t, err, device.CodeNotAllowed).Message, "a real inventory is set")
	require.NoDirExists(t, filepath.Join(dir, "fake"))

	who, contents := enrolled(t, New(dir, allowed), target("d1"))
	before := hardwaretest.Sum(t, contents)
	h, err := refuses.Open(t.Context(), target("d1", "size", "8MiB"), who, true)
	hardwaretest.RequireFault(t, err, device.CodeNotAllowed)
	require.Nil(t, h)
	require.Equal(t, before, hardwaretest.Sum(t, contents))
}

func TestContentsOutliveTheirEnrollment(t *testing.T) {
	d := New(t.TempDir(), allowed)
	_, contents := enrolled(t, d, target("d1"))
	before := hardwaretest.Sum(t, contents)
	_, err := d.Discover(t.Context(), target("d1", "size", "8MiB"), device.Identity{})
	require.NoError(t, err)
	require.Equal(t, before, hardwaretest.Sum(t, contents))

	_, err = d.Discover(t.Context(), target("d1", "size", "9MiB"), device.Identity{})
	require.Contains(t, hardwaretest.RequireFault(t, err, device.CodeInvalidSetting).Message,
		"of an earlier device has 8MiB")
	require.Equal(t, before, hardwaretest.Sum(t, contents))
}

// F11
func TestAnotherDeviceUnderTheNameIsRefused(t *testing.T) {
	for name, tc := range map[string]struct {
		settings []string
		damage   func(t *testing.T, contents string)
		field    string
		code     device.Code
	}{
		"serial": {settings: []string{"serial", "OTHER"}, field: "serial"},
		"model":  {settings: []string{"model", "other"}, field: "model"},
		"size":   {settings: []string{"size", "16MiB"}, field: "size"},
		"grown":  {damage: func(t *testing.T, c string) { require.NoError(t, os.Truncate(c, 9<<20)) }, field: "size"},
		"gone":   {damage: func(t *testing.T, c string) { require.NoError(t, os.Remove(c)) }, code: device.CodeTargetMissing},
	} {
		t.Run(name, func(t *testing.T) {
			d := New(t.TempDir(), allowed)
			who, contents := enrolled(t, d, target("d1"))
			if tc.damage != nil {
				tc.damage(t, string(contents))
			}
			if tc.code == "" {
				tc.code = device.MismatchCode(name)
			}
			now := target("d1", append([]string{"size", "8MiB"}, tc.settings...)...)
			_, err := d.Discover(t.Context(), now, who)
			require.Contains(t, hardwaretest.RequireFault(t, err, tc.code).Message, tc.field)
			h, err := d.Open(t.Context(), now, who, true)
			require.Contains(t, hardwaretest.RequireFault(t, err, tc.code).Message, tc.field)
			require.Nil(t, h)
			if name == "gone" {
				require.NoFileExists(t, string(contents), "an enrolled device is never re-created")
				return
			}
			stamped, _, _, err := hardwaretest.Count(contents, 8<<20, nonce)
			require.NoError(t, err)
			require.Equal(t, 8<<20/hardwaretest.Block, stamped)
		})
	}
}

// F11
func TestCheckSeesThatTheContentsWereReplaced(t *testing.T) {
	d := New(t.TempDir(), allowed)
	of := target("d1")
	who, contents := enrolled(t, d, of)
	h := open(t, d, of, who, "zero")
	require.NoError(t, os.Rename(string(contents), string(contents)+".old"))
	require.NoError(t, os.WriteFile(string(contents), make([]byte, 8<<20), 0o600))
	hardwaretest.RequireFault(t, h.Check(t.Context()), device.CodeIdentityChanged)
}

func TestFaultHappensAtItsPercentageAndNumberOfTimes(t *testing.T) {
	for kind, code := range map[string]device.Code{"fail": device.CodeStepFailed, "transient": device.CodeIO} {
		t.Run(kind, func(t *testing.T) {
			d := New(t.TempDir(), allowed)
			of := target("d1", "fault", kind+":zero@40%x2")
			who, contents := enrolled(t, d, of)
			for range 2 {
				h := open(t, d, of, who, "zero")
				require.NoError(t, hardwaretest.Stamp(contents, who.Size, nonce))
				require.NoError(t, h.Check(t.Context()))
				fault := hardwaretest.RequireFault(t, h.ZeroAt(t.Context(), 0, who.Size), code)
				require.Equal(t, kind == "transient", fault.Class == device.Transient)
				point := int(who.Size * 40 / 100 / hardware.Align * hardware.Align / hardwaretest.Block)
				hardwaretest.RequireCount(t, contents, nonce, int(who.Size/hardwaretest.Block)-point, point, 0)
				require.NoError(t, h.Close())
			}
			h := open(t, d, of, who, "zero")
			require.NoError(t, h.ZeroAt(t.Context(), 0, who.Size), "the third time nothing happens")
			require.NoError(t, h.Flush(t.Context()))
			hardwaretest.RequireCount(t, contents, nonce, 0, int(who.Size/hardwaretest.Block), 0)
		})
	}
}

func TestFaultHitsAnAttemptThatResumesAfterIt(t *testing.T) {
	d := New(t.TempDir(), allowed)
	of := target("d1", "fault", "fail:zero@40%x2")
	who, contents := enrolled(t, d, of)
	before := hardwaretest.Sum(t, contents)
	h := open(t, d, of, who, "zero")
	for range 2 {
		hardwaretest.RequireFault(t, h.ZeroAt(t.Context(), 4<<20, 4<<20), device.CodeStepFailed)
	}
	require.Equal(t, before, hardwaretest.Sum(t, contents))
	require.NoError(t, h.ZeroAt(t.Context(), 4<<20, 4<<20))
}

func TestFaultHappensInItsOwnStepOnly(t *testing.T) {
	d := New(t.TempDir(), allowed)
	of := target("d1", "fault", "fail:verify@50%;fail:security_check")
	who, _ := enrolled(t, d, of)

	zero := open(t, d, of, who, "zero")
	require.NoError(t, zero.Check(t.Context()))
	require.NoError(t, zero.ZeroAt(t.Context(), 0, who.Size))
	require.NoError(t, zero.Close())

	checking := open(t, d, of, who, "security_check")
	hardwaretest.RequireFault(t, checking.Check(t.Context()), device.CodeStepFailed)
	require.NoError(t, checking.Check(t.Context()))
	require.NoError(t, checking.Close())

	verify := open(t, d, of, who, "verify")
	require.NoError(t, verify.Check(t.Context()))
	p := make([]byte, 3<<20)
	_, err := verify.ReadAt(p, 0)
	require.NoError(t, err)
	got, err := verify.ReadAt(p, 3<<20)
	hardwaretest.RequireFault(t, err, device.CodeStepFailed)
	require.Equal(t, 1<<20, got, "bytes before the fault are read")
	got, err = verify.ReadAt(p, 3<<20)
	require.NoError(t, err)
	require.Equal(t, len(p), got)
}

func TestFaultAtTheVeryEnd(t *testing.T) {
	d := New(t.TempDir(), allowed)
	of := target("d1", "size", "1048577", "fault", "fail:zero@100%;fail:verify@100%")
	who, contents := enrolled(t, d, of)
	zero := open(t, d, of, who, "zero")
	require.NoError(t, zero.ZeroAt(t.Context(), 0, 1<<20))
	hardwaretest.RequireFault(t, zero.ZeroAt(t.Context(), 1<<20, 1), device.CodeStepFailed)
	hardwaretest.RequireCount(t, contents, nonce, 0, 2049, 0)
	require.NoError(t, zero.Close())
	verify := open(t, d, of, who, "verify")
	got, err := verify.ReadAt(make([]byte, who.Size), 0)
	hardwaretest.RequireFault(t, err, device.CodeStepFailed)
	require.EqualValues(t, who.Size, got)
}

func TestHangLastsUntilTheContextEnds(t *testing.T) {
	d := New(t.TempDir(), allowed)
	of := target("d1", "fault", "hang:zero;hang:verify")
	who, contents := enrolled(t, d, of)
	before := hardwaretest.Sum(t, contents)

	zero := open(t, d, of, who, "zero")
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- zero.ZeroAt(ctx, 0, who.Size) }()
	requireCounted(t, d, "hang:zero@0%x1")
	select {
	case err := <-ended:
		t.Fatalf("it ended before its context: %v", err)
	default:
	}
	cancel()
	require.ErrorIs(t, <-ended, context.Canceled)
	require.Equal(t, before, hardwaretest.Sum(t, contents))
	require.NoError(t, zero.Close())

	// A read has no context: that of Open ends it.
	ctx, cancel = context.WithCancel(t.Context())
	of.Step = "verify"
	verify, err := d.Open(ctx, of, who, false)
	require.NoError(t, err)
	go func() {
		_, err := verify.ReadAt(make([]byte, 1), 0)
		ended <- err
	}()
	requireCounted(t, d, "hang:verify@0%x1")
	cancel()
	require.ErrorIs(t, <-ended, context.Canceled)
	require.NoError(t, verify.Close())
}

// requireCounted waits until the state on disk says that a fault has happened once.
func requireCounted(t *testing.T, d *Driver, name string) {
	t.Helper()
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		s, err := deviceDir{filepath.Join(d.dir, "fake/d1")}.load()
		require.NoError(c, err)
		require.Equal(c, 1, s.Faults[name])
	}, time.Minute, time.Millisecond)
}

func TestFaultIsCountedBeforeItHappens(t *testing.T) {
	d := New(t.TempDir(), allowed)
	d.kill = func() error { return errors.New("still alive") }
	of := target("d1", "fault", "crash:zerox2")
	who, _ := enrolled(t, d, of)
	h := open(t, d, of, who, "zero")
	require.ErrorContains(t, h.ZeroAt(t.Context(), 0, who.Size), "still alive")
	requireCounted(t, d, "crash:zero@0%x2")

	// A fault that cannot be counted must not happen.
	require.NoError(t, os.Rename(filepath.Join(d.dir, "fake/d1"), filepath.Join(d.dir, "fake/moved")))
	hardwaretest.RequireFault(t, h.ZeroAt(t.Context(), 0, who.Size), device.CodeStateDirError)
}

// The test runs itself as a worker that is killed.
//
// F1
func TestCrashTakesTheWorkerDownOnce(t *testing.T) {
	const at = "BURNISH_TEST_FAKE_DIR"
	of := target("d1", "size", "8MiB", "fault", "crash:zero@50%")
	if dir := os.Getenv(at); dir != "" {
		d := New(dir, allowed)
		found, err := d.Discover(t.Context(), of, device.Identity{})
		require.NoError(t, err)
		h := open(t, d, of, found.Identity, "zero")
		require.NoError(t, h.ZeroAt(t.Context(), 0, found.Identity.Size))
		return
	}
	d := New(t.TempDir(), allowed)
	who, contents := enrolled(t, d, of)
	run := func() error {
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestCrashTakesTheWorkerDownOnce$")
		cmd.Env = append(os.Environ(), at+"="+d.dir)
		return cmd.Run()
	}
	var exit *exec.ExitError
	require.ErrorAs(t, run(), &exit)
	require.Equal(t, syscall.SIGKILL, exit.Sys().(syscall.WaitStatus).Signal())
	half := int(who.Size / 2 / hardwaretest.Block)
	hardwaretest.RequireCount(t, contents, nonce, half, half, 0)

	require.NoError(t, run(), "it happens once, also across the crash")
	hardwaretest.RequireCount(t, contents, nonce, 0, 2*half, 0)
}

func TestDelayIsTheTimeOfAFullPass(t *testing.T) {
	d := New(t.TempDir(), allowed)
	of := target("d1", "delay", "200ms")
	who, _ := enrolled(t, d, of)
	h := open(t, d, of, who, "zero")
	began := time.Now()
	require.NoError(t, h.ZeroAt(t.Context(), 0, who.Size/2))
	require.NoError(t, h.ZeroAt(t.Context(), who.Size/2, who.Size/2))
	require.GreaterOrEqual(t, time.Since(began), 199*time.Millisecond)
}

func TestStateThatCannotBeReadIsAFault(t *testing.T) {
	d := New(t.TempDir(), allowed)
	of := target("d1")
	who, contents := enrolled(t, d, of)
	before := hardwaretest.Sum(t, contents)
	require.NoError(t, os.WriteFile(filepath.Join(d.dir, "fake/d1/state.json"), []byte("{"), 0o600))
	_, err := d.Discover(t.Context(), of, who)
	hardwaretest.RequireFault(t, err, device.CodeStateDirError)
	h, err := d.Open(t.Context(), of, who, true)
	hardwaretest.RequireFault(t, err, device.CodeStateDirError)
	require.Nil(t, h)
	require.Equal(t, before, hardwaretest.Sum(t, contents))
}
