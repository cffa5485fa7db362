package file

import (
	"context"

	"burnish/internal/device"
	"burnish/internal/inventory"
)

var _ inventory.Lister = (*Store)(nil)

// ListNova is inventory.Lister's: Nova makes no providers in files.
func (s *Store) ListNova(context.Context, []string, func(string) bool, func(inventory.ProviderSnapshot) error) error {
	return nil
}

// ListOwn is inventory.Lister's. A file that cannot be read is passed on with its fault.
func (s *Store) ListOwn(ctx context.Context, uuids []string, each func(inventory.ProviderSnapshot) error) error {
	for _, uuid := range uuids {
		var p inventory.ProviderSnapshot
		err := s.with(ctx, uuid, func(r *record) error {
			now := r.reservation()
			p.Provider = inventory.Provider{UUID: r.UUID, Name: r.Name, Class: r.Class, Traits: r.Traits}
			p.Inventory = device.Inventory{
				Generation: now.Generation, Total: now.Total, Reserved: now.Reserved, Record: now.Record,
				Used: r.Used, Consumers: r.Consumers,
			}
			return nil
		})
		if f, ok := device.AsFault(err); ok && f.Code == device.CodeNoProvider {
			continue
		} else if ok && f.Code == device.CodeInventoryInvalid {
			p, err = inventory.ProviderSnapshot{Provider: inventory.Provider{UUID: uuid}, Fault: f}, nil
		}
		if err == nil {
			err = each(p)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
