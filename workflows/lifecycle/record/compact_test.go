package record_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"burnish/workflows/contract"
	"burnish/workflows/lifecycle/record"
)

// A state that is compacted has the same content, in less memory.
func TestCompactChangesNoContent(t *testing.T) {
	s := contract.DeviceState{Host: contract.DiscoveryResult{Steps: map[string]int{"zero": 1, "verify": 2}}}
	for i := range 5 {
		s.Steps = append(s.Steps, contract.CleanStep{Step: fmt.Sprint("step-", i)})
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
	require.Less(t, cap(one.Steps), 8, "no free room but what the allocator adds")

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
