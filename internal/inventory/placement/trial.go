package placement

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/google/uuid"
	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/placement/v1/resourceproviders"

	"burnish/internal/inventory"
)

// The provider of a trial, whose name allows one trial at a time, and its class, which no one else
// requests.
const (
	trialName  = "burnish-doctor-trial"
	trialClass = "CUSTOM_BURNISH_TRIAL"
)

// TryMove finds out whether Placement gives the allocation of a reserved provider to another
// consumer, which Nova needs to move an instance with a burned device: no version says so (S0.25).
// refusal is Placement's answer where it does not. It tries on a provider of its own, and deletes
// what it made; err also says what may be left.
func (s *Store) TryMove(ctx context.Context) (refusal string, err error) {
	id, from, to := uuid.NewString(), uuid.NewString(), uuid.NewString()
	asked := false // and not refused
	err = s.do(ctx, requestInfo{configured: true}, func(ctx context.Context, c *gophercloud.ServiceClient) error {
		err := resourceproviders.Create(ctx, c, resourceproviders.CreateOpts{Name: trialName, UUID: id}).Err
		said, answered := refused(err)
		asked = !answered || said.status >= http.StatusInternalServerError
		return err
	})
	if errors.Is(err, errDuplicate) {
		return "", inventory.Invalid("a provider named "+trialName+" exists: another trial runs, or was killed",
			"run it again; if the provider stays, delete its allocations, then the provider")
	}
	if !asked {
		return "", err
	}
	defer func() { err = errors.Join(err, s.endTrial(context.WithoutCancel(ctx), id, from, to)) }()
	if err == nil {
		err = s.ensureClass(ctx, trialClass)
	}
	if err == nil {
		err = s.reserveTrial(ctx, id, 0)
	}
	one := map[string]any{id: map[string]any{"resources": map[string]int{trialClass: 1}}}
	if err == nil {
		refusal, err = s.allocate(ctx, id, map[string]any{from: one})
	}
	if refusal != "" {
		return "", inventory.Invalid("Placement does not allocate a free provider: "+refusal, "see Placement's log")
	}
	if err == nil {
		err = s.reserveTrial(ctx, id, 1)
	}
	if err == nil {
		refusal, err = s.allocate(ctx, id, map[string]any{from: map[string]any{}, to: one})
	}
	return refusal, err
}

// reserveTrial writes the inventory of a trial's provider.
func (s *Store) reserveTrial(ctx context.Context, id string, reserved int) error {
	have, err := s.inventories(ctx, id)
	if err != nil {
		return err
	}
	of := requestInfo{id, have.generation, true}
	return s.do(ctx, of, func(ctx context.Context, c *gophercloud.ServiceClient) error {
		return resourceproviders.UpdateInventories(ctx, c, id, body{
			"resource_provider_generation": have.generation,
			"inventories":                  map[string]any{trialClass: map[string]any{"total": 1, "reserved": reserved}},
		}).Err
	})
}

// allocate writes the allocations of all these consumers at once, as Nova does. refusal is the
// answer that there is no capacity.
func (s *Store) allocate(ctx context.Context, id string, consumers map[string]any) (refusal string, err error) {
	all := map[string]any{}
	for consumer, has := range consumers {
		all[consumer] = map[string]any{"allocations": has, "project_id": trialName, "user_id": trialName}
	}
	of := requestInfo{uuid: id, configured: true}
	err = s.do(ctx, of, func(ctx context.Context, c *gophercloud.ServiceClient) error {
		opts := &gophercloud.RequestOpts{OkCodes: []int{http.StatusNoContent}}
		resp, err := c.Post(ctx, c.ServiceURL("allocations"), all, nil, opts)
		_, _, err = gophercloud.ParseResponse(resp, err)
		said, ok := refused(err)
		if ok && said.status == http.StatusConflict && strings.Contains(said.detail, "exceed the capacity") {
			refusal = said.detail
			return nil
		}
		return err
	})
	return refusal, err
}

// endTrial deletes what a trial made, as far as it came.
func (s *Store) endTrial(ctx context.Context, id, from, to string) error {
	for _, made := range [][]string{
		{"allocations", from}, {"allocations", to}, {"resource_providers", id}, {"resource_classes", trialClass},
	} {
		err := s.do(ctx, requestInfo{configured: true}, func(ctx context.Context, c *gophercloud.ServiceClient) error {
			resp, err := c.Delete(ctx, c.ServiceURL(made...), nil)
			_, _, err = gophercloud.ParseResponse(resp, err)
			if said, ok := refused(err); ok && said.status == http.StatusNotFound && said.fromPlacement {
				return nil
			}
			return err
		})
		if err != nil {
			const left = "the provider %s (%s), its allocations and its class %s may be left: %w"
			return fmt.Errorf(left, trialName, id, trialClass, err)
		}
	}
	return nil
}
