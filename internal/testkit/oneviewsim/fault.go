package oneviewsim

import (
	"net/http"
	"time"

	"burnish/internal/testkit/simserver"
)

// FaultKind is what goes wrong.
type FaultKind string

// The kinds of faults. Before: the request has no effect. After: it has its effect, and the
// client gets no answer. A GET that is cut off on a connection that was used before is
// repeated by Go's client itself: such a test needs Times, or no kept connections.
const (
	CutBefore    FaultKind = "cut before"
	CutAfter     FaultKind = "cut after"
	CutWithin    FaultKind = "cut within" // the connection ends in the middle of the answer's body
	Garbled      FaultKind = "garbled"    // the answer's body is no JSON
	HangBefore   FaultKind = "hang before"
	HangAfter    FaultKind = "hang after"
	ExitBefore   FaultKind = "exit before" // the process ends at once; without one, as CutBefore
	ExitAfter    FaultKind = "exit after"
	SlowBefore   FaultKind = "slow before"   // by Fault.For
	SlowAfter    FaultKind = "slow after"    // the act, and then the answer after Fault.For
	HoldAfter    FaultKind = "hold after"    // the act, and the answer when the faults are cleared
	Respond      FaultKind = "respond"       // Status, Header and Body, without an effect
	RespondAfter FaultKind = "respond after" // the same instead of the true answer
	ForTask      FaultKind = "task"          // the task of the request goes as Fault.Task says
	OtherHost    FaultKind = "other host"    // the Location is on Config.ForeignHost

	// Other users act right before the request is carried out, or right after. A profile's
	// task has then not begun yet: it finds what they did.
	TakeBefore FaultKind = "taken before"
	TakeAfter  FaultKind = "taken after"
	FreeBefore FaultKind = "freed before"
	FreeAfter  FaultKind = "freed after"
)

// Fault is something that goes wrong with a request: with the request of that number, or with
// those that User, Method and Path match. Several faults may concern one request.
type Fault struct {
	Number int    // of the request, from 1; see Appliance.Count
	User   string // of the session; empty: any, and also none
	Method string // empty: any
	Path   string // with the query, if any; * stands for any characters; empty: any
	Skip   int    // as many that match go well first
	Times  int    // how many go wrong; 0: one, negative: all

	Kind   FaultKind
	Status int
	Header map[string]string
	Body   string
	For    time.Duration
	Server string // that is taken or freed
	Task   TaskFault

	went int // wrong so far
}

func respond(f Fault, status int, p Problem) Fault {
	f.Kind, f.Status, f.Body = Respond, status, encode(refuse(status, p).body)
	return f
}

// Unauthorized is a fault whose answer is 401, Conflict 409, Mismatch 412, Unavailable 503.
func Unauthorized(f Fault) Fault {
	f = respond(f, http.StatusUnauthorized, Problem{})
	f.Body = encode(unauthorized().body)
	return f
}

// Conflict is a fault whose answer is 409.
func Conflict(f Fault) Fault {
	return respond(f, http.StatusConflict, problem("RESOURCE_LOCKED", "The resource is locked in a transitory state.",
		"Another operation is in progress.", "Retry the operation later."))
}

// Mismatch is a fault whose answer is 412.
func Mismatch(f Fault) Fault {
	return respond(f, http.StatusPreconditionFailed, problem("ETAG_MISMATCH", "The resource was changed by another user.",
		"The ETag does not match that of the resource.", "Read the resource and retry the operation."))
}

// Unavailable is a fault whose answer is 503.
func Unavailable(f Fault) Fault {
	f = respond(f, http.StatusServiceUnavailable,
		problem("SERVICE_UNAVAILABLE", "The appliance is temporarily unable to handle the request.", "",
			"Retry the operation later."))
	f.Header = map[string]string{"Retry-After": "1"}
	return f
}

// Inject adds a fault. Faults are asked in the order in which they were added.
func (a *Appliance) Inject(f Fault) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.faults = append(a.faults, &f)
}

// ClearFaults takes all faults back.
func (a *Appliance) ClearFaults() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.faults = nil
	close(a.cleared)
	a.cleared = make(chan struct{})
}

// matching are the faults of a request, each of which has gone wrong once more.
func (a *Appliance) matching(number int, user string, r *http.Request) []*Fault {
	var all []*Fault
	for _, f := range a.faults {
		if f.Number != 0 && f.Number != number || f.User != "" && f.User != user || f.Method != "" && f.Method != r.Method {
			continue
		}
		if f.Path != "" && !simserver.Glob(f.Path, r.URL.Path) && !simserver.Glob(f.Path, r.URL.RequestURI()) {
			continue
		}
		if f.Skip > 0 {
			f.Skip--
			continue
		}
		if f.Times >= 0 && f.went >= max(1, f.Times) {
			continue
		}
		f.went++
		all = append(all, f)
	}
	return all
}
