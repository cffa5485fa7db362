package activities

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"go.temporal.io/sdk/activity"

	"burnish/internal/device"
	"burnish/internal/hardware"
	"burnish/internal/host"
	"burnish/workflows/contract"
)

// Discover looks at the device and remembers it on the host. It changes nothing on
// the device; a second run finds the same. Refused: an unknown driver, what the host
// does not allow, what another device's name already stands for (F23), and another
// identity under a name that is still enrolled (F13).
func (h *Hardware) Discover(ctx context.Context, in contract.DiscoverInput) (contract.DiscoveryResult, error) {
	facts, err := h.discover(ctx, in)
	return facts, asError(escalateBusy(err, activity.GetInfo(ctx).Attempt, in.Enrollment.Name), in.Enrollment.Name)
}

// busyLooks is how often a look may find its device in use, with the pauses of a clean's
// retries about half a minute.
const maxBusyAttempts = 6

// patient makes of a use that does not end by itself what an operator must end.
func escalateBusy(err error, attempt int32, name string) error {
	f, ok := device.AsFault(err)
	if !ok || f.Code != device.CodeTargetBusy || attempt < maxBusyAttempts {
		return err
	}
	return busyFault(f, name)
}

// endItThenClean is the fault of a device that somebody has used for too long.
func busyFault(f *device.Fault, name string) *device.Fault {
	return &device.Fault{Class: device.NeedsOperator, Code: f.Code, Message: f.Message, Remedy: f.Remedy + ", then clean " + name}
}

func (h *Hardware) discover(ctx context.Context, in contract.DiscoverInput) (contract.DiscoveryResult, error) {
	driver, err := h.driver(in.Enrollment)
	if err != nil {
		return contract.DiscoveryResult{}, err
	}
	before, found, err := h.Host.LoadRecord(in.Enrollment.Name)
	if err != nil {
		return contract.DiscoveryResult{}, err
	}
	found = found && !before.Forgotten
	d, err := h.discoverAt(ctx, driver, in, before, found)
	if err != nil {
		return contract.DiscoveryResult{}, err
	}
	// Two names that come at once must not both find the piece free.
	h.enrolling.Lock()
	defer h.enrolling.Unlock()
	other, err := h.Host.FindOtherWith(d.Identity, in.Enrollment.Name, in.MovedFrom)
	if err != nil {
		return contract.DiscoveryResult{}, err
	}
	if other != "" {
		return contract.DiscoveryResult{}, &device.Fault{Class: device.NeedsOperator, Code: device.CodeDuplicateSerial,
			Message: "this physical device is already enrolled as " + other, Other: other,
			Remedy: "if it was moved, move " + other + " " + in.Enrollment.Name + "; if not, retire one of the two"}
	}
	var after host.Record
	err = h.Host.UpdateRecord(in.Enrollment.Name, func(r *host.Record) error {
		writeEnrollment(r, in.Enrollment, in.UUID, d.Identity)
		r.Forgotten, r.Binding = false, max(r.Binding, in.Binding)
		after = *r
		return nil
	})
	if err != nil {
		return contract.DiscoveryResult{}, err
	}
	record := recordOf(after, in.Enrollment.Host)
	record.KnownBefore = found
	return contract.DiscoveryResult{
		Identity: d.Identity, Operation: d.Operation, Note: d.Note, Steps: h.Steps.Versions(), Type: d.Type,
		Capabilities: d.Capabilities, Layout: d.Layout, Estimates: d.Estimates, SupportedSteps: d.SupportedSteps,
		ObservedAt: time.Now().UTC(), Record: &record,
	}, nil
}

// lookAt has the driver look, and proves that it saw the piece that is wanted: the
// known one, another than the known one where it was replaced, or the known one at
// another place where it was moved.
func (h *Hardware) discoverAt(ctx context.Context, driver hardware.Driver, in contract.DiscoverInput, before host.Record, found bool) (hardware.Discovery, error) {
	target, known := targetOf(in.Enrollment), in.Known
	switch {
	case in.MovedFrom != "":
		if found && !in.Known.SameHardware(before.Identity) {
			return hardware.Discovery{}, &device.Fault{Class: device.Permanent, Code: device.CodeAlreadyExists,
				Message: in.Enrollment.Name + " is the name of another device of this host", Remedy: "retire and forget it first, or move to another name"}
		}
		target.MovedFrom, known = in.MovedFrom, device.Identity{}
	case in.Replace:
		known = device.Identity{}
	case found && known == (device.Identity{}):
		if err := checkSameEnrollment(before, in.Enrollment); err != nil {
			return hardware.Discovery{}, err
		}
		known = before.Identity
	}
	d, err := driver.Discover(ctx, target, known)
	if err != nil {
		return hardware.Discovery{}, err
	}
	if in.MovedFrom != "" && !in.Known.SameHardware(d.Identity) {
		return hardware.Discovery{}, &device.Fault{Class: device.NeedsOperator, Code: device.CodeIdentityChanged,
			Message: fmt.Sprintf("what is there is not the piece of %s (serial %q, not %q)", in.MovedFrom, d.Identity.Serial, in.Known.Serial),
			Remedy:  "enroll it as a device of its own"}
	}
	if field := known.Differs(d.Identity); field != "" && known != (device.Identity{}) {
		return hardware.Discovery{}, &device.Fault{Class: device.NeedsOperator, Code: device.MismatchCode(field),
			Message: "another " + field + " than enrolled: this is another device",
			Remedy:  "put the enrolled device back, or replace " + in.Enrollment.Name}
	}
	return d, nil
}

// Forget has the host forget a device, so that its physical piece may be enrolled
// under another name. The numbers stay. A second run changes nothing.
func (h *Hardware) Forget(_ context.Context, in contract.DiscoverInput) error {
	return asError(forget(h.Host, in.Enrollment.Name), in.Enrollment.Name)
}

func forget(h *host.Host, name string) error {
	_, found, err := h.LoadRecord(name)
	if err != nil || !found {
		return err
	}
	return h.UpdateRecord(name, func(r *host.Record) error {
		r.Forgotten = true
		return nil
	})
}

// enrolled puts into a record what a device is enrolled as.
func writeEnrollment(r *host.Record, e contract.Enrollment, uuid string, i device.Identity) {
	r.UUID, r.Driver, r.Address, r.Settings = uuid, e.Driver, e.Address, e.Settings
	r.Type, r.Owner, r.OneTimeUse, r.Identity = e.Type, e.Owner, e.OneTimeUse, i
}

func checkSameEnrollment(r host.Record, e contract.Enrollment) error {
	switch {
	case r.Driver != e.Driver:
		return enrollmentDiffers(e.Name, "driver", r.Driver)
	case !maps.Equal(r.Settings, e.Settings):
		return enrollmentDiffers(e.Name, "settings", fmt.Sprint(r.Settings))
	}
	return nil
}

func enrollmentDiffers(name, what, have string) error {
	return &device.Fault{Class: device.Permanent, Code: device.CodeAlreadyExists,
		Message: fmt.Sprintf("this host remembers %s with another %s (%s)", name, what, have),
		Remedy:  "enrol it as it was, then retire and forget it"}
}

func (h *Hardware) driver(e contract.Enrollment) (hardware.Driver, error) {
	if !strings.EqualFold(e.Host, h.Host.Name()) {
		return nil, &device.Fault{Class: device.Permanent, Code: device.CodeInvalid,
			Message: fmt.Sprintf("this is host %s, not %s", h.Host.Name(), e.Host), Remedy: "check BURNISH_HOST of the workers"}
	}
	d, ok := h.Drivers[e.Driver]
	if !ok {
		return nil, &device.Fault{Class: device.Permanent, Code: device.CodeUnknownDriver,
			Message: fmt.Sprintf("host %s has no driver %q", h.Host.Name(), e.Driver),
			Remedy:  "it has " + strings.Join(slices.Sorted(maps.Keys(h.Drivers)), ", ") + "; BURNISH_DRIVERS of its worker names more"}
	}
	return d, nil
}

func targetOf(e contract.Enrollment) hardware.Target {
	return hardware.Target{Name: e.Name, Driver: e.Driver, Address: e.Address, Settings: e.Settings, AcceptSignature: e.AcceptSignature, Imported: e.Imported}
}

// fenceKey is what one physical device is fenced by, under whatever name.
func fenceKey(i device.Identity, name string) string {
	if i.Serial != "" {
		return i.Serial
	}
	return contract.DeviceUUID(name)
}

// recordOf is the host's record as the workflow reads it.
func recordOf(r host.Record, hostname string) contract.HostDeviceRecord {
	return contract.HostDeviceRecord{
		Enrollment: contract.Enrollment{
			Name: r.Name, Host: hostname, Driver: r.Driver, Type: r.Type, Address: r.Address,
			Settings: r.Settings, Owner: r.Owner, OneTimeUse: r.OneTimeUse,
		},
		Identity: r.Identity, Binding: r.Binding, Generation: r.Generation, Clean: r.Clean, Seq: r.Seq,
	}
}
