package redfishsim

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"burnish/internal/testkit/simserver"
)

// store keeps a machine in a folder, for a process that can be killed: what is durable in
// a BMC and its server, and the log of requests for the test.
type store struct {
	dir   string
	last  []byte // as it was written
	trail *os.File
}

const (
	configFile   = "config.json"
	stateFile    = "state.json"
	requestsFile = "requests.jsonl"
)

// Prepare makes a folder that Open opens: a new machine, and its certificate.
func Prepare(dir string, p Personality, options ...Option) error {
	m := New(p, options...)
	defer m.Close()
	_, authority, server, err := simserver.Certificate(authorityName)
	if err != nil {
		return err
	}
	config, err := json.MarshalIndent(m.config, "", "  ")
	if err != nil {
		return err
	}
	state, err := json.Marshal(&m.state)
	if err != nil {
		return err
	}
	return errors.Join(os.MkdirAll(dir, 0o700), simserver.Write(dir, configFile, config),
		simserver.Write(dir, stateFile, state),
		simserver.Write(dir, simserver.CAFile, authority), simserver.Write(dir, simserver.ServerFile, server))
}

// Open is the machine in a folder, as its BMC comes back after it was killed; the first
// time as it was prepared.
func Open(dir string) (*Machine, tls.Certificate, error) {
	var config Config
	var state State
	pair, err := tls.LoadX509KeyPair(filepath.Join(dir, simserver.ServerFile), filepath.Join(dir, simserver.ServerFile))
	if err != nil {
		return nil, pair, err
	}
	if err := errors.Join(simserver.Load(dir, configFile, &config), simserver.Load(dir, stateFile, &state)); err != nil {
		return nil, pair, err
	}
	requests, err := readRequests(dir)
	if err != nil {
		return nil, pair, err
	}
	trail, err := os.OpenFile(filepath.Join(dir, requestsFile), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, pair, err
	}
	m := machine(config, state)
	m.store = &store{dir: dir, trail: trail}
	m.requests, m.count = requests, len(requests)
	now := time.Now()
	if _, err := os.Stat(filepath.Join(dir, simserver.AddressFile)); err == nil {
		m.advance(now)
		m.state.BMCRestarts++
		m.down = now
		m.comeBack(now, false)
	}
	return m, pair, m.save(nil)
}

func readRequests(dir string) ([]Request, error) {
	raw, err := os.ReadFile(filepath.Join(dir, requestsFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var all []Request
	lines := bufio.NewScanner(bytes.NewReader(raw))
	lines.Buffer(nil, 64<<20)
	for lines.Scan() {
		var one Request
		if err := json.Unmarshal(lines.Bytes(), &one); err != nil {
			return nil, fmt.Errorf("%s: %w", requestsFile, err)
		}
		all = append(all, one)
	}
	return all, lines.Err()
}

// save keeps the request, if there is one, and what is durable.
func (m *Machine) save(request *Request) error {
	if m.store == nil {
		return nil
	}
	if request != nil {
		line, err := json.Marshal(request)
		if err != nil {
			return err
		}
		if _, err := m.store.trail.Write(append(line, '\n')); err != nil {
			return err
		}
	}
	state, err := json.Marshal(&m.state)
	if err != nil || bytes.Equal(state, m.store.last) {
		return err
	}
	m.store.last = state
	return simserver.Write(m.store.dir, stateFile, state)
}

// saveConfig keeps how the BMC behaves.
func (m *Machine) saveConfig() error {
	if m.store == nil {
		return nil
	}
	config, err := json.MarshalIndent(m.config, "", "  ")
	if err != nil {
		return err
	}
	return simserver.Write(m.store.dir, configFile, config)
}
