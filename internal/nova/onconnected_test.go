package nova_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"burnish/internal/testkit/messagebus"
)

// Nothing is taken from the queue before it succeeds.
func TestAFailedOnConnectedIsRetried(t *testing.T) {
	s := newTestQueue(t)
	p := s.novaRuns()
	var h receivedEvents
	l := s.listener(h.handle)
	tries := 0
	l.OnConnected = func(context.Context) error {
		if tries++; tries < 3 {
			return errors.New("not now")
		}
		require.Empty(t, h.all())
		return nil
	}
	s.run(l)
	after := uuid.NewString()
	require.Eventually(t, func() bool {
		require.NoError(t, p.Send(messagebus.Instance("instance.delete.end", after, "h1")))
		return len(h.of(after)) > 0
	}, soon, 50*time.Millisecond, "log: %s", s.log)
}
