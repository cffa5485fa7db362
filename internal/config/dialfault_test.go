package config_test

import (
	"crypto/tls"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"burnish/internal/config"
	"burnish/internal/device"
	"burnish/internal/testkit/frontend"
)

// listen answers each connection as serve does.
func listen(t *testing.T, serve func(net.Conn)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, l.Close()) })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return // the test is over
			}
			go serve(c)
		}
	}()
	return l.Addr().String()
}

// What keeps a client from its server is named, with the variable to change.
func TestDialFaults(t *testing.T) {
	later := time.Now().Add(time.Hour)
	plain := frontend.Serve(t, nil)
	own, authority := frontend.Certificate(t, "127.0.0.1", later)
	secret := frontend.Serve(t, own)
	other, otherAuthority := frontend.Certificate(t, "temporal.example", later)
	named := frontend.Serve(t, other)
	old, oldAuthority := frontend.Certificate(t, "127.0.0.1", time.Now().Add(-time.Minute))
	expired := frontend.Serve(t, old)
	mutual := own.Clone()
	mutual.ClientAuth = tls.RequireAnyClientCert
	strict := frontend.Serve(t, mutual)
	web := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(web.Close)
	secretWeb := httptest.NewTLSServer(http.NotFoundHandler())
	t.Cleanup(secretWeb.Close)
	mute := listen(t, func(c net.Conn) { _, _ = io.Copy(io.Discard, c) })
	closing := listen(t, func(c net.Conn) { _ = c.Close() })
	talker := listen(t, func(c net.Conn) {
		_, _ = io.WriteString(c, "220 mail.example ESMTP\r\n")
		_, _ = io.Copy(io.Discard, c)
	})

	at := func(address string) map[string]string { return map[string]string{"TEMPORAL_ADDRESS": address} }
	with := func(address string, pairs ...string) map[string]string {
		env := at(address)
		for i := 0; i < len(pairs); i += 2 {
			env[pairs[i]] = pairs[i+1]
		}
		return env
	}
	for name, tt := range map[string]struct {
		env     map[string]string
		code    device.Code // unreachable, if it is none
		says    string      // after the address
		message string      // or of no address
		remedy  string
	}{
		"no server listens":              {env: at("127.0.0.1:1"), says: "does not answer: dial tcp 127.0.0.1:1: connect: connection refused", remedy: "start it, or set TEMPORAL_ADDRESS"},
		"a server that never answers":    {env: at(mute), says: "does not answer: ", remedy: "start it, or set TEMPORAL_ADDRESS"},
		"a name that does not resolve":   {env: at("temporal.invalid:7233"), says: "cannot be reached: the name temporal.invalid ", remedy: "set TEMPORAL_ADDRESS, or correct the name service"},
		"an address without a port":      {env: at("127.0.0.1"), says: "cannot be reached: this is no address (missing port in address)", remedy: "set TEMPORAL_ADDRESS to HOST:PORT"},
		"TLS against plain":              {env: with(plain, "TEMPORAL_TLS", "true"), says: "does not speak TLS, which these settings ask for", remedy: "unset TEMPORAL_TLS and the TEMPORAL_TLS_ variables, or set TEMPORAL_ADDRESS"},
		"an API key against plain":       {env: with(plain, "TEMPORAL_API_KEY", "k"), says: "does not speak TLS, which these settings ask for", remedy: "set TEMPORAL_TLS=false, because TEMPORAL_API_KEY turns TLS on, or set TEMPORAL_ADDRESS"},
		"plain against TLS":              {env: at(secret), says: "speaks TLS, and these settings do not", remedy: "set TEMPORAL_TLS=true, or set TEMPORAL_ADDRESS"},
		"a certificate of nobody":        {env: with(secret, "TEMPORAL_TLS", "true"), says: "has a certificate that is not trusted: x509: certificate signed by unknown authority", remedy: "set TEMPORAL_TLS_SERVER_CA_CERT_PATH to the file of its authority"},
		"a certificate for another name": {env: with(named, "TEMPORAL_TLS_SERVER_CA_CERT_PATH", otherAuthority), says: "has a certificate for another name: x509: ", remedy: "set TEMPORAL_TLS_SERVER_NAME to a name in it, or set TEMPORAL_ADDRESS"},
		"a certificate that has expired": {env: with(expired, "TEMPORAL_TLS_SERVER_CA_CERT_PATH", oldAuthority), says: "has a certificate that is not valid: x509: certificate has expired", remedy: "renew it on the server, and check the clock of this machine"},
		"a server that wants a client's": {env: with(strict, "TEMPORAL_TLS_SERVER_CA_CERT_PATH", authority), says: "refuses the connection: remote error: tls: certificate required", remedy: "set TEMPORAL_TLS_CLIENT_CERT_PATH and TEMPORAL_TLS_CLIENT_KEY_PATH, or set TEMPORAL_ADDRESS"},
		"a web server":                   {env: at(web.Listener.Addr().String()), says: "is another program: it does not answer as Temporal does", remedy: "set TEMPORAL_ADDRESS"},
		"a web server with TLS":          {env: with(secretWeb.Listener.Addr().String(), "TEMPORAL_TLS_DISABLE_HOST_VERIFICATION", "true"), says: "is another program: it does not answer as Temporal does", remedy: "set TEMPORAL_ADDRESS"},
		"plain against a web server with TLS": {
			env: at(secretWeb.Listener.Addr().String()), says: "speaks TLS, and these settings do not",
			remedy: "set TEMPORAL_TLS=true, or set TEMPORAL_ADDRESS",
		},
		"a server that closes":            {env: at(closing), says: "does not answer: ", remedy: "start it, or set TEMPORAL_ADDRESS"},
		"a mail server":                   {env: at(talker), says: "is another program: it does not answer as Temporal does", remedy: "set TEMPORAL_ADDRESS"},
		"a namespace that does not exist": {env: with(plain, "TEMPORAL_NAMESPACE", "nobody"), says: `has no namespace "nobody"`, remedy: "create it, or set TEMPORAL_NAMESPACE"},
		"a missing certificate": {
			env:  map[string]string{"TEMPORAL_TLS_CLIENT_CERT_PATH": "/no/such.pem", "TEMPORAL_TLS_CLIENT_KEY_PATH": "/no/such.key"},
			code: device.CodeInvalidSetting, message: "/no/such.pem", remedy: "TEMPORAL_",
		},
		"a missing profile": {env: map[string]string{"TEMPORAL_PROFILE": "elsewhere"}, code: device.CodeInvalidSetting, message: "elsewhere", remedy: "profile file"},
	} {
		t.Run(name, func(t *testing.T) {
			dialing(t, tt.env)
			began := time.Now()
			_, err := config.Dial(t.Context(), slog.New(slog.DiscardHandler), "")
			require.Less(t, time.Since(began), time.Minute, "it waits without an end")
			fault, ok := device.AsFault(err)
			require.True(t, ok, "%v", err)
			require.False(t, strings.ContainsAny(fault.Error(), "\n\t"), "one line: %q", fault.Error())
			if tt.code != "" {
				require.Equal(t, tt.code, fault.Code)
				require.Contains(t, fault.Message, tt.message)
				require.Contains(t, fault.Remedy, tt.remedy)
				return
			}
			require.Equal(t, device.CodeUnreachable, fault.Code)
			require.Contains(t, fault.Message, "Temporal at "+tt.env["TEMPORAL_ADDRESS"]+" "+tt.says)
			require.Equal(t, tt.remedy, fault.Remedy)
		})
	}
	// Each setting that a remedy names leads to the server.
	for name, env := range map[string]map[string]string{
		"no TLS":                 at(plain),
		"TLS that is turned off": with(plain, "TEMPORAL_TLS", "false", "TEMPORAL_API_KEY", "k"),
		"a trusted authority":    with(secret, "TEMPORAL_TLS_SERVER_CA_CERT_PATH", authority),
		"the certificate's name": with(named, "TEMPORAL_TLS_SERVER_CA_CERT_PATH", otherAuthority, "TEMPORAL_TLS_SERVER_NAME", "temporal.example"),
	} {
		t.Run(name, func(t *testing.T) {
			dialing(t, env)
			c, err := config.Dial(t.Context(), slog.New(slog.DiscardHandler), "")
			require.NoError(t, err)
			c.Close()
		})
	}
}

// dialing sets the variables, without a profile of the developer's own.
func dialing(t *testing.T, env map[string]string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "temporal.toml")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	t.Setenv("TEMPORAL_CONFIG_FILE", file)
	for k, v := range env {
		t.Setenv(k, v)
	}
}
