package explorer

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"

	"burnish/internal/device"
	"burnish/internal/lifecycle"
	"burnish/workflows/contract"
)

// Simulation is a device that lives on: turnover after turnover, with faults at random.
type Simulation struct {
	Kind      Kind
	Seed      uint64
	Turnovers int
}

// calm is how many moves come before a fault may, on the average.
const calm = 12

// kept is how many moves of a story are kept.
const kept = 60

// Run lets the device live until it was bound so often. It says how many moves that took, and the last of the story if
// a promise was broken, which its seed tells again.
func (s Simulation) Run() (moves int, found *Found) {
	if moves, found = s.run(math.MaxInt); found != nil {
		moves, found = s.run(moves - kept)
	}
	return moves, found
}

// run describes the world after each move from one on.
func (s Simulation) run(from int) (moves int, found *Found) {
	random := rand.New(rand.NewPCG(s.Seed, 1))
	e := newExplorer(s.Kind)
	w, next := e.begin(Bounds{}, 0), new(world)
	var story []string
	idle, counted := 0, 0 // moves since it was available or allocated; its last binding that was counted
	for bound := 0; bound < s.Turnovers; moves++ {
		w.binds, w.acts, w.faults, w.others = 1, 0, 0, uint8(random.IntN(2))
		if random.IntN(6) == 0 {
			w.acts = 1
		}
		if random.IntN(calm) == 0 {
			w.faults = 1
		}
		was := turn{w: w}.state()
		name, broken := e.turn(w, next, random)
		if moves >= from {
			name += "\n    " + e.describe(w)
		}
		if story = append(story, name); len(story) > kept {
			story = story[1:]
		}
		d := w.d
		if idle++; idle > 3000 {
			broken = "it waits in silence"
		}
		switch {
		case broken != "":
			return moves, &Found{Broken: broken, Story: append(story, e.describe(w), "the last refusal: "+e.refusal)}
		case d == nil:
		case d.Device.State == device.Retired && len(d.Jobs) == 0: // its operator enrolls the next one in its slot
			w, counted = e.begin(Bounds{}, 0), 0
		case d.Device.State == device.Allocated && counted != d.Device.Bindings:
			counted, idle = d.Device.Bindings, 0
			bound++
		case d.Device.State == device.Available || d.Device.State == device.Allocated:
			if idle = 0; was == device.Cleaning && !d.Device.InMaintenance() { // its return wrote the record anew
				w.forgot, w.forgets, w.hasSaved = false, false, false
			}
		}
		if moves%lookAhead == 0 && !e.looksAhead(w) {
			return moves, &Found{Broken: "a dry run, or a refusal, has changed the device", Story: append(story, e.describe(w))}
		}
	}
	return moves, nil
}

// lookAhead is how many moves come between two looks at what everybody could ask for.
const lookAhead = 3000

// asks are what everybody could ask for.
var asks = []struct {
	verb contract.Verb
	in   contract.Input
}{
	{contract.VerbBind, contract.BindInput{Instance: "third", Request: "third1"}},
	{contract.VerbUnbind, contract.UnbindInput{Instance: first.String()}},
	{contract.VerbRebuild, contract.UnbindInput{Instance: "third"}},
	{contract.VerbProvide, contract.ReasonInput{}}, {contract.VerbAbort, contract.ReasonInput{}},
	{contract.VerbClean, contract.CleanInput{}}, {contract.VerbClean, contract.CleanInput{Steps: []string{verify}}},
	{contract.VerbManage, contract.TenantInput{}}, {contract.VerbForget, contract.TenantInput{}},
	{contract.VerbMaintain, contract.MaintenanceInput{}}, {contract.VerbMaintain, contract.MaintenanceInput{Off: true}},
	{contract.VerbRetire, contract.RetireInput{}}, {contract.VerbRetire, contract.RetireInput{Lost: true}},
	{contract.VerbRetire, contract.RetireInput{Instance: second.String()}},
	{contract.VerbReplace, contract.ReplaceInput{}},
	{contract.VerbMove, contract.MoveInput{Enrollment: contract.Enrollment{Name: "d2"}}},
}

// looksAhead asks what each request would do, and for the words of its refusal, wherever the device is. It says whether
// the device is as before.
func (e *explorer) looksAhead(w *world) bool {
	if w.d == nil {
		return true
	}
	t, before := turn{explorer: e, w: w}, e.key(w)
	for _, ask := range asks {
		text, err := json.Marshal(ask.in)
		if err != nil {
			return false
		}
		would := w.d.DryRun(contract.DryRunInput{Update: ask.verb.Update(), Input: text}, w.now, settings{t})
		refused := w.d.Arrives(lifecycle.Asked{ID: "ahead", Verb: ask.verb, In: ask.in}, settings{t})
		if r, _ := contract.RefusalOf(refused); refused != nil && (would.Refusal == nil || r.Fault.Remedy == "") {
			return false // a refusal is the dry run's too, and has a remedy
		}
	}
	return e.key(w) == before
}

// turn makes one move that is possible, chosen at random.
func (e *explorer) turn(w, next *world, random *rand.Rand) (name, broken string) {
	cannot := make([]bool, len(e.moves))
	for range 4000 {
		i := random.IntN(len(e.moves))
		if cannot[i] || cannot[e.variant[i]] || e.moves[i].loses && w.faults == 0 {
			continue
		}
		*next = *w
		made, broken := e.make(next, i)
		if made {
			*w = *next
			return e.moves[i].name, broken
		}
		cannot[i] = true
	}
	w.now = w.now.Add(1) // nothing can happen but time
	return "nothing", ""
}

func (s Simulation) String() string {
	return fmt.Sprintf("%s, seed %d, %d turnovers", s.Kind, s.Seed, s.Turnovers)
}
