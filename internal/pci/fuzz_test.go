package pci

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Whatever stands in a spec and in a device: no crash; an error is *Invalid, on one
// line; a match holds again under every entry's own rule. In a normal run the seeds
// alone are tried, in milliseconds; go test -fuzz FuzzMatch goes on for as long as
// -fuzztime says.
func FuzzMatch(f *testing.F) {
	for _, spec := range []string{
		`{}`, `{"vendor_id": " 0X8086 ", "product_id": "*"}`, `{"address": "*:0a:00.*", "physical_network": null}`, `{"address": ":00."}`,
		`{"address": {"domain": ".*", "bus": "0[ab]", "slot": "(?i)0A|00", "function": "[0-3]"}}`, `[{"devname": "ens1"}, {"one_time_use": "yes"}]`,
		`{"address": {"bus": "a)|(b"}}`, `{"address": {"bus": "\\x{41}"}}`, `{"clear_action": "zero", "clear_strategy": "block"}`,
		`{"address": "0000:0a:00.0", "one_time_use": 1}`, `[[]]`, `{"vendor_id": "` + strings.Repeat("f", 40) + `"}`, "{\"\xff\\n\": 1, \"\xff\\n\": 2}",
		`{"address": {"bus": "` + strings.Repeat("(", 1001) + strings.Repeat(")", 1001) + `"}}`, `{"address": {"bus": "((0{1,99}){1,99}){1,99}"}}`,
	} {
		f.Add([]byte(spec), []byte(disk))
		f.Add([]byte(spec), []byte(`{"address": "0000:0a:02.1", "vendor_id": "0x8086", "parent_addr": "0000:0a:00.0", "parent_ifname": "ens1"}`))
		f.Add([]byte(spec), []byte(spec))
	}
	f.Fuzz(func(t *testing.T, spec, device []byte) {
		specs, specErr := ParseSpecs(spec)
		d, deviceErr := ParseDevice(device)
		for _, err := range []error{specErr, deviceErr} {
			if err != nil {
				require.ErrorAs(t, err, new(*Invalid))
				require.NotContains(t, err.Error(), "\n")
			}
		}
		if specErr != nil || deviceErr != nil {
			require.True(t, specErr == nil || specs == nil)
			return
		}
		s, ok, err := specs.Match(d)
		if err != nil {
			require.ErrorAs(t, err, new(*Invalid))
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
		require.False(t, s.vendor != wild && s.vendor != d.Vendor, "vendor")
		require.False(t, s.product != wild && s.product != d.Product, "product")
		_, hasKey := s.tags[oneTimeUse]
		require.False(t, hasKey && d.Type == Virtual, "one_time_use")
		for _, key := range []string{"vendor_id", "product_id", "address", "devname"} {
			require.NotContains(t, s.Tags(), key)
		}
	})
}
