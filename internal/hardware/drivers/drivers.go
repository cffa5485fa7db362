// Package drivers is the list of the drivers that exist. To add one: its folder
// below package hardware, and one line here.
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
	"burnish/internal/hardware/script"
	"burnish/internal/host"
	"burnish/internal/pci"
)

// Host is what drivers need of the host that they work on.
type Host struct {
	// StateDir is where the host worker keeps what it must not forget.
	StateDir string
	// Paths says which paths may be destroyed (SAFETY F13).
	Paths block.Allow
	// PCI says whether a PCI device may be destroyed (SAFETY F13), Specs which entries
	// of device_spec are in force.
	PCI   func(pci.Device) error
	Specs func() (pci.Specs, error)
	// Scripts gives the operator's programs that may be run now (SAFETY F13).
	Scripts func() (map[string]host.Script, error)
	// NVMeHelper is the program that does for the driver nvme what needs root.
	NVMeHelper string
	// Fake says whether simulated devices may be used.
	Fake func() error
}

// makers is the list.
var makers = map[string]func(Host) hardware.Driver{
	"block": func(h Host) hardware.Driver { return block.New(h.Paths, h.StateDir) },
	"nvme": func(h Host) hardware.Driver {
		return nvme.New(nvme.Host{Allow: h.PCI, Specs: h.Specs, Helper: h.NVMeHelper, Kernel: block.Kernel{ProtectedDirs: []string{h.StateDir}}})
	},
	"script": func(h Host) hardware.Driver { return script.New(script.Host{Allow: h.PCI, Scripts: h.Scripts}) },
	"fake":   func(h Host) hardware.Driver { return fake.New(h.StateDir, h.Fake) },
}

// Names lists the drivers that exist, in the order of the alphabet.
func Names() []string {
	return slices.Sorted(maps.Keys(makers))
}

// Drivers makes the drivers of these names, each once. A name that is not in the
// list is an error of one line that gives those that are.
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

// Known refuses, in one line, a name that no driver has.
func Validate(names []string) error {
	for _, name := range names {
		if makers[name] == nil {
			return fmt.Errorf("there is no driver %q: known are %s", name, strings.Join(Names(), ", "))
		}
	}
	return nil
}
