package privileged

import (
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"burnish/internal/device"
	"burnish/internal/pci"
	"burnish/internal/testkit/nvmesim"
)

func TestMain(m *testing.M) { os.Exit(nvmesim.Main(m)) }

// A worker's environment may have its keys and passwords.
func TestNvmeCliInheritsNothingOfTheEnvironment(t *testing.T) {
	t.Setenv("TEMPORAL_API_KEY", "hunter2")
	tool := filepath.Join(t.TempDir(), "nvme")
	require.NoError(t, os.WriteFile(tool, []byte("#!/bin/sh\ncat /proc/$$/environ\n"), 0o700))
	environment, err := (&Local{Tool: tool}).Version(t.Context())
	require.NoError(t, err)
	require.Contains(t, string(environment), "LC_ALL=C")
	require.NotContains(t, string(environment), "hunter2")
}

// helperFixture is one server and its caller's end of the socket.
type helperFixture struct {
	t      *testing.T
	site   *nvmesim.Host
	conn   *net.UnixConn
	server *Server
	fence  *os.File
	served chan error
	// proc is a link to the procfs that the server uses; refusal is the answer of its rules.
	proc    string
	refusal atomic.Pointer[device.Fault]
}

// newHelperFixture starts a server with a caller that holds the fence.
func newHelperFixture(t *testing.T) *helperFixture {
	b := &helperFixture{t: t, site: nvmesim.New(t, nvmesim.Drive("S1"), nvmesim.Drive("S2")), served: make(chan error, 1)}
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	require.NoError(t, err)
	theirs, err := connection(pair[0])
	require.NoError(t, err)
	b.conn, err = connection(pair[1])
	require.NoError(t, err)
	b.proc = filepath.Join(t.TempDir(), "proc")
	require.NoError(t, os.Symlink("/proc", b.proc))
	b.server = &Server{
		Local: &Local{Tool: b.site.Tool(), Sys: b.site.Sys, Dev: b.site.Dev, Proc: b.proc, Timeout: time.Millisecond},
		Allow: func(d pci.Device) error {
			if d.Address != b.site.State(0).Address {
				return &device.Fault{Class: device.NeedsOperator, Code: device.CodeNotAllowed,
					Message: "the host does not allow this drive"}
			}
			if f := b.refusal.Load(); f != nil {
				return f
			}
			return nil
		},
	}
	go func() { b.served <- b.server.Serve(theirs) }()
	t.Cleanup(func() {
		_ = b.conn.Close() // some tests have
		require.NoError(t, <-b.served)
	})
	b.fence, err = os.Create(filepath.Join(t.TempDir(), "fence"))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, b.fence.Close()) })
	require.NoError(t, unix.Flock(int(b.fence.Fd()), unix.LOCK_EX))
	return b
}

func (b *helperFixture) open() *helperFixture {
	b.t.Helper()
	require.NoError(b.t, b.call(call{Do: doOpen, Address: b.address()}).err())
	require.NoError(b.t, b.call(call{Do: doLock, Address: b.address()}).err())
	return b
}

func (b *helperFixture) address() string { return b.site.State(0).Address }

// send sends this text and returns the answer.
func (b *helperFixture) send(text string, fds ...int) answer {
	b.t.Helper()
	var oob []byte
	if len(fds) > 0 {
		oob = unix.UnixRights(fds...)
	}
	_, _, err := b.conn.WriteMsgUnix([]byte(text), oob, nil)
	require.NoError(b.t, err)
	var a answer
	files, err := receive(b.conn, &a)
	require.NoError(b.t, err)
	require.Empty(b.t, files, "no descriptor is returned")
	return a
}

func (b *helperFixture) call(c call, fds ...int) answer {
	b.t.Helper()
	text, err := json.Marshal(c)
	require.NoError(b.t, err)
	return b.send(string(text), fds...)
}

// disk opens the drive's namespace.
func (b *helperFixture) disk(name string, flags int) int {
	b.t.Helper()
	fd, err := unix.Open(filepath.Join(b.site.Dev, name), unix.O_RDONLY|unix.O_CLOEXEC|flags, 0)
	require.NoError(b.t, err)
	b.t.Cleanup(func() { require.NoError(b.t, unix.Close(fd)) })
	return fd
}

// requireUnchanged requires that no command that changes something was sent.
func (b *helperFixture) requireUnchanged() {
	b.t.Helper()
	for _, c := range b.site.Log() {
		require.NotContains(b.t, []uint8{nvmesim.SanitizeDrive, nvmesim.ManageNamespace, nvmesim.AttachNamespace,
			nvmesim.SetFeatures, nvmesim.Reset, nvmesim.DownloadFirmware, nvmesim.CommitFirmware}, c.Opcode)
	}
}

// No text of a caller reaches nvme-cli.
//
// S2.67
func TestHelperAcceptsOnlyVerbs(t *testing.T) {
	b := newHelperFixture(t).open()
	at := fmt.Sprintf(`"address": %q`, b.address())
	for name, tt := range map[string]struct{ text, says string }{
		"no message":               {`nvme format /dev/nvme0`, "cannot be decoded"},
		"two values":               {`{"do": "version"} {}`, "more than one value"},
		"something else":           {`{"do": "shell", ` + at + `}`, "there is no call"},
		"an argument":              {`{"do": "version", "args": ["--help"]}`, "unknown field"},
		"a verb without a request": {`{"do": "read", ` + at + `}`, "does not take"},
		"an unknown verb":          {`{"do": "read", ` + at + `, "request": {"verb": "format"}}`, `no verb "format"`},
		"no verb":                  {`{"do": "read", ` + at + `, "request": {}}`, `no verb ""`},
		"an option for a verb":     {`{"do": "read", ` + at + `, "request": {"verb": "health --raw-binary"}}`, "no verb"},
		"an argument of a verb":    {`{"do": "read", ` + at + `, "request": {"verb": "health", "args": "x"}}`, "unknown field"},
		"text for a number":        {`{"do": "read", ` + at + `, "request": {"verb": "identify-namespace", "nsid": "1 --force"}}`, "cannot be decoded"},
		"a number too large":       {`{"do": "read", ` + at + `, "request": {"verb": "identify-namespace", "nsid": 4294967296}}`, "cannot be decoded"},
		"no namespace":             {`{"do": "read", ` + at + `, "request": {"verb": "identify-namespace"}}`, "0 is not a namespace"},
		"another feature":          {`{"do": "read", ` + at + `, "request": {"verb": "saved-feature", "feature": 132}}`, "may be restored"},
		"a change as a read":       {`{"do": "read", ` + at + `, "request": {"verb": "sanitize", "action": 4}}`, "needs the other method"},
		"another drive":            {`{"do": "read", "address": "0000:02:00.0", "request": {"verb": "health"}}`, "does not allow this drive"},
		"a path for an address":    {`{"do": "read", "address": "../../../etc", "request": {"verb": "health"}}`, "its name is not a PCI address"},
	} {
		t.Run(name, func(t *testing.T) {
			b.site.ClearLog()
			err := b.send(tt.text).err()
			require.Error(t, err)
			require.ErrorContains(t, err, tt.says)
			require.Empty(t, b.site.Log())
		})
	}
	require.NoError(t, b.call(call{Do: doRead, Address: b.address(), Request: &Request{Verb: Health}}).err(),
		"it continues to serve")
}

// The host's rules are applied before each call.
//
// F13
func TestTheHelperAsksTheHostItself(t *testing.T) {
	b := newHelperFixture(t)
	require.ErrorContains(t, b.call(call{Do: doOpen, Address: b.site.State(1).Address}).err(), "does not allow this drive")
	b.open()
	read := call{Do: doRead, Address: b.address(), Request: &Request{Verb: IdentifyController}}
	require.NoError(t, b.call(read).err())
	b.refusal.Store(&device.Fault{Class: device.NeedsOperator, Code: device.CodeNotAllowed, Message: "taken out"})
	require.ErrorContains(t, b.call(read).err(), "taken out")
}

// Nothing is changed without the fence, by another drive's serial, or without a disk.
//
// F12, F1
func TestTheHelperChangesNothingUnguarded(t *testing.T) {
	b := newHelperFixture(t)
	erase := call{Do: doChange, Address: b.address(), Serial: "S1", Fence: true,
		Request: &Request{Verb: Sanitize, Action: CryptoErase}}
	require.NoError(t, b.call(call{Do: doOpen, Address: b.address()}).err())
	fence := int(b.fence.Fd())
	notLocked := b.disk("nvme0n1", unix.O_EXCL)
	require.ErrorContains(t, b.call(erase, fence, notLocked).err(), "needs the lock on the controller's node")
	require.NoError(t, b.call(call{Do: doLock, Address: b.address()}).err())

	fd := b.disk("nvme1n1", unix.O_EXCL)
	null, err := unix.Open(os.DevNull, unix.O_RDONLY, 0)
	require.NoError(t, err)
	defer func() { require.NoError(t, unix.Close(null)) }()
	another, err := os.Open(b.fence.Name())
	require.NoError(t, err)
	defer func() { require.NoError(t, another.Close()) }()
	for name, tt := range map[string]struct {
		change func(*call)
		fds    []int
		says   string
	}{
		"no descriptors":         {func(*call) {}, nil, "needs the device's fence"},
		"no fence":               {func(c *call) { c.Fence = false }, []int{notLocked}, "needs the device's fence"},
		"a disk for the fence":   {func(*call) {}, []int{notLocked, notLocked}, "is not a regular file"},
		"another's fence":        {func(*call) {}, []int{int(another.Fd()), notLocked}, "does not hold the device's fence"},
		"no disk":                {func(*call) {}, []int{fence}, "does not hold nvme0n1"},
		"another drive's disk":   {func(*call) {}, []int{fence, fd}, "does not hold nvme0n1"},
		"a disk that is none":    {func(*call) {}, []int{fence, null}, "is not a block device"},
		"another serial":         {func(c *call) { c.Serial = "S2" }, []int{fence, notLocked}, `has serial "S1" instead of "S2"`},
		"no serial":              {func(c *call) { c.Serial = "" }, []int{fence, notLocked}, "does not take"},
		"another action":         {func(c *call) { c.Request = &Request{Verb: Sanitize, Action: 3} }, []int{fence, notLocked}, "is not an erase"},
		"a read as a change":     {func(c *call) { c.Request = &Request{Verb: Health} }, []int{fence, notLocked}, "needs the other method"},
		"a namespace of nothing": {func(c *call) { c.Request = &Request{Verb: CreateNamespace} }, []int{fence, notLocked}, "0 blocks"},
		"all are attached":       {func(c *call) { c.Request = &Request{Verb: AttachNamespace, NSID: AllNamespaces} }, []int{fence, notLocked}, "not all"},
	} {
		t.Run(name, func(t *testing.T) {
			c := erase
			tt.change(&c)
			require.ErrorContains(t, b.call(c, tt.fds...).err(), tt.says)
			b.requireUnchanged()
		})
	}
	require.NoError(t, b.call(erase, fence, notLocked).err())
	require.True(t,
		slices.ContainsFunc(b.site.Log(), func(c nvmesim.Command) bool { return c.Opcode == nvmesim.SanitizeDrive }))
	b.site.Swap(0, "S9")
	require.Error(t, b.call(erase, fence, notLocked).err(), "what was swapped is another")
}

// Without an exclusive claim, anyone could mount the disk.
//
// F12
func TestDiskMustBeOpenedExclusively(t *testing.T) {
	b := newHelperFixture(t).open()
	erase := call{Do: doChange, Address: b.address(), Serial: "S1", Fence: true,
		Request: &Request{Verb: Sanitize, Action: CryptoErase}}
	require.ErrorContains(t, b.call(erase, int(b.fence.Fd()), b.disk("nvme0n1", 0)).err(), "has not opened")
	b.requireUnchanged()
}

// A rebind needs the fence, and takes a drive only from the guests' driver.
//
// F21
func TestTheHelperRebindsUnderTheFenceAlone(t *testing.T) {
	b := newHelperFixture(t)
	rebind := call{Do: doRebind, Address: b.address(), Fence: true}
	fence := int(b.fence.Fd())
	require.ErrorContains(t, b.call(rebind).err(), "needs the device's fence")
	require.ErrorContains(t, b.call(rebind, fence, fence).err(), "takes no disks")
	require.NoError(t, b.call(rebind, fence).err(), "it is on the host's driver")
	b.site.BindDriver(0, "uio")
	require.ErrorContains(t, b.call(rebind, fence).err(), "Burnish rebinds only from vfio-pci")
	rebind.Address = b.site.State(1).Address
	require.ErrorContains(t, b.call(rebind, fence).err(), "does not allow this drive")
}

// Every verb is one command line of numbers and fixed words, for either Read or Change.
func TestEveryVerbIsOneCommandLine(t *testing.T) {
	r := Request{NSID: 1, Detached: true, Feature: 6, Value: 1, Action: CryptoErase, Blocks: 8, Format: 1, Controller: 2,
		Digest: [sha256.Size]byte{1}, Transfer: MinTransfer, Slot: 1}
	for verb, k := range verbSpecs {
		taken := r
		if verb == HostMetadata || verb == DeleteMetadata {
			taken.Feature = NamespaceMetadata
		}
		taken.Verb = verb
		_, err := taken.spec(k.changes)
		require.NoError(t, err, verb)
		_, err = taken.spec(!k.changes)
		require.Error(t, err, verb)
		for i, word := range k.args(taken, "NODE") {
			form := `^--[a-z0-9-]+(=(0x)?[0-9a-f]+|=/dev/stdin)?$`
			switch i {
			case 0:
				form = `^[a-z-]+$`
			case 1:
				form = `^NODE$`
			}
			require.Regexp(t, form, word, verb)
		}
	}
}

// A controller's metadata takes no namespace, and a namespace's takes one.
func TestMetadataRequestsAreValidated(t *testing.T) {
	for says, r := range map[string]Request{
		"has no namespace":           {Feature: ControllerMetadata, NSID: 1},
		"0 is not a namespace":       {Feature: NamespaceMetadata},
		"not all":                    {Feature: NamespaceMetadata, NSID: AllNamespaces},
		"is not host metadata":       {Feature: 0x06},
		"there is no element type 6": {Feature: ControllerMetadata, Element: 64},
	} {
		r.Verb = DeleteMetadata
		_, err := r.spec(true)
		require.ErrorContains(t, err, says)
	}
	k, err := Request{Verb: DeleteMetadata, Feature: NamespaceMetadata, NSID: 1, Element: 63}.spec(true)
	require.NoError(t, err)
	require.Len(t, k.data(Request{Element: 63}), metadataSize)
}

// showProc makes the server read this procfs from now on.
func (b *helperFixture) showProc(proc string) {
	b.t.Helper()
	require.NoError(b.t, os.Remove(b.proc))
	require.NoError(b.t, os.Symlink(proc, b.proc))
}

// The caller has an exclusive claim, but the kernel's tables show a use.
//
// F12
func TestWhatIsInUseIsNotErased(t *testing.T) {
	b := newHelperFixture(t).open()
	erase := call{Do: doChange, Address: b.address(), Serial: "S1", Fence: true,
		Request: &Request{Verb: Sanitize, Action: CryptoErase}}
	fence, disk := int(b.fence.Fd()), b.disk("nvme0n1", unix.O_EXCL)
	var stat unix.Stat_t
	require.NoError(t, unix.Fstat(disk, &stat))
	dirs, err := filepath.Glob(filepath.Join(b.site.Sys, "devices/pci0000:00/*/nvme/nvme0/nvme0n1"))
	require.NoError(t, err)
	require.Len(t, dirs, 1)
	for name, tt := range map[string]struct{ mounts, swaps, part, holder, says string }{
		"mounted":             {mounts: "30 1 " + deviceNumber(stat) + " / /mnt rw - ext4 /dev/nvme0n1 rw", says: `mounted at "/mnt"`},
		"a partition mounted": {mounts: "30 1 259:77 / /mnt rw - ext4 /dev/nvme0n1p1 rw", part: "259:77", says: `mounted at "/mnt"`},
		"swap":                {swaps: filepath.Join(b.site.Dev, "nvme0n1") + " partition 1 0 -2", says: "used as swap"},
		"held":                {holder: "dm-0", says: "held by dm-0"},
	} {
		t.Run(name, func(t *testing.T) {
			proc := t.TempDir()
			require.NoError(t, os.Mkdir(filepath.Join(proc, "self"), 0o755))
			require.NoError(t, os.WriteFile(filepath.Join(proc, "self/mountinfo"),
				[]byte(cmp.Or(tt.mounts, "1 0 0:99 / / rw - tmpfs none rw")+"\n"), 0o600))
			require.NoError(t, os.WriteFile(filepath.Join(proc, "swaps"), []byte(tt.swaps+"\n"), 0o600))
			b.showProc(proc)
			part, holder := filepath.Join(dirs[0], "nvme0n1p1"), filepath.Join(dirs[0], "holders", tt.holder)
			if tt.part != "" {
				require.NoError(t, os.Mkdir(part, 0o755))
				require.NoError(t, os.WriteFile(filepath.Join(part, "partition"), []byte("1\n"), 0o600))
				require.NoError(t, os.WriteFile(filepath.Join(part, "dev"), []byte(tt.part+"\n"), 0o600))
			}
			if tt.holder != "" {
				require.NoError(t, os.WriteFile(holder, nil, 0o600))
				defer func() { require.NoError(t, os.Remove(holder)) }()
			}
			require.ErrorContains(t, b.call(erase, fence, disk).err(), tt.says)
			require.NoError(t, os.RemoveAll(part))
			b.requireUnchanged()
		})
	}
	b.showProc("/proc")
	require.NoError(t, b.call(erase, fence, disk).err())
}
