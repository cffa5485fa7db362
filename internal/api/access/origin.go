package access

import (
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"burnish/internal/device"
)

// Check refuses a request that a page of another site may have sent. Such a page can have
// its own name lead to the API's address (DNS rebinding): so the name in Host must be one of
// the API's. And it can send requests without reading the answers: so an Origin must be the
// API's own, too.
func (g *Gate) Check(r *http.Request) error {
	if !g.ownHost(r) {
		return foreign("the API is not reached by the name "+quoted(r.Host),
			"use its address, or add the name to BURNISH_API_HOSTS")
	}
	for _, origin := range r.Header.Values("Origin") {
		if !ownOrigin(r, origin) {
			return foreign("pages of "+quoted(origin)+" may not use the API", "use it from a program")
		}
	}
	// Browsers send it, also without an Origin; a page cannot change it.
	for _, site := range r.Header.Values("Sec-Fetch-Site") {
		if site != "same-origin" && site != "none" {
			return foreign("pages of another site may not use the API", "use it from a program")
		}
	}
	return nil
}

func foreign(message, remedy string) error {
	return &device.Fault{Class: device.NeedsOperator, Code: device.CodeForbidden, Message: message, Remedy: remedy}
}

// ownHost says whether the name in Host is one of the API's: the address of the connection,
// localhost, or one of BURNISH_API_HOSTS. On a unix socket, which no browser reaches, any
// name without a dot will do.
func (g *Gate) ownHost(r *http.Request) bool {
	host := strings.ToLower(hostOf(r.Host))
	if address, err := netip.ParseAddr(host); err == nil {
		local, ok := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr)
		return ok && local.AddrPort().Addr().Unmap().WithZone("") == address.Unmap().WithZone("") ||
			slices.Contains(g.Hosts, host)
	}
	host = strings.TrimSuffix(host, ".")
	if _, unix := r.Context().Value(peerKey{}).(peer); unix && !strings.Contains(host, ".") {
		return true
	}
	return host == "localhost" || strings.HasSuffix(host, ".localhost") || slices.Contains(g.Hosts, host)
}

// hostOf gives the host of HOST:PORT, [HOST]:PORT or HOST.
func hostOf(hostport string) string {
	if host, _, err := net.SplitHostPort(hostport); err == nil {
		return host
	}
	return strings.TrimSuffix(strings.TrimPrefix(hostport, "["), "]")
}

// ownOrigin says whether the origin is the API's, as this request reaches it.
func ownOrigin(r *http.Request, origin string) bool {
	scheme := "http"
	if r.TLS != nil {
		scheme = "https"
	}
	u, err := url.Parse(origin)
	return err == nil && u.Scheme == scheme && strings.EqualFold(u.Host, r.Host)
}

// quoted gives a bounded part of what a stranger has sent.
func quoted(text string) string {
	const longest = 100
	if len(text) > longest {
		text = text[:longest]
	}
	return `"` + strings.ToValidUTF8(text, "?") + `"`
}
