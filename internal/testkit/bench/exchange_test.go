package main

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
)

// Each request is repeated, but for those that were refused, and the looks whose answers changed before the
// next other request: they only waited.
func TestTheRequestsThatAStepTakes(t *testing.T) {
	read := func(uri, answer string) exchange {
		return exchange{method: http.MethodGet, uri: uri, status: http.StatusOK, answer: []byte(answer)}
	}
	post := exchange{method: http.MethodPost, uri: "/p", status: http.StatusAccepted}
	refused := post
	refused.status = http.StatusConflict
	require.Equal(t, []neededExchange{
		{read("/b", "1"), false}, {read("/a", "3"), true}, {read("/b", "1"), false}, {read("/a", "3"), true},
		{post, false}, {read("/a", "4"), false}, {read("/b", "1"), false}, {read("/b", "1"), false},
	}, needed([]exchange{
		read("/a", "1"), read("/b", "1"), read("/a", "2"), read("/a", "3"), read("/b", "1"), read("/a", "3"), post,
		read("/a", "4"), read("/b", "1"), refused, read("/b", "1"),
	}))
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
