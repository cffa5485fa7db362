package nova_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Each connection reconciles all devices: neither an OnConnected that fails nor a broker
// that disconnects often may cause that all the time.
func TestReconnectionsBackOff(t *testing.T) {
	for name, fails := range map[string]bool{"it fails": true, "the consumer is canceled": false} {
		t.Run(name, func(t *testing.T) {
			s := newTestQueue(t)
			s.novaRuns()
			var h receivedEvents
			l := s.listener(h.handle)
			ch := s.channel()
			began := make(chan time.Time, 9)
			l.OnConnected = func(context.Context) error {
				if len(began) < cap(began) {
					began <- time.Now()
				}
				if fails {
					return errors.New("Temporal is away")
				}
				_, err := ch.QueueDelete(s.queue, false, false, false)
				return err
			}
			s.run(l)
			last := <-began
			for _, least := range []time.Duration{l.Pause / 2, l.Pause, 2 * l.Pause, 4 * l.Pause} {
				now := <-began
				require.GreaterOrEqual(t, now.Sub(last), least)
				last = now
			}
			require.Empty(t, h.all())
		})
	}
}
