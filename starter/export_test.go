package main

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"burnish/internal/device"
	"burnish/workflows/client"
	"burnish/workflows/contract"
)

// What export writes, import sends to the devices of its names. A device that does not answer is missing from the file,
// and the exit code says why.
func TestExportedHistoryIsImported(t *testing.T) {
	labels := map[string]string{"rack": "a1"}
	cleans := []contract.CleanSummary{{Number: 3, Outcome: "cleaned"}}
	sent := map[string]any{}
	l := &fakeClient{
		onList: func(string) ([]client.Execution, error) {
			var all []client.Execution
			for _, name := range []string{"d2", "d1", "mute"} {
				status := contract.DeviceStatus{Name: name, DeviceState: device.Available}
				all = append(all, client.Execution{Name: name, Status: status})
			}
			return all, nil
		},
		onQuery: func(_ context.Context, name string) (contract.DeviceStatus, error) {
			if name == "mute" {
				return contract.DeviceStatus{}, &device.Fault{Code: device.CodeUnreachable, Message: "no answer"}
			}
			return contract.DeviceStatus{Name: name, DeviceState: device.Available, Labels: labels, Cleans: cleans}, nil
		},
		onUpdate: func(_ context.Context, name, update string, input any) (contract.Result, error) {
			require.Equal(t, contract.VerbImportHistory.Update(), update)
			sent[name] = input
			return contract.Result{}, nil
		},
	}
	file := filepath.Join(t.TempDir(), "export.json")
	require.Equal(t, exitUnreachable, burnish(t, l, "", "export", "-o", file).code)
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	var kept exported
	require.NoError(t, json.Unmarshal(text, &kept))
	require.Equal(t, []string{"d1", "d2"}, []string{kept.Devices[0].Name, kept.Devices[1].Name})

	require.Equal(t, exitOK, burnish(t, l, "", "import", "--from", file, "--reason", "the database was lost").code)
	require.Len(t, sent, 2)
	in := sent["d2"].(contract.ImportHistoryInput)
	require.Equal(t, []any{labels, cleans, "the database was lost"}, []any{in.Labels, in.Cleans, in.Reason})
}
