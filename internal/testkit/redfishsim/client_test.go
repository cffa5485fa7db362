package redfishsim_test

import (
	"bytes"
	"encoding/json"
	"mime/multipart"
	"net/textproto"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"burnish/internal/testkit/redfishsim"
	"burnish/internal/testkit/simserver"
)

// client is one of a BMC.
type client struct {
	*simserver.Client
	t      *testing.T
	bmc    *redfishsim.Server // nil: it is a process
	config redfishsim.Config
}

// reply is an answer, or its absence.
type reply struct{ simserver.Reply }

// text is the whole body, to look for a message.
func (r reply) text() string { return string(simserver.Encode(r.Body)) }

// members are the links of a list.
func (r reply) members(keys ...string) []string {
	list, _ := r.At(keys...).([]any)
	var all []string
	for _, one := range list {
		link, _ := one.(map[string]any)["@odata.id"].(string)
		all = append(all, link)
	}
	return all
}

// login is a client with a session, of a *Server or a *Process.
func login(t *testing.T, bmc any) *client {
	t.Helper()
	c := &client{t: t}
	switch bmc := bmc.(type) {
	case *redfishsim.Server:
		c.Client, c.bmc, c.config = simserver.Connect(t, bmc.URL, bmc.CA), bmc, bmc.Config()
	case *redfishsim.Process:
		config, err := bmc.Config()
		require.NoError(t, err)
		c.Client, c.config = simserver.Connect(t, bmc.URL, bmc.CA), config
	}
	r := c.post(c.config.SessionsPath, map[string]any{"UserName": c.config.Username, "Password": c.config.Password})
	require.NoError(t, r.Err)
	require.Equal(t, 201, r.Status, r.text())
	c.Always["X-Auth-Token"] = r.Header.Get("X-Auth-Token")
	return c
}

func (c *client) send(method, path string, body any, header ...string) reply {
	c.t.Helper()
	return reply{c.Do(method, c.at(path), body, header...)}
}

func (c *client) get(path string) reply {
	c.t.Helper()
	return c.send("GET", path, nil)
}

func (c *client) post(path string, body any) reply {
	c.t.Helper()
	return c.send("POST", path, body)
}

// at is path as the BMC has it.
func (c *client) at(path string) string {
	if c.config.TrailingSlash && !strings.HasSuffix(path, "/") {
		return path + "/"
	}
	return path
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
	return reply{c.Send("POST", c.at(c.config.MultipartPath), form.FormDataContentType(), body.Bytes())}
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
		return r.Err == nil && r.Status != 503
	}, time.Minute, time.Millisecond, "the BMC")
}

// awaitShown waits until the system shows value.
func (c *client) awaitShown(value string, keys ...string) {
	c.t.Helper()
	require.Eventually(c.t, func() bool { return c.get(c.system("")).At(keys...) == value }, time.Minute,
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
