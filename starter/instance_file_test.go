package main

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"burnish/internal/device"
	"burnish/workflows/client"
	"burnish/workflows/contract"
)

// A request file is read strictly: each mistake is named with its line. Who requests a device
// chooses no address.
//
// S1.28
func TestInstanceFileProblems(t *testing.T) {
	for text, says := range map[string]string{
		"":                               "must be a mapping with the keys devices or requests",
		"[]":                             "a request file must be a mapping, not a list",
		"host: h1":                       "no device: name devices, or request some",
		"device: []":                     `line 1: unknown key "device" in a request file: must be one of devices, requests, host, project, addresses`,
		"devices: [{}]":                  `"" is not a valid device name`,
		"devices: [{name: d1, tag: ''}]": "tag has no value",
		"devices:\n  - {name: d1}\n  - {name: d1}":                            "d1 is named twice",
		"devices:\n  - {name: d1}\n  - {name: d2, tag: 'a,b'}":                `line 3: tag "a,b"`,
		"devices:\n  - {name: d1, guest: [{bus: pci, slot: 5}]}":              `unknown key "slot" in an item of guest`,
		"devices:\n  - name: d1\n    guest:\n      - {bus: none, address: 1}": `line 4: address "1" on bus none`,
		"devices:\n  - {name: d1, guest: [{bus: pci}, {bus: pci}]}":           "bus pci is given twice",
		"requests: [{count: 2}]":                                              "line 1: a request for devices needs their type",
		"requests: [{type: NVME, guest: [{bus: pci}]}]":                       `unknown key "guest" in an item of requests`,
		"requests: [{type: NVME, count: 010}]":                                `count: "010" is not a positive number`,
		"requests: [{type: NVME, count: 2, tag: t}]":                          `the tag "t" is for one device, not for 2`,
		"requests: [{type: NVME, traits: [hw]}]":                              `"hw" is not a valid trait`,
		"requests: [{type: NVME}]\naddresses: [10.0.0.256]":                   `"10.0.0.256" is not a valid IP address`,
		"requests: [{type: NVME}]\nhost: h/1":                                 `"h/1" is not a valid host name`,
	} {
		t.Run(text, func(t *testing.T) {
			_, err := parseInstanceFile([]byte(text))
			require.ErrorContains(t, err, says)
		})
	}
}

// The guest's address is the one that libvirt gives the guest, not the host's in <source>; one
// that is given by --guest goes before it, and what the domain does not have stays unknown.
func TestInstanceBindWithADomain(t *testing.T) {
	domain := filepath.Join(t.TempDir(), "vm1.xml")
	require.NoError(t, os.WriteFile(domain, []byte(`<domain type='kvm'>
  <devices>
    <hostdev mode='subsystem' type='pci' managed='yes'>
      <source><address domain='0x0000' bus='0x01' slot='0x00' function='0x0'/></source>
      <address type='pci' domain='0x0000' bus='0x00' slot='0x05' function='0x0'/>
    </hostdev>
    <hostdev mode='subsystem' type='pci' managed='yes'>
      <source><address domain='0x0000' bus='0x02' slot='0x00' function='0x0'/></source>
      <address type='pci' domain='0x0000' bus='0x00' slot='0x06' function='0x0'/>
    </hostdev>
    <disk type='block' device='disk'>
      <source dev='/dev/disk/by-id/d4'/>
      <target dev='sda' bus='scsi'/>
      <address type='drive' controller='0' bus='0' target='0' unit='3'/>
    </disk>
  </devices>
</domain>`), 0o600))
	pci := func(address string) []contract.GuestAddress {
		return []contract.GuestAddress{{Bus: "pci", Address: address}}
	}
	var sent []contract.DeviceChoice
	l := &fakeClient{
		onDescribe: func(name string) (client.Execution, error) {
			v := in(name, device.Available)
			switch name {
			case "d3":
				v.StdBoardInfo.PCIAddress = "0000:02:00.0"
			case "d4":
				v.Path = "/dev/disk/by-id/d4"
			}
			return running(v), nil
		},
		onInstance: func(_ context.Context, _, _ string, input any) (contract.InstanceResult, error) {
			if moved, ok := input.(contract.InstanceMoveInput); ok {
				sent = moved.Devices
			} else {
				sent = input.(contract.InstanceBindInput).Devices
			}
			return contract.InstanceResult{Instance: has(contract.InstanceActive)}, nil
		},
	}
	got := burnish(t, l, "", "instance", "bind", someInstance, "--domain", domain, "--device", "h1_0000:01:00.0=data",
		"--device", "h1_0000:01:00.1", "--guest", "bus=usb,address=0:1", "--device", "d3", "--device", "d4", "--device", "d5")
	require.Equal(t, exitOK, got.code, got.errors)
	require.Equal(t, []contract.DeviceChoice{
		{Name: "h1_0000:01:00.0", Tag: "data", Guest: pci("0000:00:05.0")},
		{Name: "h1_0000:01:00.1", Guest: []contract.GuestAddress{{Bus: "usb", Address: "0:1"}}},
		{Name: "d3", Guest: pci("0000:00:06.0")},
		{Name: "d4", Guest: []contract.GuestAddress{{Bus: "scsi", Address: "0:0:0:3"}}},
		{Name: "d5"},
	}, sent)
	require.Equal(t, "burnish: note: d5: the domain does not give it to its guest; where the guest finds it stays "+
		"unknown\n", got.errors)

	got = burnish(t, l, "", "instance", "migrate", someInstance, "--to", "h2", "--domain", domain, "--device",
		"h2_0000:02:00.0")
	require.Equal(t, exitOK, got.code, got.errors)
	require.Equal(t, []contract.DeviceChoice{{Name: "h2_0000:02:00.0", Guest: pci("0000:00:06.0")}}, sent)

	sent = nil
	l.onDescribe = func(string) (client.Execution, error) { return client.Execution{}, gone() }
	got = burnish(t, l, "", "instance", "attach", someInstance, "--domain", domain, "--device", "d9")
	require.Equal(t,
		ran{exitFailed, "", "burnish: instance attach d9: no such device; enroll it first, or see burnish list\n"}, got)
	require.Nil(t, sent, "nothing is claimed")
}
