package e2e

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"burnish/internal/testkit/browser"
)

// page tries what a page of another site can: it knows the API's address, a device and even
// a token. It shows what it could read of each answer.
const page = `<!doctype html><title>attack</title><pre id="seen"></pre><script>
const {api, device, token} = %s;
const json = {"Content-Type": "application/json"};
const auth = {"X-Auth-Token": token, "OpenStack-API-Version": "accelerator 2.1"};
const body = JSON.stringify({reason: "by a page"});
const attempts = {
  read: ["/v2/devices", {headers: auth}],
  list_without_token: ["/v2/devices", {}],
  health: ["/healthz", {}],
  form: [device, {method: "POST", mode: "no-cors", body}],
  text: [device, {method: "POST", mode: "no-cors", body, headers: {"Content-Type": "text/plain"}}],
  change: [device, {method: "POST", body, headers: {...json, ...auth}}],
  cookies: [device, {method: "POST", body, credentials: "include", headers: {...json, ...auth}}],
};
(async () => {
  const seen = {};
  for (const [name, [path, init]] of Object.entries(attempts)) {
    try {
      const answer = await fetch(api + path, init);
      seen[name] = {status: answer.status, type: answer.type, body: await answer.text()};
    } catch (e) {
      seen[name] = {error: String(e)};
    }
  }
  document.getElementById("seen").textContent = JSON.stringify(seen);
})();
</script>`

// attacker is a site that a browser visits. After it has served its page, each further
// connection goes to the API, as when the attacker's name is bound to 127.0.0.1: the browser
// takes both for one site.
type attacker struct {
	port   int
	api    string
	mu     sync.Mutex
	served bool
}

func (s *attacker) serve(t *testing.T, listener net.Listener, html string) {
	t.Helper()
	var group sync.WaitGroup
	group.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			group.Go(func() {
				defer conn.Close()
				var sent bytes.Buffer
				if _, err := http.ReadRequest(bufio.NewReader(io.TeeReader(conn, &sent))); err != nil {
					return
				}
				s.mu.Lock()
				rebound := s.served
				s.served = true
				s.mu.Unlock()
				if rebound {
					s.forward(conn, io.MultiReader(&sent, conn))
					return
				}
				fmt.Fprintf(conn, "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s",
					len(html), html)
			})
		}
	})
	t.Cleanup(func() {
		require.NoError(t, listener.Close())
		group.Wait()
	})
}

// forward passes the bytes of a connection on as they are.
func (s *attacker) forward(conn net.Conn, sent io.Reader) {
	to, err := net.Dial("tcp", s.api)
	if err != nil {
		return
	}
	defer to.Close()
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, err := io.Copy(to, sent)
		_ = errors.Join(err, to.(*net.TCPConn).CloseWrite()) // the browser has closed it
	}()
	if _, err := io.Copy(conn, to); err == nil {
		_ = conn.Close() // ends the other copy
	}
	<-done
}

// A page of another site in a real browser reads nothing and changes nothing, neither across
// origins nor after its name was bound to the API's address, and even with a valid token.
func (a *API) browserPage(t *testing.T) {
	admin := a.As(t, a.Admin)
	before := a.events(t, "operator")
	address := strings.TrimPrefix(a.URL, "http://")
	admin.Must(t, http.StatusOK, http.MethodGet, "/v2/devices", "", nil)
	for what, api := range map[string]string{
		"across origins":            a.URL,
		"across origins, by a name": strings.Replace(a.URL, "127.0.0.1", "localhost", 1),
		"with its name rebound":     "",
	} {
		t.Run(what, func(t *testing.T) {
			listener, err := net.Listen("tcp", "127.0.0.1:0")
			require.NoError(t, err)
			site := &attacker{port: listener.Addr().(*net.TCPAddr).Port, api: address}
			settings, err := json.Marshal(map[string]string{"api": api, "device": devicePath("operator", "maintenance"),
				"token": admin.Token})
			require.NoError(t, err)
			site.serve(t, listener, fmt.Sprintf(page, settings))
			seen := site.visit(t)
			require.Len(t, seen, 7)
			for name, got := range seen {
				if api == "" {
					require.Equal(t, http.StatusForbidden, got.Status, "%s: %+v", name, got)
				} else {
					// The browser shows no answer without a CORS header to the page.
					require.True(t, got.Error != "" || got.Type == "opaque" && got.Body == "", "%s: %+v", name, got)
				}
				require.NotContains(t, got.Body, "uuid", name)
			}
		})
	}
	require.Equal(t, before, a.events(t, "operator"))
	require.Empty(t, a.Show(t, "operator").MaintenanceReason)
}

// fetched is what the page could see of one answer.
type fetched struct {
	Status     int
	Type, Body string
	Error      string
}

// visit opens the attacker's page in the browser, and gives what the page has seen.
func (s *attacker) visit(t *testing.T) (seen map[string]fetched) {
	t.Helper()
	b := openBrowser(t, "--host-resolver-rules=MAP evil.example 127.0.0.1")
	page, err := b.Open(t.Context(), fmt.Sprintf("http://evil.example:%d/", s.port))
	require.NoError(t, err)
	var text string
	Await(t, patience*15*time.Second, "the page to have seen all", func() (bool, string) {
		err := page.Run(t.Context(), `document.getElementById("seen")?.textContent ?? ""`, &text)
		return err == nil && text != "", fmt.Sprint(err)
	})
	require.NoError(t, json.Unmarshal([]byte(text), &seen), text)
	return seen
}

// openBrowser gives a browser with a profile of its own, which ends with the test.
func openBrowser(t *testing.T, args ...string) *browser.Browser {
	t.Helper()
	b, err := browser.Start(t.TempDir(), args...)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, b.Close()) })
	return b
}
