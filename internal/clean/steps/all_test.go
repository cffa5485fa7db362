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
		{"bios_apply", "bios", clean.Restore, 35},
		{"verify_properties", "management", clean.Restore, 30},
		{"pci_reset", "power", clean.Restore, 0},
	}
	var got []row
	for _, s := range steps.All() {
		got = append(got, row{s.Name, s.Interface, s.Phase, s.Priority})
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

	// The whole catalog makes a plan: no two of one phase and interface have one priority.
	var all []clean.Step
	for _, s := range want {
		all = append(all, clean.Step{Name: s.name, Interface: s.iface, Phase: s.phase, Priority: s.priority, Version: 1,
			Applies: func(clean.Subject) bool { return true }, Timeout: func(clean.Subject) time.Duration {
				return time.Minute
			}})
	}
	_, err = clean.NewPlanner(all, clean.Policy{})
	require.NoError(t, err)
	require.Len(t, all, 14)
}

func TestEveryStepIsComplete(t *testing.T) {
	seen := map[string]bool{}
	for _, s := range steps.All() {
		t.Run(s.Name, func(t *testing.T) {
			require.Regexp(t, "^[a-z][a-z_]*$", s.Name)
			require.False(t, seen[s.Name], "twice")
			seen[s.Name] = true
			require.Contains(t, []clean.Phase{clean.Prepare, clean.Erase, clean.Verify, clean.Restore}, s.Phase)
			require.Contains(t, []string{"vendor", "power", "management", "firmware", "deploy", "bios", "raid"}, s.Interface,
				"D6 has no order for this interface")
			require.GreaterOrEqual(t, s.Priority, 0.0)
			require.Positive(t, s.Version)
			require.NotNil(t, s.Run)
			require.NotNil(t, s.Applies)
			require.NotNil(t, s.Timeout)
			if s.Phase == clean.Erase || s.Phase == clean.Verify {
				require.Positive(t, s.Priority, "an erase and its verify cannot be switched off")
			}
			require.False(t, s.Phase == clean.Verify && s.Writes, "a verify never writes")
			require.True(t, s.Phase != clean.Erase || s.Writes)
		})
	}
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
func TestZeroAndVerifyHaveTimeBySize(t *testing.T) {
	for name, tt := range map[string]struct {
		size int64
		want time.Duration
	}{
		"nothing":   {0, 900 * time.Second},
		"small":     {1 << 30, 900 * time.Second},
		"just less": {18_000_000_000, 900 * time.Second},
		"4 TB":      {4_000_000_000_000, 200_000 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			for _, s := range []steps.Step{steps.Zero(), steps.Verify()} {
				require.Equal(t, tt.want, s.Timeout(clean.Subject{Size: tt.size}), s.Name)
			}
		})
	}
}

// D5
func TestASanitizeHasTwiceItsEstimate(t *testing.T) {
	for estimate, want := range map[time.Duration]time.Duration{
		0: 900 * time.Second, time.Minute: 900 * time.Second, 450 * time.Second: 900 * time.Second,
		2 * time.Hour: 4 * time.Hour,
	} {
		require.Equal(t, want, steps.Sanitize().Timeout(clean.Subject{Estimate: estimate, Size: 1 << 50}))
	}
	require.Equal(t, 900*time.Second, steps.ConsolidateNamespaces().Timeout(clean.Subject{Size: 1 << 50}))
}

// D5
func TestAProgramHasTwiceItsEstimate(t *testing.T) {
	subject := clean.Subject{Operation: device.Script, Estimate: 2 * time.Hour}
	for _, step := range []steps.Step{steps.EraseDevice(), steps.Verify()} {
		require.Equal(t, 4*time.Hour, step.Timeout(subject), step.Name)
	}
	require.Equal(t, 900*time.Second, steps.FirmwareReflash().Timeout(subject))
	require.False(t, steps.FirmwareReflash().Abortable)
	require.False(t, steps.PCIReset().Abortable)
}
