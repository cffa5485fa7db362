package client

import (
	"testing"
	"time"

	"github.com/stretchr/testify/mock"
	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/mocks"
	"google.golang.org/protobuf/types/known/timestamppb"

	"burnish/internal/device"
	"burnish/workflows/contract"
)

// A serial belongs to a device whose workflow ended until that is running again, or was given up:
// its last run says so, which the listing of the serial need not have.
//
// F35
func TestFindBySerialFindsEndedWorkflows(t *testing.T) {
	type listed = []*workflowpb.WorkflowExecutionInfo
	const (
		runs       = enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING
		terminated = enumspb.WORKFLOW_EXECUTION_STATUS_TERMINATED
		completed  = enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED
		failed     = enumspb.WORKFLOW_EXECUTION_STATUS_FAILED
	)
	type status = enumspb.WorkflowExecutionStatus
	as := func(name, serial string, state device.State, status status) *workflowpb.WorkflowExecutionInfo {
		r := run(t, name, serial, state)
		if r.Status = status; status != runs {
			r.CloseTime = timestamppb.New(time.Unix(1, 0))
		}
		return r
	}
	ended := as("d7", "S1", device.Allocated, terminated)
	other, itself := as("d8", "S1", device.Available, runs), as("d1", "S1", device.Available, runs)
	former := func(state device.State, status status) *workflowpb.WorkflowExecutionInfo {
		return as("d0", "S1", state, status)
	}
	taken, lost := former(device.Allocated, runs), former(device.Allocated, terminated)
	broken := former(device.Error, terminated)
	for name, c := range map[string]struct {
		listed listed
		last   *workflowpb.WorkflowExecutionInfo // of d7, or d0; nil: there is none
		want   SameSerial
		ended  bool
	}{
		"terminated":                  {listed: listed{ended}, last: ended, ended: true},
		"enrolled again, and refused": {listed: listed{ended}, last: as("d7", "", device.Absent, failed), ended: true},
		"running again":               {listed: listed{ended}, last: as("d7", "S2", device.Available, runs)},
		"running again, not seen yet": {
			listed: listed{ended}, last: as("d7", "", device.Allocated, runs), want: SameSerial{Other: "d7"},
		},
		"running again, not listed yet": {
			listed: listed{ended}, last: as("d7", "S1", device.Unknown, runs), want: SameSerial{Other: "d7"},
		},
		"being enrolled again": {
			listed: listed{ended}, last: as("d7", "", device.Absent, runs), want: SameSerial{Other: "d7"},
		},
		"being forgotten":                {listed: listed{ended}, last: as("d7", "S1", device.Absent, runs)},
		"forgotten since":                {listed: listed{ended}, last: as("d7", "S1", device.Retired, completed)},
		"retired since":                  {listed: listed{ended}, last: as("d7", "S1", device.Retired, terminated)},
		"replaced since":                 {listed: listed{ended}, last: as("d7", "S2", device.Available, terminated)},
		"past its retention":             {listed: listed{ended}},
		"its own earlier run":            {listed: listed{as("d1", "S1", device.Allocated, terminated)}},
		"another one that has it by now": {listed: listed{ended, other}, want: SameSerial{Other: "d8"}},
		"itself is listed":               {listed: listed{itself}, want: SameSerial{Listed: true}},

		"moved from a name": {
			listed: listed{former(device.Allocated, terminated)}, last: former(device.Manageable, completed),
		},
		"the name that it leaves":  {listed: listed{former(device.Available, runs)}, last: former(device.Absent, runs)},
		"its move was terminated":  {listed: listed{broken}, last: broken},
		"another has its old name": {listed: listed{taken}, last: taken, want: SameSerial{Other: "d0"}},
		"another had its old name": {listed: listed{lost}, last: lost, ended: true},
	} {
		t.Run(name, func(t *testing.T) {
			server := &mocks.Client{}
			page := &workflowservice.ListWorkflowExecutionsResponse{Executions: c.listed}
			server.On("ListWorkflow", mock.Anything, mock.Anything).Return(page, nil)
			describe := server.On("DescribeWorkflowExecution", mock.Anything, mock.Anything, "")
			if c.last == nil {
				describe.Return(nil, serviceerror.NewNotFound("none"))
			} else {
				describe.Return(&workflowservice.DescribeWorkflowExecutionResponse{WorkflowExecutionInfo: c.last}, nil)
			}
			found, err := New(server).FindBySerial(t.Context(), "S1", "d1", "d0")
			require.NoError(t, err)
			if c.ended {
				require.Equal(t, contract.WorkflowID(found.Ended.Name), c.last.GetExecution().GetWorkflowId())
				found.Ended = Execution{}
			}
			require.Equal(t, c.want, found)
		})
	}
}
