package instance

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"burnish/internal/device"
	"burnish/workflows/contract"
)

// sim is a cloud of instances whose acts are interleaved at random, down to each device of a
// call. An instance is carried out as Temporal does it: what its acts ask is recorded with the
// answer, and after a crash the act begins again from its recorded answers.
type sim struct {
	*testing.T
	*fleet
	rand      *rand.Rand
	clock     time.Time
	instances []*simInstance
	acts      int
	// granted counts the acts that did something, by their verbs.
	granted map[string]int
	// injected are devices that failed by themselves.
	injected map[string]bool
	// owners and dirty are a record of their own: who has a device, and whether it must be
	// cleaned before the next one has it.
	owners map[string]string
	dirty  map[string]bool
}

// simInstance is one instance: the state after its last act, and the act under way.
type simInstance struct {
	*sim
	uuid    string
	saved   []byte // nil: it has no workflow
	waiting []simAct
	signals []contract.DeviceLeft

	act    *simAct
	runs   int
	log    []simReply
	live   *instance
	world  *simWorld
	call   *simCall
	asking []string // the devices that the call has not asked yet
	// unanswered: a call of the act ended without an answer.
	unanswered bool
}

// simAct is an update; do carries it out.
type simAct struct {
	id, verb string
	named    []string
	do       func(*instance) error
}

// simCall is what an act waits for, simReply the answer, or a device that left meanwhile.
type simCall struct {
	what      string
	pick      contract.PickInput
	devices   contract.DevicesCall
	addresses contract.AddressesCall
}

type simReply struct {
	left    *contract.DeviceLeft
	pick    contract.PickAnswer
	devices contract.DevicesAnswer
	now     time.Time
	err     error
}

// simWorld is the world of one attempt at an act, which has a goroutine of its own; only one
// of them all runs at a time.
type simWorld struct {
	of     *simInstance
	calls  int
	asks   chan simCall
	answer chan simReply
	done   chan error
	dead   chan struct{}
}

func (w *simWorld) do(c simCall) simReply {
	select {
	case w.asks <- c:
	case <-w.dead:
		runtime.Goexit()
	}
	select {
	case r := <-w.answer:
		return r
	case <-w.dead:
		runtime.Goexit()
	}
	return simReply{}
}

func (w *simWorld) Now() time.Time        { return w.do(simCall{what: "now"}).now }
func (w *simWorld) Pause(_ time.Duration) { w.do(simCall{what: "pause"}) }
func (w *simWorld) Changed()              {}

func (w *simWorld) CallID() string {
	w.calls++
	return fmt.Sprintf("%s/%d/%d", w.of.uuid, w.of.runs, w.calls)
}

func (w *simWorld) Pick(in contract.PickInput) (contract.PickAnswer, error) {
	r := w.do(simCall{what: contract.ActivityPickDevices, pick: in})
	return r.pick, r.err
}

func (w *simWorld) Ask(activity string, call contract.DevicesCall) (contract.DevicesAnswer, error) {
	r := w.do(simCall{what: activity, devices: call})
	return r.devices, r.err
}

func (w *simWorld) FindBound(instance string) ([]contract.HeldDevice, error) {
	r := w.do(simCall{what: contract.ActivityFindBound, pick: contract.PickInput{Instance: instance}})
	return r.pick.Known, r.err
}

func (w *simWorld) Addresses(activity string, call contract.AddressesCall) error {
	return w.do(simCall{what: activity, addresses: call}).err
}

// newSim makes a cloud of 20 devices on four hosts and 10 instances.
func newSim(t *testing.T, seed uint64) *sim {
	s := &sim{T: t, fleet: newFleet(), rand: rand.New(rand.NewPCG(seed, 1)),
		clock:   time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC),
		granted: map[string]int{}, injected: map[string]bool{}, owners: map[string]string{}, dirty: map[string]bool{}}
	s.fleet.now = func() time.Time { return s.clock }
	for h := range 4 {
		host := fmt.Sprint("h", h)
		for n := range 5 {
			kind := "NVME"
			if n > 2 {
				kind = "NIC"
			}
			s.add(host, kind, fmt.Sprintf("%s_%d", host, n))
		}
	}
	for _, d := range s.devices {
		d.info.LiveMigratable = s.rand.IntN(2) == 0
	}
	for n := range 10 {
		s.instances = append(s.instances, &simInstance{sim: s, uuid: fmt.Sprintf("%08d-0000-0000-0000-000000000000", n)})
	}
	return s
}

// begin begins the next act that waits.
func (i *simInstance) begin() {
	act := i.waiting[0]
	i.waiting, i.act, i.log, i.unanswered = i.waiting[1:], &act, nil, false
	i.runs++
	i.spawn()
}

// state is what was saved, as a new run reads it.
func (i *simInstance) state() *contract.InstanceState {
	state := &contract.InstanceState{UUID: i.uuid, Phase: contract.InstanceBinding}
	if i.saved != nil {
		require.NoError(i, json.Unmarshal(i.saved, state))
	}
	return state
}

// spawn begins the act from what was saved, and gives it the answers that were recorded.
func (i *simInstance) spawn() {
	w := &simWorld{of: i, asks: make(chan simCall), answer: make(chan simReply), done: make(chan error, 1),
		dead: make(chan struct{})}
	i.world, i.live = w, &instance{InstanceState: i.state()}
	i.live.world = w
	live, act := i.live, *i.act
	go func() { w.done <- act.do(live) }()
	recorded := i.log
	for {
		if !i.proceed() {
			require.Empty(i, recorded, "the act ended before its recorded answers")
			return
		}
		for len(recorded) > 0 && recorded[0].left != nil {
			i.live.deviceLeft(*recorded[0].left)
			recorded = recorded[1:]
		}
		if len(recorded) == 0 {
			return
		}
		w.answer <- recorded[0]
		recorded = recorded[1:]
	}
}

// proceed lets the act run until it asks, or is done.
func (i *simInstance) proceed() bool {
	select {
	case c := <-i.world.asks:
		i.call, i.asking = &c, nil
		for _, d := range c.devices.Devices {
			i.asking = append(i.asking, d.Name)
		}
		return true
	case err := <-i.world.done:
		i.finish(err)
		return false
	}
}

// reply answers the call, and records the answer.
func (i *simInstance) reply(r simReply) {
	i.log = append(i.log, r)
	i.world.answer <- r
	i.proceed()
}

// crash kills the attempt at the act, and begins the next one.
func (i *simInstance) crash() {
	before, asking := *i.call, i.asking
	close(i.world.dead)
	i.spawn()
	require.NotNil(i, i.act, "the act is repeated")
	require.Equal(i, before, *i.call, "the repeated act asks the same")
	i.asking = asking
}

// deliver gives a signal to the instance.
func (i *simInstance) deliver() {
	left := i.signals[0]
	i.signals = i.signals[1:]
	switch {
	case i.act != nil:
		i.log = append(i.log, simReply{left: &left})
		i.live.deviceLeft(left)
	case i.saved != nil:
		idle := &instance{InstanceState: i.state()}
		idle.deviceLeft(left)
		i.save(idle.InstanceState)
		i.endIfEmpty(idle)
	}
}

// endIfEmpty ends an instance that has no devices, as the run does between two acts.
func (i *simInstance) endIfEmpty(now *instance) {
	if now.empty() && now.Phase != contract.InstanceReleased {
		i.waiting = append([]simAct{{verb: "end", do: func(i *instance) error { i.end(); return nil }}}, i.waiting...)
	}
}

func (i *simInstance) save(state *contract.InstanceState) {
	text, err := json.Marshal(state)
	require.NoError(i, err)
	i.saved = text
	if state.Phase == contract.InstanceReleased {
		i.saved = nil
	}
}

// finish checks that the act did all or nothing.
func (i *simInstance) finish(err error) {
	act := i.act
	i.save(i.live.InstanceState)
	i.endIfEmpty(i.live)
	i.act, i.call = nil, nil
	if err == nil {
		i.granted[act.verb]++
	}
	for _, d := range i.devices {
		if c := d.Claim; c != nil && !i.unanswered && c.Deadline.After(i.clock) {
			require.NotEqual(i, i.uuid, c.Instance, "%s %s has ended (%v), and %s is still claimed for it", act.verb, act.id,
				err, d.info.Name)
		}
		if b := d.Binding; err != nil && b != nil && b.Instance == i.uuid {
			require.NotEqual(i, act.id, b.Request, "%s %s was refused (%v), and %s is bound by it", act.verb, act.id,
				err, d.info.Name)
		}
	}
	for _, name := range act.named {
		b := i.find(name).Binding
		require.True(i, err != nil || i.live.index(name) >= 0 || b == nil || b.Instance != i.uuid,
			"%s %s of %s was granted, and %s is bound and not shown", act.verb, act.id, i.uuid, name)
	}
}

// answerCall carries out a part of the call that the act waits for.
func (i *simInstance) answerCall() {
	c := *i.call
	switch c.what {
	case "now":
		i.reply(simReply{now: i.clock})
		return
	case "pause":
		i.reply(simReply{})
		return
	}
	if len(i.asking) > 0 {
		n := i.rand.IntN(len(i.asking))
		name := i.asking[n]
		i.asking = slices.Delete(i.asking, n, n+1)
		i.askDevice(c, name)
		return
	}
	if len(c.devices.Devices) > 0 && i.rand.IntN(30) == 0 { // the answer is lost: the call is made again
		for _, d := range c.devices.Devices {
			i.asking = append(i.asking, d.Name)
		}
		return
	}
	if i.rand.IntN(60) == 0 {
		i.unanswered = true
		i.reply(simReply{err: errors.New("no answer")})
		return
	}
	var r simReply
	switch {
	case c.what == contract.ActivityPickDevices:
		r.pick, r.err = i.pick(c.pick)
	case c.what == contract.ActivityFindBound:
		r.pick.Known = i.bound(c.pick.Instance)
	case len(c.addresses.Addresses) > 0:
		r.err = i.address(c.what, c.addresses)
	default:
		r.devices, r.err = i.ask(c.what, c.devices)
	}
	i.reply(r)
}

// askDevice asks one device of a call, and keeps the own record of owners.
func (i *simInstance) askDevice(c simCall, name string) {
	n := slices.IndexFunc(c.devices.Devices, func(d contract.DeviceCall) bool { return d.Name == name })
	was := i.find(name).Device
	i.update(c.what, c.devices, c.devices.Devices[n])
	i.observe(name, was)
}

// observe keeps the own record after a change of a device, and signals its end to an instance
// that did not ask for it.
func (s *sim) observe(name string, was device.Device) {
	d := s.find(name)
	began := d.Bindings > was.Bindings
	if was.Binding != nil && (d.Binding == nil || began) {
		s.owners[name] = ""
	}
	if began {
		require.Empty(s, s.owners[name], "%s has two owners", name)
		require.False(s, s.dirty[name], "%s was not cleaned for its next instance", name)
		s.owners[name], s.dirty[name] = d.Binding.Instance, true
	}
	if d.Dirty {
		s.dirty[name] = true
	}
}

// disturb lets something happen to a device or to the clock.
func (s *sim) disturb() {
	d := s.devices[s.rand.IntN(len(s.devices))]
	was := d.Device
	try := func(kinds ...device.EventKind) {
		for _, kind := range kinds {
			if err := d.apply(device.Event{Kind: kind, Automated: true}); err != nil {
				var illegal *device.IllegalError
				require.ErrorAs(s, err, &illegal)
			}
		}
	}
	switch n := s.rand.IntN(40); {
	case n == 0:
		d.failBurns = true
	case n == 1 && len(s.injected) < 4: // the hardware is gone
		s.injected[d.info.Name] = true
		try(device.Lost)
	case n == 2 && d.State == device.Available: // its host does not find it
		s.injected[d.info.Name] = true
		try(device.LookFailed)
	case n == 3:
		d.burnsAllTheSame = true
	case n < 8:
		s.clock = s.clock.Add(time.Duration(s.rand.IntN(40)) * time.Second)
	case n < 20:
		d.expire(s.clock)
	default:
		try(device.Clean, device.CleanStarted, device.CleanDone, device.Seen, device.Returned)
		if d.State == device.Available && was.State != device.Available {
			require.Empty(s, s.owners[d.info.Name], "%s is cleaned while an instance has it", d.info.Name)
			s.dirty[d.info.Name] = false
		}
	}
	s.observe(d.info.Name, was)
	if b := was.Binding; b != nil && d.Binding == nil {
		for _, i := range s.instances {
			if i.uuid == b.Instance {
				i.signals = append(i.signals, contract.DeviceLeft{Device: d.info.Name, Binding: b.Number})
			}
		}
	}
}
