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

// Create is inventory.Store's. It completes an earlier Create that a crash interrupted:
// first the provider, then its traits, then the inventory with reserved = total, so that
// Placement can allocate it at no moment. A provider of another controller is not
// changed: inventory_invalid (S2.36).
func (s *Store) Create(ctx context.Context, p inventory.Provider) error {
	if err := checkUUID(p.UUID); err != nil {
		return err
	}
	if p.Name == "" || p.Class == "" {
		return inventory.Invalid(fmt.Sprintf("provider %s has no name or no resource class", p.UUID), "give it both")
	}
	for range maxTries {
		err := s.create(ctx, p)
		// A provider that was deleted meanwhile is a concurrent write, too.
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
			"a provider keeps its name: delete it first, or enroll the device by the name that it has")
	}
	return s.completeProvider(ctx, p)
}

// createNew creates the provider. Whatever Placement may refuse is requested before, so
// that an error leaves nothing behind.
func (s *Store) createNew(ctx context.Context, p inventory.Provider) error {
	if err := s.nameIsFree(ctx, p); err != nil {
		return err
	}
	if err := s.ensureClasses(ctx, p.Class); err != nil {
		return err
	}
	known, err := s.ensureTraits(ctx, p.Traits)
	if err != nil {
		return err
	}
	var made *resourceproviders.ResourceProvider
	err = s.do(ctx, requestInfo{configured: true}, func(ctx context.Context, c *gophercloud.ServiceClient) (err error) {
		made, err = resourceproviders.Create(ctx, c, resourceproviders.CreateOpts{Name: p.Name, UUID: p.UUID}).Extract()
		return err
	})
	if errors.Is(err, errDuplicate) {
		// Created since the names were read. The next try finds it.
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
	if generation, err = s.recordHardware(ctx, p, generation, nil); err != nil {
		return err
	}
	return s.createInventory(ctx, p, generation)
}

// completeProvider completes an interrupted Create, and does not change a complete
// provider.
func (s *Store) completeProvider(ctx context.Context, p inventory.Provider) error {
	have, generation, err := s.readTraits(ctx, p.UUID)
	if err != nil {
		return err
	}
	if slices.Contains(have, s.trait(OwnTrait)) {
		if err := s.addHardware(ctx, p); err != nil {
			return err
		}
		found, err := s.inventories(ctx, p.UUID)
		if err != nil || len(found.records) > 0 {
			return err
		}
		if err := s.ensureClasses(ctx, p.Class); err != nil {
			return err
		}
		return s.createInventory(ctx, p, found.generation)
	}
	// It is ours if a crash came before the traits: nothing was ever written to it.
	if len(have) > 0 || generation != 0 {
		return s.notOurs(p.UUID, p.Name)
	}
	if err := s.ensureClasses(ctx, p.Class); err != nil {
		return err
	}
	known, err := s.ensureTraits(ctx, p.Traits)
	if err != nil {
		return err
	}
	if generation, err = s.setTraits(ctx, p.UUID, generation, known); err != nil {
		return err
	}
	if generation, err = s.recordHardware(ctx, p, generation, nil); err != nil {
		return err
	}
	return s.createInventory(ctx, p, generation)
}

// createInventory writes the inventory of a provider that has none, burned.
func (s *Store) createInventory(ctx context.Context, p inventory.Provider, generation int64) error {
	return s.do(ctx, requestInfo{p.UUID, generation, true}, func(ctx context.Context, c *gophercloud.ServiceClient) error {
		_, err := readInventories(resourceproviders.UpdateInventories(ctx, c, p.UUID, body{
			"resource_provider_generation": generation,
			"inventories": map[string]any{p.Class: map[string]any{
				"total": 1, "reserved": 1, "min_unit": 1, "max_unit": 1, "step_size": 1, "allocation_ratio": 1,
			}},
		}))
		return err
	})
}

// notOurs reports a provider of another controller, which is not changed (S2.36).
func (s *Store) notOurs(uuid, name string) error {
	s.log.Error("a provider of this device's name or UUID exists without Burnish's trait; the device is skipped",
		"provider", uuid, "name", name, "trait", s.trait(OwnTrait))
	return inventory.Invalid(
		fmt.Sprintf("provider %s, named %q, exists without the trait %s: another controller created it", uuid, name,
			s.trait(OwnTrait)),
		"let one of the two manage the device: burnish import enrolls those of Nova with owner nova; or remove it from "+
			"the other's configuration")
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

// ensureClasses creates the class of a new provider, and once those of the record.
func (s *Store) ensureClasses(ctx context.Context, class string) error {
	if err := s.ensureClass(ctx, class); err != nil || s.has(TenantClass) {
		return err
	}
	err := s.ensureRecordClasses(ctx)
	if err == nil {
		s.firstTime(TenantClass)
	}
	return err
}

func (s *Store) ensureRecordClasses(ctx context.Context) error {
	if err := s.ensureClass(ctx, TenantClass); err != nil {
		return err
	}
	return s.ensureClass(ctx, RecordClass)
}

// ensureClass creates the class if Placement does not know it.
func (s *Store) ensureClass(ctx context.Context, class string) error {
	if !strings.HasPrefix(class, "CUSTOM_") {
		return nil // a standard class exists, or Placement refuses the inventory
	}
	return s.do(ctx, requestInfo{configured: true}, func(ctx context.Context, c *gophercloud.ServiceClient) error {
		return resourceclasses.Update(ctx, c, url.PathEscape(class)).Err
	})
}

// ensureTraits gives Placement's names of a new provider's traits, including our own. It
// creates custom traits; unknown standard traits are left out, and logged once.
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
			"Placement does not know the trait "+OwnTrait+", which marks Burnish's own providers",
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

// warnMissingTraits logs once for each standard trait that Placement does not know it.
func (s *Store) warnMissingTraits(unknown []string) {
	var missing []string
	for _, trait := range unknown {
		if s.firstTime("trait " + trait) {
			missing = append(missing, trait)
		}
	}
	if len(missing) > 0 {
		s.log.Warn("Placement does not know these standard traits, so providers do not get them; upgrade os-traits there, "+
			"or replace them with BURNISH_TRAITS (HW_X=CUSTOM_X)",
			"traits", missing)
	}
}

// knownTraits gives the traits among these that Placement knows.
func (s *Store) knownTraits(ctx context.Context, of []string) (known []string, err error) {
	if len(of) == 0 {
		return nil, nil
	}
	var answer struct {
		Traits *[]string `json:"traits"`
	}
	err = s.do(ctx, requestInfo{configured: true}, func(ctx context.Context, c *gophercloud.ServiceClient) error {
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

// ensureTrait creates a custom trait if there is none.
func (s *Store) ensureTrait(ctx context.Context, trait string) error {
	return s.do(ctx, requestInfo{configured: true}, func(ctx context.Context, c *gophercloud.ServiceClient) error {
		return traits.Create(ctx, c, url.PathEscape(trait)).Err
	})
}

func (s *Store) readTraits(ctx context.Context, uuid string) (have []string, generation int64, err error) {
	var answer struct {
		Generation *int64    `json:"resource_provider_generation"`
		Traits     *[]string `json:"traits"`
	}
	err = s.ask(ctx, requestInfo{uuid: uuid}, &answer, func(ctx context.Context, c *gophercloud.ServiceClient) result {
		return resourceproviders.GetTraits(ctx, c, uuid)
	})
	if err != nil {
		return nil, 0, err
	}
	return *answer.Traits, *answer.Generation, nil
}

// setTraits replaces the traits of a provider and gives the new generation.
func (s *Store) setTraits(ctx context.Context, uuid string, generation int64, all []string) (int64, error) {
	var answer struct {
		Generation *int64 `json:"resource_provider_generation"`
	}
	of, b := requestInfo{uuid, generation, true}, body{"resource_provider_generation": generation, "traits": all}
	err := s.ask(ctx, of, &answer, func(ctx context.Context, c *gophercloud.ServiceClient) result {
		return resourceproviders.UpdateTraits(ctx, c, uuid, b)
	})
	if err != nil {
		return 0, err
	}
	return *answer.Generation, nil
}

// Delete is inventory.Store's. It refuses a provider without our trait:
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
			fmt.Sprintf("provider %s does not have the trait %s, so Burnish does not delete it", uuid, s.trait(OwnTrait)),
			"delete it with the controller that created it")
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

// whyNotDeleted distinguishes a provider in use, with its consumers, from a concurrent
// write: Placement's code for the two is not always different.
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
