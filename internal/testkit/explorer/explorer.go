package explorer

import (
	"fmt"
	"hash/maphash"
	"log/slog"
	"slices"
	"strings"
	"time"

	"burnish/internal/clean"
	"burnish/internal/device"
	"burnish/internal/lifecycle"
	"burnish/workflows/contract"
)

// Bounds limit what happens in one story.
type Bounds struct {
	Faults, Binds, Acts uint8
	// KeepDatabase: the database is never put back.
	KeepDatabase bool
	// Worlds is how many worlds are visited at most.
	Worlds int
}

// without takes fixes out of the environment, to see that the explorer finds what they mend. Those of the lifecycle are
// taken out of its source (internal/testkit/mutation).
type without struct {
	witness    bool // F24: who has a device is known to the workflow alone
	sameWork   bool // F26: a recorded "done" counts by its number
	inspection bool // F26: a recorded "done" counts for whatever hardware is there now
	oneHold    bool // F37: a verify's recorded "done" counts
	holdRecord bool // F43: neither record nor listing says that an operator holds a device
	lease      bool // F32: a frozen attempt does not ask the server before it writes
	sweeps     bool // no fix: an inventory in files is not reconciled
}

// explorer visits every world that can be reached, in the order of their distance.
type explorer struct {
	nova    bool
	without without
	moves   []move
	seed    maphash.Seed

	seen    map[uint64]struct{}
	parents []parent

	keepDatabase bool

	broke string // what is broken in the present turn
}

type parent struct {
	from int32
	move uint16
}

// broken notes a promise that does not hold.
func (e *explorer) broken(what string) {
	if e.broke == "" {
		e.broke = what
	}
}

// Found is a story that ends in a broken promise.
type Found struct {
	Broken string
	Story  []string
}

func (f *Found) String() string { return f.Broken + ":\n" + strings.Join(f.Story, "\n") }

// Result says how much was explored.
type Result struct {
	Worlds int
	// Complete: every world within the other bounds was visited.
	Complete bool
	Found    *Found
}

func newExplorer(nova bool) *explorer {
	e := &explorer{nova: nova, seed: maphash.MakeSeed(), seen: map[uint64]struct{}{}}
	for of := range jobs {
		e.moves = append(e.moves, slices.Concat(inventoryMoves(of), lookMoves(of))...)
	}
	e.moves = slices.Concat(e.moves, timeMoves, hostMoves, worldMoves)
	for _, m := range e.moves {
		e.moves = append(e.moves, lost(m))
	}
	return e
}

var epoch = time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)

// begin is a device that is clean, available and offered.
func (e *explorer) begin(b Bounds) *world {
	w := &world{now: epoch, environment: environment{faults: b.Faults, binds: b.Binds, acts: b.Acts, recreations: 1}}
	w.inv = stock{exists: true, generation: 3, recorded: true}
	d := lifecycle.New("d1", epoch)
	d.Enrollment, d.Enrolled, d.UUID = e.enrollment(), true, contract.DeviceUUID("d1")
	d.Host, d.SeenAt = e.discovery(w), epoch
	d.Device = device.Device{State: device.Available, Status: device.Enabled, Owner: device.OwnerSelf, OneTimeUse: true,
		Cleanable: true, Unit: device.Unit{Number: 1, Serial: "S1"}}
	if e.nova {
		d.Device.Owner, w.inv.provider, w.inv.recorded, d.Provider = device.OwnerNova, 1, false, "1"
	}
	w.bytes[other] = stranger
	d.Generation, d.Cleans, d.Seq, d.Host.Record = 3, 1, 2, nil
	w.host.record.seq, w.host.record.cleans = 2, 1
	w.host.journal = journal{workDone{seq: 2, clean: "r0/1", generation: 2, provider: w.inv.provider, step: verify},
		true, true}
	w.d = d
	return w
}

// explore visits the worlds within the bounds, until a promise is broken.
func (e *explorer) explore(b Bounds) Result {
	start := e.begin(b)
	e.keepDatabase = b.KeepDatabase
	type node struct {
		w     *world
		index int32
	}
	frontier := []node{{start, 0}}
	e.parents = append(e.parents, parent{-1, 0})
	e.seen[e.key(start)] = struct{}{}
	for len(frontier) > 0 {
		var next []node
		for at, n := range frontier {
			frontier[at].w = nil
			for i := range e.moves {
				w := *n.w
				e.broke = ""
				t := turn{e, &w}
				if !e.moves[i].do(t) {
					continue
				}
				if e.broke == "" {
					t.check()
				}
				if e.broke != "" {
					return Result{Worlds: len(e.parents), Found: e.story(start, n.index, i)}
				}
				key := e.key(&w)
				if _, ok := e.seen[key]; ok {
					continue
				}
				e.seen[key] = struct{}{}
				e.parents = append(e.parents, parent{n.index, uint16(i)})
				next = append(next, node{&w, int32(len(e.parents) - 1)})
				if len(e.parents) >= b.Worlds {
					return Result{Worlds: len(e.parents)}
				}
			}
		}
		frontier = next
	}
	return Result{Worlds: len(e.parents), Complete: true}
}

// story is how a world was reached.
func (e *explorer) story(start *world, from int32, last int) *Found {
	moves := []int{last}
	for from > 0 {
		moves = append(moves, int(e.parents[from].move))
		from = e.parents[from].from
	}
	slices.Reverse(moves)
	f := &Found{Broken: e.broke}
	w := *start
	f.Story = append(f.Story, "    "+e.describe(&w))
	for _, m := range moves {
		e.broke = ""
		e.moves[m].do(turn{e, &w})
		f.Story = append(f.Story, fmt.Sprintf("  %s\n    %s", e.moves[m].name, e.describe(&w)))
	}
	return f
}

// settings are those of the control worker. What it logs as a defect breaks a promise.
type settings struct{ turn }

var _ lifecycle.Settings = settings{}

func (settings) Policy() clean.Policy {
	return clean.Policy{Automated: true, OnEnroll: true, HostSilentAfter: 5 * time.Minute,
		StepSettings: device.StepSettings{Verify: "full", TellAfter: 5 * time.Minute}}
}

func (s settings) Plan(_ clean.Subject, full bool, _ clean.Request) lifecycle.RecordedPlan {
	made := lifecycle.RecordedPlan{Policy: s.Policy()}
	if full {
		made.Plan = append(made.Plan, contract.Planned{Step: zero, Phase: string(clean.Erase), Timeout: time.Hour})
	}
	made.Plan = append(made.Plan, contract.Planned{Step: verify, Phase: string(clean.Verify), Timeout: time.Hour})
	return made
}

func (settings) Steps(clean.Subject) []contract.CleanStep { return nil }

func (settings) Choose(device.Capabilities, string, string) lifecycle.Choice {
	return lifecycle.Choice{}
}

func (settings) Signed() (func(contract.OverrideClaims, []byte) bool, time.Time) {
	return nil, time.Time{}
}

func (s settings) Run() string { return fmt.Sprintf("r%d", s.w.runs) }

func (s settings) Log(level slog.Level, message string, about ...any) {
	if level == slog.LevelError && strings.HasPrefix(message, "illegal event") {
		s.broken(fmt.Sprint(message, about))
	}
}

func (settings) Count(lifecycle.Figure) {}
