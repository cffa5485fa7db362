package lifecycle

import (
	"encoding/json"
	"errors"
	"fmt"

	"go.temporal.io/sdk/workflow"

	"burnish/internal/device"
	"burnish/workflows/calls"
	"burnish/workflows/contract"
	"burnish/workflows/lifecycle/record"
	"burnish/workflows/lifecycle/status"
)

// family is a group of updates that work on a device's parts: enrollment, binding,
// operations, hardware.
type family interface{ ~struct{ *parts } }

// update is what a family F does when a verb is asked of the device.
type update[F family, In contract.Input] struct {
	asked contract.Verb
	// validate refuses without leaving history. It is called again when the handler runs.
	validate func(F, In) error
	do       func(F, workflow.Context, In) (contract.Result, error)
	// replayed answers an update that was carried out before, under its ID; nil says that nothing had to
	// change.
	replayed func(d F, ctx workflow.Context, in In) (contract.Result, error)
	// arriving refuses only when the update arrives, after validate. It is never replayed, so that it
	// may depend on this worker's settings.
	arriving func(F, workflow.Context, In) error
	// ahead is the dry run of what validate does not refuse; nil: there is none.
	ahead func(F, In) (contract.DryRun, error)
}

// act is an update, whatever its family and its input.
type act interface {
	verb() contract.Verb
	register(ctx workflow.Context, d *parts) error
	dryRun(d *parts, input json.RawMessage) contract.DryRun
}

// acts are what a device does on each verb, in the order in which the SDK runs updates that came before
// they were registered.
var acts = []act{
	&update[enrollment, contract.EnrollInput]{asked: contract.VerbEnroll, validate: enrollment.validate, do: enrollment.enroll},

	&update[binding, contract.BindInput]{asked: contract.VerbClaim, validate: binding.validateClaim, do: binding.claim, replayed: binding.claimReplayed},
	&update[binding, contract.BindInput]{asked: contract.VerbBurn, validate: binding.validateBurn, do: binding.burn, replayed: binding.burnReplayed},
	&update[binding, contract.BindInput]{asked: contract.VerbUnclaim, validate: binding.validateUnclaim, do: binding.unclaim},
	&update[binding, contract.BindInput]{asked: contract.VerbBind, validate: binding.validateClaim, do: binding.bind, replayed: binding.bindReplayed},
	&update[binding, contract.UnbindInput]{asked: contract.VerbUnbind, validate: binding.validateUnbind, do: binding.unbind},
	&update[binding, contract.UnbindInput]{asked: contract.VerbRebuild, validate: binding.validateRebuild, do: binding.rebuild},

	&update[operations, contract.ReasonInput]{asked: contract.VerbProvide, validate: operations.validateProvide, do: operations.provide,
		ahead: operations.aheadProvide},
	&update[operations, contract.CleanInput]{asked: contract.VerbClean, validate: operations.validateClean, do: operations.clean,
		arriving: operations.validatePlan, ahead: operations.aheadClean},
	&update[operations, contract.ReasonInput]{asked: contract.VerbAbort, validate: operations.validateAbort, do: operations.abort,
		ahead: operations.aheadAbort},
	&update[operations, contract.ReasonInput]{asked: contract.VerbReleaseHold, validate: operations.validateReleaseHold, do: operations.releaseHold,
		ahead: operations.aheadReleaseHold},
	&update[operations, contract.TenantInput]{asked: contract.VerbManage, validate: operations.validateManage, do: operations.manage,
		ahead: operations.aheadManage},
	&update[operations, contract.MaintenanceInput]{asked: contract.VerbMaintain, validate: operations.validateMaintain, do: operations.maintain,
		ahead: operations.aheadMaintain},
	&update[operations, contract.LabelInput]{asked: contract.VerbLabel, validate: operations.validateLabel, do: operations.label,
		ahead: operations.aheadLabel},
	&update[operations, contract.RetireInput]{asked: contract.VerbRetire, validate: operations.validateRetire, do: operations.retire,
		ahead: operations.aheadRetire},
	&update[operations, contract.TenantInput]{asked: contract.VerbForget, validate: operations.validateForget, do: operations.forget,
		ahead: operations.aheadForget},
	&update[hardware, contract.ReplaceInput]{asked: contract.VerbReplace, validate: hardware.validateReplace, do: hardware.replace,
		ahead: hardware.aheadReplace},
	&update[hardware, contract.MoveInput]{asked: contract.VerbMove, validate: hardware.validateMove, do: hardware.move,
		arriving: hardware.validateNewName, ahead: hardware.aheadMove},

	&update[operations, contract.PowerInput]{asked: contract.VerbPower, validate: operations.validatePower, do: operations.power},
	&update[operations, contract.OverrideInput]{asked: contract.VerbOverride, validate: operations.validateOverride, do: operations.override,
		arriving: operations.validateSignature},
	&update[operations, contract.ReasonInput]{asked: contract.VerbMigratePool, validate: operations.validateMigrate, do: operations.migrate},
}

// register sets every update and query.
func (d *run) register(ctx workflow.Context) error {
	var failed []error
	for _, a := range acts {
		failed = append(failed, a.register(ctx, d.parts))
	}
	return errors.Join(append(failed,
		workflow.SetQueryHandlerWithOptions(ctx, contract.QueryDevice,
			func() (contract.DeviceStatus, error) {
				v := status.WithOverrideNumbers(d.Status(), d.State)
				var err error
				v.Bindings, v.Acts = d.State.History, d.State.Acts
				v.Cleans, err = d.State.Archive.Cleans()
				if p, unreadable := device.ParseProperties(d.State.Host.Identity.Properties); unreadable == nil {
					v.Setup = p.Setup // the steps say what is unreadable
				}
				return v, err
			},
			workflow.QueryHandlerOptions{Description: "The device as `burnish show` prints it"}),
		workflow.SetQueryHandlerWithOptions(ctx, contract.QueryDiscovery,
			func() (contract.DiscoveryResult, error) { return d.State.Host, nil },
			workflow.QueryHandlerOptions{Description: "What the host last discovered of the device"}),
		workflow.SetQueryHandlerWithOptions(ctx, contract.QueryValidate,
			//workflowcheck:ignore its plan is shown, and decides nothing
			func(in contract.CleanInput) (contract.CleanPlan, error) { return operations{d.parts}.plan(in), nil },
			workflow.QueryHandlerOptions{Description: "What a clean would do"}),
		workflow.SetQueryHandlerWithOptions(ctx, contract.QueryDryRun,
			//workflowcheck:ignore it is shown, and decides nothing
			func(in contract.DryRunInput) (contract.DryRun, error) { return d.answerDryRun(in), nil },
			workflow.QueryHandlerOptions{Description: "What an update would do"}),
	)...)
}

// result is the answer to an update that was carried out.
func (d *parts) result() (contract.Result, error) { return contract.Result{Device: d.Status()}, nil }

// unchanged is the answer to an update that had nothing to change.
func (d *parts) unchanged() (contract.Result, error) {
	return contract.Result{Device: d.Status(), Already: true}, nil
}

func partsOf[F family](d F) *parts { return struct{ *parts }(d).parts }

func (u *update[F, In]) verb() contract.Verb { return u.asked }

func (u *update[F, In]) register(ctx workflow.Context, d *parts) error {
	do := func(ctx workflow.Context, in In) (contract.Result, error) { return u.carryOut(ctx, d, in) }
	arrive := func(ctx workflow.Context, in In) error {
		return d.LogRefused(ctx, u.shown(in), in, u.arrives(ctx, d, in))
	}
	return workflow.SetUpdateHandlerWithOptions(ctx, u.asked.Update(), do,
		workflow.UpdateHandlerOptions{Description: u.asked.About, Validator: arrive})
}

// carryOut carries out one update. The state records its ID and outcome, because Temporal
// forgets IDs at continue-as-new: a repeated update changes nothing, whichever instance the
// device is bound to by then. It knows its last contract.KeptUpdates.
func (u *update[F, In]) carryOut(ctx workflow.Context, d *parts, in In) (contract.Result, error) {
	ctx, _ = workflow.NewDisconnectedContext(ctx)
	of := F(struct{ *parts }{d})
	var none contract.Result
	id := workflow.GetCurrentUpdateInfo(ctx).ID
	if before, seen := d.Updates().Find(id); seen {
		if before.Refusal != nil {
			return none, contract.Refuse(*before.Refusal)
		}
		if u.replayed == nil {
			return d.unchanged()
		}
		return u.replayed(of, ctx, in)
	}
	err := u.validate(of, in)
	if refused := err; err != nil && d.asksRecord(u.asked.Update(), err) {
		was := d.State.Device
		if err = d.confirm(ctx); err == nil {
			err = u.validate(of, in)
		}
		if d.boundSince(was) {
			err = refused // it came before that bind
		}
	}
	if err != nil {
		return none, d.LogRefused(ctx, u.shown(in), in, d.Refusal(u.shown(in), err))
	}
	d.Updates().Record(id, nil)
	act := in.Act()
	act.Verb, act.Request = u.asked.Update(), id
	d.Updates().Accept(ctx, act)
	ctx = record.WithAct(ctx, act)
	out, err := u.do(of, ctx, in)
	if err != nil {
		err = d.Refusal(u.shown(in), err)
		refusal, ok := contract.RefusalOf(err)
		if !ok { // an error that is no refusal fails a repeated update too
			refusal.Fault = *calls.FaultOf(err)
		}
		d.Updates().Record(id, &refusal)
		d.State.LastRefusal = refusal.Fault.Message
		d.Updates().Fail(id, refusal.Fault.Code)
		err = d.LogRefused(ctx, u.shown(in), in, err)
	} else if out.Already {
		d.Updates().Drop(id)
	}
	d.Publish()
	return out, err
}

// arrives refuses an update when it arrives, without leaving history.
func (u *update[F, In]) arrives(ctx workflow.Context, d *parts, in In) error {
	of := F(struct{ *parts }{d})
	id := workflow.GetCurrentUpdateInfo(ctx).ID
	if _, seen := d.Updates().Find(id); seen {
		return nil
	}
	if d.Updates().OtherBody(id) {
		return d.Refuse(device.CodeRequestReused, "another request was sent under this request's key", "give each request its own key")
	}
	return d.validateUpdate(u.asked.Update(), in, func() error {
		err := u.arrive(of, ctx, in)
		if d.asksRecord(u.asked.Update(), err) {
			return nil // the inventory is asked first
		}
		return err
	})
}

// asksRecord says that a refusal states who has the device, by the memory of this workflow alone:
// that may be older than the inventory's record, which is read first (SAFETY F36). A bind that is
// refused because the device is not offered takes another one.
func (d *parts) asksRecord(name string, refused error) bool {
	switch name {
	case contract.VerbUnbind.Update(), contract.VerbRebuild.Update():
	case contract.VerbBind.Update(), contract.VerbBurn.Update():
		if d.State.Device.State != device.Allocated {
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

// validateUpdate refuses what no device could carry out, and else what arrive refuses.
func (d *parts) validateUpdate(name string, in any, arrive func() error) error {
	switch {
	case !d.State.Enrolled && name != contract.VerbEnroll.Update():
		return d.Refuse(device.CodeNotFound, "this device is not enrolled", "enroll it first")
	case tooLong(in):
		return d.Refuse(device.CodeInvalid, fmt.Sprintf("the request is longer than %d KiB", maxInput>>10), "shorten its texts")
	}
	return arrive()
}

// shown is the update as a refusal names it: claim and burn by an instance's workflow are the bind that
// its client asked for.
func (u *update[F, In]) shown(in In) string {
	name := u.asked.Update()
	if bind, ok := any(in).(contract.BindInput); ok && bind.Managed && (name == contract.VerbClaim.Update() || name == contract.VerbBurn.Update()) {
		return contract.VerbBind.Update()
	}
	return name
}

// maxInput bounds one message: the state keeps parts of up to twenty, and must stay far
// below Temporal's limit of 2 MiB.
const maxInput = 16 << 10

func tooLong(in any) bool {
	text, err := json.Marshal(in)
	return err != nil || len(text) > maxInput
}
