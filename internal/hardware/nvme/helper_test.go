package nvme_test

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"burnish/internal/clean/steps"
	"burnish/internal/device"
	"burnish/internal/hardware"
	"burnish/internal/hardware/block"
	"burnish/internal/hardware/nvme"
	"burnish/internal/hardware/nvme/privileged"
	"burnish/internal/host"
	"burnish/internal/pci"
	"burnish/internal/testkit/nvmesim"
)

func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == privileged.Subcommand {
		if err := runAsHelper(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(nvmesim.Main(m))
}

const (
	// unprivilegedUID is a user without privileges.
	unprivilegedUID = 65534
	// workerVariable names the file with the settings of a worker process.
	workerVariable = "BURNISH_PLAYED_WORKER"
)

// machine is the settings of a helper or worker process.
type machine struct {
	Sys, Dev, Tool, Address, Helper, Fence string
	Operation                              device.Operation
	Steps                                  []string
	Args                                   json.RawMessage
}

// runAsHelper runs this test binary, which is setuid root, as the helper.
func runAsHelper() error {
	program, err := os.Executable()
	if err != nil {
		return err
	}
	var m machine
	text, err := os.ReadFile(filepath.Join(filepath.Dir(program), "helper.json"))
	if err == nil {
		err = json.Unmarshal(text, &m)
	}
	if err != nil {
		return err
	}
	ambient, err := privileged.AcquirePrivilege()
	if err != nil {
		return err
	}
	s := &privileged.Server{Local: &privileged.Local{Tool: m.Tool, Sys: m.Sys, Dev: m.Dev, Proc: "/proc",
		Timeout: time.Second, AmbientCaps: ambient}}
	rules, err := host.LoadRootRules(filepath.Join(filepath.Dir(program), "host.yaml"))
	if err != nil {
		s.StartupError = &device.Fault{Class: device.NeedsOperator, Code: device.CodeNotAllowed, Message: err.Error(),
			Remedy: "mend it"}
	} else {
		s.Allow = rules.AllowPCI
	}
	return privileged.RunHelper(s)
}

// unprivileged is a host whose worker runs without privileges, with a helper that is setuid root.
type unprivileged struct {
	*driveFixture
	dir      string
	settings machine
	found    hardware.Discovery
}

func newUnprivileged(t *testing.T, names ...string) *unprivileged {
	b := newDriveFixture(t, nvmesim.Drive("S1"), nvmesim.Drive("CONTROL"))
	found := b.enroll(0)
	dir, err := os.MkdirTemp("", "burnish-helper-")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	u := &unprivileged{driveFixture: b, dir: dir, found: found}
	for _, open := range []string{dir, b.site.Dir} {
		require.NoError(t, os.Chmod(open, 0o755))
	}
	self, err := os.Executable()
	require.NoError(t, err)
	for name, mode := range map[string]os.FileMode{"worker": 0o755, "helper": 0o755 | os.ModeSetuid} {
		copyFile(t, self, filepath.Join(dir, name))
		require.NoError(t, os.Chmod(filepath.Join(dir, name), mode))
	}
	for _, own := range []string{filepath.Join(dir, "tmp"), filepath.Join(dir, "tmp/fence")} {
		if filepath.Base(own) == "tmp" {
			require.NoError(t, os.Mkdir(own, 0o700))
		} else {
			require.NoError(t, os.WriteFile(own, nil, 0o600))
		}
		require.NoError(t, os.Chown(own, unprivilegedUID, unprivilegedUID))
	}
	// As udev would do it: the worker gets the namespaces but not the controllers.
	require.NoError(t, os.Chown(filepath.Join(b.site.Dev, "nvme0n1"), unprivilegedUID, unprivilegedUID))
	u.writeRules("1b36", 0o644)
	u.settings = machine{Sys: b.site.Sys, Dev: b.site.Dev, Tool: b.site.Tool(), Address: b.site.State(0).Address,
		Helper: filepath.Join(dir, "helper"), Fence: filepath.Join(dir, "tmp/fence"), Operation: device.CryptoErase,
		Steps: names}
	u.writeSettings("helper.json")
	return u
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	in, err := os.Open(from)
	require.NoError(t, err)
	defer in.Close()
	out, err := os.Create(to)
	require.NoError(t, err)
	_, err = io.Copy(out, in)
	require.NoError(t, err)
	require.NoError(t, out.Close())
}

// writeRules writes the host.yaml that the helper reads.
func (u *unprivileged) writeRules(vendor string, mode os.FileMode) {
	u.t.Helper()
	file := filepath.Join(u.dir, "host.yaml")
	require.NoError(u.t, os.WriteFile(file, []byte("allow: {device_spec: [{vendor_id: \""+vendor+"\"}]}\n"), 0o644))
	require.NoError(u.t, os.Chmod(file, mode))
}

func (u *unprivileged) writeSettings(name string) {
	u.t.Helper()
	text, err := json.Marshal(u.settings)
	require.NoError(u.t, err)
	require.NoError(u.t, os.WriteFile(filepath.Join(u.dir, name), text, 0o644))
}

// worker is the command of a worker that runs without privileges.
func (u *unprivileged) worker() *exec.Cmd {
	u.t.Helper()
	u.writeSettings("worker.json")
	cmd := exec.CommandContext(u.t.Context(), filepath.Join(u.dir, "worker"), "-test.run=^TestWorkerProcess$", "-test.v")
	cmd.Dir = "/"
	cmd.Env = append(os.Environ(), workerVariable+"="+filepath.Join(u.dir, "worker.json"), "TMPDIR="+
		filepath.Join(u.dir, "tmp"))
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: unprivilegedUID, Gid: unprivilegedUID}}
	return cmd
}

// TestWorkerProcess is the worker process that other tests start. By itself it does nothing.
func TestWorkerProcess(t *testing.T) {
	file, ok := os.LookupEnv(workerVariable)
	if !ok {
		return
	}
	var m machine
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &m))
	require.Equal(t, unprivilegedUID, os.Geteuid())
	if m.Operation == "" {
		output, err := (&privileged.Remote{Program: m.Helper}).Version(t.Context())
		require.NoError(t, err)
		t.Logf("%s", output)
		return
	}
	allowed := func(pci.Device) error { return nil }
	kernel := block.Kernel{Proc: "/proc", Sys: m.Sys, Dev: m.Dev}

	bare := nvme.New(nvme.Host{Allow: allowed, Tool: m.Tool, Kernel: kernel})
	_, err = bare.Discover(t.Context(), hardware.Target{Address: m.Address}, device.Identity{})
	require.Contains(t, fault(t, device.CodeNotAllowed, err).Remedy, "BURNISH_NVME_HELPER")

	b := &driveFixture{t: t, driver: nvme.New(nvme.Host{Allow: allowed, Helper: m.Helper, Kernel: kernel})}
	require.NoError(t, b.driver.Init(t.Context()))
	fence, err := os.OpenFile(m.Fence, os.O_RDWR, 0)
	require.NoError(t, err)
	defer fence.Close()
	require.NoError(t, unix.Flock(int(fence.Fd()), unix.LOCK_EX|unix.LOCK_NB))
	target := hardware.Target{Name: "d", Driver: "nvme", Address: m.Address, Fence: fence,
		AcceptSignature: "hidden_namespace"}
	found, err := b.driver.Discover(t.Context(), target, device.Identity{})
	require.NoError(t, err)
	r := &cleanRun{driveFixture: b, target: target, found: found, enrolled: found.Identity, operation: m.Operation,
		args: m.Args, evidence: map[string]json.RawMessage{}, offsets: map[string]int64{}, done: map[string]steps.Outcome{}}
	names := m.Steps
	if len(names) == 0 {
		names = r.fullPlan()
	}
	_, err = r.all(t.Context(), names...)
	require.NoError(t, err)
	t.Logf("%v: %+v", names, r.done)
}

// A worker that cannot open any controller runs a whole plan through the helper.
//
// S2.67
func TestAWorkerWithoutRootCleans(t *testing.T) {
	const half = 8 << 20 / 512
	for name, tt := range map[string]struct {
		operation device.Operation
		change    func(*nvmesim.Controller)
	}{
		"zeroes": {device.Shred, func(*nvmesim.Controller) {}},
		"split, and a feature changed": {device.BlockErase, func(c *nvmesim.Controller) {
			c.Namespaces = []nvmesim.Namespace{{NSID: 1, Blocks: half, Attached: true}, {NSID: 2, Blocks: half}}
			f := c.Features[6]
			f.Saved, f.Current = 0, 0
			c.Features[6] = f
		}},
	} {
		t.Run(name, func(t *testing.T) {
			u := newUnprivileged(t)
			u.settings.Operation = tt.operation
			u.site.Change(0, tt.change)
			u.site.Rescan(0)
			defer u.udev()()
			u.writeAsTenant(0)
			u.writeAsTenant(1)
			control := u.tenantBlocks(1)
			require.Positive(t, u.tenantBlocks(0))
			u.site.ClearLog()
			output, err := u.worker().CombinedOutput()
			require.NoError(t, err, "%s", output)
			t.Logf("%s", output)
			require.Zero(t, u.tenantBlocks(0))
			require.Equal(t, control, u.tenantBlocks(1), "the other drive")
			provenCommands(t, u.site, "S1")
		})
	}
}

// The image reaches the helper by its descriptor.
func TestAWorkerWithoutRootUpdatesFirmware(t *testing.T) {
	u := newUnprivileged(t, "firmware_reflash", "verify_firmware")
	image := policyImage(t, smallImage)
	inTemp := filepath.Join(u.dir, "tmp", "image.bin")
	copyFile(t, image.Image, inTemp)
	require.NoError(t, os.Chmod(inTemp, 0o644))
	image.Image = inTemp
	u.settings.Args = policyArgs(t, image)
	output, err := u.worker().CombinedOutput()
	require.NoError(t, err, "%s", output)
	require.Equal(t, "2.0.0", u.site.State(0).Firmware)
	require.Equal(t, image.SHA256, u.site.State(0).Update.Committed)
	require.Equal(t, []string{"download", "commit 2", "reset"}, u.firmwareCommands())
}

// udev gives each new namespace to the worker until it is stopped.
func (u *unprivileged) udev() (stop func()) {
	ended, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		again := time.NewTicker(5 * time.Millisecond)
		defer again.Stop()
		for {
			select {
			case <-ended:
				return
			case <-again.C:
				_ = os.Chown(filepath.Join(u.site.Dev, "nvme0n1"), unprivilegedUID, unprivilegedUID) // it may not be there now
			}
		}
	}()
	return func() { close(ended); <-stopped }
}

// The helper uses rules that only root can write.
func TestTheHelperHasItsOwnRules(t *testing.T) {
	u := newUnprivileged(t)
	u.writeAsTenant(0)
	all := u.tenantBlocks(0)
	for name, tt := range map[string]struct {
		change func()
		says   string
	}{
		"not allowed": {func() { u.writeRules("8086", 0o644) }, "may not be destroyed on this host"},
		"everybody's": {func() { u.writeRules("1b36", 0o666) }, "may be written by others"},
		"the worker's own": {func() {
			u.writeRules("1b36", 0o644)
			require.NoError(t, os.Chown(filepath.Join(u.dir, "host.yaml"), unprivilegedUID, unprivilegedUID))
		}, "belongs to uid 65534"},
		"without privilege": {func() { require.NoError(t, os.Chmod(filepath.Join(u.dir, "helper"), 0o755)) }, "the helper has no privilege"},
	} {
		t.Run(name, func(t *testing.T) {
			tt.change()
			defer func() {
				require.NoError(t, os.Chown(filepath.Join(u.dir, "host.yaml"), 0, 0))
				u.writeRules("1b36", 0o644)
				require.NoError(t, os.Chmod(filepath.Join(u.dir, "helper"), 0o755|os.ModeSetuid))
			}()
			u.site.ClearLog()
			output, err := u.worker().CombinedOutput()
			require.Error(t, err)
			require.Contains(t, string(output), tt.says)
			require.Empty(t, u.site.Log(), "no drive got a command")
			require.Equal(t, all, u.tenantBlocks(0))
		})
	}
}

// With a helper too, no other process can use the drive before the command has ended.
//
// F1
func TestAKilledWorkersCommandKeepsTheFence(t *testing.T) {
	u := newUnprivileged(t, "sanitize")
	u.site.Change(0, func(c *nvmesim.Controller) {
		c.Inject = []nvmesim.Injection{{Opcode: nvmesim.SanitizeDrive, Hang: true}}
	})
	worker := u.worker()
	require.NoError(t, worker.Start())
	require.Eventually(t, func() bool { return len(u.sent(nvmesim.SanitizeDrive)) > 0 }, 30*time.Second,
		20*time.Millisecond)
	require.NoError(t, worker.Process.Kill())
	require.Error(t, worker.Wait())

	fence, err := os.OpenFile(u.settings.Fence, os.O_RDWR, 0)
	require.NoError(t, err)
	defer fence.Close()
	free := func() bool { return unix.Flock(int(fence.Fd()), unix.LOCK_EX|unix.LOCK_NB) == nil }
	require.Never(t, free, 500*time.Millisecond, 20*time.Millisecond)
	_, err = os.OpenFile(filepath.Join(u.site.Dev, "nvme0n1"), os.O_RDONLY|os.O_EXCL, 0)
	require.ErrorIs(t, err, unix.EBUSY)
	// The command ends, and the helper is still alive.
	for pid, words := range holding(t, u.settings.Fence) {
		if pid != os.Getpid() && !strings.Contains(words, privileged.Subcommand) {
			require.NoError(t, unix.Kill(pid, unix.SIGKILL))
		}
	}
	require.Eventually(t, free, time.Minute, 20*time.Millisecond)
	require.Eventually(t, func() bool { return len(holding(t, u.settings.Fence)) == 1 }, time.Minute, 20*time.Millisecond,
		"the helper has ended")
}

// holding lists the processes that have a file open, with their command lines.
func holding(t *testing.T, path string) map[int]string {
	t.Helper()
	links, err := filepath.Glob("/proc/[0-9]*/fd/*")
	require.NoError(t, err)
	found := map[int]string{}
	for _, link := range links {
		if target, err := os.Readlink(link); err != nil || target != path {
			continue
		}
		pid, err := strconv.Atoi(strings.Split(link, "/")[2])
		require.NoError(t, err)
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		if err == nil {
			found[pid] = strings.ReplaceAll(string(text), "\x00", " ")
		}
	}
	return found
}

// After a helper is killed, its drive cannot be used, and the next Open starts a new helper.
func TestAKilledHelperIsReplaced(t *testing.T) {
	u := newUnprivileged(t)
	hands := &privileged.Remote{Program: u.settings.Helper}
	drive, err := hands.Open(t.Context(), u.settings.Address)
	require.NoError(t, err)
	read := privileged.Request{Verb: privileged.IdentifyController}
	_, err = drive.Read(t.Context(), read)
	require.NoError(t, err)
	killed := 0
	for pid := range holding(t, filepath.Join(u.site.Dev, "nvme0")) {
		if pid != os.Getpid() {
			require.NoError(t, unix.Kill(pid, unix.SIGKILL))
			killed++
		}
	}
	require.Equal(t, 1, killed)
	for range 2 {
		_, err = drive.Read(t.Context(), read)
		require.Equal(t, device.Transient, fault(t, device.CodeIO, err).Class)
	}
	require.NoError(t, drive.Close())
	require.NoError(t, drive.Close(), "a second time")
	drive, err = hands.Open(t.Context(), u.settings.Address)
	require.NoError(t, err)
	_, err = drive.Read(t.Context(), read)
	require.NoError(t, err)
	require.NoError(t, drive.Close())
}

// A helper that is not root gives nvme-cli the two capabilities, and nothing from the
// caller's environment.
func TestFileCapabilitiesAreEnough(t *testing.T) {
	u := newUnprivileged(t)
	require.NoError(t, os.Chmod(u.settings.Helper, 0o755))
	const effective, dacOverride, sysAdmin = 1, 1 << unix.CAP_DAC_OVERRIDE, 1 << unix.CAP_SYS_ADMIN
	words := []uint32{0x02000000 | effective, dacOverride | sysAdmin, 0, 0, 0}
	var value []byte
	for _, w := range words {
		value = binary.LittleEndian.AppendUint32(value, w)
	}
	if err := unix.Setxattr(u.settings.Helper, "security.capability", value, 0); err != nil {
		t.Skipf("no file capabilities here: %v", err)
	}
	u.settings.Tool = filepath.Join(u.dir, "nvme")
	require.NoError(t,
		os.WriteFile(u.settings.Tool,
			[]byte("#!/bin/sh\ngrep -E 'Cap(Eff|Amb)|^Uid' /proc/self/status; env; echo \"words: $*\"; pwd\n"), 0o755))
	u.settings.Operation = ""
	u.writeSettings("helper.json")
	worker := u.worker()
	worker.Env = append(worker.Env, "LD_PRELOAD_OF_MINE=1")
	output, err := worker.CombinedOutput()
	require.NoError(t, err, "%s", output)
	for _, line := range []string{"CapEff:\t0000000000200002", "CapAmb:\t0000000000200002", "Uid:\t65534",
		"words: version", "LC_ALL=C"} {
		require.Contains(t, string(output), line)
	}
	require.NotContains(t, string(output), "LD_PRELOAD_OF_MINE")
	require.NotContains(t, string(output), workerVariable)

	// The helper runs as the caller's user, but the rules must belong to root.
	require.NoError(t, os.Chown(filepath.Join(u.dir, "host.yaml"), unprivilegedUID, unprivilegedUID))
	output, err = u.worker().CombinedOutput()
	require.Error(t, err)
	require.Contains(t, string(output), "belongs to uid 65534")
}
