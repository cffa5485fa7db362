package main

import (
	"context"
	"log/slog"
	"net/http/httptest"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"burnish/internal/api"
	"burnish/internal/api/remote"
	"burnish/internal/device"
	"burnish/workflows/contract"
)

// A verb that is added to the table has its command, with flags, help, completion, dry run, and the
// question that its effect asks for, over Temporal and over the API.
func TestAVerbThatIsAdded(t *testing.T) {
	inspect := contract.Verb{Name: "inspect-board", About: "look at the board", Input: contract.TenantInput{},
		May: contract.Erases,
		Command: contract.Command{Does: "inspect", Done: "inspected", Use: "NAME…", Reason: "why; kept with the device",
			Many:    true,
			Example: "  burnish inspect-board d1"}}
	verbs := append(slices.Clone(contract.Verbs), inspect)
	for _, door := range []string{"Temporal", "the API"} {
		t.Run(door, func(t *testing.T) {
			l := fleetOf(1)
			var sent []any
			l.onUpdate = func(_ context.Context, name, update string, given any) (contract.Result, error) {
				sent = append(sent, update, given)
				return contract.Result{Device: in(name, device.Error)}, nil
			}
			l.onDryRun = func(_, update string, _ any) (contract.DryRun, error) {
				return contract.DryRun{State: device.Error, Note: "a dry " + update}, nil
			}
			dial := func(context.Context) (deviceClient, error) { return l, nil }
			who := operator()
			if door == "the API" {
				server := httptest.NewServer(
					api.New(api.Options{Devices: behindAPI{l}, Authenticator: operators{}, Policy: operators{}, Guards: operators{},
						Log: slog.New(slog.DiscardHandler), Ready: func(context.Context) error { return nil }, Verbs: verbs}))
				defer server.Close()
				c, err := remote.New(t.Context(), server.URL, func(string) string { return "" })
				require.NoError(t, err)
				dial = func(context.Context) (deviceClient, error) { return c, nil }
				who = contract.Caller{By: "op (token:op)", From: "127.0.0.1"}
			}
			run := func(args ...string) ran {
				return burnishWith(t, nil, func(a *app, _ func()) { a.dial, a.verbs = dial, verbs }, args...)
			}
			got := run("inspect-board", "d00", "--instance", someInstance, "--reason", "a new fan")
			require.Equal(t, ran{exitOK, "d00: inspected, now error\n", ""}, got)
			require.Equal(t,
				[]any{"inspect_board", contract.TenantInput{Instance: someInstance, Reason: "a new fan", Caller: who}}, sent)

			got = run("inspect-board", "d00", "--dry-run")
			require.Equal(t, ran{exitOK, "d00: would inspect it, then error; a dry inspect_board\n", ""}, got)
			require.Len(t, sent, 2, "a dry run sends nothing")

			got = run("inspect-board", "--state", "error")
			require.Equal(t, exitUsage, got.code, got.errors)
			require.Contains(t, got.errors, "this would inspect 1 device, and there is no terminal to ask for confirmation")
			require.Len(t, sent, 2)

			help := run("inspect-board", "--help").out
			require.Contains(t, help, "look at the board")
			require.Contains(t, help, "--instance UUID")
			require.Contains(t, run("--help").out, "inspect-board")
			require.Contains(t, run("__completeNoDesc", "inspect-").out, "inspect-board")
			require.Contains(t, run("__completeNoDesc", "inspect-board", "--inst").out, "--instance")
		})
	}
}
