package client

import (
	"context"
	"strings"
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

// Enroll enrolls a device. It starts the device's workflow if there is none.
func (c *Client) Enroll(ctx context.Context, in contract.EnrollInput) (contract.Result, error) {
	name := in.Enrollment.Name
	ctx, sent := watchSending(ctx)
	handle, err := c.temporal.UpdateWithStartWorkflow(ctx, sdkclient.UpdateWithStartWorkflowOptions{
		StartWorkflowOperation: c.temporal.NewWithStartWorkflowOperation(DeviceStart(in.Enrollment, in.Hardware), contract.WorkflowDeviceLifecycle, contract.DeviceInput{Name: name}),
		UpdateOptions:          updateOptions(ctx, contract.WorkflowID(name), contract.UpdateEnroll, in),
	})
	if err != nil {
		return contract.Result{}, sent.unconfirmed(err)
	}
	return awaitResult[contract.Result](ctx, handle)
}

// Provide cleans a manageable device and makes it available.
func (c *Client) Provide(ctx context.Context, name string, in contract.ReasonInput) (contract.Result, error) {
	return c.request(ctx, name, contract.UpdateProvide, in)
}

// Clean starts a clean.
func (c *Client) Clean(ctx context.Context, name string, in contract.CleanInput) (contract.Result, error) {
	return c.request(ctx, name, contract.UpdateClean, in)
}

// Abort stops the running clean.
func (c *Client) Abort(ctx context.Context, name string, in contract.ReasonInput) (contract.Result, error) {
	return c.request(ctx, name, contract.UpdateAbort, in)
}

// ReleaseHold goes on with a clean that its runbook holds.
func (c *Client) ReleaseHold(ctx context.Context, name string, in contract.ReasonInput) (contract.Result, error) {
	return c.request(ctx, name, contract.UpdateReleaseHold, in)
}

// Manage takes a device out of the pool.
func (c *Client) Manage(ctx context.Context, name string, in contract.ReasonInput) (contract.Result, error) {
	return c.request(ctx, name, contract.UpdateManage, in)
}

// Maintain puts a device on hold, or releases it.
func (c *Client) Maintain(ctx context.Context, name string, in contract.MaintainInput) (contract.Result, error) {
	return c.request(ctx, name, contract.UpdateMaintain, in)
}

// Retire takes a device out of service.
func (c *Client) Retire(ctx context.Context, name string, in contract.ReasonInput) (contract.Result, error) {
	return c.request(ctx, name, contract.UpdateRetire, in)
}

// Forget ends the workflow of a retired device.
func (c *Client) Forget(ctx context.Context, name string, in contract.ReasonInput) (contract.Result, error) {
	return c.request(ctx, name, contract.UpdateForget, in)
}

// Replace accepts new hardware in the device's slot.
func (c *Client) Replace(ctx context.Context, name string, in contract.ReplaceInput) (contract.Result, error) {
	return c.request(ctx, name, contract.UpdateReplace, in)
}

// Move records that the device's hardware is in another slot, under another name.
func (c *Client) Move(ctx context.Context, name string, in contract.MoveInput) (contract.Result, error) {
	return c.request(ctx, name, contract.UpdateMove, in)
}

// Power switches a device on or off, or resets it. A device whose driver has no power control
// has no such update.
func (c *Client) Power(ctx context.Context, name string, in contract.PowerInput) (contract.Result, error) {
	found, err := c.Discovery(ctx, name)
	if err == nil && !found.Power && found.Identity.Serial != "" {
		return contract.Result{}, contract.Refuse(contract.Refusal{Device: name, Fault: device.Fault{
			Class: device.Permanent, Code: device.CodeNoPowerControl, Message: "its driver has no power control", Remedy: "change its power at the hardware"}})
	}
	if err != nil {
		return contract.Result{}, err
	}
	return c.requestWhereKnown(ctx, name, contract.UpdatePower, in, "its host has not said yet that it has power control", "wait until its host has looked at it: show "+name)
}

// Override sends one act of an override, which the HTTP API has signed. Only a device that is,
// or lately was, in state error has this update.
func (c *Client) Override(ctx context.Context, name string, in contract.OverrideInput) (contract.Result, error) {
	return c.requestWhereKnown(ctx, name, contract.UpdateOverride, in, "only a device in state error can be overridden", "show "+name)
}

// requestWhereKnown sends an update that only some devices have. The others refuse it with this
// message and remedy.
func (c *Client) requestWhereKnown(ctx context.Context, name, update string, in any, message, remedy string) (contract.Result, error) {
	result, err := c.request(ctx, name, update, in)
	if err != nil && strings.Contains(err.Error(), "unknown update "+update) {
		err = contract.Refuse(contract.Refusal{Device: name, Fault: device.Fault{Class: device.Permanent, Code: device.CodeRefused,
			Message: message, Remedy: remedy}})
	}
	return result, err
}

// Bind reserves a device and binds it to an instance.
func (c *Client) Bind(ctx context.Context, name string, in contract.BindInput) (contract.BindResult, error) {
	return c.bindBy(ctx, name, contract.UpdateBind, in)
}

// Unbind ends the binding of an instance.
func (c *Client) Unbind(ctx context.Context, name string, in contract.UnbindInput) (contract.Result, error) {
	return c.request(ctx, name, contract.UpdateUnbind, in)
}

// Rebuild keeps the device bound while its instance is rebuilt.
func (c *Client) Rebuild(ctx context.Context, name string, in contract.UnbindInput) (contract.Result, error) {
	return c.request(ctx, name, contract.UpdateRebuild, in)
}

// Candidates asks a cloud's workflow which devices could be imported.
func (c *Client) Candidates(ctx context.Context, cloud string, in contract.CandidatesInput) (contract.Candidates, error) {
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

// Label changes a device's labels.
func (c *Client) Label(ctx context.Context, name string, in contract.LabelInput) (contract.Result, error) {
	return c.request(ctx, name, contract.UpdateLabel, in)
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

// request sends an update to a device.
func (c *Client) request(ctx context.Context, name, request string, in any) (contract.Result, error) {
	result, err := updateDevice[contract.Result](ctx, c, name, request, in)
	result.Device = normalize(result.Device)
	return result, err
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

// updateDevice is update for a device, which calls the inventory in its workflow task: one that is
// lost with the workflow may have carried out a request that it never answered.
//
// SAFETY F42
func updateDevice[R any](ctx context.Context, c *Client, name, request string, in any) (R, error) {
	began := time.Now()
	result, err := update[R](ctx, c, contract.WorkflowID(name), request, in)
	if NotFound(err) && c.endedSince(ctx, name, began) {
		err = ended(err)
	}
	return result, err
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
	var result R
	value, err := c.temporal.QueryWorkflow(ctx, workflow, "", name, in...)
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
