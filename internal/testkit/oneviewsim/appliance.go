package oneviewsim

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"burnish/internal/testkit/simserver"
)

// Appliance is a simulated appliance, and the http.Handler of its REST API. All methods may be
// called from any goroutine.
type Appliance struct {
	*simserver.Core[Config, State]
	bmcs map[string]BMC // by the server's URI

	// doing is when what a task does now is due; zero between two of them.
	doing time.Time
	// taskFault is what becomes of the task that the present request begins.
	taskFault TaskFault
}

// New is an appliance with three servers, which are free and off, and the template
// TemplateURI.
func New(options ...Option) *Appliance {
	config, state := defaults(), State{}
	for _, option := range append([]Option{Servers(3)}, options...) {
		option(&config, &state)
	}
	return appliance(config, state)
}

func appliance(config Config, state State) *Appliance {
	a := &Appliance{Core: simserver.New(config, state), bmcs: map[string]BMC{}}
	a.Hooks = simserver.Hooks{
		Advance: a.advance, Sign: a.sign, Answer: a.answer, Spoil: a.spoil,
		Write: func(w http.ResponseWriter, r *http.Request, reply answer) {
			var body []byte
			if reply.Body != nil {
				body = simserver.Encode(reply.Body)
			}
			simserver.Send(w, r, reply, body)
		},
	}
	return a
}

// Prepare makes a folder that Open opens.
func Prepare(dir string, options ...Option) error { return New(options...).Prepare(dir) }

// Open is the appliance in a folder, as it comes back after it was killed; the first time as
// it was prepared. Its tasks have gone on meanwhile.
func Open(dir string) (*Appliance, tls.Certificate, error) {
	a := appliance(Config{}, State{})
	pair, again, err := a.Core.Open(dir)
	if again {
		a.Data.Sessions = nil
	}
	return a, pair, err
}

// Control serves what a test or a script asks of an appliance in another process, see
// simserver.Acts: take, free and power with ?server=server-1 and more, see Process.
func (a *Appliance) Control(onExit func()) http.Handler {
	did := func(act func(url.Values) error) func(url.Values, []byte) (any, error) {
		return func(q url.Values, _ []byte) (any, error) { return nil, act(q) }
	}
	return a.Core.Control(onExit, simserver.Acts{
		"take":  did(func(q url.Values) error { return a.Take(q.Get("server")) }),
		"free":  did(func(q url.Values) error { return a.Free(q.Get("server")) }),
		"power": did(func(q url.Values) error { return a.SetPower(q.Get("server"), q.Get("state")) }),
		"join": did(func(q url.Values) error {
			return a.Join(q.Get("server"), remoteBMC{simserver.Remote(q.Get("bmc"))})
		}),
		"expire-sessions": did(func(url.Values) error { a.ExpireSessions(); return nil }),
		"server":          func(q url.Values, _ []byte) (any, error) { return a.Server(q.Get("server")) },
	})
}

// Server is an appliance that is served on loopback, by TLS.
type Server struct {
	*Appliance
	URL                        string // https://127.0.0.1:PORT
	CA                         string // PEM
	Username, Password, Domain string
}

// Start serves a new appliance until the test ends.
func Start(t testing.TB, options ...Option) *Server {
	t.Helper()
	a := New(options...)
	address, ca := a.Start(t)
	user := a.Conf.Users[0]
	return &Server{Appliance: a, URL: address, CA: ca, Username: user.Name, Password: user.Password, Domain: a.Conf.Domain}
}

// Process is an appliance that runs as a process of its own: the command
// internal/testkit/cmd/oneviewsim.
type Process struct {
	*simserver.Process[Config, State]
	Username, Password, Domain string
}

// StartProcess prepares dir and starts program on it.
func StartProcess(ctx context.Context, program, dir string, options ...Option) (*Process, error) {
	a := New(options...)
	if err := a.Prepare(dir); err != nil {
		return nil, err
	}
	p, err := simserver.StartProcess[Config, State](ctx, "OneView", program, filepath.Clean(dir))
	user := a.Conf.Users[0]
	return &Process{Process: p, Username: user.Name, Password: user.Password, Domain: a.Conf.Domain}, err
}

// Take is Appliance.Take.
func (p *Process) Take(server string) error { return p.ask("take", server, nil) }

// Free is Appliance.Free.
func (p *Process) Free(server string) error { return p.ask("free", server, nil) }

// SetPower is Appliance.SetPower.
func (p *Process) SetPower(server, power string) error {
	return p.Ask("power", url.Values{"server": {server}, "state": {power}}, nil, nil)
}

// ExpireSessions is Appliance.ExpireSessions.
func (p *Process) ExpireSessions() error { return p.ask("expire-sessions", "", nil) }

// Join makes a server and a BMC one, which is a redfishsim.Process. An appliance that is killed
// forgets it.
func (p *Process) Join(server string, bmc simserver.Remote) error {
	return p.Ask("join", url.Values{"server": {server}, "bmc": {string(bmc)}}, nil, nil)
}

// Server is Appliance.Server.
func (p *Process) Server(name string) (h Hardware, err error) { return h, p.ask("server", name, &h) }

func (p *Process) ask(what, server string, into any) error {
	return p.Ask(what, url.Values{"server": {server}}, nil, into)
}

// Profiles are those that a user has created.
func (p *Process) Profiles(owner string) ([]Profile, error) {
	s, err := p.State()
	return s.profiles(owner), err
}

// OpenSessions is Appliance.OpenSessions.
func (p *Process) OpenSessions(user string) ([]int, error) {
	s, err := p.State()
	return s.openSessions(user), err
}

// Counts is Appliance.Counts.
func (p *Process) Counts() (Counts, error) {
	requests, err := p.Requests()
	s, bad := p.State()
	return simserver.Count(requests, len(s.Sessions)), errors.Join(err, bad)
}

// Violations is Appliance.Violations. Where the appliance does not run: as it was left.
func (p *Process) Violations(owners ...string) ([]string, error) {
	s, err := p.State()
	return s.violations(append(owners, p.Username)[:max(1, len(owners))]), err
}

// Missed is Appliance.Missed.
func (p *Process) Missed() ([]string, error) {
	s, err := p.State()
	return s.Missed, err
}

// Server is a server as it is now, by its name, serial number, UUID or URI.
func (a *Appliance) Server(name string) (is Hardware, err error) {
	a.Do(func(time.Time) {
		var h *Hardware
		if h, err = a.find(name); err == nil {
			a.refresh(h)
			is = *h
		}
	})
	return is, err
}

func (a *Appliance) find(name string) (*Hardware, error) {
	for _, h := range a.Data.Hardware {
		if name == h.Name || name == h.Serial || name == h.UUID || name == h.URI() {
			return h, nil
		}
	}
	return nil, fmt.Errorf("there is no server %q", name)
}

// Profiles are those that a user has created, in the order of their creation.
func (a *Appliance) Profiles(owner string) []Profile {
	s := a.State()
	return s.profiles(owner)
}

func (s *State) profiles(owner string) []Profile {
	var all []Profile
	for _, p := range s.Profiles {
		if p.Owner == owner {
			all = append(all, *p)
		}
	}
	return all
}

// Tasks are all that ever began.
func (a *Appliance) Tasks() []*Task { return a.State().Tasks }

// Missed are the takes and frees of faults that the appliance refused: each is a sentence.
func (a *Appliance) Missed() []string { return a.State().Missed }

// Counts are those of the requests so far.
func (a *Appliance) Counts() Counts { return simserver.Count(a.Requests(), len(a.State().Sessions)) }

// Down refuses each connection from now on, or no more.
func (a *Appliance) Down(down bool) {
	a.Do(func(now time.Time) {
		a.DownUntil = now
		if down {
			a.GoDown(now.Add(24 * time.Hour))
		}
	})
}

// Hurry ends at once what is going on, each task by one stage. A test whose Delays are hours
// decides itself when something happens.
func (a *Appliance) Hurry() {
	a.Do(func(now time.Time) {
		for _, t := range a.Data.Tasks {
			t.Due = now
		}
		a.advance(now)
	})
}

// Resume lets the tasks go on that stalled, and shows those that vanished.
func (a *Appliance) Resume() {
	a.Do(func(now time.Time) {
		for _, t := range a.Data.Tasks {
			t.Fault.Stalls, t.Fault.Vanishes = false, false
		}
		a.advance(now)
	})
}

// number is the next one.
func (a *Appliance) number() int {
	a.Data.Next++
	return a.Data.Next
}

// changed has a server show that it was.
func (a *Appliance) changed(h *Hardware) {
	h.Version++
	at := a.doing
	if at.IsZero() {
		at = time.Now()
	}
	// No two changes are at one moment, as the appliance shows it.
	if next := h.Modified.Add(time.Millisecond); at.Before(next) {
		at = next
	}
	h.Modified = at
}

// spoil is what faults of the appliance's own do.
func (a *Appliance) spoil(f *Fault, r *http.Request, reply *answer) {
	act := func(do func(string) error) {
		if err := do(f.Server); err != nil {
			a.Data.Missed = append(a.Data.Missed, string(f.Kind)+": "+err.Error())
		}
	}
	switch before := reply == nil; {
	case before && f.Kind == TakeBefore, !before && f.Kind == TakeAfter:
		act(a.take)
	case before && f.Kind == FreeBefore, !before && f.Kind == FreeAfter:
		act(a.free)
	case before && f.Kind == ForTask:
		a.taskFault = f.Task
	case !before && f.Kind == OtherHost && reply.Header["Location"] != "":
		reply.Header["Location"] = foreignHost + strings.TrimPrefix(reply.Header["Location"], "https://"+r.Host)
	}
}

// act records what a user did. The profile is the one that is concerned, or that of the server.
func (a *Appliance) act(c *call, kind ActKind, h *Hardware, p *Profile) {
	one := Act{Request: c.Entry.Number, User: c.Entry.User, Kind: kind}
	if h != nil {
		a.refresh(h)
		one.Server, one.Power = h.URI(), h.Power
		if p == nil {
			p = find(a.Data.Profiles, h.Profile)
		}
	}
	if p != nil {
		one.Profile, one.Owner = p.URI(), p.Owner
	}
	a.Data.Acts = append(a.Data.Acts, one)
}

func (a *Appliance) removeProfile(p *Profile) {
	a.Data.Profiles = slices.DeleteFunc(a.Data.Profiles, func(one *Profile) bool { return one == p })
}
