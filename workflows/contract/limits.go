package contract

import (
	"time"

	"burnish/internal/device"
)

// WorkflowLimits is the type of the one workflow that keeps a fleet within its limits
// (S3.38). It exists only where the policy has the section limits.
const WorkflowLimits = "Limits"

// LimitsWorkflowID is its ID.
const LimitsWorkflowID = "limits"

// Signals to it: a device asks for a slot, a device reports what became of its clean, and a
// control worker passes on its policy.
const (
	SignalSlotRequest   = "slot_request"
	SignalSlotReport    = "slot_report"
	SignalLimitsChanged = "limits_changed"
)

// QueryLimits answers with a LimitsStatus; its input is a device's name, or "" for all.
const QueryLimits = "limits"

// Activities of a control worker for the limits.
const (
	// ActivityRequestSlot starts the workflow of the limits, if none runs, with a device's
	// SlotRequest.
	ActivityRequestSlot = "RequestSlot"
	// ActivityFindCleans has each device that is being cleaned ask once more.
	ActivityFindCleans = "FindCleans"
	// ActivityCheckHolders finds slots whose devices are not being cleaned.
	ActivityCheckHolders = "CheckHolders"
	// ActivityCountFree counts the devices that a tenant can get.
	ActivityCountFree = "CountFree"
	// ActivityFindGroups finds the devices that are cleaned together.
	ActivityFindGroups = "FindGroups"
)

// WaitSlot is the wait for a slot, or for a step that the limits hold back.
const WaitSlot = "slot"

// LimitsInput starts Limits. With a State it continues an earlier run.
type LimitsInput struct {
	LimitsChange
	State *LimitsState `json:"state,omitempty"`
}

// LimitsChange is a control worker's policy. Limits nil: nothing is limited any more.
type LimitsChange struct {
	Limits    *device.Limits `json:"limits,omitempty"`
	TellAfter time.Duration  `json:"tell_after,omitempty"`
}

// SlotRequest asks for a slot: for a clean, or for taking an available device out of the
// pool.
type SlotRequest struct {
	Device string `json:"device"`
	// Clean identifies the clean, or the request that takes the device out of the offer.
	Clean string `json:"clean"`
	Host  string `json:"host,omitempty"`
	Model string `json:"model,omitempty"`
	// Steps are those of the plan, Firmware what it writes that may be new to the model.
	Steps    []string  `json:"steps,omitempty"`
	Firmware []string  `json:"firmware,omitempty"`
	Since    time.Time `json:"since"`
	// TakesCapacity: the device is available, and will not be.
	TakesCapacity bool `json:"takes_capacity,omitempty"`
	// Granted: it has the slot already, and the workflow of the limits may not know. Canary
	// is the firmware that it is the first to get.
	Granted bool     `json:"granted,omitempty"`
	Canary  []string `json:"canary,omitempty"`
	// Group are the devices that it is cleaned together with, by a label and its value. Arrived counts the steps together
	// that it has come to, Opened those behind which all of the group may go on.
	Group   string `json:"group,omitempty"`
	Arrived int    `json:"arrived,omitempty"`
	Opened  int    `json:"opened,omitempty"`
}

// SlotReport says what became of a clean that has a slot, or waits for one.
type SlotReport struct {
	Device string `json:"device"`
	Clean  string `json:"clean"`
	// Done are the steps that succeeded, in their order. Failed is the step that failed
	// after them, with its fault.
	Done   []string    `json:"done,omitempty"`
	Failed string      `json:"failed,omitempty"`
	Fault  device.Code `json:"fault,omitempty"`
	// Arrived is that of SlotRequest; 0: as it was.
	Arrived int `json:"arrived,omitempty"`
	// Over: the slot is given back, or no longer wanted. Withdrawn: the device was taken out of
	// the offer.
	Over      bool `json:"over,omitempty"`
	Withdrawn bool `json:"withdrawn,omitempty"`
}

// SlotAnswer is what the limits answer a device, in a Hint of the signal observed.
type SlotAnswer struct {
	Clean   string `json:"clean,omitempty"`
	Granted bool   `json:"granted,omitempty"`
	// Canary is the firmware that this device is the first of its model to get.
	Canary []string `json:"canary,omitempty"`
	// Why is what it waits for. Stalled: nothing has moved for long, and it is the first in
	// line.
	Why     *device.Fault `json:"why,omitempty"`
	Stalled bool          `json:"stalled,omitempty"`
	// Hold are the steps that a clean with a slot must not begin.
	Hold []string `json:"hold,omitempty"`
	// Opened is that of SlotRequest. Missing names who of the group is not there yet.
	Opened  int           `json:"opened,omitempty"`
	Missing *device.Fault `json:"missing,omitempty"`
	// Resumed is the request of an operator that ended what the device waited for.
	Resumed *Act `json:"resumed,omitempty"`
	// Again: the workflow of the limits was lost, and the device asks once more.
	Again bool `json:"again,omitempty"`
}

// CleanSlot is a clean's slot. Clean is that of its SlotRequest.
type CleanSlot struct {
	Clean   string   `json:"clean"`
	Granted bool     `json:"granted,omitempty"`
	Canary  []string `json:"canary,omitempty"`
	Hold    []string `json:"hold,omitempty"`
	// Why is what it waits for, or the cause of Hold.
	Why *device.Fault `json:"why,omitempty"`
	// Group, Arrived and Opened are those of SlotRequest.
	Group   string `json:"group,omitempty"`
	Arrived int    `json:"arrived,omitempty"`
	Opened  int    `json:"opened,omitempty"`
	// Failed is the step that failed, Fault how. An abort and an unreachable host are none.
	Failed string      `json:"failed,omitempty"`
	Fault  device.Code `json:"fault,omitempty"`
}

// LimitsState survives continue-as-new. Add fields, never rename one.
type LimitsState struct {
	Schema int `json:"schema"`
	LimitsChange
	// Slots are the requests, those with a slot and those that wait, in the order of their
	// arrival. Packed is the same in a continue-as-new, compressed.
	Slots  []Slot `json:"slots,omitempty"`
	Packed []byte `json:"packed,omitempty"`
	// Breakers are the failures in a row of a step on a model.
	Breakers []Breaker `json:"breakers,omitempty"`
	// Verified is the firmware that this fleet has verified, by model, the latest last.
	Verified []VerifiedFirmware `json:"verified,omitempty"`
	// Withdrawn are devices that were taken out of the offer lately: a listing may still show
	// them as available.
	Withdrawn []string `json:"withdrawn,omitempty"`
	// MayTake is how many more devices may be taken out of the offer by the last count, Free
	// and Floor are of that count, which was made at CountedAt.
	MayTake   int       `json:"may_take,omitempty"`
	Free      int       `json:"free,omitempty"`
	Floor     int       `json:"floor,omitempty"`
	CountedAt time.Time `json:"counted_at,omitzero"`
	// MovedAt is when a request last got a slot or gave one back. OpensAt is when the first
	// slot is given: after a loss, devices that have slots say so first.
	MovedAt time.Time `json:"moved_at,omitzero"`
	OpensAt time.Time `json:"opens_at,omitzero"`
	// CheckAt is when the holders of slots are checked if nothing moves until then. Checks
	// counts the checks since something moved.
	CheckAt time.Time `json:"check_at,omitzero"`
	Checks  int       `json:"checks,omitempty"`
	// CountAt is when free devices are counted next, Counts the counts without a change.
	CountAt time.Time `json:"count_at,omitzero"`
	Counts  int       `json:"counts,omitempty"`
	// GroupsAt is when the devices of the groups that wait are found next, Looks how often they were since one arrived.
	GroupsAt time.Time `json:"groups_at,omitzero"`
	Looks    int       `json:"looks,omitempty"`
	// Stalled: requests wait, and nothing has moved for TellAfter.
	Stalled bool `json:"stalled,omitempty"`
	// Published is the fault in the search attributes.
	Published device.Code `json:"published,omitempty"`
	// Found: the devices that are being cleaned were asked once more.
	Found bool `json:"found,omitempty"`
}

// Slot is a request, with the last answer to its device.
type Slot struct {
	SlotRequest
	Answered bool   `json:"answered,omitempty"`
	Place    int    `json:"place,omitempty"`
	Cause    string `json:"cause,omitempty"`
	// Resumed goes to the device with the next answer.
	Resumed *Act `json:"resumed,omitempty"`
	// Missing are the first of the group that are not there yet, MissingInAll how many are not.
	Missing      []string `json:"missing,omitempty"`
	MissingInAll int      `json:"missing_in_all,omitempty"`
}

// Breaker counts the failures in a row of one step on one model.
type Breaker struct {
	Model    string `json:"model"`
	Step     string `json:"step"`
	Failures int    `json:"failures"`
	Device   string `json:"device,omitempty"` // the last one
	// Groups are those of which a device failed: each counts as one.
	Groups []string    `json:"groups,omitempty"`
	Fault  device.Code `json:"fault,omitempty"`
	// Open: the other cleans of the model with this step wait, since At.
	Open bool      `json:"open,omitempty"`
	At   time.Time `json:"at,omitzero"`
	// Canary is the firmware that failed on the first device that got it.
	Canary string `json:"canary,omitempty"`
}

// VerifiedFirmware is firmware that a device of the model ran after its update.
type VerifiedFirmware struct {
	Model    string `json:"model"`
	Firmware string `json:"firmware"`
}

// Bounds of what LimitsState keeps.
const (
	KeptBreakers  = 1000
	KeptVerified  = 1000
	KeptWithdrawn = 1000
)

// ResumeInput names the breaker to close.
type ResumeInput struct {
	Model  string `json:"model"`
	Step   string `json:"step"`
	Reason string `json:"reason,omitempty"`
	Caller `api:"-"`
}

// ResumeResult is the answer. Already: the breaker was not open. Waiting counts the devices
// that waited for it.
type ResumeResult struct {
	Already bool `json:"already,omitempty"`
	Waiting int  `json:"waiting,omitempty"`
}

// LimitsStatus is what clients read of the limits.
type LimitsStatus struct {
	Limits *device.Limits `json:"limits,omitempty"`
	// Running counts the cleans that have a slot, Queued the requests that wait.
	Running int `json:"running"`
	Queued  int `json:"queued"`
	// Waiting are the requests that wait, in their order, KeptQueue of them at most.
	Waiting []SlotWait `json:"waiting,omitempty"`
	// Alarms are what needs the operator.
	Alarms []LimitsAlarm `json:"alarms,omitempty"`
}

// KeptQueue bounds the requests that a LimitsStatus lists.
const KeptQueue = 5000

// SlotWait is a request that waits.
type SlotWait struct {
	Device string    `json:"device"`
	Place  int       `json:"place"`
	Since  time.Time `json:"since"`
	device.Fault
}

// WaitForSlot reports whether some of the devices wait for a slot. name is the one that waits,
// "" if there are several.
func WaitForSlot(all []DeviceStatus) (name string, waits bool) {
	for _, v := range all {
		if !v.waitsForSlot() {
			continue
		}
		if waits {
			return "", true
		}
		name, waits = v.Name, true
	}
	return name, waits
}

func (v DeviceStatus) waitsForSlot() bool { return v.Waiting != nil && v.Waiting.For == WaitSlot }

// ShowPlaces puts into statuses what the limits know better than the devices: each place in
// line as it is now.
func (s LimitsStatus) ShowPlaces(all []DeviceStatus) {
	places := map[string]SlotWait{}
	for _, w := range s.Waiting {
		places[w.Device] = w
	}
	for i := range all {
		v := &all[i]
		w, ok := places[v.Name]
		if !ok || !v.waitsForSlot() {
			continue
		}
		wait := *v.Waiting
		if v.LastError == wait.Message {
			v.LastError = w.Message
		}
		wait.Code, wait.Message, wait.Place = w.Code, w.Message, w.Place
		v.Waiting, v.Remedy = &wait, w.Remedy
	}
}

// LimitsAlarm is one cause for which the limits need the operator.
type LimitsAlarm struct {
	device.Fault
	Waiting int `json:"waiting"` // requests that wait because of it
}

// FindCleansResult counts the devices that were asked.
type FindCleansResult struct {
	Asked int `json:"asked"`
}

// HoldersInput names devices that have a slot for a clean, and those that may be taken out
// of the offer.
type HoldersInput struct {
	Cleaned []string `json:"cleaned,omitempty"`
	Taking  []string `json:"taking,omitempty"`
}

// HoldersResult names those that are not being cleaned, or are no longer in the offer.
type HoldersResult struct {
	Lost []string `json:"lost,omitempty"`
}

// CountFreeInput names devices that are being taken out of the offer, and were.
type CountFreeInput struct {
	Taking    []string `json:"taking,omitempty"`
	Withdrawn []string `json:"withdrawn,omitempty"`
}

// FindGroupsInput names groups, each by a label and its value.
type FindGroupsInput struct {
	Groups []string `json:"groups"`
}

// FindGroupsResult are the devices of each group that are not retired, as they are listed.
type FindGroupsResult struct {
	Devices map[string][]string `json:"devices"`
}

// CountFreeResult counts the devices in service, and those that a tenant can get without
// Taking and Withdrawn. Settled are those of Withdrawn whose state the listing shows.
type CountFreeResult struct {
	InService int      `json:"in_service"`
	Free      int      `json:"free"`
	Settled   []string `json:"settled,omitempty"`
}
