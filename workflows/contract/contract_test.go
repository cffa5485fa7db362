package contract_test

import (
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/temporal"

	"burnish/internal/device"
	"burnish/workflows/contract"
)

var update = flag.Bool("update", false, "write testdata/fields.txt")

// TestNothingIsRenamed compares the messages with testdata/fields.txt, which lists every
// field that running workflows and their callers know. Lines may be added; a line that
// is removed breaks them.
func TestNothingIsRenamed(t *testing.T) {
	have := map[string]bool{}
	for _, root := range []any{
		contract.DeviceInput{}, contract.EnrollInput{}, contract.BindInput{}, contract.UnbindInput{},
		contract.CleanInput{}, contract.ReasonInput{}, contract.TenantInput{}, contract.RetireInput{}, contract.MaintenanceInput{}, contract.OverrideInput{}, contract.Result{}, contract.Hint{},
		contract.StepInput{}, contract.StepAnswer{}, contract.StepResult{}, contract.DiscoverInput{}, contract.DiscoveryResult{}, contract.ReservationRequest{},
		device.Inventory{}, contract.PreviousRun{}, contract.Refusal{}, contract.DeviceStatus{}, contract.StatusMemo{}, contract.Progress{},
		contract.HostScanInput{}, contract.ScanRequest{}, contract.ScanInput{}, contract.ScanResult{},
		contract.InventoryReconcileInput{}, contract.ReconcileRequest{}, contract.ReconcileInput{}, contract.ReconcileResult{},
		contract.CandidatesInput{}, contract.Candidates{}, contract.CleanPlan{}, contract.ServersInput{}, contract.Servers{},
		contract.OneViewInput{}, contract.LookRequest{}, contract.PollPageInput{}, contract.PollPageResult{},
	} {
		fields(reflect.TypeOf(root), have)
	}
	lines := slices.Sorted(maps.Keys(have))
	if *update {
		require.NoError(t, os.WriteFile("testdata/fields.txt", []byte(strings.Join(lines, "\n")+"\n"), 0o600))
	}
	text, err := os.ReadFile("testdata/fields.txt")
	require.NoError(t, err)
	known := strings.Split(strings.TrimSpace(string(text)), "\n")
	for _, line := range known {
		require.True(t, have[line], "%q is gone: it was renamed, or its type changed", line)
	}
	for _, line := range lines {
		require.Regexp(t, `^\w+\.[a-z][a-z_]* `, line, "it has a name in JSON")
		require.Contains(t, known, line, "%q is new: add it with `go test ./workflows/contract -update`", line)
	}
}

// fields collects a struct's fields as `Type.json_name kind`, and those of the
// structs that it holds.
func fields(t reflect.Type, into map[string]bool) {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice || t.Kind() == reflect.Map {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct || t.PkgPath() == "time" {
		return
	}
	for _, f := range reflect.VisibleFields(t) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if !f.Anonymous { // JSON shows its fields as those of the struct
			into[fmt.Sprintf("%s.%s %s", t.Name(), name, f.Type)] = true
		}
		fields(f.Type, into)
	}
}

// Scripts and other programs compute these names themselves.
func TestNamesOthersCompute(t *testing.T) {
	require.Equal(t, "device/h1_0000:01:00.0", contract.WorkflowID("h1_0000:01:00.0"))
	require.Equal(t, "burnish-host.node-7", contract.HostQueue("Node-7"))
	require.Equal(t, "burnish", contract.Queue)
	require.Equal(t, "DeviceLifecycle", contract.WorkflowDeviceLifecycle)
	// uuid5(NAMESPACE_URL, "burnish:device:" + name)
	require.Equal(t, "4a5a9b08-408c-5181-be08-814d9a2d83c6", contract.DeviceUUID("h1_0000:01:00.0"))
	require.NotEqual(t, contract.DeviceUUID("a"), contract.DeviceUUID("b"))
	require.Equal(t, "clean", contract.SignalClean, "any Temporal client sends it")
}

func TestRefusalOf(t *testing.T) {
	want := contract.Refusal{
		Fault:  device.Fault{Class: device.Permanent, Code: device.CodeRefused, Message: "no", Remedy: "wait"},
		Device: "d", State: device.Cleaning,
	}
	for name, tt := range map[string]struct {
		err  error
		want contract.Refusal
		ok   bool
	}{
		"a refusal":     {temporal.NewApplicationError("no", "refused", want), want, true},
		"wrapped":       {fmt.Errorf("update: %w", temporal.NewApplicationError("no", "refused", want)), want, true},
		"no detail":     {temporal.NewApplicationError("broken", "internal"), contract.Refusal{Fault: device.Fault{Class: device.Permanent, Code: "internal", Message: "broken"}}, true},
		"an empty one":  {temporal.NewApplicationError("broken", "internal", contract.Refusal{}), contract.Refusal{Fault: device.Fault{Class: device.Permanent, Code: "internal", Message: "broken"}}, true},
		"another error": {errors.New("elsewhere"), contract.Refusal{}, false},
		"none":          {nil, contract.Refusal{}, false},
	} {
		t.Run(name, func(t *testing.T) {
			got, ok := contract.RefusalOf(tt.err)
			require.Equal(t, tt.ok, ok)
			require.Equal(t, tt.want, got)
		})
	}
}

// Queries, dashboards and the server's own list use these names.
func TestAttributesAreKnownByTheirNames(t *testing.T) {
	for want, got := range map[string]string{
		"DeviceState": contract.AttrState.GetName(), "DeviceUuid": contract.AttrUUID.GetName(),
		"DeviceSerial": contract.AttrSerial.GetName(),
		"DeviceType":   contract.AttrType.GetName(), "DeviceHost": contract.AttrHost.GetName(),
		"InstanceId": contract.AttrInstance.GetName(),
		"CleanStep":  contract.AttrStep.GetName(), "DeviceFault": contract.AttrFault.GetName(),
		"NeedsOperator": contract.AttrNeedsOperator.GetName(),
	} {
		require.Equal(t, want, got)
	}
	require.Contains(t, contract.QueryStuck, contract.AttrNeedsOperator.GetName()+" = true")
	require.Contains(t, contract.QueryStuck, `"`+contract.WorkflowDeviceLifecycle+`"`)
}
