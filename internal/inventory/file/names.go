package file

import (
	"fmt"
	"net/url"
	"path/filepath"
	"strings"

	"burnish/internal/inventory"
)

// namesDir holds a file a name, whose content is the UUID of the provider that has
// it. It is an index: the provider's own file decides, and a name whose provider is
// not there, or is called otherwise, is free. Looking a name up thus costs two
// reads, however large the fleet. Files copied in by hand without their names are
// found by UUID, but not by this check until they are published again.
const namesDir = "names"

// namePath escapes the name, and appends what makes "." and ".." ordinary files.
func (s *Store) namePath(name string) string {
	return filepath.Join(s.dir, namesDir, url.PathEscape(name)+".uuid")
}

// claimName makes the name uuid's, unless another provider has it.
func (s *Store) claimName(name, uuid string) error {
	said, err := s.nameOwner(name)
	if err != nil || said == uuid {
		return err
	}
	if said != "" {
		r, err := s.read(said)
		if err != nil {
			return err
		}
		if r != nil && r.Name == name {
			return inventory.Invalid(
				fmt.Sprintf("the name %q belongs to provider %s, not to %s", name, said, uuid),
				"delete the other provider if its device is gone, or give this one another name")
		}
	}
	return s.replace(s.namePath(name), []byte(uuid+"\n"))
}

// releaseName removes the name if it is uuid's.
func (s *Store) releaseName(name, uuid string) error {
	said, err := s.nameOwner(name)
	if err != nil || said != uuid {
		return err
	}
	return s.remove(s.namePath(name))
}

// nameOwner gives the UUID that the index says has the name, "" if none.
func (s *Store) nameOwner(name string) (string, error) {
	const remedy = "remove the file: it is an index, and the next enrolment writes it again"
	path := s.namePath(name)
	data, found, err := readFile(path, remedy)
	if !found || err != nil {
		return "", err
	}
	said := strings.TrimSuffix(string(data), "\n")
	if !uuidForm.MatchString(said) {
		return "", inventory.Invalid(fmt.Sprintf("%s holds no UUID", path), remedy)
	}
	return said, nil
}
