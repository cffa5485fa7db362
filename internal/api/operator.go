package api

import (
	"cmp"
	"context"
	"net/http"
	"regexp"
	"strings"

	"burnish/internal/device"
	"burnish/workflows/client"
	"burnish/workflows/contract"
)

// operatorRoutes are the reads of operators. A POST among them changes nothing: its question
// has a body.
func operatorRoutes() []route {
	limits := read("/v2/limits", "showLimits", "Who waits for which limit; null where nothing is limited", ruleDetail,
		func(ctx context.Context, c *call) (contract.LimitsStatus, error) {
			status, _, err := c.Devices.LimitsStatus(ctx, c.r.URL.Query().Get("device"))
			return status, err
		})
	limits.Query = []parameter{{Name: "device", About: "only this device"}}
	return []route{
		read("/v2/devices/{device}/history", "showHistory", "The last bindings, cleans and changes, the newest last",
			ruleDetail, func(ctx context.Context, c *call) (contract.History, error) {
				v, unanswered, err := c.read(ctx) // only the workflow knows its history
				return contract.HistoryOf(v), cmp.Or(err, unanswered)
			}),
		read("/v2/devices/{device}/execution", "showExecution",
			"What the Temporal server knows of a device, without a worker", ruleDetail,
			func(ctx context.Context, c *call) (client.Execution, error) { return c.Devices.Describe(ctx, c.name) }),
		read("/v2/devices/{device}/discovery", "showDiscovery", "What the device's host found last", ruleDetail,
			func(ctx context.Context, c *call) (contract.DiscoveryResult, error) {
				found, err := c.Devices.Discovery(ctx, c.name)
				found.Record = nil // it has the device's settings
				return found, err
			}),
		question("/v2/devices/{device}/validate", "validateClean", "What a clean would do, or why it would not",
			func(ctx context.Context, c *call, in contract.CleanBody) (contract.CleanPlan, error) {
				if err := checkInterfaces(in); err != nil {
					return contract.CleanPlan{}, err
				}
				asked, _ := in.Input().(contract.CleanInput)
				return c.Devices.Validate(ctx, c.name, asked)
			}),
		limits,
		read("/v2/clouds", "listClouds", "The clouds that control workers reconcile", ruleDetail,
			func(ctx context.Context, c *call) (client.Names, error) { return namesOf(c.Devices.Clouds(ctx)) }),
		read("/v2/clouds/{cloud}", "showCloud", "The reconciliation of a cloud", ruleDetail,
			func(ctx context.Context, c *call) (contract.InventoryReconcileState, error) {
				return c.Devices.ReconcileState(ctx, c.segment)
			}),
		question("/v2/clouds/{cloud}/candidates", "findCandidates", "The devices that could be imported",
			func(ctx context.Context, c *call, in contract.CandidatesInput) (contract.Candidates, error) {
				return c.Devices.Candidates(ctx, c.segment, in)
			}),
		read("/v2/appliances", "listAppliances", "The appliances whose servers are shared", ruleDetail,
			func(ctx context.Context, c *call) (client.Names, error) { return namesOf(c.Devices.Appliances(ctx)) }),
		read("/v2/appliances/{appliance}", "showAppliance", "The polls of an appliance", ruleDetail,
			func(ctx context.Context, c *call) (contract.OneViewState, error) {
				return c.Devices.OneViewState(ctx, c.segment)
			}),
		question("/v2/appliances/{appliance}/servers", "findServers", "The servers that are not enrolled",
			func(ctx context.Context, c *call, in contract.ServersInput) (contract.Servers, error) {
				in.Appliance = c.segment
				return c.Devices.Servers(ctx, in)
			}),
		question("/v2/appliances/{appliance}/pool", "readPool", "Who has a server",
			func(ctx context.Context, c *call, in contract.PoolRequest) (contract.PoolSnapshot, error) {
				in.Pool.Appliance = c.segment
				return c.Devices.ReadPool(ctx, in)
			}),
		read("/v2/queues/{queue}", "showQueue", "When a worker last polled a task queue", ruleDetail, readQueue),
		read("/v2/server", "showServer", "The Temporal server behind the API", ruleDetail,
			func(ctx context.Context, c *call) (client.Server, error) { return c.Devices.Server(ctx) }),
		read("/v2/server/search-attributes", "showSearchAttributes", "Its search attributes, with their types", ruleDetail,
			func(ctx context.Context, c *call) (map[string]string, error) {
				return c.Devices.SearchAttributes(ctx)
			}),
		read("/v2/server/diagnosis", "showDiagnosis", "The hosts with their workers' last polls, and the devices whose "+
			"workflow was lost", ruleDetail,
			func(ctx context.Context, c *call) (client.Diagnosis, error) { return c.Devices.Diagnosis(ctx) }),
	}
}

// question is a read whose question is an In.
func question[In, Out any](path, operation, summary string,
	do func(ctx context.Context, c *call, in In) (Out, error)) route {
	var asked In
	r := read(path, operation, summary, ruleDetail, func(ctx context.Context, c *call) (answer Out, err error) {
		var in In
		if err = c.readBody(&in); err == nil {
			answer, err = do(ctx, c, in)
		}
		return answer, err
	})
	r.Method, r.In, r.ReadOnly = http.MethodPost, asked, true
	r.Codes = append([]device.Code{device.CodeInvalid, device.CodeRequestTooLarge, device.CodeMediaType,
		device.CodeTimeout, device.CodeInternal}, readCodes...)
	return r
}

func namesOf(names []string, err error) (client.Names, error) {
	return client.Names{Names: append([]string{}, names...)}, err
}

var queueHost = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]{0,252}$`)

// readQueue asks only about queues that a worker of Burnish may poll: Temporal makes a queue
// of every name that it is asked about.
func readQueue(ctx context.Context, c *call) (client.Poll, error) {
	if host, ofHost := strings.CutPrefix(c.segment, contract.HostQueue("")); c.segment != contract.Queue &&
		(!ofHost || !queueHost.MatchString(host)) {
		return client.Poll{}, &device.Fault{Class: device.Permanent, Code: device.CodeNotFound,
			Message: "no worker of Burnish polls such a task queue",
			Remedy:  "name " + contract.Queue + ", or " + contract.HostQueue("HOST")}
	}
	last, err := c.Devices.LastPoll(ctx, c.segment)
	return client.Poll{Queue: c.segment, LastPoll: last}, err
}
