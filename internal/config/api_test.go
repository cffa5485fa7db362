package config_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"burnish/internal/config"
)

func TestTheAPIsSettingsAreCheckedTogether(t *testing.T) {
	for name, tt := range map[string]struct {
		variables map[string]string
		says      string // "": they are right
	}{
		"loopback":              {map[string]string{"API_ADDRESS": "127.0.0.1:8080"}, ""},
		"loopback by name":      {map[string]string{"API_ADDRESS": "localhost:8080"}, ""},
		"loopback of IPv6":      {map[string]string{"API_ADDRESS": "[::1]:8080"}, ""},
		"a name like localhost": {map[string]string{"API_ADDRESS": "localhost.example.org:8080"}, "BURNISH_API_ADDRESS: "},
		"everywhere, TLS":       {map[string]string{"API_ADDRESS": ":8080", "API_TLS_CERT": "/c", "API_TLS_KEY": "/k"}, ""},
		"loopback, TLS":         {map[string]string{"API_ADDRESS": "127.0.0.1:8080", "API_TLS_CERT": "/c", "API_TLS_KEY": "/k"}, ""},
		"no key":                {map[string]string{"API_ADDRESS": ":8080", "API_TLS_CERT": "/c"}, "BURNISH_API_TLS_CERT: it and BURNISH_API_TLS_KEY belong together"},
		"no certificate":        {map[string]string{"API_ADDRESS": ":8080", "API_TLS_KEY": "/k"}, "BURNISH_API_TLS_CERT: it and BURNISH_API_TLS_KEY belong together"},
		"a socket, TLS":         {map[string]string{"API_ADDRESS": "unix:/s", "API_TLS_CERT": "/c", "API_TLS_KEY": "/k"}, "BURNISH_API_TLS_CERT: a unix socket has no TLS"},
	} {
		t.Run(name, func(t *testing.T) {
			only(t, tt.variables)
			_, err := config.LoadWorker()
			if tt.says == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, tt.says)
			require.NotContains(t, err.Error(), "\n", "one line")
		})
	}
}
