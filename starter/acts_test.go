package main

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"burnish/internal/device"
	"burnish/workflows/client"
	"burnish/workflows/contract"
)

// changing are all commands that change something, with arguments that are enough for each.
var changing = map[string][]string{
	"enroll": {"d1", "--host", "h1", "--driver", "fake"},
	"import": {"--from", "placement", "--cloud", "c"},
	"bind":   {"d1", "--instance", someInstance}, "unbind": {"d1", "--instance", someInstance}, "rebuild": {"d1", "--instance", someInstance},
	"provide": {"d1"}, "clean": {"d1"}, "abort": {"d1"}, "release-hold": {"d1"}, "manage": {"d1"}, "maintain": {"d1"}, "retire": {"d1"}, "forget": {"d1"},
	"power": {"d1", "off"}, "resume": {"--model", "M", "--step", "zero"}, "replace": {"d1"}, "move": {"d1", "h1_0000:0a:00.0"},
	"oneview migrate": {"d1"},
	"instance bind":   {someInstance, "--device", "d1"}, "instance attach": {someInstance, "--device", "d1"}, "instance detach": {someInstance, "d1"},
	"instance release": {someInstance}, "instance rebuild": {someInstance}, "instance migrate": {someInstance, "--to", "h2"},
	"instance live-migrate": {someInstance, "--to", "h2"}, "instance confirm": {someInstance}, "instance revert": {someInstance},
	"instance evacuate": {someInstance, "--to", "h2"},
	// The API alone says who asks for an override: TestOverrideCommand.
	"override": {"d1"},
}

// Each command that changes something sends who runs it, and the reason that --reason gives.
func TestEveryCommandThatChangesSendsWhoAndWhy(t *testing.T) {
	for _, command := range leaves((&app{}).root()) {
		name := strings.TrimPrefix(command.CommandPath(), "burnish ")
		args, changes := changing[name]
		if !changes {
			require.False(t, command.Flags().Lookup("reason") != nil, "burnish %s takes --reason: add it to changing", name)
			continue
		}
		t.Run(name, func(t *testing.T) {
			require.Contains(t, helpText(command), "--reason ", "its help names the flag")
			given := append(strings.Fields(name), args...)
			given = append(given, "--reason", "a new fan")
			if name == "override" {
				given = append([]string{"--api", "http://127.0.0.1:1"}, given...)
			}
			var sent []any
			keep := func(input any) { sent = append(sent, input) }
			l := &fakeClient{
				onUpdate: func(_ context.Context, _, _ string, input any) (contract.Result, error) {
					keep(input)
					return contract.Result{Device: in("d1", device.Manageable)}, nil
				},
				onEnroll: func(input contract.EnrollInput) (contract.Result, error) {
					keep(input)
					return contract.Result{Device: in("d1", device.Manageable)}, nil
				},
				onResume: func(input contract.ResumeInput) (contract.ResumeResult, error) {
					keep(input)
					return contract.ResumeResult{}, nil
				},
				onInstance: func(_ context.Context, _, _ string, input any) (contract.InstanceResult, error) {
					keep(input)
					return contract.InstanceResult{}, nil
				},
				importable: func(string, contract.CandidatesInput) (contract.Candidates, error) {
					return contract.Candidates{Devices: []contract.Candidate{{Name: "h1_0000:0a:00.0", Host: "h1", Address: "0000:0a:00.0"}}}, nil
				},
				onDescribe: func(name string) (client.Execution, error) { return running(preallocated(name)), nil },
				onQuery:    func(_ context.Context, name string) (contract.DeviceStatus, error) { return preallocated(name), nil },
			}
			got := burnish(t, l, "", given...)
			require.Equal(t, exitOK, got.code, got.errors)
			require.Len(t, sent, 1)
			input, ok := sent[0].(contract.Input)
			require.True(t, ok, "%T says not who", sent[0])
			act := input.Act()
			require.Equal(t, "a new fan", act.Reason)
			if name != "override" {
				require.Equal(t, operator(), contract.Caller{By: act.By, From: act.From})
				require.NotEmpty(t, act.By)
			}
		})
	}
}

// preallocated is a device of a shared pool that is not dynamic yet.
func preallocated(name string) contract.DeviceStatus {
	v := in(name, device.Available)
	v.Pool = &contract.StatusPool{Pool: contract.Pool{Appliance: "a1", Hardware: "/rest/server-hardware/1"}}
	return v
}
