// Package privileged is the part of the driver nvme that needs root: it uses controllers'
// nodes and binds PCI functions (S2.67). A request is a verb with numbers; no text of a
// caller ever becomes part of a command line. [Local] acts in this process, which must be
// root. [Remote] has a helper act, in which [Server] answers; it needs no privilege itself.
// Both keep a controller's node open from before its identity is checked until after the
// last command (F11). A command's process inherits the descriptors that keep others away
// (F1, F12).
package privileged

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"strconv"

	"burnish/internal/device"
)

// Verb is one operation on a controller.
type Verb string

// The verbs that only read.
const (
	IdentifyController  Verb = "identify-controller"
	ActiveNamespaces    Verb = "active-namespaces"
	AllocatedNamespaces Verb = "allocated-namespaces"
	IdentifyNamespace   Verb = "identify-namespace"
	NamespaceCommandSet Verb = "namespace-command-set"
	Controllers         Verb = "controllers"
	SanitizeLog         Verb = "sanitize-log"
	SanitizeState       Verb = "sanitize-state"
	Health              Verb = "health"
	Firmware            Verb = "firmware"
	OpalLevel0Discovery Verb = "opal-level-0"
	DefaultFeature      Verb = "default-feature"
	SavedFeature        Verb = "saved-feature"
	HostMetadata        Verb = "host-metadata"
)

// The verbs that change the drive, or the kernel's view of it.
const (
	SetFeature            Verb = "set-feature"
	DeleteMetadata        Verb = "delete-metadata"
	Unprotect             Verb = "unprotect"
	Sanitize              Verb = "sanitize"
	ExitMediaVerification Verb = "exit-media-verification"
	DeleteNamespaces      Verb = "delete-namespaces"
	CreateNamespace       Verb = "create-namespace"
	AttachNamespace       Verb = "attach-namespace"
	Rescan                Verb = "rescan"
	Reset                 Verb = "reset"
	SubsystemReset        Verb = "subsystem-reset"
	DownloadFirmware      Verb = "download-firmware"
	CommitFirmware        Verb = "commit-firmware"
)

// Request is a verb with its numbers. Numbers that it does not take are zero.
type Request struct {
	Verb Verb `json:"verb"`
	// NSID is the number of a namespace. Detached allows one that is not attached.
	NSID     uint32 `json:"nsid,omitempty"`
	Detached bool   `json:"detached,omitempty"`
	// Feature is one of Features with the new Value, or a host metadata feature with the
	// type of the Element to delete.
	Feature uint8  `json:"feature,omitempty"`
	Value   uint32 `json:"value,omitempty"`
	Element uint8  `json:"element,omitempty"`
	// Action is CryptoErase or BlockErase.
	Action uint8 `json:"action,omitempty"`
	// Blocks is the size of a new namespace, Format the index of its LBA format.
	Blocks uint64 `json:"blocks,omitempty"`
	Format uint8  `json:"format,omitempty"`
	// Controller is the controller's CNTLID.
	Controller uint16 `json:"controller,omitempty"`
	// Digest is the SHA-256 of the image to download, Transfer how many bytes of it one
	// command sends. The image itself is HeldFiles.Image.
	Digest   [sha256.Size]byte `json:"digest,omitzero"`
	Transfer uint32            `json:"transfer,omitempty"`
	// Slot is the firmware slot that a commit replaces.
	Slot uint8 `json:"slot,omitempty"`
}

// The sanitize actions: dword 10 of the command, with every other bit clear. AUSE, which
// would allow leaving a failed sanitize, is never set (F12).
const (
	BlockErase  = 2
	CryptoErase = 4
	// exitMediaVerification is the action that leaves the media verification state.
	exitMediaVerification = 5
)

// AllNamespaces is the NSID for all namespaces.
const AllNamespaces uint32 = 0xffffffff

// OpalLevel0Size is the size of the answer at the end of OpalLevel0Discovery's output.
const OpalLevel0Size = 2048

// Features are those that may be read and set. They survive a tenant, and need neither data
// nor a namespace: arbitration, power management, write cache, thermal management.
func Features() []uint8 { return []uint8{0x01, 0x02, 0x06, 0x10} }

// The host metadata features: what a host can write into a controller or a namespace, for
// readers on the drive's management interface.
const (
	EnhancedControllerMetadata uint8 = 0x7d
	ControllerMetadata         uint8 = 0x7e
	NamespaceMetadata          uint8 = 0x7f
)

// NamespaceCommandSetSize is the size of the list at the end of NamespaceCommandSet's output.
const NamespaceCommandSetSize = 4096

// MetadataSize is the size of the data at the end of HostMetadata's output.
const MetadataSize = 4096

// writeProtection is the feature that Unprotect clears.
const writeProtection uint8 = 0x84

// verbSpec describes one verb.
type verbSpec struct {
	changes bool
	// noNamespaces: the verb reaches no namespace's data, so that no disk need be held.
	noNamespaces bool
	// fields copies the numbers that the verb takes, and no others.
	fields func(r Request) Request
	// validate says what is wrong with the numbers, or "".
	validate func(r Request) string
	// image: nvme-cli reads the held image from its stdin and sends it to the drive.
	image bool
	// argv is the command of nvme-cli without the controller's node, its second word.
	argv func(r Request) []string
	// stdin is the data that nvme-cli reads from its stdin and sends to the drive.
	stdin func(r Request) []byte
}

const asJSON = "--output-format=json"

// readVerb is a verb without numbers.
func readVerb(words ...string) verbSpec {
	return verbSpec{argv: func(Request) []string { return words }}
}

// changeVerb is a verb without numbers that changes something.
func changeVerb(words ...string) verbSpec {
	k := readVerb(words...)
	k.changes = true
	return k
}

func numberOption[T uint8 | uint16 | uint32 | uint64](option string, n T) string {
	return "--" + option + "=" + strconv.FormatUint(uint64(n), 10)
}

func featureOnly(r Request) Request { return Request{Feature: r.Feature} }

func validateFeature(r Request) string {
	if !slices.Contains(Features(), r.Feature) {
		return fmt.Sprintf("feature 0x%02x is not one that may be restored", r.Feature)
	}
	return ""
}

func featureVerb(which string) verbSpec {
	return verbSpec{fields: featureOnly, validate: validateFeature, argv: func(r Request) []string {
		return []string{"get-feature", numberOption("feature-id", r.Feature), "--sel=" + which}
	}}
}

// verbSpecs are all verbs.
var verbSpecs = map[Verb]verbSpec{
	IdentifyController:  readVerb("id-ctrl", asJSON),
	ActiveNamespaces:    readVerb("list-ns", asJSON),
	AllocatedNamespaces: readVerb("list-ns", "--all", asJSON),
	Controllers:         readVerb("list-ctrl", asJSON),
	SanitizeLog:         readVerb("sanitize-log", asJSON),
	SanitizeState:       readVerb("get-log", "--log-id=0x81", "--log-len=512", "--raw-binary"),
	Health:              readVerb("smart-log", asJSON),
	Firmware:            readVerb("fw-log", asJSON),
	OpalLevel0Discovery: readVerb("security-recv", "--secp=1", "--spsp=1", numberOption("size", uint32(OpalLevel0Size)), numberOption("al", uint32(OpalLevel0Size)), "--raw-binary"),
	DefaultFeature:      featureVerb("1"),
	SavedFeature:        featureVerb("2"),
	IdentifyNamespace: {
		fields:   func(r Request) Request { return Request{NSID: r.NSID, Detached: r.Detached} },
		validate: validateNamespace,
		argv: func(r Request) []string {
			words := []string{"id-ns", numberOption("namespace-id", r.NSID), asJSON}
			if r.Detached {
				words = append(words, "--force")
			}
			return words
		},
	},
	NamespaceCommandSet: {
		fields:   func(r Request) Request { return Request{NSID: r.NSID} },
		validate: validateOneNamespace,
		argv: func(r Request) []string {
			return []string{"ns-descs", numberOption("namespace-id", r.NSID), "--raw-binary"}
		},
	},
	SetFeature: {
		changes:  true,
		fields:   func(r Request) Request { return Request{Feature: r.Feature, Value: r.Value} },
		validate: validateFeature,
		argv: func(r Request) []string {
			return []string{"set-feature", numberOption("feature-id", r.Feature), numberOption("value", r.Value), "--save"}
		},
	},
	HostMetadata: {
		fields:   func(r Request) Request { return Request{Feature: r.Feature, NSID: r.NSID} },
		validate: validateMetadata,
		argv: func(r Request) []string {
			return append([]string{"get-feature"}, metadataOptions(r, "--raw-binary")...)
		},
	},
	DeleteMetadata: {
		changes:  true,
		fields:   func(r Request) Request { return Request{Feature: r.Feature, NSID: r.NSID, Element: r.Element} },
		validate: validateMetadata,
		argv: func(r Request) []string {
			const deleteEntries = 1 << 13 // dword 11, Element Action
			return append([]string{"set-feature"}, metadataOptions(r, numberOption("value", uint32(deleteEntries)))...)
		},
		stdin: func(r Request) []byte {
			one := make([]byte, MetadataSize)
			one[0], one[2] = 1, r.Element // one descriptor, without a value
			return one
		},
	},
	// Write protection is not among Features, because it is per namespace and not saved.
	Unprotect: {
		changes:  true,
		fields:   func(r Request) Request { return Request{NSID: r.NSID} },
		validate: validateOneNamespace,
		argv: func(r Request) []string {
			return []string{"set-feature", numberOption("feature-id", writeProtection), numberOption("namespace-id", r.NSID), "--value=0"}
		},
	},
	Sanitize: {
		changes: true,
		fields:  func(r Request) Request { return Request{Action: r.Action} },
		validate: func(r Request) string {
			if r.Action != CryptoErase && r.Action != BlockErase {
				return fmt.Sprintf("action %d is not an erase", r.Action)
			}
			return ""
		},
		argv: func(r Request) []string { return []string{"sanitize", numberOption("sanact", r.Action)} },
	},
	// nvme sanitize itself refuses this action in common versions.
	ExitMediaVerification: changeVerb("admin-passthru", "--opcode=0x84", numberOption("cdw10", uint32(exitMediaVerification))),
	DeleteNamespaces:      changeVerb("delete-ns", "--namespace-id=0xffffffff"),
	CreateNamespace: {
		changes: true,
		fields:  func(r Request) Request { return Request{Blocks: r.Blocks, Format: r.Format} },
		validate: func(r Request) string {
			const formats = 64
			if r.Blocks == 0 || r.Format >= formats {
				return fmt.Sprintf("a namespace cannot have %d blocks of format %d", r.Blocks, r.Format)
			}
			return ""
		},
		argv: func(r Request) []string {
			return []string{"create-ns", numberOption("nsze", r.Blocks), numberOption("ncap", r.Blocks), numberOption("flbas", r.Format)}
		},
	},
	AttachNamespace: {
		changes:  true,
		fields:   func(r Request) Request { return Request{NSID: r.NSID, Controller: r.Controller} },
		validate: validateOneNamespace,
		argv: func(r Request) []string {
			return []string{"attach-ns", numberOption("namespace-id", r.NSID), numberOption("controllers", r.Controller)}
		},
	},
	Rescan: {changes: true, noNamespaces: true, argv: func(Request) []string { return []string{"ns-rescan"} }},
	Reset:  changeVerb("reset"),
	// A reset of the subsystem resets each of its controllers: a driver refuses a drive that
	// has another one (F12).
	SubsystemReset: changeVerb("subsystem-reset"),
	// A download changes nothing that a tenant sees. It always begins at the image's start.
	DownloadFirmware: {
		changes: true, image: true,
		fields: func(r Request) Request { return Request{Digest: r.Digest, Transfer: r.Transfer} },
		validate: func(r Request) string {
			if r.Transfer == 0 || r.Transfer%MinTransfer != 0 || r.Transfer > maxTransfer {
				return fmt.Sprintf("%d is not a size of transfers", r.Transfer)
			}
			if r.Digest == [sha256.Size]byte{} {
				return "an image needs its digest"
			}
			return ""
		},
		argv: func(r Request) []string {
			return []string{"fw-download", "--fw=/dev/stdin", numberOption("xfer", r.Transfer), "--offset=0"}
		},
	},
	// The slot is always named. The image is activated by the next reset, never at once.
	CommitFirmware: {
		changes: true,
		fields:  func(r Request) Request { return Request{Slot: r.Slot} },
		validate: func(r Request) string {
			if r.Slot == 0 || r.Slot > FirmwareSlots {
				return fmt.Sprintf("there is no firmware slot %d", r.Slot)
			}
			return ""
		},
		argv: func(r Request) []string {
			return []string{"fw-commit", numberOption("slot", r.Slot), numberOption("action", uint8(replaceAtNextReset))}
		},
	},
}

const (
	// FirmwareSlots is the most slots that a drive can have.
	FirmwareSlots = 7
	// MinTransfer is the smallest unit of a download; each other is a multiple of it.
	MinTransfer = 4096
	maxTransfer = 1 << 20
	// replaceAtNextReset is the commit action: the downloaded image replaces the slot's, and
	// runs after the next reset.
	replaceAtNextReset = 1
)

// metadataOptions are the options that select host metadata, and one more.
func metadataOptions(r Request, more string) []string {
	words := []string{numberOption("feature-id", r.Feature), numberOption("data-len", uint32(MetadataSize)), more}
	if r.NSID != 0 {
		words = append(words, numberOption("namespace-id", r.NSID))
	}
	return words
}

func validateMetadata(r Request) string {
	const types = 64
	switch {
	case r.Element >= types:
		return fmt.Sprintf("there is no element type %d", r.Element)
	case r.Feature == NamespaceMetadata:
		return validateOneNamespace(r)
	case r.Feature != EnhancedControllerMetadata && r.Feature != ControllerMetadata:
		return fmt.Sprintf("feature 0x%02x is not host metadata", r.Feature)
	case r.NSID != 0:
		return "a controller's metadata has no namespace"
	}
	return ""
}

func validateNamespace(r Request) string {
	if r.NSID == 0 {
		return "0 is not a namespace"
	}
	return ""
}

func validateOneNamespace(r Request) string {
	if r.NSID == AllNamespaces {
		return "it takes one namespace, not all"
	}
	return validateNamespace(r)
}

// spec finds the specification of the request's verb, and refuses a request with other
// numbers than the verb takes.
func (r Request) spec(changes bool) (verbSpec, error) {
	k, known := verbSpecs[r.Verb]
	if !known {
		return verbSpec{}, invalidRequest("there is no verb %q", r.Verb)
	}
	if k.changes != changes {
		return verbSpec{}, invalidRequest("the verb %q needs the other method: Read or Change", r.Verb)
	}
	taken := Request{}
	if k.fields != nil {
		taken = k.fields(r)
	}
	if taken.Verb = r.Verb; taken != r {
		return verbSpec{}, invalidRequest("the verb %q has numbers that it does not take", r.Verb)
	}
	if k.validate != nil {
		if why := k.validate(r); why != "" {
			return verbSpec{}, invalidRequest("the verb %q: %s", r.Verb, why)
		}
	}
	return k, nil
}

// invalidRequest is the fault of a request that no driver sends. It is not executed.
func invalidRequest(format string, args ...any) *device.Fault {
	return &device.Fault{Class: device.Permanent, Code: device.CodeInternal, Message: fmt.Sprintf(format, args...), Remedy: "report this bug: nothing was done"}
}
