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
	LevelZero           Verb = "level-0"
	DefaultFeature      Verb = "default-feature"
	SavedFeature        Verb = "saved-feature"
	HostMetadata        Verb = "host-metadata"
)

// The verbs that change the drive, or what the kernel shows of it.
const (
	SetFeature        Verb = "set-feature"
	ForgetMetadata    Verb = "forget-metadata"
	Unprotect         Verb = "unprotect"
	Sanitize          Verb = "sanitize"
	LeaveVerification Verb = "leave-verification"
	DeleteNamespaces  Verb = "delete-namespaces"
	CreateNamespace   Verb = "create-namespace"
	AttachNamespace   Verb = "attach-namespace"
	Rescan            Verb = "rescan"
	Reset             Verb = "reset"
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
	// leave is the action that ends the media verification state.
	leave = 5
)

// Every namespace, where a number is asked for.
const Every uint32 = 0xffffffff

// LevelZeroSize is how many bytes LevelZero gives at its output's end.
const LevelZeroSize = 2048

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

// kind is what one verb is.
type kind struct {
	changes bool
	// bare: it reaches no namespace's bytes, and none need be held for it.
	bare bool
	// takes gives the numbers that the verb takes, and nothing else.
	takes func(r Request) Request
	// wrong says what is wrong with them, "" where nothing is.
	wrong func(r Request) string
	// line is the command of nvme-cli, without the controller, which is its second word.
	line func(r Request) []string
	// data is what the command sends to the drive; nvme-cli takes it from its stdin.
	data func(r Request) []byte
}

const asJSON = "--output-format=json"

// plain is a verb without numbers.
func plain(words ...string) kind {
	return kind{line: func(Request) []string { return words }}
}

// changing is a verb without numbers that changes something.
func changing(words ...string) kind {
	k := plain(words...)
	k.changes = true
	return k
}

func number[T uint8 | uint16 | uint32 | uint64](option string, n T) string {
	return "--" + option + "=" + strconv.FormatUint(uint64(n), 10)
}

func featureOnly(r Request) Request { return Request{Feature: r.Feature} }

func wrongFeature(r Request) string {
	if !slices.Contains(Features(), r.Feature) {
		return fmt.Sprintf("feature 0x%02x is none of those that are put back", r.Feature)
	}
	return ""
}

func feature(which string) kind {
	return kind{takes: featureOnly, wrong: wrongFeature, line: func(r Request) []string {
		return []string{"get-feature", number("feature-id", r.Feature), "--sel=" + which}
	}}
}

// kinds is every verb there is.
var kinds = map[Verb]kind{
	IdentifyController:  plain("id-ctrl", asJSON),
	ActiveNamespaces:    plain("list-ns", asJSON),
	AllocatedNamespaces: plain("list-ns", "--all", asJSON),
	Controllers:         plain("list-ctrl", asJSON),
	SanitizeLog:         plain("sanitize-log", asJSON),
	SanitizeState:       plain("get-log", "--log-id=0x81", "--log-len=512", "--raw-binary"),
	Health:              plain("smart-log", asJSON),
	Firmware:            plain("fw-log", asJSON),
	LevelZero:           plain("security-recv", "--secp=1", "--spsp=1", number("size", uint32(LevelZeroSize)), number("al", uint32(LevelZeroSize)), "--raw-binary"),
	DefaultFeature:      feature("1"),
	SavedFeature:        feature("2"),
	IdentifyNamespace: {
		takes: func(r Request) Request { return Request{NSID: r.NSID, Detached: r.Detached} },
		wrong: wrongNamespace,
		line: func(r Request) []string {
			words := []string{"id-ns", number("namespace-id", r.NSID), asJSON}
			if r.Detached {
				words = append(words, "--force")
			}
			return words
		},
	},
	SetFeature: {
		changes: true,
		takes:   func(r Request) Request { return Request{Feature: r.Feature, Value: r.Value} },
		wrong:   wrongFeature,
		line: func(r Request) []string {
			return []string{"set-feature", number("feature-id", r.Feature), number("value", r.Value), "--save"}
		},
	},
	HostMetadata: {
		takes: func(r Request) Request { return Request{Feature: r.Feature, NSID: r.NSID} },
		wrong: wrongMetadata,
		line:  func(r Request) []string { return append([]string{"get-feature"}, metadata(r, "--raw-binary")...) },
	},
	ForgetMetadata: {
		changes: true,
		takes:   func(r Request) Request { return Request{Feature: r.Feature, NSID: r.NSID, Element: r.Element} },
		wrong:   wrongMetadata,
		line: func(r Request) []string {
			const deleteEntries = 1 << 13 // dword 11, Element Action
			return append([]string{"set-feature"}, metadata(r, number("value", uint32(deleteEntries)))...)
		},
		data: func(r Request) []byte {
			one := make([]byte, MetadataSize)
			one[0], one[2] = 1, r.Element // one descriptor, without a value
			return one
		},
	},
	// The write protection of one namespace, which is not among Features: it has a namespace
	// and is never saved.
	Unprotect: {
		changes: true,
		takes:   func(r Request) Request { return Request{NSID: r.NSID} },
		wrong:   wrongOne,
		line: func(r Request) []string {
			return []string{"set-feature", number("feature-id", writeProtection), number("namespace-id", r.NSID), "--value=0"}
		},
	},
	Sanitize: {
		changes: true,
		takes:   func(r Request) Request { return Request{Action: r.Action} },
		wrong: func(r Request) string {
			if r.Action != CryptoErase && r.Action != BlockErase {
				return fmt.Sprintf("action %d is no erase", r.Action)
			}
			return ""
		},
		line: func(r Request) []string { return []string{"sanitize", number("sanact", r.Action)} },
	},
	// nvme sanitize itself refuses this action in the versions that are about.
	LeaveVerification: changing("admin-passthru", "--opcode=0x84", number("cdw10", uint32(leave))),
	DeleteNamespaces:  changing("delete-ns", "--namespace-id=0xffffffff"),
	CreateNamespace: {
		changes: true,
		takes:   func(r Request) Request { return Request{Blocks: r.Blocks, Format: r.Format} },
		wrong: func(r Request) string {
			const formats = 64
			if r.Blocks == 0 || r.Format >= formats {
				return fmt.Sprintf("no namespace has %d blocks of format %d", r.Blocks, r.Format)
			}
			return ""
		},
		line: func(r Request) []string {
			return []string{"create-ns", number("nsze", r.Blocks), number("ncap", r.Blocks), number("flbas", r.Format)}
		},
	},
	AttachNamespace: {
		changes: true,
		takes:   func(r Request) Request { return Request{NSID: r.NSID, Controller: r.Controller} },
		wrong:   wrongOne,
		line: func(r Request) []string {
			return []string{"attach-ns", number("namespace-id", r.NSID), number("controllers", r.Controller)}
		},
	},
	Rescan: {changes: true, bare: true, line: func(Request) []string { return []string{"ns-rescan"} }},
	Reset:  changing("reset"),
}

// metadata are the options that name host metadata, and one more.
func metadata(r Request, more string) []string {
	words := []string{number("feature-id", r.Feature), number("data-len", uint32(MetadataSize)), more}
	if r.NSID != 0 {
		words = append(words, number("namespace-id", r.NSID))
	}
	return words
}

func wrongMetadata(r Request) string {
	const types = 64
	switch {
	case r.Element >= types:
		return fmt.Sprintf("no element is of type %d", r.Element)
	case r.Feature == NamespaceMetadata:
		return wrongOne(r)
	case r.Feature != EnhancedControllerMetadata && r.Feature != ControllerMetadata:
		return fmt.Sprintf("feature 0x%02x is no host metadata", r.Feature)
	case r.NSID != 0:
		return "a controller's metadata has no namespace"
	}
	return ""
}

func wrongNamespace(r Request) string {
	if r.NSID == 0 {
		return "0 is no namespace"
	}
	return ""
}

func wrongOne(r Request) string {
	if r.NSID == Every {
		return "it is for one namespace, not all"
	}
	return wrongNamespace(r)
}

// check finds the kind of a request, and refuses one that says more, or other, than its
// verb takes.
func (r Request) check(changes bool) (kind, error) {
	k, known := kinds[r.Verb]
	if !known {
		return kind{}, refuse("there is no verb %q", r.Verb)
	}
	if k.changes != changes {
		return kind{}, refuse("the verb %q is asked for in the wrong way", r.Verb)
	}
	taken := Request{}
	if k.takes != nil {
		taken = k.takes(r)
	}
	if taken.Verb = r.Verb; taken != r {
		return kind{}, refuse("the verb %q is given numbers that it does not take", r.Verb)
	}
	if k.wrong != nil {
		if why := k.wrong(r); why != "" {
			return kind{}, refuse("the verb %q: %s", r.Verb, why)
		}
	}
	return k, nil
}

// refuse is the fault of a request that is never carried out: no driver makes it.
func refuse(format string, args ...any) *device.Fault {
	return &device.Fault{Class: device.Permanent, Code: device.CodeInternal, Message: fmt.Sprintf(format, args...), Remedy: "report it: nothing was done"}
}
