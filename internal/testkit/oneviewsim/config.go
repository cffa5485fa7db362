package oneviewsim

import (
	"time"

	"burnish/internal/testkit/simserver"
)

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
	PowerOn  time.Duration
	PowerOff time.Duration
	Shutdown time.Duration // by the operating system
}

// User may log in. The first one is Burnish's.
type User struct{ Name, Password string }

// Config is how the appliance behaves. Options change it.
type Config struct {
	Users  []User
	Domain string // in which users log in, in any case

	CurrentVersion, MinimumVersion int

	TaskForm Form
	// IgnoreShutdown: the operating system ignores MomentaryPress.
	IgnoreShutdown bool
	// TakenStayOff: a server that other users take is not switched on by them.
	TakenStayOff bool

	Delays Delays
}

func defaults() Config {
	return Config{
		Users: []User{
			{Name: "burnish", Password: "burnish-is-changed"}, {Name: otherUser, Password: "others-are-changed"},
		},
		Domain: "LOCAL", CurrentVersion: 6200, MinimumVersion: 120, TaskForm: LocationOnly,
		Delays: Delays{
			Accept: 2 * time.Millisecond, Apply: 20 * time.Millisecond, Remove: 10 * time.Millisecond,
			PowerOn: 5 * time.Millisecond, PowerOff: 5 * time.Millisecond, Shutdown: 10 * time.Millisecond,
		},
	}
}

const (
	// otherUser takes and frees servers in Appliance.Take and Appliance.Free.
	otherUser = "other-tenant"
	// foreignHost is the Location's of the fault OtherHost.
	foreignHost = "https://127.0.0.2:9"
	// maxPage is how many members a page has at most, defaultPage without count.
	maxPage, defaultPage = 100, 25
)

// Fault, FaultKind and TaskFault are those of all simulators.
type (
	Fault     = simserver.Fault
	FaultKind = simserver.FaultKind
	TaskFault = simserver.TaskFault
	Effect    = simserver.Effect
	Request   = simserver.Request
	Counts    = simserver.Counts
)

// The kinds of faults.
const (
	CutBefore    = simserver.CutBefore
	CutAfter     = simserver.CutAfter
	CutWithin    = simserver.CutWithin
	Garbled      = simserver.Garbled
	HangBefore   = simserver.HangBefore
	HangAfter    = simserver.HangAfter
	ExitBefore   = simserver.ExitBefore
	ExitAfter    = simserver.ExitAfter
	SlowBefore   = simserver.SlowBefore
	SlowAfter    = simserver.SlowAfter
	HoldAfter    = simserver.HoldAfter
	Respond      = simserver.Respond
	RespondAfter = simserver.RespondAfter
	ForTask      = simserver.ForTask
	OtherHost    = simserver.OtherHost
	TakeBefore   = simserver.TakeBefore
	TakeAfter    = simserver.TakeAfter
	FreeBefore   = simserver.FreeBefore
	FreeAfter    = simserver.FreeAfter
)

// respond is f with an answer without an effect.
func respond(f Fault, a answer) Fault {
	f.Kind, f.Status, f.Body = Respond, a.Status, string(simserver.Encode(a.Body))
	return f
}

// Unauthorized is a fault whose answer is 401, Conflict 409, Mismatch 412, Unavailable 503.
func Unauthorized(f Fault) Fault { return respond(f, unauthorized()) }

// Conflict is a fault whose answer is 409.
func Conflict(f Fault) Fault {
	return respond(f, conflict("RESOURCE_LOCKED", "The resource is locked in a transitory state.", ""))
}

// Mismatch is a fault whose answer is 412.
func Mismatch(f Fault) Fault { return respond(f, mismatch()) }

// Unavailable is a fault whose answer is 503.
func Unavailable(f Fault) Fault {
	f = respond(f, refuse(503, problem("SERVICE_UNAVAILABLE", "The appliance is temporarily unavailable.", "")))
	f.Header = map[string]string{"Retry-After": "1"}
	return f
}
