package workflows_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/mock"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/workflow"

	"burnish/internal/device"
	"burnish/workflows"
	"burnish/workflows/contract"
)

// lookout is a host's workflow in the SDK's environment, with a survey as scripted.
type lookout struct {
	*testsuite.TestWorkflowEnvironment
	t      *testing.T
	inputs []contract.SurveyInput
}

func newLookout(t *testing.T, survey func(n int, in contract.SurveyInput) (contract.Surveyed, error)) *lookout {
	t.Helper()
	var suite testsuite.WorkflowTestSuite
	l := &lookout{TestWorkflowEnvironment: suite.NewTestWorkflowEnvironment(), t: t}
	l.RegisterWorkflowWithOptions(workflows.Host, workflow.RegisterOptions{Name: contract.WorkflowHost})
	l.RegisterActivityWithOptions(func(context.Context, contract.SurveyInput) (contract.Surveyed, error) {
		return contract.Surveyed{}, errors.New("not scripted")
	}, activity.RegisterOptions{Name: contract.ActivitySurvey})
	l.OnActivity(contract.ActivitySurvey, mock.Anything, mock.Anything).Return(
		func(ctx context.Context, in contract.SurveyInput) (contract.Surveyed, error) {
			l.inputs = append(l.inputs, in)
			if queue := activity.GetInfo(ctx).TaskQueue; queue != contract.HostQueue("h1") {
				return contract.Surveyed{}, fmt.Errorf("queue %s", queue)
			}
			return survey(len(l.inputs), in)
		})
	return l
}

// at does something at a moment of the environment's own time.
func (l *lookout) at(after time.Duration, do func()) { l.RegisterDelayedCallback(do, after) }

func (l *lookout) lookNow(after time.Duration, look contract.LookNow) {
	l.at(after, func() { l.SignalWorkflow(contract.SignalLookNow, look) })
}

func (l *lookout) state() contract.HostState {
	l.t.Helper()
	value, err := l.QueryWorkflow(contract.QueryHost)
	require.NoError(l.t, err)
	var s contract.HostState
	require.NoError(l.t, value.Get(&s))
	return s
}

// run runs the workflow until the moment; its state then is what is returned.
func (l *lookout) run(until time.Duration, in contract.HostInput) contract.HostState {
	l.t.Helper()
	var s contract.HostState
	l.at(until, func() {
		s = l.state()
		l.CancelWorkflow()
	})
	l.ExecuteWorkflow(contract.WorkflowHost, in)
	require.True(l.t, l.IsWorkflowCompleted())
	return s
}

func found(told map[string]string) contract.Surveyed {
	return contract.Surveyed{Told: told, Counts: contract.SurveyCounts{Found: len(told), Enrolled: len(told)}}
}

// Each look_now is one survey on the host's own queue, and what it told is
// handed to the next.
//
// S2.6
func TestLookNowIsOneSurvey(t *testing.T) {
	l := newLookout(t, func(n int, _ contract.SurveyInput) (contract.Surveyed, error) {
		if n == 1 {
			return found(map[string]string{"h1_0000:01:00.0": "a", "h1_0000:02:00.0": "b"}), nil
		}
		return contract.Surveyed{
			Told: map[string]string{"h1_0000:02:00.0": "c"}, Gone: []string{"h1_0000:01:00.0"},
			Refused: []contract.RefusedDevice{{Name: "h1_0000:03:00.0", Driver: "nvme", Digest: "d", Code: device.CodeFilesystemSignature, Reason: "it holds ext4"}},
			Missing: []string{"h1_0000:01:00.0"}, Counts: contract.SurveyCounts{Found: 2, Hinted: 2, Refused: 1, Missing: 1},
		}, nil
	})
	l.lookNow(time.Minute, contract.LookNow{Started: true})
	l.lookNow(time.Hour, contract.LookNow{})
	l.lookNow(2*time.Hour, contract.LookNow{})
	s := l.run(100*time.Hour, contract.HostInput{Host: "h1"})
	require.Len(t, l.inputs, 3, "and no timer of its own")
	require.Equal(t, contract.SurveyInput{Host: "h1", Again: true}, l.inputs[0])
	require.Equal(t, contract.SurveyInput{Host: "h1", Told: map[string]string{"h1_0000:01:00.0": "a", "h1_0000:02:00.0": "b"}}, l.inputs[1])
	require.Equal(t, map[string]string{"h1_0000:02:00.0": "c"}, l.inputs[2].Told)
	require.Equal(t, []string{"h1_0000:01:00.0"}, l.inputs[2].Missing)
	require.Equal(t, s.Refused, l.inputs[2].Refused)
	require.Equal(t, 3, s.Surveys)
	require.Equal(t, 2, s.Enrolled)
	require.Equal(t, contract.SurveyCounts{Found: 2, Hinted: 2, Refused: 1, Missing: 1}, s.Last)
	require.False(t, s.Due)
	require.Nil(t, s.Fault)
	require.False(t, s.LookedAt.IsZero())
}

// What an operator reads in the Web UI names what needs them.
//
// S2.6
func TestTheHostIsShown(t *testing.T) {
	l := newLookout(t, func(int, contract.SurveyInput) (contract.Surveyed, error) {
		return contract.Surveyed{
			Refused: []contract.RefusedDevice{{Name: "h1_0000:03:00.0", Code: device.CodeFilesystemSignature, Reason: "it holds ext4"}},
			Missing: []string{"h1_0000:01:00.0"}, Counts: contract.SurveyCounts{Found: 7},
		}, nil
	})
	var shown string
	l.lookNow(time.Minute, contract.LookNow{})
	l.at(2*time.Minute, func() {
		value, err := l.QueryWorkflow("__temporal_workflow_metadata")
		require.NoError(t, err)
		var raw converter.RawValue
		require.NoError(t, value.Get(&raw))
		shown = string(raw.Payload().GetData())
	})
	l.run(time.Hour, contract.HostInput{Host: "h1"})
	for _, want := range []string{"7 devices found", "1 refused", "1 missing", "refused h1_0000:03:00.0: filesystem_signature: it holds ext4", "missing: h1_0000:01:00.0"} {
		require.Contains(t, shown, want)
	}
}

// A survey that fails for a while is tried again by the activity's policy; the
// workflow is told of the outcome alone.
//
// S2.6
func TestASurveyThatFailsForAWhile(t *testing.T) {
	l := newLookout(t, func(n int, _ contract.SurveyInput) (contract.Surveyed, error) {
		if n < 5 {
			return contract.Surveyed{}, refuse(device.Transient, device.CodeInventoryUnavailable)
		}
		return found(map[string]string{"h1_0000:01:00.0": "a"}), nil
	})
	l.lookNow(time.Minute, contract.LookNow{Started: true})
	s := l.run(100*time.Hour, contract.HostInput{Host: "h1"})
	require.Len(t, l.inputs, 5)
	require.Equal(t, l.inputs[0], l.inputs[4])
	require.Equal(t, 1, s.Surveys)
	require.Nil(t, s.Fault)
}

// One that fails for good is shown, changes nothing, and the next look_now
// looks again, also at what was refused before.
//
// S2.30
func TestASurveyThatFailsForGood(t *testing.T) {
	told := map[string]string{"h1_0000:01:00.0": "a"}
	l := newLookout(t, func(n int, _ contract.SurveyInput) (contract.Surveyed, error) {
		if n == 1 {
			return contract.Surveyed{}, refuse(device.NeedsOperator, device.CodeInvalidConfig)
		}
		return contract.Surveyed{}, nil
	})
	var between contract.HostState
	l.lookNow(time.Minute, contract.LookNow{Started: true})
	l.at(time.Hour, func() { between = l.state() })
	l.lookNow(2*time.Hour, contract.LookNow{})
	s := l.run(100*time.Hour, contract.HostInput{Host: "h1", State: &contract.HostState{Schema: 1, Host: "h1", Told: told, Surveys: 3}})
	require.Equal(t, device.CodeInvalidConfig, between.Fault.Code)
	require.Equal(t, told, between.Told)
	require.Equal(t, 3, between.Surveys)
	require.Len(t, l.inputs, 2)
	require.True(t, l.inputs[1].Again)
	require.Nil(t, s.Fault)
	require.Equal(t, 4, s.Surveys)
}

// A worker without the survey is not asked for ever.
//
// S2.6
func TestAHostWorkerThatIsTooOld(t *testing.T) {
	var suite testsuite.WorkflowTestSuite
	l := &lookout{TestWorkflowEnvironment: suite.NewTestWorkflowEnvironment(), t: t}
	l.RegisterWorkflowWithOptions(workflows.Host, workflow.RegisterOptions{Name: contract.WorkflowHost})
	l.RegisterActivityWithOptions(func(context.Context, contract.SurveyInput) (contract.Surveyed, error) {
		return contract.Surveyed{}, nil
	}, activity.RegisterOptions{Name: contract.ActivitySurvey})
	asked := 0
	l.OnActivity(contract.ActivitySurvey, mock.Anything, mock.Anything).Return(
		func(context.Context, contract.SurveyInput) (contract.Surveyed, error) {
			asked++
			return contract.Surveyed{}, temporal.NewApplicationError("unable to find activityType=Survey", "ActivityNotRegisteredError")
		})
	l.lookNow(time.Minute, contract.LookNow{})
	s := l.run(100*time.Hour, contract.HostInput{Host: "h1"})
	require.Equal(t, 1, asked)
	require.Equal(t, device.CodeHostWorkerTooOld, s.Fault.Code)
}

// Signals that come while a survey runs are one more survey, and none is lost, with
// what the last of them says.
//
// S2.6
func TestNoLookIsLost(t *testing.T) {
	l := newLookout(t, func(n int, in contract.SurveyInput) (contract.Surveyed, error) { return contract.Surveyed{}, nil })
	l.SetOnActivityStartedListener(func(*activity.Info, context.Context, converter.EncodedValues) {
		if len(l.inputs) == 0 {
			l.SignalWorkflow(contract.SignalLookNow, contract.LookNow{Started: true})
			l.SignalWorkflow(contract.SignalLookNow, contract.LookNow{})
		}
	})
	l.lookNow(time.Minute, contract.LookNow{})
	l.run(time.Hour, contract.HostInput{Host: "h1"})
	require.Len(t, l.inputs, 2)
	require.False(t, l.inputs[0].Again)
	require.True(t, l.inputs[1].Again)
}

// A signal that cannot be read changes nothing, and the next one is heard.
//
// S2.6
func TestACorruptSignal(t *testing.T) {
	l := newLookout(t, func(int, contract.SurveyInput) (contract.Surveyed, error) { return contract.Surveyed{}, nil })
	l.at(time.Minute, func() { l.SignalWorkflow(contract.SignalLookNow, "now") })
	l.lookNow(time.Hour, contract.LookNow{})
	s := l.run(2*time.Hour, contract.HostInput{Host: "h1"})
	require.Equal(t, 1, s.Surveys)
}

// A long history continues as new with everything it knew; a signal that came in the
// same moment is not left behind.
//
// S2.6
func TestContinueAsNewKeepsAll(t *testing.T) {
	l := newLookout(t, func(n int, _ contract.SurveyInput) (contract.Surveyed, error) {
		return contract.Surveyed{
			Told: map[string]string{fmt.Sprint("d", n): "x"}, Missing: []string{"gone"},
			Refused: []contract.RefusedDevice{{Name: "r", Digest: "y"}}, Counts: contract.SurveyCounts{Enrolled: 1},
		}, nil
	})
	l.lookNow(time.Minute, contract.LookNow{})
	l.SetOnActivityStartedListener(func(*activity.Info, context.Context, converter.EncodedValues) {
		l.SetCurrentHistoryLength(100000)
		l.SignalWorkflow(contract.SignalLookNow, contract.LookNow{Started: true})
	})
	l.ExecuteWorkflow(contract.WorkflowHost, contract.HostInput{Host: "h1"})
	var again *workflow.ContinueAsNewError
	require.ErrorAs(t, l.GetWorkflowError(), &again)
	require.Equal(t, contract.WorkflowHost, again.WorkflowType.Name)
	var in contract.HostInput
	require.NoError(t, converter.GetDefaultDataConverter().FromPayloads(again.Input, &in))
	require.Equal(t, "h1", in.Host)
	s := in.State
	require.True(t, s.Due, "the signal of that moment")
	require.True(t, s.Started)
	require.Equal(t, map[string]string{"d1": "x"}, s.Told)
	require.Equal(t, []string{"gone"}, s.Missing)
	require.Len(t, s.Refused, 1)
	require.Equal(t, 1, s.Surveys)
	require.Equal(t, 1, s.Enrolled)
	require.Len(t, l.inputs, 1, "the new run does it")

	next := newLookout(t, func(int, contract.SurveyInput) (contract.Surveyed, error) { return contract.Surveyed{}, nil })
	after := next.run(time.Hour, in)
	require.Len(t, next.inputs, 1)
	require.True(t, next.inputs[0].Again)
	require.Equal(t, s.Told, next.inputs[0].Told)
	require.Equal(t, 2, after.Surveys)
}

// A state that a newer worker wrote is not misread.
func TestTheHostsStateHasASchema(t *testing.T) {
	l := newLookout(t, nil)
	l.ExecuteWorkflow(contract.WorkflowHost, contract.HostInput{Host: "h1", State: &contract.HostState{Schema: contract.Schema + 1, Host: "h1"}})
	require.ErrorContains(t, l.GetWorkflowError(), "upgrade the control workers")
	require.True(t, strings.HasPrefix(contract.HostWorkflowID("H1"), "host/h1"))
}

// What the host said of a device can be asked for, without touching anything.
func TestTheHostsFactsCanBeAsked(t *testing.T) {
	w := newWorld(t, safePolicy())
	w.offered()
	value, err := w.env.QueryWorkflow(contract.QueryHostFacts)
	require.NoError(t, err)
	var facts contract.HostFacts
	require.NoError(t, value.Get(&facts))
	require.Equal(t, w.host.facts.Identity, facts.Identity)
	require.Equal(t, device.Shred, facts.Operation)
	require.Equal(t, w.host.steps, facts.Steps)
	w.noDefect()
}
