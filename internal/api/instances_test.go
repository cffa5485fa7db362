package api

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
	sdkclient "go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"

	"burnish/internal/device"
	"burnish/workflows/client"
	"burnish/workflows/contract"
)

// fakeInstances is one instance without a workflow; what is sent to it is kept.
type fakeInstances struct {
	fakeDevices
	instance contract.InstanceStatus
	acts     map[string]any
}

func (f *fakeInstances) Instance(_ context.Context, id string) (contract.InstanceStatus, error) {
	if id != f.instance.UUID {
		return contract.InstanceStatus{}, serviceerror.NewNotFound("none")
	}
	return f.instance, f.err
}

func (f *fakeInstances) DoInstance(_ context.Context, id string, v contract.Verb,
	in contract.Input) (contract.InstanceResult, error) {
	if id != f.instance.UUID {
		return contract.InstanceResult{}, serviceerror.NewNotFound("none")
	}
	f.acts[v.Name] = in
	return contract.InstanceResult{Instance: f.instance}, f.err
}

func newInstances() *fakeInstances {
	bound := testStatus()
	id := testInstance
	bound.InstanceUUID, bound.Binding = &id, 2
	return &fakeInstances{
		fakeDevices: fakeDevices{statuses: map[string]contract.DeviceStatus{testName: bound}},
		acts:        map[string]any{},
		instance: contract.InstanceStatus{UUID: testInstance, Phase: contract.InstanceActive, Project: "p1",
			Devices: []contract.HeldDevice{{Name: testName, Type: "NVME", Serial: "S1", Tag: "database", Binding: 2}}},
	}
}

const instancePath = "/v2/instances/" + testInstance

// Each verb is sent with its body and its caller, to the instance of the path.
func TestActsOfInstances(t *testing.T) {
	who := contract.Caller{By: "admin (token:admin)", From: "192.0.2.1"}
	move := contract.InstanceMoveInput{To: "h2", Devices: []contract.DeviceChoice{{Name: "h2_d1", Tag: "t"}},
		Reason: "why", Caller: who}
	moveText := `{"to":"H2","devices":[{"name":"h2_d1","tag":"t"}],"reason":"why"}`
	plain := contract.ReasonInput{Reason: "why", Caller: who}
	bind := contract.InstanceBindInput{Request: "r1", Host: "h1", Project: "p1", Addresses: []string{"192.0.2.7"},
		Reason: "why", Caller: who,
		Devices:  []contract.DeviceChoice{{Name: testName, Tag: "a b=\"c\"\n", Guest: []contract.GuestAddress{{Bus: "pci", Address: "0000:00:05.0"}}}},
		Requests: []contract.DeviceRequest{{Type: "NVME", Count: 2, Traits: []string{"HW_NVME_CES"}}}}
	bindText :=
		`{"request":"r1","host":"H1","project":"p1","addresses":["::ffff:192.0.2.7"],"reason":"why","devices":[{"name":"h1_0000:01:00.0","tag":"a b=\"c\"\n",` +
			`"guest":[{"bus":"pci","address":"0000:00:05.0"}]}],"requests":[{"type":"nvme","count":2,"traits":["HW_NVME_CES"]}]}`
	for verb, tt := range map[string]struct {
		body string
		want any
	}{
		"bind": {bindText, bind}, "attach": {bindText, bind},
		"detach":  {`{"devices":["h1_0000:01:00.0"],"reason":"why"}`, contract.InstanceDetachInput{Devices: []string{testName}, Reason: "why", Caller: who}},
		"release": {`{"reason":"why"}`, plain}, "rebuild": {`{"reason":"why"}`, plain}, "confirm": {`{"reason":"why"}`, plain}, "revert": {`{"reason":"why"}`, plain},
		"migrate": {moveText, move}, "live-migrate": {moveText, move}, "evacuate": {moveText, move},
	} {
		t.Run(verb, func(t *testing.T) {
			f := newInstances()
			h := testServer(t, f)
			w := send(t, h, "POST", instancePath+"/"+verb, tt.body, admin)
			require.Equal(t, http.StatusOK, w.Code, w.Body)
			require.Equal(t, map[string]any{verb: tt.want}, f.acts)
			var got contract.InstanceResult
			require.NoError(t, json.Unmarshal(w.Body.Bytes(), &got))
			require.Equal(t, contract.InstanceResult{Instance: f.instance}, got)

			// The caller is never the body's, nor is what the workflow alone sets.
			for _, member := range []string{`"by":"x"`, `"from":"x"`, `"caller":{}`, `"Reason":"x"`} {
				w = send(t, h, "POST", instancePath+"/"+verb, "{"+member+","+tt.body[1:], admin)
				requireProblem(t, w, 400, device.CodeInvalid)
			}
			// Only a policy that allows the verb's own rule lets a caller do it.
			requireProblem(t, send(t, h, "POST", instancePath+"/"+verb, tt.body, reader), 403, device.CodeForbidden)
			for _, id := range []string{"3b1f0e62-7a8e-4b7f-9a55-0d6c1f2e4a99", "nothing",
				"{3b1f0e62-7a8e-4b7f-9a55-0d6c1f2e4a9}", "..%2Fx"} {
				p := requireProblem(t, send(t, h, "POST", "/v2/instances/"+id+"/"+verb, tt.body, admin), 404, device.CodeNotFound)
				require.Contains(t, p.Message, "instance")
			}
		})
	}
}

func TestInstancesAreShown(t *testing.T) {
	f := newInstances()
	h := testServer(t, f)
	w := send(t, h, "GET", "/v2/instances/"+strings.ToUpper(testInstance), "", admin)
	require.Equal(t, http.StatusOK, w.Code, w.Body)
	var shown contract.InstanceStatus
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &shown))
	require.Equal(t, f.instance, shown)

	w = send(t, h, "GET", instancePath+"/meta_data.json", "", admin)
	require.Equal(t, http.StatusOK, w.Code, w.Body)
	require.JSONEq(t, `{"uuid":"`+testInstance+
		`","devices":[{"type":"disk","bus":"none","serial":"S1","tags":["database"]}]}`, w.Body.String())
	require.Equal(t, "no-store", w.Header().Get("Cache-Control"))

	for _, path := range []string{instancePath, instancePath + "/meta_data.json"} {
		requireProblem(t, send(t, h, "GET", path, "", reader), 403, device.CodeForbidden)
		requireProblem(t, send(t, h, "GET", path, "", "X-None: 1"), 401, device.CodeNotAuthenticated)
		requireProblem(t, send(t, h, "GET", strings.Replace(path, "3b1f", "3b1e", 1), "", admin), 404, device.CodeNotFound)
		requireProblem(t, send(t, h, "GET", strings.Replace(path, "3b1f", "zzzz", 1), "", admin), 404, device.CodeNotFound)
	}

	// A device that another instance has by now is not shown; one that cannot be asked is an error.
	taken, of := f.statuses[testName], strings.Replace(testInstance, "3b1f", "3b1e", 1)
	taken.InstanceUUID = &of
	f.statuses[testName] = taken
	w = send(t, h, "GET", instancePath+"/meta_data.json", "", admin)
	require.JSONEq(t, `{"uuid":"`+testInstance+`","devices":[]}`, w.Body.String())
	f.err = serviceerror.NewUnavailable("down")
	requireProblem(t, send(t, h, "GET", instancePath+"/meta_data.json", "", admin), 503, device.CodeUnreachable)
	f.err = nil

	for _, phase := range []contract.InstancePhase{contract.InstanceReleasing, contract.InstanceReleased} {
		f.instance.Phase = phase
		requireProblem(t, send(t, h, "GET", instancePath+"/meta_data.json", "", admin), 404, device.CodeNotFound)
		require.Equal(t, http.StatusOK, send(t, h, "GET", instancePath, "", admin).Code, "show says what becomes of it")
	}
}

// A repetition of a change of an instance has the ID of the first; the same key for another
// instance, or another body, is another request.
func TestRepeatedChangesOfInstancesAreOne(t *testing.T) {
	const key = "Idempotency-Key: k1"
	temporal := &updates{}
	h := testServer(t, client.Connected{Client: client.New(temporal)})
	for _, tt := range [][2]string{{instancePath, "a"}, {instancePath, "a"},
		{"/v2/instances/" + strings.ToUpper(testInstance), "a"}, {instancePath, "b"},
		{strings.Replace(instancePath, "3b1f", "3b1e", 1), "a"}} {
		requireProblem(t, send(t, h, "POST", tt[0]+"/rebuild", `{"reason":"`+tt[1]+`"}`, admin, key), 404,
			device.CodeNotFound)
	}
	ids := temporal.ids
	require.Equal(t, ids[0], ids[1])
	require.Equal(t, ids[0], ids[2])
	require.NotEqual(t, ids[0], ids[3])
	require.NotEqual(t, ids[0], ids[4])
}

// updates keeps the IDs of updates, to workflows that do not exist.
type updates struct {
	sdkclient.Client
	ids []string
}

func (u *updates) UpdateWorkflow(_ context.Context,
	o sdkclient.UpdateWorkflowOptions) (sdkclient.WorkflowUpdateHandle, error) {
	u.ids = append(u.ids, o.UpdateID)
	return nil, serviceerror.NewNotFound("none")
}

func (u *updates) QueryWorkflow(context.Context, string, string, string, ...any) (converter.EncodedValue, error) {
	return nil, serviceerror.NewNotFound("none")
}

func (u *updates) ListWorkflow(context.Context,
	*workflowservice.ListWorkflowExecutionsRequest) (*workflowservice.ListWorkflowExecutionsResponse, error) {
	return &workflowservice.ListWorkflowExecutionsResponse{}, nil
}
