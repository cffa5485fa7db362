package lifecycle

import (
	"cmp"
	"fmt"
	"strings"

	"go.temporal.io/sdk/workflow"

	"burnish/internal/device"
	"burnish/workflows/calls"
	"burnish/workflows/contract"
	"burnish/workflows/lifecycle/status"
)

// enrollment is the family of the update enroll.
type enrollment struct{ *parts }

func (d enrollment) validate(in contract.EnrollInput) error {
	if !d.State.Enrolled {
		return d.validatePool(in.Enrollment)
	}
	have, want := d.State.Enrollment, in.Enrollment
	switch {
	case !strings.EqualFold(have.Host, want.Host):
		return d.enrolledDifferently("another host", have.Host)
	case have.Driver != want.Driver:
		return d.enrolledDifferently("another driver", have.Driver)
	case have.Address != want.Address:
		return d.enrolledDifferently("another address", have.Address)
	case have.Owner != want.Owner:
		return d.enrolledDifferently("another owner", string(have.Owner))
	case have.OneTimeUse != want.OneTimeUse:
		return d.enrolledDifferently("another one-time-use", fmt.Sprint(have.OneTimeUse))
	case !samePool(have.Pool, want.Pool):
		return d.enrolledDifferently("another pool", formatPool(have.Pool))
	case !equal(have.Settings, want.Settings):
		return d.enrolledDifferently("other settings", formatSettings(have.Settings))
	}
	return nil
}

func (d enrollment) enrolledDifferently(what, have string) error {
	return d.Refuse(device.CodeAlreadyExists, fmt.Sprintf("the device is already enrolled with %s: %s", what, have),
		status.RetireFirst(d.State))
}

// formatSettings writes settings as an operator does.
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

// enroll has the host discover the device and the inventory reserve it, and only then
// makes it a device. A refused enrollment leaves nothing behind: the workflow ends.
func (d enrollment) enroll(ctx workflow.Context, in contract.EnrollInput) (contract.Result, error) {
	if err := d.reservation.Lock(ctx); err != nil {
		return contract.Result{}, err
	}
	defer d.reservation.Unlock()
	if d.State.Enrolled {
		return d.enrollEnrolled(ctx, in)
	}
	d.enrolling = true
	err := d.enrollNew(ctx, in)
	d.enrolling = false
	if err != nil {
		// The run ends as failed, because a completed one means that the device was
		// forgotten.
		d.finished, d.finishErr = !d.State.Enrolled, d.Refusal(contract.VerbEnroll.Update(), err)
		return contract.Result{}, err
	}
	d.finished, d.finishErr = false, nil
	return contract.Result{Device: d.Status(), Note: d.State.Host.Note}, nil
}

// enrollEnrolled handles an enroll of a device that is enrolled already: the enrollment
// must be the same. A provide is carried out, because a device that was discovered
// automatically waits for it.
func (d enrollment) enrollEnrolled(ctx workflow.Context, in contract.EnrollInput) (contract.Result, error) {
	if err := d.validate(in); err != nil {
		return contract.Result{}, err
	}
	if !in.Provide || d.State.Device.State != device.Manageable {
		return d.unchanged()
	}
	_, err := operations(d).provide(ctx, contract.ReasonInput{Reason: "enrolled"})
	return contract.Result{Device: d.Status(), Note: d.State.Host.Note}, err
}

// enrollNew enrolls a device that is not enrolled yet.
func (d enrollment) enrollNew(ctx workflow.Context, in contract.EnrollInput) error {
	if in.Enrollment.Name != d.State.Name {
		return d.Refuse(device.CodeInvalid, "the enrollment is for "+in.Enrollment.Name,
			"enroll each device under its own name")
	}
	d.Begin(ctx, in.Enrollment)
	d.State.Enrolled = false
	if in.Import {
		return d.importNew(ctx, in.Provider)
	}
	if err := d.discovery.Discover(d.discovery.WhileClientWaits(ctx)); err != nil {
		f := calls.FaultOf(err)
		d.discovery.NotifyOther(ctx, f)
		switch {
		case f.Code == device.CodeHostUnreachable:
			f.Message = "no worker of host " + in.Enrollment.Host + " answered: nothing was enrolled"
			f.Remedy = "start burnish-worker there with BURNISH_HOST=" + in.Enrollment.Host + ", or correct --host"
		case f.Code == device.CodeTargetMissing && strings.Contains(f.Remedy, "retire"):
			// The driver speaks of a device in service; this one is not enrolled.
			f.Remedy = "correct the path or address in the enrollment, or attach the device to host " + in.Enrollment.Host +
				", then enroll it again"
		}
		return f
	}
	found, previous, err := d.checkNew(ctx)
	if err != nil {
		if !d.discovery.KnownToHost { // else its record is of a device whose workflow was lost (F35)
			d.discovery.ForgetRefused(ctx, d.State.Enrollment)
		}
		return err
	}
	if d.discovery.KnownToHost || previous.RunID != "" {
		// An earlier workflow of this device was terminated or reset: a tenant that it
		// recorded counts, and this enrollment proves nothing.
		d.State.Enrolled = true
		d.Invalidate(ctx, nil, "it was enrolled before, and its workflow did not end by forget")
		d.State.Intent.Rediscover = false
		return nil
	}
	policy := d.Policy(ctx)
	asserted := in.Enrollment.OperatorAssertsClean && !policy.OnEnroll
	if err := d.Apply(ctx, device.Event{Kind: device.Enroll, AssertedClean: asserted}); err != nil {
		return err
	}
	d.State.Enrolled = true
	if d.reservation.Conclude(ctx, d.reservation.Ask(device.AskReserve), found, nil).Event != "" {
		return nil // another service allocated it before it was enrolled
	}
	if in.Enrollment.OperatorAssertsClean && !asserted {
		d.State.LastRefusal = "--clean was not accepted: cleaning on enrollment is on"
	}
	if in.Provide {
		_, err := operations(d).provide(ctx, contract.ReasonInput{Reason: "enrolled"})
		return err
	}
	return nil
}

// checkNew checks a discovered device against the erase policy, the other devices, the inventory
// and the ended runs of its own workflow.
func (d enrollment) checkNew(ctx workflow.Context) (found device.Inventory, previous contract.PreviousRun, err error) {
	if f := d.State.Host.Excluded; f != nil { // S2.25
		return found, previous, f
	}
	if err := d.validatePool(d.State.Enrollment); err != nil { // its type is known now
		return found, previous, err
	}
	if err := d.discovery.CheckUnique(ctx, d.State.Host.Identity); err != nil {
		return found, previous, calls.FaultOf(err)
	}
	if found, err = d.reservation.EnsureNewProvider(ctx); err != nil {
		return found, previous, calls.FaultOf(err)
	}
	previous, err = d.previousRun(ctx)
	return found, previous, err
}

func (d enrollment) previousRun(ctx workflow.Context) (found contract.PreviousRun, err error) {
	opts := calls.WithClientDeadline(ctx, "previous run of "+d.State.Name)
	if err := d.Look(ctx, opts, contract.ActivityFindPreviousRun, d.State.Name, &found); err != nil {
		return found, calls.FaultOf(err)
	}
	return found, nil
}

// importNew enrolls a device that another service allocated until now (S2.84): it is
// unknown until the inventory is read. Its host discovers it later, because a guest may
// have it now. listed is the provider that the operator saw, "" if that is not known.
func (d enrollment) importNew(ctx workflow.Context, listed string) error {
	if d.OwnedByBurnish() {
		return d.Refuse(device.CodeInvalid, "only a device of another owner can be imported", "enroll it")
	}
	found, err := d.reservation.ReadForImport(ctx)
	if err != nil {
		return calls.FaultOf(err)
	}
	previous, err := d.previousRun(ctx)
	if err != nil {
		return err
	}
	d.State.Enrolled, d.State.Enrollment.Imported = true, true
	d.State.Device.Cleanable = true // until the host's discovery says otherwise (D4)
	if previous.RunID != "" {
		d.Invalidate(ctx, nil, "it was enrolled before, and its workflow did not end by forget")
		return nil
	}
	if err := d.Apply(ctx, device.Event{Kind: device.Import}); err != nil {
		return err
	}
	d.State.Intent.Import, d.State.Intent.Rediscover = true, true
	d.State.Intent.ImportProvider = cmp.Or(listed, found.Provider)
	return nil
}
