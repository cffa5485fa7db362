package access

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"time"

	"golang.org/x/time/rate"

	"burnish/internal/device"
)

// Settings say who may use the API, and how much.
type Settings struct {
	// Tokens and Keystone are nil where they are not used. A token in the file is the file's.
	Tokens   *TokenFile
	Keystone *Keystone
	// Hosts are further names by which the API is reached.
	Hosts []string
	// Rate is how many changes a caller may request a second, Concurrency how many of its
	// requests may be in flight.
	Rate, Concurrency int
	Log               *slog.Logger
}

const (
	// inFlight is how many requests of all callers are in flight at most.
	inFlight = 1024
	// failureRate and failureBurst are how many requests without a valid token an address may
	// send, a second and at once.
	failureRate, failureBurst = 5, 50
	// noticePause is the pause between two lines in the log about the same caller's excess.
	noticePause = time.Minute
)

// Gate is what stands before the API: it authenticates callers, and refuses requests for
// where they come from or how many there are.
type Gate struct {
	Settings
	changes, failures *buckets
	notices           *buckets
	running           *Running
}

// NewGate makes a gate.
func NewGate(s Settings) *Gate {
	return &Gate{
		Settings: s,
		changes:  newBuckets(rate.Limit(s.Rate), max(1, s.Rate)),
		failures: newBuckets(failureRate, failureBurst),
		notices:  newBuckets(rate.Every(noticePause), 1),
		running:  NewRunning(inFlight, s.Concurrency),
	}
}

// Authenticate finds who sends a request: by its token, or without one by the peer of a
// unix socket. An address with many failures gets in only with tokens that are known already:
// no other service is asked about its tokens. What other headers say of the caller (X-Roles,
// X-User-Id) is not read.
func (g *Gate) Authenticate(r *http.Request) (Principal, error) {
	who, err := g.authenticate(r)
	if f, ok := device.AsFault(err); ok && f.Code == device.CodeNotAuthenticated && !g.failures.take(addressOf(r)) {
		err = tooManyFailures()
		g.notice("many requests without a valid token", "from", addressOf(r))
	}
	if err == nil {
		RecordOf(r.Context()).Principal = who
	}
	return who, err
}

func (g *Gate) authenticate(r *http.Request) (Principal, error) {
	token, err := tokenOf(r)
	if err != nil {
		return Principal{}, err
	}
	if token == "" {
		if p, ok := r.Context().Value(peerKey{}).(peer); ok && !forwarded(r) {
			return p.principal(), nil
		}
		return Principal{}, notAuthenticated("the request has no token")
	}
	var broken error // a token that only the file may have
	if g.Tokens != nil {
		who, found, err := g.Tokens.find(token)
		if found {
			return who, nil
		}
		broken = err
	}
	if g.Keystone != nil {
		who, err := g.askKeystone(r, token)
		if !errors.Is(err, errUnknownToken) {
			return who, err
		}
	}
	if broken != nil {
		return Principal{}, broken
	}
	return Principal{}, errUnknownToken
}

func (g *Gate) askKeystone(r *http.Request, token string) (Principal, error) {
	if g.failures.empty(addressOf(r)) {
		if who, known, err := g.Keystone.cached(token); known {
			return who, err
		}
		return Principal{}, tooManyFailures()
	}
	return g.Keystone.find(r.Context(), token)
}

func tooManyFailures() error {
	return tooMany("too many requests without a valid token came from this address")
}

func tooMany(message string) error {
	return &device.Fault{Class: device.Transient, Code: device.CodeTooManyRequests, Message: message,
		Remedy: "send it again later"}
}

// Enter refuses a caller that sends too much. leave must be called when its request is
// answered.
func (g *Gate) Enter(who Principal, change bool) (leave func(), err error) {
	leave, err = g.running.Enter(who.ID)
	switch {
	case errors.Is(err, errFull):
		err = tooMany("the worker has as many requests in flight as it takes")
	case err != nil:
		err = tooMany(fmt.Sprintf("you have %d requests in flight already", g.Concurrency))
	case change && !g.changes.take(who.ID):
		leave()
		leave, err = nil, tooMany(fmt.Sprintf("you request more than %d changes a second", g.Rate))
	}
	if err != nil {
		g.notice("a caller sends too many requests", "principal", clip(who.ID))
	}
	return leave, err
}

// notice says in the log, now and then, that a caller is being refused.
func (g *Gate) notice(what, key, caller string) {
	if g.notices.take(key + " " + caller) {
		g.Log.Warn("API: "+what, key, caller)
	}
}

// forwarded says that a proxy passes the request on: then the peer of the socket is not its
// sender.
func forwarded(r *http.Request) bool {
	for _, name := range []string{"Forwarded", "Via", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto",
		"X-Real-Ip"} {
		if len(r.Header.Values(name)) > 0 {
			return true
		}
	}
	return false
}

// addressOf is what a caller without a token is counted by: the address of the connection,
// of IPv6 the network.
func addressOf(r *http.Request) string {
	if p, ok := r.Context().Value(peerKey{}).(peer); ok {
		return p.id()
	}
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr
	}
	return networkOf(host)
}

func networkOf(host string) string {
	address, err := netip.ParseAddr(host)
	if err != nil {
		return host
	}
	address = address.Unmap().WithZone("")
	if network, err := address.Prefix(64); err == nil && address.Is6() && !address.IsLoopback() {
		return network.String()
	}
	return address.String()
}
