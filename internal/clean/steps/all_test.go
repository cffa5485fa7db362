package steps_test

import (
	"os"
	"regexp"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"burnish/internal/clean"
	"burnish/internal/clean/steps"
	"burnish/internal/device"
)

var operations = []device.Operation{"", device.CryptoErase, device.BlockErase, device.WriteZeroes, device.Shred,
	device.Script, device.SecureErase}

// The catalog of steps is one whole: each step of it that this build has, with its interface,
// phase and priority. The operators' page lists the same.
//
// S3.43
func TestTheStepsAndTheirPriorities(t *testing.T) {
	type row struct {
		name, iface string
		phase       clean.Phase
		priority    float64
	}
	want := []row{
		{"security_check", "management", clean.Prepare, 100},
		{"wear_check", "management", clean.Prepare, 95},
		{"sanitize", "deploy", clean.Erase, 90},
		{"consolidate_namespaces", "deploy", clean.Erase, 80},
		{"zero", "deploy", clean.Erase, 70},
		{"erase_device", "vendor", clean.Erase, 75},
		{"erase_drives", "management", clean.Erase, 75},
		{"verify", "deploy", clean.Verify, 60},
		{"firmware_reflash", "firmware", clean.Restore, 50},
		{"verify_firmware", "firmware", clean.Restore, 45},
		{"bios_reset", "bios", clean.Restore, 40},
		{"boot_restore", "bios", clean.Restore, 38},
		{"secure_boot_restore", "bios", clean.Restore, 37},
		{"tpm_clear", "bios", clean.Restore, 36},
		{"bios_apply", "bios", clean.Restore, 35},
		{"bmc_restore", "management", clean.Restore, 32},
		{"verify_properties", "management", clean.Restore, 30},
		{"bmc_reset", "management", clean.Restore, 0},
		{"pci_reset", "power", clean.Restore, 0},
	}
	var got []row
	for _, s := range steps.All() {
		got = append(got, row{s.Name, s.Interface, s.Phase, s.Priority})
		require.Positive(t, s.Version)
		require.NotNil(t, s.Run)
		require.NotNil(t, s.Applies)
		require.NotNil(t, s.Timeout)
		require.False(t, s.Phase == clean.Verify && s.Writes, "a verify never writes")
		require.True(t, s.Phase != clean.Erase || s.Writes)
		require.False(t, clean.OfWorkflow(s.Name), "no step of a host has the name of one that the workflow carries out")
	}
	require.Equal(t, want, got)

	page, err := os.ReadFile("../../../docs/operating.md")
	require.NoError(t, err)
	var listed []row
	for _, cells := range regexp.MustCompile("(?m)^\\| `([a-z_]+)` \\| ([a-z]+) \\| ([a-z]+) \\| ([0-9.]+) \\|").
		FindAllStringSubmatch(string(page), -1) {
		priority, err := strconv.ParseFloat(cells[4], 64)
		require.NoError(t, err)
		listed = append(listed, row{cells[1], cells[2], clean.Phase(cells[3]), priority})
	}
	require.ElementsMatch(t, want, listed, "the page of the steps")
}

func TestTheStepsMakeAPlanner(t *testing.T) {
	p, err := clean.NewPlanner(steps.All().Planning(), clean.Policy{})
	require.NoError(t, err, "no ties by default")
	known := steps.All().Versions()
	for _, operation := range operations {
		t.Run(string(operation), func(t *testing.T) {
			subject := clean.Subject{Name: "d", Operation: operation, Size: 1 << 30, HostSteps: known}
			plan, fault := p.Full(subject)
			if fault != nil {
				require.Equal(t, device.CodeNoErasePath, fault.Code)
				require.Empty(t, operation, "every operation has its plan")
				return
			}
			writes := slices.IndexFunc(plan, func(p clean.Planned) bool { return p.Step.Phase == clean.Erase })
			reads := slices.IndexFunc(plan, func(p clean.Planned) bool { return p.Step.Phase == clean.Verify })
			require.GreaterOrEqual(t, writes, 0)
			require.Greater(t, reads, writes)
		})
	}
}

// A device is zeroed only if its operation overwrites it, sanitized only if it does not, and
// each erase has its verify.
//
// S2.22
func TestZeroIsForWhatIsOverwritten(t *testing.T) {
	for _, operation := range operations {
		want := operation == device.WriteZeroes || operation == device.Shred
		subject := clean.Subject{Operation: operation}
		require.Equal(t, want, steps.Zero().Applies(subject), "zero for %q", operation)
		require.Equal(t, operation.Sanitizes(), steps.Sanitize().Applies(subject), "sanitize for %q", operation)
		require.Equal(t, operation == device.Script, steps.EraseDevice().Applies(subject), "erase_device for %q", operation)
		require.Equal(t, operation == device.SecureErase, steps.EraseDrives().Applies(subject),
			"erase_drives for %q", operation)
		require.Equal(t, operation != "", steps.Verify().Applies(subject), "verify for %q", operation)
	}
}

// D5, S2.62, S3.41
func TestTheTimeOfAStep(t *testing.T) {
	const least = 900 * time.Second
	bySize := func(size int64) clean.Subject { return clean.Subject{Size: size} }
	estimated := func(estimate time.Duration) clean.Subject {
		return clean.Subject{Estimate: estimate, Operation: device.Script, Size: 1 << 50}
	}
	for _, tt := range []struct {
		step    steps.Step
		subject clean.Subject
		want    time.Duration
	}{
		{steps.Zero(), bySize(0), least},
		{steps.Zero(), bySize(18_000_000_000), least},
		{steps.Zero(), bySize(4_000_000_000_000), 200_000 * time.Second},
		{steps.Verify(), bySize(1 << 30), least},
		{steps.Verify(), bySize(4_000_000_000_000), 200_000 * time.Second},
		{steps.Verify(), estimated(2 * time.Hour), 4 * time.Hour},
		{steps.EraseDevice(), estimated(2 * time.Hour), 4 * time.Hour},
		{steps.Sanitize(), estimated(0), least},
		{steps.Sanitize(), estimated(450 * time.Second), least},
		{steps.Sanitize(), estimated(2 * time.Hour), 4 * time.Hour},
		{steps.ConsolidateNamespaces(), bySize(1 << 50), least},
		{steps.FirmwareReflash(), estimated(2 * time.Hour), least},
	} {
		require.Equal(t, tt.want, tt.step.Timeout(tt.subject), "%s of %+v", tt.step.Name, tt.subject)
	}
	require.False(t, steps.FirmwareReflash().Abortable)
	require.False(t, steps.PCIReset().Abortable)
}
