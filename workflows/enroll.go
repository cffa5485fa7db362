package workflows

import (
	"cmp"
	"fmt"
	"strings"

	"go.temporal.io/sdk/workflow"

	"burnish/internal/device"
	"burnish/workflows/contract"
)

func (d *lifecycle) mayEnroll(in contract.EnrollInput) error {
	if !d.state.Enrolled {
		return nil
	}
	have, want := d.state.Enrolment, in.Enrolment
	switch {
	case !strings.EqualFold(have.Host, want.Host):
		return d.enrolledOtherwise("host", have.Host)
	case have.Driver != want.Driver:
		return d.enrolledOtherwise("driver", have.Driver)
	case have.Address != want.Address:
		return d.enrolledOtherwise("address", have.Address)
	case have.Owner != want.Owner:
		return d.enrolledOtherwise("owner", string(have.Owner))
	case have.OneTimeUse != want.OneTimeUse:
		return d.enrolledOtherwise("one-time-use", fmt.Sprint(have.OneTimeUse))
	case !equal(have.Settings, want.Settings):
		return d.enrolledOtherwise("settings", written(have.Settings))
	}
	return nil
}

func (d *lifecycle) enrolledOtherwise(what, have string) error {
	return d.refuse(device.CodeAlreadyExists, fmt.Sprintf("the device is already enrolled with another %s (%s)", what, have),
		fmt.Sprintf("retire %s and forget it first", d.state.Name))
}

// written gives settings as an operator writes them.
func written(settings map[string]string) string {
	var pairs []string
	for _, key := range workflow.DeterministicKeys(settings) {
		pairs = append(pairs, key+"="+settings[key])
	}
	return strings.Join(pairs, ",")
}

func equal(a, b map[string]string) bool {
	if len(a) != len(b) {
		return false
	}
	for _, k := range workflow.DeterministicKeys(a) {
		if v, ok := b[k]; !ok || v != a[k] {
			return false
		}
	}
	return true
}

// enroll has the host look at the device and the inventory hold it burned, and only
// then makes it a device. What is refused leaves nothing behind: the workflow ends.
func (d *lifecycle) enroll(ctx workflow.Context, in contract.EnrollInput) (contract.Result, error) {
	if err := d.lock.Lock(ctx); err != nil {
		return contract.Result{}, err
	}
	defer d.lock.Unlock()
	if d.state.Enrolled {
		return d.enrollAgain(ctx, in)
	}
	d.enrolling = true
	err := d.enrollOnce(ctx, in)
	d.enrolling = false
	if err != nil {
		// The run ends as failed: one that ends in order says that the device was
		// forgotten.
		d.over, d.ended = !d.state.Enrolled, d.refusal(contract.UpdateEnroll, err)
		return contract.Result{}, err
	}
	d.over, d.ended = false, nil
	return contract.Result{View: d.view(), Note: d.state.Host.Note}, nil
}

// enrollAgain is an enrolment of what is enrolled: it must be the same one. What it asks
// for besides is done: a device that its host found by itself waits for its provide.
func (d *lifecycle) enrollAgain(ctx workflow.Context, in contract.EnrollInput) (contract.Result, error) {
	if err := d.mayEnroll(in); err != nil {
		return contract.Result{}, err
	}
	if !in.Provide || d.state.Device.State != device.Manageable ||
		!since(ctx, enrolledIsProvided) {
		return contract.Result{View: d.view(), Already: true}, nil
	}
	_, err := d.provide(ctx, contract.ReasonInput{Reason: "enrolled"})
	return contract.Result{View: d.view(), Note: d.state.Host.Note}, err
}

func (d *lifecycle) enrollOnce(ctx workflow.Context, in contract.EnrollInput) error {
	if in.Enrolment.Name != d.state.Name {
		return d.refuse(device.CodeInvalid, "the enrolment names "+in.Enrolment.Name, "enrol each device under its own name")
	}
	d.begin(ctx, in.Enrolment)
	d.state.Enrolled = false
	if in.Import {
		return d.importOnce(ctx, in.Provider)
	}
	if err := d.discover(seldom(onHost(ctx, in.Enrolment.Host, "discover "+d.state.Name, hostAnswersWithin))); err != nil {
		f := faultOf(err)
		d.warnOther(ctx, f)
		if f.Code == device.CodeHostUnreachable {
			f.Message = "no worker of host " + in.Enrolment.Host + " answered: nothing was enrolled"
			f.Remedy = "start burnish-worker there with BURNISH_HOST=" + in.Enrolment.Host + ", or correct --host"
		}
		return f
	}
	if f := d.state.Host.Excluded; f != nil { // S2.25
		d.forgetOnHost(ctx, d.state.Enrolment)
		return f
	}
	if err := d.seenElsewhere(ctx, d.state.Host.Identity.Serial); err != nil {
		d.forgetOnHost(ctx, d.state.Enrolment)
		return err
	}
	stock, err := d.publish(ctx)
	if err != nil {
		d.forgetOnHost(ctx, d.state.Enrolment)
		return faultOf(err)
	}
	var known contract.Recalled
	if err := workflow.ExecuteActivity(withAnswer(ctx, "recall "+d.state.Name), contract.ActivityRecall, d.state.Name).Get(ctx, &known); err != nil {
		d.forgetOnHost(ctx, d.state.Enrolment)
		return faultOf(err)
	}
	if d.remembered || known.RunID != "" {
		// An earlier workflow of this device was ended from outside: what it knew of a
		// tenant counts, and this enrolment proves nothing.
		d.state.Enrolled = true
		d.doubt(ctx, nil, "it was enrolled before and its workflow was ended from outside")
		d.state.Intent.Discover = false
		return nil
	}
	policy := d.settings(ctx)
	vouched := in.Enrolment.Vouched && !policy.OnEnroll
	if err := d.apply(ctx, device.Event{Kind: device.Enroll, AssertedClean: vouched}); err != nil {
		return err
	}
	d.state.Enrolled = true
	if stock.Used > 0 { // another service gave it out before it was enrolled
		d.observed(ctx, stock)
		return nil
	}
	if in.Enrolment.Vouched && !vouched {
		d.state.LastRefusal = "--clean was not accepted: cleaning on enrolment is on"
	}
	if in.Provide {
		_, err := d.provide(ctx, contract.ReasonInput{Reason: "enrolled"})
		return err
	}
	return nil
}

// importOnce takes a device that another service gave out until now (S2.84): it is
// unknown until the inventory told what it is. Its host looks at it later; a guest may
// have it now. Listed is the provider that the import was asked for by, "" where that is
// not known.
func (d *lifecycle) importOnce(ctx workflow.Context, listed string) error {
	if d.selfOwned() {
		return d.refuse(device.CodeInvalid, "only a device of another owner can be imported", "enrol it")
	}
	in := d.stockInput()
	in.Driver = d.state.Enrolment.Driver
	var stock contract.Stock
	if err := d.inventory(ctx, withAnswer(ctx, "look at "+d.state.Name), contract.ActivityObserve, in, &stock); err != nil {
		return faultOf(err)
	}
	var known contract.Recalled
	if err := workflow.ExecuteActivity(withAnswer(ctx, "recall "+d.state.Name), contract.ActivityRecall, d.state.Name).Get(ctx, &known); err != nil {
		return faultOf(err)
	}
	d.state.Enrolled, d.state.Enrolment.Imported = true, true
	// Until the host has said so, nobody knows that nothing can erase it (D4).
	d.state.Device.Cleanable = true
	if known.RunID != "" {
		d.doubt(ctx, nil, "it was enrolled before and its workflow was ended from outside")
		return nil
	}
	if err := d.apply(ctx, device.Event{Kind: device.Import}); err != nil {
		return err
	}
	d.state.Intent.Import, d.state.Intent.Discover = true, true
	d.state.Intent.ImportProvider = cmp.Or(listed, stock.Provider)
	return nil
}

// forgetOnHost has the host forget the device, so that another may take its place. A
// host that does not answer learns it at its next start.
func (d *lifecycle) forgetOnHost(ctx workflow.Context, e contract.Enrolment) {
	opts := seldom(onHost(ctx, e.Host, "forget "+e.Name, hostAnswersWithin))
	in := contract.DiscoverInput{Enrolment: e, UUID: contract.DeviceUUID(e.Name)}
	if err := workflow.ExecuteActivity(opts, contract.ActivityForget, in).Get(opts, nil); err != nil {
		d.log.Warn("the host did not forget the device now; it will at its next start", "device", e.Name, "error", err)
	}
}
