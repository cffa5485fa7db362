package activities_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/mock"
	"github.com/stretchr/testify/require"
	"go.temporal.io/api/serviceerror"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/sdk/mocks"
	"google.golang.org/protobuf/types/known/timestamppb"

	"burnish/activities"
	"burnish/internal/device"
	"burnish/internal/inventory"
	"burnish/workflows/client"
	"burnish/workflows/contract"
)

// reconcileFixture is an inventory's providers and a server's listing of devices.
type reconcileFixture struct {
	*activities.Reconciler
	t       *testing.T
	pages   [][]*workflowpb.WorkflowExecutionInfo
	foreign []inventory.ProviderSnapshot
	own     []inventory.ProviderSnapshot
	fails   error  // of ListNova
	after   func() // each provider of ListNova
	// hintError gives the error of a hint to a device.
	hintError func(name string) error

	mu      sync.Mutex
	queries []string
	hosts   [][]string // of each call of ListNova
	read    []string   // the devices that ListNova was to read
	asked   []string   // of ListOwn
	hints   map[string][]contract.Hint
	most    atomic.Int64 // hints under way together
}

func newReconcileFixture(t *testing.T) *reconcileFixture {
	t.Helper()
	s := &reconcileFixture{t: t, hints: map[string][]contract.Hint{}, hintError: func(string) error { return nil },
		after: func() {}}
	c := &mocks.Client{}
	s.Reconciler = &activities.Reconciler{Client: client.New(c), Fleet: s,
		Log: slog.New(slog.NewTextHandler(io.Discard, nil))}
	lists(c, func(query string, token []byte) (runs []*workflowpb.WorkflowExecutionInfo, next []byte, _ error) {
		s.queries = append(s.queries, query)
		page := len(token)
		if page < len(s.pages) {
			runs = s.pages[page]
		}
		if page+1 < len(s.pages) {
			next = make([]byte, page+1)
		}
		return runs, next, nil
	})
	var under atomic.Int64
	c.On("SignalWorkflow", mock.Anything, mock.Anything, "", contract.SignalObserved, mock.Anything).
		Return(func(_ context.Context, id, _, _ string, hint any) error {
			n := under.Add(1)
			defer under.Add(-1)
			for most := s.most.Load(); n > most && !s.most.CompareAndSwap(most, n); most = s.most.Load() {
			}
			name := strings.TrimPrefix(id, "device/")
			s.mu.Lock()
			s.hints[name] = append(s.hints[name], hint.(contract.Hint))
			s.mu.Unlock()
			return s.hintError(name)
		})
	return s
}

// ListNova notes which devices it was asked to read.
func (s *reconcileFixture) ListNova(_ context.Context, hosts []string, wanted func(string) bool,
	each func(inventory.ProviderSnapshot) error) error {
	s.hosts = append(s.hosts, hosts)
	for _, p := range s.foreign {
		if len(hosts) > 0 && !slices.Contains(hosts, p.Host) {
			continue
		}
		if wanted(p.Device) {
			s.read = append(s.read, p.Device)
		} else {
			p = inventory.ProviderSnapshot{Provider: p.Provider, Device: p.Device, Host: p.Host, ListedOnly: true}
		}
		if err := each(p); err != nil {
			return err
		}
		s.after()
	}
	return s.fails
}

func (s *reconcileFixture) ListOwn(_ context.Context, uuids []string,
	each func(inventory.ProviderSnapshot) error) error {
	s.asked = uuids
	for _, p := range s.own {
		if slices.Contains(uuids, p.UUID) {
			if err := each(p); err != nil {
				return err
			}
		}
	}
	return nil
}

// listed is a device as the server's listing has it.
func listed(t *testing.T, name, host string, state device.State, owner device.Owner,
	held bool) *workflowpb.WorkflowExecutionInfo {
	t.Helper()
	run := deviceRun(name,
		attributes(t, contract.AttrState, state, contract.AttrHost, host, contract.AttrInstance, "i-"+name),
		statusMemo(t, contract.StatusMemo{Name: name, Owner: owner, Maintenance: held}))
	run.StartTime = timestamppb.New(time.Unix(1000, 0))
	return run
}

// adds adds a device and its provider; of a bound device of our own that records the instance.
func (s *reconcileFixture) adds(name string, state device.State, owner device.Owner, held bool, v device.Inventory) {
	host, _, _ := strings.Cut(name, "_")
	if len(s.pages) == 0 {
		s.pages = [][]*workflowpb.WorkflowExecutionInfo{nil}
	}
	s.pages[0] = append(s.pages[0], listed(s.t, name, host, state, owner, held))
	if owner == device.OwnerSelf && state == device.Allocated {
		v.Witness, v.Tenant = device.WitnessBound, "i-"+name
	}
	s.sights(name, owner, v)
}

func (s *reconcileFixture) sights(name string, owner device.Owner, v device.Inventory) {
	host, _, _ := strings.Cut(name, "_")
	p := inventory.ProviderSnapshot{Host: host, Inventory: v}
	if owner == device.OwnerNova {
		p.UUID, p.Device = "nova-"+name, name
		s.foreign = append(s.foreign, p)
		return
	}
	p.UUID = contract.DeviceUUID(name)
	s.own = append(s.own, p)
}

func (s *reconcileFixture) reconcile(in contract.ReconcileInput) (contract.ReconcileResult, error) {
	s.t.Helper()
	return execute[contract.ReconcileResult](first(s.t), contract.ActivityReconcileInventory, s.ReconcileInventory, in)
}

func (s *reconcileFixture) candidates(in contract.CandidatesInput) contract.Candidates {
	s.t.Helper()
	found, err := execute[contract.Candidates](first(s.t), contract.ActivityCandidates, s.Candidates, in)
	require.NoError(s.t, err)
	return found
}

func (s *reconcileFixture) must(in contract.ReconcileInput) contract.ReconcileResult {
	s.t.Helper()
	out, err := s.reconcile(in)
	require.NoError(s.t, err)
	return out
}

func (s *reconcileFixture) hinted() []string {
	var names []string
	for name := range s.hints {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// order is what the requirements say about each state and the values of reserved and used,
// which are in the order 0/0 0/1 1/0 1/1: "=" as expected,
// "hint" the device gets a hint, "odd" it does and a mismatch is reported.
var order = []struct{ rule, state, nova, self string }{
	{"D8, S2.84: it finds out by itself", "unknown", "= = = =", "= = = ="},
	{"S0.16, S2.40", "manageable", "odd odd = odd", "odd odd = odd"},
	{"S2.40, D9, allocated: S0.30", "available", "= hint odd hint", "= hint odd hint"},
	{"S2.51", "available held", "odd hint = hint", "odd hint = hint"},
	{"S0.9, S0.15; F6: used proves nothing of our own", "allocated", "hint hint hint =", "odd odd = ="},
	{"S2.40, F4", "pending_cleaning", "odd odd = odd", "odd odd = odd"},
	{"S2.40: it may be on its way back", "cleaning", "hint odd = odd", "hint odd = odd"},
	{"S2.40", "error", "odd odd = odd", "odd odd = odd"},
	{"S2.40: permanently reserved", "retired", "odd odd = odd", "odd odd = odd"},
}

// Each state with each reservation.
//
// S2.52, S0.9, S0.15, D9
func TestWhichSnapshotsAreMismatches(t *testing.T) {
	t.Parallel()
	stocks := []device.Inventory{{Total: 1}, {Total: 1, Used: 1}, {Total: 1, Reserved: 1},
		{Total: 1, Reserved: 1, Used: 1}}
	for _, o := range order {
		state, held := strings.CutSuffix(o.state, " held")
		for owner, row := range map[device.Owner]string{device.OwnerNova: o.nova, device.OwnerSelf: o.self} {
			for i, want := range strings.Fields(row) {
				t.Run(fmt.Sprintf("%s %s %d of 1 used %d", owner, o.state, stocks[i].Reserved, stocks[i].Used), func(t *testing.T) {
					s := newReconcileFixture(t)
					var log strings.Builder
					s.Log = slog.New(slog.NewTextHandler(&log, nil))
					s.adds("h1_0000:01:00.0", device.State(state), owner, held, stocks[i])
					out := s.must(contract.ReconcileInput{})
					require.Equal(t, want != "=", len(s.hints) == 1, o.rule)
					require.Equal(t, want == "odd", len(out.Mismatches) == 1, o.rule)
					warned := strings.Contains(log.String(), "level=WARN") && strings.Contains(log.String(), "device=h1_0000:01:00.0")
					require.Equal(t, want == "odd", warned, log.String())
					require.Equal(t, len(out.Mismatches), out.Counts.Mismatch)
					require.Equal(t, len(s.hints), out.Counts.Hinted)
					require.Empty(t, out.Missing)
				})
			}
		}
	}
}

// A device has one provider with total=1; any other total is a mismatch.
//
// S0.14
func TestAnotherTotalIsAMismatch(t *testing.T) {
	t.Parallel()
	for _, total := range []int{0, 2} {
		s := newReconcileFixture(t)
		s.adds("h1_a", device.Available, device.OwnerNova, false, device.Inventory{Total: total})
		out := s.must(contract.ReconcileInput{})
		require.Len(t, out.Mismatches, 1)
		require.Contains(t, out.Mismatches[0].What, "one provider with total = 1")
	}
}

// A provider without an enrolled device is counted and not read, whatever it has become. One
// of a device of the other owner is read, and left alone.
//
// S0.35, S0.17
func TestUnenrolledProvidersAreOnlyCounted(t *testing.T) {
	t.Parallel()
	s := newReconcileFixture(t)
	s.adds("h1_a", device.Available, device.OwnerSelf, false, device.Inventory{Total: 1})
	s.sights("h1_a", device.OwnerNova, device.Inventory{Total: 1, Reserved: 1, Used: 1})
	s.sights("h1_b", device.OwnerNova, device.Inventory{Total: 1, Reserved: 1})
	s.sights("h2_c", device.OwnerNova, device.Inventory{Total: 1, Used: 1})
	out := s.must(contract.ReconcileInput{})
	require.Empty(t, s.hints)
	require.Equal(t, contract.ReconcileCounts{Providers: 4, Devices: 1, Mismatch: 1, Unenrolled: 2}, out.Counts)
	require.Equal(t, []string{"h1_a"}, s.read)
}

// Only devices that differ from their provider get a hint. Its time is the start of the
// reconciliation.
//
// F6, S0.30, D11
func TestOnlyThoseThatDifferAreHinted(t *testing.T) {
	t.Parallel()
	s := newReconcileFixture(t)
	began := time.Now()
	s.adds("h1_a", device.Available, device.OwnerNova, false, device.Inventory{Total: 1})
	s.adds("h1_b", device.Allocated, device.OwnerNova, false, device.Inventory{Total: 1, Reserved: 1})
	s.adds("h2_c", device.Available, device.OwnerSelf, false, device.Inventory{Total: 1})
	out := s.must(contract.ReconcileInput{})
	require.Equal(t, []string{"h1_b"}, s.hinted())
	hint := s.hints["h1_b"][0]
	seen, err := time.Parse(time.RFC3339Nano, hint.ObservedAt)
	require.NoError(t, err)
	require.WithinRange(t, seen, began.Add(-time.Second), time.Now())
	require.Equal(t, contract.Hint{Source: "reconciliation", ObservedAt: hint.ObservedAt}, hint,
		"it has nothing but its source and time")
	require.Equal(t, contract.ReconcileCounts{Providers: 3, Devices: 3, Hinted: 1}, out.Counts)
}

// A device that continues as new between two pages is listed twice and counts once, with
// its newer run. One that is absent or unreadable does not count.
func TestListedTwice(t *testing.T) {
	t.Parallel()
	for _, newerFirst := range []bool{false, true} {
		s := newReconcileFixture(t)
		old := listed(t, "h1_a", "h1", device.Allocated, device.OwnerNova, false)
		newer := listed(t, "h1_a", "h1", device.Available, device.OwnerNova, false)
		newer.StartTime = timestamppb.New(time.Unix(2000, 0))
		absent := listed(t, "h1_b", "h1", device.Absent, device.OwnerNova, false)
		broken := listed(t, "h1_c", "h1", device.Available, device.OwnerNova, false)
		broken.SearchAttributes.IndexedFields[contract.AttrState.GetName()].Data = []byte("{")
		s.pages = [][]*workflowpb.WorkflowExecutionInfo{{old, absent}, {newer, broken}}
		if newerFirst {
			slices.Reverse(s.pages)
		}
		s.sights("h1_a", device.OwnerNova, device.Inventory{Total: 1})
		out := s.must(contract.ReconcileInput{})
		require.Len(t, s.queries, 2)
		require.Empty(t, s.hints)
		require.Equal(t, contract.ReconcileCounts{Providers: 1, Devices: 1}, out.Counts)
	}
}

// A device without a provider is reported by each reconciliation, and gets one hint, and
// another when the provider is back. A retired or unknown device is never missing.
func TestAMissingProviderIsHintedOnce(t *testing.T) {
	t.Parallel()
	s := newReconcileFixture(t)
	for name, state := range map[string]device.State{"h1_a": device.Available, "h1_b": device.Error,
		"h1_r": device.Retired, "h1_u": device.Unknown} {
		s.adds(name, state, device.OwnerNova, false, device.Inventory{})
	}
	s.foreign = nil
	out := s.must(contract.ReconcileInput{})
	require.Equal(t, []string{"h1_a", "h1_b"}, out.Missing)
	require.Equal(t, []string{"h1_a", "h1_b"}, s.hinted())
	require.Equal(t, 2, out.Counts.Missing)
	s.hints = map[string][]contract.Hint{}
	again := s.must(contract.ReconcileInput{Missing: out.Missing})
	require.Empty(t, s.hints)
	require.Equal(t, out.Missing, again.Missing)
	s.sights("h1_a", device.OwnerNova, device.Inventory{Total: 1})
	back := s.must(contract.ReconcileInput{Missing: again.Missing})
	require.Equal(t, []string{"h1_a"}, s.hinted(), "the provider is back, and may be another one")
	require.Equal(t, []string{"h1_b"}, back.Missing)
	require.Empty(t, back.Mismatches)
}

// A hint to a workflow that has ended since it was listed is not a failure. A hint that
// cannot be delivered is, and all other devices still get theirs.
func TestAFailedHintFailsTheReconciliation(t *testing.T) {
	t.Parallel()
	s := newReconcileFixture(t)
	for i := range 40 {
		s.adds(fmt.Sprintf("h1_%02d", i), device.Error, device.OwnerNova, false, device.Inventory{Total: 1})
	}
	s.hintError = func(name string) error {
		if name == "h1_03" {
			return serviceerror.NewNotFound("workflow not found")
		}
		return nil
	}
	require.Equal(t, 39, s.must(contract.ReconcileInput{}).Counts.Hinted)
	s.hintError = func(name string) error {
		if name >= "h1_30" {
			return serviceerror.NewUnavailable("shard\nmoves")
		}
		return nil
	}
	s.hints = map[string][]contract.Hint{}
	_, err := s.reconcile(contract.ReconcileInput{})
	requireFault(t, err, device.CodeInternal, true)
	require.Regexp(t, `hint to h1_3\d: shard moves, and to 9 more`, err.Error())
	require.Len(t, s.hints, 40)
	require.LessOrEqual(t, s.most.Load(), int64(8), "concurrent hints")
}

// If the inventory does not answer, the reconciliation fails: no device is reported
// missing, and only those whose provider was read get a hint.
func TestAReconciliationFailsWithItsInventory(t *testing.T) {
	t.Parallel()
	s := newReconcileFixture(t)
	s.adds("h1_a", device.Error, device.OwnerNova, false, device.Inventory{Total: 1})
	s.adds("h1_b", device.Error, device.OwnerNova, false, device.Inventory{Total: 1})
	s.foreign = s.foreign[:1]
	s.fails = inventory.Unavailable("list", "wait", context.DeadlineExceeded)
	_, err := s.reconcile(contract.ReconcileInput{})
	requireFault(t, err, device.CodeInventoryUnavailable, true)
	require.Equal(t, []string{"h1_a"}, s.hinted())
}

// A device gets its hint at once, not at the end of a long reconciliation.
func TestAHintIsSentBeforeAllProvidersAreRead(t *testing.T) {
	t.Parallel()
	s := newReconcileFixture(t)
	s.adds("h1_a", device.Error, device.OwnerNova, false, device.Inventory{Total: 1})
	s.adds("h1_b", device.Error, device.OwnerNova, false, device.Inventory{Total: 1})
	hinted := make(chan string, 2)
	s.hintError = func(name string) error {
		hinted <- name
		return nil
	}
	var seen []string
	s.after = func() {
		select {
		case name := <-hinted:
			seen = append(seen, name)
		case <-time.After(time.Minute): // it will not come
		}
	}
	require.Equal(t, 2, s.must(contract.ReconcileInput{}).Counts.Hinted)
	require.Equal(t, []string{"h1_a", "h1_b"}, seen)
}

// A reconciliation of some hosts and instances lists only their devices, and the providers
// of those devices' hosts. A quote in a name does not end the query's string.
func TestAReconciliationOfSomeHostsAndInstances(t *testing.T) {
	t.Parallel()
	s := newReconcileFixture(t)
	s.adds("h1_a", device.Allocated, device.OwnerNova, false, device.Inventory{Total: 1, Reserved: 1})
	s.sights("h2_b", device.OwnerNova, device.Inventory{Total: 1})
	out := s.must(contract.ReconcileInput{Hosts: []string{"h1", "o'neil"}, Instances: []string{"i1"}})
	require.Contains(t, s.queries[0], "DeviceHost STARTS_WITH 'o' OR DeviceHost = 'h1'")
	require.Contains(t, s.queries[1], "InstanceId = 'i1'")
	require.Equal(t, [][]string{{"h1"}}, s.hosts)
	require.Equal(t, contract.ReconcileCounts{Providers: 1, Devices: 1, Hinted: 1}, out.Counts)

	none := newReconcileFixture(t)
	none.must(contract.ReconcileInput{Hosts: []string{"h9"}})
	require.Empty(t, none.hosts, "no device there: Placement is not asked")
}

// The device of a given instance gets one hint, before Placement is read. Other devices
// get none.
//
// S0.29
func TestDevicesOfTheGivenInstancesAreHintedFirst(t *testing.T) {
	t.Parallel()
	s := newReconcileFixture(t)
	s.adds("h1_a", device.Allocated, device.OwnerNova, false, device.Inventory{Total: 1, Reserved: 1}) // it is free
	s.adds("h1_b", device.Allocated, device.OwnerNova, false, device.Inventory{Total: 1, Reserved: 1, Used: 1})
	providers := s.foreign
	s.foreign, s.fails = nil, inventory.Unavailable("Placement", "wait", errors.New("gone"))
	_, err := s.reconcile(contract.ReconcileInput{Instances: []string{"i-h1_a"}})
	requireFault(t, err, device.CodeInventoryUnavailable, true)
	require.Equal(t, []string{"h1_a"}, s.hinted(), "though Placement does not answer")

	s.foreign, s.fails = providers, nil
	s.must(contract.ReconcileInput{Instances: []string{"i-h1_a"}})
	require.Len(t, s.hints["h1_a"], 2, "once by each")
	require.Equal(t, []string{"h1_a"}, s.hinted())
}

// The list of mismatches is bounded and sorted by name.
func TestMismatchesAreBounded(t *testing.T) {
	t.Parallel()
	s := newReconcileFixture(t)
	for i := range 70 {
		s.adds(fmt.Sprintf("h1_%02d", 69-i), device.Error, device.OwnerSelf, false, device.Inventory{Total: 1})
	}
	out := s.must(contract.ReconcileInput{})
	require.Equal(t, 70, out.Counts.Mismatch)
	require.Len(t, out.Mismatches, contract.KeptMismatches)
	require.True(t,
		slices.IsSortedFunc(out.Mismatches, func(a, b contract.Mismatch) int { return strings.Compare(a.Name, b.Name) }))
}

// Candidates lists page by page which providers could be imported: not those of enrolled
// devices, and not those without a device name.
func TestCandidatesInPages(t *testing.T) {
	t.Parallel()
	s := newReconcileFixture(t)
	s.adds("h1_0000:01:00.0", device.Available, device.OwnerNova, false, device.Inventory{Total: 1})
	for _, name := range []string{"h1_0000:04:00.0", "h1_0000:02:00.0", "h1_0000:03:00.0", ""} {
		s.sights(name, device.OwnerNova, device.Inventory{Total: 1, Reserved: 1, Used: 1})
	}
	page := s.candidates(contract.CandidatesInput{Host: "H1", Limit: 2})
	require.True(t, page.More)
	require.Equal(t, []string{"h1_0000:04:00.0", "h1_0000:02:00.0", "h1_0000:03:00.0"}, s.read,
		"nothing of an enrolled device")
	require.Equal(t, []contract.Candidate{
		{Name: "h1_0000:02:00.0", Host: "h1", Address: "0000:02:00.0", Reserved: 1, Total: 1, Used: 1, Provider: "nova-h1_0000:02:00.0"},
		{Name: "h1_0000:03:00.0", Host: "h1", Address: "0000:03:00.0", Reserved: 1, Total: 1, Used: 1, Provider: "nova-h1_0000:03:00.0"},
	}, page.Devices)
	s.read = nil
	rest := s.candidates(contract.CandidatesInput{After: page.Devices[1].Name})
	require.False(t, rest.More)
	require.Len(t, rest.Devices, 1)
	require.Equal(t, []string{"h1_0000:04:00.0"}, s.read, "nothing of an earlier page")
	require.Empty(t, s.hints)
}

// A device that its host enrolled before Nova reported it has two owners: Nova gives it to
// instances and reserves its own provider, which is never lowered. Reconciliation says so, and
// import does not pass it over in silence.
//
// S0.14
func TestADeviceWithTwoOwnersIsReported(t *testing.T) {
	t.Parallel()
	s := newReconcileFixture(t)
	const name = "h1_0000:01:00.0"
	s.adds(name, device.Manageable, device.OwnerSelf, false, device.Inventory{Total: 1, Reserved: 1})
	s.sights(name, device.OwnerNova, device.Inventory{Total: 1, Reserved: 1, Used: 1})

	out, err := s.reconcile(contract.ReconcileInput{})
	require.NoError(t, err)
	require.Equal(t, 1, out.Counts.Mismatch)
	require.Len(t, out.Mismatches, 1)
	require.Equal(t, name, out.Mismatches[0].Name)
	require.Contains(t, out.Mismatches[0].What, "Nova has a provider for it too, nova-"+name+
		" with reserved=1 of 1, used=1")
	require.Empty(t, s.hints, "the device reads its own provider, and that is in order")

	found := s.candidates(contract.CandidatesInput{})
	require.Len(t, found.Devices, 1)
	require.Equal(t, device.OwnerSelf, found.Devices[0].Enrolled)
}

// An available device gets a hint if its provider is not the one that it last had, even
// if it is free: an instance may have used the earlier one.
//
// D9
func TestAnotherProviderIsHinted(t *testing.T) {
	t.Parallel()
	for provider, hinted := range map[string]bool{"": false, "nova-h1_a": false, "the-one-before": true} {
		s := newReconcileFixture(t)
		s.adds("h1_a", device.Available, device.OwnerNova, false, device.Inventory{Total: 1})
		s.pages[0][0].Memo = statusMemo(t, contract.StatusMemo{Name: "h1_a", Owner: device.OwnerNova, Provider: provider})
		out := s.must(contract.ReconcileInput{})
		require.Equal(t, hinted, len(s.hints["h1_a"]) == 1, provider)
		require.Empty(t, out.Mismatches)
	}
}

// An allocated device gets a hint if another instance has it. For Burnish's own providers
// the consumers do not count.
func TestAnotherConsumerIsHinted(t *testing.T) {
	t.Parallel()
	for consumer, hinted := range map[string]bool{"i-h1_a": false, "another": true} {
		s := newReconcileFixture(t)
		burned := device.Inventory{Total: 1, Reserved: 1, Used: 1, Consumers: []string{consumer}}
		s.adds("h1_a", device.Allocated, device.OwnerNova, false, burned)
		s.adds("h1_b", device.Allocated, device.OwnerSelf, false, burned)
		out := s.must(contract.ReconcileInput{})
		require.Equal(t, hinted, len(s.hints["h1_a"]) == 1, consumer)
		require.Empty(t, s.hints["h1_b"])
		require.Empty(t, out.Mismatches)
	}
}

// A device of Nova's whose provider was written since the device was offered reads it; one
// whose provider is as it was offered gets no hint, however often it is compared.
//
// F28
func TestReconcileComparesTheGeneration(t *testing.T) {
	s := newReconcileFixture(t)
	for name, generation := range map[string]int64{"h1_same": 7, "h1_written": 9} {
		s.adds(name, device.Available, device.OwnerNova, false, device.Inventory{Generation: generation, Total: 1})
	}
	for i, e := range s.pages[0] {
		name := strings.TrimPrefix(e.GetExecution().GetWorkflowId(), "device/")
		e.Memo = statusMemo(t, contract.StatusMemo{Name: name, Owner: device.OwnerNova, Provider: s.foreign[i].UUID,
			Generation: 7})
	}
	for range 2 {
		require.Empty(t, s.must(contract.ReconcileInput{}).Mismatches)
	}
	require.Empty(t, s.hints["h1_same"])
	require.Len(t, s.hints["h1_written"], 2)
}

// The listing carries who has a device by its provider's record: a bound device whose
// provider records no instance, or another instance, gets a hint. An instance whose name is no
// UUID may be recorded by its TenantUUID.
//
// F24
func TestTheRecordOfABoundDeviceIsCompared(t *testing.T) {
	t.Parallel()
	for tenant, hinted := range map[string]bool{"i-h1_a": false, device.TenantUUID("i-h1_a"): false,
		"another": true, "": true} {
		s := newReconcileFixture(t)
		s.adds("h1_a", device.Allocated, device.OwnerSelf, false, device.Inventory{Total: 1, Reserved: 1})
		s.own[0].Tenant = tenant
		if tenant == "" {
			s.own[0].Witness = device.WitnessNone
		}
		out := s.must(contract.ReconcileInput{})
		require.Equal(t, hinted, len(s.hints["h1_a"]) == 1, "recorded: %q", tenant)
		require.Equal(t, tenant == "another", len(out.Mismatches) == 1)
	}
}

// A provider of an enrolled device that cannot be read is counted and named, and all others
// are compared. Its device is not without a provider. That of a device that is not enrolled is
// read by the import, which names it.
//
// F29
func TestAnUnreadableProviderEndsNoReconciliation(t *testing.T) {
	t.Parallel()
	s := newReconcileFixture(t)
	lost := &device.Fault{Class: device.Transient, Code: device.CodeInventoryUnavailable,
		Message: "Placement: it answers 500"}
	s.adds("h1_a", device.Available, device.OwnerNova, false, device.Inventory{Total: 1})
	s.adds("h1_b", device.Available, device.OwnerSelf, false, device.Inventory{Total: 1})
	s.sights("h1_c", device.OwnerNova, device.Inventory{Total: 1})
	s.adds("h1_d", device.Available, device.OwnerNova, false,
		device.Inventory{Total: 1, Reserved: 1, Used: 1, Consumers: []string{"i1"}})
	s.adds("h1_e", device.Allocated, device.OwnerSelf, false,
		device.Inventory{Total: 1, Used: 1, Consumers: []string{"i2"}})
	s.foreign[0].Fault, s.foreign[1].Fault, s.own[0].Fault = lost, lost, lost
	out := s.must(contract.ReconcileInput{})
	require.Equal(t, 2, out.Counts.Unreadable)
	require.Len(t, out.Unreadable, 2)
	for i, name := range []string{"h1_a", "h1_b"} {
		require.Equal(t, name, out.Unreadable[i].Name)
		require.Contains(t, out.Unreadable[i].What, "it answers 500")
	}
	require.Empty(t, out.Missing)
	require.Equal(t, []string{"h1_d", "h1_e"}, s.hinted())

	found := s.candidates(contract.CandidatesInput{})
	require.Len(t, found.Devices, 1)
	require.Equal(t, "h1_c", found.Devices[0].Name)
	require.Equal(t, lost, found.Devices[0].Fault)
}
