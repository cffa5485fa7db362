// Package nvmesim plays NVMe controllers for tests: the unmodified nvme-cli runs under
// ptrace and what it asks of a controller is answered from a file. A Site has the sysfs
// and dev trees that a kernel would show of them, with loop devices as namespaces. So
// the text that is parsed, and the order in which commands are sent, are those of the
// real tool; only the drive is missing.
//
// A test package that uses it calls Main from its TestMain, makes a Site with New, and
// runs what Site.Tool names in place of nvme:
//
//	func TestMain(m *testing.M) { os.Exit(nvmesim.Main(m)) }
//
//	s := nvmesim.New(t, nvmesim.Drive("SERIAL"))
//	exec.Command(s.Tool(), "id-ctrl", s.Node(0), "-o", "json")
//
// What it does not play: reading and writing go to the loop devices, so a sanitize at
// work refuses neither, and a node that is held open may show cached bytes after it, as
// a kernel's does. A kill of the emulator amid a command may lose its last effect.
package nvmesim

// Status is what a controller answers a command with: type and code. Bit 14 is Do Not
// Retry.
type Status uint16

// The statuses that the emulator itself gives.
const (
	Success            Status = 0
	InvalidOpcode      Status = 0x4001
	InvalidField       Status = 0x4002
	InvalidNamespace   Status = 0x400b
	SanitizeFailed     Status = 0x1c
	SanitizeInProgress Status = 0x1d
	WriteProtected     Status = 0x4020
	InvalidSlot        Status = 0x4106
	InvalidImage       Status = 0x4107
	InvalidLogPage     Status = 0x4109
	InvalidFormat      Status = 0x410a
	NeedsReset         Status = 0x10b
	FeatureNotSaveable Status = 0x410d
	NoCapacity         Status = 0x4115
	NoNamespaceNumber  Status = 0x4116
	AlreadyAttached    Status = 0x4118
	NotAttached        Status = 0x411a
	InvalidControllers Status = 0x411c
)

// The admin commands that the emulator answers.
const (
	GetLog           uint8 = 0x02
	Identify         uint8 = 0x06
	SetFeatures      uint8 = 0x09
	GetFeatures      uint8 = 0x0a
	ManageNamespace  uint8 = 0x0d
	CommitFirmware   uint8 = 0x10
	DownloadFirmware uint8 = 0x11
	AttachNamespace  uint8 = 0x15
	SendSecurity     uint8 = 0x81
	ReceiveSecurity  uint8 = 0x82
	SanitizeDrive    uint8 = 0x84
)

// What is no admin command but a call to the driver stands in the log, and may be
// injected, under these numbers.
const (
	Reset          uint8 = 0xf0
	SubsystemReset uint8 = 0xf1
	Rescan         uint8 = 0xf2
)

// Controller is one controller, the drive behind it and the slot that it is in. New
// fills in a name that is empty; a capability is what is written here, none where
// nothing is. Drive gives one that can do everything.
type Controller struct {
	// Address is the PCI address; VendorID and ProductID are those of the function.
	Address             string
	VendorID, ProductID uint16
	NUMANode            int

	Serial, Model, Firmware string
	SubsystemNQN            string
	// CNTLID is the controller's number in the subsystem, Others the numbers of the
	// subsystem's controllers that this host does not see.
	CNTLID uint16
	Others []uint16

	OACS, ONCS uint16
	SANICAP    uint32
	CMIC       uint8
	FNA, FRMW  uint8
	// NN is the highest number that a namespace may have.
	NN uint32
	// Capacity is the drive's size in bytes (TNVMCAP). With 0 the controller does not
	// tell, and the media is as large as the Namespaces need.
	Capacity uint64

	Formats    []Format
	Namespaces []Namespace

	Sanitize Sanitize
	Health   Health
	Slots    Firmware
	Opal     Opal
	// Features are those of the controller by their number; another one is refused.
	// Number 0x84 is answered from a namespace's WriteProtected.
	Features map[uint8]Feature
	// HostMetadata: the controller has the features 0x7d to 0x7f. Metadata is what hosts
	// have written there.
	HostMetadata bool
	Metadata     []Element

	// Multipath: namespaces stand below the subsystem, as with the kernel's native
	// multipath, and below the controller only a hidden path.
	Multipath bool
	// NodesOnRescan: a namespace that is attached, detached or deleted comes and goes
	// in sysfs and dev only with a rescan or a reset.
	NodesOnRescan bool

	Inject []Injection
}

// Format is an LBA format.
type Format struct {
	BlockSize int // of the data, a power of two
	Metadata  uint16
}

// Namespace is an allocated namespace. One that has another command set than NVM, or
// none of whose sectors a kernel would show, has no disk, or one without size.
type Namespace struct {
	NSID   uint32
	Blocks uint64
	// Format is the index in Formats.
	Format         int
	Attached       bool
	WriteProtected bool
	// CSI is the command set: 0 NVM, 1 key value, 2 zoned.
	CSI uint8
	// Offset is where the namespace lies on the media, in bytes. New gives each the
	// lowest place that is free.
	Offset uint64
}

// Leaves is what a sanitize makes of the media.
type Leaves string

// What a sanitize may leave behind.
const (
	LeavesZeros     Leaves = "zero"
	LeavesOnes      Leaves = "ff"
	LeavesRandom    Leaves = "random"
	LeavesUnchanged Leaves = "unchanged"
	// LeavesUnreadable: reading fails with EIO until something is written behind.
	LeavesUnreadable Leaves = "readerror"
)

// Sanitize is the drive's sanitize: its status as it is, and how one goes.
type Sanitize struct {
	// Status is SSTAT bits 2:0, CDW10 of the sanitize that it speaks of. 2 is one that
	// runs already, begun by somebody else.
	Status       uint8
	CDW10        uint32
	GlobalErased bool
	// Unaware: writes leave GlobalErased as it is, which is a lie.
	IgnoresWrites bool
	// Verifying: the drive waits in media verification; only sanitize with action 5
	// leads out of it.
	Verifying bool
	// FailureLeft: the drive waits no longer for what is to be done about a failed one.
	// Where it does, only another sanitize is let in, and, if CDW10 allowed that, action 1.
	FailureLeft bool

	// Polls is how many readings of the log find a sanitize at work; the next finds
	// that it ended.
	Polls int
	// StallAt: from this progress on it stands still; 0 is not at all.
	StallAt uint16
	// FailIt: it ends with status 3. EndsWith is another status for one that is done: 4.
	FailIt   bool
	EndsWith uint8
	// Leaves is what the media is afterwards, zeros where it is empty.
	Leaves Leaves
	// Seconds are the drive's estimates; 0xffffffff is unknown.
	EstimateOverwrite, EstimateBlock, EstimateCrypto uint32
}

// Health is what the SMART log tells.
type Health struct {
	PercentUsed, Spare, SpareThreshold uint8
	CriticalWarning                    uint8
	PowerOnHours                       uint64
	MediaErrors                        uint64
	Kelvin                             uint16
}

// Firmware is what the firmware log tells.
type Firmware struct {
	// AFI: bits 2:0 the slot that runs, 6:4 the one that runs after the next reset.
	AFI uint8
	// Revisions are those of slots 1 to 7.
	Revisions [7]string
	// CommitStatus is what a commit for the next reset is answered with, such as
	// NeedsReset; it is carried out all the same.
	CommitStatus Status
}

// Opal is what a TCG discovery tells of locking.
type Opal struct {
	Supported, Enabled, Locked, MBREnabled bool
}

// Feature is the value of a feature. After a reset the saved one is the current one.
type Feature struct {
	Current, Default, Saved uint32
	// NotSaveable: set-features with save is refused.
	NotSaveable bool
}

// Element is one element of host metadata; NSID is 0 where it is the controller's.
type Element struct {
	Feature, Type uint8
	NSID          uint32
}

// Injection makes a command end otherwise than it would.
type Injection struct {
	Opcode uint8
	// Where Mask is not 0 only commands match whose dword 10 under it is CDW10.
	CDW10, Mask uint32
	// Skip is how many commands that match are let through first, Times how many are
	// met then; 0 is all.
	Skip, Times int
	Status      Status
	// Errno, where it is not 0, is what the call fails with instead of a status.
	Errno int
	// AfterEffect: the command is carried out, and then answered so.
	AfterEffect bool
	// Lie: nothing is done, and the answer is success.
	NoEffect bool
	// Kill: nvme and what emulates it die in place of an answer. Hang: no answer comes.
	Kill, Hang bool
	// SwapTo: when the command has been answered, another drive with this serial number
	// is in the slot.
	SwapTo string
}

// Drive gives a controller with all that a good drive has: sanitize by crypto and block
// erase, namespace management, firmware and security commands; 16 MiB, all of it one
// namespace with blocks of 512 bytes that nobody wrote to.
func Drive(serial string) Controller {
	const size = 16 << 20
	return Controller{
		Serial: serial,
		// Bit 0 security, 1 format, 2 firmware, 3 namespaces.
		OACS: 0xf,
		// Bit 2 dataset management, 3 write zeroes, 4 save.
		ONCS:    0x1c,
		SANICAP: 3, FNA: 4,
		// Three slots, activation without reset.
		FRMW: 3<<1 | 1<<4, NN: 32, Capacity: size,
		Formats:    []Format{{BlockSize: 512}, {BlockSize: 4096}, {BlockSize: 512, Metadata: 8}},
		Namespaces: []Namespace{{NSID: 1, Blocks: size / 512, Attached: true}},
		Sanitize:   Sanitize{GlobalErased: true, Polls: 2, EstimateOverwrite: 0xffffffff, EstimateBlock: 40, EstimateCrypto: 2},
		Health:     Health{PercentUsed: 3, Spare: 100, SpareThreshold: 10, PowerOnHours: 1000, Kelvin: 310},
		Slots:      Firmware{AFI: 1, Revisions: [7]string{"1.0.0"}},
		Features: map[uint8]Feature{
			0x02: {}, 0x04: {Current: 343, Default: 343, Saved: 343}, 0x06: {Current: 1, Default: 1, Saved: 1},
			0x07: {Current: 0x1f001f, Default: 0x1f001f, Saved: 0x1f001f, NotSaveable: true}, 0x0b: {},
		},
	}
}
