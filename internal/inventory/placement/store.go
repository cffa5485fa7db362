package placement

import (
	"context"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/placement/v1/resourceproviders"

	"burnish/internal/device"
	"burnish/internal/inventory"
)

var uuidForm = regexp.MustCompile(`^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`)

// checkUUID refuses text that would change the path of a request.
func checkUUID(uuid string) error {
	if uuidForm.MatchString(uuid) {
		return nil
	}
	return inventory.Invalid(fmt.Sprintf("%q is not a UUID in lower case", uuid),
		"use the UUID that the device was enrolled with")
}

// errNotPlacement is the error of an answer without a field that Placement always sends.
func errNotPlacement(what string) error {
	return fmt.Errorf("its answer has no %s, so it does not come from Placement", what)
}

// Usages is inventory.Store's: one request, and one more to name the consumers where
// there are any.
func (s *Store) Usages(ctx context.Context, uuid string) (inventory.Usage, error) {
	if err := checkUUID(uuid); err != nil {
		return inventory.Usage{}, err
	}
	var u inventory.Usage
	for range maxTries {
		var err error
		if u, err = s.used(ctx, uuid); err != nil || u.Used == 0 {
			return u, err
		}
		named, err := s.consumers(ctx, uuid)
		if err != nil {
			return inventory.Usage{}, err
		}
		// Both, because the end of an allocation does not change the generation.
		if named.Generation == u.Generation && named.Used == u.Used {
			return named, nil
		}
	}
	return inventory.Usage{}, inventory.Conflict(uuid, u.Generation)
}

// used reads how much is allocated, without the consumers.
func (s *Store) used(ctx context.Context, uuid string) (inventory.Usage, error) {
	var answer struct {
		Generation *int64         `json:"resource_provider_generation"`
		Usages     map[string]int `json:"usages"`
	}
	err := s.ask(ctx, requestInfo{uuid: uuid}, &answer, func(ctx context.Context, c *gophercloud.ServiceClient) result {
		return resourceproviders.GetUsages(ctx, c, uuid)
	})
	if err != nil {
		return inventory.Usage{}, err
	}
	u := inventory.Usage{Generation: *answer.Generation}
	for _, n := range answer.Usages {
		u.Used += n
	}
	return u, nil
}

// consumers reads the consumers of the provider, and how much is allocated.
func (s *Store) consumers(ctx context.Context, uuid string) (u inventory.Usage, err error) {
	var answer struct {
		Generation  *int64 `json:"resource_provider_generation"`
		Allocations map[string]struct {
			Resources map[string]int `json:"resources"`
		} `json:"allocations"`
	}
	err = s.ask(ctx, requestInfo{uuid: uuid}, &answer, func(ctx context.Context, c *gophercloud.ServiceClient) result {
		return resourceproviders.GetAllocations(ctx, c, uuid)
	})
	if err != nil {
		return inventory.Usage{}, err
	}
	u = inventory.Usage{Generation: *answer.Generation, Consumers: slices.Sorted(maps.Keys(answer.Allocations))}
	for _, a := range answer.Allocations {
		for _, n := range a.Resources {
			u.Used += n
		}
	}
	return u, nil
}

// Reservation is inventory.Store's. A provider without inventory has total 0; one with
// more than one class beside those of the record is inventory_invalid (S0.14).
func (s *Store) Reservation(ctx context.Context, uuid string) (inventory.Reservation, error) {
	if err := checkUUID(uuid); err != nil {
		return inventory.Reservation{}, err
	}
	found, err := s.readInventory(ctx, uuid)
	return found.reservation(), err
}

// readInventory reads the inventory into the cache.
func (s *Store) readInventory(ctx context.Context, uuid string) (cachedInventory, error) {
	found, err := s.inventories(ctx, uuid)
	if err != nil {
		return cachedInventory{}, err
	}
	one, err := found.one(uuid)
	if err != nil {
		return cachedInventory{}, err
	}
	s.cache.keep(uuid, one)
	return one, nil
}

// one is the inventory of the device, with the record of who has it.
func (i inventories) one(uuid string) (cachedInventory, error) {
	one := cachedInventory{generation: i.generation}
	var of []string
	for class, r := range i.records {
		if class == TenantClass || class == RecordClass {
			continue
		}
		one, of = r, append(of, class)
	}
	if len(of) > 1 {
		slices.Sort(of)
		return cachedInventory{}, inventory.Invalid(
			fmt.Sprintf("provider %s has inventories of %d classes: %s", uuid, len(of), strings.Join(of, ", ")),
			"one device is one provider of one class: remove the others")
	}
	if r, ok := i.records[TenantClass]; ok {
		one.recorded = recordOf(r.fields, i.records[RecordClass].fields)
	}
	return one, nil
}

// inventories is all that a provider has, by class.
type inventories struct {
	generation int64
	records    map[string]cachedInventory
}

func (s *Store) inventories(ctx context.Context, uuid string) (found inventories, err error) {
	err = s.do(ctx, requestInfo{uuid: uuid}, func(ctx context.Context, c *gophercloud.ServiceClient) error {
		found, err = readInventories(resourceproviders.GetInventories(ctx, c, uuid))
		return err
	})
	return found, err
}

func readInventories(answer resourceproviders.GetInventoriesResult) (found inventories, err error) {
	var shape struct {
		Generation  *int64         `json:"resource_provider_generation"`
		Inventories map[string]any `json:"inventories"`
	}
	if err := answer.ExtractInto(&shape); err != nil {
		return found, err
	}
	if shape.Generation == nil || shape.Inventories == nil {
		return found, errNotPlacement("inventories")
	}
	// From the body itself, where the numbers have their original form.
	whole, _ := answer.Body.(map[string]any)
	records, _ := whole["inventories"].(map[string]any)
	found = inventories{generation: *shape.Generation, records: map[string]cachedInventory{}}
	for class := range shape.Inventories {
		fields, ok := records[class].(map[string]any)
		if !ok {
			return found, errNotPlacement("inventory of " + class)
		}
		if found.records[class], err = record(class, found.generation, fields); err != nil {
			return found, err
		}
	}
	return found, nil
}

// PutReserved is inventory.Store's. It writes back the inventory of this generation with
// another reserved; if that is not cached, it is read first. With a record it writes all
// inventories of the provider, in one request.
func (s *Store) PutReserved(ctx context.Context, uuid string, generation int64, reserved int,
	of *device.Record) (inventory.Reservation, error) {
	if err := checkUUID(uuid); err != nil {
		return inventory.Reservation{}, err
	}
	known, ok := s.cache.inventory(uuid, generation)
	if !ok || known.class == "" {
		var err error
		if known, err = s.readInventory(ctx, uuid); err != nil {
			return inventory.Reservation{}, err
		}
		switch {
		case known.class == "":
			return inventory.Reservation{}, inventory.Invalid(
				fmt.Sprintf("provider %s has no inventory, so it cannot be reserved", uuid),
				"give its resource class total=1 and reserved=1")
		case known.generation != generation:
			return inventory.Reservation{}, inventory.Conflict(uuid, generation)
		}
	}
	switch { // Placement answers such a value with the same 400 as what is waited for
	case reserved < 0 || reserved > known.total:
		return inventory.Reservation{}, inventory.Invalid(
			fmt.Sprintf("reserved=%d of provider %s is not between 0 and its total of %d", reserved, uuid, known.total),
			"read its inventory again")
	case reserved < known.total && known.total != 1:
		return inventory.Reservation{}, inventory.NotOne(uuid, known.total)
	}
	written, err := s.put(ctx, uuid, known, reserved, of)
	if isUnknownClass(err) { // the providers are those of an earlier release, or somebody deleted it
		if err = s.ensureRecordClasses(ctx); err == nil {
			written, err = s.put(ctx, uuid, known, reserved, of)
		}
	}
	if err != nil {
		// The write may have taken effect, and the cached inventory is outdated in any
		// case.
		s.cache.dropInventory(uuid)
		return inventory.Reservation{}, err
	}
	s.cache.keep(uuid, written)
	return written.reservation(), nil
}

// put writes over the inventory that is known, at its generation.
func (s *Store) put(ctx context.Context, uuid string, known cachedInventory, reserved int,
	of *device.Record) (written cachedInventory, err error) {
	err = s.do(ctx, requestInfo{uuid: uuid, generation: known.generation},
		func(ctx context.Context, c *gophercloud.ServiceClient) error {
			if of != nil {
				found, err :=
					readInventories(resourceproviders.UpdateInventories(ctx, c, uuid, known.writeAll(known.generation, reserved, *of)))
				if err == nil {
					written, err = found.one(uuid)
				}
				return err
			}
			answer := resourceproviders.UpdateInventory(ctx, c, uuid, known.class, known.write(known.generation, reserved))
			var shape struct {
				Generation *int64 `json:"resource_provider_generation"`
			}
			if err := answer.ExtractInto(&shape); err != nil {
				return err
			}
			fields, ok := answer.Body.(map[string]any)
			if !ok || shape.Generation == nil {
				return errNotPlacement("generation")
			}
			fields = maps.Clone(fields)
			delete(fields, "resource_provider_generation")
			written, err = record(known.class, *shape.Generation, fields)
			written.recorded = known.recorded // this request leaves it
			return err
		})
	return written, err
}
