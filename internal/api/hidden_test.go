package api

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/api/serviceerror"

	"burnish/internal/api/access"
	"burnish/internal/device"
	"burnish/workflows/client"
	"burnish/workflows/contract"
)

// cleaners is a policy whose readers may clean too, without the details of devices.
type cleaners struct{ adminOrReader }

func (p cleaners) Allows(rule string, who access.Principal) bool {
	return rule == ruleOf(contract.VerbClean) || p.adminOrReader.Allows(rule, who)
}

// ended are devices whose workflow somebody has ended.
type ended struct{ Devices }

func (ended) Describe(_ context.Context, name string) (client.Execution, error) {
	return client.Execution{Name: name, HowEnded: "terminated by olga of instance i1"}, nil
}

func (ended) Query(context.Context, string) (contract.DeviceStatus, error) {
	return contract.DeviceStatus{}, serviceerror.NewNotFound("none")
}

// An error shows no more of a device than the device itself: who may not read details sees
// neither its name nor its words, and none who asks whether the API is ready sees where the
// server is.
func TestErrorsShowNoDetails(t *testing.T) {
	const address = "10.9.8.7:7233"
	refusal := contract.Refuse(contract.Refusal{Device: testName, State: device.Allocated,
		Fault: device.Fault{Class: device.Permanent, Code: device.CodeRefused,
			Message: "cannot clean a device allocated to i1", Remedy: "unbind i1"}})
	away := serviceerror.NewUnavailable("dial tcp " + address)
	devices := func(err error) *fakeDevices {
		return &fakeDevices{statuses: map[string]contract.DeviceStatus{testName: testStatus()}, err: err}
	}
	uuid := contract.DeviceUUID(testName)
	for name, c := range map[string]struct {
		devices      Devices
		method, path string
		status       int
		hidden       string
	}{
		"a refusal":        {devices(refusal), "POST", "/v2/devices/" + uuid + "/clean", http.StatusConflict, "i1"},
		"a server away":    {devices(away), "GET", "/v2/devices/" + uuid, http.StatusServiceUnavailable, address},
		"an ended device":  {ended{}, "GET", "/v2/devices/" + uuid, http.StatusNotFound, "olga"},
		"a list":           {devices(away), "GET", "/v2/devices?marker=" + contract.DeviceUUID("other"), http.StatusServiceUnavailable, address},
		"whether it works": {devices(nil), "GET", "/readyz", http.StatusServiceUnavailable, address},
	} {
		t.Run(name, func(t *testing.T) {
			h := serverWith(c.devices, func(o *Options) {
				o.Policy = cleaners{}
				if c.path == "/readyz" {
					o.Ready = func(context.Context) error { return errors.New("the Temporal server does not answer: " + address) }
				}
			})
			h.(*server).know(testName)
			w := send(t, h, c.method, c.path, "", "X-Auth-Token: reader", at21)
			require.Equal(t, c.status, w.Code, w.Body)
			require.NotContains(t, w.Body.String(), c.hidden)
			require.NotContains(t, w.Body.String(), testName)
			if c.path == "/readyz" {
				return
			}
			w = send(t, h, c.method, c.path, "", admin, at21)
			require.Equal(t, c.status, w.Code, w.Body)
			var answer client.ErrorBody
			require.NoError(t, json.Unmarshal(w.Body.Bytes(), &answer))
			require.Contains(t, answer.Error.Message, c.hidden)
		})
	}
}
