package main

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A mistake on the command line is one line with exit code 2, before a server is contacted.
func TestWrongUse(t *testing.T) {
	given := strings.NewReplacer("UUID", someInstance, "TEMPLATE", templateOf1)
	for _, tt := range []struct{ line, says string }{
		// the instance
		{"instance bind", "^burnish: instance bind: UUID is missing; see burnish instance bind --help"},
		{"instance attach", ""},
		{"instance detach", "UUID is missing"},
		{"instance release 42", `^burnish: instance release: "42" is not a valid UUID of an instance; give 36 characters, such as `},
		{"instance rebuild 3b1f0e627a8e4b7f9a550d6c1f2e4a90", ""},
		{"instance migrate --to h2", ""},
		{"instance confirm", ""},
		{"instance revert a b", "takes one UUID, not 2"},
		{"instance live-migrate x --to h2", ""},
		{"instance evacuate x --to h2", ""},
		{"instance show", ""},
		{"instance show zzzzzzzz-7a8e-4b7f-9a55-0d6c1f2e4a90", ""},
		// what a command does not take
		{"instance attach UUID --device d1 --project p", "unknown flag: --project"},
		{"instance migrate UUID --to h2 --request type=NVME", "unknown flag: --request"},
		{"instance release UUID --device d1", ""},
		{"instance confirm UUID --to h2", ""},
		// devices
		{"instance bind UUID", "no device: name devices, or request some"},
		{"instance attach UUID", ""},
		{"instance detach UUID", "NAME is missing: name the devices to detach, or use burnish instance release for all"},
		{"instance detach UUID d1 d1", "d1 is named twice"},
		{"instance detach UUID d1=data", `"d1=data" is not a valid device name`},
		{"instance bind UUID --device d1 --device d1=data", "d1 is named twice"},
		{"instance bind UUID --device h1_0000:0a:00.0 --device H1_0000:0A:00.0=x", "h1_0000:0a:00.0 is named twice"},
		{"instance migrate UUID", "--to is missing"},
		{"instance migrate UUID --to h2 --device d1 --device d1", ""},
		{"instance evacuate UUID --to h/2", `"h/2" is not a valid host name`},
		// tags
		{"instance bind UUID --device d1=", "d1: a tag is empty"},
		{"instance attach UUID --device d1=", ""},
		{"instance migrate UUID --to h2 --device d1=", ""},
		{"instance bind UUID --device d1=a,b", `d1: tag "a,b" `},
		{"instance bind UUID --device d1=a/b", ""},
		{"instance bind UUID --device d1=1234567890123456789012345678901234567890123456789012345678901", "d1: tag .*61 characters"},
		{"instance bind UUID --device =data", `"" is not a valid device name`},
		// the guest's addresses
		{"instance bind UUID --guest bus=pci --device d1", "it must stand right behind the --device that it belongs to"},
		{"instance bind UUID --device d1 --request type=NVME --guest bus=pci", "it must stand right behind the --device that it belongs to"},
		{"instance bind UUID --device d1 --guest bus=virtio", `d1: bus "virtio" is not known`},
		{"instance bind UUID --device d1 --guest address=0000:00:05.0", "d1: .* no bus"},
		{"instance bind UUID --device d1 --guest bus=none,address=1", `d1: address "1" on bus none`},
		{"instance bind UUID --device d1 --guest bus=pci,address=0000:00:05:0", `d1: address "0000:00:05:0" is not one of bus pci, such as 0000:00:05.0`},
		{"instance bind UUID --device d1 --guest bus=scsi,address=0:0:0", ""},
		{"instance bind UUID --device d1 --guest bus=ide,address=0:2", ""},
		{"instance bind UUID --device d1 --guest bus=usb,address=1", ""},
		{"instance bind UUID --device d1 --guest bus=xen,address=0x1", ""},
		{"instance bind UUID --device d1 --guest bus=pci --guest bus=pci", "d1: bus pci is given twice"},
		{"instance bind UUID --device d1 --guest bus=pci,bus=pci", "d1: bus is given twice"},
		{"instance bind UUID --device d1 --guest bus=pci,slot=5", `d1: unknown key "slot": must be one of address, bus, devname, path`},
		{"instance bind UUID --device d1 --guest bus=pci,address=", "d1: address is empty"},
		{"instance bind UUID --device d1 --guest pci", `d1: "pci": must be of the form key=value`},
		{"instance migrate UUID --to h2 --guest bus=pci", ""},
		// requests
		{"instance bind UUID --request count=2", "a request for devices needs their type"},
		{"instance bind UUID --request type=NVME,count=0", `count "0": must be a number from 1 to 64`},
		{"instance bind UUID --request type=NVME,count=65", ""},
		{"instance bind UUID --request type=NVME,count=40 --request type=NIC,count=40", "80 devices are more than"},
		{"instance bind UUID --request type=NVME,count=two", ""},
		{"instance bind UUID --request type=NVME,count=2,tag=data", `the tag "data" is for one device, not for 2`},
		{"instance bind UUID --request type=NVME,tag=a/b", ""},
		{"instance bind UUID --request type=NVME,trait=hw", `"hw" is not a valid trait`},
		{"instance bind UUID --request type=NVME,type=NIC", "type is given twice"},
		{"instance bind UUID --request type=NVME,size=1", `unknown key "size": must be one of count, live_migratable, model, tag, trait, type, vendor`},
		{"instance bind UUID --request type=NVME,live_migratable=1", ""},
		{"instance bind UUID --request 'type=N V'", ""},
		// what the metadata service recognizes a guest by
		{"instance bind UUID --device d1 --address 10.0.0.0/24", `"10.0.0.0/24" is not a valid IP address of a guest`},
		{"instance bind UUID --device d1 --address 10.0.0.5 --address ::ffff:10.0.0.5", ""},
		{"instance bind UUID --device d1 --project 'a b'", `"a b" is not a valid project ID`},
		{"instance bind UUID --device d1 --project=", "--project is empty"},
		{"instance bind UUID --device d1 --host=", ""},
		{"instance bind UUID --device d1 --request-id=", ""},
		// import and export
		{"import", "--from is missing: placement, or the file of an export"},
		{"import --from nova", "the file cannot be read: open nova"},
		{"import --from testdata/golden/history.json", "testdata/golden/history.json is not what burnish export wrote"},
		{"import --from /dev/null", "/dev/null is not what burnish export wrote"},
		{"import --from file --host h1", "--host goes with --from placement only"},
		{"import --from placement --set owner=self", "an imported device always has the owner nova"},
		{"import --from placement --driver=", "--driver is empty"},
		{"import --from placement h1", "takes no argument"},
		{"import check h1", "takes no argument"},
		{"export", ""},
		// enroll
		{"enroll --host h1 --driver redfish --from nova --template t", `--from "nova": must be oneview`},
		{"enroll --host h1 --driver redfish --from oneview", "--template is missing"},
		{"enroll --host h1 --driver redfish --from oneview --template /rest/x/y", "server_profile_template_uri"},
		{"enroll --host h1 --driver redfish --from oneview --template TEMPLATE --filter model", `--filter "model": must be KEY=VALUE`},
		{"enroll --host h1 --driver redfish --from oneview --template TEMPLATE --filter model=", "must be KEY=VALUE"},
		{"enroll --host h1 --driver redfish --from oneview --template TEMPLATE --filter rack=1", "KEY must be one of name, serial, model, type, group"},
		{"enroll --host h1 --driver redfish --from oneview --template TEMPLATE --filter name=a --filter name=b", "--filter name is given twice"},
		{"enroll --host h1 --driver redfish --from oneview --template TEMPLATE --set oneview=rack1", "--set oneview and --from exclude each other"},
		{"enroll --host h1 --driver redfish --from oneview --template TEMPLATE --set url=https://{bay}", "--set url: {bay} is not one of {name}, {serial}, {uuid}"},
		{"enroll --host h1 --driver redfish --from oneview --template TEMPLATE --set dynamic_allocation=x", "must be true or false"},
		{"enroll --host h1 --driver redfish --from oneview --template TEMPLATE --appliance a/b", "must be the name of an appliance"},
		{"enroll --host h1 --driver redfish --from oneview --template TEMPLATE --type GPU", "only devices of the type NODE"},
		{"enroll --host h1 --driver redfish --from oneview --template TEMPLATE n1", "--from excludes NAME and --address"},
		{"enroll --host h1 --driver redfish --from oneview --template TEMPLATE --file x", "--file and --host exclude each other"},
		{"enroll --host h1 --driver redfish --template TEMPLATE n1", "--template goes with --from"},
		{"enroll d1 --host h1 --driver fake --label rack", ""},
		{"enroll d1 --host h1 --driver fake --label rack-", ""},
		{"enroll d1 --host h1 --driver fake --label 'rack=a b'", ""},
		{"enroll d1 --host h1 --driver fake --label =x", ""},
		// labels
		{"label -- d1", "a label is missing"},
		{"label -- rack=a1", "NAME is missing"},
		{"label -- d1 -rack=a", "the key must be"},
		{"label -- d1 rack=a rack=b", "label rack is given twice"},
		{"label -- d1 rack=a rack-", "label rack is set and"},
		{"label -- d1 rack=a d2", `label "d2": must be KEY=VALU`},
		// forms
		{"list -o jsonpath={.items[*].metadata.name}", "it has no items"},
		{"list --sort-by color", "must be one of NAME, "},
		{"list --columns name,nme", `--columns "nme"`},
		{"list -o jsonpath={.devices[}", "template cannot be read"},
		{"list -o jsonpath=", "template is empty"},
		{"list --color sometimes", "must be one of auto, always, never"},
		{"show d1 -o wide", "must be one of table, json, yaml"},
		// plans
		{"plan d1 --fleet", ""},
		{"plan d1 --identify f", ""},
		{"plan --steps zero", ""},
		{"plan d1 d2", ""},
		{"plan", ""},
		{"plan --fleet --identify x", ""},
		{"plan --fleet --action zero", ""},
		{"plan --fleet --namespaces 2", ""},
		{"plan --fleet --policy ''", ""},
		{"plan --fleet --policy /none", ""},
		{"plan --policy x", ""},
		// and the others
		{"bind d1 --instance UUID --tag ''", "^burnish: bind: --tag is empty; see burnish bind --help$"},
		{"completion tcsh", ""},
		{"completion", ""},
		{"doctor d1", ""},
		{"events d1 d2", ""},
		{"events d1 --state error", ""},
		{"events --since -1h", ""},
		{"instance config-drive UUID", ""},
		{"instance config-drive UUID -o table", ""},
		{"instance config-drive UUID -o -", ""},
		{"instance config-drive UUID -o ''", ""},
		{"oneview", ""},
		{"oneview status a b", ""},
		{"oneview migrate --appliance=", "--appliance is empty"},
		{"oneview migrate d1 --appliance rack", "NAMEs and --appliance exclude each other"},
		{"oneview migrate d/1", "is not a valid device name"},
		{"power d0 up", ""},
		{"power d0", ""},
		{"resume --model M", ""},
		{"resume --step zero", ""},
		{"top --interval 10ms", ""},
		{"watch d1 d2", "takes one NAME or UUID, not 2"},
		{"watch a/b", "a/b"},
	} {
		t.Run(tt.line, func(t *testing.T) {
			args := shellWords(t, given.Replace(tt.line))
			got := burnishWith(t, nil, func(a *app, _ func()) {
				a.dial = func(context.Context) (deviceClient, error) { return nil, errors.New("a server is contacted") }
			}, args...)
			require.Equal(t, exitUsage, got.code, got.errors)
			require.Empty(t, got.out)
			require.Equal(t, 1, strings.Count(got.errors, "\n"), got.errors)
			require.Regexp(t, "^burnish: "+args[0]+".*; ", got.errors)
			require.Regexp(t, tt.says, strings.TrimSpace(got.errors))
		})
	}
}
