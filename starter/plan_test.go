package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestThePlanOfEveryPolicy: action, strategy and namespaces against the
// registers of a device; "" is exit code 1 and no output.
//
// S2.95
func TestThePlanOfEveryPolicy(t *testing.T) {
	const (
		sanitize    = `["sanitize","verify"]`
		remade      = `["sanitize","consolidate_namespaces","verify"]`
		zero        = `["zero","verify"]`
		consolidate = `["consolidate_namespaces","zero","verify"]`
	)
	for _, tt := range []struct {
		name                string
		sanicap, oncs, oacs int
		flags               []string
		operation, steps    string
	}{
		{"S2.16 all", 3, 8, 8, nil, "crypto_erase", sanitize},
		{"S2.16 no crypto", 2, 8, 8, nil, "block_erase", sanitize},
		{"S2.16 no sanitize", 0, 8, 8, nil, "write_zeroes", zero},
		{"S2.16 nothing", 0, 0, 0, nil, "shred", zero},
		{"S2.17", 3, 8, 8, []string{"--strategy", "crypto"}, "crypto_erase", sanitize},
		{"S2.17 no crypto", 2, 8, 8, []string{"--strategy", "crypto"}, "", ""},
		{"S2.18", 3, 8, 8, []string{"--strategy", "block"}, "block_erase", sanitize},
		{"S2.18 no block erase", 1, 8, 8, []string{"--strategy", "block"}, "write_zeroes", zero},
		{"S2.19", 3, 8, 8, []string{"--action", "sanitize"}, "crypto_erase", sanitize},
		{"S2.19 no sanitize", 0, 8, 8, []string{"--action", "sanitize"}, "", ""},
		{"S2.20", 3, 8, 8, []string{"--action", "sanitize", "--strategy", "crypto"}, "crypto_erase", sanitize},
		{"S2.21", 3, 8, 8, []string{"--action", "sanitize", "--strategy", "block"}, "block_erase", sanitize},
		{"S2.21 no block erase", 1, 8, 8, []string{"--action", "sanitize", "--strategy", "block"}, "", ""},
		{"S2.22", 3, 8, 8, []string{"--action", "zero"}, "write_zeroes", zero},
		{"S2.22 no write zeroes", 3, 0, 8, []string{"--action", "zero", "--strategy", "block"}, "shred", zero},
		{"S2.23", 3, 8, 8, []string{"--action", "zero", "--strategy", "crypto"}, "", ""},
		{"S2.57 two namespaces", 3, 8, 8, []string{"--action", "zero", "--namespaces", "2"}, "write_zeroes", consolidate},
		{"S2.57 two, without OACS bit 3", 3, 8, 0, []string{"--action", "zero", "--namespaces", "2"}, "write_zeroes", zero},
		{"S2.53 two, sanitized", 3, 8, 8, []string{"--namespaces", "2"}, "crypto_erase", sanitize},
		{"F17 none, sanitized", 3, 8, 8, []string{"--namespaces", "0"}, "crypto_erase", remade},
		{"F17 none, zeroed", 0, 8, 8, []string{"--namespaces", "0"}, "write_zeroes", consolidate},
		{"F17 none, without OACS bit 3", 0, 8, 0, []string{"--namespaces", "0"}, "", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			identify := fmt.Sprintf(`{"sanicap":%d,"oncs":%d,"oacs":%d}`, tt.sanicap, tt.oncs, tt.oacs)
			got := burnish(t, nil, identify, append([]string{"plan", "--identify", "-", "-o", "json"}, tt.flags...)...)
			if tt.operation == "" {
				require.Equal(t, exitFailed, got.code)
				require.Empty(t, got.out)
				return
			}
			require.Equal(t, exitOK, got.code, got.errors)
			var keys map[string]json.RawMessage
			require.NoError(t, json.Unmarshal([]byte(got.out), &keys))
			require.Len(t, keys, 3)
			require.JSONEq(t, `"`+tt.operation+`"`, string(keys["operation"]))
			require.JSONEq(t, tt.steps, string(keys["steps"]))
			var traits []string
			require.NoError(t, json.Unmarshal(keys["traits"], &traits))
			require.NotNil(t, traits, "a list, also where it is empty")
			require.Len(t, traits, tt.sanicap&1+tt.sanicap>>1&1+tt.oncs>>3&1, "S2.15: whatever the policy")
		})
	}
}

// TestThePlansOfRealDevices.
func TestThePlansOfRealDevices(t *testing.T) {
	for file, want := range map[string]string{
		"id-ctrl-samsung-980pro.json":        `{"operation":"shred","steps":["zero","verify"],"traits":[]}`,
		"id-ctrl-solidigm-sbfpf2bu153t.json": `{"operation":"crypto_erase","steps":["sanitize","verify"],"traits":["HW_NVME_CES","HW_NVME_BES","HW_NVME_WZS"]}`,
		"id-ctrl-qemu-2.3.json":              `{"operation":"write_zeroes","steps":["zero","verify"],"traits":["HW_NVME_WZS"]}`,
	} {
		t.Run(file, func(t *testing.T) {
			path := filepath.Join("..", "internal", "hardware", "nvme", "nvmecli", "testdata", file)
			_, err := os.Stat(path)
			require.NoError(t, err)
			got := burnish(t, nil, "", "plan", "--identify", path, "-o", "json")
			require.Equal(t, exitOK, got.code, got.errors)
			require.JSONEq(t, want, got.out)
		})
	}
}
