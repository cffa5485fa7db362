package main

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"burnish/workflows/contract"
)

// A mistake on the command line of an instance is one line with exit code 2, and nothing is
// sent: no device is claimed.
func TestWrongInputForInstances(t *testing.T) {
	for _, tt := range []struct {
		args []string
		says string
	}{
		// the instance
		{[]string{"bind"}, `^burnish: instance bind: UUID is missing; see burnish instance bind --help`},
		{[]string{"attach"}, ``},
		{[]string{"detach"}, `UUID is missing`},
		{[]string{"release", "42"}, `^burnish: instance release: "42" is not a valid UUID of an instance; give 36 characters, such as `},
		{[]string{"rebuild", "3b1f0e627a8e4b7f9a550d6c1f2e4a90"}, ``},
		{[]string{"migrate", "--to", "h2"}, ``},
		{[]string{"confirm"}, ``},
		{[]string{"revert", "a", "b"}, `takes one UUID, not 2`},
		{[]string{"live-migrate", "x", "--to", "h2"}, ``},
		{[]string{"evacuate", "x", "--to", "h2"}, ``},
		{[]string{"show"}, ``},
		{[]string{"show", "zzzzzzzz-7a8e-4b7f-9a55-0d6c1f2e4a90"}, ``},
		// what a command does not take
		{[]string{"attach", someInstance, "--device", "d1", "--project", "p"}, `unknown flag: --project`},
		{[]string{"migrate", someInstance, "--to", "h2", "--request", "type=NVME"}, `unknown flag: --request`},
		{[]string{"release", someInstance, "--device", "d1"}, ``},
		{[]string{"confirm", someInstance, "--to", "h2"}, ``},
		// devices
		{[]string{"bind", someInstance}, `no device: name devices, or request some`},
		{[]string{"attach", someInstance}, ``},
		{[]string{"detach", someInstance}, `NAME is missing: name the devices to detach, or use burnish instance release for all`},
		{[]string{"detach", someInstance, "d1", "d1"}, `d1 is named twice`},
		{[]string{"detach", someInstance, "d1=data"}, `"d1=data" is not a valid device name`},
		{[]string{"bind", someInstance, "--device", "d1", "--device", "d1=data"}, `d1 is named twice`},
		{[]string{"bind", someInstance, "--device", "h1_0000:0a:00.0", "--device", "H1_0000:0A:00.0=x"}, `h1_0000:0a:00.0 is named twice`},
		{[]string{"migrate", someInstance}, `--to is missing`},
		{[]string{"migrate", someInstance, "--to", "h2", "--device", "d1", "--device", "d1"}, ``},
		{[]string{"evacuate", someInstance, "--to", "h/2"}, `"h/2" is not a valid host name`},
		// tags
		{[]string{"bind", someInstance, "--device", "d1="}, `d1: a tag is empty`},
		{[]string{"attach", someInstance, "--device", "d1="}, ``},
		{[]string{"migrate", someInstance, "--to", "h2", "--device", "d1="}, ``},
		{[]string{"bind", someInstance, "--device", "d1=a,b"}, `d1: tag "a,b" `},
		{[]string{"bind", someInstance, "--device", "d1=a/b"}, ``},
		{[]string{"bind", someInstance, "--device", "d1=1234567890123456789012345678901234567890123456789012345678901"}, `d1: tag .*61 characters`},
		{[]string{"bind", someInstance, "--device", "=data"}, `"" is not a valid device name`},
		// the guest's addresses
		{[]string{"bind", someInstance, "--guest", "bus=pci", "--device", "d1"}, `it must stand right behind the --device that it belongs to`},
		{[]string{"bind", someInstance, "--device", "d1", "--request", "type=NVME", "--guest", "bus=pci"}, `it must stand right behind the --device that it belongs to`},
		{[]string{"bind", someInstance, "--device", "d1", "--guest", "bus=virtio"}, `d1: bus "virtio" is not known`},
		{[]string{"bind", someInstance, "--device", "d1", "--guest", "address=0000:00:05.0"}, `d1: .* no bus`},
		{[]string{"bind", someInstance, "--device", "d1", "--guest", "bus=none,address=1"}, `d1: address "1" on bus none`},
		{[]string{"bind", someInstance, "--device", "d1", "--guest", "bus=pci,address=0000:00:05:0"}, `d1: address "0000:00:05:0" is not one of bus pci, such as 0000:00:05.0`},
		{[]string{"bind", someInstance, "--device", "d1", "--guest", "bus=scsi,address=0:0:0"}, ``},
		{[]string{"bind", someInstance, "--device", "d1", "--guest", "bus=ide,address=0:2"}, ``},
		{[]string{"bind", someInstance, "--device", "d1", "--guest", "bus=usb,address=1"}, ``},
		{[]string{"bind", someInstance, "--device", "d1", "--guest", "bus=xen,address=0x1"}, ``},
		{[]string{"bind", someInstance, "--device", "d1", "--guest", "bus=pci", "--guest", "bus=pci"}, `d1: bus pci is given twice`},
		{[]string{"bind", someInstance, "--device", "d1", "--guest", "bus=pci,bus=pci"}, `d1: bus is given twice`},
		{[]string{"bind", someInstance, "--device", "d1", "--guest", "bus=pci,slot=5"}, `d1: unknown key "slot": must be one of address, bus, devname, path`},
		{[]string{"bind", someInstance, "--device", "d1", "--guest", "bus=pci,address="}, `d1: address is empty`},
		{[]string{"bind", someInstance, "--device", "d1", "--guest", "pci"}, `d1: "pci": must be of the form key=value`},
		{[]string{"migrate", someInstance, "--to", "h2", "--guest", "bus=pci"}, ``},
		// requests
		{[]string{"bind", someInstance, "--request", "count=2"}, `a request for devices needs their type`},
		{[]string{"bind", someInstance, "--request", "type=NVME,count=0"}, `count "0": must be a number from 1 to 64`},
		{[]string{"bind", someInstance, "--request", "type=NVME,count=65"}, ``},
		{[]string{"bind", someInstance, "--request", "type=NVME,count=40", "--request", "type=NIC,count=40"}, `80 devices are more than`},
		{[]string{"bind", someInstance, "--request", "type=NVME,count=two"}, ``},
		{[]string{"bind", someInstance, "--request", "type=NVME,count=2,tag=data"}, `the tag "data" is for one device, not for 2`},
		{[]string{"bind", someInstance, "--request", "type=NVME,tag=a/b"}, ``},
		{[]string{"bind", someInstance, "--request", "type=NVME,trait=hw"}, `"hw" is not a valid trait`},
		{[]string{"bind", someInstance, "--request", "type=NVME,type=NIC"}, `type is given twice`},
		{[]string{"bind", someInstance, "--request", "type=NVME,size=1"}, `unknown key "size": must be one of count, live_migratable, model, tag, trait, type, vendor`},
		{[]string{"bind", someInstance, "--request", "type=NVME,live_migratable=1"}, ``},
		{[]string{"bind", someInstance, "--request", "type=N V"}, ``},
		// what the metadata service recognizes a guest by
		{[]string{"bind", someInstance, "--device", "d1", "--address", "10.0.0.0/24"}, `"10.0.0.0/24" is not a valid IP address of a guest`},
		{[]string{"bind", someInstance, "--device", "d1", "--address", "10.0.0.5", "--address", "::ffff:10.0.0.5"}, ``},
		{[]string{"bind", someInstance, "--device", "d1", "--project", "a b"}, `"a b" is not a valid project ID`},
		{[]string{"bind", someInstance, "--device", "d1", "--project="}, `--project is empty`},
		{[]string{"bind", someInstance, "--device", "d1", "--host="}, ``},
		{[]string{"bind", someInstance, "--device", "d1", "--request-id="}, ``},
	} {
		t.Run(strings.Join(tt.args, " "), func(t *testing.T) {
			l := &fakeClient{onInstance: func(context.Context, string, string, any) (contract.InstanceResult, error) {
				return contract.InstanceResult{}, nil
			}}
			got := burnish(t, l, "", append([]string{"instance"}, tt.args...)...)
			require.Equal(t, exitUsage, got.code, got.errors)
			require.Empty(t, l.sent)
			require.Empty(t, got.out)
			require.Equal(t, 1, strings.Count(got.errors, "\n"), got.errors)
			require.Regexp(t, "^burnish: instance "+tt.args[0]+": .*", got.errors)
			require.Regexp(t, tt.says, got.errors)
			require.Contains(t, got.errors, "; ")
		})
	}
}

// No tag is one thing, an empty one another; so for the bind of one device.
func TestBindRefusesAnEmptyTag(t *testing.T) {
	l := &fakeClient{onUpdate: func(context.Context, string, string, any) (contract.Result, error) {
		return contract.Result{}, nil
	}}
	got := burnish(t, l, "", "bind", "d1", "--instance", someInstance, "--tag", "")
	require.Equal(t, ran{exitUsage, "", "burnish: bind: --tag is empty; see burnish bind --help\n"}, got)
	require.Empty(t, l.sent)
}
