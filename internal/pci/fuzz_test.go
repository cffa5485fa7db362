package pci

import (
	"encoding/json"
	"errors"
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
		`{"address": {"bus": "((0{1,99}){1,99}){1,99}"}}`, `{"address": {"bus": "(.{0,999}){0,9}"}}`,
		`{"devname": "ens1", "physical_network": "a\u0007"}`, `{"address": "10000:e1:00.0", "dev_type": "type-VF"}`,
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
