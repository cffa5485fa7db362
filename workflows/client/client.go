package client

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	enumspb "go.temporal.io/api/enums/v1"
	sdkclient "go.temporal.io/sdk/client"
	"google.golang.org/grpc/codes"

	"burnish/internal/device"
	"burnish/workflows/contract"
)

// Client talks to the workflows of one namespace.
type Client struct {
	temporal sdkclient.Client
	// serials looks up running devices, ended the ended runs of devices, bound the runs in which a
	// device is an instance's.
	serials, ended, bound lookups
}

// New returns a Client over a connection, which the caller closes.
func New(temporal sdkclient.Client) *Client {
	return &Client{
		temporal: temporal,
		serials:  lookups{query: serialsQuery, value: func(e Execution) string { return e.Status.Serial }},
		ended:    lookups{query: endedQuery, value: func(e Execution) string { return e.Name }},
		bound:    lookups{query: boundQuery, value: instanceOf},
	}
}

// Do asks a device to carry out a verb. An enrollment starts the device's workflow if there is none. A
// bind and an unbind go by way of the workflow of the instance, which then holds the binding.
func (c *Client) Do(ctx context.Context, name string, v contract.Verb, in contract.Input) (contract.Result, error) {
	switch in := in.(type) {
	case contract.EnrollInput:
		return c.enroll(ctx, in)
	case contract.BindInput:
		if v.Name == contract.VerbBind.Name {
			return c.attach(ctx, name, in)
		}
	case contract.UnbindInput:
		if v.Name == contract.VerbUnbind.Name {
			return c.detach(ctx, name, in)
		}
	}
	return c.Send(ctx, name, v, in)
}

// Send sends a verb to the device itself, as the workflow of an instance does.
func (c *Client) Send(ctx context.Context, name string, v contract.Verb, in contract.Input) (contract.Result, error) {
	if !v.Takes(in) {
		return contract.Result{}, fmt.Errorf("%s takes a %T, not a %T", v.Name, v.Input, in)
	}
	// It calls the inventory in its workflow task: one that is lost with the workflow may have carried
	// out a request that it never answered (SAFETY F42).
	began := time.Now()
	result, err := update[contract.Result](ctx, c, contract.WorkflowID(name), v.Update(), in)
	if NotFound(err) && c.endedSince(ctx, name, began) {
		err = ended(err)
	}
	result.Device = normalize(result.Device)
	return result, err
}

func (c *Client) enroll(ctx context.Context, in contract.EnrollInput) (contract.Result, error) {
	name := in.Enrollment.Name
	ctx, sent := watchSending(ctx)
	handle, err := c.temporal.UpdateWithStartWorkflow(ctx, sdkclient.UpdateWithStartWorkflowOptions{
		StartWorkflowOperation: c.temporal.NewWithStartWorkflowOperation(DeviceStart(in.Enrollment, in.Hardware),
			contract.WorkflowDeviceLifecycle, contract.DeviceInput{Name: name}),
		UpdateOptions: updateOptions(ctx, contract.WorkflowID(name), contract.VerbEnroll.Update(), in),
	})
	if err != nil {
		return contract.Result{}, sent.unconfirmed(err)
	}
	return awaitResult[contract.Result](ctx, handle)
}

// Candidates asks a cloud's workflow which devices could be imported.
func (c *Client) Candidates(ctx context.Context, cloud string,
	in contract.CandidatesInput) (contract.Candidates, error) {
	return update[contract.Candidates](ctx, c, contract.ReconcileWorkflowID(cloud), contract.UpdateCandidates, in)
}

// Query asks the device's workflow for its status. A control worker must answer.
func (c *Client) Query(ctx context.Context, name string) (contract.DeviceStatus, error) {
	status, err := query[contract.DeviceStatus](ctx, c, contract.WorkflowID(name), contract.QueryDevice)
	return normalize(status), err
}

// Validate asks the device's workflow what a clean would do.
func (c *Client) Validate(ctx context.Context, name string, in contract.CleanInput) (contract.CleanPlan, error) {
	return query[contract.CleanPlan](ctx, c, contract.WorkflowID(name), contract.QueryValidate, in)
}

// Discovery asks the device's workflow for the result of the host's last discovery.
func (c *Client) Discovery(ctx context.Context, name string) (contract.DiscoveryResult, error) {
	return query[contract.DiscoveryResult](ctx, c, contract.WorkflowID(name), contract.QueryDiscovery)
}

// HostScanState asks a host's workflow for its state.
func (c *Client) HostScanState(ctx context.Context, host string) (contract.HostScanState, error) {
	return query[contract.HostScanState](ctx, c, contract.HostScanWorkflowID(host), contract.QueryHostScan)
}

// ReconcileState asks a cloud's workflow for its state.
func (c *Client) ReconcileState(ctx context.Context, cloud string) (contract.InventoryReconcileState, error) {
	return query[contract.InventoryReconcileState](ctx, c, contract.ReconcileWorkflowID(cloud), contract.QueryReconcile)
}

// OneViewState asks an appliance's workflow for its state.
func (c *Client) OneViewState(ctx context.Context, appliance string) (contract.OneViewState, error) {
	return query[contract.OneViewState](ctx, c, contract.OneViewWorkflowID(appliance), contract.QueryOneView)
}

func update[R any](ctx context.Context, c *Client, workflow, name string, in any) (R, error) {
	ctx, sent := watchSending(ctx)
	handle, err := c.temporal.UpdateWorkflow(ctx, updateOptions(ctx, workflow, name, in))
	if err != nil {
		var none R
		return none, sent.unconfirmed(err)
	}
	return awaitResult[R](ctx, handle)
}

// endedLately is for how long after its end a workflow may have been there when a request was
// sent: the clocks of two machines differ, and what an ended workflow had begun goes on for a
// moment.
const endedLately = time.Minute

// endedSince says that a device's workflow may have ended, other than by itself, since a moment.
func (c *Client) endedSince(ctx context.Context, name string, since time.Time) bool {
	e, found, err := c.LastRun(ctx, name)
	return err != nil || e.Running || found && !e.Forgotten && !e.Absent() && e.Ended.After(since.Add(-endedLately))
}

// awaitResult waits for the result of an accepted update. Only an answer ends it: without
// one the update is still carried out, or may be by the next run of its workflow.
func awaitResult[R any](ctx context.Context, handle sdkclient.WorkflowUpdateHandle) (R, error) {
	var result R
	err := handle.Get(ctx, &result)
	switch refusal, ok := contract.RefusalOf(err); {
	case ok && refusal.Fault.Code == completedWorkflow:
		err = ended(err)
	case code(err) != codes.Unknown, Unconfirmed(unconfirmed(err)): // the server's error is no answer either
		err = AcceptedError{Err: err}
	}
	return result, err
}

// completedWorkflow is the server's error type for an update whose run was terminated, also by a
// reset, before it had answered.
const completedWorkflow device.Code = "AcceptedUpdateCompletedWorkflow"

func query[R any](ctx context.Context, c *Client, workflow, name string, in ...any) (R, error) {
	return queryRun[R](ctx, c, workflow, "", name, in...)
}

// queryRun asks one run of a workflow; "" is the newest.
func queryRun[R any](ctx context.Context, c *Client, workflow, run, name string, in ...any) (R, error) {
	var result R
	value, err := c.temporal.QueryWorkflow(ctx, workflow, run, name, in...)
	if err == nil {
		err = value.Get(&result)
	}
	return result, err
}

// requestKey is the context's key of WithRequest.
type requestKey struct{}

// WithRequest gives the one update that is sent with this context its ID, see
// [contract.RequestID]. A device that has carried it out answers a repetition, and does
// nothing.
func WithRequest(ctx context.Context, id string) context.Context {
	return context.WithValue(ctx, requestKey{}, id)
}

// updateOptions uses a new update ID for every call without WithRequest. Temporal answers a
// repeated ID with the first outcome, also with its failure, and forgets it at
// continue-as-new; idempotency is in the device's state. The call waits until the update is
// accepted or refused and the handle for its result, so that a request that no worker
// accepted differs from one that takes long.
func updateOptions(ctx context.Context, workflow, name string, in any) sdkclient.UpdateWorkflowOptions {
	id, ok := ctx.Value(requestKey{}).(string)
	if !ok {
		id = name + "-" + uuid.NewString()
	}
	return sdkclient.UpdateWorkflowOptions{
		WorkflowID:   workflow,
		UpdateID:     id,
		UpdateName:   name,
		Args:         []any{in},
		WaitForStage: sdkclient.WorkflowUpdateStageAccepted,
	}
}

// DeviceStart are the start options of a device's workflow, whose name is canonical.
func DeviceStart(e contract.Enrollment, h contract.Hardware) sdkclient.StartWorkflowOptions {
	options := startOptions(contract.WorkflowID(e.Name))
	options.StaticSummary, options.StaticDetails = contract.Summary(e, h)
	return options
}

// startOptions are those of every workflow of Burnish: one that runs is kept.
func startOptions(workflow string) sdkclient.StartWorkflowOptions {
	return sdkclient.StartWorkflowOptions{
		ID: workflow, TaskQueue: contract.Queue, WorkflowTaskTimeout: contract.TaskTimeout,
		WorkflowIDConflictPolicy: enumspb.WORKFLOW_ID_CONFLICT_POLICY_USE_EXISTING,
	}
}
