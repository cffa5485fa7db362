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
	have, generation, err := s.aggregates(ctx, p.UUID, resourceproviders.GetAggregates)
	if err == nil {
		_, err = s.recordHardware(ctx, p, generation, have)
	}
	return err
}

// recordHardware writes the hardware of p where the provider has other aggregates, and gives the
// provider's generation.
func (s *Store) recordHardware(ctx context.Context, p inventory.Provider, at int64, have []string) (int64, error) {
	all := inventory.WithHardware(have, p)
	if slices.Equal(all, have) {
		return at, nil
	}
	write := func(ctx context.Context, c *gophercloud.ServiceClient, id string) resourceproviders.GetAggregatesResult {
		b := body{"resource_provider_generation": at, "aggregates": all}
		return resourceproviders.UpdateAggregates(ctx, c, id, b)
	}
	_, generation, err := s.aggregates(ctx, p.UUID, write)
	return generation, err
}

// aggregatesRequest is a request about the provider with this UUID.
type aggregatesRequest func(context.Context, *gophercloud.ServiceClient, string) resourceproviders.GetAggregatesResult

// aggregates makes one request that answers with a provider's aggregates and its generation.
func (s *Store) aggregates(ctx context.Context, uuid string, request aggregatesRequest) ([]string, int64, error) {
	var answer struct {
		Generation *int64    `json:"resource_provider_generation"`
		Aggregates *[]string `json:"aggregates"`
	}
	err := s.do(ctx, requestInfo{uuid: uuid}, func(ctx context.Context, c *gophercloud.ServiceClient) error {
		if err := request(ctx, c, uuid).ExtractInto(&answer); err != nil {
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
