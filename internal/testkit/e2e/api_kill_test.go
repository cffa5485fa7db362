package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"burnish/internal/device"
	"burnish/internal/testkit/proc"
	"burnish/workflows/contract"
)

const operatorToken = "operator-token-of-the-tests-0123456789"

// tokenFile writes a file of static tokens: an operator and a reader.
func (s *Site) tokenFile(t testing.TB) string {
	t.Helper()
	return s.writeFile(t, "tokens.yaml", fmt.Sprintf(`- {user: olga, roles: [admin], token: %q}
- {user: rita, roles: [reader], token: "reader-token-of-the-tests-0123456789ab"}
`, operatorToken))
}

// ServeAPI runs a control worker that serves the API on a free port to the users of the
// token file.
func (s *Site) ServeAPI(t testing.TB, env ...string) (*Worker, Caller) {
	t.Helper()
	ports, err := proc.FreePorts(0)
	require.NoError(t, err)
	address := fmt.Sprintf("127.0.0.1:%d", ports[0])
	w := s.Run(t, "control", append(env, "BURNISH_API_ADDRESS="+address, "BURNISH_API_TOKENS="+s.tokenFile(t))...)
	// Each request has a connection of its own: none is repeated by the client's library.
	c := Caller{URL: "http://" + address, Token: operatorToken,
		Client: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}}
	c.AwaitReady(t)
	return w, c
}

// Two control workers serve the API. One is killed while it answers a clean: the same request
// at the other gets the answer, and the device is cleaned once, however far the first one was.
func TestARepeatedRequestActsOnceAlthoughAControlWorkerIsKilled(t *testing.T) {
	t.Parallel()
	const kills = 5
	s := newSite(t)
	s.Run(t, "host")
	var workers [2]*Worker
	var callers [2]Caller
	for i := range workers {
		workers[i], callers[i] = s.ServeAPI(t, "BURNISH_API_RATE=1000")
	}
	devices := map[string]string{}
	for i := range kills {
		devices[fmt.Sprintf("d%d", i)] = `set: {size: 1MiB}`
	}
	s.EnrollAll(t, devices)

	const body = `{"clean_steps":[{"interface":"deploy","step":"zero"}],"reason":"once"}`
	answered := 0
	began := time.Now()
	for i := range kills {
		name, dying, other := fmt.Sprintf("d%d", i), i%2, 1-i%2
		path, key := devicePath(name, "clean"), fmt.Sprintf("Idempotency-Key: round-%d", i)
		first := make(chan Answer, 1)
		go func() {
			defer close(first)
			if answer, err := callers[dying].try(t, http.MethodPost, path, body, key); err == nil {
				first <- answer
			}
		}()
		select { // it dies after 0, 10, 20 … ms: before it has the request, in the middle, after its answer
		case <-time.After(time.Duration(i) * 10 * time.Millisecond):
		case <-t.Context().Done():
		}
		workers[dying].Kill(t)
		if answer, ok := <-first; ok {
			answered++
			require.Equal(t, http.StatusAccepted, answer.Status, answer.Body)
		}
		var again contract.Result
		callers[other].Must(t, http.StatusAccepted, http.MethodPost, path, body, &again, key)
		require.Equal(t, callers[other].Must(t, http.StatusAccepted, http.MethodPost, path, body, nil, key).Body,
			callers[other].Must(t, http.StatusAccepted, http.MethodPost, path, body, nil, key).Body)
		workers[dying].Start(t)
		callers[dying].AwaitReady(t)
		callers[dying].Must(t, http.StatusAccepted, http.MethodPost, path, body, nil, key)
		callers[dying].Refused(t, http.StatusUnprocessableEntity, device.CodeRequestReused, http.MethodPost, path,
			`{"clean_steps":[{"step":"verify"}]}`, key)
	}
	t.Logf("%d kills in %s, %d answered before", kills, time.Since(began).Round(time.Millisecond), answered)
	for name := range devices {
		s.AwaitState(t, name, 30*time.Second, device.Manageable)
		var history struct {
			Cleans []struct{ Number int }
			Acts   []contract.Act
		}
		// A query may first go to a worker that was killed.
		Await(t, 30*time.Second, "the history of "+name, func() (bool, string) {
			answer := callers[0].Ask(t, http.MethodGet, devicePath(name, "history"), "")
			if answer.Status == http.StatusServiceUnavailable {
				return false, answer.Body
			}
			require.Equal(t, http.StatusOK, answer.Status, answer.Body)
			require.NoError(t, json.Unmarshal([]byte(answer.Body), &history))
			return true, ""
		})
		require.Len(t, history.Cleans, 1, name)
		var cleans []contract.Act
		for _, act := range history.Acts {
			if act.Verb == contract.VerbClean.Update() {
				cleans = append(cleans, act)
			}
		}
		require.Len(t, cleans, 1, name)
		require.Contains(t, cleans[0].By, "olga")
		require.True(t, strings.HasPrefix(cleans[0].From, "127.0.0.1"), cleans[0].From)
		require.Equal(t, "once", cleans[0].Reason)
	}
}
