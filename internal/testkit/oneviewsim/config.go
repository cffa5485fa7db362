package oneviewsim

import "time"

// Option changes how the appliance behaves, and what it manages, before it starts.
type Option func(*Config, *State)

// Form is how the appliance answers a request that it carries out in a task.
type Form string

// The forms of such an answer, all of them with 202.
const (
	LocationOnly Form = "location"          // no body
	BodyOnly     Form = "body"              // the task is the body
	Both         Form = "both"              // both
	Absolute     Form = "absolute location" // with scheme and host, no body
)

// Delays are how long things take.
type Delays struct {
	Accept   time.Duration // from the answer to the request until its task begins
	Apply    time.Duration // of a profile
	Remove   time.Duration // of a profile
	Update   time.Duration // of a profile
	PowerOn  time.Duration
	PowerOff time.Duration
	Shutdown time.Duration // by the operating system
}

// User may log in. The first one is Burnish's.
type User struct{ Name, Password string }

// Link is the BMC of a server as a process of internal/testkit/cmd/redfishsim: its control
// path's URL and the certificate to trust.
type Link struct{ URL, CA string }

// Config is how the appliance behaves. Options change it.
type Config struct {
	Users  []User
	Domain string // in which users log in, in any case

	CurrentVersion, MinimumVersion int
	// VersionStatus answers a request of another version: 412 is what appliances say.
	VersionStatus int

	MaxPage     int // how many members a page has at most
	DefaultPage int // without count
	SessionIdle time.Duration
	// SessionsSurvive: a restart of the appliance ends no session.
	SessionsSurvive bool

	TaskForm Form
	// ForeignHost begins the Location of the fault OtherHost: https://elsewhere:443.
	ForeignHost string
	// RefuseAtOnce: what a profile's task would end with is answered instead of 202.
	RefuseAtOnce bool
	// NamesRepeat: two profiles may have one name. An appliance refuses the second.
	NamesRepeat bool
	// RequireIfMatch: a PUT without an ETag, in the header or the body, is 403.
	RequireIfMatch bool
	// PowerNeedsProfile: a server without a profile is not switched on. Real appliances have
	// models that allow it, and who wants every model to work does not rely on it.
	PowerNeedsProfile bool
	// IgnoreShutdown: the operating system ignores MomentaryPress.
	IgnoreShutdown bool
	// TakenStayOff: a server that other users take is not switched on by them.
	TakenStayOff bool

	Delays Delays
	Links  map[string]Link // by the server's URI, where the BMC is another process
}

func defaults() Config {
	return Config{
		Users: []User{
			{Name: "burnish", Password: "burnish-is-changed"}, {Name: otherUser, Password: "others-are-changed"},
		},
		Domain: "LOCAL", CurrentVersion: 6200, MinimumVersion: 120, VersionStatus: 412,
		MaxPage: 100, DefaultPage: 25, SessionIdle: time.Hour, TaskForm: LocationOnly,
		ForeignHost: "https://127.0.0.2:9", PowerNeedsProfile: true,
		Delays: Delays{
			Accept: 2 * time.Millisecond, Apply: 20 * time.Millisecond, Remove: 10 * time.Millisecond,
			Update:  10 * time.Millisecond,
			PowerOn: 5 * time.Millisecond, PowerOff: 5 * time.Millisecond, Shutdown: 10 * time.Millisecond,
		},
	}
}

// otherUser takes and frees servers in Appliance.Take and Appliance.Free.
const otherUser = "other-tenant"
