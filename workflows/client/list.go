package client

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/operatorservice/v1"
	"go.temporal.io/api/serviceerror"
	taskqueuepb "go.temporal.io/api/taskqueue/v1"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"

	"burnish/internal/device"
	"burnish/workflows/contract"
)

// pageSize is how many workflows one request of a listing returns.
const pageSize = 1000

// Describe returns what the server knows about the newest run of a device's workflow, with
// the progress of its running step.
func (c *Client) Describe(ctx context.Context, name string) (Execution, error) {
	e, found, err := c.LastRun(ctx, name)
	switch {
	case err != nil:
		return Execution{}, err
	case !found:
		return Execution{}, serviceerror.NewNotFound("no workflow " + contract.WorkflowID(name))
	case e.Running || e.Forgotten || e.Absent():
		return e, e.Err
	}
	if e.HowEnded, err = c.HowEnded(ctx, e); err != nil {
		return Execution{}, err
	}
	return e, e.Err
}

// HowEnded says how an ended run of a device's workflow ended, when, and who ended it.
func (c *Client) HowEnded(ctx context.Context, e Execution) (string, error) {
	events := c.temporal.GetWorkflowHistory(ctx, contract.WorkflowID(e.Name), e.RunID, false,
		enumspb.HISTORY_EVENT_FILTER_TYPE_CLOSE_EVENT)
	how := "ended"
	for events.HasNext() {
		event, err := events.Next()
		if err != nil {
			return "", fmt.Errorf("read how %s ended: %w", contract.WorkflowID(e.Name), err)
		}
		at := " at " + event.GetEventTime().AsTime().UTC().Format(time.RFC3339)
		switch event.GetEventType() {
		case enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_TERMINATED:
			end := event.GetWorkflowExecutionTerminatedEventAttributes()
			how = "terminated" + at + " by " + end.GetIdentity()
			if reason := end.GetReason(); reason != "" {
				how += " (" + reason + ")"
			}
		case enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_FAILED:
			how = "failed" + at + ": " + event.GetWorkflowExecutionFailedEventAttributes().GetFailure().GetMessage()
		case enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_TIMED_OUT:
			how = "timed out" + at
		case enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_CANCELED:
			how = "canceled" + at
		default:
			how = "ended" + at
		}
	}
	return how, nil
}

// LastRun is Describe for a caller that needs no status: a status that cannot be read is no
// error. found is false if the server has no run.
func (c *Client) LastRun(ctx context.Context, name string) (e Execution, found bool, err error) {
	answer, err := c.temporal.DescribeWorkflowExecution(ctx, contract.WorkflowID(name), "")
	if NotFound(err) {
		return Execution{}, false, nil
	}
	if err != nil {
		return Execution{}, false, err
	}
	return executionOf(answer.GetWorkflowExecutionInfo(), answer.GetPendingActivities()), true, nil
}

// PendingActivities returns the running activities of a workflow; none if it has ended.
func (c *Client) PendingActivities(ctx context.Context, workflow string) ([]*workflowpb.PendingActivityInfo, error) {
	answer, err := c.temporal.DescribeWorkflowExecution(ctx, workflow, "")
	if NotFound(err) {
		return nil, nil
	}
	return answer.GetPendingActivities(), err
}

// List returns the devices that the filter selects, sorted by name. It is a hint: the
// listing lags behind, and a device that continues as new while it is read may be missing.
func (c *Client) List(ctx context.Context, f Filter) ([]Execution, error) {
	all := map[string]Execution{}
	err := c.Pages(ctx, f, func(page []Execution) error {
		for _, e := range page {
			if e.Err != nil {
				return e.Err
			}
			Newest(all, e)
		}
		return nil
	})
	return slices.SortedFunc(maps.Values(all), func(a, b Execution) int { return strings.Compare(a.Name, b.Name) }), err
}

// Newest keeps the newest run of each device: one that continues as new between two pages
// is listed twice.
func Newest(all map[string]Execution, e Execution) {
	if before, ok := all[e.Name]; !ok || e.Started.After(before.Started) {
		all[e.Name] = e
	}
}

// Pages calls do with each page of the devices that the filter selects. A device that
// cannot be read has Err set.
func (c *Client) Pages(ctx context.Context, f Filter, do func([]Execution) error) error {
	return c.pages(ctx, f.Query(), func(infos []*workflowpb.WorkflowExecutionInfo) (bool, error) {
		var page []Execution
		for _, info := range infos {
			if e := executionOf(info, nil); e.Err != nil || f.Selects(&e.Status) {
				page = append(page, e)
			}
		}
		return false, do(page)
	})
}

// pages calls do with each page of a query's runs, until do is done.
func (c *Client) pages(ctx context.Context, query string,
	do func([]*workflowpb.WorkflowExecutionInfo) (done bool, err error)) error {
	request := &workflowservice.ListWorkflowExecutionsRequest{Query: query, PageSize: pageSize}
	for {
		page, err := c.page(ctx, request)
		if err != nil {
			return err
		}
		if done, err := do(page.GetExecutions()); done || err != nil {
			return err
		}
		if request.NextPageToken = page.GetNextPageToken(); len(request.NextPageToken) == 0 {
			return nil
		}
	}
}

// leastRequest is how long a request must have taken to be sent again.
const leastRequest = time.Second

// page asks for one page, for as long as ctx has time: the SDK gives a request ten seconds at
// most, in which a busy server may not answer.
func (c *Client) page(ctx context.Context,
	request *workflowservice.ListWorkflowExecutionsRequest) (*workflowservice.ListWorkflowExecutionsResponse, error) {
	for {
		began := time.Now()
		page, err := c.temporal.ListWorkflow(ctx, request)
		_, limited := ctx.Deadline()
		if err == nil || !TimedOut(err) || !limited || ctx.Err() != nil || time.Since(began) < leastRequest {
			return page, err
		}
	}
}

// SameSerial is what is listed of a serial.
type SameSerial struct {
	// Listed: the device that was asked for is listed with it.
	Listed bool
	// Other is another device that has it and is not retired, "" if none is known.
	Other string
	// Ended is the last run of another device that had it when its workflow ended, and that was
	// neither retired nor forgotten (F35); its Name is "" if none is known.
	Ended Execution
}

// FindBySerial searches the listing for the serial of the device called name. movedFrom is the name
// that it had itself: that counts where its last run is of more than this device. A listing lags
// behind: that there is no other proves nothing. But of two devices that are listed with one serial,
// the one that was listed last finds the other.
func (c *Client) FindBySerial(ctx context.Context, serial, name, movedFrom string) (found SameSerial, err error) {
	if serial == "" {
		return found, nil
	}
	runs, err := c.serials.find(ctx, c, serial)
	if err != nil {
		return found, fmt.Errorf("find serial %q: %w", serial, err)
	}
	f := Filter{BySerial: {serial}}
	var unsure []string
	for _, e := range runs {
		switch {
		case !f.Selects(&e.Status), e.Status.DeviceState == device.Retired:
		case e.Name == name:
			found.Listed = found.Listed || e.Ended.IsZero()
		case e.Ended.IsZero() && e.Name != movedFrom:
			found.Other = cmp.Or(found.Other, e.Name)
		case !slices.Contains(unsure, e.Name):
			unsure = append(unsure, e.Name)
		}
	}
	if found.Other != "" {
		return found, nil
	}
	for _, other := range unsure {
		last, there, err := c.LastRun(ctx, other)
		switch {
		case err != nil:
			return SameSerial{}, fmt.Errorf("find serial %q: %w", serial, err)
		case !there || last.Released(): // past its retention, or given up
		case other == movedFrom && last.Moves():
		case last.Status.Serial != "" && stored(serial) != last.Status.Serial: // replaced since
		case last.Running && last.Absent() && last.Status.Serial != "": // it is being forgotten, or was moved
		case last.Running: // again, and its host has not seen the device yet
			found.Other = other
			return found, nil
		default:
			found.Ended = last
			return found, nil
		}
	}
	return found, nil
}

func serialsQuery(serials []string) string {
	return joined("WorkflowType = "+literal(contract.WorkflowDeviceLifecycle),
		"ExecutionStatus IN ('Running', 'Terminated', 'Canceled', 'TimedOut', 'Failed')",
		Filter{ByState: InService(), BySerial: serials}.conditions())
}

// FindPreviousRun returns the newest run of a device's workflow that did not end by itself
// (terminated, reset, canceled, timed out or failed), and the instance that the device was
// bound to. It is empty if there is no such run, or if the device was forgotten since. A run
// in which the device was never enrolled, as after a refused enrollment, knew nothing.
func (c *Client) FindPreviousRun(ctx context.Context, name string) (contract.PreviousRun, error) {
	runs, err := c.ended.find(ctx, c, name)
	slices.SortFunc(runs, func(a, b Execution) int { return b.Ended.Compare(a.Ended) })
	for _, run := range runs {
		if err != nil || run.Forgotten {
			break
		}
		if err = run.attributesErr; err != nil {
			break
		}
		found := contract.PreviousRun{RunID: run.RunID, State: run.Status.DeviceState, Hold: run.hold(),
			EndedAt: run.Ended.UTC()}
		switch {
		case run.Status.InstanceUUID != nil:
			found.Instance = *run.Status.InstanceUUID
			return found, nil
		case run.Status.DeviceState != device.Unknown && !run.Absent(): // a run in state unknown knew no more
			return found, nil
		}
	}
	if err != nil {
		return contract.PreviousRun{}, fmt.Errorf("find the previous run of %s: %w", name, err)
	}
	return contract.PreviousRun{}, nil
}

// hold is how an operator held the device by what the run published.
func (e Execution) hold() device.Hold {
	d := device.Device{State: e.Status.DeviceState, Status: e.Memo.Status}
	if strings.HasPrefix(e.Memo.MaintenanceReason, string(device.MaintenanceTaken)) {
		d.Maintenance = device.MaintenanceTaken
	}
	return d.Hold()
}

func endedQuery(names []string) string {
	ids := make([]string, len(names))
	for i, name := range names {
		ids[i] = contract.WorkflowID(name)
	}
	return joined(anyOf("WorkflowId", ids), "ExecutionStatus IN ('Terminated', 'Canceled', 'TimedOut', 'Failed', "+
		"'Completed')")
}

// Clouds lists the clouds whose workflow runs.
func (c *Client) Clouds(ctx context.Context) ([]string, error) {
	return c.named(ctx, contract.WorkflowInventoryReconcile, contract.ReconcileWorkflowID(""))
}

// named lists the running workflows of a type, by the part of their IDs after the prefix.
func (c *Client) named(ctx context.Context, workflowType, prefix string) ([]string, error) {
	var names []string
	err := c.pages(ctx, running(workflowType), func(infos []*workflowpb.WorkflowExecutionInfo) (bool, error) {
		for _, info := range infos {
			name := strings.TrimPrefix(info.GetExecution().GetWorkflowId(), prefix)
			if !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
		return false, nil
	})
	return names, err
}

// LastPoll is when a worker last polled a task queue, zero if none has: a control worker
// polls contract.Queue for workflows, a host's worker its queue for activities.
func (c *Client) LastPoll(ctx context.Context, queue string) (time.Time, error) {
	pollers, err := c.pollers(ctx, queue, queue == contract.Queue)
	return lastOf(pollers), err
}

func lastOf(pollers []*taskqueuepb.PollerInfo) (last time.Time) {
	for _, poller := range pollers {
		if at := poller.GetLastAccessTime().AsTime(); at.After(last) {
			last = at
		}
	}
	return last
}

// Polls says whether a worker of an identity has polled a task queue lately, for workflows or for
// activities.
func (c *Client) Polls(ctx context.Context, identity, queue string, workflows bool) (bool, error) {
	pollers, err := c.pollers(ctx, queue, workflows)
	return slices.ContainsFunc(pollers, func(p *taskqueuepb.PollerInfo) bool { return p.GetIdentity() == identity }), err
}

func (c *Client) pollers(ctx context.Context, queue string, workflows bool) ([]*taskqueuepb.PollerInfo, error) {
	kind := enumspb.TASK_QUEUE_TYPE_ACTIVITY
	if workflows {
		kind = enumspb.TASK_QUEUE_TYPE_WORKFLOW
	}
	answer, err := c.temporal.DescribeTaskQueue(ctx, queue, kind)
	return answer.GetPollers(), err
}

// Server is the Temporal server of a namespace. Cluster is the ID that its database keeps.
type Server struct {
	Address   string `json:"address"`
	Namespace string `json:"namespace"`
	Cluster   string `json:"cluster"`
}

// Names are the names of what an installation has of one kind.
type Names struct {
	Names []string `json:"names"`
}

// Poll is when a worker last polled a task queue; zero if none has.
type Poll struct {
	Queue    string    `json:"queue"`
	LastPoll time.Time `json:"last_poll,omitzero"`
}

// Connected is a Client that knows which server it asks.
type Connected struct {
	*Client
	At Server // without its Cluster
}

// Server gives the server, with the ID of its cluster as it answers.
func (c Connected) Server(ctx context.Context) (Server, error) {
	answer, err := c.temporal.WorkflowService().GetClusterInfo(ctx, &workflowservice.GetClusterInfoRequest{})
	c.At.Cluster = answer.GetClusterId()
	return c.At, err
}

// SearchAttributes returns the search attributes of the namespace, with the names of their types.
func (c Connected) SearchAttributes(ctx context.Context) (map[string]string, error) {
	answer, err := c.temporal.OperatorService().
		ListSearchAttributes(ctx, &operatorservice.ListSearchAttributesRequest{Namespace: c.At.Namespace})
	types := map[string]string{}
	for name, kind := range answer.GetCustomAttributes() {
		types[name] = kind.String()
	}
	return types, err
}
