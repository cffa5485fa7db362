package oneviewsim

import (
	"encoding/json"
	"net/http"
	"strings"
)

// controlPrefix begins the paths by which a test or a script asks and changes an appliance in
// another process. They are no part of OneView, and no fault concerns them.
const controlPrefix = "/simulator/"

// Controlled is the REST API and the paths for a test:
//
//	POST /simulator/take?server=server-1      another user takes the server; also free
//	POST /simulator/power?server=server-1&state=On
//	POST /simulator/expire-sessions           also hurry, resume, down and up
//	GET  /simulator/server?server=server-1    as it is now
//	GET  /simulator/violations?owner=burnish  also profiles, open-sessions
//	GET  /simulator/state                     also config, requests, counts, missed
//	POST /simulator/faults                    a Fault; DELETE takes all back
//
// OnExit ends the process, for the faults ExitBefore and ExitAfter.
func Controlled(a *Appliance, onExit func()) http.Handler {
	a.mu.Lock()
	a.onExit = onExit
	a.mu.Unlock()
	mux := http.NewServeMux()
	get := func(what string, read func(*http.Request) (any, error)) {
		mux.HandleFunc("GET "+controlPrefix+what, func(w http.ResponseWriter, r *http.Request) {
			value, err := read(r)
			if err != nil {
				http.Error(w, err.Error(), http.StatusConflict)
				return
			}
			w.Header().Set("Content-Type", "application/json")
			if err := json.NewEncoder(w).Encode(value); err != nil {
				http.Error(w, err.Error(), http.StatusInternalServerError)
			}
		})
	}
	do := func(method, what string, act func(*http.Request) error) {
		mux.HandleFunc(method+" "+controlPrefix+what, func(w http.ResponseWriter, r *http.Request) {
			if err := act(r); err != nil {
				http.Error(w, err.Error(), http.StatusConflict)
			}
		})
	}
	post := func(what string, act func()) {
		do("POST", what, func(*http.Request) error { act(); return nil })
	}
	server := func(r *http.Request) string { return r.URL.Query().Get("server") }

	do("POST", "take", func(r *http.Request) error { return a.Take(server(r)) })
	do("POST", "free", func(r *http.Request) error { return a.Free(server(r)) })
	do("POST", "power", func(r *http.Request) error { return a.SetPower(server(r), r.URL.Query().Get("state")) })
	post("expire-sessions", a.ExpireSessions)
	post("hurry", a.Hurry)
	post("resume", a.Resume)
	post("down", func() { a.Down(true) })
	post("up", func() { a.Down(false) })
	get("server", func(r *http.Request) (any, error) { return a.Server(server(r)) })
	get("violations", func(r *http.Request) (any, error) { return a.Violations(r.URL.Query()["owner"]...), nil })
	get("profiles", func(r *http.Request) (any, error) { return a.Profiles(r.URL.Query().Get("owner")), nil })
	get("open-sessions", func(r *http.Request) (any, error) { return a.OpenSessions(r.URL.Query().Get("owner")), nil })
	get("state", func(*http.Request) (any, error) { return a.State(), nil })
	get("config", func(*http.Request) (any, error) { return a.Config(), nil })
	get("requests", func(*http.Request) (any, error) { return a.Requests(), nil })
	get("counts", func(*http.Request) (any, error) { return a.Counts(), nil })
	get("missed", func(*http.Request) (any, error) { return a.Missed(), nil })
	do("PUT", "config", func(r *http.Request) error {
		var wanted Config
		if err := json.NewDecoder(r.Body).Decode(&wanted); err != nil {
			return err
		}
		a.Configure(func(c *Config) { *c = wanted })
		return nil
	})
	do("POST", "join", func(r *http.Request) error {
		var link Link
		if err := json.NewDecoder(r.Body).Decode(&link); err != nil {
			return err
		}
		return a.joinProcess(server(r), link)
	})
	do("POST", "faults", func(r *http.Request) error {
		var f Fault
		err := json.NewDecoder(r.Body).Decode(&f)
		if err == nil {
			a.Inject(f)
		}
		return err
	})
	do("DELETE", "faults", func(*http.Request) error { a.ClearFaults(); return nil })
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, controlPrefix) {
			mux.ServeHTTP(w, r)
			return
		}
		a.ServeHTTP(w, r)
	})
}

// joinProcess makes a server one with a BMC in another process, also after a restart.
func (a *Appliance) joinProcess(server string, link Link) error {
	bmc, err := newRemoteBMC(link)
	if err != nil {
		return err
	}
	if err := a.Join(server, bmc); err != nil {
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	h, err := a.find(server)
	if err != nil {
		return err
	}
	links := map[string]Link{h.URI(): link}
	for uri, one := range a.config.Links {
		if uri != h.URI() {
			links[uri] = one
		}
	}
	a.config.Links = links
	return a.saveConfig()
}

var _ BMC = (*remoteBMC)(nil)
