package redfish

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"burnish/internal/atomicfile"
	"burnish/internal/device"
	"burnish/internal/hardware"
	"burnish/internal/host"
)

// bmc is one BMC with the one session that this worker has on it. Its users share the session; the
// last one logs out, so that an idle worker has neither a session nor a connection.
type bmc struct {
	driver *Driver
	base   *url.URL
	key    string // of the BMC and the secret
	secret string // its name
	users  atomic.Int64

	// turn is held by who sends a request: a BMC falls over when it gets many at once. What follows
	// belongs to its holder.
	turn chan struct{}
	pace *rate.Limiter
	http *http.Client
	// header authenticates requests; nil: there is no session. expired: the BMC has refused it.
	header  http.Header
	expired bool
	// session is the URI of the session; "": there is none, or the BMC did not name it.
	session string
	// sessions is the BMC's collection of sessions, once it was read.
	sessions string
}

// acquire gives the BMC at base, for one more user.
func (d *Driver) acquire(base *url.URL, secret string) *bmc {
	d.mu.Lock()
	defer d.mu.Unlock()
	key := base.Scheme + "://" + strings.ToLower(base.Host) + " " + secret
	b := d.bmcs[key]
	if b == nil {
		b = &bmc{driver: d, base: base, key: key, secret: secret, turn: make(chan struct{}, 1),
			pace: rate.NewLimiter(rate.Every(d.timing.interval), 1)}
		d.bmcs[key] = b
	}
	b.users.Add(1)
	return b
}

// release gives up one use. The last one logs out and closes the connections; who wants the BMC
// meanwhile waits for its turn, and makes a new session.
func (b *bmc) release() error {
	if b.users.Add(-1) > 0 {
		return nil
	}
	b.turn <- struct{}{}
	defer func() { <-b.turn }()
	if b.http == nil || b.users.Load() > 0 {
		return nil
	}
	defer b.http.CloseIdleConnections()
	return b.logout()
}

// inTurn sends a request within the session, once it is its turn. It logs in first where there is no
// session. basic: the BMC has no place for one, and the request has the password itself.
func (b *bmc) inTurn(ctx context.Context, r request) (got answer, basic bool, err error) {
	wait, cancel := context.WithTimeoutCause(ctx, b.driver.timing.request, errors.New("the BMC is busy with a request"))
	defer cancel()
	select {
	case b.turn <- struct{}{}:
	case <-wait.Done():
		return answer{}, false, &lost{Method: r.Method, Path: r.Path, err: context.Cause(wait)}
	}
	defer func() { <-b.turn }()
	if b.header == nil || b.expired {
		err := b.login(ctx)
		if err == nil && r.Method != http.MethodGet {
			// Who the system is was read before: another BMC may have taken the address.
			err = errors.New("the session was made again")
			return answer{}, false, &lost{Method: r.Method, Path: r.Path, err: err}
		}
		if err != nil && mayPass(err) {
			err = &lost{Method: r.Method, Path: r.Path, err: err} // the request itself has not left
		}
		if err != nil {
			return answer{}, false, err
		}
	}
	if r.Intent != nil {
		if err := r.Intent(); err != nil {
			return answer{}, false, err
		}
	}
	got, err = b.transmit(ctx, r)
	basic = b.header.Get("Authorization") != ""
	if hasStatus(err, http.StatusUnauthorized) {
		b.expired = true // the next request makes another session
		if basic {
			err = &device.Fault{Class: device.Transient, Code: device.CodeBMCSessionLimit,
				Remedy:  "end unused sessions on the BMC",
				Message: "the BMC has no free session, and takes no HTTP Basic: " + err.Error()}
		}
	}
	if err == nil {
		err = got.refused()
	}
	return got, basic, err
}

// ownSession gives the collection of sessions, and the own one in it; "": there is none, or the BMC did
// not name it.
func (b *bmc) ownSession() (collection, own string) {
	b.turn <- struct{}{}
	defer func() { <-b.turn }()
	return b.sessions, b.session
}

// newTransport gives the connections to one BMC. No proxy of the environment is used.
func (d *Driver) newTransport(base *url.URL, s host.Secret) (*http.Transport, error) {
	if base.Scheme != "https" && !s.Insecure {
		return nil, hardware.Invalid("url must begin with https://: a password is never sent unencrypted")
	}
	if !s.MayGoTo(base.Hostname()) {
		return nil, hardware.Refused(device.CodeNotAllowed, "if it may have it, add it to hosts of the secret",
			"the BMC at %s is none of those that may get this secret", base.Hostname())
	}
	config, err := s.TLS()
	if err != nil {
		return nil, hardware.Refused(device.CodeInvalidConfig, "correct the secrets file", "the secret: %v", err)
	}
	return &http.Transport{
		TLSClientConfig:       config,
		DialContext:           d.dial,
		TLSHandshakeTimeout:   15 * time.Second,
		ExpectContinueTimeout: time.Second,
		IdleConnTimeout:       time.Minute,
	}, nil
}

// login makes a session, with the secret as it is now, and deletes those that a crash left. Where the
// session table is full, requests have the password itself until the last user has left. A login
// whose answer is lost may leave a session, which the BMC's own time-out ends.
func (b *bmc) login(ctx context.Context) error {
	b.header, b.session, b.expired = nil, "", false
	s, err := b.driver.credentials(b.secret)
	if err != nil {
		return err
	}
	transport, err := b.driver.newTransport(b.base, s)
	if err != nil {
		return err
	}
	if b.http != nil {
		b.http.CloseIdleConnections()
	}
	b.http = &http.Client{Transport: transport, CheckRedirect: checkRedirect}
	if b.sessions == "" {
		root, err := b.readRoot(ctx)
		if err != nil {
			return err
		}
		b.sessions = cmp.Or(string(root.Links.Sessions), "/redfish/v1/SessionService/Sessions")
	}
	if err := b.passFirst(ctx, s); err != nil {
		return err
	}
	_, err = b.makeSession(ctx, s.Username, s.Password)
	if tableFull(err) {
		b.header = basicAuth(s.Username, s.Password)
	} else if err != nil {
		return loginError(err)
	}
	return b.deleteLeft(ctx)
}

// basicAuth is the header of a request with the password itself.
func basicAuth(user, password string) http.Header {
	text := base64.StdEncoding.EncodeToString([]byte(user + ":" + password))
	return http.Header{"Authorization": {"Basic " + text}}
}

// makeSession makes a session, and writes its URI down. Its refusal may repeat the password; see loginError.
func (b *bmc) makeSession(ctx context.Context, user, password string) (made answer, err error) {
	known, err := b.loadSessions()
	if err != nil {
		return answer{}, err
	}
	made, err = b.transmit(ctx, request{Method: http.MethodPost, Path: b.sessions, Timeout: b.driver.timing.login,
		Body: map[string]string{"UserName": user, "Password": password}})
	if err != nil {
		return answer{}, err
	}
	token := made.Header.Get("X-Auth-Token")
	if token == "" {
		return answer{}, hardware.Refused(device.CodeBMCLoginRefused, "update the BMC's firmware",
			"the BMC answers a login with %d and no token", made.Status)
	}
	b.header = http.Header{"X-Auth-Token": {token}}
	// Some answers have no Location.
	if b.session = b.path(made.Path, made.Header.Get("Location")); b.session == "" {
		var body sessionResource
		if made.decode(&body) == nil {
			b.session = string(body.Path)
		}
	}
	if b.session == "" {
		return made, nil
	}
	if err := b.saveSessions(append(known, openSession{URI: b.session, User: user})); err != nil {
		return answer{}, errors.Join(err, b.logout())
	}
	return made, nil
}

// tableFull: the BMC has no place for one more session.
func tableFull(err error) bool {
	r, ok := asRefusal(err)
	return ok && (r.says("SessionLimitExceeded") || r.says("RAC0218") || r.says("CreateLimitReachedForResource"))
}

// serviceRoot is what a BMC shows to everybody.
type serviceRoot struct {
	certificate string
	UUID        string `bmc:"optional"`
	Links       struct {
		Sessions link `bmc:"optional"` // iDRAC 8 has them at /redfish/v1/Sessions
	} `bmc:"optional"`
}

const rootPath = "/redfish/v1/"

func (b *bmc) readRoot(ctx context.Context) (root serviceRoot, err error) {
	got, err := b.transmit(ctx, request{Method: http.MethodGet, Path: rootPath, Timeout: b.driver.timing.login})
	if err == nil {
		err = got.decode(&root)
	}
	root.certificate = got.certificate
	return root, err
}

// loginError says why there is no session, without the BMC's words, which may repeat the
// password. A wrong password is not tried again: the account would be locked.
func loginError(err error) error {
	r, ok := asRefusal(err)
	if !ok {
		return err
	}
	for i := range r.Messages {
		r.Messages[i].Text = ""
	}
	if mayPass(err) {
		return err
	}
	return hardware.Refused(device.CodeBMCLoginRefused,
		"correct the secret in the secrets file, or the account on the BMC", "%s", r.Error())
}

// logout deletes the session, whatever has become of the step's own context. One that cannot be
// deleted stays in the file: the next login deletes it.
func (b *bmc) logout() error {
	ctx, cancel := context.WithTimeout(context.Background(), b.driver.timing.login)
	defer cancel()
	uri, gone := b.session, b.session != "" && b.deleteSession(ctx, b.session)
	b.header, b.session = nil, ""
	if !gone {
		return nil
	}
	known, err := b.loadSessions()
	if err != nil {
		return err
	}
	return b.saveSessions(slices.DeleteFunc(known, func(s openSession) bool { return s.URI == uri }))
}

// deleteSession deletes a session, and reports whether it is gone. Where there is no answer, it asks
// again.
func (b *bmc) deleteSession(ctx context.Context, uri string) bool {
	for range maxTries {
		_, err := b.transmit(ctx, request{Method: http.MethodDelete, Path: uri, Timeout: b.driver.timing.login})
		if err == nil || hasStatus(err, http.StatusNotFound) || hasStatus(err, http.StatusUnauthorized) && uri == b.session {
			return true
		}
		if !mayPass(err) {
			return false
		}
	}
	return false
}

// deleteLeft deletes the sessions of workers that were killed, but for the own one. A BMC that has
// restarted may have given the number to another user's.
func (b *bmc) deleteLeft(ctx context.Context) error {
	known, err := b.loadSessions()
	if err != nil {
		return err
	}
	left := slices.DeleteFunc(slices.Clone(known), func(one openSession) bool {
		if one.URI == b.session {
			return false
		}
		got, err := b.transmit(ctx, request{Method: http.MethodGet, Path: one.URI, Timeout: b.driver.timing.login})
		if err != nil {
			return hasStatus(err, http.StatusNotFound)
		}
		var now sessionResource
		return got.decode(&now) != nil || now.UserName != one.User || b.deleteSession(ctx, one.URI)
	})
	if len(left) == len(known) {
		return nil
	}
	return b.saveSessions(left)
}

// sessionResource is what the driver reads of a Session.
type sessionResource struct {
	Path     link `json:"@odata.id"`
	UserName string
}

// openSession is what is kept on disk of a session while it is open: never its token.
type openSession struct {
	URI  string `json:"uri"`
	User string `json:"user"`
}

func (b *bmc) saveSessions(all []openSession) error { return b.keep("", all, len(all) > 0) }

// loadSessions gives none where another version has written them: the BMC's own time-out ends those.
func (b *bmc) loadSessions() ([]openSession, error) { return kept[[]openSession](b, "") }

// keptPath is where something of this BMC is kept: its open sessions, or what has a name.
func (b *bmc) keptPath(what string) string {
	name := fmt.Sprintf("%x%s.json", sha256.Sum256([]byte(b.key)), what)
	return filepath.Join(b.driver.host.StateDir, "redfish", name)
}

// keep keeps something of a BMC beyond the worker's life; some: there is something.
func (b *bmc) keep(what string, value any, some bool) error {
	path := b.keptPath(what)
	var err error
	if !some {
		if err = atomicfile.Remove(path); errors.Is(err, fs.ErrNotExist) {
			return nil
		}
	} else {
		var text []byte
		if text, err = json.Marshal(value); err == nil {
			err = os.MkdirAll(filepath.Dir(path), 0o700)
		}
		if err == nil {
			err = atomicfile.Write(path, text)
		}
	}
	return stateDirError(err)
}

// kept is what was kept; empty where it cannot be read.
func kept[T any](b *bmc, what string) (value T, err error) {
	text, err := os.ReadFile(b.keptPath(what))
	if errors.Is(err, fs.ErrNotExist) {
		return value, nil
	}
	if err == nil && json.Unmarshal(text, &value) != nil {
		var none T
		return none, nil
	}
	return value, stateDirError(err)
}

func stateDirError(err error) error {
	if err == nil {
		return nil
	}
	return &device.Fault{Class: device.Transient, Code: device.CodeStateDirError,
		Message: "record what is open on the BMC: " +
			err.Error(), Remedy: "see the worker's state directory"}
}
