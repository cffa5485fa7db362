package simserver

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"
)

// Core is a simulator but for what it simulates: C is how it behaves, S what it is now. Its
// methods may be called from any goroutine.
type Core[C, S any] struct {
	Hooks
	// Closing ends what hangs when the simulator is closed.
	Closing context.Context
	stop    context.CancelFunc

	Mu   sync.Mutex
	Conf C
	Data S
	// DownUntil is until when no connection is accepted.
	DownUntil time.Time
	// Broken is an error of a question that returns none.
	Broken error

	requests []*Request
	faults   []*Fault
	cleared  chan struct{} // closed when the faults are cleared
	cutAll   func()        // cuts the connections that are open, where there is a server
	exit     func()        // ends the process at once, where there is one

	dir   string // "": in memory only
	last  []byte // the state, as it was written
	trail *os.File
}

// Hooks are what a simulator does. All but Write are called while Mu is held.
type Hooks struct {
	// Advance does what is due until now.
	Advance func(now time.Time)
	// Sign says in the log who sends a request, and takes its secrets out.
	Sign func(r *http.Request, entry *Request)
	// Answer carries a request out.
	Answer func(c *Call) Answer
	// Spoil does what faults of the simulator's own kinds do. The answer is nil before the
	// request is carried out.
	Spoil func(f *Fault, r *http.Request, a *Answer)
	Write func(w http.ResponseWriter, r *http.Request, a Answer)
	// Shown is the certificate that is shown now; nil: the one that it was begun with.
	Shown func() Shown
}

// Call is a request that is carried out.
type Call struct {
	*http.Request
	At    time.Time
	Raw   []byte
	JSON  map[string]any
	Entry *Request // in the log
}

// Text is a field of the body; "" where there is none.
func (c *Call) Text(key string) string {
	value, _ := c.JSON[key].(string)
	return value
}

// Answer is what a simulator says.
type Answer struct {
	Status int
	Header map[string]string
	Body   map[string]any
	Tagged bool // the body has an ETag
}

// OK is the answer 200.
func OK(body map[string]any) Answer { return Answer{Status: http.StatusOK, Body: body} }

// New is a core that is in memory only.
func New[C, S any](config C, state S) *Core[C, S] {
	c := &Core[C, S]{Conf: config, Data: state, cleared: make(chan struct{}), cutAll: func() {}}
	c.Closing, c.stop = context.WithCancel(context.Background())
	return c
}

// Close ends what hangs.
func (c *Core[C, S]) Close() { c.stop() }

// Do does something to the simulator as it is now.
func (c *Core[C, S]) Do(act func(now time.Time)) {
	c.Mu.Lock()
	defer c.Mu.Unlock()
	now := time.Now()
	c.Advance(now)
	act(now)
	if err := c.save(nil); err != nil && c.Broken == nil {
		c.Broken = fmt.Errorf("the simulation has failed: %w", err)
	}
}

// Config is how the simulator behaves now.
func (c *Core[C, S]) Config() (config C) {
	c.Mu.Lock()
	defer c.Mu.Unlock()
	return c.Conf
}

// Configure changes how the simulator behaves from now on.
func (c *Core[C, S]) Configure(change func(*C)) {
	c.Do(func(time.Time) {
		change(&c.Conf)
		c.Broken = c.saveConfig()
	})
}

// State is a copy of what is simulated, as it is now.
func (c *Core[C, S]) State() (twin S) {
	c.Do(func(time.Time) {
		raw, err := json.Marshal(&c.Data)
		if err == nil {
			err = json.Unmarshal(raw, &twin)
		}
		if err != nil { // something that a test put in itself, such as a channel
			c.Broken = fmt.Errorf("copy the state: %w", err)
		}
	})
	return twin
}

// Change changes what is simulated by hand, as a technician or another user does.
func (c *Core[C, S]) Change(change func(*S)) {
	c.Do(func(time.Time) { change(&c.Data) })
}

// GoDown refuses each connection until then, and cuts those that are open.
func (c *Core[C, S]) GoDown(until time.Time) {
	c.DownUntil = until
	c.cutAll()
}

// isDown is true while no connection is accepted.
func (c *Core[C, S]) isDown() bool {
	c.Mu.Lock()
	defer c.Mu.Unlock()
	now := time.Now()
	c.Advance(now)
	return now.Before(c.DownUntil)
}

// Request is one that was received.
type Request struct {
	Number              int
	At                  time.Time
	Method, Path, Query string
	Body                string // without secrets
	IfMatch             string
	User, Session       string // "": none
	Status              int    // of the answer; 0: there was none
	Changed             bool   // it had an effect on the server
	Fault               FaultKind
	Faults              []FaultKind // Fault is the first
}

// Requests are all that were received, in their order.
func (c *Core[C, S]) Requests() []Request {
	c.Mu.Lock()
	defer c.Mu.Unlock()
	all := make([]Request, 0, len(c.requests))
	for _, one := range c.requests {
		all = append(all, *one)
	}
	return all
}

// Count is how many requests were received: the next has this number and one.
func (c *Core[C, S]) Count() int {
	c.Mu.Lock()
	defer c.Mu.Unlock()
	return len(c.requests)
}

// Counts say how many requests were received, how many of them a fault met and how many asked for
// a change, how many logins succeeded, and how many sessions are open.
type Counts struct{ Requests, Faulted, Writes, Logins, Sessions int }

// Count counts requests.
func Count(requests []Request, sessions int) Counts {
	counts := Counts{Requests: len(requests), Writes: len(Writes(requests)), Sessions: sessions}
	for _, r := range requests {
		if len(r.Faults) > 0 {
			counts.Faulted++
		}
		if r.isLogin() && r.Status/100 == 2 {
			counts.Logins++
		}
	}
	return counts
}

// Writes are those of requests that ask for a change of the server: all but reads, logins and
// logouts.
func Writes(requests []Request) []Request {
	var all []Request
	for _, r := range requests {
		if r.Method != http.MethodGet && r.Method != http.MethodHead && !IsSession(r.Path) {
			all = append(all, r)
		}
	}
	return all
}

// IsSession is true for the path of a session, or of all of them.
func IsSession(path string) bool { return strings.Contains(strings.ToLower(path), "sessions") }

func (r *Request) isLogin() bool { return r.Method == http.MethodPost && IsSession(r.Path) }
