package contract_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"burnish/workflows/contract"
)

func summary(n int) contract.CleanSummary {
	at := time.Date(2026, 11, 3, 4, 5, 6, n*1000, time.UTC)
	return contract.CleanSummary{
		Number: n, Reason: "unbound", Outcome: "cleaned", Operation: "shred", RunTime: time.Duration(n) * time.Second,
		Steps: []contract.StepResult{
			{Step: "zero", Bytes: 1 << 40, Method: "o_direct", RunTime: time.Hour},
			{Step: "verify", Bytes: 1 << 40, Method: "o_direct", Note: "full", RunTime: time.Hour},
		},
		StartedAt: at, EndedAt: at.Add(time.Minute),
	}
}

func TestArchiveKeepsTheLastTwentyInOrder(t *testing.T) {
	var a contract.Archive
	for n := 1; n <= 33; n++ {
		var err error
		a, err = a.With(summary(n))
		require.NoError(t, err)
		all, err := a.Cleans()
		require.NoError(t, err)
		require.Len(t, all, min(n, contract.KeptCleans))
		require.Equal(t, summary(n), all[len(all)-1])
	}
	all, err := a.Cleans()
	require.NoError(t, err)
	require.Equal(t, 14, all[0].Number)
	text, err := json.Marshal(all)
	require.NoError(t, err)
	require.Less(t, len(a), len(text)/4, "repeated content compresses well")
}

func TestArchiveThatIsBroken(t *testing.T) {
	whole, err := contract.Archive(nil).With(summary(1))
	require.NoError(t, err)
	for name, a := range map[string]contract.Archive{"cut off": whole[:len(whole)/2], "garbage": []byte("garbage")} {
		_, err := a.Cleans()
		require.Error(t, err, name)
		same, err := a.With(summary(2))
		require.Error(t, err, name)
		require.Equal(t, a, same, "nothing is lost")
	}
}
