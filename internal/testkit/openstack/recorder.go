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
	// Status is 0 where no answer came back to the client.
	Status int
	Answer string
	// Began and Ended are when it came, and when its answer was ready to go back.
	Began, Ended time.Time
}

// Provider is the UUID that the path names, "" where it names none.
func (e Exchange) Provider() string { return anyUUID.FindString(e.Path) }

// Change is what Placement holds of a provider after a write that it took.
type Change struct {
	UUID            string
	Exists          bool // the provider
	Stocked         bool // it has an inventory
	Total, Reserved int
	Generation      int64
	// By is the write, At when Placement had answered it.
	By Exchange
	At time.Time
}

// Burned says that a scheduler cannot give the provider out.
func (c Change) Burned() bool { return c.Exists && c.Stocked && c.Reserved >= c.Total }

// Allocatable says that a scheduler may give the provider out, if nobody has it.
func (c Change) Allocatable() bool { return c.Exists && c.Stocked && c.Reserved < c.Total }

// When picks requests for a Disturbance.
type Match struct {
	Method string // any where ""
	Path   string // a regular expression that the path with its query holds; any where ""
	Nth    int    // the nth of them from 1; every one where 0
}

// Disturbance is what happens to a request and its answer. Before and After may wait:
// that holds it.
type Injection struct {
	Before     func() // before Placement hears of it
	After      func() // when Placement's answer is there
	Drop       bool   // Placement never hears of it, and the connection breaks
	LoseAnswer bool   // it takes effect, and the connection breaks
	// Status and Body answer in Placement's place, who never hears of it.
	Status int
	Body   string
	// Rewrite changes what Placement answered.
	Rewrite func(status int, answer string) (int, string)
}

// Recorder stands before a Placement: it passes everything, writes it down, and
// disturbs what it is told to.
type Recorder struct {
	// URL is where it serves.
	URL    string
	target string

	hooks       sync.Mutex // held while hooks run, who may ask the Recorder
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
	t.Helper()
	r := &Recorder{target: target, latest: map[string]Change{}}
	server := httptest.NewServer(r)
	t.Cleanup(server.Close)
	r.URL = server.URL
	return r
}

// Disturb scripts what happens to requests from now on; undo ends it.
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

// OnChange has fn called after each write that Placement took, before its writer
// hears of it, one call at a time.
func (r *Recorder) OnChange(fn func(Change)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.onChange = append(r.onChange, fn)
}

// Exchanges gives all so far, in the order in which they ended.
func (r *Recorder) Exchanges() []Exchange {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.exchanges)
}

// Count says how many requests there were since the last Reset.
func (r *Recorder) Count() int { return len(r.Exchanges()) }

// Calls gives each request as `METHOD /path`, with UUIDs left out.
func (r *Recorder) Calls() []string {
	var calls []string
	for _, e := range r.Exchanges() {
		calls = append(calls, e.Method+" "+anyUUID.ReplaceAllString(e.Path, "*"))
	}
	return calls
}

var anyUUID = regexp.MustCompile(`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}`)

// MostInFlight is how many requests were under way at once, at most.
func (r *Recorder) MaxInFlight() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.maxInFlight
}

// Reset forgets the exchanges and the maximum, not what is known of providers.
func (r *Recorder) Reset() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.exchanges, r.maxInFlight = nil, r.inFlight
}

// Level is what is known of a provider from the writes that passed.
func (r *Recorder) Latest(uuid string) (Change, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	c, ok := r.latest[uuid]
	return c, ok
}

// ServeHTTP passes a request on.
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
		if do.Rewrite != nil {
			e.Status, e.Answer = do.Rewrite(e.Status, e.Answer)
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
		return // the client went away; what it missed is written down
	}
}

// pass makes the request to Placement; the status is 0 where it does not answer.
func (r *Recorder) forward(request *http.Request, sent []byte) (int, string, http.Header) {
	// Not the client's context: one that gives up does not call its request back.
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

// cut breaks the connection, as a program does that is killed.
func breakConnection(w http.ResponseWriter) {
	connection, _, err := http.NewResponseController(w).Hijack()
	if err == nil {
		connection.Close() //nolint:errcheck // it is meant to break
	}
}

// begin counts a request and gives what is to happen to it: the last script that fits.
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

// note keeps what a write that Placement took made of a provider, and tells the hooks.
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

// learn keeps what a write made of a provider, and gives the hooks to tell, none for
// old news: two writes may pass at once, and their answers overtake each other.
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

// written reads a write of an inventory, of all of a provider's, or of a provider.
func changeOf(e Exchange) (Change, bool) {
	path, _, _ := strings.Cut(e.Path, "?")
	parts := strings.Split(strings.Trim(path, "/"), "/")
	at := slices.Index(parts, "resource_providers")
	if at < 0 || len(parts) < at+2 {
		return Change{}, false // a new provider has no inventory, and so nothing to tell
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
		for _, one := range answer.Inventories {
			c.Total += one.Total
			c.Reserved += one.Reserved
		}
	}
	return c, true
}

// RequireDirtyIsBurned fails the test at the moment when a write leaves a provider
// allocatable that dirty says is not clean (S2.40, F5).
func (r *Recorder) RequireDirtyIsBurned(t testing.TB, dirty func(uuid string) bool) {
	r.OnChange(func(c Change) {
		if dirty(c.UUID) && c.Allocatable() {
			t.Errorf("provider %s is dirty, and may be given out: reserved=%d of %d after %s %s %s",
				c.UUID, c.Reserved, c.Total, c.By.Method, c.By.Path, c.By.Body)
		}
	})
}

// RequireCalls insists on these requests, as Calls gives them, in this order.
func (r *Recorder) RequireCalls(t testing.TB, calls ...string) {
	t.Helper()
	require.Equal(t, calls, r.Calls())
}
