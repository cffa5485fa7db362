package config_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"burnish/internal/clean"
	"burnish/internal/config"
	"burnish/internal/device"
)

// A key that is left out of the policy has its default: auto, in the erase policy.
//
// S2.8, S2.9, S3.38, D13
func TestThePolicyOfAFile(t *testing.T) {
	for name, tt := range map[string]struct {
		text string
		want clean.Policy
	}{
		"nothing":             {"", clean.Policy{}},
		"a remark":            {"# nothing yet\n", clean.Policy{}},
		"empty sections":      {"priorities:\nnvme:\n", clean.Policy{}},
		"one priority":        {"priorities:\n  zero: 5\n", clean.Policy{Priorities: map[string]float64{"zero": 5}}},
		"fractions and none":  {"priorities: {zero: 5.25, pci_reset: 0}\n", clean.Policy{Priorities: map[string]float64{"zero": 5.25, "pci_reset": 0}}},
		"a document's mark":   {"---\npriorities: {zero: 5}\n", clean.Policy{Priorities: map[string]float64{"zero": 5}}},
		"another phase":       {"phases: {firmware_reflash: prepare}\n", clean.Policy{Phases: map[string]clean.Phase{"firmware_reflash": clean.Prepare}}},
		"the action":          {"nvme:\n  clear_action: zero\n", clean.Policy{NVMe: clean.ErasePolicy{Action: clean.ActionZero}}},
		"the strategy":        {"nvme: {clear_strategy: crypto}\n", clean.Policy{NVMe: clean.ErasePolicy{Strategy: clean.StrategyCrypto}}},
		"both":                {"nvme: {clear_action: sanitize, clear_strategy: block}\n", clean.Policy{NVMe: clean.ErasePolicy{Action: clean.ActionSanitize, Strategy: clean.StrategyBlock}}},
		"both, auto":          {"nvme: {clear_action: auto, clear_strategy: auto}\n", clean.Policy{NVMe: clean.ErasePolicy{Action: clean.ActionAuto, Strategy: clean.StrategyAuto}}},
		"in quotes":           {"nvme: {clear_action: \"zero\"}\n", clean.Policy{NVMe: clean.ErasePolicy{Action: clean.ActionZero}}},
		"no limits":           {"limits:\n", clean.Policy{Limits: &device.Limits{}}},
		"a number of devices": {"limits: {free_capacity: 25}\n", clean.Policy{Limits: &device.Limits{FreeCapacity: device.Capacity{Devices: 25}}}},
		"all limits": {"limits:\n  concurrent_cleans: 50\n  per_host: 2\n  free_capacity: 10%\n  breaker: 3\n  canary: true\n",
			clean.Policy{Limits: &device.Limits{ConcurrentCleans: 50, PerHost: 2, FreeCapacity: device.Capacity{Percent: 10}, Breaker: 3, Canary: true}}},
	} {
		t.Run(name, func(t *testing.T) {
			w, err := loadPolicy(t, tt.text)
			require.NoError(t, err)
			tt.want.Automated, tt.want.OnEnroll, tt.want.HostSilentAfter = true, true, 5*time.Minute
			tt.want.StepSettings = w.Policy.StepSettings
			require.Equal(t, tt.want, w.Policy)
		})
	}
}

// mistake is a policy with which no clean is planned: its error has the line and says why.
type mistake struct{ text, line, says string }

// refused loads policies with mistakes, in each role.
func refused(t *testing.T, policies map[string]mistake) {
	t.Helper()
	for name, tt := range policies {
		t.Run(name, func(t *testing.T) {
			for _, role := range []string{"control", "host", "all"} {
				_, err := loadPolicyAs(t, role, tt.text)
				require.Error(t, err)
				require.True(t, strings.HasPrefix(err.Error(), "BURNISH_POLICY: "), err.Error())
				require.ErrorContains(t, err, "policy.yaml: ")
				require.ErrorContains(t, err, tt.line)
				require.ErrorContains(t, err, tt.says)
				require.NotContains(t, err.Error(), "\n", "one line")
			}
		})
	}
}

// S2.23, S3.38
func TestAMistakeInAPolicyIsRefusedAtItsLine(t *testing.T) {
	refused(t, map[string]mistake{
		"zero and crypto":           {"nvme:\n  clear_action: zero\n  clear_strategy: crypto\n", "line 3: ", "clear_strategy: crypto is impossible with clear_action zero: want one of auto, block"},
		"no such action":            {"# remark\nnvme:\n  clear_action: shred\n", "line 3: ", `clear_action: "shred" is not one of auto, sanitize, zero`},
		"no such strategy":          {"nvme: {clear_strategy: overwrite}\n", "line 1: ", `clear_strategy: "overwrite" is not one of auto, crypto, block`},
		"no such key":               {"nvme:\n  clear_acton: zero\n", "line 2: ", `unknown key "clear_acton" in nvme: must be one of clear_action, clear_strategy, sanitize_stall`},
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
		"an unknown key":            {"# remark\nprio: {zero: 5}\n", "line 2: ", `unknown key "prio" in the policy: must be one of priorities, nvme, wear`},
		"words":                     {"priorities:\n  zero: five\n", "line 2: ", "the priority of zero must be a number, not text"},
		"yes or no":                 {"priorities:\n  zero: true\n", "line 2: ", "must be a number, not true or false"},
		"no priority":               {"priorities:\n  zero: 5\n  wear_check:\n  x: 6\n", "line 3: ", "wear_check has no priority"},
		"null, policy":              {"priorities: {wear_check: null}\n", "line 1: ", "wear_check has no priority"},
		"a list of all":             {"- priorities\n", "line 1: ", "the policy must be a mapping, not a list"},
		"a word":                    {"priorities\n", "line 1: ", "the policy must be a mapping, not text"},
		"out of range":              {"priorities:\n  zero: 1e400\n", "line 2: ", "must be a number"},
		"zero":                      {"limits:\n  concurrent_cleans: 0\n", "line 2: ", `concurrent_cleans: "0" is not a positive number`},
		"text":                      {"limits:\n  per_host: few\n", "line 2: ", `per_host: "few" is not a positive number`},
		"too much":                  {"limits:\n  free_capacity: 101%\n", "line 2: ", "free_capacity: \"101%\" is more than 100%"},
		"no such step":              {"priorities: {polish: 5}\n", "", `there is no step "polish"`},
		"no erase":                  {"priorities: {zero: 0}\n", "", "cannot be switched off"},
		"the same priority":         {"priorities: {zero: 80}\n", "", "both have priority 80"},
		"a negative priority":       {"priorities: {wear_check: -1}\n", "", "is negative"},
		"a phase by number":         {"phases:\n  firmware_reflash: 1\n", "line 2: ", "the phase of firmware_reflash must be text"},
	})
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

func loadPolicy(t *testing.T, text string) (config.Worker, error) {
	t.Helper()
	return loadPolicyAs(t, "all", text)
}

func loadPolicyAs(t *testing.T, role, text string) (config.Worker, error) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "policy.yaml")
	require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	only(t, map[string]string{"POLICY": file, "ROLE": role})
	return config.LoadWorker()
}
