// Package apitest compares the HTTP API's answers with its OpenAPI document.
package apitest

import (
	"bytes"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/getkin/kin-openapi/routers/gorillamux"
	"github.com/stretchr/testify/require"
)

// document is the document as it is in the repository, in which answers have no members but
// those that it names.
type document struct {
	spec   *openapi3.T
	router routers.Router
	strict *strict
}

var load = sync.OnceValues(func() (*document, error) {
	root, err := filepath.Abs(".")
	if err != nil {
		return nil, err
	}
	for ; filepath.Dir(root) != root; root = filepath.Dir(root) { // a test runs in its package
		if _, err := os.Stat(filepath.Join(root, "go.mod")); err == nil {
			break
		}
	}
	path := filepath.Join(root, "internal", "api", "openapi.json")
	spec, err := openapi3.NewLoader().LoadFromFile(path)
	if err != nil {
		return nil, err
	}
	strict, err := loadStrict(path)
	if err != nil {
		return nil, err
	}
	router, err := gorillamux.NewRouter(spec)
	if err != nil {
		return nil, err
	}
	no := false
	for _, schema := range spec.Components.Schemas {
		schema.Value.AdditionalProperties = openapi3.AdditionalProperties{Has: &no}
	}
	return &document{spec, router, strict}, nil
})

// Load reads the document, and requires that it is a valid one.
func Load(t testing.TB) *openapi3.T {
	t.Helper()
	d, err := load()
	require.NoError(t, err)
	require.NoError(t, d.spec.Validate(t.Context()))
	return d.spec
}

// Check requires that the document describes the answer: its status, headers and body.
func Check(t testing.TB, method, target string, status int, header http.Header, body []byte) {
	t.Helper()
	d, err := load()
	require.NoError(t, err)
	at, err := url.Parse(target)
	require.NoError(t, err)
	if method == http.MethodHead {
		return // an answer without its body
	}
	if strings.HasSuffix(at.Path, "/") && at.Path != "/" {
		at.Path, at.RawPath = strings.TrimSuffix(at.Path, "/"), strings.TrimSuffix(at.RawPath, "/")
	}
	request, err := http.NewRequestWithContext(t.Context(), method, at.String(), nil)
	require.NoError(t, err)
	route, parameters, err := d.router.FindRoute(request)
	if err != nil {
		// No operation: the answer has the form of its status all the same.
		require.Contains(t, []int{http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusForbidden}, status,
			"%s %s: %s", method, target, body)
		described := d.spec.Components.Responses[strconv.Itoa(status)].Value
		for name, h := range described.Headers {
			require.True(t, !h.Value.Required || header.Get(name) != "", "%s %s: %d without %s", method, target, status, name)
		}
		request.Method = http.MethodGet
		request.URL = &url.URL{Path: "/v2/devices/d/history"}
		route, parameters, err = d.router.FindRoute(request)
		require.NoError(t, err)
	}
	err = openapi3filter.ValidateResponse(t.Context(), &openapi3filter.ResponseValidationInput{
		RequestValidationInput: &openapi3filter.RequestValidationInput{Request: request, PathParams: parameters, Route: route},
		Status:                 status, Header: header, Body: io.NopCloser(bytes.NewReader(body)),
		Options: &openapi3filter.Options{IncludeResponseStatus: true},
	})
	require.NoError(t, err, "%s %s: %d %s", method, target, status, body)
	require.NoError(t, d.strict.check(route.Path, request.Method, status, body), "%s %s: %d %s", method, target,
		status, body)
}

// Handler is h, whose answers are all checked.
func Handler(t testing.TB, h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer := httptest.NewRecorder()
		h.ServeHTTP(answer, r)
		checked(t, r.Method, r.URL.RequestURI(), answer)
		maps.Copy(w.Header(), answer.Header())
		w.WriteHeader(answer.Code)
		if _, err := w.Write(answer.Body.Bytes()); err != nil {
			t.Logf("%s %s: %v", r.Method, r.URL, err)
		}
	})
}

// checked is Check on a server's goroutine, which must not end the test.
func checked(t testing.TB, method, target string, answer *httptest.ResponseRecorder) {
	done := make(chan struct{})
	go func() { // a failure ends this goroutine alone
		defer close(done)
		Check(goOn{t}, method, target, answer.Code, answer.Header(), answer.Body.Bytes())
	}()
	<-done
}

// goOn reports a failure, and ends only its goroutine.
type goOn struct{ testing.TB }

func (g goOn) FailNow() { runtime.Goexit() }
