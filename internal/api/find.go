package api

import (
	"net/http"
	"net/url"
	"regexp"
	"strings"

	"burnish/internal/device"
)

// muxOf finds the route of a request; HEAD is answered as GET, without a body.
func muxOf(all []route) *http.ServeMux {
	mux := http.NewServeMux()
	for i, r := range all {
		pattern, variable := r.Method+" "+r.Path, strings.Trim(pathVariable.FindString(r.Path), "{}")
		if r.Path == "/" {
			pattern += "{$}"
		}
		mux.HandleFunc(pattern, func(w http.ResponseWriter, q *http.Request) {
			if f, ok := w.(*finding); ok {
				f.route, f.segment = &all[i], q.PathValue(variable)
			}
		})
	}
	return mux
}

var pathVariable = regexp.MustCompile(`{[a-z]+}`)

// finding stands in the place of an answer where only the route of a request is asked for.
type finding struct {
	header  http.Header
	route   *route
	segment string
}

func (f *finding) Header() http.Header            { return f.header }
func (f *finding) Write(text []byte) (int, error) { return len(text), nil }
func (f *finding) WriteHeader(int)                {}

// find gives the route of a request, and what its path has in the place of a variable. A slash at the
// path's end changes nothing.
func (c *call) find() error {
	path := "/" + strings.Trim(c.r.URL.EscapedPath(), "/")
	q := *c.r
	q.URL = &url.URL{RawPath: path}
	var err error
	if q.URL.Path, err = url.PathUnescape(path); err != nil {
		return noSuchPath(c.r)
	}
	f := &finding{header: http.Header{}}
	c.mux.ServeHTTP(f, &q)
	if c.route, c.segment = f.route, f.segment; c.route != nil {
		return nil
	}
	if allow := f.header.Get("Allow"); allow != "" {
		c.header.Set("Allow", allow)
		return &device.Fault{Class: device.Permanent, Code: device.CodeMethodNotAllowed,
			Message: c.r.Method + " is not allowed for this path", Remedy: "use " + strings.ReplaceAll(allow, ", ", " or ")}
	}
	return noSuchPath(c.r)
}

func noSuchPath(r *http.Request) error {
	return &device.Fault{Class: device.Permanent, Code: device.CodeNoSuchPath,
		Message: "there is no " + r.Method + " " + r.URL.Path + " in this version of the API", Remedy: "see " + openAPIPath}
}
