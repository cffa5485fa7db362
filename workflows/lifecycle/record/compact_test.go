package record_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"burnish/internal/device"
	"burnish/workflows/contract"
	"burnish/workflows/lifecycle/record"
)

// A state that is compacted has the same content, in less memory.
func TestCompactChangesNoContent(t *testing.T) {
	s := contract.DeviceState{Host: contract.DiscoveryResult{Steps: map[string]int{"zero": 1, "verify": 2}}, Steps: []contract.CleanStep{{Step: "zero"}}}
	for i := range contract.KeptUpdates {
		s.Recent = append(s.Recent, contract.RecentUpdate{ID: fmt.Sprint("update-", i)})
	}
	for i := range contract.KeptBindings {
		s.History = append(s.History, device.Binding{Number: i, Instance: fmt.Sprint("vm-", i), Request: fmt.Sprint("update-", i), Ended: "moved"})
	}
	text, err := json.Marshal(s)
	require.NoError(t, err)
	decode := func() *contract.DeviceState {
		var s contract.DeviceState
		require.NoError(t, json.Unmarshal(text, &s))
		record.Compact(&s)
		return &s
	}
	one, other := decode(), decode()
	again, err := json.Marshal(one)
	require.NoError(t, err)
	require.Equal(t, string(text), string(again))
	require.Less(t, cap(one.Recent), contract.KeptUpdates+4, "no free room but what the allocator adds")
	require.Same(t, unsafe.StringData(one.Recent[3].ID), unsafe.StringData(one.History[3].Request), "a string is kept once")

	one.Host.Steps["zero"] = 7 // nothing does this; it shows that the map is shared
	require.Equal(t, 7, other.Host.Steps["zero"])
	one.Host.Steps["zero"] = 1
	other.Host.Steps = map[string]int{"zero": 1, "verify": 3}
	record.Compact(other)
	require.Equal(t, map[string]int{"zero": 1, "verify": 2}, one.Host.Steps)

	empty := contract.DeviceState{}
	record.Compact(&empty)
	require.Equal(t, contract.DeviceState{}, empty)
}
