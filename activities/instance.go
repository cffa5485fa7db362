package activities

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"burnish/internal/device"
	"burnish/internal/inventory"
	"burnish/workflows/client"
	"burnish/workflows/contract"
)

// Instances holds the activities of a control worker for instances: they ask devices, find
// free ones, and lease the guests' addresses.
type Instances struct {
	Client *client.Client
	// Store is the inventory: its record says who has a device that has no workflow.
	Store inventory.Store
}

// Activities gives the activities by name.
func (s *Instances) Activities() map[string]any {
	return map[string]any{
		contract.ActivityClaimDevices: s.ClaimDevices, contract.ActivityBurnDevices: s.BurnDevices,
		contract.ActivityUnclaimDevices: s.UnclaimDevices, contract.ActivityUnbindDevices: s.UnbindDevices,
		contract.ActivityRebuildDevices: s.RebuildDevices, contract.ActivityConfirmDevices: s.ConfirmDevices,
		contract.ActivityPickDevices: s.PickDevices, contract.ActivityFindBound: s.FindBoundDevices,
		contract.ActivityAskInstance:    s.AskInstance,
		contract.ActivityLeaseAddresses: s.LeaseAddresses, contract.ActivityReturnAddresses: s.ReturnAddresses,
	}
}

// ClaimDevices claims devices for an instance until the call's deadline, which ends a claim
// whose answer was lost. Nothing is written to the inventory. A second run gets the same
// answers. Retried: until each device has granted or refused.
func (s *Instances) ClaimDevices(ctx context.Context, in contract.DevicesCall) (contract.DevicesAnswer, error) {
	return s.askAll(ctx, in, contract.VerbClaim, func(d contract.DeviceCall) contract.Input {
		claim := bindInput(in, d)
		claim.Deadline = in.Deadline.UTC().Format(time.RFC3339)
		return claim
	})
}

// BurnDevices burns devices that the instance has claimed. A second run joins the burns of the
// first one, and gets their answers. Retried: until each device is bound or has refused.
func (s *Instances) BurnDevices(ctx context.Context, in contract.DevicesCall) (contract.DevicesAnswer, error) {
	return s.askAll(ctx, in, contract.VerbBurn, func(d contract.DeviceCall) contract.Input { return bindInput(in, d) })
}

// UnclaimDevices ends the claims of this instance and request whose burn has not begun; any
// other claim stays. A second run finds none. Retried: until each device has answered.
func (s *Instances) UnclaimDevices(ctx context.Context, in contract.DevicesCall) (contract.DevicesAnswer, error) {
	return s.askAll(ctx, in, contract.VerbUnclaim, func(d contract.DeviceCall) contract.Input { return bindInput(in, d) })
}

// UnbindDevices ends the instance's bindings; the devices are cleaned. A second run finds them
// ended. Retried: until each device has answered, and knows who has it. That a device has no workflow
// is no answer, because it may come back with its binding: there the inventory's record answers.
//
// SAFETY F38
func (s *Instances) UnbindDevices(ctx context.Context, in contract.DevicesCall) (contract.DevicesAnswer, error) {
	return s.askAll(ctx, in, contract.VerbUnbind, func(contract.DeviceCall) contract.Input {
		return contract.UnbindInput{Instance: in.Instance, ByInstance: true, Reason: in.Reason, Caller: in.Caller}
	})
}

// notUnbound is what a refused unbind says: of a device without a workflow the inventory's record says it.
func (s *Instances) notUnbound(ctx context.Context, name, instance string, err error) error {
	switch refusal, ok := contract.RefusalOf(err); {
	case client.NotFound(err), ok && refusal.Fault.Code == device.CodeNotFound: // or its run has just begun
		return s.unboundByRecord(ctx, name, instance)
	case ok && refusal.State == device.Unknown:
		// The inventory's record may give it back to the instance.
		return fmt.Errorf("it is not known yet who has it: %s", refusal.Fault.Message)
	}
	return err
}

// unboundByRecord says of a device that has no workflow that it is not bound to the instance, if the
// inventory's record does. Any other error says that this is not known.
func (s *Instances) unboundByRecord(ctx context.Context, name, instance string) error {
	control := &Control{Store: s.Store}
	in := contract.ReservationRequest{UUID: contract.DeviceUUID(name), Name: name}
	found, err := control.ReadReservation(ctx, in)
	if _, nova := s.Store.(inventory.NovaProviders); nova && noProvider(err) {
		in.Owner = device.OwnerNova
		found, err = control.ReadReservation(ctx, in)
	}
	holder := device.Inventory{Used: found.Used, Consumers: found.Consumers, Record: found.Record}
	const gone = "it has no workflow, and the inventory "
	switch {
	case noProvider(err), err == nil && found.Used == 0 && found.Witness == device.WitnessFree:
		return contract.Refuse(noSuchDevice())
	case err != nil:
		return fmt.Errorf(gone+"does not say who has it: %s", err.Error())
	case holder.User() == device.UnknownConsumer:
		return errors.New(gone + "does not record who has it")
	case device.SameTenant(holder.User(), instance):
		return errors.New(gone + "records that this instance has it: start its host's worker, or enroll it again")
	}
	return contract.Refuse(noSuchDevice())
}

func noProvider(err error) bool {
	refusal, ok := contract.RefusalOf(err)
	return ok && refusal.Fault.Code == device.CodeNoProvider
}

// FindBoundDevices gives the devices that say they are bound to an instance, as far as they are
// listed. It changes nothing; every error is retried.
func (s *Instances) FindBoundDevices(ctx context.Context, instance string) ([]contract.HeldDevice, error) {
	found, err := s.Client.BoundTo(ctx, instance)
	return found, asError(unlisted(err), "")
}

// AskInstance asks an instance whether it has a device that has it by a record. One that is doing something, and does
// not know the device, is asked again: it may be about to get it, and nobody asks a second time. It changes nothing;
// every error is retried.
//
// SAFETY F38
func (s *Instances) AskInstance(ctx context.Context, in contract.InstanceQuestion) (contract.InstanceAnswer, error) {
	v, err := s.Client.Instance(ctx, in.Instance)
	if err != nil {
		if client.NotFound(err) {
			err = nil
		}
		return contract.InstanceAnswer{}, asError(unlisted(err), in.Device)
	}
	has := slices.Concat(v.Devices, v.Unsettled)
	if v.Move != nil {
		has = append(has, v.Move.Source...)
	}
	known := slices.ContainsFunc(has, func(d contract.HeldDevice) bool { return d.Name == in.Device })
	if v.Phase != contract.InstanceReleased && v.Doing != "" && !known {
		return contract.InstanceAnswer{}, asError(&device.Fault{Class: device.Transient, Code: device.CodeServerUnreachable,
			Message: "instance " + in.Instance + " is doing " + v.Doing + ", and does not say yet whether it has the device",
			Remedy:  "none: it is asked again; if it goes on, show the instance"}, in.Device)
	}
	return contract.InstanceAnswer{Left: !known}, nil
}

// RebuildDevices asks each device to stay bound while its instance is rebuilt (S0.18). A second
// run changes nothing. Retried: until each device has answered.
func (s *Instances) RebuildDevices(ctx context.Context, in contract.DevicesCall) (contract.DevicesAnswer, error) {
	return s.askAll(ctx, in, contract.VerbRebuild, func(contract.DeviceCall) contract.Input {
		return contract.UnbindInput{Instance: in.Instance, Reason: in.Reason, Caller: in.Caller}
	})
}

// ConfirmDevices asks each device whether the instance still has it. It binds nothing, and a
// second run changes nothing. Retried: until each device has answered.
//
// SAFETY F36
func (s *Instances) ConfirmDevices(ctx context.Context, in contract.DevicesCall) (contract.DevicesAnswer, error) {
	return s.askAll(ctx, in, contract.VerbBurn, func(d contract.DeviceCall) contract.Input {
		held := bindInput(in, d)
		held.Request, held.Held = d.Request, true
		return held
	})
}

func bindInput(in contract.DevicesCall, d contract.DeviceCall) contract.BindInput {
	return contract.BindInput{Instance: in.Instance, Request: in.Request, Tag: d.Tag, Managed: true, Reason: in.Reason,
		Caller: in.Caller}
}

// askTimeout bounds the wait for one device in one attempt. The next attempt sends the same
// update once more, and so waits on.
const askTimeout = time.Minute

// askAll asks all devices at once, each by one update whose ID is the same in each attempt.
// It answers only if each device has.
func (s *Instances) askAll(
	ctx context.Context, in contract.DevicesCall, v contract.Verb, input func(contract.DeviceCall) contract.Input,
) (contract.DevicesAnswer, error) {
	answer := contract.DevicesAnswer{Outcomes: make([]contract.DeviceOutcome, len(in.Devices))}
	numbers := make([]int, len(in.Devices))
	for i := range numbers {
		numbers[i] = i
	}
	err := forEach(numbers, func(i int) error {
		d := in.Devices[i]
		call, cancel := context.WithTimeout(ctx, askTimeout)
		defer cancel()
		id := in.ID + "/" + v.Update()
		result, err := s.Client.Send(client.WithRequest(call, id), d.Name, v, input(d))
		if client.Unanswerable(err) { // what the first one did, or does, the device finds by its instance and request
			result, err = s.Client.Send(client.WithRequest(call, id+"/again"), d.Name, v, input(d))
		}
		out := &answer.Outcomes[i]
		if err == nil {
			*out = contract.DeviceOutcome{Device: held(result.Device), State: result.Device.DeviceState, Already: result.Already}
			out.Device.Binding = result.Binding
			switch v.Name {
			case contract.VerbRebuild.Name:
				out.Device.Binding = result.Device.Binding
			case contract.VerbUnbind.Name:
				if len(in.Devices) == 1 {
					out.Status = &result.Device
				}
			}
			return nil
		}
		if v.Name == contract.VerbUnbind.Name {
			err = s.notUnbound(call, d.Name, in.Instance, err)
		}
		refusal, definite := definiteRefusal(err)
		if client.Ended(err) && (v.Name == contract.VerbClaim.Name || v.Name == contract.VerbUnclaim.Name) {
			refusal, definite = noSuchDevice(), true // a claim ends with its run, and wrote nothing
		}
		if !definite {
			return fmt.Errorf("%s: %w", d.Name, err)
		}
		*out = contract.DeviceOutcome{Device: contract.HeldDevice{Name: d.Name}, State: refusal.State, Fault: &refusal.Fault}
		return nil
	})
	if err != nil {
		return contract.DevicesAnswer{}, asError(notAnswered(v.Name, err), "")
	}
	return answer, nil
}

// notAnswered is the fault of an attempt in which not every device answered.
func notAnswered(verb string, err error) error {
	if errors.Is(err, context.Canceled) {
		return err
	}
	return &device.Fault{Class: device.Transient, Code: device.CodeServerUnreachable, Message: verb +
		" is not answered yet: " + err.Error(),
		Remedy: "none: it is asked again; if it goes on, check the control workers"}
}

// definiteRefusal is what a device answered, or the fault not_found if it had no workflow when it
// was asked. Any other error leaves open whether the update is carried out.
func definiteRefusal(err error) (contract.Refusal, bool) {
	switch refusal, ok := contract.RefusalOf(err); {
	case client.Accepted(err) || client.Unconfirmed(err):
		return contract.Refusal{}, false
	case client.NotFound(err):
		return noSuchDevice(), true
	case ok:
		return refusal, true
	}
	return contract.Refusal{}, false
}

func noSuchDevice() contract.Refusal {
	return contract.Refusal{Fault: device.Fault{Class: device.Permanent, Code: device.CodeNotFound,
		Message: "no such device", Remedy: "enroll it, or name another one"}}
}

// held is what an instance keeps of a device.
func held(v contract.DeviceStatus) contract.HeldDevice {
	return contract.HeldDevice{Name: v.Name, UUID: v.UUID, Type: v.Type, Host: v.Hostname, Vendor: v.Vendor,
		Model: v.Model, Serial: v.Serial, MAC: v.MAC, LiveMigratable: v.LiveMigratable}
}

// LeaseAddresses takes the guest's addresses for an instance, all or none. One that a living
// instance has is refused with that instance's name; that of an instance whose workflow has
// ended is taken over. A second run finds them leased. Retried: a server that does not answer.
func (s *Instances) LeaseAddresses(ctx context.Context, in contract.AddressesCall) error {
	for _, address := range in.Addresses {
		holder, err := s.Client.LeaseAddress(ctx, address, in.Instance)
		if err != nil {
			return asError(unlisted(err), "")
		}
		if holder == "" {
			continue
		}
		if err := s.ReturnAddresses(ctx, in); err != nil {
			return err
		}
		return asError(&device.Fault{Class: device.Permanent, Code: device.CodeConflict,
			Message: "instance " + holder + " has the address " + address,
			Remedy:  "give another address, or release that instance"}, "")
	}
	return nil
}

// ReturnAddresses gives the addresses back that the instance has; those of others stay. It
// returns when others can take them. A second run finds none. Every error is retried.
func (s *Instances) ReturnAddresses(ctx context.Context, in contract.AddressesCall) error {
	return asError(unlisted(forEach(in.Addresses, func(address string) error {
		return s.Client.ReturnAddress(ctx, address, in.Instance)
	})), "")
}
