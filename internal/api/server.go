package api

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"time"

	"burnish/internal/api/access"
	"burnish/internal/device"
	"burnish/workflows/client"
	"burnish/workflows/contract"
)

// Options are what the API needs.
type Options struct {
	Devices       Devices
	Authenticator access.Authenticator
	Policy        Policy
	Guards        Guards
	// Signer signs overrides; nil: they are off.
	Signer Signer
	Log    *slog.Logger
	// Metrics answers GET /metrics; nil: there is no such path.
	Metrics http.Handler
	// Ready says why the API cannot answer at present; nil if it can.
	Ready func(ctx context.Context) error
	// Verbs are what may be asked of devices; nil: contract.Verbs.
	Verbs []contract.Verb
	// Timeout bounds one request to Temporal; 0 is DefaultTimeout.
	Timeout time.Duration
}

// Policy says whether a principal may do what a rule is about.
type Policy interface {
	Allows(rule string, who access.Principal) bool
}

// Guards refuse requests for what they are or cost, whatever they ask for. Their errors are
// a *device.Fault.
type Guards interface {
	// Check refuses a request that another site's page sent, by its Host and Origin.
	Check(r *http.Request) error
	// Enter refuses a caller that sends too much. change: the request may change something.
	// leave must be called when the request is answered.
	Enter(who access.Principal, change bool) (leave func(), err error)
}

// DefaultTimeout is that of Options.
const DefaultTimeout = 30 * time.Second

// server is the API's handler.
type server struct {
	Options
	mux   *http.ServeMux
	names sync.Map // by UUID
	fleet *fleet
	turns turns
}

// New returns the API's handler.
func New(o Options) http.Handler {
	o.Timeout = cmp.Or(o.Timeout, DefaultTimeout)
	if o.Verbs == nil {
		o.Verbs = contract.Verbs
	}
	list := func(ctx context.Context) ([]client.Execution, error) { return o.Devices.Fleet(ctx) }
	return &server{Options: o, mux: muxOf(routes(o.Verbs)), fleet: &fleet{list: list, log: o.Log},
		turns: newTurns()}
}

// call is one request on its way to its answer.
type call struct {
	*server
	r       *http.Request
	header  http.Header // of the answer
	who     access.Principal
	version version
	route   *route
	// segment is what the path has in the place of {device}, or of another variable.
	segment string
	// name is the device's canonical name, once it is resolved, instance the instance's UUID.
	name, instance string
	// leave ends a read's turn.
	leave func()
}

// ServeHTTP answers one request.
func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c := &call{server: s, r: r, header: w.Header(), leave: func() {}}
	defer func() { c.leave() }()
	defer func() {
		if value := recover(); value != nil {
			s.Log.Error("a request failed unexpectedly", "method", r.Method, "path", r.URL.Path, "panic", fmt.Sprint(value),
				"stack", string(debug.Stack()))
			c.refuse(w, errors.New("panic"))
		}
	}()
	c.header.Set("Cache-Control", "no-store")
	c.header.Set("X-Content-Type-Options", "nosniff")
	var unsupported error
	if strings.HasPrefix(strings.TrimLeft(r.URL.Path, "/"), "v2/") { // as routes are found
		unsupported = c.negotiate()
	}
	if err := s.Guards.Check(r); err != nil {
		c.refuse(w, err)
		return
	}
	if unsupported != nil {
		c.refuse(w, unsupported)
		return
	}
	if r.URL.Path == "/metrics" && s.Metrics != nil && (r.Method == http.MethodGet || r.Method == http.MethodHead) {
		s.Metrics.ServeHTTP(w, r)
		return
	}
	status, answer, err := c.answer()
	if err != nil {
		c.refuse(w, err)
		return
	}
	c.write(w, status, answer)
}

// answer finds the route, and lets in whom it may.
func (c *call) answer() (status int, answer any, err error) {
	if err := c.find(); err != nil {
		return 0, nil, err
	}
	if c.route.Rule != "" {
		if c.who, err = c.Authenticator.Authenticate(c.r); err != nil {
			return 0, nil, err
		}
		record := access.RecordOf(c.r.Context()) // which Gate.Wrap writes to the log
		leave, err := c.Guards.Enter(c.who, c.changes())
		if err != nil {
			return 0, nil, err
		}
		defer leave()
		record.Change = c.changes()
		defer func() { record.Device = cmp.Or(c.name, c.segment) }()
		if c.version.less(c.route.Since) {
			return 0, nil, noSuchPath(c.r)
		}
		if !c.Policy.Allows(c.route.Rule, c.who) {
			return 0, nil, forbidden(c.route.Rule)
		}
	}
	if err := cmp.Or(c.checkQuery(), c.checkKeys()); err != nil {
		return 0, nil, err
	}
	if c.changes() {
		// Nothing is sent to a server that is known not to answer: this is no "may still".
		if err := c.Ready(c.r.Context()); err != nil {
			return 0, nil, unavailable(err)
		}
	}
	ctx, cancel := context.WithTimeout(c.r.Context(), c.patience())
	defer cancel()
	if !c.changes() && c.route.Rule != "" {
		if c.leave, err = c.turns.take(ctx); err != nil {
			return 0, nil, err
		}
	}
	switch {
	case strings.Contains(c.route.Path, "{device}"):
		err = c.resolve(ctx)
	case strings.Contains(c.route.Path, "{instance}"):
		err = c.readInstance()
	}
	if err != nil {
		return 0, nil, err
	}
	answer, err = c.route.do(ctx, c)
	return cmp.Or(c.route.Status, http.StatusOK), answer, err
}

// patience is how long the request may take: what the API allows, or less where its caller
// does not wait longer (Prefer: wait=SECONDS, RFC 7240).
func (c *call) patience() time.Duration {
	for _, value := range c.r.Header.Values("Prefer") {
		for _, each := range strings.Split(value, ",") {
			name, text, _ := strings.Cut(strings.TrimSpace(each), "=")
			seconds, err := strconv.ParseUint(strings.TrimSpace(text), 10, 16)
			if strings.EqualFold(strings.TrimSpace(name), "wait") && err == nil && seconds > 0 {
				return min(c.Timeout, time.Duration(seconds)*time.Second)
			}
		}
	}
	return c.Timeout
}

// changes says that the request may change something.
func (c *call) changes() bool {
	return c.r.Method != http.MethodGet && c.r.Method != http.MethodHead && !c.route.ReadOnly
}

// may says whether the caller may do what a rule is about.
func (c *call) may(rule string) bool { return c.Policy.Allows(rule, c.who) }

// forbidden is the refusal of a caller that the policy does not allow it. // S2.76
func forbidden(rule string) error {
	return &device.Fault{Class: device.NeedsOperator, Code: device.CodeForbidden,
		Message: "the policy does not allow you " + rule, Remedy: "ask an administrator for a role that the rule allows"}
}
