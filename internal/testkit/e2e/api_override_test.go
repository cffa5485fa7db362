package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"

	"burnish/internal/device"
	"burnish/workflows/contract"
)

// A device that nothing can erase is offered again when two different users of the cloud say
// so, and only then; its record says that it was not sanitized. Whoever may write in the
// namespace cannot do it without the API.
//
// D2
func (a *API) override(t *testing.T, name string) {
	path := devicePath(name, "override")
	ada, ben := a.As(t, a.Admin), a.As(t, a.Second)
	require.Equal(t, device.Error, a.Show(t, name).DeviceState)
	expires := time.Now().Add(time.Hour).UTC().Format(time.RFC3339)

	// raw sends an act as any client of Temporal may.
	raw := func(in contract.OverrideInput) error {
		handle, err := a.Client.UpdateWorkflow(t.Context(), client.UpdateWorkflowOptions{
			WorkflowID: contract.WorkflowID(name), UpdateName: contract.VerbOverride.Update(), Args: []any{in},
			WaitForStage: client.WorkflowUpdateStageCompleted,
		})
		if err != nil {
			return err
		}
		return handle.Get(t.Context(), nil)
	}
	t.Run("not without the API's signature", func(t *testing.T) {
		before := a.events(t, name)
		for says, in := range map[string]contract.OverrideInput{
			"not signed": {Reason: "r", ExpiresAt: time.Now().Add(time.Hour), ID: "00000000-0000-4000-8000-000000000001", Principal: "keystone:x"},
			"is not signed for this device": {
				Reason: "r", ExpiresAt: time.Now().Add(time.Hour), ID: "00000000-0000-4000-8000-000000000001", Principal: "keystone:x",
				Signature: []byte(strings.Repeat("s", 32)),
			},
			"no such request": {Approve: "00000000-0000-4000-8000-000000000001", Principal: "keystone:y"},
		} {
			require.ErrorContains(t, raw(in), says)
		}
		require.Equal(t, before, a.events(t, name), "a refused update costs no event")
	})

	var answer struct{ Device contract.DeviceStatus }
	ada.Must(t, http.StatusOK, http.MethodPost, path, fmt.Sprintf(`{"reason":"scrapped disks, no data","expires_at":%q}`, expires), &answer)
	require.NotNil(t, answer.Device.Override)
	require.NotNil(t, answer.Device.Override.Pending)
	id := answer.Device.Override.Pending.ID
	require.NotEmpty(t, id)
	require.Equal(t, device.Error, a.Show(t, name).DeviceState, "one user is not enough")

	approval := fmt.Sprintf(`{"approve":%q}`, id)
	again := ada
	again.Token = a.Admin.Token(t) // another token of the same user
	for what, c := range map[string]Caller{"the same token": ada, "the same user": again} {
		t.Log(what)
		c.Refused(t, http.StatusForbidden, device.CodeSamePrincipal, http.MethodPost, path, approval)
	}
	require.Equal(t, http.StatusForbidden, a.As(t, a.Viewer).Ask(t, http.MethodPost, path, approval).Status)
	for _, wrong := range []string{`{"approve":"00000000-0000-4000-8000-000000000009"}`, `{"approve":""}`, `{}`} {
		status := ben.Ask(t, http.MethodPost, path, wrong).Status
		require.True(t, status >= 400 && status < 500, "%s: %d", wrong, status)
	}
	require.Equal(t, device.Error, a.Show(t, name).DeviceState)

	require.ErrorContains(t, raw(contract.OverrideInput{Approve: id, Principal: "keystone:y"}), "not signed")
	require.Equal(t, device.Error, a.Show(t, name).DeviceState)

	ben.Must(t, http.StatusOK, http.MethodPost, path, approval, nil)
	v := a.AwaitState(t, name, 30*time.Second, device.Available)
	require.True(t, v.NotSanitized)
	a.AwaitReserved(t, name, 0)
	history := a.Must(t, "history", name)
	for _, said := range []string{"ada", "ben", "scrapped disks, no data", "override"} {
		require.Contains(t, history, said)
	}
	require.Contains(t, strings.ToLower(history+a.Must(t, "show", name)), "not sanitized")
}
