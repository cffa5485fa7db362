package redfishsim

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// Machine is a server and its BMC, and the http.Handler of its Redfish service. All
// methods may be called from any goroutine.
type Machine struct {
	// hang ends the requests that hang, and downloads, when the machine is closed.
	hang    context.Context
	stop    context.CancelFunc
	working sync.WaitGroup

	mu     sync.Mutex
	config Config
	state  State
	routes []route

	requests []Request
	count    int
	faults   []*Fault
	cleared  chan struct{} // closed when the faults are cleared
	// down is until when the BMC answers nothing.
	down time.Time
	// onDown cuts the connections that are open, where there is a server.
	onDown func()
	// onExit ends the process at once, where there is one.
	onExit func()
	store  *store // nil: in memory only
	// now is the number of the request that is being carried out, at when it came.
	now int
	at  time.Time
	// changed is true if the present request had an effect on the server.
	changed bool
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
	m := &Machine{config: config, state: state, cleared: make(chan struct{})}
	m.hang, m.stop = context.WithCancel(context.Background())
	m.routes = m.table()
	return m
}

// Close ends what hangs and waits for what the BMC downloads.
func (m *Machine) Close() {
	m.stop()
	m.working.Wait()
}

// Config is how the BMC behaves now.
func (m *Machine) Config() Config {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.config
}

// Configure changes how the BMC behaves from now on.
func (m *Machine) Configure(change func(*Config)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.advance(time.Now())
	change(&m.config)
	m.routes = m.table()
	m.noteSaved(m.saveConfig())
}

// State is a copy of the server as it is now.
func (m *Machine) State() State {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.advance(time.Now())
	twin, err := m.state.copy()
	if err != nil {
		// Attributes that a test put in itself, such as a channel.
		return State{Bricked: err.Error()}
	}
	return twin
}

// Change changes the server behind the BMC's back, as a technician or a tenant does.
func (m *Machine) Change(change func(*State)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.advance(time.Now())
	change(&m.state)
	// As far as JSON goes.
	if last := time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC); m.state.POSTDue.After(last) {
		m.state.POSTDue = last
	}
	m.noteSaved(m.save(nil))
}

// noteSaved keeps an error of a question that returns none: no test overlooks a server
// that does not start.
func (m *Machine) noteSaved(err error) {
	if err != nil {
		m.state.Bricked = "the simulation cannot save its state: " + err.Error()
	}
}

// RestartBMC restarts the BMC: for Delays.BMCRestart each connection is refused.
func (m *Machine) RestartBMC() {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	m.advance(now)
	m.restart(now, false)
	m.noteSaved(m.save(nil))
}

// Hurry ends at once what is going on, each thing by one stage: a change of power, POST,
// a write, an erase, a restart of the BMC. A test whose Delays are hours decides itself
// when something happens.
func (m *Machine) Hurry() {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	m.advance(now)
	m.down = now.Add(-m.config.Delays.WarmUp)
	s := &m.state
	s.PowerDue, s.POSTDue = now, now
	for _, w := range s.Work {
		w.Due = now
	}
	m.advance(now)
	m.noteSaved(m.save(nil))
}

// isDown is true while the BMC restarts.
func (m *Machine) isDown() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	m.advance(now)
	return now.Before(m.down)
}

// restart is what a restart of the BMC leaves. An update of the BMC's own firmware ends
// each session.
func (m *Machine) restart(at time.Time, update bool) {
	m.state.BMCRestarts++
	m.down = at.Add(m.config.Delays.BMCRestart)
	m.comeBack(at, update)
	if m.onDown != nil {
		m.onDown()
	}
}

// comeBack is what is left of the BMC's own state after it restarted or was killed.
func (m *Machine) comeBack(at time.Time, update bool) {
	s := &m.state
	s.BMCReset = at
	if update || !m.config.SessionsSurvive {
		s.Sessions = nil
	}
	var kept []*Work
	for _, w := range s.Work {
		lost := !m.config.TasksSurvive
		switch {
		case w.Kind == KindFirmware && w.Stage == stageDownload:
			// Its bytes were in memory.
			m.end(w, Exception, at)
		case w.Kind == KindFirmware && lost && !w.Waits && !s.InPOST:
			// The BMC wrote it; the old version stays.
		case lost:
			w.Task = "" // the drive and the host go on by themselves
			kept = append(kept, w)
		default:
			kept = append(kept, w)
		}
	}
	s.Work = kept
	if m.config.TasksSurvive {
		return
	}
	forgotten := len(s.Tasks)
	s.Tasks, s.NextTask = nil, 0
	if m.config.OtherTasksAfter {
		for range max(forgotten, 1) {
			other := m.newTask("diagnostics", "Collect diagnostic data", at)
			other.TargetURI = m.manager("LogServices/Dump/Actions/LogService.CollectDiagnosticData")
			other.Operation, other.Body = "POST", `{"DiagnosticDataType": "Manager"}`
			other.State, other.Percent, other.End = "Completed", 100, at
		}
	}
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
	s := &m.state
	if s.PowerNext != "" {
		sooner(s.PowerDue, m.powerDone)
	}
	if s.InPOST && s.Power == powerOn && s.PowerNext == "" && s.Bricked == "" {
		sooner(s.POSTDue, m.postDone)
	}
	for _, w := range s.Work {
		if !w.Waits && w.Stage != stageDownload && m.config.Endings[w.Kind] != Stalls {
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
	case KindFirmware:
		m.firmwareStageDone(w, at)
	case kindRestart:
		m.end(w, Succeeds, at)
		m.restart(at, false)
	default:
		m.end(w, Exception, at)
	}
}

// end takes w out of what is being done, and ends its task.
func (m *Machine) end(w *Work, how Ending, at time.Time) {
	for i, other := range m.state.Work {
		if other == w {
			m.state.Work = append(m.state.Work[:i:i], m.state.Work[i+1:]...)
			break
		}
	}
	task := m.task(w.Task)
	if task == nil {
		return
	}
	task.End, task.Percent = at, 100
	task.State, task.Status = "Completed", "OK"
	text := fmt.Sprintf("%s completed successfully.", task.Name)
	message := Message{MessageID: "TaskEvent.1.0.TaskCompletedOK", Message: text, Severity: "OK"}
	switch how {
	case CompletedCritical:
		task.Status = "Critical"
		message = Message{MessageID: "IDRAC.2.8.RED014", Message: task.Name + " failed.", Severity: "Critical"}
	case CompletedMessage:
		message = Message{MessageID: "Update.1.0.ApplyFailed", Message: task.Name + " failed.", Severity: "Critical"}
	case Exception:
		task.State, task.Status = "Exception", "Critical"
		message = Message{MessageID: "TaskEvent.1.0.TaskAborted", Message: task.Name + " was aborted.", Severity: "Critical"}
	case Canceled:
		task.State, task.Status = stateCanceled, "Warning"
		message = Message{MessageID: "TaskEvent.1.0.TaskCanceled", Message: task.Name + " was canceled.", Severity: "Warning"}
	}
	task.Messages = append(task.Messages, message)
}
