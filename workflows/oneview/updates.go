package oneview

import (
	"go.temporal.io/sdk/workflow"

	"burnish/workflows/calls"
	"burnish/workflows/contract"
)

// registerUpdates adds what operators ask of the appliance by the command line, which has no
// account on it. Neither update changes anything.
func (p *polls) registerUpdates(ctx workflow.Context) error {
	err := workflow.SetUpdateHandlerWithOptions(ctx, contract.UpdateReadPool, p.readPool,
		workflow.UpdateHandlerOptions{Description: "Who has a server of this appliance"})
	if err != nil {
		return err
	}
	return workflow.SetUpdateHandlerWithOptions(ctx, contract.UpdateServers, p.servers,
		workflow.UpdateHandlerOptions{Description: "Which servers of this appliance are not enrolled"})
}

// readPool answers who has a server.
func (p *polls) readPool(ctx workflow.Context, in contract.PoolRequest) (found contract.PoolSnapshot, err error) {
	in.Pool.Appliance = p.state.Appliance
	opts := calls.LimitedRetries(calls.WithClientDeadline(ctx, "who has the server of "+in.Name))
	err = workflow.ExecuteActivity(opts, contract.ActivityReadPool, in).Get(opts, &found)
	return found, err
}

// servers answers which servers are not enrolled.
func (p *polls) servers(ctx workflow.Context, in contract.ServersInput) (found contract.Servers, err error) {
	in.Appliance = p.state.Appliance
	opts := calls.LimitedRetries(calls.WithClientDeadline(ctx, "servers of "+in.Appliance+" that are not enrolled"))
	err = workflow.ExecuteActivity(opts, contract.ActivityFindServers, in).Get(opts, &found)
	return found, err
}
