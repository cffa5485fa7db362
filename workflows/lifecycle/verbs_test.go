package lifecycle_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"burnish/internal/api"
	"burnish/internal/api/access"
	"burnish/internal/device"
	"burnish/workflows/client"
	"burnish/workflows/contract"
	"burnish/workflows/lifecycle"
)

// anything is a policy that allows everything.
type anything struct{}

func (anything) Allows(string, access.Principal) bool { return true }

// A verb that is added to the table, with its rows of the workflow, is there over the client and over
// HTTP, with its dry run, its refusal and its trace.
func TestAVerbThatIsAdded(t *testing.T) {
	inspect := contract.Verb{Name: "inspect-board", About: "look at the board", Input: contract.ReasonInput{}}
	lifecycle.AddVerb(t, inspect)
	w := newAvailable(t)
	devices := client.New(envServer{w: w})
	h := api.New(api.Options{Devices: client.Connected{Client: devices}, Authenticator: roles{}, Policy: anything{},
		Guards: noGuards{}, Log: slog.New(slog.DiscardHandler),
		Ready: func(context.Context) error { return nil }, Verbs: append(slices.Clone(contract.Verbs), inspect)})
	post := func(query string) *httptest.ResponseRecorder {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/v2/devices/d1/inspect-board"+query,
			strings.NewReader(`{"reason":"a new fan"}`))
		r.Header.Set("X-Auth-Token", "admin")
		r.Header.Set("Content-Type", "application/json")
		answer := httptest.NewRecorder()
		h.ServeHTTP(answer, r)
		return answer
	}

	would, err := devices.Ask(t.Context(), "d1", inspect, contract.ReasonInput{Reason: "r"})
	require.NoError(t, err)
	require.Equal(t, contract.DryRun{State: device.Available, Note: "r"}, would)
	require.Contains(t, post("?dry_run=true").Body.String(), `"note":"a new fan"`)
	require.NotContains(t, fmt.Sprint(w.view().Acts), "inspect", "nothing was done yet")

	done, err := devices.Do(t.Context(), "d1", inspect, contract.ReasonInput{Reason: "r"})
	require.NoError(t, err)
	require.Equal(t, "r", done.Note)
	answer := post("")
	require.Equal(t, http.StatusOK, answer.Code, answer.Body)
	require.Contains(t, answer.Body.String(), `"note":"a new fan"`)
	acts := w.view().Acts
	last := acts[len(acts)-1]
	require.Equal(t, []string{"inspect_board", "a new fan"}, []string{last.Verb, last.Reason})

	_, err = devices.Do(t.Context(), "d1", inspect, contract.TenantInput{})
	require.ErrorContains(t, err, "inspect-board takes a contract.ReasonInput")

	w.makeBound("i1")
	requireAPIFault(t, post(""), http.StatusConflict, device.CodeInUse, device.Allocated)
	requireAPIFault(t, post("?dry_run=true"), http.StatusConflict, device.CodeInUse, device.Allocated)
}

// Every verb of the table is one that the workflow knows, and has a dry run there.
func TestEveryVerbIsAnswered(t *testing.T) {
	for _, v := range contract.Verbs {
		w := newAvailable(t)
		devices := client.New(envServer{w: w})
		if _, err := devices.Ask(t.Context(), "d1", v, v.Input); err != nil {
			refusal, is := contract.RefusalOf(err)
			require.True(t, is, v.Name)
			require.NotContains(t, refusal.Fault.Message, "there is no dry run", v.Name)
		}
		c := w.send(v.Update(), "", v.Input)
		w.until(v.Name+" accepted", func() bool { return c.accepted || c.done })
		if c.err != nil {
			require.NotContains(t, c.err.Error(), "unknown update")
		}
	}
}
