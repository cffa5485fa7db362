package keystone

import (
	"context"
	"crypto/tls"
	"errors"
	"net/http"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack"
)

// Access says how OpenStack is reached.
type Access struct {
	Options gophercloud.AuthOptions
	// Service selects Placement's endpoint in the catalog.
	Service gophercloud.EndpointOpts
	TLS     *tls.Config
	// Override is Placement's address, "" to take it from the catalog.
	Override string
	// Token is sent to Placement unchanged, without Keystone.
	Token string
}

var errNoKeystone = errors.New("the credentials are for an OpenStack without Keystone")

// HTTP is a client with the certificates; perHost is how many idle connections it keeps.
func (a Access) HTTP(perHost int) (http.Client, error) {
	transport, ok := http.DefaultTransport.(*http.Transport)
	if !ok {
		return http.Client{}, errors.New("this program replaced Go's HTTP transport")
	}
	transport = transport.Clone()
	transport.TLSClientConfig = a.TLS
	transport.MaxIdleConnsPerHost = perHost
	return http.Client{Transport: transport}, nil
}

// Login gets a token from Keystone. Where the credentials allow it, the client itself
// replaces a token that has expired.
func (a Access) Login(ctx context.Context, web http.Client) (*gophercloud.ProviderClient, error) {
	if a.Token != "" {
		return nil, errNoKeystone
	}
	provider, err := openstack.NewClient(a.Options.IdentityEndpoint)
	if err != nil {
		return nil, err
	}
	provider.HTTPClient = web
	if err := openstack.Authenticate(ctx, provider, a.Options); err != nil {
		return nil, err
	}
	return provider, nil
}
