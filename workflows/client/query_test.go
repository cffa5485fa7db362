package client

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/temporalio/sqlparser"
	commonpb "go.temporal.io/api/common/v1"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/sdk/converter"

	"burnish/internal/device"
	"burnish/workflows/contract"
)

const allRunning = "WorkflowType = 'DeviceLifecycle' AND ExecutionStatus = 'Running'"

// parse reads a query as Temporal's server does.
func parse(t testing.TB, query string) sqlparser.Expr {
	t.Helper()
	statement, err := sqlparser.Parse("select * from dummy where " + query)
	require.NoError(t, err, query)
	selects, ok := statement.(*sqlparser.Select)
	require.True(t, ok, query)
	return selects.Where.Expr
}

// comparison is the only comparison of a query.
func comparison(t testing.TB, query string) (operator, value string) {
	t.Helper()
	c, ok := parse(t, query).(*sqlparser.ComparisonExpr)
	require.True(t, ok, query)
	v, ok := c.Right.(*sqlparser.SQLVal)
	require.True(t, ok, query)
	require.Equal(t, sqlparser.StrVal, v.Type)
	return c.Operator, string(v.Val)
}

var oddValues = []string{
	"", "S1", "it's", `ends in \`, `\`, `\'`, `a\'b`, `'`, `''`, "a\x00b", "tab\t", "new\nline", `"quoted"`, "%_!", "ü",
	"\xff", "a\xff\xfeb",
	`' OR DeviceState = 'available`, `\' OR DeviceState = 'available`,
}

func FuzzLiteral(f *testing.F) {
	for _, s := range oddValues {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		_, value := comparison(t, "DeviceSerial = "+literal(s))
		require.Equal(t, stored(s), value)
	})
}

// What the server compares never leaves out a device that the filter selects.
func FuzzSerial(f *testing.F) {
	for _, s := range oddValues {
		f.Add(s, "other")
	}
	f.Fuzz(func(t *testing.T, s, other string) {
		filter := Filter{BySerial: {s}}
		require.True(t, filter.Selects(&contract.DeviceStatus{Serial: stored(s)}))
		require.Equal(t, stored(other) == stored(s), filter.Selects(&contract.DeviceStatus{Serial: stored(other)}))
		term := anyOf("DeviceSerial", []string{s})
		if term == "" {
			return
		}
		operator, value := comparison(t, term)
		require.False(t, strings.ContainsAny(value, `'"\`), "the server would not compare %q as it is", value)
		if operator == "=" {
			require.Equal(t, stored(s), value)
		} else {
			require.Equal(t, "starts_with", operator)
			require.True(t, strings.HasPrefix(stored(s), value))
		}
	})
}

func TestQuery(t *testing.T) {
	for name, tt := range map[string]struct {
		filter Filter
		want   string
	}{
		"all":                       {Filter{}, ""},
		"states":                    {Filter{ByState: {"error", "cleaning"}}, " AND DeviceState IN ('error', 'cleaning')"},
		"one state":                 {Filter{ByState: {"error"}}, " AND DeviceState = 'error'"},
		"all but one state":         {Filter{ByState: InService()}, " AND DeviceState != 'retired'"},
		"a serial with a quote":     {Filter{BySerial: {"it's"}}, " AND DeviceSerial STARTS_WITH 'it'"},
		"a serial with a backslash": {Filter{BySerial: {`S1\`}}, " AND DeviceSerial STARTS_WITH 'S1'"},
		"a serial of a backslash":   {Filter{BySerial: {`\`}}, ""},
		"a host and instances": {Filter{ByHost: {"h1"}, ByInstance: {"i1", "i2"}},
			" AND DeviceHost = 'h1' AND InstanceId IN ('i1', 'i2')"},
		"one of two is odd": {Filter{ByHost: {"h1", `h\2`}}, " AND (DeviceHost STARTS_WITH 'h' OR DeviceHost = 'h1')"},
		"what needs an operator": {Filter{ByNeedsOperator: {"true"}, ByFault: {"io_error"}, ByType: {"NVME"}},
			" AND DeviceType = 'NVME' AND DeviceFault = 'io_error' AND NeedsOperator = true"},
		"what needs none": {Filter{ByNeedsOperator: {"false"}}, ""},
		"what awaits cleaning": {Filter{ByAwaitingCleaning: {"true"}},
			" AND (DeviceState = 'pending_cleaning' OR (DeviceState = 'error' AND DeviceDirty = true))"},
		"a UUID": {Filter{ByUUID: {"4a5a9b08-408c-5181-be08-814d9a2d83c6"}},
			" AND DeviceUuid = '4a5a9b08-408c-5181-be08-814d9a2d83c6'"},
		"names": {Filter{ByName: {"a", "b"}}, " AND WorkflowId IN ('device/a', 'device/b')"},
		"what Temporal does not compare": {Filter{ByModel: {"M"}, ByVendor: {"V"}, ByStatus: {"enabled"}, ByLabel: {"a"},
			ByOneTimeUse: {"true"}}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, allRunning+tt.want, tt.filter.Query())
			parse(t, tt.filter.Query())
		})
	}
}

// Whatever Temporal finds is compared once more, by every field.
func TestEachFieldIsCompared(t *testing.T) {
	instance := "i1"
	v := &contract.DeviceStatus{UUID: "u1", Type: "NVME", Vendor: "V", Model: "M", Hostname: "h1",
		Status: device.Maintaining, DeviceState: device.Error, Name: "d1", Serial: "S1", InstanceUUID: &instance,
		Fault: "io_error", Labels: map[string]string{"rack": "a1"}, NeedsOperator: true, Dirty: true, OneTimeUse: true}
	for by, has := range map[*Field]string{ByUUID: "u1", ByType: "NVME", ByVendor: "V", ByModel: "M", ByHost: "h1",
		ByStatus: "maintaining", ByState: "error", ByName: "d1", BySerial: "S1", ByInstance: "i1", ByFault: "io_error",
		ByLabel: "rack=a1", ByNeedsOperator: "true", ByAwaitingCleaning: "true", ByOneTimeUse: "true"} {
		require.Contains(t, Fields, by)
		require.True(t, Filter{by: {has}}.Selects(v), by.Name)
		require.Equal(t, by != ByLabel, Filter{by: {"other", has}}.Selects(v), "%s: labels must all match", by.Name)
		none := "other"
		if by.Bool() {
			none = "false"
		}
		require.False(t, Filter{by: {none}}.Selects(v), by.Name)
	}
	require.Len(t, Fields, 15)
	require.True(t, Filter{ByHost: nil}.Selects(v))
}

// run is a running device as the server lists it.
func run(t *testing.T, name, serial string, state device.State) *workflowpb.WorkflowExecutionInfo {
	t.Helper()
	fields := map[string]*commonpb.Payload{}
	for key, value := range map[string]string{contract.AttrSerial.GetName(): serial,
		contract.AttrState.GetName(): string(state)} {
		p, err := converter.GetDefaultDataConverter().ToPayload(value)
		require.NoError(t, err)
		fields[key] = p
	}
	return &workflowpb.WorkflowExecutionInfo{
		Execution:        &commonpb.WorkflowExecution{WorkflowId: contract.WorkflowID(name)},
		SearchAttributes: &commonpb.SearchAttributes{IndexedFields: fields},
	}
}
