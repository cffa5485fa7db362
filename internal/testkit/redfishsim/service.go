package redfishsim

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"burnish/internal/testkit/simserver"
)

type (
	call    = simserver.Call
	answer  = simserver.Answer
	doc     = map[string]any
	handler = func(*call) answer
)

// information is a message of the standard's form.
func information(id, text, severity string) doc {
	return doc{
		"@odata.type": "#Message.v1_0_8.Message", "MessageId": id, "Message": text,
		"MessageArgs": []string{}, "Severity": severity, "Resolution": "None",
	}
}

func message(status int, id, text string) answer {
	return answer{Status: status, Body: doc{"@Message.ExtendedInfo": []any{information(id, text, "OK")}}}
}

func success() answer { return message(200, "Base.1.8.Success", "Successfully completed request.") }

func failure(status int, id, text string) answer {
	return answer{Status: status, Body: doc{"error": doc{
		"code": "Base.1.8.GeneralError", "message": "A general error has occurred. See ExtendedInfo for more information.",
		"@Message.ExtendedInfo": []any{information(id, text, "Critical")},
	}}}
}

// notInList is the refusal of a value.
func notInList(what, value string) answer {
	return failure(400, "Base.1.8.PropertyValueNotInList", "The value "+value+" is not one of "+what+".")
}

func unavailable() answer {
	a := failure(503, "Base.1.8.ServiceTemporarilyUnavailable", "The service is temporarily unavailable.")
	a.Header = map[string]string{"Retry-After": "1"}
	return a
}

func unauthorized() answer {
	a := failure(401, "Base.1.8.NoValidSession", "There is no valid session established with the implementation.")
	a.Header = map[string]string{"WWW-Authenticate": `Basic realm="RedfishService"`}
	return a
}

const root = "/redfish/v1"

// uri is path as this BMC writes it.
func (m *Machine) uri(path string) string {
	if m.Conf.TrailingSlash && !strings.HasSuffix(path, "/") {
		return path + "/"
	}
	return path
}

func (m *Machine) link(path string) doc { return doc{"@odata.id": m.uri(path)} }

func (m *Machine) links(paths ...string) []any {
	list := []any{}
	for _, path := range paths {
		list = append(list, m.link(path))
	}
	return list
}

// action is one of a resource's actions, with what it takes.
func (m *Machine) action(path string, takes ...any) doc {
	one := doc{"target": m.uri(path)}
	for i := 0; i+1 < len(takes); i += 2 {
		one[takes[i].(string)+"@Redfish.AllowableValues"] = takes[i+1]
	}
	return one
}

// system is a path below the system's, likewise manager and chassis.
func (m *Machine) system(below string) string  { return m.Conf.systemPath() + below }
func (m *Machine) chassis(below string) string { return m.Conf.chassisPath() + below }
func (m *Machine) manager(below string) string {
	id := map[Personality]string{IDRAC: "iDRAC.Embedded.1", OpenBMC: "bmc"}[m.Conf.Personality]
	return root + "/Managers/" + cmp.Or(id, "1") + below
}

func (c Config) systemPath() string  { return root + "/Systems/" + c.SystemID }
func (c Config) chassisPath() string { return root + "/Chassis/" + c.ChassisID }

// status is a resource's health.
func status(state string) doc { return doc{"State": state, "Health": "OK", "HealthRollup": "OK"} }

// resource is what a path of the service has, and what can be done to it, by method.
type resource struct {
	doc    doc
	tagged bool // it has an ETag
	do     map[string]handler
}

// tree is the resources of a part of the service by their paths, as they are now.
type tree struct {
	*Machine
	at   time.Time
	path string // that is asked for, in lower case
	all  map[string]*resource
}

// wants: what is below one of these paths is asked for.
func (t *tree) wants(any ...string) bool {
	return slices.ContainsFunc(any, func(of string) bool {
		return of != "" && strings.HasPrefix(t.path, strings.ToLower(of))
	})
}

// tree is the part that has path.
func (m *Machine) tree(at time.Time, path string) *tree {
	t := &tree{Machine: m, at: at, path: strings.ToLower(path), all: map[string]*resource{}}
	part := func(add func(), paths ...string) {
		if t.wants(paths...) {
			add()
		}
	}
	part(t.addService, "/redfish")
	part(t.addSessions, m.Conf.SessionsPath, root+"/SessionService")
	part(t.addSystem, root+"/Systems")
	part(t.addSetup, root+"/AccountService", root+"/EventService")
	part(t.addBIOS, m.system("/Bios"), registries)
	part(t.addStorage, m.system("/Storage"), m.chassis("/Drives"))
	part(t.addChassis, root+"/Chassis", root+"/Managers")
	part(t.addTasks, root+"/TaskService", m.manager("/Jobs"))
	part(t.addUpdates, updateService, m.Conf.MultipartPath)
	return t
}

func (t *tree) node(path string) *resource {
	if t.is(ILO) { // its paths are the same in any case
		path = strings.ToLower(path)
	}
	if t.all[path] == nil {
		t.all[path] = &resource{do: map[string]handler{}}
	}
	return t.all[path]
}

// add adds a resource of that kind and name.
func (t *tree) add(kind, path, name string, body doc) *resource {
	r := t.node(path)
	r.doc = doc{"@odata.type": "#" + kind, "@odata.id": t.uri(path), "Id": path[strings.LastIndex(path, "/")+1:],
		"Name": name, "Status": status("Enabled")}
	maps.Copy(r.doc, body)
	return r
}

// list adds a collection.
func (t *tree) list(kind, path string) {
	t.add(kind+"Collection."+kind+"Collection", path, kind+" Collection",
		doc{"Members": []any{}, "Members@odata.count": 0})
}

// member adds a resource that is one of a collection.
func (t *tree) member(kind, list, id, name string, body doc) *resource {
	members := t.node(list).doc
	members["Members"] = append(members["Members"].([]any), t.link(list+"/"+id))
	members["Members@odata.count"] = len(members["Members"].([]any))
	return t.add(kind, list+"/"+id, name, body)
}

func (t *tree) do(method, path string, do handler) { t.node(path).do[method] = do }

func (t *tree) post(path string, do handler) { t.do(http.MethodPost, path, do) }

// answer is what the BMC says, and does.
func (m *Machine) answer(c *call) answer {
	m.at = c.At
	path := c.URL.Path
	bare := strings.TrimSuffix(path, "/")
	switch {
	case m.Conf.TrailingSlash && bare == path:
		return answer{Status: http.StatusPermanentRedirect, Header: map[string]string{"Location": path + "/"}}
	case c.At.Sub(m.DownUntil) < m.Conf.Delays.WarmUp && bare != root:
		return unavailable()
	}
	t := m.tree(c.At, bare)
	if m.is(ILO) {
		bare = strings.ToLower(bare)
	}
	r := t.all[bare]
	if bare != path && bare != root && !m.Conf.TrailingSlash && !m.is(OpenBMC) { // bmcweb takes both
		r = nil
	}
	method := strings.Replace(c.Method, "HEAD", "GET", 1)
	open := bare == "/redfish" || bare == root ||
		method == http.MethodPost && strings.EqualFold(bare, m.Conf.SessionsPath)
	below := func(of string) bool { return strings.HasPrefix(strings.ToLower(bare), strings.ToLower(of)) }
	switch allowed := m.authenticate(c); {
	case !allowed && !(open && c.Header.Get("X-Auth-Token") == ""):
		return unauthorized()
	case r == nil:
		return failure(404, "Base.1.8.ResourceMissingAtURI", "The resource at the URI was not found.")
	case m.mustChangePassword(c) && !open && !below(m.Conf.SessionsPath) &&
		!(method == http.MethodPatch && below(accounts+"/")):
		a := failure(403, "", "")
		a.Body["error"].(doc)["@Message.ExtendedInfo"] = []any{m.passwordChange()}
		return a
	case m.locked(method, bare):
		return failure(403, "Base.1.8.ResourceInUse", "The system is in lockdown mode.")
	case m.Conf.Unlicensed && (below(m.system("/Bios")) || method != http.MethodGet && below(updateService)):
		return failure(403, "SMC.1.0.OemLicenseNotPassed", "Not licensed to perform this request.")
	}
	do := r.do[method]
	if do == nil && method == http.MethodGet && r.doc != nil {
		return answer{Status: 200, Body: r.doc, Tagged: r.tagged}
	}
	if do == nil {
		return failure(405, "Base.1.8.OperationNotAllowed", "The HTTP method is not allowed on this resource.")
	}
	return do(c)
}

// etag is the strong one of a resource.
func etag(raw []byte) string {
	sum := sha256.Sum256(raw)
	return strconv.Quote(hex.EncodeToString(sum[:4]))
}

// matched is do where the request's If-Match is the resource's present ETag.
func (m *Machine) matched(r *resource, do handler) handler {
	return func(c *call) answer {
		given := c.Header.Get("If-Match")
		switch {
		case given == "" && m.Conf.RequireIfMatch:
			return failure(428, "Base.1.8.PreconditionRequired", "A precondition is required to change this resource.")
		case given != "" && given != "*" && given != etag(simserver.Encode(r.doc)):
			return failure(412, "Base.1.8.PreconditionFailed", "The ETag is not that of the resource.")
		}
		return do(c)
	}
}

func (m *Machine) write(w http.ResponseWriter, r *http.Request, a answer) {
	config := m.Config()
	w.Header().Set("OData-Version", "4.0")
	w.Header().Set("Date", time.Now().Add(config.ClockSkew).UTC().Format(http.TimeFormat))
	if a.Body == nil {
		simserver.Send(w, r, a, nil)
		return
	}
	plain := simserver.Encode(a.Body)
	tag := etag(plain)
	raw := config.Dialect.written(plain, r.Host)
	if a.Tagged {
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
		raw = slices.Concat([]byte(`{"@odata.etag":`+strconv.Quote(body)+`,`), raw[1:])
	}
	simserver.Send(w, r, a, raw)
}
