package tagging_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"burnish/internal/tagging"
	"burnish/workflows/contract"
)

// S1.10, S1.11, S1.12, S1.13, S1.14, S1.18
func TestGuestAddressesOfEachBus(t *testing.T) {
	good := map[string][]string{
		"pci":  {"", "0000:00:05.0", "00FF:0a:1f.7"},
		"usb":  {"", "0:1", "1:a"},
		"scsi": {"", "1:0:2:0"},
		"ide":  {"", "0:0", "0:1", "1:0", "1:1"},
		"xen":  {"", "0", "51712", "000100"},
		"none": {""},
	}
	bad := map[string][]string{
		"pci":  {"0000:00:05:0", "0000:00:20.0", "0000:00:05.8", "0000:00:05x0", "0000:00:05.0 ", "0000:00:05.0\n", " 0000:00:05.0", "x0000:00:05.0", "0000:00:05.00", "0:0:5.0", "none", "0000:00:05"},
		"usb":  {"0", "0:1:2", "0:1\n", "0.1", "g:1"},
		"scsi": {"1:0:2", "1:0:2:0:0", "1:0:2:0\n", "1:0:2:"},
		"ide":  {"0:2", "0:0:0", "0:0\n", "00:0"},
		"xen":  {"0x1", "-1", "1.5", "(000000)", "1\n", "vda", "1e3", strings.Repeat("1", 65)},
		"none": {"0000:00:05.0", "none", "0"},
		"PCI":  {"", "0000:00:05.0"},
		"sata": {""},
		"":     {"", "0000:00:05.0"},
	}
	check := func(bus, address string) error {
		return tagging.CheckGuest([]contract.GuestAddress{{Bus: bus, Address: address}})
	}
	for bus, addresses := range good {
		for _, a := range addresses {
			require.NoError(t, check(bus, a), "%s %q", bus, a)
		}
	}
	for bus, addresses := range bad {
		for _, a := range addresses {
			require.Error(t, check(bus, a), "%s %q", bus, a)
		}
	}
	require.NoError(t, tagging.CheckGuest(nil), "nothing is known")
}

// S1.5
func TestADeviceOnTwoBusesNamesEachOnce(t *testing.T) {
	ide, xen := contract.GuestAddress{Bus: "ide", Address: "0:0"},
		contract.GuestAddress{Bus: "xen", Address: "0", Path: "/dev/xvda"}
	require.NoError(t, tagging.CheckGuest([]contract.GuestAddress{ide, xen}))
	require.ErrorContains(t, tagging.CheckGuest([]contract.GuestAddress{ide, ide}), "bus ide is given twice")
}

func TestNamesInTheGuest(t *testing.T) {
	for _, g := range []contract.GuestAddress{
		{Bus: "none", Path: "/dev/sda"},
		{Bus: "none", Path: "/dev/disk/by-id/virtio-a b"},
		{Bus: "none", Devname: "eth0"},
		{Bus: "none", Devname: strings.Repeat("e", 15)},
		{Bus: "pci", MAC: "52:54:00:AB:cd:ef"},
	} {
		require.NoError(t, tagging.CheckGuest([]contract.GuestAddress{g}), g)
	}
	for _, g := range []contract.GuestAddress{
		{Bus: "none", Path: "sda"},
		{Bus: "none", Path: "/dev/../etc/passwd"},
		{Bus: "none", Path: "/dev/sda\n"},
		{Bus: "none", Path: "/dev/\x1b[2J"},
		{Bus: "none", Path: "/dev/\xff"},
		{Bus: "none", Path: "/" + strings.Repeat("a", 255)},
		{Bus: "none", Devname: strings.Repeat("e", 16)},
		{Bus: "none", Devname: "eth 0"},
		{Bus: "none", Devname: "a/b"},
		{Bus: "none", Devname: ".."},
		{Bus: "none", Devname: "eth0\n"},
		{Bus: "pci", MAC: "52:54:00:ab:cd"},
		{Bus: "pci", MAC: "52:54:00:ab:cd:ef:00"},
		{Bus: "pci", MAC: "52:54:00:ab:cd:ef\n"},
	} {
		require.Error(t, tagging.CheckGuest([]contract.GuestAddress{g}), "%q", g)
	}
}
