package placement

import (
	"context"
	"slices"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/placement/v1/resourceproviders"

	"burnish/internal/inventory"
)

// This file records which hardware a provider is of (F35), as aggregates: Placement lists the
// providers of one in one request, and an aggregate is nothing but its UUID. A trait would have
// to be created for each device, and Placement reads the names of all traits in each request that
// concerns one. An aggregate of one provider changes nothing for a scheduler.

// OfHardware is inventory.Store's: one request.
func (s *Store) OfHardware(ctx context.Context, hardware string) ([]inventory.Provider, error) {
	if err := checkUUID(hardware); err != nil {
		return nil, err
	}
	all, err := s.listBy(ctx, resourceproviders.ListOpts{MemberOf: hardware})
	if err != nil {
		return nil, err
	}
	var found []inventory.Provider
	for _, p := range all {
		found = append(found, inventory.Provider{UUID: p.UUID, Name: p.Name})
	}
	return found, nil
}

// addHardware records the hardware of p at its provider, which exists.
func (s *Store) addHardware(ctx context.Context, p inventory.Provider) error {
	if p.Hardware == "" {
		return nil
	}
	var have aggregates
	err := s.ask(ctx, requestInfo{uuid: p.UUID}, &have, func(ctx context.Context, c *gophercloud.ServiceClient) result {
		return resourceproviders.GetAggregates(ctx, c, p.UUID)
	})
	if err == nil {
		_, err = s.recordHardware(ctx, p, *have.Generation, *have.Of)
	}
	return err
}

// aggregates are those of a provider.
type aggregates struct {
	Generation *int64    `json:"resource_provider_generation"`
	Of         *[]string `json:"aggregates"`
}

// recordHardware writes the hardware of p where the provider has other aggregates, and gives the
// provider's generation.
func (s *Store) recordHardware(ctx context.Context, p inventory.Provider, at int64, have []string) (int64, error) {
	all := inventory.WithHardware(have, p)
	if slices.Equal(all, have) {
		return at, nil
	}
	var now aggregates
	b := body{"resource_provider_generation": at, "aggregates": all}
	err := s.ask(ctx, requestInfo{uuid: p.UUID}, &now, func(ctx context.Context, c *gophercloud.ServiceClient) result {
		return resourceproviders.UpdateAggregates(ctx, c, p.UUID, b)
	})
	if err != nil {
		return 0, err
	}
	return *now.Generation, nil
}
