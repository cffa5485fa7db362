package clean_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"burnish/internal/clean"
	"burnish/internal/device"
)

// can gives capabilities by three letters: c crypto, b block, w write zeroes.
func can(letters string) device.Capabilities {
	return device.Capabilities{
		CryptoErase: strings.Contains(letters, "c"), BlockErase: strings.Contains(letters, "b"),
		WriteZeroes: strings.Contains(letters, "w"),
	}
}

// everyDevice is each of the eight combinations of capabilities.
var everyDevice = []string{"", "c", "b", "w", "cb", "cw", "bw", "cbw"}

// TestTheMatrix is the policy matrix written out: for every action, strategy and
// device the operation that is locked in; "" is a policy that the device cannot satisfy.
//
// S2.8, S2.9, S2.16, S2.17, S2.18, S2.19, S2.20, S2.21, S2.22
func TestTheMatrix(t *testing.T) {
	const (
		ces = device.CryptoErase
		bes = device.BlockErase
		wzs = device.WriteZeroes
		shr = device.Shred
	)
	for _, tt := range []struct {
		action, strategy string
		want             [8]device.Operation // as everyDevice
	}{
		//                                           -    c    b    w    cb   cw   bw   cbw
		{"auto", "auto", [8]device.Operation{shr, ces, bes, wzs, ces, ces, bes, ces}},   // S2.16
		{"auto", "crypto", [8]device.Operation{"", ces, "", "", ces, ces, "", ces}},     // S2.17
		{"auto", "block", [8]device.Operation{shr, shr, bes, wzs, bes, wzs, bes, bes}},  // S2.18
		{"sanitize", "auto", [8]device.Operation{"", ces, bes, "", ces, ces, bes, ces}}, // S2.19
		{"sanitize", "crypto", [8]device.Operation{"", ces, "", "", ces, ces, "", ces}}, // S2.20
		{"sanitize", "block", [8]device.Operation{"", "", bes, "", bes, "", bes, bes}},  // S2.21
		{"zero", "auto", [8]device.Operation{shr, shr, shr, wzs, shr, wzs, wzs, wzs}},   // S2.22
		{"zero", "block", [8]device.Operation{shr, shr, shr, wzs, shr, wzs, wzs, wzs}},  // S2.22
		{"", "", [8]device.Operation{shr, ces, bes, wzs, ces, ces, bes, ces}},           // S2.8, S2.9: what is not given is auto
		{"", "block", [8]device.Operation{shr, shr, bes, wzs, bes, wzs, bes, bes}},      // S2.8: the strategy alone
		{"sanitize", "", [8]device.Operation{"", ces, bes, "", ces, ces, bes, ces}},     // S2.9: the action alone
	} {
		t.Run(fmt.Sprintf("action=%s strategy=%s", tt.action, tt.strategy), func(t *testing.T) {
			policy := clean.ErasePolicy{Action: clean.Action(tt.action), Strategy: clean.Strategy(tt.strategy)}
			require.NoError(t, policy.Validate())
			for i, letters := range everyDevice {
				for _, manages := range []bool{false, true} {
					capabilities := can(letters)
					capabilities.ManageNamespaces = manages
					got, fault := policy.Resolve(capabilities)
					require.Equal(t, tt.want[i], got, "a device with %q", letters)
					if tt.want[i] != "" {
						require.Nil(t, fault)
						continue
					}
					require.Equal(t, device.CodePolicyUnsatisfied, fault.Code)
					require.Equal(t, device.NeedsOperator, fault.Class)
					require.NotEmpty(t, fault.Remedy)
				}
			}
		})
	}
}

// TestTheReasonSaysWhatIsMissing, in one line, with the register's bit.
//
// S2.25
func TestTheReasonSaysWhatIsMissing(t *testing.T) {
	for policy, want := range map[clean.ErasePolicy]string{
		{Strategy: "crypto"}: "the policy clear_action=auto clear_strategy=crypto needs crypto " +
			"erase (SANICAP bit 0), which the device does not support",
		{Action: "sanitize"}: "the policy clear_action=sanitize clear_strategy=auto needs crypto " +
			"erase (SANICAP bit 0) or block erase (SANICAP bit 1), which the device does not support",
		{Action: "sanitize", Strategy: "block"}: "the policy clear_action=sanitize clear_strategy=block needs block " +
			"erase (SANICAP bit 1), which the device does not support",
		{Action: "sanitize", Strategy: "crypto"}: "the policy clear_action=sanitize clear_strategy=crypto needs crypto " +
			"erase (SANICAP bit 0), which the device does not support",
		{Action: "sanitize", Strategy: "polish"}: `clear_strategy: "polish" is not one of auto, crypto, block`,
		{Action: "zero", Strategy: "crypto"}: "clear_strategy: crypto is impossible with clear_action zero: want " +
			"one of auto, block",
		{Action: "burn\nit", Strategy: "whatever"}: `clear_action: "burn\nit" is not one of auto, sanitize, zero`,
	} {
		t.Run(want, func(t *testing.T) {
			operation, fault := policy.Resolve(can("w"))
			require.Empty(t, operation)
			require.Equal(t, want, fault.Message)
		})
	}
}

// TestInvalidPoliciesAreRefused, when they are loaded and when they are used,
// whatever the device can do.
//
// S2.23
func TestInvalidPoliciesAreRefused(t *testing.T) {
	for name, tt := range map[string]struct {
		policy clean.ErasePolicy
		key    string
	}{
		"zero and crypto":           {clean.ErasePolicy{Action: "zero", Strategy: "crypto"}, "clear_strategy"},
		"no such action":            {clean.ErasePolicy{Action: "shred"}, "clear_action"},
		"exact spelling":            {clean.ErasePolicy{Action: "Auto"}, "clear_action"},
		"no such strategy":          {clean.ErasePolicy{Strategy: "overwrite"}, "clear_strategy"},
		"a strategy is no action":   {clean.ErasePolicy{Action: "crypto"}, "clear_action"},
		"an action is no strategy":  {clean.ErasePolicy{Action: "zero", Strategy: "sanitize"}, "clear_strategy"},
		"both: the action is named": {clean.ErasePolicy{Action: "x", Strategy: "y"}, "clear_action"},
		"spaces are not cut off":    {clean.ErasePolicy{Strategy: "block "}, "clear_strategy"},
		"nothing but a line's end":  {clean.ErasePolicy{Action: "\n"}, "clear_action"},
		"a misspelled action":       {clean.ErasePolicy{Action: "sanitizes", Strategy: "crypto"}, "clear_action"},
	} {
		t.Run(name, func(t *testing.T) {
			err := tt.policy.Validate()
			var wrong *clean.PolicyError
			require.ErrorAs(t, err, &wrong)
			require.Equal(t, tt.key, wrong.Key)
			require.NotContains(t, err.Error(), "\n")
			for _, letters := range everyDevice {
				operation, fault := tt.policy.Resolve(can(letters))
				require.Empty(t, operation)
				require.Equal(t, device.CodeInvalidSetting, fault.Code)
				require.Equal(t, err.Error(), fault.Message)
			}
			_, err = clean.NewPlanner(catalog(), clean.Policy{NVMe: tt.policy})
			require.ErrorContains(t, err, "policy: nvme: "+tt.key+": ")
		})
	}
}

// An entry of device_spec comes before the policy for all devices, each key by itself. A pair
// whose halves stand in two places may still be contradictory.
//
// S2.105
func TestAnEntrysPolicyComesFirst(t *testing.T) {
	all := device.Capabilities{CryptoErase: true, BlockErase: true, WriteZeroes: true}
	for name, tt := range map[string]struct {
		global           clean.ErasePolicy
		action, strategy string
		want             device.Operation
		code             device.Code
	}{
		"nothing of its own":     {clean.ErasePolicy{Action: clean.ActionZero}, "", "", device.WriteZeroes, ""},
		"both":                   {clean.ErasePolicy{Action: clean.ActionZero}, "sanitize", "block", device.BlockErase, ""},
		"its action":             {clean.ErasePolicy{Strategy: clean.StrategyBlock}, "sanitize", "", device.BlockErase, ""},
		"its strategy":           {clean.ErasePolicy{Action: clean.ActionSanitize}, "", "block", device.BlockErase, ""},
		"auto is a choice too":   {clean.ErasePolicy{Action: clean.ActionZero, Strategy: clean.StrategyBlock}, "auto", "auto", device.CryptoErase, ""},
		"contradictory together": {clean.ErasePolicy{Strategy: clean.StrategyCrypto}, "zero", "", "", device.CodeInvalidSetting},
		"the other way round":    {clean.ErasePolicy{Action: clean.ActionZero}, "", "crypto", "", device.CodeInvalidSetting},
	} {
		got, fault := tt.global.For(tt.action, tt.strategy).Resolve(all)
		require.Equal(t, tt.want, got, name)
		if tt.code != "" {
			require.Equal(t, tt.code, fault.Code, name)
			require.Contains(t, fault.Remedy, "host.yaml")
			continue
		}
		require.Nil(t, fault, name)
	}
}
