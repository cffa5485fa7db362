package lifecycle

import (
	"encoding/json"
	"errors"
	"fmt"

	"burnish/internal/device"
	"burnish/workflows/contract"
)

// verb is what the device does on one verb.
type verb struct {
	asked contract.Verb
	// check refuses what the state does not allow; it is asked again when the request is carried out. arriving refuses
	// only when the request arrives: it may depend on this worker's settings.
	check, arriving func(*State, contract.Input) error
	do              func(*State, *Job)
	// again answers a request that was carried out before, under its ID; nil says that nothing had to change.
	again func(*State, *Job)
	// already says that there is nothing to change; nil: there always is. unchanged answers that.
	already   func(*State) bool
	unchanged func(*State, *Job)
	read      func(json.RawMessage) (contract.Input, error)
}

// on makes the entry of a verb with its type of input.
func on[In contract.Input](asked contract.Verb, check func(*State, In) error, do func(*State, *Job, In),
	more ...func(*verb)) *verb {
	v := &verb{asked: asked,
		check: func(d *State, in contract.Input) error { return check(d, in.(In)) },
		do:    func(d *State, j *Job) { do(d, j, j.In.(In)) },
		read: func(text json.RawMessage) (contract.Input, error) {
			var in In
			err := json.Unmarshal(text, &in)
			return in, err
		},
	}
	for _, change := range more {
		change(v)
	}
	return v
}

func repeated(again func(*State, *Job)) func(*verb) { return func(v *verb) { v.again = again } }

func arriving[In contract.Input](refuse func(*State, In) error) func(*verb) {
	return func(v *verb) { v.arriving = func(d *State, in contract.Input) error { return refuse(d, in.(In)) } }
}

func unless(already func(*State) bool, unchanged func(*State, *Job)) func(*verb) {
	return func(v *verb) { v.already, v.unchanged = already, unchanged }
}

// verbOf finds the entry of a verb by its update.
func verbOf(update string) *verb {
	for _, v := range verbs {
		if v.asked.Update() == update {
			return v
		}
	}
	return nil
}

// Read decodes the input of a verb.
func Read(v contract.Verb, text []byte) (contract.Input, error) { return verbOf(v.Update()).read(text) }

// validate asks again whether a job's request is allowed.
func (d *State) validate(j *Job) error { return verbOf(j.Verb.Update()).check(d, j.In) }

// decide carries out one request. The state records its ID and outcome, because Temporal forgets IDs at
// continue-as-new: a repeated request changes nothing, whichever instance the device is bound to by then. It knows its
// last contract.KeptUpdates.
func (in Asked) decide(d *State) {
	j := d.begin(in.ID)
	j.Verb, j.In = in.Verb, in.In
	v := verbOf(in.Verb.Update())
	if before, seen := d.Recent.Find(in.ID); seen {
		switch {
		case before.Refusal != nil:
			j.Ended, j.Err = true, contract.Refuse(*before.Refusal)
		case v.again == nil:
			j.Ended, j.Result = true, d.unchangedResult()
		default:
			j.Repeated = true
			v.again(d, j)
		}
		return
	}
	err := v.check(d, in.In)
	if err != nil && d.asksRecord(in.Verb, err) {
		j.Claims, j.Refused = d.Claims, err
		d.confirm(j, phRecordAsked)
		return
	}
	d.carryOut(j, err)
}

// recordAsked goes on with a request that was refused by this workflow's memory alone.
func (d *State) recordAsked(j *Job, o Outcome) {
	err := o.err()
	if err == nil {
		err = d.validate(j)
	}
	if d.boundSince(j) {
		err = j.Refused // it came before that bind
	}
	d.carryOut(j, err)
}

func (d *State) carryOut(j *Job, refused error) {
	v := verbOf(j.Verb.Update())
	if refused != nil {
		j.Ended = true
		d.letGo(j)
		j.Err = d.logRefused(j.Verb, j.In, d.refusal(j.Verb, j.In, refused))
		return
	}
	d.Recent = d.Recent.With(contract.RecentUpdate{ID: j.ID})
	j.Act = j.In.Act()
	j.Act.Verb, j.Act.Request = j.Verb.Update(), j.ID
	d.accept(j.Act)
	d.acting = j.Act
	if v.already != nil && v.already(d) {
		v.unchanged(d, j)
		return
	}
	v.do(d, j)
}

// done answers a request.
func (d *State) done(j *Job, result contract.Result, err error) {
	j.Offers = false
	d.letGo(j)
	j.Ended, j.Call, j.Until = true, nil, never
	if j.Repeated {
		j.Result, j.Err = result, d.refusal(j.Verb, j.In, err)
		return
	}
	if err != nil {
		err = d.refusal(j.Verb, j.In, err)
		refusal, ok := contract.RefusalOf(err)
		if !ok { // an error that is no refusal fails a repeated request too
			refusal.Fault = *faultOf(err)
		}
		d.Recent = d.Recent.With(contract.RecentUpdate{ID: j.ID, Refusal: &refusal})
		d.LastRefusal = refusal.Fault.Message
		d.Acts = d.Acts.Failed(j.ID, refusal.Fault.Code)
		err = d.logRefused(j.Verb, j.In, err)
	} else if result.Already {
		d.Acts = d.Acts.Without(j.ID)
	}
	d.Publish = true
	j.Result, j.Err = result, err
}

// Status is the device as clients read it.
func (d *State) Status() contract.DeviceStatus { return Show(d.DeviceState) }

// carriedOut is the answer to a request that was carried out.
func (d *State) carriedOut(j *Job) { d.done(j, contract.Result{Device: d.Status()}, nil) }

func (d *State) refused(j *Job, err error) { d.done(j, contract.Result{}, err) }

// finished is carriedOut, or the refusal.
func (d *State) finished(j *Job, err error) {
	if err != nil {
		d.refused(j, err)
		return
	}
	d.carriedOut(j)
}

// unchanged is the answer to a request that had nothing to change.
func (d *State) unchanged(j *Job) { d.done(j, d.unchangedResult(), nil) }

func (d *State) unchangedResult() contract.Result {
	return contract.Result{Device: d.Status(), Already: true}
}

// Arrives refuses a request when it arrives, without leaving history. It changes nothing.
func (d *State) Arrives(in Asked, by Settings) error {
	was := d.by
	d.by = by
	defer func() { d.by = was }()
	return d.logRefused(in.Verb, in.In, d.refusal(in.Verb, in.In, d.arrival(in)))
}

// Refuses says that Arrives refuses a request, and not in which words, which take longer.
func (d *State) Refuses(in Asked, by Settings) bool {
	was := d.by
	d.by = by
	defer func() { d.by = was }()
	return d.arrival(in) != nil
}

func (d *State) arrival(in Asked) error {
	if _, seen := d.Recent.Find(in.ID); seen {
		return nil
	}
	if d.Recent.OtherBody(in.ID) {
		return d.refuse(device.CodeRequestReused, "another request was sent under this request's key",
			"give each request its own key")
	}
	err := d.refuses(in.Verb, in.In)
	if d.asksRecord(in.Verb, err) {
		return nil // the inventory is asked first
	}
	return err
}

// refuses is why no device could carry out a request, or why this one cannot, by this worker's settings too; nil if it
// can.
func (d *State) refuses(asked contract.Verb, in contract.Input) error {
	switch {
	case !d.Enrolled && asked.Name != contract.VerbEnroll.Name:
		return d.refuse(device.CodeNotFound, "this device is not enrolled", "enroll it first")
	case tooLong(in):
		return d.refuse(device.CodeInvalid, fmt.Sprintf("the request is longer than %d KiB", maxInput>>10),
			"shorten its texts")
	}
	v := verbOf(asked.Update())
	if err := v.check(d, in); err != nil || v.arriving == nil {
		return err
	}
	return v.arriving(d, in)
}

// asksRecord says that a refusal states who has the device, by the memory of this workflow alone: that may be older
// than the inventory's record, which is read first (SAFETY F36). A bind that is refused because the device is not
// offered takes another one.
func (d *State) asksRecord(asked contract.Verb, refused error) bool {
	switch asked.Name {
	case contract.VerbUnbind.Name, contract.VerbRebuild.Name:
	case contract.VerbPower.Name:
		refusal, ok := contract.RefusalOf(refused)
		return ok && refusal.Fault.Code == device.CodeInUse
	case contract.VerbBind.Name, contract.VerbBurn.Name:
		if d.Device.State != device.Allocated {
			return false
		}
	default:
		return false
	}
	if errors.As(refused, new(*device.IllegalError)) {
		return true
	}
	refusal, ok := contract.RefusalOf(refused)
	return ok && (refusal.Fault.Code == device.CodeBindingEnded || refusal.Fault.Code == device.CodeRefused)
}

// shownVerb is a request as its refusal names it: claim and burn by an instance's workflow are the bind that its client
// asked for.
func shownVerb(asked contract.Verb, in contract.Input) string {
	if bind, ok := in.(contract.BindInput); ok && bind.Managed &&
		(asked.Name == contract.VerbClaim.Name || asked.Name == contract.VerbBurn.Name) {
		return contract.VerbBind.Update()
	}
	return asked.Update()
}

// maxInput bounds one message: the state keeps parts of up to twenty, and must stay far below Temporal's limit of 2
// MiB.
const maxInput = 16 << 10

func tooLong(in any) bool {
	text, err := json.Marshal(in)
	return err != nil || len(text) > maxInput
}
