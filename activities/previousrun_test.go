package activities_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/sdk/mocks"
	"google.golang.org/protobuf/types/known/timestamppb"

	"burnish/activities"
	"burnish/internal/device"
	"burnish/workflows/client"
	"burnish/workflows/contract"
)

// findPreviousRun asks for the ended run of a device; the server answers with runs or answer.
func findPreviousRun(t *testing.T, name string, runs []*workflowpb.WorkflowExecutionInfo,
	answer error) (contract.PreviousRun, string, error) {
	t.Helper()
	var query string
	server := &mocks.Client{}
	lists(server, func(asked string, _ []byte) ([]*workflowpb.WorkflowExecutionInfo, []byte, error) {
		query = asked
		return runs, nil, answer
	})
	control := &activities.Control{Client: client.New(server)}
	found, err := execute[contract.PreviousRun](first(t), contract.ActivityFindPreviousRun, control.FindPreviousRun, name)
	return found, query, err
}

func endedRun(t *testing.T, id string, state device.State, instance string,
	closed time.Time) *workflowpb.WorkflowExecutionInfo {
	t.Helper()
	found := attributes(t)
	if state != "" {
		found = attributes(t, contract.AttrState, state)
	}
	if instance != "" {
		found.IndexedFields[contract.AttrInstance.GetName()] = payload(t, instance)
	}
	run := deviceRun("h1_0000:01:00.0", found, nil)
	run.Execution.RunId, run.CloseTime, run.Status = id, timestamppb.New(closed), 0
	return run
}

// F25
func TestFindPreviousRun(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	run := func(id string, state device.State, instance string, after time.Duration) *workflowpb.WorkflowExecutionInfo {
		return endedRun(t, id, state, instance, at.Add(after))
	}
	forgotten := run("r4", device.Retired, "", time.Hour)
	forgotten.Status = enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED
	refused, failed := run("r5", device.Absent, "", 2*time.Hour), run("r6", device.Allocated, "vm-6", 2*time.Hour)
	refused.Status, failed.Status = enumspb.WORKFLOW_EXECUTION_STATUS_FAILED, enumspb.WORKFLOW_EXECUTION_STATUS_FAILED
	older, newer := run("r1", device.Allocated, "vm-1", 0), run("r2", device.Allocated, "vm-2", time.Second)
	second := contract.PreviousRun{RunID: "r2", Instance: "vm-2", State: device.Allocated, EndedAt: at.Add(time.Second)}
	for name, c := range map[string]struct {
		runs []*workflowpb.WorkflowExecutionInfo
		want contract.PreviousRun
	}{
		"none":                       {},
		"in order":                   {[]*workflowpb.WorkflowExecutionInfo{older, newer}, second},
		"in the other order":         {[]*workflowpb.WorkflowExecutionInfo{newer, older}, second},
		"forgotten in order since":   {[]*workflowpb.WorkflowExecutionInfo{forgotten, newer}, contract.PreviousRun{}},
		"forgotten, the other order": {[]*workflowpb.WorkflowExecutionInfo{newer, forgotten}, contract.PreviousRun{}},
		"the newest had none": {[]*workflowpb.WorkflowExecutionInfo{newer, run("r3", device.Available, "", time.Minute)},
			contract.PreviousRun{RunID: "r3", State: device.Available, EndedAt: at.Add(time.Minute)}},
		"the newest knew nothing":    {[]*workflowpb.WorkflowExecutionInfo{newer, run("r3", device.Unknown, "", time.Minute)}, second},
		"a refused enrollment since": {[]*workflowpb.WorkflowExecutionInfo{newer, refused}, second},
		"only a refused enrollment":  {[]*workflowpb.WorkflowExecutionInfo{refused}, contract.PreviousRun{}},
		"the newest failed with a tenant": {[]*workflowpb.WorkflowExecutionInfo{newer, failed},
			contract.PreviousRun{RunID: "r6", Instance: "vm-6", State: device.Allocated, EndedAt: at.Add(2 * time.Hour)}},
	} {
		t.Run(name, func(t *testing.T) {
			got, query, err := findPreviousRun(t, "h1_0000:01:00.0", c.runs, nil)
			require.NoError(t, err)
			require.Equal(t, c.want, got)
			require.Contains(t, query, "WorkflowId = 'device/h1_0000:01:00.0'")
			require.Contains(t, query, "'Failed'")
		})
	}
	t.Run("a quote in a name does not end the query's string", func(t *testing.T) {
		_, query, err := findPreviousRun(t, "o'neil", nil, nil)
		require.NoError(t, err)
		require.Contains(t, query, "WorkflowId STARTS_WITH 'device/o'")
	})
	t.Run("a server that does not answer", func(t *testing.T) {
		_, _, err := findPreviousRun(t, "d1", nil, serviceerror.NewUnavailable("connection refused"))
		requireFault(t, err, device.CodeServerUnreachable, true)
	})
}
