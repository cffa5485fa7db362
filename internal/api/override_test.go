package api

import (
	"bytes"
	"encoding/json"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"burnish/internal/api/approval"
	"burnish/internal/device"
	"burnish/workflows/contract"
)

// The API signs an override for whom it has authenticated, over what the device shows: for a
// request what the body says, for an approval what is pending.
//
// D2
func TestOverrideIsSignedForItsCaller(t *testing.T) {
	key, err := approval.NewKey(bytes.Repeat([]byte("k"), 32))
	require.NoError(t, err)
	v := testStatus()
	expires := time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)
	numbers := contract.OverrideNumbers{Since: expires.Add(-time.Hour), Clean: 3, Binding: 2, Override: 1}
	v.Override = &contract.StatusOverride{Numbers: &numbers,
		Pending: &contract.Override{ID: "x1", Reason: "theirs", ExpiresAt: expires}}
	devices := &fakeDevices{statuses: map[string]contract.DeviceStatus{testName: v}}
	serve := func(signer Signer) http.Handler {
		return serverWith(devices, func(o *Options) { o.Signer = signer })
	}
	path := "/v2/devices/" + testName + "/override"
	request := `{"reason":"mine","expires_at":"2030-01-01T12:00:00Z"}`

	w := send(t, serve(key), "POST", path, request, admin, at21)
	require.Equal(t, http.StatusOK, w.Code, w.Body.String())
	var answer struct{ Device contract.DeviceStatus }
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &answer))
	require.Equal(t, "x1", answer.Device.Override.Pending.ID)
	in := devices.sent[0].(contract.OverrideInput)
	require.Equal(t, []string{"mine", "token:admin", "admin (token:admin)"}, []string{in.Reason, in.Principal, in.By})
	require.Len(t, in.ID, 36)
	claims := contract.OverrideClaims{Device: v.UUID, Act: contract.OverrideRequest, ID: in.ID, Reason: "mine",
		ExpiresAt: expires, Principal: "token:admin", By: in.By, Numbers: numbers}
	require.True(t, key.Verify(claims, in.Signature))

	w = send(t, serve(key), "POST", path, `{"approve":"x1"}`, "X-Auth-Token: admin,second", at21)
	require.Equal(t, http.StatusOK, w.Code, w.Body.String())
	in = devices.sent[1].(contract.OverrideInput)
	require.Empty(t, in.ID)
	claims.Act, claims.ID, claims.Reason, claims.Principal, claims.By = contract.OverrideApprove, "x1", "theirs",
		"token:admin,second", in.By
	require.True(t, key.Verify(claims, in.Signature))

	// Nothing of what the signature says of the caller comes from the caller.
	for _, body := range []string{`{"approve":"x1","principal":"token:bob"}`, `{"approve":"x1","By":"bob"}`,
		`{"approve":"x1","signature":"AA=="}`, `{"reason":"r","expires_at":"tomorrow"}`} {
		requireProblem(t, send(t, serve(key), "POST", path, body, admin, at21), http.StatusBadRequest, device.CodeInvalid)
	}
	requireProblem(t, send(t, serve(key), "POST", path, request, reader, at21), http.StatusForbidden, device.CodeForbidden)
	requireProblem(t, send(t, serve(nil), "POST", path, request, admin, at21), http.StatusForbidden,
		device.CodeOverrideOff)
	require.Len(t, devices.sent, 2)

	// A device that is not in state error is asked without a signature: it knows a repetition.
	v.Override = nil
	devices.statuses[testName] = v
	devices.err = nil
	require.Equal(t, http.StatusOK, send(t, serve(key), "POST", path, request, admin, at21).Code)
	require.Empty(t, devices.sent[2].(contract.OverrideInput).Signature)
	for code, status := range map[device.Code]int{device.CodeSamePrincipal: 403, device.CodeOverrideOff: 403,
		device.CodeOverrideUnsigned: 409} {
		require.Equal(t, status, statusOf(code))
	}
}
