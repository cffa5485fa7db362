package client

import (
	"context"
	"encoding/json"
	"fmt"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	sdkclient "go.temporal.io/sdk/client"

	"burnish/workflows/contract"
)

// Ask asks a device what a verb would do. It is a query, and leaves no event. Where the verb would be
// refused, the error is that refusal.
func (c *Client) Ask(ctx context.Context, name string, v contract.Verb, in contract.Input) (contract.DryRun, error) {
	var out contract.DryRun
	input, err := json.Marshal(in)
	if err != nil {
		return out, fmt.Errorf("encode the input of %s: %w", v.Name, err)
	}
	answer, err := c.temporal.QueryWorkflowWithOptions(ctx, &sdkclient.QueryWorkflowWithOptionsRequest{
		WorkflowID: contract.WorkflowID(name), QueryType: contract.QueryDryRun,
		Args: []any{contract.DryRunInput{Update: v.Update(), Input: input}},
		// A workflow that has ended would still answer, and takes no update.
		QueryRejectCondition: enumspb.QUERY_REJECT_CONDITION_NOT_OPEN,
	})
	switch {
	case err != nil:
		return out, err
	case answer.QueryRejected != nil:
		return out, serviceerror.NewNotFound("no workflow " + contract.WorkflowID(name))
	}
	if err := answer.QueryResult.Get(&out); err != nil {
		return out, err
	}
	if out.Refusal != nil {
		return contract.DryRun{}, contract.Refuse(*out.Refusal)
	}
	return out, nil
}
