package activities_test

import (
	"context"
	"sync"
	"testing"

	"github.com/stretchr/testify/mock"
	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	sdkclient "go.temporal.io/sdk/client"
	"go.temporal.io/sdk/mocks"

	"burnish/internal/device"
	"burnish/workflows/contract"
)

// leaseServer is a server with the leases of addresses, and with instances of which some live.
type leaseServer struct {
	*mocks.Client
	t       *testing.T
	mu      sync.Mutex        // addresses are returned at once
	holders map[string]string // by the address's workflow
	// by the instance's workflow
	instances map[string]enumspb.WorkflowExecutionStatus
}

func newLeaseServer(t *testing.T, holders map[string]string, living ...string) *leaseServer {
	s := &leaseServer{Client: &mocks.Client{}, t: t, holders: map[string]string{},
		instances: map[string]enumspb.WorkflowExecutionStatus{}}
	for address, instance := range holders {
		s.holders[contract.GuestAddressWorkflowID(address)] = instance
	}
	for _, instance := range living {
		s.instances[contract.InstanceWorkflowID(instance)] = isRunning
	}
	s.On("ExecuteWorkflow", mock.Anything, mock.Anything, contract.WorkflowGuestAddress, mock.Anything).Return(s.start)
	s.On("DescribeWorkflowExecution", mock.Anything, mock.Anything, "").Return(s.describe)
	s.On("TerminateWorkflow", mock.Anything, mock.Anything, mock.Anything, mock.Anything).Return(s.terminate)
	s.On("SignalWorkflow", mock.Anything, mock.Anything, mock.Anything, contract.SignalReturnAddress, mock.Anything).
		Return(s.signal)
	ended := &mocks.WorkflowRun{}
	ended.On("Get", mock.Anything, mock.Anything).Return(nil)
	s.On("GetWorkflow", mock.Anything, mock.Anything, mock.Anything).Return(ended)
	return s
}

func (s *leaseServer) start(_ context.Context, o sdkclient.StartWorkflowOptions, _ any,
	_ ...any) (sdkclient.WorkflowRun, error) {
	require.True(s.t, o.WorkflowExecutionErrorWhenAlreadyStarted)
	require.Equal(s.t, enumspb.WORKFLOW_ID_CONFLICT_POLICY_FAIL, o.WorkflowIDConflictPolicy)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.holders[o.ID] != "" {
		return nil, serviceerror.NewWorkflowExecutionAlreadyStarted("it runs", "", "")
	}
	s.holders[o.ID], _ = o.Memo[contract.MemoInstance].(string)
	return nil, nil
}

// describe gives each lease a run of its own, so that another's is never ended.
func (s *leaseServer) describe(_ context.Context, id,
	_ string) (*workflowservice.DescribeWorkflowExecutionResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	info := &workflowpb.WorkflowExecutionInfo{Status: isRunning}
	if holder, held := s.holders[id]; held {
		info.Execution = &commonpb.WorkflowExecution{RunId: "of " + holder}
		info.Memo = &commonpb.Memo{Fields: map[string]*commonpb.Payload{contract.MemoInstance: payload(s.t, holder)}}
	} else if info.Status = s.instances[id]; info.Status == 0 {
		return nil, serviceerror.NewNotFound("no such workflow")
	}
	return &workflowservice.DescribeWorkflowExecutionResponse{WorkflowExecutionInfo: info}, nil
}

func (s *leaseServer) terminate(_ context.Context, id, run, _ string, _ ...any) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.end(id, run)
}

func (s *leaseServer) signal(_ context.Context, id, run, _ string, in any) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if by, ok := in.(contract.GuestAddressInput); !ok || by.Instance != s.holders[id] {
		return nil
	}
	return s.end(id, run)
}

// end needs the lock.
func (s *leaseServer) end(id, run string) error {
	if run != "of "+s.holders[id] {
		return serviceerror.NewNotFound("that run has ended")
	}
	delete(s.holders, id)
	return nil
}

// An address that a living instance has is refused with its name, and then none is taken. That
// of an instance that was released, or is not known, is taken over; that of one whose workflow was
// terminated is not, because its guest may have it still.
//
// F38
func TestAddressesAreLeasedAllOrNone(t *testing.T) {
	const u, other = someInstance, "00000000-0000-0000-0000-0000000000aa"
	both := contract.AddressesCall{Instance: u, Addresses: []string{"192.0.2.1", "192.0.2.2"}}
	for name, c := range map[string]struct {
		held   map[string]string
		living []string
		ended  enumspb.WorkflowExecutionStatus // the other's; 0: it is not known
		want   map[string]string               // after it
		holder string                          // that refuses
	}{
		"free":                  {nil, nil, 0, map[string]string{"192.0.2.1": u, "192.0.2.2": u}, ""},
		"leased by an attempt":  {map[string]string{"192.0.2.1": u}, []string{u}, 0, map[string]string{"192.0.2.1": u, "192.0.2.2": u}, ""},
		"of a living instance":  {map[string]string{"192.0.2.2": other}, []string{u, other}, 0, map[string]string{"192.0.2.2": other}, other},
		"of an unknown one":     {map[string]string{"192.0.2.2": other}, []string{u}, 0, map[string]string{"192.0.2.1": u, "192.0.2.2": u}, ""},
		"of a released one":     {map[string]string{"192.0.2.2": other}, []string{u}, enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED, map[string]string{"192.0.2.1": u, "192.0.2.2": u}, ""},
		"of a terminated one":   {map[string]string{"192.0.2.2": other}, []string{u}, enumspb.WORKFLOW_EXECUTION_STATUS_TERMINATED, map[string]string{"192.0.2.2": other}, other},
		"an attempt, and other": {map[string]string{"192.0.2.1": u, "192.0.2.2": other}, []string{other}, 0, map[string]string{"192.0.2.2": other}, other},
	} {
		t.Run(name, func(t *testing.T) {
			s := newLeaseServer(t, c.held, c.living...)
			if c.ended != 0 {
				s.instances[contract.InstanceWorkflowID(other)] = c.ended
			}
			_, err := ask(t, s, contract.ActivityLeaseAddresses, both)
			if c.holder == "" {
				require.NoError(t, err)
			} else {
				refusal, ok := contract.RefusalOf(err)
				require.True(t, ok, "%v", err)
				require.Equal(t, []any{device.CodeConflict, device.Permanent}, []any{refusal.Fault.Code, refusal.Fault.Class})
				require.Contains(t, refusal.Fault.Message, c.holder)
			}
			require.Equal(t, newLeaseServer(t, c.want).holders, s.holders)
			_, err = ask(t, s, contract.ActivityReturnAddresses, both)
			require.NoError(t, err)
			require.NotContains(t, s.holders, u, "its own are returned")
			require.Equal(t, c.holder != "", len(s.holders) == 1, "another's stays")
		})
	}
}
