package redfish

import (
	"context"
	"strings"

	"github.com/stmcginnis/gofish/common"
	"github.com/stmcginnis/gofish/redfish"

	"burnish/internal/device"
	"burnish/internal/hardware"
)

// system is what the driver reads of a ComputerSystem. gofish's own type fails as a whole where
// one property has another type, such as a Redundancy@odata.count that is a number.
type system struct {
	ODataID      string `json:"@odata.id"`
	SerialNumber string
	Manufacturer string
	SKU          string
	Model        string
	BiosVersion  string
	PowerState   redfish.PowerState
	BootProgress struct {
		LastState     redfish.BootProgressTypes
		LastStateTime string
	}
	LastResetTime string
	Bios          common.Link
	Storage       common.Link
	Processors    common.Link
	Memory        common.Link
	PCIeDevices   []common.Link
	Links         struct {
		Chassis     []common.Link
		ManagedBy   []common.Link
		PCIeDevices []common.Link
	}
	ProcessorSummary struct{ Count, CoreCount int }
	MemorySummary    struct{ TotalSystemMemoryGiB float64 }
	Actions          struct {
		Reset struct {
			Target     string              `json:"target"`
			Allowed    []redfish.ResetType `json:"ResetType@Redfish.AllowableValues"`
			ActionInfo string              `json:"@Redfish.ActionInfo"`
		} `json:"#ComputerSystem.Reset"`
	}
	Oem struct {
		Hpe *hpeSystem
		Hp  *hpeSystem
	}
}

// hpeSystem is what HPE says besides.
type hpeSystem struct {
	PostState                string
	DeviceDiscoveryComplete  *struct{ DeviceDiscovery string }
	AggregateHealthStatus    any `json:"-"`
	IntelligentProvisioning_ any `json:"-"`
}

func (s *system) hpe() *hpeSystem {
	if s.Oem.Hpe != nil {
		return s.Oem.Hpe
	}
	return s.Oem.Hp
}

// readSystem reads the system at path.
func (c *client) readSystem(ctx context.Context, path string) (*system, error) {
	s := &system{}
	return s, c.get(ctx, path, s)
}

// identify gives the identity of a system that was just read: by its serial, else by that of
// its chassis.
func (c *client) identify(ctx context.Context, s *system) (device.Identity, error) {
	identity := device.Identity{
		Serial: hardware.CanonicalSerial(s.SerialNumber), Vendor: strings.TrimSpace(s.Manufacturer),
		Product: strings.TrimSpace(s.SKU), Model: strings.TrimSpace(s.Model), Firmware: strings.TrimSpace(s.BiosVersion),
	}
	for _, link := range s.Links.Chassis {
		if identity.Serial != "" {
			break
		}
		path := c.path(link.String())
		if path == "" {
			continue
		}
		var chassis struct{ SerialNumber string }
		if err := c.get(ctx, path, &chassis); err != nil {
			return device.Identity{}, err
		}
		identity.Serial = hardware.CanonicalSerial(chassis.SerialNumber)
	}
	if identity.Serial == "" {
		return device.Identity{}, hardware.Refused(device.CodeIdentityChanged, "write the serial into the server's firmware with the vendor's tool",
			"neither the system, which says %q, nor its chassis has a serial: the server cannot be recognized", s.SerialNumber)
	}
	return identity, nil
}
