package api

import (
	"context"
	"errors"

	"burnish/internal/api/access"
	"burnish/internal/device"
	"burnish/workflows/client"
	"burnish/workflows/contract"
)

// dryRunParameter has a change answered by what it would do.
const dryRunParameter = "dry_run"

// withDryRun gives changes of one device the parameter dry_run. Who may ask is who may do it,
// and a refusal is that of the change itself.
func withDryRun(routes ...route) []route {
	for i := range routes {
		r := &routes[i]
		do := r.do
		r.Query = append(r.Query, parameter{Name: dryRunParameter,
			About: "true: nothing is changed, and the answer is a DryRun: what the change would do, as far as the device's workflow knows"})
		r.do = func(ctx context.Context, c *call) (any, error) {
			given := c.r.URL.Query()
			switch {
			case !given.Has(dryRunParameter), given.Get(dryRunParameter) == "false":
				return do(ctx, c)
			case given.Get(dryRunParameter) != "true":
				return nil, invalid(dryRunParameter+" is neither true nor false", "give one of them, or leave it out")
			}
			return c.dryRun(ctx, do)
		}
	}
	return routes
}

// dryRun carries out a change up to its update, and asks what that would do.
func (c *call) dryRun(ctx context.Context, do func(context.Context, *call) (any, error)) (any, error) {
	access.RecordOf(c.r.Context()).Change = false
	asked := &client.DryRuns{Ask: c.Devices.DryRun}
	server, route := *c.server, *c.route
	server.Devices, route.Status = dryRunner{asked, others{c.Devices}}, 0
	c.server, c.route = &server, &route
	switch _, err := do(ctx, c); {
	case err == nil:
		return nil, errors.New("the change has no dry run")
	case !errors.Is(err, client.ErrDryRun):
		return nil, err
	}
	answer := asked.Answer
	if !c.may(ruleDetail) {
		answer = contract.DryRun{State: answer.State, Already: answer.Already}
	}
	if c.version.less(v21) {
		answer.State = ""
	}
	return answer, nil
}

// dryRunner sends no update that has a dry run, and asks about it.
type dryRunner struct {
	*client.DryRuns
	others
}

// others are the methods that DryRuns does not have.
type others struct{ Devices }

// labelBody changes labels.
type labelBody struct {
	device.LabelChange
	Reason string `json:"reason,omitempty"`
}
