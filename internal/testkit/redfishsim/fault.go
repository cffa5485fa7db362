package redfishsim

import (
	"net/http"
	"strings"

	"burnish/internal/testkit/simserver"
)

// FaultKind is what goes wrong.
type FaultKind string

// The kinds of faults. Before: the request has no effect. After: it has its effect, and
// the client gets no answer. A GET that is cut off on a connection that was used before is
// repeated by Go's client itself: such a test needs Times, or no kept connections.
const (
	CutBefore     FaultKind = "cut before"
	CutAfter      FaultKind = "cut after"
	CutWithin     FaultKind = "cut within" // the body, of which the BMC has got a half; it is in no log
	RestartBefore FaultKind = "BMC restarts before"
	RestartAfter  FaultKind = "BMC restarts after"
	ExitBefore    FaultKind = "exit before" // the process ends at once; without one, as RestartBefore
	ExitAfter     FaultKind = "exit after"
	HangBefore    FaultKind = "hang before" // no answer until the client goes away
	HangAfter     FaultKind = "hang after"
	HoldAfter     FaultKind = "hold after"    // the answer comes when the faults are cleared
	Respond       FaultKind = "respond"       // Status, Header and Body, without an effect
	RespondAfter  FaultKind = "respond after" // the same instead of the true answer
)

// Fault is something that goes wrong with a request: with the request of that number, or
// with those that Method and Path match.
type Fault struct {
	Number int    // of the request, from 1; see Machine.Count
	Method string // empty: any
	Path   string // * stands for any characters; empty: any
	Login  int    // only after as many logins from now on, and before the next: in one step of a clean; 0: any
	Skip   int    // as many that match go well first
	Times  int    // how many go wrong; 0: one, negative: all

	Kind   FaultKind
	Status int
	Header map[string]string
	Body   string

	logins int // so far
	went   int // wrong so far
}

// Unavailable is a fault's answer 503, Unauthorized 401.
func Unavailable(f Fault) Fault {
	f.Kind, f.Status = Respond, 503
	f.Body = `{"error": {"code": "Base.1.8.ServiceTemporarilyUnavailable",
		"message": "The service is temporarily unavailable. Retry in 1 seconds.", "@Message.ExtendedInfo": []}}`
	f.Header = map[string]string{"Retry-After": "1"}
	return f
}

// Unauthorized is a fault whose answer is 401.
func Unauthorized(f Fault) Fault {
	f.Kind, f.Status = Respond, 401
	f.Body =
		`{"error": {"code": "Base.1.8.NoValidSession", "message": "There is no valid session.", "@Message.ExtendedInfo": []}}`
	return f
}

// Redirect is a fault whose answer leads elsewhere, with that status: 301, 302, 307, 308.
func Redirect(f Fault, status int, to string) Fault {
	f.Kind, f.Status, f.Header = Respond, status, map[string]string{"Location": to}
	return f
}

// Inject adds a fault. Faults are asked in the order in which they were added.
func (m *Machine) Inject(f Fault) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.faults = append(m.faults, &f)
}

// ClearFaults takes all faults back.
func (m *Machine) ClearFaults() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.faults = nil
	close(m.cleared)
	m.cleared = make(chan struct{})
}

// fault is what goes wrong with this request; nil: nothing.
func (m *Machine) fault(number int, method, path string) *Fault {
	login := method == http.MethodPost && strings.Trim(path, "/") == strings.Trim(m.config.SessionsPath, "/")
	for _, f := range m.faults {
		if login {
			f.logins++
		}
	}
	for _, f := range m.faults {
		if f.Kind == CutWithin || f.Login != 0 && f.Login != f.logins {
			continue
		}
		if f.Number != 0 && f.Number != number || f.Method != "" && f.Method != method || f.Path != "" &&
			!simserver.Glob(f.Path, path) {
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
		return f
	}
	return nil
}

// cutsWithin is true where the connection is to be cut in the middle of this request's body.
func (m *Machine) cutsWithin(method, path string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i, f := range m.faults {
		if f.Kind == CutWithin && (f.Method == "" || f.Method == method) && (f.Path == "" || simserver.Glob(f.Path, path)) {
			m.faults = append(m.faults[:i:i], m.faults[i+1:]...)
			return true
		}
	}
	return false
}
