package redfishsim

import (
	"crypto/rand"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// TokenPrefix begins the token of every session: who looks for it finds them all.
const TokenPrefix = "simulated-token-"

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
	entry.Body = strings.ReplaceAll(strings.ReplaceAll(entry.Body, m.Conf.Password, "…"), FirstPassword, "…")
	if s := m.session(r); s != nil {
		entry.Session = s.ID
		if s.First {
			entry.User = firstUser
		}
	}
}

// authenticate is false for a request that has neither a session nor the password.
func (m *Machine) authenticate(c *call) bool {
	if !m.mayLogin() {
		return false
	}
	if c.Header.Get("X-Auth-Token") == "" {
		user, password, has := c.BasicAuth()
		return has && user == m.Conf.Username && password == m.password()
	}
	return m.session(c.Request) != nil
}

func (t *tree) addSessions() {
	path := t.Conf.SessionsPath
	t.add("SessionService.v1_1_6.SessionService", root+"/SessionService", "Session Service", doc{
		"ServiceEnabled": true, "SessionTimeout": 1800, "Sessions": t.link(path),
	})
	t.list("Session", path)
	t.post(path, t.login)
	for _, s := range t.Data.Sessions {
		t.member("Session.v1_3_0.Session", path, s.ID, "User Session", doc{"UserName": s.User})
		t.do("DELETE", path+"/"+s.ID, func(*call) answer {
			t.Data.Sessions = slices.DeleteFunc(t.Data.Sessions, func(one *Session) bool { return one == s })
			if t.is(OpenBMC) {
				return answer{Status: http.StatusNoContent}
			}
			return success()
		})
	}
}

func (m *Machine) login(c *call) answer {
	s := &m.Data
	right := c.Text("UserName") == m.Conf.Username && c.Text("Password") == m.password()
	if !right && c.Text("UserName") == m.Conf.Username {
		s.WrongPasswords++
		s.Locked = s.Locked || s.WrongPasswords == mostWrongPasswords
	}
	switch {
	case !m.mayLogin() || !right || s.Locked:
		return failure(401, "Base.1.8.ResourceAtUriUnauthorized", "The service received an authorization error.")
	case len(s.Sessions) >= m.Conf.MaxSessions:
		code := map[bool]string{true: "IDRAC.2.8.RAC0218", false: "Base.1.8.SessionLimitExceeded"}[m.is(IDRAC)]
		return failure(503, code, "The maximum number of user sessions is reached.")
	}
	s.NextSession++
	s.WrongPasswords = 0
	one := &Session{ID: strconv.Itoa(s.NextSession), Token: TokenPrefix + rand.Text(), User: m.Conf.Username,
		First: s.FirstPassword}
	s.Sessions = append(s.Sessions, one)
	a := answer{Status: http.StatusCreated, Header: map[string]string{"X-Auth-Token": one.Token}}
	path := m.Conf.SessionsPath + "/" + one.ID
	a.Body = m.tree(c.At, path).node(path).doc
	if one.First {
		a.Body["@Message.ExtendedInfo"] = []any{m.passwordChange()}
	}
	if !m.Conf.LoginWithoutLocation {
		a.Header["Location"] = m.uri(path)
		if m.is(ILO) {
			a.Header["Location"] = "https://" + c.Host + a.Header["Location"]
		}
	}
	return a
}

// mostWrongPasswords lock the account.
const mostWrongPasswords = 3

// firstUser is the user of a request in the log whose session may change the first password only.
const firstUser = "who must change the password"

// FirstPassword is that of the account that asks, after a reset of the BMC that does not keep accounts.
const FirstPassword = "on-the-label-of-the-chassis"

// password is the one that the account has.
func (m *Machine) password() string {
	if m.Data.FirstPassword {
		return FirstPassword
	}
	return m.Conf.Password
}

// passwordChange is the message that says where the first password is changed.
func (m *Machine) passwordChange() doc {
	one := information("Base.1.8.PasswordChangeRequired",
		"The password provided for this account must be changed before access is granted.", "Critical")
	for _, a := range m.Data.Setup.Accounts {
		if a.User == m.Conf.Username {
			one["MessageArgs"] = []string{m.uri(accounts + "/" + a.ID)}
		}
	}
	return one
}

// OpenSessions are the IDs of the sessions that are open.
func (m *Machine) OpenSessions() []string {
	ids := []string{}
	for _, session := range m.State().Sessions {
		ids = append(ids, session.ID)
	}
	return ids
}
