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
	"encoding/binary"
	"fmt"
	"slices"

	"burnish/internal/device"
	"burnish/internal/hardware/nvme/nvmecli"
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

// OpalLevel0Size is the size of the answer to OpalLevel0Discovery, in bytes.
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

// metadataSize is the size of host metadata, in bytes.
const metadataSize = 4096

// writeProtection is the feature that Unprotect clears.
const writeProtection uint8 = 0x84

// verbSpec describes one verb.
type verbSpec struct {
	changes bool
	// noNamespaces: the verb reaches no namespace's data, so that no disk need be held.
	noNamespaces bool
	// validate says what is wrong with the numbers, or "".
	validate func(r Request) string
	// command is the admin command to send.
	command func(r Request) nvmecli.Command
	// data is what the command sends to the drive.
	data func(r Request) []byte
	// image: nvme-cli reads the held image from its stdin and sends it to the drive.
	image bool
	// words is the command of nvme-cli that replaces command, for what is no admin command, or
	// more than one. The controller's node becomes its second word.
	words func(r Request) []string
}

// The opcodes and parameters are those of the NVM Express Base Specification.
const (
	getLogPage          = 0x02
	identify            = 0x06
	setFeatures         = 0x09
	getFeatures         = 0x0a
	namespaceManagement = 0x0d
	firmwareCommit      = 0x10
	namespaceAttachment = 0x15
	securityReceive     = 0x82
	sanitize            = 0x84
)

// identifyBy is the command Identify of a data structure (CNS).
func identifyBy(cns uint32, nsid uint32) nvmecli.Command {
	return nvmecli.Command{Opcode: identify, NSID: nsid, CDW: [6]uint32{cns}, Receives: nvmecli.IdentifySize}
}

// identifyVerb reads a data structure that is not of one namespace.
func identifyVerb(cns uint32) verbSpec {
	return verbSpec{command: func(Request) nvmecli.Command { return identifyBy(cns, 0) }}
}

// logVerb reads a log page of the whole drive.
func logVerb(page uint32) verbSpec {
	const dwords = nvmecli.LogSize/4 - 1 // 0's based
	return verbSpec{command: func(Request) nvmecli.Command {
		return nvmecli.Command{
			Opcode: getLogPage, NSID: AllNamespaces, CDW: [6]uint32{page | dwords<<16}, Receives: nvmecli.LogSize,
		}
	}}
}

// wordsVerb is a verb without numbers that is no admin command.
func wordsVerb(words ...string) verbSpec {
	return verbSpec{changes: true, words: func(Request) []string { return words }}
}

func validateFeature(r Request) string {
	if !slices.Contains(Features(), r.Feature) {
		return fmt.Sprintf("feature 0x%02x is not one that may be restored", r.Feature)
	}
	return ""
}

// featureVerb reads one value of a feature, which is dword 0 of the completion.
func featureVerb(selected uint32) verbSpec {
	return verbSpec{validate: validateFeature, command: func(r Request) nvmecli.Command {
		return nvmecli.Command{Opcode: getFeatures, CDW: [6]uint32{uint32(r.Feature) | selected<<8}}
	}}
}

// verbSpecs are all verbs.
var verbSpecs = map[Verb]verbSpec{
	IdentifyController:  identifyVerb(0x01),
	ActiveNamespaces:    identifyVerb(0x02),
	AllocatedNamespaces: identifyVerb(0x10),
	Controllers:         identifyVerb(0x13),
	Health:              logVerb(0x02),
	Firmware:            logVerb(0x03),
	SanitizeLog:         logVerb(0x81),
	DefaultFeature:      featureVerb(1),
	SavedFeature:        featureVerb(2),
	OpalLevel0Discovery: {command: func(Request) nvmecli.Command {
		const protocol, level0 = 1, 1
		return nvmecli.Command{
			Opcode: securityReceive, CDW: [6]uint32{protocol<<24 | level0<<8, OpalLevel0Size}, Receives: OpalLevel0Size,
		}
	}},
	IdentifyNamespace: {
		validate: validateNamespace,
		command: func(r Request) nvmecli.Command {
			if r.Detached {
				return identifyBy(0x11, r.NSID)
			}
			return identifyBy(0x00, r.NSID)
		},
	},
	NamespaceCommandSet: {
		validate: validateOneNamespace,
		command:  func(r Request) nvmecli.Command { return identifyBy(0x03, r.NSID) },
	},
	SetFeature: {
		changes:  true,
		validate: validateFeature,
		command: func(r Request) nvmecli.Command {
			const save = 1 << 31
			return nvmecli.Command{Opcode: setFeatures, CDW: [6]uint32{uint32(r.Feature) | save, r.Value}}
		},
	},
	HostMetadata: {
		validate: validateMetadata,
		command: func(r Request) nvmecli.Command {
			return nvmecli.Command{
				Opcode: getFeatures, NSID: r.NSID, CDW: [6]uint32{uint32(r.Feature)}, Receives: metadataSize,
			}
		},
	},
	DeleteMetadata: {
		changes:  true,
		validate: validateMetadata,
		command: func(r Request) nvmecli.Command {
			const deleteEntries = 1 << 13 // Element Action
			return nvmecli.Command{
				Opcode: setFeatures, NSID: r.NSID, CDW: [6]uint32{uint32(r.Feature), deleteEntries}, Sends: metadataSize,
			}
		},
		data: func(r Request) []byte {
			one := make([]byte, metadataSize)
			one[0], one[2] = 1, r.Element // one descriptor, without a value
			return one
		},
	},
	// Write protection is not among Features, because it is per namespace and not saved.
	Unprotect: {
		changes:  true,
		validate: validateOneNamespace,
		command: func(r Request) nvmecli.Command {
			return nvmecli.Command{Opcode: setFeatures, NSID: r.NSID, CDW: [6]uint32{uint32(writeProtection)}}
		},
	},
	Sanitize: {
		changes: true,
		validate: func(r Request) string {
			if r.Action != CryptoErase && r.Action != BlockErase {
				return fmt.Sprintf("action %d is not an erase", r.Action)
			}
			return ""
		},
		command: func(r Request) nvmecli.Command {
			return nvmecli.Command{Opcode: sanitize, CDW: [6]uint32{uint32(r.Action)}}
		},
	},
	ExitMediaVerification: {changes: true, command: func(Request) nvmecli.Command {
		return nvmecli.Command{Opcode: sanitize, CDW: [6]uint32{exitMediaVerification}}
	}},
	DeleteNamespaces: {changes: true, command: func(Request) nvmecli.Command {
		const deletes = 1
		return nvmecli.Command{Opcode: namespaceManagement, NSID: AllNamespaces, CDW: [6]uint32{deletes}}
	}},
	CreateNamespace: {
		changes: true,
		validate: func(r Request) string {
			const formats = 64
			if r.Blocks == 0 || r.Format >= formats {
				return fmt.Sprintf("a namespace cannot have %d blocks of format %d", r.Blocks, r.Format)
			}
			return ""
		},
		command: func(Request) nvmecli.Command {
			return nvmecli.Command{Opcode: namespaceManagement, Sends: nvmecli.IdentifySize}
		},
		data: func(r Request) []byte {
			n := make([]byte, nvmecli.IdentifySize)
			binary.LittleEndian.PutUint64(n, r.Blocks)     // NSZE
			binary.LittleEndian.PutUint64(n[8:], r.Blocks) // NCAP
			n[26] = r.Format&0xf | r.Format>>4<<5          // FLBAS: bits 3:0, and 5:4 in its bits 6:5
			return n
		},
	},
	AttachNamespace: {
		changes:  true,
		validate: validateOneNamespace,
		command: func(r Request) nvmecli.Command {
			return nvmecli.Command{Opcode: namespaceAttachment, NSID: r.NSID, Sends: nvmecli.IdentifySize}
		},
		data: func(r Request) []byte {
			list := make([]byte, nvmecli.IdentifySize)
			list[0] = 1 // one controller
			binary.LittleEndian.PutUint16(list[2:], r.Controller)
			return list
		},
	},
	Rescan: {changes: true, noNamespaces: true, words: func(Request) []string { return []string{"ns-rescan"} }},
	Reset:  wordsVerb("reset"),
	// A reset of the subsystem resets each of its controllers: a driver refuses a drive that
	// has another one (F12).
	SubsystemReset: wordsVerb("subsystem-reset"),
	// A download changes nothing that a tenant sees. It always begins at the image's start.
	DownloadFirmware: {
		changes: true, image: true,
		validate: func(r Request) string {
			if r.Transfer == 0 || r.Transfer%MinTransfer != 0 || r.Transfer > maxTransfer {
				return fmt.Sprintf("%d is not a size of transfers", r.Transfer)
			}
			if r.Digest == [sha256.Size]byte{} {
				return "an image needs its digest"
			}
			return ""
		},
		words: func(r Request) []string {
			return []string{"fw-download", "--fw=/dev/stdin", fmt.Sprintf("--xfer=%d", r.Transfer), "--offset=0"}
		},
	},
	// The slot is always named. The image is activated by the next reset, never at once.
	CommitFirmware: {
		changes: true,
		validate: func(r Request) string {
			if r.Slot == 0 || r.Slot > FirmwareSlots {
				return fmt.Sprintf("there is no firmware slot %d", r.Slot)
			}
			return ""
		},
		command: func(r Request) nvmecli.Command {
			return nvmecli.Command{Opcode: firmwareCommit, CDW: [6]uint32{uint32(r.Slot) | replaceAtNextReset<<3}}
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

// spec finds the specification of the request's verb, and refuses a request with invalid numbers.
func (r Request) spec(changes bool) (verbSpec, error) {
	k, known := verbSpecs[r.Verb]
	if !known {
		return verbSpec{}, invalidRequest("there is no verb %q", r.Verb)
	}
	if k.changes != changes {
		return verbSpec{}, invalidRequest("the verb %q needs the other method: Read or Change", r.Verb)
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
	return &device.Fault{Class: device.Permanent, Code: device.CodeInternal, Message: fmt.Sprintf(format, args...),
		Remedy: "report this bug: nothing was done"}
}
