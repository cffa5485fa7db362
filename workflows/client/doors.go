package client

import (
	"context"
	"time"

	"burnish/workflows/contract"
)

// Writer asks for changes: Client asks Temporal, and the client of the HTTP API asks that.
type Writer interface {
	Do(ctx context.Context, name string, v contract.Verb, in contract.Input) (contract.Result, error)
	// Ask asks what a verb would do.
	Ask(ctx context.Context, name string, v contract.Verb, in contract.Input) (contract.DryRun, error)
	DoInstance(ctx context.Context, instance string, v contract.Verb, in contract.Input) (contract.InstanceResult, error)
	Resume(ctx context.Context, in contract.ResumeInput) (contract.ResumeResult, error)
}

// Reader reads what there is, by the same two ways.
type Reader interface {
	List(ctx context.Context, f Filter) ([]Execution, error)
	Describe(ctx context.Context, name string) (Execution, error)
	Query(ctx context.Context, name string) (contract.DeviceStatus, error)
	Validate(ctx context.Context, name string, in contract.CleanInput) (contract.CleanPlan, error)
	Discovery(ctx context.Context, name string) (contract.DiscoveryResult, error)
	Instance(ctx context.Context, instance string) (contract.InstanceStatus, error)
	LimitsStatus(ctx context.Context, name string) (contract.LimitsStatus, bool, error)
	Clouds(ctx context.Context) ([]string, error)
	ReconcileState(ctx context.Context, cloud string) (contract.InventoryReconcileState, error)
	Candidates(ctx context.Context, cloud string, in contract.CandidatesInput) (contract.Candidates, error)
	Appliances(ctx context.Context) ([]string, error)
	OneViewState(ctx context.Context, appliance string) (contract.OneViewState, error)
	Servers(ctx context.Context, in contract.ServersInput) (contract.Servers, error)
	ReadPool(ctx context.Context, in contract.PoolRequest) (contract.PoolSnapshot, error)
	LastPoll(ctx context.Context, queue string) (time.Time, error)
	Diagnosis(ctx context.Context) (Diagnosis, error)
	// Server gives the Temporal server; with an error, as much of it as is known.
	Server(ctx context.Context) (Server, error)
	// SearchAttributes are those of the server's namespace, with the names of their types.
	SearchAttributes(ctx context.Context) (map[string]string, error)
}
