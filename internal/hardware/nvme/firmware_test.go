package nvme_test

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"burnish/internal/clean"
	"burnish/internal/device"
	"burnish/internal/testkit/nvmesim"
)

// policyImage writes an image to the host, and gives the policy's entry for it.
func policyImage(t *testing.T, content []byte) clean.FirmwareImage {
	t.Helper()
	path := filepath.Join(t.TempDir(), "image.bin")
	require.NoError(t, os.WriteFile(path, content, 0o600))
	sum := sha256.Sum256(content)
	return clean.FirmwareImage{From: []string{"1.0.0"}, To: "2.0.0", Image: path, SHA256: hex.EncodeToString(sum[:])}
}

// policyArgs are the arguments of the steps that the policy gives this image.
func policyArgs(t *testing.T, image clean.FirmwareImage) json.RawMessage {
	t.Helper()
	args, err := json.Marshal(clean.FirmwareArgs{Components: []clean.FirmwareImage{image}})
	require.NoError(t, err)
	return args
}

// reflash is a clean whose firmware policy has this image.
func (b *driveFixture) reflash(i int, image clean.FirmwareImage) *cleanRun {
	b.t.Helper()
	r := b.clean(i, b.enroll(i), device.CryptoErase)
	r.args = policyArgs(b.t, image)
	b.site.ClearLog()
	return r
}

// flashing is a clean of an enrolled drive that is to get smallImage, and was changed since.
func flashing(t *testing.T, changes ...func(*nvmesim.Controller)) *cleanRun {
	t.Helper()
	r := newDriveFixture(t, nvmesim.Drive("S1")).reflash(0, policyImage(t, smallImage))
	for _, change := range changes {
		r.change(change)
	}
	return r
}

// firmwareCommands are the commands of an update that the drive got, and the reads that
// settle one.
func (b *driveFixture) firmwareCommands() (names []string) {
	b.t.Helper()
	for _, c := range b.site.Log() {
		switch {
		case c.Opcode == nvmesim.DownloadFirmware && c.CDW[1] == 0:
			names = append(names, "download")
		case c.Opcode == nvmesim.CommitFirmware:
			names = append(names, fmt.Sprintf("commit %d", c.CDW[0]&7))
		case c.Opcode == nvmesim.Reset:
			names = append(names, "reset")
		case c.Opcode == nvmesim.SubsystemReset:
			names = append(names, "subsystem reset")
		}
	}
	return names
}

// requireReadsBetweenCommits: between two commits the running version and the slots are read.
func (b *driveFixture) requireReadsBetweenCommits() {
	b.t.Helper()
	version, slots := true, true
	for _, c := range b.site.Log() {
		switch {
		case c.Opcode == nvmesim.Identify && c.CDW[0]&0xff == 1:
			version = true
		case c.Opcode == nvmesim.GetLog && c.CDW[0]&0xff == 3:
			slots = true
		case c.Opcode == nvmesim.CommitFirmware:
			require.True(b.t, version && slots, "a commit without a read since the last one: %v", b.firmwareCommands())
			version, slots = false, false
		}
	}
}

var smallImage = nvmesim.Image("2.0.0", 8<<10)

// F11, F20
func TestFirmwareIsReflashed(t *testing.T) {
	t.Parallel()
	type drive = nvmesim.Controller
	answers := func(status nvmesim.Status, by nvmesim.Activation) func(*drive) {
		return func(c *drive) { c.Update = nvmesim.Update{Answer: status, By: by} }
	}
	after := func(opcode uint8, i nvmesim.Injection) func(*drive) {
		i.Opcode, i.Times = opcode, 1
		return func(c *drive) { c.Inject = append(c.Inject, i) }
	}
	for name, tt := range map[string]struct {
		change func(*drive)
		sent   []string
		code   device.Code
		says   string
	}{
		"activated by a reset":        {answers(0, nvmesim.ByReset), []string{"download", "commit 2", "reset"}, "", "firmware 1.0.0 to 2.0.0 in slot 2"},
		"activated at once":           {answers(0, nvmesim.AtOnce), []string{"download", "commit 2"}, "", "in slot 2, sha256"},
		"controller reset (0x111)":    {answers(nvmesim.NeedsControllerReset, nvmesim.ByReset), []string{"download", "commit 2", "reset"}, "", "activated by reset"},
		"subsystem reset (0x110)":     {answers(0x110, nvmesim.BySubsystemReset), []string{"download", "commit 2", "subsystem reset"}, "", "activated by subsystem-reset"},
		"conventional reset (0x10b)":  {answers(0x10b, nvmesim.ByReset), []string{"download", "commit 2", "reset"}, "", "activated by reset"},
		"0x10b, by a subsystem reset": {answers(nvmesim.NeedsReset, nvmesim.BySubsystemReset), []string{"download", "commit 2", "reset", "subsystem reset"}, "", "activated by reset, subsystem-reset"},
		"hides which slot is next":    {func(c *drive) { c.Update.HidesNext = true }, []string{"download", "commit 2", "reset"}, "", "in slot 2"},
		"hides it, and lost": {func(c *drive) {
			c.Update.HidesNext = true
			after(nvmesim.CommitFirmware, nvmesim.Injection{Errno: 5, AfterEffect: true})(c)
		}, []string{"download", "commit 2", "reset"}, "", "in slot 2"},
		"needs a power cycle":          {answers(nvmesim.NeedsReset, nvmesim.ByPowerCycle), []string{"download", "commit 2", "reset", "subsystem reset"}, device.CodeFirmwareNotActive, `in slot 2 and runs "1.0.0" after reset, subsystem-reset`},
		"stays at the old version":     {answers(0, nvmesim.ByPowerCycle), []string{"download", "commit 2", "reset"}, device.CodeFirmwareNotActive, `runs "1.0.0" after reset`},
		"without a subsystem reset":    {func(c *drive) { answers(0x110, nvmesim.BySubsystemReset)(c); c.SubsystemResets = false }, []string{"download", "commit 2", "subsystem reset"}, device.CodeFirmwareNotActive, "not supported"},
		"takes too long (0x112)":       {after(nvmesim.CommitFirmware, nvmesim.Injection{Status: nvmesim.TimeViolation}), []string{"download", "commit 2"}, device.CodeFirmwareNotActive, "status 0x112"},
		"prohibited (0x113)":           {after(nvmesim.CommitFirmware, nvmesim.Injection{Status: nvmesim.ActivationProhibited}), []string{"download", "commit 2"}, device.CodeFirmwareNotActive, "status 0x113"},
		"invalid image (0x107)":        {after(nvmesim.CommitFirmware, nvmesim.Injection{Status: nvmesim.InvalidFirmwareImage}), []string{"download", "commit 2"}, device.CodeFirmwareImage, "status 0x107"},
		"reset in mid-download":        {after(nvmesim.DownloadFirmware, nvmesim.Injection{Resets: true}), []string{"download", "commit 2"}, device.CodeFirmwareImage, "not complete"},
		"download refused":             {after(nvmesim.DownloadFirmware, nvmesim.Injection{Status: nvmesim.OverlappingRange}), []string{"download"}, device.CodeCommandRefused, "status 0x114"},
		"swapped after the download":   {after(nvmesim.DownloadFirmware, nvmesim.Injection{Skip: 1, SwapTo: "S2"}), []string{"download"}, device.CodeSerialMismatch, ""},
		"swapped after the commit":     {after(nvmesim.CommitFirmware, nvmesim.Injection{SwapTo: "S2"}), []string{"download", "commit 2"}, device.CodeSerialMismatch, ""},
		"another serial after a reset": {after(nvmesim.Reset, nvmesim.Injection{SwapTo: "S2"}), []string{"download", "commit 2", "reset"}, device.CodeSerialMismatch, ""},
		"another number after a reset": {after(nvmesim.Reset, nvmesim.Injection{RenumberTo: "nvme7"}), []string{"download", "commit 2", "reset"}, "", "in slot 2"},
		"unhealthy":                    {func(c *drive) { c.Health.CriticalWarning = 4 }, []string{"download", "commit 2", "reset"}, device.CodeStepFailed, "critical warning 0x04"},
		"slot 1 is read-only":          {func(c *drive) { c.FRMW |= 1; c.Slots.AFI, c.Slots.Revisions = 2, [7]string{"0.9", "1.0.0", "0.8"} }, []string{"download", "commit 3", "reset"}, "", "in slot 3"},
		"an empty slot":                {func(c *drive) { c.Slots.Revisions = [7]string{"1.0.0", "0.9"} }, []string{"download", "commit 3", "reset"}, "", "in slot 3"},
		"the slot that has it":         {func(c *drive) { c.Slots.Revisions = [7]string{"1.0.0", "", "2.0.0"} }, []string{"download", "commit 3", "reset"}, "", "in slot 3"},
		"one slot":                     {func(c *drive) { c.FRMW = 1 << 1 }, []string{"download", "commit 1", "reset"}, "", "in slot 1"},
		"one slot, read-only":          {func(c *drive) { c.FRMW = 1<<1 | 1 }, nil, device.CodeCommandRefused, "no firmware slot that can be written"},
		"larger units":                 {func(c *drive) { c.FWUG = 2 }, []string{"download", "commit 2", "reset"}, "", "in slot 2"},
		"runs another version":         {func(c *drive) { c.Firmware = "1.5.0" }, nil, device.CodeFirmwareNotListed, `runs firmware "1.5.0", and the policy allows updates to "2.0.0" from 1.0.0 only`},
		"a tenant staged another":      {func(c *drive) { c.Slots.AFI = 2<<4 | 1; c.Slots.Revisions[1] = "EVIL" }, nil, device.CodeFirmwareChanged, `"EVIL" staged in slot 2`},
		"a tenant staged the same":     {func(c *drive) { c.Slots.AFI = 2<<4 | 1; c.Slots.Revisions[1] = "2.0.0" }, nil, device.CodeFirmwareChanged, `"2.0.0" staged in slot 2`},
		"staged in the only slot":      {func(c *drive) { c.FRMW = 1 << 1; c.Slots.AFI = 1<<4 | 1; c.Slots.Revisions[0] = "EVIL" }, nil, device.CodeFirmwareChanged, `"EVIL" staged in slot 1`},
		"at its target":                {func(c *drive) { c.Firmware = "2.0.0"; c.Slots.Revisions[0] = "2.0.0" }, nil, "", "it runs firmware 2.0.0 already"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := flashing(t, tt.change)
			err := r.attempts("firmware_reflash")
			require.Equal(t, tt.sent, r.firmwareCommands())
			r.requireReadsBetweenCommits()
			if tt.code != "" {
				require.Contains(t, fault(t, tt.code, err).Message, tt.says)
				return
			}
			require.NoError(t, err)
			require.Contains(t, r.done["firmware_reflash"].Note, tt.says)
			require.Equal(t, "2.0.0", r.site.State(0).Firmware)
			if tt.sent != nil {
				require.Equal(t, "2.0.0", r.reflashed, "the host knows who did it")
			}
			require.NoError(t, r.step(t.Context(), "verify_firmware"))
			r.site.ClearLog()
			require.NoError(t, r.step(t.Context(), "firmware_reflash"))
			require.Empty(t, r.firmwareCommands(), "at the target nothing is sent")
		})
	}
}

// What the drive gets are the bytes whose digest the policy names.
func TestFirmwareImageMustHaveThePolicysDigest(t *testing.T) {
	t.Parallel()
	b := newDriveFixture(t, nvmesim.Drive("S1"))
	other := slices.Clone(smallImage)
	other[5000]++
	image := policyImage(t, smallImage)
	odd := policyImage(t, smallImage[:len(smallImage)-2])
	for name, tt := range map[string]struct {
		change func(*clean.FirmwareImage)
		code   device.Code
		says   string
	}{
		"other bytes":       {func(i *clean.FirmwareImage) { i.Image = policyImage(t, other).Image }, device.CodeFirmwareImage, "has the SHA-256"},
		"missing":           {func(i *clean.FirmwareImage) { i.Image += ".gone" }, device.CodeFirmwareImage, "cannot be opened"},
		"a directory":       {func(i *clean.FirmwareImage) { i.Image = filepath.Dir(i.Image) }, device.CodeFirmwareImage, "not a regular file"},
		"no multiple of 4":  {func(i *clean.FirmwareImage) { *i = odd }, device.CodeFirmwareImage, "multiple of 4"},
		"no digest":         {func(i *clean.FirmwareImage) { i.SHA256 = "" }, device.CodeInvalidSetting, "not a SHA-256"},
		"a relative path":   {func(i *clean.FirmwareImage) { i.Image = "image.bin" }, device.CodeInvalidSetting, "absolute path"},
		"another component": {func(i *clean.FirmwareImage) { i.Component = "BMC" }, device.CodeInvalidSetting, `no component "BMC"`},
		"from nothing":      {func(i *clean.FirmwareImage) { i.From = nil }, device.CodeFirmwareNotListed, "no version"},
	} {
		t.Run(name, func(t *testing.T) {
			one := image
			tt.change(&one)
			r := b.reflash(0, one)
			require.Contains(t, fault(t, tt.code, r.step(t.Context(), "firmware_reflash")).Message, tt.says)
			require.Empty(t, b.firmwareCommands())
		})
	}
	t.Run("no policy", func(t *testing.T) {
		r := b.reflash(0, image)
		r.args = nil
		fault(t, device.CodeInvalidSetting, r.step(t.Context(), "firmware_reflash"))
	})
	t.Run("no reset", func(t *testing.T) {
		r := b.reflash(0, image)
		r.target.Settings = map[string]string{"reset": "no"}
		require.Contains(t, fault(t, device.CodeInvalidSetting, r.step(t.Context(), "firmware_reflash")).Message, "reset=no")
		require.Empty(t, b.firmwareCommands())
	})
	replaced := 0
	for n := range 8 { // at each checkpoint of the step
		t.Run(fmt.Sprintf("replaced at checkpoint %d", n), func(t *testing.T) {
			b := newDriveFixture(t, nvmesim.Drive("S1"))
			image := policyImage(t, smallImage)
			r := b.reflash(0, image)
			left := n
			r.stop = func(string, int64) error {
				if left--; left < 0 {
					return os.WriteFile(image.Image, other, 0o600)
				}
				return nil
			}
			if err := r.step(t.Context(), "firmware_reflash"); err != nil {
				fault(t, device.CodeFirmwareImage, err)
				require.Empty(t, b.firmwareCommands())
				replaced++
				return
			}
			require.Equal(t, image.SHA256, b.site.State(0).Update.Committed)
		})
	}
	require.Positive(t, replaced)
}

// A drive that cannot be updated has no such steps.
func TestFirmwareStepsOnlyWhereTheDriveHasUpdates(t *testing.T) {
	t.Parallel()
	drive := nvmesim.Drive("S1")
	drive.OACS &^= 1 << 2
	b := newDriveFixture(t, drive, nvmesim.Drive("S2"))
	require.Empty(t, b.enroll(0).SupportedSteps)
	require.Equal(t, []string{"firmware_reflash", "verify_firmware"}, b.enroll(1).SupportedSteps)
	r := b.reflash(0, policyImage(t, smallImage))
	fault(t, device.CodeNoSuchStep, r.step(t.Context(), "firmware_reflash"))
	require.Empty(t, b.firmwareCommands())
}

func TestVerifyFirmware(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		change func(*nvmesim.Controller)
		code   device.Code
	}{
		"as the policy demands": {func(c *nvmesim.Controller) { c.Firmware = "2.0.0" }, ""},
		"an older version":      {func(*nvmesim.Controller) {}, device.CodeFirmwareNotActive},
		"another is staged":     {func(c *nvmesim.Controller) { c.Firmware = "2.0.0"; c.Slots.AFI = 2<<4 | 1; c.Slots.Revisions[1] = "3" }, device.CodeFirmwareChanged},
		"unhealthy":             {func(c *nvmesim.Controller) { c.Firmware, c.Health.CriticalWarning = "2.0.0", 8 }, device.CodeStepFailed},
		"only warm":             {func(c *nvmesim.Controller) { c.Firmware, c.Health.CriticalWarning = "2.0.0", 2 }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := flashing(t, tt.change)
			err := r.step(t.Context(), "verify_firmware")
			require.Empty(t, r.firmwareCommands())
			if tt.code == "" {
				require.NoError(t, err)
				require.Contains(t, r.done["verify_firmware"].Note, "2.0.0")
				return
			}
			fault(t, tt.code, err)
		})
	}
}

// After a reflash the drive runs another version than the enrolled one. Only the version
// that the host recorded as its own is accepted, and the next discovery enrolls it.
//
// F20
func TestOwnReflashIsNoTenantsChange(t *testing.T) {
	t.Parallel()
	b := newDriveFixture(t, nvmesim.Drive("S1"))
	r := b.reflash(0, policyImage(t, smallImage))
	require.NoError(t, r.step(t.Context(), "firmware_reflash"))
	require.Equal(t, "1.0.0", r.enrolled.Firmware)
	require.NoError(t, r.step(t.Context(), "security_check"), "a later step of the same clean")

	target := b.target(0)
	found, err := b.driver.Discover(t.Context(), target, r.enrolled)
	require.NoError(t, err)
	require.Equal(t, "1.0.0", found.Identity.Firmware, "without the host's record")
	target.Reflashed = r.reflashed
	found, err = b.driver.Discover(t.Context(), target, r.enrolled)
	require.NoError(t, err)
	require.Equal(t, "2.0.0", found.Identity.Firmware)

	next := b.clean(0, found, device.CryptoErase)
	require.NoError(t, next.step(t.Context(), "security_check"), "the next clean, without the record")
	b.site.Change(0, func(c *nvmesim.Controller) { c.Firmware = "2.0.1" })
	next.reflashed = "2.0.0"
	require.Contains(t, fault(t, device.CodeFirmwareChanged, next.step(t.Context(), "security_check")).Message, `"2.0.1"`)
}

// The drive needs a power cycle. After it the next clean goes on, without another commit.
func TestReflashEndsAfterThePowerCycleOfTheOperator(t *testing.T) {
	t.Parallel()
	for _, cycled := range []bool{true, false} {
		t.Run(fmt.Sprintf("cycled %t", cycled), func(t *testing.T) {
			t.Parallel()
			b := newDriveFixture(t, nvmesim.Drive("S1"))
			image := policyImage(t, smallImage)
			r := b.reflash(0, image)
			b.site.Change(0, func(c *nvmesim.Controller) {
				c.Update = nvmesim.Update{Answer: nvmesim.NeedsReset, By: nvmesim.ByPowerCycle}
			})
			fault(t, device.CodeFirmwareNotActive, r.step(t.Context(), "firmware_reflash"))
			if cycled {
				b.site.PowerCycle(0)
			}
			r.evidence = map[string]json.RawMessage{} // another clean
			b.site.ClearLog()
			require.NoError(t, r.step(t.Context(), "security_check"))
			err := r.step(t.Context(), "firmware_reflash")
			if !cycled {
				fault(t, device.CodeFirmwareNotActive, err)
				require.Equal(t, []string{"reset", "subsystem reset"}, b.firmwareCommands())
				return
			}
			require.NoError(t, err)
			require.Empty(t, b.firmwareCommands())
			require.NoError(t, r.step(t.Context(), "verify_firmware"))
		})
	}
}

// errCrash ends an attempt as a crash of its worker does.
var errCrash = errors.New("the worker crashed")

// An attempt ends before or after any command, checkpoint or record; the next one finishes
// the update or calls the operator, and no commit is repeated without a read.
//
// F2
func TestReflashSurvivesACrashAnywhere(t *testing.T) {
	t.Parallel()
	image := policyImage(t, smallImage)
	// The commands of an undisturbed run, from the first download on.
	b := newDriveFixture(t, nvmesim.Drive("S1"))
	r := b.reflash(0, image)
	require.NoError(t, r.step(t.Context(), "firmware_reflash"))
	log := b.site.Log()
	seen := map[uint8]int{}
	crash := func(name string, prepare func(t *testing.T, b *driveFixture, r *cleanRun), commits int) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newDriveFixture(t, nvmesim.Drive("S1"))
			r := b.reflash(0, image)
			prepare(t, b, r)
			err := r.step(t.Context(), "firmware_reflash")
			r.stop, r.save = nil, nil
			b.site.Change(0, func(c *nvmesim.Controller) { c.Inject = nil })
			if err != nil {
				err = r.step(t.Context(), "firmware_reflash")
			}
			b.requireReadsBetweenCommits()
			require.NoError(t, err)
			require.Equal(t, "2.0.0", b.site.State(0).Firmware)
			require.Equal(t, image.SHA256, b.site.State(0).Update.Committed)
			require.Empty(t, b.site.State(0).Slots.Revisions[2], "no other slot is written")
			count := 0
			for _, sent := range b.firmwareCommands() {
				if sent == "commit 2" {
					count++
				}
			}
			require.Equal(t, commits, count, "%v", b.firmwareCommands())
		})
	}
	downloading := false
	for n, c := range log {
		skip := seen[c.Opcode]
		seen[c.Opcode]++
		if downloading = downloading || c.Opcode == nvmesim.DownloadFirmware; !downloading {
			continue
		}
		for _, after := range []bool{false, true} {
			if after && (c.Opcode == nvmesim.Identify || c.Opcode == nvmesim.GetLog) {
				continue // it changes nothing
			}
			commits := 1
			if c.Opcode == nvmesim.CommitFirmware && !after {
				commits = 2 // the first one did not reach the drive
			}
			crash(fmt.Sprintf("command %d 0x%02x after %t", n, c.Opcode, after),
				func(t *testing.T, b *driveFixture, _ *cleanRun) {
					b.site.Change(0, func(c2 *nvmesim.Controller) {
						c2.Inject = []nvmesim.Injection{{Opcode: c.Opcode, Skip: skip, Times: 1, Kill: true, AfterEffect: after}}
					})
				}, commits)
		}
	}
	for n := range r.checkpoints {
		crash(fmt.Sprintf("checkpoint %d", n), func(t *testing.T, _ *driveFixture, r *cleanRun) {
			left := n
			r.stop = func(string, int64) error {
				if left--; left < 0 {
					return errCrash
				}
				return nil
			}
		}, 1)
	}
	for n := range r.saves {
		for _, after := range []bool{false, true} {
			crash(fmt.Sprintf("record %d after %t", n, after), func(t *testing.T, _ *driveFixture, r *cleanRun) {
				left := n
				r.save = func(write func() error) error {
					if left--; left >= 0 {
						return write()
					}
					if after {
						return errors.Join(write(), errCrash)
					}
					return errCrash
				}
			}, 1)
		}
	}
}

// Between the commit and the reset somebody stages other firmware.
//
// F20
func TestDriveIsNotResetWhileSomethingElseIsStaged(t *testing.T) {
	t.Parallel()
	r := flashing(t)
	r.save = func(write func() error) error {
		if slices.Contains(r.firmwareCommands(), "commit 2") {
			r.site.Change(0, func(c *nvmesim.Controller) { c.Slots.AFI = 3<<4 | 1; c.Slots.Revisions[2] = "EVIL" })
		}
		return write()
	}
	fault(t, device.CodeFirmwareNotActive, r.step(t.Context(), "firmware_reflash"))
	require.Equal(t, []string{"download", "commit 2"}, r.firmwareCommands())
	require.Equal(t, "1.0.0", r.site.State(0).Firmware)
}

// A commit whose answer is lost, and that reading does not settle, is the operator's.
func TestReflashThatReadingDoesNotSettle(t *testing.T) {
	t.Parallel()
	lost := func(i nvmesim.Injection) func(*nvmesim.Controller) {
		i.Opcode, i.Errno = nvmesim.CommitFirmware, 5
		return func(c *nvmesim.Controller) { c.Inject = []nvmesim.Injection{i} }
	}
	for name, tt := range map[string]struct {
		change func(*nvmesim.Controller)
		sent   []string
	}{
		"the slot had it before": {func(c *nvmesim.Controller) { lost(nvmesim.Injection{Times: 1})(c); c.Slots.Revisions[1] = "2.0.0" }, []string{"download", "commit 2"}},
		"lost every time":        {lost(nvmesim.Injection{}), []string{"download", "commit 2", "download", "commit 2"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := flashing(t, tt.change)
			require.Contains(t, fault(t, device.CodeFirmwareUnknown, r.attempts("firmware_reflash")).Message, "was lost")
			fault(t, device.CodeFirmwareUnknown, r.step(t.Context(), "firmware_reflash"))
			require.Equal(t, tt.sent, r.firmwareCommands())
			r.requireReadsBetweenCommits()
		})
	}
}

// While the kernel resets the drive, its disks stay claimed: no other program gets in between.
//
// F12
func TestDriveStaysClaimedDuringItsReset(t *testing.T) {
	t.Parallel()
	r := flashing(t)
	states, err := filepath.Glob(filepath.Join(r.site.Sys, "devices/pci0000:00/*/nvme/nvme0/state"))
	require.NoError(t, err)
	require.Len(t, states, 1)
	claimed := make(chan error, 1)
	r.save = func(write func() error) error {
		if slices.Contains(r.firmwareCommands(), "commit 2") {
			require.NoError(t, os.WriteFile(states[0], []byte("resetting\n"), 0o600))
			time.AfterFunc(500*time.Millisecond, func() {
				disk, err := os.OpenFile(filepath.Join(r.site.Dev, "nvme0n1"), os.O_RDONLY|unix.O_EXCL, 0)
				if err == nil {
					err = disk.Close()
				}
				claimed <- errors.Join(err, os.WriteFile(states[0], []byte("live\n"), 0o600))
			})
		}
		return write()
	}
	require.NoError(t, r.step(t.Context(), "firmware_reflash"))
	require.ErrorIs(t, <-claimed, unix.EBUSY)
	require.Equal(t, []string{"download", "commit 2", "reset"}, r.firmwareCommands())
}
