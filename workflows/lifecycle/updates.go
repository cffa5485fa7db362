package lifecycle

import (
	"errors"

	"go.temporal.io/sdk/workflow"

	core "burnish/internal/lifecycle"
	"burnish/workflows/contract"
)

// register sets every update and query.
func (r *run) register(ctx workflow.Context) error {
	var failed []error
	for _, v := range core.Verbs() {
		failed = append(failed, r.registerVerb(ctx, v))
	}
	return errors.Join(append(failed,
		workflow.SetQueryHandlerWithOptions(ctx, contract.QueryDevice,
			func() (contract.DeviceStatus, error) { return r.device.Whole() },
			workflow.QueryHandlerOptions{Description: "The device as `burnish show` prints it"}),
		workflow.SetQueryHandlerWithOptions(ctx, contract.QueryDiscovery,
			func() (contract.DiscoveryResult, error) { return r.device.Host, nil },
			workflow.QueryHandlerOptions{Description: "What the host last discovered of the device"}),
		workflow.SetQueryHandlerWithOptions(ctx, contract.QueryValidate,
			//workflowcheck:ignore its plan is shown, and decides nothing
			func(in contract.CleanInput) (contract.CleanPlan, error) { return r.device.PlanOf(in, r.Planner), nil },
			workflow.QueryHandlerOptions{Description: "What a clean would do"}),
		workflow.SetQueryHandlerWithOptions(ctx, contract.QueryDryRun,
			//workflowcheck:ignore it is shown, and decides nothing
			func(in contract.DryRunInput) (contract.DryRun, error) { return r.device.DryRun(in, r.asIs(ctx)), nil },
			workflow.QueryHandlerOptions{Description: "What an update would do"}),
	)...)
}

// registerVerb has the core asked for a verb by its update, whose input is of the verb's own type.
func (r *run) registerVerb(ctx workflow.Context, v contract.Verb) error {
	switch v.Input.(type) {
	case contract.EnrollInput:
		return registerUpdate[contract.EnrollInput](ctx, r, v)
	case contract.BindInput:
		return registerUpdate[contract.BindInput](ctx, r, v)
	case contract.UnbindInput:
		return registerUpdate[contract.UnbindInput](ctx, r, v)
	case contract.ReasonInput:
		return registerUpdate[contract.ReasonInput](ctx, r, v)
	case contract.CleanInput:
		return registerUpdate[contract.CleanInput](ctx, r, v)
	case contract.TenantInput:
		return registerUpdate[contract.TenantInput](ctx, r, v)
	case contract.MaintenanceInput:
		return registerUpdate[contract.MaintenanceInput](ctx, r, v)
	case contract.LabelInput:
		return registerUpdate[contract.LabelInput](ctx, r, v)
	case contract.RetireInput:
		return registerUpdate[contract.RetireInput](ctx, r, v)
	case contract.ReplaceInput:
		return registerUpdate[contract.ReplaceInput](ctx, r, v)
	case contract.MoveInput:
		return registerUpdate[contract.MoveInput](ctx, r, v)
	case contract.PowerInput:
		return registerUpdate[contract.PowerInput](ctx, r, v)
	case contract.OverrideInput:
		return registerUpdate[contract.OverrideInput](ctx, r, v)
	}
	return errors.New("the input of " + v.Name + " has no update")
}

func registerUpdate[In contract.Input](ctx workflow.Context, r *run, v contract.Verb) error {
	asked := func(ctx workflow.Context, in In) core.Asked {
		return core.Asked{ID: workflow.GetCurrentUpdateInfo(ctx).ID, Verb: v, In: in}
	}
	do := func(ctx workflow.Context, in In) (result contract.Result, err error) {
		ctx, _ = workflow.NewDisconnectedContext(ctx)
		request := asked(ctx, in)
		r.decide(ctx, request)
		answered := func() (ok bool) {
			result, err, ok = r.device.Answer(request.ID)
			return ok
		}
		if waited := workflow.Await(ctx, answered); waited != nil {
			return result, waited
		}
		return result, err
	}
	arrive := func(ctx workflow.Context, in In) error { return r.device.Arrives(asked(ctx, in), r.asIs(ctx)) }
	return workflow.SetUpdateHandlerWithOptions(ctx, v.Update(), do,
		workflow.UpdateHandlerOptions{Description: v.About, Validator: arrive})
}
