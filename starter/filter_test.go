package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

const base = "WorkflowType = 'DeviceLifecycle' AND ExecutionStatus = 'Running'"

func TestQuery(t *testing.T) {
	const living = " AND DeviceState IN ('unknown', 'manageable', 'available', 'allocated', 'pending_cleaning', 'cleaning', 'error')"
	for name, tt := range map[string]struct {
		filter filter
		want   string
	}{
		"retired are hidden":        {filter{}, base + living},
		"unless all are requested":  {filter{all: true}, base},
		"or their state is named":   {filter{states: []string{"retired"}}, base + " AND DeviceState = 'retired'"},
		"needs operator":            {filter{all: true, needsOperator: true}, base + " AND NeedsOperator = true"},
		"awaits cleaning":           {filter{all: true, awaitingCleaning: true}, base + " AND (DeviceState = 'pending_cleaning' OR (DeviceState = 'error' AND DeviceDirty = true))"},
		"values cannot break out":   {filter{all: true, host: "x' OR DeviceState = 'error"}, base + ` AND DeviceHost STARTS_WITH 'x'`},
		"nor by the escape itself":  {filter{all: true, fault: `x\' OR 1=1 --`}, base + ` AND DeviceFault STARTS_WITH 'x'`},
		"nor by the other quote":    {filter{all: true, kind: `a"b`}, base + ` AND DeviceType STARTS_WITH 'A'`},
		"nor by ending the literal": {filter{all: true, fault: "x\\"}, base + ` AND DeviceFault STARTS_WITH 'x'`},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, tt.want, tt.filter.query().Query())
		})
	}
}

// An empty listing is a list, not null.
func TestAnEmptyListingIsAList(t *testing.T) {
	require.NotNil(t, (&filter{}).keep(nil))
}
