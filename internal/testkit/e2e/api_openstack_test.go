package e2e

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"burnish/internal/device"
	"burnish/internal/testkit/openstack"
	"burnish/internal/testkit/proc"
	"burnish/workflows/contract"
)

// enrollSeven enrolls devices, so that the last page of two is not full; some can be cleaned.
func (a *API) enrollSeven(t *testing.T) (uuids []string) {
	t.Helper()
	const plain = "set: {size: 1MiB}, type: NVME, provide: true"
	names := map[string]string{
		"fails":     `set: {size: 1MiB, fault: "fail:zero@50%x1"}, type: NVME, provide: true`,
		"available": plain, "taken": plain, "plain-1": plain, "plain-2": plain,
		"no-path":  `set: {size: 1MiB, erase: none}, type: NVME, one_time_use: true, provide: true`,
		"operator": "set: {size: 1MiB}",
	}
	a.EnrollAll(t, names)
	for name := range names {
		uuids = append(uuids, contract.DeviceUUID(name))
		state := device.Available
		switch name {
		case "fails", "no-path":
			state = device.Error
		case "operator":
			state = device.Manageable
		}
		a.AwaitState(t, name, 30*time.Second, state)
	}
	a.Bind(t, "taken", "alice")
	slices.Sort(uuids)
	return uuids
}

// python runs a program of Debian's OpenStack clients as a user, and reads the JSON that it
// prints.
func (a *API) python(t *testing.T, who openstack.Account, into any, program string, args ...string) proc.Result {
	t.Helper()
	var r proc.Result
	Await(t, time.Minute, "Keystone to answer the API", func() (bool, string) { // a busy machine's may be too slow for it
		cmd := exec.Command("/usr/bin/python3", append([]string{program}, args...)...)
		cmd.Env = []string{"PATH=/usr/bin:/bin", "HOME=" + a.Dir}
		for name, value := range who.Environment() {
			cmd.Env = append(cmd.Env, name+"="+value)
		}
		var err error
		r, err = proc.Run(cmd)
		require.NoError(t, err)
		return !strings.Contains(r.Stderr, "Keystone does not answer"), r.Stderr
	})
	if into != nil {
		require.NoError(t, r.Err())
		require.NoError(t, json.Unmarshal([]byte(r.Stdout), into), r)
	}
	return r
}

// cyborgMembers are the members of a device in microversion 2.0.
var cyborgMembers = []string{"created_at", "hostname", "model", "status", "std_board_info", "type", "updated_at",
	"uuid", "vendor", "vendor_board_info"}

// Debian's openstacksdk finds the API by Keystone's catalog, reads devices whole and page by
// page, and cleans one.
func (a *API) openstackSDK(t *testing.T, uuids []string) {
	fails := contract.DeviceUUID("fails")
	type answer struct {
		Status  int
		Version string
		Body    map[string]any
	}
	var seen struct {
		Endpoint        string
		MaxMicroversion string `json:"max_microversion"`
		All, Pages      []string
		Device          map[string]any

		Old, New, Clean, Unknown answer
		TooNew                   answer `json:"too_new"`
		OldClean                 answer `json:"old_clean"`
		RefusedClean             answer `json:"refused_clean"`
	}
	a.python(t, a.Admin, &seen, "testdata/api/clients.py", fails, contract.DeviceUUID("available"))
	require.Equal(t, a.URL+"/v2", strings.TrimSuffix(seen.Endpoint, "/"))
	require.Equal(t, "2.1", seen.MaxMicroversion)
	require.Equal(t, uuids, slices.Sorted(slices.Values(seen.All)))
	require.Equal(t, seen.All, seen.Pages, "pages give the same devices in the same order")

	require.Equal(t, fails, seen.Device["uuid"])
	require.Equal(t, a.Host, seen.Device["hostname"])
	require.Equal(t, "NVME", seen.Device["type"])
	require.Nil(t, seen.Device["vendor_board_info"])
	board, ok := seen.Device["std_board_info"].(string)
	require.True(t, ok, "std_board_info is text: %v", seen.Device)
	var info map[string]string
	require.NoError(t, json.Unmarshal([]byte(board), &info), "of JSON")
	require.Contains(t, info, "product_id")

	require.Equal(t, http.StatusOK, seen.Old.Status)
	require.Equal(t, "accelerator 2.0", seen.Old.Version)
	require.Subset(t, slices.Collect(maps.Keys(seen.Old.Body)), cyborgMembers)
	require.NotContains(t, seen.Old.Body, "device_state")
	require.Equal(t, http.StatusOK, seen.New.Status)
	require.Equal(t, "accelerator 2.1", seen.New.Version)
	require.Equal(t, "error", seen.New.Body["device_state"])
	require.Equal(t, http.StatusNotAcceptable, seen.TooNew.Status)
	require.Equal(t, http.StatusNotFound, seen.OldClean.Status, "there is no clean in 2.0")
	require.Equal(t, http.StatusAccepted, seen.Clean.Status, seen.Clean.Body)
	require.Equal(t, http.StatusConflict, seen.RefusedClean.Status, seen.RefusedClean.Body)
	require.Equal(t, http.StatusNotFound, seen.Unknown.Status)

	a.AwaitReturned(t, Device(a.FakeDevice("fails", 1*MiB)), 30*time.Second)
	require.Contains(t, a.Must(t, "history", "fails"), "by openstacksdk")
	require.Contains(t, a.Must(t, "history", "fails"), "ada")
}

// Debian's python3-cyborgclient, the plugin of `openstack`, lists and shows devices.
func (a *API) cyborgClient(t *testing.T, uuids []string) {
	const openstackProgram = "/usr/bin/openstack"
	var listed []map[string]any
	a.python(t, a.Viewer, &listed, openstackProgram, "accelerator", "device", "list", "--long", "-f", "json")
	var found []string
	for _, d := range listed {
		found = append(found, fmt.Sprint(d["uuid"]))
	}
	require.Equal(t, uuids, slices.Sorted(slices.Values(found)))
	var shown map[string]any
	a.python(t, a.Viewer, &shown, openstackProgram, "accelerator", "device", "show", uuids[3], "-f", "json")
	require.Equal(t, uuids[3], shown["uuid"])
	require.Equal(t, a.Host, shown["hostname"])
	r := a.python(t, a.Viewer, nil, openstackProgram, "accelerator", "device", "show",
		"00000000-0000-4000-8000-000000000000")
	require.Equal(t, 1, r.Code, r)
	require.Contains(t, r.Stderr, "device not found", r)
}

// A token that was revoked opens nothing for longer than it is cached.
func (a *API) revokedToken(t *testing.T) {
	c := a.As(t, a.Second)
	path := devicePath("operator", "maintenance")
	c.Must(t, http.StatusOK, http.MethodGet, "/v2/devices", "", nil)
	before := a.events(t, "operator")
	a.Keystone.Revoke(t, c.Token)
	began := time.Now()
	for first := true; ; first = false {
		asked := time.Since(began)
		answer, err := c.once(t, http.MethodGet, "/v2/devices", "")
		require.NoError(t, err)
		if answer.Status == http.StatusUnauthorized {
			answer.requireFault(t, http.StatusUnauthorized, device.CodeNotAuthenticated)
			require.NotEmpty(t, answer.Header.Get("WWW-Authenticate"))
			break
		}
		if answer.Status == http.StatusServiceUnavailable { // Keystone is slow: it opens nothing
			require.Less(t, time.Since(began), patience*30*time.Second, answer.Body)
			continue
		}
		require.Equal(t, http.StatusOK, answer.Status, answer.Body)
		require.Less(t, asked, 11*time.Second, "a revoked token still opens")
		if first {
			t.Log("the token is cached")
		}
		outage(t, 250*time.Millisecond)
	}
	t.Logf("refused after %s", time.Since(began).Round(time.Millisecond))
	c.Refused(t, http.StatusUnauthorized, device.CodeNotAuthenticated, http.MethodPost, path, `{"reason":"x"}`)
	require.Equal(t, before, a.events(t, "operator"), "a refused request costs no event")
}

// acts are all requests for a change, each with a body that an administrator's would have.
func (a *API) acts(t *testing.T, name string) map[string]string {
	t.Helper()
	instance := fmt.Sprintf(`{"instance":%q}`, Instance("eve"))
	paths := map[string]string{
		"/v2/devices":       fmt.Sprintf(`{"enrollment":{"name":"new","host":%q,"driver":"fake","owner":"self"}}`, a.Host),
		"/v2/limits/resume": `{"model":"fake","step":"zero"}`,
	}
	for verb, body := range map[string]string{
		"clean": `{"reason":"r"}`, "provide": `{}`, "manage": `{}`, "abort": `{}`, "maintenance": `{"reason":"r"}`, "power": `{"target":"reboot"}`,
		"override": `{"reason":"r","expires_at":"2099-01-01T00:00:00Z"}`, "bind": instance, "unbind": instance, "rebuild": instance,
		"retire": `{"reason":"r"}`, "forget": `{}`, "replace": `{}`, "move": `{}`, "release-hold": `{}`, "migrate-pool": `{}`, "import-history": `{}`,
	} {
		paths[devicePath(name, verb)] = body
	}
	return paths
}

// A viewer's token, stolen or not, changes nothing, whatever else is sent with it: 403 and no
// event. It sees Cyborg's own members of a device, and nothing of its tenants.
func (a *API) viewerChangesNothing(t *testing.T) {
	c := a.As(t, a.Viewer)
	names := []string{"available", "taken", "no-path", "operator"}
	before := map[string]string{}
	for _, name := range names {
		a.awaitIdle(t, name)
		before[name] = a.events(t, name)
	}
	for _, name := range names {
		for path, body := range a.acts(t, name) {
			c.Refused(t, http.StatusForbidden, device.CodeForbidden, http.MethodPost, path, body,
				"X-Roles: admin", "X-User-Id: 1", "X-Identity-Status: Confirmed", "X-Is-Admin-Project: True")
		}
	}
	for _, name := range names {
		require.Equal(t, before[name], a.events(t, name), name)
		var shown map[string]any
		c.Must(t, http.StatusOK, http.MethodGet, devicePath(name), "", &shown)
		require.Equal(t, slices.Sorted(slices.Values(append([]string{"device_state"}, cyborgMembers...))),
			slices.Sorted(maps.Keys(shown)))
	}
	a.Refused(t, device.CodeNotFound, "show", "new")
	everything := c.Must(t, http.StatusOK, http.MethodGet, "/v2/devices", "", nil).Body
	require.NotContains(t, everything, Instance("alice"), "whose a device is")
}
