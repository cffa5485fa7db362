package oneviewsim

import (
	"fmt"
	"time"
)

// The power states of a server.
const (
	On          = "On"
	Off         = "Off"
	poweringOn  = "PoweringOn"
	poweringOff = "PoweringOff"
	unknown     = "Unknown"
)

// The states of server hardware that a simulated appliance shows by itself. Others are shown
// where a test sets them.
const (
	NoProfileApplied = "NoProfileApplied"
	applyingProfile  = "ApplyingProfile"
	ProfileApplied   = "ProfileApplied"
	removingProfile  = "RemovingProfile"
	ProfileError     = "ProfileError"
)

// The states of a profile.
const (
	creating     = "Creating"
	createFailed = "CreateFailed"
	Normal       = "Normal"
	deleting     = "Deleting"
	deleteFailed = "DeleteFailed"
)

// The collections.
const (
	hardwarePath = "/rest/server-hardware"
	profilesPath = "/rest/server-profiles"
	tasksPath    = "/rest/tasks"
	sessionsPath = "/rest/login-sessions"
)

// TemplateURI is the one server profile template of a simulated appliance.
const TemplateURI = "/rest/server-profile-templates/1a2b3c4d-0000-4000-8000-000000000001"

// State is what the appliance manages and remembers.
type State struct {
	Hardware []*Hardware
	Profiles []*Profile
	Tasks    []*Task
	Sessions []*Session
	Acts     []Act
	Missed   []string // what other users could not do
	Next     int      // the number of the next profile, task or session
}

// Hardware is a server.
type Hardware struct {
	UUID, Name, Serial, Model string
	Power                     string
	PowerLock                 bool
	Profile                   string // URI; empty: free
	Type, Group               string // URIs
	State                     string
	Status                    string
	Version                   int // its eTag
	Modified                  time.Time
}

// URI is the server's.
func (h *Hardware) URI() string { return hardwarePath + "/" + h.UUID }

// Profile is a server profile.
type Profile struct {
	ID, Name, Description string
	Owner                 string // the user who created it
	Hardware              string // URI; empty: it is not assigned
	Template              string // URI; empty: none
	Type, Group           string
	State, Status         string // Creating, Normal, CreateFailed, …
	Task                  string // URI of the last one
	Created, Modified     time.Time
	Version               int // its eTag
}

// URI is the profile's.
func (p *Profile) URI() string { return profilesPath + "/" + p.ID }

func (p *Profile) busy() bool { return p.State == creating || p.State == deleting }

// Session is an open session.
type Session struct {
	Number      int
	Token, User string
}

// Act is something that a user did to a profile or to a server's power: what was asked of the
// appliance and accepted, not how it ended.
type Act struct {
	Request int // its number in the log
	User    string
	Kind    ActKind
	Server  string // URI
	Profile string // URI; of power, and of Created: the one on the server
	Owner   string // the user who created the profile; empty: there is none
	Power   string // of the server, before
}

// ActKind is what was done.
type ActKind string

// The kinds of acts.
const (
	Created ActKind = "created the profile"
	Deleted ActKind = "deleted the profile"
	Powered ActKind = "changed the power"
)

// Servers is an appliance with n servers, named server-1 and so on, that are free and off,
// with serial numbers CZ00000001 and so on.
func Servers(n int) Option {
	return func(_ *Config, s *State) {
		s.Hardware = make([]*Hardware, 0, n)
		for i := range n {
			i++
			s.Hardware = append(s.Hardware, &Hardware{
				UUID: fmt.Sprintf("39313738-3034-5A43-%04X-%012d", i>>16, i), Name: fmt.Sprintf("server-%d", i),
				Serial: fmt.Sprintf("CZ%08d", i), Model: "ProLiant DL360 Gen10 Plus", Power: Off,
				Type:  "/rest/server-hardware-types/6F2CB7FA-6A7F-4F45-9C5C-2C9D5D0F4D11",
				Group: "/rest/enclosure-groups/293e8efe-c6b1-4783-bf88-2d35a8e49071",
				State: NoProfileApplied, Status: "OK", Version: 1,
			})
		}
	}
}

// find is the one of a list with that URI; nil: there is none.
func find[T interface {
	comparable
	URI() string
}](list []T, uri string) (none T) {
	for _, one := range list {
		if one.URI() == uri {
			return one
		}
	}
	return none
}
