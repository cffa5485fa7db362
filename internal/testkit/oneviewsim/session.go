package oneviewsim

import (
	"crypto/rand"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"
)

// TokenPrefix begins the session ID of every session: who looks for it finds them all.
const TokenPrefix = "simulated-oneview-session-"

// expire drops the sessions that were idle for too long.
func (a *Appliance) expire(at time.Time) {
	for _, s := range slices.Clone(a.state.Sessions) {
		if s.Used.IsZero() {
			s.Used = at // the clock of the idle time starts again
		}
		if a.config.SessionIdle > 0 && at.Sub(s.Used) > a.config.SessionIdle {
			a.closeSession(s)
		}
	}
}

func (a *Appliance) closeSession(s *Session) {
	delete(a.sessions, s.Token)
	a.state.Sessions = slices.DeleteFunc(a.state.Sessions, func(one *Session) bool { return one == s })
	a.gone = append(a.gone, s.Token)
}

// ExpireSessions ends all sessions, as if they had been idle for too long.
func (a *Appliance) ExpireSessions() {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, s := range slices.Clone(a.state.Sessions) {
		a.closeSession(s)
	}
	a.note(a.save(nil))
}

// OpenSessions are the numbers of a user's sessions that are open.
func (a *Appliance) OpenSessions(user string) []int {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.expire(time.Now())
	var open []int
	for _, s := range a.state.Sessions {
		if s.User == user {
			open = append(open, s.Number)
		}
	}
	return open
}

// versionProblem is why the appliance does not answer in the version that was asked for.
func (a *Appliance) versionProblem(r *http.Request) (Problem, bool) {
	given := r.Header.Get("X-API-Version")
	version := 0
	if _, err := fmt.Sscanf(given, "%d", &version); err == nil && version >= a.config.MinimumVersion &&
		version <= a.config.CurrentVersion {
		return Problem{}, false
	}
	details := fmt.Sprintf("The request contained an invalid X-API-Version header of %s. Only values %d through %d are "+
		"accepted.",
		given, a.config.MinimumVersion, a.config.CurrentVersion)
	if given == "" {
		details = "The request contained no X-API-Version header."
	}
	return problem("INVALID_API_VERSION", "The specified API version is not valid.", details,
		"Check the value of the X-API-Version header, then resend the request."), true
}

func (a *Appliance) versionDoc() answer {
	return ok(map[string]any{"currentVersion": a.config.CurrentVersion, "minimumVersion": a.config.MinimumVersion})
}

func unauthorized() answer {
	return refuse(http.StatusUnauthorized, problem("AUTHORIZATION", "Authorization error: invalid session ID",
		"The session ID in the auth header does not exist or has expired.", "Log in and resend the request."))
}

func (a *Appliance) login(c *call) answer {
	name, domain := text(c.json, "userName"), text(c.json, "authLoginDomain")
	known := slices.ContainsFunc(a.config.Users,
		func(u User) bool { return u.Name == name && u.Password == text(c.json, "password") })
	switch {
	case !known, domain != "" && !strings.EqualFold(domain, a.config.Domain), domain == "" &&
		!strings.EqualFold(a.config.Domain, "LOCAL"):
		return refuse(http.StatusUnauthorized, problem("AUTHN_AUTH_FAIL", "Invalid username or password or directory.", "",
			"Check the username, the password and the directory, then try again."))
	case c.json["loginMsgAck"] != true && c.json["loginMsgAck"] != "true":
		return refuse(http.StatusForbidden, problem("AUTHN_LOGIN_MSG_NOT_ACK", "The login message was not acknowledged.",
			"The appliance requires that its login message is acknowledged.", "Set loginMsgAck to true and resend the request."))
	}
	s := &Session{Number: a.number(), Token: TokenPrefix + rand.Text(), User: name, Used: c.at}
	a.state.Sessions, a.sessions[s.Token] = append(a.state.Sessions, s), s
	a.touch(s)
	a.requests[a.now-1].User, a.requests[a.now-1].Session = s.User, s.Number
	return ok(map[string]any{"sessionID": s.Token, "partnerData": map[string]any{}})
}

func (a *Appliance) logout(c *call) answer {
	a.closeSession(a.sessions[c.request.Header.Get("auth")])
	return answer{status: http.StatusNoContent}
}
