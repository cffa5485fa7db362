package file

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"burnish/internal/inventory"
)

// hardwareDir holds one file for each hardware; its lines are the UUIDs of the providers that
// record it. It is an index, so that a lookup costs two reads, however large the fleet: a
// provider is in it before its own file says so, and that decides. Where the directory is
// missing, New makes it from the files of the providers.
const hardwareDir = "hardware"

// buildIndex makes the directory, or leaves none. The caller holds the lock.
func (s *Store) buildIndex() error {
	if _, err := os.Stat(s.index); err == nil {
		return nil // another process made it
	}
	part := *s
	part.index += ".part"
	if err := errors.Join(os.RemoveAll(part.index), os.Mkdir(part.index, 0o700)); err != nil {
		return err
	}
	files, err := filepath.Glob(filepath.Join(s.dir, "*.json"))
	if err != nil {
		return err
	}
	for _, path := range files {
		r, err := s.read(strings.TrimSuffix(filepath.Base(path), ".json"))
		if err != nil || r == nil {
			continue // which hardware it is of cannot be known
		}
		for _, hardware := range r.Hardware {
			if err := part.list(r.UUID, hardware); err != nil {
				return err
			}
		}
	}
	return os.Rename(part.index, s.index)
}

// OfHardware is inventory.Store's.
func (s *Store) OfHardware(ctx context.Context, hardware string) (found []inventory.Provider, err error) {
	if err := checkUUID(hardware); err != nil {
		return nil, err
	}
	err = s.locked(ctx, func() error {
		listed, err := s.listed(hardware)
		if err != nil {
			return err
		}
		for _, uuid := range listed {
			r, err := s.read(uuid)
			if err != nil {
				return err
			}
			if r != nil && slices.Contains(r.Hardware, hardware) {
				found = append(found, inventory.Provider{UUID: r.UUID, Name: r.Name})
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return found, nil
}

// writeHardware writes a record with the hardware of p: first to the index, so that a crash
// leaves no record that it does not have.
func (s *Store) writeHardware(r *record, p inventory.Provider) error {
	if p.Hardware != "" && !slices.Contains(r.Hardware, p.Hardware) {
		if err := s.list(r.UUID, p.Hardware); err != nil {
			return err
		}
	}
	gone := slices.Clone(r.Hardware)
	r.Hardware = inventory.WithHardware(r.Hardware, p)
	if err := s.write(r); err != nil {
		return err
	}
	gone = slices.DeleteFunc(gone, func(h string) bool { return slices.Contains(r.Hardware, h) })
	return s.unlist(r.UUID, gone)
}

// list adds a provider to the index of a hardware.
func (s *Store) list(uuid, hardware string) error {
	if err := checkUUID(hardware); err != nil {
		return err
	}
	listed, err := s.listed(hardware)
	if err != nil || slices.Contains(listed, uuid) {
		return err
	}
	return s.replace(s.hardwarePath(hardware), lines(append(listed, uuid)))
}

// unlist removes a provider from the index of each hardware.
func (s *Store) unlist(uuid string, hardware []string) error {
	var failed []error
	for _, h := range hardware {
		listed, err := s.listed(h)
		switch rest := slices.DeleteFunc(listed, func(other string) bool { return other == uuid }); {
		case err != nil:
		case len(rest) == 0:
			err = s.remove(s.hardwarePath(h))
		default:
			err = s.replace(s.hardwarePath(h), lines(rest))
		}
		failed = append(failed, err)
	}
	return errors.Join(failed...)
}

// listed gives the providers that the index has for a hardware.
func (s *Store) listed(hardware string) ([]string, error) {
	const remedy = "restore the file from a backup; it lists the providers whose files name this hardware"
	// Without its directory the index is lost, and not empty.
	if _, err := os.Stat(s.index); err != nil {
		return nil, inventory.Unavailable("inventory", diskRemedy, err)
	}
	path := s.hardwarePath(hardware)
	data, found, err := readFile(path, remedy)
	if !found || err != nil {
		return nil, err
	}
	listed := strings.Fields(string(data))
	if len(listed) == 0 || slices.ContainsFunc(listed, func(uuid string) bool { return !uuidForm.MatchString(uuid) }) {
		return nil, inventory.Invalid(path+" is not a list of UUIDs", remedy)
	}
	return listed, nil
}

func (s *Store) hardwarePath(hardware string) string {
	return filepath.Join(s.index, hardware)
}

func lines(all []string) []byte { return []byte(strings.Join(all, "\n") + "\n") }
