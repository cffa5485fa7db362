package lifecycle

import (
	"errors"

	"go.temporal.io/sdk/converter"
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
			func(in contract.DryRunInput) (contract.DryRun, error) {
				return r.device.DryRun(in, workflow.Now(ctx), r.asIs(ctx)), nil
			},
			workflow.QueryHandlerOptions{Description: "What an update would do"}),
	)...)
}

// registerVerb has the core asked for a verb by its update.
func (r *run) registerVerb(ctx workflow.Context, v *contract.Verb) error {
	asked := func(ctx workflow.Context, in converter.RawValue) (core.Asked, error) {
		input, err := core.Read(*v, in.Payload().GetData())
		return core.Asked{ID: workflow.GetCurrentUpdateInfo(ctx).ID, Verb: *v, In: input}, err
	}
	do := func(ctx workflow.Context, in converter.RawValue) (result contract.Result, err error) {
		ctx, _ = workflow.NewDisconnectedContext(ctx)
		request, err := asked(ctx, in)
		if err != nil {
			return result, err
		}
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
	arrive := func(ctx workflow.Context, in converter.RawValue) error {
		request, err := asked(ctx, in)
		if err != nil {
			return err
		}
		return r.device.Arrives(request, r.asIs(ctx))
	}
	return workflow.SetUpdateHandlerWithOptions(ctx, v.Update(), do,
		workflow.UpdateHandlerOptions{Description: v.About, Validator: arrive})
}
