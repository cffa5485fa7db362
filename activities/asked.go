package activities

import (
	"context"
	"sync"
	"time"

	"go.temporal.io/api/workflowservice/v1"
	sdkclient "go.temporal.io/sdk/client"
	"google.golang.org/grpc"
	"google.golang.org/grpc/stats"
)

// Asked knows when a connection's worker asked the server for each of its activities. The
// answer that brought an attempt is the first one that acknowledges it (F32).
type Asked struct {
	mu          sync.Mutex
	connections int
	polls       map[string]Poll // by task token
}

// Poll is the request that brought an activity: when it was sent, as the time since the
// machine's start, and how many connections had been made until then.
type Poll struct {
	At          time.Duration
	Connections int
}

// maxPolls bounds what is kept of activities whose end is never reported.
const maxPolls = 10_000

// Options has a connection to Temporal note its polls.
func (a *Asked) Options(o *sdkclient.Options) {
	o.ConnectionOptions.DialOptions = append(o.ConnectionOptions.DialOptions,
		grpc.WithChainUnaryInterceptor(a.intercept), grpc.WithStatsHandler(&connectionCount{a}))
}

// Of gives the poll that brought an activity, and whether it is known.
func (a *Asked) Of(token []byte) (Poll, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	p, ok := a.polls[string(token)]
	return p, ok
}

// Connections counts the connections that were made so far: while it stays the same, the
// server's answers come from one.
func (a *Asked) Connections() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.connections
}

func (a *Asked) intercept(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoker grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	switch r := req.(type) {
	case *workflowservice.PollActivityTaskQueueRequest:
		at, clockErr := sinceBoot()
		sent := Poll{At: at, Connections: a.Connections()}
		err := invoker(ctx, method, req, reply, cc, opts...)
		if answer, ok := reply.(*workflowservice.PollActivityTaskQueueResponse); ok && err == nil && clockErr == nil && len(answer.GetTaskToken()) > 0 {
			a.keep(answer.GetTaskToken(), sent)
		}
		return err
	case *workflowservice.RespondActivityTaskCompletedRequest:
		defer a.drop(r.GetTaskToken())
	case *workflowservice.RespondActivityTaskFailedRequest:
		defer a.drop(r.GetTaskToken())
	case *workflowservice.RespondActivityTaskCanceledRequest:
		defer a.drop(r.GetTaskToken())
	}
	return invoker(ctx, method, req, reply, cc, opts...)
}

func (a *Asked) keep(token []byte, p Poll) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.polls == nil || len(a.polls) >= maxPolls { // those that are lost ask the server
		a.polls = map[string]Poll{}
	}
	a.polls[string(token)] = p
}

func (a *Asked) drop(token []byte) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.polls, string(token))
}

// connectionCount counts the connections of a client.
type connectionCount struct{ of *Asked }

// HandleConn notes a connection that was made.
func (c *connectionCount) HandleConn(_ context.Context, s stats.ConnStats) {
	if _, ok := s.(*stats.ConnBegin); ok {
		c.of.mu.Lock()
		c.of.connections++
		c.of.mu.Unlock()
	}
}

// TagConn, TagRPC and HandleRPC do nothing.
func (*connectionCount) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context {
	return ctx
}

// TagRPC is as TagConn.
func (*connectionCount) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context { return ctx }

// HandleRPC is as TagConn.
func (*connectionCount) HandleRPC(context.Context, stats.RPCStats) {}
