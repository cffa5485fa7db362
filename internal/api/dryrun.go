package api

import (
	"context"

	"burnish/internal/api/access"
	"burnish/workflows/contract"
)

// dryRunParameter has a change answered by what it would do.
const dryRunParameter = "dry_run"

// wantsDryRun says whether the request asks what a change would do. Who may ask is who may do it, and
// a refusal is that of the change itself.
func (c *call) wantsDryRun() (bool, error) {
	given := c.r.URL.Query()
	switch {
	case !given.Has(dryRunParameter), given.Get(dryRunParameter) == "false":
		return false, nil
	case given.Get(dryRunParameter) != "true":
		return false, invalid(dryRunParameter+" is neither true nor false", "give one of them, or leave it out")
	}
	access.RecordOf(c.r.Context()).Change = false
	return true, nil
}

// dryRun asks what a verb would do. Its answer is no acceptance of it.
func (c *call) dryRun(ctx context.Context, v contract.Verb, in contract.Input) (any, error) {
	route := *c.route
	route.Status, c.route = 0, &route
	answer, err := c.Devices.Ask(ctx, c.name, v, in)
	if err != nil {
		return nil, err
	}
	if !c.may(ruleDetail) {
		answer = contract.DryRun{State: answer.State, Already: answer.Already}
	}
	if c.version.less(v21) {
		answer.State = ""
	}
	return answer, nil
}
