package oneview

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"time"

	"burnish/internal/device"
	"burnish/internal/host"
)

// timing is how long the client waits for what.
type timing struct {
	// request is how long one answer may take.
	request time.Duration
	// poll is the pause between two looks at a task or at a server.
	poll time.Duration
	// press is how long a server has to shut down, hold how long it has to switch off at once.
	press, hold time.Duration
	// settle is how long what was accepted may not show.
	settle time.Duration
	// refusal is how long no login is tried after one was refused.
	refusal time.Duration
}

var usualTiming = timing{
	request: 30 * time.Second, poll: 3 * time.Second, press: 2 * time.Minute, hold: 2 * time.Minute,
	settle: 15 * time.Second, refusal: 15 * time.Minute,
}

// access is what a session is for: another one needs another session.
type access struct {
	secret host.Secret
	base   url.URL
	domain string
}

// session is the one session of this worker with an appliance, which all calls share.
type session struct {
	access
	name   string
	timing timing
	http   *http.Client

	// users and retired are under the lock of Appliances: the last user of a session that
	// another one has replaced logs out.
	users   int
	retired bool

	// one is held by who makes, uses the fields of, or ends the session; each caller's own
	// context ends its wait.
	one     chan struct{}
	token   string
	version int // 0: not known
	// refusal is why the last login was refused: until then no other is tried.
	refusal error
	until   time.Time
}

func newSession(name string, a access, timing timing) (*session, error) {
	transport, err := newTransport(a.secret)
	if err != nil {
		return nil, invalidFile("the appliance %s: %w", name, err)
	}
	return &session{access: a, name: name, timing: timing, one: make(chan struct{}, 1), http: &http.Client{
		Transport: transport,
		// Go would send the session ID, and the body of a login, elsewhere.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}, nil
}

func (s *session) lock(ctx context.Context) (unlock func(), err error) {
	select {
	case s.one <- struct{}{}:
		return func() { <-s.one }, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// get reads a resource. It logs in where there is no session, once more where it has ended, and
// asks for the versions once more where its own is not known any more. The date is the answer's, by
// the appliance's clock.
func (s *session) get(ctx context.Context, path string, into any) (date string, err error) {
	var ended, outdated bool
	for {
		got, err := s.authorized(ctx, request{Method: http.MethodGet, Path: path})
		switch {
		case err == nil:
			return got.Header.Get("Date"), got.decode(into)
		case hasStatus(err, http.StatusUnauthorized) && !ended:
			ended = true
		case versionUnknown(err) && !outdated:
			outdated = true
		default:
			return "", err
		}
	}
}

// versionUnknown: an appliance that was updated answers 412 to a version that it does not know.
func versionUnknown(err error) bool {
	var no *refusal
	return errors.As(err, &no) && no.Status == http.StatusPreconditionFailed && no.Method == http.MethodGet
}

// authorized sends a request within the session, once. Where the session has ended, the next
// request logs in again; where the version may be unknown, it keeps the session, which would
// stay open on the appliance, and asks for the versions.
func (s *session) authorized(ctx context.Context, r request) (answer, error) {
	token, version, err := s.login(ctx)
	if err != nil {
		return answer{}, err
	}
	got, err := s.send(ctx, r, version, token)
	ended := hasStatus(err, http.StatusUnauthorized)
	if ended || versionUnknown(err) {
		unlock, stop := s.lock(ctx)
		if stop != nil {
			return got, stop
		}
		defer unlock()
		switch {
		case s.token != token: // another caller has renewed it
		case ended:
			s.token = ""
		case s.version == version:
			s.version = 0
		}
	}
	return got, err
}

// login gives the session's token and version. A login that was refused is not tried again
// before the file changes or some time has passed: accounts get locked.
func (s *session) login(ctx context.Context) (token string, version int, err error) {
	unlock, err := s.lock(ctx)
	if err != nil {
		return "", 0, err
	}
	defer unlock()
	if s.token != "" && s.version != 0 {
		return s.token, s.version, nil
	}
	if s.refusal != nil && time.Now().Before(s.until) {
		return "", 0, s.refusal
	}
	s.refusal = nil
	if s.version, err = s.negotiate(ctx); err != nil {
		return "", 0, err
	}
	if s.token != "" {
		return s.token, s.version, nil
	}
	body := map[string]any{"userName": s.secret.Username, "password": s.secret.Password, "loginMsgAck": true}
	if s.domain != "" {
		body["authLoginDomain"] = s.domain
	}
	// Whoever gives up meanwhile: a session whose answer nobody reads would stay open.
	post := request{Method: http.MethodPost, Path: sessionsPath, Body: body}
	got, err := s.send(context.WithoutCancel(ctx), post, s.version, "")
	if err != nil {
		return "", 0, s.loginError(err)
	}
	var made struct {
		ID string `json:"sessionID"`
	}
	if err := got.decode(&made); err != nil {
		return "", 0, err
	}
	if made.ID == "" {
		return "", 0, s.refused("see the appliance", "it answers a login with %d and no session", got.Status)
	}
	s.token = made.ID
	return s.token, s.version, nil
}

var codeForm = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,80}$`)

// loginError says why there is no session, without the appliance's words, which may repeat the
// password.
func (s *session) loginError(err error) error {
	var no *refusal
	if !errors.As(err, &no) || passes(err) {
		return err
	}
	code := ""
	if codeForm.MatchString(no.ErrorCode) && no.ErrorCode != s.secret.Password {
		code = " (" + no.ErrorCode + ")"
	}
	s.until = time.Now().Add(s.timing.refusal)
	s.refusal = s.refused("correct the user or the password in oneview.yaml, or the account on the appliance",
		"it answers %d to the login%s; the next login is tried when oneview.yaml has changed, or after %s", no.Status, code,
		s.until.UTC().Format(time.RFC3339))
	return s.refusal
}

// The X-API-Version of OneView 3.0 and of the newest release that this client knows; the
// resources that it uses are alike in all.
const oldestVersion, newestVersion = 300, 8000

// negotiate gives the highest version that both know.
func (s *session) negotiate(ctx context.Context) (int, error) {
	got, err := s.send(ctx, request{Method: http.MethodGet, Path: versionPath}, 0, "")
	if err != nil {
		return 0, err
	}
	var its struct {
		Current int `json:"currentVersion"`
		Minimum int `json:"minimumVersion"`
	}
	if err := got.decode(&its); err != nil {
		return 0, err
	}
	best := min(its.Current, newestVersion)
	if best < max(its.Minimum, oldestVersion) {
		return 0, s.refused("update the appliance, or Burnish", "it speaks the API versions %d to %d, and Burnish %d to %d",
			its.Minimum, its.Current, oldestVersion, newestVersion)
	}
	return best, nil
}

// end logs out and closes the connections. It has a context of its own: that of a call that
// was canceled would leave the session open.
func (s *session) end(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.timing.request)
	defer cancel()
	unlock, err := s.lock(ctx)
	if err != nil {
		return fmt.Errorf("log out of the appliance %s: %w", s.name, err)
	}
	defer unlock()
	defer s.http.CloseIdleConnections()
	if s.token == "" {
		return nil
	}
	token := s.token
	s.token = ""
	for tries := 1; tries <= 2; tries++ {
		if s.version == 0 {
			if s.version, err = s.negotiate(ctx); err != nil {
				break
			}
		}
		_, err = s.send(ctx, request{Method: http.MethodDelete, Path: sessionsPath}, s.version, token)
		if !hasStatus(err, http.StatusPreconditionFailed) {
			break
		}
		s.version = 0 // the appliance was updated since
	}
	if err != nil && !hasStatus(err, http.StatusUnauthorized) && !hasStatus(err, http.StatusNotFound) {
		return fmt.Errorf("log out of the appliance %s: %w", s.name, err)
	}
	return nil
}

// The appliance's resources.
const (
	versionPath   = "/rest/version"
	sessionsPath  = "/rest/login-sessions"
	hardwarePath  = "/rest/server-hardware"
	templatesPath = "/rest/server-profile-templates"
	profilesPath  = "/rest/server-profiles"
	tasksPath     = "/rest/tasks"
)

// unavailable is the fault of a worker that has no such appliance.
func unavailable(remedy, format string, args ...any) error {
	return &device.Fault{Class: device.NeedsOperator, Code: device.CodeApplianceRefused,
		Message: fmt.Sprintf(format, args...), Remedy: remedy}
}
