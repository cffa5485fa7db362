package activities

import (
	"cmp"
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

// Discover inspects the device and records it on the host. It changes nothing on the
// device; a second run finds the same. Refused: an unknown driver, a device that the host
// does not allow, one that is enrolled under another name (F23), and another identity
// under a name that is still enrolled (F13). Retried: transient faults, of them a device
// in use at most maxBusyAttempts times.
func (h *Hardware) Discover(ctx context.Context, in contract.DiscoverInput) (contract.DiscoveryResult, error) {
	facts, err := h.discover(ctx, in)
	return facts, asError(escalateBusy(err, activity.GetInfo(ctx).Attempt, in.Enrollment.Name), in.Enrollment.Name)
}

// maxBusyAttempts is how often Discover may find its device in use: about half a minute,
// with the intervals of a clean's retries.
const maxBusyAttempts = 6

// escalateBusy turns the fault of a device that stays in use into one for the operator.
func escalateBusy(err error, attempt int32, name string) error {
	f, ok := device.AsFault(err)
	if !ok || f.Code != device.CodeTargetBusy || attempt < maxBusyAttempts {
		return err
	}
	return busyFault(f, name)
}

// busyFault is the operator's fault of a device that was in use for too long.
func busyFault(f *device.Fault, name string) *device.Fault {
	return &device.Fault{Class: device.NeedsOperator, Code: f.Code, Message: f.Message, Remedy: f.Remedy +
		", then clean " + name}
}

// lostMark is no change mark: a device that has it was written to by others, as far as its host knows, until Burnish
// has written to it or accepts it as it is.
const lostMark = "lost"

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
	// Of two names for one device that are enrolled at once only one may find it free.
	h.enrolling.Lock()
	defer h.enrolling.Unlock()
	other, err := h.Host.FindOtherWith(d.Identity, in.Enrollment.Driver, in.Enrollment.Name, in.MovedFrom)
	if err != nil {
		return contract.DiscoveryResult{}, err
	}
	if other != "" {
		return contract.DiscoveryResult{}, &device.Fault{Class: device.NeedsOperator, Code: device.CodeDuplicateSerial,
			Message: "this physical device is already enrolled as " + other, Other: other,
			Remedy: "if it was moved, move " + other + " " + in.Enrollment.Name + "; if not, retire one of the two"}
	}
	var after host.Record
	written := false
	err = h.Host.UpdateRecord(in.Enrollment.Name, func(r *host.Record) error {
		writeEnrollment(r, in.Enrollment, in.UUID, d.Identity)
		r.Forgotten, r.MovedFrom, r.Binding = false, in.MovedFrom, max(r.Binding, in.Binding)
		if d.Mark != "" && !found && in.Known != (device.Identity{}) && !in.Replace && in.MovedFrom == "" {
			r.SetMark(lostMark) // with the record of a device that this host knew
		}
		written = r.WrittenByOthers(d.Mark) && !in.Accept
		if d.Mark != "" && (r.OwnMark() == "" || in.Accept) {
			r.SetMark(d.Mark)
		}
		after = *r
		return nil
	})
	if err != nil {
		return contract.DiscoveryResult{}, err
	}
	record := recordOf(after, in.Enrollment.Host)
	record.KnownBefore = found
	result := contract.DiscoveryResult{
		Identity: d.Identity, Operation: d.Operation, Note: d.Note, Steps: h.Steps.Versions(), Type: d.Type,
		ClearAction: d.ClearAction, ClearStrategy: d.ClearStrategy, LiveMigratable: d.LiveMigratable,
		Capabilities: d.Capabilities, Layout: d.Layout, Estimates: d.Estimates, SupportedSteps: d.SupportedSteps,
		Priorities: d.Priorities,
		Power:      d.Power,
		Written:    written, ObservedAt: time.Now().UTC(), Record: &record,
	}
	if in.Reservation != "" {
		result.Statement, err = SignFound(h.Key, h.Host.Name(), in, result)
	}
	return result, err
}

// discoverAt has the driver inspect the device, and proves that it is the expected
// hardware: the known one; with Replace, another one; with MovedFrom, the known one in
// another slot.
func (h *Hardware) discoverAt(ctx context.Context, driver hardware.Driver, in contract.DiscoverInput,
	before host.Record, found bool) (hardware.Discovery, error) {
	target, known := targetOf(in.Enrollment), in.Known
	switch {
	case in.MovedFrom != "":
		if found && !in.Known.SameHardware(before.Identity) {
			return hardware.Discovery{}, &device.Fault{Class: device.Permanent, Code: device.CodeAlreadyExists,
				Message: in.Enrollment.Name + " is the name of another device of this host",
				Remedy:  "retire and forget it first, or move to another name"}
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
	target.Reflashed = before.Reflashed.For(known.Serial, in.Binding)
	target.Offered = in.Offered && !h.AtWork(in.Enrollment.Name, false)
	d, err := driver.Discover(ctx, target, known)
	if err != nil {
		return hardware.Discovery{}, err
	}
	if in.MovedFrom != "" && !in.Known.SameHardware(d.Identity) {
		return hardware.Discovery{}, &device.Fault{Class: device.NeedsOperator, Code: device.CodeIdentityChanged,
			Message: fmt.Sprintf("this is not the hardware of %s (serial %q, not %q)", in.MovedFrom, d.Identity.Serial,
				in.Known.Serial),
			Remedy: "enroll it as a device of its own"}
	}
	if field := known.Differs(d.Identity); field != "" && known != (device.Identity{}) {
		return hardware.Discovery{}, &device.Fault{Class: device.NeedsOperator, Code: device.MismatchCode(field),
			Message: "another " + field + " than enrolled: this is another device",
			Remedy:  "put the enrolled device back, or replace " + in.Enrollment.Name}
	}
	return d, nil
}

// Forget marks the host's record of a device as forgotten: its hardware may be enrolled
// under another name. The numbers stay. A second run changes nothing. Retried: transient
// faults.
func (h *Hardware) Forget(_ context.Context, in contract.DiscoverInput) error {
	return asError(forget(h.Host, in.Enrollment.Name), in.Enrollment.Name)
}

func forget(h *host.Host, name string) error {
	_, found, err := h.LoadRecord(name)
	if err != nil || !found {
		return err
	}
	return h.UpdateRecord(name, func(r *host.Record) error {
		r.Forgotten, r.Mark = true, host.Mark{}
		return nil
	})
}

// writeEnrollment writes to a record how a device is enrolled.
func writeEnrollment(r *host.Record, e contract.Enrollment, uuid string, i device.Identity) {
	r.UUID, r.Driver, r.Address, r.Settings = uuid, e.Driver, e.Address, e.Settings
	r.Type, r.Owner, r.OneTimeUse, r.Identity = e.Type, e.Owner, e.OneTimeUse, i
	r.Pool = (*host.Pool)(e.Pool)
}

func checkSameEnrollment(r host.Record, e contract.Enrollment) error {
	switch {
	case r.Driver != e.Driver:
		return enrollmentDiffers(e.Name, "driver", r.Driver)
	case !maps.Equal(r.Settings, e.Settings):
		return enrollmentDiffers(e.Name, "setting", settingsText(r.Settings))
	case serverInPool(r.Pool) != serverInPool((*host.Pool)(e.Pool)):
		return enrollmentDiffers(e.Name, "shared pool", serverInPool(r.Pool))
	}
	return nil
}

// serverInPool is the server that a device is on its appliance. The template may change, and a
// migration makes the allocation dynamic.
func serverInPool(p *host.Pool) string {
	if p == nil {
		return "none"
	}
	return p.Appliance + " " + p.Hardware
}

// settingsText is settings as --set takes them.
func settingsText(settings map[string]string) string {
	var words []string
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		words = append(words, name+"="+settings[name])
	}
	return cmp.Or(strings.Join(words, ","), "none")
}

func enrollmentDiffers(name, what, have string) error {
	return &device.Fault{Class: device.Permanent, Code: device.CodeAlreadyExists,
		Message: fmt.Sprintf("%s is enrolled on this host with another %s (%s)", name, what, have),
		Remedy:  "enroll it as it was, then retire and forget it"}
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
			Remedy: "it has " + strings.Join(slices.Sorted(maps.Keys(h.Drivers)), ", ") +
				"; BURNISH_DRIVERS of its worker names more"}
	}
	return d, nil
}

func targetOf(e contract.Enrollment) hardware.Target {
	return hardware.Target{Name: e.Name, Driver: e.Driver, Address: e.Address, Settings: e.Settings,
		AcceptSignature: e.AcceptSignature, Imported: e.Imported}
}

// fenceKey is the key of a device's fence: its serial, which is the same under every name.
func fenceKey(i device.Identity, name string) string {
	if i.Serial != "" {
		return i.Serial
	}
	return contract.DeviceUUID(name)
}

// recordOf converts the host's record for the workflow.
func recordOf(r host.Record, hostname string) contract.HostDeviceRecord {
	return contract.HostDeviceRecord{
		Enrollment: contract.Enrollment{
			Name: r.Name, Host: hostname, Driver: r.Driver, Type: r.Type, Address: r.Address,
			Settings: r.Settings, Owner: r.Owner, OneTimeUse: r.OneTimeUse, Pool: (*contract.Pool)(r.Pool),
		},
		Identity: r.Identity, Binding: r.Binding, Generation: r.Generation, Clean: r.Clean, Seq: r.Seq,
	}
}
