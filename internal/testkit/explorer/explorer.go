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

// Kind is a kind of device.
type Kind string

// The kinds: a device of Burnish's own, one of Nova's, and a server of a shared pool.
const (
	Self   Kind = "owner self"
	Nova   Kind = "owner nova"
	Shared Kind = "shared pool"
)

// Bounds limit what happens in one story. Others is how often others take the server of a shared pool, and how often
// Nova re-creates its provider.
type Bounds struct {
	Faults, Binds, Acts, Others uint8
	// KeepDatabase: neither database is put back. Alone: nothing compares the device with the inventory but itself.
	KeepDatabase, Alone bool
	// Worlds is how many worlds are visited at most. Progress is told how many were, from time to time.
	Worlds   int
	Progress func(worlds, frontier, moves int)
}

// explorer visits every world that can be reached, in the order of their distance.
type explorer struct {
	nova, shared bool
	apart        bool // each device has a host of its own
	moves        []move
	variant      []int // as a space has it
	seed         maphash.Seed

	within Bounds

	broke   string      // what is broken in the present turn
	ended   *lateAnswer // the end of a call in it
	refusal string      // the last one, which a simulation shows
}

// broken notes a promise that does not hold.
func (e *explorer) broken(what string) {
	if e.broke == "" {
		e.broke = what
	}
}

func newExplorer(kind Kind) *explorer {
	e := &explorer{nova: kind == Nova, shared: kind == Shared, seed: maphash.MakeSeed()}
	for of := range jobs {
		e.moves = append(e.moves, slices.Concat(inventoryMoves(of), lookMoves(of))...)
		if e.shared {
			e.moves = append(e.moves, poolMoves(of)...)
		}
	}
	e.moves = slices.Concat(e.moves, timeMoves, hostMoves, worldMoves)
	if e.shared {
		e.moves = append(e.moves, othersMoves...)
	}
	for i := range e.moves {
		e.variant = append(e.variant, i)
	}
	for i, m := range e.moves {
		e.moves, e.variant = append(e.moves, lost(m)), append(e.variant, i)
		if m.answers {
			e.moves, e.variant = append(e.moves, late(m)), append(e.variant, i)
		}
	}
	return e
}

var epoch = time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)

// begin is a device that is clean, available and offered.
func (e *explorer) begin(b Bounds, number int8) *world {
	w := &world{now: epoch, environment: environment{faults: b.Faults, binds: b.Binds, acts: b.Acts, others: b.Others,
		number: number}}
	w.inv = stock{exists: true, generation: 3, recorded: true}
	d := lifecycle.New(w.name(), epoch)
	d.Enrollment, d.Enrolled, d.UUID = e.enrollment(w), true, contract.DeviceUUID(w.name())
	d.Host, d.SeenAt = e.discovery(w), epoch
	d.Device = device.Device{State: device.Available, Status: device.Enabled, Owner: device.OwnerSelf, OneTimeUse: true,
		Cleanable: true, Unit: device.Unit{Number: 1, Serial: "S1"}}
	if e.nova {
		w.others = max(b.Others, 1)
		d.Device.Owner, w.inv.provider, w.inv.recorded, d.Provider = device.OwnerNova, 1, false, "1"
	}
	if e.shared {
		w.appliance.tag, d.Pool = 1, &contract.PoolState{Tag: "1"}
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
	e.within = b
	names := make([]string, len(e.moves))
	for i, m := range e.moves {
		names[i] = m.name
	}
	return space[world]{names, e.variant, e.make, e.key, e.describe, b.Progress}.search(e.begin(b, 0), b.Worlds)
}

// make makes one move, if it can be made.
func (e *explorer) make(w *world, i int) (made bool, broken string) {
	e.broke = ""
	t := turn{explorer: e, w: w}
	if made = e.moves[i].do(t); made && e.broke == "" {
		t.check()
	}
	return made, e.broke
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

func (settings) Archive(contract.Archive, contract.CleanSummary) contract.Archive { return nil }

func (s settings) Run() string { return fmt.Sprintf("r%d", s.w.runs) }

func (s settings) Log(level slog.Level, message string, about ...any) {
	if level == slog.LevelError && strings.HasPrefix(message, "illegal event") {
		s.broken(fmt.Sprint(message, about))
	}
}

func (settings) Count(lifecycle.Figure) {}
