// Package keystone reads how OpenStack is reached, as the command `openstack` does: from
// OS_* variables and clouds.yaml. It gets tokens from Keystone, and asks it whose a token is.
package keystone

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/gophercloud/gophercloud/v2"
)

// variables reads OS_* variables.
type variables func(string) string

// first gives the first of these variables that is set, "" if none is.
func (v variables) first(names ...string) string {
	for _, name := range names {
		if value := v("OS_" + name); value != "" {
			return value
		}
	}
	return ""
}

// How credentials are given: OS_AUTH_TYPE, or a cloud's auth_type.
var (
	passwordTypes   = []string{"password", "v3password"}
	tokenTypes      = []string{"token", "v3token"}
	credentialTypes = []string{"v3applicationcredential"}
	noneTypes       = []string{"none", "noauth", "admin_token", "token_endpoint"}
)

// Given says whether these variables are about a Keystone.
func Given(getenv func(string) string) bool {
	return getenv("OS_CLOUD") != "" || getenv("OS_AUTH_URL") != ""
}

// Read reads the credentials as the command `openstack` does: those of the
// cloud that OS_CLOUD names, else OS_* variables.
func Read(getenv func(string) string) (Access, error) {
	v, read := variables(getenv), readVariables
	if cloud := v.first("CLOUD"); cloud != "" {
		read = func(v variables) (Access, error) { return readCloud(v, cloud) }
	}
	a, err := read(v)
	if err != nil {
		return Access{}, err
	}
	for _, address := range []string{a.Options.IdentityEndpoint, a.Override} {
		if u, err := url.Parse(address); address != "" &&
			(err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https") {
			return Access{},
				fmt.Errorf("%q, the address of Keystone or Placement, is not an http:// or https:// address", address)
		}
	}
	return a, nil
}

func readVariables(v variables) (Access, error) {
	a := Access{Override: v.first("PLACEMENT_ENDPOINT_OVERRIDE")}
	var err error
	if a.Service, err = v.service(); err != nil {
		return Access{}, err
	}
	if a.TLS, err = v.tls(); err != nil {
		return Access{}, err
	}
	kind := v.first("AUTH_TYPE", "AUTH_PLUGIN")
	if slices.Contains(noneTypes, kind) {
		return withoutKeystone(a, v.first("ENDPOINT", "URL"), v.first("TOKEN"))
	}
	if a.Options, err = v.options(kind); err != nil {
		return Access{}, err
	}
	return a, nil
}

// withoutKeystone is for a Placement that takes any token as the user's name.
func withoutKeystone(a Access, endpoint, token string) (Access, error) {
	if a.Override = cmp.Or(a.Override, endpoint); a.Override == "" {
		return Access{},
			errors.New("without Keystone, OS_PLACEMENT_ENDPOINT_OVERRIDE or OS_ENDPOINT must be Placement's address")
	}
	a.Token = cmp.Or(token, "admin")
	return a, nil
}

// options gives the credentials for Keystone. It reads the variables itself because
// gophercloud ignores OS_USER_DOMAIN_NAME and OS_PROJECT_DOMAIN_NAME, which every usual
// openrc has.
func (v variables) options(kind string) (gophercloud.AuthOptions, error) {
	o := gophercloud.AuthOptions{IdentityEndpoint: v.first("AUTH_URL")}
	if o.IdentityEndpoint == "" {
		return o,
			errors.New("the credentials of OpenStack are missing: set OS_CLOUD, or OS_AUTH_URL, OS_USERNAME, OS_PASSWORD and " +
				"OS_PROJECT_NAME")
	}
	token := v.first("TOKEN", "AUTH_TOKEN")
	if kind == "" {
		switch {
		case v.first("APPLICATION_CREDENTIAL_ID", "APPLICATION_CREDENTIAL_NAME") != "":
			kind = credentialTypes[0]
		case token != "" && v.first("PASSWORD") == "":
			kind = tokenTypes[0]
		default:
			kind = passwordTypes[0]
		}
	}
	switch {
	case slices.Contains(credentialTypes, kind):
		o.AllowReauth = true
		o.ApplicationCredentialID = v.first("APPLICATION_CREDENTIAL_ID")
		o.ApplicationCredentialSecret = v.first("APPLICATION_CREDENTIAL_SECRET")
		if o.ApplicationCredentialSecret == "" {
			return o, errors.New("OS_APPLICATION_CREDENTIAL_SECRET is not set")
		}
		if o.ApplicationCredentialID == "" {
			o.ApplicationCredentialName = v.first("APPLICATION_CREDENTIAL_NAME")
			return o, v.user(&o)
		}
		return o, nil // an application credential belongs to one project
	case slices.Contains(tokenTypes, kind):
		if o.TokenID = token; token == "" {
			return o, errors.New("OS_TOKEN is not set")
		}
		o.Scope = v.scope()
		return o, nil
	case slices.Contains(passwordTypes, kind):
		o.AllowReauth = true
		if o.Password = v.first("PASSWORD"); o.Password == "" {
			return o, errors.New("OS_PASSWORD is not set")
		}
		o.Scope = v.scope()
		return o, v.user(&o)
	default:
		return o, fmt.Errorf("OS_AUTH_TYPE, or auth_type, %s: must be one of %s", kind,
			strings.Join(slices.Concat(passwordTypes, tokenTypes, credentialTypes, noneTypes), ", "))
	}
}

// user sets the user, with the domain of its name.
func (v variables) user(o *gophercloud.AuthOptions) error {
	if o.UserID = v.first("USER_ID", "USERID"); o.UserID != "" {
		return nil
	}
	if o.Username = v.first("USERNAME", "USER_NAME"); o.Username == "" {
		return errors.New("neither OS_USERNAME nor OS_USER_ID is set")
	}
	o.DomainID, o.DomainName = v.domain("USER_DOMAIN")
	return nil
}

// scope is the scope of the token: the system, a project, or a domain.
func (v variables) scope() *gophercloud.AuthScope {
	switch {
	case v.first("SYSTEM_SCOPE") != "":
		return &gophercloud.AuthScope{System: true}
	case v.first("TRUST_ID") != "":
		return &gophercloud.AuthScope{TrustID: v.first("TRUST_ID")}
	case v.first("PROJECT_ID", "TENANT_ID") != "":
		return &gophercloud.AuthScope{ProjectID: v.first("PROJECT_ID", "TENANT_ID")}
	case v.first("PROJECT_NAME", "TENANT_NAME") != "":
		s := &gophercloud.AuthScope{ProjectName: v.first("PROJECT_NAME", "TENANT_NAME")}
		s.DomainID, s.DomainName = v.domain("PROJECT_DOMAIN")
		return s
	case v.first("DOMAIN_ID") != "":
		return &gophercloud.AuthScope{DomainID: v.first("DOMAIN_ID")}
	case v.first("DOMAIN_NAME") != "":
		return &gophercloud.AuthScope{DomainName: v.first("DOMAIN_NAME")}
	default:
		return nil
	}
}

// domain gives the domain of a user's or project's name, by ID or by name: its own, the
// common one, the default one, or the one that always exists.
func (v variables) domain(of string) (id, name string) {
	for _, prefix := range []string{of, "DOMAIN", "DEFAULT_DOMAIN"} {
		if id := v.first(prefix + "_ID"); id != "" {
			return id, ""
		}
		if name := v.first(prefix + "_NAME"); name != "" {
			return "", name
		}
	}
	if id := v.first("DEFAULT_DOMAIN"); id != "" {
		return id, ""
	}
	return "default", ""
}

// service selects Placement's endpoint.
func (v variables) service() (gophercloud.EndpointOpts, error) {
	o := gophercloud.EndpointOpts{Region: v.first("REGION_NAME", "REGION")}
	switch which := v.first("PLACEMENT_INTERFACE", "INTERFACE", "ENDPOINT_TYPE"); strings.TrimSuffix(which, "URL") {
	case "", "public":
		o.Availability = gophercloud.AvailabilityPublic
	case "internal":
		o.Availability = gophercloud.AvailabilityInternal
	case "admin":
		o.Availability = gophercloud.AvailabilityAdmin
	default:
		return o, fmt.Errorf("OS_INTERFACE=%s must be one of public, internal, admin", which)
	}
	return o, nil
}

// tls gives the trusted certificates and the client certificate.
func (v variables) tls() (*tls.Config, error) {
	c := &tls.Config{MinVersion: tls.VersionTLS12}
	if text := v.first("INSECURE"); text != "" {
		insecure, err := strconv.ParseBool(strings.ToLower(text))
		if err != nil {
			return nil, fmt.Errorf("OS_INSECURE=%s must be true or false", text)
		}
		c.InsecureSkipVerify = insecure
	}
	if path := v.first("CACERT"); path != "" {
		pem, err := os.ReadFile(v.home(path))
		if err != nil {
			return nil, fmt.Errorf("OS_CACERT: %w", err)
		}
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("OS_CACERT: %s contains no certificate", path)
		}
	}
	cert, key := v.first("CERT"), v.first("KEY")
	if cert == "" && key == "" {
		return c, nil
	}
	if key == "" {
		key = cert // one file with both
	}
	pair, err := tls.LoadX509KeyPair(v.home(cert), v.home(key))
	if err != nil {
		return nil, fmt.Errorf("OS_CERT and OS_KEY: %w", err)
	}
	c.Certificates = []tls.Certificate{pair}
	return c, nil
}

func (v variables) home(path string) string {
	if rest, ok := strings.CutPrefix(path, "~/"); ok {
		return filepath.Join(v("HOME"), rest)
	}
	return path
}
