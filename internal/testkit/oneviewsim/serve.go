package oneviewsim

import (
	"encoding/json"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"burnish/internal/testkit/simserver"
)

// encode is a document as JSON. What documents are made of can be encoded.
func encode(doc map[string]any) string {
	raw, err := json.Marshal(doc)
	if err != nil {
		return strconv.Quote(err.Error())
	}
	return string(raw)
}

// ServeHTTP is the appliance's REST API.
func (a *Appliance) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(io.LimitReader(r.Body, 4<<20))
	if err != nil {
		simserver.Cut(w) // the client went away in the middle
		return
	}
	a.mu.Lock()
	if a.down {
		a.mu.Unlock()
		simserver.Cut(w)
		return
	}
	at := time.Now()
	a.advance(at)
	entry := Request{Number: len(a.requests) + 1, At: at, Method: r.Method, Path: r.URL.Path, Query: r.URL.RawQuery,
		Body: string(body), Version: r.Header.Get("X-API-Version")}
	if r.URL.Path == sessionsPath {
		entry.Body = ""
	}
	if s := a.sessions[r.Header.Get("auth")]; s != nil {
		entry.User, entry.Session = s.User, s.Number
	}
	a.requests = append(a.requests, entry)
	index := len(a.requests) - 1
	faults := a.matching(entry.Number, entry.User, r)
	for _, f := range faults {
		a.requests[index].Faults = append(a.requests[index].Faults, f.Kind)
		if f.Kind == SlowBefore {
			a.mu.Unlock()
			a.wait(r, f.For)
			a.mu.Lock()
			at = time.Now()
			a.advance(at)
		}
	}
	a.now, a.taskFault = entry.Number, TaskFault{}
	var ends *Fault // that there is no true answer
	for _, f := range faults {
		a.interfere(f, TakeBefore, FreeBefore)
		if f.Kind == ForTask {
			a.taskFault = f.Task
		}
		if ends == nil && f.ends() {
			ends = f
		}
	}
	var reply answer
	if ends == nil || !ends.before() {
		reply = a.answer(r, body, at)
	}
	slow, held := time.Duration(0), (<-chan struct{})(nil)
	for _, f := range faults {
		a.interfere(f, TakeAfter, FreeAfter)
		if f.Kind == OtherHost && reply.header["Location"] != "" {
			reply.header["Location"] = a.config.ForeignHost + strings.TrimPrefix(reply.header["Location"], "https://"+r.Host)
		}
		switch f.Kind {
		case SlowAfter:
			slow = f.For
		case HoldAfter:
			held = a.cleared
		}
	}
	a.requests[index].Status = reply.status
	if ends != nil {
		a.requests[index].Status = ends.Status
	}
	err = a.save(&a.requests[index])
	exit := a.onExit
	a.mu.Unlock()

	a.wait(r, slow)
	if held != nil {
		select {
		case <-held:
		case <-r.Context().Done():
		case <-a.hang.Done():
		}
	}
	switch {
	case err != nil:
		http.Error(w, err.Error(), http.StatusInternalServerError)
	case ends == nil:
		write(w, reply)
	default:
		a.goWrong(w, r, ends, reply, exit)
	}
}

// ends is true of a fault that leaves no true answer.
func (f *Fault) ends() bool {
	switch f.Kind {
	case SlowBefore, SlowAfter, HoldAfter, ForTask, OtherHost, TakeBefore, TakeAfter, FreeBefore, FreeAfter:
		return false
	default:
		return true
	}
}

func (f *Fault) before() bool {
	switch f.Kind {
	case CutBefore, HangBefore, ExitBefore, Respond:
		return true
	default:
		return false
	}
}

// interfere is what other users do, where the fault is of that kind.
func (a *Appliance) interfere(f *Fault, take, free FaultKind) {
	var err error
	switch f.Kind {
	case take:
		err = a.take(f.Server)
	case free:
		err = a.free(f.Server)
	default:
		return
	}
	if err != nil {
		a.missed = append(a.missed, string(f.Kind)+": "+err.Error())
	}
}

// wait ends early where the client goes away, or the appliance.
func (a *Appliance) wait(r *http.Request, d time.Duration) {
	if d <= 0 {
		return
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-r.Context().Done():
	case <-a.hang.Done():
	}
}

func (a *Appliance) goWrong(w http.ResponseWriter, r *http.Request, f *Fault, reply answer, exit func()) {
	switch f.Kind {
	case Respond, RespondAfter:
		w.Header().Set("Content-Type", "application/json")
		for name, value := range f.Header {
			w.Header().Set(name, value)
		}
		w.WriteHeader(f.Status)
		_, _ = io.WriteString(w, f.Body)
	case Garbled, CutWithin:
		raw := encode(reply.body)
		for name, value := range reply.header {
			w.Header().Set(name, value)
		}
		w.Header().Set("Content-Type", "application/json")
		if f.Kind == CutWithin {
			w.Header().Set("Content-Length", strconv.Itoa(len(raw)))
		}
		w.WriteHeader(reply.status)
		_, _ = io.WriteString(w, raw[:len(raw)/2]) // without the rest net/http ends the connection
	case HangBefore, HangAfter:
		select {
		case <-r.Context().Done():
		case <-a.hang.Done():
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

func write(w http.ResponseWriter, a answer) {
	for name, value := range a.header {
		w.Header().Set(name, value)
	}
	if a.body == nil {
		w.WriteHeader(a.status)
		return
	}
	w.Header().Set("Content-Type", "application/json;charset=UTF-8")
	w.WriteHeader(a.status)
	_, _ = io.WriteString(w, encode(a.body))
}

// answer is what the appliance says, and does.
func (a *Appliance) answer(r *http.Request, body []byte, at time.Time) answer {
	path := r.URL.Path
	if path == "/rest/version" && r.Method == http.MethodGet {
		return a.versionDoc()
	}
	if p, bad := a.versionProblem(r); bad {
		return refuse(a.config.VersionStatus, p)
	}
	a.expire(at)
	session := a.sessions[r.Header.Get("auth")]
	c := &call{request: r, at: at}
	if session != nil {
		session.Used, c.user = at, session.User
	} else if path != sessionsPath || r.Method != http.MethodPost {
		return unauthorized()
	}
	handler, known := a.route(c, path)
	if handler == nil {
		if known {
			return invalid(http.StatusMethodNotAllowed, "The method is not allowed.", r.Method+" "+path)
		}
		return notFound(path)
	}
	if len(body) > 0 {
		if !strings.HasPrefix(r.Header.Get("Content-Type"), "application/json") {
			return invalid(http.StatusUnsupportedMediaType, "The media type is not supported.", r.Header.Get("Content-Type"))
		}
		if err := json.Unmarshal(body, &c.json); err != nil {
			return invalid(http.StatusBadRequest, "The request body is not valid JSON.", err.Error())
		}
	}
	return handler(c)
}

// route finds what carries a request out. Known: the path has something by another method.
func (a *Appliance) route(c *call, path string) (handler func(*call) answer, known bool) {
	of := func(methods map[string]func(*call) answer) (func(*call) answer, bool) {
		return methods[c.request.Method], true
	}
	type methods = map[string]func(*call) answer
	switch path {
	case sessionsPath:
		return of(methods{"POST": a.login, "DELETE": a.logout})
	case hardwarePath:
		return of(methods{"GET": a.hardwareList})
	case templatesPath:
		return of(methods{"GET": a.templateList})
	case profilesPath:
		return of(methods{"GET": a.profileList, "POST": a.createProfile})
	case tasksPath:
		return of(methods{"GET": a.taskList})
	}
	parts := strings.Split(strings.TrimPrefix(path, "/rest/"), "/")
	if len(parts) < 2 || len(parts) > 3 || parts[1] == "" {
		return nil, false
	}
	c.id = parts[1]
	switch strings.Join(append(parts[:1:1], parts[2:]...), "/") {
	case "server-hardware":
		return of(methods{"GET": a.hardwareOne})
	case "server-hardware/powerState":
		return of(methods{"PUT": a.putPower})
	case "server-profile-templates":
		return of(methods{"GET": a.templateOne})
	case "server-profile-templates/new-profile":
		return of(methods{"GET": a.newProfile})
	case "server-profiles":
		return of(methods{"GET": a.profileOne, "PUT": a.updateProfile, "DELETE": a.deleteProfile})
	case "tasks":
		return of(methods{"GET": a.taskOne})
	}
	return nil, false
}
