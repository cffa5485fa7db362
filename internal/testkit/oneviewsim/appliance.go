package oneviewsim

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"
)

// Appliance is a simulated appliance, and the http.Handler of its REST API. All methods may be
// called from any goroutine.
type Appliance struct {
	// hang ends the requests that hang or are slow, when the appliance is closed.
	hang context.Context
	stop context.CancelFunc

	mu     sync.Mutex
	config Config
	state  State

	hardware  map[string]*Hardware // by URI
	templates map[string]*Template
	profiles  map[string]*Profile
	tasks     map[string]*Task
	sessions  map[string]*Session // by token
	bmcs      map[string]BMC      // by the server's URI

	requests []Request
	faults   []*Fault
	missed   []string // what other users could not do
	down     bool
	cleared  chan struct{} // closed when the faults are cleared

	store *store       // nil: in memory only
	dirty map[any]bool // what the next save writes
	gone  []string     // URIs and tokens that it removes
	acted int          // how many acts are saved
	// onExit ends the process at once, where there is one.
	onExit func()
	// now is the number of the request that is being carried out.
	now int
	// doing is when what a task does now is due; zero between two of them.
	doing time.Time
	// taskFault is what becomes of the task that it begins.
	taskFault TaskFault
	// broken is an error of a question that returns none; Violations has it.
	broken error
}

// New is an appliance with three servers, which are free and off, and the template
// TemplateURI.
func New(options ...Option) *Appliance {
	config, state := defaults(), hardware()
	for _, option := range options {
		option(&config, &state)
	}
	return appliance(config, state)
}

func appliance(config Config, state State) *Appliance {
	a := &Appliance{config: config, state: state, dirty: map[any]bool{}, bmcs: map[string]BMC{},
		cleared: make(chan struct{})}
	a.hang, a.stop = context.WithCancel(context.Background())
	a.index()
	a.acted = len(state.Acts)
	return a
}

// index finds by URI what the lists have.
func (a *Appliance) index() {
	a.hardware = make(map[string]*Hardware, len(a.state.Hardware))
	for _, h := range a.state.Hardware {
		a.hardware[h.URI()] = h
	}
	a.templates, a.profiles = map[string]*Template{}, map[string]*Profile{}
	a.tasks, a.sessions = map[string]*Task{}, map[string]*Session{}
	for _, t := range a.state.Templates {
		a.templates[t.URI()] = t
	}
	for _, p := range a.state.Profiles {
		a.profiles[p.URI()] = p
	}
	for _, t := range a.state.Tasks {
		a.tasks[t.URI()] = t
	}
	for _, s := range a.state.Sessions {
		a.sessions[s.Token] = s
	}
}

// Close ends what hangs.
func (a *Appliance) Close() { a.stop() }

// Config is how the appliance behaves now.
func (a *Appliance) Config() Config {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.config
}

// Configure changes how the appliance behaves from now on.
func (a *Appliance) Configure(change func(*Config)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.advance(time.Now())
	change(&a.config)
	a.note(a.saveConfig())
}

// State is a copy of everything.
func (a *Appliance) State() State {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.advance(time.Now())
	twin, err := a.state.copy()
	a.note(err)
	return twin
}

// Change changes anything by hand.
func (a *Appliance) Change(change func(*State)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.advance(time.Now())
	before := a.uris()
	change(&a.state)
	a.index()
	after := a.uris()
	for uri := range before {
		if !after[uri] {
			a.gone = append(a.gone, uri)
		}
	}
	a.touchAll()
	a.note(a.save(nil))
}

func (a *Appliance) uris() map[string]bool {
	all := map[string]bool{}
	for uri := range a.hardware {
		all[uri] = true
	}
	for uri := range a.templates {
		all[uri] = true
	}
	for uri := range a.profiles {
		all[uri] = true
	}
	for uri := range a.tasks {
		all[uri] = true
	}
	for token := range a.sessions {
		all[token] = true
	}
	return all
}

// note keeps an error of a question that returns none: Violations shows it.
func (a *Appliance) note(err error) {
	if err != nil && a.broken == nil {
		a.broken = err
	}
}

// Server is a server as it is now, by its name, serial number, UUID or URI.
func (a *Appliance) Server(name string) (Hardware, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.advance(time.Now())
	h, err := a.find(name)
	if err != nil {
		return Hardware{}, err
	}
	a.refresh(h)
	return *h, nil
}

func (a *Appliance) find(name string) (*Hardware, error) {
	if h := a.hardware[name]; h != nil {
		return h, nil
	}
	for _, h := range a.state.Hardware {
		if name == h.Name || name == h.Serial || name == h.UUID {
			return h, nil
		}
	}
	return nil, fmt.Errorf("there is no server %q", name)
}

// Profiles are those that a user has created, in the order of their creation.
func (a *Appliance) Profiles(owner string) []Profile {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.advance(time.Now())
	return profilesOf(&a.state, owner)
}

func profilesOf(s *State, owner string) []Profile {
	var all []Profile
	for _, p := range s.Profiles {
		if p.Owner == owner {
			all = append(all, *p)
		}
	}
	return all
}

// Tasks are all that ever began.
func (a *Appliance) Tasks() []Task {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.advance(time.Now())
	var all []Task
	for _, t := range a.state.Tasks {
		all = append(all, *t)
	}
	return all
}

// Down cuts each connection from now on, or no more.
func (a *Appliance) Down(down bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.down = down
}

// Hurry ends at once what is going on, each task by one stage. A test whose Delays are hours
// decides itself when something happens.
func (a *Appliance) Hurry() {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := time.Now()
	a.advance(now)
	for _, t := range a.state.Tasks {
		if t.pending() {
			t.Due = now
		}
	}
	a.advance(now)
	a.note(a.save(nil))
}

// Resume lets the tasks go on that stalled, and shows those that vanished.
func (a *Appliance) Resume() {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, t := range a.state.Tasks {
		t.Fault.Stalls, t.Fault.Vanishes = false, false
		a.touch(t)
	}
	a.advance(time.Now())
	a.note(a.save(nil))
}

// number is the next one.
func (a *Appliance) number() int {
	a.state.Next++
	return a.state.Next
}

func (a *Appliance) removeProfile(p *Profile) {
	delete(a.profiles, p.URI())
	a.state.Profiles = slices.DeleteFunc(a.state.Profiles, func(one *Profile) bool { return one == p })
	a.gone = append(a.gone, p.URI())
}

// touch has the next save write what.
func (a *Appliance) touch(what any) {
	switch one := what.(type) {
	case *Hardware:
		one.Version++
		at := a.doing
		if at.IsZero() {
			at = time.Now()
		}
		// No two changes are at one moment, as the appliance shows it.
		if next := one.Modified.Add(time.Millisecond); at.Before(next) {
			at = next
		}
		one.Modified = at
	case *Profile:
		one.Version++
	}
	if a.store != nil {
		a.dirty[what] = true
	}
}

// touchAll has the next save write everything.
func (a *Appliance) touchAll() {
	if a.store == nil {
		return
	}
	for _, h := range a.state.Hardware {
		a.dirty[h] = true
	}
	for _, t := range a.state.Templates {
		a.dirty[t] = true
	}
	for _, p := range a.state.Profiles {
		a.dirty[p] = true
	}
	for _, t := range a.state.Tasks {
		a.dirty[t] = true
	}
	for _, s := range a.state.Sessions {
		a.dirty[s] = true
	}
}

var _ http.Handler = (*Appliance)(nil)
