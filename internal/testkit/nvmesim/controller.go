// Package nvmesim emulates NVMe controllers for tests: the unmodified nvme-cli runs under
// ptrace, and its commands are answered from a file. A Host has the sysfs and dev trees of
// these controllers, with loop devices as namespaces. So the parsed output and the order of
// commands are those of the real tool; only the drive is emulated.
//
// A test package that uses it calls Main in its TestMain, creates a Host with New and runs
// Host.Tool in place of nvme:
//
//	func TestMain(m *testing.M) { os.Exit(nvmesim.Main(m)) }
//
//	h := nvmesim.New(t, nvmesim.Drive("SERIAL"))
//	exec.Command(h.Tool(), "id-ctrl", h.Node(0), "-o", "json")
//
// Limits: reads and writes go to the loop devices. While a sanitize runs, and after a failed
// one, writes fail but reads do not, and an open node may show cached bytes after it, as with
// a kernel. Killing the emulator during a command may lose the command's last effect.
package nvmesim

// Status is the status of a completed command: type and code. Bit 14 is Do Not Retry.
type Status uint16

// The statuses that the emulator uses.
const (
	Success            Status = 0
	InvalidOpcode      Status = 0x4001
	InvalidField       Status = 0x4002
	InvalidNamespace   Status = 0x400b
	SanitizeFailed     Status = 0x1c
	SanitizeInProgress Status = 0x1d
	WriteProtected     Status = 0x4020
	InvalidLogPage     Status = 0x4109
	// InvalidFirmwareSlot and the others up to OverlappingRange are answers to a download or
	// a commit of firmware.
	InvalidFirmwareSlot  Status = 0x4106
	InvalidFirmwareImage Status = 0x4107
	NeedsSubsystemReset  Status = 0x4110
	NeedsControllerReset Status = 0x4111
	TimeViolation        Status = 0x4112
	ActivationProhibited Status = 0x4113
	OverlappingRange     Status = 0x4114
	InvalidFormat        Status = 0x410a
	FeatureNotSaveable   Status = 0x410d
	NeedsReset           Status = 0x410b
	NoCapacity           Status = 0x4115
	NoNamespaceNumber    Status = 0x4116
	AlreadyAttached      Status = 0x4118
	NotAttached          Status = 0x411a
	InvalidControllers   Status = 0x411c
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
	ReceiveSecurity  uint8 = 0x82
	SanitizeDrive    uint8 = 0x84
)

// Other calls of the driver have these numbers in the log and in injections.
const (
	Reset          uint8 = 0xf0
	Rescan         uint8 = 0xf1
	SubsystemReset uint8 = 0xf2
)

// Controller is one controller, its drive and its slot. New fills in empty names. A
// capability is present only if it is set; Drive has all.
type Controller struct {
	// Address is the PCI address; VendorID and ProductID are those of the function.
	Address             string
	VendorID, ProductID uint16

	Serial, Model, Firmware string
	SubsystemNQN            string
	// CNTLID is the controller's number in the subsystem, Others are those of its controllers
	// that this host does not see.
	CNTLID uint16
	Others []uint16

	OACS, ONCS uint16
	SANICAP    uint32
	CMIC       uint8
	FNA, FRMW  uint8
	// NN is the highest number that a namespace may have.
	NN uint32
	// Capacity is the drive's size in bytes (TNVMCAP). With 0 the controller does not report
	// it, and the media is as large as the Namespaces need.
	Capacity uint64
	// Unallocatable is how many bytes of the capacity no namespace ever gets.
	Unallocatable uint64
	// HidesUnallocatable: UNVMCAP does not count them.
	HidesUnallocatable bool

	Formats    []Format
	Namespaces []Namespace

	Sanitize Sanitize
	Health   Health
	Slots    Firmware
	Update   Update
	// SubsystemResets: the controller supports a reset of its subsystem.
	SubsystemResets bool
	// FWUG is the unit of downloads in 4 KiB; 0 is not reported.
	FWUG uint8
	Opal Opal
	// Features are those of the controller by number; others are refused. Number 0x84 is
	// answered from a namespace's WriteProtected.
	Features map[uint8]Feature
	// HostMetadata: the controller has the features 0x7d to 0x7f, with the elements Metadata.
	HostMetadata bool
	Metadata     []Element

	// Multipath: namespaces are below the subsystem, as with the kernel's native multipath,
	// and the controller has only hidden paths.
	Multipath bool

	// WriteZeroesQuirk: the kernel does not use the drive's Write Zeroes command.
	WriteZeroesQuirk bool
	// KeptWriteZeroes: the kernel still uses Write Zeroes as it found it in ONCS earlier, as
	// after new firmware that has the command no more.
	KeptWriteZeroes bool
	// ShowsMetadata: the kernel shows the disk of a format with metadata, as with protection
	// information.
	ShowsMetadata bool

	Inject []Injection
}

// Format is an LBA format.
type Format struct {
	BlockSize int // of the data, a power of two
	Metadata  uint16
}

// Namespace is an allocated namespace. The kernel shows no disk for the command set key
// value, and one without size for a format with metadata.
type Namespace struct {
	NSID   uint32
	Blocks uint64
	// Format is the index in Formats.
	Format         int
	Attached       bool
	WriteProtected bool
	// CSI is the command set: 0 NVM, 1 key value, 2 zoned.
	CSI uint8
	// Offset is the place on the media, in bytes. New uses the lowest free one.
	Offset uint64
}

// Leaves is the content of the media after a sanitize.
type Leaves string

// The contents that a sanitize may leave.
const (
	LeavesZeros     Leaves = "zero"
	LeavesOnes      Leaves = "ff"
	LeavesRandom    Leaves = "random"
	LeavesUnchanged Leaves = "unchanged"
	// LeavesUnreadable: reads fail with EIO until a later block is written.
	LeavesUnreadable Leaves = "readerror"
)

// Sanitize is the present state of the drive's sanitize, and how the next one behaves.
type Sanitize struct {
	// Status is SSTAT bits 2:0 of the sanitize that CDW10 started. 2 means that it runs.
	Status       uint8
	CDW10        uint32
	GlobalErased bool
	// IgnoresWrites: a faulty drive, on which writes do not clear GlobalErased.
	IgnoresWrites bool
	// Verifying: the drive is in media verification, which only action 5 ends.
	Verifying bool
	// FailureLeft: the failed sanitize was acknowledged. Until then only another sanitize is
	// permitted, and, if CDW10 allowed it, action 1.
	FailureLeft bool

	// Polls is how many reads of the log show a running sanitize; the next shows its end.
	Polls int
	// StallAt is the progress at which it stalls; 0 means that it does not.
	StallAt uint16
	// AnswersLogs: while it runs, the drive answers every log.
	AnswersLogs bool
	// FailIt: it ends with status 3.
	FailIt bool
	// Leaves is the content afterwards; "" means zeros.
	Leaves Leaves
}

// Health is the content of the SMART log.
type Health struct {
	PercentUsed, Spare, SpareThreshold uint8
	CriticalWarning                    uint8
	PowerOnHours                       uint64
}

// Firmware is the content of the firmware log.
type Firmware struct {
	// AFI: bits 2:0 are the active slot, 6:4 the slot after the next reset.
	AFI uint8
	// Revisions are those of slots 1 to 7.
	Revisions [7]string
}

// Opal is the locking state in a TCG discovery. BlockSID: the drive reports about its
// security identifier (SID); Owned: somebody has set it.
type Opal struct {
	Supported, Enabled, Locked bool
	BlockSID, Owned            bool
}

// Feature is the value of a feature. After a reset the saved one is the current one.
type Feature struct {
	Current, Default, Saved uint32
	// NotSaveable: set-features with save is refused.
	NotSaveable bool
}

// Element is one element of host metadata; NSID 0 means the controller's.
type Element struct {
	Feature, Type uint8
	NSID          uint32
}

// Injection changes how a command ends.
type Injection struct {
	Opcode uint8
	// With a Mask other than 0, only commands with dword 10 & Mask == CDW10 match.
	CDW10, Mask uint32
	// Skip is how many matching commands are not affected at first, Times how many are
	// affected then; 0 means all.
	Skip, Times int
	Status      Status
	// Errno other than 0 is the error of the call, which then has no status.
	Errno int
	// AfterEffect: the command takes effect before it fails.
	AfterEffect bool
	// NoEffect: the command reports success but does nothing.
	NoEffect bool
	// Kill: nvme and its emulator die. Hang: the command does not return.
	Kill, Hang bool
	// SwapTo: after the command, another drive with this serial number is in the slot. Model:
	// after it the controller reports this model, although sysfs shows the old one.
	SwapTo, Model string
	// Resets: after the command the controller is reset. RenumberTo: after it the controller
	// was removed and is back under this name.
	Resets     bool
	RenumberTo string
}

// Drive is a controller with all capabilities: sanitize by crypto and block erase, namespace
// management, firmware and security commands. It has 16 MiB in one namespace with blocks of
// 512 bytes, which was never written to.
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
		Sanitize:   Sanitize{GlobalErased: true, Polls: 2},
		Health:     Health{PercentUsed: 3, Spare: 100, SpareThreshold: 10, PowerOnHours: 1000},
		Slots:      Firmware{AFI: 1, Revisions: [7]string{"1.0.0"}},

		SubsystemResets: true,
		Features: map[uint8]Feature{
			0x02: {}, 0x04: {Current: 343, Default: 343, Saved: 343}, 0x06: {Current: 1, Default: 1, Saved: 1},
			0x07: {Current: 0x1f001f, Default: 0x1f001f, Saved: 0x1f001f, NotSaveable: true}, 0x0b: {},
		},
	}
}
