package e2e

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/converter"

	"burnish/internal/device"
	"burnish/internal/testkit/proc"
	"burnish/workflows/client"
	"burnish/workflows/contract"
)

// overridden is a site whose API knows its callers by a file of tokens.
type overridden struct {
	*Site
	url string
}

// token is the token of a user of the file.
func token(user string) string { return strings.Repeat(user[:1], 40) }

func serveOverrides(t *testing.T) overridden {
	t.Helper()
	o := overridden{Site: newSite(t)}
	ports, err := proc.FreePorts(0)
	require.NoError(t, err)
	address := fmt.Sprintf("127.0.0.1:%d", ports[0])
	o.url = "http://" + address
	users := ""
	for user, role := range map[string]string{"ada": "admin", "ben": "admin", "vera": "reader"} {
		users += fmt.Sprintf("  - {user: %s, roles: [%s], token: %s}\n", user, role, token(user))
	}
	o.Run(t, "all", "BURNISH_API_ADDRESS="+address, "BURNISH_API_TOKENS="+o.writeFile(t, "tokens.yaml", "tokens:\n"+users),
		"BURNISH_API_KEY="+o.apiKey(t))
	Caller{URL: o.url}.AwaitReady(t)
	return o
}

// A one-time-use device that nothing can erase has a way out: two administrators decide so
// through the API, and no client of Temporal can, whatever it reads in the history.
//
// D2
func TestOverrideOverTheAPI(t *testing.T) {
	t.Parallel()
	const name = "no-path"
	a := serveOverrides(t)
	a.EnrollAll(t,
		map[string]string{name: `set: {size: 1MiB, erase: none}, type: NVME, one_time_use: true, provide: true`})
	a.AwaitState(t, name, 30*time.Second, device.Error)
	path := devicePath(name, "override")
	in := contract.OverrideInput{ID: "x1", Reason: "mine", ExpiresAt: time.Now().Add(time.Hour),
		Principal: "token:somebody"}
	a.refuseRaw(t, name, in)

	admin, second := Caller{URL: a.url, Token: token("ada")}, Caller{URL: a.url, Token: token("ben")}
	Caller{URL: a.url, Token: token("vera")}.Refused(t, http.StatusForbidden, device.CodeForbidden, http.MethodPost, path,
		`{"approve":"x1"}`)
	var asked contract.Result
	expires := time.Now().Add(time.Hour).UTC().Format(time.RFC3339)
	admin.Must(t, http.StatusOK, http.MethodPost, path, `{"reason":"capacity","expires_at":"`+expires+`"}`, &asked)
	id := asked.Device.Override.Pending.ID
	admin.Refused(t, http.StatusForbidden, device.CodeSamePrincipal, http.MethodPost, path, `{"approve":"`+id+`"}`)
	second.Refused(t, http.StatusNotFound, device.CodeNotFound, http.MethodPost, path, `{"approve":"another"}`)
	require.Contains(t, a.Must(t, "show", name), "burnish override "+name+" --approve "+id)
	a.RequireReserved(t, name, 1)
	for _, seen := range a.overridesInHistory(t, name) {
		a.refuseRaw(t, name, seen)
	}

	r := a.commandAs(t, "ben", "override", name, "--approve", id)
	require.Zero(t, r.Code, r)
	require.Contains(t, r.Stdout, name+": overridden, now cleaning")
	v := a.AwaitState(t, name, 30*time.Second, device.Available)
	require.True(t, v.NotSanitized)
	a.AwaitReserved(t, name, 0)
	require.Regexp(t,
		`clean \d+: skipped, not sanitized, override requested by ada \(token:ada\) on .*, approved by ben \(token:ben\) on .*, reason: capacity`, a.Must(t, "history", name))

	// It is used, and back in state error: what was signed before counts for nothing.
	signed := a.overridesInHistory(t, name)
	require.Len(t, signed, 2)
	a.Bind(t, name, "carol")
	a.Unbind(t, name, "carol")
	a.AwaitState(t, name, 30*time.Second, device.Error)
	for _, seen := range signed {
		a.refuseRaw(t, name, seen)
	}
	a.RequireReserved(t, name, 1)
}

// refuseRaw sends an override as any client of Temporal may: it is refused, and leaves no event.
func (a overridden) refuseRaw(t *testing.T, name string, in contract.OverrideInput) {
	t.Helper()
	before := a.events(t, name)
	_, err := a.Workflows().Do(t.Context(), name, contract.VerbOverride, in)
	refusal, ok := client.Fault(err)
	require.True(t, ok, "%v", err)
	require.Contains(t, []device.Code{device.CodeOverrideUnsigned, device.CodeNotFound}, refusal.Fault.Code,
		"%+v", refusal)
	require.Equal(t, before, a.events(t, name))
}

// overridesInHistory are the inputs of the overrides that the device accepted.
func (a overridden) overridesInHistory(t *testing.T, name string) (all []contract.OverrideInput) {
	t.Helper()
	for _, event := range slices.Concat(a.chain(t.Context(), t, name)...) {
		request := event.GetWorkflowExecutionUpdateAcceptedEventAttributes().GetAcceptedRequest().GetInput()
		if request.GetName() != contract.VerbOverride.Update() {
			continue
		}
		var in contract.OverrideInput
		require.NoError(t, converter.GetDefaultDataConverter().FromPayloads(request.GetArgs(), &in))
		require.NotEmpty(t, in.Signature)
		all = append(all, in)
	}
	return all
}

// commandAs runs a command over the API as a user.
func (a overridden) commandAs(t *testing.T, user string, args ...string) proc.Result {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), programs.Burnish, args...)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + a.Dir, "BURNISH_API=" + a.url,
		"BURNISH_API_TOKEN=" + token(user)}
	r, err := proc.Run(cmd)
	require.NoError(t, err)
	return r
}
