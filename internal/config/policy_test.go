package config_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"burnish/internal/clean"
)

// A key that is left out of the erase policy is auto.
//
// S2.8, S2.9
func TestTheErasePolicyOfAFile(t *testing.T) {
	for name, tt := range map[string]struct {
		text string
		want clean.ErasePolicy
	}{
		"nothing":          {"", clean.ErasePolicy{}},
		"an empty section": {"nvme:\n", clean.ErasePolicy{}},
		"the action":       {"nvme:\n  clear_action: zero\n", clean.ErasePolicy{Action: clean.ActionZero}},
		"the strategy":     {"nvme: {clear_strategy: crypto}\n", clean.ErasePolicy{Strategy: clean.StrategyCrypto}},
		"both":             {"nvme: {clear_action: sanitize, clear_strategy: block}\n", clean.ErasePolicy{Action: clean.ActionSanitize, Strategy: clean.StrategyBlock}},
		"both, auto":       {"nvme: {clear_action: auto, clear_strategy: auto}\n", clean.ErasePolicy{Action: clean.ActionAuto, Strategy: clean.StrategyAuto}},
		"in quotes":        {"nvme: {clear_action: \"zero\"}\n", clean.ErasePolicy{Action: clean.ActionZero}},
	} {
		t.Run(name, func(t *testing.T) {
			w, err := loadPolicy(t, tt.text)
			require.NoError(t, err)
			require.Equal(t, tt.want, w.Policy.NVMe)
			require.Empty(t, w.Policy.Priorities)
		})
	}
}

// The error of an invalid erase policy names its line.
//
// S2.23
func TestInvalidErasePolicyIsRefusedAtLoad(t *testing.T) {
	for name, tt := range map[string]struct{ text, line, says string }{
		"zero and crypto":           {"nvme:\n  clear_action: zero\n  clear_strategy: crypto\n", "line 3: ", "clear_strategy: crypto is impossible with clear_action zero: want one of auto, block"},
		"no such action":            {"# remark\nnvme:\n  clear_action: shred\n", "line 3: ", `clear_action: "shred" is not one of auto, sanitize, zero`},
		"no such strategy":          {"nvme: {clear_strategy: overwrite}\n", "line 1: ", `clear_strategy: "overwrite" is not one of auto, crypto, block`},
		"no such key":               {"nvme:\n  clear_acton: zero\n", "line 2: ", `unknown key "clear_acton" in nvme: must be one of clear_action, clear_strategy, sanitize_stall`},
		"a key twice":               {"nvme:\n  clear_action: zero\n  clear_action: auto\n", "line 3: ", "already defined"},
		"text instead of a mapping": {"nvme: zero\n", "line 1: ", "nvme must be a mapping, not text"},
		"a list":                    {"nvme:\n  clear_action: [zero]\n", "line 2: ", "clear_action must be text, not a list"},
		"an empty action":           {"nvme:\n  clear_action:\n", "line 2: ", "clear_action has no value; leave it out for auto"},
		"an empty strategy":         {"nvme:\n  clear_strategy: \"\"\n", "line 2: ", "clear_strategy has no value"},
		"null":                      {"nvme: {clear_action: null}\n", "line 1: ", "clear_action has no value"},
		"not a duration":            {"nvme:\n  sanitize_stall: soon\n", "line 2: ", `sanitize_stall: "soon" is not a positive duration such as 10m`},
		"a stall of zero":           {"nvme:\n  sanitize_stall: 0s\n", "line 2: ", "is not a positive duration"},
		"an empty stall":            {"nvme:\n  sanitize_stall:\n", "line 2: ", "leave it out for 10m"},
		"wear over 255":             {"wear:\n  percent_used: 256\n", "line 2: ", "percent_used: 256 is not within 1 to 255 percent"},
		"wear of zero":              {"wear: {percent_used: 0}\n", "line 1: ", "is not within 1 to 255"},
		"spare over 100":            {"wear:\n  avail_spare: 101\n", "line 2: ", "avail_spare: 101 is not within 1 to 100 percent"},
		"an empty limit":            {"wear:\n  avail_spare:\n", "line 2: ", "avail_spare has no value; leave it out for the drive's own limit"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := loadPolicy(t, tt.text)
			require.Error(t, err)
			require.True(t, strings.HasPrefix(err.Error(), "BURNISH_POLICY: "), err.Error())
			require.ErrorContains(t, err, "policy.yaml: "+tt.line)
			require.ErrorContains(t, err, tt.says)
			require.NotContains(t, err.Error(), "\n", "one line")
		})
	}
}

// D13
func TestAStepCanBeMovedToAnotherPhase(t *testing.T) {
	w, err := loadPolicy(t, "phases: {firmware_reflash: prepare}\n")
	require.NoError(t, err)
	require.Equal(t, map[string]clean.Phase{"firmware_reflash": clean.Prepare}, w.Policy.Phases)
	_, err = loadPolicy(t, "phases:\n  firmware_reflash: 1\n")
	require.ErrorContains(t, err, "line 2: the phase of firmware_reflash must be text")
}

// All errors of a policy are reported at once, each with its line.
func TestEachErrorOfAPolicyHasItsLine(t *testing.T) {
	_, err := loadPolicy(t, "priorities:\n  zero:\n  verify:\nnvme:\n  clear_action: zero\n  clear_strategy: crypto\n")
	require.Error(t, err)
	lines := strings.Split(err.Error(), "\n")
	require.Len(t, lines, 3)
	for i, want := range []string{"zero has no priority", "verify has no priority",
		"line 6: clear_strategy: crypto is impossible"} {
		require.True(t, strings.HasPrefix(lines[i], "BURNISH_POLICY: "), lines[i])
		require.Contains(t, lines[i], want)
	}
}
