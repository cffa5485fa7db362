package simserver

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"
)

// Acts are what a test or a script can ask of a simulator in another process, at POST /NAME of its
// control address. They are no part of what is simulated: no fault concerns them, and they are
// answered while the simulator is down.
type Acts map[string]func(query url.Values, body []byte) (any, error)

// errChanged is a change that came too late.
var errChanged = errors.New("what is simulated has changed since")

// Control serves the acts of its own and of all simulators. OnExit ends the process, for the
// faults ExitBefore and ExitAfter.
func (c *Core[C, S]) Control(onExit func(), own Acts) http.Handler {
	c.Mu.Lock()
	c.exit = onExit
	c.Mu.Unlock()
	acts := Acts{
		"state":    func(url.Values, []byte) (any, error) { return c.State(), nil },
		"config":   func(url.Values, []byte) (any, error) { return c.Config(), nil },
		"requests": func(url.Values, []byte) (any, error) { return c.Requests(), nil },
		// The state that the test saw comes first: it changes nothing else.
		"change": func(_ url.Values, body []byte) (_ any, err error) {
			var change struct {
				Seen   json.RawMessage
				Wanted S
			}
			if err := json.Unmarshal(body, &change); err != nil {
				return nil, err
			}
			c.Change(func(now *S) {
				if string(Encode(now)) != string(change.Seen) {
					err = errChanged
					return
				}
				*now = change.Wanted
			})
			return nil, err
		},
		"configure": func(_ url.Values, body []byte) (any, error) {
			var wanted C
			err := json.Unmarshal(body, &wanted)
			if err == nil {
				c.Configure(func(now *C) { *now = wanted })
			}
			return nil, err
		},
		"inject": func(_ url.Values, body []byte) (any, error) {
			var f Fault
			err := json.Unmarshal(body, &f)
			if err == nil {
				c.Inject(f)
			}
			return nil, err
		},
		"clear-faults": func(url.Values, []byte) (any, error) { c.ClearFaults(); return nil, nil },
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name := strings.TrimPrefix(r.URL.Path, "/")
		act := own[name]
		if act == nil {
			act = acts[name]
		}
		if act == nil || r.Method != http.MethodPost {
			http.NotFound(w, r)
			return
		}
		body, err := io.ReadAll(r.Body)
		var said any
		if err == nil {
			said, err = act(r.URL.Query(), body)
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusConflict)
			return
		}
		Send(w, r, OK(nil), Encode(said))
	})
}
