package simserver

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
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
)

// Process is a simulator that runs as a process of its own, see Command. Its folder outlives it.
type Process[C, S any] struct {
	*proc.Process
	URL, CA string
	Remote

	name, program, dir string
}

// StartProcess starts program on a folder that was prepared, on free ports that stay its own.
func StartProcess[C, S any](ctx context.Context, name, program, dir string) (*Process[C, S], error) {
	ca, err := os.ReadFile(filepath.Join(dir, CAFile))
	if err != nil {
		return nil, err
	}
	address, err := proc.FreeAddress()
	if err != nil {
		return nil, err
	}
	control, err := proc.FreeAddress()
	if err != nil {
		return nil, err
	}
	p := &Process[C, S]{CA: string(ca), Remote: Remote(control), name: name, program: program, dir: dir}
	return p, p.start(ctx, "-listen", address, "-control", control)
}

// Restart starts it again on its folder and ports, after it was killed or has exited.
func (p *Process[C, S]) Restart(ctx context.Context) error { return p.start(ctx) }

func (p *Process[C, S]) start(ctx context.Context, flags ...string) error {
	started, err := proc.Start(p.name, filepath.Join(p.dir, "log"),
		exec.Command(p.program, append([]string{"-dir", p.dir}, flags...)...))
	if err != nil {
		return err
	}
	p.Process = started
	err = started.Await(ctx, time.Minute, func(log string) bool { return strings.Contains(log, readyLine) })
	if err != nil {
		return err
	}
	listens, err := os.ReadFile(filepath.Join(p.dir, AddressFile))
	if err != nil {
		return err
	}
	p.URL = "https://" + string(listens)
	return nil
}

// Remote is the control address of a simulator in another process.
type Remote string

// No connection is kept: the simulator may be killed between two acts.
var asks = http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}

// Ask is an act of the simulator, see Acts; into may be nil.
func (r Remote) Ask(what string, query url.Values, body, into any) error {
	response, err := asks.Post("http://"+string(r)+"/"+what+"?"+query.Encode(), "application/json",
		bytes.NewReader(Encode(body)))
	if err != nil {
		return err
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	switch {
	case err != nil:
		return err
	case strings.TrimSpace(string(answer)) == errChanged.Error():
		return errChanged
	case response.StatusCode != http.StatusOK:
		return fmt.Errorf("%s: %s: %s", what, response.Status, strings.TrimSpace(string(answer)))
	case into == nil:
		return nil
	default:
		return json.Unmarshal(answer, into)
	}
}

// State is what is simulated, as it is now. Where the process does not run: as it was left.
func (p *Process[C, S]) State() (state S, err error) {
	if !p.Alive() {
		return state, load(p.dir, stateFile, &state)
	}
	return state, p.Ask("state", nil, nil, &state)
}

// Change changes what is simulated by hand.
func (p *Process[C, S]) Change(change func(*S)) error {
	for {
		var seen json.RawMessage
		var wanted S
		if err := p.Ask("state", nil, nil, &seen); err != nil {
			return err
		}
		if err := json.Unmarshal(seen, &wanted); err != nil {
			return err
		}
		change(&wanted)
		err := p.Ask("change", nil, map[string]any{"Seen": seen, "Wanted": &wanted}, nil)
		if !errors.Is(err, errChanged) {
			return err
		}
	}
}

// Config is how the simulator behaves now.
func (p *Process[C, S]) Config() (config C, err error) {
	return config, load(p.dir, configFile, &config)
}

// Configure changes how the simulator behaves from now on, also after it was killed.
func (p *Process[C, S]) Configure(change func(*C)) error {
	config, err := p.Config()
	if err != nil {
		return err
	}
	change(&config)
	return p.Ask("configure", nil, config, nil)
}

// Requests are all that were ever received, also before the process was killed.
func (p *Process[C, S]) Requests() (all []Request, err error) {
	if p.Alive() {
		return all, p.Ask("requests", nil, nil, &all)
	}
	left, err := readRequests(p.dir)
	for _, one := range left {
		all = append(all, *one)
	}
	return all, err
}

// Inject adds a fault. A simulator that is killed forgets its faults; numbers go on.
func (p *Process[C, S]) Inject(f Fault) error { return p.Ask("inject", nil, f, nil) }

// ClearFaults takes all faults back.
func (p *Process[C, S]) ClearFaults() error { return p.Ask("clear-faults", nil, nil, nil) }
