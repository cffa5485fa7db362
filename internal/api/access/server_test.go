package access

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func dial(t *testing.T, address string) net.Conn {
	t.Helper()
	c, err := new(net.Dialer).DialContext(t.Context(), "tcp", address)
	require.NoError(t, err)
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Log(err)
		}
	})
	require.NoError(t, c.SetDeadline(time.Now().Add(time.Minute)))
	return c
}

func send(t *testing.T, c net.Conn, text string) {
	t.Helper()
	_, err := io.WriteString(c, text)
	require.NoError(t, err)
}

// closed waits until the server has closed the connection, and gives what it sent before.
func closed(t *testing.T, c net.Conn) string {
	t.Helper()
	text, err := io.ReadAll(c)
	if err != nil {
		require.ErrorContains(t, err, "connection reset by peer")
	}
	return string(text)
}

func TestSlowRequestsAreCutOff(t *testing.T) {
	real := NewServer(http.NotFoundHandler(), slog.New(slog.DiscardHandler))
	for _, limit := range []time.Duration{real.ReadHeaderTimeout, real.ReadTimeout, real.WriteTimeout, real.IdleTimeout} {
		require.NotZero(t, limit)
		require.LessOrEqual(t, limit, time.Minute)
	}
}

func refusalOf(t *testing.T, address, request string) (*http.Response, error) {
	t.Helper()
	c := dial(t, address)
	go func() {
		if _, err := io.WriteString(c, request); err != nil {
			return // it is refused before its end
		}
	}()
	return http.ReadResponse(bufio.NewReader(c), nil)
}

func TestMalformedRequestsAreRefused(t *testing.T) {
	address := serve(t, answering(fileGate(t, twoTokens)), "127.0.0.1:0", nil)
	const head = "POST / HTTP/1.1\r\nHost: localhost\r\nX-Auth-Token: alice-token\r\nConnection: close\r\n"
	for name, tt := range map[string]struct{ request, status string }{
		"a large query":                {"GET /?x=" + strings.Repeat("x", 17<<10) + " HTTP/1.1\r\nHost: localhost\r\n\r\n", "414"},
		"a large host":                 {"GET / HTTP/1.1\r\nHost: " + strings.Repeat("x", 64<<10) + "\r\n\r\n", "431"},
		"an endless header":            {head + "X-Large: " + strings.Repeat("x", 1<<20) + "\r\n\r\n", "431"},
		"HTTP/2 without TLS":           {"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "403"},
		"another host over HTTP/1.0":   {"GET / HTTP/1.0\r\nX-Auth-Token: alice-token\r\n\r\n", "403"},
		"the whole address of another": {"GET http://evil.example.org/ HTTP/1.1\r\nHost: localhost\r\nX-Auth-Token: alice-token\r\nConnection: close\r\n\r\n", "403"},
	} {
		t.Run(name, func(t *testing.T) {
			answer, err := refusalOf(t, address, tt.request)
			for tries := 1; err != nil && tries < 10; tries++ {
				// Half a second after its answer the server resets the connection, where it has
				// not read the whole request. A busy client may then lose the answer.
				answer, err = refusalOf(t, address, tt.request)
			}
			require.NoError(t, err)
			require.NoError(t, answer.Body.Close())
			require.Equal(t, tt.status, fmt.Sprint(answer.StatusCode))
			require.Empty(t, answer.Header.Values("Access-Control-Allow-Origin"))
		})
	}
}

// A caller that takes its time to send, and reads when it has sent all, gets the answer: the
// connection is not reset meanwhile.
func TestALargeHeadIsAnswered(t *testing.T) {
	address := serve(t, answering(fileGate(t, twoTokens)), "127.0.0.1:0", nil)
	for _, tt := range []struct{ request, status string }{
		{"GET /" + strings.Repeat("x", 64<<10) + " HTTP/1.1\r\nHost: localhost\r\n\r\n", "414 Request URI Too Long"},
		{"GET / HTTP/1.1\r\nHost: localhost\r\nX-Large: " + strings.Repeat("x", 64<<10) + "\r\n\r\n", "431 Request Header Fields Too Large"},
		{"GET / HTTP/1.1\r\nHost: localhost\r\n" + strings.Repeat("X-Many: 123456\r\n", 4<<10) + "\r\n", "431 Request Header Fields Too Large"},
	} {
		c := dial(t, address)
		half := len(tt.request) / 2
		send(t, c, tt.request[:half])
		time.Sleep(time.Second) //nolint:forbidigo // longer than a server waits before it resets a connection
		send(t, c, tt.request[half:])
		answer, err := http.ReadResponse(bufio.NewReader(c), nil)
		require.NoError(t, err)
		require.Equal(t, tt.status, answer.Status)
		require.True(t, answer.Close)
		require.Equal(t, "text/plain; charset=utf-8", answer.Header.Get("Content-Type"))
		body, err := io.ReadAll(answer.Body)
		require.NoError(t, err)
		require.Equal(t, tt.status+"\n", string(body))
		require.NoError(t, answer.Body.Close())
	}
}

func TestConnectionsAreLimited(t *testing.T) {
	open := count(nil).open
	enter := func(address string) (leave func()) {
		leave, err := open.Enter(address)
		require.NoError(t, err)
		return leave
	}
	leave := enter("192.0.2.1")
	for range connectionsEach - 1 {
		enter("192.0.2.1")
	}
	_, err := open.Enter("192.0.2.1")
	require.ErrorIs(t, err, errFullForCaller)
	enter("192.0.2.2")
	leave()
	enter("192.0.2.1")
	for i := 0; open.all < connections; i++ {
		enter(fmt.Sprint(i))
	}
	_, err = open.Enter("198.51.100.1")
	require.ErrorIs(t, err, errFull, "whoever asks")

	// A connection beyond is closed, and a closed one is not counted any more.
	real, err := Listen(t.Context(), "127.0.0.1:0", nil)
	require.NoError(t, err)
	few := real.(*counted).open
	few.of["127.0.0.1"] = connectionsEach - 1
	server := NewServer(answering(fileGate(t, twoTokens)), slog.New(slog.DiscardHandler))
	done := make(chan error, 1)
	go func() { done <- server.Serve(real) }()
	t.Cleanup(func() {
		require.NoError(t, server.Close())
		require.ErrorIs(t, <-done, http.ErrServerClosed)
	})
	address := real.Addr().String()
	first := dial(t, address)
	send(t, first, "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
	answer, err := http.ReadResponse(bufio.NewReader(first), nil)
	require.NoError(t, err)
	require.NoError(t, answer.Body.Close())
	require.Empty(t, closed(t, dial(t, address)))
	require.NoError(t, first.Close())
	require.Eventually(t, func() bool {
		few.mu.Lock()
		defer few.mu.Unlock()
		return few.of["127.0.0.1"] == connectionsEach-1
	}, time.Minute, time.Millisecond)
}

// writeCertificate writes a certificate for 127.0.0.1 that names itself, and gives it.
func writeCertificate(t *testing.T, dir string, serial int64) *x509.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(serial), NotBefore: time.Now().Add(-time.Hour),
		NotAfter:    time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	require.NoError(t, err)
	private, err := x509.MarshalPKCS8PrivateKey(key)
	require.NoError(t, err)
	writeFile(t, filepath.Join(dir, "api.key"),
		string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})))
	writeFile(t, filepath.Join(dir, "api.pem"), string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})))
	certificate, err := x509.ParseCertificate(der)
	require.NoError(t, err)
	return certificate
}

func TestAChangedCertificateIsServedWithoutARestart(t *testing.T) {
	dir := privateDir(t)
	log, lines := newJournal()
	roots := x509.NewCertPool()
	roots.AddCert(writeCertificate(t, dir, 1))
	cert, key := filepath.Join(dir, "api.pem"), filepath.Join(dir, "api.key")
	certificate, err := OpenCertificate(cert, key, log)
	require.NoError(t, err)
	address := serve(t, answering(fileGate(t, twoTokens)), "127.0.0.1:0", certificate)
	serial := func() int64 {
		t.Helper()
		client := newClient(t, "")
		transport := client.Transport.(*http.Transport)
		transport.TLSClientConfig = &tls.Config{RootCAs: roots}
		answer, err := client.Do(request(t, "https://"+address, "alice-token"))
		require.NoError(t, err)
		require.NoError(t, answer.Body.Close())
		require.Equal(t, http.StatusOK, answer.StatusCode)
		require.Equal(t, 1, answer.ProtoMajor)
		return answer.TLS.PeerCertificates[0].SerialNumber.Int64()
	}
	require.EqualValues(t, 1, serial())
	roots.AddCert(writeCertificate(t, dir, 2))
	require.EqualValues(t, 2, serial())
	good, err := os.ReadFile(key)
	require.NoError(t, err)
	writeFile(t, key, "half of a k")
	require.EqualValues(t, 2, serial(), "the one before")
	require.EqualValues(t, 2, serial())
	require.NoError(t, os.WriteFile(key, good, 0o600))
	require.EqualValues(t, 2, serial())
	roots.AddCert(writeCertificate(t, dir, 3))
	require.EqualValues(t, 3, serial())
	require.Equal(t, 1, strings.Count(lines.String(), "level=ERROR"), lines.String())

	require.NoError(t, os.Chmod(key, 0o644))
	_, err = OpenCertificate(cert, key, log)
	require.ErrorContains(t, err, "may be read by everyone")
	_, err = OpenCertificate(cert, filepath.Join(dir, "none"), log)
	require.ErrorIs(t, err, os.ErrNotExist)

	// A client without TLS is not answered by the API, and an old TLS not at all.
	status, text := get(t, newClient(t, ""), http.MethodGet, "http://"+address, "X-Auth-Token: alice-token")
	require.Equal(t, http.StatusBadRequest, status, text)
	_, err = (&tls.Dialer{Config: &tls.Config{RootCAs: roots, MaxVersion: tls.VersionTLS11}}).
		DialContext(t.Context(), "tcp", address)
	require.Error(t, err)
}

func request(t *testing.T, url, token string) *http.Request {
	t.Helper()
	r, err := http.NewRequestWithContext(context.WithoutCancel(t.Context()), http.MethodGet, url, nil)
	require.NoError(t, err)
	r.Header.Set("X-Auth-Token", token)
	return r
}
