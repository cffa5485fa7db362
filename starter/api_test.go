package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"burnish/internal/device"
)

const apiToken = "s3cret-token"

// overAPI runs one command line with --api.
func overAPI(t *testing.T, address string, args ...string) ran {
	t.Helper()
	got := burnishWith(t, nil, func(a *app, _ func()) {
		a.api = "http://127.0.0.1:1/the-variables" // which --api comes before
		a.getenv = func(name string) string { return map[string]string{"BURNISH_API_TOKEN": apiToken}[name] }
		a.now, a.dial = time.Now, a.connect
	}, append([]string{"--api", address}, args...)...)
	require.NotContains(t, got.out+got.errors, apiToken)
	return got
}

// Every way in which an API cannot or will not answer: one line, with what to do, and an exit
// code that says whether something may have been carried out.
func TestAnAPIThatFails(t *testing.T) {
	problem := func(status int, code device.Code, message string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.Header().Set("Retry-After", "3600")
			w.WriteHeader(status)
			fmt.Fprintf(w, `{"error":{"code":%q,"device":"","state":"","message":%q,"remedy":"do this"}}`, code, message)
		}
	}
	page := func(status int) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/html")
			w.WriteHeader(status)
			fmt.Fprint(w, "<html>\n<h1>a secret of the proxy</h1></html>")
		}
	}
	late := func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // so that the server sees the client go
		<-r.Context().Done()
	}
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, closed.Close())
	for name, tt := range map[string]struct {
		answer       http.HandlerFunc
		address      string
		read, change int // exit codes
		code         device.Code
		says         string // of the read
		changeSays   string // "": the same
	}{
		"down":             {address: "http://" + closed.Addr().String(), read: exitUnreachable, change: exitUnreachable, code: device.CodeUnreachable, says: "does not answer: dial tcp .*connection refused; start it, or set --api or BURNISH_API"},
		"no such socket":   {address: "unix:" + t.TempDir() + "/none", read: exitUnreachable, change: exitUnreachable, code: device.CodeUnreachable, says: "does not answer: dial unix"},
		"no valid address": {address: "h:1", read: exitUsage, change: exitUsage, code: device.CodeInvalid, says: "must be https://HOST:PORT.*--help"},
		"500 by a proxy":   {answer: page(500), read: exitUnreachable, change: exitUnreachable, code: device.CodeUnreachable, says: "answered 500 Internal Server Error, and not as Burnish does", changeSays: "the request may still be carried out"},
		"404 by a proxy":   {answer: page(404), read: exitUnreachable, change: exitUnreachable, code: device.CodeUnreachable, says: "answered 404 Not Found, and not as Burnish does"},
		"another service":  {answer: page(200), read: exitUnreachable, change: exitUnreachable, code: device.CodeUnreachable, says: "gave an answer that this program does not understand"},
		"a redirection":    {answer: http.RedirectHandler("https://login.example/x?token=y", http.StatusFound).ServeHTTP, read: exitUnreachable, change: exitUnreachable, code: device.CodeUnreachable, says: "redirects to https://login.example/x;"},
		"never":            {answer: late, read: exitUnreachable, change: exitUnreachable, code: device.CodeUnreachable, says: "the API at http://.* stopped answering", changeSays: "stopped answering.*the request may still be carried out"},
		"no valid token":   {answer: problem(401, device.CodeNotAuthenticated, "the token is not valid"), read: exitFailed, change: exitFailed, code: device.CodeNotAuthenticated, says: "the token is not valid; set BURNISH_API_TOKEN or OS_TOKEN"},
		"not allowed":      {answer: problem(403, device.CodeForbidden, "the policy does not allow you x"), read: exitFailed, change: exitFailed, code: device.CodeForbidden, says: "the policy does not allow you x; do this"},
		"too much":         {answer: problem(429, device.CodeTooManyRequests, "too many"), read: exitFailed, change: exitFailed, code: device.CodeTooManyRequests, says: "too many; do this"},
		"Temporal is away": {answer: problem(503, device.CodeUnreachable, "Temporal does not answer"), read: exitUnreachable, change: exitUnreachable, code: device.CodeUnreachable, says: "Temporal does not answer; do this"},
		"a gateway's time": {answer: page(504), read: exitUnreachable, change: exitUnreachable, code: device.CodeUnreachable, says: "answered 504 Gateway Timeout", changeSays: "the API at http://.* did not confirm it: it answered 504 .*may still be carried out"},
		"an older API":     {answer: problem(404, device.CodeNoSuchPath, "there is no GET /v2/x"), read: exitFailed, change: exitFailed, code: device.CodeNoSuchPath, says: "there is no GET /v2/x; upgrade the control worker"},
		"no such device":   {answer: problem(404, device.CodeNotFound, "no such device"), read: exitFailed, change: exitFailed, code: device.CodeNotFound, says: "no such device; enroll it first"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			address := tt.address
			if address == "" {
				server := httptest.NewServer(versioned(tt.answer))
				t.Cleanup(server.Close)
				address = server.URL
			}
			limit := "30s"
			if name == "never" {
				limit = "3s" // and the API answers before when it is asked for its versions
			}
			for _, each := range []struct {
				exit int
				says string
				args []string
			}{
				{tt.read, tt.says, []string{"show", "d1", "--timeout", limit}},
				{tt.change, cmp.Or(tt.changeSays, tt.says), []string{"abort", "d1", "--timeout", limit}},
			} {
				t.Run(each.args[0], func(t *testing.T) {
					t.Parallel()
					got := overAPI(t, address, each.args...)
					require.Equal(t, each.exit, got.code, got.errors)
					require.Empty(t, got.out)
					require.Regexp(t, each.says, got.errors)
					require.Equal(t, 1, strings.Count(got.errors, "\n"), got.errors)
					require.True(t, strings.HasPrefix(got.errors, "burnish: "+each.args[0]), got.errors)
					require.NotContains(t, got.errors, "secret")
				})
				if name == "never" {
					continue // it takes its time
				}
				t.Run(each.args[0]+" for programs", func(t *testing.T) {
					t.Parallel()
					got := overAPI(t, address, append(each.args, "-o", "json")...)
					require.Equal(t, each.exit, got.code, got.errors)
					var body struct{ Error map[string]string }
					require.NoError(t, json.Unmarshal([]byte(got.errors), &body), got.errors)
					require.Equal(t, string(tt.code), body.Error["code"], got.errors)
				})
			}
		})
	}
}

// versioned answers as an API does where it is asked for its versions.
func versioned(other http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/v2" {
			other(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"version":{"id":"v2.0","max_version":"2.1"}}`)
	}
}

// What is no API gets no request of a command, and no token.
func TestWhatIsNoAPI(t *testing.T) {
	for name, answer := range map[string]http.HandlerFunc{
		"a web page":    func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "<html>") },
		"an error":      func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) },
		"a redirection": func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/login", http.StatusFound) },
	} {
		t.Run(name, func(t *testing.T) {
			var paths []string
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				paths = append(paths, r.URL.Path+r.Header.Get("X-Auth-Token"))
				answer(w, r)
			}))
			t.Cleanup(server.Close)
			got := overAPI(t, server.URL, "abort", "d1", "d2")
			require.Equal(t, exitUnreachable, got.code)
			require.Regexp(t, `^burnish: abort: the API at `+server.URL+` [^\n]*\n$`, got.errors)
			require.Equal(t, []string{"/v2"}, paths)
		})
	}
}

// A server with a certificate of an authority that is not trusted gets no token.
func TestAnAPIWithAnotherCertificate(t *testing.T) {
	var asked bool
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked = true }))
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	t.Cleanup(server.Close)
	got := overAPI(t, server.URL, "abort", "d1")
	require.Equal(t, exitUnreachable, got.code)
	require.Regexp(t,
		`^burnish: abort: the API at https://\S+ has a certificate that is not trusted: x509: .*; set OS_CACERT or SSL_CERT_FILE to the file of its authority\n$`, got.errors)
	require.False(t, asked)
}

// The flag comes before the variable, and must not be empty.
func TestTheFlagAPI(t *testing.T) {
	got := overAPI(t, "", "list")
	require.Equal(t, exitUsage, got.code)
	require.Contains(t, got.errors, "it is empty")
	require.Contains(t, got.errors, "burnish: ")
}

// doctor checks Temporal through the API, and says what that leaves unchecked.
func TestDoctorOverTheAPI(t *testing.T) {
	withoutWorker(t)
	l := healthy()
	l.onPolled = func(string) (time.Time, error) { return time.Now(), nil }
	address := apiBefore(t, l)
	got := overAPI(t, address, "doctor")
	for tries := 1; strings.Contains(got.out, "does not answer") && tries < 5; tries++ {
		got = overAPI(t, address, "doctor") // its limit is short for a busy machine
	}
	require.Equal(t, exitOK, got.code, got.out+got.errors)
	require.NotContains(t, got.out, "WARN")

	got = overAPI(t, "http://127.0.0.1:1", "doctor")
	require.Equal(t, exitFailed, got.code)
	require.Regexp(t, `FAIL +api: the API at http://127.0.0.1:1 does not answer: `, got.out)
	require.NotContains(t, got.out, "temporal")

	t.Setenv("BURNISH_API", address)
	t.Setenv("BURNISH_API_TOKEN", apiToken)
	require.NotContains(t, overAPI(t, address, "doctor").out, "not a valid setting")
	t.Setenv("BURNISH_ROLE", "control")
	got = overAPI(t, address, "doctor")
	require.Contains(t, got.out, "WARN  api: the connection to Temporal that this machine's worker needs is not "+
		"checked; run doctor without --api and BURNISH_API too\n")
}
