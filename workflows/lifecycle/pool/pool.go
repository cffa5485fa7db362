// Package pool asks the appliance of a server's shared pool who has the server, and applies
// and removes the profile with which Burnish uses it. It owns what the state records of them.
// A device without a pool, and one that is pre-allocated, makes no call here.
package pool

import (
	"go.temporal.io/sdk/workflow"

	"burnish/internal/device"
	"burnish/workflows/calls"
	"burnish/workflows/contract"
	"burnish/workflows/lifecycle/record"
)

// Pool is the shared pool of one device.
type Pool struct {
	*record.Record
	// stop ends the application or removal that is under way; nil if there is none.
	stop workflow.CancelFunc
}

// Shared says that Burnish has a profile on the server only while it uses it, so that others
// may take it meanwhile.
func (p *Pool) Shared() bool {
	pool := p.State.Enrollment.Pool
	return pool != nil && pool.Dynamic
}

// Owes says that a profile of Burnish's may be on the server.
func (p *Pool) Owes() bool {
	known := p.known()
	return p.Shared() && (known.Profile != "" || known.Applying)
}

// Applying says that a profile of Burnish's may be on the server whose URI is not recorded.
func (p *Pool) Applying() bool { return p.known().Applying }

// known is what the state records. A device that has no record, because it is new or was
// recovered from its host's, may have a profile from before: it is found by its name.
func (p *Pool) known() contract.PoolState {
	if p.State.Pool == nil {
		return contract.PoolState{Applying: true}
	}
	return *p.State.Pool
}

// Update changes what the state records.
func (p *Pool) Update(change func(*contract.PoolState)) {
	known := p.known()
	change(&known)
	p.State.Pool = &known
}

// Request is the input of the activities.
func (p *Pool) Request() contract.PoolRequest {
	s := p.State
	return contract.PoolRequest{
		Name: s.Name, UUID: s.UUID, Serial: s.Host.Identity.Serial, Pool: *s.Enrollment.Pool, State: p.known(),
	}
}

// Read asks who has the server, and records which of its profiles is Burnish's; opts are the
// activity's options. A recorded profile that is not on the server is forgotten (S4.24).
func (p *Pool) Read(ctx, opts workflow.Context) (contract.PoolSnapshot, error) {
	asked := p.known()
	found, err := p.call(ctx, opts, contract.ActivityReadPool, p.Request())
	if err != nil || p.stop != nil || p.known() != asked {
		return found, err // what was recorded meanwhile is newer
	}
	p.Update(func(s *contract.PoolState) {
		s.Profile = ""
		if found.Ownership == device.PoolOurs {
			s.Profile = found.Profile
		}
	})
	return found, nil
}

// ReadProfile reads which profile is on the server of a pre-allocated device. It records
// nothing.
func (p *Pool) ReadProfile(ctx, opts workflow.Context) (contract.PoolSnapshot, error) {
	return p.call(ctx, opts, contract.ActivityReadPool, p.Request())
}

// Apply makes sure that the server has Burnish's profile. The state says so before the
// appliance is asked, so that a crash between the two leaves no unknown profile. For a tenant the
// answer says, too, whether others may have used the server since it was returned.
func (p *Pool) Apply(ctx, opts workflow.Context, tenant bool) (contract.PoolSnapshot, error) {
	returned := ""
	if tenant {
		returned = p.known().Tag
	}
	begin := func() contract.PoolRequest {
		p.Update(func(s *contract.PoolState) { s.Applying, s.Tag = true, "" })
		p.Publish()
		in := p.Request()
		in.State.Tag = returned
		return in
	}
	return p.change(ctx, opts, contract.ActivityApplyProfile, begin,
		func(s *contract.PoolState, found contract.PoolSnapshot) {
			if found.Ownership == device.PoolOurs {
				s.Profile, s.Applying = found.Profile, false
			}
		})
}

// Remove switches the server off and removes Burnish's profile; what the state records of it
// is forgotten only then.
func (p *Pool) Remove(ctx, opts workflow.Context) (contract.PoolSnapshot, error) {
	return p.change(ctx, opts, contract.ActivityRemoveProfile, p.Request,
		func(s *contract.PoolState, found contract.PoolSnapshot) {
			if found.Ownership != device.PoolOurs {
				s.Profile, s.Applying = "", false
			}
		})
}

// change makes one call that changes the server, and no two at once: with the input that begin gives
// when its turn has come. keep records its result.
func (p *Pool) change(ctx, opts workflow.Context, activity string, begin func() contract.PoolRequest,
	keep func(*contract.PoolState, contract.PoolSnapshot),
) (contract.PoolSnapshot, error) {
	if err := workflow.Await(opts, func() bool { return p.stop == nil }); err != nil {
		return contract.PoolSnapshot{}, err
	}
	opts, stop := workflow.WithCancel(opts)
	p.stop = stop
	defer func() { p.stop = nil; stop() }()
	found, err := p.call(ctx, opts, activity, begin())
	if err == nil {
		p.Update(func(s *contract.PoolState) { keep(s, found) })
		p.Publish()
	}
	return found, err
}

func (p *Pool) call(ctx, opts workflow.Context, activity string,
	in contract.PoolRequest) (found contract.PoolSnapshot, err error) {
	err = p.During(ctx, contract.WaitAppliance, func() error {
		return workflow.ExecuteActivity(opts, activity, in).Get(ctx, &found)
	})
	if f := calls.FaultIn(err); f != nil && f.Code == device.CodeTimeout {
		return found, p.noAnswerFault()
	}
	return found, err
}

// noAnswerFault is the fault of an appliance that neither answers nor refuses.
func (p *Pool) noAnswerFault() *device.Fault {
	return &device.Fault{Class: device.Transient, Code: device.CodeApplianceUnreachable,
		Message: "the appliance " + p.State.Enrollment.Pool.Appliance + " has not answered in time",
		Remedy:  "check the appliance and the network, then repeat it"}
}

// Stop ends the call that changes the server, if one is under way.
func (p *Pool) Stop() {
	if p.stop != nil {
		p.stop()
	}
}

// Observe says what the appliance's answer means for the device. It changes nothing.
func (p *Pool) Observe(q device.Question, found contract.PoolSnapshot, err error) device.Observation {
	asked := device.Ask(q, p.State.Device, device.Known{})
	asked.Pool, asked.PoolChanged = found.Ownership, p.known().ChangedBy(found.Tag)
	if q == device.AskPoolApplied || q == device.AskPoolReturn {
		asked.PoolChanged = found.Gap // Burnish itself has changed the tag
	}
	if f := calls.FaultIn(err); f != nil {
		asked.Pool = ""
		if f.Code == device.CodeServerTaken {
			asked.Pool = device.PoolTaken
		}
	}
	o, _ := device.Observe(p.State.Device, asked)
	return o
}

// Conclude is Observe, and applies the event.
func (p *Pool) Conclude(ctx workflow.Context, q device.Question, found contract.PoolSnapshot,
	err error) device.Observation {
	o := p.Observe(q, found, err)
	if o.Event == "" {
		return o
	}
	p.ApplyOrReport(ctx, o.EventOf(o.Event.UsesAutomated() && p.Policy(ctx).Automated))
	switch o.Event {
	case device.LostRace:
		p.State.Fault = p.TakenFault()
		p.State.LastError = p.State.Fault.Message
	case device.ObservedUnused, device.ReservationChanged:
		p.State.LastError = p.UsedFault().Message + ": it is cleaned again"
		p.CountForeignWrite(ctx)
	}
	return o
}

// TakenFault is the fault of a server that others have.
func (p *Pool) TakenFault() *device.Fault {
	return &device.Fault{Class: device.NeedsOperator, Code: device.CodeServerTaken,
		Message: "another user of " + p.State.Enrollment.Pool.Appliance + " has the server",
		Remedy:  "take another server; this one is cleaned when a poll finds that the other user has left it"}
}

// UsedFault is the fault of a server that nothing shows to be as Burnish has left it.
func (p *Pool) UsedFault() *device.Fault {
	return &device.Fault{Class: device.Permanent, Code: device.CodeConflict,
		Message: "its server was changed on " + p.State.Enrollment.Pool.Appliance +
			" since it was cleaned: another user may have had it",
		Remedy: "take another device; this one is cleaned automatically"}
}

// TakenNote says why a device stays in maintenance after its operator has ended theirs; ""
// if it does not.
func (p *Pool) TakenNote() string {
	if p.State.Device.Maintenance != device.MaintenanceTaken {
		return ""
	}
	return "another user of " + p.State.Enrollment.Pool.Appliance +
		" has the server, and its maintenance ends when a poll finds that they have left it"
}

// FailedFault is the fault of a profile that is not as the appliance was asked for; err is
// the call's error, if it had one.
func (p *Pool) FailedFault(err error) *device.Fault {
	if err != nil {
		return calls.FaultOf(err)
	}
	return &device.Fault{Class: device.Transient, Code: device.CodeProfileFailed,
		Message: "the server's profile on " + p.State.Enrollment.Pool.Appliance + " is not as Burnish asked for",
		Remedy:  "look at the server's profile on the appliance"}
}
