package main

import (
	"bytes"
	"context"
	"flag"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"burnish/internal/device"
	"burnish/workflows/client"
	"burnish/workflows/contract"
)

var update = flag.Bool("update", false, "write the golden files again")

// exampleDevices is a device with every field that can be shown, and one with almost
// none.
func exampleDevices() []contract.DeviceStatus {
	instance := someInstance
	full := in("h1_0000:01:00.0", device.Cleaning)
	full.Dirty, full.NeedsOperator, full.OneTimeUse, full.NotSanitized = true, true, true, true
	full.Type, full.Vendor, full.Model, full.Serial, full.Hostname = "NVME", "Acme", "X 100", "S\x1b[31m1", "h1"
	full.MAC, full.LiveMigratable = "52:54:00:00:00:01", true
	full.Driver, full.Owner, full.Operation, full.Binding = "nvme", device.OwnerNova, device.CryptoErase, 7
	full.Maintenance, full.MaintenanceReason = true, "operator: kernel upgrade"
	full.StdBoardInfo = contract.BoardInfo{ProductID: "a808", PCIAddress: "0000:01:00.0", Operation: device.CryptoErase}
	full.InstanceUUID = &instance
	full.CleanStep = &contract.CleanStep{Step: "zero", Priority: 70, Interface: "deploy"}
	full.Progress = &contract.StatusProgress{Percent: 33.3, Done: 1 << 30, Total: 3 << 30,
		Waiting: "queued for a slot (2nd in line)", Attempt: 2}
	full.Fault, full.LastError, full.LastRefusal = "host_unreachable", "host h1 is unreachable",
		"manage: not possible while cleaning"
	full.Remedy = "start the host's worker"
	full.Steps = []contract.CleanStep{{Step: "zero", Priority: 70, Interface: "deploy"},
		{Step: "verify", Priority: 60, Interface: "deploy"}}
	full.Cleans = []contract.CleanSummary{{Number: 6, Outcome: "failed", Fault: "verify_failed", RunTime: 90 * time.Second,
		StartedAt: clock, EndedAt: clock}}
	full.UpdatedAt = clock.Add(-90 * time.Minute)
	bare := in("d1", device.Manageable)
	bare.Hostname, bare.Type, bare.UpdatedAt = "h1", "FAKE", clock.Add(-5*time.Second)
	return []contract.DeviceStatus{full, bare}
}

// The output of every format, compared with files.
//
// S2.82, S3.32
func TestGolden(t *testing.T) {

	devices := map[string]contract.DeviceStatus{}
	var found []client.Execution
	for _, v := range exampleDevices() {
		devices[v.Name] = v
		v.Progress = nil // a listing has none
		found = append(found, running(v))
	}
	l := &fakeClient{
		onList: func(string) ([]client.Execution, error) { return found, nil },
		onDescribe: func(name string) (client.Execution, error) {
			e := running(devices[name])
			if p := devices[name].Progress; p != nil {
				beat := &contract.Progress{Step: "zero", Offset: p.Done, Size: p.Total, Waiting: p.Waiting}
				e.Pending = map[string]client.Pending{"zero": {Started: true, Attempt: p.Attempt, Progress: beat}}
			}
			return e, nil
		},
	}
	devices["p1"] = withHistory()
	l.onQuery = func(_ context.Context, name string) (contract.DeviceStatus, error) { return devices[name], nil }
	for name, args := range map[string][]string{
		"list.table":      {"list"},
		"list.json":       {"list", "-o", "json"},
		"show.table":      {"show", "h1_0000:01:00.0"},
		"show.json":       {"show", "h1_0000:01:00.0", "-o", "json"},
		"show.yaml":       {"show", "h1_0000:01:00.0", "-o", "yaml"},
		"show-bare.table": {"show", "d1"},
		"show-bare.json":  {"show", "d1", "-o", "json"},
		"history.table":   {"history", "p1"},
		"history.json":    {"history", "p1", "-o", "json"},
		"history.yaml":    {"history", "p1", "-o", "yaml"},
	} {
		t.Run(name, func(t *testing.T) {
			got := burnish(t, l, "", args...)
			require.Equal(t, exitOK, got.code, got.errors)
			file := filepath.Join("testdata", "golden", name)
			if *update {
				require.NoError(t, os.WriteFile(file, []byte(got.out), 0o600))
			}
			want, err := os.ReadFile(file)
			require.NoError(t, err)
			require.Equal(t, string(want), got.out)
		})
	}
}

func TestAgeAndSize(t *testing.T) {
	for d, want := range map[time.Duration]string{
		-time.Second: "0s", 59 * time.Second: "59s", time.Minute: "1m", 90 * time.Minute: "1h", 47 * time.Hour: "47h",
		49 * time.Hour: "2d",
	} {
		require.Equal(t, want, age(clock, clock.Add(-d)))
	}
	require.Empty(t, age(clock, time.Time{}))
	for n, want := range map[int64]string{0: "0 B", 1023: "1023 B", 1536: "1.5 KiB", 3 << 40: "3.0 TiB"} {
		require.Equal(t, want, size(n))
	}
}

// The format of an error follows -o, even if the rest of the command line cannot be
// parsed.
func TestFormatOf(t *testing.T) {
	for _, tt := range []struct {
		args []string
		want format
	}{
		{[]string{"list", "--bogus"}, formatTable},
		{[]string{"list", "--bogus", "-o", "json"}, formatJSON},
		{[]string{"list", "--bogus", "-ojson"}, formatJSON},
		{[]string{"list", "--bogus", "-o=yaml"}, formatYAML},
		{[]string{"list", "--bogus", "--output=yaml"}, formatYAML},
		{[]string{"list", "--bogus", "--output", "json"}, formatJSON},
		{[]string{"list", "--bogus", "-o"}, formatTable},
		{[]string{"list", "--bogus", "-o", "xml"}, formatTable},
		{[]string{"list", "--", "-o", "json"}, formatTable},
	} {
		require.Equal(t, tt.want, formatOf(tt.args, formatTable), tt.args)
	}
	got := burnish(t, nil, "", "list", "--bogus", "-o", "json")
	require.Equal(t, exitUsage, got.code)
	require.JSONEq(t,
		`{"error":{"code":"invalid","device":"","state":"","message":"unknown flag: --bogus","remedy":"see burnish list --help"}}`, got.errors)
	got = burnish(t, nil, "", "list", "--bogus", "-o", "yaml")
	require.True(t, bytes.HasPrefix([]byte(got.errors), []byte("error:\n  code: invalid\n")), got.errors)
}
