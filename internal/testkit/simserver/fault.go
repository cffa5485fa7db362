package simserver

import (
	"net/http"
	"slices"
	"time"
)

// FaultKind is what goes wrong.
type FaultKind string

// The kinds of faults. Before: the request has no effect. After: it has its effect, and the
// client gets no answer. A GET that is cut off on a connection that was used before is
// repeated by Go's client itself: such a test needs Times, or no kept connections.
const (
	CutBefore    FaultKind = "cut before"
	CutAfter     FaultKind = "cut after"
	CutUpload    FaultKind = "cut in the request" // whose body is received in half; it is in no log
	CutWithin    FaultKind = "cut in the answer"  // in the middle of its body
	Garbled      FaultKind = "garbled"            // the answer's body is no JSON
	HangBefore   FaultKind = "hang before"        // no answer until the client goes away
	HangAfter    FaultKind = "hang after"
	ExitBefore   FaultKind = "exit before" // the process ends at once; without one, as a restart or a cut
	ExitAfter    FaultKind = "exit after"
	SlowBefore   FaultKind = "slow before"   // by Fault.For
	SlowAfter    FaultKind = "slow after"    // the act, and then the answer after Fault.For
	HoldAfter    FaultKind = "hold after"    // the act, and the answer when the faults are cleared
	Respond      FaultKind = "respond"       // Status, Header and Body, without an effect
	RespondAfter FaultKind = "respond after" // the same instead of the true answer

	// Those of a BMC.
	RestartBefore FaultKind = "BMC restarts before"
	RestartAfter  FaultKind = "BMC restarts after"

	// Those of an appliance. Other users act right before the request is carried out, or right
	// after: a profile's task has then not begun yet, and finds what they did.
	ForTask    FaultKind = "task"       // the task of the request goes as Fault.Task says
	OtherHost  FaultKind = "other host" // the Location is on another host
	TakeBefore FaultKind = "taken before"
	TakeAfter  FaultKind = "taken after"
	FreeBefore FaultKind = "freed before"
	FreeAfter  FaultKind = "freed after"
)

// Fault is something that goes wrong with a request: with the request of that number, or with
// those that User, Method and Path match. Several may concern one request, but only one of those
// that leave no true answer.
type Fault struct {
	Number int    // of the request, from 1; see Count
	User   string // of the session; empty: any, and also none
	Method string // empty: any
	Path   string // also with the query; * stands for any characters; empty: any
	Skip   int    // as many that match go well first
	Times  int    // how many go wrong; 0: one, negative: all

	Kind   FaultKind
	Status int
	Header map[string]string
	Body   string
	For    time.Duration
	Server string // that is taken or freed
	Task   TaskFault
	// Then is called when it happens: the request had its effect, or not, and has no answer yet.
	Then func() `json:"-"`

	went int // wrong so far
}

// TaskFault is how a task goes wrong.
type TaskFault struct {
	Ends   string // Completed, Warning, Error, Terminated, Killed; empty: as it should
	Effect Effect // empty: Done of Warning and Completed, else HalfDone
	// Shows is the state as long as the task runs: Pending, Suspended, Stopping, Interrupted,
	// Unknown or another one; empty: New, Starting, Running.
	Shows    string
	Stalls   bool // it never ends, unless it is resumed
	Vanishes bool // 404; what it does, it does
}

// Effect is what a task has done when it ends otherwise than it should.
type Effect string

// Inject adds a fault. Faults are asked in the order in which they were added.
func (c *Core[C, S]) Inject(f Fault) {
	c.Mu.Lock()
	defer c.Mu.Unlock()
	c.faults = append(c.faults, &f)
}

// ClearFaults takes all faults back.
func (c *Core[C, S]) ClearFaults() {
	c.Mu.Lock()
	defer c.Mu.Unlock()
	c.faults = nil
	close(c.cleared)
	c.cleared = make(chan struct{})
}

func (f *Fault) before() bool {
	return slices.Contains([]FaultKind{CutUpload, CutBefore, HangBefore, ExitBefore, RestartBefore, Respond}, f.Kind)
}

// ends is true of a fault that leaves no true answer.
func (f *Fault) ends() bool {
	return f.before() ||
		slices.Contains([]FaultKind{CutAfter, CutWithin, Garbled, HangAfter, ExitAfter, RestartAfter, RespondAfter}, f.Kind)
}

// matches is true where f concerns a request.
func (f *Fault) matches(entry *Request, r *http.Request) bool {
	return (f.Number == 0 || f.Number == entry.Number) && (f.User == "" || f.User == entry.User) &&
		(f.Method == "" || f.Method == r.Method) &&
		(f.Path == "" || glob(f.Path, r.URL.Path) || glob(f.Path, r.URL.RequestURI()))
}

// strike are the faults of a request, each of which has gone wrong once more, and the one of them
// that leaves no true answer.
func (c *Core[C, S]) strike(entry *Request, r *http.Request) (all []*Fault, ends *Fault) {
	for _, f := range c.faults {
		switch {
		case f.Kind == CutUpload, ends != nil && f.ends(), !f.matches(entry, r):
		case f.Skip > 0:
			f.Skip--
		case f.Times >= 0 && f.went >= max(1, f.Times):
		default:
			f.went++
			all = append(all, f)
			if f.ends() {
				ends = f
			}
		}
	}
	return all, ends
}

// cutsUpload is true where the connection is to be cut in the middle of this request's body.
func (c *Core[C, S]) cutsUpload(r *http.Request) bool {
	c.Mu.Lock()
	defer c.Mu.Unlock()
	for i, f := range c.faults {
		if f.Kind == CutUpload && f.matches(&Request{}, r) {
			c.faults = slices.Delete(c.faults, i, i+1)
			return true
		}
	}
	return false
}
