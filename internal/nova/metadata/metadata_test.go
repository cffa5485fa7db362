package metadata_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"burnish/internal/nova/metadata"
	"burnish/workflows/contract"
)

const uuid = "11111111-2222-3333-4444-555555555555"

// S1.15
func TestTheHostsAddressIsNeverShown(t *testing.T) {
	doc, err := metadata.New(contract.InstanceStatus{UUID: uuid, Devices: []contract.HeldDevice{
		{Name: "h1_0000:01:00.0", Type: "NVME", Serial: "S1", Tag: "db"},
	}}).JSON()
	require.NoError(t, err)
	require.JSONEq(t, `{"uuid":"`+uuid+`","devices":[{"type":"disk","bus":"none","serial":"S1","tags":["db"]}]}`, string(doc))
}
