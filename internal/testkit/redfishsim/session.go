package redfishsim

import (
	"crypto/rand"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"burnish/internal/testkit/simserver"
)

// TokenPrefix begins the token of every session: who looks for it finds them all.
const TokenPrefix = "simulated-token-"

// expire drops the sessions that were idle for too long.
func (m *Machine) expire(at time.Time) {
	m.Data.Sessions = slices.DeleteFunc(m.Data.Sessions, func(s *Session) bool {
		if s.Used.IsZero() {
			s.Used = at // the clock of the idle time starts again
		}
		return m.Conf.SessionIdle != 0 && at.Sub(s.Used) > m.Conf.SessionIdle
	})
}

// session is that of a request; nil: none.
func (m *Machine) session(r *http.Request) *Session {
	for _, one := range m.Data.Sessions {
		if one.Token != "" && one.Token == r.Header.Get("X-Auth-Token") {
			return one
		}
	}
	return nil
}

// sign says in the log whose session a request is of.
func (m *Machine) sign(r *http.Request, entry *Request) {
	if simserver.IsSession(entry.Path) {
		entry.Body = strings.ReplaceAll(entry.Body, m.Conf.Password, "…")
	}
	if s := m.session(r); s != nil {
		entry.Session = s.ID
	}
}

// authenticate is false for a request that has neither a session nor the password.
func (m *Machine) authenticate(c *call) bool {
	m.expire(c.At)
	if !m.mayLogin() {
		return false
	}
	if c.Header.Get("X-Auth-Token") == "" {
		user, password, has := c.BasicAuth()
		return has && user == m.Conf.Username && password == m.Conf.Password
	}
	s := m.session(c.Request)
	if s != nil {
		s.Used = c.At
	}
	return s != nil
}

func (t *tree) addSessions() {
	path := t.Conf.SessionsPath
	t.add("SessionService.v1_1_6.SessionService", root+"/SessionService", "Session Service", doc{
		"ServiceEnabled": true, "SessionTimeout": int(t.Conf.SessionIdle.Seconds()), "Sessions": t.link(path),
	})
	t.list("Session", path)
	t.post(path, t.login)
	for _, s := range t.Data.Sessions {
		t.member("Session.v1_3_0.Session", path, s.ID, "User Session", t.sessionBody(s))
		t.do("DELETE", path+"/"+s.ID, func(*call) answer {
			t.Data.Sessions = slices.DeleteFunc(t.Data.Sessions, func(one *Session) bool { return one == s })
			if t.is(OpenBMC) {
				return answer{Status: http.StatusNoContent}
			}
			return success()
		})
	}
}

// sessionBody says as much of a session as the BMC does.
func (m *Machine) sessionBody(s *Session) doc {
	body := doc{"UserName": s.User, "Description": "User Session"}
	created := s.Created.Add(m.Conf.ClockSkew).UTC().Format(time.RFC3339)
	if m.is(ILO) {
		body["Oem"] = doc{"Hpe": doc{"@odata.type": "#HpeiLOSession.v2_1_0.HpeiLOSession", "UserTag": "REST",
			"LoginTime": created, "UserIP": s.Origin}}
	}
	if m.is(IDRAC, OpenBMC) {
		body["ClientOriginIPAddress"] = s.Origin
	}
	if m.is(IDRAC) {
		body["CreatedTime"] = created
	}
	return body
}

func (m *Machine) login(c *call) answer {
	s := &m.Data
	switch {
	case !m.mayLogin() || c.Text("UserName") != m.Conf.Username || c.Text("Password") != m.Conf.Password:
		return failure(401, "Base.1.8.ResourceAtUriUnauthorized", "The service received an authorization error.")
	case len(s.Sessions) >= m.Conf.MaxSessions:
		code := map[bool]string{true: "IDRAC.2.8.RAC0218", false: "Base.1.8.SessionLimitExceeded"}[m.is(IDRAC)]
		return failure(503, code, "The maximum number of user sessions is reached.")
	}
	s.NextSession++
	one := &Session{ID: strconv.Itoa(s.NextSession), Token: TokenPrefix + rand.Text(), User: m.Conf.Username,
		Created: c.At, Used: c.At}
	if host, _, err := net.SplitHostPort(c.RemoteAddr); err == nil {
		one.Origin = host
	}
	s.Sessions = append(s.Sessions, one)
	a := answer{Status: http.StatusCreated, Header: map[string]string{"X-Auth-Token": one.Token}}
	path := m.Conf.SessionsPath + "/" + one.ID
	a.Body = m.tree(c.At, path).node(path).doc
	if !m.Conf.LoginWithoutLocation {
		a.Header["Location"] = m.uri(path)
		if m.is(ILO) {
			a.Header["Location"] = "https://" + c.Host + a.Header["Location"]
		}
	}
	return a
}

// OpenSessions are the IDs of the sessions that are open.
func (m *Machine) OpenSessions() []string {
	ids := []string{}
	m.Do(func(now time.Time) {
		m.expire(now)
		for _, session := range m.Data.Sessions {
			ids = append(ids, session.ID)
		}
	})
	return ids
}
