package lifecycle

import (
	"errors"
	"fmt"

	"burnish/internal/device"
	"burnish/workflows/contract"
)

// refuse makes the error of a request that is not carried out.
func (d *State) refuse(code device.Code, message, remedy string) error {
	return contract.Refuse(contract.Refusal{
		Fault:  device.Fault{Class: device.Permanent, Code: code, Message: message, Remedy: remedy},
		Device: d.Name, State: d.Device.State,
	})
}

// refusal converts any error of a request to the form that clients read; nil if there is none.
func (d *State) refusal(asked contract.Verb, in contract.Input, err error) error {
	var tenant *tenantError
	if errors.As(err, &tenant) {
		return d.nameTenantFirst(asked, tenant)
	}
	var illegal *device.IllegalError
	if errors.As(err, &illegal) {
		if illegal.Event == device.Clean && d.Device.State == device.Error && !d.Device.Cleanable {
			f := d.noErasePath("the device has no erase operation") // S2.74
			return d.refuse(f.Code, f.Message, f.Remedy)
		}
		return d.refuse(device.CodeRefused, fmt.Sprintf("cannot %s a device %s", shownVerb(asked, in), Phrase(d.DeviceState)),
			d.remedy(asked, in))
	}
	if f, ok := device.AsFault(err); ok {
		return contract.Refuse(contract.Refusal{Fault: *f, Device: d.Name, State: d.Device.State})
	}
	return err
}

// faultOf is the fault of an error of this package.
func faultOf(err error) *device.Fault {
	if f, ok := device.AsFault(err); ok {
		return f
	}
	if r, ok := contract.RefusalOf(err); ok {
		return &r.Fault
	}
	return &device.Fault{Class: device.Permanent, Code: device.CodeInternal, Message: err.Error()}
}
