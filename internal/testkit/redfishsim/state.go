package redfishsim

import (
	"time"

	"burnish/internal/testkit/simserver"
)

// State is the server and what its BMC remembers. A test reads a copy with Machine.State
// and changes it with Machine.Change.
type State struct {
	Serial, ChassisSerial    string
	Manufacturer, Model, SKU string
	UUID                     string
	CPUs, CoresPerCPU        int
	MemoryModules            []int // MiB each
	Links                    []Link

	Power     string // On, Off, PoweringOn, PoweringOff
	PowerNext string // what Power becomes next; empty: nothing
	PowerDue  time.Time
	PowerThen string    // what follows an Off that belongs to a restart
	InPOST    bool      // the server is on and has not ended POST
	POSTDue   time.Time // when it does
	POSTs     int       // ended since the simulation began
	POSTStart time.Time
	LastReset time.Time

	BIOS  BIOS
	Setup Setup
	// DefaultsKind is the reset of the BMC to its defaults that comes at DefaultsDue; "": none does. Defaults
	// counts those that were.
	DefaultsKind string
	DefaultsDue  time.Time
	Defaults     int
	// FirstPassword: the account that asks has the vendor's first password, which it must change.
	FirstPassword bool
	// WrongPasswords are those since the last right one; Locked: the account is locked since.
	WrongPasswords int
	Locked         bool
	Shown          simserver.Shown // the BMC's certificate
	Components     []*Component
	Upload         *Upload // waits for StartUpdate
	LastUpdate     string  // how it ended, in the words of Oem.Hpe.State; empty: there was none
	Storages       []*Storage

	Work        []*Work
	Tasks       []*Task
	NextTask    int
	Sessions    []*Session
	NextSession int
	PushTargets []string

	Commits  []Commit
	BMCReset time.Time // when the last one was
	// Bricked says why the server does not start any more: a power change while firmware
	// was written.
	Bricked string
	// Interrupted are the serials of drives whose erase a power change ended.
	Interrupted []string
	ResetCount  int
}

// Link is a PCIe device and its link.
type Link struct {
	Name  string
	Width int
	Speed string // Gen4
}

// BIOS is the setup of the server.
type BIOS struct {
	Attributes   map[string]any
	Defaults     map[string]any
	Pending      map[string]any // what Settings shows
	PendingReset bool           // ResetBios was asked for
}

// Component is a firmware of the server.
type Component struct {
	Name     string // BIOS, BMC, …: the names that tests and images use
	Number   string // the identity in the inventory's names of iDRAC and iLO
	System   string // the system that it belongs to; empty: this one
	Version  string
	Previous string
	Golden   string
	Staged   string // written at the next reset
}

// Upload is an image that waits for StartUpdate.
type Upload struct {
	Component, Version string
	Targets            []string
	Digest             string
}

// Storage is a controller with its drives.
type Storage struct {
	ID         string
	Unlisted   bool // it is no member of the system's Storage; its drives are the chassis's
	NotChassis bool // its drives are not among the chassis's
	Drives     []*Drive
	Volumes    []Volume
}

// Volume is made of drives, by ID.
type Volume struct {
	ID     string
	Drives []string
}

// Drive is one drive. Content is what a tenant wrote: empty once it is erased.
type Drive struct {
	ID, Serial, Model, Protocol string
	CapacityBytes               int64
	Content                     string
	Sanitizations               []string // SanitizationType's allowable values; none: schema before 1.17
	NotErasable                 bool     // no action, ever
	Lies                        bool     // says erased, and is not
	Missing                     bool     // pulled out
	Erases                      int      // that were begun
}

// Work is something that takes time or waits for a reset.
type Work struct {
	Kind    string
	Task    string // the ID; empty: none shows it
	Waits   bool   // for the next reset
	Started time.Time
	Due     time.Time
	Stage   string // firmware: verify, write

	Drive     string // serial
	Component string
	System    string
	Version   string
	Digest    string
	Immediate bool // the server is reset for it
	OnReset   bool // it was asked to wait for one
	Request   int  // the number of the request that began it
}

// Task is what the BMC shows of some work.
type Task struct {
	ID        string
	Name      string
	Kind      string
	State     string
	Status    string
	Percent   int
	Messages  []Message
	Start     time.Time
	End       time.Time
	TargetURI string
	Operation string
	JobType   string
}

// Message is one of a task's.
type Message struct {
	MessageID, Message, Severity string
}

// Session is an open session.
type Session struct {
	ID, Token, User string
	First           bool // it was made with the first password, and may change that only
}

// Commit is one time that firmware was written, or staged to be written.
type Commit struct {
	Component, System, To string
	Digest                string // SHA-256 of the image
	Request               int    // the number of the request that began it
}

// component finds a firmware of one system by its name.
func (s *State) component(name, system string) *Component {
	for _, c := range s.Components {
		if c.Name == name && c.System == system {
			return c
		}
	}
	return nil
}

// version is that of a firmware; "" where there is none.
func (s *State) version(name, system string) string {
	if c := s.component(name, system); c != nil {
		return c.Version
	}
	return ""
}

// DriveBySerial is the drive that is in the server, with its storage; nil if there is none.
func (s *State) DriveBySerial(serial string) (*Drive, *Storage) {
	for _, storage := range s.Storages {
		for _, drive := range storage.Drives {
			if drive.Serial == serial && !drive.Missing {
				return drive, storage
			}
		}
	}
	return nil, nil
}

// Drives are all drives that are in the server.
func (s *State) Drives() []*Drive {
	var all []*Drive
	for _, storage := range s.Storages {
		for _, drive := range storage.Drives {
			if !drive.Missing {
				all = append(all, drive)
			}
		}
	}
	return all
}

// TenantData are the serials of the drives in the server that still hold what a tenant
// wrote.
func (s *State) TenantData() []string {
	serials := []string{}
	for _, drive := range s.Drives() {
		if drive.Content != "" {
			serials = append(serials, drive.Serial)
		}
	}
	return serials
}
