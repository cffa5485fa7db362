package oneview

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"path/filepath"
	"reflect"
	"slices"
	"sync"

	"burnish/internal/device"
	"burnish/internal/host"
)

// Appliances are those of oneview.yaml, which is read again for each call. All calls to an
// appliance share one session.
type Appliances struct {
	file   string // "": there is none
	timing timing

	mu       sync.Mutex
	text     []byte // of the file, when it was last parsed
	all      map[string]Appliance
	sessions map[string]*session
	closed   bool
}

var _ Pools = (*Appliances)(nil)

// Open reads oneview.yaml, which must be valid. Without a file no appliance is known.
func Open(file string) (*Appliances, error) {
	p := &Appliances{timing: usualTiming, sessions: make(map[string]*session)}
	if file == "" {
		return p, nil
	}
	absolute, err := filepath.Abs(file)
	if err != nil {
		return nil, invalidFile("resolve %s: %w", file, err)
	}
	if _, err := CheckFile(absolute); err != nil {
		return nil, err
	}
	p.file = absolute
	_, err = p.read()
	return p, err
}

// read gives the appliances as the file says now.
func (p *Appliances) read() (map[string]Appliance, error) {
	if p.file == "" {
		return nil, nil
	}
	text, err := host.ReadPrivate(p.file)
	if err != nil {
		return nil, invalidFile("%w", err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.all != nil && bytes.Equal(text, p.text) {
		return p.all, nil
	}
	all, err := parseFile(p.file, text)
	if err != nil {
		return nil, err
	}
	p.text, p.all = text, all
	return all, nil
}

// Names are the appliances' names, sorted; those of the last valid file, if it is not valid
// now.
func (p *Appliances) Names() []string {
	all, err := p.read()
	if err != nil {
		p.mu.Lock()
		defer p.mu.Unlock()
		all = p.all
	}
	return slices.Sorted(maps.Keys(all))
}

func (p *Appliances) appliance(name string) (Appliance, error) {
	all, err := p.read()
	if err != nil {
		return Appliance{}, err
	}
	a, ok := all[name]
	switch {
	case ok:
		return a, nil
	case p.file == "":
		return a, unavailable("set BURNISH_ONEVIEW on every control worker",
			"this worker knows no appliance %q: it has no oneview.yaml", name)
	}
	return a, unavailable("add it to "+p.file, "%s has no appliance %q", p.file, name)
}

// Settings are those of an appliance, as its file says now.
func (p *Appliances) Settings(appliance string) (Settings, error) {
	a, err := p.appliance(appliance)
	return a.Settings, err
}

// acquire gives the session with an appliance, for one more user. Where the file has changed
// how to log in, it is another session.
func (p *Appliances) acquire(ctx context.Context, name string) (*session, Settings, error) {
	a, err := p.appliance(name)
	if err != nil {
		return nil, Settings{}, err
	}
	secret, err := a.secret(name)
	if err != nil {
		return nil, Settings{}, err
	}
	wanted := access{secret: secret, base: a.Base, domain: a.Domain}
	p.mu.Lock()
	known := p.sessions[name]
	switch {
	case p.closed:
		p.mu.Unlock()
		return nil, Settings{}, &device.Fault{Class: device.Transient, Code: device.CodeWorkerStopping,
			Message: "the worker is stopping"}
	case known != nil && reflect.DeepEqual(known.access, wanted):
		known.users++
		p.mu.Unlock()
		return known, a.Settings, nil
	}
	s, err := newSession(name, wanted, p.timing)
	if err != nil {
		p.mu.Unlock()
		return nil, Settings{}, err
	}
	s.users = 1
	p.sessions[name] = s
	unused := false
	if known != nil {
		known.retired, unused = true, known.users == 0
	}
	p.mu.Unlock()
	if unused {
		// A session that stays open ends by the appliance's own time-out.
		_ = known.end(ctx)
	}
	return s, a.Settings, nil
}

// release gives up one use of a session.
func (p *Appliances) release(ctx context.Context, s *session) {
	p.mu.Lock()
	s.users--
	last := s.retired && s.users == 0
	p.mu.Unlock()
	if last {
		_ = s.end(ctx) // see acquire
	}
}

// Reach gives the API version that this client speaks with an appliance. It does not log in.
func (p *Appliances) Reach(ctx context.Context, appliance string) (version int, err error) {
	s, _, err := p.acquire(ctx, appliance)
	if err != nil {
		return 0, err
	}
	defer p.release(ctx, s)
	version, err = s.negotiate(ctx)
	return version, s.fault(ctx, err)
}

// Close logs out.
func (p *Appliances) Close(ctx context.Context) error {
	p.mu.Lock()
	p.closed = true
	all := slices.Collect(maps.Values(p.sessions))
	clear(p.sessions)
	p.mu.Unlock()
	var failed []error
	for _, s := range all {
		failed = append(failed, s.end(ctx))
	}
	return errors.Join(failed...)
}
