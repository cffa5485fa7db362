package explorer

import (
	"fmt"
	"strings"

	"burnish/internal/device"
	"burnish/internal/host"
)

// who is a party: an instance, or the former user of other hardware.
type who uint8

const (
	noParty who = iota
	first
	second
	stranger
)

// String is the party's name as an instance.
func (p who) String() string { return [...]string{"", "first", "second", "stranger"}[p] }

func whoIs(instance string) who {
	for p := first; p <= stranger; p++ {
		if p.String() == instance {
			return p
		}
	}
	if instance != "" {
		return stranger // an unknown consumer
	}
	return noParty
}

// world is everything at one moment. It is comparable: two equal worlds have one future.
type world struct {
	wf     workflow
	backup workflow // of the database; none where it does not exist
	inv    stock
	late   call // a request that was carried out, and may be carried out once more
	host   hostState

	// slot is the hardware in the slot, bytes whose data each hardware holds.
	slot  unit
	bytes [2]who
	// accepted: two principals offer the bytes of the enrolled hardware as they are (D2); it ends when
	// the device is dirty again, which a database that is put back forgets: acceptedOnce does not end.
	accepted, acceptedOnce bool
	// held: an operator holds the device by a command that was answered (F43).
	held bool
	// unseen: the hardware was swapped, and no discovery has ended since.
	unseen bool
	// aged: what the host saw last is older than a swap takes.
	aged bool
	// attended: the host has seen the hardware, and holds it for its return: a swap would be
	// noticed.
	attended bool

	tenants [2]tenant

	faults, binds, acts, recreations uint8 // how many are left
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

// hostState is what the host knows.
type hostState struct {
	journal journal
	// record outlives the workflow.
	record struct{ seq, cleans, bindings int8 }
	// started: the worker has started and will report the device.
	started bool
	// frozen is an attempt that does not run, and does not know that it was given up.
	frozen     bool
	frozenUnit unit
}

// journal is the host's entry of the device.
type journal struct {
	workDone
	found, done bool
}

// workDone is one attempt of one step.
type workDone struct {
	seq, attempt, clean int8
	generation          int16
	provider            int8
	step                step
	unit                unit
}

func (d workDone) entry() host.Entry {
	return host.Entry{Seq: int64(d.seq), Attempt: int32(d.attempt),
		Clean: fmt.Sprintf("%d g%d of %d", d.clean, d.generation, d.provider), Step: d.step.String(),
		Serial: [...]string{"S1", "S2"}[enrolled], Reads: d.step == verify}
}

func (j journal) entry() host.Entry {
	e := j.workDone.entry()
	e.Done = j.done
	return e
}

// step is a step of the one full plan.
type step uint8

const (
	zero step = iota
	verify
	planLength
)

func (s step) String() string { return [...]string{"zero", "verify"}[s] }

// workflow is the device's workflow, as the database has it.
type workflow struct {
	exists     bool
	run        int8 // how many runs began from nothing
	dev        deviceID
	generation int16
	provider   int8
	uncertain  bool
	ended      device.Hold // the hold by the last run that ended, until it is known who has the device
	left       who         // the instance of the last binding that ended
	burnedFor  who         // the instance of a burn that is not known to have succeeded
	had        [2]bool     // the instances that were bound

	cleanUnderWay bool // Clean is set
	clean         cleanRun
	cleans, seq   int8
	inUse         use  // seen during the clean
	unreserved    bool // a read showed that the clean's reservation is gone

	read, ensure, look bool // the intents
	undiscovered       bool
	backAgain          who // the operator is called: this instance may have left

	main, rec, upd call
	lock           holder
	queued         bool // the update waits for the lock
	stepDone       bool // the step's result is in the history, but the task that handles it was lost
	unbinds        who  // an unbind waits for the burn of its instance
}

// use is who has the device by the inventory, and by which number of its record.
type use struct {
	by       who
	recorded bool
	number   int8
}

type cleanRun struct {
	id         int8
	next       step
	generation int16
	provider   int8
}

type holder uint8

const (
	free holder = iota
	byMain
	byRec
	byUpd
)

// call is an activity of the workflow: asked, and perhaps answered.
type call struct {
	kind    callKind
	act     act // what the update does after it
	who     who // for whom
	attempt int8
	inTask  bool // its first attempt is made in the workflow task, and again if that is lost

	expects        bool
	expect         int16
	provider       int8
	generation     int16
	tenant         tenantWrite
	hold           device.Hold // what it records with it
	bindings       int8
	cleans         int8
	left           who
	leftGeneration int16

	asked deviceID // the device when it was asked for
	known known
}

// tenantWrite says what a write records of the tenant.
type tenantWrite uint8

const (
	keepTenant tenantWrite = iota
	clearTenant
	writeTenant
)

// known is device.Known as it was.
type known struct {
	generation          int16
	provider            int8
	uncertain, recorded bool
	left                who
	leftGeneration      int16
}

type callKind uint8

const (
	none callKind = iota
	resolve
	cleanReserve
	cleanDiscover
	cleanStep
	returnReserve
	lower
	lowerRead
	ensureReserved
	readReservation
	discover
	bindReserve
	readToLeave
	leaveReserve
	endMaintenance
	lookBeforeReturn
	lookBeforeProvide
	lookBeforeEndMaintenance
	lookBeforeBind
	burnBegun
	awaitKnown
)

func (k callKind) String() string {
	return [...]string{"", "resolve", "reserve for the clean", "discover for the clean", "step", "reserve for the return",
		"lower the reservation", "read after the write", "reserve", "read", "discover", "reserve for the bind",
		"read to leave the offer", "reserve to leave the offer", "reserve to end the maintenance",
		"look before the return", "look before it is provided", "look before the maintenance ends", "look before the bind",
		"the next task of the burn", "the state of an unknown device"}[k]
}

// act is an update.
type act uint8

const (
	noAct act = iota
	actBind
	actClaim     // the first half of a bind; actBind is the second
	actBindAgain // of what its instance may have
	actUnbind
	actManage
	actRetire
	actMaintain
	actMaintainOff
	actProvide
)

// deviceID stands for a device.Device: there are few different ones.
type deviceID uint16

// atlas numbers the devices.
type atlas struct {
	ids map[flatDevice]deviceID
	all []device.Device
}

type flatDevice struct {
	flat          device.Device
	claim         device.Claim
	binding       device.Binding
	claims, binds bool
}

func newAtlas() *atlas { return &atlas{ids: map[flatDevice]deviceID{}} }

func (a *atlas) id(d device.Device) deviceID {
	f := flatDevice{flat: d}
	if d.Claim != nil {
		f.claim, f.claims = *d.Claim, true
	}
	if d.Binding != nil {
		f.binding, f.binds = *d.Binding, true
	}
	f.flat.Claim, f.flat.Binding = nil, nil
	if id, ok := a.ids[f]; ok {
		return id
	}
	id := deviceID(len(a.all))
	a.ids[f] = id
	a.all = append(a.all, d)
	return id
}

// describe writes the world in one line, for a counter-example.
func (e *explorer) describe(w world) string {
	var b strings.Builder
	d := e.atlas.all[w.wf.dev]
	if !w.wf.exists {
		b.WriteString("no workflow")
	} else {
		fmt.Fprintf(&b, "%s", d.State)
		for _, f := range []struct {
			name string
			on   bool
		}{
			{"dirty", d.Dirty}, {"returning", d.Returning}, {"unseen", d.Unseen}, {"awaiting clean", d.AwaitingManualClean}, {"maintenance", d.InMaintenance()},
			{"read", w.wf.read}, {"ensure", w.wf.ensure}, {"look", w.wf.look}, {"uncertain", w.wf.uncertain},
		} {
			if f.on {
				b.WriteString(", " + f.name)
			}
		}
		if d.Claim != nil {
			fmt.Fprintf(&b, ", claim of %s", d.Claim.Instance)
		}
		if d.Binding != nil {
			fmt.Fprintf(&b, ", bound to %s", d.Binding.Instance)
		}
		for _, c := range []call{w.wf.main, w.wf.rec, w.wf.upd} {
			if c.kind != none {
				fmt.Fprintf(&b, ", waits for %q", c.kind)
			}
		}
		fmt.Fprintf(&b, "; knows generation %d, seq %d", w.wf.generation, w.wf.seq)
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
	j := w.host.journal
	if j.found {
		fmt.Fprintf(&b, " | journal: %s of clean %d, seq %d, done %v", j.step, j.clean, j.seq, j.done)
	}
	return b.String()
}
