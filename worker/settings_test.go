package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// Wrong settings end a worker of any role with exit code 2 and the variable's name, before
// it contacts a server (there is none) or polls.
//
// S0.12
func TestWrongSettingsEndEveryRoleFirst(t *testing.T) {
	for name, tt := range map[string]struct{ value, says string }{
		"VERIFY":    {"half", `BURNISH_VERIFY: "half" is neither full nor sample:N`},
		"DRIVERS":   {"block,typo", `BURNISH_DRIVERS: there is no driver "typo"`},
		"INVENTORY": {"typo", `BURNISH_INVENTORY: "typo" is not one of file, placement`},
	} {
		for _, role := range []string{"control", "host", "all"} {
			t.Run(name+" "+role, func(t *testing.T) {
				t.Setenv("TEMPORAL_ADDRESS", "127.0.0.1:1")
				t.Setenv("BURNISH_STATE_DIR", t.TempDir())
				t.Setenv("BURNISH_ROLE", role)
				t.Setenv("BURNISH_"+name, tt.value)
				err := run(nil)
				require.ErrorContains(t, err, tt.says)
				require.ErrorAs(t, err, new(usageError))
			})
		}
	}
	// A host's worker does not read the file, and gets as far as the settings of its server.
	const nowhere = "/no/such.pem"
	t.Setenv("TEMPORAL_TLS_CLIENT_CERT_PATH", nowhere)
	t.Setenv("TEMPORAL_TLS_CLIENT_KEY_PATH", "/no/such.key")
	for role, says := range map[string]string{"control": "BURNISH_ONEVIEW", "all": "BURNISH_ONEVIEW: open /nowhere",
		"host": nowhere} {
		t.Run("no oneview.yaml "+role, func(t *testing.T) {
			t.Setenv("TEMPORAL_ADDRESS", "127.0.0.1:1")
			t.Setenv("BURNISH_STATE_DIR", t.TempDir())
			t.Setenv("BURNISH_ROLE", role)
			t.Setenv("BURNISH_ONEVIEW", "/nowhere/oneview.yaml")
			require.ErrorContains(t, run(nil), says)
		})
	}
	// Only control workers need the API's key; no other user may read it.
	key := filepath.Join(t.TempDir(), "api.key")
	require.NoError(t, os.WriteFile(key, make([]byte, 32), 0o600))
	require.NoError(t, os.Chmod(key, 0o644))
	for role, says := range map[string]string{"control": "BURNISH_API_KEY: " + key + " may be read by others",
		"all": "chmod 0600", "host": nowhere} {
		t.Run("a key that others may read "+role, func(t *testing.T) {
			t.Setenv("TEMPORAL_ADDRESS", "127.0.0.1:1")
			t.Setenv("BURNISH_STATE_DIR", t.TempDir())
			t.Setenv("BURNISH_ROLE", role)
			t.Setenv("BURNISH_API_KEY", key)
			require.ErrorContains(t, run(nil), says)
		})
	}
	// So does the metadata service.
	for role, says := range map[string]string{"control": "BURNISH_METADATA_SECRET_FILE: " + key + " may be read by others",
		"all": "chmod 0600", "host": nowhere} {
		t.Run("a secret that others may read "+role, func(t *testing.T) {
			t.Setenv("TEMPORAL_ADDRESS", "127.0.0.1:1")
			t.Setenv("BURNISH_STATE_DIR", t.TempDir())
			t.Setenv("BURNISH_ROLE", role)
			t.Setenv("BURNISH_METADATA_ADDRESS", "127.0.0.1:18775")
			t.Setenv("BURNISH_METADATA_SECRET_FILE", key)
			require.ErrorContains(t, run(nil), says)
		})
	}
	t.Run("a broker without Placement", func(t *testing.T) {
		t.Setenv("TEMPORAL_ADDRESS", "127.0.0.1:1")
		t.Setenv("BURNISH_STATE_DIR", t.TempDir())
		t.Setenv("BURNISH_AMQP_URL", "amqp://h1")
		err := run(nil)
		require.ErrorContains(t, err, "set BURNISH_INVENTORY=placement")
		require.ErrorAs(t, err, new(usageError))
	})
}
