package device

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestObservationOfAKnownCase(t *testing.T) {
	d, err := read("allocated dirty nova cleanable observed:own")
	require.NoError(t, err)
	s := Ask(AskRecheck, d, Known{Generation: 7, Provider: "p"})
	o, why := Observe(d, s.Answered(Inventory{Generation: 9, Total: 1, Reserved: 1, Provider: "p"}))
	require.Equal(t, Observation{Event: Released}, o)
	require.NotEmpty(t, why)
	o, _ = Observe(d, s.Answered(Inventory{Generation: 9, Total: 1, Used: 1, Consumers: []string{other}, Provider: "p"}))
	require.Equal(t, Observation{Event: ObservedInUse, Instance: other, Then: []FollowUp{EnsureReserved}}, o)
	o, _ = Observe(d, s.Failed(CodeInventoryUnavailable))
	require.Equal(t, Observation{Then: []FollowUp{RetryLater}}, o)
}
