package redfishsim

import (
	"time"

	"burnish/internal/testkit/simserver"
)

// Personality is the vendor whose BMC is simulated.
type Personality string

// The personalities.
const (
	IDRAC      Personality = "idrac"
	ILO        Personality = "ilo"
	Supermicro Personality = "supermicro"
	OpenBMC    Personality = "openbmc"
	XCC        Personality = "xcc"
)

// Personalities are all of them.
var Personalities = []Personality{IDRAC, ILO, Supermicro, OpenBMC, XCC}

// Option changes how the BMC behaves, and what the server is, before it starts.
type Option func(*Config, *State)

// Form is how the BMC answers a request that it carries out later.
type Form string

// The forms of such an answer.
const (
	LocationOnly Form = "location"          // 202, no body
	Both         Form = "both"              // 202, both
	Absolute     Form = "absolute"          // 202, Location with scheme and host, and the body
	NoTask       Form = "no task"           // 204
	NoTaskOK     Form = "no task, 200"      // 200 and a message
	MonitorBoth  Form = "monitor, and body" // 202, Location is the monitor, the body the task
)

// Ending is how a task of one kind ends.
type Ending string

// The endings of a task. All but Succeeds and Lies leave the server as it was.
const (
	Succeeds          Ending = ""
	CompletedCritical Ending = "completed critical" // TaskState Completed, TaskStatus Critical, 100 %
	CompletedMessage  Ending = "critical message"   // Completed and OK, with a critical message
	Exception         Ending = "exception"
	Canceled          Ending = "canceled"
	Lies              Ending = "lies"   // Completed and OK, and nothing was done
	Stalls            Ending = "stalls" // never gets beyond half of it
)

// The kinds of what takes time.
const (
	KindErase    = "erase"
	KindFirmware = "firmware"
	KindBIOS     = "bios"
)

// Delays are how long things take.
type Delays struct {
	PowerOn    time.Duration // Off to On
	PowerOff   time.Duration // On to Off
	Shutdown   time.Duration // by the operating system
	POST       time.Duration // from On to its end
	Write      time.Duration // of a component's firmware
	Verify     time.Duration // of an image, before it is staged or written
	Erase      time.Duration // of one drive
	BMCRestart time.Duration
	WarmUp     time.Duration // after a restart: 503 for all but the service root
	Stale      time.Duration // after a reset the BMC still shows the end of the POST before
	Settle     time.Duration // a BIOS job goes on for this long after POST has ended
	Forget     time.Duration // a finished task's monitor answers for this long, then 404
	Defaults   time.Duration // from the answer to a reset of the BMC to its defaults; 0: that cuts the answer off
}

// Config is how the BMC behaves. New fills it in for the personality; options change it. What no
// option changes is asked of the personality where it matters.
type Config struct {
	Personality        Personality
	Username, Password string
	Delays             Delays

	// Where things are.
	SystemID, ChassisID string
	BIOSSettings        string // the last part of the settings' path
	TrailingSlash       bool   // each path ends in one: 308 without it

	Dialect Dialect
	OddETag string // "header" or "body": the tag there is never the right one

	// Sessions.
	SessionsPath         string
	MaxSessions          int
	LoginWithoutLocation bool
	SessionsSurvive      bool // a restart of the BMC that is no update

	// Tasks.
	TaskForm  Form              // but for drives and updates, which have their own
	JobIDs    bool              // tasks are JID_…, and each is a job too
	ClockSkew time.Duration     // of the BMC's clock, and so of all its times
	Endings   map[string]Ending // by kind

	// BIOS.
	RefusedAttribute string // it is refused with RefusedStatus, and messages at the property
	RefusedStatus    int
	RepeatMakesNoJob bool // a PATCH of what is pending already stays without a job
	NoRegistry       bool
	NoBootProgress   bool
	NoLastResetTime  bool
	NoneBootProgress bool // BootProgress is there, and always None
	EarlyDiscovery   bool // iLO: InPostDiscoveryComplete is shown before what is pending holds
	ResetBIOSStatus  int
	BIOSNeverApplies bool // a reset changes nothing, and nothing says so
	RequireIfMatch   bool // 428
	WeakETags        bool // W/"…" never matches: 412
	TPMPresence      bool // a clear of the TPM waits at the console for somebody who agrees

	// Defaults are the kinds of Manager.ResetToDefaults. OlderDefaults: the parameter is ResetToDefaultsType.
	// NeverBack: the BMC does not come back from one. AnotherCertificate is the one that it makes for itself.
	Defaults           []string
	OlderDefaults      bool
	NeverBack          bool
	AnotherCertificate simserver.Shown

	// Ignores are what the BMC says yes to and does not do: accounts, keys, subscriptions, media, protocols,
	// host_interfaces, kcs, lockdown, boot, secure_boot, tpm, defaults.
	Ignores []string

	// Drives.
	EraseForm   Form // NoTask: progress is in Drive.Operations
	EraseStaged bool // scheduled until the next reset

	// Firmware.
	MultipartPath       string
	NeedsStartUpdate    bool
	OperationApplyTimes []string
	UpdateForm          Form
	BIOSStaged          bool // until the next reset
	SelfReset           bool // the BMC resets the server without being asked

	// Power.
	ResetTypes     []string
	PowerConflict  int // On when on, Off when off
	IgnoreGraceful bool
	RestartKeepsOn bool // PowerState stays On over a restart
	Unlicensed     bool // 403 on BIOS and update
	SecondSystem   bool // the BMC serves another system, with a BIOS of its own
}

func defaults(p Personality) Config {
	c := Config{
		Personality: p, Username: "root", Password: "calvin-is-changed",
		Delays: Delays{
			PowerOn: 10 * time.Millisecond, PowerOff: 10 * time.Millisecond, Shutdown: 20 * time.Millisecond,
			POST: 40 * time.Millisecond, Write: 40 * time.Millisecond, Verify: 10 * time.Millisecond,
			Erase: 40 * time.Millisecond, BMCRestart: 30 * time.Millisecond, WarmUp: 10 * time.Millisecond,
			Stale: 2 * time.Millisecond, Settle: 10 * time.Millisecond,
			Forget: 300 * time.Millisecond,
		},
		SystemID: "1", ChassisID: "1", BIOSSettings: "Settings",
		SessionsPath: "/redfish/v1/SessionService/Sessions", MaxSessions: 16, TaskForm: Both,
		Endings:         map[string]Ending{},
		ResetBIOSStatus: 200, EraseForm: Both, UpdateForm: Both,
		ResetTypes: []string{"On", "ForceOff", "GracefulShutdown", "GracefulRestart", "ForceRestart", "Nmi",
			"PushPowerButton", "PowerCycle"},
		PowerConflict:  409,
		RestartKeepsOn: true,
		Defaults:       []string{"ResetAll"},
	}
	switch p {
	case IDRAC:
		c.SystemID, c.ChassisID = "System.Embedded.1", "System.Embedded.1"
		c.MaxSessions, c.SessionsSurvive = 8, true
		c.TaskForm, c.EraseForm, c.UpdateForm = LocationOnly, LocationOnly, LocationOnly
		c.JobIDs = true
		c.Defaults = []string{"ResetAll", keepsUsers, keepsNetwork}
		c.Delays.Defaults = 5 * time.Millisecond
		c.MultipartPath, c.BIOSStaged = updateService+"/MultipartUpload", true
		c.OperationApplyTimes = []string{"Immediate", "OnReset"}
	case ILO:
		c.TrailingSlash = true
		c.TaskForm, c.EraseForm, c.UpdateForm = Absolute, NoTask, NoTaskOK
		c.NoBootProgress, c.NoLastResetTime = true, true // Oem.Hpe.PostState instead
		c.MultipartPath, c.BIOSStaged = updateService+"/upload", true
		c.PowerConflict = 400
	case Supermicro:
		c.BIOSSettings = "SD"
		c.MultipartPath, c.NeedsStartUpdate = updateService+"/upload", true
		c.OperationApplyTimes = []string{"Immediate", "OnStartUpdateRequest"}
		c.WeakETags = true
		c.ClockSkew = -97 * time.Minute
		c.ResetTypes = append(c.ResetTypes[:6:6], "ForceOn")
	case OpenBMC:
		c.SystemID, c.ChassisID = "system", "chassis"
		c.TaskForm, c.EraseForm, c.UpdateForm = MonitorBoth, MonitorBoth, MonitorBoth
		c.NoRegistry = true
		c.ResetBIOSStatus = 204
		c.MultipartPath = updateService + "/update-multipart"
		c.OperationApplyTimes = []string{"OnReset", "Immediate"}
		c.ResetTypes = append(c.ResetTypes, "ForceOn")
		c.RestartKeepsOn = false
		c.MaxSessions = 64
	case XCC:
		c.BIOSSettings = "Pending"
		c.Defaults = []string{"ResetAll", keepsUsers, keepsNetwork}
		c.MultipartPath = "/mfwupdate"
		c.OperationApplyTimes = []string{"Immediate", "OnReset"}
	}
	return c
}

// Fault, FaultKind and Request are those of all simulators.
type (
	Fault     = simserver.Fault
	FaultKind = simserver.FaultKind
	Request   = simserver.Request
	Counts    = simserver.Counts
)

// The kinds of faults. CutWithin is in the middle of the request's body.
const (
	CutBefore     = simserver.CutBefore
	CutAfter      = simserver.CutAfter
	CutWithin     = simserver.CutUpload
	RestartBefore = simserver.RestartBefore
	RestartAfter  = simserver.RestartAfter
	ExitBefore    = simserver.ExitBefore
	ExitAfter     = simserver.ExitAfter
	HangBefore    = simserver.HangBefore
	HangAfter     = simserver.HangAfter
	SlowAfter     = simserver.SlowAfter
	HoldAfter     = simserver.HoldAfter
	Respond       = simserver.Respond
	RespondAfter  = simserver.RespondAfter
)

// respond is f with an answer without an effect.
func respond(f Fault, a answer) Fault {
	f.Kind, f.Status, f.Header, f.Body = Respond, a.Status, a.Header, string(simserver.Encode(a.Body))
	return f
}

// Unavailable is a fault's answer 503, Unauthorized 401.
func Unavailable(f Fault) Fault { return respond(f, unavailable()) }

// Unauthorized is a fault whose answer is 401.
func Unauthorized(f Fault) Fault { return respond(f, unauthorized()) }

// Redirect is a fault whose answer leads elsewhere, with that status: 301, 302, 307, 308.
func Redirect(f Fault, status int, to string) Fault {
	return respond(f, answer{Status: status, Header: map[string]string{"Location": to}})
}
