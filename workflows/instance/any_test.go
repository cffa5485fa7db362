package instance

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"burnish/internal/device"
	"burnish/internal/tagging"
	"burnish/workflows/contract"
)

// Whatever instances ask for, and whatever fails meanwhile: every device is in the end held by
// exactly one instance, or is cleaned, or is clean and available; no tag is twice in an
// instance, and no instance shows a device that it does not have.
func TestAnyInterleavingLeavesEachDeviceInOnePlace(t *testing.T) {
	t.Parallel()
	first, granted := rand.Uint64(), map[string]int{}
	for n := range uint64(150) {
		seed := first + n
		ok := t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			s := newSim(t, seed)
			for range 800 {
				s.step(true)
			}
			s.settleAll()
			s.checkEnd()
			for verb, n := range s.granted {
				granted[verb] += n
			}
		})
		if !ok {
			return
		}
	}
	for _, verb := range []string{
		contract.VerbInstanceBind.Update(), contract.VerbInstanceAttach.Update(), contract.VerbInstanceDetach.Update(),
		contract.VerbInstanceRelease.Update(),
		contract.VerbInstanceRebuild.Update(), contract.VerbInstanceMigrate.Update(),
		contract.VerbInstanceLiveMigrate.Update(), contract.VerbInstanceConfirm.Update(),
		contract.VerbInstanceRevert.Update(), contract.VerbInstanceEvacuate.Update(),
	} {
		require.NotZero(t, granted[verb], "no %s was ever granted", verb)
	}
}

// Of two instances that ask for the same devices in opposite order one gets all of them, or
// both are refused; then nothing is held, and nothing is cleaned.
func TestAnyTwoInstancesInOppositeOrder(t *testing.T) {
	t.Parallel()
	first, both, none := rand.Uint64(), 0, 0
	for n := range uint64(300) {
		seed := first + n
		s := newSim(t, seed)
		names := []string{"h0_0", "h0_1", "h0_2"}
		a, b := s.instances[0], s.instances[1]
		for _, i := range []*simInstance{a, b} {
			i.enqueue(bindAct, contract.InstanceBindInput{Devices: choices(names...)}, names)
			slices.Reverse(names)
		}
		for a.busy() || b.busy() {
			s.step(false)
		}
		heldA, heldB := s.held(a.uuid), s.held(b.uuid)
		require.True(t, len(heldA) == 0 || len(heldB) == 0, "seed %d: both hold devices: %v and %v", seed, heldA, heldB)
		require.Contains(t, []int{0, 3}, len(heldA)+len(heldB), "seed %d", seed)
		require.Empty(t, s.cleaned(), "seed %d", seed)
		if len(heldA)+len(heldB) == 0 {
			none++
		} else {
			both++
		}
		s.settleAll()
		s.checkEnd()
	}
	require.NotZero(t, none, "no race was lost by both")
	require.NotZero(t, both, "no race was won")
}

func (i *simInstance) busy() bool { return i.act != nil || len(i.waiting) > 0 }

// enqueue sends an act to the instance.
func (i *simInstance) enqueue(a any, in any, named []string) {
	i.sim.acts++
	sent := simAct{id: fmt.Sprint("u", i.sim.acts), named: slices.Clone(named)}
	switch a := a.(type) {
	case *act[contract.InstanceBindInput]:
		sent.verb, sent.do = a.asked.Update(), carried(a, in.(contract.InstanceBindInput), sent.id)
	case *act[contract.InstanceDetachInput]:
		sent.verb, sent.do = a.asked.Update(), carried(a, in.(contract.InstanceDetachInput), sent.id)
	case *act[contract.InstanceMoveInput]:
		sent.verb, sent.do = a.asked.Update(), carried(a, in.(contract.InstanceMoveInput), sent.id)
	case *act[contract.ReasonInput]:
		sent.verb, sent.do = a.asked.Update(), carried(a, in.(contract.ReasonInput), sent.id)
	}
	i.waiting = append(i.waiting, sent)
}

func carried[In contract.Input](a *act[In], in In, id string) func(*instance) error {
	return func(i *instance) error {
		_, err := a.carryOut(i, in, id)
		return err
	}
}

// step lets one thing happen.
func (s *sim) step(more bool) {
	i := s.instances[s.rand.IntN(len(s.instances))]
	switch n := s.rand.IntN(20); {
	case more && n < 2 && len(i.waiting) < 3:
		i.anyAct()
	case more && n < 6:
		s.disturb()
	case len(i.signals) > 0 && n < 10:
		i.deliver()
	case i.act == nil && len(i.waiting) > 0:
		i.begin()
	case i.act != nil && n == 19:
		i.crash()
	case i.act != nil:
		i.answerCall()
	}
	s.check()
}

// anyAct sends an act that may or may not be legal.
func (i *simInstance) anyAct() {
	r := i.rand
	host := fmt.Sprint("h", r.IntN(4))
	switch n := r.IntN(14); n {
	case 0, 1, 2, 3, 4, 5:
		in := contract.InstanceBindInput{}
		var names []string
		for range 1 + r.IntN(3) {
			name := fmt.Sprintf("%s_%d", host, r.IntN(5))
			if slices.Contains(names, name) {
				continue
			}
			names = append(names, name)
			in.Devices = append(in.Devices, contract.DeviceChoice{Name: name, Tag: []string{"", "a", "b", "a b"}[r.IntN(4)]})
		}
		if r.IntN(3) == 0 {
			in.Devices, names = nil, nil
			in.Requests = []contract.DeviceRequest{{Type: []string{"NVME", "NIC"}[r.IntN(2)], Count: 1 + r.IntN(2)}}
		}
		a := attachAct
		if n < 4 {
			a = bindAct
			if r.IntN(2) == 0 {
				in.Addresses = []string{fmt.Sprint("10.0.0.", 1+r.IntN(4))}
			}
		}
		i.enqueue(a, in, names)
	case 6:
		i.enqueue(detachAct, contract.InstanceDetachInput{Devices: []string{fmt.Sprintf("%s_%d", host, r.IntN(5))}}, nil)
	case 7:
		i.enqueue(releaseAct, contract.ReasonInput{}, nil)
	case 8:
		i.enqueue(migrateAct, contract.InstanceMoveInput{To: host}, nil)
	case 9:
		i.enqueue(liveMigrateAct, contract.InstanceMoveInput{To: host}, nil)
	case 10:
		i.enqueue(confirmAct, contract.ReasonInput{}, nil)
	case 11:
		i.enqueue(revertAct, contract.ReasonInput{}, nil)
	case 12:
		i.enqueue(evacuateAct, contract.InstanceMoveInput{To: host}, nil)
	case 13:
		i.enqueue(rebuildAct, contract.ReasonInput{}, nil)
	}
}

// states are the present states of all instances that have a workflow.
func (s *sim) states() map[string]*contract.InstanceState {
	all := map[string]*contract.InstanceState{}
	for _, i := range s.instances {
		switch {
		case i.act != nil:
			all[i.uuid] = i.live.InstanceState
		case i.saved != nil:
			all[i.uuid] = i.state()
		}
	}
	return all
}

// check checks what must hold at every moment.
func (s *sim) check() {
	for _, i := range s.instances {
		if i.act == nil {
			continue // it was checked when its last act changed it
		}
		state := i.live.InstanceState
		tags := map[string]bool{}
		for _, d := range state.Devices {
			tag := tagging.TypeOf(d.Type) + "/" + d.Tag
			require.False(s, d.Tag != "" && tags[tag], "%s has the tag %s twice", i.uuid, tag)
			tags[tag] = true
		}
		if state.Phase == contract.InstanceReleasing || state.Phase == contract.InstanceReleased {
			continue // it shows no document
		}
		for _, d := range state.Devices {
			require.True(s, s.has(i, d), "%s shows %s, and does not have its binding %d", i.uuid, d.Name, d.Binding)
		}
	}
}

// has says that the instance has the binding, or is about to learn that it ended.
func (s *sim) has(i *simInstance, d contract.HeldDevice) bool {
	b := s.find(d.Name).Binding
	return b != nil && b.Instance == i.uuid && b.Number == d.Binding && s.owners[d.Name] == i.uuid ||
		slices.Contains(i.signals, contract.DeviceLeft{Device: d.Name, Binding: d.Binding})
}

// settleAll lets everything that was sent end.
func (s *sim) settleAll() {
	for n := 0; slices.ContainsFunc(s.instances, func(i *simInstance) bool {
		return i.busy() || len(i.signals) > 0
	}); n++ {
		require.Less(s, n, 200_000, "it does not end")
		s.step(false)
	}
	s.clock = s.clock.Add(claimFor + time.Second)
	for _, d := range s.devices {
		d.expire(s.clock)
	}
}

// checkEnd checks that every device is in exactly one place.
func (s *sim) checkEnd() {
	holders := map[string]string{}
	addresses := map[string]string{}
	for uuid, state := range s.states() {
		all := slices.Clone(state.Devices)
		if state.Move != nil {
			all = append(all, state.Move.Source...)
		}
		require.NotEmpty(s, all, "%s has no devices, and goes on", uuid)
		for _, d := range all {
			require.Empty(s, holders[d.Name], "%s is in two places", d.Name)
			holders[d.Name] = uuid
			b := s.find(d.Name).Binding
			require.True(s, b != nil && b.Instance == uuid && b.Number == d.Binding, "%s holds %s, which is not bound to it",
				uuid, d.Name)
		}
		for _, a := range state.Addresses {
			require.Empty(s, addresses[a], "%s is two instances' address", a)
			addresses[a] = uuid
		}
	}
	require.Equal(s, addresses, s.addresses, "addresses are held by those that have them")
	for _, d := range s.devices {
		name := d.info.Name
		require.Nil(s, d.Claim, "%s is still claimed", name)
		require.Equal(s, holders[name], s.owners[name], "who has %s", name)
		switch d.State {
		case device.Allocated:
			require.Equal(s, d.Binding.Instance, holders[name], "%s is bound, and no instance shows it", name)
		case device.PendingCleaning, device.Cleaning:
			require.Nil(s, d.Binding)
		case device.Available:
			require.False(s, d.Dirty || s.dirty[name], "%s is offered dirty", name)
		default:
			require.True(s, s.injected[name], "%s is %s", name, d.State)
		}
	}
}
