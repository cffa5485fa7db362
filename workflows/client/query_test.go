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
		filter := Filter{Serials: []string{s}}
		require.True(t, filter.Selects(contract.DeviceStatus{Serial: stored(s)}))
		require.Equal(t, stored(other) == stored(s), filter.Selects(contract.DeviceStatus{Serial: stored(other)}))
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
		"states":                    {Filter{States: []device.State{device.Error, device.Cleaning}}, " AND DeviceState IN ('error', 'cleaning')"},
		"one state":                 {Filter{States: []device.State{device.Error}}, " AND DeviceState = 'error'"},
		"a serial":                  {Filter{Serials: []string{"S1"}, NotState: device.Retired}, " AND DeviceState != 'retired' AND DeviceSerial = 'S1'"},
		"a serial with a quote":     {Filter{Serials: []string{"it's"}}, " AND DeviceSerial STARTS_WITH 'it'"},
		"a serial with a backslash": {Filter{Serials: []string{`S1\`}}, " AND DeviceSerial STARTS_WITH 'S1'"},
		"a serial of a backslash":   {Filter{Serials: []string{`\`}}, ""},
		"hosts and instances":       {Filter{Hosts: []string{"h1"}, Instances: []string{"i1", "i2"}}, " AND DeviceHost = 'h1' AND InstanceId IN ('i1', 'i2')"},
		"hosts or instances":        {Filter{Hosts: []string{"h1"}, Instances: []string{"i1", "i2"}, HostsOrInstances: true}, " AND (DeviceHost = 'h1' OR InstanceId IN ('i1', 'i2'))"},
		"hosts, no instances":       {Filter{Hosts: []string{"h1", "h2"}, HostsOrInstances: true}, " AND DeviceHost IN ('h1', 'h2')"},
		"one of two is odd":         {Filter{Hosts: []string{"h1", `h\2`}}, " AND (DeviceHost STARTS_WITH 'h' OR DeviceHost = 'h1')"},
		"what needs an operator":    {Filter{NeedsOperator: true, Faults: []string{"io_error"}, Types: []string{"NVME"}}, " AND DeviceType = 'NVME' AND DeviceFault = 'io_error' AND NeedsOperator = true"},
		"what awaits cleaning":      {Filter{AwaitingCleaning: true}, " AND (DeviceState = 'pending_cleaning' OR (DeviceState = 'error' AND DeviceDirty = true))"},
		"a UUID":                    {Filter{UUID: "4a5a9b08-408c-5181-be08-814d9a2d83c6"}, " AND DeviceUuid = '4a5a9b08-408c-5181-be08-814d9a2d83c6'"},
		"names":                     {Filter{Names: []string{"a", "b"}}, " AND WorkflowId IN ('device/a', 'device/b')"},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, allRunning+tt.want, tt.filter.Query())
			parse(t, tt.filter.Query())
		})
	}
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
