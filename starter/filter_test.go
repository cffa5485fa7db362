package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"burnish/internal/device"
)

const base = "WorkflowType = 'DeviceLifecycle' AND ExecutionStatus = 'Running'"

func TestQuery(t *testing.T) {
	const living = " AND DeviceState IN ('unknown', 'manageable', 'available', 'allocated', 'pending_cleaning', 'cleaning', 'error')"
	for name, tt := range map[string]struct {
		filter filter
		want   string
	}{
		"retired are hidden":        {filter{}, base + living},
		"unless all are asked for":  {filter{all: true}, base},
		"or their state is named":   {filter{states: []string{"retired"}}, base + " AND DeviceState IN ('retired')"},
		"needs operator":            {filter{all: true, needsOperator: true}, base + " AND NeedsOperator = true"},
		"awaits cleaning":           {filter{all: true, awaitingCleaning: true}, base + " AND (DeviceState = 'pending_cleaning' OR (DeviceState = 'error' AND DeviceDirty = true))"},
		"values cannot break out":   {filter{all: true, host: "x' OR DeviceState = 'error"}, base + ` AND DeviceHost = 'x\' or devicestate = \'error'`},
		"nor by the escape itself":  {filter{all: true, fault: `x\' OR 1=1 --`}, base + ` AND DeviceFault = 'x\\\' OR 1=1 --'`},
		"nor by the other quote":    {filter{all: true, kind: `a"b`}, base + ` AND DeviceType = 'A"B'`},
		"nor by ending the literal": {filter{all: true, fault: `x\`}, base + ` AND DeviceFault = 'x\\'`},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, tt.want, tt.filter.query())
		})
	}
}

// A device that continued as new between two pages is listed once, as its newer run
// tells it; the listing is sorted by name.
func TestKeep(t *testing.T) {
	older, newer, other := running(in("b", device.Cleaning)), running(in("b", device.Available)), running(in("a", device.Error))
	newer.started = clock.Add(time.Second)
	views := (&filter{}).keep([]execution{newer, older, other})
	require.Len(t, views, 2)
	require.Equal(t, "a", views[0].Name)
	require.Equal(t, device.Available, views[1].DeviceState)
	require.NotNil(t, (&filter{}).keep(nil), "an empty listing is a list, not null")
}
