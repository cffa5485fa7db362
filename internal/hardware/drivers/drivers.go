// Package drivers is the list of all drivers. To add one, create its folder below package
// hardware and add one line here.
package drivers

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"burnish/internal/clean"
	"burnish/internal/hardware"
	"burnish/internal/hardware/block"
	"burnish/internal/hardware/fake"
	"burnish/internal/hardware/nvme"
	"burnish/internal/hardware/pci"
	"burnish/internal/hardware/redfish"
	"burnish/internal/hardware/script"
	"burnish/internal/host"
)

// Host is what drivers need to know of their host.
type Host struct {
	// StateDir is the host worker's state directory.
	StateDir string
	// Rules say what may be destroyed (F13); nil allows nothing.
	Rules *host.Rules
	// NVMeHelper is the program that does what needs root for the driver nvme.
	NVMeHelper string
	// Policy is this host's: the driver pci needs what it has for its models.
	Policy clean.Policy
}

// makers is the list.
var makers = map[string]func(Host) hardware.Driver{
	"block": func(h Host) hardware.Driver { return block.New(h.Rules, h.StateDir) },
	"nvme": func(h Host) hardware.Driver {
		return nvme.New(nvme.Host{Allow: h.Rules.AllowPCI, Specs: h.Rules.PCISpecs, Helper: h.NVMeHelper,
			Kernel: block.Kernel{ProtectedDirs: []string{h.StateDir}}})
	},
	"pci": func(h Host) hardware.Driver {
		return pci.New(pci.Host{Allow: h.Rules.AllowPCI, Specs: h.Rules.PCISpecs, Models: h.Policy.Models,
			Images: h.images, Programs: scriptDriver(h)})
	},
	"redfish": func(h Host) hardware.Driver {
		return redfish.New(redfish.Host{StateDir: h.StateDir, Allow: h.Rules.AllowNode, Secret: h.Rules.Secret})
	},
	"script": func(h Host) hardware.Driver { return scriptDriver(h) },
	"fake":   func(h Host) hardware.Driver { return fake.New(h.StateDir, h.Rules.AllowFake) },
}

func scriptDriver(h Host) *script.Driver {
	return script.New(script.Host{Allow: h.Rules.AllowPCI, Scripts: h.Rules.Scripts, Specs: h.Rules.PCISpecs})
}

// images are the arguments that a plan has from the firmware policy for a device; nil: none.
func (h Host) images(kind, vendor, model string) (json.RawMessage, error) {
	images := h.Policy.FirmwareOf(clean.Subject{Type: kind, Vendor: vendor, Model: model})
	if len(images) == 0 {
		return nil, nil
	}
	return json.Marshal(clean.FirmwareArgs{Components: images})
}

// Names lists all drivers in alphabetical order.
func Names() []string {
	return slices.Sorted(maps.Keys(makers))
}

// New returns the drivers of these names, each once. Its error, for an unknown name, is
// one line that lists the known ones.
func New(names []string, of Host) (map[string]hardware.Driver, error) {
	if err := Validate(names); err != nil {
		return nil, err
	}
	if of.Rules == nil {
		of.Rules = &host.Rules{}
	}
	drivers := make(map[string]hardware.Driver, len(names))
	for _, name := range names {
		if drivers[name] == nil {
			drivers[name] = makers[name](of)
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
