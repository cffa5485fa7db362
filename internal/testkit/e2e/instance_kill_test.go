package e2e

import (
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"burnish/internal/testkit/proc"
	"burnish/workflows/client"
	"burnish/workflows/contract"
)

// moment is when the control worker is killed, during an act of an instance: when the history
// of the instance's run has so many events, or the inventory so many of the devices as burned.
// The zero moment is when the act has its answer.
type moment struct {
	events int64
	burns  int
}

func afterEvents(n int64) moment { return moment{events: n} }

func afterBurns(n int) moment { return moment{burns: n} }

// later is the moment in a run that has these events already.
func (m moment) later(events int64) moment {
	if m.events > 0 {
		m.events += events
	}
	return m
}

// moments are those of every run; BURNISH_KILLS=all, as in `make soak`, adds the others.
func moments(always []moment, others ...moment) []moment {
	if os.Getenv("BURNISH_KILLS") == "all" {
		return append(always, others...)
	}
	return always
}

func (m moment) String() string { return fmt.Sprintf("after %d events, %d burns", m.events, m.burns) }

// has says that the moment has come.
func (m moment) has(t testing.TB, f *fleet, instance string, devices []Device) bool {
	t.Helper()
	if m.events > 0 {
		return f.events(t, instance) >= m.events
	}
	burned := 0
	for _, d := range devices {
		if p, err := f.Site.Site.Provider(d.Name); err == nil && p.Reserved == p.Total {
			burned++
		}
	}
	return m.burns > 0 && burned >= m.burns
}

// events is how long the history of the instance's newest run is.
func (f *fleet) events(t testing.TB, instance string) int64 {
	t.Helper()
	answer, err := f.Client.DescribeWorkflowExecution(t.Context(), contract.InstanceWorkflowID(instance), "")
	if client.NotFound(err) {
		return 0
	}
	require.NoError(t, err)
	return answer.GetWorkflowExecutionInfo().GetHistoryLength()
}

// killed runs a command, kills the control worker at the moment, or when the command is answered
// before, and starts it again. Repeated says that the command is then sent once more, while the
// first one may still wait. It returns at once; the answers come later.
func (f *fleet) killed(t *testing.T, at moment, instance string, devices []Device, repeated bool,
	args ...string) <-chan []proc.Result {
	t.Helper()
	results, done := make(chan []proc.Result, 1), make(chan struct{})
	var first proc.Result
	run := func() proc.Result {
		r, err := f.Site.Site.Burnish(t.Context(), append(args, patiently()...)...)
		if err != nil {
			t.Error(err)
		}
		return r
	}
	go func() {
		defer close(done)
		first = run()
	}()
	poll(t, 20*time.Second, 2*time.Millisecond, at.String(), func() (bool, string) {
		select {
		case <-done:
			t.Logf("%v is answered; killed %s", args[:2], at)
			return true, ""
		default:
		}
		return at.has(t, f, instance, devices), ""
	})
	f.Control.Kill(t)
	f.Control.Start(t)
	go func() {
		all := []proc.Result{}
		if repeated {
			all = append(all, run())
		}
		<-done
		results <- append([]proc.Result{first}, all...)
	}()
	return results
}

// killedAct is an act of an instance during which the control worker was killed.
type killedAct struct {
	at       moment
	instance string
	address  string // the guest's
	devices  []Device
	before   []contract.DeviceStatus
	writes   []int64 // the generations of the inventory before
	results  <-chan []proc.Result
}

// killedActs gives each moment an instance of its own, for which so many devices are free.
func (f *fleet) killedActs(t *testing.T, word string, each int, moments ...moment) []*killedAct {
	t.Helper()
	var names []string
	for i := range each * len(moments) {
		names = append(names, fmt.Sprintf("d%d", i))
	}
	var all []*killedAct
	for devices := range slices.Chunk(f.host(t).enroll(t, "", names...), each) {
		i := len(all)
		a := &killedAct{at: moments[i], instance: Instance(fmt.Sprint(word, i)), address: fmt.Sprintf("127.5.0.%d", i+1),
			devices: devices}
		a.look(t, f)
		all = append(all, a)
	}
	return all
}

// look records how the devices are now.
func (a *killedAct) look(t testing.TB, f *fleet) {
	t.Helper()
	a.before, a.writes = f.statuses(t, a.devices...), nil
	for _, d := range a.devices {
		a.writes = append(a.writes, f.Provider(t, d.Name).Generation)
	}
}

// bindFlags are those of the instance's bind.
func (a *killedAct) bindFlags() []string {
	return append([]string{"--request-id", "r1", "--address", a.address}, named(a.devices...)...)
}

// The control worker is killed at many moments of `instance bind` of four devices. In the end
// the instance has all of them, and says so to whoever repeats the request, or none is held,
// and none was cleaned whose burn had not begun.
func TestKillWhileInstancesBind(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	binds := f.killedActs(t, "bind ", 4,
		moments([]moment{afterEvents(7), afterBurns(1), {}}, afterEvents(1), afterEvents(13), afterBurns(4))...)
	for _, b := range binds {
		b.results = f.killed(t, b.at, b.instance, b.devices, true,
			append([]string{"instance", "bind", b.instance}, b.bindFlags()...)...)
	}
	bound := 0
	for _, b := range binds {
		results := <-b.results
		again := f.Burnish(t, append(append(patiently(), "instance", "bind", b.instance), b.bindFlags()...)...)
		require.Contains(t, []int{0, 1}, again.Code, again)
		for _, r := range results {
			require.Contains(t, []int{0, 1}, r.Code, r)
			require.False(t, r.Code == 0 && again.Code == 1, "%v, then %v", r, again)
		}
		if again.Code == 1 {
			f.requireNoneHeld(t, b)
			continue
		}
		bound++
		f.requireBound(t, b)
	}
	t.Logf("%d of %d were bound", bound, len(binds))
	require.NotZero(t, bound)
	for _, b := range binds {
		f.Burnish(t, "instance", "release", b.instance) // one that is not bound refuses
	}
	for _, b := range binds {
		f.awaitReturned(t, b.devices...)
		f.requireNoDocument(t, b.address)
	}
}

// requireBound asserts that the instance has all its devices, each bound once.
func (f *fleet) requireBound(t *testing.T, b *killedAct) {
	t.Helper()
	stampAll(t, 2, b.devices...)
	f.requireHeld(t, b.instance, 2, b.devices...)
	v := f.instance(t, b.instance)
	require.Equal(t, contract.InstanceActive, v.Phase)
	require.Len(t, roles(v), len(b.devices))
	require.Len(t, f.shown(t, b.address), len(b.devices))
	for n, d := range b.devices {
		require.Len(t, f.status(t, d).Bindings, len(b.before[n].Bindings)+1, "bindings of %s, killed %s", d.Name, b.at)
	}
}

// requireNoneHeld asserts that a refused bind has left nothing: a device whose burn did not begin
// was not cleaned.
func (f *fleet) requireNoneHeld(t *testing.T, b *killedAct) {
	t.Helper()
	f.awaitReturned(t, b.devices...)
	for n, d := range b.devices {
		if f.Provider(t, d.Name).Generation == b.writes[n] {
			require.Len(t, f.status(t, d).Cleans, len(b.before[n].Cleans), "cleans of %s, killed %s", d.Name, b.at)
		}
	}
}

// The control worker is killed at many moments of `instance release`: all devices are cleaned,
// each once, the document is gone, and a repeated release says so.
func TestKillWhileInstancesAreReleased(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	releases := f.killedActs(t, "release ", 3, moments([]moment{afterEvents(4), {}}, afterEvents(1), afterEvents(7))...)
	for _, r := range releases {
		f.act(t, "bind", r.instance, r.bindFlags()...)
		stampAll(t, 2, r.devices...)
		r.look(t, f)
	}
	for _, r := range releases {
		r.at = r.at.later(f.events(t, r.instance))
		r.results = f.killed(t, r.at, r.instance, r.devices, true, "instance", "release", r.instance)
	}
	for _, r := range releases {
		for _, result := range <-r.results {
			require.Zero(t, result.Code, "killed %s: %v", r.at, result)
		}
		f.requireNoDocument(t, r.address)
		require.Contains(t, f.act(t, "release", r.instance), "already released")
		require.Equal(t, contract.InstanceReleased, f.instance(t, r.instance).Phase)
		f.awaitReturned(t, r.devices...)
		f.requireTurnedOver(t, r, 1)
	}
}

// requireTurnedOver asserts that each device was cleaned so many times since it was seen, and
// bound to no other.
func (f *fleet) requireTurnedOver(t *testing.T, a *killedAct, cleans int) {
	t.Helper()
	for n, d := range a.devices {
		v := f.status(t, d)
		require.Len(t, v.Cleans, len(a.before[n].Cleans)+cleans, "cleans of %s, killed %s", d.Name, a.at)
		require.Len(t, v.Bindings, len(a.before[n].Bindings), "bindings of %s, killed %s", d.Name, a.at)
	}
}

// The control worker is killed at many moments of `instance migrate`: in the end the instance has
// both sides, or the source alone; confirm then has the source cleaned.
func TestKillWhileInstancesMigrate(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	moves := f.killedActs(t, "migrate ", 2,
		moments([]moment{afterEvents(7), afterBurns(1)}, afterEvents(1), afterEvents(10))...)
	to := f.host(t)
	for _, m := range moves {
		f.act(t, "bind", m.instance, m.bindFlags()...)
		stampAll(t, 2, m.devices...)
		m.look(t, f)
		m.at = m.at.later(f.events(t, m.instance))
	}
	f.confirmAll(t, moves, f.migrateAll(t, moves, to))
}

// migrateAll migrates each instance, and gives the devices of the destination.
func (f *fleet) migrateAll(t *testing.T, moves []*killedAct, to *fleetHost) (destinations [][]Device) {
	t.Helper()
	var names []string
	for i := range moves {
		names = append(names, fmt.Sprintf("e%d", 2*i), fmt.Sprintf("e%d", 2*i+1))
	}
	destinations = slices.Collect(slices.Chunk(to.enroll(t, "", names...), 2))
	for i, m := range moves {
		there := destinations[i]
		m.results = f.killed(t, m.at, m.instance, there, false, "instance", "migrate", m.instance, "--to", to.Host,
			"--device", there[0].Name, "--device", there[1].Name)
	}
	return destinations
}

// confirmAll asserts that each instance has both sides, or its source alone, and ends each move.
func (f *fleet) confirmAll(t *testing.T, moves []*killedAct, destinations [][]Device) {
	t.Helper()
	moved := 0
	for i, m := range moves {
		there := destinations[i]
		result := (<-m.results)[0]
		require.Contains(t, []int{0, 1}, result.Code, result)
		f.requireHeld(t, m.instance, 2, m.devices...)
		f.requireTurnedOver(t, m, 0)
		if result.Code == 1 {
			require.Nil(t, f.instance(t, m.instance).Move)
			require.Len(t, f.shown(t, m.address), 2)
			f.awaitReturned(t, there...)
			continue
		}
		moved++
		stampAll(t, 3, there...)
		f.requireHeld(t, m.instance, 3, there...)
		require.NotNil(t, f.instance(t, m.instance).Move)
		f.act(t, "confirm", m.instance)
		f.awaitReturned(t, m.devices...)
		f.requireTurnedOver(t, m, 1)
		f.requireHeld(t, m.instance, 3, there...)
		want := map[string]string{}
		for n, d := range there {
			want[fmt.Sprintf("E%s", d.Name[1:])] = "tag of " + m.devices[n].Name
		}
		require.Equal(t, want, f.shown(t, m.address))
	}
	t.Logf("%d of %d migrate", moved, len(moves))
	require.NotZero(t, moved)
}
