package redfishsim

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"burnish/internal/testkit/simserver"
)

// Violations are what no client may ever do to a server, whatever fails: each is a
// sentence. Requests that a test itself makes count too.
func (m *Machine) Violations() []string {
	all := violations(m.State(), m.Requests(), m.Config())
	m.Do(func(time.Time) {
		if m.Broken != nil {
			all = append(all, m.Broken.Error())
		}
	})
	return all
}

// Violations is Machine.Violations.
func (b *Process) Violations() ([]string, error) {
	state, err := b.State()
	requests, bad := b.Requests()
	config, worse := b.Config()
	return violations(state, requests, config), errors.Join(err, bad, worse)
}

// WritesWithoutIdentity are the writes before which the same session did not read the
// system's identity: between the last GET of the system, or of its chassis, that was
// answered with 200 and the write there was another write, or there was no such GET.
func (m *Machine) WritesWithoutIdentity() []Request { return withoutIdentity(m.Requests(), m.Config()) }

func violations(state State, requests []Request, config Config) []string {
	var all []string
	if state.Bricked != "" {
		all = append(all, "bricked: "+state.Bricked)
	}
	if state.Locked {
		all = append(all, "the account that asks is locked")
	}
	for _, serial := range state.Interrupted {
		all = append(all, "a power change while the drive "+serial+" was erased")
	}
	for _, a := range state.Setup.Accounts {
		for _, r := range requests {
			first := r.User == firstUser && r.Method == http.MethodPatch && r.Body == `{"Password":"…"}`
			if a.User == config.Username && r.Method != http.MethodGet && strings.HasPrefix(r.Path, accounts+"/"+a.ID) &&
				!strings.Contains(r.Path, "/Keys/") && !first {
				all = append(all, fmt.Sprintf("request %d, %s %s: the account that asks is changed", r.Number, r.Method, r.Path))
			}
		}
	}
	for _, r := range withoutIdentity(requests, config) {
		all = append(all, fmt.Sprintf("request %d, %s %s: the identity was not read just before", r.Number, r.Method, r.Path))
	}
	return append(all, blind(state.Commits, requests)...)
}

// blind are the commits of a component whose last commit was not followed by a read of the
// inventory or the system that was answered.
func blind(commits []Commit, requests []Request) []string {
	var all []string
	last := map[string]int{}
	for _, commit := range commits {
		unit := commit.System + "/" + commit.Component
		before, again := last[unit]
		last[unit] = commit.Request
		if !again {
			continue
		}
		read := false
		for _, r := range requests {
			if r.Number > before && r.Number < commit.Request && r.Method == http.MethodGet && r.Status == http.StatusOK {
				path := strings.ToLower(r.Path)
				read = read || strings.Contains(path, "/firmwareinventory") || strings.Contains(path, "/redfish/v1/systems/")
			}
		}
		if !read {
			all = append(all, fmt.Sprintf("requests %d and %d: two commits of %s without a read between", before, commit.Request,
				commit.Component))
		}
	}
	return all
}

func withoutIdentity(requests []Request, config Config) []Request {
	var bad []Request
	read := map[string]bool{}
	system, chassis := config.systemPath(), config.chassisPath()
	for _, r := range requests {
		path := strings.TrimSuffix(r.Path, "/")
		switch {
		case r.Method == http.MethodGet && (strings.EqualFold(path, system) || strings.EqualFold(path, chassis)):
			read[r.Session] = r.Status == http.StatusOK
		case r.Method == http.MethodGet || r.Method == http.MethodHead || simserver.IsSession(r.Path) ||
			r.Status == http.StatusPermanentRedirect || r.User == firstUser: // who may read nothing
		default:
			if !read[r.Session] {
				bad = append(bad, r)
			}
			read[r.Session] = false
		}
	}
	return bad
}
