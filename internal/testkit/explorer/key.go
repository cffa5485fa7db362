package explorer

import (
	"hash/maphash"
	"slices"
	"strconv"
	"time"

	"burnish/internal/device"
	"burnish/internal/lifecycle"
	"burnish/workflows/contract"
)

// keyer writes what matters of a world into a hash: no moments but how old a look is, no texts that nothing reads, and
// of generations only how they compare.
type keyer struct {
	hash maphash.Hash
	gens []int64
	as   map[int64]int64 // nil while they are collected
	now  time.Time
	tag  string // of the server of a shared pool
}

func (k *keyer) gen(g int64) {
	if k.as == nil {
		k.gens = append(k.gens, g)
		return
	}
	k.number(k.as[g])
}

func (k *keyer) number(n int64) {
	if k.as != nil {
		maphash.WriteComparable(&k.hash, n)
	}
}

func (k *keyer) text(all ...string) {
	if k.as != nil {
		for _, s := range all {
			maphash.WriteComparable(&k.hash, s)
		}
	}
}

func (k *keyer) flags(all ...bool) {
	if k.as == nil {
		return
	}
	bits := int64(1)
	for _, b := range all {
		if bits <<= 1; b {
			bits |= 1
		}
	}
	k.number(bits)
}

// age is how old a look is: as new as a bind wants it, or as a return does, or older.
func (k *keyer) age(at time.Time) {
	switch age := k.now.Sub(at); {
	case age <= 5*time.Second:
		k.number(0)
	case age <= 3*time.Minute:
		k.number(1)
	default:
		k.number(2)
	}
}

// furthest is the distance of generations from which on it makes no difference.
const furthest = 3

// key identifies the world.
func (e *explorer) key(w *world) uint64 {
	k := keyer{now: w.now, tag: w.appliance.text()}
	k.hash.SetSeed(e.seed)
	e.write(&k, w)
	slices.Sort(k.gens)
	k.as = make(map[int64]int64, len(k.gens))
	now := int64(1)
	for i, g := range k.gens {
		if i > 0 {
			now += min(g-k.gens[i-1], furthest)
		}
		k.as[g] = now
	}
	e.write(&k, w)
	return k.hash.Sum64()
}

func (e *explorer) write(k *keyer, w *world) {
	env := w.environment
	k.gen(int64(env.inv.generation))
	k.gen(int64(env.host.journal.generation))
	k.gen(int64(env.saved.generation))
	env.inv.generation, env.host.journal.generation, env.saved.generation, env.ids, env.appliance.tag = 0, 0, 0, 0, 0
	if k.as != nil {
		maphash.WriteComparable(&k.hash, env)
	}
	if env.stepDone {
		k.age(w.doneAt)
	}
	if l := w.late; l != nil {
		k.call(l.call)
		k.number(int64(l.attempt))
	}
	if a := w.answer; a != nil {
		k.call(a.call)
		k.outcome(a.outcome)
	}
	for _, d := range []*lifecycle.State{w.d, w.backup} {
		if k.flags(d != nil); d != nil {
			k.state(d)
		}
	}
}

func (k *keyer) device(d device.Device) {
	if k.as == nil {
		return
	}
	if c := d.Claim; c != nil {
		k.text("claim", c.Instance, c.Request)
		k.flags(c.Burning)
	}
	if b := d.Binding; b != nil {
		k.text("binding", b.Instance, b.Request)
		k.flags(b.Observed, b.Held)
		k.number(int64(b.Number))
	}
	d.Claim, d.Binding = nil, nil
	maphash.WriteComparable(&k.hash, d)
}

func (k *keyer) state(d *lifecycle.State) {
	k.device(d.Device)
	k.gen(d.Generation)
	k.text(d.Provider, d.BurnedFor, d.Again, d.Host.Identity.Serial)
	i := d.Intent
	k.flags(d.GenerationUncertain, i.ReadInventory, i.Rediscover, i.HardwareChanged, i.EnsureReserved, i.EnsureProvider,
		i.Abort, i.ConfirmSerial, i.ReadPool, i.AskInstance, i.DuplicateAt != "",
		d.Host.ObservedAt.IsZero(), d.Unreserved, d.InUse,
		d.KnownToHost, d.Written, !d.RetryAt.IsZero(), !d.PausedUntil.IsZero(), d.PreviousRunID != "")
	k.number(int64(d.Cleans))
	k.number(d.Seq)
	if f := d.Fault; f != nil {
		k.text(string(f.Code))
	}
	if w := d.ForeignWrites; w != nil {
		k.number(int64(min(w.Count, 3)))
	}
	for _, w := range d.Waits {
		k.text(w.For)
	}
	k.age(d.SeenAt)
	for _, b := range d.History {
		k.text(b.Instance, b.Request)
		k.number(int64(b.Number))
	}
	if p := d.Pool; p != nil {
		k.pool(*p)
	}
	k.run(d.Clean)
	k.text(d.Holder)
	k.text(d.Queue...)
	for _, j := range d.Jobs {
		k.job(j)
		k.flags(d.Claims > j.Claims)
	}
}

func (k *keyer) run(c *contract.CleanRun) {
	if k.flags(c != nil); c == nil {
		return
	}
	k.text(c.ID, c.Provider)
	k.gen(c.Generation)
	k.flags(c.Full, c.NextAllowed)
	k.number(c.Seq)
	k.number(int64(c.Next))
	k.number(int64(len(c.Plan)))
}

func (k *keyer) job(j *lifecycle.Job) {
	id := j.ID
	if j.Verb.Name != "" {
		id = "request"
	}
	k.text(id, j.Verb.Name, string(j.Phase), string(j.Kind), j.Provider)
	for _, p := range j.Back {
		k.text(string(p))
	}
	switch in := j.In.(type) {
	case contract.BindInput:
		k.text(in.Instance, in.Request)
	case contract.UnbindInput:
		k.text(in.Instance)
	}
	k.flags(j.Ended, j.InTask, j.Offers, j.Cleans, j.Planned, j.Claimed, j.Recorded, j.Repeated, j.Fault != nil,
		j.Refused != nil)
	k.gen(j.Generation)
	k.gen(j.Found.Generation)
	k.text(j.Found.Provider)
	k.device(j.Was)
	k.age(j.SeenAt)
	k.number(int64(j.Tries))
	k.snapshot(j.Asked)
	if j.Server.Ownership != "" {
		k.server(j.Server)
	}
	if j.PoolKnown != (contract.PoolState{}) {
		k.pool(j.PoolKnown)
	}
	k.flags(j.Profile.Remove, j.Profile.Tenant, j.Used, j.Prepared)
	if j.Call != nil {
		k.call(*j.Call)
	}
}

func (k *keyer) snapshot(s device.Snapshot) {
	k.text(string(s.Question), s.Known.Provider, s.Known.Left)
	k.gen(s.Known.Generation)
	k.gen(s.Known.LeftGeneration)
	k.flags(s.Known.Uncertain, s.Known.CleanRecorded, s.Refused)
}

func (k *keyer) call(c lifecycle.Call) {
	k.text(c.Activity)
	k.flags(c.How.InTask)
	if in, ok := c.In.(contract.PoolRequest); ok {
		k.pool(in.State)
	}
	in, ok := c.In.(contract.ReservationRequest)
	if !ok {
		return
	}
	k.text(in.Provider, in.Left)
	k.gen(in.Generation)
	k.gen(in.LeftGeneration)
	if in.Expect != nil {
		k.gen(*in.Expect)
	}
	if r := in.Record; r != nil {
		k.text(r.Tenant, string(r.Hold), strconv.Itoa(r.Bindings), strconv.Itoa(r.Cleans))
	}
}

// outcome is that of a call whose answer is late.
func (k *keyer) outcome(o lifecycle.Outcome) {
	if o.Fault != nil {
		k.text(string(o.Fault.Code))
	}
	switch found := o.Found.(type) {
	case *device.Inventory:
		if found != nil {
			k.gen(found.Generation)
			k.text(found.Provider, string(found.Witness), found.Tenant, string(found.Hold))
			k.text(found.Consumers...)
			k.number(int64(found.Reserved))
		}
	case *contract.DiscoveryResult:
		k.age(found.ObservedAt)
		k.flags(found.Written)
	case *contract.PoolSnapshot:
		k.server(*found)
	}
}

func (k *keyer) pool(s contract.PoolState) {
	k.text(s.Profile)
	k.flags(s.Applying, s.Tag == "", s.Tag == k.tag)
}

func (k *keyer) server(s contract.PoolSnapshot) {
	k.text(string(s.Ownership), s.Profile)
	k.flags(s.Gap, s.Tag == k.tag)
}
