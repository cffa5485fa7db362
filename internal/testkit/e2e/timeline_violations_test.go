package e2e

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"burnish/internal/device"
	"burnish/internal/testkit/openstack"
	"burnish/workflows/contract"
)

// at is a second of an example day.
func at(seconds float64) time.Time {
	return time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC).Add(time.Duration(seconds * float64(time.Second)))
}

func wrote(seconds float64, reserved int, byNova bool) openstack.Change {
	return openstack.Change{Exists: true, Stocked: true, Total: 1, Reserved: reserved, At: at(seconds), By: openstack.Exchange{ByScheduler: byNova}}
}

// What is a device that should be cleaned and is not, and what is none.
func TestTimelineViolations(t *testing.T) {
	t.Parallel()
	const nova, burnish = true, false
	free, burned := wrote(0, 0, burnish), wrote(10, 1, nova)
	available := status{At: at(1), State: device.Available}
	between := func(from, to float64) span { return span{at(from), at(to)} }
	for what, c := range map[string]struct {
		timeline   timeline
		violations int
	}{
		"reserved by Nova, for longer than a sweep": {timeline{sweepInterval: time.Second, writes: []openstack.Change{free, burned}, statuses: []status{available}}, 1},
		"the test ends before":                      {timeline{sweepInterval: time.Second, writes: []openstack.Change{free, burned}, statuses: []status{available}, end: at(15.9)}, 0},
		"it is cleaned within a sweep": {timeline{sweepInterval: time.Second, writes: []openstack.Change{free, burned},
			statuses: []status{available, {At: at(15), State: device.PendingCleaning}}}, 0},
		"it is cleaned too late": {timeline{sweepInterval: time.Second, writes: []openstack.Change{free, burned},
			statuses: []status{available, {At: at(22), State: device.PendingCleaning}}}, 1},
		"two short windows are not a long one": {timeline{sweepInterval: time.Second, writes: []openstack.Change{free, burned, wrote(14, 0, nova), wrote(15, 1, nova), wrote(19, 0, nova)},
			statuses: []status{available}}, 0},
		"back to available without being lowered": {timeline{sweepInterval: time.Hour, writes: []openstack.Change{free, wrote(10, 1, burnish)},
			statuses: []status{available, {At: at(10.1), State: device.Cleaning}, {At: at(20), State: device.Available}}}, 1},
		"in maintenance": {timeline{sweepInterval: time.Second, writes: []openstack.Change{free, wrote(10, 1, burnish)},
			statuses: []status{available, {At: at(10.1), State: device.Available, Maintenance: true}}}, 0},
		"the maintenance ends, and it is not lowered": {timeline{sweepInterval: time.Second, writes: []openstack.Change{free, wrote(10, 1, burnish)},
			statuses: []status{available, {At: at(10.1), State: device.Available, Maintenance: true}, {At: at(20), State: device.Available}}}, 1},
		"a bind: claimed until its reservation is read back": {timeline{writes: []openstack.Change{free, wrote(10, 1, burnish)},
			statuses: []status{available, {At: at(12), State: device.Allocated}}}, 0},
		"a bind that never ends":         {timeline{sweepInterval: time.Hour, writes: []openstack.Change{free, wrote(10, 1, burnish)}, statuses: []status{available}}, 1},
		"no sweep, and none is expected": {timeline{writes: []openstack.Change{free, burned}, statuses: []status{available}}, 0},
		"the sweep that was asked for had no effect": {timeline{writes: []openstack.Change{free, burned}, statuses: []status{available},
			sweeps: []span{between(9, 10.5), between(30, 31)}}, 1},
		"the sweep was asked for just now": {timeline{writes: []openstack.Change{free, burned}, statuses: []status{available},
			sweeps: []span{between(9, 10.5), between(96, 97)}}, 0},
		"the first sweep in it asks for a look": {timeline{sweepInterval: time.Second, writes: []openstack.Change{free, burned}, hints: []time.Time{at(12.4)},
			statuses: []status{available, {At: at(15), State: device.PendingCleaning}}, completed: []span{between(9, 10.5), between(11.5, 12.5), between(13.5, 14.5)}}, 0},
		"only the second sweep in it asks for a look": {timeline{sweepInterval: time.Second, writes: []openstack.Change{free, burned}, hints: []time.Time{at(5), at(14.4)},
			statuses: []status{available, {At: at(15), State: device.PendingCleaning}}, completed: []span{between(9, 10.5), between(11.5, 12.5), between(13.5, 14.5)}}, 1},
		"no sweep began and ended in it": {timeline{sweepInterval: time.Second, writes: []openstack.Change{free, burned},
			statuses: []status{available, {At: at(15), State: device.PendingCleaning}}, completed: []span{between(9, 10.5), between(14.5, 15.5)}}, 0},
		"an outage until it is cleaned": {timeline{sweepInterval: time.Second, writes: []openstack.Change{free, burned},
			statuses: []status{available, {At: at(60), State: device.PendingCleaning}}, outages: []span{between(11, 58)}}, 0},
		"an outage is over": {timeline{sweepInterval: time.Second, writes: []openstack.Change{free, burned},
			statuses: []status{available, {At: at(70), State: device.PendingCleaning}}, outages: []span{between(2, 9), between(11, 30), between(31, 58)}}, 1},
		"its provider is deleted": {timeline{sweepInterval: time.Second, statuses: []status{available},
			writes: []openstack.Change{free, burned, {At: at(11), By: openstack.Exchange{ByScheduler: true}}}}, 0},
	} {
		l := c.timeline
		if l.end.IsZero() {
			l.end = at(100)
		}
		require.Len(t, l.violations(), c.violations, "%s: %s", what, l)
	}
}

// The invariant check of any test notices that Burnish does not sweep although it should.
func TestInvariantCheckSeesAMissingSweep(t *testing.T) {
	t.Parallel()
	c := NewCloud(t, newSite(t))
	c.Run(t, "all", c.Env("BURNISH_SWEEP_INTERVAL=0")...)
	c.sweepInterval = 100 * time.Millisecond
	d, provider := c.NovaDevice(t, "0000:01:00.0", MiB)
	c.EnrollNovaDevice(t, d)
	c.Destroy(t, c.Spawn(t, provider))
	require.Empty(t, c.checkInvariants(), "not yet")
	var violations []string
	poll(t, time.Minute, time.Second, "the check to notice it", func() (bool, string) {
		violations = c.checkInvariants()
		return len(violations) > 0, ""
	})
	require.Len(t, violations, 1)
	require.Contains(t, violations[0], d.Name+" was available and reserved")
	require.Contains(t, violations[0], "a sweep comes every 100ms")

	// The window stays in the timeline after its end.
	c.ReconcileNow(t, contract.ReconcileRequest{})
	c.AwaitDevice(t, d.Name, time.Minute, "to be cleaned", func(v contract.DeviceStatus) bool {
		return v.DeviceState == device.Available && len(v.Cleans) == 2
	})
	require.Len(t, c.checkInvariants(), 1)
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.watched, provider) // the test's own end must not see it
}

// An outage excuses what it struck, and no more.
func TestOutagesAreExcused(t *testing.T) {
	t.Parallel()
	const provider, other = "/resource_providers/11111111-1111-1111-1111-111111111111", "/resource_providers/22222222-2222-2222-2222-222222222222"
	asked := func(from, to float64, path string, status int) openstack.Exchange {
		return openstack.Exchange{Path: path, Status: status, Began: at(from), Ended: at(to)}
	}
	require.Equal(t, []span{{at(10), at(45)}}, unanswered([]openstack.Exchange{
		asked(1, 1.1, provider, 200), asked(10, 10.1, provider, 0), asked(12, 12.1, other, 200), asked(34.9, 35, provider+"/usages", 409), asked(40, 40.1, provider, 200),
	}), "until it is answered about the same provider")
	require.Equal(t, []span{{at(10), at(81)}}, unanswered([]openstack.Exchange{asked(10, 11, provider, 503)}), "with a bound")
	require.Equal(t, []span{{at(10), at(12)}}, unanswered([]openstack.Exchange{asked(10, 12, provider, 200)}), "held")

	require.Equal(t, []span{{at(10), at(40)}, {at(50), at(61)}},
		mergeOutages([]span{{at(50), at(61)}, {at(12), at(25)}, {at(10), at(20)}}, []span{{at(1), at(2)}, {at(24), at(40)}, {at(70), at(80)}}), "a sweep that it struck")
	require.Equal(t, []span{{at(10), at(80)}}, mergeOutages([]span{{at(10), at(20)}}, []span{{at(5), at(500)}}), "with a bound")

	running := span{From: at(5)}
	require.Equal(t, []span{{at(10), at(25)}, {at(30), at(110)}}, downtimes([]span{{at(0), at(10)}, {at(15), at(30)}}, at(100)))
	require.Equal(t, []span{{at(10), at(20)}}, downtimes([]span{{at(0), at(10)}, running}, at(100)), "another runs")
}
