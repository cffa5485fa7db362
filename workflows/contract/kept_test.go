package contract_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"burnish/internal/device"
	"burnish/workflows/contract"
)

// keptForHistory bounds the bytes of a device's state that are for its history alone.
const keptForHistory = 4096

// What a device keeps for its history alone takes 4 KiB at most, whatever texts clients and
// hosts send, and the latest of each kind is always there.
func TestWhatIsKeptForHistoryIsBounded(t *testing.T) {
	require.LessOrEqual(t, contract.KeptActLog+contract.KeptArchive+contract.KeptBindingLog, keptForHistory)
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
		bindings contract.BindingLog
		err      error
		last     time.Time
	)
	for n := 1; n <= 40; n++ {
		last = time.Unix(random.Int64N(1<<33), random.Int64N(1e9)).UTC()
		long := func() string { return text(400) }
		if n%10 == 0 {
			long = func() string { return strings.Repeat("\x00\"\u2028", 1000) }
		}
		act := contract.Act{At: last, Verb: "maintain", Detail: long(), By: long(), From: long(), Reason: long(), Request: text(300), Fault: device.CodeRefused}
		acts, err = acts.With(act)
		require.NoError(t, err)
		s := contract.CleanSummary{Number: n, Reason: long(), By: long(), Outcome: "failed", Runbook: long(), StartedAt: last, EndedAt: last, Fault: device.CodeIO,
			Failure:  &contract.CleanFailure{Step: long(), Offset: random.Int64(), Size: random.Int64(), Attempt: 9, Message: long()},
			Override: &contract.Override{ID: long(), Reason: long(), RequestedBy: long(), RequestedAs: long(), ApprovedBy: long(), ApprovedAs: long()}}
		for range n {
			s.Steps = append(s.Steps, contract.StepResult{Step: long(), Method: long(), Note: long(), Bytes: random.Int64()})
		}
		cleans, err = cleans.With(s)
		require.NoError(t, err)
		moment := device.Moment{At: last, Verb: long(), By: long(), Reason: long()}
		bindings, err = bindings.Began(n, moment)
		require.NoError(t, err)
		bindings, err = bindings.Over(n, moment)
		require.NoError(t, err)
		require.LessOrEqual(t, len(acts)+len(cleans)+len(bindings), keptForHistory, "%d + %d + %d", len(acts), len(cleans), len(bindings))
		kept, err := acts.Acts()
		require.NoError(t, err)
		require.Equal(t, last, kept[len(kept)-1].At)
		require.Equal(t, act.Request, kept[len(kept)-1].Request, "by which it is found again")
		summaries, err := cleans.Cleans()
		require.NoError(t, err)
		require.Equal(t, n, summaries[len(summaries)-1].Number)
		require.NotEmpty(t, summaries[len(summaries)-1].Failure.Message)
		filled, err := bindings.Of([]device.Binding{{Number: n}})
		require.NoError(t, err)
		require.Equal(t, last, filled[0].Began.At)
		require.Equal(t, last, filled[0].Over.At)
	}
}

// Of usual turnovers ten are kept with all that happened, and of their cleans and bindings as
// many as the bounds name.
func TestUsualHistoriesAreKept(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	var acts contract.ActLog
	var cleans contract.Archive
	var bindings contract.BindingLog
	at := time.Date(2026, 11, 3, 4, 5, 6, 0, time.UTC)
	pass := func() time.Time {
		at = at.Add(time.Duration(random.Int64N(int64(48 * time.Hour))))
		return at
	}
	for n := 1; n <= 40; n++ {
		instance := uuid.Must(uuid.NewRandomFromReader(randomBytes{random})).String()
		act := func(verb string) device.Moment {
			var err error
			m := device.Moment{At: pass().Truncate(time.Millisecond), Verb: verb, By: fmt.Sprintf("operator%d@control1", n%4)}
			request := verb + "-" + uuid.Must(uuid.NewRandomFromReader(randomBytes{random})).String()
			acts, err = acts.With(contract.Act{At: m.At, Verb: verb, Detail: instance, By: m.By, Request: request})
			require.NoError(t, err)
			return m
		}
		var err error
		bindings, err = bindings.Began(n, act("bind"))
		require.NoError(t, err)
		bindings, err = bindings.Over(n, act("unbind"))
		require.NoError(t, err)
		run := func() time.Duration { return time.Duration(random.Int64N(int64(4 * time.Hour))) }
		cleans, err = cleans.With(contract.CleanSummary{
			Number: n, By: contract.ByBurnish, Outcome: "cleaned", Operation: "shred", RunTime: run(), StartedAt: pass(), EndedAt: pass(), Steps: []contract.StepResult{
				{Step: "zero", Bytes: 3840755982336, Method: "o_direct", RunTime: run()},
				{Step: "verify", Bytes: 3840755982336, Method: "o_direct", Note: "full", RunTime: run()},
			},
		})
		require.NoError(t, err)
	}
	kept, err := acts.Acts()
	require.NoError(t, err)
	summaries, err := cleans.Cleans()
	require.NoError(t, err)
	var all []device.Binding
	for n := 1; n <= 40; n++ {
		all = append(all, device.Binding{Number: n})
	}
	all, err = bindings.Of(all)
	require.NoError(t, err)
	known := 0
	for _, b := range all {
		if b.Began != nil && b.Over != nil {
			known++
		}
	}
	t.Logf("acts %d in %d bytes, cleans %d in %d, bindings %d in %d", len(kept), len(acts), len(summaries), len(cleans), known, len(bindings))
	require.Len(t, kept, contract.KeptActs)
	require.Len(t, summaries, contract.KeptCleans)
	require.Equal(t, contract.KeptBindings, known)
}

// randomBytes reads from a generator of numbers.
type randomBytes struct{ of *rand.Rand }

func (r randomBytes) Read(into []byte) (int, error) {
	for i := range into {
		into[i] = byte(r.of.Uint32())
	}
	return len(into), nil
}
