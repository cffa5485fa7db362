package activities_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"burnish/internal/device"
	"burnish/workflows/contract"
)

// The listing carries who has a device by its provider's record: a bound device whose
// provider records no instance, or another instance, gets a hint. An instance whose name is no
// UUID may be recorded by its TenantUUID.
//
// F24
func TestTheRecordOfABoundDeviceIsCompared(t *testing.T) {
	t.Parallel()
	for tenant, hinted := range map[string]bool{"i-h1_a": false, device.TenantUUID("i-h1_a"): false,
		"another": true, "": true} {
		s := newReconcileFixture(t)
		s.adds("h1_a", device.Allocated, device.OwnerSelf, false, device.Inventory{Total: 1, Reserved: 1})
		s.own[0].Tenant = tenant
		if tenant == "" {
			s.own[0].Witness = device.WitnessNone
		}
		out := s.must(contract.ReconcileInput{})
		require.Equal(t, hinted, len(s.hints["h1_a"]) == 1, "recorded: %q", tenant)
		require.Equal(t, tenant == "another", len(out.Mismatches) == 1)
	}
}
