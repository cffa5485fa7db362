package api

import (
	"context"
	"net/http"
	"reflect"

	"burnish/internal/device"
	"burnish/workflows/client"
	"burnish/workflows/contract"
)

// Writer is the part of client.Client that changes devices.
type Writer interface {
	Enroll(ctx context.Context, in contract.EnrollInput) (contract.Result, error)
	Clean(ctx context.Context, name string, in contract.CleanInput) (contract.Result, error)
	Provide(ctx context.Context, name string, in contract.ReasonInput) (contract.Result, error)
	Manage(ctx context.Context, name string, in contract.ReasonInput) (contract.Result, error)
	Abort(ctx context.Context, name string, in contract.ReasonInput) (contract.Result, error)
	ReleaseHold(ctx context.Context, name string, in contract.ReasonInput) (contract.Result, error)
	Maintain(ctx context.Context, name string, in contract.MaintainInput) (contract.Result, error)
	Power(ctx context.Context, name string, in contract.PowerInput) (contract.Result, error)
	Retire(ctx context.Context, name string, in contract.ReasonInput) (contract.Result, error)
	Forget(ctx context.Context, name string, in contract.ReasonInput) (contract.Result, error)
	Replace(ctx context.Context, name string, in contract.ReplaceInput) (contract.Result, error)
	Move(ctx context.Context, name string, in contract.MoveInput) (contract.Result, error)
	Label(ctx context.Context, name string, in contract.LabelInput) (contract.Result, error)
	MigratePool(ctx context.Context, name string, in contract.ReasonInput) (contract.Result, error)
	AttachDevice(ctx context.Context, name string, in contract.BindInput) (contract.BindResult, error)
	DetachDevice(ctx context.Context, name string, in contract.UnbindInput) (contract.Result, error)
	Rebuild(ctx context.Context, name string, in contract.UnbindInput) (contract.Result, error)
	Resume(ctx context.Context, in contract.ResumeInput) (contract.ResumeResult, error)
	Override(ctx context.Context, name string, in contract.OverrideInput) (contract.Result, error)
}

// The bodies of changes. Who asks stands in none of them.
type (
	reasonBody struct {
		Reason string `json:"reason,omitempty"`
	}
	// tenantBody names the instance that has the device: its binding ends.
	tenantBody struct {
		Reason   string `json:"reason,omitempty"`
		Instance string `json:"instance,omitempty"`
	}
	retireBody struct {
		Reason   string `json:"reason,omitempty"`
		Instance string `json:"instance,omitempty"`
		Lost     bool   `json:"lost,omitempty"`
	}
	maintenanceBody struct {
		Reason string `json:"reason,omitempty"`
		Off    bool   `json:"off,omitempty"`
	}
	// powerBody has on, off or reset as its target.
	powerBody struct {
		Target   string `json:"target"`
		Reason   string `json:"reason,omitempty"`
		Instance string `json:"instance,omitempty"`
	}
	bindBody struct {
		Instance string `json:"instance"`
		Request  string `json:"request,omitempty"`
		Tag      string `json:"tag,omitempty"`
		Reason   string `json:"reason,omitempty"`
	}
	unbindBody struct {
		Instance string `json:"instance"`
		Reason   string `json:"reason,omitempty"`
	}
	replaceBody struct {
		AcceptSignature string `json:"accept_signature,omitempty"`
		Provide         bool   `json:"provide,omitempty"`
		Reason          string `json:"reason,omitempty"`
		Instance        string `json:"instance,omitempty"`
	}
	// moveBody has the slot that the hardware is in now: only its name, address, host, driver
	// and settings.
	moveBody struct {
		Enrollment contract.Enrollment `json:"enrollment"`
		Instance   string              `json:"instance,omitempty"`
		Reason     string              `json:"reason,omitempty"`
	}
	enrollBody struct {
		Enrollment contract.Enrollment `json:"enrollment"`
		Provide    bool                `json:"provide,omitempty"`
		Import     bool                `json:"import,omitempty"`
		Provider   string              `json:"provider,omitempty"`
		Reason     string              `json:"reason,omitempty"`
		Hardware   contract.Hardware   `json:"hardware,omitzero"`
	}
	resumeBody struct {
		Model  string `json:"model"`
		Step   string `json:"step"`
		Reason string `json:"reason,omitempty"`
	}
)

// bindView is the answer to a bind, as its caller sees it.
type bindView struct {
	Binding int        `json:"binding"`
	Device  deviceView `json:"device"`
	Already bool       `json:"already,omitempty"`
}

// changeRoutes are the changes, each with its own rule.
func changeRoutes() []route {
	return append(withDryRun(
		act("clean", v21, http.StatusAccepted, "Clean a device in state error or, with named steps or a runbook, a manageable one", cleanDevice),
		plain("provide", "Clean a manageable device and offer it to tenants", Writer.Provide),
		act("manage", v20, 0, "Take a device out of the pool", func(ctx context.Context, c *call, in tenantBody) (any, error) {
			return c.result(c.Devices.Manage(ctx, c.name, contract.ReasonInput{Reason: in.Reason, Instance: in.Instance, Caller: c.caller()}))
		}),
		plain("abort", "End the running clean", Writer.Abort),
		plain("release-hold", "Go on with a clean that its runbook holds", Writer.ReleaseHold),
		act("maintenance", v20, 0, "Begin or end maintenance", func(ctx context.Context, c *call, in maintenanceBody) (any, error) {
			return c.result(c.Devices.Maintain(ctx, c.name, contract.MaintainInput{Reason: in.Reason, Off: in.Off, Caller: c.caller()}))
		}),
		act("retire", v20, 0, "Take a device out of service permanently", func(ctx context.Context, c *call, in retireBody) (any, error) {
			return c.result(c.Devices.Retire(ctx, c.name, contract.ReasonInput{Reason: in.Reason, Lost: in.Lost, Instance: in.Instance, Caller: c.caller()}))
		}),
		act("forget", v20, 0, "End the workflow of a retired device", func(ctx context.Context, c *call, in tenantBody) (any, error) {
			return c.result(c.Devices.Forget(ctx, c.name, contract.ReasonInput{Reason: in.Reason, Instance: in.Instance, Caller: c.caller()}))
		}),
		act("replace", v20, 0, "Accept other hardware in the device's slot", func(ctx context.Context, c *call, in replaceBody) (any, error) {
			return c.result(c.Devices.Replace(ctx, c.name, contract.ReplaceInput{AcceptSignature: in.AcceptSignature, Provide: in.Provide,
				Reason: in.Reason, Instance: in.Instance, Caller: c.caller()}))
		}),
		act("move", v20, 0, "The device's hardware is in another slot now", moveDevice),
		act("label", v20, 0, "Change a device's labels", func(ctx context.Context, c *call, in labelBody) (any, error) {
			return c.result(c.Devices.Label(ctx, c.name, contract.LabelInput{LabelChange: in.LabelChange, Reason: in.Reason, Caller: c.caller()}))
		}),
	),
		act("power", v20, 0, "Switch a device on or off, or reset it", func(ctx context.Context, c *call, in powerBody) (any, error) {
			return c.result(c.Devices.Power(ctx, c.name, contract.PowerInput{Action: in.Target, Reason: in.Reason, Instance: in.Instance, Caller: c.caller()}))
		}),
		overrideRoute(),
		plain("migrate-pool", "Make a pre-allocated server of a shared pool dynamic", Writer.MigratePool),
		bindRoute(),
		act("unbind", v20, 0, "End an instance's binding", func(ctx context.Context, c *call, in unbindBody) (any, error) {
			return c.result(c.Devices.DetachDevice(ctx, c.name, contract.UnbindInput{Instance: in.Instance, Reason: in.Reason, Caller: c.caller()}))
		}),
		act("rebuild", v20, 0, "Keep the device bound while its instance is rebuilt", func(ctx context.Context, c *call, in unbindBody) (any, error) {
			return c.result(c.Devices.Rebuild(ctx, c.name, contract.UnbindInput{Instance: in.Instance, Reason: in.Reason, Caller: c.caller()}))
		}),
		change("/v2/devices", "enrollDevice", ruleOf("enroll"), "Enroll a device", contract.Result{}, enrollDevice),
		change("/v2/limits/resume", "resumeStep", ruleOf("resume"), "Close the breaker of a step on a model", contract.ResumeResult{},
			func(ctx context.Context, c *call, in resumeBody) (any, error) {
				result, err := c.Devices.Resume(ctx, contract.ResumeInput{Model: in.Model, Step: in.Step, Reason: in.Reason, Caller: c.caller()})
				if client.NotFound(err) {
					return nil, &device.Fault{Class: device.Permanent, Code: device.CodeNotFound,
						Message: "nothing is limited: the policy has no limits", Remedy: "see GET /v2/limits"}
				}
				return result, err
			}),
	)
}

// plain is the route of a change that takes nothing but a reason.
func plain(verb, summary string, do func(w Writer, ctx context.Context, name string, in contract.ReasonInput) (contract.Result, error)) route {
	return act(verb, v20, 0, summary, func(ctx context.Context, c *call, in reasonBody) (any, error) {
		return c.result(do(c.Devices, ctx, c.name, contract.ReasonInput{Reason: in.Reason, Caller: c.caller()}))
	})
}

func bindRoute() route {
	r := act("bind", v20, 0, "Reserve a device and bind it to an instance", func(ctx context.Context, c *call, in bindBody) (any, error) {
		bound, err := c.Devices.AttachDevice(ctx, c.name, contract.BindInput{Instance: in.Instance, Request: in.Request, Tag: in.Tag, Reason: in.Reason, Caller: c.caller()})
		if err != nil {
			return nil, err
		}
		return bindView{bound.Binding, c.view(bound.Device), bound.Already}, nil
	})
	r.Out = contract.BindResult{}
	return r
}

func moveDevice(ctx context.Context, c *call, in moveBody) (any, error) {
	at := in.Enrollment
	slot := contract.Enrollment{Name: at.Name, Address: at.Address, Host: at.Host, Driver: at.Driver, Settings: at.Settings}
	if !reflect.DeepEqual(slot, at) {
		return nil, invalid("a device that moves keeps everything but name, address, host, driver and settings", "leave the rest out")
	}
	to, err := slot.NormalizeSlot()
	if err != nil {
		return nil, invalid(err.Error(), "name the slot that the hardware is in now")
	}
	result, err := c.Devices.Move(ctx, c.name, contract.MoveInput{Enrollment: to, Instance: in.Instance, Reason: in.Reason, Caller: c.caller()})
	if err == nil {
		c.names.add(to.Name)
	}
	return c.result(result, err)
}

func enrollDevice(ctx context.Context, c *call, in enrollBody) (any, error) {
	e, err := in.Enrollment.Normalize()
	if err != nil {
		return nil, invalid(err.Error(), "see "+openAPIPath+" for the form of an enrollment")
	}
	c.name = e.Name
	return c.result(c.Devices.Enroll(c.withRequest(ctx, in), contract.EnrollInput{Enrollment: e, Provide: in.Provide, Import: in.Import,
		Provider: in.Provider, Hardware: in.Hardware, Reason: in.Reason, Caller: c.caller()}))
}

// change is the route of a change whose path names no device.
func change[In any](path, operation, rule, summary string, out any, do func(ctx context.Context, c *call, in In) (any, error)) route {
	var in In
	return route{
		Method: http.MethodPost, Path: path, Operation: operation, Summary: summary, Rule: rule, In: in, Out: out, Codes: actCodes,
		do: func(ctx context.Context, c *call) (any, error) {
			var in In
			if err := c.readBody(&in); err != nil {
				return nil, err
			}
			return do(ctx, c, in)
		},
	}
}
