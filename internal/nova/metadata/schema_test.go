package metadata_test

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"burnish/internal/nova/metadata"
)

// deviations are devices that the schema refuses, and allowed are some that it does not.
var (
	deviations = map[string]string{
		"no bus":                   `{"type":"disk"}`,
		"no type":                  `{"bus":"pci"}`,
		"an unknown bus":           `{"type":"disk","bus":"sata"}`,
		"a bus as a part":          `{"type":"disk","bus":"pcie"}`,
		"no word for no address":   `{"type":"disk","bus":"pci","address":"none"}`,
		"an address on none":       `{"type":"disk","bus":"none","address":"0000:00:05.0"}`,
		"the word none on none":    `{"type":"disk","bus":"none","address":"none"}`,
		"a null address":           `{"type":"disk","bus":"pci","address":null}`,
		"pci: a colon for the dot": `{"type":"disk","bus":"pci","address":"0000:00:05:0"}`,
		"pci: a slot above 1f":     `{"type":"disk","bus":"pci","address":"0000:00:20.0"}`,
		"pci: a function above 7":  `{"type":"disk","bus":"pci","address":"0000:00:05.8"}`,
		"pci: capitals":            `{"type":"disk","bus":"pci","address":"0000:00:0A.0"}`,
		"pci: text in front":       `{"type":"disk","bus":"pci","address":"x0000:00:05.0"}`,
		"pci: text behind":         `{"type":"disk","bus":"pci","address":"0000:00:05.0x"}`,
		"pci: a newline behind":    `{"type":"disk","bus":"pci","address":"0000:00:05.0\n"}`,
		"usb: three numbers":       `{"type":"disk","bus":"usb","address":"0:1:2"}`,
		"usb: a newline behind":    `{"type":"disk","bus":"usb","address":"0:1\n"}`,
		"scsi: five numbers":       `{"type":"disk","bus":"scsi","address":"1:0:2:0:0"}`,
		"scsi: three numbers":      `{"type":"disk","bus":"scsi","address":"1:0:2"}`,
		"scsi: a newline behind":   `{"type":"disk","bus":"scsi","address":"1:0:2:0\n"}`,
		"ide: a third disk":        `{"type":"disk","bus":"ide","address":"0:2"}`,
		"ide: three numbers":       `{"type":"disk","bus":"ide","address":"0:0:0"}`,
		"ide: a newline behind":    `{"type":"disk","bus":"ide","address":"0:0\n"}`,
		"xen: not an integer":      `{"type":"disk","bus":"xen","address":"0x1"}`,
		"xen: a negative one":      `{"type":"disk","bus":"xen","address":"-1"}`,
		"xen: a number":            `{"type":"disk","bus":"xen","address":1}`,
		"xen: a newline behind":    `{"type":"disk","bus":"xen","address":"1\n"}`,
		"xen: none":                `{"type":"disk","bus":"xen","address":""}`,
		"a nic without a mac":      `{"type":"nic","bus":"pci"}`,
		"mac: capitals":            `{"type":"nic","bus":"pci","mac":"52:54:00:00:00:0A"}`,
		"mac: text behind":         `{"type":"nic","bus":"pci","mac":"52:54:00:00:00:0a:00"}`,
		"mac: a newline behind":    `{"type":"nic","bus":"pci","mac":"52:54:00:00:00:0a\n"}`,
		"a null serial":            `{"type":"disk","bus":"pci","serial":null}`,
		"an empty serial":          `{"type":"disk","bus":"pci","serial":""}`,
		"an empty path":            `{"type":"disk","bus":"pci","path":""}`,
		"tags: none":               `{"type":"disk","bus":"pci","tags":[]}`,
		"tags: not a list":         `{"type":"disk","bus":"pci","tags":"a"}`,
		"tags: an empty one":       `{"type":"disk","bus":"pci","tags":[""]}`,
		"tags: a comma":            `{"type":"disk","bus":"pci","tags":["a,b"]}`,
		"tags: a slash":            `{"type":"disk","bus":"pci","tags":["a/b"]}`,
		"tags: one twice":          `{"type":"disk","bus":"pci","tags":["a","a"]}`,
		"tags: 61 characters":      `{"type":"disk","bus":"pci","tags":["` + strings.Repeat("ä", 61) + `"]}`,
		"not an object":            `"disk"`,
	}
	allowed = map[string]string{
		"a bus alone":        `{"type":"disk","bus":"pci"}`,
		"no bus":             `{"type":"disk","bus":"none"}`,
		"60 characters":      `{"type":"disk","bus":"pci","tags":["` + strings.Repeat("ä", 60) + `"]}`,
		"a line end":         `{"type":"disk","bus":"pci","tags":["a\n"]}`,
		"several tags":       `{"type":"disk","bus":"pci","tags":["a","b"]}`,
		"another type":       `{"type":"gpu","bus":"pci","address":"0000:00:05.0","serial":"S"}`,
		"what Nova adds":     `{"type":"nic","bus":"pci","address":"0000:00:05.0","mac":"52:54:00:00:00:0a","vlan":5,"vf_trusted":true}`,
		"a later key":        `{"type":"disk","bus":"usb","address":"0:a","wwn":"0x5000"}`,
		"a nic's serial":     `{"type":"nic","bus":"pci","mac":"52:54:00:00:00:0a","serial":"S","path":"/dev/x"}`,
		"a disk's mac":       `{"type":"disk","bus":"pci","mac":"52:54:00:00:00:0a","devname":"eth0"}`,
		"a later object":     `{"type":"nic","bus":"none","mac":"52:54:00:00:00:0a","offloads":{"tso":true},"numa_nodes":[0,1],"parent":null}`,
		"the last address":   `{"type":"disk","bus":"pci","address":"ffff:ff:1f.7"}`,
		"an integer of Xen":  `{"type":"disk","bus":"xen","address":"0"}`,
		"Nova's form of Xen": `{"type":"disk","bus":"xen","address":"000100"}`,
	}
)

func wrap(device string) string { return `{"devices":[` + device + `]}` }

// S1.10, S1.11, S1.12, S1.13, S1.14, S1.15, S1.16, S1.18, S1.20, S1.21
func TestTheSchemaRefusesEachDeviation(t *testing.T) {
	for name, device := range deviations {
		require.ErrorContains(t, metadata.Validate([]byte(wrap(device))), "deviates from its schema", name)
	}
	for name, device := range allowed {
		require.NoError(t, metadata.Validate([]byte(wrap(device))), name)
	}
	for _, document := range []string{`{}`, `[]`, `{"devices":{}}`, `{"devices":null}`, `{"devices":[],"uuid":"U"}`,
		`{"devices":[],"uuid":"` + uuid + `\n"}`} {
		require.ErrorContains(t, metadata.Validate([]byte(document)), "deviates from its schema", document)
	}
	for _, document := range []string{`{"devices":[]}`, `{"devices":[],"uuid":"` + uuid + `","hostname":"h"}`} {
		require.NoError(t, metadata.Validate([]byte(document)), document)
	}
	require.ErrorContains(t, metadata.Validate([]byte("{")), "not JSON")
}

// The schema is the specification's: its $id, and all its definitions.
//
// S1.20, S1.21
func TestTheSchemaGrowsOnly(t *testing.T) {
	var schema struct {
		ID          string                     `json:"$id"`
		Definitions map[string]json.RawMessage `json:"definitions"`
	}
	require.NoError(t, json.Unmarshal(metadata.Schema(), &schema))
	require.Equal(t, metadata.SchemaID, schema.ID)
	require.Regexp(t, `/device-role-tagging/1\.0$`, schema.ID)
	for _, name := range []string{"nonedevicebus", "pcidevicebus", "usbdevicebus", "scsidevicebus", "idedevicebus",
		"anydevicebus", "nicdevice", "diskdevice"} {
		require.Contains(t, schema.Definitions, name)
	}
	own := metadata.Schema()
	own[0] = 'x'
	require.NotEqual(t, own, metadata.Schema(), "a caller cannot change it")
}

// Guests read the schema with other libraries: Python's, whose $ also matches before a newline
// at the end, judges alike.
//
// S1.20
func TestPythonsLibraryJudgesAlike(t *testing.T) {
	t.Parallel()
	const library = "/usr/lib/python3/dist-packages/jsonschema/validators.py"
	if _, err := os.Stat(library); err != nil {
		t.Skip("python3-jsonschema is not installed: deploy/setup-test.sh installs it with python3-nova:", err)
	}
	asked := map[string]json.RawMessage{"schema": metadata.Schema()}
	for name, device := range deviations {
		asked["deviation: "+name] = json.RawMessage(wrap(device))
	}
	for name, device := range allowed {
		asked["allowed: "+name] = json.RawMessage(wrap(device))
	}
	text, err := json.Marshal(asked)
	require.NoError(t, err)
	program := exec.CommandContext(t.Context(), "/usr/bin/python3", "-c", `
import json, sys
from jsonschema import Draft7Validator
asked = json.load(sys.stdin)
schema = asked.pop("schema")
Draft7Validator.check_schema(schema)
for name, document in asked.items():
    if Draft7Validator(schema).is_valid(document) != name.startswith("allowed"):
        print(name)
`)
	program.Env = []string{"PATH=/usr/bin:/bin", "PYTHONDONTWRITEBYTECODE=1"}
	program.Stdin = bytes.NewReader(text)
	out, err := program.CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Empty(t, string(out), "what Python judges otherwise")
}
