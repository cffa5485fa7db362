package redfishsim_test

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"io"
	"mime/multipart"
	"net/http"
	"net/textproto"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"burnish/internal/testkit/redfishsim"
)

// client is a plain HTTP client of one BMC.
type client struct {
	t   *testing.T
	bmc *redfishsim.Server
	// where it is
	url    string
	config redfishsim.Config
	http   *http.Client
	token  string
	// location is where the session is.
	location string
}

// reply is an answer, or its absence.
type reply struct {
	status int
	header http.Header
	body   map[string]any
	err    error
}

// text is the whole body, to look for a message.
func (r reply) text() string {
	raw, _ := json.Marshal(r.body)
	return string(raw)
}

// at is a value inside the body.
func (r reply) at(keys ...string) any {
	var value any = r.body
	for _, key := range keys {
		doc, _ := value.(map[string]any)
		value = doc[key]
	}
	return value
}

// members are the links of a list.
func (r reply) members(keys ...string) []string {
	list, _ := r.at(keys...).([]any)
	var all []string
	for _, one := range list {
		link, _ := one.(map[string]any)["@odata.id"].(string)
		all = append(all, link)
	}
	return all
}

// connect is a client of a *Server or a *Process.
func connect(t *testing.T, bmc any) *client {
	t.Helper()
	c := &client{t: t}
	var ca string
	switch bmc := bmc.(type) {
	case *redfishsim.Server:
		c.bmc, c.url, c.config, ca = bmc, bmc.URL, bmc.Config(), bmc.CA
	case *redfishsim.Process:
		config, err := bmc.Config()
		require.NoError(t, err)
		c.url, c.config, ca = bmc.URL, config, bmc.CA
	}
	roots := x509.NewCertPool()
	require.True(t, roots.AppendCertsFromPEM([]byte(ca)))
	// On a connection that was used before, Go would repeat a GET by itself.
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}, DisableKeepAlives: true}
	c.http = &http.Client{
		Transport:     transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return c
}

// login is a client with a session.
func login(t *testing.T, bmc any) *client {
	t.Helper()
	c := connect(t, bmc)
	r := c.post(c.config.SessionsPath, map[string]any{"UserName": c.config.Username, "Password": c.config.Password})
	require.NoError(t, r.err)
	require.Equal(t, 201, r.status, r.text())
	c.token, c.location = r.header.Get("X-Auth-Token"), r.header.Get("Location")
	return c
}

func (c *client) do(method, path, contentType string, body []byte, header map[string]string) reply {
	c.t.Helper()
	if c.config.TrailingSlash && !strings.HasSuffix(path, "/") {
		path += "/"
	}
	request, err := http.NewRequestWithContext(c.t.Context(), method, c.url+path, bytes.NewReader(body))
	require.NoError(c.t, err)
	if contentType != "" {
		request.Header.Set("Content-Type", contentType)
	}
	if c.token != "" {
		request.Header.Set("X-Auth-Token", c.token)
	}
	for name, value := range header {
		request.Header.Set(name, value)
	}
	response, err := c.http.Do(request)
	if err != nil {
		return reply{err: err}
	}
	defer response.Body.Close()
	raw, err := io.ReadAll(response.Body)
	r := reply{status: response.StatusCode, header: response.Header, err: err}
	if err == nil && len(raw) > 0 {
		require.NoError(c.t, json.Unmarshal(raw, &r.body), string(raw))
	}
	return r
}

func (c *client) get(path string) reply {
	c.t.Helper()
	return c.do("GET", path, "", nil, nil)
}

func (c *client) post(path string, body any) reply {
	c.t.Helper()
	return c.send("POST", path, body, nil)
}

func (c *client) send(method, path string, body any, header map[string]string) reply {
	c.t.Helper()
	raw, err := json.Marshal(body)
	require.NoError(c.t, err)
	return c.do(method, path, "application/json", raw, header)
}

// upload pushes an image with its parameters.
func (c *client) upload(parameters map[string]any, image []byte) reply {
	c.t.Helper()
	var body bytes.Buffer
	form := multipart.NewWriter(&body)
	part, err := form.CreatePart(textproto.MIMEHeader{
		"Content-Disposition": {`form-data; name="UpdateParameters"`}, "Content-Type": {"application/json"},
	})
	require.NoError(c.t, err)
	require.NoError(c.t, json.NewEncoder(part).Encode(parameters))
	part, err = form.CreateFormFile("UpdateFile", "image.bin")
	require.NoError(c.t, err)
	_, err = part.Write(image)
	require.NoError(c.t, err)
	require.NoError(c.t, form.Close())
	return c.do("POST", c.config.MultipartPath, form.FormDataContentType(), body.Bytes(), nil)
}

// system is a path below the system's.
func (c *client) system(below string) string {
	return strings.TrimSuffix("/redfish/v1/Systems/"+c.config.SystemID+"/"+below, "/")
}

func (c *client) reset(kind string) reply {
	c.t.Helper()
	return c.post(c.system("Actions/ComputerSystem.Reset"), map[string]any{"ResetType": kind})
}

// await waits until the server is as condition wants it.
func (c *client) await(condition func(redfishsim.State) bool, what string) {
	c.t.Helper()
	require.Eventually(c.t, func() bool { return condition(c.bmc.State()) }, time.Minute, 2*time.Millisecond, what)
}

// hours is for a test that decides itself when something happens.
func hours(c *redfishsim.Config, _ *redfishsim.State) {
	c.Delays.POST, c.Delays.Erase, c.Delays.BMCRestart, c.Delays.Forget = time.Hour, time.Hour, time.Hour, time.Hour
}

// awaitBMC waits until the BMC is back, and whole.
func (c *client) awaitBMC() {
	c.t.Helper()
	require.Eventually(c.t, func() bool {
		r := c.get("/redfish/v1/Systems")
		return r.err == nil && r.status != 503
	}, time.Minute, time.Millisecond, "the BMC")
}

// awaitShown waits until the system shows value.
func (c *client) awaitShown(value string, keys ...string) {
	c.t.Helper()
	require.Eventually(c.t, func() bool { return c.get(c.system("")).at(keys...) == value }, time.Minute,
		time.Millisecond, value)
}

func (c *client) awaitPOST() {
	c.t.Helper()
	c.await(func(s redfishsim.State) bool { return s.Power == "On" && !s.InPOST }, "the end of POST")
}

func each(t *testing.T, test func(*testing.T, redfishsim.Personality)) {
	for _, p := range redfishsim.Personalities {
		t.Run(string(p), func(t *testing.T) { test(t, p) })
	}
}
