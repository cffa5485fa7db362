package activities

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/api/workflowservice/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/stats"
)

// poll sends a poll that is answered with a token; "" is no activity.
func poll(t *testing.T, a *Asked, token string, during func()) {
	t.Helper()
	invoker := func(_ context.Context, _ string, _, reply any, _ *grpc.ClientConn, _ ...grpc.CallOption) error {
		during()
		reply.(*workflowservice.PollActivityTaskQueueResponse).TaskToken = []byte(token)
		return nil
	}
	require.NoError(t, a.intercept(t.Context(), "poll", &workflowservice.PollActivityTaskQueueRequest{}, &workflowservice.PollActivityTaskQueueResponse{}, nil, invoker))
}

// What is known of a poll is from before it was sent: its answer may be as old.
//
// F32
func TestAskedKnowsWhenAPollWasSent(t *testing.T) {
	a := &Asked{}
	connections := &connectionCount{a}
	connections.HandleConn(t.Context(), &stats.ConnBegin{})
	before, err := sinceBoot()
	require.NoError(t, err)
	poll(t, a, "one", func() {
		connections.HandleConn(t.Context(), &stats.ConnEnd{})
		connections.HandleConn(t.Context(), &stats.ConnBegin{})
		now, err := sinceBoot()
		require.NoError(t, err)
		before = now
	})
	p, ok := a.Of([]byte("one"))
	require.True(t, ok)
	require.LessOrEqual(t, p.At, before, "the time of the answer")
	require.Equal(t, 1, p.Connections)
	require.Equal(t, 2, a.Connections(), "the answer came by another connection")
	_, ok = a.Of([]byte("two"))
	require.False(t, ok)

	poll(t, a, "", func() {})
	require.Len(t, a.polls, 1)
	failed := errors.New("unavailable")
	err = a.intercept(t.Context(), "poll", &workflowservice.PollActivityTaskQueueRequest{}, &workflowservice.PollActivityTaskQueueResponse{TaskToken: []byte("x")}, nil,
		func(context.Context, string, any, any, *grpc.ClientConn, ...grpc.CallOption) error { return failed })
	require.ErrorIs(t, err, failed)
	require.Len(t, a.polls, 1)
}

// Nothing is kept of an activity that has ended, however its end is reported, and little of those
// whose end never is.
func TestAskedForgetsWhatHasEnded(t *testing.T) {
	a := &Asked{}
	done := func(context.Context, string, any, any, *grpc.ClientConn, ...grpc.CallOption) error { return nil }
	for _, end := range []any{
		&workflowservice.RespondActivityTaskCompletedRequest{TaskToken: []byte("one")},
		&workflowservice.RespondActivityTaskFailedRequest{TaskToken: []byte("one")},
		&workflowservice.RespondActivityTaskCanceledRequest{TaskToken: []byte("one")},
	} {
		poll(t, a, "one", func() {})
		require.Len(t, a.polls, 1)
		require.NoError(t, a.intercept(t.Context(), "end", end, nil, nil, done))
		require.Empty(t, a.polls, "%T", end)
	}
	for i := range maxPolls + 1 {
		a.keep(fmt.Append(nil, i), Poll{})
	}
	require.LessOrEqual(t, len(a.polls), maxPolls)
	_, ok := a.Of(fmt.Append(nil, maxPolls))
	require.True(t, ok)
}
