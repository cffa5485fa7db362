package placement

import (
	"context"
	"fmt"
	"slices"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/tokens"

	"burnish/internal/inventory"
	"burnish/internal/keystone"
)

const serviceType = "placement"

// access says how to reach Placement.
type access struct{ keystone.Access }

// dial gets a token and finds Placement. The client itself replaces an expired token.
func (a access) dial(ctx context.Context) (*gophercloud.ServiceClient, error) {
	web, err := a.HTTP(2 * inFlight)
	if err != nil {
		return nil, err
	}
	if a.Token != "" {
		provider := &gophercloud.ProviderClient{HTTPClient: web}
		provider.UseTokenLock()
		provider.SetToken(a.Token)
		return a.client(provider, a.Override), nil
	}
	provider, err := a.Login(ctx, web)
	if err != nil {
		return nil, err
	}
	endpoint := a.Override
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
		return "", fmt.Errorf("%s does not support version 3 of the identity API", a.Options.IdentityEndpoint)
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
			return e.Interface == string(a.Service.Availability) &&
				(a.Service.Region == "" || a.Service.Region == e.Region || a.Service.Region == e.RegionID)
		})
		if at >= 0 {
			return service.Endpoints[at].URL, nil
		}
	}
	region := a.Service.Region
	if region == "" {
		region = "any region"
	}
	return "", inventory.Invalid(
		fmt.Sprintf("Keystone's catalog has no %s endpoint of placement in %s", a.Service.Availability, region),
		"set OS_REGION_NAME or OS_INTERFACE, add the endpoint to the catalog, or set OS_PLACEMENT_ENDPOINT_OVERRIDE")
}
