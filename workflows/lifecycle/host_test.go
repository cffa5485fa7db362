package lifecycle_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"burnish/internal/device"
	"burnish/workflows/contract"
)

// The last heartbeat's progress is passed to the next scheduling of the step.
func TestUnreachableHost_ResumePointIsPassedOn(t *testing.T) {
	w := newBound(t)
	ok[contract.Result](w.unbind("i1"))
	w.stepRuns("zero")
	w.pass(2*pace + pace/2)
	w.host.crash()
	require.Equal(t, 2, w.host.journal.offset)
	w.until("the report", func() bool { return w.view().NeedsOperator })
	w.host.restart()
	w.reach(device.Available)
	var resumed []contract.StepInput
	for _, in := range w.host.inputs[2:] {
		if in.Resume != nil {
			resumed = append(resumed, in)
		}
	}
	require.Len(t, resumed, 1)
	require.Equal(t, "zero", resumed[0].Step)
	require.EqualValues(t, 2*blockSize, resumed[0].Resume.Offset)
	require.Equal(t, "zero", resumed[0].Resume.Step)
	require.Nil(t, w.host.inputs[len(w.host.inputs)-1].Resume, "not passed to the next step")
}

// The last discovery result can be queried, without a call to the host.
func TestDiscoveryResultCanBeQueried(t *testing.T) {
	w := newAvailable(t)
	value, err := w.env.QueryWorkflow(contract.QueryDiscovery)
	require.NoError(t, err)
	var facts contract.DiscoveryResult
	require.NoError(t, value.Get(&facts))
	require.Equal(t, w.host.discovery.Identity, facts.Identity)
	require.Equal(t, device.Shred, facts.Operation)
	require.Equal(t, w.host.steps, facts.Steps)
}
