package remote

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"

	"burnish/workflows/contract"
)

const (
	devices   = "devices"
	instances = "instances"
)

// Do asks for a change of a device. The API itself knows who asks, and from where: an input's Caller is
// never sent.
func (c *Client) Do(ctx context.Context, name string, v contract.Verb, in contract.Input) (contract.Result, error) {
	if v.Name == contract.VerbEnroll.Name {
		return change[contract.Result](ctx, c, v.ToBody(in), devices)
	}
	return change[contract.Result](ctx, c, v.ToBody(in), devices, name, v.Path())
}

// Ask asks what a change of a device would do. An older API refuses the parameter.
func (c *Client) Ask(ctx context.Context, name string, v contract.Verb, in contract.Input) (contract.DryRun, error) {
	body, err := json.Marshal(v.ToBody(in))
	if err != nil {
		return contract.DryRun{}, fmt.Errorf("encode the request: %w", err)
	}
	return answerOf[contract.DryRun](ctx, c, &request{
		method: http.MethodPost, path: []string{devices, name, v.Path()}, query: url.Values{"dry_run": {"true"}}, body: body,
	})
}

// DoInstance asks for a change of an instance.
func (c *Client) DoInstance(
	ctx context.Context, instance string, v contract.Verb, in contract.Input,
) (contract.InstanceResult, error) {
	return change[contract.InstanceResult](ctx, c, v.ToBody(in), instances, instance, v.Path())
}

// Instance returns an instance that has devices.
func (c *Client) Instance(ctx context.Context, instance string) (contract.InstanceStatus, error) {
	return get[contract.InstanceStatus](ctx, c, nil, instances, instance)
}

// Resume closes the breaker of a step on a model.
func (c *Client) Resume(ctx context.Context, in contract.ResumeInput) (contract.ResumeResult, error) {
	v := contract.VerbResume
	return change[contract.ResumeResult](ctx, c, v.ToBody(in), "limits", v.Path())
}
