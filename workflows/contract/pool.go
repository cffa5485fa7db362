package contract

import (
	"time"

	"burnish/internal/device"
)

// Pool is the pool that a server is shared in: an appliance of OneView, whose other users
// take servers too (S4). The applied server profile says who has the server.
type Pool struct {
	// Appliance is its name in the control worker's oneview.yaml.
	Appliance string `json:"appliance"`
	// Hardware and Template are URIs on the appliance: /rest/server-hardware/… and
	// /rest/server-profile-templates/….
	Hardware string `json:"server_hardware_uri"`
	Template string `json:"server_profile_template_uri"`
	// Dynamic: Burnish has a profile on the server only while it uses it. Without it the
	// device is pre-allocated, and no poll touches it (S4.36).
	Dynamic bool `json:"dynamic_allocation"`
}

// PoolState is what a device's workflow knows of its pool.
type PoolState struct {
	// Profile is the URI of the profile that Burnish has applied; "" if it has none.
	Profile string `json:"applied_server_profile_uri,omitempty"`
	// Applying: a profile was requested whose URI is not recorded yet, or may have been by a
	// lost history. One that has the device's UUID as its name is Burnish's.
	Applying bool `json:"applying,omitempty"`
	// Tag is the appliance's of the server when the device was returned: with another one,
	// others may have used the server and left it between two polls.
	Tag string `json:"tag,omitempty"`
	// Migrating: it became dynamic, and left the pool until its idle profile is removed (S4.35).
	Migrating bool `json:"migrating,omitempty"`
	// Abandoned: it was retired as lost, and its profile could not be removed. It may be
	// forgotten nevertheless.
	Abandoned bool `json:"abandoned,omitempty"`
}

// ChangedBy says that the server was returned with another tag than this one. An unknown tag
// says nothing.
func (s PoolState) ChangedBy(tag string) bool { return s.Tag != "" && tag != "" && tag != s.Tag }

// StatusPool is the pool of a device as clients see it.
type StatusPool struct {
	Pool
	PoolState
	// LostRace: other users took the server while Burnish was about to use it (S4.12, S4.13).
	LostRace bool `json:"lost_race,omitempty"`
	// Taken: the device is in maintenance because other users have its server (S4.8), and for
	// no other reason. Only such a maintenance is ended when they free it (S4.10).
	Taken bool `json:"taken,omitempty"`
}

// PoolRequest is the input of ReadPool, ApplyProfile and RemoveProfile.
type PoolRequest struct {
	Name string `json:"name"`
	// UUID is the device's, and the name of its profile. Serial is the one that its host saw:
	// a server with another one is refused.
	UUID   string    `json:"uuid"`
	Serial string    `json:"serial"`
	Pool   Pool      `json:"pool"`
	State  PoolState `json:"state"`
}

// PoolSnapshot is who has a server, by its appliance.
type PoolSnapshot struct {
	Ownership device.Ownership `json:"ownership"`
	// Profile is the URI of the profile on the server; "" if there is none.
	Profile string `json:"profile,omitempty"`
	// Power is On or Off.
	Power string `json:"power,omitempty"`
	// Tag changes whenever the appliance changes the server; "" where it is not compared.
	Tag string `json:"tag,omitempty"`
}

// The pool's activities, of the control worker.
const (
	ActivityReadPool      = "ReadPool"
	ActivityApplyProfile  = "ApplyProfile"
	ActivityRemoveProfile = "RemoveProfile"
	// ActivityPollPage compares one page of an appliance's servers with the devices.
	ActivityPollPage = "PollPage"
)

// SignalTaken and SignalFreed are hints of the polls. The device asks the appliance itself.
const (
	SignalTaken = "taken"
	SignalFreed = "freed"
)

// UpdateMigratePool makes a pre-allocated device dynamic (S4.34). Only devices of a pool
// have it.
const UpdateMigratePool = "migrate_pool"

// WorkflowOneView is the workflow type of an appliance.
const WorkflowOneView = "OneViewPoll"

// OneViewWorkflowID is the workflow ID of an appliance.
func OneViewWorkflowID(appliance string) string { return "oneview/" + appliance }

// SignalLookNow asks for a round now. QueryOneView answers with an OneViewState.
const (
	SignalLookNow = "look_now"
	QueryOneView  = "oneview"
)

// LookRequest is the input of look_now, which needs none. Interval, if set, is the pause
// between two rounds from now on; 0 turns the polls off (S4.15), and asks for no round.
type LookRequest struct {
	Source   string         `json:"source,omitempty"`
	Interval *time.Duration `json:"interval,omitempty"`
	// TellAfter, if set, is from now on how long rounds may fail until the operator is needed.
	TellAfter time.Duration `json:"tell_after,omitempty"`
}

// OneViewInput starts the workflow of an appliance.
type OneViewInput struct {
	Appliance string        `json:"appliance"`
	Interval  time.Duration `json:"interval"`
	TellAfter time.Duration `json:"tell_after,omitempty"`
	State     *OneViewState `json:"state,omitempty"`
}

// OneViewState survives continue-as-new. Add fields, never rename one.
type OneViewState struct {
	Schema    int           `json:"schema"`
	Appliance string        `json:"appliance"`
	Interval  time.Duration `json:"interval"`
	TellAfter time.Duration `json:"tell_after,omitempty"`
	Next      time.Time     `json:"next,omitzero"`
	Requested bool          `json:"requested,omitempty"`
	// Round is the round under way; nil if there is none.
	Round *PollRound `json:"round,omitempty"`
	// Last is the last round in which every page was read, LastGood when it ended; Rounds
	// counts all rounds that ended.
	Last     PollCounts `json:"last"`
	LastGood time.Time  `json:"last_good,omitzero"`
	Rounds   int        `json:"rounds,omitempty"`
	// Fault is why the last round was not complete; Unread counts its pages that were not
	// read.
	Fault  *device.Fault `json:"fault,omitempty"`
	Unread int           `json:"unread,omitempty"`
	// Problems are devices that could not be compared or reached, KeptMismatches of them at
	// most.
	Problems []Mismatch `json:"problems,omitempty"`
	// Failing is when the first round began that was not complete, since the last good one.
	// NeedsOperator: that was longer than TellAfter ago.
	Failing       time.Time `json:"failing,omitzero"`
	NeedsOperator bool      `json:"needs_operator,omitempty"`
	// Published is the fault in the search attributes.
	Published device.Code `json:"published,omitempty"`
}

// PollRound is one round of the polls: the next page begins at server Start of Total.
type PollRound struct {
	Start     int        `json:"start"`
	Total     int        `json:"total,omitempty"`
	StartedAt time.Time  `json:"started_at"`
	Counts    PollCounts `json:"counts"`
	Unread    int        `json:"unread,omitempty"`
	// PageSize is how many servers the last page had that was not the last one. Failed
	// counts the pages in a row that were not read, Fault is why the first one was not.
	PageSize int           `json:"page_size,omitempty"`
	Failed   int           `json:"failed,omitempty"`
	Fault    *device.Fault `json:"fault,omitempty"`
	Problems []Mismatch    `json:"problems,omitempty"`
}

// PollPageInput asks for Count servers from Start on; 0 is the appliance's page size.
type PollPageInput struct {
	Appliance string `json:"appliance"`
	Start     int    `json:"start"`
	Count     int    `json:"count,omitempty"`
}

// PollPageResult is the result of one page.
type PollPageResult struct {
	// Next is where the next page begins; 0 after the last one. Total is the appliance's count.
	Next     int        `json:"next"`
	Total    int        `json:"total"`
	Counts   PollCounts `json:"counts"`
	Problems []Mismatch `json:"problems,omitempty"`
}

// PollCounts are what a page, or a round, found.
type PollCounts struct {
	// Servers were read; Devices of them are enrolled and dynamic.
	Servers int `json:"servers"`
	Devices int `json:"devices"`
	// Taken, Freed and TakenOnCleanFail count the devices that were signaled, by poll.
	Taken            int `json:"taken"`
	Freed            int `json:"freed"`
	TakenOnCleanFail int `json:"taken_on_clean_fail"`
	// Failed counts the devices that could not be compared or signaled.
	Failed int `json:"failed"`
}
