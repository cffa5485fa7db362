package lifecycle

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"burnish/internal/device"
	"burnish/workflows/contract"
)

// cleaning is a device in its clean, as its host found it.
func cleaning() *contract.DeviceState {
	at := time.Date(2026, 11, 3, 4, 5, 6, 0, time.UTC)
	steps := []contract.CleanStep{{Step: "zero", Priority: 70, Interface: "deploy"},
		{Step: "verify", Priority: 60, Interface: "deploy"}}
	return &contract.DeviceState{
		Name: "h1_0000:01:00.0", UUID: "b3a5", Enrolled: true, Steps: steps, CreatedAt: at, UpdatedAt: at,
		Enrollment: contract.Enrollment{Name: "h1_0000:01:00.0", Host: "h1", Driver: "nvme", Type: "NVME", Labels: map[string]string{"rack": "a1"}},
		Host: contract.DiscoveryResult{Operation: "shred", Identity: device.Identity{
			Vendor: "Acme", Model: "Fast 4000", Serial: "S4E2NX0R", Product: "0a54", Path: "/dev/nvme0n1", Firmware: "1.2",
			Size: 1 << 42}},
		Device: device.Device{State: device.Cleaning, Status: device.Enabled, Dirty: true, OneTimeUse: true},
		Clean: &contract.CleanRun{Number: 3, Plan: []contract.Planned{{Step: "zero", Priority: 70,
			Interface: "deploy"}}, StepAt: at},
	}
}

// What a device publishes is derived again whenever its state changes. The race detector's runs
// allocate more, because it drops what a pool keeps.
func TestPublishingIsCheap(t *testing.T) {
	s := cleaning()
	for name, tt := range map[string]struct {
		do   func()
		most float64
	}{
		"attributes": {func() { AttributesOf(s) }, 2},
		"memo": {func() {
			_, err := json.Marshal(Memo(s))
			require.NoError(t, err)
		}, 55},
		"details": {func() { Details(&State{DeviceState: s}) }, 70},
		"status":  {func() { Show(s) }, 3},
	} {
		allocations := testing.AllocsPerRun(50, tt.do)
		t.Logf("%s: %g allocations", name, allocations)
		require.LessOrEqual(t, allocations, tt.most, name)
	}
}
