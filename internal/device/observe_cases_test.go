package device

import (
	"fmt"
	"slices"
	"strings"
	"sync"
)

// This file lists what can be observed: each device that exploration reaches, reduced to
// what an observation minds, with each snapshot of each question, reduced likewise. That
// the rest makes no difference is proved by TestWhatObservationsDoNotMind.

// The provider and the generation that a device knows, and others.
const (
	ourProvider, newProvider = "p", "q"
	ourGeneration            = int64(5)
)

// seen is one device and one snapshot of it.
type seen struct {
	device   Device
	snapshot Snapshot
}

func (c seen) String() string {
	return fmt.Sprintf("%s | %s | %s", c.snapshot.Question, describe(c.device), describeSnapshot(c.snapshot))
}

// observedDevices are the devices that the first table can make, reduced.
var observedDevices = sync.OnceValue(func() []Device {
	var all []Device
	have := map[place]bool{}
	for _, g := range walks(table) {
		for _, p := range g.places {
			d := p.device()
			if d.State == Absent {
				continue
			}
			d = reduced(d)
			if key := placeOf(d, ""); !have[key] {
				have[key] = true
				all = append(all, d)
			}
		}
	}
	return all
})

// reduced is the device without what observations do not mind.
func reduced(d Device) Device {
	d.OneTimeUse, d.Cleanable, d.AwaitingManualClean, d.LostRace = false, false, false, false
	if d.InMaintenance() {
		d.Status, d.Maintenance = Maintaining, MaintenanceOperator
	}
	return d
}

// inventories are the answers of an inventory, of one provider or another.
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
	if q == AskHost {
		var all []Snapshot
		for _, h := range []HostResult{HostNotAsked, HostSame, HostOther, HostAbsent, HostUnfit, HostFailed, HostSilent} {
			for _, duplicate := range []bool{false, true} {
				all = append(all, Snapshot{Question: q, Host: h, Duplicate: duplicate})
			}
		}
		return all
	}
	generations := []int64{ourGeneration}
	if q == AskRecheck || q == AskUnreserve {
		generations = append(generations, ourGeneration+1)
	}
	var all []Snapshot
	for _, provider := range []string{"", ourProvider} {
		s := Snapshot{Question: q, Known: Known{Generation: ourGeneration, Provider: provider}, Imported: ourProvider}
		for _, i := range inventories(generations...) {
			all = append(all, s.Answered(i))
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
	vary(q == AskUnreserve, func(s *Snapshot) { s.Refused = true })
	vary(q == AskRecheck || q == AskReserve, func(s *Snapshot) { s.Known.CleanRecorded = true })
	vary(q == AskRecheck, func(s *Snapshot) { s.detects = true })
	vary(q == AskRecheck, func(s *Snapshot) { s.keptClean = true })
	return all
}

// eachSeen calls do with each observation of some questions, until it gives an error.
func eachSeen(questions []Question, do func(seen) error) error {
	for _, q := range questions {
		for _, s := range snapshots(q) {
			for _, d := range observedDevices() {
				if err := do(seen{d, s}); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// snapshotMarks are a snapshot's single words, in the order in which describeSnapshot writes them.
var snapshotMarks = []struct {
	name string
	of   func(*Snapshot) *bool
}{
	{"clean-started", func(s *Snapshot) *bool { return &s.CleanStarted }},
	{"clean-recorded", func(s *Snapshot) *bool { return &s.Known.CleanRecorded }},
	{"refused", func(s *Snapshot) *bool { return &s.Refused }},
	{"detects", func(s *Snapshot) *bool { return &s.detects }},
	{"was-kept-clean", func(s *Snapshot) *bool { return &s.keptClean }},
	{"duplicate", func(s *Snapshot) *bool { return &s.Duplicate }},
}

// describeSnapshot writes a snapshot, but for its question, as readSnapshot reads it.
func describeSnapshot(s Snapshot) string {
	var all []string
	add := func(when bool, word string, args ...any) {
		if when {
			all = append(all, fmt.Sprintf(word, args...))
		}
	}
	i := s.Inventory
	add(s.Answer == Answered, "reserved:%d/%d", i.Reserved, i.Total)
	add(i.Used > 0, "used:%s", strings.Join(i.Consumers, ""))
	add(s.Answer == Answered && i.Generation != s.Known.Generation, "newer")
	add(i.Provider == newProvider, "other-provider")
	add(s.Answer != NotAsked && s.Answer != Answered, "%s", strings.ReplaceAll(string(s.Answer), " ", "-"))
	add(s.Known.Provider != "", "provider-known")
	add(s.Host != HostNotAsked, "host:%s", s.Host)
	for _, m := range snapshotMarks {
		add(*m.of(&s), "%s", m.name)
	}
	return strings.Join(all, " ")
}

func readSnapshot(q, text string) (Snapshot, error) {
	s := Snapshot{Question: Question(q), Known: Known{Generation: ourGeneration}, Imported: ourProvider}
	if !slices.Contains(Questions(), s.Question) {
		return s, fmt.Errorf("%q is no question", q)
	}
next:
	for _, word := range strings.Fields(text) {
		for _, m := range snapshotMarks {
			if m.name == word {
				*m.of(&s) = true
				continue next
			}
		}
		name, value, _ := strings.Cut(word, ":")
		switch name {
		case "reserved":
			s.Answer, s.Inventory = Answered, Inventory{Generation: ourGeneration, Provider: ourProvider}
			if _, err := fmt.Sscanf(value, "%d/%d", &s.Inventory.Reserved, &s.Inventory.Total); err != nil {
				return s, fmt.Errorf("%q: %w", word, err)
			}
		case "used":
			s.Inventory.Used, s.Inventory.Consumers = 1, []string{}
			if value != "" {
				s.Inventory.Consumers = []string{value}
			}
		case "newer":
			s.Inventory.Generation++
		case "other-provider":
			s.Inventory.Provider = newProvider
		case "provider-known":
			s.Known.Provider = ourProvider
		case "host":
			s.Host = HostResult(value)
		default:
			s.Answer = Answer(strings.ReplaceAll(word, "-", " "))
			if !slices.Contains([]Answer{ProviderMissing, GenerationAhead, AlreadyReserved, Failed}, s.Answer) {
				return s, fmt.Errorf("%q says nothing of a snapshot", word)
			}
		}
	}
	return s, nil
}

// describeObservation writes what follows: the event, and the follow-ups.
func describeObservation(o Observation) string {
	var all []string
	if o.Event != "" {
		all = append(all, describeEvent(Event{Kind: o.Event, Instance: o.Instance, Automated: true}))
	}
	for _, f := range o.Then {
		all = append(all, string(f))
	}
	if len(all) == 0 {
		return "nothing"
	}
	return strings.Join(all, ", ")
}
