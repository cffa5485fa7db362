package limits

import (
	"testing"

	"github.com/stretchr/testify/require"

	"burnish/internal/device"
	"burnish/workflows/contract"
)

const rack = "rack=R1"

func ofRack(r *contract.SlotRequest) { r.Group = rack }

// arrive reports that a device has come to its nth step together, and the rack is looked at.
func (l *line) arrive(name string, n int, devices ...string) map[string]contract.SlotAnswer {
	l.Helper()
	l.queue.report(l.now, contract.SlotReport{Device: name, Clean: name + "/1", Arrived: n})
	require.Equal(l, []string{rack}, l.waitingGroups())
	l.gather(map[string][]string{rack: devices})
	return l.pass()
}

func TestAGroupGoesOnWhenAllAreThere(t *testing.T) {
	l := newLine(t, device.Limits{})
	for _, name := range []string{"d1", "d2", "d3"} {
		l.ask(name, ofRack)
	}
	l.ask("other")
	l.has("d1", "d2", "d3", "other")
	all := []string{"d3", "d1", "d2"}
	answers := l.arrive("d1", 1, all...)
	require.Equal(t, "waits for the other devices with rack=R1: d2, d3", answers["d1"].Missing.Message)
	require.Contains(t, answers["d1"].Missing.Remedy, "release-hold d1")
	answers = l.arrive("d2", 1, all...)
	require.Equal(t, "waits for the other devices with rack=R1: d3", answers["d1"].Missing.Message)
	require.Zero(t, answers["d2"].Opened)
	answers = l.arrive("d3", 1, all...)
	require.Len(t, answers, 3)
	for _, name := range all {
		require.Equal(t, 1, answers[name].Opened)
		require.Nil(t, answers[name].Missing)
	}
	require.Empty(t, l.waitingGroups())

	// The next step together is another wait. Who was released alone counts as there.
	require.Contains(t, l.arrive("d2", 2, all...)["d2"].Missing.Message, "d1, d3")
	require.Contains(t, l.arrive("d1", 2, all...)["d1"].Missing.Message, ": d3")
	require.Equal(t, 2, l.arrive("d3", 3, all...)["d1"].Opened)
}

func TestARetiredDeviceIsNotWaitedFor(t *testing.T) {
	l := newLine(t, device.Limits{})
	l.ask("d1", ofRack)
	l.has("d1")
	require.NotNil(t, l.arrive("d1", 1, "d1", "d2")["d1"].Missing)
	l.gather(map[string][]string{rack: {"d1"}})
	require.Equal(t, 1, l.pass()["d1"].Opened)
}

func TestMoreMissingDevicesThanAMessageNames(t *testing.T) {
	l := newLine(t, device.Limits{})
	l.ask("d1", ofRack)
	l.has("d1")
	why := l.arrive("d1", 1, "d1", "a", "b", "c", "d", "e", "f", "g")["d1"].Missing
	require.Equal(t, "waits for the other devices with rack=R1: a, b, c, d, e and 2 more", why.Message)
}

// The workflow of the limits was lost: devices say how far they have come, and behind which steps they may go on.
func TestAGroupAsksOnceMore(t *testing.T) {
	l := newLine(t, device.Limits{})
	l.ask("d1", ofRack, func(r *contract.SlotRequest) { r.Granted, r.Arrived, r.Opened = true, 1, 1 })
	l.ask("d2", ofRack, func(r *contract.SlotRequest) { r.Granted, r.Arrived = true, 1 })
	require.False(t, l.GroupsAt.IsZero())
	l.gather(map[string][]string{rack: {"d1", "d2"}})
	answers := l.pass()
	require.Equal(t, 1, answers["d1"].Opened)
	require.Equal(t, 1, answers["d2"].Opened)
}

// Devices that wait for each other do not wait for the slots that others of them have.
func TestAGroupCountsAsOneClean(t *testing.T) {
	l := newLine(t, device.Limits{ConcurrentCleans: 2, PerHost: 1})
	l.ask("a")
	l.ask("d1", ofRack, on("h2"))
	l.ask("d2", ofRack, on("h2"))
	l.ask("d3", ofRack) // whose host has a clean already
	l.ask("b", on("h3"))
	l.has("a", "d1", "d2", "d3")
	require.Equal(t, 2, l.status("", 9).Running)
	l.end("d1", "")
	l.end("d2", "")
	l.has("a", "d3")
	l.end("d3", "")
	l.has("a", "b")
}

// Firmware that is new to a model goes to one group of it: its devices wait for each other before it is verified.
func TestTheFirstGroupGetsNewFirmwareTogether(t *testing.T) {
	l := newLine(t, device.Limits{Canary: true})
	l.ask("d1", ofRack, flashing("BMC 2.0"))
	l.ask("d2", ofRack, flashing("BMC 2.0"))
	l.ask("other", flashing("BMC 2.0"))
	l.has("d1", "d2")
}

func TestAGroupIsOneFailureOfTheBreaker(t *testing.T) {
	l := newLine(t, device.Limits{Breaker: 2})
	for _, name := range []string{"d1", "d2", "d3"} {
		l.ask(name, ofRack)
	}
	l.ask("e1", func(r *contract.SlotRequest) { r.Group = "rack=R2" })
	l.has("d1", "d2", "d3", "e1")
	l.end("d1", "zero")
	l.end("d2", "zero")
	l.end("d3", "zero")
	require.False(t, l.Breakers[0].Open)
	l.end("e1", "zero")
	require.True(t, l.Breakers[0].Open)
}
