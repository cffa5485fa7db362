package redfish

import (
	"context"
	"crypto/rand"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"sync/atomic"
	"time"

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

	// date is the BMC's time in its last answer; nil: unknown.
	date atomic.Pointer[clockReading]
	// local is this host's address on the last connection.
	local atomic.Pointer[netip.Addr]

	// one is held by who makes, uses the fields of, or ends the session: a login may wait for
	// minutes, and each caller's own context ends its wait.
	one   chan struct{}
	token string
	// session is the URI of the session; "" where the BMC did not name it.
	session string
	// sessions is the BMC's collection of sessions, once it was read.
	sessions string
	// unanswered: a login may have made a session that nothing shows to be ours yet.
	unanswered bool
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
			return answer{}, hardware.Refused(device.CodeBMCLoginRefused, "check the rights of the secret's user on the BMC",
				"the BMC does not accept its own new session: %v", err)
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
		if err := b.settleUnseen(ctx); err != nil {
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

// loginOnce makes a session, with the secret as it is now, and deletes those that a crash or
// a lost answer left. That it logs in is journaled before the request is sent.
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
	known, err := b.loadSessions()
	if err != nil {
		return err
	}
	made, intent, err := b.postLogin(ctx, s, known)
	if err != nil {
		return loginError(err)
	}
	var body sessionResource
	if made.decode(&body) != nil {
		body = sessionResource{} // the Location has it
	}
	token := made.Header.Get("X-Auth-Token")
	if token == "" {
		return hardware.Refused(device.CodeBMCLoginRefused, "update the BMC's firmware",
			"the BMC answers a login with %d and no token", made.Status)
	}
	b.token = token
	// Some answers have no Location.
	if b.session = b.path(made.Path, made.Header.Get("Location")); b.session == "" {
		b.session = string(body.ID)
	}
	if known.URI != "" && known.URI != b.session {
		known.Left = append(known.Left, known.openSession)
	}
	known.openSession = openSession{URI: b.session, User: s.Username, Created: body.created()}
	if body.Context == intent.Context {
		known.Context = intent.Context
	}
	if err := b.saveSessions(known); err != nil {
		return errors.Join(err, b.logout(ctx))
	}
	return b.settleSessions(ctx, known, http.Header{"X-Auth-Token": {b.token}})
}

// postLogin sends the login. Where the BMC refuses the context of a session, it is sent once more
// without one. What was journaled is taken back where no session can have come of it.
func (b *bmc) postLogin(ctx context.Context, s host.Secret, known sessionsFile) (answer, loginIntent, error) {
	for {
		body, with := map[string]string{"UserName": s.Username, "Password": s.Password}, known
		intent := loginIntent{User: s.Username}
		if !b.driver.refusesContext(b) {
			intent.Context = "burnish " + rand.Text()
			body["Context"] = intent.Context
		}
		made, err := b.send(ctx, request{Method: http.MethodPost, Path: b.sessions, Timeout: b.timing.login, Body: body,
			Intent: func() error {
				intent.Sent, intent.Began = b.now(), time.Now().Round(0)
				with.Pending = append(slices.Clone(known.Pending), intent)
				return b.saveSessions(with)
			}}, nil)
		if err == nil {
			return made, intent, nil
		}
		refusal, answered := asRefusal(err)
		if isLost(err) || answered && refusal.Status >= http.StatusInternalServerError &&
			refusal.Status != http.StatusServiceUnavailable {
			b.unanswered = true
			return answer{}, intent, err
		}
		if saved := b.saveSessions(known); saved != nil {
			return answer{}, intent, errors.Join(err, saved)
		}
		// Another 400 may be that of a wrong password.
		if intent.Context == "" || !answered || refusal.Status != http.StatusBadRequest || refusal.says("nauthorized") {
			return answer{}, intent, err
		}
		b.driver.noContext(b)
	}
}

// findSessions reads where sessions are made: iDRAC 8 has them at /redfish/v1/Sessions.
func (b *bmc) findSessions(ctx context.Context) error {
	got, err := b.send(ctx, request{Method: http.MethodGet, Path: "/redfish/v1/", Timeout: b.timing.login}, nil)
	if err != nil {
		return err
	}
	var root struct {
		Links struct {
			Sessions link `bmc:"optional"`
		} `bmc:"optional"`
	}
	if err := got.decode(&root); err != nil {
		return err
	}
	if b.sessions = string(root.Links.Sessions); b.sessions == "" {
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
		r.Messages[i].Text = ""
	}
	if full || mayPass(err) {
		return err
	}
	return hardware.Refused(device.CodeBMCLoginRefused,
		"correct the secret in the secrets file, or the account on the BMC", "%s", r.Error())
}

// logout deletes the session, and before it those that lost logins may have left. One that
// cannot be deleted stays in the file: the next login deletes it.
func (b *bmc) logout(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), b.timing.login)
	defer cancel()
	if b.token == "" && b.unanswered {
		// The session that nothing is known of is found by another one only.
		err := b.loginOnce(ctx)
		if tableFull(err) {
			err = b.settleUnseen(ctx)
		}
		if b.unanswered = false; err != nil && b.token == "" {
			return nil // the next login tries it again
		}
	}
	if b.token == "" {
		return nil // it has ended, or the next login deletes it
	}
	header := http.Header{"X-Auth-Token": {b.token}}
	known, err := b.loadSessions()
	if err == nil {
		err = b.settleSessions(ctx, known, header)
	}
	b.token, b.unanswered = "", false
	if b.session != "" && !b.deleteSession(ctx, b.session, header, true) {
		return err
	}
	// Without a name, the BMC's own time-out ends it.
	return errors.Join(err, b.forgetSession())
}

// deleteSession deletes a session, own or another, and reports whether it is gone: it is asked for
// again where there is no answer.
func (b *bmc) deleteSession(ctx context.Context, uri string, header http.Header, own bool) bool {
	waiting := b.timing.wait(b.timing.login)
	defer waiting.stop()
	for range maxTries {
		_, err := b.send(ctx, request{Method: http.MethodDelete, Path: uri, Timeout: b.timing.login}, header)
		if err == nil || hasStatus(err, http.StatusNotFound) || own && hasStatus(err, http.StatusUnauthorized) {
			return true
		}
		if again, stop := waiting.next(ctx, 0); stop != nil || !again || !mayPass(err) {
			return false
		}
	}
	return false
}

// clockReading is the BMC's time, and this host's when it was read.
type clockReading struct{ bmc, host time.Time }

// clock is the BMC's own time, as its last answer gave it; zero where it gives none.
func (b *bmc) clock() time.Time {
	if read := b.date.Load(); read != nil {
		return read.bmc
	}
	return time.Time{}
}

// now is the BMC's own time at present; zero where it gives none.
func (b *bmc) now() time.Time {
	if read := b.date.Load(); read != nil {
		return read.bmc.Add(time.Since(read.host)).Round(0)
	}
	return time.Time{}
}
