package oneviewsim

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"burnish/internal/testkit/simserver"
)

// store keeps an appliance in a folder, for a process that can be killed: each request is one
// line of the journal, with all that it changed.
type store struct {
	dir     string
	journal *os.File
}

const (
	configFile  = "config.json"
	journalFile = "journal.jsonl"
)

// step is one line of the journal.
type step struct {
	Request   *Request    `json:",omitempty"`
	Hardware  []*Hardware `json:",omitempty"`
	Templates []*Template `json:",omitempty"`
	Profiles  []*Profile  `json:",omitempty"`
	Tasks     []*Task     `json:",omitempty"`
	Sessions  []*Session  `json:",omitempty"`
	Acts      []Act       `json:",omitempty"`
	Gone      []string    `json:",omitempty"` // URIs and tokens
	Next      int
}

// Prepare makes a folder that Open opens: a new appliance, and its certificate.
func Prepare(dir string, options ...Option) error {
	a := New(options...)
	defer a.Close()
	_, authority, server, err := simserver.Certificate(authorityName)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	journal, err := os.OpenFile(filepath.Join(dir, journalFile), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	a.store, a.acted = &store{dir: dir, journal: journal}, 0
	a.touchAll()
	return errors.Join(a.save(nil), journal.Close(), a.saveConfig(),
		simserver.Write(dir, simserver.CAFile, authority), simserver.Write(dir, simserver.ServerFile, server))
}

// Open is the appliance in a folder, as it comes back after it was killed; the first time as
// it was prepared. Its tasks have gone on meanwhile.
func Open(dir string) (*Appliance, tls.Certificate, error) {
	pair, err := tls.LoadX509KeyPair(filepath.Join(dir, simserver.ServerFile), filepath.Join(dir, simserver.ServerFile))
	if err != nil {
		return nil, pair, err
	}
	var config Config
	if err := simserver.Load(dir, configFile, &config); err != nil {
		return nil, pair, err
	}
	state, requests, whole, err := readJournal(dir)
	if err != nil {
		return nil, pair, err
	}
	path := filepath.Join(dir, journalFile)
	if err := os.Truncate(path, whole); err != nil { // what was being written when it was killed
		return nil, pair, err
	}
	journal, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, pair, err
	}
	a := appliance(config, state)
	a.store, a.requests = &store{dir: dir, journal: journal}, requests
	for server, link := range config.Links {
		bmc, err := newRemoteBMC(link)
		if err != nil {
			return nil, pair, err
		}
		a.bmcs[server] = bmc
	}
	if _, err := os.Stat(filepath.Join(dir, simserver.AddressFile)); err == nil && !config.SessionsSurvive {
		for _, s := range slices.Clone(a.state.Sessions) {
			a.closeSession(s)
		}
	}
	return a, pair, a.save(nil)
}

// readJournal is what the journal's whole lines make, and their length.
func readJournal(dir string) (State, []Request, int64, error) {
	raw, err := os.ReadFile(filepath.Join(dir, journalFile))
	if err != nil {
		return State{}, nil, 0, err
	}
	whole := bytes.LastIndexByte(raw, '\n') + 1
	a := appliance(Config{}, State{})
	defer a.Close()
	var requests []Request
	lines := bufio.NewScanner(bytes.NewReader(raw[:whole]))
	lines.Buffer(nil, 256<<20)
	for lines.Scan() {
		var one step
		if err := json.Unmarshal(lines.Bytes(), &one); err != nil {
			return State{}, nil, 0, fmt.Errorf("%s: %w", journalFile, err)
		}
		a.apply(one)
		if one.Request != nil {
			requests = append(requests, *one.Request)
		}
	}
	return a.state, requests, int64(whole), lines.Err()
}

// apply makes one step again.
func (a *Appliance) apply(one step) {
	s := &a.state
	put(&s.Hardware, a.hardware, one.Hardware, (*Hardware).URI)
	put(&s.Templates, a.templates, one.Templates, (*Template).URI)
	put(&s.Profiles, a.profiles, one.Profiles, (*Profile).URI)
	put(&s.Tasks, a.tasks, one.Tasks, (*Task).URI)
	put(&s.Sessions, a.sessions, one.Sessions, func(x *Session) string { return x.Token })
	s.Acts, s.Next = append(s.Acts, one.Acts...), one.Next
	for _, key := range one.Gone {
		drop(&s.Hardware, a.hardware, key)
		drop(&s.Templates, a.templates, key)
		drop(&s.Profiles, a.profiles, key)
		drop(&s.Tasks, a.tasks, key)
		drop(&s.Sessions, a.sessions, key)
	}
}

func put[T any](list *[]*T, index map[string]*T, changed []*T, key func(*T) string) {
	for _, one := range changed {
		if known := index[key(one)]; known != nil {
			*known = *one
			continue
		}
		*list, index[key(one)] = append(*list, one), one
	}
}

func drop[T any](list *[]*T, index map[string]*T, key string) {
	known := index[key]
	if known == nil {
		return
	}
	delete(index, key)
	*list = slices.DeleteFunc(*list, func(one *T) bool { return one == known })
}

// save writes the request, if there is one, and all that has changed: one line.
func (a *Appliance) save(request *Request) error {
	defer func() { a.gone = nil }()
	if a.store == nil {
		return nil
	}
	one := step{Request: request, Acts: a.state.Acts[a.acted:], Gone: a.gone, Next: a.state.Next}
	one.Hardware = changed(a.dirty, a.state.Hardware)
	one.Templates = changed(a.dirty, a.state.Templates)
	one.Profiles = changed(a.dirty, a.state.Profiles)
	one.Tasks = changed(a.dirty, a.state.Tasks)
	one.Sessions = changed(a.dirty, a.state.Sessions)
	if request == nil && len(a.dirty) == 0 && len(one.Acts) == 0 && len(a.gone) == 0 {
		return nil
	}
	line, err := json.Marshal(one)
	if err != nil {
		return err
	}
	if _, err := a.store.journal.Write(append(line, '\n')); err != nil {
		return err
	}
	a.dirty, a.acted = map[any]bool{}, len(a.state.Acts)
	return nil
}

// changed are those of a list that are to be written, in their order.
func changed[T any](dirty map[any]bool, list []*T) []*T {
	var some []*T
	if len(dirty) == 0 {
		return nil
	}
	for _, one := range list {
		if dirty[one] {
			some = append(some, one)
		}
	}
	return some
}

// saveConfig keeps how the appliance behaves.
func (a *Appliance) saveConfig() error {
	if a.store == nil {
		return nil
	}
	config, err := json.MarshalIndent(a.config, "", "  ")
	if err != nil {
		return err
	}
	return simserver.Write(a.store.dir, configFile, config)
}
