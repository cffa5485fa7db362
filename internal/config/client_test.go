package config_test

import (
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"burnish/internal/config"
	"burnish/internal/device"
)

func TestDialFaults(t *testing.T) {
	mute, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, mute.Close()) })

	for name, tt := range map[string]struct {
		env     map[string]string
		code    device.Code
		message string
		remedy  string
	}{
		"no server listens": {
			env:     map[string]string{"TEMPORAL_ADDRESS": "127.0.0.1:1"},
			code:    device.CodeUnreachable,
			message: "Temporal at 127.0.0.1:1 does not answer",
			remedy:  "TEMPORAL_ADDRESS",
		},
		"a server that never answers": {
			env:     map[string]string{"TEMPORAL_ADDRESS": mute.Addr().String()},
			code:    device.CodeUnreachable,
			message: "Temporal at " + mute.Addr().String() + " does not answer",
			remedy:  "TEMPORAL_ADDRESS",
		},
		"a missing certificate": {
			env:     map[string]string{"TEMPORAL_TLS_CLIENT_CERT_PATH": "/no/such.pem", "TEMPORAL_TLS_CLIENT_KEY_PATH": "/no/such.key"},
			code:    device.CodeInvalidSetting,
			message: "/no/such.pem",
			remedy:  "TEMPORAL_",
		},
		"a missing profile": {
			env:     map[string]string{"TEMPORAL_PROFILE": "elsewhere"},
			code:    device.CodeInvalidSetting,
			message: "elsewhere",
			remedy:  "profile file",
		},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "temporal.toml")
			require.NoError(t, os.WriteFile(file, nil, 0o600))
			t.Setenv("TEMPORAL_CONFIG_FILE", file)
			for k, v := range tt.env {
				t.Setenv(k, v)
			}
			began := time.Now()
			_, err := config.Dial(t.Context(), slog.New(slog.DiscardHandler), "")
			require.Less(t, time.Since(began), 30*time.Second, "it waits without an end")
			fault, ok := device.AsFault(err)
			require.True(t, ok, "%v", err)
			require.Equal(t, tt.code, fault.Code)
			require.Contains(t, fault.Message, tt.message)
			require.Contains(t, fault.Remedy, tt.remedy)
			require.False(t, strings.ContainsAny(fault.Error(), "\n\t"), "one line: %q", fault.Error())
		})
	}
}
