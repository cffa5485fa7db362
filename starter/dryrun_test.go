package main

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"burnish/internal/device"
	"burnish/workflows/contract"
)

// dryArguments are those of each command with a dry run, and what it then asks the device about.
var dryArguments = map[string]struct {
	args   []string
	update string
	input  any
}{
	"provide":      {[]string{"d1", "--reason", "R"}, contract.VerbProvide.Update(), contract.ReasonInput{Reason: "R", Caller: operator()}},
	"clean":        {[]string{"d1", "--steps", "zero"}, contract.VerbClean.Update(), contract.CleanInput{Steps: []string{"zero"}, Caller: operator()}},
	"abort":        {[]string{"d1"}, contract.VerbAbort.Update(), contract.ReasonInput{Caller: operator()}},
	"release-hold": {[]string{"d1"}, contract.VerbReleaseHold.Update(), contract.ReasonInput{Caller: operator()}},
	"manage":       {[]string{"d1", "--instance", someInstance}, contract.VerbManage.Update(), contract.TenantInput{Instance: someInstance, Caller: operator()}},
	"maintain":     {[]string{"d1", "--off"}, contract.VerbMaintain.Update(), contract.MaintenanceInput{Off: true, Caller: operator()}},
	"retire":       {[]string{"d1", "--lost", "--reason", "R"}, contract.VerbRetire.Update(), contract.RetireInput{Reason: "R", Lost: true, Caller: operator()}},
	"forget":       {[]string{"d1"}, contract.VerbForget.Update(), contract.TenantInput{Caller: operator()}},
	"label":        {[]string{"d1", "rack=a", "tier-"}, contract.VerbLabel.Update(), contract.LabelInput{LabelChange: device.LabelChange{Set: map[string]string{"rack": "a"}, Remove: []string{"tier"}}, Caller: operator()}},
	"replace":      {[]string{"d1", "--provide"}, contract.VerbReplace.Update(), contract.ReplaceInput{Provide: true, Caller: operator()}},
	"bind":         {[]string{"d1", "--instance", strings.ToUpper(someInstance), "--request", "r", "--tag", "t"}, contract.VerbBind.Update(), contract.BindInput{Instance: someInstance, Request: "r", Tag: "t", Caller: operator()}},
	"unbind":       {[]string{"d1", "--instance", someInstance}, contract.VerbUnbind.Update(), contract.UnbindInput{Instance: someInstance, Caller: operator()}},
	"rebuild":      {[]string{"d1", "--instance", someInstance}, contract.VerbRebuild.Update(), contract.UnbindInput{Instance: someInstance, Caller: operator()}},
	"power":        {[]string{"d1", "off"}, contract.VerbPower.Update(), contract.PowerInput{Target: "off", Caller: operator()}},
	"move":         {[]string{"d1", "d2", "--host", "h2", "--set", "path=/x"}, contract.VerbMove.Update(), contract.MoveInput{Enrollment: contract.Enrollment{Name: "d2", Host: "h2", Settings: map[string]string{"path": "/x"}}, Caller: operator()}},
}

// A dry run asks about the very update that the command would send, and sends none: every
// command on devices that has the flag.
func TestADryRunSendsNoChange(t *testing.T) {
	var have []string
	for _, cmd := range leaves((&app{}).root()) {
		name := strings.TrimPrefix(cmd.CommandPath(), "burnish ")
		others := []string{"enroll", "import", "oneview migrate", "override"}
		if cmd.Flags().Lookup("dry-run") == nil || slices.Contains(others, name) {
			continue // those have tests of their own
		}
		have = append(have, name)
		t.Run(name, func(t *testing.T) {
			dry, known := dryArguments[name]
			require.True(t, known)
			var asked []string
			l := &fakeClient{onDryRun: func(name, update string, in any) (contract.DryRun, error) {
				asked = append(asked, update+" "+name)
				assert.Equal(t, dry.input, sentAs(t, in))
				return contract.DryRun{State: device.PendingCleaning, Steps: []string{"zero", "verify"}, Instance: someInstance,
					Note: "a\x1b[2Jnote"}, nil
			}}
			got := burnish(t, l, "", slices.Concat([]string{name}, dry.args, []string{"--dry-run"})...)
			require.Equal(t, exitOK, got.code, got.errors)
			require.Regexp(t, `^d1: would [a-z]+ it, then pending_cleaning; ends the binding of instance `+someInstance+
				`; steps zero, verify; a\?\[2Jnote\n$`, got.out)
			require.Equal(t, []string{dry.update + " d1"}, asked)
			require.Empty(t, l.sent)

			l.onUpdate = func(_ context.Context, name, _ string, given any) (contract.Result, error) {
				assert.Equal(t, dry.input, sentAs(t, given), "it asks about what it sends")
				return contract.Result{Device: in(name, device.Manageable), Note: "a note"}, nil
			}
			sent := burnish(t, l, "", append([]string{name}, dry.args...)...)
			require.Equal(t, exitOK, sent.code, sent.errors)
			require.True(t, strings.HasPrefix(sent.out, "d1: ") && strings.Count(sent.out, "\n") == 1, sent.out)
			require.Equal(t, []string{dry.update + " d1"}, l.sent)

			got = burnish(t, l, "", slices.Concat([]string{name}, dry.args, []string{"--dry-run", "-o", "json"})...)
			var body struct {
				Devices []struct {
					Name   string          `json:"name"`
					OK     bool            `json:"ok"`
					DryRun contract.DryRun `json:"dry_run"`
				} `json:"devices"`
			}
			require.NoError(t, json.Unmarshal([]byte(got.out), &body), got.out)
			require.Len(t, body.Devices, 1)
			require.True(t, body.Devices[0].OK)
			require.Equal(t, contract.DryRun{State: device.PendingCleaning, Steps: []string{"zero", "verify"},
				Instance: someInstance, Note: "a\x1b[2Jnote"}, body.Devices[0].DryRun)
		})
	}
	slices.Sort(have)
	require.Equal(t, []string{"abort", "bind", "clean", "forget", "label", "maintain", "manage", "move", "power",
		"provide", "rebuild", "release-hold", "replace", "retire", "unbind"}, have)
}

// Each device has its line: what would happen, that nothing would, or the refusal in the words
// of the update itself. No question is asked, however many there are.
func TestADryRunOfMany(t *testing.T) {
	l := fleetOf(12)
	var mu sync.Mutex
	asked := 0
	l.onDryRun = func(name, update string, _ any) (contract.DryRun, error) {
		mu.Lock()
		defer mu.Unlock()
		asked++
		assert.Equal(t, contract.VerbRetire.Update(), update)
		switch name {
		case "d01":
			return contract.DryRun{State: device.Retired, Already: true}, nil
		case "d02":
			return contract.DryRun{},
				refuse(name, device.Allocated, device.Fault{Code: device.CodeInUse, Message: "instance i1 has the device",
					Remedy: "name it"})
		case "d03":
			return contract.DryRun{}, gone()
		}
		return contract.DryRun{State: device.Retired}, nil
	}
	got := burnish(t, l, "", "retire", "--state", "error", "--reason", "old", "--dry-run")
	require.Equal(t, exitPartly, got.code)
	require.Equal(t, 12, asked)
	require.Empty(t, l.sent)
	require.Contains(t, got.out, "d00: would retire it, then retired\n")
	require.Contains(t, got.out, "d01: would change nothing: already retired (state: retired)\n")
	require.Contains(t, got.errors, "burnish: retire d02: instance i1 has the device; name it\n")
	require.Contains(t, got.errors, "burnish: retire d03: no such device; ")
	require.Contains(t, got.errors, "2 of 12 devices failed")
	require.NotContains(t, got.errors, "y/N")
}

// A command that changes something has a dry run, or says in its help that it has none.
func TestHelpSaysWhatHasNoDryRun(t *testing.T) {
	said := 0
	for _, cmd := range leaves((&app{}).root()) {
		changes := cmd.Flags().Lookup("reason") != nil
		none := strings.Contains(helpText(cmd), noDryRun)
		require.Equal(t, changes && cmd.Flags().Lookup("dry-run") == nil, none, cmd.CommandPath())
		if none {
			said++
		}
	}
	require.GreaterOrEqual(t, said, 8)
	for _, name := range []string{"resume", "instance bind", "instance release"} {
		cmd, _, err := (&app{}).root().Find(strings.Fields(name))
		require.NoError(t, err)
		require.Contains(t, helpText(cmd), noDryRun, name)
	}
}
