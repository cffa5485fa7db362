package api

import (
	"context"
	"net/http"
	"strings"
	"testing"

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
	for value, want := range map[string]string{"": "30s", "wait=2": "2s", "respond-async, wait=2": "2s", "Wait = 3": "3s", "wait=600": "30s", "wait=0": "30s", "wait=x": "30s"} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "/", nil)
		require.NoError(t, err)
		r.Header.Set("Prefer", value)
		c := &call{server: &server{Options: Options{Timeout: DefaultTimeout}}, r: r}
		require.Equal(t, want, c.patience().String(), value)
	}
}
