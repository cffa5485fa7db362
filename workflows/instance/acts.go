package instance

import (
	"fmt"
	"slices"

	"burnish/internal/device"
	"burnish/internal/tagging"
	"burnish/workflows/contract"
	"burnish/workflows/updates"
)

// bind gives an instance that has no devices its first ones. One that has the same devices
// and tags is bound already.
func (i *instance) bind(in contract.InstanceBindInput) (already bool, err error) {
	switch {
	case i.granted(in.Request):
		return true, i.stillHas(in.Request, namedIn(in))
	case i.empty():
		return false, i.begin(in)
	}
	if len(in.Requests) > 0 || len(in.Devices) != len(i.Devices) || i.Move != nil {
		return false, errBound()
	}
	for _, c := range in.Devices {
		if n := i.index(c.Name); n < 0 || i.Devices[n].Tag != c.Tag {
			return false, errBound()
		}
	}
	switch {
	case in.Project != "" && in.Project != i.Project:
		return false, refuse(device.CodeConflict, "the instance belongs to another project", "release it first")
	case len(in.Addresses) > 0 && !sameSet(in.Addresses, i.InstanceState.Addresses):
		return false, refuse(device.CodeConflict, "the instance has other addresses", "release it first")
	}
	if err := i.stillHas(in.Request, namedIn(in)); err != nil {
		return false, err
	}
	return !i.recordGuests(in.Devices), nil
}

func errBound() error {
	return refuse(device.CodeConflict, "the instance has other devices or tags already", "use attach for more devices")
}

// attach binds further devices. One that the instance has keeps its binding; what is given of
// its guest's addresses is recorded.
func (i *instance) attach(in contract.InstanceBindInput) (already bool, err error) {
	switch {
	case i.granted(in.Request) && !in.OfDevice:
		return true, i.stillHas(in.Request, namedIn(in))
	case i.empty():
		return false, i.begin(in)
	case i.Move != nil:
		return false, i.errMoving()
	}
	var more []contract.DeviceChoice
	for _, c := range in.Devices {
		n := i.index(c.Name)
		switch {
		case n < 0:
			more = append(more, c)
		case c.Tag != "" && c.Tag != i.Devices[n].Tag:
			return false, refuse(device.CodeConflict, fmt.Sprintf("the instance has %s with another tag", c.Name),
				"detach it first")
		}
	}
	if len(more) == 0 && len(in.Requests) == 0 {
		if err := i.stillHas(in.Request, namedIn(in)); err != nil {
			return false, err
		}
		return !i.recordGuests(in.Devices), nil
	}
	devices, err := i.acquire(wanted{request: in.Request, named: more, requests: in.Requests, host: i.hostFor(in.Host),
		allowed: func(found []contract.HeldDevice) error {
			return i.fits(in.Host, found)
		}})
	if err != nil {
		return false, err
	}
	i.recordGuests(in.Devices)
	i.Devices = append(i.Devices, devices...)
	i.grant(in.Request)
	return false, nil
}

// stillHas asks the devices that the instance has by a request, or of these names, whether it has them. Those that have
// left are not asked.
func (i *instance) stillHas(request string, names []string) error {
	has := i.Devices
	if i.Move != nil {
		has = slices.Concat(has, i.Move.Source)
	}
	return i.confirmed(slices.DeleteFunc(slices.Clone(has), func(d contract.HeldDevice) bool {
		return d.Request != request && !slices.Contains(names, d.Name)
	}))
}

// confirmed asks devices whether the instance has them, before it is answered that it has them already: what it
// remembers may be older than what the inventory records.
//
// SAFETY F36
func (i *instance) confirmed(devices []contract.HeldDevice) error {
	if len(devices) == 0 {
		return nil
	}
	call := contract.DevicesCall{ID: i.CallID()}
	for _, d := range devices {
		call.Devices = append(call.Devices, contract.DeviceCall{Name: d.Name, Tag: d.Tag, Request: d.Request})
	}
	i.doingNow(fmt.Sprintf("confirm %d devices", len(call.Devices)))
	outcomes, err := i.ask(contract.ActivityConfirmDevices, call)
	if err != nil {
		return err
	}
	for n, outcome := range outcomes {
		f := outcome.Fault
		switch name := call.Devices[n].Name; {
		case f == nil:
			continue
		case f.Code == device.CodeNotFound:
			f.Class, f.Message = device.NeedsOperator, "it has no workflow, and may come back with its binding"
			f.Remedy = "see burnish show " + name + ", and repeat it when its host has brought it back"
		case f.Code == device.CodeBindingEnded && i.Move == nil: // the instance still names it
			f.Remedy = "detach it from the instance, and bind again with a new request"
		case f.Code == device.CodeBindingEnded:
			f.Remedy = "end the migration with the devices of its other side, or release the instance"
		}
		return refusal(call.Devices[n].Name, f)
	}
	return nil
}

// begin is the first bind of an instance.
func (i *instance) begin(in contract.InstanceBindInput) error {
	i.Phase, i.Project = contract.InstanceBinding, in.Project
	if !sameSet(in.Addresses, i.InstanceState.Addresses) {
		i.returnAddresses() // of a run that was terminated
	}
	if err := i.lease(in.Addresses); err != nil {
		return err
	}
	devices, err := i.acquire(wanted{request: in.Request, named: in.Devices, requests: in.Requests, host: in.Host,
		allowed: func(found []contract.HeldDevice) error {
			return i.fits(in.Host, found)
		}})
	if i.Phase = contract.InstanceActive; err != nil {
		return err
	}
	i.Devices = devices
	i.grant(in.Request)
	return nil
}

// lease takes the guest's addresses, all or none.
func (i *instance) lease(addresses []string) error {
	if len(addresses) == 0 {
		return nil
	}
	i.InstanceState.Addresses = addresses // end returns them whatever comes
	i.doingNow("lease addresses")
	return i.world.Addresses(contract.ActivityLeaseAddresses,
		contract.AddressesCall{Instance: i.UUID, Addresses: addresses})
}

// returnAddresses gives the guest's addresses back, once no document is shown by them.
func (i *instance) returnAddresses() {
	addresses := i.InstanceState.Addresses
	if len(addresses) == 0 {
		return
	}
	i.doingNow("return addresses")
	call := contract.AddressesCall{Instance: i.UUID, Addresses: addresses}
	i.untilDone(func() error { return i.world.Addresses(contract.ActivityReturnAddresses, call) })
	i.InstanceState.Addresses = nil
}

// end ends an instance that has no devices.
func (i *instance) end() {
	i.Phase = contract.InstanceReleasing
	i.returnAddresses()
	i.Phase, i.Project = contract.InstanceReleased, ""
}

// detach ends the bindings of some devices. They leave the state, and with it the guest's
// document, before they are unbound. A device that the instance does not know of may be bound to
// it: it is asked first.
func (i *instance) detach(in contract.InstanceDetachInput) error {
	var leaving, unknown []contract.HeldDevice
	for _, name := range in.Devices {
		if n := i.index(name); n >= 0 {
			leaving = append(leaving, i.Devices[n])
		} else if n := indexOf(i.Unsettled, name); n >= 0 {
			leaving = append(leaving, i.Unsettled[n])
		} else {
			unknown = append(unknown, contract.HeldDevice{Name: name})
		}
	}
	outcomes := i.unbind(unknown)
	for n, outcome := range outcomes {
		if outcome.Fault != nil {
			return errNotHeld(unknown[n].Name)
		}
	}
	i.Devices = slices.DeleteFunc(slices.Clone(i.Devices), func(d contract.HeldDevice) bool {
		return slices.Contains(in.Devices, d.Name)
	})
	if outcomes = append(outcomes, i.unbind(leaving)...); len(outcomes) == 1 {
		i.detached = outcomes[0].Status
	}
	return nil
}

func errNotHeld(name string) error {
	return refuse(device.CodeNotFound, "the instance does not have "+name, "show the instance for its devices")
}

// release ends all bindings of the instance, also those that it does not know of. Its document is
// gone before its addresses are returned, and its addresses before its devices are unbound.
// already: it is released.
func (i *instance) release() (already bool) {
	already = i.Phase == contract.InstanceReleased
	if !already {
		i.Phase = contract.InstanceReleasing
		i.returnAddresses()
		leaving := slices.Clone(i.Devices)
		if i.Move != nil {
			leaving = append(leaving, i.Move.Source...)
		}
		i.unbind(leaving)
		i.Devices, i.Move = nil, nil
	}
	found := i.findBound()
	i.unbind(found)
	return already && len(found) == 0
}

// findBound finds the devices that say they are bound to the instance, until it is done.
func (i *instance) findBound() (found []contract.HeldDevice) {
	i.doingNow("find the devices that name the instance")
	i.untilDone(func() (err error) {
		found, err = i.world.FindBound(i.UUID)
		return err
	})
	return found
}

// rebuild keeps all devices bound while their instance is rebuilt (S0.18).
func (i *instance) rebuild() error {
	call := contract.DevicesCall{ID: i.CallID()}
	for _, d := range i.Devices {
		call.Devices = append(call.Devices, contract.DeviceCall{Name: d.Name, Binding: d.Binding})
	}
	i.doingNow("rebuild")
	outcomes, err := i.ask(contract.ActivityRebuildDevices, call)
	if err != nil {
		return err
	}
	for n, outcome := range outcomes {
		if outcome.Fault != nil {
			return refusal(call.Devices[n].Name, outcome.Fault)
		}
	}
	return nil
}

// fits refuses devices that cannot be the instance's: those of another host, and those whose
// tag another one of the same type has.
//
// S1.3
func (i *instance) fits(host string, found []contract.HeldDevice) error {
	all := append(slices.Clone(i.Devices), found...)
	if host == "" {
		host = hostOf(all)
	}
	tags := map[role]string{}
	for _, d := range all {
		if d.Type != contract.TypeNode && d.Host != host {
			return refuse(device.CodeRefused, fmt.Sprintf("%s is on host %s, the instance's devices on %s", d.Name, d.Host,
				host), "take devices of one host")
		}
		r := role{tagging.TypeOf(d.Type), d.Tag}
		if other := tags[r]; other != "" && d.Tag != "" {
			return refuse(device.CodeConflict, fmt.Sprintf("%s cannot have the tag %q: %s has it", d.Name, d.Tag, other),
				"give each device of a type a tag of its own")
		}
		tags[r] = d.Name
	}
	return nil
}

// role is what a tag is unique for.
type role struct{ kind, tag string }

// hostFor is where picked devices must be: the host that was asked for, or else the instance's.
func (i *instance) hostFor(host string) string {
	if host == "" {
		return hostOf(i.Devices)
	}
	return host
}

// hostOf is the host of devices; whole servers are hosts of their own.
func hostOf(devices []contract.HeldDevice) string {
	for _, d := range devices {
		if d.Type != contract.TypeNode {
			return d.Host
		}
	}
	if len(devices) > 0 {
		return devices[0].Host
	}
	return ""
}

// recordGuests records where the guest finds devices, and says whether anything changed.
func (i *instance) recordGuests(choices []contract.DeviceChoice) (changed bool) {
	for _, c := range choices {
		if n := i.index(c.Name); n >= 0 && len(c.Guest) > 0 && !slices.Equal(c.Guest, i.Devices[n].Guest) {
			i.Devices[n].Guest, changed = c.Guest, true
		}
	}
	return changed
}

// granted says that a bind or attach with this request was granted: repeated it binds nothing
// more, also when its devices have left. That of an update without a request is its ID.
//
// SAFETY F41
func (i *instance) granted(request string) bool { return i.Granted.Has(i.UUID, request) }

// grant records that a request was granted.
func (i *instance) grant(request string) { i.Granted = i.Granted.With(i.UUID, request) }

func (i *instance) log() updates.Log {
	return updates.Log{Recent: &i.Recent, Acts: &i.InstanceState.Acts}
}

func (i *instance) empty() bool { return len(i.Devices) == 0 && i.Move == nil }

func (i *instance) index(name string) int { return indexOf(i.Devices, name) }

func indexOf(devices []contract.HeldDevice, name string) int {
	return slices.IndexFunc(devices, func(d contract.HeldDevice) bool { return d.Name == name })
}

// deviceLeft drops a device whose binding ended by itself. It may be one of an act under way,
// which drops it when it is done.
func (i *instance) deviceLeft(in contract.DeviceLeft) {
	i.left = append(i.left, in)
	i.dropLeft()
}

// dropLeft drops the devices that have left.
func (i *instance) dropLeft() {
	gone := func(d contract.HeldDevice) bool {
		return slices.Contains(i.left, contract.DeviceLeft{Device: d.Name, Binding: d.Binding})
	}
	i.Devices = slices.DeleteFunc(slices.Clone(i.Devices), gone)
	if i.Move == nil {
		return
	}
	i.Move.Source = slices.DeleteFunc(slices.Clone(i.Move.Source), gone)
	if len(i.Devices) == 0 && len(i.Move.Source) == 0 {
		i.Move = nil
	}
}

func sameSet(a, b []string) bool {
	a, b = slices.Clone(a), slices.Clone(b)
	slices.Sort(a)
	slices.Sort(b)
	return slices.Equal(a, b)
}

// beginAct says whose act is under way.
func (i *instance) beginAct(verb string, by contract.Caller, reason string) {
	i.doing, i.step, i.by, i.reason, i.detached = verb, "", by, reason, nil
}

// endAct ends the act under way. What is still unsettled is given back, and devices that left meanwhile are dropped; an
// instance without devices ends.
func (i *instance) endAct() {
	i.giveBack(nil)
	i.dropLeft()
	i.left = nil
	if i.empty() && i.Phase != contract.InstanceReleased {
		i.end()
	}
	i.doing, i.step, i.by, i.reason = "", "", contract.Caller{}, ""
}
