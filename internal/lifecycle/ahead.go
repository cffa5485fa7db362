package lifecycle

import (
	"cmp"
	"log/slog"
	"slices"
	"time"

	"burnish/internal/clean"
	"burnish/internal/device"
	"burnish/workflows/contract"
)

// This file looks ahead: on a copy of the state it lets come what the device waits for, as it comes if all goes well.
// The dry run and the remedies are what Decide then says.

// maxAhead bounds how far one request is followed.
const maxAhead = 200

// silent are a worker's settings, which log, count and archive nothing of what was not done.
type silent struct{ Settings }

func (silent) Log(slog.Level, string, ...any) {}
func (silent) Count(Figure)                   {}

func (silent) Archive(of contract.Archive, _ contract.CleanSummary) contract.Archive { return of }

// usual are the settings that a remedy supposes. A remedy is a part of an answer, and so of a history: no worker's
// policy may have a word in it.
type usual struct{}

func (usual) Policy() clean.Policy { return clean.Policy{Automated: true, OnEnroll: true} }

func (u usual) Plan(clean.Subject, bool, clean.Request) RecordedPlan {
	return RecordedPlan{Policy: u.Policy(), Plan: []contract.Planned{{Step: "clean", Timeout: time.Hour}}}
}

func (usual) Steps(clean.Subject) []contract.CleanStep { return nil }

func (usual) Choose(device.Capabilities, string, string) Choice { return Choice{} }

func (usual) Signed() (func(contract.OverrideClaims, []byte) bool, time.Time) {
	return nil, time.Time{}
}

func (usual) Archive(of contract.Archive, _ contract.CleanSummary) contract.Archive { return of }

func (usual) Run() string                    { return "" }
func (usual) Log(slog.Level, string, ...any) {}
func (usual) Count(Figure)                   {}

// askAhead asks a copy of a state for a verb, and gives the job of it. The copy may be that of another one in which
// something was asked.
func (d *State) askAhead(asked contract.Verb, in contract.Input, by Settings) *Job {
	id := "ahead"
	for slices.ContainsFunc(d.Jobs, func(j *Job) bool { return j.ID == id }) {
		id += "+"
	}
	d.Recent = nil // it is no repetition of what was asked ahead before
	d.Decide(Asked{ID: id, Verb: asked, In: in}, d.now, by)
	for _, j := range d.Jobs {
		if j.ID == id {
			return j
		}
	}
	return nil
}

// ahead lets one thing come that the device waits for, that of the job first. It gives the call whose end it was, nil
// if it was none; false: the device waits for nothing.
func (d *State) ahead(first *Job, by Settings) (*Call, bool) {
	if stopped := d.Undue(); len(stopped) > 0 {
		d.Decide(Ended{Key: stopped[0].Key, Outcome: NotMade()}, d.now, by)
		return &stopped[0], true
	}
	jobs := d.Jobs
	if first != nil && !first.Ended {
		jobs = append([]*Job{first}, jobs...)
	}
	for _, j := range jobs {
		switch {
		case j.Ended:
		case j.Call != nil:
			c := *j.Call
			d.Decide(Ended{Key: c.Key, Outcome: Outcome{Found: d.supposed(j, c)}}, d.now, by)
			return &c, true
		case j.Phase == phSlotWait:
			slot, _ := d.slotOf(j)
			d.Decide(Hinted{Hint: contract.Hint{Slot: &contract.SlotAnswer{Clean: slot.Clean, Granted: true}}}, d.now, by)
			return nil, true
		}
	}
	at, _ := d.Next()
	if at.IsZero() {
		return nil, false
	}
	if at.Before(d.now) {
		at = d.now
	}
	d.Decide(Come{}, at, by)
	return nil, true
}

// supposed is what a call finds if all is as the device knows it, and nothing fails.
func (d *State) supposed(j *Job, c Call) any {
	switch c.Activity {
	case contract.ActivityReadReservation, contract.ActivityEnsureReserved, contract.ActivityEnsureProvider,
		contract.ActivityReserveForBind, contract.ActivityUnreserve, contract.ActivityDeleteProvider:
		return d.supposedInventory(c)
	case contract.ActivityDiscover:
		found := d.Host
		found.Written, found.Record, found.ObservedAt = false, nil, d.now
		if c.In.(contract.DiscoverInput).Replace {
			found.Identity.Serial += " (other)"
			found.Operation = cmp.Or(found.Operation, "erase")
		}
		return &found
	case contract.ActivityFindBySerial:
		return &contract.DeviceBySerial{}
	case contract.ActivityFindPreviousRun:
		return &contract.PreviousRun{}
	case contract.ActivityAskInstance:
		return &contract.InstanceAnswer{}
	case contract.ActivityReadPool, contract.ActivityApplyProfile, contract.ActivityRemoveProfile:
		return d.supposedServer(c)
	case contract.ActivityPower:
		return &contract.PowerResult{}
	}
	if c.How.Way == ToStep {
		in := c.In.(contract.StepInput)
		return &contract.StepAnswer{StepResult: contract.StepResult{Step: in.Step, Clean: in.Clean, Seq: in.Seq},
			SeenAt: d.now}
	}
	return nil
}

// supposedInventory is the provider as the device knows it, after the call. Who has the device is recorded as it knows.
func (d *State) supposedInventory(c Call) *device.Inventory {
	in := c.In.(contract.ReservationRequest)
	i := device.Inventory{Generation: d.Generation, Provider: cmp.Or(d.Provider, d.Intent.ImportProvider), Total: 1,
		Reserved: 1, Record: *d.recordOf("")}
	if b := d.Device.Binding; b != nil {
		i.Record = *d.recordOf(b.Instance)
		if !d.ownedByBurnish() {
			i.Used, i.Consumers = 1, []string{b.Instance}
		}
	}
	if d.Device.Allocatable() {
		i.Reserved = 0
	}
	switch c.Activity {
	case contract.ActivityReadReservation:
	case contract.ActivityUnreserve:
		i.Generation, i.Provider, i.Reserved = in.Generation+1, in.Provider, 0
	default:
		i.Generation, i.Reserved = i.Generation+1, 1
		if in.Record != nil {
			i.Record = *in.Record
		}
	}
	return &i
}

// supposedServer is a server of a shared pool as the device knows it, after the call: no other user has it.
func (d *State) supposedServer(c Call) *contract.PoolSnapshot {
	known := d.pool()
	found := &contract.PoolSnapshot{Ownership: device.PoolFree, Tag: known.Tag}
	if c.Activity == contract.ActivityApplyProfile || c.Activity == contract.ActivityReadPool && known.Profile != "" {
		found.Ownership, found.Profile = device.PoolOurs, cmp.Or(known.Profile, "applied")
	}
	return found
}
