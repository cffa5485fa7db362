package simserver

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Client is a plain HTTP client of a simulator, for its own tests.
type Client struct {
	T    testing.TB
	URL  string
	HTTP *http.Client
	// Always is the header of each request.
	Always map[string]string
}

// Connect gives a client that trusts ca and follows no redirect.
func Connect(t testing.TB, url, ca string) *Client {
	t.Helper()
	roots := x509.NewCertPool()
	require.True(t, roots.AppendCertsFromPEM([]byte(ca)))
	// On a connection that was used before, Go would repeat a GET by itself.
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}, DisableKeepAlives: true}
	return &Client{T: t, URL: url, Always: map[string]string{}, HTTP: &http.Client{Transport: transport,
		Timeout:       time.Minute,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// Reply is an answer, or its absence.
type Reply struct {
	Status int
	Header http.Header
	Body   map[string]any
	Err    error
}

// At is a value inside the body.
func (r Reply) At(keys ...string) any {
	var value any = r.Body
	for _, key := range keys {
		doc, _ := value.(map[string]any)
		value = doc[key]
	}
	return value
}

// Send sends a body of that kind, with a header of names and values.
func (c *Client) Send(method, path, kind string, body []byte, header ...string) Reply {
	c.T.Helper()
	request, err := http.NewRequestWithContext(c.T.Context(), method, c.URL+path, bytes.NewReader(body))
	require.NoError(c.T, err)
	for name, value := range c.Always {
		request.Header.Set(name, value)
	}
	if kind != "" {
		request.Header.Set("Content-Type", kind)
	}
	for i := 0; i+1 < len(header); i += 2 {
		request.Header.Set(header[i], header[i+1])
	}
	response, err := c.HTTP.Do(request)
	if err != nil {
		return Reply{Err: err}
	}
	defer response.Body.Close()
	raw, err := io.ReadAll(response.Body)
	r := Reply{Status: response.StatusCode, Header: response.Header, Err: err}
	if err == nil && len(raw) > 0 {
		r.Err = json.Unmarshal(raw, &r.Body)
	}
	return r
}

// Do sends a body as JSON; nil: none.
func (c *Client) Do(method, path string, body any, header ...string) Reply {
	c.T.Helper()
	if body == nil {
		return c.Send(method, path, "", nil, header...)
	}
	return c.Send(method, path, "application/json", Encode(body), header...)
}
