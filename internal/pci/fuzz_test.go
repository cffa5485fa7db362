package pci

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/stretchr/testify/require"
)

// For any spec and device: no crash; an error is *Invalid, on one
// line; a match holds again under every entry's own rule. In a normal run the seeds
// alone are tried, in milliseconds; go test -fuzz FuzzMatch goes on for as long as
// -fuzztime says.
func FuzzMatch(f *testing.F) {
	for _, spec := range []string{
		`{}`, `{"vendor_id": " 0X8086 ", "product_id": "*"}`, `{"address": "*:0a:00.*", "physical_network": null}`,
		`{"address": ":00."}`,
		`{"address": {"domain": ".*", "bus": "0[ab]", "slot": "(?i)0A|00", "function": "[0-3]"}}`,
		`[{"devname": "ens1"}, {"one_time_use": "yes"}]`,
		`{"address": {"bus": "a)|(b"}}`, `{"address": {"bus": "\\x{41}"}}`,
		`{"clear_action": "zero", "clear_strategy": "block"}`,
		`{"address": "0000:0a:00.0", "one_time_use": 1}`, `[[]]`, `{"vendor_id": "` + strings.Repeat("f", 40) + `"}`,
		"{\"\xff\\n\": 1, \"\xff\\n\": 2}",
		`{"address": {"bus": "` + strings.Repeat("(", 1001) + strings.Repeat(")", 1001) + `"}}`,
		`{"address": {"bus": "((0{1,99}){1,99}){1,99}"}}`,
	} {
		f.Add([]byte(spec), []byte(disk))
		f.Add([]byte(spec),
			[]byte(`{"address": "0000:0a:02.1", "vendor_id": "0x8086", "parent_addr": "0000:0a:00.0", "parent_ifname": "ens1"}`))
		f.Add([]byte(spec), []byte(spec))
	}
	f.Fuzz(func(t *testing.T, spec, device []byte) {
		specs, specErr := ParseSpecs(spec)
		d, deviceErr := ParseDevice(device)
		for _, err := range []error{specErr, deviceErr} {
			oneInvalid(t, err)
		}
		if specErr != nil || deviceErr != nil {
			require.True(t, specErr == nil || specs == nil)
			return
		}
		began := time.Now()
		s, ok, err := specs.Match(d)
		require.Less(t, time.Since(began), patience)
		if err != nil {
			oneInvalid(t, err)
			require.False(t, ok)
			return
		}
		_, err = json.Marshal(s.Tags())
		require.NoError(t, err)
		if !ok {
			return
		}
		again, err := s.Match(d)
		require.NoError(t, err)
		require.True(t, again)
		require.False(t, s.vendor != wildcard && s.vendor != d.Vendor, "vendor")
		require.False(t, s.product != wildcard && s.product != d.Product, "product")
		value, hasKey := s.tags[oneTimeUse]
		require.False(t, hasKey && string(value) != "null" && d.Type == Virtual, "one_time_use")
		for _, key := range []string{"vendor_id", "product_id", "address", "devname"} {
			require.NotContains(t, s.Tags(), key)
		}
	})
}

// patience is what one spec may take on a busy machine; it is for what never ends.
const patience = 10 * time.Second

func oneInvalid(t *testing.T, err error) {
	t.Helper()
	if err == nil {
		return
	}
	var fault *Invalid
	require.True(t, errors.As(err, &fault), "%v", err)
	require.NotEmpty(t, fault.Reason)
	require.Equal(t, -1, strings.IndexFunc(err.Error(), unicode.IsControl), "%q", err.Error())
}

// An entry that is accepted alone is accepted in a list too, and matches the same devices.
func FuzzParseSpec(f *testing.F) {
	for _, spec := range []string{
		`{}`, ` {"vendor_id": "0x8086", "product_id": "*", "one_time_use": "No"} `,
		`{"address": "0000:0A:*.7", "tag": [1, {"a": null}]}`,
		`{"address": {"domain": "0{4}", "slot": "[01][0-9a-f]$", "function": "(?i)[A-F]|0"}}`,
		`{"address": {"bus": "(.{0,999}){0,9}"}}`,
		`{"devname": "ens1", "physical_network": "a\u0007"}`, `{"clear_action": "zero", "clear_strategy": "crypto"}`,
		`{"a": 1} {}`,
	} {
		f.Add([]byte(spec))
	}
	whole := Device{Address: "0000:0a:00.0", Vendor: "8086", Product: "0a54", Class: "010802", Type: Whole,
		Interfaces: []string{"ens1"}}
	f.Fuzz(func(t *testing.T, text []byte) {
		began := time.Now()
		s, err := ParseSpec(text)
		require.Less(t, time.Since(began), patience)
		oneInvalid(t, err)
		specs, errList := ParseSpecs(fmt.Appendf(nil, "[%s]", text))
		if err != nil {
			// A list may have more than one, and none.
			oneInvalid(t, errList)
			return
		}
		require.NoError(t, errList)
		require.Len(t, specs, 1)
		require.Equal(t, s.Tags(), specs[0].Tags())
		ok, err := s.Match(whole)
		require.NoError(t, err, "this device has everything that a spec can ask for")
		_, listed, err := specs.Match(whole)
		require.NoError(t, err)
		require.Equal(t, ok, listed)
		require.True(t, ok || s.Narrows(), "what matches everything matches this")
	})
}

// The text of a parsed device parses to the same device.
func FuzzParseDevice(f *testing.F) {
	for _, text := range []string{
		disk, `{}`, `{"address": "A:1.2", "vendor_id": " 0X8086", "dev_type": "type-PF", "devname": "a\nb"}`,
		`{"address": "10000:e1:00.0", "dev_type": "type-VF", "parent_addr": "0:0:0.0", "parent_ifname": "x"}`,
		`{"address": null, "product_id": 1}`,
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		d, err := ParseDevice(text)
		oneInvalid(t, err)
		if err != nil {
			return
		}
		given := map[string]string{}
		for key, value := range map[string]string{
			"address": d.Address, "vendor_id": d.Vendor, "product_id": d.Product, "dev_type": string(d.Type), "parent_addr": d.Parent,
			"devname": strings.Join(d.Interfaces, ""), "parent_ifname": strings.Join(d.ParentInterfaces, ""),
		} {
			if value != "" {
				given[key] = value
			}
		}
		again, err := json.Marshal(given)
		require.NoError(t, err)
		second, err := ParseDevice(again)
		require.NoError(t, err)
		require.Equal(t, d, second)
	})
}
