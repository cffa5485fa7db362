package main

import (
	"context"
	"time"

	enumspb "go.temporal.io/api/enums/v1"

	"burnish/internal/config"
	"burnish/workflows/client"
	"burnish/workflows/contract"
)

// deviceClient is the part of client.Client that the commands use.
type deviceClient interface {
	Enroll(ctx context.Context, in contract.EnrollInput) (contract.Result, error)
	Provide(ctx context.Context, name string, in contract.ReasonInput) (contract.Result, error)
	Clean(ctx context.Context, name string, in contract.CleanInput) (contract.Result, error)
	Abort(ctx context.Context, name string, in contract.ReasonInput) (contract.Result, error)
	ReleaseHold(ctx context.Context, name string, in contract.ReasonInput) (contract.Result, error)
	Manage(ctx context.Context, name string, in contract.ReasonInput) (contract.Result, error)
	Maintain(ctx context.Context, name string, in contract.MaintainInput) (contract.Result, error)
	Retire(ctx context.Context, name string, in contract.ReasonInput) (contract.Result, error)
	Forget(ctx context.Context, name string, in contract.ReasonInput) (contract.Result, error)
	Replace(ctx context.Context, name string, in contract.ReplaceInput) (contract.Result, error)
	Move(ctx context.Context, name string, in contract.MoveInput) (contract.Result, error)
	Bind(ctx context.Context, name string, in contract.BindInput) (contract.BindResult, error)
	Unbind(ctx context.Context, name string, in contract.UnbindInput) (contract.Result, error)
	Rebuild(ctx context.Context, name string, in contract.UnbindInput) (contract.Result, error)

	Power(ctx context.Context, name string, in contract.PowerInput) (contract.Result, error)
	LimitsStatus(ctx context.Context, name string) (contract.LimitsStatus, bool, error)
	Resume(ctx context.Context, in contract.ResumeInput) (contract.ResumeResult, error)

	Describe(ctx context.Context, name string) (client.Execution, error)
	Query(ctx context.Context, name string) (contract.DeviceStatus, error)
	Validate(ctx context.Context, name string, in contract.CleanInput) (contract.CleanPlan, error)
	Discovery(ctx context.Context, name string) (contract.DiscoveryResult, error)
	List(ctx context.Context, f client.Filter) ([]client.Execution, error)
	Clouds(ctx context.Context) ([]string, error)
	ReconcileState(ctx context.Context, cloud string) (contract.InventoryReconcileState, error)
	OneViewState(ctx context.Context, appliance string) (contract.OneViewState, error)
	Candidates(ctx context.Context, cloud string, in contract.CandidatesInput) (contract.Candidates, error)
	Appliances(ctx context.Context) ([]string, error)
	Servers(ctx context.Context, in contract.ServersInput) (contract.Servers, error)
	ReadPool(ctx context.Context, in contract.PoolRequest) (contract.PoolSnapshot, error)
	MigratePool(ctx context.Context, name string, in contract.ReasonInput) (contract.Result, error)
	LastPoll(ctx context.Context, queue string, kind enumspb.TaskQueueType) (time.Time, error)
	ClusterID(ctx context.Context) (string, error)
	SearchAttributes(ctx context.Context, namespace string) (map[string]enumspb.IndexedValueType, error)

	// endpoint gives the server's address and the namespace.
	endpoint() (address, namespace string)
	close()
}

// connection is a deviceClient over Temporal.
type connection struct {
	*client.Client
	server *config.Connection
}

func (c connection) endpoint() (address, namespace string) {
	return c.server.Address, c.server.Namespace
}

func (c connection) close() { c.server.Close() }
