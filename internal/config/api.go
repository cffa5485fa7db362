package config

import (
	"net"
	"net/netip"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// API holds the settings of the HTTP API, which a control worker serves.
type API struct {
	APIAddress     string   `env:"API_ADDRESS" help:"where the HTTP API answers: HOST:PORT or unix:/path; default: none"`
	APITokens      string   `env:"API_TOKENS" help:"a YAML file of the API's tokens; Keystone's are taken where OS_* variables or clouds.yaml name a Keystone"`
	APIPolicy      string   `env:"API_POLICY" help:"policy.yaml of the API: which roles may do what, in oslo.policy's language; default: admin all, reader the lists"`
	APIHosts       []string `env:"API_HOSTS" help:"further names by which clients reach the API, separated by commas"`
	APITLSCert     string   `env:"API_TLS_CERT" help:"the API's certificate (PEM), without which it serves only loopback and unix sockets"`
	APITLSKey      string   `env:"API_TLS_KEY" help:"the key of that certificate"`
	APIKey         string   `env:"API_KEY" help:"a file with at least 32 random bytes, mode 0600, the same for all control workers: the HTTP API signs overrides with it; default: no overrides"`
	APIRate        int      `env:"API_RATE" envDefault:"10" help:"changes that a caller of the API may request a second"`
	APIConcurrency int      `env:"API_CONCURRENCY" envDefault:"32" help:"requests that a caller of the API may have in flight"`
}

// APIUnix gives the path of the API's unix socket; ok is false where it listens elsewhere.
func (a API) APIUnix() (path string, ok bool) { return strings.CutPrefix(a.APIAddress, "unix:") }

// APIOwnNames are the names by which clients reach the API, beside localhost and the address
// that they connect to.
func (a API) APIOwnNames() []string {
	host, _, err := net.SplitHostPort(a.APIAddress)
	if _, ok := a.APIUnix(); ok || err != nil || host == "" {
		return a.APIHosts
	}
	return append(slices.Clone(a.APIHosts), strings.ToLower(host))
}

var apiHostForm = regexp.MustCompile(`^[a-z0-9_]([a-z0-9._-]{0,251}[a-z0-9])?$`)

// tidy brings names into the form in which they are compared.
func (a *API) tidy() {
	for i, name := range a.APIHosts {
		a.APIHosts[i] = strings.TrimSuffix(strings.ToLower(strings.Trim(strings.TrimSpace(name), "[]")), ".")
	}
}

// check refuses what is wrong in itself, and what is wrong together.
func (a API) check(refuse func(is bool, name, format string, args ...any)) {
	for _, name := range a.APIHosts {
		_, err := netip.ParseAddr(name)
		refuse(err != nil && !apiHostForm.MatchString(name), "API_HOSTS",
			"%q is not a host's name or address (without a port)", name)
	}
	refuse(a.APIRate < 1 || a.APIRate > 10_000, "API_RATE", "%d is not within 1 to 10000", a.APIRate)
	refuse(a.APIConcurrency < 1 || a.APIConcurrency > 1000, "API_CONCURRENCY", "%d is not within 1 to 1000",
		a.APIConcurrency)
	refuse(a.APIKey != "" && !filepath.IsAbs(a.APIKey), "API_KEY", "%q is not an absolute path", a.APIKey)
	if a.APIAddress == "" {
		return
	}
	cert, key := a.APITLSCert != "", a.APITLSKey != ""
	refuse(cert != key, "API_TLS_CERT", "it and BURNISH_API_TLS_KEY belong together: set both or none")
	if path, ok := a.APIUnix(); ok {
		plain := filepath.IsAbs(path) && filepath.Clean(path) == path
		refuse(!plain, "API_ADDRESS", "%q is not unix: with a plain absolute path", a.APIAddress)
		refuse(plain && cert && key, "API_TLS_CERT", "a unix socket has no TLS: leave it out")
		return
	}
	host, valid := hostOf(a.APIAddress)
	refuse(!valid, "API_ADDRESS", "%q is neither HOST:PORT nor unix:/path", a.APIAddress)
	refuse(valid && !IsLoopback(host) && !cert && !key, "API_ADDRESS", "%q is reached from other machines, which would "+
		"send their tokens in clear: set BURNISH_API_TLS_CERT and _KEY", a.APIAddress)
}

// hostOf gives the host of HOST:PORT; valid: it has that form.
func hostOf(address string) (host string, valid bool) {
	host, port, err := net.SplitHostPort(address)
	number, portErr := strconv.ParseUint(port, 10, 16)
	return host, err == nil && portErr == nil && number != 0
}

// IsLoopback says whether only this machine reaches the host.
func IsLoopback(host string) bool {
	address, err := netip.ParseAddr(host)
	return strings.EqualFold(host, "localhost") || err == nil && address.IsLoopback()
}
