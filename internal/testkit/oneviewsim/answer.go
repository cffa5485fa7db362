package oneviewsim

import (
	"crypto/rand"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"burnish/internal/testkit/simserver"
)

type (
	call   = simserver.Call
	answer = simserver.Answer
)

var ok = simserver.OK

// endpoints are what the API has; {} is the ID of what a path names.
func (a *Appliance) endpoints() map[string]func(c *call, id string) answer {
	s := &a.Data
	return map[string]func(c *call, id string) answer{
		"POST /rest/login-sessions":   a.login,
		"DELETE /rest/login-sessions": a.logout,
		"GET /rest/server-hardware": func(c *call, _ string) answer {
			return list(c, "server-hardware-list-14", s.Hardware, a.hardwareDoc)
		},
		"GET /rest/server-hardware/{}": func(_ *call, id string) answer {
			return one(find(s.Hardware, hardwarePath+"/"+id), a.hardwareDoc)
		},
		"PUT /rest/server-hardware/{}/powerState":           a.putPower,
		"GET /rest/server-profile-templates/{}/new-profile": a.newProfile,
		"GET /rest/server-profiles": func(c *call, _ string) answer {
			return list(c, "ServerProfileListV12", s.Profiles, a.profileDoc)
		},
		"POST /rest/server-profiles": a.createProfile,
		"GET /rest/server-profiles/{}": func(_ *call, id string) answer {
			return one(find(s.Profiles, profilesPath+"/"+id), a.profileDoc)
		},
		"DELETE /rest/server-profiles/{}": a.deleteProfile,
		"GET /rest/tasks/{}": func(_ *call, id string) answer {
			t := find(s.Tasks, tasksPath+"/"+id)
			if t != nil && t.Fault.Vanishes {
				t = nil
			}
			return one(t, a.taskDoc)
		},
	}
}

// one is the document of something, with its ETag; 404 where there is nothing.
func one[T any](thing *T, doc func(*T) map[string]any) answer {
	if thing == nil {
		return notFound()
	}
	a := ok(doc(thing))
	a.Header = map[string]string{"ETag": strconv.Quote(fmt.Sprint(a.Body["eTag"]))}
	return a
}

// answer is what the appliance says, and does.
func (a *Appliance) answer(c *call) answer {
	path := c.URL.Path
	if path == "/rest/version" {
		return ok(map[string]any{"currentVersion": a.Conf.CurrentVersion, "minimumVersion": a.Conf.MinimumVersion})
	}
	given := c.Header.Get("X-API-Version")
	version, err := strconv.Atoi(given)
	if err != nil || version < a.Conf.MinimumVersion || version > a.Conf.CurrentVersion {
		return refuse(http.StatusPreconditionFailed, problem("INVALID_API_VERSION", "The specified API version is not valid.",
			fmt.Sprintf("The request contained an invalid X-API-Version header of %s. Only values %d through %d are accepted.",
				given, a.Conf.MinimumVersion, a.Conf.CurrentVersion)))
	}
	if c.Entry.User == "" && !(path == sessionsPath && c.Method == http.MethodPost) {
		return unauthorized()
	}
	id, parts := "", strings.Split(path, "/") // "", rest, a collection, an ID, more
	if len(parts) > 3 {
		id, parts[3] = parts[3], "{}"
	}
	pattern, endpoints := strings.Join(parts, "/"), a.endpoints()
	do := endpoints[c.Method+" "+pattern]
	switch {
	case do == nil && endpoints["GET "+pattern] == nil:
		return notFound()
	case do == nil:
		return invalid(http.StatusMethodNotAllowed, "The method is not allowed.", c.Method+" "+path)
	case len(c.Raw) > 0 && c.JSON == nil:
		return invalid(http.StatusUnsupportedMediaType, "The media type is not supported.", c.Header.Get("Content-Type"))
	}
	return do(c, id)
}

// Problem is why something is refused, or how a task fails.
type Problem struct {
	ErrorCode          string   `json:"errorCode"`
	Message            string   `json:"message"`
	Details            string   `json:"details"`
	RecommendedActions []string `json:"recommendedActions"`
}

func problem(code, message, details string) *Problem {
	return &Problem{code, message, details, []string{"Correct the request, or retry it later."}}
}

func refuse(status int, p *Problem) answer {
	return answer{Status: status, Body: map[string]any{
		"errorCode": p.ErrorCode, "message": p.Message, "details": p.Details, "recommendedActions": p.RecommendedActions,
		"errorSource": nil, "nestedErrors": []any{}, "data": map[string]any{},
	}}
}

func notFound() answer {
	return refuse(http.StatusNotFound, problem("RESOURCE_NOT_FOUND", "The requested resource could not be found.", ""))
}

func invalid(status int, message, details string) answer {
	return refuse(status, problem("INVALID_REQUEST", message, details))
}

func conflict(code, message, details string) answer {
	return refuse(http.StatusConflict, problem(code, message, details))
}

func mismatch() answer {
	return refuse(http.StatusPreconditionFailed, problem("ETAG_MISMATCH", "The resource was changed by another user.",
		"The ETag does not match that of the resource."))
}

func unauthorized() answer {
	return refuse(http.StatusUnauthorized, problem("AUTHORIZATION", "Authorization error: invalid session ID",
		"The session ID in the auth header does not exist or has expired."))
}

// orNull is a URI in a document.
func orNull(uri string) any {
	if uri == "" {
		return nil
	}
	return uri
}

func timestamp(at time.Time) string { return at.UTC().Format("2006-01-02T15:04:05.000Z") }

// sign says in the log whose session a request is of.
func (a *Appliance) sign(r *http.Request, entry *Request) {
	a.taskFault = TaskFault{}
	if simserver.IsSession(entry.Path) {
		entry.Body = ""
	}
	if s := a.session(r); s != nil {
		entry.User, entry.Session = s.User, strconv.Itoa(s.Number)
	}
}

func (a *Appliance) session(r *http.Request) *Session {
	for _, s := range a.Data.Sessions {
		if s.Token == r.Header.Get("auth") {
			return s
		}
	}
	return nil
}

// TokenPrefix begins the session ID of every session: who looks for it finds them all.
const TokenPrefix = "simulated-oneview-session-"

func (a *Appliance) login(c *call, _ string) answer {
	name, domain := c.Text("userName"), c.Text("authLoginDomain")
	known := slices.Contains(a.Conf.Users, User{name, c.Text("password")})
	switch {
	case !known, domain != "" && !strings.EqualFold(domain, a.Conf.Domain),
		domain == "" && !strings.EqualFold(a.Conf.Domain, "LOCAL"):
		return refuse(http.StatusUnauthorized, problem("AUTHN_AUTH_FAIL", "Invalid username or password or directory.", ""))
	case c.JSON["loginMsgAck"] != true && c.JSON["loginMsgAck"] != "true":
		return refuse(http.StatusForbidden, problem("AUTHN_LOGIN_MSG_NOT_ACK", "The login message was not acknowledged.", ""))
	}
	s := &Session{Number: a.number(), Token: TokenPrefix + rand.Text(), User: name}
	a.Data.Sessions = append(a.Data.Sessions, s)
	c.Entry.User, c.Entry.Session = s.User, strconv.Itoa(s.Number)
	return ok(map[string]any{"sessionID": s.Token, "partnerData": map[string]any{}})
}

func (a *Appliance) logout(c *call, _ string) answer {
	own := a.session(c.Request)
	a.Data.Sessions = slices.DeleteFunc(a.Data.Sessions, func(s *Session) bool { return s == own })
	return answer{Status: http.StatusNoContent}
}

// ExpireSessions ends all sessions, as if they had been idle for too long.
func (a *Appliance) ExpireSessions() { a.Change(func(s *State) { s.Sessions = nil }) }

// OpenSessions are the numbers of a user's sessions that are open.
func (a *Appliance) OpenSessions(user string) []int {
	s := a.State()
	return s.openSessions(user)
}

func (s *State) openSessions(user string) []int {
	var open []int
	for _, one := range s.Sessions {
		if one.User == user {
			open = append(open, one.Number)
		}
	}
	return open
}
