package instance

import (
	"fmt"
	"os"
	"runtime"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"burnish/internal/device"
	"burnish/internal/testkit/explorer"
	"burnish/workflows/contract"
)

// script is the world of an act that is carried out from its beginning each time, with one recorded answer more: as
// Temporal replays it.
type script struct {
	live     *instance
	recorded []explorer.Reply
	id       string
	calls    int
	at       explorer.Progress
}

var _ world = &script{}

// next gives the recorded answer to a call. If there is none, this is how far the act is.
func (s *script) next(c explorer.Call) explorer.Reply {
	for len(s.recorded) > 0 {
		r := s.recorded[0]
		s.recorded = s.recorded[1:]
		if r.Left == nil {
			return r
		}
		s.live.deviceLeft(*r.Left)
	}
	s.at = explorer.Progress{State: copyOf(s.live.InstanceState), Call: &c}
	runtime.Goexit()
	return explorer.Reply{}
}

func (s *script) Now() time.Time        { return s.next(explorer.Call{Activity: explorer.CallNow}).Now }
func (s *script) Pause(_ time.Duration) {}
func (s *script) Changed()              {}

func (s *script) CallID() string {
	s.calls++
	return fmt.Sprint(s.id, "/", s.calls)
}

func (s *script) Pick(in contract.PickInput) (contract.PickAnswer, error) {
	r := s.next(explorer.Call{Activity: contract.ActivityPickDevices, Pick: in})
	return r.Pick, r.Err
}

func (s *script) Ask(activity string, call contract.DevicesCall) (contract.DevicesAnswer, error) {
	r := s.next(explorer.Call{Activity: activity, Devices: call})
	return r.Devices, r.Err
}

func (s *script) FindBound(string) ([]contract.HeldDevice, error) {
	return s.next(explorer.Call{Activity: contract.ActivityFindBound}).Pick.Known, nil
}

func (s *script) Addresses(string, contract.AddressesCall) error { return nil }

func copyOf(s *contract.InstanceState) *contract.InstanceState {
	out := *s
	out.Devices, out.Unsettled = slices.Clone(s.Devices), slices.Clone(s.Unsettled)
	if s.Move != nil {
		move := *s.Move
		move.Source, out.Move = slices.Clone(move.Source), &move
	}
	return &out
}

// carry is the instance's code for the explorer.
func carry(before *contract.InstanceState, act explorer.Act, recorded []explorer.Reply) explorer.Progress {
	s := &script{live: &instance{InstanceState: copyOf(before)}, recorded: recorded, id: act.ID}
	s.live.world = s
	if act.In == nil {
		for _, r := range recorded {
			s.live.deviceLeft(*r.Left)
		}
		s.live.endAct()
		return explorer.Progress{State: s.live.InstanceState}
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		err := explored[act.Verb.Name](act)(s.live)
		s.at = explorer.Progress{State: s.live.InstanceState, Err: err}
	}()
	<-ended
	return s.at
}

var explored = map[string]func(explorer.Act) func(*instance) error{
	contract.VerbInstanceBind.Name: func(a explorer.Act) func(*instance) error {
		return carried(bindAct, a.In.(contract.InstanceBindInput), a.ID)
	},
	contract.VerbInstanceAttach.Name: func(a explorer.Act) func(*instance) error {
		return carried(attachAct, a.In.(contract.InstanceBindInput), a.ID)
	},
	contract.VerbInstanceDetach.Name: func(a explorer.Act) func(*instance) error {
		return carried(detachAct, a.In.(contract.InstanceDetachInput), a.ID)
	},
	contract.VerbInstanceRelease.Name: func(a explorer.Act) func(*instance) error {
		return carried(releaseAct, a.In.(contract.ReasonInput), a.ID)
	},
	contract.VerbInstanceMigrate.Name: func(a explorer.Act) func(*instance) error {
		return carried(migrateAct, a.In.(contract.InstanceMoveInput), a.ID)
	},
	contract.VerbInstanceConfirm.Name: func(a explorer.Act) func(*instance) error {
		return carried(confirmAct, a.In.(contract.ReasonInput), a.ID)
	},
	contract.VerbInstanceRevert.Name: func(a explorer.Act) func(*instance) error {
		return carried(revertAct, a.In.(contract.ReasonInput), a.ID)
	},
	contract.VerbInstanceEvacuate.Name: func(a explorer.Act) func(*instance) error {
		return carried(evacuateAct, a.In.(contract.InstanceMoveInput), a.ID)
	},
}

// Whatever happens to an instance of two devices, and whatever is lost meanwhile: what is refused has no effect, what
// is granted is all of it, and in the end the instance has what its devices say, or an operator is told.
//
// F38, F41, F42
func TestExploreInstance(t *testing.T) {
	release := explorer.Act{Name: "releases it", Verb: contract.VerbInstanceRelease, In: contract.ReasonInput{}}
	bind := func(names ...string) explorer.Act {
		return explorer.Act{Name: fmt.Sprint("binds ", names), Verb: contract.VerbInstanceBind,
			In: contract.InstanceBindInput{Devices: choices(names...)}}
	}
	to := contract.InstanceMoveInput{To: "h2", Devices: choices("d2")}
	for name, c := range map[string]struct {
		apart  bool
		acts   []explorer.Act
		within explorer.Bounds
	}{
		"bind and release": {acts: []explorer.Act{bind("d1", "d2"), release}, within: explorer.Bounds{Acts: 2, Binds: 1}},
		"a fault, bind":    {acts: []explorer.Act{bind("d1", "d2")}, within: explorer.Bounds{Acts: 1, Faults: 1}},
		"a fault, bind and release": {
			acts: []explorer.Act{bind("d1", "d2"), release}, within: explorer.Bounds{Acts: 2, Faults: 1},
		},
		"attach and detach": {
			acts: []explorer.Act{bind("d1"),
				{Name: "attaches d2", Verb: contract.VerbInstanceAttach,
					In: contract.InstanceBindInput{Devices: choices("d2")}},
				{Name: "detaches d1", Verb: contract.VerbInstanceDetach,
					In: contract.InstanceDetachInput{Devices: []string{"d1"}}}},
			within: explorer.Bounds{Acts: 3, Faults: 1},
		},
		"migrate": {
			apart: true,
			acts: []explorer.Act{bind("d1"), {Name: "migrates", Verb: contract.VerbInstanceMigrate, In: to},
				{Name: "confirms", Verb: contract.VerbInstanceConfirm, In: contract.ReasonInput{}},
				{Name: "reverts", Verb: contract.VerbInstanceRevert, In: contract.ReasonInput{}}},
			within: explorer.Bounds{Acts: 3, Faults: 1},
		},
		"evacuate": {
			apart: true, within: explorer.Bounds{Acts: 3, Faults: 1},
			acts: []explorer.Act{bind("d1"), {Name: "evacuates", Verb: contract.VerbInstanceEvacuate, In: to}, release},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c.within.Worlds = 30_000
			if text := os.Getenv("BURNISH_EXPLORE_STATES"); text != "" {
				n, err := strconv.Atoi(text)
				require.NoError(t, err)
				c.within.Worlds = n
			}
			bounds := c.within
			c.within.Progress = func(worlds, frontier, moves int) {
				t.Logf("%d worlds in %d moves, %d of them to be looked at", worlds, moves, frontier)
			}
			r := explorer.Cloud{Instance: carry, Apart: c.apart, Acts: c.acts}.Explore(c.within)
			t.Logf("%+v: %d worlds, complete: %v", bounds, r.Worlds, r.Complete)
			if r.Found != nil {
				t.Fatal(r.Found)
			}
		})
	}
}

// A bind that is refused does not end what was bound to its instance before, by a run that was terminated: it has it.
//
// F38
func TestRefusedBindKeepsWhatWasBoundBefore(t *testing.T) {
	bound := contract.DeviceOutcome{Device: contract.HeldDevice{Name: "d1", Binding: 3}, Already: true}
	refused := contract.DeviceOutcome{Fault: &device.Fault{Class: device.Permanent, Code: device.CodeConflict}}
	ended := carry(&contract.InstanceState{UUID: guest, Phase: contract.InstanceBinding},
		explorer.Act{ID: "u1", Verb: contract.VerbInstanceBind,
			In: contract.InstanceBindInput{Devices: choices("d1", "d2")}},
		[]explorer.Reply{
			{Pick: contract.PickAnswer{Devices: choices("d1", "d2"), Known: []contract.HeldDevice{{}, {}}}},
			{Now: time.Unix(1, 0)},
			{Devices: contract.DevicesAnswer{Outcomes: []contract.DeviceOutcome{bound, refused}}},
			{Devices: contract.DevicesAnswer{Outcomes: []contract.DeviceOutcome{{}}}}, // its claim is given back
		})
	require.Error(t, ended.Err)
	require.Equal(t, contract.InstanceActive, ended.State.Phase)
	require.Equal(t, []contract.HeldDevice{{Name: "d1", Binding: 3, Request: "u1"}}, ended.State.Devices)
}
