package api

import (
	"net/http"
	"net/url"
	"slices"
	"strings"

	"burnish/internal/device"
)

// path is one path with the routes of its methods.
type path struct {
	segments []string
	methods  map[string]*route
}

func pathsOf(all []route) []path {
	var paths []path
	for i := range all {
		segments := segmentsOf(all[i].Path)
		at := slices.IndexFunc(paths, func(p path) bool { return slices.Equal(p.segments, segments) })
		if at < 0 {
			at = len(paths)
			paths = append(paths, path{segments, map[string]*route{}})
		}
		paths[at].methods[all[i].Method] = &all[i]
	}
	return paths
}

// segmentsOf splits a path; a slash at its end changes nothing.
func segmentsOf(p string) []string { return strings.Split(strings.Trim(p, "/"), "/") }

// match compares a path, still escaped, and gives what it has in the place of the variable.
func (p path) match(segments []string) (variable string, ok bool) {
	if len(segments) != len(p.segments) {
		return "", false
	}
	for i, want := range p.segments {
		if strings.HasPrefix(want, "{") {
			got, err := url.PathUnescape(segments[i])
			if err != nil || got == "" {
				return "", false
			}
			variable = got
			continue
		}
		if segments[i] != want {
			return "", false
		}
	}
	return variable, true
}

// find gives the route of a request. HEAD is answered as GET, without a body.
func (c *call) find(r *http.Request) (*route, string, error) {
	segments := segmentsOf(r.URL.EscapedPath())
	method := r.Method
	if method == http.MethodHead {
		method = http.MethodGet
	}
	for _, p := range c.paths {
		variable, ok := p.match(segments)
		if !ok {
			continue
		}
		if found, ok := p.methods[method]; ok {
			return found, variable, nil
		}
		c.header.Set("Allow", strings.Join(p.allow(), ", "))
		return nil, "", &device.Fault{Class: device.Permanent, Code: device.CodeMethodNotAllowed,
			Message: r.Method + " is not allowed for this path", Remedy: "use " + strings.Join(p.allow(), " or ")}
	}
	return nil, "", noSuchPath(r)
}

// allow lists the methods of a path.
func (p path) allow() []string {
	var all []string
	for method := range p.methods {
		all = append(all, method)
		if method == http.MethodGet {
			all = append(all, http.MethodHead)
		}
	}
	slices.Sort(all)
	return all
}

func noSuchPath(r *http.Request) error {
	return &device.Fault{Class: device.Permanent, Code: device.CodeNoSuchPath,
		Message: "there is no " + r.Method + " " + r.URL.Path + " in this version of the API", Remedy: "see " + openAPIPath}
}
