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
	for _, c := range []struct {
		same     bool
		one, two string
	}{
		{true, `{"LastResetTime": "10:00", "PowerState": "On"}`, `{"LastResetTime": "11:00", "PowerState": "On"}`},
		{true, `{"@odata.etag": "1", "PowerState": "On"}`, `{"PowerState": "On"}`},
		{true, `{"@odata.etag": "\"5b\"", "PowerState": "On"}`, `{"@odata.etag": "\"7c\"", "PowerState": "On"}`},
		{false, `{"LastResetTime": "10:00", "PowerState": "On"}`, `{"LastResetTime": "10:00", "PowerState": "Off"}`},
		{true, `{"Members": [{"PercentComplete": 3, "TaskState": "Running"}]}`,
			`{"Members": [{"PercentComplete": 40, "TaskState": "Running"}]}`},
		{true, `{"PercentComplete": null, "TaskState": "Running"}`, `{"PercentComplete": 40, "TaskState": "Running"}`},
		{false, `{"PercentComplete": 3, "TaskState": "Running"}`, `{"PercentComplete": 100, "TaskState": "Completed"}`},
		{true, "", ""},
	} {
		require.Equal(t, c.same, sameState([]byte(c.one), []byte(c.two)), "%s, %s", c.one, c.two)
	}
}
