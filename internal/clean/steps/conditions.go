package steps

import (
	"slices"
	"time"

	"burnish/internal/clean"
)

// This file holds the conditions and budgets that steps share.

// isNVMe says that the device is an NVMe controller that answers commands.
func isNVMe(s clean.Subject) bool { return s.NVMe }

// supportedByDriver says that the device's driver carries out the step itself.
func supportedByDriver(step string) func(clean.Subject) bool {
	return func(s clean.Subject) bool { return slices.Contains(s.SupportedSteps, step) }
}

// minBudget is the least running time that a step has (D5).
const minBudget = 900 * time.Second

func fixedBudget(clean.Subject) time.Duration { return minBudget }

// twiceTheEstimate is the budget of an erase that the device does itself: 900 s, or
// twice the device's own estimate where that is longer (D5).
func twiceTheEstimate(s clean.Subject) time.Duration { return max(minBudget, 2*s.Estimate) }

// bySize is the budget of a step that reads or writes the whole device: 900 s, or the
// time at 20 MB/s where that is longer (D5).
func bySize(s clean.Subject) time.Duration {
	const bytesPerSecond = 20_000_000
	return max(minBudget, time.Duration(s.Size/bytesPerSecond)*time.Second)
}
