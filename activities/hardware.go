package activities

import (
	"context"
	"fmt"

	"burnish/internal/device"
	"burnish/internal/inventory"
	"burnish/workflows/contract"
)

// FindBySerial searches for other devices with the same hardware: the running ones, those whose
// workflow ended although nobody retired or forgot them, and whatever the inventory records of
// the hardware (F35). Retired devices count only while an instance is recorded. The listing
// lags behind: finding none there proves nothing, unless the input requires that the device
// itself is listed, which is retried until it is so. It changes nothing. Retried: an inventory
// or a server that does not answer.
func (c *Control) FindBySerial(ctx context.Context, in contract.FindBySerialInput) (contract.DeviceBySerial, error) {
	found, err := c.findHardware(ctx, in)
	return found, asError(err, in.Name)
}

func (c *Control) findHardware(ctx context.Context, in contract.FindBySerialInput) (contract.DeviceBySerial, error) {
	found, err := c.Client.FindBySerial(ctx, in.Serial, in.Name, in.MovedFrom)
	switch {
	case err != nil:
		return contract.DeviceBySerial{}, unlisted(err)
	case found.Other != "":
		return contract.DeviceBySerial{Name: found.Other}, nil
	case in.Listed && !found.Listed:
		return contract.DeviceBySerial{}, &device.Fault{Class: device.Transient, Code: device.CodeServerUnreachable,
			Message: "the server does not list " + in.Name + " with its serial yet",
			Remedy:  "none: it is tried again; if it goes on, check the server's visibility store"}
	}
	if in.Hardware != "" {
		records, err := inventory.HardwareRecords(ctx, c.Store, in.Hardware, contract.DeviceUUID(in.Name))
		if err != nil {
			return contract.DeviceBySerial{}, err
		}
		for _, r := range records {
			if f, err := c.recordedAs(ctx, in, r); f != nil || err != nil {
				return contract.DeviceBySerial{Name: r.Name, Fault: f}, err
			}
		}
	}
	last := found.Ended
	if last.Name == "" {
		return contract.DeviceBySerial{}, nil
	}
	how, err := c.Client.HowEnded(ctx, last)
	if err != nil {
		return contract.DeviceBySerial{}, unlisted(err)
	}
	f := recordedElsewhere(in.Name, last.Name, "serial "+in.Serial+" belongs to "+last.Name+", whose workflow was "+how,
		"its workflow (temporal workflow delete --workflow-id "+contract.WorkflowID(last.Name)+")")
	return contract.DeviceBySerial{Name: last.Name, Fault: f}, nil
}

// recordedAs is the fault of hardware that the inventory records under another name than the
// device's; nil if the device of that name was moved here, or given up and no instance is recorded.
func (c *Control) recordedAs(ctx context.Context, in contract.FindBySerialInput,
	r inventory.HardwareRecord) (*device.Fault, error) {
	last, found, err := c.Client.LastRun(ctx, r.Name)
	if err != nil {
		return nil, unlisted(err)
	}
	gone, record := found && last.Released(), "its provider "+r.UUID
	switch {
	case r.UUID == contract.DeviceUUID(in.MovedFrom) && found && (gone || last.Moves()):
		return nil, nil
	case r.Used > 0 || r.Witness == device.WitnessBound:
		user := device.Inventory{Used: r.Used, Consumers: r.Consumers, Record: r.Record}.User()
		message := "the inventory records that " + user + " has this hardware, as " + r.Name
		return recordedElsewhere(in.Name, r.Name, message, record), nil
	case gone:
		return nil, nil
	}
	message := "the inventory records this hardware as " + r.Name + ", which was neither retired nor forgotten"
	return recordedElsewhere(in.Name, r.Name, message, record), nil
}

// recordedElsewhere is the fault of hardware that is recorded under another name. record is what
// an operator deletes if that name is lost.
func recordedElsewhere(name, other, message, record string) *device.Fault {
	return &device.Fault{
		Class: device.NeedsOperator, Code: device.CodeDuplicateSerial, Other: other, Message: message,
		Remedy: fmt.Sprintf("start the worker of %[1]s's host, or enroll %[1]s again as it was; "+
			"then move %[1]s %[2]s, or retire and forget %[1]s; if it is gone for good, delete %[3]s", other, name, record),
	}
}
