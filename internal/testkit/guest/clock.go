package guest

import (
	"fmt"
	"sync"
	"time"
)

// clockOption gives a guest's kernel how fast its time stamp counter runs: in emulation that
// is this machine's. On a busy machine the kernel measures it wrong by itself, and its clock
// then ran up to seven times too fast: every time-out of a worker ended early.
var clockOption = sync.OnceValue(func() string {
	began, first := sampleTicks()
	<-time.After(100 * time.Millisecond)
	ended, last := sampleTicks()
	perMillisecond := float64(last-first) / float64(ended.Sub(began)) * float64(time.Millisecond)
	if perMillisecond < 1 {
		return ""
	}
	return fmt.Sprintf(" tsc_early_khz=%.0f", perMillisecond)
})

// sampleTicks reads clock and counter at the same moment: of several readings, the one that
// was interrupted least.
func sampleTicks() (at time.Time, count uint64) {
	shortest := ^uint64(0)
	for range 50 {
		before := ticks()
		now := time.Now()
		if took := ticks() - before; took < shortest {
			shortest, at, count = took, now, before+took/2
		}
	}
	return at, count
}
