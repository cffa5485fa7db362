package remote

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"burnish/internal/device"
	"burnish/workflows/client"
	"burnish/workflows/contract"
)

// pageSize is how many devices one page of a listing has.
const pageSize = 1000

// page is one page of a listing.
type page struct {
	Devices []contract.DeviceStatus `json:"devices"`
	Links   []struct {
		Rel string `json:"rel"`
	} `json:"devices_links"`
}

// List returns the devices that the filter selects, sorted by name.
func (c *Client) List(ctx context.Context, f client.Filter) ([]client.Execution, error) {
	query := queryOf(f)
	var found []client.Execution
	for {
		p, err := get[page](ctx, c, query, devices)
		if err != nil {
			return nil, err
		}
		for _, v := range p.Devices {
			if err := checkDetails(v); err != nil {
				return nil, err
			}
			found = append(found, client.Execution{Name: v.Name, Running: true, Status: v})
		}
		if len(p.Links) == 0 || len(p.Devices) == 0 {
			break
		}
		query.Set("marker", p.Devices[len(p.Devices)-1].UUID)
	}
	slices.SortFunc(found, func(a, b client.Execution) int { return strings.Compare(a.Name, b.Name) })
	return found, nil
}

// checkDetails refuses a device of which the API shows Cyborg's own fields alone: what it leaves out, as
// that the device is dirty, would look like no.
func checkDetails(v contract.DeviceStatus) error {
	if v.Name != "" {
		return nil
	}
	return client.RefusedError{
		Refusal: contract.Refusal{Fault: device.Fault{Class: device.NeedsOperator, Code: device.CodeForbidden,
			Message: "the policy shows you only Cyborg's fields of a device, and this command needs all of them",
			Remedy:  "ask an administrator for a role that the rule cyborg:device:get_details allows"}}}
}

// queryOf is a filter as the API takes it.
func queryOf(f client.Filter) url.Values {
	query := url.Values{"limit": {strconv.Itoa(pageSize)}}
	for by, values := range f {
		if len(values) > 0 {
			query[cmp.Or(by.Also, by.Name)] = values
		}
	}
	return query
}

// Describe returns what the Temporal server knows of a device, with the progress of its running
// step.
func (c *Client) Describe(ctx context.Context, name string) (client.Execution, error) {
	return get[client.Execution](ctx, c, nil, devices, name, "execution")
}

// Query returns a device as its workflow reports it, with its history. Where no control
// worker answers, the API shows what the Temporal server knows and warns: here that is an error,
// because Describe gives the same.
func (c *Client) Query(ctx context.Context, name string) (contract.DeviceStatus, error) {
	text, header, err := c.send(ctx, &request{method: http.MethodGet, path: []string{devices, name}})
	v, err := decoded[contract.DeviceStatus](c, text, err)
	if err == nil {
		err = checkDetails(v)
	}
	if err == nil && header.Get("Warning") != "" {
		return v, fmt.Errorf("no control worker answered the API: %w", context.DeadlineExceeded)
	}
	return v, err
}

// Validate asks what a clean would do.
func (c *Client) Validate(ctx context.Context, name string, in contract.CleanInput) (contract.CleanPlan, error) {
	return ask[contract.CleanPlan](ctx, c, contract.CleanBody{}.Of(in), devices, name, "validate")
}

// Discovery returns the result of the host's last discovery of a device.
func (c *Client) Discovery(ctx context.Context, name string) (contract.DiscoveryResult, error) {
	return get[contract.DiscoveryResult](ctx, c, nil, devices, name, "discovery")
}

// LimitsStatus says who waits for what: one device or, with "", all. found is false where
// nothing is limited.
func (c *Client) LimitsStatus(ctx context.Context, name string) (status contract.LimitsStatus, found bool, err error) {
	query := url.Values{}
	if name != "" {
		query.Set("device", name)
	}
	status, err = get[contract.LimitsStatus](ctx, c, query, "limits")
	return status, err == nil && status.Limits != nil, err
}

// Clouds lists the clouds that control workers reconcile.
func (c *Client) Clouds(ctx context.Context) ([]string, error) {
	found, err := get[client.Names](ctx, c, nil, "clouds")
	return found.Names, err
}

// ReconcileState returns the state of a cloud's reconciliation.
func (c *Client) ReconcileState(ctx context.Context, cloud string) (contract.InventoryReconcileState, error) {
	return get[contract.InventoryReconcileState](ctx, c, nil, "clouds", cloud)
}

// Candidates asks which devices could be imported from a cloud.
func (c *Client) Candidates(ctx context.Context, cloud string,
	in contract.CandidatesInput) (contract.Candidates, error) {
	return ask[contract.Candidates](ctx, c, in, "clouds", cloud, "candidates")
}

// Appliances lists the appliances that control workers serve.
func (c *Client) Appliances(ctx context.Context) ([]string, error) {
	found, err := get[client.Names](ctx, c, nil, "appliances")
	return found.Names, err
}

// OneViewState returns the state of an appliance's polls.
func (c *Client) OneViewState(ctx context.Context, appliance string) (contract.OneViewState, error) {
	return get[contract.OneViewState](ctx, c, nil, "appliances", appliance)
}

// Servers asks which servers of an appliance are not enrolled.
func (c *Client) Servers(ctx context.Context, in contract.ServersInput) (contract.Servers, error) {
	return ask[contract.Servers](ctx, c, in, "appliances", in.Appliance, "servers")
}

// ReadPool asks an appliance who has a server.
func (c *Client) ReadPool(ctx context.Context, in contract.PoolRequest) (contract.PoolSnapshot, error) {
	return ask[contract.PoolSnapshot](ctx, c, in, "appliances", in.Pool.Appliance, "pool")
}

// LastPoll is when a worker last polled a task queue; zero if none has.
func (c *Client) LastPoll(ctx context.Context, queue string) (time.Time, error) {
	found, err := get[client.Poll](ctx, c, nil, "queues", queue)
	return found.LastPoll, err
}

// Server gives the Temporal server behind the API.
func (c *Client) Server(ctx context.Context) (client.Server, error) {
	return get[client.Server](ctx, c, nil, "server")
}

// Diagnosis is what the server shows of the whole installation.
func (c *Client) Diagnosis(ctx context.Context) (client.Diagnosis, error) {
	return get[client.Diagnosis](ctx, c, nil, "server", "diagnosis")
}

// SearchAttributes are those of the server's namespace.
func (c *Client) SearchAttributes(ctx context.Context) (map[string]string, error) {
	return get[map[string]string](ctx, c, nil, "server", "search-attributes")
}
