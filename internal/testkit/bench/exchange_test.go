package main

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
)

// A URI that was read again and again is read once, where it was read last.
func TestTheLastReadOfEachURI(t *testing.T) {
	read := func(uri, answer string) exchange {
		return exchange{method: http.MethodGet, uri: uri, answer: []byte(answer)}
	}
	require.Equal(t, []lastRead{{read("/b", "1"), 1}, {read("/a", "3"), 3}, {read("/c", "1"), 1}},
		lastReads([]exchange{read("/a", "1"), read("/b", "1"), read("/a", "2"), read("/a", "3"), read("/c", "1")}))
}

// What differs from BMC to BMC and from look to look is no other state.
func TestStatesAreComparedWithoutTimes(t *testing.T) {
	one := `{"PowerState": "On", "LastResetTime": "10:00", "BootProgress": {"LastState": "OSRunning", "LastStateTime": "1"}, "@odata.etag": "1"}`
	require.True(t, sameState([]byte(one), []byte(`{"BootProgress": {"LastState": "OSRunning"}, "PowerState": "On", "LastResetTime": "11:00"}`)))
	require.False(t, sameState([]byte(one), []byte(`{"BootProgress": {"LastState": "MemoryInitializationStarted"}, "PowerState": "On"}`)))
	require.True(t, sameState([]byte(`{"Members": [{"TaskState": "Running", "PercentComplete": 3}]}`), []byte(`{"Members": [{"TaskState": "Running", "PercentComplete": 40}]}`)))
	require.False(t, sameState([]byte(`{"TaskState": "Running"}`), []byte(`{"TaskState": "Completed"}`)))
	require.True(t, sameState(nil, nil))
}
