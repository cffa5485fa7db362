package steps_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	planning "burnish/internal/clean"
	"burnish/internal/clean/steps"
	"burnish/internal/device"
)

var operations = []device.Operation{"", device.CryptoErase, device.BlockErase, device.WriteZeroes, device.Shred, device.Script}

func TestEveryStepIsWhole(t *testing.T) {
	seen := map[string]bool{}
	for _, s := range steps.All() {
		t.Run(s.Name, func(t *testing.T) {
			require.Regexp(t, "^[a-z][a-z_]*$", s.Name)
			require.False(t, seen[s.Name], "twice")
			seen[s.Name] = true
			require.Contains(t, []planning.Phase{planning.Prepare, planning.Erase, planning.Verify, planning.Restore}, s.Phase)
			require.Contains(t, []string{"vendor", "power", "management", "firmware", "deploy", "bios", "raid"}, s.Interface, "D6 knows it")
			require.GreaterOrEqual(t, s.Priority, 0.0)
			require.Positive(t, s.Version)
			require.NotNil(t, s.Run)
			require.NotNil(t, s.Applies)
			require.NotNil(t, s.Timeout)
			if s.Phase == planning.Erase || s.Phase == planning.Verify {
				require.Positive(t, s.Priority, "an erase and its verify are never off")
			}
			require.False(t, s.Phase == planning.Verify && s.Writes, "a verify never writes")
			require.True(t, s.Phase != planning.Erase || s.Writes)
		})
	}
}

func TestTheStepsMakeAPlanner(t *testing.T) {
	catalog := planning.Catalog()
	require.Len(t, catalog, len(steps.All()))
	p, err := planning.NewPlanner(catalog, planning.Policy{})
	require.NoError(t, err, "S3.13: no ties by default")
	known := map[string]int{}
	for _, s := range catalog {
		known[s.Name] = s.Version
	}
	for _, operation := range operations {
		t.Run(string(operation), func(t *testing.T) {
			subject := planning.Subject{Name: "d", Operation: operation, Size: 1 << 30, HostSteps: known}
			plan, fault := p.Full(subject)
			if fault != nil {
				require.Equal(t, device.CodeNoErasePath, fault.Code)
				require.Empty(t, operation, "every operation has its plan")
				return
			}
			writes := slices.IndexFunc(plan, func(p planning.Planned) bool { return p.Step.Phase == planning.Erase })
			reads := slices.IndexFunc(plan, func(p planning.Planned) bool { return p.Step.Phase == planning.Verify })
			require.GreaterOrEqual(t, writes, 0)
			require.Greater(t, reads, writes)
		})
	}
}

// TestZeroIsForWhatIsOverwritten: no device is zeroed that is erased in another
// way, none sanitized that is overwritten, and each erase has its verify.
//
// S2.22, S2.58
func TestZeroIsForWhatIsOverwritten(t *testing.T) {
	for _, operation := range operations {
		want := operation == device.WriteZeroes || operation == device.Shred
		subject := planning.Subject{Operation: operation}
		require.Equal(t, want, steps.Zero().Applies(subject), "zero for %q", operation)
		require.Equal(t, operation.Sanitizes(), steps.Sanitize().Applies(subject), "sanitize for %q", operation)
		require.Equal(t, operation == device.Script, steps.EraseDevice().Applies(subject), "erase_device for %q", operation)
		require.Equal(t, operation != "", steps.Verify().Applies(subject), "verify for %q", operation)
	}
}

// TestARunnableStepIsAsDescribed: a worker knows of a step what the catalog says, and
// has no use for it that the catalog does not know.
func TestARunnableStepIsAsDescribed(t *testing.T) {
	runs := map[string]bool{}
	for _, s := range steps.All() {
		runs[s.Name] = true
		described := planning.Describe(s.Name)
		require.Equal(t, described.Interface, s.Interface)
		require.Equal(t, described.Phase, s.Phase)
		require.Equal(t, described.Priority, s.Priority)
		require.Equal(t, described.Version, s.Version)
		require.Equal(t, described.Abortable, s.Abortable)
		for _, operation := range operations {
			subject := planning.Subject{Operation: operation}
			require.True(t, !s.Applies(subject) || described.Applies(subject), "%s for %q", s.Name, operation)
		}
	}
	var cannot []string
	for _, s := range planning.Catalog() {
		if !runs[s.Name] {
			cannot = append(cannot, s.Name)
		}
	}
	require.Empty(t, cannot, "steps that can be planned, and not be run")
}

// D5
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
				require.Equal(t, tt.want, s.Timeout(planning.Subject{Size: tt.size}), s.Name)
			}
		})
	}
}
