package client

import (
	"context"
	"slices"

	"burnish/workflows/contract"
)

// Appliances are the appliances that control workers serve, sorted.
func (c *Client) Appliances(ctx context.Context) ([]string, error) {
	names, err := c.named(ctx, contract.WorkflowOneView, contract.OneViewWorkflowID(""))
	slices.Sort(names)
	return names, err
}

// Servers asks an appliance's workflow which servers are not enrolled.
func (c *Client) Servers(ctx context.Context, in contract.ServersInput) (contract.Servers, error) {
	return update[contract.Servers](ctx, c, contract.OneViewWorkflowID(in.Appliance), contract.UpdateServers, in)
}

// ReadPool asks an appliance's workflow who has a server.
func (c *Client) ReadPool(ctx context.Context, in contract.PoolRequest) (contract.PoolSnapshot, error) {
	return update[contract.PoolSnapshot](ctx, c, contract.OneViewWorkflowID(in.Pool.Appliance),
		contract.UpdateReadPool, in)
}
