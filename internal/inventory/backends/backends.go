// Package backends is the list of inventory backends. It is apart from the port
// because the backends import that.
package backends

import (
	"context"
	"fmt"
	"strings"

	"burnish/internal/inventory"
	"burnish/internal/inventory/file"
	"burnish/internal/inventory/placement"
)

// Kinds lists the backends that exist.
func Kinds() []string { return []string{"file", "placement"} }

// Options are the settings of all backends; each reads its own part.
type Options struct {
	// Dir is the file inventory's directory.
	Dir string
	// Placement is the settings of Placement besides the credentials, which it reads
	// from clouds.yaml or OS_* variables.
	Placement placement.Settings
}

// Open opens the inventory of a kind as it is named in the settings. There is no
// default: one-time use without an inventory is refused at start (S0.12).
func Open(ctx context.Context, kind string, o Options) (inventory.Store, error) {
	switch kind {
	case "file":
		s, err := file.New(o.Dir)
		if err != nil {
			return nil, err // not s: a nil *Store in the interface would not be nil
		}
		return s, nil
	case "placement":
		s, err := placement.Open(ctx, o.Placement)
		if err != nil {
			return nil, err
		}
		return s, nil
	default:
		return nil, fmt.Errorf("no inventory of kind %q: want %s", kind, strings.Join(Kinds(), ", "))
	}
}
