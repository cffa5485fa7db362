package doctor

import (
	"testing"

	"github.com/stretchr/testify/require"

	"burnish/internal/config"
	"burnish/internal/testkit/openstack"
)

// Problems with the inventory are reported with their remedy.
func TestTheInventoryIsChecked(t *testing.T) {
	check := func(w config.Worker) Finding {
		t.Helper()
		var f Findings
		machine{Findings: &f, settings: w}.inventory()
		require.Len(t, f, 1)
		return f[0]
	}
	require.Equal(t, OK, check(config.Worker{Inventory: "file"}).Level)
	f := check(config.Worker{Inventory: "none"})
	require.Equal(t, Fail, f.Level)
	require.Contains(t, f.Remedy, "file, placement")
	f = check(config.Worker{Inventory: "file", NovaBroker: "amqp://h"})
	require.Equal(t, Fail, f.Level)
	require.Contains(t, f.Remedy, "BURNISH_INVENTORY=placement")

	t.Setenv("OS_CLOUD", "")
	t.Setenv("OS_AUTH_TYPE", "none")
	t.Setenv("OS_PLACEMENT_ENDPOINT_OVERRIDE", "http://127.0.0.1:1")
	f = check(config.Worker{Inventory: "placement", Cloud: "default"})
	require.Equal(t, Fail, f.Level, "no server listens there")
	require.NotEmpty(t, f.Remedy)

	server := openstack.Start(t, openstack.Options{})
	t.Setenv("OS_PLACEMENT_ENDPOINT_OVERRIDE", server.URL)
	f = check(config.Worker{Inventory: "placement", Cloud: "default"})
	require.Equal(t, OK, f.Level, "%+v", f)
	require.Contains(t, f.Message, "Placement answers")
}

// An operator is shown whether instances with a one-time-use device can be moved: here they
// cannot, because Debian's Placement is too old.
//
// S0.25
func TestWhetherInstancesCanMoveIsShown(t *testing.T) {
	t.Setenv("OS_CLOUD", "")
	t.Setenv("OS_AUTH_TYPE", "none")
	try := func(w config.Worker, url string) (f Findings) {
		t.Setenv("OS_PLACEMENT_ENDPOINT_OVERRIDE", url)
		f.PlacementTrial(t.Context(), w)
		require.Len(t, f, 1)
		return f
	}
	f := try(config.Worker{Inventory: "file"}, "")
	require.Equal(t, Fail, f[0].Level)
	f = try(config.Worker{Inventory: "placement"}, "http://127.0.0.1:1")
	require.Equal(t, Fail, f[0].Level, "no server listens there")

	recorder := openstack.Record(t, openstack.Start(t, openstack.Options{}).URL)
	f = try(config.Worker{Inventory: "placement"}, recorder.URL)
	require.Equal(t, Warn, f[0].Level, "%+v", f)
	require.Contains(t, f[0].Message, "exceed the capacity")
	require.Contains(t, f[0].Remedy, "upgrade Placement to 2025.2")
	recorder.Inject(openstack.Match{Method: "POST", Path: "^/allocations$", Nth: 2}, openstack.Injection{Status: 204})
	f = try(config.Worker{Inventory: "placement"}, recorder.URL)
	require.Equal(t, OK, f[0].Level, "%+v", f)
}
