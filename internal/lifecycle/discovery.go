package lifecycle

import (
	"cmp"
	"log/slog"
	"time"

	"burnish/internal/device"
	"burnish/workflows/contract"
)

// This file asks a device's host what the hardware is, and records what follows: the device's identity, the operation
// that erases it (S2.25 to S2.29), and whether its hardware is known under another name (F23, F35).

const (
	clientDeadline = time.Minute
	// hostResponse bounds the wait for a host's worker while a client waits.
	hostResponse = 20 * time.Second
	// hostNotice is how long a step may wait for its host until the wait is recorded.
	hostNotice = 20 * time.Second
	// recentLook is how old the host's last look at a device may be when it is bound.
	recentLook = 5 * time.Second
	// bindLookDeadline bounds a look before a bind: the claim outlasts it, after a question to an appliance too.
	bindLookDeadline = hostResponse + 5*time.Second
	// maxLookAge is how old the host's last look at a device may be when its reservation is lowered. A clean ends with
	// one.
	maxLookAge = 3 * time.Minute
)

// discover has the host discover the device.
func (d *State) discover(j *Job, how How) {
	j.Began = d.now.UTC()
	d.Intent.HardwareChanged = false
	how.Way, how.Host, how.What = ToHost, d.Enrollment.Host, "discover "+d.Name
	in := contract.DiscoverInput{
		Enrollment: d.Enrollment, UUID: d.UUID, Known: d.Host.Identity, Binding: d.Device.Bindings,
		Accept:  d.Device.Returning && d.Device.NotSanitized,
		Offered: d.ownedByBurnish() && d.Device.State == device.Available,
	}
	if j.Run != nil {
		in.Reservation = d.Reservation()
	}
	c := Call{Activity: contract.ActivityDiscover, How: how, In: in}
	if !how.Client {
		c.WaitsFor = contract.WaitHost
	}
	d.make(j, c)
}

// discovered keeps what the host found.
func (d *State) discovered(j *Job, o Outcome) *device.Fault {
	if o.Fault != nil {
		return o.Fault
	}
	j.SeenAt = j.Began // it looked after that
	d.saw(j, j.Began)
	d.keep(*o.Found.(*contract.DiscoveryResult))
	return nil
}

// saw records that the host saw the enrolled device at that time. It does not count if the hardware may have changed
// since: that is looked at for itself.
func (d *State) saw(j *Job, at time.Time) {
	if !d.Intent.HardwareChanged && (j.ID == jobLook || d.job(jobLook) == nil) {
		d.SeenAt = at
	}
}

// seenLately says that the host has just seen the device, and reported no change of the hardware since: it need not
// look again before a bind.
func (d *State) seenLately() bool {
	return !d.Intent.HardwareChanged && d.now.Sub(d.SeenAt) <= recentLook
}

// whileClientWaits is how a host is asked for a result that a client waits for.
func whileClientWaits() How { return How{Client: true, StartWithin: hostResponse} }

// keep records the result of a discovery. An operation that is locked in is replaced only if no clean can be running
// with it (S2.28, S2.29).
func (d *State) keep(found contract.DiscoveryResult) {
	d.Written, found.Written = found.Written && !d.Device.Dirty, false
	found.Statement = ""
	if r := found.Record; r != nil {
		d.Seq, d.Cleans = max(d.Seq, r.Seq), max(d.Cleans, r.Clean)
		d.Device.Bindings = max(d.Device.Bindings, r.Binding)
		d.KnownToHost = r.KnownBefore
		found.Record = nil
	}
	before := d.Host
	d.chooseOperation(&found)
	d.Host = found
	if d.Enrollment.Type == "" {
		d.Enrollment.Type = cmp.Or(found.Type, "DEVICE")
	}
	// A device with capabilities can be erased: one whose operations the policy does not allow has a fault, and is not
	// a device without an erase path (D4).
	d.Device.Cleanable = found.Operation != "" || found.Capabilities != nil
	d.excludeByPolicy(before)
	d.Device.Unit.Serial = found.Identity.Serial
	if serial := found.Identity.Serial; serial != "" && serial != before.Identity.Serial {
		d.Intent.ConfirmSerial = true
	}
	d.Steps = d.by.Steps(d.subject())
}

// chooseOperation sets the device's operation: the locked-in one or, if that may be replaced (S2.28, S2.29), the one
// that the policy chooses now. A policy that the device cannot satisfy excludes the device and replaces
// nothing (S2.25).
func (d *State) chooseOperation(found *contract.DiscoveryResult) {
	s, locked := d.Device.State, d.Host.Operation
	if s != device.Absent && s != device.Available && s != device.Error && locked != "" {
		found.Operation, found.Excluded = locked, d.Host.Excluded
		return
	}
	if found.Capabilities == nil {
		return
	}
	made := d.by.Choose(*found.Capabilities, found.ClearAction, found.ClearStrategy)
	found.Operation, found.Excluded = cmp.Or(made.Operation, locked), made.Fault
	if found.Excluded != nil {
		excluded := *found.Excluded
		excluded.Remedy += "; then refresh " + d.Name
		found.Excluded = &excluded
		d.by.Log(slog.LevelError, "the erase policy excludes the device", "device", d.Name, "error", excluded.Message)
	}
}

// excludeByPolicy takes an available device out of the offer if the erase policy excludes it, or if it no longer has
// one whole namespace (S2.25).
func (d *State) excludeByPolicy(before contract.DiscoveryResult) {
	if d.Device.State != device.Available {
		return
	}
	if f := d.unfit(before); f != nil && d.concludeLook(device.AskHost, device.HostUnfit, false, f).Event != "" {
		d.LastError = f.Message
	}
}

// unfit is the fault of a device that its host found, and that may not be offered: the erase policy excludes it, or it
// no longer has one whole namespace. before is the result of the discovery before.
func (d *State) unfit(before contract.DiscoveryResult) *device.Fault {
	now := d.Host
	if now.Excluded != nil || before.Layout != device.LayoutWhole || now.Layout == device.LayoutWhole {
		return now.Excluded
	}
	return &device.Fault{Class: device.NeedsOperator, Code: device.CodeNamespaceLayoutMismatch,
		Message: "the namespace layout changed although the device was not allocated: it no longer has one whole namespace",
		Remedy:  "find out who changed it, then clean " + d.Name}
}

// lookBeforeOffer has the host look at a clean device right before its reservation is lowered (F27), and records what
// it found. The sequence ends with the fault of a host that did not see the enrolled device as it was, and with whether
// the same look may succeed later. Hardware that is new here is asked for under every other name, until a search that
// found this device itself has confirmed it: that of an imported device was never seen before (F35).
func (d *State) lookBeforeOffer(j *Job, back Phase) { d.share(j, phLook, back) }

func (d *State) look(j *Job) {
	d.Intent.Rediscover = false
	j.Host = d.Host
	d.discover(j, whileClientWaits())
}

func (d *State) lookedFirst(j *Job, o Outcome) {
	f := d.discovered(j, o)
	if f == nil && d.Intent.ConfirmSerial {
		d.enter(j, phLookUnique)
		return
	}
	d.lookEnds(j, f)
}

func (d *State) lookedForOthers(j *Job, o Outcome) { d.lookEnds(j, d.foundOther(j, o)) }

func (d *State) lookEnds(j *Job, f *device.Fault) {
	if device.HostResultOf(f) == device.HostUnreachable {
		f = d.silentHostFault()
	}
	o, f := d.looked(device.AskLook, j.Host, f)
	if f == nil && o.Event != device.Seen {
		f = d.changedMeanwhile()
	}
	d.back(j, Outcome{Fault: f, Again: o.Needs(device.RetryLater)})
}

// bindLook has the host look at a device that is claimed, right before it is burned (F39). What it saw is recorded, as
// by a discovery. Without an answer nothing is known: the claim ends, and the device stays as it is.
func (d *State) bindLook(j *Job) {
	j.Host = d.Host
	how := whileClientWaits()
	how.Within = bindLookDeadline
	d.discover(j, how)
}

// bindLooked is the fault of a look that did not see the enrolled device as Burnish left it, or after which the claim
// does not hold; nil if all is well.
func (d *State) bindLooked(j *Job, o Outcome) *device.Fault {
	f := d.discovered(j, o)
	if f != nil && (device.HostResultOf(f) == device.HostUnreachable || f.Code == device.CodeTimeout) {
		f = d.unseenFault()
	}
	found, f := d.looked(device.AskBindLook, j.Host, f)
	if f == nil && !found.Needs(device.Proceed) {
		f = d.changedMeanwhile()
	}
	return f
}

// unseenFault is the fault of a device that is not bound because its host did not look at it in time.
func (d *State) unseenFault() *device.Fault {
	host := d.Enrollment.Host
	return &device.Fault{Class: device.NeedsOperator, Code: device.CodeHostUnreachable,
		Message: "no worker of host " + host + " looked at the device in time: it is not bound unseen",
		Remedy:  "take another device, or see that burnish-worker runs on " + host + ", and bind again"}
}

// looked concludes from a discovery before the device is offered or bound. f is its fault, before what was known until
// then; it returns the fault of what was found, too.
func (d *State) looked(q device.Question, before contract.DiscoveryResult, f *device.Fault) (device.Observation,
	*device.Fault) {
	if f == nil && d.Written {
		f = d.writtenFault()
	}
	result := device.HostResultOf(f)
	if f == nil {
		if f = d.unfit(before); f != nil {
			result = device.HostUnfit
		}
	}
	duplicate := d.Intent.DuplicateAt != ""
	if duplicate && f == nil {
		f = d.duplicateSerial()
	}
	return d.concludeLook(q, result, duplicate, f), f
}

func (d *State) changedMeanwhile() *device.Fault {
	return &device.Fault{Class: device.Permanent, Code: device.CodeConflict,
		Message: "the device changed while its host looked at it", Remedy: "show " + d.Name}
}

// writtenFault is the fault of a device that others have written to (F39).
func (d *State) writtenFault() *device.Fault {
	f := &device.Fault{Class: device.Permanent, Code: device.CodeForeignWrite,
		Message: "others have written to the device since Burnish did, or changed its file",
		Remedy:  "take another device; this one is cleaned automatically"}
	if d.Device.InMaintenance() {
		f.Class, f.Remedy = device.NeedsOperator, "find out who it was, then clean "+d.Name
	}
	return f
}

// silentHostFault is the fault of a device that is clean, and is not offered because its host does not answer.
func (d *State) silentHostFault() *device.Fault {
	host := d.Enrollment.Host
	remedy := "start burnish-worker on " + host + ", then repeat this"
	if d.Device.Returning {
		remedy = "start burnish-worker on " + host + "; the device is then returned automatically"
	}
	return &device.Fault{Class: device.NeedsOperator, Code: device.CodeHostUnreachable,
		Message: "no worker of host " + host + " looked at the device: it is not offered unseen", Remedy: remedy}
}

// rediscover has the host discover the device again, because it may have changed.
func (d *State) rediscover(j *Job) {
	d.Intent.Rediscover = false
	d.enter(j, phRediscover)
}

func (d *State) rediscovered(j *Job, o Outcome) {
	defer d.drop(j)
	f := d.discovered(j, o)
	if f == nil && d.Written {
		f = d.writtenFault()
	}
	result := device.HostResultOf(f)
	// An unreachable host, or one that finds the device, does not prove that its serial is unique.
	duplicate := d.Intent.DuplicateAt != ""
	if duplicate && result != device.HostOther && result != device.HostAbsent {
		f = d.duplicateSerial()
	}
	if f == nil {
		return
	}
	d.concludeLook(device.AskHost, result, duplicate, f)
	d.LastError = "discovery on the host: " + f.Message
}

// looksAtOnce says that the host must look at hardware that is offered, because it may have changed. The inventory is
// asked first where a guest of Nova's may be the reason; otherwise the look does not wait for it.
func (d *State) looksAtOnce() bool {
	i := d.Intent
	return i.HardwareChanged && d.Device.State == device.Available && (d.ownedByBurnish() || !i.ReadInventory)
}

// concludeLook decides by the table of observations what a discovery means, and records it; f is its fault.
func (d *State) concludeLook(q device.Question, result device.HostResult, duplicate bool,
	f *device.Fault) device.Observation {
	asked := device.Ask(q, d.Device, device.Known{})
	asked.Host, asked.Duplicate = result, duplicate
	o, _ := device.Observe(d.Device, asked)
	switch o.Event {
	case "":
	case device.CleanFailed:
		d.fail(f)
	case device.Seen, device.Unclaim:
		d.must(o.EventOf(false))
	case device.ObservedUnused, device.ReservationChanged: // it is cleaned
		d.must(o.EventOf(o.Event.UsesAutomated() && d.by.Policy().Automated))
		d.LastError, d.Clean = f.Message, nil
		d.countForeignWrite()
	default:
		d.must(device.Event{Kind: o.Event})
		d.Fault, d.LastError = cmp.Or(d.tenantDoubt(), f), f.Message // the next look finds the hardware as it is
	}
	d.Intent.EnsureReserved = d.Intent.EnsureReserved || o.Needs(device.EnsureReserved)
	return o
}

// tenantDoubt is the fault that calls the operator because the device's instance may have left it, which nothing else
// says; nil if there is none.
func (d *State) tenantDoubt() *device.Fault {
	f := d.Fault
	if f == nil || d.Device.Binding == nil || f.Code != device.CodeReservationChanged && f.Code != device.CodeTenantLeft {
		return nil
	}
	return f
}

// findOthers asks for another device that has hardware: two slots with one serial need an operator (F23), and so does
// hardware that is recorded under another name (F35). A listing may miss a device, but a host never accepts the same
// hardware twice.
func (d *State) findOthers(j *Job, of device.Identity, serial, movedFrom string, how How) {
	how.Way = ToInventory
	how.InTask = true
	j.Identity = of
	c := Call{Activity: contract.ActivityFindBySerial, How: how, In: contract.FindBySerialInput{
		Name: d.Name, MovedFrom: movedFrom, Serial: serial, Hardware: of.Hardware()}}
	if !how.Client {
		c.WaitsFor = contract.WaitInventory
	}
	d.make(j, c)
}

// findOthersOf asks while a client waits.
func (d *State) findOthersOf(j *Job, of device.Identity, movedFrom string) {
	d.findOthers(j, of, of.Serial, movedFrom, How{Client: true, What: "serial of " + d.Name})
}

func (d *State) lookForOthers(j *Job) { d.findOthersOf(j, d.Host.Identity, d.MovedFrom) }

// foundOther is the fault of hardware that another device has, which is notified; nil if none has it.
func (d *State) foundOther(j *Job, o Outcome) *device.Fault {
	if o.Fault != nil {
		return o.Fault
	}
	known := o.Found.(*contract.DeviceBySerial)
	f := known.Fault
	switch {
	case known.Name == "":
		return nil
	case f == nil:
		f = &device.Fault{Class: device.NeedsOperator, Code: device.CodeDuplicateSerial, Other: known.Name,
			Message: "serial " + j.Identity.Serial + " belongs to " + known.Name + " already",
			Remedy: "if the hardware was moved, move " + known.Name + " " + d.Name +
				"; if not, find out which device has which hardware"}
	}
	d.notifyOther(f)
	return f
}

// confirmSerial searches once more for another device with a serial that is new here, and fails the device if there is
// one. Of two devices that are enrolled at the same moment, neither finds the other before it is listed itself. This
// search waits until the device is listed, so that the one that is listed last finds the other and notifies it: an
// operator decides about both before either is cleaned or returned (F23).
func (d *State) confirmSerial(j *Job) {
	d.Publish = true
	j.Note = d.Device.Unit.Serial
	d.make(j, Call{Activity: contract.ActivityFindBySerial, How: How{Way: ToInventory, What: "serial of " + d.Name},
		In: contract.FindBySerialInput{Name: d.Name, MovedFrom: d.MovedFrom, Serial: j.Note, Listed: true}})
}

func (d *State) serialConfirmed(j *Job, o Outcome) {
	if o.Fault != nil {
		d.Defect = o.Fault
		d.workEnds(j)
		return
	}
	known := o.Found.(*contract.DeviceBySerial)
	d.Intent.ConfirmSerial = j.Note != d.Device.Unit.Serial // replaced meanwhile
	if known.Name != "" {
		d.Intent.DuplicateAt = known.Name
		f := known.Fault
		if f == nil {
			f = d.duplicateSerial()
		}
		d.notifyOther(f)
		if state := d.Device.State; state == device.PendingCleaning || state == device.Cleaning {
			d.Clean = nil
			d.fail(f)
		}
	}
	d.workEnds(j)
}

// notifyOther makes the other device of a duplicate serial rediscover its hardware now.
func (d *State) notifyOther(f *device.Fault) {
	if f.Other == "" || f.Code != device.CodeDuplicateSerial {
		return
	}
	d.Mail = append(d.Mail, Mail{To: contract.WorkflowID(f.Other), Signal: contract.SignalRefresh,
		In:   contract.Hint{Source: "duplicate serial", DuplicateAt: d.Name},
		Name: "the other device was not notified"})
}

// forgetOnHost has the host forget its record of the device, so that its hardware may be enrolled again. For a host
// that does not answer the name is left with its workflow: the host's worker reads it when it starts, so that the
// device does not come back (F25). The sequence ends with the fault of a name that could not be left.
func (d *State) forgetOnHost(j *Job, e contract.Enrollment, back Phase) {
	j.Enrollment = e
	d.share(j, phForgetOnHost, back)
}

func (d *State) forgetCall(j *Job) {
	e := j.Enrollment
	d.make(j, Call{Activity: contract.ActivityForget,
		How: How{Way: ToHost, Host: e.Host, Client: true, StartWithin: hostResponse, What: "forget " + e.Name},
		In:  contract.DiscoverInput{Enrollment: e, UUID: contract.DeviceUUID(e.Name)}})
}

func (d *State) forgotten(j *Job, o Outcome) {
	if o.Fault == nil {
		d.back(j, o)
		return
	}
	d.by.Log(slog.LevelWarn, "the host did not forget the device; it will at its next start", "device", j.Enrollment.Name,
		"error", o.Fault)
	d.enter(j, phForgetLater)
}

func (d *State) forgetLater(j *Job) {
	e := j.Enrollment
	d.make(j, Call{Activity: contract.ActivityForgetLater, In: contract.ForgetLaterInput{Host: e.Host, Name: e.Name},
		How: How{Way: ToInventory, What: "leave " + e.Name + " for " + e.Host}})
}

// refuseForgetting has the host forget a device whose request is refused for another reason, which the client reads.
func (d *State) refuseForgetting(j *Job, e contract.Enrollment, err error) {
	j.Refused = err
	d.forgetOnHost(j, e, phRefused)
}

func (d *State) refusedForgotten(j *Job, o Outcome) {
	if o.Fault != nil {
		d.by.Log(slog.LevelError, "the host keeps its record of a refused device", "device", j.Enrollment.Name, "error",
			o.Fault)
	}
	if j.Enrolls {
		d.enrollEnds(j, j.Refused)
		return
	}
	d.refused(j, j.Refused)
}
