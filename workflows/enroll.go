package workflows

import (
	"cmp"
	"fmt"
	"strings"

	"go.temporal.io/sdk/workflow"

	"burnish/internal/device"
	"burnish/workflows/contract"
)

func (d *lifecycle) validateEnroll(in contract.EnrollInput) error {
	if !d.state.Enrolled {
		return nil
	}
	have, want := d.state.Enrollment, in.Enrollment
	switch {
	case !strings.EqualFold(have.Host, want.Host):
		return d.enrolledDifferently("host", have.Host)
	case have.Driver != want.Driver:
		return d.enrolledDifferently("driver", have.Driver)
	case have.Address != want.Address:
		return d.enrolledDifferently("address", have.Address)
	case have.Owner != want.Owner:
		return d.enrolledDifferently("owner", string(have.Owner))
	case have.OneTimeUse != want.OneTimeUse:
		return d.enrolledDifferently("one-time-use", fmt.Sprint(have.OneTimeUse))
	case !equal(have.Settings, want.Settings):
		return d.enrolledDifferently("settings", formatSettings(have.Settings))
	}
	return nil
}

func (d *lifecycle) enrolledDifferently(what, have string) error {
	return d.refuse(device.CodeAlreadyExists, fmt.Sprintf("the device is already enrolled with another %s (%s)", what, have),
		fmt.Sprintf("retire %s and forget it first", d.state.Name))
}

// written gives settings as an operator writes them.
func formatSettings(settings map[string]string) string {
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
		return d.enrollEnrolled(ctx, in)
	}
	d.enrolling = true
	err := d.enrollNew(ctx, in)
	d.enrolling = false
	if err != nil {
		// The run ends as failed: one that ends in order says that the device was
		// forgotten.
		d.finished, d.finishErr = !d.state.Enrolled, d.refusal(contract.UpdateEnroll, err)
		return contract.Result{}, err
	}
	d.finished, d.finishErr = false, nil
	return contract.Result{Device: d.status(), Note: d.state.Host.Note}, nil
}

// enrollAgain is an enrolment of what is enrolled: it must be the same one. What it asks
// for besides is done: a device that its host found by itself waits for its provide.
func (d *lifecycle) enrollEnrolled(ctx workflow.Context, in contract.EnrollInput) (contract.Result, error) {
	if err := d.validateEnroll(in); err != nil {
		return contract.Result{}, err
	}
	if !in.Provide || d.state.Device.State != device.Manageable {
		return contract.Result{Device: d.status(), Already: true}, nil
	}
	_, err := d.provide(ctx, contract.ReasonInput{Reason: "enrolled"})
	return contract.Result{Device: d.status(), Note: d.state.Host.Note}, err
}

func (d *lifecycle) enrollNew(ctx workflow.Context, in contract.EnrollInput) error {
	if in.Enrollment.Name != d.state.Name {
		return d.refuse(device.CodeInvalid, "the enrolment names "+in.Enrollment.Name, "enrol each device under its own name")
	}
	d.newState(ctx, in.Enrollment)
	d.state.Enrolled = false
	if in.Import {
		return d.importNew(ctx, in.Provider)
	}
	if err := d.discover(limitedRetries(onHost(ctx, in.Enrollment.Host, "discover "+d.state.Name, hostResponseTimeout))); err != nil {
		f := faultOf(err)
		d.notifyOther(ctx, f)
		if f.Code == device.CodeHostUnreachable {
			f.Message = "no worker of host " + in.Enrollment.Host + " answered: nothing was enrolled"
			f.Remedy = "start burnish-worker there with BURNISH_HOST=" + in.Enrollment.Host + ", or correct --host"
		}
		return f
	}
	if f := d.state.Host.Excluded; f != nil { // S2.25
		d.forgetOnHost(ctx, d.state.Enrollment)
		return f
	}
	if err := d.checkSerialUnique(ctx, d.state.Host.Identity.Serial); err != nil {
		d.forgetOnHost(ctx, d.state.Enrollment)
		return err
	}
	stock, err := d.ensureProvider(ctx)
	if err != nil {
		d.forgetOnHost(ctx, d.state.Enrollment)
		return faultOf(err)
	}
	var known contract.PreviousRun
	if err := workflow.ExecuteActivity(withClientDeadline(ctx, "recall "+d.state.Name), contract.ActivityFindPreviousRun, d.state.Name).Get(ctx, &known); err != nil {
		d.forgetOnHost(ctx, d.state.Enrollment)
		return faultOf(err)
	}
	if d.knownToHost || known.RunID != "" {
		// An earlier workflow of this device was ended from outside: what it knew of a
		// tenant counts, and this enrolment proves nothing.
		d.state.Enrolled = true
		d.invalidate(ctx, nil, "it was enrolled before and its workflow was ended from outside")
		d.state.Intent.Rediscover = false
		return nil
	}
	policy := d.settings(ctx)
	vouched := in.Enrollment.OperatorAssertsClean && !policy.OnEnroll
	if err := d.apply(ctx, device.Event{Kind: device.Enroll, AssertedClean: vouched}); err != nil {
		return err
	}
	d.state.Enrolled = true
	if stock.Used > 0 { // another service gave it out before it was enrolled
		d.observed(ctx, stock)
		return nil
	}
	if in.Enrollment.OperatorAssertsClean && !vouched {
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
func (d *lifecycle) importNew(ctx workflow.Context, listed string) error {
	if d.ownedByBurnish() {
		return d.refuse(device.CodeInvalid, "only a device of another owner can be imported", "enrol it")
	}
	in := d.reservationRequest()
	in.Driver = d.state.Enrollment.Driver
	var stock contract.ReservationSnapshot
	if err := d.inventory(ctx, withClientDeadline(ctx, "look at "+d.state.Name), contract.ActivityReadReservation, in, &stock); err != nil {
		return faultOf(err)
	}
	var known contract.PreviousRun
	if err := workflow.ExecuteActivity(withClientDeadline(ctx, "recall "+d.state.Name), contract.ActivityFindPreviousRun, d.state.Name).Get(ctx, &known); err != nil {
		return faultOf(err)
	}
	d.state.Enrolled, d.state.Enrollment.Imported = true, true
	// Until the host has said so, nobody knows that nothing can erase it (D4).
	d.state.Device.Cleanable = true
	if known.RunID != "" {
		d.invalidate(ctx, nil, "it was enrolled before and its workflow was ended from outside")
		return nil
	}
	if err := d.apply(ctx, device.Event{Kind: device.Import}); err != nil {
		return err
	}
	d.state.Intent.Import, d.state.Intent.Rediscover = true, true
	d.state.Intent.ImportProvider = cmp.Or(listed, stock.Provider)
	return nil
}

// forgetOnHost has the host forget the device, so that another may take its place. A
// host that does not answer learns it at its next start.
func (d *lifecycle) forgetOnHost(ctx workflow.Context, e contract.Enrollment) {
	opts := limitedRetries(onHost(ctx, e.Host, "forget "+e.Name, hostResponseTimeout))
	in := contract.DiscoverInput{Enrollment: e, UUID: contract.DeviceUUID(e.Name)}
	if err := workflow.ExecuteActivity(opts, contract.ActivityForget, in).Get(opts, nil); err != nil {
		d.log.Warn("the host did not forget the device now; it will at its next start", "device", e.Name, "error", err)
	}
}
