package host

import (
	"encoding/json"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"burnish/internal/device"
	"burnish/internal/pci"
)

// F13, S2.7
func TestPCIDevicesByDeviceSpec(t *testing.T) {
	file := writeRules(t, goodRules)
	r, err := LoadRules(file)
	require.NoError(t, err)
	for what, c := range map[string]struct {
		device  pci.Device
		allowed bool
	}{
		"both criteria of an entry":    {pci.Device{Address: "0000:0a:00.7", Vendor: "8086", Product: "0a54"}, true},
		"another vendor":               {pci.Device{Address: "0000:0a:00.7", Vendor: "8087", Product: "0a54"}, false},
		"another slot":                 {pci.Device{Address: "0000:0a:01.0", Vendor: "8086", Product: "0a54"}, false},
		"the expressions of an entry":  {pci.Device{Address: "0001:0a:00.3", Vendor: "1234", Product: "0001"}, true},
		"not the expressions":          {pci.Device{Address: "0001:0a:00.4", Vendor: "1234", Product: "0001"}, false},
		"a domain that is too long":    {pci.Device{Address: "10000:0a:00.0", Vendor: "8086", Product: "0a54"}, false},
		"no address":                   {pci.Device{Vendor: "8086", Product: "0a54"}, false},
		"no vendor, which is asked":    {pci.Device{Address: "0000:0a:00.7"}, false},
		"an address that is none":      {pci.Device{Address: "eth0", Vendor: "8086"}, false},
		"nothing known of it":          {pci.Device{}, false},
		"a function of another's slot": {pci.Device{Address: "0000:0a:02.0", Vendor: "8086", Product: "0a54", Type: pci.Virtual, Parent: "0000:0a:00.0"}, false},
	} {
		t.Run(what, func(t *testing.T) {
			err := r.AllowPCI(c.device)
			if c.allowed {
				require.NoError(t, err)
				return
			}
			requireFault(t, err, device.NeedsOperator, device.CodeNotAllowed)
		})
	}
	fault := requireFault(t, r.AllowPCI(pci.Device{Address: "0000:0b:00.0", Vendor: "8086", Product: "0a54"}),
		device.NeedsOperator, device.CodeNotAllowed)
	require.Equal(t, "PCI device 0000:0b:00.0 (8086:0a54) may not be destroyed on this host", fault.Message)
	require.Contains(t, fault.Remedy, "allow.device_spec in "+file)
}

// F13
func TestNoPCIDeviceWithoutASpec(t *testing.T) {
	d := pci.Device{Address: "0000:0a:00.0", Vendor: "8086", Product: "0a54"}
	withoutSpecs, err := LoadRules(writeRules(t, "allow: {paths: [/dev/nvme0n1], fake: true}\n"))
	require.NoError(t, err)
	for _, r := range []*Rules{{}, DefaultRules(testDir(t)), withoutSpecs} {
		requireFault(t, r.AllowPCI(d), device.NeedsOperator, device.CodeNotAllowed)
	}
}

// F13
func TestDeviceSpecIsReadAgainEachTime(t *testing.T) {
	d := pci.Device{Address: "0000:0a:00.0", Vendor: "8086", Product: "0a54"}
	file := writeRules(t, "allow: {device_spec: [{product_id: 0x0A55}, {vendor_id: '0x8086'}]}\n")
	_, err := LoadRules(file)
	require.ErrorContains(t, err, "product_id must be text")
	write := func(text string) { require.NoError(t, os.WriteFile(file, []byte(text), 0o600)) }
	write("allow: {device_spec: [{product_id: '0x0A55'}, {vendor_id: '0x8086'}]}\n")
	r, err := LoadRules(file)
	require.NoError(t, err)
	require.NoError(t, r.AllowPCI(d), "the second entry")
	requireFault(t, r.AllowPCI(pci.Device{Vendor: d.Vendor, Product: d.Product}), device.NeedsOperator,
		device.CodeNotAllowed)
	write("allow: {device_spec: [{product_id: '0x0A55'}]}\n")
	requireFault(t, r.AllowPCI(d), device.NeedsOperator, device.CodeNotAllowed)
	write("allow: {device_spec: [{vendor_id: '8086'}, {vendor_id: '80*'}]}\n")
	fault := requireFault(t, r.AllowPCI(d), device.NeedsOperator, device.CodeNotAllowed)
	require.Contains(t, fault.Message, "line 1: device_spec: vendor_id: ", "an invalid entry disallows everything")
}

// F13
func TestInvalidSpecsHaveTheirLine(t *testing.T) {
	for what, c := range map[string]struct{ entry, want string }{
		"vendor":            {"vendor_id: intel", `line 4: device_spec: vendor_id: "intel" is not a hexadecimal number`},
		"product":           {"product_id: '10000'", `line 4: device_spec: product_id: "10000" is more than FFFF`},
		"wildcard":          {"address: '0000:0*:00.0'", "line 4: device_spec: address: bus"},
		"function":          {"address: '0a:00.8'", "line 4: device_spec: address: function"},
		"expression":        {"address:\n      domain: '0'\n      bus: '['", "line 6: device_spec: address.bus: "},
		"every address":     {"address: '*:*:*.*'", "would match every device"},
		"every address, .":  {"address: '.'", "would match every device"},
		"every vendor":      {"vendor_id: '*'", "would match every device"},
		"devname":           {"devname: eth0", `line 4: unknown key "devname"`},
		"a tag":             {"physical_network: net", "line 4: an entry of device_spec without criteria would match every device"},
		"vendor in a list":  {"vendor_id: ['8086']", "line 4: vendor_id must be text, not a list"},
		"address in a list": {"address: ['0a:00.0']", "line 4: address must be text, not a list"},
	} {
		t.Run(what, func(t *testing.T) {
			_, err := LoadRules(writeRules(t, "allow:\n  device_spec:\n  -\n    "+c.entry+"\n"))
			require.ErrorContains(t, err, c.want)
			var rules *RulesError
			require.ErrorAs(t, err, &rules)
			require.Len(t, rules.Problems, 1, "reported once")
		})
	}
}

// Both marks may have each of the forms that package pci reads; absent means no, and they are no
// criterion.
//
// S0.2, S0.24
func TestMarksAreKeysOfAnEntry(t *testing.T) {
	for text, want := range map[string][2]bool{
		"": {}, ", one_time_use: true": {true, false}, ", one_time_use: 'no'": {}, ", one_time_use: '1'": {true, false},
		", one_time_use: null": {}, ", one_time_use: 1": {true, false}, ", live_migratable: yes": {false, true},
		", live_migratable: true, one_time_use: on": {true, true}, ", live_migratable: 'No'": {},
	} {
		rules, err := LoadRules(writeRules(t, "allow: {device_spec: [{vendor_id: '8086'"+text+"}]}\n"))
		require.NoError(t, err, text)
		specs, err := rules.PCISpecs()
		require.NoError(t, err)
		require.Equal(t, want, [2]bool{specs[0].OneTimeUse(), specs[0].LiveMigratable()}, text)
	}
	for text, message := range map[string]string{
		"{vendor_id: '8086', one_time_use: maybe}":    "line 3: device_spec: one_time_use: ",
		"{one_time_use: true}":                        "would match every device",
		"{vendor_id: '8086', live_migratable: maybe}": "line 3: device_spec: live_migratable: ",
		"{live_migratable: yes}":                      "would match every device",
		"{vendor_id: '8086', live_migrateable: yes}":  "resembles live_migratable",
		"{vendor_id: '8086', livemigration: yes}":     "resembles live_migratable",
	} {
		_, err := LoadRules(writeRules(t, "allow:\n  device_spec:\n  - "+text+"\n"))
		require.ErrorContains(t, err, message, text)
	}
}

// The erase policy of an entry's devices, and tags. What resembles a criterion is no tag: as
// one it would make the entry match more devices.
func TestErasePolicyAndTagsAreKeysOfAnEntry(t *testing.T) {
	rules, err := LoadRules(writeRules(t, `allow:
  device_spec:
  - {vendor_id: '8086', clear_action: zero, one_time_use: true, physical_network: net1, rack: 12, trusted: true}
  - {vendor_id: '144d', clear_strategy: crypto}
  - {vendor_id: '1b36'}
`))
	require.NoError(t, err)
	specs, err := rules.PCISpecs()
	require.NoError(t, err)
	require.Equal(t, "zero", specs[0].ClearAction())
	require.Empty(t, specs[0].ClearStrategy())
	require.JSONEq(t,
		`{"clear_action":"zero","one_time_use":"true","physical_network":"net1","rack":"12","trusted":"true"}`,
		tagsOf(t, specs[0]))
	require.Empty(t, specs[1].ClearAction())
	require.Equal(t, "crypto", specs[1].ClearStrategy())
	require.Empty(t, specs[2].ClearAction()+specs[2].ClearStrategy())
	for entry, says := range map[string]string{
		"clear_action: zero\n    clear_strategy: crypto": "line 5: device_spec: clear_strategy: crypto is impossible with clear_action zero",
		"clear_action: shred":                            `line 4: device_spec: clear_action: "shred" is unknown: must be one of auto, sanitize, zero`,
		"clear_strategy: overwrite":                      `line 4: device_spec: clear_strategy: "overwrite" is unknown`,
		"clear_acton: zero":                              `line 4: unknown key "clear_acton" in an entry of device_spec: it resembles clear_action`,
		"Clear-Strategy: block":                          "it resembles clear_strategy",
		"prodcut_id: '0a54'":                             "it resembles product_id",
		"device_id: '0a54'":                              "it resembles product_id",
		"bay: '3'":                                       "",
		"addr: '0000:01:00.0'":                           "it resembles address",
		"bus: '0a'":                                      "it resembles address",
		"devname: eth0":                                  "it resembles devname",
		"onetimeuse: yes":                                "it resembles one_time_use",
		"rack: [1]":                                      "rack must be text",
	} {
		_, err := LoadRules(writeRules(t, "allow:\n  device_spec:\n  - vendor_id: '8086'\n    "+entry+"\n"))
		if says == "" {
			require.NoError(t, err, entry)
			continue
		}
		require.ErrorContains(t, err, says, entry)
	}
	_, err = LoadRules(writeRules(t, "allow: {device_spec: [{clear_action: zero, rack: a}]}\n"))
	require.ErrorContains(t, err, "would match every device")
}

func tagsOf(t *testing.T, s pci.Spec) string {
	t.Helper()
	text, err := json.Marshal(s.Tags())
	require.NoError(t, err)
	return string(text)
}
