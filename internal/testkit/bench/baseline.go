package main

import (
	"errors"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"burnish/internal/device"
	"burnish/workflows/contract"
)

// entityWorkflow is the baseline's workflow type.
const entityWorkflow = "Entity"

// maxHistory is the length at which the entity continues as new, as the product does.
const maxHistory = 200

// entity is the baseline: an entity workflow as one would write it in a day. It has the
// product's two updates of a turnover, its two steps and its three calls of the inventory with
// the same inputs, its search attributes and its continue-as-new. Each call is an activity, and
// each change of state or step a write of the search attributes. It has no state table, no plan,
// no faults and no record of earlier requests. Its timeouts are the product's, because each is a
// timer that the server keeps. All fields survive continue-as-new.
type entity struct {
	Enrollment contract.Enrollment      `json:"enrollment"`
	Queue      string                   `json:"queue"` // of the control activities
	Host       contract.DiscoveryResult `json:"host"`
	State      device.State             `json:"state"`
	Step       string                   `json:"step,omitempty"`
	Instance   string                   `json:"instance,omitempty"`
	Left       string                   `json:"left,omitempty"` // the last instance
	Bindings   int                      `json:"bindings,omitempty"`
	Cleans     int                      `json:"cleans,omitempty"`
	Seq        int64                    `json:"seq,omitempty"`
	Generation int64                    `json:"generation,omitempty"`
}

// Entity enrolls its device in its first run and then turns over without end.
func Entity(ctx workflow.Context, e entity) error {
	if err := e.listen(ctx); err != nil {
		return err
	}
	if e.State == "" {
		if err := e.enroll(ctx); err != nil {
			return err
		}
	}
	for {
		renew := func() bool {
			return workflow.GetInfo(ctx).GetCurrentHistoryLength() > maxHistory &&
				(e.State == device.Available || e.State == device.Allocated) && workflow.AllHandlersFinished(ctx)
		}
		if err := workflow.Await(ctx, func() bool { return e.State == device.PendingCleaning || renew() }); err != nil {
			return err
		}
		if e.State != device.PendingCleaning {
			return workflow.NewContinueAsNewError(ctx, entityWorkflow, e)
		}
		if err := e.clean(ctx); err != nil {
			return err
		}
	}
}

func (e *entity) listen(ctx workflow.Context) error {
	return errors.Join(
		workflow.SetUpdateHandlerWithOptions(ctx, contract.VerbBind.Update(), e.bind, workflow.UpdateHandlerOptions{
			Validator: func(contract.BindInput) error { return e.require(e.State == device.Available) },
		}),
		workflow.SetUpdateHandlerWithOptions(ctx, contract.VerbUnbind.Update(), e.unbind, workflow.UpdateHandlerOptions{
			Validator: func(in contract.UnbindInput) error {
				return e.require(e.State == device.Allocated && in.Instance == e.Instance)
			},
		}),
	)
}

func (e *entity) require(ok bool) error {
	if !ok {
		return errors.New("the device is " + string(e.State))
	}
	return nil
}

func (e *entity) bind(ctx workflow.Context, in contract.BindInput) (device.State, error) {
	e.State = device.Unknown // refuses other binds from here on
	bound := device.RecordOf(in.Instance)
	if err := e.inventory(ctx, contract.ActivityReserveForBind,
		contract.ReservationRequest{Expect: &e.Generation, Record: &bound}); err != nil {
		return "", err
	}
	e.State, e.Instance, e.Bindings = device.Allocated, in.Instance, e.Bindings+1
	return e.State, e.publish(ctx)
}

func (e *entity) unbind(ctx workflow.Context, _ contract.UnbindInput) (device.State, error) {
	e.State, e.Instance, e.Left = device.PendingCleaning, "", e.Instance
	return e.State, e.publish(ctx)
}

func (e *entity) clean(ctx workflow.Context) error {
	e.Cleans++
	free := device.RecordOf("")
	in := contract.ReservationRequest{Expect: &e.Generation, Record: &free, Left: e.Left, LeftGeneration: e.Generation}
	if err := e.inventory(ctx, contract.ActivityEnsureReserved, in); err != nil {
		return err
	}
	e.State = device.Cleaning
	for _, step := range []string{"zero", "verify"} {
		if err := e.run(ctx, step); err != nil {
			return err
		}
	}
	if err := e.inventory(ctx, contract.ActivityUnreserve,
		contract.ReservationRequest{Generation: e.Generation}); err != nil {
		return err
	}
	e.State, e.Step = device.Available, ""
	return e.publish(ctx)
}

func (e *entity) run(ctx workflow.Context, step string) error {
	e.Step = step
	if err := e.publish(ctx); err != nil {
		return err
	}
	e.Seq++
	ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		TaskQueue: contract.HostQueue(e.Enrollment.Host), StartToCloseTimeout: 16 * time.Minute,
		HeartbeatTimeout: 30 * time.Second, WaitForCancellation: true,
	})
	return workflow.ExecuteActivity(ctx, step, contract.StepInput{
		Enrollment: e.Enrollment, Identity: e.Host.Identity, Operation: e.Host.Operation, Step: step,
		Version: e.Host.Steps[step], Clean: workflow.GetInfo(ctx).FirstRunID, Number: e.Cleans, Seq: e.Seq,
		Binding: e.Bindings, Generation: e.Generation, Budget: 15 * time.Minute,
	}).Get(ctx, nil)
}

func (e *entity) inventory(ctx workflow.Context, activity string, in contract.ReservationRequest) error {
	in.UUID, in.Name = contract.DeviceUUID(e.Enrollment.Name), e.Enrollment.Name
	ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{TaskQueue: e.Queue,
		StartToCloseTimeout: 10 * time.Second})
	var stock device.Inventory
	err := workflow.ExecuteActivity(ctx, activity, in).Get(ctx, &stock)
	e.Generation = stock.Generation
	return err
}

// publish writes the product's search attributes.
func (e *entity) publish(ctx workflow.Context) error {
	word := func(key temporal.SearchAttributeKeyKeyword, value string) temporal.SearchAttributeUpdate {
		if value == "" {
			return key.ValueUnset()
		}
		return key.ValueSet(value)
	}
	return workflow.UpsertTypedSearchAttributes(ctx,
		word(contract.AttrState, string(e.State)), word(contract.AttrUUID, contract.DeviceUUID(e.Enrollment.Name)),
		word(contract.AttrSerial, e.Host.Identity.Serial), word(contract.AttrType, e.Enrollment.Type),
		word(contract.AttrHost, e.Enrollment.Host), word(contract.AttrInstance, e.Instance),
		word(contract.AttrStep, e.Step), word(contract.AttrFault, ""),
		contract.AttrNeedsOperator.ValueSet(false), contract.AttrDirty.ValueSet(e.State != device.Available),
		contract.AttrUpdated.ValueSet(workflow.Now(ctx)))
}

func (e *entity) enroll(ctx workflow.Context) error {
	in := contract.DiscoverInput{Enrollment: e.Enrollment, UUID: contract.DeviceUUID(e.Enrollment.Name)}
	opts := workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		TaskQueue: contract.HostQueue(e.Enrollment.Host), StartToCloseTimeout: time.Minute,
	})
	if err := workflow.ExecuteActivity(opts, contract.ActivityDiscover, in).Get(opts, &e.Host); err != nil {
		return err
	}
	if err := e.inventory(ctx, contract.ActivityEnsureProvider,
		contract.ReservationRequest{Class: "CUSTOM_BENCH"}); err != nil {
		return err
	}
	return e.clean(ctx)
}
