package instance

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"burnish/workflows/contract"
)

const guest = "11111111-2222-3333-4444-555555555555"

// env is the workflow of one instance, with a fleet of devices that only this test changes.
type env struct {
	*testing.T
	*testsuite.TestWorkflowEnvironment
	*fleet
	step time.Duration
	// What was scheduled by then must be done before the workflow ends.
	scheduled, done int
}

func newEnv(t *testing.T) *env {
	t.Helper()
	var suite testsuite.WorkflowTestSuite
	e := &env{T: t, TestWorkflowEnvironment: suite.NewTestWorkflowEnvironment(), fleet: newFleet()}
	e.fleet.now = e.Now
	e.SetStartTime(time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC))
	e.SetTestTimeout(time.Minute)
	e.SetWorkerOptions(worker.Options{DeadlockDetectionTimeout: time.Minute}) // a second is short beside other tests
	e.RegisterWorkflowWithOptions(InstanceLifecycle, workflow.RegisterOptions{Name: contract.WorkflowInstance})
	do := func(name string, do any) { e.RegisterActivityWithOptions(do, activity.RegisterOptions{Name: name}) }
	do(contract.ActivityPickDevices, func(_ context.Context, in contract.PickInput) (contract.PickAnswer, error) {
		return e.pick(in)
	})
	for _, name := range []string{
		contract.ActivityClaimDevices, contract.ActivityBurnDevices, contract.ActivityUnclaimDevices,
		contract.ActivityUnbindDevices, contract.ActivityRebuildDevices, contract.ActivityConfirmDevices,
	} {
		do(name, func(_ context.Context, call contract.DevicesCall) (contract.DevicesAnswer, error) {
			return e.ask(name, call)
		})
	}
	do(contract.ActivityFindBound, func(_ context.Context, instance string) ([]contract.HeldDevice, error) {
		return e.bound(instance), nil
	})
	for _, name := range []string{contract.ActivityLeaseAddresses, contract.ActivityReturnAddresses} {
		do(name, func(_ context.Context, call contract.AddressesCall) error { return e.address(name, call) })
	}
	return e
}

// answer is what an update's sender got.
type answer struct {
	contract.InstanceResult
	err      error
	accepted bool
	done     bool
}

// update sends an update under an ID, now.
func (e *env) update(id, verb string, in any) *answer {
	a := &answer{}
	e.UpdateWorkflow(verb, id, &testsuite.TestUpdateCallback{
		OnAccept: func() { a.accepted = true },
		OnReject: func(err error) { a.err, a.done = err, true },
		OnComplete: func(result any, err error) {
			a.err, a.done = err, true
			if err == nil {
				a.InstanceResult, _ = result.(contract.InstanceResult)
			}
		},
	}, in)
	return a
}

// then does something a second later than what was done before.
func (e *env) then(do func()) {
	e.step += time.Second
	e.scheduled++
	e.RegisterDelayedCallback(func() { e.done++; do() }, e.step)
}

// run runs the workflow until it ends, or has nothing to do.
func (e *env) run(state *contract.InstanceState) {
	e.ExecuteWorkflow(contract.WorkflowInstance, contract.InstanceInput{UUID: guest, State: state})
	require.Equal(e, e.scheduled, e.done, "the workflow ended too early: %v", e.GetWorkflowError())
}

// status asks the workflow for its status.
func (e *env) status() contract.InstanceStatus {
	e.Helper()
	value, err := e.QueryWorkflow(contract.QueryInstance)
	require.NoError(e, err)
	var s contract.InstanceStatus
	require.NoError(e, value.Get(&s))
	return s
}

// next is the state with which the workflow continues as new.
func (e *env) next() *contract.InstanceState {
	e.Helper()
	var again *workflow.ContinueAsNewError
	require.ErrorAs(e, e.GetWorkflowError(), &again)
	var in contract.InstanceInput
	require.NoError(e, converter.GetDefaultDataConverter().FromPayloads(again.Input, &in))
	return in.State
}

func devicesOf(s contract.InstanceStatus) []string {
	names := []string{}
	for _, d := range s.Devices {
		names = append(names, d.Name)
	}
	return names
}

// choices makes them of texts "NAME" or "NAME tag".
func choices(texts ...string) []contract.DeviceChoice {
	var all []contract.DeviceChoice
	for _, text := range texts {
		var c contract.DeviceChoice
		if _, err := fmt.Sscanf(text, "%s %s", &c.Name, &c.Tag); err != nil {
			c.Name = text
		}
		all = append(all, c)
	}
	return all
}
