package api

import (
	"bytes"
	"context"
	"net/http"

	"github.com/google/uuid"

	"burnish/internal/api/guest"
	"burnish/internal/device"
	"burnish/internal/nova/metadata"
	"burnish/workflows/contract"
)

// The policy's rules about instances.
const (
	ruleInstance = "cyborg:instance:get_one"
	ruleMetadata = "cyborg:instance:get_metadata"
)

// instanceRoutes are the routes of instances.
func instanceRoutes() []route {
	const path = "/v2/instances/{instance}"
	all := []route{
		read(path, "showInstance", "An instance with its devices", ruleInstance,
			func(ctx context.Context, c *call) (contract.InstanceStatus, error) {
				return c.Devices.Instance(ctx, c.instance)
			}),
		{Method: http.MethodGet, Path: path + "/meta_data.json", Operation: "showMetadata", Rule: ruleMetadata,
			Summary: "What the instance's guest reads of its devices",
			Out:     metadata.Document{}, Codes: readCodes, do: showMetadata},
	}
	for _, v := range contract.InstanceVerbs {
		r := changeRoute(v, path+"/", "Instance")
		r.Rule, r.Out = instanceRuleOf(v), contract.InstanceResult{}
		r.do = func(ctx context.Context, c *call) (any, error) {
			in, err := c.input(v)
			if err != nil {
				return nil, err
			}
			return c.Devices.DoInstance(c.withRequest(ctx, v.ToBody(in)), c.instance, v, in)
		}
		all = append(all, r)
	}
	return all
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
	return &device.Fault{Class: device.Permanent, Code: device.CodeNotFound, Message: message,
		Remedy: "give the UUID of an instance that has devices"}
}

// showMetadata is GET …/meta_data.json: the document that the metadata service gives the guest.
func showMetadata(ctx context.Context, c *call) (any, error) {
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
