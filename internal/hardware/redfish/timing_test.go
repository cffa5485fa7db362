package redfish

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// What is waited for is seen soon after it is there, compared with how long it took, and a BMC
// that works for hours is asked rarely.
func TestAPauseIsAShareOfTheTimeWaited(t *testing.T) {
	waiting := usualTiming.wait(time.Hour)
	defer waiting.stop()
	for waited, want := range map[time.Duration]time.Duration{
		0: 100 * time.Millisecond, 2 * time.Second: 100 * time.Millisecond, 20 * time.Second: time.Second,
		100 * time.Second: 5 * time.Second, 3 * time.Hour: 5 * time.Second,
	} {
		require.Equal(t, want, waiting.pause(waited), "after %v", waited)
	}
	looks := 0
	for waited := time.Duration(0); waited < 10*time.Minute; looks++ {
		waited += waiting.pause(waited)
	}
	require.Less(t, looks, 210)
}
