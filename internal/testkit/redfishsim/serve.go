package redfishsim

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"burnish/internal/testkit/simserver"
)

// ServeHTTP is the BMC's Redfish service.
func (m *Machine) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if m.cutsWithin(r.Method, r.URL.Path) {
		_, _ = io.CopyN(io.Discard, r.Body, r.ContentLength/2)
		simserver.Cut(w)
		return
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, 64<<20))
	if err != nil {
		simserver.Cut(w) // the client went away in the middle
		return
	}
	m.mu.Lock()
	at := time.Now()
	m.advance(at)
	if at.Before(m.down) {
		m.mu.Unlock()
		simserver.Cut(w)
		return
	}
	m.count++
	m.now, m.at, m.changed = m.count, at, false
	entry := Request{Number: m.count, At: at, Method: r.Method, Path: r.URL.Path, IfMatch: r.Header.Get("If-Match"),
		Body: string(body)}
	if isSession(r.URL.Path) {
		entry.Body = strings.ReplaceAll(entry.Body, m.config.Password, "…")
	}
	for _, session := range m.state.Sessions {
		if token := r.Header.Get("X-Auth-Token"); token == session.Token {
			entry.Session = session.ID
		}
	}
	fault := m.fault(m.count, r.Method, r.URL.Path)
	if fault != nil {
		entry.Fault = fault.Kind
	}
	var a answer
	if fault == nil || !fault.before() {
		a = m.answer(r, body, at)
		entry.Changed = m.changed
	}
	if fault != nil {
		if fault.Kind == Respond || fault.Kind == RespondAfter {
			entry.Status = fault.Status
		}
		if fault.Kind == RestartBefore || fault.Kind == RestartAfter || m.onExit == nil &&
			(fault.Kind == ExitBefore || fault.Kind == ExitAfter) {
			m.restart(at, false)
		}
	}
	if fault == nil || fault.Kind == HoldAfter {
		entry.Status = a.status
	}
	m.requests = append(m.requests, entry)
	err = m.save(&entry)
	exit, cleared := m.onExit, m.cleared
	m.mu.Unlock()

	switch {
	case err != nil:
		http.Error(w, err.Error(), http.StatusInternalServerError)
	case fault == nil:
		m.write(w, r, a)
	case fault.Kind == HoldAfter:
		select {
		case <-r.Context().Done():
			simserver.Cut(w)
		case <-m.hang.Done():
			simserver.Cut(w)
		case <-cleared:
			m.write(w, r, a)
		}
	default:
		m.goWrong(w, r, fault, exit)
	}
}

func (f *Fault) before() bool {
	switch f.Kind {
	case CutBefore, RestartBefore, ExitBefore, HangBefore, Respond:
		return true
	default:
		return false
	}
}

func (m *Machine) goWrong(w http.ResponseWriter, r *http.Request, fault *Fault, exit func()) {
	switch fault.Kind {
	case Respond, RespondAfter:
		for name, value := range fault.Header {
			w.Header().Set(name, value)
		}
		w.WriteHeader(fault.Status)
		_, _ = io.WriteString(w, fault.Body)
	case HangBefore, HangAfter:
		select {
		case <-r.Context().Done():
		case <-m.hang.Done():
		}
		simserver.Cut(w)
	case ExitBefore, ExitAfter:
		if exit != nil {
			exit()
		}
		simserver.Cut(w)
	default:
		simserver.Cut(w)
	}
}

// answer is what the BMC says, and does.
func (m *Machine) answer(r *http.Request, body []byte, at time.Time) answer {
	path := r.URL.Path
	if m.config.TrailingSlash && !strings.HasSuffix(path, "/") {
		return answer{status: http.StatusPermanentRedirect, header: map[string]string{"Location": path + "/"}}
	}
	if !m.config.TrailingSlash && len(path) > 1 && !strings.HasSuffix(path, "/v1/") {
		if strings.HasSuffix(path, "/") && m.config.Personality == OpenBMC {
			path = strings.TrimSuffix(path, "/") // bmcweb takes both
		} else if strings.HasSuffix(path, "/") {
			return notFound()
		}
	}
	if at.Sub(m.down) < m.config.Delays.WarmUp && strings.Trim(path, "/") != "redfish/v1" {
		a := failure(503, "Base.1.8.ServiceTemporarilyUnavailable",
			"The service is temporarily unavailable. Retry in 1 seconds.")
		a.header = map[string]string{"Retry-After": "1"}
		return a
	}
	route, vars, found := m.match(r.Method, path)
	session, allowed := m.authenticate(r, at)
	switch {
	case !allowed && !(route.open && r.Header.Get("X-Auth-Token") == ""):
		return unauthorized()
	case !found:
		return notFound()
	case route.handler == nil:
		return failure(405, "Base.1.8.OperationNotAllowed", "The HTTP method is not allowed on this resource.")
	}
	if m.config.NoExpand == ExpandRefused && strings.Contains(r.URL.RawQuery, "expand") {
		return noExpand()
	}
	c := &call{request: r, at: at, vars: vars, body: body, session: session}
	if len(body) > 0 && strings.HasPrefix(r.Header.Get("Content-Type"), "application/json") {
		if err := json.Unmarshal(body, &c.json); err != nil {
			return failure(400, "Base.1.8.MalformedJSON", "The request body submitted was malformed JSON and could not be "+
				"parsed by the receiving service.")
		}
	}
	return route.handler(c)
}

// etag is the strong one of a resource, whose JSON it gives too.
func etag(body map[string]any) (tag string, raw []byte, err error) {
	raw, err = json.Marshal(body)
	sum := sha256.Sum256(raw)
	return strconv.Quote(hex.EncodeToString(sum[:4])), raw, err
}

// matched is handler where the request's If-Match is the resource's present ETag.
func (m *Machine) matched(resource, handler func(*call) answer) func(*call) answer {
	return func(c *call) answer {
		given := c.request.Header.Get("If-Match")
		now, _, err := etag(resource(c).body)
		switch {
		case err != nil:
			return failure(500, "Base.1.8.InternalError", err.Error())
		case given == "" && m.config.RequireIfMatch:
			return failure(428, "Base.1.8.PreconditionRequired",
				"A precondition header or annotation is required to change this resource.")
		case given != "" && given != "*" && given != now:
			return failure(412, "Base.1.8.PreconditionFailed",
				"The ETag supplied did not match the ETag required to change this resource.")
		}
		return handler(c)
	}
}

func (m *Machine) write(w http.ResponseWriter, r *http.Request, a answer) {
	for name, value := range a.header {
		w.Header().Set(name, value)
	}
	config := m.Config()
	w.Header().Set("OData-Version", "4.0")
	w.Header().Set("Date", time.Now().Add(config.ClockSkew).UTC().Format(http.TimeFormat))
	if a.body == nil {
		w.WriteHeader(a.status)
		return
	}
	tag, raw, err := etag(a.body)
	if err == nil {
		raw, err = config.Dialect.written(raw, r.Host)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	if config.NoExpand == ExpandErrorFirst && strings.Contains(r.URL.RawQuery, "expand") {
		_, before, err := etag(noExpand().body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		raw = append(before, raw...)
	}
	if a.etag {
		if config.WeakETags {
			tag = "W/" + tag
		}
		header, body := tag, tag
		switch config.OddETag {
		case "header":
			header = strconv.Quote(tag)
		case "body":
			body = `"1689255909"`
		}
		w.Header().Set("ETag", header)
		inside := strconv.AppendQuote([]byte(`{"@odata.etag":`), body)
		if len(a.body) > 0 {
			inside = append(inside, ',')
		}
		raw = append(inside, raw[1:]...)
	}
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.Header().Set("Content-Length", strconv.Itoa(len(raw)))
	w.WriteHeader(a.status)
	if r.Method != http.MethodHead {
		_, _ = w.Write(raw)
	}
}
