package metadata_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"burnish/internal/nova/metadata"
	"burnish/workflows/contract"
)

const (
	source  = `<source><address domain='0x0000' bus='0x01' slot='0x00' function='0x0'/></source>`
	hostdev = `<hostdev mode='subsystem' type='pci'>` + source
	inGuest = `<address type='pci' domain='0x0000' bus='0x00' slot='0x05' function='0x0'/>`
)

func domainWith(devices string) string {
	return "<domain type='kvm'><devices>" + devices + "</devices></domain>"
}

// Each device in its other forms: an address without its optional parts, numbers that are
// decimal, comments, a host's domain of more than four digits, Xen's disks, an NVMe disk.
func TestFormsOfDevicesInADomain(t *testing.T) {
	for devices, want := range map[string]map[string][]contract.GuestAddress{
		"": {},
		`<hostdev mode='subsystem' type='pci'><source><address bus='1' slot='0'/></source><address type='pci' bus='0' slot='31'/></hostdev>`: {
			"0000:01:00.0": {{Bus: "pci", Address: "0000:00:1f.0"}}},
		`<!-- <hostdev/> --><hostdev type='pci'><source><address domain='0x10000' bus='0x01' slot='0x00'/></source>` +
			inGuest + `</hostdev>`: {
			"10000:01:00.0": {{Bus: "pci", Address: "0000:00:05.0"}}},
		// The order of the elements says nothing.
		`<hostdev mode='subsystem' type='pci'>` + inGuest + source +
			`</hostdev>`: {"0000:01:00.0": {{Bus: "pci", Address: "0000:00:05.0"}}},
		`<disk type='block'><source dev='/dev/sdb'/><target dev='xvda' bus='xen'/></disk>`: {
			"/dev/sdb": {{Bus: "xen", Path: "/dev/xvda"}}},
		`<disk type='nvme'><source type='pci' namespace='1'><address domain='0x0000' bus='0x01' slot='0x00' function='0x0'/></source>
			<target dev='vda' bus='virtio'/>` + inGuest + `</disk>`: {"0000:01:00.0": {{Bus: "pci", Address: "0000:00:05.0"}}},
		`<disk type='block'><source dev='/dev/sdb'/><target dev='sda' bus='usb'/><address type='usb' bus='0' port='1.2'/></disk>`: {
			"/dev/sdb": {{Bus: "usb"}}},
		`<disk type='block' device='cdrom'><target dev='sda' bus='sata'/></disk>`:                             {},
		`<hostdev mode='subsystem' type='mdev'><source><address uuid='1'/></source>` + inGuest + `</hostdev>`: {},
		`<hostdev mode='capabilities' type='net'><source><interface>eth0</interface></source></hostdev>`:      {},
	} {
		have, err := metadata.FromDomain(strings.NewReader(domainWith(devices)))
		require.NoError(t, err, devices)
		require.Equal(t, want, have, devices)
	}
}

// What is not libvirt's is refused; the message names the device, and is one line.
func TestDomainsThatAreRefused(t *testing.T) {
	for domain, message := range map[string]string{
		"":                           "not libvirt's XML",
		"error: Domain not found":    "not libvirt's XML",
		"<domainsnapshot/>":          "not libvirt's XML",
		"<domain><devices></domain>": "not libvirt's XML",
		"<domain/><domain/>":         "another element follows the domain",
		"<domain/>rest":              "text follows the domain",
		`<!DOCTYPE d [<!ENTITY e "x">]><domain><name>&e;</name></domain>`: "not libvirt's XML",
		domainWith(hostdev + "</hostdev>" + hostdev + "</hostdev>"): "hostdev 0000:01:00.0: the domain " +
			"has it twice",
		domainWith(hostdev + inGuest + inGuest + "</hostdev>"): "hostdev 0000:01:00.0: it has 2 " +
			"addresses in the guest",
		domainWith(hostdev + "<address type='pci' bus='0x00' slot='0x20'/></hostdev>"): "hostdev 0000:01:00.0: " +
			`address "0000:00:20.0" is not one of bus pci`,
		domainWith(hostdev + "<address type='pci' bus='zero' slot='0x00'/></hostdev>"): `hostdev 0000:01:00.0: its address in the guest: bus "zero" is not a number`,
		domainWith(hostdev + "<address type='pci' bus='0x00'/></hostdev>"):             `hostdev 0000:01:00.0: its address in the guest: slot "" is not a number`,
		domainWith("<hostdev type='pci'>" + inGuest + "</hostdev>"): "hostdev 1 of the " +
			"domain: its <source> has 0 addresses",
		domainWith("<interface type='hostdev'><mac address='52:54'/>" + source + "</interface>"): `interface 0000:01:00.0: MAC "52:54"`,
		domainWith("<disk type='block'><source dev='/dev/sdb'/><target bus='ide'/><address type='drive' bus='0' " +
			"unit='2'/></disk>"): `disk /dev/sdb: address "0:2" is not one of bus ide`,
		domainWith("<disk type='block'><source dev='/dev/sdb'/>" +
			"<target bus='xen' dev='../etc'/></disk>"): "disk /dev/sdb: path",
		domainWith("<disk type='block'><source dev='/dev/sdb'/><target bus='scsi'/><address type='drive' controller='0' " +
			"bus='0'/></disk>"): `disk /dev/sdb: its address in the guest: target "" is not a number`,
	} {
		have, err := metadata.FromDomain(strings.NewReader(domain))
		require.ErrorContains(t, err, message, domain)
		require.NotContains(t, err.Error(), "\n")
		require.Nil(t, have)
	}
	_, err := metadata.FromDomain(strings.NewReader("<domain>" + strings.Repeat(" ", 9<<20) + "</domain>"))
	require.ErrorContains(t, err, "more than 8 MiB")
}
