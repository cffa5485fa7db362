package api

import (
	"context"
	"time"

	"github.com/google/uuid"

	"burnish/internal/device"
	"burnish/workflows/client"
	"burnish/workflows/contract"
)

// Devices is the part of client.Client that the API uses.
type Devices interface {
	client.Reader
	client.Writer
	ByUUID(ctx context.Context, uuid string) (client.Execution, bool, error)
	Fleet(ctx context.Context) ([]client.Execution, error)
}

// resolve finds the name of the device that the path names by its UUID or NAME.
func (c *call) resolve(ctx context.Context) error {
	name, err := device.CanonicalName(c.segment)
	if err != nil {
		return noSuchDevice("no device can have this name: " + err.Error())
	}
	c.name = name
	if len(c.segment) != 36 {
		return nil
	}
	id, err := uuid.Parse(c.segment)
	if err != nil {
		return nil // a NAME of that length
	}
	if name, ok := c.names.Load(id.String()); ok {
		c.name, _ = name.(string)
		return nil
	}
	e, found, err := c.Devices.ByUUID(ctx, id.String())
	if err != nil {
		return err
	}
	// Not found: it may be a NAME of that form.
	if found {
		c.name = e.Name
		c.know(c.name)
	}
	return nil
}

// know keeps which name a UUID belongs to. A UUID depends on the name alone, so that this never becomes
// wrong; whether there is such a device is another question.
func (s *server) know(name string) { s.names.Store(contract.DeviceUUID(name), name) }

func noSuchDevice(message string) error {
	return &device.Fault{Class: device.Permanent, Code: device.CodeNotFound, Message: message,
		Remedy: "list the devices that there are"}
}

// status gives the device, with the progress of its running step. If no worker answers, the
// status is the server's own, and a header says so.
func (c *call) status(ctx context.Context) (contract.DeviceStatus, error) {
	v, unanswered, err := c.read(ctx)
	if err != nil {
		return v, err
	}
	if unanswered != nil {
		c.header.Set("Warning", `199 burnish "no control worker answered: this is what the Temporal server knows"`)
		c.Log.Warn("no control worker answered a query", "device", c.name, "error", unanswered)
	}
	return v, nil
}

// read asks the device's workflow and the server. unanswered is why the workflow gave no
// answer; v is then what the server knows.
func (c *call) read(ctx context.Context) (v contract.DeviceStatus, unanswered, err error) {
	return client.Status(ctx, c.Devices, c.name, client.QueryTimeout, time.Now())
}
