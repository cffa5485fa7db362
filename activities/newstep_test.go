package activities_test

import (
	"context"
	"reflect"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"burnish/internal/clean"
	"burnish/internal/clean/steps"
	"burnish/internal/device"
	"burnish/workflows/contract"
)

// readFirstBlock is a step as a file of internal/clean/steps defines one: what the
// planner needs, and a function that runs it. got receives the settings of the run.
func readFirstBlock(got *device.StepSettings) steps.Step {
	return steps.Step{
		Step: clean.Step{
			Name: "read_first_block", Interface: "deploy", Phase: clean.Prepare, Priority: 10, Version: 2, Abortable: true,
			Applies: func(s clean.Subject) bool { return s.Operation.Overwrites() },
			Timeout: func(clean.Subject) time.Duration { return time.Minute },
		},
		Run: func(_ context.Context, w *steps.Work) (steps.Outcome, error) {
			*got = w.Settings
			n, err := w.Device.ReadAt(make([]byte, mib), 0)
			if err != nil {
				return steps.Outcome{}, err
			}
			return steps.Outcome{Bytes: int64(n), Method: "read"}, w.Checkpoint(int64(n))
		},
	}
}

// A step that is only added to the list is reported by its host, planned, and carried out
// with the settings that the plan recorded: planner and activities need no change.
func TestAStepIsAddedByAddingItToTheList(t *testing.T) {
	t.Parallel()
	inBubble(t, "from the host's report to the result", func(t *testing.T) {
		var got device.StepSettings
		s := newTestHost(t)
		s.hardware.Steps = append(steps.All(), readFirstBlock(&got))

		found, err := s.discover(t, contract.DiscoverInput{Enrollment: s.enrollment("d1"), UUID: contract.DeviceUUID("d1")})
		require.NoError(t, err)
		policy := clean.Policy{StepSettings: everySetting(t)}
		planner, err := clean.NewPlanner(s.hardware.Steps.Planning(), policy)
		require.NoError(t, err)
		plan, fault := planner.Full(clean.Subject{Name: "d1", Operation: device.Shred, HostSteps: found.Steps})
		require.Nil(t, fault)
		require.Equal(t, "read_first_block", plan[0].Step.Name)
		require.Equal(t, 2, found.Steps["read_first_block"])

		in := s.input(plan[0].Step.Name)
		in.Version, in.Budget, in.Settings = found.Steps[in.Step], plan[0].Timeout, planner.Policy().StepSettings
		result, err := s.run(first(t), in)
		require.NoError(t, err)
		require.EqualValues(t, mib, result.Bytes)
		require.Equal(t, policy.StepSettings, got, "a setting is lost on its way to the step")
	})
}

// everySetting gives settings of which none is zero, those that are added later included.
func everySetting(t *testing.T) device.StepSettings {
	t.Helper()
	var s device.StepSettings
	setEveryField(t, reflect.ValueOf(&s).Elem())
	return s
}

func setEveryField(t *testing.T, v reflect.Value) {
	t.Helper()
	for i := range v.NumField() {
		switch f := v.Field(i); {
		case f.Kind() == reflect.Struct:
			setEveryField(t, f)
		case f.Kind() == reflect.String:
			f.SetString("x")
		case f.CanInt():
			f.SetInt(7)
		case f.CanFloat():
			f.SetFloat(7)
		case f.Kind() == reflect.Bool:
			f.SetBool(true)
		default:
			require.Fail(t, "this test cannot set "+v.Type().Field(i).Name)
		}
	}
}
