package client

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	workflowpb "go.temporal.io/api/workflow/v1"

	"burnish/workflows/contract"
)

// runChange is how long a listing may take to show the new run of a device that continued as
// new. Until then the ended run stands for it.
const runChange = 30 * time.Second

// Fleet returns every device whose workflow runs, once, in the order of their UUIDs, also one
// that continues as new while the listing is read. A device that cannot be read has Err set.
//
// Temporal lists runs that have not ended first, and then the last to end. So the run of a
// device that ends before the listing has come to it stands among the ended ones, which follow;
// the new run, which stands before those that were read, is not needed.
func (c *Client) Fleet(ctx context.Context) ([]Execution, error) {
	newest := map[string]Execution{}
	err := c.pages(ctx, recent(time.Now()), func(infos []*workflowpb.WorkflowExecutionInfo) (bool, error) {
		for _, info := range infos {
			Newest(newest, executionOf(info, nil))
		}
		return false, nil
	})
	if err != nil {
		return nil, fmt.Errorf("list the devices: %w", err)
	}
	maps.DeleteFunc(newest, func(_ string, e Execution) bool {
		return !e.Running && !e.continued || e.Err == nil && e.Absent()
	})
	byUUID := func(a, b Execution) int { return strings.Compare(a.Status.UUID, b.Status.UUID) }
	return slices.SortedFunc(maps.Values(newest), byUUID), nil
}

// recent selects the devices' workflows that run, and those that ended a moment ago: one
// that continued as new may not be listed as running yet.
func recent(now time.Time) string {
	return fmt.Sprintf("WorkflowType = %s AND (ExecutionStatus = 'Running' OR CloseTime > %s)",
		literal(contract.WorkflowDeviceLifecycle), literal(now.Add(-runChange).UTC().Format(time.RFC3339)))
}

// ByUUID returns the newest listed run of the device with a UUID, also one that ended. found is
// false if Temporal lists none: of a device that was just enrolled, or that was forgotten
// longer ago than it keeps ended runs.
func (c *Client) ByUUID(ctx context.Context, uuid string) (e Execution, found bool, err error) {
	query := joined("WorkflowType = "+literal(contract.WorkflowDeviceLifecycle),
		anyOf(contract.AttrUUID.GetName(), []string{uuid}))
	err = c.pages(ctx, query, func(infos []*workflowpb.WorkflowExecutionInfo) (bool, error) {
		for _, info := range infos {
			run := executionOf(info, nil)
			if run.Status.UUID == uuid && (!found || run.Started.After(e.Started)) {
				e, found = run, true
			}
		}
		return found, nil // runs that have not ended stand first, and then the last to end
	})
	if err != nil {
		return Execution{}, false, fmt.Errorf("find the device with UUID %s: %w", uuid, err)
	}
	return e, found, nil
}
