package inventory_test

import (
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"burnish/internal/device"
	"burnish/internal/inventory"
	"burnish/internal/testkit/suites/inventorytest"
)

// A record of the hardware that cannot be read may name an instance; one that was deleted since
// it was listed names none.
//
// F35
func TestARecordOfHardwareThatCannotBeReadIsAnError(t *testing.T) {
	for _, c := range []struct {
		fault error
		want  device.Code // none: it is left out
	}{
		{inventory.Invalid("m", "r"), device.CodeInventoryInvalid},
		{inventorytest.Lost(), device.CodeInventoryUnavailable},
		{inventory.NoProvider("x"), ""},
	} {
		w := newFixture(t, false, false)
		p := inventorytest.NewProvider()
		p.Hardware = uuid.NewString()
		require.NoError(t, w.store.Create(t.Context(), p))
		w.faulty.Fail(inventorytest.Before(inventorytest.Usages, 1), c.fault)
		records, err := inventory.HardwareRecords(t.Context(), w.faulty, p.Hardware)
		require.Empty(t, records)
		if c.want == "" {
			require.NoError(t, err)
		} else {
			inventorytest.RequireCode(t, c.want, err)
		}
	}
}
