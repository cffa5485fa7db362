package api

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"burnish/internal/api/access"
	"burnish/internal/device"
	"burnish/workflows/contract"
)

// asked are devices of which only dry runs are asked: any other call fails.
type asked struct {
	Devices
	about []string
	err   error
}

func (a *asked) Ask(_ context.Context, name string, v contract.Verb, _ contract.Input) (contract.DryRun, error) {
	a.about = append(a.about, v.Name+" "+name)
	return contract.DryRun{State: device.Retired, Steps: []string{"zero"}, Instance: testInstance, Note: "n"}, a.err
}

// A dry run has the rule of its change: it shows what the change would. It is no change. What is asked of
// no device that is enrolled refuses the parameter, and changes nothing.
func TestADryRunIsNoChange(t *testing.T) {
	var dry []string
	for _, r := range routes(contract.Verbs) {
		if r.Method != http.MethodPost || r.ReadOnly {
			continue
		}
		devices := &asked{}
		h, lines := guarded(t, devices)
		q := requestOf(t, r, http.MethodPost, "X-Auth-Token: admin-token")
		if strings.HasSuffix(r.Path, "/move") {
			q.Body = io.NopCloser(strings.NewReader(`{"enrollment":{"name":"d2","host":"h2"}}`))
		}
		q.URL.RawQuery = "dry_run=true"
		w := httptest.NewRecorder()
		h.ServeHTTP(w, q)
		if _, has := r.parameter(dryRunParameter); !has {
			require.Equal(t, http.StatusBadRequest, w.Code, r.Path)
			require.Contains(t, w.Body.String(), "there is no parameter dry_run")
			require.Empty(t, devices.about)
			continue
		}
		dry = append(dry, strings.TrimPrefix(r.Path, "/v2/devices/{device}/"))
		require.Equal(t, "cyborg:device:"+strings.ReplaceAll(dry[len(dry)-1], "-", "_"), r.Rule)
		if r.Rule == ruleOf(contract.VerbOverride) { // it is signed first, as the change is
			require.Equal(t, http.StatusForbidden, w.Code)
			require.Contains(t, w.Body.String(), device.CodeOverrideOff)
			require.Empty(t, devices.about)
			continue
		}
		require.Equal(t, http.StatusOK, w.Code, "%s: %s", r.Path, w.Body)
		require.Len(t, devices.about, 1)
		require.Contains(t, w.Body.String(), `"steps":["zero"]`)
		require.NotContains(t, lines.String(), "API: change")
	}
	slices.Sort(dry)
	require.Equal(t, []string{"abort", "bind", "clean", "forget", "import-history", "label", "maintenance", "manage",
		"migrate-pool", "move", "override", "power", "provide", "rebuild", "release-hold", "replace", "retire",
		"unbind"}, dry)
}

// only is a policy that allows these rules.
type only []string

func (p only) Allows(rule string, _ access.Principal) bool { return slices.Contains(p, rule) }

// A caller that sees Cyborg's fields alone learns the next state and no more, and a refusal has
// the status of the change's own.
func TestADryRunShowsWhatItsCallerSees(t *testing.T) {
	devices := &asked{}
	ask := func(query string, rules ...string) *httptest.ResponseRecorder {
		h := serverWith(devices, func(o *Options) { o.Policy = only(rules) })
		q := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/v2/devices/d1/retire?"+query,
			strings.NewReader(`{"reason":"old"}`))
		q.Header.Set("Content-Type", "application/json")
		q.Header.Set("OpenStack-API-Version", "accelerator 2.1")
		q.Header.Set("X-Auth-Token", "admin")
		w := httptest.NewRecorder()
		h.ServeHTTP(w, q)
		return w
	}
	require.JSONEq(t, `{"state":"retired"}`, ask("dry_run=true", ruleOf(contract.VerbRetire)).Body.String())
	require.Contains(t, ask("dry_run=true", ruleOf(contract.VerbRetire), ruleDetail).Body.String(), testInstance)
	devices.err = contract.Refuse(contract.Refusal{Device: "d1", State: device.Allocated,
		Fault: device.Fault{Class: device.Permanent, Code: device.CodeInUse, Message: "instance i1 has it"}})
	w := ask("dry_run=true", ruleOf(contract.VerbRetire), ruleDetail)
	require.Equal(t, http.StatusConflict, w.Code)
	require.Contains(t, w.Body.String(), "instance i1 has it")
	require.NotContains(t, ask("dry_run=true", ruleOf(contract.VerbRetire)).Body.String(), "i1")
	require.Len(t, devices.about, 4)
	require.Equal(t, http.StatusBadRequest, ask("dry_run=yes", ruleOf(contract.VerbRetire)).Code)
	require.Equal(t, http.StatusBadRequest, ask("dry_run", ruleOf(contract.VerbRetire)).Code)
	require.Len(t, devices.about, 4)
}
