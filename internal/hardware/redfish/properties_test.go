package redfish

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"burnish/internal/device"
	"burnish/internal/testkit/redfishsim"
)

// enrollWhole enrolls the server with all that it consists of, as Discover does.
func (s *stepper) enrollWhole() device.Properties {
	s.t.Helper()
	found, err := s.driver.Discover(s.t.Context(), s.target, device.Identity{})
	require.NoError(s.t, err)
	s.enrolled = found.Identity
	p, err := device.ParseProperties(s.enrolled.Properties)
	require.NoError(s.t, err)
	return p
}

// S3.5
func TestADifferenceInPropertiesIsAFault(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*redfishsim.State)
		says   string
	}{
		"CPU removed": {func(s *redfishsim.State) { s.CPUs = 1 }, "CPUs: 1 instead of 2; cores: 32 instead of 64"},
		"module removed": {func(s *redfishsim.State) { s.MemoryModules = s.MemoryModules[1:] },
			"MiB of memory: 98304 instead of 131072"},
		"drive missing": {func(s *redfishsim.State) { s.Storages[1].Drives[0].Missing = true },
			"missing drive PHLN123400001P6AGN"},
		"drive added": {func(s *redfishsim.State) {
			more := *s.Storages[1].Drives[0]
			more.ID, more.Serial = "Nvme.9", "EXTRA1"
			s.Storages[1].Drives = append(s.Storages[1].Drives, &more)
		}, "extra drive EXTRA1, INTEL"},
		"drive of another size": {func(s *redfishsim.State) { s.Storages[1].Drives[0].CapacityBytes = 1000 },
			"bytes; extra drive PHLN123400001P6AGN, INTEL SSDPE2KE016T8, NVMe, 1000 bytes"},
		"narrower link": {func(s *redfishsim.State) { s.Links[0].Width = 8 },
			"missing PCIe device NIC.Slot.3, x16 Gen4; extra PCIe device NIC.Slot.3, x8 Gen4"},
		"slower link": {func(s *redfishsim.State) { s.Links[1].Speed = "Gen3" },
			"extra PCIe device GPU.Slot.7, x16 Gen3"},
		"card missing": {func(s *redfishsim.State) { s.Links = s.Links[:1] }, "missing PCIe device GPU.Slot.7"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStepper(t, redfishsim.IDRAC, quickBMC)
			s.enrollWhole()
			_, err := s.run("verify_properties", nil)
			require.NoError(t, err)
			s.bmc.Change(tc.change)
			_, err = s.run("verify_properties", nil)
			require.Equal(t, device.CodePropertiesMismatch, code(err), "%v", err)
			require.ErrorContains(t, err, tc.says)
			require.Empty(t, s.bmc.Writes())
		})
	}
}

func TestPropertiesAreComparedWithTheProfile(t *testing.T) {
	s := newStepper(t, redfishsim.ILO, quickBMC)
	note, err := s.run("verify_properties",
		device.Properties{CPUs: 2, Links: []device.Link{{Name: "NIC.Slot.3"}, {Name: "GPU.Slot.7", Width: 16}}})
	require.NoError(t, err)
	require.Contains(t, note, "its policy's profile")
	_, err = s.run("verify_properties", device.Properties{CPUs: 4, Drives: []device.Drive{{Model: "INTEL SSDPE2KE016T8"}}})
	require.Equal(t, device.CodePropertiesMismatch, code(err), "%v", err)
	require.ErrorContains(t, err, "CPUs: 2 instead of 4; extra drive ")
}

func TestPropertiesAreReadFromTheCollections(t *testing.T) {
	s := newStepper(t, redfishsim.OpenBMC, quickBMC)
	h, err := s.driver.connect(s.target)
	require.NoError(t, err)
	system, err := h.readSystem(t.Context())
	require.NoError(t, err)
	system.ProcessorSummary.Count, system.ProcessorSummary.CoreCount = 0, 0
	system.MemorySummary.TotalSystemMemoryGiB = 0
	system.PCIeDevices = nil
	p, err := h.readProperties(t.Context(), system)
	require.NoError(t, err)
	require.Equal(t, 2, p.CPUs)
	require.Equal(t, 64, p.Cores)
	require.EqualValues(t, 131072, p.MemoryMiB)
	require.Len(t, p.Links, 2)
	require.NoError(t, h.Close())
}

// S3.47
func TestPropertiesOfAServerThatIsOff(t *testing.T) {
	each(t, func(t *testing.T, p redfishsim.Personality) {
		build := func(t *testing.T) *stepper {
			s := newStepper(t, p, quickBMC)
			s.bmc.Change(off)
			return s
		}
		check := func(t *testing.T, s *stepper, err error) {
			require.NoError(t, err)
			require.Equal(t, "Off", s.bmc.State().Power)
			require.NotZero(t, s.bmc.State().POSTs)
		}
		if p == redfishsim.ILO { // whose BMC lists no drive while the server is off
			ordeal(t, build, "verify_properties", nil, check, false)
			return
		}
		s := build(t)
		_, err := s.run("verify_properties", nil)
		check(t, s, err)
	})
}

// A BMC whose BootProgress says nothing does not list all drives right after a start either.
func TestServerIsNotEnrolledRightAfterAStartThatIsNotShown(t *testing.T) {
	s := newStepper(t, redfishsim.OpenBMC, quickBMC, func(c *redfishsim.Config, _ *redfishsim.State) {
		c.NoneBootProgress = true
	})
	s.bmc.Change(func(state *redfishsim.State) { state.LastReset = time.Now() })
	_, err := s.driver.Discover(t.Context(), s.target, device.Identity{})
	require.Equal(t, device.CodeServerNotReady, code(err), "%v", err)
	s.bmc.Change(func(state *redfishsim.State) { state.LastReset = time.Now().Add(-time.Hour) })
	_, err = s.driver.Discover(t.Context(), s.target, device.Identity{})
	require.NoError(t, err)
}

func TestPropertiesDiffer(t *testing.T) {
	serial := device.Drive{Serial: "A", Model: "M", CapacityBytes: 10, Protocol: "NVMe"}
	for name, tc := range map[string]struct {
		want, is device.Properties
		differ   []string
	}{
		"nothing is compared with nothing": {device.Properties{}, device.Properties{CPUs: 1, Drives: []device.Drive{serial},
			Links: []device.Link{{Name: "x"}}}, nil},
		"blanks in a serial": {
			device.Properties{Drives: []device.Drive{{Serial: " A "}}}, device.Properties{Drives: []device.Drive{serial}}, nil,
		},
		"a drive without a serial is any of its model": {
			device.Properties{Drives: []device.Drive{{Model: "m"}, {Model: "M", CapacityBytes: 20}}},
			device.Properties{Drives: []device.Drive{{Serial: "B", Model: "M", CapacityBytes: 20}, serial}}, nil,
		},
		"a serial names one drive, whatever others say": {
			device.Properties{Drives: []device.Drive{{Model: "M", Protocol: "NVMe"}, {Serial: "A"}}},
			device.Properties{Drives: []device.Drive{serial, {Serial: "B", Model: "M", Protocol: "NVMe"}}}, nil,
		},
		"one too few of a model": {
			device.Properties{Drives: []device.Drive{{Model: "M"}, {Model: "M"}}},
			device.Properties{Drives: []device.Drive{serial}}, []string{"missing drive M"},
		},
		"two links of one name": {
			device.Properties{Links: []device.Link{{Name: "N", Width: 8}, {Name: "N", Width: 16}}},
			device.Properties{Links: []device.Link{{Name: "N", Width: 16}, {Name: "N", Width: 4}}},
			[]string{"missing PCIe device N, x8", "extra PCIe device N, x4"},
		},
		"a link that was not there": {
			device.Properties{Links: []device.Link{{Name: "N", Width: 8}}},
			device.Properties{Links: []device.Link{{Name: "N", Width: 8}, {Name: "O", Width: 4, Speed: "Gen3"}}},
			[]string{"extra PCIe device O, x4 Gen3"},
		},
	} {
		t.Run(name, func(t *testing.T) { require.Equal(t, tc.differ, propertiesDiffer(tc.want, tc.is)) })
	}
}
