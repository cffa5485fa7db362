// Package drivers is the list of all drivers. To add one, create its folder below package
// hardware and add one line here.
package drivers

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"burnish/internal/hardware"
	"burnish/internal/hardware/block"
	"burnish/internal/hardware/fake"
	"burnish/internal/hardware/nvme"
	"burnish/internal/hardware/redfish"
	"burnish/internal/hardware/script"
	"burnish/internal/host"
	"burnish/internal/pci"
)

// Host is what drivers need to know of their host.
type Host struct {
	// StateDir is the host worker's state directory.
	StateDir string
	// Paths decides which paths may be destroyed (F13).
	Paths block.Allow
	// PCI decides whether a PCI device may be destroyed (F13). Specs gives the device_spec
	// entries in force.
	PCI   func(pci.Device) error
	Specs func() (pci.Specs, error)
	// Scripts gives the operator's programs that may be run (F13).
	Scripts func() (map[string]host.Script, error)
	// Nodes decides whether the server with a serial may be destroyed (F13). Secret gives a
	// secret of its BMC.
	Nodes  func(serial string) error
	Secret func(name string) (host.Secret, error)
	// NVMeHelper is the program that does what needs root for the driver nvme.
	NVMeHelper string
	// Fake decides whether simulated devices may be used.
	Fake func() error
}

// makers is the list.
var makers = map[string]func(Host) hardware.Driver{
	"block": func(h Host) hardware.Driver { return block.New(h.Paths, h.StateDir) },
	"nvme": func(h Host) hardware.Driver {
		return nvme.New(nvme.Host{Allow: h.PCI, Specs: h.Specs, Helper: h.NVMeHelper,
			Kernel: block.Kernel{ProtectedDirs: []string{h.StateDir}}})
	},
	"redfish": func(h Host) hardware.Driver {
		return redfish.New(redfish.Host{StateDir: h.StateDir, Allow: h.Nodes, Secret: h.Secret})
	},
	"script": func(h Host) hardware.Driver {
		return script.New(script.Host{Allow: h.PCI, Scripts: h.Scripts, Specs: h.Specs})
	},
	"fake": func(h Host) hardware.Driver { return fake.New(h.StateDir, h.Fake) },
}

// Names lists all drivers in alphabetical order.
func Names() []string {
	return slices.Sorted(maps.Keys(makers))
}

// New returns the drivers of these names, each once. Its error, for an unknown name, is
// one line that lists the known ones.
func New(names []string, host Host) (map[string]hardware.Driver, error) {
	if err := Validate(names); err != nil {
		return nil, err
	}
	drivers := make(map[string]hardware.Driver, len(names))
	for _, name := range names {
		if drivers[name] == nil {
			drivers[name] = makers[name](host)
		}
	}
	return drivers, nil
}

// Validate refuses an unknown name, in one line.
func Validate(names []string) error {
	for _, name := range names {
		if makers[name] == nil {
			return fmt.Errorf("there is no driver %q: must be one of %s", name, strings.Join(Names(), ", "))
		}
	}
	return nil
}
