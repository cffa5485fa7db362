package api

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/api/serviceerror"

	"burnish/internal/api/access"
	"burnish/internal/device"
	"burnish/internal/testkit/apitest"
	"burnish/workflows/client"
	"burnish/workflows/contract"
)

// fakeDevices are devices without workflows, with the answers that a test gives them.
type fakeDevices struct {
	Devices
	statuses map[string]contract.DeviceStatus
	err      error
	sent     []any
	limits   contract.LimitsStatus
}

func (f *fakeDevices) Describe(_ context.Context, name string) (client.Execution, error) {
	v, ok := f.statuses[name]
	if !ok {
		return client.Execution{}, serviceerror.NewNotFound("none")
	}
	return client.Execution{Name: name, Running: true, Status: v}, f.err
}

func (f *fakeDevices) Query(_ context.Context, name string) (contract.DeviceStatus, error) {
	return f.statuses[name], f.err
}

func (f *fakeDevices) ByUUID(_ context.Context, uuid string) (client.Execution, bool, error) {
	for name, v := range f.statuses {
		if v.UUID == uuid {
			return client.Execution{Name: name, Running: true, Status: v}, true, f.err
		}
	}
	return client.Execution{}, false, f.err
}

func (f *fakeDevices) Do(_ context.Context, name string, _ contract.Verb, in contract.Input) (contract.Result, error) {
	f.sent = append(f.sent, in)
	return contract.Result{Device: f.statuses[name]}, f.err
}

func (f *fakeDevices) Resume(context.Context, contract.ResumeInput) (contract.ResumeResult, error) {
	return contract.ResumeResult{}, f.err
}

// byHeader authenticates by a header that names the roles.
type byHeader struct{}

func (byHeader) Authenticate(r *http.Request) (access.Principal, error) {
	roles := r.Header.Get("X-Auth-Token")
	if roles == "" {
		return access.Principal{}, &device.Fault{Class: device.NeedsOperator, Code: device.CodeNotAuthenticated,
			Message: "no token"}
	}
	return access.Principal{ID: "token:" + roles, Name: roles, Roles: strings.Split(roles, ",")}, nil
}

// adminOrReader is the policy's default.
type adminOrReader struct{}

func (adminOrReader) Allows(rule string, who access.Principal) bool {
	if slices.Contains(who.Roles, "admin") {
		return true
	}
	return slices.Contains(who.Roles, "reader") && (rule == ruleGet || rule == ruleList)
}

type open struct{ err error }

func (o open) Check(*http.Request) error { return nil }

func (o open) Enter(access.Principal, bool) (func(), error) { return func() {}, o.err }

const (
	testName     = "h1_0000:01:00.0"
	testInstance = "3b1f0e62-7a8e-4b7f-9a55-0d6c1f2e4a90"
)

func testStatus() contract.DeviceStatus {
	return contract.DeviceStatus{UUID: contract.DeviceUUID(testName), Name: testName, Type: "NVME", Serial: "S1",
		Hostname: "h1",
		Status:   device.Enabled, DeviceState: device.Error}
}

func testServer(t *testing.T, devices Devices) http.Handler {
	t.Helper()
	return serverWith(devices, func(*Options) {})
}

// serverWith is testServer with other options.
func serverWith(devices Devices, change func(o *Options)) http.Handler {
	o := Options{Devices: devices, Authenticator: byHeader{}, Policy: adminOrReader{}, Guards: open{},
		Log: slog.New(slog.DiscardHandler), Ready: func(context.Context) error { return nil }}
	change(&o)
	return New(o)
}

// send gives the answer to one request. Headers are "Name: value".
func send(t *testing.T, h http.Handler, method, path, body string, headers ...string) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), method, path, strings.NewReader(body))
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	for _, each := range headers {
		name, value, _ := strings.Cut(each, ": ")
		if name == "Content-Type" {
			r.Header.Del(name)
		}
		if value != "" {
			r.Header.Add(name, value)
		}
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	apitest.Check(t, method, path, w.Code, w.Header(), w.Body.Bytes())
	return w
}

const (
	admin  = "X-Auth-Token: admin"
	reader = "X-Auth-Token: reader"
	at21   = "OpenStack-API-Version: accelerator 2.1"
)

func requireProblem(t *testing.T, w *httptest.ResponseRecorder, status int, code device.Code) client.Problem {
	t.Helper()
	require.Equal(t, status, w.Code, w.Body.String())
	var body client.ErrorBody
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &body))
	require.Equal(t, code, body.Error.Code, w.Body.String())
	return body.Error
}

// S2.72: the state is shown from 2.1 on.
func TestDeviceState(t *testing.T) {
	h := testServer(t, &fakeDevices{statuses: map[string]contract.DeviceStatus{testName: testStatus()}})
	for _, id := range []string{testName, contract.DeviceUUID(testName), strings.ToUpper(contract.DeviceUUID(testName)),
		strings.ReplaceAll(testName, ":", "%3A")} {
		w := send(t, h, "GET", "/v2/devices/"+id, "", admin)
		require.Equal(t, http.StatusOK, w.Code, w.Body.String())
		require.Equal(t, "accelerator 2.0", w.Header().Get(versionHeader))
		require.NotContains(t, w.Body.String(), "device_state")
		w = send(t, h, "GET", "/v2/devices/"+id, "", admin, at21)
		require.Equal(t, "accelerator 2.1", w.Header().Get(versionHeader))
		require.Contains(t, w.Body.String(), `"device_state":"error"`)
	}
}

// Without limits nothing can be resumed, and no device is what is missing.
func TestResumeWithoutLimits(t *testing.T) {
	devices := &fakeDevices{err: serviceerror.NewNotFound("none")}
	w := send(t, testServer(t, devices), "POST", "/v2/limits/resume", `{"model":"m","step":"zero"}`, admin)
	requireProblem(t, w, 404, device.CodeNotFound)
	require.Contains(t, w.Body.String(), "the policy has no limits")
}

// What refuses a clean, and with which status.
//
// S2.74, S2.75, S2.76, S2.77, S2.78
func TestCleanRefused(t *testing.T) {
	refuse := func(code device.Code, s device.State) error {
		return contract.Refuse(contract.Refusal{Fault: device.Fault{Code: code, Message: "m", Remedy: "r"},
			Device: testName, State: s})
	}
	for name, tt := range map[string]struct {
		err    error
		as     string
		status int
		code   device.Code
	}{
		"no token":         {nil, "X-None: 1", 401, device.CodeNotAuthenticated},
		"a reader":         {nil, reader, 403, device.CodeForbidden},
		"available":        {refuse(device.CodeRefused, device.Available), admin, 409, device.CodeRefused},
		"no erase path":    {refuse(device.CodeNoErasePath, device.Error), admin, 400, device.CodeNoErasePath},
		"old worker":       {refuse(device.CodeHostWorkerTooOld, device.Error), admin, 400, device.CodeHostWorkerTooOld},
		"unknown":          {serviceerror.NewNotFound("none"), admin, 404, device.CodeNotFound},
		"not confirmed":    {client.UnconfirmedError{Err: errors.New("eof")}, admin, 504, device.CodeTimeout},
		"accepted":         {client.AcceptedError{Err: context.DeadlineExceeded}, admin, 504, device.CodeTimeout},
		"Temporal is away": {serviceerror.NewUnavailable("down"), admin, 503, device.CodeUnreachable},
		"unexpected":       {errors.New("a secret"), admin, 500, device.CodeInternal},
	} {
		t.Run(name, func(t *testing.T) {
			devices := &fakeDevices{statuses: map[string]contract.DeviceStatus{testName: testStatus()}, err: tt.err}
			w := send(t, testServer(t, devices), "POST", "/v2/devices/"+testName+"/clean", "", tt.as, at21)
			requireProblem(t, w, tt.status, tt.code)
			require.NotContains(t, w.Body.String(), "secret")
			if tt.status == 401 || tt.status == 403 {
				require.Empty(t, devices.sent)
			}
		})
	}
}
