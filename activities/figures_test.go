package activities_test

import (
	"context"
	"errors"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"
	sdkclient "go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"

	"burnish/internal/device"
	"burnish/internal/telemetry"
	"burnish/internal/testkit/figures"
)

// Each attempt counts once, as what became of it.
func TestAttemptsAreCounted(t *testing.T) {
	t.Parallel()
	inBubble(t, "zero", func(t *testing.T) {
		s := newTestHost(t)
		counted, err := telemetry.New("test", "host", slog.New(slog.DiscardHandler))
		require.NoError(t, err)
		var options sdkclient.Options
		counted.Options(&options)
		in := s.input("zero")
		attempt := func(number int32, fails func(*server) error) {
			server := again(t, number)
			server.metrics = options.MetricsHandler
			s.disk.intercept(func(call string, _ int64, _ context.Context) error {
				if call == "flush" && fails != nil {
					return fails(server)
				}
				return nil
			})
			_, err := s.run(server, in)
			require.Equal(t, fails != nil, err != nil)
		}
		attempt(1, func(*server) error { return errors.New("not now") })
		attempt(2, func(*server) error { return errors.New("not now either") })
		attempt(3, nil)
		attempt(4, nil) // the answer was lost
		in.Seq, in.Clean = 2, "another"
		attempt(1, func(*server) error {
			return &device.Fault{Class: device.NeedsOperator, Code: device.CodeIO, Message: "broken"}
		})
		in.Seq, in.Clean = 3, "a third"
		attempt(1, func(s *server) error { s.end(temporal.NewCanceledError()); return nil })
		all, err := figures.Of(counted.Handler())
		require.NoError(t, err)
		require.Equal(t, figures.Figures{
			"burnish_step_attempts_total{result=retried,step=zero}":  2,
			"burnish_step_attempts_total{result=done,step=zero}":     1,
			"burnish_step_attempts_total{result=repeated,step=zero}": 1,
			"burnish_step_attempts_total{result=failed,step=zero}":   1,
			"burnish_step_attempts_total{result=stopped,step=zero}":  1,
		}, all.With("burnish_step_attempts"))
	})
}
