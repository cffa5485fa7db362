package oneview_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/workflow"

	"burnish/internal/device"
	"burnish/workflows/contract"
)

// Where no round was good for long enough, the operator is needed, also between two rounds.
// The next good round, and turning the polls off, end that.
func TestNeedsTheOperator(t *testing.T) {
	for name, end := range map[string]func(r *rack, broken *bool){
		"a good round": func(_ *rack, broken *bool) { *broken = false },
		"off": func(r *rack, _ *bool) {
			r.SignalWorkflow(contract.SignalLookNow, contract.LookRequest{Interval: pointerTo(0)})
		},
	} {
		t.Run(name, func(t *testing.T) {
			broken := true
			r := newRack(t, func(n int, in contract.PollPageInput) (contract.PollPageResult, error) {
				if broken {
					return contract.PollPageResult{}, refuse(device.NeedsOperator, device.CodeApplianceRefused)
				}
				return servers(2)(n, in)
			})
			var early, late contract.OneViewState
			var shown string
			r.RegisterDelayedCallback(func() { early = r.state() }, 4*time.Minute+59*time.Second)
			r.RegisterDelayedCallback(func() {
				late, shown = r.state(), r.summary()
				end(r, &broken)
			}, 5*time.Minute+time.Second)
			s := r.run(2*time.Hour, contract.OneViewInput{Interval: time.Hour, TellAfter: 5 * time.Minute})
			require.False(t, early.NeedsOperator)
			require.True(t, late.NeedsOperator)
			require.Equal(t, device.CodeApplianceRefused, late.Published)
			require.Contains(t, shown, "needs the operator")
			require.Contains(t, shown, "repair it")
			require.False(t, s.NeedsOperator)
			require.Empty(t, s.Published)
		})
	}
}

// continued runs the workflow until it continues as new, and gives the next run's input.
func (r *rack) continued(in contract.OneViewInput) (next contract.OneViewInput) {
	r.t.Helper()
	in.Appliance = "rack1"
	r.ExecuteWorkflow(contract.WorkflowOneView, in)
	var again *workflow.ContinueAsNewError
	require.ErrorAs(r.t, r.GetWorkflowError(), &again)
	require.NoError(r.t, converter.GetDefaultDataConverter().FromPayloads(again.Input, &next))
	return next
}

// A round goes on in the next run where it was, and a signal that comes meanwhile is kept.
func TestContinueAsNewInARound(t *testing.T) {
	r := newRack(t, without(9, 2))
	r.took = time.Minute
	r.RegisterDelayedCallback(func() { r.SetCurrentHistoryLength(201) }, 4*time.Minute+30*time.Second)
	r.look(4*time.Minute + 40*time.Second)
	in := r.continued(contract.OneViewInput{Interval: time.Hour})
	require.Equal(t, []int{0, 2, 2, 2, 4}, r.starts())
	require.True(t, in.State.Requested)
	require.Equal(t, 6, in.State.Round.Start)
	require.Equal(t, 1, in.State.Round.Unread)

	next := newRack(t, servers(9))
	s := next.run(30*time.Minute, in)
	require.Equal(t, []int{6, 8, 0, 2, 4, 6, 8}, next.starts(), "the rest of the round, and one that was asked for")
	require.Equal(t, 2, s.Rounds)
	require.Equal(t, 5, s.Last.Taken)
}

// Between two rounds the timer keeps its time.
func TestContinueAsNewKeepsTheTimer(t *testing.T) {
	r := newRack(t, servers(2))
	r.RegisterDelayedCallback(func() {
		r.SetContinueAsNewSuggested(true)
		r.SignalWorkflow(contract.SignalLookNow, contract.LookRequest{TellAfter: time.Minute, Interval: pointerTo(time.Hour)})
	}, 20*time.Minute)
	in := r.continued(contract.OneViewInput{Interval: time.Hour})
	require.True(t, in.State.Requested)
	require.Equal(t, time.Minute, in.State.TellAfter)

	in.State.Requested = false
	next := newRack(t, servers(2))
	next.SetStartTime(epoch.Add(20 * time.Minute))
	next.run(time.Hour, in)
	require.Equal(t, []time.Duration{time.Hour}, next.rounds)
}
