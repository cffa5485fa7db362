package main

import (
	"context"
	"log/slog"
	"time"

	sdkclient "go.temporal.io/sdk/client"

	"burnish/internal/api/remote"
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
	Label(ctx context.Context, name string, in contract.LabelInput) (contract.Result, error)
	// DryRun asks what an update would do.
	DryRun(ctx context.Context, name, update string, in any) (contract.DryRun, error)
	AttachDevice(ctx context.Context, name string, in contract.BindInput) (contract.BindResult, error)
	DetachDevice(ctx context.Context, name string, in contract.UnbindInput) (contract.Result, error)
	Rebuild(ctx context.Context, name string, in contract.UnbindInput) (contract.Result, error)

	Power(ctx context.Context, name string, in contract.PowerInput) (contract.Result, error)
	Override(ctx context.Context, name string, in contract.OverrideInput) (contract.Result, error)
	LimitsStatus(ctx context.Context, name string) (contract.LimitsStatus, bool, error)
	Resume(ctx context.Context, in contract.ResumeInput) (contract.ResumeResult, error)

	InstanceBind(ctx context.Context, instance string, in contract.InstanceBindInput) (contract.InstanceResult, error)
	InstanceAttach(ctx context.Context, instance string, in contract.InstanceBindInput) (contract.InstanceResult, error)
	InstanceDetach(ctx context.Context, instance string, in contract.InstanceDetachInput) (contract.InstanceResult, error)
	InstanceRelease(ctx context.Context, instance string, in contract.InstanceActInput) (contract.InstanceResult, error)
	InstanceRebuild(ctx context.Context, instance string, in contract.InstanceActInput) (contract.InstanceResult, error)
	InstanceMigrate(ctx context.Context, instance string, in contract.InstanceMoveInput) (contract.InstanceResult, error)
	InstanceLiveMigrate(ctx context.Context, instance string, in contract.InstanceMoveInput) (contract.InstanceResult, error)
	InstanceConfirm(ctx context.Context, instance string, in contract.InstanceActInput) (contract.InstanceResult, error)
	InstanceRevert(ctx context.Context, instance string, in contract.InstanceActInput) (contract.InstanceResult, error)
	InstanceEvacuate(ctx context.Context, instance string, in contract.InstanceMoveInput) (contract.InstanceResult, error)
	Instance(ctx context.Context, instance string) (contract.InstanceStatus, error)

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
	LastPoll(ctx context.Context, queue string) (time.Time, error)
	// Server gives the Temporal server; with an error, as much of it as is known.
	Server(ctx context.Context) (client.Server, error)
	// SearchAttributes are those of the server's namespace, with the names of their types.
	SearchAttributes(ctx context.Context) (map[string]string, error)
	Diagnosis(ctx context.Context) (client.Diagnosis, error)

	Close()
}

// connect connects to the API, or else to Temporal, without the SDK's log.
func (a *app) connect(ctx context.Context) (deviceClient, error) {
	if a.api != "" {
		ctx, cancel := a.requestContext(ctx)
		defer cancel()
		return remote.New(ctx, a.api, a.getenv)
	}
	c, err := config.Dial(ctx, slog.New(slog.DiscardHandler), "", func(o *sdkclient.Options) {
		o.ConnectionOptions.DialOptions = append(o.ConnectionOptions.DialOptions, client.WatchSending())
	})
	if err != nil {
		return nil, err
	}
	return connection{client.New(c), c}, nil
}

// server names who answers the requests, and says how another one is chosen.
func (a *app) server() (name, choose string) {
	if a.api != "" {
		return "the API at " + a.api, "start it, or set --api or " + config.VarAPI
	}
	return "Temporal", "start it, or set TEMPORAL_ADDRESS"
}

// connection is a deviceClient over Temporal.
type connection struct {
	*client.Client
	server *config.Connection
}

func (c connection) Server(ctx context.Context) (client.Server, error) {
	cluster, err := c.ClusterID(ctx)
	return client.Server{Address: c.server.Address, Namespace: c.server.Namespace, Cluster: cluster}, err
}

func (c connection) SearchAttributes(ctx context.Context) (map[string]string, error) {
	return c.Client.SearchAttributes(ctx, c.server.Namespace)
}

func (c connection) Close() { c.server.Close() }
