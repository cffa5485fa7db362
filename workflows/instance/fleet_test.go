package instance

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"burnish/internal/device"
	"burnish/workflows/contract"
)

// fleet is the devices and addresses of a cloud, as activities find them. What a device may do
// is decided by the product's own table.
type fleet struct {
	mu        sync.Mutex
	now       func() time.Time
	devices   []*fakeDevice
	addresses map[string]string // by the address, who has it
	asked     []string          // "Activity NAME…", in their order
	// onAsk is called with each call before it is carried out; nil: nothing.
	onAsk func(activity string, names []string)
	// stale: the listing shows devices as free that are not.
	stale bool
	// fails is asked before a call is carried out; nil: none fails.
	fails func(activity string) error
}

// fakeDevice is one device, with what it answered to updates by their IDs.
type fakeDevice struct {
	device.Device
	info     contract.HeldDevice
	answered map[string]contract.DeviceOutcome
	// failBurns: the next burn fails. burnsAllTheSame: the next one is refused, and takes effect. cleans
	// counts the bindings and burns that made it dirty.
	failBurns, burnsAllTheSame bool
	cleans                     int
	ended                      []device.Binding
}

func newFleet() *fleet {
	return &fleet{now: time.Now, addresses: map[string]string{}}
}

// add adds free devices of a host.
func (f *fleet) add(host, kind string, names ...string) {
	for _, name := range names {
		f.devices = append(f.devices, &fakeDevice{
			Device:   device.Device{State: device.Available, Status: device.Enabled, Owner: device.OwnerSelf, Cleanable: true},
			info:     contract.HeldDevice{Name: name, Host: host, Type: kind, Vendor: "V", Model: "M-" + kind, Serial: "S-" + name},
			answered: map[string]contract.DeviceOutcome{},
		})
	}
}

func (f *fleet) find(name string) *fakeDevice {
	for _, d := range f.devices {
		if d.info.Name == name {
			return d
		}
	}
	return nil
}

// apply applies an event; a device that is not offered any more must be cleaned.
func (d *fakeDevice) apply(e device.Event) error {
	was := d.Device
	next, err := device.Next(d.Device, e)
	if err != nil {
		return err
	}
	d.Device = next
	if was.Binding != nil && next.Binding == nil {
		d.ended = append(d.ended, *was.Binding)
	}
	if was.State != device.PendingCleaning && next.State == device.PendingCleaning {
		d.cleans++
	}
	return nil
}

// pick names devices as the activity does, the first free ones in their order.
func (f *fleet) pick(in contract.PickInput) (contract.PickAnswer, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var answer contract.PickAnswer
	take := func(c contract.DeviceChoice, d *fakeDevice) {
		answer.Devices = append(answer.Devices, c)
		answer.Known = append(answer.Known, d.info)
	}
	for _, c := range in.Named {
		d := f.find(c.Name)
		if d == nil {
			return answer, refuse(device.CodeNotFound, c.Name+" is not enrolled", "enroll it first")
		}
		take(c, d)
	}
	host := in.Host
	if host == "" {
		host = hostOf(answer.Known)
	}
	for _, r := range in.Requests {
		for range max(r.Count, 1) {
			n := slices.IndexFunc(f.devices, func(d *fakeDevice) bool {
				taken := slices.ContainsFunc(answer.Devices, func(c contract.DeviceChoice) bool { return c.Name == d.info.Name })
				return !taken && !slices.Contains(in.Except, d.info.Name) && d.info.Type == r.Type &&
					(host == "" || d.info.Host == host) &&
					(r.Model == "" || r.Model == d.info.Model) && (!r.LiveMigratable || d.info.LiveMigratable) &&
					(f.stale || d.Allocatable())
			})
			if n < 0 {
				return answer, refuse(device.CodeConflict, "too few free devices", "wait, or take others")
			}
			host = f.devices[n].info.Host
			take(contract.DeviceChoice{Name: f.devices[n].info.Name, Tag: r.Tag}, f.devices[n])
		}
	}
	return answer, nil
}

// ask carries out a call, once for each device and ID.
func (f *fleet) ask(activity string, call contract.DevicesCall) (contract.DevicesAnswer, error) {
	var names []string
	for _, c := range call.Devices {
		names = append(names, c.Name)
	}
	if f.fails != nil {
		if err := f.fails(activity); err != nil {
			return contract.DevicesAnswer{}, err
		}
	}
	if f.onAsk != nil {
		f.onAsk(activity, names)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked = append(f.asked, fmt.Sprint(activity, " ", names))
	var answer contract.DevicesAnswer
	for _, c := range call.Devices {
		answer.Outcomes = append(answer.Outcomes, f.update(activity, call, c))
	}
	return answer, nil
}

// update is one device's answer. A repeated one changes nothing.
func (f *fleet) update(activity string, call contract.DevicesCall, c contract.DeviceCall) contract.DeviceOutcome {
	d := f.find(c.Name)
	if d == nil {
		return contract.DeviceOutcome{Fault: &device.Fault{Class: device.Permanent, Code: device.CodeNotFound,
			Message: "not enrolled"}}
	}
	id := call.ID + "/" + activity
	if before, ok := d.answered[id]; ok {
		return before
	}
	err := d.do(activity, call, c, f.now())
	outcome := contract.DeviceOutcome{Device: d.info}
	if b := d.Binding; b != nil && b.Instance == call.Instance {
		outcome.Device.Binding = b.Number
	}
	if err != nil {
		outcome.Fault = &device.Fault{Class: device.Permanent, Code: device.CodeRefused, Message: err.Error()}
		if refused, ok := contract.RefusalOf(err); ok {
			outcome.Fault = &refused.Fault
		}
	}
	if activity == contract.ActivityUnbindDevices && len(call.Devices) == 1 {
		outcome.Status = &contract.DeviceStatus{Name: d.info.Name, DeviceState: d.State}
	}
	d.answered[id] = outcome
	return outcome
}

func (d *fakeDevice) do(activity string, call contract.DevicesCall, c contract.DeviceCall, now time.Time) error {
	d.expire(now)
	switch activity {
	case contract.ActivityClaimDevices:
		if !call.Deadline.After(now) {
			return fmt.Errorf("the deadline has passed")
		}
		return d.apply(device.Event{Kind: device.ClaimEvent, Instance: call.Instance, Request: call.Request, Tag: c.Tag,
			Deadline: call.Deadline})
	case contract.ActivityUnclaimDevices:
		return d.apply(device.Event{Kind: device.Unclaim, Instance: call.Instance})
	case contract.ActivityBurnDevices:
		if err := d.apply(device.Event{Kind: device.BurnStarted, Instance: call.Instance}); err != nil {
			return err
		}
		if d.failBurns {
			d.failBurns = false
			if err := d.apply(device.Event{Kind: device.BurnFailed, Automated: true}); err != nil {
				return err
			}
			return fmt.Errorf("the burn failed")
		}
		err := d.apply(device.Event{Kind: device.Burned})
		if d.burnsAllTheSame && err == nil {
			err = fmt.Errorf("the device was taken while the bind waited")
		}
		d.burnsAllTheSame = false
		return err
	case contract.ActivityUnbindDevices:
		if b := d.Binding; c.Binding != 0 && (b == nil || b.Number != c.Binding) {
			return fmt.Errorf("binding %d has ended", c.Binding)
		}
		return d.apply(device.Event{Kind: device.Unbind, Instance: call.Instance, Automated: true})
	case contract.ActivityConfirmDevices:
		if b := d.Binding; b == nil || b.Instance != call.Instance || c.Request != "" && b.Request != c.Request {
			return contract.Refuse(contract.Refusal{Fault: device.Fault{Class: device.Permanent, Code: device.CodeBindingEnded,
				Message: "the binding of this request has ended"}})
		}
		return nil
	case contract.ActivityRebuildDevices:
		return d.apply(device.Event{Kind: device.Rebuild, Instance: call.Instance})
	}
	return fmt.Errorf("%s is unknown", activity)
}

// expire ends a claim whose deadline has passed.
func (d *fakeDevice) expire(now time.Time) {
	if c := d.Claim; c != nil && !c.Burning && !c.Deadline.After(now) {
		d.Claim = nil
	}
}

// address leases or returns addresses.
func (f *fleet) address(activity string, call contract.AddressesCall) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked = append(f.asked, fmt.Sprint(activity, " ", call.Addresses))
	for _, a := range call.Addresses {
		switch holder := f.addresses[a]; {
		case activity == contract.ActivityReturnAddresses && holder == call.Instance:
			delete(f.addresses, a)
		case activity == contract.ActivityLeaseAddresses && holder != "" && holder != call.Instance:
			return refuse(device.CodeConflict, "the address "+a+" is another instance's", "give another address")
		case activity == contract.ActivityLeaseAddresses:
			f.addresses[a] = call.Instance
		}
	}
	return nil
}

// held names the devices that an instance is bound to.
func (f *fleet) held(instance string) []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	names := []string{}
	for _, d := range f.devices {
		if b := d.Binding; b != nil && b.Instance == instance {
			names = append(names, d.info.Name)
		}
	}
	return names
}

// bound are the devices that say they are bound to an instance.
func (f *fleet) bound(instance string) (all []contract.HeldDevice) {
	for _, name := range f.held(instance) {
		all = append(all, contract.HeldDevice{Name: name})
	}
	return all
}

// cleaned names the devices that a bind has made dirty.
func (f *fleet) cleaned() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	names := []string{}
	for _, d := range f.devices {
		if d.cleans > 0 {
			names = append(names, d.info.Name)
		}
	}
	return names
}
