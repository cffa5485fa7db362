package remote

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"burnish/internal/config"
	"burnish/internal/device"
)

// Client sends requests to one API.
type Client struct {
	// address is the API's, as people read it; base is what the paths of requests follow.
	address string
	base    *url.URL
	web     *http.Client
	// token is nil where there is none.
	token *tokenSource
	pause pause
}

// New returns a Client of the API at an address: http://HOST:PORT, https://HOST:PORT or
// unix:/PATH. getenv gives the token and the certificates that are trusted. It returns when the
// API has answered, before any token was sent, and when Keystone has given a token, where OS_…
// variables name it and no other token is given. The error is a *device.Fault.
func New(ctx context.Context, address string, getenv func(string) string) (*Client, error) {
	c, err := prepare(address, getenv)
	if err != nil {
		return nil, err
	}
	if err = c.check(ctx); err == nil && c.token.renewable() {
		err = c.token.renew(ctx, "")
	}
	if err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

// check asks for the API's versions, without a token.
func (c *Client) check(parent context.Context) error {
	ctx, cancel := context.WithTimeout(parent, dialTimeout)
	defer cancel()
	var found struct {
		Version struct {
			Max string `json:"max_version"`
		} `json:"version"`
	}
	bare := *c
	bare.token = nil
	text, _, err := bare.send(ctx, &request{method: http.MethodGet})
	switch {
	case errors.Is(err, context.DeadlineExceeded) && !errors.Is(parent.Err(), context.Canceled):
		return c.unreachable("does not answer", "start it, or set --api or "+config.VarAPI)
	case err != nil:
		return err
	case json.Unmarshal(text, &found) != nil || !strings.HasPrefix(found.Version.Max, "2."):
		return c.notTheAPI("an answer that this program does not understand")
	}
	return nil
}

// prepare makes a Client that has not connected yet.
func prepare(address string, getenv func(string) string) (*Client, error) {
	c := &Client{address: address, pause: wait}
	transport := &http.Transport{
		Proxy:                  http.ProxyFromEnvironment,
		MaxIdleConnsPerHost:    idlePerHost,
		ForceAttemptHTTP2:      true,
		TLSHandshakeTimeout:    handshakeTimeout,
		MaxResponseHeaderBytes: maxHeader,
	}
	c.web = &http.Client{
		Transport: transport,
		// A token must not follow a redirection to another server.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	dialer := &net.Dialer{Timeout: dialTimeout}
	path, isUnix := strings.CutPrefix(address, "unix:")
	if isUnix {
		if !filepath.IsAbs(path) {
			return nil, invalidAddress("the path of a unix socket must begin with /: unix:/run/burnish/api.sock")
		}
		c.base = &url.URL{Scheme: "http", Host: "localhost"}
		transport.Proxy = nil
		transport.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			return dialer.DialContext(ctx, "unix", path)
		}
	} else {
		var err error
		if c.base, err = parseAddress(address); err != nil {
			return nil, err
		}
		transport.DialContext = dialer.DialContext
		if transport.TLSClientConfig, err = trusted(getenv); err != nil {
			return nil, err
		}
	}
	var err error
	if c.token, err = findToken(getenv, isUnix); err != nil {
		return nil, err
	}
	if c.token != nil && c.base.Scheme == "http" && !isUnix && !config.IsLoopback(c.base.Hostname()) {
		return nil, invalidAddress("a token would be sent to " + c.base.Host + " unencrypted; use https://")
	}
	return c, nil
}

// Close closes idle connections.
func (c *Client) Close() { c.web.CloseIdleConnections() }

// parseAddress reads an address of HTTP. It may have a path, as behind a proxy. An address
// with a password is refused without being repeated.
func parseAddress(address string) (*url.URL, error) {
	u, err := url.Parse(address)
	switch {
	case err != nil, u.Host == "", u.Scheme != "http" && u.Scheme != "https":
		return nil, invalidAddress("it must be https://HOST:PORT, http://HOST:PORT or unix:/PATH")
	case u.User != nil, u.RawQuery != "", u.Fragment != "":
		return nil, invalidAddress("it must not have a user, a password, a query or a fragment; set " + config.VarAPIToken)
	}
	u.Path = strings.TrimSuffix(strings.TrimSuffix(u.Path, "/"), "/v2")
	u.RawPath = ""
	return u, nil
}

func invalidAddress(what string) error {
	return &device.Fault{Class: device.Permanent, Code: device.CodeInvalid,
		Message: "the address of the API is not valid: " + what}
}

// trusted are the system's certificates, which SSL_CERT_FILE replaces, and those of OS_CACERT.
func trusted(getenv func(string) string) (*tls.Config, error) {
	c := &tls.Config{MinVersion: tls.VersionTLS12}
	path := getenv("OS_CACERT")
	if path == "" {
		return c, nil
	}
	invalid := func(format string, args ...any) error {
		return &device.Fault{Class: device.Permanent, Code: device.CodeInvalidSetting, Message: "OS_CACERT: " +
			fmt.Sprintf(format, args...), Remedy: "name a file with certificates in PEM form"}
	}
	if rest, ok := strings.CutPrefix(path, "~/"); ok {
		path = filepath.Join(getenv("HOME"), rest)
	}
	pem, err := os.ReadFile(path)
	if err != nil {
		return nil, invalid("%s", err)
	}
	if c.RootCAs, err = x509.SystemCertPool(); err != nil {
		c.RootCAs = x509.NewCertPool() // a machine without certificates of its own
	}
	if !c.RootCAs.AppendCertsFromPEM(pem) {
		return nil, invalid("%s contains no certificate", path)
	}
	return c, nil
}
