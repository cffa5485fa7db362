package oneviewsim

import (
	"net/http"
	"slices"
	"time"
)

// Request is one that reached the appliance.
type Request struct {
	Number              int
	At                  time.Time
	Method, Path, Query string
	Body                string // empty of a login
	Version             string
	User                string // of the session; empty: none
	Session             int    // its number
	Status              int    // of the answer; 0: there was none
	Faults              []FaultKind
}

// Requests are all that reached the appliance, in their order.
func (a *Appliance) Requests() []Request {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.requests)
}

// Count is how many requests reached the appliance: the next has this number and one.
func (a *Appliance) Count() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.requests)
}

// Counts say how many requests reached an appliance, how many of them a fault met and how many
// asked for a change, how many logins succeeded, and how many sessions are open.
type Counts struct{ Requests, Faulted, Writes, Logins, Sessions int }

// Counts is Requests, counted.
func (a *Appliance) Counts() Counts {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.expire(time.Now())
	counts := count(a.requests)
	counts.Sessions = len(a.state.Sessions)
	return counts
}

func count(requests []Request) Counts {
	counts := Counts{Requests: len(requests)}
	for _, r := range requests {
		if len(r.Faults) > 0 {
			counts.Faulted++
		}
		if r.Path == sessionsPath {
			if r.Method == http.MethodPost && r.Status == http.StatusOK {
				counts.Logins++
			}
		} else if r.Method != http.MethodGet {
			counts.Writes++
		}
	}
	return counts
}

// act records what a user did. The profile is the one that is concerned; nil: that of the
// server, if it has one.
func (a *Appliance) act(c *call, kind ActKind, h *Hardware, p *Profile) {
	one := Act{Request: a.now, At: c.at, User: c.user, Kind: kind}
	if h != nil {
		a.refresh(h)
		one.Server, one.Power = h.URI(), h.Power
		if p == nil {
			p = a.profiles[h.Profile]
		}
	}
	if p != nil {
		one.Name, one.Owner = p.Name, p.Owner
		if p.ID != "" {
			one.Profile = p.URI()
		}
	}
	a.state.Acts = append(a.state.Acts, one)
}

// doubled records a profile whose name another one of the same user has.
func (a *Appliance) doubled(t *Task, created *Profile, at time.Time) {
	for _, p := range a.state.Profiles {
		if p != created && p.Name == created.Name && p.Owner == created.Owner {
			a.state.Acts = append(a.state.Acts, Act{
				Request: t.Request, At: at, User: t.User, Kind: Doubled, Server: created.Hardware, Profile: created.URI(),
				Name: p.Name, Owner: p.Owner, Twin: p.URI(),
			})
		}
	}
}
