package config_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"burnish/internal/device"
)

func TestTheModelsOfAPolicy(t *testing.T) {
	w, err := loadPolicy(t, `
models:
- {model: "1AF4:1110", memory: bar 2 size 16MiB}
- {model: "10de:20b5", memory: script gpu, reset: forbid bus pm}
- {model: "15b3:1017", memory: none, reset: require flr}
firmware:
- {model: "15b3:1017", from: ["1"], to: "1", image: /srv/fw.bin, sha256: `+digest+`, rewrite: always}
`)
	require.NoError(t, err)
	require.Equal(t, []device.Model{
		{ID: "1af4:1110", Memory: device.Memory{BAR: 2, Size: 16 << 20}},
		{ID: "10de:20b5", Memory: device.Memory{Script: "gpu"}, Reset: device.ResetRule{Forbid: []string{"bus", "pm"}}},
		{ID: "15b3:1017", Memory: device.Memory{None: true}, Reset: device.ResetRule{Require: "flr"}},
	}, w.Policy.Models)
	require.Equal(t, "always", w.Policy.Firmware[0].Rewrite)
}

func TestModelsThatAreRefused(t *testing.T) {
	for entry, says := range map[string]string{
		`{memory: none}`:                                                         "needs the key model",
		`{model: "1af4:1110"}`:                                                   "needs the key memory",
		`{model: "1af4", memory: none}`:                                          "is not vendor:device",
		`{model: "1af4:1110", memory: all}`:                                      "is none of: bar N size S",
		`{model: "1af4:1110", memory: bar 2}`:                                    "is none of: bar N size S",
		`{model: "1af4:1110", memory: bar 6 size 16MiB}`:                         "is not the number of a BAR",
		`{model: "1af4:1110", memory: bar 2 size 16MB}`:                          "is not a valid size",
		`{model: "1af4:1110", memory: bar 2 size 511}`:                           "is not a multiple of 4096",
		`{model: "1af4:1110", memory: none, reset: require hammer}`:              "there is no way",
		`{model: "1af4:1110", memory: none, reset: bus}`:                         "write require WAY",
		`{model: "1af4:1110", memory: none, reset: require bus flr}`:             "write require WAY",
		`{model: "1af4:1110", memory: none}, {model: "1AF4:1110", memory: none}`: "a second entry",
		`{model: "1af4:1110", memory: none, bar: 2}`:                             `unknown key "bar"`,
	} {
		_, err := loadPolicy(t, "models: ["+entry+"]\n")
		require.ErrorContains(t, err, says, entry)
	}
	_, err := loadPolicy(t, `firmware: [{model: m, from: ["1"], to: "1", image: /x, sha256: `+digest+`, rewrite: never}]`)
	require.ErrorContains(t, err, `rewrite: "never" is not always`)
}
