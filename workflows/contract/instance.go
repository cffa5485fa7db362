package contract

import (
	"slices"
	"time"

	"burnish/internal/device"
)

// WorkflowInstance is the workflow type of an instance: each instance that has devices has
// one workflow. It ends when the last device has left.
const WorkflowInstance = "InstanceLifecycle"

// InstanceWorkflowID is the instance's workflow ID; instance is a UUID in lower case.
func InstanceWorkflowID(instance string) string { return "instance/" + instance }

// WorkflowGuestAddress holds one guest's address for one instance, so that no two living
// instances have the same one. Its input is a GuestAddressInput, and its memo MemoInstance the
// instance. It ends by the signal SignalReturnAddress, whose input is the same, of its instance.
const (
	WorkflowGuestAddress = "GuestAddress"
	SignalReturnAddress  = "return"
	MemoInstance         = "instance"
)

// GuestAddressInput names the instance that has, or returns, the address.
type GuestAddressInput struct {
	Instance string `json:"instance"`
}

// GuestAddressWorkflowID is the workflow ID of a guest's address in its canonical form.
func GuestAddressWorkflowID(address string) string { return "guest-address/" + address }

// QueryInstance answers with an InstanceStatus, QueryGranted with its Requests.
const (
	QueryInstance = "instance"
	QueryGranted  = "granted"
)

// SignalDeviceLeft is sent by a device to the instance whose binding ended otherwise than by
// the instance's own request. Its input is a DeviceLeft.
const SignalDeviceLeft = "device_left"

// DeviceLeft says which binding ended.
type DeviceLeft struct {
	Device  string `json:"device"`
	Binding int    `json:"binding"`
}

// ActivityFindBound of the control worker gives the devices that say they are bound to the instance
// whose UUID it is given. The other activities for instances ask devices by their updates, all at
// once, under IDs that depend on the request alone, so that it may be repeated; it answers
// when every device has given a definite answer.
const (
	ActivityClaimDevices    = "ClaimDevices"
	ActivityBurnDevices     = "BurnDevices"
	ActivityUnclaimDevices  = "UnclaimDevices"
	ActivityUnbindDevices   = "UnbindDevices"
	ActivityRebuildDevices  = "RebuildDevices"
	ActivityConfirmDevices  = "ConfirmDevices"
	ActivityFindBound       = "FindBoundDevices"
	ActivityPickDevices     = "PickDevices"
	ActivityLeaseAddresses  = "LeaseAddresses"
	ActivityReturnAddresses = "ReturnAddresses"
)

// ActivityAskInstance of the control worker asks the instance that is recorded for a device whether it
// has it: its input is an InstanceQuestion, its answer an InstanceAnswer.
const ActivityAskInstance = "AskInstance"

// InstanceQuestion names a device, and the instance that is recorded for it.
type InstanceQuestion struct {
	Instance string `json:"instance"`
	Device   string `json:"device"`
}

// InstanceAnswer says that the instance does not have the device: it was released, or knows nothing
// of it. An instance without a workflow, and one that is doing something, does not say so.
type InstanceAnswer struct {
	Left bool `json:"left,omitempty"`
}

// GuestAddress is where the guest finds a device: the bus, and what is known of the rest.
// Xen shows one disk on two buses. MAC is what the hypervisor gives a NIC in place of its own.
type GuestAddress struct {
	Bus     string `json:"bus"`
	Address string `json:"address,omitempty"`
	Path    string `json:"path,omitempty"`
	Devname string `json:"devname,omitempty"`
	MAC     string `json:"mac,omitempty" yaml:"-"`
}

// DeviceChoice is a device that an instance is to get, by name, with its role. Without Guest
// the guest's address is not known.
type DeviceChoice struct {
	Name  string         `json:"name"`
	Tag   string         `json:"tag,omitempty"`
	Guest []GuestAddress `json:"guest,omitempty"`
}

// DeviceRequest asks for Count free devices of a type (0 counts as 1) that have all Traits.
// Vendor and Model, if given, are theirs. Tag needs a Count of 1.
type DeviceRequest struct {
	Type   string   `json:"type"`
	Count  int      `json:"count,omitempty"`
	Traits []string `json:"traits,omitempty"`
	Tag    string   `json:"tag,omitempty"`
	Vendor string   `json:"vendor,omitempty"`
	Model  string   `json:"model,omitempty"`
	// LiveMigratable: only devices that are marked so.
	LiveMigratable bool `json:"live_migratable,omitempty"`
}

// InstanceInput starts InstanceLifecycle. With a State it continues an earlier run.
type InstanceInput struct {
	UUID  string         `json:"uuid"`
	State *InstanceState `json:"state,omitempty"`
}

// InstanceBindInput is the input of bind and attach: all devices are bound, or none. Request
// identifies it, "" the update's ID: repeated it binds nothing more. Host, if given, is where
// the Requests' devices must be. Project and Addresses are what the metadata service
// recognizes the guest by; only bind takes them.
type InstanceBindInput struct {
	Request   string          `json:"request,omitempty" yaml:"-"`
	Devices   []DeviceChoice  `json:"devices,omitempty"`
	Requests  []DeviceRequest `json:"requests,omitempty"`
	Host      string          `json:"host,omitempty"`
	Project   string          `json:"project,omitempty"`
	Addresses []string        `json:"addresses,omitempty"`
	Reason    string          `json:"reason,omitempty" yaml:"-" flag:"reason"`
	// OfDevice: the request is that of the one device's bind. Other devices may be bound to the
	// instance by the same; only the device says whether it was granted.
	OfDevice bool `json:"of_device,omitempty" api:"-"`
	Caller   `api:"-"`
}

// InstanceDetachInput is the input of detach: the devices' names.
type InstanceDetachInput struct {
	Devices []string `json:"devices"`
	Reason  string   `json:"reason,omitempty" flag:"reason"`
	Caller  `api:"-"`
}

// InstanceMoveInput is the input of migrate, live_migrate and evacuate. Devices, if given,
// are the ones to take on the host To, one for each of the instance's, in their order;
// otherwise free ones of the same type, vendor and model are taken. Tags stay with the roles.
type InstanceMoveInput struct {
	To      string         `json:"to"`
	Devices []DeviceChoice `json:"devices,omitempty"`
	Reason  string         `json:"reason,omitempty" flag:"reason"`
	Caller  `api:"-"`
}

// InstanceResult is the answer to an instance's update.
type InstanceResult struct {
	Instance InstanceStatus `json:"instance"`
	// Already: the request was carried out before, or there was nothing to change.
	Already bool `json:"already,omitempty"`
	// Detached is a device that was detached alone, as it was when its binding had ended.
	Detached *DeviceStatus `json:"detached,omitempty"`
}

// InstancePhase says what an instance is doing.
type InstancePhase string

// The phases. Migrating: devices are bound on both hosts, until confirm or revert. Reset is that of a run that was
// reset: it remembers too little, and the run before it says what the instance has.
const (
	InstanceBinding   InstancePhase = "binding"
	InstanceActive    InstancePhase = "active"
	InstanceMigrating InstancePhase = "migrating"
	InstanceReleasing InstancePhase = "releasing"
	InstanceReleased  InstancePhase = "released"
	InstanceReset     InstancePhase = "reset"
)

// HeldDevice is a device that an instance has, or is about to get or to give back.
type HeldDevice struct {
	Name    string         `json:"name"`
	UUID    string         `json:"uuid,omitempty"`
	Type    string         `json:"type,omitempty"`
	Host    string         `json:"host,omitempty"`
	Vendor  string         `json:"vendor,omitempty"`
	Model   string         `json:"model,omitempty"`
	Serial  string         `json:"serial,omitempty"`
	MAC     string         `json:"mac,omitempty"`
	Tag     string         `json:"tag,omitempty"`
	Guest   []GuestAddress `json:"guest,omitempty"`
	Binding int            `json:"binding,omitempty"`
	// Request is that of the bind. LiveMigratable is the device's mark.
	Request        string `json:"request,omitempty"`
	LiveMigratable bool   `json:"live_migratable,omitempty"`
}

// InstanceMove is a migration under way: Source are the devices on the host that the instance
// leaves. The devices of the host To are the instance's Devices from the moment they are bound.
type InstanceMove struct {
	Verb   string       `json:"verb"` // migrate or live_migrate
	From   string       `json:"from"`
	To     string       `json:"to"`
	Source []HeldDevice `json:"source"`
	Since  time.Time    `json:"since"`
}

// InstanceStatus is what an instance shows. Devices are those that it has: the metadata
// document shows no other.
type InstanceStatus struct {
	UUID      string        `json:"uuid"`
	Phase     InstancePhase `json:"phase"`
	Host      string        `json:"host,omitempty"`
	Project   string        `json:"project,omitempty"`
	Addresses []string      `json:"addresses,omitempty"`
	Devices   []HeldDevice  `json:"devices"`
	Move      *InstanceMove `json:"move,omitempty"`
	// Unsettled are devices that it does not have, and that may be bound to it: see InstanceState.
	Unsettled []HeldDevice `json:"unsettled,omitempty"`
	// Doing is the verb of the act under way; "" if there is none.
	Doing     string    `json:"doing,omitempty"`
	LastError string    `json:"last_error,omitempty"`
	CreatedAt time.Time `json:"created_at"`
	UpdatedAt time.Time `json:"updated_at"`
	Acts      []Act     `json:"acts,omitempty"`
}

// InstanceSchema is the version of InstanceState that this build writes.
const InstanceSchema = 2

// InstanceState survives continue-as-new. Add fields, never rename one.
type InstanceState struct {
	Schema    int           `json:"schema"`
	UUID      string        `json:"uuid"`
	Phase     InstancePhase `json:"phase"`
	Project   string        `json:"project,omitempty"`
	Addresses []string      `json:"addresses,omitempty"`
	Devices   []HeldDevice  `json:"devices,omitempty"`
	Move      *InstanceMove `json:"move,omitempty"`
	// Unsettled are devices that the instance does not have, and that may be bound to it: the act
	// under way burns or unbinds them, and none leaves the list before it has answered. Those of a
	// run that was terminated are given back by the next act, unless it is about them.
	Unsettled []HeldDevice `json:"unsettled,omitempty"`
	// Granted are the last granted requests of bind and attach: none is granted again
	// (KeptRequests).
	Granted   Requests      `json:"granted,omitempty"`
	Recent    RecentUpdates `json:"recent,omitempty"`
	Acts      ActLog        `json:"acts,omitempty"`
	LastError string        `json:"last_error,omitempty"`
	CreatedAt time.Time     `json:"created_at"`
	UpdatedAt time.Time     `json:"updated_at"`
}

// Has finds a device that the instance has.
func (s InstanceStatus) Has(name string) (HeldDevice, bool) {
	i := slices.IndexFunc(s.Devices, func(d HeldDevice) bool { return d.Name == name })
	if i < 0 {
		return HeldDevice{}, false
	}
	return s.Devices[i], true
}

// DevicesCall is the input of the activities that ask devices. Deadline is that of claims.
//
// Request is that of the bindings. ID is another one for each call: the IDs of the devices'
// updates derive from it, the activity's name and the device's name, because a device that
// was claimed and unclaimed for a request may be claimed for it again.
type DevicesCall struct {
	ID       string       `json:"id"`
	Instance string       `json:"instance"`
	Request  string       `json:"request"`
	Devices  []DeviceCall `json:"devices"`
	Deadline time.Time    `json:"deadline,omitzero"`
	Reason   string       `json:"reason,omitempty"`
	Caller
}

// DeviceCall is one device of a DevicesCall. Binding is that to end; 0 where none is known. Request is that of the
// binding to confirm; the other calls have one for all devices.
type DeviceCall struct {
	Name    string `json:"name"`
	Tag     string `json:"tag,omitempty"`
	Binding int    `json:"binding,omitempty"`
	Request string `json:"request,omitempty"`
}

// DeviceOutcome is what one device answered, in the order of the call: Fault is why it
// refused. Device is what the instance keeps of it, without Tag, Guest and Request.
//
// State is the device's when it answered; "" if it has no workflow. Already says that there was
// nothing to change: it was granted before, or a claim or binding had ended before. A claim with
// a Binding was granted and burned before. Status is the answer to the unbind of a single device.
type DeviceOutcome struct {
	Device  HeldDevice    `json:"device"`
	State   device.State  `json:"state,omitempty"`
	Already bool          `json:"already,omitempty"`
	Status  *DeviceStatus `json:"status,omitempty"`
	Fault   *device.Fault `json:"fault,omitempty"`
}

// DevicesAnswer answers a DevicesCall.
type DevicesAnswer struct {
	Outcomes []DeviceOutcome `json:"outcomes"`
}

// PickInput asks what is known of the devices Named, and for free devices: all on one host,
// which is Host if it is given, or else that of the Named if there are any. Except are not
// taken.
type PickInput struct {
	Instance string          `json:"instance"`
	Named    []DeviceChoice  `json:"named,omitempty"`
	Requests []DeviceRequest `json:"requests,omitempty"`
	Host     string          `json:"host,omitempty"`
	Except   []string        `json:"except,omitempty"`
}

// PickAnswer names the devices: the Named as they were given, then those of one request after
// those of the one before it, each with its request's tag. Known is what is known of each of
// them, without Tag, Guest, Request and Binding. A device that is named and not enrolled, and
// too few free devices (CodeConflict), are errors that are not retried.
type PickAnswer struct {
	Devices []DeviceChoice `json:"devices"`
	Known   []HeldDevice   `json:"known"`
}

// AddressesCall is the input of LeaseAddresses and ReturnAddresses: the guest's addresses in
// their canonical form.
type AddressesCall struct {
	Instance  string   `json:"instance"`
	Addresses []string `json:"addresses"`
}
