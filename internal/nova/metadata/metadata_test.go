package metadata_test

import (
	"encoding/json"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"burnish/internal/device"
	"burnish/internal/nova/metadata"
	"burnish/workflows/contract"
)

const uuid = "11111111-2222-3333-4444-555555555555"

func documentOf(t *testing.T, devices ...contract.HeldDevice) string {
	t.Helper()
	text, err := metadata.New(contract.InstanceStatus{UUID: uuid, Devices: devices}).JSON()
	require.NoError(t, err)
	return string(text)
}

func guest(bus, address string) contract.GuestAddress {
	return contract.GuestAddress{Bus: bus, Address: address}
}

// The specification's own examples, whatever the order in which the devices were bound.
//
// S1.5, S1.6, S1.8, S1.9, S1.17
func TestTheSpecificationsExamples(t *testing.T) {
	const mac = "01:22:22:42:22:21" // twice in each example
	nic := func(tag string, g contract.GuestAddress) contract.HeldDevice {
		return contract.HeldDevice{Name: tag, Type: "NIC", MAC: mac, Tag: tag, Guest: []contract.GuestAddress{g}}
	}
	disk := func(deviceType, serial, tag string, g ...contract.GuestAddress) contract.HeldDevice {
		return contract.HeldDevice{Name: tag, Type: deviceType, Serial: serial, Tag: tag, Guest: g}
	}
	for name, devices := range map[string][]contract.HeldDevice{
		"pci_scsi": {
			nic("nfvfunc1", guest("pci", "0000:00:02.0")), nic("nfvfunc2", guest("pci", "0000:00:03.0")),
			disk("DISK", "disk-vol-2352423", "oracledb", guest("scsi", "1:0:2:0")),
			disk("NVME", "disk-vol-24235252", "squidcache", guest("pci", "0000:00:07.0")),
		},
		"xen": {
			nic("nfvfunc1", guest("xen", "0")), nic("nfvfunc2", guest("xen", "1")),
			disk("DISK", "disk-vol-123456", "oracledb", guest("ide", "0:0"),
				contract.GuestAddress{Bus: "xen", Address: "0", Path: "/dev/xvda"}),
			disk("DISK", "disk-vol-789321", "squidcache", guest("ide", "0:1"),
				contract.GuestAddress{Bus: "xen", Address: "1", Path: "/dev/xvdb"}),
		},
		"containers": {
			nic("nfvfunc1", contract.GuestAddress{Bus: "none", Devname: "eth0"}),
			nic("nfvfunc2", contract.GuestAddress{Bus: "none", Devname: "eth1"}),
			disk("DISK", "disk-vol-2352423", "oracledb", contract.GuestAddress{Bus: "none", Path: "/dev/sda"}),
			disk("DISK", "disk-vol-24235252", "squidcache", contract.GuestAddress{Bus: "none", Path: "/dev/sdb"}),
		},
	} {
		t.Run(name, func(t *testing.T) {
			text, err := os.ReadFile("testdata/example_" + name + ".json")
			require.NoError(t, err)
			require.NoError(t, metadata.Validate(text))
			var want map[string]any
			require.NoError(t, json.Unmarshal(text, &want))
			want["uuid"] = uuid
			for range 5 {
				rand.Shuffle(len(devices), func(i, j int) { devices[i], devices[j] = devices[j], devices[i] })
				var have map[string]any
				require.NoError(t, json.Unmarshal([]byte(documentOf(t, devices...)), &have))
				require.Equal(t, want, have)
			}
		})
	}
}

// Nothing that the host knows of its own bus stands in the document; where the guest's is not
// known, the bus is none.
//
// S1.15
func TestTheHostsAddressIsNeverShown(t *testing.T) {
	doc := documentOf(t, contract.HeldDevice{Name: "h1_0000:01:00.0", UUID: "U", Host: "h1", Vendor: "V", Model: "M",
		Type: "NVME", Serial: "S1", Tag: "db", Binding: 7})
	require.JSONEq(t, `{"uuid":"`+uuid+`","devices":[{"type":"disk","bus":"none","serial":"S1","tags":["db"]}]}`, doc)
	require.NotContains(t,
		documentOf(t, contract.HeldDevice{Name: "h1_0000:01:00.0", Type: "NIC", MAC: "52:54:00:00:00:01",
			Guest: []contract.GuestAddress{guest("pci", "")}}), "0000:01")
}

// S1.16
func TestANICWithoutAMACIsLeftOut(t *testing.T) {
	nic := contract.HeldDevice{Name: "n", Type: "NIC", Serial: "S", Tag: "lan",
		Guest: []contract.GuestAddress{{Bus: "pci", Address: "0000:00:05.0", Path: "/dev/x"}}}
	for _, mac := range []string{"", "*", "52:54:00:00:00", "52:54:00:00:00:01\n"} {
		nic.MAC = mac
		require.JSONEq(t, `{"uuid":"`+uuid+`","devices":[]}`, documentOf(t, nic), "%q", mac)
	}
	nic.MAC = "52:54:00:00:00:0A"
	require.JSONEq(t, `{"uuid":"`+uuid+`","devices":[
		{"type":"nic","bus":"pci","address":"0000:00:05.0","mac":"52:54:00:00:00:0a","tags":["lan"]}]}`, documentOf(t, nic),
		"neither serial nor path")
	nic.Guest[0].MAC = "52:54:00:00:00:0B"
	require.Contains(t, documentOf(t, nic), "52:54:00:00:00:0b", "the hypervisor's comes first")
}

// S1.7, S1.9
func TestNoTagIsInvented(t *testing.T) {
	require.JSONEq(t, `{"uuid":"`+uuid+
		`","devices":[{"type":"disk","bus":"none","serial":"S"},{"type":"gpu","bus":"pci","address":"0000:0a:00.0","serial":"G"}]}`,
		documentOf(t, contract.HeldDevice{Name: "g", Type: "GPU", Serial: "G", MAC: "52:54:00:00:00:01",
			Guest: []contract.GuestAddress{guest("pci", "0000:0A:00.0")}},
			contract.HeldDevice{Name: "d", Type: "DISK", Serial: "S"}))
	require.JSONEq(t, `{"uuid":"`+uuid+`","devices":[]}`, documentOf(t), "devices is there")
}

// Every legal tag comes out as it went in.
func TestTagsAreNotChanged(t *testing.T) {
	for _, tag := range []string{`"it's" \ <b>&amp;`, "a\nb\r\x00\u2028", strings.Repeat("🖧", 60), "  ", "\uFFFD"} {
		require.NoError(t, device.CheckTag(tag))
		var doc metadata.Document
		require.NoError(t, json.Unmarshal([]byte(documentOf(t, contract.HeldDevice{Type: "DISK", Tag: tag})), &doc))
		require.Equal(t, []string{tag}, doc.Devices[0].Tags)
	}
}

// A document that deviates is an error, and reaches no guest.
//
// S1.20
func TestNoDocumentDeviatesFromTheSchema(t *testing.T) {
	for _, d := range []contract.HeldDevice{
		{Type: "DISK", Tag: "a,b"}, {Type: "DISK", Tag: strings.Repeat("a", 61)},
		{Type: "DISK", Guest: []contract.GuestAddress{guest("sata", "")}},
		{Type: "DISK", Guest: []contract.GuestAddress{guest("none", "0:1")}},
		{Type: ""},
	} {
		_, err := metadata.New(contract.InstanceStatus{UUID: uuid, Devices: []contract.HeldDevice{d}}).JSON()
		require.ErrorContains(t, err, "deviates from its schema", d)
	}
}
