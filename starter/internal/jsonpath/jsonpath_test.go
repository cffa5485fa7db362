package jsonpath

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTemplates(t *testing.T) {
	type device struct {
		Name  string   `json:"name"`
		State string   `json:"device_state"`
		Size  int64    `json:"size_bytes"`
		Dirty bool     `json:"dirty"`
		Steps []string `json:"steps,omitempty"`
	}
	list := map[string][]device{"devices": {
		{Name: "d1", State: "error", Size: 512110190592, Dirty: true, Steps: []string{"zero", "verify"}},
		{Name: "d2\x1b[31m\u202e", State: "available"},
	}}
	for template, want := range map[string]string{
		"{.devices[*].name}": "d1 d2?[31m?\n",
		".devices[*].name":   "d1 d2?[31m?\n",
		"devices[0].name":    "d1\n",
		`{range .devices[*]}{.name}{"\t"}{.device_state}{"\n"}{end}`: "d1\terror\nd2?[31m?\tavailable\n",
		`{.devices[?(@.device_state=="error")].name}`:                "d1\n",
		"{.devices[?(@.dirty==true)].name}":                          "d1\n",
		"{.devices[0].steps}":                                        `["zero","verify"]` + "\n",
		"{.devices[-1:].device_state}":                               "available\n",
		"{.devices[0].nothing}":                                      "\n",
		"{.devices[1].steps[*]}":                                     "\n",
		"{.devices[0].size_bytes}":                                   "512110190592\n",
		"{@.devices[0].name}":                                        "d1\n",
	} {
		parsed, err := Parse(template)
		require.NoError(t, err, template)
		var b strings.Builder
		require.NoError(t, parsed.Print(&b, list), template)
		require.Equal(t, want, b.String(), template)
	}
	for _, bad := range []string{"", "{.devices[*", "{.devices[x]}"} {
		_, err := Parse(bad)
		require.Error(t, err, bad)
	}
}
