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
