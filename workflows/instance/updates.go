package instance

import (
	"encoding/json"
	"errors"
	"fmt"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"burnish/internal/device"
	"burnish/internal/tagging"
	"burnish/workflows/calls"
	"burnish/workflows/contract"
)

// maxInput bounds one message.
const maxInput = 64 << 10

// act is what an instance does when a verb is asked of it.
type act[In contract.Input] struct {
	asked contract.Verb
	// check refuses an input that can never be carried out, and gives its one spelling.
	check func(In) (In, error)
	// legal refuses what the instance's state does not allow.
	legal func(*instance, In) error
	// do carries the act out; already says that there was nothing to change.
	do func(i *instance, in In, id string) (already bool, err error)
	// again asks the devices that the instance has by a request that was carried out before, because whoever repeats it
	// goes on with them. nil: it ended bindings, and what the instance has since is not its own.
	again func(i *instance, in In, id string) error
}

// The acts.
var (
	bindAct = &act[contract.InstanceBindInput]{asked: contract.VerbInstanceBind, check: checkBind, legal: always,
		do: func(i *instance, in contract.InstanceBindInput, id string) (bool, error) {
			return i.bind(named(in, id))
		}, again: boundAgain}
	attachAct = &act[contract.InstanceBindInput]{asked: contract.VerbInstanceAttach, check: checkAttach, legal: always,
		do: func(i *instance, in contract.InstanceBindInput, id string) (bool, error) {
			return i.attach(named(in, id))
		}, again: boundAgain}
	detachAct = &act[contract.InstanceDetachInput]{asked: contract.VerbInstanceDetach,
		check: contract.InstanceDetachInput.Normalize, legal: mayDetach,
		do: func(i *instance, in contract.InstanceDetachInput, _ string) (bool, error) { return false, i.detach(in) }}
	releaseAct = &act[contract.ReasonInput]{asked: contract.VerbInstanceRelease, check: asIs, legal: mayRelease,
		do: func(i *instance, _ contract.ReasonInput, _ string) (bool, error) { return i.release(), nil }}
	rebuildAct = &act[contract.ReasonInput]{asked: contract.VerbInstanceRebuild, check: asIs, legal: hasDevices,
		do:    func(i *instance, _ contract.ReasonInput, _ string) (bool, error) { return false, i.rebuild() },
		again: keptAgain}
	migrateAct = &act[contract.InstanceMoveInput]{asked: contract.VerbInstanceMigrate, check: checkMove, legal: mayMove,
		do: func(i *instance, in contract.InstanceMoveInput, id string) (bool, error) {
			return false, i.migrate(in, id, false)
		}, again: movedAgain}
	liveMigrateAct = &act[contract.InstanceMoveInput]{asked: contract.VerbInstanceLiveMigrate, check: checkMove,
		legal: mayMove,
		do: func(i *instance, in contract.InstanceMoveInput, id string) (bool, error) {
			return false, i.migrate(in, id, true)
		}, again: movedAgain}
	confirmAct = &act[contract.ReasonInput]{asked: contract.VerbInstanceConfirm, check: asIs, legal: migrating,
		do:    func(i *instance, _ contract.ReasonInput, _ string) (bool, error) { return false, i.confirm() },
		again: keptAgain}
	revertAct = &act[contract.ReasonInput]{asked: contract.VerbInstanceRevert, check: asIs, legal: migrating,
		do:    func(i *instance, _ contract.ReasonInput, _ string) (bool, error) { return false, i.revert() },
		again: keptAgain}
	evacuateAct = &act[contract.InstanceMoveInput]{asked: contract.VerbInstanceEvacuate, check: checkMove, legal: mayMove,
		do: func(i *instance, in contract.InstanceMoveInput, id string) (bool, error) {
			return false, i.evacuate(in, id)
		}, again: movedAgain}
)

// acts are what an instance does on each verb.
var acts = []interface {
	register(ctx workflow.Context, r *run) error
}{bindAct, attachAct, detachAct, releaseAct, rebuildAct, migrateAct, liveMigrateAct, confirmAct, revertAct, evacuateAct}

// register sets every update and query.
func (r *run) register(ctx workflow.Context) error {
	var failed []error
	for _, a := range acts {
		failed = append(failed, a.register(ctx, r))
	}
	return errors.Join(append(failed, workflow.SetQueryHandlerWithOptions(ctx, contract.QueryInstance,
		func() (contract.InstanceStatus, error) { return r.status(), nil },
		workflow.QueryHandlerOptions{Description: "The instance as `burnish instance show` prints it"}),
		workflow.SetQueryHandlerWithOptions(ctx, contract.QueryGranted,
			func() (contract.Requests, error) { return r.Granted, nil },
			workflow.QueryHandlerOptions{Description: "Digests of the requests that it has granted"}))...)
}

// named gives a bind its request: the caller's, or else the update's ID.
func named(in contract.InstanceBindInput, id string) contract.InstanceBindInput {
	if in.Request == "" {
		in.Request = id
	}
	return in
}

func boundAgain(i *instance, in contract.InstanceBindInput, id string) error {
	return i.stillHas(named(in, id).Request, namedIn(in))
}

func movedAgain(i *instance, in contract.InstanceMoveInput, id string) error {
	return i.stillHas(id, namedIn(in))
}

func keptAgain(i *instance, _ contract.ReasonInput, _ string) error { return i.confirmed(i.Devices) }

func asIs(in contract.ReasonInput) (contract.ReasonInput, error) { return in, nil }

func always(*instance, contract.InstanceBindInput) error { return nil }

// checkBind refuses what no device can be bound by: nothing is claimed for it.
func checkBind(in contract.InstanceBindInput) (contract.InstanceBindInput, error) {
	for _, r := range in.Requests {
		if r.Tag != "" {
			if err := device.CheckTag(r.Tag); err != nil {
				return in, err
			}
		}
	}
	if err := checkRoles(in.Devices); err != nil {
		return in, err
	}
	return in.Normalize()
}

func checkMove(in contract.InstanceMoveInput) (contract.InstanceMoveInput, error) {
	if err := checkRoles(in.Devices); err != nil {
		return in, err
	}
	return in.Normalize()
}

// checkRoles refuses tags and guest addresses that no document can show (S1.10–S1.14, S1.35).
func checkRoles(devices []contract.DeviceChoice) error {
	for _, c := range devices {
		if c.Tag != "" {
			if err := device.CheckTag(c.Tag); err != nil {
				return fmt.Errorf("%s: %w", c.Name, err)
			}
		}
		if err := tagging.CheckGuest(c.Guest); err != nil {
			return fmt.Errorf("%s: %w", c.Name, err)
		}
	}
	return nil
}

// checkAttach refuses what only bind takes.
func checkAttach(in contract.InstanceBindInput) (contract.InstanceBindInput, error) {
	if in.Project != "" || len(in.Addresses) > 0 {
		return in, errors.New("the project and the guest's IP addresses are given with bind only")
	}
	return checkBind(in)
}

func hasDevices(i *instance, _ contract.ReasonInput) error {
	if i.empty() {
		return errNoDevices()
	}
	return nil
}

// mayRelease allows a release that was sent again while the first one was under way, or was terminated with it.
func mayRelease(i *instance, in contract.ReasonInput) error {
	if i.Phase == contract.InstanceReleased || len(i.Unsettled) > 0 {
		return nil
	}
	return hasDevices(i, in)
}

// mayDetach allows devices that the instance does not know of: they say themselves whose they are.
func mayDetach(i *instance, _ contract.InstanceDetachInput) error {
	if i.Move != nil {
		return i.errMoving()
	}
	return nil
}

func mayMove(i *instance, in contract.InstanceMoveInput) error {
	switch {
	case i.empty():
		return errNoDevices()
	case i.Move != nil:
		return i.errMoving()
	case in.To == hostOf(i.Devices):
		return refuse(device.CodeRefused, "the instance is on "+in.To+" already", "name another host")
	case len(in.Devices) > 0 && len(in.Devices) != len(i.Devices):
		return refuse(device.CodeInvalid, fmt.Sprintf("%d devices are named for the instance's %d", len(in.Devices),
			len(i.Devices)), "name one for each, in their order, or none")
	}
	return nil
}

func migrating(i *instance, _ contract.ReasonInput) error {
	switch {
	case i.empty():
		return errNoDevices()
	case i.Move == nil:
		return refuse(device.CodeRefused, "the instance is not migrating", "migrate it first")
	}
	return nil
}

// register has the act carried out when it is asked for. Acts wait for one another in the order of their arrival. A
// repeated one, by its ID, changes nothing, also after a continue-as-new (contract.KeptUpdates).
func (a *act[In]) register(ctx workflow.Context, r *run) error {
	return workflow.SetUpdateHandlerWithOptions(ctx, a.asked.Update(),
		func(ctx workflow.Context, in In) (contract.InstanceResult, error) {
			ctx, _ = workflow.NewDisconnectedContext(ctx)
			id := workflow.GetCurrentUpdateInfo(ctx).ID
			if before, seen := r.log().Find(id); seen {
				if before.Refusal != nil {
					return contract.InstanceResult{}, contract.Refuse(*before.Refusal)
				}
				return a.repeat(ctx, r, in, id)
			}
			record := in.Act()
			record.Verb, record.Request = a.asked.Update(), id
			r.log().Record(id, nil)
			r.log().Accept(ctx, record)
			if err := r.takeTurn(ctx); err != nil {
				return contract.InstanceResult{}, err
			}
			already, err := a.carryOut(&r.instance, in, id)
			detached := r.detached
			if err != nil {
				refused := asRefusal(err)
				err = contract.Refuse(refused)
				r.log().Record(id, &refused)
				r.log().Fail(id, refused.Fault.Code)
			} else if already {
				r.log().Drop(id)
			}
			r.endTurn(ctx)
			if err != nil {
				return contract.InstanceResult{}, err
			}
			result, err := r.result(already)
			result.Detached = detached
			return result, err
		},
		workflow.UpdateHandlerOptions{Description: a.asked.About, Validator: func(ctx workflow.Context, in In) error {
			if r.Phase == contract.InstanceReset { // which has just ended this run
				return temporal.NewApplicationError("the workflow was reset", string(contract.InstanceReset))
			}
			id := workflow.GetCurrentUpdateInfo(ctx).ID
			if _, seen := r.log().Find(id); seen {
				return nil
			}
			if r.log().OtherBody(id) {
				return refuse(device.CodeRequestReused, "another request was sent under this request's key",
					"give each request its own key")
			}
			if text, err := json.Marshal(in); err != nil || len(text) > maxInput {
				return refuse(device.CodeInvalid, fmt.Sprintf("the request is longer than %d KiB", maxInput>>10),
					"shorten its texts")
			}
			in, err := a.check(in)
			if err != nil {
				return invalid(err)
			}
			if r.busy() { // the acts before it decide what it will find
				return nil
			}
			return a.legal(&r.instance, in)
		}})
}

// repeat answers a request that was carried out before: it changes nothing.
func (a *act[In]) repeat(ctx workflow.Context, r *run, in In, id string) (contract.InstanceResult, error) {
	if a.again == nil {
		return r.result(true)
	}
	if err := r.takeTurn(ctx); err != nil {
		return contract.InstanceResult{}, err
	}
	act := in.Act()
	r.beginAct(a.asked.Update(), contract.Caller{By: act.By, From: act.From}, act.Reason)
	err := a.again(&r.instance, in, id)
	r.endAct()
	r.endTurn(ctx)
	if err != nil {
		return contract.InstanceResult{}, contract.Refuse(asRefusal(err))
	}
	return r.result(true)
}

// carryOut carries an act out when its turn has come.
func (a *act[In]) carryOut(i *instance, in In, id string) (already bool, err error) {
	in, err = a.check(in)
	if err != nil {
		return false, invalid(err)
	}
	if err := a.legal(i, in); err != nil {
		return false, err
	}
	record := in.Act()
	i.beginAct(a.asked.Update(), contract.Caller{By: record.By, From: record.From}, record.Reason)
	i.giveBack(namedIn(in))
	already, err = a.do(i, in, id)
	i.endAct()
	switch {
	case err != nil:
		i.LastError = a.asked.Update() + " failed: " + asRefusal(err).Fault.Message
	case !already:
		i.LastError = ""
	}
	return already, err
}

// namedIn are the devices that an act is about.
func namedIn(in contract.Input) (names []string) {
	var choices []contract.DeviceChoice
	switch in := in.(type) {
	case contract.InstanceBindInput:
		choices = in.Devices
	case contract.InstanceMoveInput:
		choices = in.Devices
	case contract.InstanceDetachInput:
		return in.Devices
	}
	for _, c := range choices {
		names = append(names, c.Name)
	}
	return names
}

// invalid is the refusal of an input that can never be carried out.
func invalid(err error) error {
	if _, ok := contract.RefusalOf(err); ok {
		return err
	}
	if f, ok := device.AsFault(err); ok {
		return contract.Refuse(contract.Refusal{Fault: *f})
	}
	return refuse(device.CodeInvalid, err.Error(), "correct the request")
}

// asRefusal is what a client reads of an error. An error that is no refusal fails a repeated
// act too.
func asRefusal(err error) contract.Refusal {
	refused, ok := contract.RefusalOf(err)
	if !ok {
		refused.Fault = *calls.FaultOf(err)
	}
	return refused
}
