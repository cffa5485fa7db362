package access

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// at is a request that came in at a local address; "unix" is a socket.
func at(t *testing.T, local, host string) *http.Request {
	t.Helper()
	ctx := t.Context()
	if local == "unix" {
		ctx = context.WithValue(ctx, peerKey{}, peer{})
	} else {
		address, err := net.ResolveTCPAddr("tcp", local)
		require.NoError(t, err)
		ctx = context.WithValue(ctx, http.LocalAddrContextKey, address)
	}
	r := httptest.NewRequestWithContext(ctx, http.MethodPost, "/v2/devices", nil)
	r.Host = host
	return r
}

// A page whose name leads to the API's address sends its own name (DNS rebinding).
func TestOnlyTheAPIsOwnNamesReachIt(t *testing.T) {
	g := newGate(t, Settings{Hosts: []string{"control1.example.org", "192.0.2.9"}})
	for local, hosts := range map[string]string{
		"127.0.0.1:8080":     "127.0.0.1:8080 127.0.0.1 localhost:8080 localhost LOCALHOST:8080 localhost. api.localhost control1.example.org Control1.Example.org:443 control1.example.org. 192.0.2.9:80",
		"[::1]:8080":         "[::1]:8080 [::1] localhost:8080 control1.example.org",
		"192.0.2.1:443":      "192.0.2.1:443 192.0.2.1 control1.example.org localhost",
		"[2001:db8::1]:8080": "[2001:db8::1]:8080 [2001:DB8:0:0::1]",
		"unix":               "localhost burnish unix _",
	} {
		for host := range strings.SplitSeq(hosts, " ") {
			require.NoError(t, g.Check(at(t, local, host)), "%s as %s", local, host)
		}
	}
	for local, hosts := range map[string]string{
		"127.0.0.1:8080": "evil.example.org evil.example.org:8080 127.0.0.1.evil.example.org localhost.evil.example.org " +
			"notlocalhost control1.example.org.evil.org " +
			"xcontrol1.example.org 192.0.2.1:8080 127.0.0.2 [::1]:8080 0.0.0.0:8080 127.1 2130706433 0x7f000001 control1",
		"192.0.2.1:443": "127.0.0.1:443 evil.example.org",
		"unix":          "evil.example.org 192.0.2.1",
	} {
		for host := range strings.SplitSeq(hosts, " ") {
			requireCode(t, "forbidden", g.Check(at(t, local, host)))
		}
	}
	requireCode(t, "forbidden", g.Check(at(t, "127.0.0.1:8080", "")))
}

func TestPagesOfOtherSitesAreRefused(t *testing.T) {
	g := newGate(t, Settings{})
	for _, headers := range []string{
		"Origin: http://evil.example.org", "Origin: null", "Origin: https://127.0.0.1:8080", "Origin: http://127.0.0.1:3000",
		"Origin: http://127.0.0.1",
		"Origin: http://localhost:8080", "Origin: ", "Origin: %", "Origin: http://127.0.0.1:8080.evil.org",
		"Origin: http://127.0.0.1:8080|Origin: null",
		"Sec-Fetch-Site: cross-site", "Sec-Fetch-Site: same-site", "Sec-Fetch-Site: ",
		"Origin: http://127.0.0.1:8080|Sec-Fetch-Site: cross-site",
	} {
		r := at(t, "127.0.0.1:8080", "127.0.0.1:8080")
		for each := range strings.SplitSeq(headers, "|") {
			name, value, _ := strings.Cut(each, ": ")
			r.Header.Add(name, value)
		}
		err := g.Check(r)
		require.Error(t, err, headers)
		requireCode(t, "forbidden", err)
	}
	for _, headers := range []string{"Sec-Fetch-Site: none", "Sec-Fetch-Site: same-origin",
		"Origin: http://127.0.0.1:8080"} {
		r := at(t, "127.0.0.1:8080", "127.0.0.1:8080")
		name, value, _ := strings.Cut(headers, ": ")
		r.Header.Add(name, value)
		require.NoError(t, g.Check(r), headers)
	}
}
