package redfishsim

import (
	"net/http"
	"slices"
	"strings"
	"time"
)

// Request is one that reached the BMC.
type Request struct {
	Number       int
	At           time.Time
	Method, Path string
	Body         string // without the password
	IfMatch      string
	Session      string // its ID; empty: none, or Basic authentication
	Status       int    // of the answer; 0: there was none
	Changed      bool   // it had an effect on the server
	Fault        FaultKind
}

// Requests are all that reached the BMC, in their order.
func (m *Machine) Requests() []Request {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.requests)
}

// Count is how many requests reached the BMC: the next has this number and one.
func (m *Machine) Count() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.count
}

// Counts say how many requests reached a BMC, and how many of them a fault met.
type Counts struct{ Requests, Faulted int }

// Counts is Requests, counted.
func (m *Machine) Counts() Counts {
	m.mu.Lock()
	defer m.mu.Unlock()
	return count(m.requests)
}

func count(requests []Request) Counts {
	counts := Counts{Requests: len(requests)}
	for _, r := range requests {
		if r.Fault != "" {
			counts.Faulted++
		}
	}
	return counts
}

// writes are those of requests that ask for a change of the server: all but reads, logins
// and logouts.
func writes(requests []Request) []Request {
	return slices.DeleteFunc(slices.Clone(requests), func(r Request) bool {
		return r.Method == http.MethodGet || r.Method == http.MethodHead || isSession(r.Path)
	})
}

func isSession(path string) bool { return strings.Contains(strings.ToLower(path), "/sessions") }

// Writes are the requests that ask for a change of the server, whether or not they had one.
func (m *Machine) Writes() []Request { return writes(m.Requests()) }

// Changes is how many requests had an effect on the server.
func (m *Machine) Changes() int {
	n := 0
	for _, r := range m.Requests() {
		if r.Changed {
			n++
		}
	}
	return n
}

// WritesWithoutIdentity are the writes before which the same session did not read the
// system's identity: between the last GET of the system, or of its chassis, that was
// answered with 200 and the write there was another write, or there was no such GET.
func (m *Machine) WritesWithoutIdentity() []Request {
	return withoutIdentity(m.Requests(), m.Config())
}

func (c Config) systemPath() string  { return "/redfish/v1/Systems/" + c.SystemID }
func (c Config) chassisPath() string { return "/redfish/v1/Chassis/" + c.ChassisID }

// OpenSessions are the IDs of the sessions that are open.
func (m *Machine) OpenSessions() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.expire(time.Now())
	ids := []string{}
	for _, session := range m.state.Sessions {
		ids = append(ids, session.ID)
	}
	return ids
}

// TenantData are the serials of the drives in the server that still hold what a tenant
// wrote.
func (m *Machine) TenantData() []string {
	state := m.State()
	return state.TenantData()
}

// Commits are the times that firmware of that component of this system was written, or
// staged to be.
func (m *Machine) Commits(component string) []Commit {
	var of []Commit
	for _, commit := range m.State().Commits {
		if commit.Component == component && commit.System == "" {
			of = append(of, commit)
		}
	}
	return of
}
