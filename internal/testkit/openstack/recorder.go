package openstack

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Exchange is one request and its answer.
type Exchange struct {
	Method string
	Path   string // with the query
	Body   string
	Token  string
	// ByScheduler says that a Scheduler made it.
	ByScheduler bool
	// Status is 0 where the client received no answer.
	Status int
	Answer string
	// Began is when it arrived, Ended when its answer was ready.
	Began, Ended time.Time
}

// Provider is the UUID in the path, "" where there is none.
func (e Exchange) Provider() string { return anyUUID.FindString(e.Path) }

// Change is a provider's state in Placement after a successful write.
type Change struct {
	UUID            string
	Exists          bool // the provider
	Stocked         bool // it has an inventory
	Total, Reserved int
	Generation      int64
	// By is the write, At the time of Placement's answer.
	By Exchange
	At time.Time
}

// Burned reports whether the provider is reserved, so that no scheduler can allocate it.
func (c Change) Burned() bool { return c.Exists && c.Stocked && c.Reserved >= c.Total }

// Allocatable reports whether a scheduler can allocate the provider if it is unused.
func (c Change) Allocatable() bool { return c.Exists && c.Stocked && c.Reserved < c.Total }

// Match selects the requests of an Injection.
type Match struct {
	Method string // any where ""
	Path   string // a regular expression for the path with its query
	Nth    int    // the nth of them from 1; every one where 0
}

// Injection changes what happens to a request and its answer. Before and After may block.
type Injection struct {
	Before     func() // before Placement receives the request
	After      func() // when Placement has answered
	Drop       bool   // Placement never receives it, and the connection breaks
	LoseAnswer bool   // it takes effect, and the connection breaks
	// Status and Body are the answer; Placement never receives the request.
	Status int
	Body   string
}

// Recorder is a proxy before a Placement: it forwards and records every request, and
// applies injections.
type Recorder struct {
	// URL is where it serves.
	URL    string
	server *httptest.Server
	target string

	hooks       sync.Mutex // held while hooks run, which may call the Recorder
	mu          sync.Mutex
	exchanges   []Exchange
	inFlight    int
	maxInFlight int
	injections  []*injected
	latest      map[string]Change
	onChange    []func(Change)
}

type injected struct {
	match Match
	path  *regexp.Regexp
	do    Injection
	count int
}

// Record starts a Recorder before target, and ends it with the test.
func Record(t testing.TB, target string) *Recorder {
	r := NewRecorder(target)
	t.Cleanup(r.Close)
	return r
}

// NewRecorder starts a Recorder before target. The caller closes it.
func NewRecorder(target string) *Recorder {
	r := &Recorder{target: target, latest: map[string]Change{}}
	r.server = httptest.NewServer(r)
	r.URL = r.server.URL
	return r
}

// Close ends it.
func (r *Recorder) Close() { r.server.Close() }

// Inject applies an injection to matching requests from now on, until undo is called.
func (r *Recorder) Inject(when Match, do Injection) (undo func()) {
	s := &injected{match: when, path: regexp.MustCompile(when.Path), do: do}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.injections = append(r.injections, s)
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.injections = slices.DeleteFunc(r.injections, func(other *injected) bool { return other == s })
	}
}

// OnChange has fn called after each successful write, before its writer receives the
// answer, one call at a time.
func (r *Recorder) OnChange(fn func(Change)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.onChange = append(r.onChange, fn)
}

// Exchanges are all since the last Reset, in the order of their ends.
func (r *Recorder) Exchanges() []Exchange {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.exchanges)
}

// Count is the number of requests since the last Reset.
func (r *Recorder) Count() int { return len(r.Exchanges()) }

// Calls are the requests as `METHOD /path`, with * for each UUID.
func (r *Recorder) Calls() []string {
	var calls []string
	for _, e := range r.Exchanges() {
		calls = append(calls, e.Method+" "+anyUUID.ReplaceAllString(e.Path, "*"))
	}
	return calls
}

var anyUUID = regexp.MustCompile(`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}`)

// MaxInFlight is the greatest number of concurrent requests since the last Reset.
func (r *Recorder) MaxInFlight() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.maxInFlight
}

// Reset clears the exchanges and the maximum, but not the state of providers.
func (r *Recorder) Reset() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.exchanges, r.maxInFlight = nil, r.inFlight
}

// Latest is the state of a provider after the last write that was forwarded.
func (r *Recorder) Latest(uuid string) (Change, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	c, ok := r.latest[uuid]
	return c, ok
}

// ServeHTTP forwards a request.
func (r *Recorder) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	sent, err := io.ReadAll(request.Body)
	if err != nil {
		return // the client went away
	}
	e := Exchange{
		Method: request.Method, Path: request.URL.RequestURI(), Body: string(sent),
		Token: request.Header.Get("X-Auth-Token"), ByScheduler: request.UserAgent() == schedulerAgent,
		Began: time.Now(),
	}
	do := r.begin(e)
	if do.Before != nil {
		do.Before()
	}
	header := http.Header{"Content-Type": {"application/json"}}
	switch {
	case do.Drop:
	case do.Status != 0:
		e.Status, e.Answer = do.Status, do.Body
	default:
		e.Status, e.Answer, header = r.forward(request, sent)
		r.observe(e)
		if do.After != nil {
			do.After()
		}
	}
	if do.LoseAnswer {
		e.Status = 0
	}
	r.end(e)
	if e.Status == 0 {
		breakConnection(w)
		return
	}
	for name, values := range header {
		if name != "Content-Length" {
			w.Header()[name] = values
		}
	}
	w.WriteHeader(e.Status)
	if _, err := io.WriteString(w, e.Answer); err != nil {
		return // the client went away
	}
}

// forward sends the request to Placement; the status is 0 where it does not answer.
func (r *Recorder) forward(request *http.Request, sent []byte) (int, string, http.Header) {
	// Not the client's context: a client that gives up does not undo its request.
	on, err := http.NewRequest(request.Method, r.target+request.URL.RequestURI(), bytes.NewReader(sent))
	if err != nil {
		return 0, err.Error(), nil
	}
	on.Header = request.Header.Clone()
	on.Header.Del("Accept-Encoding")
	answer, err := http.DefaultTransport.RoundTrip(on)
	if err != nil {
		return 0, err.Error(), nil
	}
	text, err := io.ReadAll(answer.Body)
	if err := errors.Join(err, answer.Body.Close()); err != nil {
		return 0, err.Error(), nil
	}
	return answer.StatusCode, string(text), answer.Header
}

// breakConnection ends the connection as the death of a server does.
func breakConnection(w http.ResponseWriter) {
	connection, _, err := http.NewResponseController(w).Hijack()
	if err == nil {
		connection.Close() //nolint:errcheck // the client is to see it break
	}
}

// begin counts a request and selects its injection, the last one that matches.
func (r *Recorder) begin(e Exchange) Injection {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.inFlight++
	r.maxInFlight = max(r.maxInFlight, r.inFlight)
	var do Injection
	for _, s := range r.injections {
		if s.match.Method != "" && s.match.Method != e.Method || !s.path.MatchString(e.Path) {
			continue
		}
		s.count++
		if s.match.Nth == 0 || s.match.Nth == s.count {
			do = s.do
		}
	}
	return do
}

func (r *Recorder) end(e Exchange) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.inFlight--
	e.Ended = time.Now()
	r.exchanges = append(r.exchanges, e)
}

// observe records the state after a successful write and calls the hooks.
func (r *Recorder) observe(e Exchange) {
	if e.Method == http.MethodGet || e.Status < 200 || e.Status > 299 {
		return
	}
	c, ok := changeOf(e)
	if !ok {
		return
	}
	c.At = time.Now()
	r.hooks.Lock()
	defer r.hooks.Unlock()
	for _, fn := range r.update(c) {
		fn(c)
	}
}

// update records a change and returns the hooks to call, none for an older change: the
// answers of two concurrent writes may overtake each other.
func (r *Recorder) update(c Change) []func(Change) {
	r.mu.Lock()
	defer r.mu.Unlock()
	known, had := r.latest[c.UUID]
	if had && known.Exists && c.Stocked && known.Generation >= c.Generation {
		return nil
	}
	r.latest[c.UUID] = c
	return slices.Clone(r.onChange)
}

// isRecord says that an inventory of this class is part of Burnish's record of a device. It is
// never allocatable.
func isRecord(class string) bool {
	return class == "CUSTOM_BURNISH_TENANT" || class == "CUSTOM_BURNISH_RECORD"
}

// changeOf reads the state after a write of an inventory or of a provider.
func changeOf(e Exchange) (Change, bool) {
	path, _, _ := strings.Cut(e.Path, "?")
	parts := strings.Split(strings.Trim(path, "/"), "/")
	at := slices.Index(parts, "resource_providers")
	if at < 0 || len(parts) < at+2 {
		return Change{}, false // a new provider has no inventory
	}
	c := Change{UUID: parts[at+1], Exists: true, By: e}
	rest := parts[at+2:]
	if len(rest) == 0 && e.Method == http.MethodDelete {
		c.Exists = false
		return c, true
	}
	if len(rest) == 0 || rest[0] != "inventories" {
		return Change{}, false
	}
	type record struct {
		Total    int `json:"total"`
		Reserved int `json:"reserved"`
	}
	var answer struct {
		Generation  int64             `json:"resource_provider_generation"`
		Inventories map[string]record `json:"inventories"`
		record
	}
	if e.Method == http.MethodDelete {
		return c, true
	}
	if json.Unmarshal([]byte(e.Answer), &answer) != nil {
		return Change{}, false
	}
	c.Generation, c.Stocked = answer.Generation, true
	c.Total, c.Reserved = answer.Total, answer.Reserved
	if len(rest) == 1 {
		c.Stocked = len(answer.Inventories) > 0
		for class, one := range answer.Inventories {
			if isRecord(class) {
				continue
			}
			c.Total += one.Total
			c.Reserved += one.Reserved
		}
	}
	return c, true
}

// RequireDirtyIsBurned fails the test when a write leaves a dirty provider allocatable
// (S2.40, F5).
func (r *Recorder) RequireDirtyIsBurned(t testing.TB, dirty func(uuid string) bool) {
	r.OnChange(func(c Change) {
		if dirty(c.UUID) && c.Allocatable() {
			t.Errorf("provider %s is dirty and allocatable: reserved=%d of %d after %s %s %s",
				c.UUID, c.Reserved, c.Total, c.By.Method, c.By.Path, c.By.Body)
		}
	})
}

// RequireCalls requires exactly these requests, in the form of Calls.
func (r *Recorder) RequireCalls(t testing.TB, calls ...string) {
	t.Helper()
	require.Equal(t, calls, r.Calls())
}
