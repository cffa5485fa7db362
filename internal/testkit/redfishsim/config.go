package redfishsim

import (
	"time"
)

// Personality is the vendor whose BMC is simulated.
type Personality string

// The personalities.
const (
	IDRAC      Personality = "idrac"
	ILO        Personality = "ilo"
	Supermicro Personality = "supermicro"
	OpenBMC    Personality = "openbmc"
)

// Personalities are all of them.
var Personalities = []Personality{IDRAC, ILO, Supermicro, OpenBMC}

// Option changes how the BMC behaves, and what the server is, before it starts.
type Option func(*Config, *State)

// Form is how the BMC answers a request that it carries out later.
type Form string

// The forms of such an answer.
const (
	LocationOnly Form = "location"          // 202, no body
	BodyOnly     Form = "body"              // 202, the task is the body
	Both         Form = "both"              // 202, both
	Absolute     Form = "absolute"          // 202, Location with scheme and host, and the body
	OtherHost    Form = "other host"        // 202, Location on the host Config.ForeignHost
	NoTask       Form = "no task"           // 204
	NoTaskOK     Form = "no task, 200"      // 200 and a message
	MonitorOnly  Form = "monitor, no body"  // 202, Location is the task monitor
	MonitorBoth  Form = "monitor, and body" // 202, Location is the monitor, the body the task
)

// Expand is what comes of a query with $expand that is not carried out.
type Expand string

// What comes of it.
const (
	ExpandRefused    Expand = "400"
	ExpandErrorFirst Expand = "error first" // an error object, then the document as it is without the query
	ExpandIgnored    Expand = "ignored"
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
	kindRestart  = "restart" // of the BMC, once it has answered
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
}

// Config is how the BMC behaves. New fills it in for the personality; options change it.
type Config struct {
	Personality        Personality
	Username, Password string
	Delays             Delays

	// Where things are.
	SystemID, ChassisID, ManagerID string
	BIOSSettings                   string // the last part of the settings' path
	TrailingSlash                  bool   // each path ends in one: 308 without it
	AnyCase                        bool
	ManagerReset                   bool // the manager shows when it was restarted last

	Dialect  Dialect
	NoExpand Expand // what comes of a query with $expand; "": it is expanded
	OddETag  string // "header" or "body": the tag there is never the right one

	// Sessions.
	SessionsPath         string
	MaxSessions          int
	SessionFullCode      string // the message ID where the table is full
	SessionIdle          time.Duration
	LoginWithoutLocation bool
	AbsoluteLocation     bool // of a session, with scheme and host
	SessionsSurvive      bool // a restart of the BMC that is no update
	SessionOrigin        bool // a session shows its client's address
	SessionCreated       bool // and when it was made
	SessionContext       bool // the Context of a login is kept and shown
	RefuseContext        bool // 400 for a login with a Context; else it is ignored

	// Tasks.
	TaskForm        Form // but for drives and updates, which have their own
	TasksSurvive    bool // else they are forgotten, and numbered from 0 again
	TaskAnswers202  bool // GET of a task that runs
	TaskHasPayload  bool
	MonitorEnds204  bool // else 200
	JobIDs          bool // tasks are JID_…, and each is a job too
	OtherTasksAfter bool // a restart: each lost number is soon another, Completed task
	ForeignHost     string
	MessageSeverity bool              // a message's Severity is there under its newer name only
	ClockSkew       time.Duration     // of the BMC's clock, and so of all its times
	Endings         map[string]Ending // by kind

	// BIOS.
	RefusedAttribute  string // it is refused with RefusedStatus, and messages at the property
	RefusedStatus     int
	RepeatMakesNoJob  bool // a PATCH of what is pending already stays without a job
	NoAttributes      bool
	NoRegistry        bool
	NoBootProgress    bool
	NoLastResetTime   bool
	NoneBootProgress  bool // BootProgress is there, and always None
	NeverFinished     bool // iLO: without an operating system POST ends in InPostDiscoveryComplete, as HPE documents it
	EarlyDiscovery    bool // iLO: InPostDiscoveryComplete is shown before what is pending holds
	ResetBIOSStatus   int
	NeedsApplyTime    bool // without one, what is wanted stays pending
	RefuseSecondPatch bool // SYS011 while a job waits
	ShowPending       bool // Bios shows what is pending while a job exists
	RefuseInPOST      bool // 400 UnableToModifyDuringSystemPOST
	BIOSNeverApplies  bool // a reset changes nothing, and nothing says so
	RequireIfMatch    bool // 428
	WeakETags         bool // W/"…" never matches: 412

	// Drives.
	HideEraseInVolume   bool
	RefuseEraseInVolume bool
	EraseForm           Form // NoTask: progress is in Drive.Operations
	EraseStaged         bool // scheduled until the next reset
	DrivesNeedPOST      bool // none is listed before POST has ended

	// Firmware.
	MultipartPath, PushPath string
	NoSimpleUpdate          bool
	NeedsStartUpdate        bool
	PushStores              bool // an image pushed to PushPath is kept for SimpleUpdate, under its Location
	OperationApplyTimes     []string
	UpdateForm              Form
	BIOSStaged              bool // until the next reset
	ImmediateApply          bool // @Redfish.OperationApplyTime: Immediate resets the server at once
	SelfReset               bool // the BMC resets the server without being asked
	UpdateState             bool // Oem.Hpe.State in the update service

	// What the server consists of.
	NoCoreCount    bool // in the summary
	LinksInChassis bool // the system does not list its PCIe devices
	EmptySlots     bool // are listed, as Absent

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
		SystemID: "1", ChassisID: "1", ManagerID: "1", BIOSSettings: "Settings",
		SessionsPath: "/redfish/v1/SessionService/Sessions", MaxSessions: 16,
		SessionFullCode: "Base.1.8.SessionLimitExceeded", SessionIdle: 30 * time.Minute,
		TaskForm: Both, TasksSurvive: true, TaskHasPayload: true, MonitorEnds204: true,
		Endings:         map[string]Ending{},
		ResetBIOSStatus: 200, EraseForm: Both, UpdateForm: Both,
		ResetTypes:     []string{"On", "ForceOff", "GracefulShutdown", "GracefulRestart", "ForceRestart", "PowerCycle", "PushPowerButton", "Nmi"},
		PowerConflict:  409,
		RestartKeepsOn: true,
	}
	switch p {
	case IDRAC:
		c.SystemID, c.ChassisID, c.ManagerID = "System.Embedded.1", "System.Embedded.1", "iDRAC.Embedded.1"
		c.MaxSessions, c.SessionFullCode, c.SessionsSurvive = 8, "IDRAC.2.8.RAC0218", true
		c.SessionOrigin, c.SessionCreated, c.ManagerReset = true, true, true
		c.TaskForm, c.EraseForm, c.UpdateForm = LocationOnly, LocationOnly, LocationOnly
		c.JobIDs, c.TaskAnswers202, c.TaskHasPayload = true, true, false
		c.NeedsApplyTime, c.RefuseSecondPatch, c.ShowPending = true, true, true
		c.RefuseEraseInVolume = true
		c.MultipartPath, c.PushPath = "/redfish/v1/UpdateService/MultipartUpload",
			"/redfish/v1/UpdateService/FirmwareInventory"
		c.PushStores, c.OperationApplyTimes = true, []string{"Immediate", "OnReset"}
		c.BIOSStaged, c.ImmediateApply = true, true
		c.ResetTypes = []string{"On", "ForceOff", "ForceRestart", "GracefulRestart", "GracefulShutdown", "PushPowerButton",
			"Nmi", "PowerCycle"}
	case ILO:
		c.TrailingSlash, c.AnyCase = true, true
		c.TaskForm, c.EraseForm, c.UpdateForm = Absolute, NoTask, NoTaskOK
		c.RefuseInPOST, c.HideEraseInVolume, c.DrivesNeedPOST = true, true, true
		c.AbsoluteLocation = true
		c.SessionOrigin, c.SessionCreated, c.RefuseContext = true, true, true // in Oem.Hpe
		c.LinksInChassis, c.EmptySlots = true, true
		c.NoBootProgress, c.NoLastResetTime = true, true // Oem.Hpe.PostState instead
		c.MultipartPath = "/redfish/v1/UpdateService/upload"
		c.BIOSStaged, c.UpdateState = true, true
		c.ResetTypes = []string{"On", "ForceOff", "GracefulShutdown", "ForceRestart", "Nmi", "PushPowerButton",
			"GracefulRestart"}
		c.PowerConflict = 400
	case Supermicro:
		c.BIOSSettings = "SD"
		c.MultipartPath, c.NeedsStartUpdate = "/redfish/v1/UpdateService/upload", true
		c.OperationApplyTimes = []string{"Immediate", "OnStartUpdateRequest"}
		c.WeakETags, c.NoCoreCount = true, true
		c.ClockSkew = -97 * time.Minute
		c.ResetTypes = []string{"On", "ForceOff", "GracefulShutdown", "GracefulRestart", "ForceRestart", "Nmi", "ForceOn"}
		c.MaxSessions = 16
	case OpenBMC:
		c.SystemID, c.ChassisID, c.ManagerID = "system", "chassis", "bmc"
		c.TaskForm, c.EraseForm, c.UpdateForm = MonitorBoth, MonitorBoth, MonitorBoth
		c.TasksSurvive, c.OtherTasksAfter = false, true
		c.SessionOrigin, c.SessionContext, c.ManagerReset = true, true, true
		c.NoAttributes, c.NoRegistry = true, true
		c.ResetBIOSStatus = 204
		c.MultipartPath, c.PushPath = "/redfish/v1/UpdateService/update-multipart", "/redfish/v1/UpdateService/update"
		c.NoSimpleUpdate = true
		c.OperationApplyTimes = []string{"OnReset", "Immediate"}
		c.MessageSeverity, c.EmptySlots = true, true
		c.ResetTypes = []string{"On", "ForceOff", "ForceOn", "ForceRestart", "GracefulRestart", "GracefulShutdown",
			"PowerCycle", "Nmi"}
		c.RestartKeepsOn = false
		c.MaxSessions = 64
	}
	return c
}
