package placement

import (
	"context"
	"strings"
	"time"

	"burnish/internal/device"
	"burnish/internal/inventory"
)

// nameIsFree refuses a name that another provider has, ignoring case, or has with
// Nova's name of the host: one device, one provider (S0.14).
func (s *Store) nameIsFree(ctx context.Context, p inventory.Provider) error {
	if err := s.readNames(ctx); err != nil {
		return err
	}
	for _, other := range s.cache.byName(p.Name) {
		if other.uuid == p.UUID {
			continue
		}
		// The list may be outdated.
		have, err := s.provider(ctx, other.uuid)
		if isCode(err, device.CodeNoProvider) {
			continue
		}
		if err != nil {
			return err
		}
		if !strings.EqualFold(have.Name, p.Name) && s.deviceOf(have.Name).name != strings.ToLower(p.Name) {
			continue
		}
		return s.nameTaken(ctx, p, namedProvider{have.UUID, have.Name})
	}
	return nil
}

func (s *Store) nameTaken(ctx context.Context, p inventory.Provider, by namedProvider) error {
	traits, _, err := s.readTraits(ctx, by.uuid)
	if err != nil {
		return err
	}
	for _, trait := range traits {
		if trait == s.trait(OwnTrait) {
			return inventory.Invalid(
				"the name "+by.name+" belongs to provider "+by.uuid+", not to "+p.UUID,
				"delete the other provider if its device is gone, or give this one another name")
		}
	}
	return s.notOurs(by.uuid, by.name)
}

// readNames reads the list of names if the last one is too old.
func (s *Store) readNames(ctx context.Context) error {
	return s.readOnce(ctx, s.cache.namesAreFresh, func() error {
		number, began := s.cache.beginList(), time.Now()
		all, err := s.list(ctx, "", "")
		if err != nil {
			return err
		}
		s.cache.fillNames(number, began, all, s.deviceOf)
		return nil
	})
}

// readOnce reads a whole list, one caller at a time, unless it is fresh by the time
// that it is the caller's turn.
func (s *Store) readOnce(ctx context.Context, fresh func() bool, read func() error) error {
	select {
	case s.cache.reading <- struct{}{}:
	case <-ctx.Done():
		return unavailable(ctx, ctx.Err())
	}
	defer func() { <-s.cache.reading }()
	if fresh() {
		return nil
	}
	return read()
}
