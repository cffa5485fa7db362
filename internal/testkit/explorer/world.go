package explorer

import (
	"fmt"
	"strings"
	"time"

	"burnish/internal/device"
	"burnish/internal/host"
	"burnish/internal/lifecycle"
	"burnish/workflows/contract"
)

// who is a party: an instance, or the former user of other hardware.
type who uint8

const (
	noParty who = iota
	first
	second
	stranger
)

func (p who) String() string { return [...]string{"", "first", "second", "stranger"}[p] }

// id is the party's as an instance.
func (p who) id() string {
	return [...]string{"", "11111111-1111-4111-8111-111111111111", "22222222-2222-4222-8222-222222222222", "stranger"}[p]
}

func whoIs(instance string) who {
	for p := first; p <= stranger; p++ {
		if p.id() == instance {
			return p
		}
	}
	if instance != "" {
		return stranger // an unknown consumer
	}
	return noParty
}

// world is everything at one moment: two worlds with one key have one future.
type world struct {
	// d is the device's workflow, backup that of the database's copy; nil: there is none. Neither is changed, but
	// replaced.
	d, backup *lifecycle.State
	late      *lateCall   // nil: there is none
	answer    *lateAnswer // nil: there is none
	now       time.Time
	lostAt    time.Time // when the last workflow was lost
	doneAt    time.Time // when the step ended whose result is in the history (stepDone)
	environment
}

// environment is all but the workflow. It is comparable.
type environment struct {
	number int8 // of several
	runs   int8 // how many workflows of the device were lost
	// ended is the hold, and endedWith the instance, that the last one published.
	ended     device.Hold
	endedWith who
	inv       stock
	appliance appliance // of a shared pool
	host      hostState
	// saved is the inventory's copy of the provider. The workflow's memory or the inventory's is lost in a story, not
	// both: forgot is that of the first, forgets of the other.
	saved                     stock
	hasSaved, forgot, forgets bool

	// slot is the hardware in the slot, bytes whose data each hardware holds.
	slot  unit
	bytes [2]who
	// accepted: two principals offer the bytes of the enrolled hardware as they are (D2); it ends when
	// the device is dirty again, which a database that is put back forgets: acceptedOnce does not end.
	accepted, acceptedOnce bool
	// held: an operator holds the device by a command that was answered (F43).
	held bool
	// unseen: the hardware was swapped or written to, and no discovery has ended since. written: what the host compares
	// shows that others have written to it since Burnish did.
	unseen, written bool
	// attended: the host has seen the hardware, and holds it for its return: a swap would be
	// noticed.
	attended bool

	tenants [2]tenant
	asked   [2]uint8 // the number of each party's last bind; open: it has no answer, and is sent again
	open    [2]bool
	gone    who   // its client was killed while it waited for the answer
	ids     uint8 // of requests

	// stepDone: the step's result is in the history, but the task that handles it was lost.
	stepDone bool
	// attempts counts those of the call of each kind of job that were lost.
	attempts [4]int8

	faults, binds, acts, others uint8 // how many are left
}

// unit is one physical device: the enrolled one, or another.
type unit uint8

const (
	enrolled unit = iota
	other
)

// tenant is what an instance believes.
type tenant struct {
	has    bool   // its bind was answered, and it has not asked to unbind since
	denied denial // the answer since its last bind was sent that it does not have the device
}

// denial is the answer by which a tenant knows that it does not have the device.
type denial uint8

const (
	noDenial denial = iota
	unbindAnswered
	unbindRefused
	bindRefused
)

func (a denial) String() string {
	return [...]string{"", "unbind was answered", "unbind was refused", "bind was refused"}[a]
}

// hostState is what the host knows.
type hostState struct {
	journal journal
	// record outlives the workflow.
	record struct{ seq, cleans, bindings int8 }
	// started: the worker has started and will report the device.
	started bool
}

// journal is the host's entry of the device.
type journal struct {
	workDone
	found, done bool
}

// workDone is one attempt of one step.
type workDone struct {
	seq, attempt int8
	clean        string
	generation   int16
	provider     int8
	step         string
	unit         unit
}

func (w workDone) entry() host.Entry {
	return host.Entry{Seq: int64(w.seq), Attempt: int32(w.attempt),
		Clean: fmt.Sprintf("%s g%d of %d", w.clean, w.generation, w.provider), Step: w.step,
		Serial: [...]string{"S1", "S2"}[enrolled], Reads: w.step == verify}
}

func (j journal) entry() host.Entry {
	e := j.workDone.entry()
	e.Done = j.done
	return e
}

// The steps of the one full plan.
const (
	zero   = "zero"
	verify = "verify"
)

// stock is the provider.
type stock struct {
	exists     bool
	provider   int8
	generation int16
	reserved   bool
	used       who
	recorded   bool // the provider records who has it (SAFETY F24)
	tenant     who
	hold       device.Hold // and the rest of device.Record
	bindings   int8
	cleans     int8
}

// lateCall is a request that was carried out, and may be carried out once more.
type lateCall struct {
	call    lifecycle.Call
	attempt int8
}

// lateAnswer is the outcome of a call that is on its way.
type lateAnswer struct {
	of      int
	call    lifecycle.Call
	outcome lifecycle.Outcome
}

// request is the one that is under way, nil if none is: there is one at a time but for an unbind.
func (w *world) request() *lifecycle.Job {
	if w.d == nil {
		return nil
	}
	for _, j := range w.d.Jobs {
		if j.Verb.Name != "" && !j.Ended {
			return j
		}
	}
	return nil
}

// call finds a call under way of one of the activities.
func (w *world) call(activities ...string) *lifecycle.Call {
	if w.d == nil {
		return nil
	}
	for _, j := range w.d.Jobs {
		for _, activity := range activities {
			if j.Call != nil && j.Call.Activity == activity {
				return j.Call
			}
		}
	}
	return nil
}

func (w *world) steps() *lifecycle.Call {
	if c := w.call(zero, verify); c != nil && !w.answering(c) {
		return c
	}
	return nil
}

// answering: the call has ended, and its answer is on its way.
func (w *world) answering(c *lifecycle.Call) bool {
	return w.answer != nil && w.answer.call.Key == c.Key
}

// describe writes the world in one line, for a counter-example.
func (e *explorer) describe(w *world) string {
	var b strings.Builder
	if w.d == nil {
		b.WriteString("no workflow")
	} else {
		d := w.d.Device
		b.WriteString(string(d.State))
		for _, f := range []struct {
			name string
			on   bool
		}{
			{"dirty", d.Dirty}, {"returning", d.Returning}, {"unseen", d.Unseen},
			{"awaiting clean", d.AwaitingManualClean}, {"maintenance", d.InMaintenance()},
			{"read", w.d.Intent.ReadInventory}, {"ensure", w.d.Intent.EnsureReserved}, {"look", w.d.Intent.Rediscover},
			{"uncertain", w.d.GenerationUncertain},
		} {
			if f.on {
				b.WriteString(", " + f.name)
			}
		}
		if d.Claim != nil {
			fmt.Fprintf(&b, ", claim of %s", whoIs(d.Claim.Instance))
		}
		if d.Binding != nil {
			fmt.Fprintf(&b, ", bound to %s", whoIs(d.Binding.Instance))
		}
		for _, j := range w.d.Jobs {
			fmt.Fprintf(&b, ", %s: %q", j.ID, j.Phase)
		}
		if f := w.d.Fault; f != nil {
			fmt.Fprintf(&b, ", %s", f.Code)
		}
		fmt.Fprintf(&b, "; knows generation %d, seq %d", w.d.Generation, w.d.Seq)
	}
	i := w.inv
	fmt.Fprintf(&b, " | provider %d at %d: reserved %v, used by %q", i.provider, i.generation, i.reserved, i.used)
	if i.recorded {
		fmt.Fprintf(&b, ", recorded %q", i.tenant)
	}
	fmt.Fprintf(&b, " | slot: %s with the bytes of %q", [...]string{"the enrolled hardware", "other hardware"}[w.slot],
		w.bytes[w.slot])
	for n, t := range w.tenants {
		if t.has {
			fmt.Fprintf(&b, ", %s has it", first+who(n))
		}
	}
	if e.shared {
		fmt.Fprintf(&b, " | server: profile %d, tag %d", w.appliance.profile, w.appliance.tag)
		if w.d != nil && w.d.Pool != nil {
			fmt.Fprintf(&b, ", known %+v", *w.d.Pool)
		}
	}
	if j := w.host.journal; j.found {
		fmt.Fprintf(&b, " | journal: %s of clean %s, seq %d, done %v", j.step, j.clean, j.seq, j.done)
	}
	return b.String()
}

func (w *world) name() string { return fmt.Sprint("d", 1+w.number) }

// enrollment is that of the device.
func (e *explorer) enrollment(w *world) contract.Enrollment {
	owner := device.OwnerSelf
	if e.nova {
		owner = device.OwnerNova
	}
	made := contract.Enrollment{Name: w.name(), Host: "h1", Driver: "testdriver", Type: "NVME", Owner: owner,
		OneTimeUse: true}
	if e.apart {
		made.Host = "h" + w.name()[1:]
	}
	if e.shared {
		made.Type = contract.TypeNode
		made.Pool = &contract.Pool{Appliance: "rack1", Hardware: "h", Template: "t", Dynamic: true}
	}
	return made
}
