// Package all is the list of inventory backends. It stands apart from the port
// because the backends import that.
package all

import (
	"fmt"
	"strings"

	"burnish/internal/inventory"
	"burnish/internal/inventory/file"
)

// Kinds lists the backends that exist.
func Kinds() []string { return []string{"file"} }

// Open opens the inventory of a kind as it is named in the settings. There is no
// default: one-time use without an inventory is refused at start (S0.12). dir is
// the file inventory's directory.
func Open(kind, dir string) (inventory.Store, error) {
	switch kind {
	case "file":
		s, err := file.New(dir)
		if err != nil {
			return nil, err // not s: a nil *Store in the interface would not be nil
		}
		return s, nil
	default:
		return nil, fmt.Errorf("no inventory of kind %q: want %s", kind, strings.Join(Kinds(), ", "))
	}
}
