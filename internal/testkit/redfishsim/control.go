package redfishsim

import (
	"encoding/json"
	"errors"
	"net/http"
)

// controlPrefix begins the paths by which a test asks and changes a machine in another
// process. They are no part of Redfish, and no fault concerns them.
const controlPrefix = "/simulator/"

// Controlled is the Redfish service and the paths for a test. OnExit ends the process, for
// the faults ExitBefore and ExitAfter.
func Controlled(m *Machine, onExit func()) http.Handler {
	m.mu.Lock()
	m.onExit = onExit
	m.mu.Unlock()
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+controlPrefix+"state", func(w http.ResponseWriter, _ *http.Request) { reply(w, m.State()) })
	mux.HandleFunc("GET "+controlPrefix+"config", func(w http.ResponseWriter, _ *http.Request) { reply(w, m.Config()) })
	mux.HandleFunc("GET "+controlPrefix+"requests", func(w http.ResponseWriter, _ *http.Request) {
		reply(w, m.Requests())
	})
	mux.HandleFunc("GET "+controlPrefix+"counts", func(w http.ResponseWriter, _ *http.Request) { reply(w, m.Counts()) })
	mux.HandleFunc("PUT "+controlPrefix+"state", func(w http.ResponseWriter, r *http.Request) {
		// The state that the test saw comes first: it changes nothing else.
		var change struct{ Seen, Wanted State }
		if !request(w, r, &change) {
			return
		}
		if err := m.swap(change.Seen, change.Wanted); err != nil {
			http.Error(w, err.Error(), http.StatusPreconditionFailed)
		}
	})
	mux.HandleFunc("GET "+controlPrefix+"power", func(w http.ResponseWriter, _ *http.Request) {
		power, err := m.Power()
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		reply(w, power)
	})
	mux.HandleFunc("PUT "+controlPrefix+"power", func(w http.ResponseWriter, r *http.Request) {
		var resetType string
		if !request(w, r, &resetType) {
			return
		}
		if err := m.SetPower(resetType); err != nil {
			http.Error(w, err.Error(), http.StatusConflict)
		}
	})
	mux.HandleFunc("PUT "+controlPrefix+"config", func(w http.ResponseWriter, r *http.Request) {
		var wanted Config
		if !request(w, r, &wanted) {
			return
		}
		m.Configure(func(c *Config) { *c = wanted })
	})
	mux.HandleFunc("POST "+controlPrefix+"faults", func(w http.ResponseWriter, r *http.Request) {
		var f Fault
		if request(w, r, &f) {
			m.Inject(f)
		}
	})
	mux.HandleFunc("DELETE "+controlPrefix+"faults", func(http.ResponseWriter, *http.Request) { m.ClearFaults() })
	mux.HandleFunc("POST "+controlPrefix+"restart", func(http.ResponseWriter, *http.Request) { m.RestartBMC() })
	mux.Handle("/", m)
	// The mux would redirect what is not clean; a BMC decides about its paths itself.
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if len(r.URL.Path) > len(controlPrefix) && r.URL.Path[:len(controlPrefix)] == controlPrefix {
			mux.ServeHTTP(w, r)
			return
		}
		m.ServeHTTP(w, r)
	})
}

func reply(w http.ResponseWriter, value any) {
	w.Header().Set("Content-Type", "application/json")
	if err := json.NewEncoder(w).Encode(value); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
	}
}

func request(w http.ResponseWriter, r *http.Request, into any) bool {
	if err := json.NewDecoder(r.Body).Decode(into); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return false
	}
	return true
}

// errChanged is a change that came too late.
var errChanged = errors.New("the server has changed since")

// swap makes wanted of the state, if that is still what the test saw.
func (m *Machine) swap(seen, wanted State) error {
	saw, err := json.Marshal(&seen)
	if err != nil {
		return err
	}
	var result error
	m.Change(func(s *State) {
		now, err := json.Marshal(s)
		switch {
		case err != nil:
			result = err
		case string(now) != string(saw):
			result = errChanged
		default:
			*s = wanted
		}
	})
	return result
}
