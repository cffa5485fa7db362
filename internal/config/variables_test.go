package config_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"log/slog"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"burnish/internal/config"
	"burnish/internal/device"
)

// A variable of Temporal's that cannot be used is an error that names it and its file, before
// a server is contacted.
func TestUnusableTemporalVariables(t *testing.T) {
	dir := t.TempDir()
	write := func(name, content string) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
		return path
	}
	cert, key := keyPair(t)
	_, otherKey := keyPair(t)
	certFile, keyFile, otherFile := write("cert.pem", cert), write("key.pem", key), write("other.pem", otherKey)
	empty, missing := write("empty.pem", ""), filepath.Join(dir, "missing.pem")
	broken := write("broken.toml", "[profile")
	const authority, clientCert, clientKey = "TEMPORAL_TLS_SERVER_CA_CERT_PATH", "TEMPORAL_TLS_CLIENT_CERT_PATH",
		"TEMPORAL_TLS_CLIENT_KEY_PATH"

	for name, tt := range map[string]struct {
		env  map[string]string
		says []string // none: the variables are fine, and the server is looked for
	}{
		"no authority's file":           {map[string]string{authority: missing}, []string{authority + "=" + missing, "no such file"}},
		"an authority's folder":         {map[string]string{authority: dir}, []string{authority + "=" + dir, "is a directory"}},
		"an empty authority":            {map[string]string{authority: empty}, []string{authority + "=" + empty, "no certificate in PEM"}},
		"an authority as data":          {map[string]string{"TEMPORAL_TLS_SERVER_CA_CERT_DATA": "x"}, []string{"TEMPORAL_TLS_SERVER_CA_CERT_DATA: it holds no certificate"}},
		"an authority twice":            {map[string]string{authority: certFile, "TEMPORAL_TLS_SERVER_CA_CERT_DATA": cert}, []string{authority, "exclude each other"}},
		"no certificate's file":         {map[string]string{clientCert: missing, clientKey: keyFile}, []string{clientCert + "=" + missing, "no such file"}},
		"no key's file":                 {map[string]string{clientCert: certFile, clientKey: missing}, []string{clientKey + "=" + missing, "no such file"}},
		"a certificate alone":           {map[string]string{clientCert: certFile}, []string{"TEMPORAL_TLS_CLIENT_CERT_", "nothing its key", clientKey}},
		"a key alone":                   {map[string]string{clientKey: keyFile}, []string{"TEMPORAL_TLS_CLIENT_KEY_", "nothing its certificate", clientCert}},
		"another one's key":             {map[string]string{clientCert: certFile, clientKey: otherFile}, []string{clientCert + "=" + certFile, clientKey + "=" + otherFile, "private key does not match"}},
		"TLS maybe":                     {map[string]string{"TEMPORAL_TLS": "maybe"}, []string{"TEMPORAL_TLS=maybe: must be true or false"}},
		"no verification, yes":          {map[string]string{"TEMPORAL_TLS_DISABLE_HOST_VERIFICATION": "yes"}, []string{"TEMPORAL_TLS_DISABLE_HOST_VERIFICATION=yes: must be true or false"}},
		"a key of two lines":            {map[string]string{"TEMPORAL_API_KEY": "a\nb"}, []string{"TEMPORAL_API_KEY holds a line break"}},
		"a variable of an older client": {map[string]string{"TEMPORAL_TLS_CA": certFile}, []string{"TEMPORAL_TLS_CA is no variable", authority}},
		"no such profile":               {map[string]string{"TEMPORAL_PROFILE": "prod"}, []string{"TEMPORAL_PROFILE=prod", "no such profile"}},
		"no profile file":               {map[string]string{"TEMPORAL_CONFIG_FILE": missing}, []string{"TEMPORAL_CONFIG_FILE=" + missing + ": no such file"}},
		"a broken file":                 {map[string]string{"TEMPORAL_CONFIG_FILE": broken}, []string{"TEMPORAL_CONFIG_FILE=" + broken}},
		"all well":                      {map[string]string{authority: certFile, clientCert: certFile, clientKey: keyFile}, nil},
		"files that are not read":       {map[string]string{"TEMPORAL_TLS": "false", authority: missing}, nil},
		"all empty":                     {map[string]string{"TEMPORAL_TLS": "", authority: "", "TEMPORAL_API_KEY": ""}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("TEMPORAL_ADDRESS", "127.0.0.1:1") // nothing listens there
			t.Setenv("TEMPORAL_CONFIG_FILE", empty)
			for variable, value := range tt.env {
				t.Setenv(variable, value)
			}
			_, err := config.Dial(t.Context(), slog.New(slog.DiscardHandler), "")
			fault, ok := device.AsFault(err)
			require.True(t, ok, err)
			require.NotContains(t, fault.Error(), "\n")
			if tt.says == nil {
				require.Equal(t, device.CodeUnreachable, fault.Code, fault)
				return
			}
			require.Equal(t, device.CodeInvalidSetting, fault.Code, fault)
			for _, text := range tt.says {
				require.Contains(t, fault.Error(), text)
			}
			require.NotContains(t, strings.ToLower(fault.Error()), "private key-")
		})
	}
}

// keyPair makes a certificate and its key, in PEM.
func keyPair(t *testing.T) (cert, key string) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	require.NoError(t, err)
	keyDER, err := x509.MarshalECPrivateKey(private)
	require.NoError(t, err)
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})),
		string(pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: keyDER}))
}
