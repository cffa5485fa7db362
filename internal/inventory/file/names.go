package file

import (
	"fmt"
	"net/url"
	"path/filepath"
	"strings"

	"burnish/internal/inventory"
)

// namesDir holds one file for each name; its content is the UUID of the provider with
// that name. It is an index, and the provider's own file decides: a name is free if its
// provider does not exist or has another name. So a lookup costs two reads, however
// large the fleet. The check does not find providers whose files were copied here by
// hand, until the next Create.
const namesDir = "names"

// namePath escapes the name; the extension makes "." and ".." ordinary files.
func (s *Store) namePath(name string) string {
	return filepath.Join(s.dir, namesDir, url.PathEscape(name)+".uuid")
}

// claimName makes the name uuid's, unless another provider has it.
func (s *Store) claimName(name, uuid string) error {
	owner, err := s.nameOwner(name)
	if err != nil || owner == uuid {
		return err
	}
	if owner != "" {
		r, err := s.read(owner)
		if err != nil {
			return err
		}
		if r != nil && r.Name == name {
			return inventory.Invalid(
				fmt.Sprintf("the name %q belongs to provider %s, not to %s", name, owner, uuid),
				"delete the other provider if its device is gone, or give this one another name")
		}
	}
	return s.replace(s.namePath(name), []byte(uuid+"\n"))
}

// releaseName removes the name if it is uuid's.
func (s *Store) releaseName(name, uuid string) error {
	owner, err := s.nameOwner(name)
	if err != nil || owner != uuid {
		return err
	}
	return s.remove(s.namePath(name))
}

// nameOwner gives the UUID that the index has for the name, "" if none.
func (s *Store) nameOwner(name string) (string, error) {
	const remedy = "remove the file: it is an index, and the next enrollment writes it again"
	path := s.namePath(name)
	data, found, err := readFile(path, remedy)
	if !found || err != nil {
		return "", err
	}
	owner := strings.TrimSuffix(string(data), "\n")
	if !uuidForm.MatchString(owner) {
		return "", inventory.Invalid(fmt.Sprintf("%s holds no UUID", path), remedy)
	}
	return owner, nil
}
