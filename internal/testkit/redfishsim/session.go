package redfishsim

import (
	"crypto/rand"
	"crypto/subtle"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"time"
)

// TokenPrefix begins the token of every session: who looks for it finds them all.
const TokenPrefix = "simulated-token-"

// expire drops the sessions that were idle for too long.
func (m *Machine) expire(at time.Time) {
	var kept []*Session
	for _, session := range m.state.Sessions {
		if session.Used.IsZero() {
			session.Used = at // the clock of the idle time starts again
		}
		if m.config.SessionIdle == 0 || at.Sub(session.Used) <= m.config.SessionIdle {
			kept = append(kept, session)
		}
	}
	m.state.Sessions = kept
}

// authenticate is the session of a request; allowed is false where it has neither one
// nor the password.
func (m *Machine) authenticate(r *http.Request, at time.Time) (session *Session, allowed bool) {
	m.expire(at)
	if token := r.Header.Get("X-Auth-Token"); token != "" {
		for _, session := range m.state.Sessions {
			if subtle.ConstantTimeCompare([]byte(session.Token), []byte(token)) == 1 {
				session.Used = at
				return session, true
			}
		}
		return nil, false
	}
	user, password, has := r.BasicAuth()
	return nil, has && m.isUser(user, password)
}

func (m *Machine) isUser(user, password string) bool {
	return user == m.config.Username && password == m.config.Password
}

func unauthorized() answer {
	a := failure(401, "Base.1.8.NoValidSession", "There is no valid session established with the implementation.")
	a.header = map[string]string{"WWW-Authenticate": `Basic realm="RedfishService"`}
	return a
}

func (m *Machine) login(c *call) answer {
	user, _ := c.json["UserName"].(string)
	password, _ := c.json["Password"].(string)
	if !m.isUser(user, password) {
		return failure(401, "Base.1.8.ResourceAtUriUnauthorized",
			"While accessing the resource, the service received an authorization error.")
	}
	named, _ := c.json["Context"].(string)
	if named != "" && m.config.RefuseContext {
		return failure(400, "Base.1.8.PropertyUnknown", "The property Context is not in the list of valid properties for "+
			"the resource.")
	}
	m.expire(c.at)
	s := &m.state
	if len(s.Sessions) >= m.config.MaxSessions {
		return failure(503, m.config.SessionFullCode, "The maximum number of user sessions is reached.")
	}
	s.NextSession++
	session := &Session{ID: strconv.Itoa(s.NextSession), Token: TokenPrefix + rand.Text(), User: user,
		Created: c.at, Used: c.at}
	if host, _, err := net.SplitHostPort(c.request.RemoteAddr); err == nil {
		session.Origin = host
	}
	if m.config.SessionContext {
		session.Context = named
	}
	s.Sessions = append(s.Sessions, session)
	a := answer{status: http.StatusCreated, body: m.sessionBody(session),
		header: map[string]string{"X-Auth-Token": session.Token}}
	if !m.config.LoginWithoutLocation {
		a.header["Location"] = m.uri(m.config.SessionsPath + "/" + session.ID)
		if m.config.AbsoluteLocation {
			a.header["Location"] = "https://" + c.request.Host + a.header["Location"]
		}
	}
	return a
}

func (m *Machine) sessionBody(session *Session) map[string]any {
	doc := m.doc("Session.v1_3_0.Session", m.config.SessionsPath+"/"+session.ID, session.ID, "User Session")
	with(doc, map[string]any{"UserName": session.User, "Description": "User Session"})
	created := session.Created.Add(m.config.ClockSkew).UTC().Format(time.RFC3339)
	if m.config.Personality == ILO {
		hpe := map[string]any{"@odata.type": "#HpeiLOSession.v2_1_0.HpeiLOSession", "UserTag": "REST"}
		if m.config.SessionCreated {
			hpe["LoginTime"] = created
		}
		if m.config.SessionOrigin {
			hpe["UserIP"] = session.Origin
		}
		return with(doc, map[string]any{"Oem": map[string]any{"Hpe": hpe}})
	}
	if m.config.SessionOrigin {
		doc["ClientOriginIPAddress"] = session.Origin
	}
	if m.config.SessionCreated {
		doc["CreatedTime"] = created
	}
	if m.config.SessionContext {
		doc["Context"] = session.Context
	}
	return doc
}

func (m *Machine) sessionServiceDoc(*call) answer {
	doc := m.doc("SessionService.v1_1_6.SessionService", "/redfish/v1/SessionService", "SessionService", "Session Service")
	return ok(with(doc, map[string]any{
		"ServiceEnabled": true, "SessionTimeout": int(m.config.SessionIdle.Seconds()),
		"Sessions": m.link(m.config.SessionsPath), "Status": status("Enabled", "OK"),
	}))
}

func (m *Machine) sessionsDoc(*call) answer {
	var members []string
	for _, session := range m.state.Sessions {
		members = append(members, m.config.SessionsPath+"/"+session.ID)
	}
	return ok(m.collection("SessionCollection", m.config.SessionsPath, members...))
}

func (m *Machine) sessionDoc(c *call) answer {
	for _, session := range m.state.Sessions {
		if session.ID == c.vars[0] {
			return ok(m.sessionBody(session))
		}
	}
	return notFound()
}

func (m *Machine) logout(c *call) answer {
	for i, session := range m.state.Sessions {
		if session.ID == c.vars[0] {
			m.state.Sessions = append(m.state.Sessions[:i:i], m.state.Sessions[i+1:]...)
			if m.config.Personality == OpenBMC {
				return answer{status: http.StatusNoContent}
			}
			return message(200, "Base.1.8.Success", fmt.Sprintf("Session %s was deleted.", session.ID))
		}
	}
	return notFound()
}
