package redfish

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"burnish/internal/atomicfile"
	"burnish/internal/device"
	"burnish/internal/hardware"
	"burnish/internal/host"
)

// bmc is one BMC with the one session that this worker has on it. Its users share the session;
// the last one logs out, so that an idle worker has neither a session nor a connection.
type bmc struct {
	driver *Driver
	base   *url.URL
	secret string // its name
	timing timing
	http   *http.Client

	users int // under the driver's lock

	// date is the BMC's time in its last answer, in Unix seconds; 0: unknown.
	date atomic.Int64

	// one is held by who makes, uses the fields of, or ends the session: a login may wait for
	// minutes, and each caller's own context ends its wait.
	one   chan struct{}
	token string
	// session is the URI of the session; "" where the BMC did not name it.
	session string
	// sessions is the BMC's collection of sessions, once it was read.
	sessions string
}

// acquire gives the BMC at base, for one more user.
func (d *Driver) acquire(base *url.URL, secret string) (*bmc, error) {
	b := &bmc{driver: d, base: base, secret: secret, timing: d.timing, users: 1, one: make(chan struct{}, 1)}
	d.mu.Lock()
	defer d.mu.Unlock()
	if known := d.bmcs[b.key()]; known != nil {
		known.users++
		return known, nil
	}
	credentials, err := d.credentials(secret)
	if err != nil {
		return nil, err
	}
	transport, err := newTransport(base, credentials)
	if err != nil {
		return nil, err
	}
	b.http = &http.Client{Transport: transport, CheckRedirect: checkRedirect}
	d.bmcs[b.key()] = b
	return b, nil
}

// release gives up one use. The last one logs out and closes the connections. The logout has a
// context of its own: that of a step that was canceled would leave the session open. Who
// wants the BMC meanwhile waits, and makes a new session.
func (b *bmc) release(ctx context.Context) error {
	d := b.driver
	d.mu.Lock()
	b.users--
	last := b.users == 0
	d.mu.Unlock()
	if !last {
		return nil
	}
	b.one <- struct{}{}
	defer func() { <-b.one }()
	d.mu.Lock()
	// While it waited, another user may have come, and may even have been the last one: then
	// the session is over, and what the driver knows now is a successor with its own users.
	last = b.users == 0 && d.bmcs[b.key()] == b
	d.mu.Unlock()
	if !last {
		return nil
	}
	err := b.logout(ctx)
	b.http.CloseIdleConnections()
	d.mu.Lock()
	defer d.mu.Unlock()
	if b.users == 0 {
		delete(d.bmcs, b.key())
	}
	return err
}

// key is what one session is for.
func (b *bmc) key() string { return b.base.Scheme + "://" + b.base.Host + " " + b.secret }

// newTransport gives the connections to one BMC. No proxy of the environment is used.
func newTransport(base *url.URL, s host.Secret) (*http.Transport, error) {
	if base.Scheme != "https" && !s.Insecure {
		return nil, hardware.Invalid("url must begin with https://: a password is never sent unencrypted")
	}
	config, err := s.TLS()
	if err != nil {
		return nil, hardware.Refused(device.CodeInvalidConfig, "correct the secrets file", "the secret: %v", err)
	}
	return &http.Transport{
		TLSClientConfig:       config,
		DialContext:           (&net.Dialer{Timeout: 10 * time.Second, KeepAlive: 15 * time.Second}).DialContext,
		TLSHandshakeTimeout:   15 * time.Second,
		ExpectContinueTimeout: time.Second,
		MaxConnsPerHost:       2, // a BMC serves few
		IdleConnTimeout:       time.Minute,
	}, nil
}

// authorized sends a request within the session: it logs in first where there is none, and
// again after a 401, which says that the request was not carried out: a BMC may end the session
// of a step at any time, but not each new one.
func (b *bmc) authorized(ctx context.Context, report func(string) error, r request) (answer, error) {
	for tries := 1; ; tries++ {
		token, err := b.login(ctx, report)
		if err != nil {
			return answer{}, err
		}
		got, err := b.send(ctx, r, http.Header{"X-Auth-Token": {token}})
		if !hasStatus(err, http.StatusUnauthorized) {
			return got, err
		}
		if tries == maxTries {
			return answer{}, hardware.Refused(device.CodeBMCLoginRefused, "check the rights of the secret's user on the BMC", "the BMC does not accept its own new session: %v", err)
		}
		b.expired(ctx, token)
	}
}

// expired forgets the session with this token.
func (b *bmc) expired(ctx context.Context, token string) {
	select {
	case b.one <- struct{}{}:
	case <-ctx.Done():
		return
	}
	defer func() { <-b.one }()
	if b.token == token {
		b.token = ""
	}
}

// login gives the token of the session, which it makes where there is none. It waits for a
// place in a full session table; without report, which shows the wait, only for as long as a
// look: the fault shows it, and its retry waits again.
func (b *bmc) login(ctx context.Context, report func(string) error) (string, error) {
	select {
	case b.one <- struct{}{}:
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
	defer func() { <-b.one }()
	if b.token != "" {
		return b.token, nil
	}
	patience := b.timing.sessions
	if report == nil {
		patience = min(patience, b.timing.look)
	}
	waiting := b.timing.wait(patience)
	defer waiting.stop()
	for {
		err := b.loginOnce(ctx)
		if err == nil {
			return b.token, nil
		}
		if !tableFull(err) {
			return "", err
		}
		if err := b.deleteOrphanUnseen(ctx); err != nil {
			return "", err
		}
		if report != nil {
			if stop := report("waits for a place in the BMC's session table"); stop != nil {
				return "", stop
			}
		}
		if again, stop := waiting.next(ctx, retryAfter(err)); stop != nil {
			return "", stop
		} else if !again {
			return "", &device.Fault{Class: device.Transient, Code: device.CodeBMCSessionLimit,
				Message: "the BMC has no free session: " + err.Error(), Remedy: "end unused sessions on the BMC"}
		}
	}
}

// tableFull: the BMC has no place for one more session.
func tableFull(err error) bool {
	r, ok := asRefusal(err)
	return ok && (r.says("SessionLimitExceeded") || r.says("RAC0218") || r.says("CreateLimitReachedForResource"))
}

// loginOnce makes a session, with the secret as it is now, and deletes the one that a crash
// left.
func (b *bmc) loginOnce(ctx context.Context) error {
	s, err := b.driver.credentials(b.secret)
	if err != nil {
		return err
	}
	if b.sessions == "" {
		if err := b.findSessions(ctx); err != nil {
			return err
		}
	}
	left, err := b.loadSession()
	if err != nil {
		return err
	}
	made, err := b.send(ctx, request{
		Method: http.MethodPost, Path: b.sessions, Timeout: b.timing.login,
		Body: map[string]string{"UserName": s.Username, "Password": s.Password},
	}, nil)
	if err != nil {
		return loginError(err)
	}
	var body struct {
		ID      string `json:"@odata.id"`
		Created string `json:"CreatedTime"`
	}
	if len(made.Body) > 0 {
		if err := json.Unmarshal(made.Body, &body); err != nil {
			body.ID = "" // the Location has it
		}
	}
	token := made.Header.Get("X-Auth-Token")
	if token == "" {
		return hardware.Refused(device.CodeBMCLoginRefused, "update the BMC's firmware", "the BMC answers a login with %d and no token", made.Status)
	}
	b.token = token
	// Some answers have no Location.
	if b.session = b.path(made.Header.Get("Location")); b.session == "" {
		b.session = b.path(body.ID)
	}
	if err := b.saveSession(openSession{URI: b.session, User: s.Username, Created: body.Created}); err != nil {
		return errors.Join(err, b.logout(ctx))
	}
	if left.URI != "" && left.URI != b.session {
		b.deleteOrphan(ctx, left, http.Header{"X-Auth-Token": {b.token}})
	}
	return nil
}

// findSessions reads where sessions are made: iDRAC 8 has them at /redfish/v1/Sessions.
func (b *bmc) findSessions(ctx context.Context) error {
	got, err := b.send(ctx, request{Method: http.MethodGet, Path: "/redfish/v1/", Timeout: b.timing.login}, nil)
	if err != nil {
		return err
	}
	var root struct {
		Links struct {
			Sessions struct {
				ID string `json:"@odata.id"`
			}
		}
	}
	if err := got.decode(&root); err != nil {
		return err
	}
	if b.sessions = b.path(root.Links.Sessions.ID); b.sessions == "" {
		b.sessions = "/redfish/v1/SessionService/Sessions"
	}
	return nil
}

// loginError says why there is no session, without the BMC's words, which may repeat the
// password. A wrong password is not tried again: the account would be locked.
func loginError(err error) error {
	r, ok := asRefusal(err)
	if !ok {
		return err
	}
	full := tableFull(err)
	for i := range r.Messages {
		r.Messages[i].Message = ""
	}
	if full || mayPass(err) {
		return err
	}
	return hardware.Refused(device.CodeBMCLoginRefused, "correct the secret in the secrets file, or the account on the BMC", "%s", r.Error())
}

// logout deletes the session.
func (b *bmc) logout(ctx context.Context) error {
	if b.token == "" {
		return nil // it has ended, or the next login deletes it
	}
	token := b.token
	b.token = ""
	if b.session == "" {
		return b.forgetSession() // the BMC did not say which it is; its own time-out ends it
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), b.timing.login)
	defer cancel()
	_, err := b.send(ctx, request{Method: http.MethodDelete, Path: b.session}, http.Header{"X-Auth-Token": {token}})
	if err != nil && !hasStatus(err, http.StatusNotFound) && !hasStatus(err, http.StatusUnauthorized) {
		return nil // its file stays: the next login deletes it
	}
	return b.forgetSession()
}

// openSession is what is kept on disk of a session: never its token.
type openSession struct {
	URI     string `json:"uri"`
	User    string `json:"user"`
	Created string `json:"created,omitempty"`
}

// sessionFile is where the session is kept.
func (b *bmc) sessionFile() string {
	name := fmt.Sprintf("%x.json", sha256.Sum256([]byte(b.key())))
	return filepath.Join(b.driver.host.StateDir, "redfish", name)
}

func (b *bmc) saveSession(s openSession) error {
	text, err := json.Marshal(s)
	if err == nil {
		if err = os.MkdirAll(filepath.Dir(b.sessionFile()), 0o700); err == nil {
			err = atomicfile.Write(b.sessionFile(), text)
		}
	}
	if err != nil {
		return stateDirError(err)
	}
	return nil
}

func (b *bmc) loadSession() (openSession, error) {
	text, err := os.ReadFile(b.sessionFile())
	if errors.Is(err, fs.ErrNotExist) {
		return openSession{}, nil
	}
	if err != nil {
		return openSession{}, stateDirError(err)
	}
	var s openSession
	if err := json.Unmarshal(text, &s); err != nil {
		return openSession{}, stateDirError(fmt.Errorf("%s: %w", b.sessionFile(), err))
	}
	return s, nil
}

func (b *bmc) forgetSession() error {
	b.session = ""
	if err := atomicfile.Remove(b.sessionFile()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return stateDirError(err)
	}
	return nil
}

func stateDirError(err error) error {
	return &device.Fault{Class: device.Transient, Code: device.CodeStateDirError, Message: "record the session: " + err.Error(), Remedy: "see the worker's state directory"}
}

// deleteOrphan deletes the session of a worker that crashed. A BMC that has restarted may have
// given its number to another's session, which is left alone. One that cannot be deleted ends
// by the BMC's own time-out.
func (b *bmc) deleteOrphan(ctx context.Context, left openSession, header http.Header) {
	got, err := b.send(ctx, request{Method: http.MethodGet, Path: left.URI, Timeout: b.timing.login}, header)
	if err != nil {
		return
	}
	var now struct{ UserName, CreatedTime string }
	if json.Unmarshal(got.Body, &now) != nil || now.UserName != left.User || left.Created != "" && now.CreatedTime != left.Created {
		return
	}
	// Its answer says nothing that is acted upon.
	_, _ = b.send(ctx, request{Method: http.MethodDelete, Path: left.URI, Timeout: b.timing.login}, header)
}

// deleteOrphanUnseen deletes it where the table is full and no session can be made to delete
// it: with the password itself, which most BMCs take.
func (b *bmc) deleteOrphanUnseen(ctx context.Context) error {
	left, err := b.loadSession()
	if err != nil || left.URI == "" {
		return err
	}
	s, err := b.driver.credentials(b.secret)
	if err != nil {
		return err
	}
	basic := "Basic " + base64.StdEncoding.EncodeToString([]byte(s.Username+":"+s.Password))
	b.deleteOrphan(ctx, left, http.Header{"Authorization": {basic}})
	return b.forgetSession()
}

// clock is the BMC's own time, as its last answer gave it; zero where it gives none.
func (b *bmc) clock() time.Time {
	if seconds := b.date.Load(); seconds != 0 {
		return time.Unix(seconds, 0).UTC()
	}
	return time.Time{}
}
