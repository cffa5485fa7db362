package remote

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"burnish/workflows/contract"
)

const devices = "devices"

// act asks for a change of one device. The API itself knows who asks, and from where: an input's
// Caller is never sent.
func (c *Client) act(ctx context.Context, name, verb string, in any) (contract.Result, error) {
	return change[contract.Result](ctx, c, in, devices, name, verb)
}

// Enroll enrolls a device.
func (c *Client) Enroll(ctx context.Context, in contract.EnrollInput) (contract.Result, error) {
	in.Caller = contract.Caller{}
	return change[contract.Result](ctx, c, in, devices)
}

// Provide cleans a manageable device and makes it available.
func (c *Client) Provide(ctx context.Context, name string, in contract.ReasonInput) (contract.Result, error) {
	in.Caller = contract.Caller{}
	return c.act(ctx, name, "provide", in)
}

// cleanBody is a CleanInput as the API takes it.
type cleanBody struct {
	CleanSteps []cleanStep `json:"clean_steps,omitempty"`
	Runbook    string      `json:"runbook,omitempty"`
	Reason     string      `json:"reason,omitempty"`
}

type cleanStep struct {
	Step string          `json:"step"`
	Args json.RawMessage `json:"args,omitempty"`
}

func bodyOf(in contract.CleanInput) cleanBody {
	body := cleanBody{Runbook: in.Runbook, Reason: in.Reason}
	for _, step := range in.Steps {
		body.CleanSteps = append(body.CleanSteps, cleanStep{Step: step, Args: in.Args[step]})
	}
	return body
}

// Clean starts a clean.
func (c *Client) Clean(ctx context.Context, name string, in contract.CleanInput) (contract.Result, error) {
	return c.act(ctx, name, "clean", bodyOf(in))
}

// Abort stops the running clean.
func (c *Client) Abort(ctx context.Context, name string, in contract.ReasonInput) (contract.Result, error) {
	in.Caller = contract.Caller{}
	return c.act(ctx, name, "abort", in)
}

// ReleaseHold goes on with a clean that its runbook holds.
func (c *Client) ReleaseHold(ctx context.Context, name string, in contract.ReasonInput) (contract.Result, error) {
	in.Caller = contract.Caller{}
	return c.act(ctx, name, "release-hold", in)
}

// Manage takes a device out of the pool.
func (c *Client) Manage(ctx context.Context, name string, in contract.ReasonInput) (contract.Result, error) {
	in.Caller = contract.Caller{}
	return c.act(ctx, name, "manage", in)
}

// Maintain puts a device on hold, or releases it.
func (c *Client) Maintain(ctx context.Context, name string, in contract.MaintainInput) (contract.Result, error) {
	in.Caller = contract.Caller{}
	return c.act(ctx, name, "maintenance", in)
}

// Retire takes a device out of service.
func (c *Client) Retire(ctx context.Context, name string, in contract.ReasonInput) (contract.Result, error) {
	in.Caller = contract.Caller{}
	return c.act(ctx, name, "retire", in)
}

// Forget ends the workflow of a retired device.
func (c *Client) Forget(ctx context.Context, name string, in contract.ReasonInput) (contract.Result, error) {
	in.Caller = contract.Caller{}
	return c.act(ctx, name, "forget", in)
}

// Replace accepts new hardware in the device's slot.
func (c *Client) Replace(ctx context.Context, name string, in contract.ReplaceInput) (contract.Result, error) {
	in.Caller = contract.Caller{}
	return c.act(ctx, name, "replace", in)
}

// Move records that the device's hardware is in another slot, under another name.
func (c *Client) Move(ctx context.Context, name string, in contract.MoveInput) (contract.Result, error) {
	return c.act(ctx, name, "move", slotOf(in))
}

func slotOf(in contract.MoveInput) moveBody {
	to := in.Enrollment
	return moveBody{Enrollment: slotBody{Name: to.Name, Address: to.Address, Host: to.Host, Driver: to.Driver, Settings: to.Settings}, Instance: in.Instance, Reason: in.Reason}
}

// moveBody is a MoveInput as the API takes it.
type moveBody struct {
	Enrollment slotBody `json:"enrollment"`
	Instance   string   `json:"instance,omitempty"`
	Reason     string   `json:"reason,omitempty"`
}

type slotBody struct {
	Name     string            `json:"name"`
	Address  string            `json:"address,omitempty"`
	Host     string            `json:"host,omitempty"`
	Driver   string            `json:"driver,omitempty"`
	Settings map[string]string `json:"settings,omitempty"`
}

// Bind reserves a device and binds it to an instance.
func (c *Client) Bind(ctx context.Context, name string, in contract.BindInput) (contract.BindResult, error) {
	in.Caller = contract.Caller{}
	return change[contract.BindResult](ctx, c, in, devices, name, "bind")
}

// Unbind ends the binding of an instance.
func (c *Client) Unbind(ctx context.Context, name string, in contract.UnbindInput) (contract.Result, error) {
	in.Caller = contract.Caller{}
	return c.act(ctx, name, "unbind", in)
}

// Rebuild keeps the device bound while its instance is rebuilt.
func (c *Client) Rebuild(ctx context.Context, name string, in contract.UnbindInput) (contract.Result, error) {
	in.Caller = contract.Caller{}
	return c.act(ctx, name, "rebuild", in)
}

// Power switches a device on or off, or resets it.
func (c *Client) Power(ctx context.Context, name string, in contract.PowerInput) (contract.Result, error) {
	return c.act(ctx, name, "power", powerBody{Target: in.Action, Instance: in.Instance, Reason: in.Reason})
}

// powerBody is a PowerInput as the API takes it.
type powerBody struct {
	Target   string `json:"target"`
	Instance string `json:"instance,omitempty"`
	Reason   string `json:"reason,omitempty"`
}

// overrideBody is an OverrideInput as the API takes it, which adds and signs the rest.
type overrideBody struct {
	Reason    string    `json:"reason,omitempty"`
	ExpiresAt time.Time `json:"expires_at,omitzero"`
	Approve   string    `json:"approve,omitempty"`
}

// Override requests the return of a device without a clean, or approves what another principal
// has requested.
func (c *Client) Override(ctx context.Context, name string, in contract.OverrideInput) (contract.Result, error) {
	return c.act(ctx, name, "override", overrideBody{Reason: in.Reason, ExpiresAt: in.ExpiresAt, Approve: in.Approve})
}

// Label changes a device's labels.
func (c *Client) Label(ctx context.Context, name string, in contract.LabelInput) (contract.Result, error) {
	in.Caller = contract.Caller{}
	return c.act(ctx, name, "label", in)
}

// DryRun asks what a change of a device would do. An older API refuses the parameter.
func (c *Client) DryRun(ctx context.Context, name, update string, in any) (contract.DryRun, error) {
	verb := update
	switch update {
	case contract.UpdateMaintain:
		verb = "maintenance"
	case contract.UpdateReleaseHold:
		verb = "release-hold"
	}
	switch given := in.(type) {
	case contract.CleanInput:
		in = bodyOf(given)
	case contract.ReasonInput:
		given.Caller = contract.Caller{}
		in = given
	case contract.MaintainInput:
		given.Caller = contract.Caller{}
		in = given
	case contract.ReplaceInput:
		given.Caller = contract.Caller{}
		in = given
	case contract.LabelInput:
		given.Caller = contract.Caller{}
		in = given
	case contract.MoveInput:
		in = slotOf(given)
	}
	body, err := json.Marshal(in)
	if err != nil {
		return contract.DryRun{}, fmt.Errorf("encode the request: %w", err)
	}
	return answerOf[contract.DryRun](ctx, c, &request{method: http.MethodPost, path: []string{devices, name, verb}, query: url.Values{"dry_run": {"true"}}, body: body})
}

// MigratePool makes a pre-allocated device dynamic.
func (c *Client) MigratePool(ctx context.Context, name string, in contract.ReasonInput) (contract.Result, error) {
	in.Caller = contract.Caller{}
	return c.act(ctx, name, "migrate-pool", in)
}

// Resume closes the breaker of a step on a model.
func (c *Client) Resume(ctx context.Context, in contract.ResumeInput) (contract.ResumeResult, error) {
	in.Caller = contract.Caller{}
	return change[contract.ResumeResult](ctx, c, in, "limits", "resume")
}
