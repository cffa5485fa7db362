package oneview_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/mock"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	sdkclient "go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"burnish/internal/device"
	"burnish/internal/telemetry"
	"burnish/internal/testkit/figures"
	"burnish/workflows/contract"
	"burnish/workflows/oneview"
)

// rack is an appliance's workflow in the SDK's environment, with scripted pages.
type rack struct {
	*testsuite.TestWorkflowEnvironment
	t      *testing.T
	pages  []contract.PollPageInput // that were asked for
	rounds []time.Duration          // when each round began
	took   time.Duration            // of each page
}

var epoch = time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)

// script answers the n-th question for a page, from 1.
type script func(n int, in contract.PollPageInput) (contract.PollPageResult, error)

func newRack(t *testing.T, do script) *rack {
	t.Helper()
	return newRackWith(t, sdkclient.MetricsNopHandler, do)
}

func newRackWith(t *testing.T, metrics sdkclient.MetricsHandler, do script) *rack {
	t.Helper()
	var suite testsuite.WorkflowTestSuite
	suite.SetMetricsHandler(metrics)
	r := &rack{TestWorkflowEnvironment: suite.NewTestWorkflowEnvironment(), t: t}
	r.SetTestTimeout(time.Minute)
	r.SetWorkerOptions(worker.Options{DeadlockDetectionTimeout: time.Minute}) // a second is short beside other tests
	r.SetWorkflowRunTimeout(0)
	r.SetStartTime(epoch)
	r.RegisterWorkflowWithOptions(oneview.OneViewPoll, workflow.RegisterOptions{Name: contract.WorkflowOneView})
	r.RegisterActivityWithOptions(func(context.Context, contract.PollPageInput) (contract.PollPageResult, error) {
		return contract.PollPageResult{}, errors.New("not scripted")
	}, activity.RegisterOptions{Name: contract.ActivityPollPage})
	r.OnActivity(contract.ActivityPollPage, mock.Anything, mock.Anything).Return(
		func(ctx context.Context, in contract.PollPageInput) (contract.PollPageResult, error) {
			info := activity.GetInfo(ctx)
			if info.TaskQueue != contract.Queue {
				return contract.PollPageResult{}, fmt.Errorf("queue %s", info.TaskQueue)
			}
			r.pages = append(r.pages, in)
			if in.Start == 0 && info.Attempt == 1 {
				r.rounds = append(r.rounds, r.Now().Sub(epoch)-r.took)
			}
			return do(len(r.pages), in)
		}).AfterFn(func() time.Duration { return r.took })
	return r
}

// servers answers as an appliance with so many servers, two of them on a page, each page with
// one taken server.
func servers(total int) script {
	return func(_ int, in contract.PollPageInput) (contract.PollPageResult, error) {
		next := in.Start + 2
		if next >= total {
			next = 0
		}
		return contract.PollPageResult{Next: next, Total: total,
			Counts: contract.PollCounts{Servers: min(2, total-in.Start), Devices: 1, Taken: 1}}, nil
	}
}

// without is an appliance some of whose pages cannot be read.
func without(total int, broken ...int) script {
	answer := servers(total)
	return func(n int, in contract.PollPageInput) (contract.PollPageResult, error) {
		for _, start := range broken {
			if in.Start == start {
				return contract.PollPageResult{}, refuse(device.Transient, device.CodeApplianceUnreachable)
			}
		}
		return answer(n, in)
	}
}

func refuse(class device.Class, code device.Code) error {
	return contract.Refuse(contract.Refusal{Fault: device.Fault{Class: class, Code: code, Message: "scripted " +
		string(code), Remedy: "repair it"}})
}

func pointerTo(d time.Duration) *time.Duration { return &d }

func (r *rack) look(after time.Duration, in ...any) {
	r.RegisterDelayedCallback(func() {
		if len(in) == 0 { // as by Temporal's own command line
			r.SignalWorkflow(contract.SignalLookNow, nil)
			return
		}
		r.SignalWorkflow(contract.SignalLookNow, in[0])
	}, after)
}

func (r *rack) state() (s contract.OneViewState) {
	r.t.Helper()
	value, err := r.QueryWorkflow(contract.QueryOneView)
	require.NoError(r.t, err)
	require.NoError(r.t, value.Get(&s))
	return s
}

// summary is what the Web UI shows on top of the workflow.
func (r *rack) summary() string {
	r.t.Helper()
	value, err := r.QueryWorkflow("__temporal_workflow_metadata")
	require.NoError(r.t, err)
	var raw converter.RawValue
	require.NoError(r.t, value.Get(&raw))
	return string(raw.Payload().GetData())
}

// run runs the workflow until the moment, and gives its state then; a Cancel ends it.
func (r *rack) run(until time.Duration, in contract.OneViewInput) (s contract.OneViewState) {
	r.t.Helper()
	in.Appliance = "rack1"
	r.RegisterDelayedCallback(func() {
		s = r.state()
		r.CancelWorkflow()
	}, until)
	r.ExecuteWorkflow(contract.WorkflowOneView, in)
	require.True(r.t, r.IsWorkflowCompleted())
	require.ErrorContains(r.t, r.GetWorkflowError(), "canceled")
	return s
}

// starts are the first servers of the pages that were asked for.
func (r *rack) starts() (all []int) {
	for _, p := range r.pages {
		all = append(all, p.Start)
	}
	return all
}

// A round reads page after page, and the next one comes a whole interval after its end.
//
// S4.14
func TestARoundAfterEachInterval(t *testing.T) {
	r := newRack(t, servers(5))
	r.took = 10 * time.Second
	var before, during string
	r.RegisterDelayedCallback(func() { before = r.summary() }, time.Second)
	r.RegisterDelayedCallback(func() { during = r.summary() }, 15*time.Second)
	s := r.run(8*time.Minute, contract.OneViewInput{Interval: 3 * time.Minute})
	require.Equal(t, []time.Duration{0, 3*time.Minute + 30*time.Second, 7 * time.Minute}, r.rounds)
	require.Equal(t, []int{0, 2, 4, 0, 2, 4, 0, 2, 4}, r.starts())
	require.Equal(t, 0, r.pages[0].Count, "the appliance's own page size")
	require.Equal(t, 2, r.pages[1].Count)
	require.Equal(t, 3, s.Rounds)
	require.Equal(t, contract.PollCounts{Servers: 5, Devices: 3, Taken: 3}, s.Last)
	require.Equal(t, epoch.Add(7*time.Minute+30*time.Second), s.LastGood)
	require.Equal(t, epoch.Add(10*time.Minute+30*time.Second), s.Next)
	require.Nil(t, s.Round)
	require.Nil(t, s.Fault)
	require.Contains(t, before, "no good round yet")
	require.Contains(t, during, "a round runs since 2030-01-01T00:00:00Z: 2 of 5 servers")
	require.Contains(t, r.summary(), "5 servers, 3 devices, 3 taken")
	require.Contains(t, r.summary(), "last good round: 2030-01-01T00:07:30Z")
	require.Contains(t, r.summary(), "next round: 2030-01-01T00:10:30Z")
}

// An interval of 0 turns the polls off; look_now without an input asks for one round even then.
//
// S4.15
func TestIntervalZeroIsOff(t *testing.T) {
	r := newRack(t, servers(2))
	r.look(0, contract.LookRequest{Source: "worker start", Interval: pointerTo(0)})
	var off string
	r.RegisterDelayedCallback(func() { off = r.summary() }, time.Hour)
	r.look(2 * time.Hour)
	s := r.run(100*time.Hour, contract.OneViewInput{})
	require.Equal(t, []time.Duration{2 * time.Hour}, r.rounds)
	require.Contains(t, off, "polls are off")
	require.Zero(t, s.Next)
	require.Equal(t, 1, s.Rounds)
}

// Turning the polls off ends the round under way, and its page changes nothing of the state.
//
// S4.15
func TestTurningThePollsOffEndsTheRound(t *testing.T) {
	r := newRack(t, servers(50))
	r.took = 10 * time.Second
	r.look(15*time.Second, contract.LookRequest{Interval: pointerTo(0)})
	r.look(10*time.Hour, contract.LookRequest{Interval: pointerTo(time.Hour)})
	s := r.run(10*time.Hour+15*time.Second, contract.OneViewInput{Interval: time.Minute})
	require.Equal(t, []int{0, 2, 0}, r.starts())
	require.Zero(t, s.Rounds)
	require.NotNil(t, s.Round)
	require.Equal(t, time.Hour, s.Interval)
}

// A worker that starts while the polls are off says so again: that ends neither the round that an
// operator has asked for, nor a request for one.
func TestAWorkersStartEndsNoRoundThatWasAskedFor(t *testing.T) {
	r := newRack(t, servers(6))
	r.took = time.Minute
	start := contract.LookRequest{Source: "worker start", Interval: pointerTo(0)}
	r.look(time.Hour)
	r.look(time.Hour+90*time.Second, start)
	r.look(time.Hour + 100*time.Second)
	r.look(time.Hour+110*time.Second, start)
	s := r.run(10*time.Hour, contract.OneViewInput{})
	require.Equal(t, []int{0, 2, 4, 0, 2, 4}, r.starts())
	require.Equal(t, 2, s.Rounds)
	require.Zero(t, s.Interval)
}

// look_now is a round at once; one that comes during a round is another round, whatever their
// number. The interval can change.
func TestLookNow(t *testing.T) {
	r := newRack(t, servers(2))
	r.took = time.Minute
	r.look(10 * time.Minute)
	for range 5 {
		r.look(10*time.Minute + 30*time.Second)
	}
	r.look(20*time.Minute, contract.LookRequest{Interval: pointerTo(5 * time.Minute)})
	r.run(30*time.Minute, contract.OneViewInput{Interval: time.Hour})
	require.Equal(t, []time.Duration{0, 10 * time.Minute, 11 * time.Minute, 20 * time.Minute, 26 * time.Minute}, r.rounds)
}

// A page that is not read counts for nothing; the round goes on behind it, and is not good.
func TestAPageThatIsNotRead(t *testing.T) {
	broken := true
	r := newRack(t, func(n int, in contract.PollPageInput) (contract.PollPageResult, error) {
		if broken {
			return without(7, 2, 6)(n, in)
		}
		return servers(7)(n, in)
	})
	var first contract.OneViewState
	var shown string
	r.RegisterDelayedCallback(func() { first, shown, broken = r.state(), r.summary(), false }, time.Minute)
	s := r.run(15*time.Minute, contract.OneViewInput{Interval: 10 * time.Minute, TellAfter: time.Hour})
	require.Equal(t, []int{0, 2, 2, 2, 4, 6, 6, 6, 0, 2, 4, 6}, r.starts(), "a few tries, then the next page")
	require.Equal(t, 2, first.Unread)
	require.Equal(t, device.CodeApplianceUnreachable, first.Fault.Code)
	require.Zero(t, first.LastGood)
	require.Zero(t, first.Last)
	require.Equal(t, epoch, first.Failing)
	require.Contains(t, shown, "the last round was not complete: 2 pages were not read: appliance_unreachable")
	require.Equal(t, 2, s.Rounds)
	require.Nil(t, s.Fault)
	require.Zero(t, s.Unread)
	require.Zero(t, s.Failing)
	require.Equal(t, 4, s.Last.Taken)
}

// Without its first page a round ends with the fault. Where three pages in a row fail, the
// rest is not asked for. The next round comes at its time.
func TestARoundEndsWhereTheApplianceIsGone(t *testing.T) {
	for name, c := range map[string]struct {
		answer script
		starts []int
		unread int
	}{
		"the first page": {without(20, 0), []int{0, 0, 0}, 1},
		"three in a row": {without(20, 4, 6, 8, 10), []int{0, 2, 4, 4, 4, 6, 6, 6, 8, 8, 8}, 8},
		"a final fault": {func(int, contract.PollPageInput) (contract.PollPageResult, error) {
			return contract.PollPageResult{}, refuse(device.NeedsOperator, device.CodeApplianceRefused)
		}, []int{0}, 1},
		"two in a row": {without(12, 2, 4, 8, 10), []int{0, 2, 2, 2, 4, 4, 4, 6, 8, 8, 8, 10, 10, 10}, 4},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRack(t, c.answer)
			s := r.run(2*time.Minute, contract.OneViewInput{Interval: time.Hour})
			require.Equal(t, c.starts, r.starts())
			require.Equal(t, c.unread, s.Unread)
			require.Equal(t, 1, s.Rounds)
			require.NotNil(t, s.Fault)
			require.WithinRange(t, s.Next, epoch.Add(time.Hour), epoch.Add(time.Hour+time.Minute))
		})
	}
}

// Each round counts once, as complete or not.
func TestRoundsAreCounted(t *testing.T) {
	counted, err := telemetry.New("test", "control", slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	var options sdkclient.Options
	counted.Options(&options)
	r := newRackWith(t, options.MetricsHandler, func(n int, in contract.PollPageInput) (contract.PollPageResult, error) {
		if n == 1 {
			return contract.PollPageResult{}, refuse(device.Permanent, device.CodeApplianceUnreachable)
		}
		return servers(2)(n, in)
	})
	s := r.run(5*time.Minute, contract.OneViewInput{Interval: 2 * time.Minute})
	require.Equal(t, 3, s.Rounds)
	all, err := figures.Of(counted.Handler())
	require.NoError(t, err)
	require.Equal(t, figures.Figures{
		"burnish_oneview_rounds_total{appliance=rack1,result=incomplete}": 1,
		"burnish_oneview_rounds_total{appliance=rack1,result=complete}":   2,
	}, all.With("burnish_oneview"))
}
