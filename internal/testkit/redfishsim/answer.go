package redfishsim

import (
	"maps"
	"net/http"
	"strings"
	"time"
)

// call is one request that reached the BMC, and is allowed to.
type call struct {
	request *http.Request
	at      time.Time
	vars    []string // what the pattern's {} matched, in their order
	body    []byte
	json    map[string]any
	session *Session // nil: Basic authentication, or none
}

// answer is what the BMC says.
type answer struct {
	status int
	header map[string]string
	body   map[string]any
	etag   bool // the body has one
}

func ok(doc map[string]any) answer { return answer{status: 200, body: doc} }

// information is a message of the standard's form.
func information(id, text, severity string) map[string]any {
	return map[string]any{
		"@odata.type": "#Message.v1_0_8.Message", "MessageId": id, "Message": text,
		"MessageArgs": []string{}, "Severity": severity, "Resolution": "None",
	}
}

func message(status int, id, text string) answer {
	return answer{status: status, body: map[string]any{"@Message.ExtendedInfo": []any{information(id, text, "OK")}}}
}

func failure(status int, id, text string) answer {
	return answer{status: status, body: map[string]any{"error": map[string]any{
		"code": "Base.1.8.GeneralError", "message": "A general error has occurred. See ExtendedInfo for more information.",
		"@Message.ExtendedInfo": []any{information(id, text, "Critical")},
	}}}
}

func noExpand() answer {
	return failure(400, "SMC.1.0.OemLicenseNotPassed", "Not licensed to perform this request. The following licenses "+
		"SFT-DCMS-SINGLE were needed")
}

func notFound() answer {
	return failure(404, "Base.1.8.ResourceMissingAtURI", "The resource at the URI was not found.")
}

// uri is path as this BMC writes it.
func (m *Machine) uri(path string) string {
	if m.config.TrailingSlash && !strings.HasSuffix(path, "/") {
		return path + "/"
	}
	return path
}

func (m *Machine) link(path string) map[string]any {
	return map[string]any{"@odata.id": m.uri(path)}
}

func (m *Machine) links(paths ...string) []any {
	list := []any{}
	for _, path := range paths {
		list = append(list, m.link(path))
	}
	return list
}

// system is a path below the system's, likewise manager and chassis.
func (m *Machine) system(below string) string {
	return join("/redfish/v1/Systems/"+m.config.SystemID, below)
}

func (m *Machine) manager(below string) string {
	return join("/redfish/v1/Managers/"+m.config.ManagerID, below)
}

func (m *Machine) chassis(below string) string {
	return join("/redfish/v1/Chassis/"+m.config.ChassisID, below)
}

func join(path, below string) string {
	if below == "" {
		return path
	}
	return path + "/" + below
}

// doc begins a resource.
func (m *Machine) doc(kind, path, id, name string) map[string]any {
	return map[string]any{"@odata.type": "#" + kind, "@odata.id": m.uri(path), "Id": id, "Name": name}
}

// collection is a resource with members.
func (m *Machine) collection(kind, path string, members ...string) map[string]any {
	name := path[strings.LastIndex(path, "/")+1:]
	doc := m.doc(kind+"."+kind, path, name, name+" Collection")
	doc["Members"] = m.links(members...)
	doc["Members@odata.count"] = len(members)
	return doc
}

// status is a resource's health.
func status(state, health string) map[string]any {
	return map[string]any{"State": state, "Health": health, "HealthRollup": health}
}

// with is doc with more in it.
func with(doc, more map[string]any) map[string]any {
	maps.Copy(doc, more)
	return doc
}

// route is a path of the service, and what it does.
type route struct {
	method  string
	parts   []string
	open    bool // needs no login
	handler func(*call) answer
}

// add registers pattern, whose parts {} match anything.
func (t *routeTable) add(method, pattern string, handler func(*call) answer) {
	*t = append(*t, route{method: method, parts: strings.Split(strings.Trim(pattern, "/"), "/"), handler: handler})
}

type routeTable []route

// match is the route of a request; found is true if the path has one by any method.
func (m *Machine) match(method, path string) (r route, vars []string, found bool) {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	for _, candidate := range m.routes {
		got, matches := candidate.matches(parts, m.config.AnyCase)
		if !matches {
			continue
		}
		found = true
		if candidate.method == method || method == http.MethodHead && candidate.method == http.MethodGet {
			return candidate, got, true
		}
	}
	return route{}, nil, found
}

func (r route) matches(parts []string, anyCase bool) (vars []string, matches bool) {
	if len(parts) != len(r.parts) {
		return nil, false
	}
	for i, want := range r.parts {
		switch {
		case want == "{}":
			vars = append(vars, parts[i])
		case want == parts[i]:
		case anyCase && strings.EqualFold(want, parts[i]):
		default:
			return nil, false
		}
	}
	return vars, true
}
