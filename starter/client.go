package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/operatorservice/v1"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	sdk "go.temporal.io/sdk/temporal"

	"burnish/internal/config"
	"burnish/workflows/contract"
)

// deviceClient is what the commands ask of Temporal. Every error is as Temporal's
// client gives it; each call lasts as long as its context lets it.
type deviceClient interface {
	// enroll starts the device's workflow where there is none, and enrols.
	enroll(ctx context.Context, in contract.EnrollInput) (contract.Result, error)
	// update sends one update and reads its answer into result.
	update(ctx context.Context, name, update string, input, result any) error
	// describe gives what the server itself knows of the device's present run.
	describe(ctx context.Context, name string) (execution, error)
	// query asks the device's workflow; a control worker must answer.
	query(ctx context.Context, name string) (contract.DeviceStatus, error)
	// facts asks the device's workflow what its host said of it.
	facts(ctx context.Context, name string) (contract.DiscoveryResult, error)
	// list gives all runs that a visibility query finds.
	list(ctx context.Context, query string) ([]execution, error)
	// clouds lists those whose Placement is looked at; candidates asks one of them what
	// could be imported.
	clouds(ctx context.Context) ([]string, error)
	candidates(ctx context.Context, cloud string, in contract.CandidatesInput) (contract.Candidates, error)
	// polled tells when a worker last asked for work of a queue; zero for never.
	lastPolled(ctx context.Context, queue string, kind enumspb.TaskQueueType) (time.Time, error)
	// searchAttributes gives those that the server knows, with their types.
	searchAttributes(ctx context.Context) (map[string]enumspb.IndexedValueType, error)
	// endpoint gives the server's address and the namespace.
	endpoint() (address, namespace string)
	close()
}

// temporal is lifecycles over the real client.
type temporal struct {
	client *config.Connection
}

// pageSize is how many devices one request of a listing brings.
const pageSize = 500

func (t *temporal) enroll(ctx context.Context, in contract.EnrollInput) (contract.Result, error) {
	handle, err := contract.Enroll(ctx, t.client, in)
	if err != nil {
		return contract.Result{}, err
	}
	var result contract.Result
	err = awaitResult(ctx, handle, &result)
	return result, err
}

func (t *temporal) update(ctx context.Context, name, update string, input, result any) error {
	handle, err := t.client.UpdateWorkflow(ctx, contract.UpdateOptions(name, update, input))
	if err != nil {
		return err
	}
	return awaitResult(ctx, handle, result)
}

func (t *temporal) clouds(ctx context.Context) ([]string, error) {
	query := "WorkflowType = " + quote(contract.WorkflowInventoryReconcile) + " AND ExecutionStatus = " + quote("Running")
	found, err := t.client.ListWorkflow(ctx, &workflowservice.ListWorkflowExecutionsRequest{Query: query, PageSize: pageSize})
	if err != nil {
		return nil, err
	}
	var names []string
	for _, e := range found.GetExecutions() {
		name := strings.TrimPrefix(e.GetExecution().GetWorkflowId(), contract.ReconcileWorkflowID(""))
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names, nil
}

func (t *temporal) candidates(ctx context.Context, cloud string, in contract.CandidatesInput) (contract.Candidates, error) {
	var found contract.Candidates
	handle, err := t.client.UpdateWorkflow(ctx, client.UpdateWorkflowOptions{
		WorkflowID: contract.ReconcileWorkflowID(cloud), UpdateName: contract.UpdateCandidates, Args: []any{in},
		WaitForStage: client.WorkflowUpdateStageAccepted,
	})
	if err != nil {
		return found, err
	}
	err = awaitResult(ctx, handle, &found)
	return found, err
}

// acceptedNotAnswered is the error of a request that the device took up, and whose answer did
// not come in time.
type acceptedNotAnswered struct{ error }

// Unwrap gives what ended the wait.
func (u acceptedNotAnswered) Unwrap() error { return u.error }

// awaitResult waits for the answer of an update that was taken up.
func awaitResult(ctx context.Context, handle client.WorkflowUpdateHandle, result any) error {
	err := handle.Get(ctx, result)
	if err != nil && timedOut(err) {
		return acceptedNotAnswered{err}
	}
	return err
}

func (t *temporal) describe(ctx context.Context, name string) (execution, error) {
	answer, err := t.client.DescribeWorkflowExecution(ctx, contract.WorkflowID(name), "")
	if err != nil {
		return execution{}, err
	}
	return executionOf(answer.GetWorkflowExecutionInfo(), answer.GetPendingActivities())
}

func (t *temporal) query(ctx context.Context, name string) (contract.DeviceStatus, error) {
	answer, err := t.client.QueryWorkflow(ctx, contract.WorkflowID(name), "", contract.QueryDevice)
	if err != nil {
		return contract.DeviceStatus{}, err
	}
	var view contract.DeviceStatus
	err = answer.Get(&view)
	return view, err
}

func (t *temporal) facts(ctx context.Context, name string) (contract.DiscoveryResult, error) {
	answer, err := t.client.QueryWorkflow(ctx, contract.WorkflowID(name), "", contract.QueryDiscovery)
	if err != nil {
		return contract.DiscoveryResult{}, err
	}
	var facts contract.DiscoveryResult
	err = answer.Get(&facts)
	return facts, err
}

func (t *temporal) list(ctx context.Context, query string) ([]execution, error) {
	var (
		found []execution
		token []byte
	)
	for {
		page, err := t.client.ListWorkflow(ctx, &workflowservice.ListWorkflowExecutionsRequest{
			Query: query, PageSize: pageSize, NextPageToken: token,
		})
		if err != nil {
			return nil, err
		}
		for _, info := range page.GetExecutions() {
			e, err := executionOf(info, nil)
			if err != nil {
				return nil, err
			}
			found = append(found, e)
		}
		if token = page.GetNextPageToken(); len(token) == 0 {
			return found, nil
		}
	}
}

func (t *temporal) lastPolled(ctx context.Context, queue string, kind enumspb.TaskQueueType) (time.Time, error) {
	answer, err := t.client.DescribeTaskQueue(ctx, queue, kind)
	if err != nil {
		return time.Time{}, err
	}
	var last time.Time
	for _, poller := range answer.GetPollers() {
		if seen := poller.GetLastAccessTime().AsTime(); seen.After(last) {
			last = seen
		}
	}
	return last, nil
}

func (t *temporal) searchAttributes(ctx context.Context) (map[string]enumspb.IndexedValueType, error) {
	answer, err := t.client.OperatorService().ListSearchAttributes(ctx, &operatorservice.ListSearchAttributesRequest{Namespace: t.client.Namespace})
	return answer.GetCustomAttributes(), err
}

func (t *temporal) endpoint() (address, namespace string) {
	return t.client.Address, t.client.Namespace
}

func (t *temporal) close() { t.client.Close() }

// execution is what Temporal's server knows of one device without its workflow.
type execution struct {
	name    string
	running bool
	started time.Time
	// ended is when the newest run ended, and forgotten that the device was let go
	// in order; both are for a run that is not running.
	ended     time.Time
	forgotten bool
	// view holds what search attributes and memo tell; Binding, LastRefusal's
	// newest and past cleans are the workflow's alone.
	view contract.DeviceStatus
	// pending are the activities under way, by step.
	pending map[string]pending
}

// pending is one activity under way.
type pending struct {
	progress *contract.Progress // its last heartbeat
	started  bool               // a worker has it
	attempt  int32
	failure  string    // of the attempt before
	next     time.Time // of the attempt to come
}

// executionOf reads one run.
func executionOf(info *workflowpb.WorkflowExecutionInfo, activities []*workflowpb.PendingActivityInfo) (execution, error) {
	e := execution{
		name:    strings.TrimPrefix(info.GetExecution().GetWorkflowId(), contract.WorkflowID("")),
		running: info.GetStatus() == enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING,
		started: info.GetStartTime().AsTime(),
		pending: map[string]pending{},

		forgotten: info.GetStatus() == enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED,
	}
	if at := info.GetCloseTime(); at != nil {
		e.ended = at.AsTime()
	}
	var facts contract.StatusMemo
	if p, ok := info.GetMemo().GetFields()[contract.MemoStatus]; ok {
		if err := converter.GetDefaultDataConverter().FromPayload(p, &facts); err != nil {
			return execution{}, fmt.Errorf("the memo of %s cannot be read: %w", e.name, err)
		}
	}
	attributes, err := attributesOf(info.GetSearchAttributes().GetIndexedFields())
	if err != nil {
		return execution{}, fmt.Errorf("the search attributes of %s cannot be read: %w", e.name, err)
	}
	e.view = viewOf(e.name, attributes, facts)
	for _, a := range activities {
		p := pending{
			started: a.GetState() != enumspb.PENDING_ACTIVITY_STATE_SCHEDULED,
			attempt: a.GetAttempt(),
			failure: a.GetLastFailure().GetMessage(),
		}
		if at := a.GetNextAttemptScheduleTime(); at != nil {
			p.next = at.AsTime()
		}
		// Another activity's heartbeat is not a Progress, and is not shown.
		var beat contract.Progress
		if d := a.GetHeartbeatDetails(); d != nil && converter.GetDefaultDataConverter().FromPayloads(d, &beat) == nil {
			p.progress = &beat
		}
		e.pending[a.GetActivityType().GetName()] = p
	}
	return e, nil
}

// attributes are a run's search attributes, by the contract's keys.
type attributes struct {
	text    map[string]string
	truth   map[string]bool
	updated time.Time
}

func attributesOf(fields map[string]*commonpb.Payload) (attributes, error) {
	got := attributes{text: map[string]string{}, truth: map[string]bool{}}
	read := func(key string, into any) error {
		p, ok := fields[key]
		if !ok {
			return nil
		}
		return converter.GetDefaultDataConverter().FromPayload(p, into)
	}
	for _, key := range []sdk.SearchAttributeKeyKeyword{
		contract.AttrState, contract.AttrUUID, contract.AttrSerial, contract.AttrType,
		contract.AttrHost, contract.AttrInstance, contract.AttrStep, contract.AttrFault,
	} {
		var v string
		if err := read(key.GetName(), &v); err != nil {
			return attributes{}, fmt.Errorf("%s: %w", key.GetName(), err)
		}
		got.text[key.GetName()] = v
	}
	for _, key := range []sdk.SearchAttributeKeyBool{contract.AttrNeedsOperator, contract.AttrDirty} {
		var v bool
		if err := read(key.GetName(), &v); err != nil {
			return attributes{}, fmt.Errorf("%s: %w", key.GetName(), err)
		}
		got.truth[key.GetName()] = v
	}
	if err := read(contract.AttrUpdated.GetName(), &got.updated); err != nil {
		return attributes{}, fmt.Errorf("%s: %w", contract.AttrUpdated.GetName(), err)
	}
	return got, nil
}
