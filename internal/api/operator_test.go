package api

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"burnish/internal/device"
	"burnish/workflows/contract"
)

func (f *fakeDevices) Discovery(context.Context, string) (contract.DiscoveryResult, error) {
	return contract.DiscoveryResult{Power: true, Record: &contract.HostDeviceRecord{
		Enrollment: contract.Enrollment{Settings: map[string]string{"secret": "rack1"}}}}, nil
}

// What operators read is not for readers: no such request gets further than the policy.
func TestOperatorsReadsNeedDetails(t *testing.T) {
	h := testServer(t, &fakeDevices{}) // whose other methods panic
	for _, r := range operatorRoutes() {
		path := strings.NewReplacer("{device}", testName, "{cloud}", "c", "{appliance}", "a", "{queue}", "q").Replace(r.Path)
		w := send(t, h, r.Method, path, "", reader, at21)
		requireProblem(t, w, http.StatusForbidden, device.CodeForbidden)
	}
}

// A device's settings, which the host's record has, are in no answer.
func TestADiscoveryHasNoRecord(t *testing.T) {
	h := testServer(t, &fakeDevices{statuses: map[string]contract.DeviceStatus{testName: testStatus()}})
	w := send(t, h, "GET", "/v2/devices/"+testName+"/discovery", "", admin, at21)
	require.Equal(t, http.StatusOK, w.Code, w.Body.String())
	require.Contains(t, w.Body.String(), `"power":true`)
	require.NotContains(t, w.Body.String(), "rack1")
}

// A caller that does not wait as long as the API is answered when it stops waiting.
func TestPatience(t *testing.T) {
	for value, want := range map[string]string{"": "30s", "wait=2": "2s", "respond-async, wait=2": "2s", "Wait = 3": "3s",
		"wait=600": "30s", "wait=0": "30s", "wait=x": "30s"} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "/", nil)
		require.NoError(t, err)
		r.Header.Set("Prefer", value)
		c := &call{server: &server{Options: Options{Timeout: DefaultTimeout}}, r: r}
		require.Equal(t, want, c.patience().String(), value)
	}
}

// Temporal makes a queue of every name that it is asked about: it is asked about none of others.
func TestQueuesOfOthersAreNotAskedAbout(t *testing.T) {
	h := testServer(t, polled{})
	for path, want := range map[string]int{
		"/v2/queues/burnish": http.StatusOK, "/v2/queues/burnish-host.h1": http.StatusOK,
		"/v2/queues/payroll":       http.StatusNotFound,
		"/v2/queues/burnish-host.": http.StatusNotFound, "/v2/queues/burnish-host.a%00b": http.StatusNotFound,
		"/v2/queues/burnish-host." + strings.Repeat("x", 2000): http.StatusNotFound,
	} {
		require.Equal(t, want, send(t, h, "GET", path, "", admin, at21).Code, path)
	}
}

// polled are devices whose hosts poll.
type polled struct{ Devices }

func (polled) LastPoll(context.Context, string) (time.Time, error) { return time.Now(), nil }

// Slashes more than a path needs, and letters that are percent-encoded, change neither its route nor its version.
func TestTheSpellingOfAPathKeepsTheVersion(t *testing.T) {
	h := testServer(t, oneDevice())
	for _, path := range []string{"//v2/devices/" + testName, "/v2/devices/" + testName + "/",
		"/%762/devices/" + testName} {
		for version, want := range map[string]int{"accelerator 2.1": http.StatusOK,
			"accelerator 2.9": http.StatusNotAcceptable} {
			r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
			var err error
			r.URL, err = url.ParseRequestURI(path)
			require.NoError(t, err)
			r.Header.Set("X-Auth-Token", "admin")
			r.Header.Set(versionHeader, version)
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			require.Equal(t, want, w.Code, "%s %s", path, version)
			require.NotEmpty(t, w.Header().Get("Vary"))
		}
	}
}
