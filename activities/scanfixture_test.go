package activities_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/mock"
	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	sdkclient "go.temporal.io/sdk/client"
	"go.temporal.io/sdk/mocks"

	"burnish/activities"
	"burnish/internal/device"
	"burnish/internal/hardware"
	"burnish/internal/host"
	"burnish/workflows/client"
	"burnish/workflows/contract"
)

// finder is a driver that finds the devices that a test gives it.
type finder struct {
	driver
	mu    sync.Mutex
	there []hardware.Found
	err   error
	finds int
}

func (f *finder) Find(context.Context) ([]hardware.Found, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.finds++
	return slices.Clone(f.there), f.err
}

func (f *finder) sees(all ...hardware.Found) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.there = all
}

func (f *finder) breaks(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.err = err
}

// drive is a device in the slot of a number.
func drive(slot int, digest string) hardware.Found {
	return hardware.Found{Address: fmt.Sprintf("0000:%02x:00.0", slot), Type: "nvme", Digest: digest}
}

// scanFixture is a host with a driver that finds devices, and the server's answers.
type scanFixture struct {
	temporal *mocks.Client
	*activities.HostScanner
	t       *testing.T
	fixture *testHost
	finder  *finder

	mu sync.Mutex
	// answer gives the result of a device's enrollment; nil: all are enrolled.
	answer func(name string) (contract.Result, error)
	// ended is how the workflow of a device ended; without an entry there is no workflow.
	ended map[string]enumspb.WorkflowExecutionStatus
	// hintError is the error of each hint.
	hintError error
	enrolled  []contract.EnrollInput
	hinted    []string
	asked     []string
	failed    *contract.ScanResult // what the last scan did, if it is to be retried
}

func newScanFixture(t *testing.T) *scanFixture {
	t.Helper()
	s := newTestHost(t)
	l := &scanFixture{t: t, fixture: s, finder: &finder{}, ended: map[string]enumspb.WorkflowExecutionStatus{}}
	c := &mocks.Client{}
	l.temporal = c
	l.HostScanner = &activities.HostScanner{
		Client: client.New(c), Host: s.host, Drivers: map[string]hardware.Driver{"nvme": l.finder, "double": s.disks},
		Log: slog.New(slog.NewTextHandler(s.log, nil)),
	}
	c.On("NewWithStartWorkflowOperation", mock.Anything, contract.WorkflowDeviceLifecycle, mock.Anything).Return(nil)
	c.On("UpdateWithStartWorkflow", mock.Anything, mock.Anything).
		Return(func(_ context.Context, o sdkclient.UpdateWithStartWorkflowOptions) (sdkclient.WorkflowUpdateHandle, error) {
			in := o.UpdateOptions.Args[0].(contract.EnrollInput)
			l.mu.Lock()
			defer l.mu.Unlock()
			l.enrolled = append(l.enrolled, in)
			result, err := contract.Result{}, error(nil)
			if l.answer != nil {
				result, err = l.answer(in.Enrollment.Name)
			}
			handle := &mocks.WorkflowUpdateHandle{}
			handle.On("Get", mock.Anything, mock.Anything).Run(func(args mock.Arguments) {
				*args.Get(1).(*contract.Result) = result
			}).Return(err)
			return handle, nil
		})
	c.On("SignalWorkflow", mock.Anything, mock.Anything, "", contract.SignalRefresh, mock.Anything).
		Return(func(_ context.Context, id, _, _ string, hint any) error {
			l.mu.Lock()
			defer l.mu.Unlock()
			if l.hintError != nil {
				return l.hintError
			}
			require.Equal(t, contract.Hint{Source: "scan"}, hint)
			l.hinted = append(l.hinted, strings.TrimPrefix(id, "device/"))
			return nil
		})
	l.describe(c)
	return l
}

// describe makes the server describe workflows as l.ended says at the time of the call.
func (l *scanFixture) describe(c *mocks.Client) {
	for slot := range 10 {
		id := "device/" + l.name(slot)
		call := c.On("DescribeWorkflowExecution", mock.Anything, id, "")
		call.Run(func(mock.Arguments) {
			l.mu.Lock()
			defer l.mu.Unlock()
			l.asked = append(l.asked, l.name(slot))
			status, ok := l.ended[l.name(slot)]
			if !ok {
				call.ReturnArguments = mock.Arguments{nil, serviceerror.NewNotFound("none")}
				return
			}
			call.ReturnArguments = mock.Arguments{described(status), nil}
		}).Return(nil, nil)
	}
}

// name is that of the drive in a slot.
func (l *scanFixture) name(slot int) string {
	return fmt.Sprintf("%s_0000:%02x:00.0", l.fixture.host.Name(), slot)
}

// remembers writes the host's record of the drive in a slot.
func (l *scanFixture) remembers(slot int, forgotten bool) {
	l.t.Helper()
	require.NoError(l.t, l.fixture.host.SaveRecord(host.Record{
		Name: l.name(slot), Driver: "nvme", Address: drive(slot, "").Address, Forgotten: forgotten,
		Identity: device.Identity{Serial: fmt.Sprint("S", slot), Size: diskSize},
	}))
}

// scan runs the next attempt of one scan, or the first one of another after one that succeeded.
func (l *scanFixture) scan(in contract.ScanInput) (contract.ScanResult, error) {
	l.t.Helper()
	in.Host = l.fixture.host.Name()
	at := first(l.t)
	at.scanned = l.failed
	out, err := execute[contract.ScanResult](at, contract.ActivityScanHost, l.ScanHost, in)
	if l.failed = at.scanned; err == nil {
		l.failed = nil
	}
	return out, err
}

// must is a scan that must succeed.
func (l *scanFixture) must(in contract.ScanInput) contract.ScanResult {
	l.t.Helper()
	out, err := l.scan(in)
	require.NoError(l.t, err)
	return out
}

// sent gives what was sent since the last call: enrollments, hints and descriptions, sorted.
func (l *scanFixture) sent() (enrolled, hinted, asked []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, in := range l.enrolled {
		enrolled = append(enrolled, in.Enrollment.Name)
	}
	hinted, asked = l.hinted, l.asked
	l.enrolled, l.hinted, l.asked = nil, nil, nil
	slices.Sort(enrolled)
	slices.Sort(hinted)
	return enrolled, hinted, asked
}

// Watch reports the worker's start, and then only changes. A failure is retried and logged
// once.
func TestWatchReportsChanges(t *testing.T) {
	t.Parallel()
	inBubble(t, "with failures", func(t *testing.T) {
		l := newScanFixture(t)
		var requests []contract.ScanRequest
		var fails error
		c := l.temporal
		name := l.fixture.host.Name()
		call := c.On("SignalWithStartWorkflow", mock.Anything, "host/"+name, contract.SignalScanNow, mock.Anything,
			mock.MatchedBy(func(o sdkclient.StartWorkflowOptions) bool {
				return o.ID == "host/"+name && o.TaskQueue == contract.Queue
			}), contract.WorkflowHostScan, contract.HostScanInput{Host: name})
		failing := func(err error) {
			l.mu.Lock()
			defer l.mu.Unlock()
			fails = err
		}
		call.Run(func(args mock.Arguments) {
			l.mu.Lock()
			defer l.mu.Unlock()
			if fails == nil {
				requests = append(requests, args.Get(3).(contract.ScanRequest))
			}
			call.ReturnArguments = mock.Arguments{nil, fails}
		}).Return(nil, nil)
		l.finder.sees(drive(1, "a"))
		failing(errors.New("away"))
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { defer close(ended); l.Watch(ctx, 10*time.Second) }()
		pass(55 * time.Second)
		require.Empty(t, requests)
		require.Equal(t, 1, strings.Count(l.fixture.log.String(), "away"))
		failing(nil)
		pass(time.Minute)
		require.Equal(t, []contract.ScanRequest{{Source: "host start", WorkerStarted: true}}, requests)
		l.finder.sees(drive(1, "b"))
		pass(time.Minute)
		require.Len(t, requests, 2)
		require.False(t, requests[1].WorkerStarted)
		l.remembers(1, false)
		pass(time.Minute)
		require.Len(t, requests, 3, "a device that was refused may be enrolled now")
		l.finder.sees()
		failing(errors.New("away again"))
		pass(time.Minute)
		failing(nil)
		pass(time.Minute)
		require.Len(t, requests, 4, "a change that could not be reported is reported later")
		l.finder.sees(drive(1, "b"))
		l.must(contract.ScanInput{})
		l.finder.sees()
		pass(time.Minute)
		require.Len(t, requests, 5, "a device was there for the scan alone")
		l.finder.breaks(errors.New("no sysfs"))
		pass(time.Minute)
		require.Contains(t, l.fixture.log.String(), "no sysfs")
		require.Len(t, requests, 5)
		stop()
		<-ended
	})
}

// A scan that a killed worker left is ended, so that it is retried at once.
//
// F2
func TestAnOrphanedScanEnds(t *testing.T) {
	t.Parallel()
	r := newRecovery(t)
	id := "host/" + r.fixture.host.Name()
	r.client.ExpectedCalls = nil // here the host has a workflow
	r.client.On("DescribeWorkflowExecution", mock.Anything, id, "").Return(described(isRunning,
		pending("3", contract.ActivityScanHost, gone(r.Identity)),
		pending("4", contract.ActivityScanHost, r.Identity.String()), pending("5", "Other", gone(r.Identity))), nil)
	r.ends(t, nil)
	require.NoError(t, r.EndOrphanedScan(t.Context(), r.fixture.host))
	require.Equal(t, []string{id + " 3"}, r.endedAttempts())
}

// A host watches for devices only if one of its drivers can find them.
func TestAnyFinder(t *testing.T) {
	t.Parallel()
	l := newScanFixture(t)
	require.True(t, activities.AnyFinder(l.Drivers))
	others := maps.Clone(l.Drivers)
	delete(others, "nvme")
	require.False(t, activities.AnyFinder(others))
}
