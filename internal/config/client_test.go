package config_test

import (
	"context"
	"log/slog"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"
	"google.golang.org/grpc"
	"google.golang.org/grpc/stats"

	"burnish/internal/config"
	"burnish/internal/testkit/frontend"
)

// compressions collects how the requests of a connection were compressed.
type compressions struct {
	mu  sync.Mutex
	all []string
}

func (c *compressions) HandleRPC(_ context.Context, s stats.RPCStats) {
	if header, ok := s.(*stats.OutHeader); ok {
		c.mu.Lock()
		c.all = append(c.all, header.Compression)
		c.mu.Unlock()
	}
}

func (*compressions) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context { return ctx }

func (*compressions) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }

func (*compressions) HandleConn(context.Context, stats.ConnStats) {}

// A worker's requests are not compressed; those of a command, which may come from far, are.
func TestWorkersDoNotCompress(t *testing.T) {
	t.Setenv("TEMPORAL_ADDRESS", frontend.Serve(t, nil))
	used := func(with ...func(*client.Options)) []string {
		var seen compressions
		c, err := config.Dial(t.Context(), slog.New(slog.DiscardHandler), "", append(with, func(o *client.Options) {
			o.ConnectionOptions.DialOptions = append(o.ConnectionOptions.DialOptions, grpc.WithStatsHandler(&seen))
		})...)
		require.NoError(t, err)
		c.Close()
		seen.mu.Lock()
		defer seen.mu.Unlock()
		return seen.all
	}
	require.Equal(t, []string{"gzip", "gzip"}, used())
	require.Equal(t, []string{"", ""}, used(config.ForWorkers))
}
