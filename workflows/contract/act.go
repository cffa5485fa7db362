package contract

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"burnish/internal/device"
)

// Caller is who sends an update, and from where. The HTTP API sets both from what it has
// authenticated and from the connection; the command line sets By to user@host. Without the
// API both are the sender's own claim, because any client of the namespace may send them.
type Caller struct {
	By   string `json:"by,omitempty"`
	From string `json:"from,omitempty"`
}

// act is the Act of an input: who asks, from where, why, and for what beyond its update's name.
func (c Caller) act(reason, detail string) Act {
	return Act{By: c.By, From: c.From, Reason: reason, Detail: detail}
}

// Input is the input of an update of a device: it says who sends it, why, and with what
// choices.
type Input interface{ Act() Act }

// What an act says of who did it, where no person did, or none is known. A signal of Temporal's
// own tools says nothing of who sent it: By is "" then.
const (
	ByBurnish  = "burnish"
	FromSignal = "signal"
	FromCancel = "cancel"
)

// Act is an update, or a signal clean, that a device accepted and that changed something; or
// what Burnish itself did to it, as by a poll of its pool.
type Act struct {
	At   time.Time `json:"at"`
	Verb string    `json:"verb"` // the update's name, or the event's
	// Detail is what the verb alone does not say, such as off for power and maintain.
	Detail string `json:"detail,omitempty"`
	By     string `json:"by,omitempty"`
	From   string `json:"from,omitempty"`
	Reason string `json:"reason,omitempty"`
	// Request is the update's ID.
	Request string `json:"request,omitempty"`
	// Fault is why the act failed after it was accepted.
	Fault device.Code `json:"fault,omitempty"`
}

// Bounds of an ActLog: the number of acts, and the bytes of each text but the request.
const (
	KeptActs    = 20
	KeptActText = 200
)

// ActLog contains the last acts, the latest last, within the bounds above.
type ActLog []Act

// With returns the log with one more act.
func (l ActLog) With(a Act) ActLog {
	for _, text := range []*string{&a.Detail, &a.By, &a.From, &a.Reason} {
		*text = cut(*text)
	}
	return append(slices.Clone(l[max(len(l)+1-KeptActs, 0):]), a)
}

// After returns the log with acts of earlier times before its own, as many as there is room for. What was asked by
// their requests is not known again.
func (l ActLog) After(earlier []Act) ActLog {
	var all ActLog
	for _, a := range earlier {
		a.Request = ""
		all = all.With(a)
	}
	for _, a := range l {
		all = all.With(a)
	}
	return all
}

// Without returns the log without the act of a request.
func (l ActLog) Without(request string) ActLog {
	return slices.DeleteFunc(slices.Clone(l), func(a Act) bool { return a.Request == request })
}

// Failed returns the log in which the act of a request has failed.
func (l ActLog) Failed(request string, fault device.Code) ActLog {
	l = slices.Clone(l)
	for i := range l {
		if l[i].Request == request {
			l[i].Fault = fault
		}
	}
	return l
}

// cut gives a text on one line, valid and within KeptActText.
func cut(text string) string { return cutTo(text, KeptActText) }

func cutTo(text string, limit int) string {
	const more = "…"
	text = strings.ToValidUTF8(strings.Join(strings.Fields(text), " "), "\uFFFD")
	if len(text) <= limit {
		return text
	}
	end := limit - len(more)
	for !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + more
}

// RequestID is the ID of an update whose sender repeats its requests: key is the same for
// each repetition, body is what it asks for. A device refuses another body under a key that
// it knows, with CodeRequestReused.
func RequestID(key string, body []byte) string {
	sum := sha256.Sum256(body)
	return key + requestMark + hex.EncodeToString(sum[:8])
}

// OtherBody says that two IDs of RequestID have one key and two bodies.
func OtherBody(a, b string) bool {
	keyA, bodyA, okA := strings.Cut(a, requestMark)
	keyB, bodyB, okB := strings.Cut(b, requestMark)
	return okA && okB && keyA == keyB && bodyA != bodyB
}

// requestMark separates the key of a RequestID from the digest of its body.
const requestMark = "#"

// Act says what the input asks for beyond its update's name, and why; so for the other inputs.
func (in ReasonInput) Act() Act      { return in.act(in.Reason, "") }
func (in TenantInput) Act() Act      { return in.act(in.Reason, "") }
func (in RetireInput) Act() Act      { return in.act(in.Reason, wordIf(in.Lost, "lost")) }
func (in ReplaceInput) Act() Act     { return in.act(in.Reason, wordIf(in.Provide, "provide")) }
func (in MoveInput) Act() Act        { return in.act(in.Reason, "to "+in.Enrollment.Name) }
func (in MaintenanceInput) Act() Act { return in.act(in.Reason, wordIf(in.Off, "off")) }
func (in LabelInput) Act() Act       { return in.act(in.Reason, in.Text()) }
func (in PowerInput) Act() Act       { return in.act(in.Reason, in.Target) }
func (in BindInput) Act() Act        { return in.act(in.Reason, in.Instance) }
func (in UnbindInput) Act() Act      { return in.act(in.Reason, in.Instance) }
func (in ImportHistoryInput) Act() Act {
	return in.act(in.Reason, fmt.Sprintf("%d cleans, %d acts", len(in.Cleans), len(in.Acts)))
}
func (in ResumeInput) Act() Act { return in.act(in.Reason, in.Step+" on "+in.Model) }

func (in EnrollInput) Act() Act {
	return in.act(in.Reason, cmp.Or(wordIf(in.Import, "import"), wordIf(in.Provide, "provide")))
}

func (in CleanInput) Act() Act {
	return in.act(in.Reason, cmp.Or(wordIf(in.Runbook != "", "runbook "+in.Runbook),
		wordIf(len(in.Steps) > 0, "steps "+strings.Join(in.Steps, ","))))
}

func (in OverrideInput) Act() Act {
	return in.act(in.Reason, wordIf(in.Approve != "", "approve "+in.Approve))
}

func (in InstanceBindInput) Act() Act   { return in.act(in.Reason, "") }
func (in InstanceDetachInput) Act() Act { return in.act(in.Reason, "") }
func (in InstanceMoveInput) Act() Act   { return in.act(in.Reason, "to "+in.To) }

func wordIf(is bool, word string) string {
	if is {
		return word
	}
	return ""
}
