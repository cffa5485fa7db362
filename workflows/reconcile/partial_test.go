package reconcile_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"burnish/workflows/contract"
)

// A partial run waits neither for a full run nor for an earlier partial run. While four partial
// runs are under way, further requests are merged into one.
//
// S0.29
func TestPartialRunsBesideAFullRun(t *testing.T) {
	c := newReconcileFixture(t, nothingFound)
	c.duration = func(contract.ReconcileInput) time.Duration { return 5 * time.Minute }
	c.request(time.Minute, contract.ReconcileRequest{})
	c.request(2*time.Minute, contract.ReconcileRequest{Hosts: []string{"H1", "h2", "h1", ""}, Instances: []string{"ABC"}})
	var during contract.InventoryReconcileState
	c.RegisterDelayedCallback(func() { during = c.state() }, 2*time.Minute+time.Second)
	begun := c.startedHosts()
	var busy []string
	for i := range 5 {
		c.request(3*time.Minute+time.Duration(i)*time.Second, contract.ReconcileRequest{Hosts: []string{fmt.Sprint("g", i)}})
	}
	c.RegisterDelayedCallback(func() { busy = slices.Clone(*begun) }, 4*time.Minute)
	s := c.run(time.Hour, contract.InventoryReconcileInput{Cloud: "c"})
	require.Zero(t, during.FullRuns)
	require.Len(t, c.full, 1)
	require.Equal(t, []contract.ReconcileInput{
		{Hosts: []string{"h1", "h2"}, Instances: []string{"abc"}}, {Hosts: []string{"g0"}}, {Hosts: []string{"g1"}}, {Hosts: []string{"g2"}},
		{Hosts: []string{"g3", "g4"}},
	}, c.partial)
	require.Equal(t, []string{"h1", "g0", "g1", "g2"}, busy)
	require.Equal(t, 5, s.PartialRuns)
	require.Empty(t, s.Hosts)
	require.Empty(t, s.Instances)
}

// More than 50 hosts, in one signal or in many, are a full run.
func TestManyHostsAreAFullRun(t *testing.T) {
	var many []string
	for i := range 51 {
		many = append(many, fmt.Sprint("h", i))
	}
	for name, in := range map[string]contract.ReconcileRequest{
		"hosts": {Hosts: many}, "instances": {Instances: many}, "everywhere": {Hosts: []string{"h1"}, Full: true},
	} {
		t.Run(name, func(t *testing.T) {
			c := newReconcileFixture(t, nothingFound)
			c.request(time.Minute, in)
			c.run(time.Hour, contract.InventoryReconcileInput{Cloud: "c"})
			require.Len(t, c.full, 1)
			if name == "everywhere" {
				require.Len(t, c.partial, 1)
			} else {
				require.Empty(t, c.partial)
			}
		})
	}
	t.Run("fifty", func(t *testing.T) {
		c := newReconcileFixture(t, nothingFound)
		c.request(time.Minute, contract.ReconcileRequest{Hosts: many[:50]})
		c.run(time.Hour, contract.InventoryReconcileInput{Cloud: "c"})
		require.Empty(t, c.full)
		require.Len(t, c.partial, 1)
	})
}

// A partial run that fails permanently is followed by a full run, also without an interval.
func TestAFailedPartialRunIsFollowedByAFullRun(t *testing.T) {
	c := newReconcileFixture(t, func(_ int, in contract.ReconcileInput) (contract.ReconcileResult, error) {
		if len(in.Hosts) > 0 {
			return contract.ReconcileResult{}, temporal.NewApplicationError("unable to find activityType=ReconcileInventory",
				"ActivityNotRegisteredError")
		}
		return contract.ReconcileResult{}, nil
	})
	c.request(time.Minute, contract.ReconcileRequest{Hosts: []string{"h1"}})
	s := c.run(time.Hour, contract.InventoryReconcileInput{Cloud: "c"})
	require.Len(t, c.partial, 1)
	require.Len(t, c.full, 1)
	require.Nil(t, s.Fault)
}

// With a long history, too, a partial run does not wait for the end of a full run; the workflow
// continues as new after both.
func TestPartialRunsInALongHistory(t *testing.T) {
	c := newReconcileFixture(t, nothingFound)
	c.duration = func(contract.ReconcileInput) time.Duration { return 5 * time.Minute }
	c.request(time.Minute, contract.ReconcileRequest{})
	c.RegisterDelayedCallback(func() { c.SetCurrentHistoryLength(201) }, 2*time.Minute)
	c.request(3*time.Minute, contract.ReconcileRequest{Hosts: []string{"h1"}})
	begun, early := c.startedHosts(), 0
	c.RegisterDelayedCallback(func() { early = len(*begun) }, 4*time.Minute)
	c.request(7*time.Minute, contract.ReconcileRequest{Hosts: []string{"h2"}})
	c.ExecuteWorkflow(contract.WorkflowInventoryReconcile, contract.InventoryReconcileInput{Cloud: "c"})
	var again *workflow.ContinueAsNewError
	require.ErrorAs(t, c.GetWorkflowError(), &again)
	require.Equal(t, 1, early)
	require.Len(t, c.partial, 1, "without a full run it continues as new first")
	var in contract.InventoryReconcileInput
	require.NoError(t, converter.GetDefaultDataConverter().FromPayloads(again.Input, &in))
	require.Equal(t, []string{"h2"}, in.State.Hosts)
}

// Many signals cause only a few partial runs.
func TestManySignalsAreFewRuns(t *testing.T) {
	c := newReconcileFixture(t, nothingFound)
	c.duration = func(contract.ReconcileInput) time.Duration { return time.Second }
	for i := range 100 {
		c.request(time.Minute+time.Duration(i)*10*time.Millisecond,
			contract.ReconcileRequest{Hosts: []string{fmt.Sprint("h", i%20)}})
	}
	s := c.run(time.Hour, contract.InventoryReconcileInput{Cloud: "c"})
	require.LessOrEqual(t, len(c.partial), 8)
	require.Empty(t, s.Hosts)
	require.Empty(t, c.full)
}
