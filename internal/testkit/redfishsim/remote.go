package redfishsim

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"

	"burnish/internal/testkit/proc"
	"burnish/internal/testkit/simserver"
)

// Process is a machine that runs as a process of its own: the command
// internal/testkit/cmd/redfishsim, built at Program. Its folder outlives it.
type Process struct {
	*proc.Process
	URL, SystemURL     string
	CA                 string
	Username, Password string

	program, dir string
	client       *http.Client
}

// StartProcess prepares dir and starts program on it, on a free port that stays its own.
func StartProcess(ctx context.Context, program, dir string, p Personality, options ...Option) (*Process, error) {
	if err := Prepare(dir, p, options...); err != nil {
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
	b := &Process{program: program, dir: dir, CA: string(authority), client: client}
	address, err := proc.FreeAddress()
	if err != nil {
		return nil, err
	}
	return b, b.start(ctx, address)
}

// Restart starts it again on its folder and port, after it was killed or has exited.
func (b *Process) Restart(ctx context.Context) error { return b.start(ctx, "127.0.0.1:0") }

func (b *Process) start(ctx context.Context, address string) error {
	p, err := proc.Start("BMC", filepath.Join(b.dir, "log"), exec.Command(b.program, "-dir", b.dir, "-listen", address))
	if err != nil {
		return err
	}
	b.Process = p
	err = p.Await(ctx, time.Minute, func(log string) bool { return bytes.Contains([]byte(log), []byte("ready https://")) })
	if err != nil {
		return err
	}
	listens, err := os.ReadFile(filepath.Join(b.dir, simserver.AddressFile))
	if err != nil {
		return err
	}
	b.URL = "https://" + string(listens)
	config, err := b.Config()
	if err != nil {
		return err
	}
	b.SystemURL, b.Username, b.Password = b.URL+config.systemPath(), config.Username, config.Password
	if config.TrailingSlash {
		b.SystemURL += "/"
	}
	return nil
}

func (b *Process) do(method, what string, body, into any) error {
	raw, err := json.Marshal(body)
	if err != nil {
		return err
	}
	request, err := http.NewRequest(method, b.URL+controlPrefix+what, bytes.NewReader(raw))
	if err != nil {
		return err
	}
	response, err := b.client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	switch {
	case err != nil:
		return err
	case response.StatusCode == http.StatusPreconditionFailed:
		return errChanged
	case response.StatusCode != http.StatusOK:
		return fmt.Errorf("%s %s: %s: %s", method, what, response.Status, answer)
	case into == nil:
		return nil
	default:
		return json.Unmarshal(answer, into)
	}
}

// State is the server as it is now. Where the BMC does not run: as it was left.
func (b *Process) State() (State, error) {
	var s State
	if !b.Alive() {
		return s, simserver.Load(b.dir, stateFile, &s)
	}
	return s, b.do(http.MethodGet, "state", nil, &s)
}

// Change changes the server behind the BMC's back.
func (b *Process) Change(change func(*State)) error {
	for {
		seen, err := b.State()
		if err != nil {
			return err
		}
		wanted, err := seen.copy()
		if err != nil {
			return err
		}
		change(&wanted)
		err = b.do(http.MethodPut, "state", struct{ Seen, Wanted State }{seen, wanted}, nil)
		if !errors.Is(err, errChanged) {
			return err
		}
	}
}

// Config is how the BMC behaves now.
func (b *Process) Config() (Config, error) {
	var c Config
	return c, b.do(http.MethodGet, "config", nil, &c)
}

// Configure changes how the BMC behaves from now on, also after it was killed.
func (b *Process) Configure(change func(*Config)) error {
	config, err := b.Config()
	if err != nil {
		return err
	}
	change(&config)
	return b.do(http.MethodPut, "config", config, nil)
}

// Requests are all that ever reached the BMC, also before it was killed.
func (b *Process) Requests() ([]Request, error) {
	if !b.Alive() {
		return readRequests(b.dir)
	}
	var all []Request
	return all, b.do(http.MethodGet, "requests", nil, &all)
}

// Counts is Machine.Counts.
func (b *Process) Counts() (Counts, error) {
	if !b.Alive() {
		requests, err := readRequests(b.dir)
		return count(requests), err
	}
	var c Counts
	return c, b.do(http.MethodGet, "counts", nil, &c)
}

// Inject adds a fault. A BMC that is killed forgets its faults; numbers go on.
func (b *Process) Inject(f Fault) error { return b.do(http.MethodPost, "faults", f, nil) }

// ClearFaults takes all faults back.
func (b *Process) ClearFaults() error { return b.do(http.MethodDelete, "faults", nil, nil) }

// TenantData are the serials of the drives that still hold what a tenant wrote.
func (b *Process) TenantData() ([]string, error) {
	s, err := b.State()
	return s.TenantData(), err
}

// WritesWithoutIdentity is Machine.WritesWithoutIdentity.
func (b *Process) WritesWithoutIdentity() ([]Request, error) {
	requests, err := b.Requests()
	if err != nil {
		return nil, err
	}
	var config Config
	if err := simserver.Load(b.dir, configFile, &config); err != nil {
		return nil, err
	}
	return withoutIdentity(requests, config), nil
}

// Writes is Machine.Writes.
func (b *Process) Writes() ([]Request, error) {
	requests, err := b.Requests()
	return slices.Clip(writes(requests)), err
}

// Power is Machine.Power.
func (b *Process) Power() (string, error) {
	var power string
	return power, b.do(http.MethodGet, "power", nil, &power)
}

// SetPower is Machine.SetPower.
func (b *Process) SetPower(resetType string) error {
	return b.do(http.MethodPut, "power", resetType, nil)
}
