package workflows

import (
	"encoding/json"
	"errors"
	"fmt"

	"go.temporal.io/sdk/workflow"

	"burnish/activities"
	"burnish/internal/device"
	"burnish/workflows/contract"
)

// update is one verb: its guard refuses without leaving history, and is asked again
// when the handler runs; do carries it out.
type update[In, Out any] struct {
	name     string
	about    string
	validate func(*lifecycle, In) error
	do       func(*lifecycle, workflow.Context, In) (Out, error)
	// again answers a message that was carried out before, under its ID.
	replayed func(d *lifecycle, id string, in In) (Out, error)
	// first refuses where the message arrives, after the guard, and only there: nothing
	// of it is replayed, so that it may go by what this worker knows.
	validateOnArrival func(*lifecycle, In) error
}

// The updates. They are shared by all devices of a worker: what a device keeps of
// each is two pointers.
var (
	enrollUpdate = &update[contract.EnrollInput, contract.Result]{contract.UpdateEnroll, "Enrol this device",
		(*lifecycle).validateEnroll, (*lifecycle).enroll, already[contract.EnrollInput], nil}
	provideUpdate = &update[contract.ReasonInput, contract.Result]{contract.UpdateProvide, "Offer a manageable device to tenants, after a clean",
		(*lifecycle).validateProvide, (*lifecycle).provide, already[contract.ReasonInput], nil}
	claimUpdate = &update[contract.BindInput, contract.BindResult]{contract.UpdateClaim, "Hold the device for an instance until a deadline",
		(*lifecycle).validateClaim, (*lifecycle).claim, claimReplayed, nil}
	burnUpdate = &update[contract.BindInput, contract.BindResult]{contract.UpdateBurn, "Burn a claimed device and give it to its instance",
		(*lifecycle).validateBurn, (*lifecycle).burn, (*lifecycle).burnReplayed, nil}
	unclaimUpdate = &update[contract.BindInput, contract.Result]{contract.UpdateUnclaim, "Let a claim go before its burn",
		(*lifecycle).validateUnclaim, (*lifecycle).unclaim, already[contract.BindInput], nil}
	bindUpdate = &update[contract.BindInput, contract.BindResult]{contract.UpdateBind, "Claim and burn in one",
		(*lifecycle).validateClaim, (*lifecycle).bind, (*lifecycle).bindReplayed, nil}
	unbindUpdate = &update[contract.UnbindInput, contract.Result]{contract.UpdateUnbind, "End an instance's tenancy; cleaning begins by itself",
		(*lifecycle).validateUnbind, (*lifecycle).unbind, already[contract.UnbindInput], nil}
	rebuildUpdate = &update[contract.UnbindInput, contract.Result]{contract.UpdateRebuild, "The instance is rebuilt in place; nothing is cleaned",
		(*lifecycle).validateRebuild, (*lifecycle).rebuild, already[contract.UnbindInput], nil}
	cleanUpdate = &update[contract.CleanInput, contract.Result]{contract.UpdateClean, "Clean a device in error, or run named steps on a manageable one",
		(*lifecycle).validateClean, (*lifecycle).requestClean, already[contract.CleanInput], (*lifecycle).validateSteps}
	abortUpdate = &update[contract.ReasonInput, contract.Result]{contract.UpdateAbort, "End the running clean; the device goes to error",
		(*lifecycle).validateAbort, (*lifecycle).requestAbort, already[contract.ReasonInput], nil}
	manageUpdate = &update[contract.ReasonInput, contract.Result]{contract.UpdateManage, "Take the device out of the pool",
		(*lifecycle).validateManage, (*lifecycle).manage, already[contract.ReasonInput], nil}
	maintainUpdate = &update[contract.MaintainInput, contract.Result]{contract.UpdateMaintain, "Set or clear the operator's hold",
		(*lifecycle).validateMaintain, (*lifecycle).maintain, already[contract.MaintainInput], nil}
	retireUpdate = &update[contract.ReasonInput, contract.Result]{contract.UpdateRetire, "Take the device out of service for ever",
		(*lifecycle).validateRetire, (*lifecycle).retire, already[contract.ReasonInput], nil}
	forgetUpdate = &update[contract.ReasonInput, contract.Result]{contract.UpdateForget, "End a retired device's workflow",
		(*lifecycle).validateForget, (*lifecycle).forget, already[contract.ReasonInput], nil}
	replaceUpdate = &update[contract.ReplaceInput, contract.Result]{contract.UpdateReplace, "Another piece of hardware took the device's place",
		(*lifecycle).validateReplace, (*lifecycle).replace, already[contract.ReplaceInput], nil}
	moveUpdate = &update[contract.MoveInput, contract.Result]{contract.UpdateMove, "The device's piece of hardware has another place now",
		(*lifecycle).validateMove, (*lifecycle).move, already[contract.MoveInput], (*lifecycle).validateNewName}
)

// register sets every update and the query.
func (d *lifecycle) register(ctx workflow.Context) error {
	return errors.Join(
		handle(ctx, d, enrollUpdate), handle(ctx, d, provideUpdate),
		handle(ctx, d, claimUpdate), handle(ctx, d, burnUpdate), handle(ctx, d, unclaimUpdate),
		handle(ctx, d, bindUpdate), handle(ctx, d, unbindUpdate), handle(ctx, d, rebuildUpdate),
		handle(ctx, d, cleanUpdate), handle(ctx, d, abortUpdate),
		handle(ctx, d, manageUpdate), handle(ctx, d, maintainUpdate),
		handle(ctx, d, retireUpdate), handle(ctx, d, forgetUpdate),
		handle(ctx, d, replaceUpdate), handle(ctx, d, moveUpdate),
		workflow.SetQueryHandlerWithOptions(ctx, contract.QueryDevice,
			func() (contract.DeviceStatus, error) {
				v := d.status()
				var err error
				v.Bindings = d.state.History
				v.Cleans, err = d.state.Archive.Cleans()
				return v, err
			},
			workflow.QueryHandlerOptions{Description: "The device as `burnish show` prints it"}),
		workflow.SetQueryHandlerWithOptions(ctx, contract.QueryDiscovery,
			func() (contract.DiscoveryResult, error) { return d.state.Host, nil },
			workflow.QueryHandlerOptions{Description: "What the host said of the device when it last looked"}),
	)
}

// already is the answer to most repetitions.
func already[In any](d *lifecycle, _ string, _ In) (contract.Result, error) {
	return contract.Result{Device: d.status(), Already: true}, nil
}

// handle registers one update. An update's own ID is remembered in the state with
// its outcome, because Temporal forgets IDs at continue-as-new: sent again it
// changes nothing, whoever has the device by then.
func handle[In, Out any](ctx workflow.Context, d *lifecycle, u *update[In, Out]) error {
	return workflow.SetUpdateHandlerWithOptions(ctx, u.name,
		func(ctx workflow.Context, in In) (Out, error) {
			ctx, _ = workflow.NewDisconnectedContext(ctx)
			var none Out
			id := workflow.GetCurrentUpdateInfo(ctx).ID
			if before, seen := d.recentUpdate(id); seen {
				if before.Refusal != nil {
					return none, activities.Refuse(*before.Refusal)
				}
				return u.replayed(d, id, in)
			}
			if err := u.validate(d, in); err != nil {
				return none, err
			}
			d.recordUpdate(id, nil)
			out, err := u.do(d, ctx, in)
			if err != nil {
				err = d.refusal(u.name, err)
				refusal, _ := contract.RefusalOf(err)
				d.recordUpdate(id, &refusal)
				d.state.LastRefusal = refusal.Fault.Message
			}
			d.publishStatus(ctx)
			return out, err
		},
		workflow.UpdateHandlerOptions{
			Description: u.about,
			Validator: func(ctx workflow.Context, in In) error {
				if _, seen := d.recentUpdate(workflow.GetCurrentUpdateInfo(ctx).ID); seen {
					return nil
				}
				if !d.state.Enrolled && u.name != contract.UpdateEnroll {
					return d.refuse(device.CodeNotFound, "this device is not enrolled", "enroll it first")
				}
				if tooLong(in) {
					return d.refuse(device.CodeInvalid, fmt.Sprintf("the request is longer than %d KiB", maxInput>>10), "shorten its texts")
				}
				if err := u.validate(d, in); err != nil {
					return d.refusal(u.name, err)
				}
				if u.validateOnArrival == nil {
					return nil
				}
				return u.validateOnArrival(d, in)
			},
		})
}

// maxInput bounds what a device is told at once: its state keeps some of it, twenty
// times over, and must stay far below what Temporal carries (2 MiB).
const maxInput = 16 << 10

func tooLong(in any) bool {
	text, err := json.Marshal(in)
	return err != nil || len(text) > maxInput
}

func (d *lifecycle) recentUpdate(id string) (contract.RecentUpdate, bool) {
	for _, u := range d.state.Recent {
		if u.ID == id {
			return u, true
		}
	}
	return contract.RecentUpdate{}, false
}

func (d *lifecycle) recordUpdate(id string, r *contract.Refusal) {
	for i := range d.state.Recent {
		if d.state.Recent[i].ID == id {
			d.state.Recent[i].Refusal = r
			return
		}
	}
	d.state.Recent = lastN(append(d.state.Recent, contract.RecentUpdate{ID: id, Refusal: r}), contract.KeptUpdates)
}

// refuse makes the error of a request that is not carried out.
func (d *lifecycle) refuse(code device.Code, message, remedy string) error {
	return activities.Refuse(contract.Refusal{
		Fault:  device.Fault{Class: device.Permanent, Code: code, Message: message, Remedy: remedy},
		Device: d.state.Name, State: d.state.Device.State,
	})
}

// refusal gives any error the form that callers read.
func (d *lifecycle) refusal(verb string, err error) error {
	if e, ok := illegal(err); ok {
		return d.refuse(device.CodeRefused, fmt.Sprintf("cannot %s a device that is %s", verb, d.describeState()), d.suggestRemedy(verb, e))
	}
	if f, ok := device.AsFault(err); ok {
		return activities.Refuse(contract.Refusal{Fault: *f, Device: d.state.Name, State: d.state.Device.State})
	}
	return err
}

// stateInWords is the state with what an operator must know beside it.
func (d *lifecycle) describeState() string {
	dev := d.state.Device
	switch {
	case dev.State == device.Allocated && dev.Binding != nil:
		return "allocated to " + dev.Binding.Instance
	case dev.Claim != nil:
		return "claimed by " + dev.Claim.Instance
	case dev.State == device.Available && dev.InMaintenance():
		return "held (maintenance: " + string(dev.Maintenance) + ")"
	case dev.Returning:
		return "cleaning (being returned)"
	case dev.AwaitingManualClean:
		return "pending_cleaning (automated cleaning is off)"
	}
	return string(dev.State)
}

// remedyFor says what to do instead of a verb that the state refuses.
func (d *lifecycle) suggestRemedy(verb string, e *device.IllegalError) string {
	name := d.state.Name
	switch d.state.Device.State {
	case device.Allocated:
		if verb == contract.UpdateUnbind || verb == contract.UpdateRebuild {
			return "name the instance that has it"
		}
		return "unbind " + name + " first"
	case device.PendingCleaning, device.Cleaning:
		if d.state.Device.AwaitingManualClean {
			return "clean " + name
		}
		return "wait until it is clean, or abort " + name
	case device.Error:
		return "clean " + name + " to try again, or manage " + name
	case device.Manageable:
		return "provide " + name + ", or clean it with --steps"
	case device.Available:
		if d.state.Device.Claim != nil {
			return "wait, or take another device"
		}
		if d.state.Device.InMaintenance() {
			return "maintain " + name + " --off first"
		}
		switch verb {
		case contract.UpdateReplace, contract.UpdateMove:
			return "manage " + name + " first"
		case contract.UpdateClean:
			return "it is clean; to work on it by hand, manage " + name
		}
	case device.Retired:
		return "forget " + name + " and enroll it again"
	}
	return e.Why
}

// legal asks the machine without changing anything.
func (d *lifecycle) legal(e device.Event) error {
	_, err := device.Next(d.state.Device, e)
	return err
}
