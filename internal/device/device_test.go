package device

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Next changes neither the device that it is given nor anything that the device points to,
// whether the event is legal or not. The result shares no pointer with it.
func TestNextNeverChangesItsArgument(t *testing.T) {
	t.Parallel()
	for _, g := range explored() {
		for _, p := range g.visited {
			d := p.device()
			claim, binding := d.Claim, d.Binding
			for _, e := range alphabet() {
				next, err := Next(d, e)
				if err == nil && (next.Claim != nil && next.Claim == d.Claim || next.Binding != nil && next.Binding == d.Binding) {
					t.Fatalf("after %s on %s both share a pointer", describeEvent(e), describe(d))
				}
				if claim != d.Claim || binding != d.Binding || p != visitedOf(d, p.past) {
					t.Fatalf("%s changed %s", describeEvent(e), describe(p.device()))
				}
			}
		}
	}
}

// The settings of an event that the exploration leaves out change nothing for that event.
func TestSettingsThatMakeNoDifference(t *testing.T) {
	t.Parallel()
	// One setting at a time: no guard and no effect looks at two.
	var pairs [][2]Event
	for _, e := range alphabet() {
		for setting, set := range map[string]func(*Event){
			"automated":      func(e *Event) { e.Automated = true },
			"asserted-clean": func(e *Event) { e.AssertedClean = true },
			"bound-since":    func(e *Event) { e.BoundSince = true },
			"recorded":       func(e *Event) { e.Recorded = true },
			"hold":           func(e *Event) { e.Hold = HoldMaintenance },
			"instance":       func(e *Event) { e.Instance = own },
		} {
			if more := e; !uses(e.Kind, setting) {
				set(&more)
				pairs = append(pairs, [2]Event{e, more})
			}
		}
	}
	for _, g := range explored() {
		for _, p := range g.visited {
			d := p.device()
			for _, pair := range pairs {
				one, errOne := table.result(d, pair[0])
				two, errTwo := table.result(d, pair[1])
				if errOne != errTwo || visitedOf(one, p.past) != visitedOf(two, p.past) {
					t.Fatalf("on %s %+v differs from %+v", describe(d), pair[0], pair[1])
				}
			}
		}
	}
}

// result is next without the sentence for what is refused.
func (m machine) result(d Device, e Event) (after Device, legal bool) {
	r := m.row(d, e)
	if r == nil {
		return d, false
	}
	return r.apply(d, e), true
}

func TestEveryKindOfEventIsExplored(t *testing.T) {
	for _, r := range table {
		require.Contains(t, kinds(), r.On)
	}
	for _, k := range kinds() {
		require.True(t, slices.ContainsFunc(table, func(r row) bool { return r.On == k }), "no row is for %s", k)
	}
	seen := map[EventKind]bool{}
	for _, k := range kinds() {
		require.False(t, seen[k])
		seen[k] = true
	}
}

func TestClaimAndBindingKeepWhatTheEventSays(t *testing.T) {
	deadline := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	d, err := read("available cleanable")
	require.NoError(t, err)
	for _, e := range []Event{
		{Kind: ClaimEvent, Instance: "i", Request: "r", Tag: "t", Deadline: deadline},
		{Kind: BurnStarted, Instance: "i"},
	} {
		d, err = Next(d, e)
		require.NoError(t, err)
	}
	require.Equal(t, &Claim{Instance: "i", Request: "r", Tag: "t", Deadline: deadline, Burning: true}, d.Claim)
	d, err = Next(d, Event{Kind: Burned})
	require.NoError(t, err)
	require.Equal(t, &Binding{Number: 1, Instance: "i", Request: "r", Tag: "t"}, d.Binding)
	require.Nil(t, d.Claim)
}

// Each binding has the next number. Observing the same binding again keeps its number.
func TestBindingsAreNumbered(t *testing.T) {
	d, err := read("available nova cleanable")
	require.NoError(t, err)
	for _, want := range []struct {
		event  Event
		number int
	}{
		{Event{Kind: ObservedInUse, Instance: "a"}, 1},
		{Event{Kind: Invalidated}, 1},
		{Event{Kind: ObservedInUse, Instance: "a"}, 1},
		{Event{Kind: Invalidated}, 1},
		{Event{Kind: ObservedInUse, Instance: "b"}, 2},
		{Event{Kind: Invalidated}, 2},
		{Event{Kind: PreviousRunFound, Instance: "b"}, 2},
		{Event{Kind: PreviousRunFound, Instance: "c"}, 3},
		{Event{Kind: ObservedUnused, Automated: true}, 3},
	} {
		d, err = Next(d, want.event)
		require.NoError(t, err)
		require.Equal(t, want.number, d.Bindings, want.event.Kind)
		require.NotNil(t, d.Binding)
		require.Equal(t, want.number, d.Binding.Number, want.event.Kind)
	}
	d, err = Next(d, Event{Kind: Released, Automated: true})
	require.NoError(t, err)
	require.Nil(t, d.Binding)
	require.Equal(t, 3, d.Bindings)
}

func TestIllegalEventsNameWhatWouldBeLegal(t *testing.T) {
	for name, tt := range map[string]struct {
		from, event, want string
	}{
		"a state": {"allocated dirty bound:own", "claim by:other",
			"claim is not possible while the device is allocated: it is legal when available"},
		"a guard": {"available claimed:own", "burn_started by:other",
			"burn_started is not possible while the device is available: it needs the claim's own instance"},
		"several rows": {"allocated dirty cleanable bound:own", "unbind by:other",
			"unbind is not possible while the device is allocated: it needs the binding's own instance, or "},
		"a device that is not enrolled": {"absent", "claim by:own",
			"claim is not possible while the device is –: it is legal when available"},
	} {
		t.Run(name, func(t *testing.T) {
			d, err := read(tt.from)
			require.NoError(t, err)
			e, err := readEvent(tt.event)
			require.NoError(t, err)
			got, err := Next(d, e)
			var illegal *IllegalError
			require.ErrorAs(t, err, &illegal)
			require.Equal(t, d.State, illegal.State)
			require.Equal(t, e.Kind, illegal.Event)
			require.Equal(t, d, got)
			require.True(t, strings.HasPrefix(err.Error(), tt.want), err.Error())
			require.NotContains(t, err.Error(), "\n")
		})
	}
}

func TestAllocatableNeedsAllFour(t *testing.T) {
	for text, want := range map[string]bool{
		"available":                         true,
		"available not-sanitized":           true,
		"available maintaining":             false,
		"available maintenance:taken":       false,
		"available maintenance:operator":    false,
		"available maintenance:quarantined": false,
		"available claimed:own":             false,
		"available burning:own":             false,
		"cleaning returning":                false,
		"manageable":                        false,
	} {
		t.Run(text, func(t *testing.T) {
			d, err := read(text)
			require.NoError(t, err)
			require.Equal(t, want, d.Allocatable())
			require.Equal(t, strings.Contains(text, "maint"), d.InMaintenance())
		})
	}
}

func TestFault(t *testing.T) {
	f := &Fault{Class: Permanent, Code: CodeInUse, Message: "in use"}
	require.Equal(t, "in use", f.Error())
	f.Remedy = "wait"
	require.Equal(t, "in use; wait", f.Error())
	got, ok := AsFault(fmt.Errorf("observe: %w", f))
	require.True(t, ok)
	require.Same(t, f, got)
	_, ok = AsFault(errors.New("another"))
	require.False(t, ok)
	_, ok = AsFault(nil)
	require.False(t, ok)
}

// F11
func TestIdentityDiffers(t *testing.T) {
	known := Identity{Serial: "s", Vendor: "v", Model: "m", Firmware: "f", Size: 1, Given: "g", Path: "p",
		Device: 2, Inode: 3}
	require.Empty(t, known.Differs(known))
	for want, change := range map[string]func(*Identity){
		"serial": func(i *Identity) { i.Serial = "" },
		"vendor": func(i *Identity) { i.Vendor = "x" },
		"model":  func(i *Identity) { i.Model = "x" },
		"size":   func(i *Identity) { i.Size++ },
		"path":   func(i *Identity) { i.Path = "x" },
		"device": func(i *Identity) { i.Device++ },
		"inode":  func(i *Identity) { i.Inode++ },
	} {
		t.Run(want, func(t *testing.T) {
			seen := known
			change(&seen)
			require.Equal(t, want, known.Differs(seen))
			require.Equal(t, want, seen.Differs(known))
		})
	}
	same := known
	same.Firmware, same.Given = "another", "another"
	require.Empty(t, known.Differs(same), "firmware and the operator's spelling may change on one device")
}

// S2.34
func TestNames(t *testing.T) {
	for name, want := range map[string]string{
		"Host1_0000:01:00.0":     "host1_0000:01:00.0",
		"h1_0000:AB:1F.7":        "h1_0000:ab:1f.7",
		"Disk-A":                 "Disk-A",
		"a":                      "a",
		"Rack_7_Disk":            "Rack_7_Disk",
		"H1_0000:01:00.8":        "H1_0000:01:00.8", // PCI has no function 8, so this is a name that the operator chose
		"x_y_0000:01:00.0":       "x_y_0000:01:00.0",
		strings.Repeat("n", 127): strings.Repeat("n", 127),
	} {
		t.Run(name, func(t *testing.T) {
			got, err := CanonicalName(name)
			require.NoError(t, err)
			require.Equal(t, want, got)
			again, err := CanonicalName(got)
			require.NoError(t, err)
			require.Equal(t, got, again)
		})
	}
	for _, name := range []string{"", " a", "a b", "-a", ".a", "_a", "a/b", "../a", "a\n", "ä", "a'b",
		strings.Repeat("n", 128)} {
		t.Run("refuses "+name, func(t *testing.T) {
			_, err := CanonicalName(name)
			require.ErrorContains(t, err, fmt.Sprintf("%q", name))
		})
	}
	name, err := NameOf("HOST", "0000:0A:00.1")
	require.NoError(t, err)
	require.Equal(t, "host_0000:0a:00.1", name)
	for _, address := range []string{"", "01:00.0", "0000:01:00", "0000:01:20.0", "0000:01:00.9", "g000:01:00.0",
		"0000:01:00.0 "} {
		_, err := NameOf("host", address)
		require.ErrorContains(t, err, "PCI address")
	}
	_, err = NameOf("", "0000:01:00.0")
	require.Error(t, err)
}

// Running devices carry these JSON names.
func TestJSONNamesOfADevice(t *testing.T) {
	d := Device{
		State: Available, Dirty: true, Status: Enabled, Maintenance: MaintenanceTaken,
		Claim:   &Claim{Instance: "i", Request: "r", Tag: "t", Burning: true},
		Binding: &Binding{Number: 1, Instance: "i", Request: "r", Tag: "t", Observed: true}, Bindings: 1,
		Unit: Unit{Number: 1, Serial: "s"}, NotSanitized: true, Returning: true, NamedSteps: true, AwaitingManualClean: true,
		LostRace:   true,
		OneTimeUse: true, Owner: OwnerNova, Cleanable: true,
	}
	text, err := json.Marshal(d)
	require.NoError(t, err)
	require.JSONEq(t, `{
		"state":"available","dirty":true,"status":"enabled","maintenance":"taken",
		"claim":{"instance":"i","request":"r","tag":"t","deadline":"0001-01-01T00:00:00Z","burning":true},
		"binding":{"number":1,"instance":"i","request":"r","tag":"t","observed":true},"bindings":1,
		"unit":{"number":1,"serial":"s"},"not_sanitized":true,"returning":true,"named_steps":true,
		"awaiting_manual_clean":true,"lost_race":true,"one_time_use":true,"owner":"nova","cleanable":true}`, string(text))
	var back Device
	require.NoError(t, json.Unmarshal(text, &back))
	require.Equal(t, d, back)
}
