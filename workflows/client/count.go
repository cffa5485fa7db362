package client

import (
	"context"
	"strings"

	"go.temporal.io/api/workflowservice/v1"

	"burnish/internal/device"
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

// hostsPage is how many devices one search for further hosts reads.
const hostsPage = 200

// FurtherHosts names hosts that have devices in service and are not among the known ones;
// not all of them, but one at least if there is any.
func (c *Client) FurtherHosts(ctx context.Context, known []string) ([]string, error) {
	var others string
	quoted := make([]string, len(known))
	for i, host := range known {
		quoted[i] = literal(host)
	}
	if len(known) > 0 {
		others = contract.AttrHost.GetName() + " NOT IN (" + strings.Join(quoted, ", ") + ")"
	}
	page, err := c.page(ctx, &workflowservice.ListWorkflowExecutionsRequest{
		Query: joined(Filter{NotState: device.Retired}.Query(), others), PageSize: hostsPage,
	})
	seen := map[string]bool{}
	for _, host := range known {
		seen[host] = true
	}
	var further []string
	for _, info := range page.GetExecutions() {
		if host := executionOf(info, nil).Status.Hostname; host != "" && !seen[host] {
			seen[host] = true
			further = append(further, host)
		}
	}
	return further, err
}
