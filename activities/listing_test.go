package activities_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/mock"
	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/mocks"

	"burnish/workflows/contract"
)

// execute runs one attempt of an activity.
func execute[T any](s *server, name string, do, in any) (T, error) {
	env := s.env()
	env.RegisterActivityWithOptions(do, activity.RegisterOptions{Name: name})
	var out T
	value, err := env.ExecuteActivity(name, in)
	if err == nil && value.HasValue() {
		err = value.Get(&out)
	}
	return out, err
}

func payload(t testing.TB, value any) *commonpb.Payload {
	t.Helper()
	p, err := converter.GetDefaultDataConverter().ToPayload(value)
	require.NoError(t, err)
	return p
}

// attributes are search attributes of these names and values in turn.
func attributes(t testing.TB, namesAndValues ...any) *commonpb.SearchAttributes {
	t.Helper()
	fields := map[string]*commonpb.Payload{}
	for i := 0; i < len(namesAndValues); i += 2 {
		fields[namesAndValues[i].(interface{ GetName() string }).GetName()] = payload(t, namesAndValues[i+1])
	}
	return &commonpb.SearchAttributes{IndexedFields: fields}
}

func statusMemo(t testing.TB, status contract.StatusMemo) *commonpb.Memo {
	t.Helper()
	return &commonpb.Memo{Fields: map[string]*commonpb.Payload{contract.MemoStatus: payload(t, status)}}
}

// deviceRun is a device's workflow as the server lists it.
func deviceRun(name string, found *commonpb.SearchAttributes, memo *commonpb.Memo) *workflowpb.WorkflowExecutionInfo {
	return &workflowpb.WorkflowExecutionInfo{
		Execution: &commonpb.WorkflowExecution{WorkflowId: contract.WorkflowID(name)}, Status: isRunning,
		SearchAttributes: found, Memo: memo,
	}
}

// lists makes the server answer each listing.
func lists(c *mocks.Client,
	answer func(query string, page []byte) (runs []*workflowpb.WorkflowExecutionInfo, next []byte, err error)) {
	c.On("ListWorkflow", mock.Anything, mock.Anything).Return(
		func(_ context.Context,
			in *workflowservice.ListWorkflowExecutionsRequest) (*workflowservice.ListWorkflowExecutionsResponse, error) {
			runs, next, err := answer(in.GetQuery(), in.GetNextPageToken())
			return &workflowservice.ListWorkflowExecutionsResponse{Executions: runs, NextPageToken: next}, err
		})
}
