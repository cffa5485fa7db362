package activities_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/mock"
	"github.com/stretchr/testify/require"
	"go.temporal.io/api/serviceerror"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/sdk/mocks"

	"burnish/activities"
	"burnish/internal/device"
	"burnish/internal/oneview"
	"burnish/workflows/client"
	"burnish/workflows/contract"
)

// pollFixture is a page of servers, and the devices that the server lists.
type pollFixture struct {
	*activities.Poller
	oneview.Pools // only what the polls use
	t             *testing.T
	page          oneview.Page
	fails         error
	devices       []*workflowpb.WorkflowExecutionInfo
	signalError   func(name string) error

	mu      sync.Mutex
	asked   [][2]int // start and count of each page
	queries []string
	signals map[string][]string
	hints   []contract.Hint
}

func newPollFixture(t *testing.T) *pollFixture {
	t.Helper()
	p := &pollFixture{t: t, signals: map[string][]string{}, signalError: func(string) error { return nil }}
	c := &mocks.Client{}
	p.Poller = &activities.Poller{Client: client.New(c), Pools: p, Log: slog.New(slog.NewTextHandler(io.Discard, nil))}
	lists(c, func(query string, _ []byte) ([]*workflowpb.WorkflowExecutionInfo, []byte, error) {
		p.queries = append(p.queries, query)
		return p.devices, nil, nil
	})
	c.On("SignalWorkflow", mock.Anything, mock.Anything, "", mock.Anything, mock.Anything).
		Return(func(_ context.Context, id, _, signal string, hint any) error {
			name := strings.TrimPrefix(id, contract.WorkflowID(""))
			p.mu.Lock()
			p.signals[name] = append(p.signals[name], signal)
			p.hints = append(p.hints, hint.(contract.Hint))
			p.mu.Unlock()
			return p.signalError(name)
		})
	return p
}

func (p *pollFixture) Page(_ context.Context, _ string, start, count int) (oneview.Page, error) {
	p.asked = append(p.asked, [2]int{start, count})
	return p.page, p.fails
}

func (p *pollFixture) Settings(string) (oneview.Settings, error) {
	return oneview.Settings{PageSize: 70}, nil
}

// polled is one device and its server.
type polled struct {
	name    string
	state   device.State
	pool    contract.StatusPool
	profile string // on its server
	serial  string // of the server; by default the device's
	reason  string // of its maintenance, if it was not taken
}

func hardwareOf(name string) string { return "/rest/server-hardware/" + name }

func dynamic(name string) contract.StatusPool {
	return contract.StatusPool{Pool: contract.Pool{Appliance: "rack1", Hardware: hardwareOf(name), Dynamic: true}}
}

func (p *pollFixture) add(d polled) {
	p.t.Helper()
	serial := "SN-" + strings.ToUpper(d.name)
	p.devices = append(p.devices, deviceRun(d.name,
		attributes(p.t, contract.AttrState, d.state, contract.AttrSerial, serial, contract.AttrType, contract.TypeNode),
		statusMemo(p.t, contract.StatusMemo{Name: d.name, Status: device.Enabled, Maintenance: d.pool.Taken ||
			d.reason != "", MaintenanceReason: d.reason, Pool: &d.pool})))
	if d.serial != "" {
		serial = d.serial
	}
	p.page.Servers = append(p.page.Servers,
		oneview.Hardware{URI: hardwareOf(d.name), Serial: serial, Profile: d.profile, Tag: "2"})
	p.page.Total = len(p.page.Servers)
}

func (p *pollFixture) poll(in contract.PollPageInput) (contract.PollPageResult, error) {
	p.t.Helper()
	in.Appliance = "rack1"
	return execute[contract.PollPageResult](first(p.t), contract.ActivityPollPage,
		p.Activities()[contract.ActivityPollPage], in)
}

// ours and others are profiles on a server.
const ours, others = "/rest/server-profiles/ours", "/rest/server-profiles/others"

// Each poll signals the devices in the states that matter, and no other. A device whose server
// is as it should be gets no signal.
//
// S4.1, S4.2, S4.3, S4.8, S4.9, S4.10, S4.11, S4.12, S4.17
func TestAPollSignalsTheDevicesThatDiffer(t *testing.T) {
	lost, taken := contract.StatusPool{LostRace: true}, contract.StatusPool{Taken: true}
	recorded := contract.StatusPool{PoolState: contract.PoolState{Profile: ours}}
	p := newPollFixture(t)
	want := map[string][]string{}
	var counts contract.PollCounts
	for _, c := range []struct {
		state   device.State
		pool    contract.StatusPool
		profile string
		signal  string
		count   *int
		reason  string // of a maintenance by the operator or for wear
	}{
		{device.Available, contract.StatusPool{}, others, contract.SignalTaken, &counts.Taken, ""},
		{device.Available, recorded, others, contract.SignalTaken, &counts.Taken, ""},
		{device.Available, contract.StatusPool{}, "", "", nil, ""},
		{device.Available, recorded, ours, "", nil, ""},
		{device.Available, contract.StatusPool{PoolState: contract.PoolState{Applying: true}}, others, "", nil, ""},
		{device.Manageable, taken, "", contract.SignalFreed, &counts.Freed, ""},
		{device.Manageable, contract.StatusPool{Taken: true, PoolState: recorded.PoolState}, ours, contract.SignalFreed, &counts.Freed, ""},
		{device.Manageable, taken, others, "", nil, ""},
		{device.Manageable, contract.StatusPool{}, "", "", nil, ""}, // in no maintenance, or in another one
		{device.Manageable, contract.StatusPool{}, others, "", nil, ""},
		{device.Error, lost, others, contract.SignalTaken, &counts.TakenOnCleanFail, ""},
		{device.Error, lost, "", contract.SignalFreed, &counts.Freed, ""},
		{device.Available, contract.StatusPool{PoolState: contract.PoolState{Tag: "1"}}, "", contract.SignalFreed, &counts.Freed, ""},
		{device.Available, contract.StatusPool{PoolState: contract.PoolState{Tag: "2"}}, "", "", nil, ""},
		{device.Manageable, contract.StatusPool{PoolState: contract.PoolState{Tag: "1"}}, "", "", nil, ""},
		{device.Error, contract.StatusPool{}, others, "", nil, ""},
		{device.Allocated, recorded, others, "", nil, ""},
		{device.Allocated, recorded, "", "", nil, ""},
		{device.PendingCleaning, taken, "", "", nil, ""},
		{device.Cleaning, contract.StatusPool{}, others, "", nil, ""},
		{device.Unknown, contract.StatusPool{}, others, "", nil, ""},
		{device.Retired, contract.StatusPool{}, others, "", nil, ""},
		{device.Error, lost, "", "", nil, "quarantined: 97 % of its endurance is used"},
		{device.Error, lost, "", contract.SignalFreed, &counts.Freed, "clean_failed"},
	} {
		name := fmt.Sprintf("node%02d", len(p.devices))
		c.pool.Pool = dynamic(name).Pool
		p.add(polled{name: name, state: c.state, pool: c.pool, profile: c.profile, reason: c.reason})
		if c.signal != "" {
			want[name] = []string{c.signal}
			*c.count++
		}
	}
	counts.Servers, counts.Devices = len(p.devices), len(p.devices)
	before := time.Now().UTC()
	out, err := p.poll(contract.PollPageInput{})
	require.NoError(t, err)
	require.Equal(t, want, p.signals)
	require.Equal(t, counts, out.Counts)
	require.Empty(t, out.Problems)
	for _, h := range p.hints {
		require.Equal(t, "polls of rack1", h.Source)
		at, err := time.Parse(time.RFC3339Nano, h.ObservedAt)
		require.NoError(t, err)
		require.WithinRange(t, at, before, time.Now())
	}
}

// A pre-allocated device is never touched, nor one of another appliance, nor one in no pool.
//
// S4.36
func TestAPollTouchesOnlyDynamicDevices(t *testing.T) {
	p := newPollFixture(t)
	fixed, elsewhere := dynamic("fixed"), dynamic("elsewhere")
	fixed.Dynamic, elsewhere.Appliance = false, "rack2"
	p.add(polled{name: "fixed", state: device.Available, pool: fixed, profile: others})
	p.add(polled{name: "elsewhere", state: device.Available, pool: elsewhere, profile: others})
	p.add(polled{name: "none", state: device.Available, profile: others})
	out, err := p.poll(contract.PollPageInput{})
	require.NoError(t, err)
	require.Empty(t, p.signals)
	require.Equal(t, contract.PollCounts{Servers: 3}, out.Counts)
}

// What fails at one device is reported; the others of the page get their signals.
//
// S4.16
func TestOneDevicesErrorDoesNotStopThePage(t *testing.T) {
	p := newPollFixture(t)
	for _, name := range []string{"node1", "node2", "node3", "node4", "ended"} {
		p.add(polled{name: name, state: device.Available, pool: dynamic(name), profile: others})
	}
	p.page.Servers[3].URI = hardwareOf("other")
	p.devices[2].Memo.Fields[contract.MemoStatus].Data = []byte("broken")
	p.signalError = func(name string) error {
		switch name {
		case "node1":
			return errors.New("the server\nis busy")
		case "ended":
			return serviceerror.NewNotFound("it has ended")
		}
		return nil
	}
	out, err := p.poll(contract.PollPageInput{})
	require.NoError(t, err)
	require.Equal(t, []string{contract.SignalTaken}, p.signals["node2"])
	require.Equal(t, contract.PollCounts{Servers: 5, Devices: 4, Taken: 1, Failed: 3}, out.Counts)
	require.Len(t, out.Problems, 3)
	require.Equal(t, contract.Mismatch{Name: "node1", What: "it could not be signaled: the server is busy"},
		out.Problems[0])
	require.Contains(t, out.Problems[1].What, "its status cannot be read")
	require.Equal(t,
		contract.Mismatch{Name: "node4", What: "it is enrolled with /rest/server-hardware/node4, and the server with its " +
			"serial number SN-NODE4 is /rest/server-hardware/other"}, out.Problems[2])
	require.Empty(t, p.signals["node4"])
}

// A blank of the appliance is the host's underscore, and case makes no difference.
func TestAPollFindsADeviceHoweverItsSerialNumberIsWritten(t *testing.T) {
	p := newPollFixture(t)
	p.add(polled{name: "node_1", state: device.Available, pool: dynamic("node_1"), profile: others, serial: "sn-node 1"})
	out, err := p.poll(contract.PollPageInput{Count: 100})
	require.NoError(t, err)
	require.Contains(t, p.queries[0], "'SN-NODE_1'", "as the device is listed")
	require.Equal(t, contract.PollCounts{Servers: 1, Devices: 1, Taken: 1}, out.Counts)
	require.Equal(t, map[string][]string{"node_1": {contract.SignalTaken}}, p.signals)
}

// One request to the appliance and one to the server, whatever the size of the page.
//
// S4.31
func TestAPageIsTwoRequests(t *testing.T) {
	p := newPollFixture(t)
	for i := range 100 {
		name := fmt.Sprint("node", i)
		p.add(polled{name: name, state: device.Available, pool: dynamic(name), profile: others, serial: " sn-" + name + " "})
	}
	p.page.Servers = append(p.page.Servers, oneview.Hardware{URI: "/rest/server-hardware/unread"})
	p.page.Next, p.page.Total = 300, 1000
	out, err := p.poll(contract.PollPageInput{Start: 200, Count: 100})
	require.NoError(t, err)
	require.Equal(t, [][2]int{{200, 100}}, p.asked)
	require.Len(t, p.queries, 1)
	require.Contains(t, p.queries[0], "WorkflowType = 'DeviceLifecycle' AND ExecutionStatus = 'Running' AND DeviceType "+
		"= 'NODE' AND DeviceSerial IN (' sn-node0 ', 'sn-node0', 'SN-NODE0', ' sn-node1 '")
	require.Equal(t, contract.PollCounts{Servers: 101, Devices: 100, Taken: 100}, out.Counts)
	require.Equal(t, 300, out.Next)
	require.Equal(t, 1000, out.Total)

	_, err = p.poll(contract.PollPageInput{})
	require.NoError(t, err)
	require.Equal(t, [2]int{0, 70}, p.asked[1], "the appliance's own page size")
}

// A page that cannot be read signals no device, and is tried again.
func TestAPageThatCannotBeRead(t *testing.T) {
	p := newPollFixture(t)
	p.add(polled{name: "node1", state: device.Available, pool: dynamic("node1"), profile: others})
	p.fails = &device.Fault{Class: device.Transient, Code: device.CodeApplianceUnreachable, Message: "gone"}
	_, err := p.poll(contract.PollPageInput{})
	refusal, ok := contract.RefusalOf(err)
	require.True(t, ok)
	require.Equal(t, device.CodeApplianceUnreachable, refusal.Fault.Code)
	require.Empty(t, p.signals)
	require.Empty(t, p.queries)
}
