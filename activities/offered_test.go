package activities_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/mock"
	"github.com/stretchr/testify/require"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/sdk/mocks"

	"burnish/activities"
	"burnish/internal/device"
	"burnish/internal/hardware"
	"burnish/internal/hardware/block"
	"burnish/internal/host"
	"burnish/internal/uevent"
	"burnish/workflows/client"
	"burnish/workflows/contract"
)

type anyPath struct{}

func (anyPath) AllowPath(string) error { return nil }

// imageHost is a host with the driver block and one file.
type imageHost struct {
	*testHost
	file     string
	enrolled contract.DiscoverInput
}

func newImageHost(t *testing.T) *imageHost {
	t.Helper()
	s := newTestHost(t)
	dir, err := os.MkdirTemp("/dev/shm", "burnish-offered-")
	if err != nil {
		t.Skipf("needs /dev/shm: %v", err)
	}
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	i := &imageHost{testHost: s, file: filepath.Join(dir, "image")}
	require.NoError(t, os.WriteFile(i.file, make([]byte, 1<<20), 0o600))
	s.hardware.Drivers["block"] = block.New(anyPath{})
	in := s.firstDiscovery("image")
	in.Enrollment.Driver, in.Enrollment.Settings, in.Binding = "block", map[string]string{"path": i.file}, 3
	found, err := s.discover(t, in)
	require.NoError(t, err)
	in.Known = found.Identity
	i.enrolled = in
	return i
}

// written says what a look finds.
func (i *imageHost) written() bool {
	i.t.Helper()
	found, err := i.discover(i.t, i.enrolled)
	require.NoError(i.t, err)
	return found.Written
}

// zero is the erase of the clean of a number.
func (i *imageHost) zero(number int) {
	i.t.Helper()
	in := i.input("zero")
	in.Enrollment, in.Identity = i.enrolled.Enrollment, i.enrolled.Known
	in.Clean, in.Number, in.Seq = fmt.Sprintf("run/%d", number), number, int64(number)
	_, err := i.run(first(i.t), in)
	require.NoError(i.t, err)
}

func (i *imageHost) overwrite() {
	i.t.Helper()
	f, err := os.OpenFile(i.file, os.O_WRONLY, 0)
	require.NoError(i.t, err)
	_, err = f.WriteAt([]byte{0}, 0)
	require.NoError(i.t, err)
	require.NoError(i.t, f.Close())
}

// A change of the file that is not Burnish's is found by each look, until Burnish has erased it. A
// tenant's writes are none, and neither is what is accepted.
//
// F39
func TestEachLookFindsAForeignWrite(t *testing.T) {
	i := newImageHost(t)
	require.False(t, i.written(), "as it was enrolled")
	i.overwrite()
	require.True(t, i.written())
	require.True(t, i.written())
	i.zero(1)
	require.False(t, i.written())
	require.NoError(t, os.Chmod(i.file, 0o640))
	require.True(t, i.written())

	i.enrolled.Accept = true
	require.False(t, i.written())
	i.enrolled.Accept = false
	require.False(t, i.written())

	i.enrolled.Binding++
	i.overwrite()
	require.False(t, i.written(), "its tenant wrote")
	i.overwrite()
	require.True(t, i.written())
	require.NoError(t, i.forget(t, "image"))
	i.enrolled.Known = device.Identity{}
	require.False(t, i.written(), "it is enrolled again")
}

// A crash right after the last write costs one more clean, after which no look finds a foreign
// write.
//
// F39
func TestAMarkThatACrashLostCostsOneClean(t *testing.T) {
	i := newImageHost(t)
	before := i.record("image")
	i.zero(1)
	after := i.record("image")
	require.NotEqual(t, before.Mark, after.Mark)
	after.Mark = before.Mark
	require.NoError(t, i.host.SaveRecord(after))
	require.True(t, i.written())
	i.zero(2)
	require.False(t, i.written())
}

// A host that has lost its record of a device does not know what was written to it since, and has it cleaned.
//
// F39
func TestALostRecordCostsOneClean(t *testing.T) {
	i := newImageHost(t)
	require.NoError(t, os.Remove(filepath.Join(i.host.Dir(), "devices", "image.json")))
	for range 2 {
		require.True(t, i.written())
	}
	i.zero(1)
	require.False(t, i.written())

	require.NoError(t, os.Remove(filepath.Join(i.host.Dir(), "devices", "image.json")))
	i.enrolled.Accept = true
	require.False(t, i.written())
}

// marking is a driver whose devices show these change marks, one after the other.
type marking struct {
	hardware.Driver
	marks []string
}

func (m *marking) Open(ctx context.Context, of hardware.Target, known device.Identity,
	writable bool) (hardware.Handle, error) {
	h, err := m.Driver.Open(ctx, of, known, writable)
	return marked{h, m}, err
}

type marked struct {
	hardware.Handle
	of *marking
}

func (m marked) ChangeMark(context.Context) (string, error) {
	mark := m.of.marks[0]
	m.of.marks = m.of.marks[1:]
	return mark, nil
}

// What was written to while it was read proves nothing: the part that had been read may hold it.
//
// F37
func TestAWriteDuringAVerifyIsSeen(t *testing.T) {
	for _, c := range []struct {
		marks []string
		code  device.Code
	}{{[]string{"1", "1"}, ""}, {[]string{"1", "2"}, device.CodeForeignWrite}} {
		i := newImageHost(t)
		i.zero(1)
		i.hardware.Drivers["block"] = &marking{i.hardware.Drivers["block"], c.marks}
		in := i.input("verify")
		in.Enrollment, in.Identity = i.enrolled.Enrollment, i.enrolled.Known
		in.Clean, in.Number, in.Seq = "run/1", 1, 2
		_, err := i.run(first(t), in)
		if c.code == "" {
			require.NoError(t, err)
			continue
		}
		require.ErrorContains(t, err, string(c.code))
	}
}

// scripted are events that a test makes.
type scripted struct {
	next   chan uevent.Event
	closed chan struct{}
	once   sync.Once
}

func (s *scripted) Read() (uevent.Event, error) {
	select {
	case e := <-s.next:
		if e.Action == "lost" {
			return uevent.Event{}, uevent.ErrLost
		}
		return e, nil
	case <-s.closed:
		return uevent.Event{}, os.ErrClosed
	}
}

func (s *scripted) Close() error {
	s.once.Do(func() { close(s.closed) })
	return nil
}

// offering is a host whose devices are offered, with the hints that it sends.
type offering struct {
	*activities.Offered
	*testHost
	events *scripted
	listed []string

	mu     sync.Mutex
	hints  []string
	refuse int // so many hints fail
}

func newOffering(t *testing.T) *offering {
	t.Helper()
	s := newTestHost(t)
	o := &offering{testHost: s, events: &scripted{next: make(chan uevent.Event), closed: make(chan struct{})}}
	c := &mocks.Client{}
	o.Offered = &activities.Offered{
		Client: client.New(c), Host: s.host, Drivers: s.hardware.Drivers, Log: slog.New(slog.NewTextHandler(s.log, nil)),
		Events: o.events,
	}
	began := time.Now()
	c.On("SignalWorkflow", mock.Anything, mock.Anything, "", contract.SignalRefresh, mock.Anything).
		Return(func(_ context.Context, id, _, _ string, hint any) error {
			o.mu.Lock()
			defer o.mu.Unlock()
			if o.refuse > 0 {
				o.refuse--
				return errors.New("no server")
			}
			require.True(t, hint.(contract.Hint).Hardware)
			o.hints = append(o.hints, fmt.Sprintf("%s %s", strings.TrimPrefix(id, "device/"), time.Since(began)))
			return nil
		})
	lists(c, func(query string, _ []byte) (runs []*workflowpb.WorkflowExecutionInfo, _ []byte, _ error) {
		require.Contains(t, query, "available")
		for _, name := range o.listed {
			runs = append(runs,
				deviceRun(name, attributes(t, contract.AttrState, device.Available, contract.AttrHost, s.host.Name()), nil))
		}
		return runs, nil, nil
	})
	for _, r := range []host.Record{
		{Name: "nvme", Driver: "double", Address: "0000:03:00.0"},
		{Name: "disk", Driver: "double", Identity: device.Identity{Path: "/dev/sdb", Serial: "S1"}},
		{Name: "gone", Driver: "double", Address: "0000:04:00.0", Forgotten: true},
		{Name: "node", Driver: "double"},
	} {
		require.NoError(t, s.host.SaveRecord(r))
	}
	return o
}

// takes gives the hints since the last call, in order.
func (o *offering) takes() []string {
	synctest.Wait()
	o.mu.Lock()
	defer o.mu.Unlock()
	all := slices.Sorted(slices.Values(o.hints))
	o.hints = nil
	return all
}

const pciSlot = "/devices/pci0000:00/0000:00:1d.0/0000:03:00.0"

// Each event reaches the devices that it is about at once, and no others.
//
// F39
func TestEventsReachTheirDevices(t *testing.T) {
	for name, c := range map[string]struct {
		event uevent.Event
		want  []string
	}{
		"a PCI function": {uevent.Event{Action: "remove", Subsystem: "pci", Path: pciSlot}, []string{"nvme 0s"}},
		"its controller": {uevent.Event{Action: "add", Subsystem: "nvme", Path: pciSlot + "/nvme/nvme7"}, []string{"nvme 0s"}},
		"a namespace below a subsystem": {uevent.Event{Action: "add", Subsystem: "block",
			Path:        "/devices/virtual/nvme-subsystem/nvme-subsys7/nvme7n1",
			Controllers: []string{"../../../.." + strings.TrimPrefix(pciSlot, "/devices") + "/nvme/nvme7"},
		}, []string{"nvme 0s"}},
		"its namespace":        {uevent.Event{Action: "change", Subsystem: "block", Path: pciSlot + "/nvme/nvme7/nvme7n1"}, []string{"nvme 0s"}},
		"a disk":               {uevent.Event{Action: "change", Subsystem: "block", Path: "/devices/pci0000:00/0000:00:1f.2/ata1/host0/target0:0:0/0:0:0:0/block/sdb"}, []string{"disk 0s"}},
		"a partition":          {uevent.Event{Action: "add", Subsystem: "block", Path: "/devices/virtual/block/sdb/sdb1"}, []string{"disk 0s"}},
		"another disk":         {uevent.Event{Action: "remove", Subsystem: "block", Path: "/devices/virtual/block/sdbc"}, nil},
		"a forgotten device":   {uevent.Event{Action: "remove", Subsystem: "pci", Path: "/devices/pci0000:00/0000:04:00.0"}, nil},
		"another subsystem":    {uevent.Event{Action: "change", Subsystem: "power_supply", Path: pciSlot}, nil},
		"events that are lost": {uevent.Event{Action: "lost"}, []string{"disk 0s", "node 0s", "nvme 0s"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o := newOffering(t)
				ended := make(chan error, 1)
				ctx, stop := context.WithCancel(t.Context())
				go func() { ended <- o.Watch(ctx) }()
				o.events.next <- c.event
				require.Equal(t, c.want, o.takes())
				stop()
				require.Error(t, <-ended)
			})
		})
	}
}

// Many events of one device are few hints: the first one at once, the last one never later than the
// quiet time. A hint that could not be sent is sent again. What a step changes itself is no
// event; that its device is removed is one.
//
// F39
func TestEventsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOffering(t)
		atWork := false
		o.AtWork = func(_ string, requested bool) bool { return atWork && requested }
		ended := make(chan error, 1)
		ctx, stop := context.WithCancel(t.Context())
		go func() { ended <- o.Watch(ctx) }()
		change := uevent.Event{Action: "change", Subsystem: "block", Path: "/devices/virtual/block/sdb"}
		for range 500 {
			o.events.next <- change
		}
		require.Equal(t, []string{"disk 0s"}, o.takes())
		time.Sleep(time.Minute) //nolint:forbidigo // the time of the bubble
		require.Equal(t, []string{"disk 2s"}, o.takes())

		o.mu.Lock()
		o.refuse = 3
		o.mu.Unlock()
		o.events.next <- change
		require.Empty(t, o.takes())
		time.Sleep(time.Minute) //nolint:forbidigo // the time of the bubble
		require.Equal(t, []string{"disk 1m3s"}, o.takes())

		atWork, change.Requested = true, true
		o.events.next <- change
		require.Empty(t, o.takes())
		change.Action = "remove"
		o.events.next <- change
		require.Equal(t, []string{"disk 2m0s"}, o.takes())
		time.Sleep(time.Minute) //nolint:forbidigo // the time of the bubble
		o.events.next <- uevent.Event{Action: "change", Subsystem: "block", Path: change.Path}
		require.Equal(t, []string{"disk 3m0s"}, o.takes())
		stop()
		require.Error(t, <-ended)
	})
}

// A comparison finds what is not as it was left, and gives hints to these devices alone. A fault
// that may pass counts the second time.
//
// F39
func TestComparisonFindsWhatChanged(t *testing.T) {
	o := newOffering(t)
	busy := &device.Fault{Class: device.Transient, Code: device.CodeTargetBusy, Message: "busy"}
	gone := &device.Fault{Class: device.NeedsOperator, Code: device.CodeTargetMissing, Message: "gone"}
	faults := map[string]error{}
	o.disks.found = func(t hardware.Target, _ device.Identity) error { return faults[t.Name] }
	for _, name := range []string{"same", "other", "missing", "busy", "written", "unlisted"} {
		o.add(name, "S-"+name)
		identity := o.disks.disks[name].identity
		require.NoError(t, o.testHost.host.SaveRecord(host.Record{Name: name, Driver: "double", Identity: identity}))
	}
	faults["missing"], faults["busy"] = gone, busy
	o.disks.disks["other"].identity.Serial = "S-another"
	require.NoError(t,
		o.testHost.host.UpdateRecord("written", func(r *host.Record) error { r.SetMark("before"); return nil }))
	o.listed = []string{"same", "other", "missing", "busy", "written", "gone", "elsewhere"}
	hinted := func() (names []string) {
		require.NoError(t, o.Compare(t.Context()))
		for _, h := range o.hints {
			names = append(names, strings.Fields(h)[0])
		}
		o.hints = nil
		slices.Sort(names)
		return names
	}
	require.Equal(t, []string{"missing", "other", "written"}, hinted())
	require.Equal(t, []string{"busy", "missing", "other", "written"}, hinted())
	delete(faults, "busy")
	require.NotContains(t, hinted(), "busy")
	faults["busy"] = busy
	require.NotContains(t, hinted(), "busy", "it did not last")
	o.refuse = 1
	require.Error(t, o.Compare(t.Context()))
}

// What is reported while a step has the device is its own, and what udev asks for right after; not what the kernel
// reports by then: the device may have been swapped.
//
// F39
func TestAStepIsAtWorkUntilItsEventsAreOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTestHost(t)
		require.False(t, s.hardware.AtWork("d1", true))
		during := false
		s.disk.on = func(call string, _ int64, _ context.Context) error {
			during = during || call != "open" && s.hardware.AtWork("d1", false)
			return nil
		}
		_, err := s.run(first(t), s.input("zero"))
		require.NoError(t, err)
		require.True(t, during)
		require.False(t, s.hardware.AtWork("d1", false))
		require.True(t, s.hardware.AtWork("d1", true))
		time.Sleep(2 * time.Second) //nolint:forbidigo // the time of the bubble
		require.False(t, s.hardware.AtWork("d1", true))
	})
}

// A worker that freezes before it answers makes nothing newer: a discovery is as old as its beginning, a step as the
// last moment at which it had the device, by the server's clock.
//
// F39
func TestAStepSaysWhenItHadTheDevice(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		in      func(*testHost) contract.StepInput
		before  func(*testHost) // what an earlier attempt has done
		freezes time.Duration
	}{
		"a step": {func(s *testHost) contract.StepInput { return s.input("verify") },
			func(s *testHost) { s.disk.durableBefore(diskSize) }, 20 * time.Second},
		"a step that follows, which takes a moment": {(*testHost).zeroThenVerify, func(*testHost) {}, 100 * time.Millisecond},
		"a step that was done before": {func(s *testHost) contract.StepInput { return s.input("zero") },
			func(s *testHost) {
				_, err := s.run(first(s.t), s.input("zero"))
				require.NoError(s.t, err)
			}, 20 * time.Second},
	} {
		inBubble(t, name, func(t *testing.T) {
			s := newTestHost(t)
			c.before(s)
			began, read := time.Now(), time.Time{}
			s.disk.intercept(func(call string, _ int64, _ context.Context) error {
				switch {
				case call == "read":
					time.Sleep(time.Millisecond) //nolint:forbidigo // the time of the bubble
					read = time.Now()
				case call == "close" && (!read.IsZero() || c.in(s).Next == nil):
					time.Sleep(c.freezes) //nolint:forbidigo // the time of the bubble
				}
				return nil
			})
			answer, err := s.run(first(t), c.in(s))
			require.NoError(t, err)
			require.Equal(t, c.in(s).Next != nil, answer.Next != nil)
			if read.IsZero() { // it was done before
				read = began
			}
			require.Zero(t, answer.SeenAt.Sub(read))
		})
	}
}
