package placement

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"slices"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/tokens"
)

const serviceType = "placement"

// access says how to reach Placement.
type access struct {
	options gophercloud.AuthOptions
	service gophercloud.EndpointOpts
	tls     *tls.Config
	// override is Placement's address, "" to take it from the catalog.
	override string
	// token is sent unchanged, without Keystone.
	token string
}

// dial gets a token and finds Placement. The client itself replaces an expired token.
func (a access) dial(ctx context.Context) (*gophercloud.ServiceClient, error) {
	transport, ok := http.DefaultTransport.(*http.Transport)
	if !ok {
		return nil, errors.New("this program replaced Go's HTTP transport")
	}
	transport = transport.Clone()
	transport.TLSClientConfig = a.tls
	transport.MaxIdleConnsPerHost = 2 * inFlight
	web := http.Client{Transport: transport}
	if a.token != "" {
		provider := &gophercloud.ProviderClient{HTTPClient: web}
		provider.UseTokenLock()
		provider.SetToken(a.token)
		return a.client(provider, a.override), nil
	}
	provider, err := openstack.NewClient(a.options.IdentityEndpoint)
	if err != nil {
		return nil, err
	}
	provider.HTTPClient = web
	if err := openstack.Authenticate(ctx, provider, a.options); err != nil {
		return nil, err
	}
	endpoint := a.override
	if endpoint == "" {
		if endpoint, err = a.locate(provider); err != nil {
			return nil, err
		}
	}
	return a.client(provider, endpoint), nil
}

func (a access) client(provider *gophercloud.ProviderClient, endpoint string) *gophercloud.ServiceClient {
	return &gophercloud.ServiceClient{
		ProviderClient: provider,
		Endpoint:       gophercloud.NormalizeURL(endpoint),
		Type:           serviceType,
	}
}

// locate finds Placement in the catalog of the token. gophercloud's own function first
// requests the versions of each address, without a timeout.
func (a access) locate(provider *gophercloud.ProviderClient) (string, error) {
	result, ok := provider.GetAuthResult().(interface {
		ExtractServiceCatalog() (*tokens.ServiceCatalog, error)
	})
	if !ok {
		return "", fmt.Errorf("%s does not support version 3 of the identity API", a.options.IdentityEndpoint)
	}
	catalog, err := result.ExtractServiceCatalog()
	if err != nil {
		return "", err
	}
	for _, service := range catalog.Entries {
		if service.Type != serviceType {
			continue
		}
		at := slices.IndexFunc(service.Endpoints, func(e tokens.Endpoint) bool {
			return e.Interface == string(a.service.Availability) &&
				(a.service.Region == "" || a.service.Region == e.Region || a.service.Region == e.RegionID)
		})
		if at >= 0 {
			return service.Endpoints[at].URL, nil
		}
	}
	region := a.service.Region
	if region == "" {
		region = "any region"
	}
	return "", notInCatalog(fmt.Sprintf("Keystone's catalog has no %s endpoint of placement in %s", a.service.Availability, region))
}
