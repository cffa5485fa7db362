package oneviewsim

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"burnish/internal/testkit/proc"
	"burnish/internal/testkit/simserver"
)

// Process is an appliance that runs as a process of its own: the command
// internal/testkit/cmd/oneviewsim, built at Program. Its folder outlives it.
type Process struct {
	*proc.Process
	URL                        string
	CA                         string
	Username, Password, Domain string

	program, dir string
	client       *http.Client
}

// StartProcess prepares dir and starts program on it, on a free port that stays its own.
func StartProcess(ctx context.Context, program, dir string, options ...Option) (*Process, error) {
	if err := Prepare(dir, options...); err != nil {
		return nil, err
	}
	authority, err := os.ReadFile(filepath.Join(dir, simserver.CAFile))
	if err != nil {
		return nil, err
	}
	client, err := simserver.Client(authority)
	if err != nil {
		return nil, err
	}
	p := &Process{program: program, dir: dir, CA: string(authority), client: client}
	address, err := proc.FreeAddress()
	if err != nil {
		return nil, err
	}
	return p, p.start(ctx, address)
}

// Restart starts it again on its folder and port, after it was killed or has exited.
func (p *Process) Restart(ctx context.Context) error { return p.start(ctx, "127.0.0.1:0") }

func (p *Process) start(ctx context.Context, address string) error {
	started, err := proc.Start("OneView", filepath.Join(p.dir, "log"),
		exec.Command(p.program, "-dir", p.dir, "-listen", address))
	if err != nil {
		return err
	}
	p.Process = started
	if err := started.Await(ctx, time.Minute, func(log string) bool {
		return strings.Contains(log, "ready https://")
	}); err != nil {
		return err
	}
	listens, err := os.ReadFile(filepath.Join(p.dir, simserver.AddressFile))
	if err != nil {
		return err
	}
	p.URL = "https://" + string(listens)
	config, err := p.Config()
	if err == nil {
		p.Username, p.Password, p.Domain = config.Users[0].Name, config.Users[0].Password, config.Domain
	}
	return err
}

func (p *Process) do(method, what string, query url.Values, body, into any) error {
	raw, err := json.Marshal(body)
	if err != nil {
		return err
	}
	request, err := http.NewRequest(method, p.URL+controlPrefix+what+"?"+query.Encode(), bytes.NewReader(raw))
	if err != nil {
		return err
	}
	response, err := p.client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	switch {
	case err != nil:
		return err
	case response.StatusCode != http.StatusOK:
		return fmt.Errorf("%s %s: %s: %s", method, what, response.Status, strings.TrimSpace(string(answer)))
	case into == nil:
		return nil
	default:
		return json.Unmarshal(answer, into)
	}
}

func (p *Process) post(what, server string) error {
	return p.do(http.MethodPost, what, url.Values{"server": {server}}, nil, nil)
}

// Take is Appliance.Take.
func (p *Process) Take(server string) error { return p.post("take", server) }

// Free is Appliance.Free.
func (p *Process) Free(server string) error { return p.post("free", server) }

// SetPower is Appliance.SetPower.
func (p *Process) SetPower(server, power string) error {
	return p.do(http.MethodPost, "power", url.Values{"server": {server}, "state": {power}}, nil, nil)
}

// ExpireSessions is Appliance.ExpireSessions.
func (p *Process) ExpireSessions() error { return p.post("expire-sessions", "") }

// Join makes a server and a BMC one, which is a redfishsim.Process: its URL and CA.
func (p *Process) Join(server, bmcURL, bmcCA string) error {
	return p.do(http.MethodPost, "join", url.Values{"server": {server}},
		Link{URL: bmcURL + controlPrefix + "power", CA: bmcCA}, nil)
}

// Server is Appliance.Server.
func (p *Process) Server(name string) (Hardware, error) {
	var h Hardware
	return h, p.do(http.MethodGet, "server", url.Values{"server": {name}}, nil, &h)
}

// State is everything as it is now. Where the appliance does not run: as it was left.
func (p *Process) State() (State, error) {
	if !p.Alive() {
		s, _, _, err := readJournal(p.dir)
		return s, err
	}
	var s State
	return s, p.do(http.MethodGet, "state", nil, nil, &s)
}

// Profiles are those that a user has created.
func (p *Process) Profiles(owner string) ([]Profile, error) {
	s, err := p.State()
	return profilesOf(&s, owner), err
}

// OpenSessions is Appliance.OpenSessions.
func (p *Process) OpenSessions(user string) ([]int, error) {
	var open []int
	return open, p.do(http.MethodGet, "open-sessions", url.Values{"owner": {user}}, nil, &open)
}

// Config is how the appliance behaves now.
func (p *Process) Config() (Config, error) {
	var c Config
	return c, p.do(http.MethodGet, "config", nil, nil, &c)
}

// Requests are all that ever reached the appliance, also before it was killed.
func (p *Process) Requests() ([]Request, error) {
	if !p.Alive() {
		_, requests, _, err := readJournal(p.dir)
		return requests, err
	}
	var all []Request
	return all, p.do(http.MethodGet, "requests", nil, nil, &all)
}

// Counts is Appliance.Counts.
func (p *Process) Counts() (Counts, error) {
	var c Counts
	return c, p.do(http.MethodGet, "counts", nil, nil, &c)
}

// Inject adds a fault. An appliance that is killed forgets its faults; numbers go on.
func (p *Process) Inject(f Fault) error { return p.do(http.MethodPost, "faults", nil, f, nil) }

// ClearFaults takes all faults back.
func (p *Process) ClearFaults() error { return p.do(http.MethodDelete, "faults", nil, nil, nil) }

// Violations is Appliance.Violations. Where the appliance does not run: as it was left.
func (p *Process) Violations(owners ...string) ([]string, error) {
	if !p.Alive() {
		s, _, _, err := readJournal(p.dir)
		if len(owners) == 0 {
			owners = []string{p.Username}
		}
		return violations(s.Acts, owners), err
	}
	var all []string
	return all, p.do(http.MethodGet, "violations", url.Values{"owner": owners}, nil, &all)
}

// Missed is Appliance.Missed.
func (p *Process) Missed() ([]string, error) {
	var all []string
	return all, p.do(http.MethodGet, "missed", nil, nil, &all)
}
