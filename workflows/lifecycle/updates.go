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

// update is one update of a family F.
type update[F family, In contract.Input, Out any] struct {
	name, about string
	// validate refuses without leaving history. It is called again when the handler runs.
	validate func(F, In) error
	do       func(F, workflow.Context, In) (Out, error)
	// replayed answers an update that was carried out before, under its ID.
	replayed func(d F, ctx workflow.Context, in In) (Out, error)
	// validateOnArrival refuses only when the update arrives, after validate. It is never
	// replayed, so that it may depend on this worker's settings.
	validateOnArrival func(F, workflow.Context, In) error
}

func (u *update[F, In, Out]) named() string { return u.name }

// updatesByName are all updates.
var updatesByName = byName(
	enrollUpdate, claimUpdate, burnUpdate, unclaimUpdate, bindUpdate, unbindUpdate, rebuildUpdate,
	cleanUpdate, abortUpdate, releaseHoldUpdate, provideUpdate, manageUpdate, maintainUpdate, retireUpdate, forgetUpdate,
	replaceUpdate, moveUpdate, labelUpdate, powerUpdate, overrideUpdate, migrateUpdate,
)

func byName(all ...interface{ named() string }) map[string]any {
	named := map[string]any{}
	for _, u := range all {
		named[u.named()] = u
	}
	return named
}

// The updates, which all devices of a worker share.
var (
	enrollUpdate = &update[enrollment, contract.EnrollInput, contract.Result]{contract.UpdateEnroll, "Enroll this device",
		enrollment.validate, enrollment.enroll, already[enrollment, contract.EnrollInput], nil}

	claimUpdate = &update[binding, contract.BindInput, contract.BindResult]{contract.UpdateClaim, "Hold the device for an instance until a deadline",
		binding.validateClaim, binding.claim, binding.claimReplayed, nil}
	burnUpdate = &update[binding, contract.BindInput, contract.BindResult]{contract.UpdateBurn, "Burn a claimed device and bind it to its instance",
		binding.validateBurn, binding.burn, binding.burnReplayed, nil}
	unclaimUpdate = &update[binding, contract.BindInput, contract.Result]{contract.UpdateUnclaim, "Cancel a claim before its burn",
		binding.validateUnclaim, binding.unclaim, already[binding, contract.BindInput], nil}
	bindUpdate = &update[binding, contract.BindInput, contract.BindResult]{contract.UpdateBind, "Claim and burn in one",
		binding.validateClaim, binding.bind, binding.bindReplayed, nil}
	unbindUpdate = &update[binding, contract.UnbindInput, contract.Result]{contract.UpdateUnbind, "End an instance's binding; cleaning begins automatically",
		binding.validateUnbind, binding.unbind, already[binding, contract.UnbindInput], nil}
	rebuildUpdate = &update[binding, contract.UnbindInput, contract.Result]{contract.UpdateRebuild, "The instance is rebuilt in place; nothing is cleaned",
		binding.validateRebuild, binding.rebuild, already[binding, contract.UnbindInput], nil}

	cleanUpdate = &update[operations, contract.CleanInput, contract.Result]{contract.UpdateClean, "Clean a device in state error, or run named steps on a manageable one",
		operations.validateClean, operations.clean, already[operations, contract.CleanInput], operations.validatePlan}
	abortUpdate = &update[operations, contract.ReasonInput, contract.Result]{contract.UpdateAbort, "End the running clean; the device goes to state error",
		operations.validateAbort, operations.abort, already[operations, contract.ReasonInput], nil}
	releaseHoldUpdate = &update[operations, contract.ReasonInput, contract.Result]{contract.UpdateReleaseHold, "Go on with a clean that its runbook holds",
		operations.validateReleaseHold, operations.releaseHold, already[operations, contract.ReasonInput], nil}
	provideUpdate = &update[operations, contract.ReasonInput, contract.Result]{contract.UpdateProvide, "Offer a manageable device to tenants, after a clean",
		operations.validateProvide, operations.provide, already[operations, contract.ReasonInput], nil}
	manageUpdate = &update[operations, contract.ReasonInput, contract.Result]{contract.UpdateManage, "Take the device out of the pool",
		operations.validateManage, operations.manage, already[operations, contract.ReasonInput], nil}
	maintainUpdate = &update[operations, contract.MaintainInput, contract.Result]{contract.UpdateMaintain, "Begin or end the operator's maintenance",
		operations.validateMaintain, operations.maintain, already[operations, contract.MaintainInput], nil}
	retireUpdate = &update[operations, contract.ReasonInput, contract.Result]{contract.UpdateRetire, "Take the device out of service permanently",
		operations.validateRetire, operations.retire, already[operations, contract.ReasonInput], nil}
	forgetUpdate = &update[operations, contract.ReasonInput, contract.Result]{contract.UpdateForget, "End a retired device's workflow",
		operations.validateForget, operations.forget, already[operations, contract.ReasonInput], nil}

	replaceUpdate = &update[hardware, contract.ReplaceInput, contract.Result]{contract.UpdateReplace, "Other hardware is in the device's slot now",
		hardware.validateReplace, hardware.replace, already[hardware, contract.ReplaceInput], nil}
	moveUpdate = &update[hardware, contract.MoveInput, contract.Result]{contract.UpdateMove, "The device's hardware is in another slot now",
		hardware.validateMove, hardware.move, already[hardware, contract.MoveInput], hardware.validateNewName}
)

// register sets every update and query.
func (d *run) register(ctx workflow.Context) error {
	if d.State.Host.Power {
		d.registerPower(ctx)
	}
	if d.overridable() {
		d.registerOverride(ctx)
	}
	binds, unbinds, operates := handlersOf(d.parts, bindUpdate), handlersOf(d.parts, unbindUpdate), handlersOf(d.parts, manageUpdate)
	return errors.Join( // in this order, in which the SDK runs updates that came before
		handle(ctx, d.parts, enrollUpdate), operates.handle(ctx, provideUpdate),
		binds.handle(ctx, claimUpdate), binds.handle(ctx, burnUpdate), handle(ctx, d.parts, unclaimUpdate),
		binds.handle(ctx, bindUpdate), unbinds.handle(ctx, unbindUpdate), unbinds.handle(ctx, rebuildUpdate),
		handle(ctx, d.parts, cleanUpdate), operates.handle(ctx, abortUpdate), operates.handle(ctx, releaseHoldUpdate),
		operates.handle(ctx, manageUpdate), handle(ctx, d.parts, maintainUpdate),
		operates.handle(ctx, retireUpdate), operates.handle(ctx, forgetUpdate),
		handle(ctx, d.parts, replaceUpdate), handle(ctx, d.parts, moveUpdate),
		handle(ctx, d.parts, labelUpdate),
		workflow.SetQueryHandlerWithOptions(ctx, contract.QueryDevice,
			func() (contract.DeviceStatus, error) {
				v := status.WithOverrideNumbers(d.Status(), d.State)
				var err error
				v.Bindings, v.Acts = d.State.History, d.State.Acts
				v.Cleans, err = d.State.Archive.Cleans()
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
	)
}

// result is the answer to an update that was carried out.
func (d *parts) result() (contract.Result, error) { return contract.Result{Device: d.Status()}, nil }

// unchanged is the answer to an update that had nothing to change.
func (d *parts) unchanged() (contract.Result, error) {
	return contract.Result{Device: d.Status(), Already: true}, nil
}

// already is the answer to most repeated updates.
func already[F family, In contract.Input](d F, _ workflow.Context, _ In) (contract.Result, error) {
	return partsOf(d).unchanged()
}

func partsOf[F family](d F) *parts { return struct{ *parts }(d).parts }

// handlers are what the SDK calls for the updates of one family whose inputs and results have
// the same types. The updates share them, because every idle device has those of all updates:
// they capture the device alone, and find the update by its name.
type handlers[F family, In contract.Input, Out any] struct {
	do       func(workflow.Context, In) (Out, error)
	validate func(workflow.Context, In) error
}

// handlersOf makes those of a device, for updates like the one given.
func handlersOf[F family, In contract.Input, Out any](d *parts, _ *update[F, In, Out]) handlers[F, In, Out] {
	return handlers[F, In, Out]{
		do: func(ctx workflow.Context, in In) (Out, error) {
			return carryOut(ctx, d, calledUpdate[F, In, Out](ctx), in)
		},
		validate: func(ctx workflow.Context, in In) error {
			u := calledUpdate[F, In, Out](ctx)
			return d.LogRefused(ctx, shownVerb(u.name, in), in, validate(ctx, d, u, in))
		},
	}
}

// calledUpdate is the update that the SDK calls. It is there: handle refuses to register others.
func calledUpdate[F family, In contract.Input, Out any](ctx workflow.Context) *update[F, In, Out] {
	u, _ := updatesByName[workflow.GetCurrentUpdateInfo(ctx).Name].(*update[F, In, Out])
	return u
}

// handle registers one update.
func (h handlers[F, In, Out]) handle(ctx workflow.Context, u *update[F, In, Out]) error {
	if updatesByName[u.name] != any(u) {
		return fmt.Errorf("update %s is not in updatesByName", u.name)
	}
	return workflow.SetUpdateHandlerWithOptions(ctx, u.name, h.do, workflow.UpdateHandlerOptions{Description: u.about, Validator: h.validate})
}

// handle registers an update that shares its handlers with no other.
func handle[F family, In contract.Input, Out any](ctx workflow.Context, d *parts, u *update[F, In, Out]) error {
	return handlersOf(d, u).handle(ctx, u)
}

// carryOut carries out one update. The state records its ID and outcome, because Temporal
// forgets IDs at continue-as-new: a repeated update changes nothing, whichever instance the
// device is bound to by then. It knows its last contract.KeptUpdates.
func carryOut[F family, In contract.Input, Out any](ctx workflow.Context, d *parts, u *update[F, In, Out], in In) (Out, error) {
	ctx, _ = workflow.NewDisconnectedContext(ctx)
	of := F(struct{ *parts }{d})
	var none Out
	id := workflow.GetCurrentUpdateInfo(ctx).ID
	if before, seen := d.Updates().Find(id); seen {
		if before.Refusal != nil {
			return none, contract.Refuse(*before.Refusal)
		}
		return u.replayed(of, ctx, in)
	}
	err := u.validate(of, in)
	if refused := err; err != nil && d.asksRecord(u.name, err) {
		was := d.State.Device
		if err = d.confirm(ctx); err == nil {
			err = u.validate(of, in)
		}
		if d.boundSince(was) {
			err = refused // it came before that bind
		}
	}
	if err != nil {
		return none, d.LogRefused(ctx, shownVerb(u.name, in), in, d.Refusal(shownVerb(u.name, in), err))
	}
	d.Updates().Record(id, nil)
	act := in.Act()
	act.Verb, act.Request = u.name, id
	d.Updates().Accept(ctx, act)
	ctx = record.WithAct(ctx, act)
	var out Out
	out, err = u.do(of, ctx, in)
	if err != nil {
		err = d.Refusal(shownVerb(u.name, in), err)
		refusal, ok := contract.RefusalOf(err)
		if !ok { // an error that is no refusal fails a repeated update too
			refusal.Fault = *calls.FaultOf(err)
		}
		d.Updates().Record(id, &refusal)
		d.State.LastRefusal = refusal.Fault.Message
		d.Updates().Fail(id, refusal.Fault.Code)
		err = d.LogRefused(ctx, shownVerb(u.name, in), in, err)
	} else if unchanged(out) {
		d.Updates().Drop(id)
	}
	d.Publish()
	return out, err
}

// validate refuses an update when it arrives, without leaving history.
func validate[F family, In contract.Input, Out any](ctx workflow.Context, d *parts, u *update[F, In, Out], in In) error {
	of := F(struct{ *parts }{d})
	id := workflow.GetCurrentUpdateInfo(ctx).ID
	if _, seen := d.Updates().Find(id); seen {
		return nil
	}
	if d.Updates().OtherBody(id) {
		return d.Refuse(device.CodeRequestReused, "another request was sent under this request's key", "give each request its own key")
	}
	return d.validateUpdate(u.name, in, func() error {
		err := u.arrive(of, ctx, in)
		if d.asksRecord(u.name, err) {
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
	case contract.UpdateUnbind, contract.UpdateRebuild:
	case contract.UpdateBind, contract.UpdateBurn:
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
	case !d.State.Enrolled && name != contract.UpdateEnroll:
		return d.Refuse(device.CodeNotFound, "this device is not enrolled", "enroll it first")
	case tooLong(in):
		return d.Refuse(device.CodeInvalid, fmt.Sprintf("the request is longer than %d KiB", maxInput>>10), "shorten its texts")
	}
	return arrive()
}

// shownVerb is the update as a refusal names it: claim and burn by an instance's workflow are
// the bind that its client asked for.
func shownVerb(name string, in any) string {
	if bind, ok := in.(contract.BindInput); ok && bind.Managed && (name == contract.UpdateClaim || name == contract.UpdateBurn) {
		return contract.UpdateBind
	}
	return name
}

// unchanged says that an update found nothing to change.
func unchanged(answer any) bool {
	switch a := answer.(type) {
	case contract.Result:
		return a.Already
	case contract.BindResult:
		return a.Already
	}
	return false
}

// maxInput bounds one message: the state keeps parts of up to twenty, and must stay far
// below Temporal's limit of 2 MiB.
const maxInput = 16 << 10

func tooLong(in any) bool {
	text, err := json.Marshal(in)
	return err != nil || len(text) > maxInput
}
