package simserver

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
)

// The files of a folder: how the simulator behaves, what it is, and the log of its requests.
const (
	configFile   = "config.json"
	stateFile    = "state.json"
	requestsFile = "requests.jsonl"
)

// Prepare makes a folder that Open opens, with a new certificate.
func (c *Core[C, S]) Prepare(dir string) error {
	_, ca, chain, err := Certificate("Simulated server CA")
	if err != nil {
		return err
	}
	c.dir = dir
	return errors.Join(os.MkdirAll(dir, 0o700), c.saveConfig(), c.save(nil), write(dir, CAFile, ca),
		write(dir, ServerFile, chain))
}

// Open reads what a folder has, and keeps it there from now on. Again is true where the simulator
// ran before: it was killed.
func (c *Core[C, S]) Open(dir string) (pair tls.Certificate, again bool, err error) {
	file := filepath.Join(dir, ServerFile)
	if pair, err = tls.LoadX509KeyPair(file, file); err != nil {
		return pair, false, err
	}
	if err = errors.Join(load(dir, configFile, &c.Conf), load(dir, stateFile, &c.Data)); err != nil {
		return pair, false, err
	}
	if c.requests, err = readRequests(dir); err != nil {
		return pair, false, err
	}
	c.trail, err = os.OpenFile(filepath.Join(dir, requestsFile), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return pair, false, err
	}
	c.dir = dir
	_, missing := os.Stat(filepath.Join(dir, AddressFile))
	return pair, missing == nil, nil
}

func readRequests(dir string) ([]*Request, error) {
	raw, err := os.ReadFile(filepath.Join(dir, requestsFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var all []*Request
	lines := bufio.NewScanner(bytes.NewReader(raw))
	lines.Buffer(nil, 256<<20)
	for lines.Scan() {
		one := &Request{}
		if err := json.Unmarshal(lines.Bytes(), one); err != nil {
			return nil, fmt.Errorf("%s: %w", requestsFile, err)
		}
		all = append(all, one)
	}
	return all, lines.Err()
}

// save keeps the request, if there is one, and what is simulated.
func (c *Core[C, S]) save(request *Request) error {
	if c.dir == "" {
		return nil
	}
	if request != nil {
		if _, err := c.trail.Write(append(Encode(request), '\n')); err != nil {
			return err
		}
	}
	state, err := json.Marshal(&c.Data)
	if err != nil || bytes.Equal(state, c.last) {
		return err
	}
	c.last = state
	return write(c.dir, stateFile, state)
}

// saveConfig keeps how the simulator behaves.
func (c *Core[C, S]) saveConfig() error {
	if c.dir == "" {
		return nil
	}
	return write(c.dir, configFile, Encode(&c.Conf))
}
