package config_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"burnish/internal/clean"
	"burnish/internal/device"
)

const digest = "6a2b7d5a2d3b0e5c7f1f6e0f7e3a5ccd5a1b0c9d8e7f60514233241506172839"

const wholePolicy = `
bios:
- {type: NODE, vendor: "HPE", settings: {BootMode: Uefi, Turbo: true, Watts: 250, Ratio: 0.5, Text: "10"}}
firmware:
- {model: "R750*", component: BIOS, from: [1.10, "1.9"], to: 2.0, image: /srv/bios.bin, sha256: ` + "6A2B7D5A2D3B0E5C7F1F6E0F7E3A5CCD5A1B0C9D8E7F60514233241506172839" + `}
properties:
- type: NODE
  profile: {cpus: 2, cores: 64, memory_mib: 524288, drives: [{model: X, capacity_bytes: 1000, protocol: NVMe}], links: [{name: NIC.1, width: 16, speed: Gen4}]}
runbooks:
  b-first:
    description: what it does
    match: {type: NODE, trait: HW_GOLD}
    steps:
    - {step: erase_drives}
    - {step: verify}
    - {step: bios_apply, args: {BootMode: Uefi, Cores: 4, On: false}}
  a-second:
    steps:
    - {step: hold, args: {reason: look at it}}
    - {step: wait, args: {for: 10m}}
`

func TestTheListsOfAPolicy(t *testing.T) {
	w, err := loadPolicy(t, wholePolicy)
	require.NoError(t, err)
	require.Equal(t, []clean.BIOSPolicy{{Match: clean.Match{Type: "NODE", Vendor: "HPE"},
		Settings: map[string]any{"BootMode": "Uefi", "Turbo": true, "Watts": int64(250), "Ratio": 0.5, "Text": "10"}}},
		w.Policy.BIOS)
	require.Equal(t, []clean.FirmwarePolicy{{Match: clean.Match{Model: "R750*"},
		FirmwareImage: clean.FirmwareImage{Component: "BIOS", From: []string{"1.10", "1.9"}, To: "2.0",
			Image: "/srv/bios.bin", SHA256: digest}}}, w.Policy.Firmware)
	require.Equal(t,
		[]clean.PropertiesPolicy{{Match: clean.Match{Type: "NODE"},
			Profile: device.Properties{CPUs: 2, Cores: 64, MemoryMiB: 524288,
				Drives: []device.Drive{{Model: "X", CapacityBytes: 1000, Protocol: "NVMe"}},
				Links:  []device.Link{{Name: "NIC.1", Width: 16, Speed: "Gen4"}}}}}, w.Policy.Properties)
	require.Equal(t, []clean.Runbook{
		{Name: "a-second", Line: 18, Steps: []clean.RunbookStep{
			{Step: "hold", Args: json.RawMessage(`{"reason":"look at it"}`), Line: 19}, {Step: "wait", Args: json.RawMessage(`{"for":"10m"}`), Line: 20}}},
		{Name: "b-first", Description: "what it does", Match: &clean.Match{Type: "NODE", Trait: "HW_GOLD"}, Line: 11,
			Steps: []clean.RunbookStep{
				{Step: "erase_drives", Line: 14}, {Step: "verify", Line: 15}, {Step: "bios_apply", Args: json.RawMessage(`{"BootMode":"Uefi","Cores":4,"On":false}`), Line: 16}}},
	}, w.Policy.Runbooks)
}

// Each mistake in a list or a runbook is refused, at its line.
func TestMistakesInThePolicysLists(t *testing.T) {
	image := func(without, with string) string {
		keys := map[string]string{"model": "model: R750", "from": "from: [\"1\"]", "to": "to: \"2\"", "image": "image: /i",
			"sha256": "sha256: " + digest}
		if with != "" {
			keys[without] = with
		} else {
			delete(keys, without)
		}
		var all []string
		for _, k := range []string{"model", "from", "to", "image", "sha256"} {
			if keys[k] != "" {
				all = append(all, keys[k])
			}
		}
		return "firmware:\n- {" + strings.Join(all, ", ") + "}\n"
	}
	book := func(steps string) string { return "runbooks:\n  r:\n    steps:\n" + steps }
	node := func(steps string) string { return "runbooks:\n  r:\n    match: {type: NODE}\n    steps:\n" + steps }
	refused(t, map[string]mistake{
		"no settings":               {"bios:\n- {type: NODE}\n", "line 2: ", "needs settings"},
		"settings are a list":       {"bios:\n- {settings: [a]}\n", "line 2: ", "settings must be a mapping, not a list"},
		"an empty attribute":        {"bios:\n- settings:\n    A:\n", "line 3: ", "A has no value"},
		"an attribute that is list": {"bios:\n- settings:\n    A: [1]\n", "line 3: ", "A must be text, not a list"},
		"a number of another base":  {"bios:\n- settings:\n    A: 0x10\n", "line 3: ", "put text in quotes"},
		"an unknown key":            {"bios:\n- {kind: NODE, settings: {A: 1}}\n", "line 2: ", `unknown key "kind" in an entry of bios`},
		"a bad pattern":             {"bios:\n- {model: \"[\", settings: {A: 1}}\n", "line 2: ", "model is not a valid pattern"},
		"not a list":                {"bios: {settings: {A: 1}}\n", "line 1: ", "bios must be a list, not a mapping"},
		"an empty entry":            {"bios:\n- settings: {A: 1}\n-\n", "", "must be a mapping, not nothing"},
		"no model":                  {image("model", ""), "line 2: ", "needs the key model"},
		"any model":                 {image("model", `model: "*"`), "line 2: ", "matches every model"},
		"no from":                   {image("from", ""), "line 2: ", "needs from"},
		"an empty from":             {image("from", "from: []"), "line 2: ", "from is empty"},
		"an empty version":          {image("from", `from: [""]`), "line 2: ", "a version in from is empty"},
		"from any version":          {image("from", "from: all"), "line 2: ", "from must be a list"},
		"no to":                     {image("to", ""), "line 2: ", "needs the key to"},
		"no image":                  {image("image", ""), "line 2: ", "needs the key image"},
		"a relative image":          {image("image", "image: bios.bin"), "line 2: ", "is not an absolute path"},
		"an image with ..":          {image("image", "image: /srv/../i"), "line 2: ", "is not an absolute path"},
		"no digest":                 {image("sha256", ""), "line 2: ", "needs the key sha256"},
		"a short digest":            {image("sha256", "sha256: abc"), "line 2: ", "sha256 is not 64 hexadecimal digits"},
		"an entry never used":       {image("model", "model: X") + strings.TrimPrefix(image("model", "model: X"), "firmware:\n"), "line 3: ", "never used: line 2"},
		"no profile":                {"properties:\n- {type: NODE}\n", "line 2: ", "needs a profile"},
		"no CPUs":                   {"properties:\n- profile: {cpus: 0}\n", "line 2: ", "cpus: \"0\" is not a positive number"},
		"a link without its name":   {"properties:\n- profile:\n    links:\n    - {width: 4}\n", "line 4: ", "needs the key name"},
		"a serial in a profile":     {"properties:\n- profile:\n    drives: [{serial: S}]\n", "line 3: ", `unknown key "serial"`},
		"a second profile":          {"properties:\n- {type: A, profile: {cpus: 1}}\n- {type: A, profile: {cpus: 2}}\n", "line 3: ", "never used"},
		"an item that is none":      {"golden:\n  rack:\n    disks: {a: b}\n", "line 3: ", `unknown key "disks"`},
		"an entry without value":    {"golden:\n  rack:\n    accounts: {root: \"\"}\n", "line 3: ", "root has no value"},
		"an item to cover":          {"require_covered:\n- {items: [disks]}\n", "line 2: ", `"disks" is no item`},
		"nothing to cover":          {"require_covered:\n- {type: NODE}\n", "line 2: ", "needs items"},

		"a bad name":                {"runbooks:\n  a b:\n    steps:\n    - {step: zero}\n", "line 3: ", `"a b" is not a valid name`},
		"a runbook twice":           {"runbooks:\n  r: {steps: [{step: zero}]}\n  r: {steps: [{step: zero}]}\n", "line 3: ", "already defined"},
		"no steps":                  {"runbooks:\n  r: {description: d}\n", "line 2: ", "needs steps"},
		"an empty list of steps":    {"runbooks:\n  r: {steps: []}\n", "line 2: ", "it has 0 steps"},
		"an empty match":            {"runbooks:\n  r: {match: {}, steps: [{step: hold, args: {reason: x}}]}\n", "line 2: ", "the match of r is empty"},
		"a match of nothing":        {"runbooks:\n  r:\n    match:\n    steps:\n    - {step: zero}\n", "line 3: ", "the match of r is empty"},
		"an unknown step":           {book("    - {step: zero}\n    - {step: verify}\n    - {step: polish}\n"), "line 6: ", `there is no step "polish"`},
		"a step twice":              {book("    - {step: pci_reset}\n    - {step: pci_reset}\n"), "line 5: ", "pci_reset stands in it twice"},
		"an argument of no step":    {book("    - {step: zero, args: {passes: 3}}\n    - {step: verify}\n"), "line 4: ", `zero: unknown argument "passes": the step takes none`},
		"a free image":              {book("    - {step: firmware_reflash, args: {image: /tmp/x}}\n"), "line 4: ", `unknown argument "image": must be one of component`},
		"images of one's own":       {book("    - {step: firmware_reflash, args: {components: []}}\n"), "line 4: ", `unknown argument "components"`},
		"a profile by hand":         {book("    - {step: verify_properties, args: {cpus: 2}}\n"), "line 4: ", `unknown argument "cpus": the step takes none`},
		"an attribute of objects":   {book("    - {step: bios_apply, args: {A: {b: c}}}\n"), "line 4: ", "the argument A must be text, a number or a boolean, not {\"b\":\"c\"}"},
		"a hold without a reason":   {book("    - {step: hold}\n"), "line 4: ", "hold: the argument reason is missing"},
		"a hold for two lines":      {book("    - step: hold\n      args:\n        reason: |\n          a\n          b\n"), "line 4: ", "must be one line"},
		"a hold for nothing":        {book("    - {step: hold, args: {reason: \" \"}}\n"), "line 4: ", "must be one line"},
		"a wait for nothing":        {book("    - {step: wait, args: {for: 0s}}\n"), "line 4: ", "must be a positive duration"},
		"a wait without end":        {book("    - {step: wait, args: {for: 200h}}\n"), "line 4: ", "use hold"},
		"no verify":                 {book("    - {step: zero}\n"), "line 3: ", "its erase is not followed by a verify"},
		"the verify first":          {book("    - {step: verify}\n    - {step: zero}\n"), "line 3: ", "must stand in the order zero, verify"},
		"a step in between":         {book("    - {step: zero}\n    - {step: hold, args: {reason: x}}\n    - {step: verify}\n"), "line 3: ", "between its erase and its verify stands another step"},
		"erases in another order":   {book("    - {step: zero}\n    - {step: sanitize}\n    - {step: verify}\n"), "line 3: ", "must stand in the order sanitize, zero, verify"},
		"a full clean, no erase":    {node("    - {step: bios_reset}\n"), "line 3: ", "has no erase"},
		"a full clean, verify only": {node("    - {step: verify}\n"), "line 3: ", "has no erase"},
		"part of the firmware":      {node("    - {step: erase_drives}\n    - {step: verify}\n    - {step: verify_firmware, args: {component: BMC}}\n"), "line 7: ", "for manual cleans only"},
		"a check after the change":  {node("    - {step: bios_reset}\n    - {step: security_check}\n    - {step: erase_drives}\n    - {step: verify}\n"), "line 3: ", "security_check must stand before bios_reset"},
		"firmware after its check":  {node("    - {step: verify_firmware}\n    - {step: firmware_reflash}\n    - {step: erase_drives}\n    - {step: verify}\n"), "line 3: ", "verify_firmware must stand after firmware_reflash"},
		"two for one device":        {"runbooks:\n  a: {match: {type: NODE}, steps: [{step: zero}, {step: verify}]}\n  b: {match: {type: node, model: \"R*\"}, steps: [{step: zero}, {step: verify}]}\n", "line 3: ", "has devices in common with that of a"},
	})
}

// Two runbooks that may have devices in common, and need not, are accepted: only a device shows
// whether they have.
func TestRunbooksThatMayOverlap(t *testing.T) {
	_, err := loadPolicy(t, "runbooks:\n  a: {match: {trait: HW_A}, steps: [{step: zero}, {step: verify}]}\n  b: "+
		"{match: {trait: HW_B}, steps: [{step: zero}, {step: verify}]}\n")
	require.NoError(t, err)
}
