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
	have, generation, err := s.aggregates(ctx, p.UUID, func(ctx context.Context, c *gophercloud.ServiceClient) resourceproviders.GetAggregatesResult {
		return resourceproviders.GetAggregates(ctx, c, p.UUID)
	})
	if err == nil {
		_, err = s.recordHardware(ctx, p, generation, have)
	}
	return err
}

// recordHardware writes the hardware of p where the provider has other aggregates, and gives the
// provider's generation.
func (s *Store) recordHardware(ctx context.Context, p inventory.Provider, generation int64, have []string) (int64, error) {
	all := inventory.WithHardware(have, p)
	if slices.Equal(all, have) {
		return generation, nil
	}
	_, generation, err := s.aggregates(ctx, p.UUID, func(ctx context.Context, c *gophercloud.ServiceClient) resourceproviders.GetAggregatesResult {
		return resourceproviders.UpdateAggregates(ctx, c, p.UUID, body{"resource_provider_generation": generation, "aggregates": all})
	})
	return generation, err
}

// aggregates makes one request that answers with a provider's aggregates.
func (s *Store) aggregates(ctx context.Context, uuid string, request func(context.Context, *gophercloud.ServiceClient) resourceproviders.GetAggregatesResult) ([]string, int64, error) {
	var answer struct {
		Generation *int64    `json:"resource_provider_generation"`
		Aggregates *[]string `json:"aggregates"`
	}
	err := s.do(ctx, requestInfo{uuid: uuid}, func(ctx context.Context, c *gophercloud.ServiceClient) error {
		if err := request(ctx, c).ExtractInto(&answer); err != nil {
			return err
		}
		if answer.Generation == nil || answer.Aggregates == nil {
			return errNotPlacement("aggregates")
		}
		return nil
	})
	if err != nil {
		return nil, 0, err
	}
	return *answer.Aggregates, *answer.Generation, nil
}
