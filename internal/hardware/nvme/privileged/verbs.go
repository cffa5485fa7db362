// Package privileged is all that the driver nvme does with a controller's node and with
// the binding of PCI functions: the part of it that needs root (S2.67). What may be
// asked of it is a verb with numbers; no text of the caller's ever becomes part of a
// command line. [Local] acts in this process, which then must be root; [Remote] has a
// helper act, which [Server] is the other end of, and needs no privilege itself. Both
// keep a controller's node open from before its identity is looked at until after the
// last command (SAFETY F11), and children have the descriptors of those they work for
// as long as they live (F1, F12).
package privileged

import (
	"fmt"
	"slices"
	"strconv"

	"burnish/internal/device"
)

// Verb is one thing that may be asked of a controller.
type Verb string

// The verbs that only read.
const (
	IdentifyController  Verb = "identify-controller"
	ActiveNamespaces    Verb = "active-namespaces"
	AllocatedNamespaces Verb = "allocated-namespaces"
	IdentifyNamespace   Verb = "identify-namespace"
	Controllers         Verb = "controllers"
	SanitizeLog         Verb = "sanitize-log"
	SanitizeState       Verb = "sanitize-state"
	Health              Verb = "health"
	Firmware            Verb = "firmware"
	OpalLevel0Discovery Verb = "level-0"
	DefaultFeature      Verb = "default-feature"
	SavedFeature        Verb = "saved-feature"
	HostMetadata        Verb = "host-metadata"
)

// The verbs that change the drive, or what the kernel shows of it.
const (
	SetFeature            Verb = "set-feature"
	DeleteMetadata        Verb = "forget-metadata"
	Unprotect             Verb = "unprotect"
	Sanitize              Verb = "sanitize"
	ExitMediaVerification Verb = "leave-verification"
	DeleteNamespaces      Verb = "delete-namespaces"
	CreateNamespace       Verb = "create-namespace"
	AttachNamespace       Verb = "attach-namespace"
	Rescan                Verb = "rescan"
	Reset                 Verb = "reset"
)

// Request is a verb with the numbers that it takes; all others are zero.
type Request struct {
	Verb Verb `json:"verb"`
	// NSID is a namespace's number, Detached whether one that is not attached may be
	// asked for.
	NSID     uint32 `json:"nsid,omitempty"`
	Detached bool   `json:"detached,omitempty"`
	// Feature is one of Features, Value what it shall be; of host metadata it is one of
	// those, and Element the type of what is forgotten.
	Feature uint8  `json:"feature,omitempty"`
	Value   uint32 `json:"value,omitempty"`
	Element uint8  `json:"element,omitempty"`
	// Action is CryptoErase or BlockErase.
	Action uint8 `json:"action,omitempty"`
	// Blocks is the size of a namespace, Format the number of its LBA format.
	Blocks uint64 `json:"blocks,omitempty"`
	Format uint8  `json:"format,omitempty"`
	// Controller is the controller's own number.
	Controller uint16 `json:"controller,omitempty"`
}

// The sanitize actions: dword 10 of the command, with every other bit clear. AUSE,
// which would let a failed sanitize be left, is never set (SAFETY F12).
const (
	BlockErase  = 2
	CryptoErase = 4
	// exitMediaVerification is the action that ends the media verification state.
	exitMediaVerification = 5
)

// AllNamespaces namespace, where a number is asked for.
const AllNamespaces uint32 = 0xffffffff

// OpalLevel0Size is how many bytes LevelZero gives at its output's end.
const OpalLevel0Size = 2048

// Features are those that may be read and set: they outlast a tenant, and need no data
// and no namespace. Arbitration, power management, write cache, thermal management.
func Features() []uint8 { return []uint8{0x01, 0x02, 0x06, 0x10} }

// The host metadata: what a host may write into a controller, and into a namespace, for
// whoever asks over the drive's own management interface.
const (
	EnhancedControllerMetadata uint8 = 0x7d
	ControllerMetadata         uint8 = 0x7e
	NamespaceMetadata          uint8 = 0x7f
)

// MetadataSize is how many bytes HostMetadata gives at its output's end.
const MetadataSize = 4096

// writeProtection is the feature that Unprotect sets to none.
const writeProtection uint8 = 0x84

// verbSpec is what one verb is.
type verbSpec struct {
	changes bool
	// noNamespaces: it reaches no namespace's bytes, and none need be held for it.
	noNamespaces bool
	// fields gives the numbers that the verb takes, and nothing else.
	fields func(r Request) Request
	// validate says what is wrong with them, "" where nothing is.
	validate func(r Request) string
	// argv is the command of nvme-cli, without the controller, which is its second word.
	argv func(r Request) []string
	// stdin is what the command sends to the drive; nvme-cli takes it from its stdin.
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
		return fmt.Sprintf("feature 0x%02x is none of those that are put back", r.Feature)
	}
	return ""
}

func featureVerb(which string) verbSpec {
	return verbSpec{fields: featureOnly, validate: validateFeature, argv: func(r Request) []string {
		return []string{"get-feature", numberOption("feature-id", r.Feature), "--sel=" + which}
	}}
}

// verbSpecs is every verb there is.
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
	// The write protection of one namespace, which is not among Features: it has a namespace
	// and is never saved.
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
				return fmt.Sprintf("action %d is no erase", r.Action)
			}
			return ""
		},
		argv: func(r Request) []string { return []string{"sanitize", numberOption("sanact", r.Action)} },
	},
	// nvme sanitize itself refuses this action in the versions that are about.
	ExitMediaVerification: changeVerb("admin-passthru", "--opcode=0x84", numberOption("cdw10", uint32(exitMediaVerification))),
	DeleteNamespaces:      changeVerb("delete-ns", "--namespace-id=0xffffffff"),
	CreateNamespace: {
		changes: true,
		fields:  func(r Request) Request { return Request{Blocks: r.Blocks, Format: r.Format} },
		validate: func(r Request) string {
			const formats = 64
			if r.Blocks == 0 || r.Format >= formats {
				return fmt.Sprintf("no namespace has %d blocks of format %d", r.Blocks, r.Format)
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
}

// metadataOptions are the options that name host metadata, and one more.
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
		return fmt.Sprintf("no element is of type %d", r.Element)
	case r.Feature == NamespaceMetadata:
		return validateOneNamespace(r)
	case r.Feature != EnhancedControllerMetadata && r.Feature != ControllerMetadata:
		return fmt.Sprintf("feature 0x%02x is no host metadata", r.Feature)
	case r.NSID != 0:
		return "a controller's metadata has no namespace"
	}
	return ""
}

func validateNamespace(r Request) string {
	if r.NSID == 0 {
		return "0 is no namespace"
	}
	return ""
}

func validateOneNamespace(r Request) string {
	if r.NSID == AllNamespaces {
		return "it is for one namespace, not all"
	}
	return validateNamespace(r)
}

// spec finds the kind of a request, and refuses one that says more, or other, than its
// verb takes.
func (r Request) spec(changes bool) (verbSpec, error) {
	k, known := verbSpecs[r.Verb]
	if !known {
		return verbSpec{}, invalidRequest("there is no verb %q", r.Verb)
	}
	if k.changes != changes {
		return verbSpec{}, invalidRequest("the verb %q is asked for in the wrong way", r.Verb)
	}
	taken := Request{}
	if k.fields != nil {
		taken = k.fields(r)
	}
	if taken.Verb = r.Verb; taken != r {
		return verbSpec{}, invalidRequest("the verb %q is given numbers that it does not take", r.Verb)
	}
	if k.validate != nil {
		if why := k.validate(r); why != "" {
			return verbSpec{}, invalidRequest("the verb %q: %s", r.Verb, why)
		}
	}
	return k, nil
}

// invalidRequest is the fault of a request that is never carried out: no driver makes it.
func invalidRequest(format string, args ...any) *device.Fault {
	return &device.Fault{Class: device.Permanent, Code: device.CodeInternal, Message: fmt.Sprintf(format, args...), Remedy: "report it: nothing was done"}
}
