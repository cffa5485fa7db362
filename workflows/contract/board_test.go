package contract

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"burnish/internal/device"
)

// The form of the document's examples, which clients read twice; the operation after it.
//
// S2.81, S2.106
func TestBoardInfoIsAString(t *testing.T) {
	for text, info := range map[string]BoardInfo{
		`"{\"product_id\": \"0001\", \"pci_address\": \"0000:01:00.0\"}"`:                      {ProductID: "0001", PCIAddress: "0000:01:00.0"},
		`"{\"product_id\": \"\", \"pci_address\": \"0000:01:00.0\"}"`:                          {PCIAddress: "0000:01:00.0"},
		`"{\"product_id\": \"\", \"pci_address\": \"\"}"`:                                      {},
		`"{\"product_id\": \"a808\", \"pci_address\": \"\", \"operation\": \"crypto_erase\"}"`: {ProductID: "a808", Operation: device.CryptoErase},
	} {
		got, err := json.Marshal(info)
		require.NoError(t, err)
		require.Equal(t, text, string(got))
		var back BoardInfo
		require.NoError(t, json.Unmarshal(got, &back))
		require.Equal(t, info, back)
	}
	require.Error(t, json.Unmarshal([]byte(`{}`), &BoardInfo{}))
}

// Text of a device is escaped twice, as a string within a string is.
func TestBoardInfoOfAnyText(t *testing.T) {
	for _, text := range []string{`a"b`, `a\b`, "a\tb", "a\x7fb", "<b>&", "Böard", "\u2028"} {
		for _, info := range []BoardInfo{{ProductID: text}, {PCIAddress: text}, {Operation: device.Operation(text)}} {
			got, err := json.Marshal(info)
			require.NoError(t, err)
			var inner string
			require.NoError(t, json.Unmarshal(got, &inner), "%q", text)
			value, err := json.Marshal(text)
			require.NoError(t, err)
			require.Contains(t, inner, ": "+string(value))
			var back BoardInfo
			require.NoError(t, json.Unmarshal(got, &back), "%q", text)
			require.Equal(t, info, back)
		}
	}
}
