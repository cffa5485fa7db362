package contract

import (
	"regexp"
	"strings"
	"time"

	"burnish/internal/device"
)

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

// Updates of an appliance's workflow. Neither changes anything.
const (
	// UpdateReadPool asks who has a server; its input is a PoolRequest, its answer a
	// PoolSnapshot.
	UpdateReadPool = "read_pool"
	// UpdateServers asks which servers are not enrolled; its input is a ServersInput, its
	// answer Servers.
	UpdateServers = "servers"
)

// The activities of an appliance's workflow, of the control worker.
const (
	// ActivityPollPage compares one page of an appliance's servers with the devices.
	ActivityPollPage = "PollPage"
	// ActivityFindServers reads servers that are not enrolled.
	ActivityFindServers = "FindServers"
)

// ServersInput asks for servers of an appliance, from server Start on, that match every
// filter. The answer ends after the page in which it has Limit servers or more.
type ServersInput struct {
	Appliance string            `json:"appliance"`
	Start     int               `json:"start,omitempty"`
	Limit     int               `json:"limit"`
	Filter    map[string]string `json:"filter,omitempty"`
}

// Servers is the answer. Enrolled counts the servers that match and are enrolled already.
// Next is where the next question begins; 0 after the last server.
type Servers struct {
	Servers  []PoolServer `json:"servers"`
	Enrolled int          `json:"enrolled,omitempty"`
	Next     int          `json:"next,omitempty"`
}

// PoolServer is a server of an appliance that is not enrolled.
type PoolServer struct {
	Hardware string `json:"server_hardware_uri"`
	Name     string `json:"name"`
	Serial   string `json:"serial"`
	UUID     string `json:"uuid,omitempty"`
	Model    string `json:"model,omitempty"`
	Type     string `json:"type,omitempty"`
	Group    string `json:"group,omitempty"`
	// Profile is the URI of the profile on it; "" if there is none.
	Profile string `json:"profile,omitempty"`
}

// ServerFilters are the keys of ServersInput.Filter.
func ServerFilters() []string { return []string{"name", "serial", "model", "type", "group"} }

// Matches says whether the server matches every filter: * stands for any text, ? for one
// character, and case is ignored. A server that does not have a field does not match it.
func (s PoolServer) Matches(filter map[string]string) bool {
	fields := map[string]string{"name": s.Name, "serial": s.Serial, "model": s.Model, "type": s.Type, "group": s.Group}
	for key, pattern := range filter {
		form := strings.NewReplacer(`\*`, ".*", `\?`, ".").Replace(regexp.QuoteMeta(pattern))
		if value, known := fields[key]; !known || !regexp.MustCompile("(?is)^(?:"+form+")$").MatchString(value) {
			return false
		}
	}
	return true
}
