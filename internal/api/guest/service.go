package guest

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/time/rate"

	"burnish/internal/api/access"
	"burnish/internal/nova/metadata"
	"burnish/workflows/contract"
)

// Options are what the service needs.
type Options struct {
	Instances interface {
		Instances
		// InstanceByAddress gives the living instance whose guest has an address, which is in
		// its canonical form; an error that is client.NotFound if none has.
		InstanceByAddress(ctx context.Context, address string) (contract.InstanceStatus, error)
	}
	// Secret reads the secret of Nova's metadata proxy; nil: signed requests are refused.
	Secret func() ([]byte, error)
	Log    *slog.Logger
}

// service answers guests.
type service struct {
	Options
	timeout  time.Duration
	turns    *turns
	warnings rate.Sometimes
}

const (
	// timeout is how long a request waits for Temporal and the devices. cloud-init gives
	// up at the first answer that is an error, whatever its status, and asks again after ten
	// seconds without one: so a short absence of a worker costs a guest nothing.
	timeout = 20 * time.Second
	// retryAfter is how many seconds a client should wait after a 503.
	retryAfter = 5
	// maxRequests are answered at once, maxPerCaller of them to one caller.
	maxRequests, maxPerCaller = 64, 8
	// Without a request for idleTimeout a connection is closed. An answer is read within
	// writeTimeout after its request.
	idleTimeout, writeTimeout = 15 * time.Second, 25 * time.Second
)

func newService(o Options) *service {
	return &service{Options: o, timeout: timeout, turns: newTurns(maxRequests, maxPerCaller),
		warnings: rate.Sometimes{First: 10, Interval: 10 * time.Second}}
}

// NewServer gives the server of guests, which cuts off slow senders and readers.
func NewServer(o Options) *http.Server {
	web := access.NewServer(newService(o), o.Log)
	web.IdleTimeout, web.WriteTimeout = idleTimeout, writeTimeout
	return web
}

// versions are those that are served, as on a config drive.
var versions = metadata.Versions()

// refusal is an answer without a document.
type refusal struct {
	status int
	text   string
}

func (r *refusal) Error() string { return r.text }

// errNoInstance is the answer to whoever is no living instance, or is another project's.
var errNoInstance = &refusal{http.StatusNotFound, "not found"}

// ServeHTTP answers one request. What is not served is refused before anything is asked:
// cloud-init waits for each answer.
func (s *service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	kind, text, err := s.answer(w, r)
	if err == nil {
		s.write(w, r, http.StatusOK, kind, text)
		return
	}
	var refused *refusal
	if !errors.As(err, &refused) {
		s.warn("a request for metadata cannot be answered: Temporal, a control worker or a device does not answer", "from",
			r.RemoteAddr, "error", err)
		refused = &refusal{http.StatusServiceUnavailable, "the instance's devices cannot be read at present"}
	}
	if refused.status == http.StatusServiceUnavailable || refused.status == http.StatusTooManyRequests {
		w.Header().Set("Retry-After", strconv.Itoa(retryAfter))
	}
	s.write(w, r, refused.status, "text/plain; charset=utf-8", []byte(refused.text+"\n"))
}

// answer gives the document that a request asks for.
func (s *service) answer(w http.ResponseWriter, r *http.Request) (kind string, text []byte, err error) {
	render := route(r.URL.EscapedPath())
	if r.ContentLength != 0 {
		// The body is not read: without this, an answer waits for it.
		w.Header().Set("Connection", "close")
	}
	switch {
	case render == nil:
		return "", nil, errNoInstance
	case r.Method != http.MethodGet && r.Method != http.MethodHead:
		w.Header().Set("Allow", "GET, HEAD")
		return "", nil, &refusal{http.StatusMethodNotAllowed, "use GET or HEAD"}
	case r.ContentLength != 0:
		return "", nil, &refusal{http.StatusBadRequest, "the request has a body"}
	}
	who, err := s.identify(r)
	if err != nil {
		return "", nil, err
	}
	ctx, cancel := context.WithTimeout(r.Context(), s.timeout)
	defer cancel()
	leave, err := s.turns.enter(ctx, who.caller())
	if err != nil {
		return "", nil, err
	}
	defer leave()
	status, err := s.findPatiently(ctx, who)
	if err != nil {
		return "", nil, err
	}
	kind, text, err = render(status)
	if err != nil {
		s.Log.Error("a metadata document is not sent", "instance", status.UUID, "error", err)
		err = &refusal{http.StatusInternalServerError, "the document is not valid; see the log of the control worker"}
	}
	return kind, text, err
}

// findPatiently asks again until it has an answer, or the time is over.
func (s *service) findPatiently(ctx context.Context, who identity) (contract.InstanceStatus, error) {
	for pause := 100 * time.Millisecond; ; pause = min(2*pause, time.Second) {
		status, err := s.find(ctx, who)
		if err == nil || errors.As(err, new(*refusal)) {
			return status, err
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return status, err
		}
	}
}

// route gives what answers a path; nil if it is not served.
func route(path string) func(contract.InstanceStatus) (kind string, text []byte, err error) {
	rest, ok := strings.CutPrefix(path, "/openstack")
	if !ok {
		return nil
	}
	if rest == "" || rest == "/" {
		return func(contract.InstanceStatus) (string, []byte, error) {
			return "text/plain; charset=utf-8", []byte(strings.Join(versions, "\n") + "\n"), nil
		}
	}
	version, ok := strings.CutSuffix(rest, "/meta_data.json")
	if !ok || !slices.Contains(versions, strings.TrimPrefix(version, "/")) || !strings.HasPrefix(version, "/") {
		return nil
	}
	return func(status contract.InstanceStatus) (string, []byte, error) {
		text, err := Document(status)
		return "application/json", text, err
	}
}

func (s *service) write(w http.ResponseWriter, r *http.Request, status int, kind string, text []byte) {
	w.Header().Set("Content-Type", kind)
	w.Header().Set("Content-Length", strconv.Itoa(len(text)))
	w.WriteHeader(status)
	if r.Method == http.MethodHead {
		return
	}
	if _, err := w.Write(text); err != nil {
		s.Log.Debug("an answer was not sent", "from", r.RemoteAddr, "error", err)
	}
}

// warn writes a line about a request, but not one for each: a guest may send any number.
func (s *service) warn(message string, about ...any) {
	s.warnings.Do(func() { s.Log.Warn(message, clipped(about)...) })
}

// clipped bounds what a line of the log has of a caller's text.
func clipped(about []any) []any {
	const longest = 200
	for i, each := range about {
		if text, ok := each.(string); ok && len(text) > longest {
			about[i] = strings.ToValidUTF8(text[:longest], "") + "…"
		}
	}
	return about
}
