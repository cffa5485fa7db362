package client

import (
	"context"
	"slices"
	"strings"

	workflowpb "go.temporal.io/api/workflow/v1"

	"burnish/workflows/contract"
)

// Appliances are the appliances that control workers serve, sorted.
func (c *Client) Appliances(ctx context.Context) ([]string, error) {
	var names []string
	err := c.pages(ctx, running(contract.WorkflowOneView), func(infos []*workflowpb.WorkflowExecutionInfo) (bool, error) {
		for _, info := range infos {
			names = append(names, strings.TrimPrefix(info.GetExecution().GetWorkflowId(), contract.OneViewWorkflowID("")))
		}
		return false, nil
	})
	slices.Sort(names)
	return slices.Compact(names), err
}

// Servers asks an appliance's workflow which servers are not enrolled.
func (c *Client) Servers(ctx context.Context, in contract.ServersInput) (contract.Servers, error) {
	return update[contract.Servers](ctx, c, contract.OneViewWorkflowID(in.Appliance), contract.UpdateServers, in)
}

// ReadPool asks an appliance's workflow who has a server.
func (c *Client) ReadPool(ctx context.Context, in contract.PoolRequest) (contract.PoolSnapshot, error) {
	return update[contract.PoolSnapshot](ctx, c, contract.OneViewWorkflowID(in.Pool.Appliance), contract.UpdateReadPool, in)
}

// MigratePool makes a pre-allocated device dynamic.
func (c *Client) MigratePool(ctx context.Context, name string, in contract.ReasonInput) (contract.Result, error) {
	return c.request(ctx, name, contract.UpdateMigratePool, in)
}
