package explorer

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"

	"burnish/internal/device"
	"burnish/internal/lifecycle"
	"burnish/workflows/contract"
)

// Simulation is a device that lives on: turnover after turnover, with faults at random.
type Simulation struct {
	Nova      bool
	Seed      uint64
	Turnovers int
}

// calm is how many moves come before a fault may, on the average.
const calm = 12

// Run lets the device live until it was bound so often. It says how many moves that took, and the last of the
// story if a
// promise was broken: the seed tells it again.
func (s Simulation) Run() (moves int, found *Found) {
	random := rand.New(rand.NewPCG(s.Seed, 1))
	e := newExplorer(s.Nova)
	w := e.begin(Bounds{})
	var story []string
	for bound := 0; bound < s.Turnovers; {
		e.refill(w, random)
		names := e.turn(w, random)
		moves++
		if story = append(story, names); len(story) > 60 {
			story = story[1:]
		}
		if e.broke != "" {
			return moves, &Found{Broken: e.broke, Story: append(story, e.describe(w), "the last refusal: "+e.refusal)}
		}
		if d := w.d; d != nil && d.Device.State == device.Allocated && w.counted != d.Device.Bindings {
			w.counted = d.Device.Bindings
			bound++
		}
		if w.idle++; w.idle > 3000 {
			return moves, &Found{Broken: "it waits in silence", Story: append(story, e.describe(w))}
		}
		if d := w.d; d != nil && (d.Device.State == device.Available || d.Device.State == device.Allocated) {
			w.idle = 0
		}
		e.renew(w)
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
	t, before := turn{e, w}, e.key(w)
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

// refill gives what one move may take of the bounds.
func (e *explorer) refill(w *world, random *rand.Rand) {
	w.binds, w.acts, w.recreations = 1, 0, 1
	if random.IntN(6) == 0 {
		w.acts = 1
	}
	if w.faults = 0; random.IntN(calm) == 0 {
		w.faults = 1
	}
}

// turn makes one move that is possible, chosen at random.
func (e *explorer) turn(w *world, random *rand.Rand) string {
	next := new(world)
	t := turn{e, next}
	for range 4000 {
		m := e.moves[random.IntN(len(e.moves))]
		if m.loses && w.faults == 0 {
			continue
		}
		*next = *w
		e.broke = ""
		if !m.do(t) {
			continue
		}
		if e.broke == "" {
			t.check()
		}
		*w = *next
		return m.name
	}
	w.now = w.now.Add(1) // nothing can happen but time
	return "nothing"
}

// renew gives a device back to the world that left it for good: its operator enrolls the next one in its slot.
func (e *explorer) renew(w *world) {
	if w.d == nil || w.d.Device.State != device.Retired || len(w.d.Jobs) > 0 {
		return
	}
	fresh := e.begin(Bounds{})
	fresh.idle, fresh.counted = w.idle, 0
	*w = *fresh
}

func (s Simulation) String() string {
	return fmt.Sprintf("nova %t, seed %d, %d turnovers", s.Nova, s.Seed, s.Turnovers)
}
