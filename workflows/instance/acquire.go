package instance

import (
	"fmt"
	"slices"
	"time"

	"burnish/internal/device"
	"burnish/workflows/contract"
)

const (
	// claimFor is how long claims hold: they end by themselves if this workflow is lost.
	claimFor = 2 * time.Minute
	// burnWithin is how much of that must be left when the burns begin.
	burnWithin = 30 * time.Second
	// maxRounds bounds how often free devices are picked again after a lost race, each time
	// after a pause that is longer by pickAgain.
	maxRounds = 8
	pickAgain = 100 * time.Millisecond
	// maxPause bounds the pause before a call that ended without an answer is made again.
	maxPause = 5 * time.Minute
)

// world is what an act asks of devices and addresses. An error says that there is no answer,
// or that the request as a whole is refused.
type world interface {
	Now() time.Time
	Pause(d time.Duration)
	Pick(in contract.PickInput) (contract.PickAnswer, error)
	Ask(activity string, call contract.DevicesCall) (contract.DevicesAnswer, error)
	Addresses(activity string, call contract.AddressesCall) error
	// FindBound gives the devices that say they are bound to the instance, as far as they are
	// listed: that a device is not among them proves nothing.
	FindBound(instance string) ([]contract.HeldDevice, error)
	// CallID is another one for each call of all runs.
	CallID() string
	// Changed publishes the state and what is under way.
	Changed()
}

// instance is one instance and the act under way.
type instance struct {
	world
	*contract.InstanceState
	// doing is the verb of the act under way, by whom it is done; step is what it waits for.
	doing, step string
	by          contract.Caller
	reason      string
	// detached is what a device that was detached alone answered.
	detached *contract.DeviceStatus
	// left are bindings that ended while an act was under way.
	left []contract.DeviceLeft
}

// wanted is what an act is to get. allowed refuses what was found, before any claim.
type wanted struct {
	request  string
	named    []contract.DeviceChoice
	requests []contract.DeviceRequest
	host     string
	allowed  func([]contract.HeldDevice) error
}

// acquire binds all devices that are wanted, or none: it claims all of them, and burns them
// only if it has all claims. If a claim is lost, the others are given back, and nothing is
// cleaned; devices that are not named are then picked again. If a burn fails, the devices that
// are bound are unbound, and cleaned.
func (i *instance) acquire(w wanted) ([]contract.HeldDevice, error) {
	var lost []string
	for round := 1; ; round++ {
		i.doingNow("find devices")
		found, err := i.Pick(contract.PickInput{Instance: i.UUID, Named: w.named, Requests: w.requests, Host: w.host,
			Except: lost})
		switch {
		case err != nil && (len(lost) == 0 || round == maxRounds):
			return nil, err
		case err != nil: // those that were lost may be free again
			lost = nil
			i.Pause(time.Duration(round) * pickAgain)
			continue
		case len(found.Devices) != len(found.Known):
			return nil, fmt.Errorf("%d devices were found, and %d are known", len(found.Devices), len(found.Known))
		}
		if err := w.allowed(chosen(found)); err != nil {
			return nil, err
		}
		devices, refused, err := i.claimAndBurn(w.request, found.Devices)
		if err == nil || len(refused) == 0 || round == maxRounds || slices.ContainsFunc(refused, w.names) {
			return devices, err
		}
		lost = append(lost, refused...)
		i.Pause(time.Duration(round) * pickAgain)
	}
}

// names says that the device was asked for by name.
func (w wanted) names(name string) bool {
	return slices.ContainsFunc(w.named, func(c contract.DeviceChoice) bool { return c.Name == name })
}

// chosen is what is known of the devices found, with their roles.
func chosen(found contract.PickAnswer) []contract.HeldDevice {
	known := slices.Clone(found.Known)
	for n, c := range found.Devices {
		known[n].Name, known[n].Tag, known[n].Guest = c.Name, c.Tag, c.Guest
	}
	return known
}

// claimAndBurn binds these devices, or none. lost are those whose claim was refused: then
// nothing was burned.
func (i *instance) claimAndBurn(request string,
	choices []contract.DeviceChoice) (devices []contract.HeldDevice, lost []string, err error) {
	deadline := i.Now().Add(claimFor)
	claim := contract.DevicesCall{ID: i.CallID(), Request: request, Deadline: deadline}
	for _, c := range choices {
		claim.Devices = append(claim.Devices, contract.DeviceCall{Name: c.Name, Tag: c.Tag})
	}
	i.doingNow(fmt.Sprintf("claim %d devices", len(choices)))
	claims, err := i.ask(contract.ActivityClaimDevices, claim)
	if err != nil {
		i.unclaim(request, choices)
		return nil, nil, err
	}
	var granted []contract.DeviceChoice
	var older []contract.HeldDevice // of a run that was terminated, or by a record
	for n, outcome := range claims {
		if outcome.Fault == nil {
			granted = append(granted, choices[n])
			if d := outcome.Device; d.Binding != 0 {
				d.Name, d.Tag, d.Guest, d.Request = choices[n].Name, choices[n].Tag, choices[n].Guest, request
				older = append(older, d)
			}
			continue
		}
		lost = append(lost, choices[n].Name)
		if err == nil {
			err = refusal(choices[n].Name, outcome.Fault)
		}
	}
	if err == nil && i.Now().After(deadline.Add(-burnWithin)) {
		err = refuse(device.CodeConflict, "the devices were claimed too late to be burned", "bind again")
	}
	if err != nil {
		i.unclaim(request, granted)
	} else {
		devices, err = i.burn(claim, choices, claims)
	}
	if err != nil {
		i.keep(older)
	}
	return devices, lost, err
}

// keep takes over devices that were bound to the instance before an act that is refused: that does not end them, and
// nobody else knows of them.
//
// SAFETY F38
func (i *instance) keep(devices []contract.HeldDevice) {
	for _, d := range devices {
		same := func(s contract.HeldDevice) bool { return s.Name == d.Name }
		if !slices.ContainsFunc(i.Devices, same) && (i.Move == nil || !slices.ContainsFunc(i.Move.Source, same)) {
			i.Devices = append(i.Devices, d)
		}
	}
}

// burn burns devices that are claimed. If one refuses, all of them are unbound, and the answer is
// that of this unbind: a burn that was refused may have taken effect all the same. A device whose
// burn did not begin ends its claim by it.
//
// SAFETY F42
func (i *instance) burn(claim contract.DevicesCall, choices []contract.DeviceChoice,
	claims []contract.DeviceOutcome) ([]contract.HeldDevice, error) {
	call := claim
	call.ID, call.Deadline = i.CallID(), time.Time{}
	var devices, tried []contract.HeldDevice
	for n, c := range choices {
		if claims[n].Device.Binding == 0 { // an older binding of this request is not this act's to end
			tried = append(tried, contract.HeldDevice{Name: c.Name, Tag: c.Tag, Request: call.Request})
		}
	}
	i.unsettle(tried)
	i.doingNow(fmt.Sprintf("burn %d devices", len(choices)))
	var err error
	for n, outcome := range i.settle(contract.ActivityBurnDevices, call) {
		d := outcome.Device
		d.Name, d.Tag, d.Guest, d.Request = choices[n].Name, choices[n].Tag, choices[n].Guest, call.Request
		devices = append(devices, d)
		if outcome.Fault != nil && err == nil {
			err = refusal(choices[n].Name, outcome.Fault)
		}
	}
	if err != nil {
		i.unbind(tried)
		return nil, err
	}
	i.settled(tried)
	return devices, nil
}

// unsettle notes devices that may be bound to the instance although it does not have them: a run
// that is terminated before they have answered leaves them for the next one to release.
func (i *instance) unsettle(devices []contract.HeldDevice) {
	i.settled(devices)
	i.Unsettled = append(i.Unsettled, devices...)
}

// settled drops devices that have answered.
func (i *instance) settled(devices []contract.HeldDevice) {
	i.Unsettled = slices.DeleteFunc(slices.Clone(i.Unsettled), func(d contract.HeldDevice) bool {
		return slices.ContainsFunc(devices, func(a contract.HeldDevice) bool { return a.Name == d.Name })
	})
	if len(i.Unsettled) == 0 {
		i.Unsettled = nil
	}
}

// giveBack unbinds what a run that was terminated was about to get or to give back, but for what the act names: a bind
// that comes again is granted what the first one has burned.
//
// SAFETY F38, F42
func (i *instance) giveBack(named []string) {
	i.settled(i.Devices)
	if i.Move != nil {
		i.settled(i.Move.Source)
	}
	i.unbind(slices.DeleteFunc(slices.Clone(i.Unsettled), func(d contract.HeldDevice) bool {
		return slices.Contains(named, d.Name)
	}))
}

// unclaim gives claims back. One that is not given back ends by its deadline.
func (i *instance) unclaim(request string, choices []contract.DeviceChoice) {
	if len(choices) == 0 {
		return
	}
	call := contract.DevicesCall{ID: i.CallID(), Request: request}
	for _, c := range choices {
		call.Devices = append(call.Devices, contract.DeviceCall{Name: c.Name})
	}
	i.doingNow("give claims back")
	if _, err := i.ask(contract.ActivityUnclaimDevices, call); err != nil {
		i.LastError = "claims were not given back, and end by themselves: " + err.Error()
	}
}

// unbind ends bindings; the devices are cleaned. It returns when each has said so, or that it has
// no such binding.
//
// SAFETY F38
func (i *instance) unbind(devices []contract.HeldDevice) []contract.DeviceOutcome {
	if len(devices) == 0 {
		return nil
	}
	i.unsettle(devices)
	defer i.settled(devices)
	call := contract.DevicesCall{ID: i.CallID()}
	for _, d := range devices {
		call.Devices = append(call.Devices, contract.DeviceCall{Name: d.Name, Binding: d.Binding})
	}
	i.doingNow(fmt.Sprintf("unbind %d devices", len(devices)))
	return i.settle(contract.ActivityUnbindDevices, call)
}

// ask asks devices. An answer has an outcome for each of them.
func (i *instance) ask(activity string, call contract.DevicesCall) ([]contract.DeviceOutcome, error) {
	call.Instance, call.Caller, call.Reason = i.UUID, i.by, i.reason
	answer, err := i.Ask(activity, call)
	if err == nil && len(answer.Outcomes) != len(call.Devices) {
		err = fmt.Errorf("%s: %d devices were asked, and %d answered", activity, len(call.Devices), len(answer.Outcomes))
	}
	return answer.Outcomes, err
}

// settle asks devices until they have answered: what they did is never guessed.
func (i *instance) settle(activity string, call contract.DevicesCall) (outcomes []contract.DeviceOutcome) {
	i.untilDone(func() (err error) {
		outcomes, err = i.ask(activity, call)
		return err
	})
	return outcomes
}

// untilDone does something again until it ends without an error.
func (i *instance) untilDone(do func() error) {
	for pause := time.Second; ; pause = min(2*pause, maxPause) {
		err := do()
		if err == nil {
			return
		}
		i.LastError = "asked again: " + err.Error()
		i.Changed()
		i.Pause(pause)
	}
}

// doingNow says what the act waits for.
func (i *instance) doingNow(step string) {
	i.step = step
	i.Changed()
}

// refuse is the error of an act that is refused.
func refuse(code device.Code, message, remedy string) error {
	return contract.Refuse(
		contract.Refusal{Fault: device.Fault{Class: device.Permanent, Code: code, Message: message, Remedy: remedy}})
}

// refusal is the error of an act that a device refused. It is never retried by itself.
func refusal(name string, f *device.Fault) error {
	fault := *f
	if fault.Class == device.Transient {
		fault.Class = device.Permanent
	}
	fault.Message = name + ": " + fault.Message
	return contract.Refuse(contract.Refusal{Fault: fault, Device: name})
}

// errNoDevices is for an act whose instance has no devices.
func errNoDevices() error {
	return refuse(device.CodeNotFound, "the instance has no devices", "bind devices to it first")
}
