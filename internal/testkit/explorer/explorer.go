package explorer

import (
	"fmt"
	"hash/maphash"
	"slices"
	"strings"

	"burnish/internal/device"
)

// Bounds limit what happens in one story.
type Bounds struct {
	Faults, Binds, Acts uint8
	// KeepDatabase: the database is never put back.
	KeepDatabase bool
	// Worlds is how many worlds are visited at most.
	Worlds int
}

// explorer visits every world that can be reached, in the order of their distance.
type explorer struct {
	nova    bool
	without without
	atlas   *atlas
	moves   []move

	seen    map[uint64]struct{}
	parents []parent

	keepDatabase bool

	broke   string // what is broken in the present turn
	illegal error
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
	e := &explorer{nova: nova, atlas: newAtlas(), seen: map[uint64]struct{}{}}
	for n, by := range []string{"the clean", "the reconciliation", "the update"} {
		e.moves = append(e.moves, slices.Concat(inventoryMoves(n, by), lookMoves(n, by))...)
	}
	e.moves = slices.Concat(e.moves, lateMoves, hostMoves, worldMoves)
	for _, m := range e.moves {
		e.moves = append(e.moves, lost(m))
	}
	return e
}

// begin is a device that is clean, available and offered.
func (e *explorer) begin(b Bounds) world {
	d := device.Device{State: device.Available, Status: device.Enabled, Owner: device.OwnerSelf, OneTimeUse: true,
		Cleanable: true, Unit: device.Unit{Number: 1}}
	w := world{faults: b.Faults, binds: b.Binds, acts: b.Acts, recreations: 1}
	w.inv = stock{exists: true, generation: 3, recorded: true}
	if e.nova {
		d.Owner, w.inv.provider, w.inv.recorded = device.OwnerNova, 1, false
	}
	w.bytes[other] = stranger
	w.wf = workflow{exists: true, dev: e.atlas.id(d), generation: 3, provider: w.inv.provider, cleans: 1, seq: 2}
	w.host.record.seq, w.host.record.cleans = 2, 1
	w.host.journal = journal{workDone{seq: 2, attempt: 1, clean: 1, generation: 2, provider: w.inv.provider, step: verify},
		true, true}
	return w
}

// explore visits the worlds within the bounds, until a promise is broken.
func (e *explorer) explore(b Bounds) Result {
	seed := maphash.MakeSeed()
	start := e.begin(b)
	e.keepDatabase = b.KeepDatabase
	type node struct {
		w     world
		index int32
	}
	frontier := []node{{start, 0}}
	e.parents = append(e.parents, parent{-1, 0})
	e.seen[maphash.Comparable(seed, start)] = struct{}{}
	w := new(world)
	t := turn{e, w}
	for len(frontier) > 0 {
		var next []node
		for _, n := range frontier {
			for i := range e.moves {
				*w = n.w
				e.broke = ""
				if !e.moves[i].do(t) {
					continue
				}
				t.settle()
				w.canonical()
				if e.broke == "" {
					t.check()
				}
				if e.broke != "" {
					return Result{Worlds: len(e.parents), Found: e.story(start, n.index, i)}
				}
				key := maphash.Comparable(seed, *w)
				if _, ok := e.seen[key]; ok {
					continue
				}
				e.seen[key] = struct{}{}
				e.parents = append(e.parents, parent{n.index, uint16(i)})
				next = append(next, node{*w, int32(len(e.parents) - 1)})
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
func (e *explorer) story(start world, from int32, last int) *Found {
	moves := []int{last}
	for from > 0 {
		moves = append(moves, int(e.parents[from].move))
		from = e.parents[from].from
	}
	slices.Reverse(moves)
	f := &Found{Broken: e.broke}
	w := start
	f.Story = append(f.Story, "    "+e.describe(w))
	for _, m := range moves {
		e.broke = ""
		t := turn{e, &w}
		e.moves[m].do(t)
		t.settle()
		w.canonical()
		f.Story = append(f.Story, fmt.Sprintf("  %s\n    %s", e.moves[m].name, e.describe(w)))
	}
	return f
}

// canonical makes worlds equal that differ only by how far the generations have come.
func (w *world) canonical() {
	all := make([]*int16, 0, 16)
	add := func(g *int16, valid bool) {
		if valid {
			all = append(all, g)
		} else {
			*g = 0
		}
	}
	for _, f := range []*workflow{&w.wf, &w.backup} {
		add(&f.generation, f.exists)
		add(&f.clean.generation, f.cleanUnderWay && f.clean.generation != 0)
		for _, c := range []*call{&f.main, &f.rec, &f.upd} {
			add(&c.expect, c.expects)
			add(&c.generation, c.kind == lower || c.kind == lowerRead || c.kind == lookBeforeReturn)
			add(&c.known.generation, c.kind != none)
			add(&c.leftGeneration, c.tenant == clearTenant)
			add(&c.known.leftGeneration, c.kind != none)
		}
	}
	add(&w.host.journal.generation, true)
	add(&w.inv.generation, true)
	add(&w.late.expect, w.late.expects)
	add(&w.late.generation, w.late.kind == lower)
	add(&w.late.leftGeneration, w.late.tenant == clearTenant)
	w.late.known.generation = 0
	slices.SortFunc(all, func(a, b *int16) int { return int(*a) - int(*b) })
	const furthest = 3 // further apart makes no difference
	before, now := *all[0], int16(1)
	for _, g := range all {
		now += min(*g-before, furthest)
		before = *g
		*g = now
	}
}
