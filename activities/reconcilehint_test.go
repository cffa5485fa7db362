package activities_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"burnish/internal/device"
	"burnish/workflows/contract"
)

// An available device gets a hint if its provider is not the one that it last had, even
// if it is free: an instance may have used the earlier one.
//
// D9
func TestAnotherProviderIsHinted(t *testing.T) {
	t.Parallel()
	for provider, hinted := range map[string]bool{"": false, "nova-h1_a": false, "the-one-before": true} {
		s := newReconcileFixture(t)
		s.adds("h1_a", device.Available, device.OwnerNova, false, device.Inventory{Total: 1})
		s.pages[0][0].Memo = statusMemo(t, contract.StatusMemo{Name: "h1_a", Owner: device.OwnerNova, Provider: provider})
		out := s.must(contract.ReconcileInput{})
		require.Equal(t, hinted, len(s.hints["h1_a"]) == 1, provider)
		require.Empty(t, out.Mismatches)
	}
}

// An allocated device gets a hint if another instance has it. For Burnish's own providers
// the consumers do not count.
func TestAnotherConsumerIsHinted(t *testing.T) {
	t.Parallel()
	for consumer, hinted := range map[string]bool{"i-h1_a": false, "another": true} {
		s := newReconcileFixture(t)
		burned := device.Inventory{Total: 1, Reserved: 1, Used: 1, Consumers: []string{consumer}}
		s.adds("h1_a", device.Allocated, device.OwnerNova, false, burned)
		s.adds("h1_b", device.Allocated, device.OwnerSelf, false, burned)
		out := s.must(contract.ReconcileInput{})
		require.Equal(t, hinted, len(s.hints["h1_a"]) == 1, consumer)
		require.Empty(t, s.hints["h1_b"])
		require.Empty(t, out.Mismatches)
	}
}

// A device of Nova's whose provider was written since the device was offered reads it; one
// whose provider is as it was offered gets no hint, however often it is compared.
//
// F28
func TestReconcileComparesTheGeneration(t *testing.T) {
	s := newReconcileFixture(t)
	for name, generation := range map[string]int64{"h1_same": 7, "h1_written": 9} {
		s.adds(name, device.Available, device.OwnerNova, false, device.Inventory{Generation: generation, Total: 1})
	}
	for i, e := range s.pages[0] {
		name := strings.TrimPrefix(e.GetExecution().GetWorkflowId(), "device/")
		e.Memo = statusMemo(t, contract.StatusMemo{Name: name, Owner: device.OwnerNova, Provider: s.foreign[i].UUID,
			Generation: 7})
	}
	for range 2 {
		require.Empty(t, s.must(contract.ReconcileInput{}).Mismatches)
	}
	require.Empty(t, s.hints["h1_same"])
	require.Len(t, s.hints["h1_written"], 2)
}
