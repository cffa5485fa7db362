package client

import (
	"testing"

	"github.com/stretchr/testify/mock"
	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	sdkclient "go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/mocks"

	"burnish/internal/device"
	"burnish/workflows/contract"
)

// valueOf is the answer to a query.
type valueOf[T any] struct {
	converter.EncodedValue
	says T
}

func (v valueOf[T]) Get(into any) error {
	*into.(*T) = v.says
	return nil
}

// describes has the server know a run.
func describes(server *mocks.Client, run *workflowpb.WorkflowExecutionInfo) *mock.Call {
	return server.On("DescribeWorkflowExecution", mock.Anything, run.GetExecution().GetWorkflowId(), "").
		Return(&workflowservice.DescribeWorkflowExecutionResponse{WorkflowExecutionInfo: run}, nil)
}

const released = "3b1f0e62-7a8e-4b7f-9a55-0d6c1f2e4a90"

// lostInstance is a server on which the instance's workflow does not run: its last run says status, or err, and these
// devices are listed as its own. What a device says itself is in its name, and in whether it is listed.
func lostInstance(t *testing.T, status contract.InstanceStatus, err error, listed ...string) *mocks.Client {
	temporal, id := mocks.NewClient(t), contract.InstanceWorkflowID(released)
	temporal.On("UpdateWorkflow", mock.Anything, mock.Anything).
		Return(nil, serviceerror.NewNotFound("workflow execution already completed")).Maybe()
	temporal.On("QueryWorkflow", mock.Anything, id, "", contract.QueryInstance).
		Return(valueOf[contract.InstanceStatus]{says: status}, err).Maybe()
	temporal.On("QueryWorkflow", mock.Anything, id, "", contract.QueryGranted).
		Return(valueOf[contract.Requests]{says: contract.Requests(nil).With(released, "r")}, err).Maybe()
	run := &workflowpb.WorkflowExecutionInfo{Status: enumspb.WORKFLOW_EXECUTION_STATUS_TERMINATED}
	if status.Phase == contract.InstanceReleased {
		run.Status = enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED
	}
	temporal.On("DescribeWorkflowExecution", mock.Anything, id, "").
		Return(&workflowservice.DescribeWorkflowExecutionResponse{WorkflowExecutionInfo: run}, err).Maybe()
	own := map[string]*commonpb.Payload{contract.AttrInstance.GetName(): payload(t, released),
		contract.AttrState.GetName(): payload(t, device.Allocated)}
	var runs []*workflowpb.WorkflowExecutionInfo
	for _, name := range listed {
		runs = append(runs, info(name, own, nil))
	}
	for _, name := range []string{"a", "b", "c", "left", "new", "terminated", "forgotten"} {
		last, has, state := info(name, own, nil), released, device.Allocated
		switch name {
		case "terminated":
			last.Status = enumspb.WORKFLOW_EXECUTION_STATUS_TERMINATED
		case "forgotten":
			last.Status = enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED
		case "left": // the listing lags behind
			has = "another"
		case "new": // it does not know yet who has it
			has, state = "", device.Unknown
		}
		describes(temporal, last).Maybe()
		temporal.On("QueryWorkflow", mock.Anything, contract.WorkflowID(name), "", contract.QueryDevice).
			Return(valueOf[contract.DeviceStatus]{says: contract.DeviceStatus{Name: name, InstanceUUID: &has,
				DeviceState: state}}, nil).Maybe()
	}
	temporal.On("ListWorkflow", mock.Anything, mock.Anything).
		Return(&workflowservice.ListWorkflowExecutionsResponse{Executions: runs}, nil).Maybe()
	return temporal
}

// A release whose answer was lost may be repeated: an instance that is released is released
// already. One that is not known, and that no device has, is not.
func TestAReleasedInstanceIsReleasedAlready(t *testing.T) {
	temporal := lostInstance(t, contract.InstanceStatus{UUID: released, Phase: contract.InstanceReleased}, nil)
	result, err := New(temporal).DoInstance(t.Context(), released, contract.VerbInstanceRelease, contract.ReasonInput{})
	require.NoError(t, err)
	require.True(t, result.Already)
	require.Equal(t, contract.InstanceReleased, result.Instance.Phase)

	_, err = New(lostInstance(t, contract.InstanceStatus{}, serviceerror.NewNotFound("no workflow"))).
		DoInstance(t.Context(), released, contract.VerbInstanceRelease, contract.ReasonInput{})
	require.True(t, NotFound(err), "%v", err)
	_, err = New(lostInstance(t, contract.InstanceStatus{}, serviceerror.NewUnavailable("no worker"))).
		DoInstance(t.Context(), released, contract.VerbInstanceRelease, contract.ReasonInput{})
	require.ErrorContains(t, err, "no worker", "it may have been released")
}

// The workflow of an instance was terminated, or is past the server's retention: another run of it has what the last
// one had, unless a device says that it has left since, and every device that says it is bound to the instance. What
// the last one was about to get or to give back is not its own: it is unsettled. So it is whatever is asked of it, also
// a bind, which starts afresh where nothing of this is known.
//
// F38, F41, F42
func TestALostInstanceIsAsItsDevicesSay(t *testing.T) {
	held := func(names ...string) (all []contract.HeldDevice) {
		for _, name := range names {
			all = append(all, contract.HeldDevice{Name: name, Tag: "tag of " + name})
		}
		return all
	}
	unknown := serviceerror.NewNotFound("no workflow")
	for name, tt := range map[string]struct {
		last contract.InstanceStatus
		err  error
		// says are the devices that say they are the instance's.
		says []string
		want contract.InstanceState
		// fresh: a bind begins without any of it.
		fresh bool
	}{
		"terminated": {
			last: contract.InstanceStatus{Devices: held("a", "b"), Addresses: []string{"192.0.2.7"}, Project: "p"},
			says: []string{"a", "b"},
			want: contract.InstanceState{Devices: held("a", "b"), Addresses: []string{"192.0.2.7"}, Project: "p"},
		},
		"a device that it does not know of": {
			last: contract.InstanceStatus{Phase: contract.InstanceBinding}, says: []string{"c"},
			want: contract.InstanceState{Devices: []contract.HeldDevice{{Name: "c"}}},
		},
		"a device that has left": {
			last: contract.InstanceStatus{Devices: held("a", "left", "new", "terminated", "forgotten")},
			says: []string{"a", "terminated"},
			want: contract.InstanceState{Devices: held("a", "new", "terminated")},
		},
		"all have left": {last: contract.InstanceStatus{Devices: held("left")}},
		"during a move": {
			last: contract.InstanceStatus{Devices: held("b"), Move: &contract.InstanceMove{Source: held("a", "left")}},
			says: []string{"a", "b"},
			want: contract.InstanceState{Devices: held("b"), Move: &contract.InstanceMove{Source: held("a")}},
		},
		"during a move whose devices have left": {
			last: contract.InstanceStatus{Devices: held("left"), Move: &contract.InstanceMove{Source: held("forgotten")}},
		},
		"in mid-bind": {
			last: contract.InstanceStatus{Unsettled: held("a", "b", "left")}, says: []string{"a"},
			want: contract.InstanceState{Unsettled: held("a", "b", "left")},
		},
		"in mid-attach": {
			last: contract.InstanceStatus{Devices: held("a"), Unsettled: held("b")}, says: []string{"a", "b"},
			want: contract.InstanceState{Devices: held("a"), Unsettled: held("b")},
		},
		"in mid-release": {
			last: contract.InstanceStatus{Devices: held("a", "b"), Unsettled: held("a", "b")}, says: []string{"b"},
			want: contract.InstanceState{Unsettled: held("a", "b")},
		},
		"past the retention": {
			err: unknown, says: []string{"a", "b", "forgotten", "left"}, fresh: true,
			want: contract.InstanceState{Devices: []contract.HeldDevice{{Name: "a"}, {Name: "b"}}},
		},
		"released, but a device says otherwise": {
			last: contract.InstanceStatus{Phase: contract.InstanceReleased, Devices: held("x"), Project: "p"},
			says: []string{"c"}, fresh: true, want: contract.InstanceState{Devices: []contract.HeldDevice{{Name: "c"}}},
		},
		"never known": {err: unknown, fresh: true},
	} {
		for _, verb := range []contract.Verb{contract.VerbInstanceRelease, contract.VerbInstanceConfirm,
			contract.VerbInstanceBind, contract.VerbInstanceAttach} {
			t.Run(name+"/"+verb.Name, func(t *testing.T) {
				_, binds := verb.Input.(contract.InstanceBindInput)
				temporal := lostInstance(t, tt.last, tt.err, tt.says...)
				var started []*contract.InstanceState
				var policies []enumspb.WorkflowIdReusePolicy
				temporal.On("NewWithStartWorkflowOperation", mock.Anything, contract.WorkflowInstance, mock.Anything).
					Run(func(args mock.Arguments) {
						policies = append(policies, args.Get(0).(sdkclient.StartWorkflowOptions).WorkflowIDReusePolicy)
						started = append(started, args.Get(2).(contract.InstanceInput).State)
					}).Return(nil).Maybe()
				handle := &mocks.WorkflowUpdateHandle{}
				handle.On("Get", mock.Anything, mock.Anything).Return(nil)
				if binds {
					first := serviceerror.NewWorkflowExecutionAlreadyStarted("it was terminated", "", "run")
					if tt.err == nil {
						temporal.On("UpdateWithStartWorkflow", mock.Anything, mock.Anything).Return(nil, first).Once()
					}
				}
				temporal.On("UpdateWithStartWorkflow", mock.Anything, mock.Anything).Return(handle, nil).Maybe()
				var in contract.Input = contract.ReasonInput{}
				if binds {
					in = contract.InstanceBindInput{Devices: []contract.DeviceChoice{{Name: "d"}}}
				}
				_, err := New(temporal).DoInstance(t.Context(), released, verb, in)
				if binds {
					require.Equal(t, enumspb.WORKFLOW_ID_REUSE_POLICY_REJECT_DUPLICATE, policies[0], "it has run before")
				}
				nothing := len(tt.want.Devices)+len(tt.want.Unsettled) == 0
				switch {
				case binds && tt.fresh:
					require.NoError(t, err)
					require.Nil(t, started[len(started)-1])
				case nothing && !binds:
					require.True(t, NotFound(err), "%v", err)
					require.Empty(t, started)
				default:
					require.NoError(t, err)
					s := started[len(started)-1]
					phase := contract.InstanceActive
					if tt.want.Move != nil {
						phase = contract.InstanceMigrating
					} else if nothing {
						phase = contract.InstanceBinding
					}
					require.Equal(t, phase, s.Phase)
					require.Equal(t, released, s.UUID)
					require.Equal(t, tt.want.Devices, s.Devices)
					require.Equal(t, tt.want.Unsettled, s.Unsettled)
					require.Equal(t, tt.want.Addresses, s.Addresses)
					require.Equal(t, tt.want.Project, s.Project)
					require.Equal(t, tt.want.Move, s.Move)
					require.Equal(t, tt.last.Phase != contract.InstanceReleased && tt.err == nil, len(s.Granted) > 0)
				}
			})
		}
	}
}
