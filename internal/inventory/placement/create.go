package placement

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/placement/v1/resourceclasses"
	"github.com/gophercloud/gophercloud/v2/openstack/placement/v1/resourceproviders"
	"github.com/gophercloud/gophercloud/v2/openstack/placement/v1/traits"

	"burnish/internal/device"
	"burnish/internal/inventory"
)

// Create is inventory.Store's. What a crash left of an earlier Create is completed:
// first the provider, then its traits, then the inventory with reserved = total, so
// that at no moment there is something to give out. A provider that another
// controller made is left as it is: inventory_invalid (S2.36).
func (s *Store) Create(ctx context.Context, p inventory.Provider) error {
	if err := checkUUID(p.UUID); err != nil {
		return err
	}
	if p.Name == "" || p.Class == "" {
		return inventory.Invalid(fmt.Sprintf("provider %s has no name or no resource class", p.UUID), "give it both")
	}
	for range maxTries {
		err := s.create(ctx, p)
		// One that was there a moment ago and is gone is no other's write less.
		if !isCode(err, device.CodeConflict) && !isCode(err, device.CodeNoProvider) {
			return err
		}
	}
	return inventory.Conflict(p.UUID, 0)
}

func (s *Store) create(ctx context.Context, p inventory.Provider) error {
	have, err := s.provider(ctx, p.UUID)
	if isCode(err, device.CodeNoProvider) {
		return s.createNew(ctx, p)
	}
	if err != nil {
		return err
	}
	if !strings.EqualFold(have.Name, p.Name) {
		return inventory.Invalid(
			fmt.Sprintf("provider %s is named %q, not %q", p.UUID, have.Name, p.Name),
			"a provider keeps its name: delete it first, or enrol the device by the name that it has")
	}
	return s.completeProvider(ctx, p)
}

// createNew makes the provider. All that may be refused is asked for before it, so
// that a refusal leaves nothing behind.
func (s *Store) createNew(ctx context.Context, p inventory.Provider) error {
	if err := s.nameIsFree(ctx, p); err != nil {
		return err
	}
	if err := s.ensureClass(ctx, p.Class); err != nil {
		return err
	}
	known, err := s.ensureTraits(ctx, p.Traits)
	if err != nil {
		return err
	}
	var made *resourceproviders.ResourceProvider
	err = s.do(ctx, requestInfo{}, func(ctx context.Context, c *gophercloud.ServiceClient) (err error) {
		made, err = resourceproviders.Create(ctx, c, resourceproviders.CreateOpts{Name: p.Name, UUID: p.UUID}).Extract()
		return err
	})
	if errors.Is(err, errDuplicate) {
		// Made between the look and now. Who has it is seen the next time.
		s.cache.dropNames()
		return inventory.Conflict(p.UUID, 0)
	}
	if err != nil {
		return err
	}
	s.cache.addName(namedProvider{made.UUID, made.Name})
	generation, err := s.setTraits(ctx, p.UUID, int64(made.Generation), known)
	if err != nil {
		return err
	}
	return s.createInventory(ctx, p, generation)
}

// complete brings to its end what an earlier Create began, and changes nothing of
// what is whole.
func (s *Store) completeProvider(ctx context.Context, p inventory.Provider) error {
	have, generation, err := s.readTraits(ctx, p.UUID)
	if err != nil {
		return err
	}
	if slices.Contains(have, s.trait(OwnTrait)) {
		found, err := s.inventories(ctx, p.UUID)
		if err != nil || len(found.records) > 0 {
			return err
		}
		if err := s.ensureClass(ctx, p.Class); err != nil {
			return err
		}
		return s.createInventory(ctx, p, found.generation)
	}
	// Ours, if a crash came before the traits: nobody ever wrote anything to it.
	if len(have) > 0 || generation != 0 {
		return s.notOurs(p.UUID, p.Name)
	}
	if err := s.ensureClass(ctx, p.Class); err != nil {
		return err
	}
	known, err := s.ensureTraits(ctx, p.Traits)
	if err != nil {
		return err
	}
	if generation, err = s.setTraits(ctx, p.UUID, generation, known); err != nil {
		return err
	}
	return s.createInventory(ctx, p, generation)
}

// stockUp gives a provider that has none its inventory, burned.
func (s *Store) createInventory(ctx context.Context, p inventory.Provider, generation int64) error {
	return s.do(ctx, requestInfo{p.UUID, generation}, func(ctx context.Context, c *gophercloud.ServiceClient) error {
		_, err := readInventories(resourceproviders.UpdateInventories(ctx, c, p.UUID, body{
			"resource_provider_generation": generation,
			"inventories": map[string]any{p.Class: map[string]any{
				"total": 1, "reserved": 1, "min_unit": 1, "max_unit": 1, "step_size": 1, "allocation_ratio": 1,
			}},
		}))
		return err
	})
}

// notOurs is S2.36: told and left alone.
func (s *Store) notOurs(uuid, name string) error {
	s.log.Error("a provider of this device's name or UUID exists without Burnish's trait; the device is skipped",
		"provider", uuid, "name", name, "trait", s.trait(OwnTrait))
	return inventory.Invalid(
		fmt.Sprintf("provider %s, named %q, exists without the trait %s: another controller made it", uuid, name, s.trait(OwnTrait)),
		"let one of the two manage the device: enrol it with owner nova, or take it out of the other's configuration")
}

// provider reads a provider's name and generation.
func (s *Store) provider(ctx context.Context, uuid string) (have *resourceproviders.ResourceProvider, err error) {
	err = s.do(ctx, requestInfo{uuid: uuid}, func(ctx context.Context, c *gophercloud.ServiceClient) error {
		if have, err = resourceproviders.Get(ctx, c, uuid).Extract(); err == nil && have.UUID != uuid {
			err = errNotPlacement("provider")
		}
		return err
	})
	return have, err
}

// ensureClass makes the class where Placement does not know it.
func (s *Store) ensureClass(ctx context.Context, class string) error {
	if !strings.HasPrefix(class, "CUSTOM_") {
		return nil // a standard one: it is there, or the inventory is refused
	}
	return s.do(ctx, requestInfo{}, func(ctx context.Context, c *gophercloud.ServiceClient) error {
		return resourceclasses.Update(ctx, c, url.PathEscape(class)).Err
	})
}

// ensureTraits gives the names under which Placement knows a new provider's traits,
// our own among them. Custom ones are made; standard ones that it does not know are
// left out, and said once.
func (s *Store) ensureTraits(ctx context.Context, wanted []string) ([]string, error) {
	var custom, standard []string
	for _, trait := range append(slices.Clone(wanted), OwnTrait) {
		if trait = s.trait(trait); strings.HasPrefix(trait, "CUSTOM_") {
			custom = append(custom, trait)
		} else {
			standard = append(standard, trait)
		}
	}
	known, err := s.knownTraits(ctx, standard)
	if err != nil {
		return nil, err
	}
	var unknown []string
	for _, trait := range standard {
		if !slices.Contains(known, trait) && !slices.Contains(unknown, trait) {
			unknown = append(unknown, trait)
		}
	}
	if slices.Contains(unknown, OwnTrait) {
		return nil, inventory.Invalid(
			"Placement does not know the trait "+OwnTrait+", by which Burnish tells its own providers",
			"upgrade os-traits there, or set BURNISH_TRAITS="+OwnTrait+"=CUSTOM_"+OwnTrait)
	}
	s.warnMissingTraits(unknown)
	for _, trait := range custom {
		if err := s.ensureTrait(ctx, trait); err != nil {
			return nil, err
		}
	}
	known = append(known, custom...)
	slices.Sort(known)
	return slices.Compact(known), nil
}

// missTraits says once of each standard trait that this Placement lacks it.
func (s *Store) warnMissingTraits(unknown []string) {
	var untold []string
	for _, trait := range unknown {
		if s.firstTime("trait " + trait) {
			untold = append(untold, trait)
		}
	}
	if len(untold) > 0 {
		s.log.Warn("Placement does not know these standard traits, and providers go without them; a newer os-traits there knows them, or BURNISH_TRAITS names others in their place (HW_X=CUSTOM_X)",
			"traits", untold)
	}
}

// knownTraits gives those of these traits that Placement knows.
func (s *Store) knownTraits(ctx context.Context, of []string) (known []string, err error) {
	if len(of) == 0 {
		return nil, nil
	}
	var answer struct {
		Traits *[]string `json:"traits"`
	}
	err = s.do(ctx, requestInfo{}, func(ctx context.Context, c *gophercloud.ServiceClient) error {
		page, err := traits.List(c, traits.ListOpts{Name: "in:" + strings.Join(of, ",")}).AllPages(ctx)
		if err != nil {
			return err
		}
		if err := page.(traits.TraitsPage).ExtractInto(&answer); err != nil {
			return err
		}
		if answer.Traits == nil {
			return errNotPlacement("traits")
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return *answer.Traits, nil
}

// ensureTrait makes a custom trait where there is none.
func (s *Store) ensureTrait(ctx context.Context, trait string) error {
	return s.do(ctx, requestInfo{}, func(ctx context.Context, c *gophercloud.ServiceClient) error {
		return traits.Create(ctx, c, url.PathEscape(trait)).Err
	})
}

func (s *Store) readTraits(ctx context.Context, uuid string) (have []string, generation int64, err error) {
	var answer struct {
		Generation *int64    `json:"resource_provider_generation"`
		Traits     *[]string `json:"traits"`
	}
	err = s.do(ctx, requestInfo{uuid: uuid}, func(ctx context.Context, c *gophercloud.ServiceClient) error {
		if err := resourceproviders.GetTraits(ctx, c, uuid).ExtractInto(&answer); err != nil {
			return err
		}
		if answer.Generation == nil || answer.Traits == nil {
			return errNotPlacement("traits")
		}
		return nil
	})
	if err != nil {
		return nil, 0, err
	}
	return *answer.Traits, *answer.Generation, nil
}

// setTraits writes all traits of a provider, and gives the new generation.
func (s *Store) setTraits(ctx context.Context, uuid string, generation int64, all []string) (int64, error) {
	var answer struct {
		Generation *int64 `json:"resource_provider_generation"`
	}
	err := s.do(ctx, requestInfo{uuid, generation}, func(ctx context.Context, c *gophercloud.ServiceClient) error {
		b := body{"resource_provider_generation": generation, "traits": all}
		if err := resourceproviders.UpdateTraits(ctx, c, uuid, b).ExtractInto(&answer); err != nil {
			return err
		}
		if answer.Generation == nil {
			return errNotPlacement("generation")
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	return *answer.Generation, nil
}

// Delete is inventory.Store's. A provider without our trait is not ours to delete:
// inventory_invalid.
func (s *Store) Delete(ctx context.Context, uuid string) error {
	if err := checkUUID(uuid); err != nil {
		return err
	}
	have, _, err := s.readTraits(ctx, uuid)
	if isCode(err, device.CodeNoProvider) {
		return nil
	}
	if err != nil {
		return err
	}
	if !slices.Contains(have, s.trait(OwnTrait)) {
		return inventory.Invalid(
			fmt.Sprintf("provider %s has no trait %s, so it is not Burnish's to delete", uuid, s.trait(OwnTrait)),
			"who made it deletes it")
	}
	err = s.do(ctx, requestInfo{uuid: uuid}, func(ctx context.Context, c *gophercloud.ServiceClient) error {
		return resourceproviders.Delete(ctx, c, uuid).ExtractErr()
	})
	switch {
	case err == nil:
		s.cache.forget(uuid)
		return nil
	case isCode(err, device.CodeNoProvider):
		return nil
	case isCode(err, device.CodeInUse), isCode(err, device.CodeConflict):
		return s.whyNotDeleted(ctx, uuid, err)
	default:
		return err
	}
}

// whyNotDeleted tells a provider in use, by whom, from one that was written just
// now: Placement's code for the two is not always another.
func (s *Store) whyNotDeleted(ctx context.Context, uuid string, refusal error) error {
	u, err := s.Usages(ctx, uuid)
	switch {
	case isCode(err, device.CodeNoProvider):
		return nil
	case err != nil:
		return err
	case u.Used > 0:
		return inventory.InUse(uuid, u.Consumers)
	default:
		return refusal
	}
}
