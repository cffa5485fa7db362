package client

import (
	"context"
	"sync/atomic"

	"google.golang.org/grpc"
	"google.golang.org/grpc/stats"
)

// WatchSending is an option of a connection: with it, a change of which nothing was sent is known
// to have no effect, and its error is no [UnconfirmedError].
func WatchSending() grpc.DialOption { return grpc.WithStatsHandler(sendings{}) }

// sendingKey is the context's key of a change's sending.
type sendingKey struct{}

// sending is what the connection saw of a change, with all its repetitions.
type sending struct{ watched, sent atomic.Bool }

func watchSending(ctx context.Context) (context.Context, *sending) {
	s := &sending{}
	return context.WithValue(ctx, sendingKey{}, s), s
}

// unconfirmed marks the error of a change that may have arrived.
func (s *sending) unconfirmed(err error) error {
	if s.watched.Load() && !s.sent.Load() {
		return err
	}
	return unconfirmed(err)
}

// sendings notes what is sent.
type sendings struct{}

// TagRPC notes that the connection is watched: it is called before there is a way to the server.
func (sendings) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context {
	if s, ok := ctx.Value(sendingKey{}).(*sending); ok {
		s.watched.Store(true)
	}
	return ctx
}

// HandleRPC notes a message on its way.
func (sendings) HandleRPC(ctx context.Context, event stats.RPCStats) {
	if _, out := event.(*stats.OutPayload); !out {
		return
	}
	if s, ok := ctx.Value(sendingKey{}).(*sending); ok {
		s.sent.Store(true)
	}
}

// TagConn adds nothing.
func (sendings) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }

// HandleConn notes nothing.
func (sendings) HandleConn(context.Context, stats.ConnStats) {}
