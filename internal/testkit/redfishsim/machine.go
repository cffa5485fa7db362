package redfishsim

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"burnish/internal/testkit/simserver"
)

// Machine is a server and its BMC, and the http.Handler of its Redfish service. All
// methods may be called from any goroutine.
type Machine struct {
	*simserver.Core[Config, State]
	working sync.WaitGroup // the BMC's downloads
	at      time.Time      // when the present request came
}

// New is a machine of that personality, on and past POST, whose drives hold a tenant's
// data.
func New(p Personality, options ...Option) *Machine {
	config, state := defaults(p), hardware(p)
	for _, option := range options {
		option(&config, &state)
	}
	return machine(config, state)
}

func machine(config Config, state State) *Machine {
	m := &Machine{Core: simserver.New(config, state)}
	m.Hooks = simserver.Hooks{Advance: m.advance, Sign: m.sign, Answer: m.answer, Spoil: m.spoil,
		Write: m.write, Shown: func() simserver.Shown { return m.Data.Shown }}
	return m
}

// Close ends what hangs and waits for what the BMC downloads.
func (m *Machine) Close() {
	m.Core.Close()
	m.working.Wait()
}

// Prepare makes a folder that Open opens.
func Prepare(dir string, p Personality, options ...Option) error {
	return New(p, options...).Prepare(dir)
}

// Open is the machine in a folder, as its BMC comes back after it was killed; the first
// time as it was prepared.
func Open(dir string) (*Machine, tls.Certificate, error) {
	m := machine(Config{}, State{})
	pair, again, err := m.Core.Open(dir)
	if again {
		now := time.Now()
		m.advance(now)
		m.DownUntil = now
		m.comeBack(now, false)
	}
	return m, pair, err
}

// Control serves what a test asks of a machine in another process, see simserver.Acts.
func (m *Machine) Control(onExit func()) http.Handler {
	return m.Core.Control(onExit, simserver.Acts{
		"power": func(url.Values, []byte) (any, error) { return m.Power() },
		"set-power": func(_ url.Values, body []byte) (any, error) {
			var resetType string
			if err := json.Unmarshal(body, &resetType); err != nil {
				return nil, err
			}
			return nil, m.SetPower(resetType)
		},
	})
}

// Server is a machine that is served on loopback, by TLS.
type Server struct {
	*Machine
	URL                string // https://127.0.0.1:PORT
	SystemURL          string // of the system, as an operator enrolls it
	CA                 string // PEM
	Username, Password string
	Dial               simserver.Dial // nil: it has a port
}

// Start serves a new machine until the test ends.
func Start(t testing.TB, p Personality, options ...Option) *Server {
	t.Helper()
	m := New(p, options...)
	t.Cleanup(m.working.Wait)
	address, ca := m.Start(t)
	return m.served(address, ca)
}

func (m *Machine) served(address, ca string) *Server {
	return &Server{Machine: m, URL: address, SystemURL: address + m.uri(m.system("")), CA: ca, Username: m.Conf.Username,
		Password: m.Conf.Password}
}

// StartInMemory is Start without a network, but for what Dial makes.
func StartInMemory(t testing.TB, p Personality, options ...Option) *Server {
	t.Helper()
	m := New(p, options...)
	t.Cleanup(m.working.Wait)
	address, ca, dial := m.StartInMemory(t)
	s := m.served(address, ca)
	s.Dial = dial
	return s
}

// Process is a machine that runs as a process of its own: the command
// internal/testkit/cmd/redfishsim.
type Process struct {
	*simserver.Process[Config, State]
	SystemURL          string
	Username, Password string
}

// StartProcess prepares dir and starts program on it.
func StartProcess(ctx context.Context, program, dir string, p Personality, options ...Option) (*Process, error) {
	m := New(p, options...)
	if err := m.Prepare(dir); err != nil {
		return nil, err
	}
	started, err := simserver.StartProcess[Config, State](ctx, "BMC", program, dir)
	if err != nil {
		return nil, err
	}
	return &Process{Process: started, SystemURL: started.URL + m.uri(m.system("")), Username: m.Conf.Username,
		Password: m.Conf.Password}, nil
}

// Counts are those of the requests so far.
func (b *Process) Counts() (simserver.Counts, error) {
	requests, err := b.Requests()
	return simserver.Count(requests, 0), err
}

// Power is Machine.Power.
func (b *Process) Power() (power string, err error) { return power, b.Ask("power", nil, nil, &power) }

// SetPower is Machine.SetPower.
func (b *Process) SetPower(resetType string) error { return b.Ask("set-power", nil, resetType, nil) }

// Writes are the requests that ask for a change of the server, whether or not they had one.
func (m *Machine) Writes() []Request { return simserver.Writes(m.Requests()) }

// Changes is how many requests had an effect on the server.
func (m *Machine) Changes() int {
	return len(slices.DeleteFunc(m.Requests(), func(r Request) bool { return !r.Changed }))
}

// TenantData are the serials of the drives in the server that still hold what a tenant
// wrote.
func (m *Machine) TenantData() []string {
	state := m.State()
	return state.TenantData()
}

// Commits are the times that firmware of that component of this system was written, or
// staged to be.
func (m *Machine) Commits(component string) []Commit {
	return slices.DeleteFunc(m.State().Commits,
		func(one Commit) bool { return one.Component != component || one.System != "" })
}

// is is true for a BMC of one of these personalities.
func (m *Machine) is(any ...Personality) bool { return slices.Contains(any, m.Conf.Personality) }

// spoil is what faults of the BMC's own do.
func (m *Machine) spoil(f *Fault, _ *http.Request, a *answer) {
	if a != nil && (f.Kind == RestartBefore || f.Kind == RestartAfter) {
		m.restart(time.Now(), false)
	}
}

// RestartBMC restarts the BMC: for Delays.BMCRestart each connection is refused.
func (m *Machine) RestartBMC() { m.Do(func(now time.Time) { m.restart(now, false) }) }

// Hurry ends at once what is going on, each thing by one stage: a change of power, POST,
// a write, an erase, a restart of the BMC. A test whose Delays are hours decides itself
// when something happens.
func (m *Machine) Hurry() {
	m.Do(func(now time.Time) {
		m.DownUntil = now.Add(-m.Conf.Delays.WarmUp)
		s := &m.Data
		s.PowerDue, s.POSTDue, s.DefaultsDue = now, now, now
		for _, w := range s.Work {
			w.Due = now
		}
		m.advance(now)
	})
}

// restart is what a restart of the BMC leaves. An update of the BMC's own firmware ends
// each session.
func (m *Machine) restart(at time.Time, update bool) {
	m.comeBack(at, update)
	m.GoDown(at.Add(m.Conf.Delays.BMCRestart))
}

// comeBack is what is left of the BMC's own state after it restarted or was killed.
func (m *Machine) comeBack(at time.Time, update bool) {
	s := &m.Data
	s.BMCReset = at
	if update || !m.Conf.SessionsSurvive {
		s.Sessions = nil
	}
	lost := m.is(OpenBMC) // which forgets its tasks
	for _, w := range slices.Clone(s.Work) {
		switch {
		case w.Kind != KindFirmware:
		case w.Stage == stageDownload:
			m.end(w, Exception, at) // its bytes were in memory
		case lost && !w.Waits && !s.InPOST:
			s.Work = slices.DeleteFunc(s.Work, func(one *Work) bool { return one == w }) // the old version stays
		}
		if lost {
			w.Task = "" // the drive and the host go on by themselves
		}
	}
	if !lost {
		return
	}
	// It numbers them from 0 again: each lost number is soon another, completed task.
	forgotten := len(s.Tasks)
	s.Tasks = nil
	for n := range max(forgotten, 1) {
		s.Tasks = append(s.Tasks, &Task{
			ID: strconv.Itoa(n), Kind: "diagnostics", Name: "Collect diagnostic data", Status: "OK", Start: at, End: at,
			TargetURI: m.manager("/LogServices/Dump/Actions/LogService.CollectDiagnosticData"), State: "Completed", Percent: 100,
			Operation: "POST",
		})
	}
	s.NextTask = len(s.Tasks)
}

// advance does what is due until now, in its order.
func (m *Machine) advance(now time.Time) {
	for {
		at, do := m.next()
		if do == nil || at.After(now) {
			return
		}
		do(at)
	}
}

// next is what happens next, and when.
func (m *Machine) next() (at time.Time, do func(time.Time)) {
	sooner := func(due time.Time, what func(time.Time)) {
		if do == nil || due.Before(at) {
			at, do = due, what
		}
	}
	s := &m.Data
	if s.DefaultsKind != "" {
		sooner(s.DefaultsDue, m.toDefaults)
	}
	if s.PowerNext != "" {
		sooner(s.PowerDue, m.powerDone)
	}
	if s.InPOST && s.Power == powerOn && s.PowerNext == "" && s.Bricked == "" {
		sooner(s.POSTDue, m.postDone)
	}
	for _, w := range s.Work {
		if !w.Waits && w.Stage != stageDownload && m.Conf.Endings[w.Kind] != Stalls {
			sooner(w.Due, func(at time.Time) { m.workDone(w, at) })
		}
	}
	return at, do
}

// workDone is the end of one work, or of its stage.
func (m *Machine) workDone(w *Work, at time.Time) {
	switch w.Kind {
	case KindErase:
		m.erased(w, at)
	case KindBIOS:
		m.settingsApplied(w, at)
	default:
		m.firmwareStageDone(w, at)
	}
}

// endings are what a task shows that ended so.
var endings = map[Ending]struct{ state, status, message, text, severity string }{
	Succeeds:          {"Completed", "OK", "TaskEvent.1.0.TaskCompletedOK", "completed successfully.", "OK"},
	Lies:              {"Completed", "OK", "TaskEvent.1.0.TaskCompletedOK", "completed successfully.", "OK"},
	CompletedCritical: {"Completed", "Critical", "IDRAC.2.8.RED014", "failed.", "Critical"},
	CompletedMessage:  {"Completed", "OK", "Update.1.0.ApplyFailed", "failed.", "Critical"},
	Exception:         {"Exception", "Critical", "TaskEvent.1.0.TaskAborted", "was aborted.", "Critical"},
	Canceled:          {stateCanceled, "Warning", "TaskEvent.1.0.TaskCanceled", "was canceled.", "Warning"},
}

// end takes w out of what is being done, and ends its task.
func (m *Machine) end(w *Work, how Ending, at time.Time) {
	m.Data.Work = slices.DeleteFunc(m.Data.Work, func(other *Work) bool { return other == w })
	if task := m.task(w.Task); task != nil {
		is := endings[how]
		task.End, task.Percent, task.State, task.Status = at, 100, is.state, is.status
		task.Messages = append(task.Messages,
			Message{MessageID: is.message, Message: task.Name + " " + is.text, Severity: is.severity})
	}
}
