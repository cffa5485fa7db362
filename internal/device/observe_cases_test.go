package device

import (
	"fmt"
	"slices"
	"strings"
	"sync"
)

// This file lists what can be observed: each device that exploration reaches, reduced to
// what an observation depends on, with each snapshot of each question, reduced likewise.

// The provider and the generation that a device knows, and others.
const (
	ourProvider, newProvider = "p", "q"
	ourGeneration            = int64(5)
)

// observed is one device and one snapshot of it.
type observed struct {
	device   Device
	snapshot Snapshot
}

func (c observed) String() string {
	return fmt.Sprintf("%s on %s", describeSnapshot(c.snapshot), describe(c.device))
}

// observedDevices are the devices that the first table can produce, without the fields on
// which no observation depends.
var observedDevices = sync.OnceValue(func() []Device {
	var all []Device
	have := map[visited]bool{}
	for _, g := range explored() {
		for _, p := range g.visited {
			d := p.device()
			if d.State == Absent {
				continue
			}
			d.OneTimeUse, d.Cleanable, d.AwaitingManualClean, d.LostRace = false, false, false, false
			if d.InMaintenance() {
				d.Status, d.Maintenance = Maintaining, MaintenanceOperator
			}
			if key := visitedOf(d, ""); !have[key] {
				have[key] = true
				all = append(all, d)
			}
		}
	}
	return all
})

// poolQuestions ask the appliance of a shared pool.
var poolQuestions = []Question{AskPool, AskPoolBind, AskPoolApplied, AskPoolClean, AskPoolReturn, AskPoll}

// poolDevices are those that can be in a shared pool, with what its observations depend on.
var poolDevices = sync.OnceValue(func() []Device {
	var all []Device
	have := map[visited]bool{}
	for _, g := range explored() {
		for _, p := range g.visited {
			d := p.device()
			if d.State == Absent || d.Owner == OwnerNova {
				continue
			}
			d.OneTimeUse, d.Cleanable, d.AwaitingManualClean, d.NotSanitized = false, false, false, false
			if key := visitedOf(d, ""); !have[key] {
				have[key] = true
				all = append(all, d)
			}
		}
	}
	return all
})

// inventories are the answers of an inventory, for our provider and for a new one.
func inventories(generations ...int64) []Inventory {
	var all []Inventory
	for _, stock := range [][2]int{{1, 0}, {1, 1}, {2, 1}, {2, 2}} {
		for _, consumers := range [][]string{nil, {}, {own}, {other}} {
			for _, provider := range []string{ourProvider, newProvider} {
				for _, g := range generations {
					i := Inventory{Generation: g, Total: stock[0], Reserved: stock[1], Consumers: consumers, Provider: provider}
					if consumers != nil {
						i.Used = 1
					}
					all = append(all, i)
				}
			}
		}
	}
	return all
}

// snapshots are all observations for one question.
func snapshots(q Question) []Snapshot {
	if slices.Contains(looks, q) {
		var all []Snapshot
		for _, h := range []HostResult{HostNotAsked, HostSame, HostOther, HostAbsent, HostUnfit, HostWritten, HostFailed,
			HostUnreachable} {
			for _, duplicate := range []bool{false, true} {
				all = append(all, Snapshot{Question: q, Host: h, Duplicate: duplicate})
			}
		}
		return all
	}
	if slices.Contains(poolQuestions, q) {
		var all []Snapshot
		for _, o := range []Ownership{"", PoolFree, PoolOurs, PoolTaken} {
			for _, changed := range []bool{false, true} {
				all = append(all, Snapshot{Question: q, Pool: o, PoolChanged: changed})
			}
		}
		return all
	}
	records := []Record{RecordOf(""), RecordOf(own), RecordOf(other), {Witness: WitnessFree, Hold: HoldOperator},
		{Witness: WitnessBound, Tenant: own, Bindings: 9}}
	generations := []int64{ourGeneration}
	if slices.Contains(readOnly, q) || q == AskUnreserve || q == AskReconcile || q == AskResolve {
		generations = append(generations, ourGeneration+1)
	}
	if q == AskUnreserve {
		generations = append(generations, ourGeneration+2)
	}
	var all []Snapshot
	for _, provider := range []string{"", ourProvider} {
		s := Snapshot{Question: q, Known: Known{Generation: ourGeneration, Provider: provider}, Imported: ourProvider}
		for _, i := range inventories(generations...) {
			all = append(all, s.Answered(i))
			if i.Total != 1 || i.Provider != ourProvider || i.Consumers != nil {
				continue
			}
			for _, r := range records {
				i.Record = r
				all = append(all, s.Answered(i))
				if r.Tenant == own {
					left := s
					left.Known.Left = own
					for _, left.Known.LeftGeneration = range []int64{ourGeneration, ourGeneration + 1} {
						all = append(all, left.Answered(i))
					}
				}
			}
		}
		for _, c := range []Code{CodeNoProvider, CodeInventoryGenerationAhead, CodeAlreadyBurned, CodeInventoryUnavailable} {
			all = append(all, s.Failed(c))
		}
	}
	vary := func(when bool, set func(*Snapshot)) {
		for _, s := range all {
			if when {
				set(&s)
				all = append(all, s)
			}
		}
	}
	vary(slices.Contains(reads, q), func(s *Snapshot) { s.CleanStarted = true })
	vary(slices.Contains(reads, q), func(s *Snapshot) { s.CleanStarted, s.CleanReserved = true, true })
	vary(q == AskUnreserve, func(s *Snapshot) { s.Refused = true })
	vary(q == AskRecheck || q == AskReserve, func(s *Snapshot) { s.Known.CleanRecorded = true })
	vary(slices.Contains(readOnly, q), func(s *Snapshot) { s.detects = true })
	vary(q == AskRecheck, func(s *Snapshot) { s.keptClean = true })
	return all
}

// eachObserved calls do with each observation of some questions, until it gives an error.
func eachObserved(questions []Question, do func(observed) error) error {
	for _, q := range questions {
		devices := observedDevices()
		if slices.Contains(poolQuestions, q) {
			devices = poolDevices()
		}
		for _, s := range snapshots(q) {
			for _, d := range devices {
				if err := do(observed{d, s}); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

func describeSnapshot(s Snapshot) string {
	words := []string{string(s.Question) + ":"}
	add := func(when bool, word string, args ...any) {
		if when {
			words = append(words, fmt.Sprintf(word, args...))
		}
	}
	i := s.Inventory
	add(s.Answer != NotAsked && s.Answer != Answered, "%s", s.Answer)
	add(s.Answer == Answered, "reserved %d of %d, used %d %v, generation %d of %q", i.Reserved, i.Total, i.Used,
		i.Consumers, i.Generation, i.Provider)
	add(s.Answer != NotAsked, "known %d of %q", s.Known.Generation, s.Known.Provider)
	add(i.Witness != WitnessNone, "record %s %s", i.Witness, i.Tenant)
	add(s.Known.Left != "", "left %s at %d", s.Known.Left, s.Known.LeftGeneration)
	add(s.CleanStarted, "clean started")
	add(s.CleanReserved, "clean reserved")
	add(s.Known.CleanRecorded, "clean recorded")
	add(s.Refused, "refused")
	add(s.detects, "detects foreign writes")
	add(s.keptClean, "was kept clean")
	add(s.Duplicate, "duplicate")
	add(s.Pool != "", "server %s", s.Pool)
	add(s.PoolChanged, "server changed")
	add(s.Host != HostNotAsked, "host %s", s.Host)
	return strings.Join(words, " ")
}
