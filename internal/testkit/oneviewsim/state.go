package oneviewsim

import (
	"encoding/json"
	"fmt"
	"time"
)

// The power states of a server.
const (
	On          = "On"
	Off         = "Off"
	PoweringOn  = "PoweringOn"
	PoweringOff = "PoweringOff"
	Resetting   = "Resetting"
	Unknown     = "Unknown"
)

// The states of server hardware that a simulated appliance shows by itself. Others are shown
// where a test sets them.
const (
	NoProfileApplied = "NoProfileApplied"
	ApplyingProfile  = "ApplyingProfile"
	ProfileApplied   = "ProfileApplied"
	RemovingProfile  = "RemovingProfile"
	ProfileError     = "ProfileError"
)

// The collections.
const (
	hardwarePath  = "/rest/server-hardware"
	templatesPath = "/rest/server-profile-templates"
	profilesPath  = "/rest/server-profiles"
	tasksPath     = "/rest/tasks"
	sessionsPath  = "/rest/login-sessions"
)

// State is what the appliance manages and remembers.
type State struct {
	Hardware  []*Hardware
	Templates []*Template
	Profiles  []*Profile
	Tasks     []*Task
	Sessions  []*Session
	Acts      []Act
	Next      int // the number of the next profile, task or session
}

// Hardware is a server.
type Hardware struct {
	UUID, Name, Serial, Model string
	Power                     string
	PowerLock                 bool
	MaintenanceMode           bool
	Profile                   string // URI; empty: free
	Type, Group               string // URIs
	State, StateReason        string
	Status, RefreshState      string
	Version                   int // its eTag
	Modified                  time.Time
}

// URI is the server's.
func (h *Hardware) URI() string { return hardwarePath + "/" + h.UUID }

// Template is a server profile template.
type Template struct {
	ID, Name, Description string
	Type, Group           string // of the servers it is for; empty: any
}

// URI is the template's.
func (t *Template) URI() string { return templatesPath + "/" + t.ID }

// Profile is a server profile.
type Profile struct {
	ID, Name, Description string
	Owner                 string // the user who created it
	Hardware              string // URI; empty: it is not assigned
	Template              string // URI; empty: none
	Type, Group           string
	State, Status         string // Creating, Normal, CreateFailed, Updating, …
	Task                  string // URI of the last one
	Created, Modified     time.Time
	Version               int // its eTag
}

// URI is the profile's.
func (p *Profile) URI() string { return profilesPath + "/" + p.ID }

// Session is an open session.
type Session struct {
	Number      int
	Token, User string
	Used        time.Time `json:"-"` // in memory only
}

// Act is something that a user did to a profile or to a server's power: what was asked of the
// appliance and accepted, not how it ended.
type Act struct {
	Request int // its number in the log; 0: not by a request
	At      time.Time
	User    string
	Kind    ActKind
	Server  string // URI
	Profile string // URI; of power, and of Created: the one on the server
	Name    string // of the profile
	Owner   string // the user who created the profile; empty: there is none
	Power   string // of the server, before
	Twin    string // of Doubled: URI of the other profile of that name
}

// ActKind is what was done.
type ActKind string

// The kinds of acts.
const (
	Created ActKind = "created the profile"
	Updated ActKind = "changed the profile"
	Deleted ActKind = "deleted the profile"
	Powered ActKind = "changed the power"
	// Doubled comes after Created, where the same user had a profile of that name.
	Doubled ActKind = "created a second profile of the name"
)

func (s *State) copy() (State, error) {
	var twin State
	raw, err := json.Marshal(s)
	if err == nil {
		err = json.Unmarshal(raw, &twin)
	}
	if err != nil {
		return State{}, fmt.Errorf("copy the state: %w", err)
	}
	return twin, nil
}

// Servers is an appliance with n servers, named server-1 and so on, that are free and off,
// with serial numbers CZ00000001 and so on.
func Servers(n int) Option {
	return func(_ *Config, s *State) {
		s.Hardware = make([]*Hardware, 0, n)
		for i := range n {
			s.Hardware = append(s.Hardware, newHardware(i+1))
		}
	}
}

const (
	hardwareType  = "/rest/server-hardware-types/6F2CB7FA-6A7F-4F45-9C5C-2C9D5D0F4D11"
	hardwareGroup = "/rest/enclosure-groups/293e8efe-c6b1-4783-bf88-2d35a8e49071"
	hardwareModel = "ProLiant DL360 Gen10 Plus"
)

func newHardware(n int) *Hardware {
	return &Hardware{
		UUID: fmt.Sprintf("39313738-3034-5A43-%04X-%012d", n>>16, n), Name: fmt.Sprintf("server-%d", n),
		Serial: fmt.Sprintf("CZ%08d", n), Model: hardwareModel, Power: Off, Type: hardwareType, Group: hardwareGroup,
		State: NoProfileApplied, StateReason: "NotApplicable", Status: "OK", RefreshState: "NotRefreshing", Version: 1,
	}
}

// TemplateURI is the template that every simulated appliance has.
const TemplateURI = templatesPath + "/1a2b3c4d-0000-4000-8000-000000000001"

func hardware() State {
	s := State{Templates: []*Template{{
		ID: TemplateURI[len(templatesPath)+1:], Name: "burnish", Description: "What Burnish applies", Type: hardwareType,
		Group: hardwareGroup,
	}}}
	Servers(3)(nil, &s)
	return s
}
