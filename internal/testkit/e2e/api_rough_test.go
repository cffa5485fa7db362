package e2e

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"burnish/internal/device"
	"burnish/internal/testkit/proc"
)

// What is wrong with a request is answered with a status of the client's fault, or by closing
// the connection; the process goes on, and nothing changes.
func (a *API) roughRequests(t *testing.T) {
	admin, before := a.As(t, a.Admin), a.events(t, "operator")
	t.Run("malformed requests", func(t *testing.T) { a.malformedRequests(t, admin) })
	t.Run("malformed bodies", func(t *testing.T) { a.malformedBodies(t, admin) })
	t.Run("too large", func(t *testing.T) { a.tooLarge(t, admin) })
	require.Equal(t, before, a.events(t, "operator"), "a refused request costs no event")
	require.NotContains(t, a.Control.Log(), "a request failed unexpectedly")
}

// requireCutOff asserts that the server has ended the connections of slow clients, and that it
// goes on.
func (a *API) requireCutOff(t *testing.T, slow map[string]<-chan string) {
	for what, ended := range slow {
		select {
		case status := <-ended:
			require.Contains(t, []string{"closed", "400", "408", "503"}, status, what) // 503: Keystone was slow
		case <-time.After(patience * 15 * time.Second):
			t.Errorf("%s: the connection is still open", what)
		}
	}
	require.Empty(t, a.Show(t, "operator").MaintenanceReason, "half a body changes nothing")
	require.True(t, a.Control.Alive())
	a.As(t, a.Admin).Must(t, http.StatusOK, http.MethodGet, "/v2/devices?limit=1", "", nil)
}

// slowClients opens connections and does not finish their requests. Each channel says how the
// server ended one.
func (a *API) slowClients(t *testing.T) map[string]<-chan string {
	t.Helper()
	admin := a.As(t, a.Admin)
	head := "POST " + devicePath("operator", "maintenance") + " HTTP/1.1\r\nHost: " + strings.TrimPrefix(a.URL, "http://") + "\r\n"
	ends := map[string]<-chan string{}
	for what, sent := range map[string]string{
		"nothing":       "",
		"half a header": head + "X-Auth-Tok",
		"half a body": head + "X-Auth-Token: " + admin.Token + "\r\nOpenStack-API-Version: accelerator 2.1\r\n" +
			"Content-Type: application/json\r\nContent-Length: 100\r\n\r\n{\"reason\":\"",
	} {
		for i := range 10 {
			conn := a.dial(t)
			_, err := io.WriteString(conn, sent)
			require.NoError(t, err)
			end := make(chan string, 1)
			go func() { end <- statusOf(conn) }()
			ends[fmt.Sprint(what, " ", i)] = end
		}
	}
	return ends
}

// dial opens a connection to the API, which ends with the test.
func (a *API) dial(t *testing.T) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(a.URL, "http://"))
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() }) // often it is closed already
	require.NoError(t, conn.SetDeadline(time.Now().Add(patience*20*time.Second)))
	return conn
}

// statusOf is the status of the answer on the connection, "open" where there is none in time,
// or "closed".
func statusOf(conn net.Conn) string {
	answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return "open"
	case err != nil:
		return "closed"
	}
	defer answer.Body.Close()
	return fmt.Sprint(answer.StatusCode)
}

func (a *API) malformedRequests(t *testing.T, admin Caller) {
	host := strings.TrimPrefix(a.URL, "http://")
	auth := "Host: " + host + "\r\nX-Auth-Token: " + admin.Token + "\r\nOpenStack-API-Version: accelerator 2.1\r\nConnection: close\r\n"
	post := "POST " + devicePath("operator", "maintenance") + " HTTP/1.1\r\n" + auth + "Content-Type: application/json\r\n"
	const body = `{"reason":"r"}`
	for what, raw := range map[string]string{
		"no HTTP":                       "hello\r\n\r\n",
		"TLS":                           "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + strings.Repeat("x", 300) + "\r\n\r\n",
		"another version of HTTP":       "GET /v2/devices HTTP/9.9\r\n" + auth + "\r\n",
		"the preface of HTTP/2":         "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
		"no host":                       "GET /v2/devices HTTP/1.1\r\nX-Auth-Token: " + admin.Token + "\r\n\r\n",
		"two hosts":                     "GET /v2/devices HTTP/1.1\r\nHost: evil.example\r\n" + auth + "\r\n",
		"an address of another host":    "GET http://evil.example/v2/devices HTTP/1.1\r\n" + auth + "\r\n",
		"a header with a line break":    "GET /v2/devices HTTP/1.1\r\n" + auth + "X-A: b\r\n folded: c\r\nX\x00: d\r\n\r\n",
		"two lengths":                   post + "Content-Length: 14\r\nContent-Length: 15\r\n\r\n" + body,
		"a length below zero":           post + "Content-Length: -1\r\n\r\n" + body,
		"a length and chunks":           post + "Content-Length: 4\r\nTransfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n" + body,
		"chunks of no size":             post + "Transfer-Encoding: chunked\r\n\r\nzz\r\n" + body + "\r\n0\r\n\r\n",
		"a body that is cut off":        post + "Content-Length: 15\r\n\r\n" + body,
		"a path with NUL":               "GET /v2/devices/%00 HTTP/1.1\r\n" + auth + "\r\n",
		"a path that leaves":            "GET /v2/devices/../../etc/passwd HTTP/1.1\r\n" + auth + "\r\n",
		"an escaped path that leaves":   "GET /v2/devices/%2e%2e%2f%2e%2e%2fetc%2fpasswd HTTP/1.1\r\n" + auth + "\r\n",
		"a path that is not UTF-8":      "GET /v2/devices/%ff%fe HTTP/1.1\r\n" + auth + "\r\n",
		"a half escape":                 "GET /v2/devices/%4 HTTP/1.1\r\n" + auth + "\r\n",
		"no path":                       "GET * HTTP/1.1\r\n" + auth + "\r\n",
		"CONNECT":                       "CONNECT example.com:443 HTTP/1.1\r\n" + auth + "\r\n",
		"TRACE":                         "TRACE /v2/devices HTTP/1.1\r\n" + auth + "\r\n",
		"a method of no one":            "BREW /v2/devices HTTP/1.1\r\n" + auth + "\r\n",
		"a query that is not UTF-8":     "GET /v2/devices?state=%ff HTTP/1.1\r\n" + auth + "\r\n",
		"a half escape in the query":    "GET /v2/devices?limit=%z HTTP/1.1\r\n" + auth + "\r\n",
		"a token in the query":          "GET /v2/devices?token=" + url.QueryEscape(admin.Token) + " HTTP/1.1\r\nHost: " + host + "\r\n\r\n",
		"a token in a cookie":           "GET /v2/devices HTTP/1.1\r\nHost: " + host + "\r\nCookie: X-Auth-Token=" + admin.Token + "\r\n\r\n",
		"two tokens":                    "GET /v2/devices HTTP/1.1\r\n" + auth + "X-Auth-Token: other\r\n\r\n",
		"two versions":                  "GET /v2/devices HTTP/1.1\r\n" + auth + "OpenStack-API-Version: accelerator 2.0\r\n\r\n",
		"two Content-Types":             post + "Content-Type: text/plain\r\nContent-Length: 14\r\n\r\n" + body,
		"another method by its header":  "GET " + devicePath("operator", "maintenance") + " HTTP/1.1\r\n" + auth + "X-HTTP-Method-Override: POST\r\n\r\n",
		"an origin":                     post + "Origin: http://evil.example\r\nContent-Length: 14\r\n\r\n" + body,
		"an origin of no one":           post + "Origin: null\r\nContent-Length: 14\r\n\r\n" + body,
		"the host of somebody's mirror": strings.Replace(post, "Host: "+host, "Host: evil.example", 1) + "Content-Length: 14\r\n\r\n" + body,
	} {
		t.Run(what, func(t *testing.T) {
			conn := a.dial(t)
			_, err := io.WriteString(conn, raw)
			require.NoError(t, err)
			if what == "a body that is cut off" {
				require.NoError(t, conn.(*net.TCPConn).CloseWrite())
			}
			status := statusOf(conn)
			require.True(t, status == "closed" || status[0] == '4' || status == "501" || status == "505", status)
		})
	}
}

func (a *API) malformedBodies(t *testing.T, admin Caller) {
	path := devicePath("operator", "maintenance")
	for what, body := range map[string]string{
		"half an object":          `{"reason":"r"`,
		"a trailing object":       `{"reason":"r"}{}`,
		"trailing text":           `{"reason":"r"} x`,
		"a list":                  `[{"reason":"r"}]`,
		"text":                    `"r"`,
		"a number":                `17`,
		"null":                    `null`,
		"a member twice":          `{"reason":"r","reason":"s"}`,
		"an unknown member":       `{"reason":"r","force":true}`,
		"another case":            `{"Reason":"r"}`,
		"another type":            `{"reason":{"r":1}}`,
		"a member of the API's":   `{"reason":"r","by":"root"}`,
		"not UTF-8":               "{\"reason\":\"\xff\xfe\"}",
		"half a surrogate":        `{"reason":"\ud800"}`,
		"a comment":               `{"reason":"r" /* x */}`,
		"a byte order mark":       "\xef\xbb\xbf{\"reason\":\"r\"}",
		"ten thousand lists":      `{"reason":` + strings.Repeat("[", 10_000) + strings.Repeat("]", 10_000) + `}`,
		"ten thousand objects":    strings.Repeat(`{"reason":`, 5_000) + "1" + strings.Repeat("}", 5_000),
		"a number without an end": `{"reason":` + strings.Repeat("9", 60_000) + `}`,
		"YAML":                    "reason: r",
		"a form":                  "reason=r",
	} {
		t.Run(what, func(t *testing.T) {
			admin.Refused(t, http.StatusBadRequest, device.CodeInvalid, http.MethodPost, path, body)
		})
	}
	for _, kind := range []string{"text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "application/json5", "", "a/b/c"} {
		t.Run("Content-Type "+kind, func(t *testing.T) {
			admin.Refused(t, http.StatusUnsupportedMediaType, device.CodeMediaType, http.MethodPost, path, `{"reason":"r"}`, "Content-Type: "+kind)
		})
	}
}

// endless is a body without an end.
type endless struct{ read atomic.Int64 }

func (e *endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = ' '
	}
	e.read.Add(int64(len(p)))
	return len(p), nil
}

func (a *API) tooLarge(t *testing.T, admin Caller) {
	path := devicePath("operator", "maintenance")
	text := func(size int) string {
		const frame = `{"reason":""}`
		return `{"reason":"` + strings.Repeat("r", size-len(frame)) + `"}`
	}
	admin.Refused(t, http.StatusRequestEntityTooLarge, device.CodeRequestTooLarge, http.MethodPost, path, text(64<<10+1))

	body := &endless{}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, a.URL+path, io.MultiReader(bytes.NewReader([]byte(`{"reason":"r"}`)), body))
	require.NoError(t, err)
	r.Header.Set("X-Auth-Token", admin.Token)
	r.Header.Set("OpenStack-API-Version", "accelerator 2.1")
	r.Header.Set("Content-Type", "application/json")
	answer, err := http.DefaultClient.Do(r)
	if err == nil { // the connection may be closed before the answer is read
		require.Equal(t, http.StatusRequestEntityTooLarge, answer.StatusCode)
		require.NoError(t, answer.Body.Close())
	}
	require.Less(t, body.read.Load(), int64(16<<20), "the server reads no endless body")

	for what, headers := range map[string][]string{
		"one long header": {"X-Long: " + strings.Repeat("x", 2<<20)},
		"a long token":    {"X-Auth-Token: " + strings.Repeat("x", 100<<10)},
		"many headers": slices.Collect(func(yield func(string) bool) {
			for i := 0; i < 20_000 && yield(fmt.Sprintf("X-%d: %s", i, strings.Repeat("x", 50))); i++ {
			}
		}),
	} {
		answer, err := admin.try(t, http.MethodGet, "/v2/devices", "", headers...)
		if err == nil {
			require.Contains(t, []int{http.StatusRequestHeaderFieldsTooLarge, http.StatusUnauthorized, http.StatusBadRequest}, answer.Status, what)
		}
	}
	longPath, err := admin.try(t, http.MethodGet, "/v2/devices/"+strings.Repeat("x", 8<<10), "")
	require.NoError(t, err)
	require.Equal(t, http.StatusNotFound, longPath.Status)
}

// Of eight requests at once for a clean one is accepted; more requests than a caller may make
// are refused, and both cost no event.
func (a *API) concurrentRequests(t *testing.T) {
	const name = "fails-too"
	a.EnrollAll(t, map[string]string{name: `set: {size: 1MiB, fault: "fail:zero@50%x1"}, provide: true`})
	a.AwaitState(t, name, 30*time.Second, device.Error)
	admin := a.As(t, a.Admin)
	post := func(path, body string) Answer {
		answer, err := admin.try(t, http.MethodPost, path, body)
		if err != nil {
			return Answer{Body: err.Error()}
		}
		return answer
	}
	answers := atOnce(8, func(int) Answer { return post(devicePath(name, "clean"), "") })
	count := map[int]int{}
	for _, answer := range answers {
		count[answer.Status]++
	}
	require.Equal(t, map[int]int{http.StatusAccepted: 1, http.StatusConflict: 7}, count, "%v", answers)
	a.AwaitReturned(t, Device(a.FakeDevice(name, 1*MiB)), 30*time.Second)
	var history struct{ Cleans []any }
	admin.Must(t, http.StatusOK, http.MethodGet, devicePath(name, "history"), "", &history)
	require.Len(t, history.Cleans, 2, "the first one failed")

	before := a.events(t, "operator")
	count = map[int]int{}
	// A worker that lets a caller have so few that no machine is too slow to have more.
	address, err := proc.FreeAddress()
	require.NoError(t, err)
	a.Run(t, "control", slices.Concat(a.env, []string{"BURNISH_API_ADDRESS=" + address, "BURNISH_API_RATE=1"})...)
	admin.URL = "http://" + address
	Await(t, 30*time.Second, "the API to be ready", func() (bool, string) {
		answer, err := admin.try(t, http.MethodGet, "/readyz", "")
		return err == nil && answer.Status == http.StatusOK, fmt.Sprint(answer.Status, err)
	})
	admin.Must(t, http.StatusOK, http.MethodGet, "/v2/devices?limit=1", "", nil) // from now on it knows the token
	for _, answer := range atOnce(100, func(int) Answer {
		return post(devicePath("operator", "provide"), `{"unknown":1}`)
	}) {
		count[answer.Status]++
		if answer.Status == http.StatusTooManyRequests {
			answer.requireFault(t, http.StatusTooManyRequests, device.CodeTooManyRequests)
			require.NotEmpty(t, answer.Header.Get("Retry-After"))
		}
	}
	require.Len(t, count, 2, "%v", count)
	require.Positive(t, count[http.StatusTooManyRequests], "%v", count)
	require.Positive(t, count[http.StatusBadRequest], "%v", count)
	require.Equal(t, before, a.events(t, "operator"))
	a.As(t, a.Viewer).Must(t, http.StatusOK, http.MethodGet, "/v2/devices", "", nil)
}
