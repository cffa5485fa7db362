package guest

import (
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTheCounterIsMeasured(t *testing.T) {
	t.Parallel()
	if ticks() == 0 {
		t.Skip("there is no guest on this machine")
	}
	require.Regexp(t, regexp.MustCompile(`^ tsc_early_khz=[1-9][0-9]{5,6}$`), clockOption())
}
