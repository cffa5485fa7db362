package api

import (
	"context"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"time"

	"burnish/internal/device"
	"burnish/workflows/client"
	"burnish/workflows/contract"
)

// Reader is the part of client.Client that operators' reads use: what the command line needs
// beyond the devices themselves.
type Reader interface {
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
	ClusterID(ctx context.Context) (string, error)
	SearchAttributes(ctx context.Context, namespace string) (map[string]string, error)
	Diagnosis(ctx context.Context) (client.Diagnosis, error)
}

// operatorRoutes are the reads of operators. A POST among them changes nothing: its question
// has a body.
func operatorRoutes() []route {
	read := func(path, operation, summary string, out any, do func(ctx context.Context, c *call) (any, error)) route {
		return route{Method: http.MethodGet, Path: path, Operation: operation, Summary: summary, Rule: ruleDetail, Out: out,
			Codes: readCodes, do: do}
	}
	limits := read("/v2/limits", "showLimits", "Who waits for which limit; null where nothing is limited",
		contract.LimitsStatus{}, readLimits)
	limits.Query = []parameter{{Name: "device", About: "only this device"}}
	return []route{
		read("/v2/devices/{device}/execution", "showExecution",
			"What the Temporal server knows of a device, without a worker", client.Execution{}, readExecution),
		read("/v2/devices/{device}/discovery", "showDiscovery", "What the device's host found last",
			contract.DiscoveryResult{}, readDiscovery),
		question("/v2/devices/{device}/validate", "validateClean", "What a clean would do, or why it would not",
			contract.CleanPlan{}, validateClean),
		limits,
		read("/v2/clouds", "listClouds", "The clouds that control workers reconcile", client.Names{}, readClouds),
		read("/v2/clouds/{cloud}", "showCloud", "The reconciliation of a cloud", contract.InventoryReconcileState{},
			readCloud),
		question("/v2/clouds/{cloud}/candidates", "findCandidates", "The devices that could be imported",
			contract.Candidates{}, findCandidates),
		read("/v2/appliances", "listAppliances", "The appliances whose servers are shared", client.Names{}, readAppliances),
		read("/v2/appliances/{appliance}", "showAppliance", "The polls of an appliance", contract.OneViewState{},
			readAppliance),
		question("/v2/appliances/{appliance}/servers", "findServers", "The servers that are not enrolled", contract.Servers{},
			findServers),
		question("/v2/appliances/{appliance}/pool", "readPool", "Who has a server", contract.PoolSnapshot{}, readPool),
		read("/v2/queues/{queue}", "showQueue", "When a worker last polled a task queue", client.Poll{}, readQueue),
		read("/v2/server", "showServer", "The Temporal server behind the API", client.Server{}, readServer),
		read("/v2/server/search-attributes", "showSearchAttributes", "Its search attributes, with their types",
			map[string]string{}, readAttributes),
		read("/v2/server/diagnosis", "showDiagnosis", "The hosts with their workers' last polls, and the devices whose "+
			"workflow was lost", client.Diagnosis{}, readDiagnosis),
	}
}

// question is a read whose question is an In.
func question[In any](path, operation, summary string, out any,
	do func(ctx context.Context, c *call, in In) (any, error)) route {
	var in In
	return route{
		Method: http.MethodPost, Path: path, Operation: operation, Summary: summary, Rule: ruleDetail, In: in, Out: out,
		Codes: append([]device.Code{device.CodeInvalid, device.CodeRequestTooLarge, device.CodeMediaType,
			device.CodeTimeout, device.CodeInternal}, readCodes...),
		ReadOnly: true,
		do: func(ctx context.Context, c *call) (any, error) {
			var in In
			if err := c.readBody(&in); err != nil {
				return nil, err
			}
			return do(ctx, c, in)
		},
	}
}

func readExecution(ctx context.Context, c *call) (any, error) {
	if err := c.resolve(ctx); err != nil {
		return nil, err
	}
	return c.Devices.Describe(ctx, c.name)
}

// readDiscovery leaves out the host's record: it has the device's settings.
func readDiscovery(ctx context.Context, c *call) (any, error) {
	if err := c.resolve(ctx); err != nil {
		return nil, err
	}
	found, err := c.Devices.Discovery(ctx, c.name)
	found.Record = nil
	return found, err
}

func validateClean(ctx context.Context, c *call, in contract.CleanBody) (any, error) {
	if err := checkInterfaces(in); err != nil {
		return nil, err
	}
	if err := c.resolve(ctx); err != nil {
		return nil, err
	}
	asked, _ := in.Input().(contract.CleanInput)
	return c.Devices.Validate(ctx, c.name, asked)
}

func readLimits(ctx context.Context, c *call) (any, error) {
	status, _, err := c.Devices.LimitsStatus(ctx, c.r.URL.Query().Get("device"))
	return status, err
}

func readClouds(ctx context.Context, c *call) (any, error) {
	return namesOf(c.Devices.Clouds(ctx))
}

func namesOf(names []string, err error) (any, error) {
	return client.Names{Names: append([]string{}, names...)}, err
}

func readCloud(ctx context.Context, c *call) (any, error) {
	state, err := c.Devices.ReconcileState(ctx, c.segment)
	return state, notServed(err, "a cloud", c.segment)
}

func findCandidates(ctx context.Context, c *call, in contract.CandidatesInput) (any, error) {
	found, err := c.Devices.Candidates(ctx, c.segment, in)
	return found, notServed(err, "a cloud", c.segment)
}

func readAppliances(ctx context.Context, c *call) (any, error) {
	return namesOf(c.Devices.Appliances(ctx))
}

func readAppliance(ctx context.Context, c *call) (any, error) {
	state, err := c.Devices.OneViewState(ctx, c.segment)
	return state, notServed(err, "an appliance", c.segment)
}

func findServers(ctx context.Context, c *call, in contract.ServersInput) (any, error) {
	in.Appliance = c.segment
	found, err := c.Devices.Servers(ctx, in)
	return found, notServed(err, "an appliance", c.segment)
}

func readPool(ctx context.Context, c *call, in contract.PoolRequest) (any, error) {
	in.Pool.Appliance = c.segment
	found, err := c.Devices.ReadPool(ctx, in)
	return found, notServed(err, "an appliance", c.segment)
}

// notServed says that no control worker serves a cloud or an appliance: it has no workflow.
func notServed(err error, what, name string) error {
	if !client.NotFound(err) {
		return err
	}
	return &device.Fault{Class: device.Permanent, Code: device.CodeNotFound,
		Message: fmt.Sprintf("no control worker serves %s named %q", what, name), Remedy: "list those that there are"}
}

var queueHost = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]{0,252}$`)

// readQueue asks only about queues that a worker of Burnish may poll: Temporal makes a queue
// of every name that it is asked about.
func readQueue(ctx context.Context, c *call) (any, error) {
	if host, ofHost := strings.CutPrefix(c.segment, contract.HostQueue("")); c.segment != contract.Queue &&
		(!ofHost || !queueHost.MatchString(host)) {
		return nil, &device.Fault{Class: device.Permanent, Code: device.CodeNotFound,
			Message: "no worker of Burnish polls such a task queue",
			Remedy:  "name " + contract.Queue + ", or " + contract.HostQueue("HOST")}
	}
	last, err := c.Devices.LastPoll(ctx, c.segment)
	return client.Poll{Queue: c.segment, LastPoll: last}, err
}

func readServer(ctx context.Context, c *call) (any, error) {
	cluster, err := c.Devices.ClusterID(ctx)
	return client.Server{Address: c.Server.Address, Namespace: c.Server.Namespace, Cluster: cluster}, err
}

func readDiagnosis(ctx context.Context, c *call) (any, error) { return c.Devices.Diagnosis(ctx) }

func readAttributes(ctx context.Context, c *call) (any, error) {
	return c.Devices.SearchAttributes(ctx, c.Server.Namespace)
}
