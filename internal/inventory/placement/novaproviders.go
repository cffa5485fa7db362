package placement

import (
	"context"
	"fmt"
	"regexp"
	"strings"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/placement/v1/resourceproviders"

	"burnish/internal/inventory"
)

// novaDevice is the device that one of Nova's providers is for.
type novaDevice struct {
	name string // `<host>_<address>` in lower case, the host as Burnish calls it
	host string // "" if the provider's name has another form
}

var addressForm = regexp.MustCompile(`^[0-9a-f]{4,8}:[0-9a-f]{2}:[01][0-9a-f]\.[0-7]$`)

// deviceOf parses Nova's name of a provider, `{hypervisor_hostname}_{ADDRESS}`. The host
// may contain underscores.
func (s *Store) deviceOf(provider string) novaDevice {
	lower := strings.ToLower(provider)
	at := strings.LastIndex(lower, "_")
	if at < 1 || !addressForm.MatchString(lower[at+1:]) {
		return novaDevice{name: lower}
	}
	host := lower[:at]
	if ours := s.novaHosts[host]; ours != "" {
		host = ours
	}
	return novaDevice{name: host + lower[at:], host: host}
}

// Find is inventory.NovaProviders's. If the device is not in the cached list, the list
// is read again; callers that wait at the same time share it.
func (s *Store) Find(ctx context.Context, name string) (inventory.Provider, error) {
	name = strings.ToLower(name)
	found, since := s.cache.byDevice(name)
	if len(found) != 1 {
		if err := s.refresh(ctx, since); err != nil {
			return inventory.Provider{}, err
		}
		found, _ = s.cache.byDevice(name)
	}
	switch len(found) {
	case 0:
		return inventory.Provider{}, inventory.NoNovaProvider(name)
	case 1:
		p := found[0]
		return inventory.Provider{UUID: p.uuid, Name: p.name, Class: s.cache.class(p.uuid)}, nil
	default:
		return inventory.Provider{}, inventory.Invalid(
			fmt.Sprintf("providers %s (%s) and %s (%s) are both for device %s", found[0].uuid, found[0].name, found[1].uuid,
				found[1].name, name),
			"give each of Nova's hosts its own name in BURNISH_NOVA_HOSTS, or delete the provider that is left over")
	}
}

// refresh reads the list of Nova's providers again, unless one that began after the
// list with this number is there by the time that it is the caller's turn.
func (s *Store) refresh(ctx context.Context, since int64) error {
	return s.readOnce(ctx, func() bool { return s.cache.devicesAfter(since) }, func() error {
		_, err := s.listNova(ctx, "")
		return err
	})
}

// listNova lists Nova's one-time-use providers: all of them, which then fill the cache,
// or those in the tree of a provider.
func (s *Store) listNova(ctx context.Context, inTree string) ([]resourceproviders.ResourceProvider, error) {
	number := s.cache.beginList()
	bearing, own := s.trait(OneTimeUse), s.trait(OwnTrait)
	all, err := s.list(ctx, bearing+",!"+own, inTree)
	if unknownTrait(err, own) && !unknownTrait(err, bearing) {
		all, err = s.list(ctx, bearing, inTree) // no provider has an unknown trait
	}
	if unknownTrait(err, bearing) {
		if !strings.HasPrefix(bearing, "CUSTOM_") { // a custom trait exists once a provider has it
			s.warnMissingTraits([]string{bearing})
		}
		all, err = nil, nil
	}
	if err != nil {
		return nil, err
	}
	if inTree == "" {
		s.cache.fillDevices(number, all, s.deviceOf)
	}
	return all, nil
}

// list reads providers by traits, `A,!B`, and by tree.
func (s *Store) list(ctx context.Context, required, inTree string) ([]resourceproviders.ResourceProvider, error) {
	return s.listBy(ctx, resourceproviders.ListOpts{Required: required, InTree: inTree})
}

func (s *Store) listBy(
	ctx context.Context, by resourceproviders.ListOpts,
) ([]resourceproviders.ResourceProvider, error) {
	var answer struct {
		Providers *[]resourceproviders.ResourceProvider `json:"resource_providers"`
	}
	err := s.do(ctx, requestInfo{configured: true}, func(ctx context.Context, c *gophercloud.ServiceClient) error {
		page, err := resourceproviders.List(c, by).AllPages(ctx)
		if err != nil {
			return err
		}
		if err := page.(resourceproviders.ResourceProvidersPage).ExtractInto(&answer); err != nil {
			return err
		}
		if answer.Providers == nil {
			return errNotPlacement("resource_providers")
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return *answer.Providers, nil
}
