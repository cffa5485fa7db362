package contract_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"burnish/internal/device"
	"burnish/workflows/contract"
)

// keptLogs are what a device keeps for its history alone.
type keptLogs struct {
	acts     contract.ActLog
	bindings contract.BindingLog
	cleans   contract.Archive
}

// turnover is what one turnover adds to them: two acts, a binding that begins and ends, a clean.
func (l *keptLogs) turnover(t testing.TB, n int) {
	at := time.Unix(1800000000+int64(n)*1000, 1e6).UTC()
	instance := uuid.NewSHA1(uuid.Nil, fmt.Append(nil, n)).String()
	var err error
	for _, verb := range []string{"bind", "unbind"} {
		l.acts, err = l.acts.With(contract.Act{At: at, Verb: verb, Detail: instance, By: "ann@control1", Request: verb + instance})
		require.NoError(t, err)
	}
	moment := device.Moment{At: at, Verb: "bind", By: "ann@control1"}
	l.bindings, err = l.bindings.Began(n, moment)
	require.NoError(t, err)
	l.bindings, err = l.bindings.Over(n, moment)
	require.NoError(t, err)
	l.cleans, err = l.cleans.With(summary(n))
	require.NoError(t, err)
}

func fullLogs(t testing.TB) (l keptLogs) {
	for n := range 2 * contract.KeptBindings {
		l.turnover(t, n)
	}
	return l
}

// What a turnover adds to full logs leaves the entries before as they are: encoding them all
// again took 1,053 allocations.
func TestATurnoverAddsToFullLogsCheaply(t *testing.T) {
	full, n := fullLogs(t), 2*contract.KeptBindings
	allocations := testing.AllocsPerRun(50, func() {
		l := full
		l.turnover(t, n)
	})
	t.Logf("%g allocations", allocations)
	require.LessOrEqual(t, allocations, 550.0)
}

func BenchmarkATurnoverAddsToFullLogs(b *testing.B) {
	full, n := fullLogs(b), 2*contract.KeptBindings
	b.ReportAllocs()
	for b.Loop() {
		l := full
		l.turnover(b, n)
	}
}

// An entry is kept to the byte, whatever its texts contain.
func TestLogsKeepWhatTheirEntriesSay(t *testing.T) {
	texts := []string{`a "quoted" word`, `ends with \`, `\"`, `[{"n":1},{"n":2}]`, `},{`, `"],["`, "ünï", "<&>"}
	var acts contract.ActLog
	var cleans contract.Archive
	var want []string
	for i, text := range texts {
		var err error
		acts, err = acts.With(contract.Act{Verb: "bind", Reason: text, By: text})
		require.NoError(t, err)
		s := summary(i)
		s.Reason = text
		cleans, err = cleans.With(s)
		require.NoError(t, err)
		want = append(want, text)
		all, err := acts.Acts()
		require.NoError(t, err)
		summaries, err := cleans.Cleans()
		require.NoError(t, err)
		require.Len(t, summaries, len(want))
		var reasons, ofCleans []string
		for j, a := range all {
			require.Equal(t, a.Reason, a.By)
			reasons, ofCleans = append(reasons, a.Reason), append(ofCleans, summaries[j].Reason)
		}
		require.Equal(t, want, reasons)
		require.Equal(t, want, ofCleans)
	}
}

// A binding's number is not that of another one which begins with it.
func TestMomentsAreThoseOfTheirBinding(t *testing.T) {
	at := device.Moment{At: time.Date(2026, 11, 3, 4, 5, 6, 0, time.UTC), Verb: "bind"}
	later := at
	later.At = at.At.Add(time.Hour)
	log, err := contract.BindingLog(nil).Began(12, at)
	require.NoError(t, err)
	log, err = log.Over(1, at)
	require.NoError(t, err)
	log, err = log.Over(12, later)
	require.NoError(t, err)
	log, err = log.Began(123, at)
	require.NoError(t, err)
	all, err := log.Of([]device.Binding{{Number: 1}, {Number: 12}, {Number: 123}})
	require.NoError(t, err)
	require.Equal(t, []device.Binding{{Number: 1, Over: &at}, {Number: 12, Began: &at, Over: &later}, {Number: 123, Began: &at}}, all)
}
