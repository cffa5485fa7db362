package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/mocks"

	"burnish/internal/config"
	"burnish/internal/testkit/proc"
	"burnish/internal/testkit/simserver"
	"burnish/workflows/client"
)

func writePrivate(t *testing.T, name, text string) string {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, os.Chmod(dir, 0o700))
	file := filepath.Join(dir, name)
	require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	return file
}

// overSocket sends a request over a unix socket, and gives the status.
func overSocket(t *testing.T, socket, path string) (int, error) {
	t.Helper()
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", socket)
	}}
	defer transport.CloseIdleConnections()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://localhost"+path, nil)
	require.NoError(t, err)
	answer, err := (&http.Client{Transport: transport, Timeout: 20 * time.Second}).Do(r)
	if err != nil {
		return 0, err
	}
	return answer.StatusCode, answer.Body.Close()
}

func TestAStoppingWorkerAnswersWhatIsInFlight(t *testing.T) {
	at := devserver(t)
	socket := writePrivate(t, "none", "")
	require.NoError(t, os.Remove(socket))
	s := settings(t)
	s.Role, s.APIAddress, s.GracefulStop = "control", "unix:"+socket, 20*time.Second
	figures := newFigures(t)
	w := startWith(t, at, figures, s, nil)
	await(t, "the API", func() (bool, string) {
		status, err := overSocket(t, socket, "/readyz")
		return err == nil && status == http.StatusOK, fmt.Sprint(status, err, w.log)
	})
	status, err := overSocket(t, socket, "/v2/devices")
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, status)

	// Another worker at the same address does not start, and does not disturb the first.
	second := start(t, at, s, nil)
	require.ErrorContains(t, <-second.ended, "BURNISH_API_ADDRESS: another process listens on "+socket)
	status, err = overSocket(t, socket, "/healthz")
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, status)

	c, err := new(net.Dialer).DialContext(t.Context(), "unix", socket)
	require.NoError(t, err)
	const body = `{"reason":"the last one"}`
	_, err = fmt.Fprintf(c, "POST /v2/devices/none/provide HTTP/1.1\r\nHost: localhost\r\nContent-Type: "+
		"application/json\r\nContent-Length: %d\r\nExpect: 100-continue\r\n\r\n", len(body))
	require.NoError(t, err)
	answers := bufio.NewReader(c)
	line, err := answers.ReadString('\n') // the handler reads the body
	require.NoError(t, err)
	require.Contains(t, line, "100 Continue")
	_, err = answers.ReadString('\n')
	require.NoError(t, err)
	w.stop()
	await(t, "the end of the socket", func() (bool, string) {
		_, err := overSocket(t, socket, "/healthz")
		return errors.Is(err, os.ErrNotExist), fmt.Sprint(err)
	})
	_, err = io.WriteString(c, body)
	require.NoError(t, err)
	answer, err := http.ReadResponse(answers, nil)
	require.NoError(t, err)
	require.Equal(t, http.StatusNotFound, answer.StatusCode)
	require.NoError(t, answer.Body.Close())
	require.NoError(t, c.Close())
	w.end()
	require.Contains(t, w.log.String(), `msg="API: change"`)
}

// What the settings name is what the API uses: certificate, tokens, policy, names.
func TestTheAPIServesAsItsSettingsSay(t *testing.T) {
	pair, ca, chain, err := simserver.Certificate("burnish test")
	require.NoError(t, err)
	private, err := x509.MarshalPKCS8PrivateKey(pair.PrivateKey)
	require.NoError(t, err)
	ports, err := proc.FreePorts(0)
	require.NoError(t, err)
	address := fmt.Sprintf("127.0.0.1:%d", ports[0])
	s := settings(t)
	s.API = config.API{
		APIAddress: address, APIRate: 1, APIConcurrency: 10, APIHosts: []string{"api.example.org"},
		APITLSCert: writePrivate(t, "api.pem", string(chain)),
		APITLSKey:  writePrivate(t, "api.key", string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}))),
		APITokens: writePrivate(t, "tokens.yaml", "- {user: olga, roles: operator, token: olga-token}\n- {user: root, "+
			"roles: admin, token: root-token}\n"),
		APIPolicy: writePrivate(t, "policy.yaml", "cyborg:device:provide: role:operator\n"),
	}
	quiet := slog.New(slog.DiscardHandler)
	stop, err := serveAPI(t.Context(), s, client.Connected{Client: client.New(&mocks.Client{})}, newFigures(t), quiet,
		func(err error) { t.Error(err) })
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, stop()) })
	roots := x509.NewCertPool()
	require.True(t, roots.AppendCertsFromPEM(ca))
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}}
	t.Cleanup(transport.CloseIdleConnections)
	send := func(scheme, host, token string) int {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, scheme+"://"+address+"/v2/devices/d1/provide", nil)
		require.NoError(t, err)
		r.Host = host
		r.Header.Set("X-Auth-Token", token)
		answer, err := (&http.Client{Transport: transport, Timeout: 20 * time.Second}).Do(r)
		require.NoError(t, err)
		require.NoError(t, answer.Body.Close())
		return answer.StatusCode
	}
	require.Equal(t, http.StatusBadRequest, send("http", "", "olga-token"), "no request in clear")
	require.Equal(t, http.StatusUnauthorized, send("https", "", "other-token"))
	require.Equal(t, http.StatusForbidden, send("https", "evil.example.org", "olga-token"))
	require.Equal(t, http.StatusForbidden, send("https", "", "root-token"), "the policy of the file")
	require.Equal(t, http.StatusServiceUnavailable, send("https", "api.example.org", "olga-token"),
		"the worker has not started")
	await(t, "two changes in one second", func() (bool, string) {
		status := send("https", "", "olga-token")
		return status == http.StatusTooManyRequests, http.StatusText(status)
	})
}
