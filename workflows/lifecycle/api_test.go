package lifecycle_test

import (
	"cmp"
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	sdkclient "go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"

	"burnish/internal/api"
	"burnish/internal/api/access"
	"burnish/internal/device"
	"burnish/internal/testkit/apitest"
	"burnish/workflows/client"
	"burnish/workflows/contract"
)

// envServer is a Temporal server that has the workflow of a deviceEnv.
type envServer struct {
	sdkclient.Client
	w *deviceEnv
}

func (s envServer) has(workflow string) error {
	if workflow != contract.WorkflowID("d1") {
		return serviceerror.NewNotFound("no such workflow")
	}
	return nil
}

func (s envServer) UpdateWorkflow(_ context.Context,
	o sdkclient.UpdateWorkflowOptions) (sdkclient.WorkflowUpdateHandle, error) {
	if err := s.has(o.WorkflowID); err != nil {
		return nil, err
	}
	c := s.w.send(o.UpdateName, o.UpdateID, o.Args[0])
	s.w.until(o.UpdateName+" arrived", func() bool { return c.accepted || c.done })
	if !c.accepted {
		return nil, c.err
	}
	return envUpdate{c: c}, nil
}

func (s envServer) QueryWorkflow(_ context.Context, workflow, _, query string,
	args ...any) (converter.EncodedValue, error) {
	if err := s.has(workflow); err != nil {
		return nil, err
	}
	return s.w.env.QueryWorkflow(query, args...)
}

func (s envServer) QueryWorkflowWithOptions(ctx context.Context,
	r *sdkclient.QueryWorkflowWithOptionsRequest) (*sdkclient.QueryWorkflowWithOptionsResponse, error) {
	value, err := s.QueryWorkflow(ctx, r.WorkflowID, "", r.QueryType, r.Args...)
	return &sdkclient.QueryWorkflowWithOptionsResponse{QueryResult: value}, err
}

func (s envServer) DescribeWorkflowExecution(_ context.Context, workflow,
	_ string) (*workflowservice.DescribeWorkflowExecutionResponse, error) {
	if err := s.has(workflow); err != nil {
		return nil, err
	}
	return &workflowservice.DescribeWorkflowExecutionResponse{WorkflowExecutionInfo: &workflowpb.WorkflowExecutionInfo{
		Execution: &commonpb.WorkflowExecution{WorkflowId: workflow}, Status: enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING}}, nil
}

// envUpdate is the handle of an accepted update.
type envUpdate struct {
	sdkclient.WorkflowUpdateHandle
	c *call
}

func (u envUpdate) Get(_ context.Context, to any) error {
	if u.c.wait(); u.c.err != nil {
		return u.c.err
	}
	text, err := json.Marshal(u.c.out)
	if err != nil {
		return err
	}
	return json.Unmarshal(text, to)
}

// roles authenticates by the token, which is a role, or ROLE/NAME.
type roles struct{}

func (roles) Authenticate(r *http.Request) (access.Principal, error) {
	token := r.Header.Get("X-Auth-Token")
	role, name, _ := strings.Cut(token, "/")
	name = cmp.Or(name, role)
	return access.Principal{ID: "token:" + name, Name: name, Roles: []string{role}}, nil
}

type noGuards struct{}

func (noGuards) Check(*http.Request) error { return nil }

func (noGuards) Enter(access.Principal, bool) (func(), error) { return func() {}, nil }

// overAPI serves the API over the device's workflow. The function that it gives sends one
// request in version 2.1.
func overAPI(t *testing.T, w *deviceEnv) func(role, method, path, body string,
	headers ...string) *httptest.ResponseRecorder {
	t.Helper()
	policy, err := access.ReadPolicy("", api.AdminRules())
	require.NoError(t, err)
	h := api.New(api.Options{Devices: client.Connected{Client: client.New(envServer{w: w})},
		Authenticator: roles{}, Policy: policy, Guards: noGuards{},
		Log: slog.New(slog.DiscardHandler), Ready: func(context.Context) error { return nil }})
	return func(role, method, path, body string, headers ...string) *httptest.ResponseRecorder {
		t.Helper()
		r := httptest.NewRequestWithContext(t.Context(), method, path, strings.NewReader(body))
		r.Header.Set("X-Auth-Token", role)
		r.Header.Set("OpenStack-API-Version", "accelerator 2.1")
		r.Header.Set("Content-Type", "application/json")
		for _, each := range headers {
			name, value, _ := strings.Cut(each, ": ")
			r.Header.Set(name, value)
		}
		answer := httptest.NewRecorder()
		h.ServeHTTP(answer, r)
		apitest.Check(t, method, path, answer.Code, answer.Header(), answer.Body.Bytes())
		return answer
	}
}

// accepted counts the updates that the workflow's history has.
func (w *deviceEnv) accepted() (n int) {
	for _, c := range w.open {
		if c.accepted {
			n++
		}
	}
	return n
}

func requireAPIFault(t *testing.T, answer *httptest.ResponseRecorder, status int, code device.Code,
	state device.State) {
	t.Helper()
	require.Equal(t, status, answer.Code, answer.Body.String())
	var body client.ErrorBody
	require.NoError(t, json.Unmarshal(answer.Body.Bytes(), &body))
	require.Equal(t, code, body.Error.Code, answer.Body.String())
	require.Equal(t, state, body.Error.State, answer.Body.String())
	require.NotEmpty(t, body.Error.Message)
	require.NotEmpty(t, body.Error.Remedy)
}

// Which state allows a clean over the API, and that a refusal leaves no event.
//
// S2.73, S2.74, S2.75, S2.76, S2.77, S2.78, S2.79, S2.80, S3.20
func TestCleanOverTheAPI(t *testing.T) {
	for name, tt := range map[string]struct {
		lead   func(*deviceEnv)
		role   string
		path   string
		body   string
		header string
		status int
		code   device.Code
		state  device.State
	}{
		"error":      {lead: (*deviceEnv).makeFailed, status: 202},
		"manageable": {lead: func(w *deviceEnv) { ok[contract.Result](w.enroll(false)) }, body: `{"clean_steps":[{"interface":"deploy","step":"verify"}],"reason":"r"}`, status: 202},
		"manageable without steps": {lead: func(w *deviceEnv) { ok[contract.Result](w.enroll(false)) },
			status: 409, code: device.CodeRefused, state: device.Manageable},
		"a step's other interface": {lead: func(w *deviceEnv) { ok[contract.Result](w.enroll(false)) }, body: `{"clean_steps":[{"interface":"bios","step":"verify"}]}`,
			status: 400, code: device.CodeInvalid},
		"an unknown step": {lead: func(w *deviceEnv) { ok[contract.Result](w.enroll(false)) }, body: `{"clean_steps":[{"step":"polish"}]}`,
			status: 400, code: device.CodeNoSuchStep, state: device.Manageable},
		"available": {lead: func(w *deviceEnv) { w.makeAvailable() }, status: 409, code: device.CodeRefused, state: device.Available},
		"allocated": {lead: func(w *deviceEnv) { w.makeBound("i1") }, status: 409, code: device.CodeRefused, state: device.Allocated},
		"pending": {lead: func(w *deviceEnv) { w.makeBound("i1"); ok[contract.Result](w.unbind("i1")) },
			status: 409, code: device.CodeRefused, state: device.PendingCleaning},
		"cleaning": {lead: func(w *deviceEnv) { w.makeBound("i1"); ok[contract.Result](w.unbind("i1")); w.stepRuns("zero") },
			status: 409, code: device.CodeRefused, state: device.Cleaning},
		"requested already": {lead: func(w *deviceEnv) { w.makeFailed(); ok[contract.Result](w.cleanUp()) },
			status: 409, code: device.CodeRefused, state: device.PendingCleaning},
		"no erase path": {lead: (*deviceEnv).makeUncleanable, status: 400, code: device.CodeNoErasePath, state: device.Error},
		"an old worker": {lead: func(w *deviceEnv) {
			delete(w.host.steps, "verify")
			ok[contract.Result](w.enroll(true))
			w.reach(device.Error)
		}, status: 400, code: device.CodeHostWorkerTooOld, state: device.Error},
		"a viewer":    {lead: (*deviceEnv).makeFailed, role: "reader", status: 403, code: device.CodeForbidden},
		"no device":   {lead: (*deviceEnv).makeFailed, path: "/v2/devices/d2/clean", status: 404, code: device.CodeNotFound},
		"version 2.0": {lead: (*deviceEnv).makeFailed, header: "OpenStack-API-Version: accelerator 2.0", status: 404, code: device.CodeNoSuchPath},
		"version 2.2": {lead: (*deviceEnv).makeFailed, header: "OpenStack-API-Version: accelerator 2.2", status: 406, code: device.CodeVersionUnsupported},
		"wrong case":  {lead: (*deviceEnv).makeFailed, body: `{"Reason":"r"}`, status: 400, code: device.CodeInvalid},
		"not JSON":    {lead: (*deviceEnv).makeFailed, body: "reason", header: "Content-Type: text/plain", status: 415, code: device.CodeMediaType},
		"large":       {lead: (*deviceEnv).makeFailed, body: `{"reason":"` + strings.Repeat("x", 64<<10) + `"}`, status: 413, code: device.CodeRequestTooLarge},
	} {
		t.Run(name, func(t *testing.T) {
			w := newDeviceEnv(t, standardPolicy())
			tt.lead(w)
			before, role, path, headers := w.accepted(), "admin", "/v2/devices/d1/clean", []string(nil)
			if tt.role != "" {
				role = tt.role
			}
			if tt.path != "" {
				path = tt.path
			}
			if tt.header != "" {
				headers = []string{tt.header}
			}
			answer := overAPI(t, w)(role, "POST", path, tt.body, headers...)
			if tt.status == http.StatusAccepted {
				require.Equal(t, tt.status, answer.Code, answer.Body.String())
				require.Equal(t, before+1, w.accepted(), "202 says that the workflow has accepted it")
				return
			}
			requireAPIFault(t, answer, tt.status, tt.code, tt.state)
			require.Equal(t, before, w.accepted(), "a refused request left an event")
		})
	}
}

// A device of no shared pool refuses what only those of one can do, and says why.
func TestADeviceOfNoPoolOverTheAPI(t *testing.T) {
	w := newAvailable(t)
	answer := overAPI(t, w)("admin", "POST", "/v2/devices/d1/migrate-pool", `{"reason":"r"}`)
	requireAPIFault(t, answer, http.StatusConflict, device.CodeRefused, device.Available)
	require.Contains(t, answer.Body.String(), "it is in no pool")
}

// A clean that is repeated under its key is carried out once, also in a later run, and its
// answer is 202 again; under the same key another body is refused.
func TestARepeatedRequestIsCarriedOutOnce(t *testing.T) {
	w := newDeviceEnv(t, standardPolicy())
	w.makeFailed()
	send := overAPI(t, w)
	const key = "Idempotency-Key: k1"
	first := send("admin", "POST", "/v2/devices/d1/clean", `{"reason":"a"}`, key)
	require.Equal(t, http.StatusAccepted, first.Code, first.Body.String())
	cleans := len(w.view().Cleans)
	requireAPIFault(t, send("admin/ben", "POST", "/v2/devices/d1/clean", `{"reason":"a"}`, key), http.StatusConflict,
		device.CodeRefused, w.view().DeviceState)
	again := send("admin", "POST", "/v2/devices/d1/clean", `{ "reason" : "a" }`, key)
	require.Equal(t, http.StatusAccepted, again.Code, again.Body.String())
	requireAPIFault(t, send("admin", "POST", "/v2/devices/d1/clean", `{"reason":"b"}`, key),
		http.StatusUnprocessableEntity, device.CodeRequestReused, w.view().DeviceState)
	w.reach(device.Available)
	require.Equal(t, http.StatusAccepted, send("admin", "POST", "/v2/devices/d1/clean", `{"reason":"a"}`, key).Code)
	w.pass(1)
	require.Equal(t, device.Available, w.view().DeviceState, "nothing is cleaned again")
	require.Len(t, w.view().Cleans, cleans+1)
	requireAPIFault(t, send("admin", "POST", "/v2/devices/d1/clean", ""), http.StatusConflict, device.CodeRefused,
		device.Available)
}

// Power is refused while the device is cleaned, and allowed in state error. The history says
// who asked for it.
//
// S3.28
func TestPowerOverTheAPI(t *testing.T) {
	w := newPowered(t)
	w.makeBound("i1")
	ok[contract.Result](w.unbind("i1"))
	w.stepRuns("zero")
	send := overAPI(t, w)
	requireAPIFault(t, send("admin", "POST", "/v2/devices/d1/power", `{"target":"off"}`), http.StatusConflict,
		device.CodeRefused, device.Cleaning)
	requireAPIFault(t, send("admin", "POST", "/v2/devices/d1/manage", ""), http.StatusConflict, device.CodeRefused,
		device.Cleaning)
	require.Empty(t, w.host.powerCalls)

	w = newPowered(t)
	w.makeFailed()
	send = overAPI(t, w)
	answer := send("admin", "POST", "/v2/devices/d1/power", `{"target":"off","reason":"maintenance of the rack"}`)
	require.Equal(t, http.StatusOK, answer.Code, answer.Body.String())
	require.Equal(t, []string{"off"}, w.host.powerCalls)
	requireAPIFault(t, send("admin", "POST", "/v2/devices/d1/power", `{"target":"warm"}`), http.StatusBadRequest,
		device.CodeInvalid, device.Error)
	var history struct{ Acts []contract.Act }
	require.NoError(t, json.Unmarshal(send("admin", "GET", "/v2/devices/d1/history", "").Body.Bytes(), &history))
	last := history.Acts[len(history.Acts)-1]
	require.Equal(t, "power admin (token:admin) 192.0.2.1 maintenance of the rack",
		strings.Join([]string{last.Verb, last.By, last.From, last.Reason}, " "))
}

// GET …/cleaning/steps is a bare list of exactly these members, in order. A priority is the
// operator's, there and in the running step.
//
// S3.9, S3.10, S3.31
func TestCleaningStepsOverTheAPI(t *testing.T) {
	p := standardPolicy()
	p.Priorities = map[string]float64{"zero": 70.5}
	w := newDeviceEnv(t, p)
	w.makeBound("i1")
	answer := overAPI(t, w)("reader", "GET", "/v2/devices/d1/cleaning/steps", "")
	require.Equal(t, http.StatusOK, answer.Code)
	require.JSONEq(t,
		`[{"step":"zero","priority":70.5,"interface":"deploy"},{"step":"verify","priority":60,"interface":"deploy"}]`,
		answer.Body.String())
	ok[contract.Result](w.unbind("i1"))
	w.stepRuns("zero")
	require.Equal(t, contract.CleanStep{Step: "zero", Priority: 70.5, Interface: "deploy"}, *w.view().CleanStep)
}
