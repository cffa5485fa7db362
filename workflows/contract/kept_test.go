package contract_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"burnish/internal/device"
	"burnish/workflows/contract"
)

// What a device keeps for its history is bounded, whatever texts clients and hosts send, and the
// latest of each kind is always there, without its longest texts.
func TestWhatIsKeptForHistoryIsBounded(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	text := func(n int) string { // of which nothing can be compressed away
		runes := make([]rune, n)
		for i := range runes {
			runes[i] = rune(0x4e00 + random.IntN(0x5000))
		}
		return string(runes)
	}
	var (
		acts     contract.ActLog
		cleans   contract.Archive
		bindings contract.Bindings
		updates  contract.RecentUpdates
		err      error
		last     time.Time
	)
	for n := 1; n <= 60; n++ {
		last = time.Unix(random.Int64N(1<<33), random.Int64N(1e9)).UTC()
		long := func() string { return text(400) }
		if n%10 == 0 {
			long = func() string { return strings.Repeat("\x00\"\u2028", 1000) }
		}
		acts = acts.With(contract.Act{At: last, Verb: "maintain", Detail: long(), By: long(), From: long(), Reason: long(),
			Request: fmt.Sprint(n)})
		s := contract.CleanSummary{Number: n, Reason: long(), By: long(), Outcome: "failed", Runbook: long(), StartedAt: last,
			EndedAt: last, Fault: device.CodeIO,
			Failure:  &contract.CleanFailure{Step: long(), Offset: random.Int64(), Size: random.Int64(), Attempt: 9, Message: long()},
			Override: &contract.Override{ID: long(), Reason: long(), RequestedBy: long(), RequestedAs: long(), ApprovedBy: long(), ApprovedAs: long()}}
		for range n {
			s.Steps = append(s.Steps, contract.StepResult{Step: long(), Method: long(), Note: long(), Bytes: random.Int64()})
		}
		cleans, err = cleans.With(s)
		require.NoError(t, err)
		moment := device.Moment{At: last, Verb: long(), By: long(), Reason: long()}
		bindings = bindings.With(device.Binding{Number: n, Instance: "i"}, moment).Over(n, moment)
		updates = updates.With(contract.RecentUpdate{ID: fmt.Sprint(n)})

		require.Len(t, acts, min(n, contract.KeptActs))
		act := acts[len(acts)-1]
		require.Equal(t, []any{last, fmt.Sprint(n)}, []any{act.At, act.Request})
		for _, kept := range []string{act.Detail, act.By, act.From, act.Reason} {
			require.LessOrEqual(t, len(kept), contract.KeptActText)
		}
		require.LessOrEqual(t, len(cleans), contract.KeptArchive)
		summaries, err := cleans.Cleans()
		require.NoError(t, err)
		require.Equal(t, n, summaries[len(summaries)-1].Number)
		require.NotEmpty(t, summaries[len(summaries)-1].Failure.Message)
		require.Len(t, bindings, min(n, contract.KeptBindings))
		b := bindings[len(bindings)-1]
		require.Equal(t, []any{n, last, last}, []any{b.Number, b.Began.At, b.Over.At})
		require.LessOrEqual(t, len(b.Began.Verb)+len(b.Began.By)+len(b.Over.Reason), 300)
		require.Len(t, updates, min(n, contract.KeptUpdates))
		_, found := updates.Find(fmt.Sprint(n - contract.KeptUpdates))
		require.False(t, found)
	}
}

// A decoded list has room for what it may keep, and no more.
func TestADecodedListTakesWhatItMayKeep(t *testing.T) {
	var acts contract.ActLog
	var bindings contract.Bindings
	var updates contract.RecentUpdates
	for _, list := range []any{&acts, &bindings, &updates} {
		require.NoError(t, json.Unmarshal([]byte(`[{},{},{}]`), list))
	}
	require.Equal(t, []int{contract.KeptActs, contract.KeptBindings, contract.KeptUpdates},
		[]int{cap(acts), cap(bindings), cap(updates)})
}
