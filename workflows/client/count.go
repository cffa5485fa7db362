package client

import (
	"context"

	"go.temporal.io/api/workflowservice/v1"

	"burnish/workflows/contract"
)

// Count counts the devices that the filter selects, as the server's query language can say
// it. It is a hint: the listing lags behind.
func (c *Client) Count(ctx context.Context, f Filter) (int64, error) { return c.count(ctx, f.Query()) }

// CountStuck counts the running workflows of a type that wait for an operator.
func (c *Client) CountStuck(ctx context.Context, workflowType string) (int64, error) {
	return c.count(ctx, joined(running(workflowType), contract.AttrNeedsOperator.GetName()+" = true"))
}

func (c *Client) count(ctx context.Context, query string) (int64, error) {
	answer, err := c.temporal.CountWorkflow(ctx, &workflowservice.CountWorkflowExecutionsRequest{Query: query})
	return answer.GetCount(), err
}
