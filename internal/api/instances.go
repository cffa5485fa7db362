package api

import (
	"bytes"
	"context"
	"net/http"
	"strings"

	"github.com/google/uuid"

	"burnish/internal/api/guest"
	"burnish/internal/device"
	"burnish/internal/nova/metadata"
	"burnish/workflows/client"
	"burnish/workflows/contract"
)

// Instances is the part of client.Client that reads and changes instances.
type Instances interface {
	Instance(ctx context.Context, instance string) (contract.InstanceStatus, error)
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
}

// The policy's rules about instances.
const (
	ruleInstance = "cyborg:instance:get_one"
	ruleMetadata = "cyborg:instance:get_metadata"
)

// instanceRuleOf is the rule of a change of an instance.
func instanceRuleOf(verb string) string {
	return "cyborg:instance:" + strings.ReplaceAll(verb, "-", "_")
}

// The bodies of changes of instances.
type (
	// instanceBindBody names devices, or requests free ones. Request makes a repetition of the
	// same bind harmless, also later than an Idempotency-Key does.
	instanceBindBody struct {
		Request   string                   `json:"request,omitempty"`
		Devices   []contract.DeviceChoice  `json:"devices,omitempty"`
		Requests  []contract.DeviceRequest `json:"requests,omitempty"`
		Host      string                   `json:"host,omitempty"`
		Project   string                   `json:"project,omitempty"`
		Addresses []string                 `json:"addresses,omitempty"`
		Reason    string                   `json:"reason,omitempty"`
	}
	instanceDetachBody struct {
		Devices []string `json:"devices"`
		Reason  string   `json:"reason,omitempty"`
	}
	// instanceMoveBody may name the devices on the host, one for each of the instance's.
	instanceMoveBody struct {
		To      string                  `json:"to"`
		Devices []contract.DeviceChoice `json:"devices,omitempty"`
		Reason  string                  `json:"reason,omitempty"`
	}
)

// instanceRoutes are the routes of instances.
func instanceRoutes() []route {
	const path = "/v2/instances/{instance}"
	return []route{
		{Method: http.MethodGet, Path: path, Operation: "showInstance", Summary: "An instance with its devices",
			Rule: ruleInstance, Out: contract.InstanceStatus{}, Codes: readCodes, do: showInstance},
		{Method: http.MethodGet, Path: path + "/meta_data.json", Operation: "showMetadata", Summary: "What the instance's guest reads of its devices",
			Rule: ruleMetadata, Out: metadata.Document{}, Codes: readCodes, do: showMetadata},
		instanceBindRoute("bind", "Bind devices to an instance: all, or none", Instances.InstanceBind),
		instanceBindRoute("attach", "Bind further devices to an instance: all, or none", Instances.InstanceAttach),
		instanceAct("detach", "End the bindings of some of its devices", func(ctx context.Context, c *call, in instanceDetachBody) (contract.InstanceResult, error) {
			input, err := contract.InstanceDetachInput{Devices: in.Devices, Reason: in.Reason, Caller: c.caller()}.Normalize()
			if err != nil {
				return contract.InstanceResult{}, invalid(err.Error(), "name devices of the instance")
			}
			return c.Devices.InstanceDetach(ctx, c.instance, input)
		}),
		plainInstanceRoute("release", "End the bindings of all of its devices", Instances.InstanceRelease),
		plainInstanceRoute("rebuild", "Keep its devices bound while it is rebuilt", Instances.InstanceRebuild),
		moveRoute("migrate", "Bind devices on another host, until confirm or revert", Instances.InstanceMigrate),
		moveRoute("live-migrate", "As migrate, of devices that are marked live-migratable", Instances.InstanceLiveMigrate),
		plainInstanceRoute("confirm", "End a migration: the devices of the host that it left are cleaned", Instances.InstanceConfirm),
		plainInstanceRoute("revert", "Take a migration back: the devices of the new host are cleaned", Instances.InstanceRevert),
		moveRoute("evacuate", "Bind devices on another host; those of the present one stay reserved until they are clean", Instances.InstanceEvacuate),
	}
}

// instanceAct is the route of a change of one instance, whose body is an In.
func instanceAct[In any](verb, summary string, do func(ctx context.Context, c *call, in In) (contract.InstanceResult, error)) route {
	var in In
	return route{
		Method: http.MethodPost, Path: "/v2/instances/{instance}/" + verb, Operation: operationOf(verb, "Instance"), Summary: summary,
		Rule: instanceRuleOf(verb), In: in, Out: contract.InstanceResult{}, Codes: actCodes,
		do: func(ctx context.Context, c *call) (any, error) {
			var in In
			if err := c.readBody(&in); err != nil {
				return nil, err
			}
			if err := c.readInstance(); err != nil {
				return nil, err
			}
			result, err := do(c.withRequest(ctx, in), c, in)
			return result, instanceError(err)
		},
	}
}

// plainInstanceRoute is the route of a change that takes nothing but a reason.
func plainInstanceRoute(verb, summary string, do func(i Instances, ctx context.Context, instance string, in contract.InstanceActInput) (contract.InstanceResult, error)) route {
	return instanceAct(verb, summary, func(ctx context.Context, c *call, in reasonBody) (contract.InstanceResult, error) {
		return do(c.Devices, ctx, c.instance, contract.InstanceActInput{Reason: in.Reason, Caller: c.caller()})
	})
}

func instanceBindRoute(verb, summary string, do func(i Instances, ctx context.Context, instance string, in contract.InstanceBindInput) (contract.InstanceResult, error)) route {
	return instanceAct(verb, summary, func(ctx context.Context, c *call, in instanceBindBody) (contract.InstanceResult, error) {
		input, err := contract.InstanceBindInput{Request: in.Request, Devices: in.Devices, Requests: in.Requests, Host: in.Host,
			Project: in.Project, Addresses: in.Addresses, Reason: in.Reason, Caller: c.caller()}.Normalize()
		if err != nil {
			return contract.InstanceResult{}, invalid(err.Error(), "see "+openAPIPath+" for its form")
		}
		return do(c.Devices, ctx, c.instance, input)
	})
}

func moveRoute(verb, summary string, do func(i Instances, ctx context.Context, instance string, in contract.InstanceMoveInput) (contract.InstanceResult, error)) route {
	return instanceAct(verb, summary, func(ctx context.Context, c *call, in instanceMoveBody) (contract.InstanceResult, error) {
		input, err := contract.InstanceMoveInput{To: in.To, Devices: in.Devices, Reason: in.Reason, Caller: c.caller()}.Normalize()
		if err != nil {
			return contract.InstanceResult{}, invalid(err.Error(), "see "+openAPIPath+" for its form")
		}
		return do(c.Devices, ctx, c.instance, input)
	})
}

// readInstance reads the instance that the path names, in its canonical form.
func (c *call) readInstance() error {
	id, err := uuid.Parse(c.segment)
	if err != nil || len(c.segment) != 36 {
		return noSuchInstance("no instance can have this ID: it is not a UUID of 36 characters")
	}
	c.instance = id.String()
	return nil
}

func noSuchInstance(message string) error {
	return &device.Fault{Class: device.Permanent, Code: device.CodeNotFound, Message: message, Remedy: "give the UUID of an instance that has devices"}
}

// instanceError says of a workflow that does not exist that the instance has no devices.
func instanceError(err error) error {
	if client.NotFound(err) {
		return noSuchInstance("the instance has no devices")
	}
	return err
}

// showInstance is GET /v2/instances/{instance}.
func showInstance(ctx context.Context, c *call) (any, error) {
	if err := c.readInstance(); err != nil {
		return nil, err
	}
	status, err := c.Devices.Instance(ctx, c.instance)
	return status, instanceError(err)
}

// showMetadata is GET …/meta_data.json: the document that the metadata service gives the guest.
func showMetadata(ctx context.Context, c *call) (any, error) {
	if err := c.readInstance(); err != nil {
		return nil, err
	}
	status, found, err := guest.Read(ctx, c.Devices, c.instance)
	switch {
	case err != nil:
		return nil, err
	case !found:
		return nil, noSuchInstance("the instance has no devices")
	}
	text, err := guest.Document(status)
	return encoded(bytes.TrimSpace(text)), err
}
