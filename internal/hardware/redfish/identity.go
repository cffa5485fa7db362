package redfish

import (
	"context"
	"net/http"
	"strings"
	"time"

	"github.com/stmcginnis/gofish/redfish"

	"burnish/internal/device"
	"burnish/internal/hardware"
)

// system is what the driver reads of a ComputerSystem. gofish's own type fails as a whole where
// one property has another type, such as a Redundancy@odata.count that is a number.
type system struct {
	now          time.Time // of the BMC's clock; zero: it does not say
	SerialNumber string
	Manufacturer string `bmc:"optional"`
	SKU          string `bmc:"optional"`
	Model        string `bmc:"optional"`
	BiosVersion  string `bmc:"optional"`
	PowerState   redfish.PowerState
	BootProgress struct {
		LastState     redfish.BootProgressTypes
		LastStateTime string
	} `bmc:"optional"`
	LastResetTime string `bmc:"optional"`
	Bios          link
	Storage       link
	Boot          systemBoot `bmc:"optional"`
	SecureBoot    link       `bmc:"optional"`
	VirtualMedia  link       `bmc:"optional"`
	TPMs          []struct {
		Kind   string `json:"InterfaceType"`
		Status resourceStatus
	} `json:"TrustedModules" bmc:"optional"`
	Settings struct {
		Object     link     `json:"SettingsObject"`
		ApplyTimes []string `json:"SupportedApplyTimes"`
	} `json:"@Redfish.Settings" bmc:"optional"`
	Processors  link   `bmc:"optional"`
	Memory      link   `bmc:"optional"`
	PCIeDevices []link `bmc:"optional"`
	Links       struct {
		Chassis     []link
		ManagedBy   []link
		PCIeDevices []link `bmc:"optional"`
	}
	ProcessorSummary struct {
		Count, CoreCount int `bmc:"optional"`
	} `bmc:"optional"`
	MemorySummary struct {
		TotalSystemMemoryGiB float64 `bmc:"optional"`
	} `bmc:"optional"`
	Actions struct {
		Reset struct {
			Target     link     `json:"target"`
			Allowed    []string `json:"ResetType@Redfish.AllowableValues" bmc:"optional"`
			ActionInfo link     `json:"@Redfish.ActionInfo" bmc:"optional"`
		} `json:"#ComputerSystem.Reset" bmc:"optional"`
	} `bmc:"optional"`
	Oem struct{ Hpe *hpeSystem } `bmc:"object"`
}

// hpeSystem is what HPE says besides.
type hpeSystem struct {
	PostState               string
	DeviceDiscoveryComplete *struct{ DeviceDiscovery string }
}

// readSystem reads the system.
func (h *handle) readSystem(ctx context.Context) (*system, error) {
	got, err := h.Get(ctx, h.system)
	if err != nil {
		return nil, err
	}
	s := &system{}
	if err := got.decode(s); err != nil {
		return nil, err
	}
	if date, err := http.ParseTime(got.Header.Get("Date")); err == nil {
		s.now = date
	}
	h.last = s
	return s, nil
}

// known is the system as it was last read, for its links, which stay.
func (h *handle) known(ctx context.Context) (*system, error) {
	if h.last != nil {
		return h.last, nil
	}
	return h.readSystem(ctx)
}

// identify gives the identity of a system that was just read: by its serial, else by that of
// its chassis.
func (h *handle) identify(ctx context.Context, s *system) (device.Identity, error) {
	identity := device.Identity{
		Serial: hardware.CanonicalSerial(s.SerialNumber), Vendor: strings.TrimSpace(s.Manufacturer),
		Product: strings.TrimSpace(s.SKU), Model: strings.TrimSpace(s.Model), Firmware: strings.TrimSpace(s.BiosVersion),
	}
	for _, path := range paths(s.Links.Chassis) {
		if identity.Serial != "" {
			break
		}
		var chassis struct{ SerialNumber string }
		if err := h.get(ctx, path, &chassis); err != nil {
			return device.Identity{}, err
		}
		identity.Serial = hardware.CanonicalSerial(chassis.SerialNumber)
	}
	if identity.Serial == "" {
		return device.Identity{},
			hardware.Refused(device.CodeIdentityChanged, "write the serial into the server's firmware with the vendor's tool",
				"neither the system, which says %q, nor its chassis has a serial: the server cannot be recognized", s.SerialNumber)
	}
	return identity, nil
}
