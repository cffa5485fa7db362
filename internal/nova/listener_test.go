package nova_test

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"

	"burnish/internal/nova"
	"burnish/internal/testkit/messagebus"
	"burnish/internal/testkit/testlog"
)

// Neither the exchange nor the queue is set.
func TestDeletedInstanceIsHandled(t *testing.T) {
	s := newTestQueue(t)
	s.exchange = "nova"
	p := s.novaRuns()
	var h receivedEvents
	s.listen(&nova.Listener{URL: s.broker.TransportURL(), Handle: h.handle,
		Log: slog.New(slog.NewTextHandler(s.log, nil))})
	id := uuid.NewString()
	n := messagebus.Instance("instance.delete.end", id, "Host-1")
	require.NoError(t, p.Send(n))
	require.Equal(t, nova.Event{Type: "instance.delete.end", Instance: id, Hosts: []string{"host-1"}}, h.await(t, id))

	// Failures come under another routing key, with Nova's priority.
	failed := uuid.NewString()
	n = messagebus.Instance("instance.create.error", failed, "h2")
	n.Priority = "error"
	require.NoError(t, p.Send(n))
	require.Equal(t, "instance.create.error", h.await(t, failed).Type)
}

// Nova's notifications arrive, also in others' queues, whether Nova or Burnish connects first.
func TestNovaIsNeverRefused(t *testing.T) {
	for name, listenerFirst := range map[string]bool{"Nova first": false, "listener first": true} {
		t.Run(name, func(t *testing.T) {
			s := newTestQueue(t)
			var h receivedEvents
			l := s.listener(h.handle)
			if listenerFirst {
				s.run(l)
				require.Eventually(t, func() bool { return strings.Contains(s.log.String(), "has not declared its exchange") },
					soon, 5*time.Millisecond)
				require.Zero(t, s.connections())
			}
			p := s.novaRuns() // it fails on any warning of oslo.messaging
			if !listenerFirst {
				s.run(l)
			}
			s.connected(1)

			ch := s.channel()
			other, err := ch.QueueDeclare("", false, true, true, false, nil)
			require.NoError(t, err)
			require.NoError(t, ch.QueueBind(other.Name, "versioned_notifications.info", s.exchange, false, nil))
			// oslo.messaging declares this queue by itself.
			own, err := ch.QueueDeclarePassive("versioned_notifications.info", false, false, false, false, nil)
			require.NoError(t, err)

			const n = 20
			last := ""
			for range n {
				last = uuid.NewString()
				require.NoError(t, p.Send(messagebus.Instance("instance.delete.end", last, "h1")))
			}
			h.await(t, last)
			require.Eventually(t, func() bool {
				q, err := ch.QueueDeclarePassive(other.Name, false, true, true, false, nil)
				require.NoError(t, err)
				return q.Messages == n
			}, soon, 10*time.Millisecond)
			require.Eventually(t, func() bool {
				q, err := ch.QueueDeclarePassive(own.Name, false, false, false, false, nil)
				require.NoError(t, err)
				return q.Messages == own.Messages+n
			}, soon, 10*time.Millisecond)
			// Its exchange is as oslo.messaging makes it: this would be 406 otherwise.
			require.NoError(t, ch.ExchangeDeclare(s.exchange, "topic", false, false, false, false, nil))
			// A second service of Nova's comes later, and is not refused either.
			id := uuid.NewString()
			require.NoError(t, s.producer().Send(messagebus.Instance("instance.delete.end", id, "h2")))
			h.await(t, id)
		})
	}
}

// An operator may have set amqp_durable_queues.
func TestADurableExchangeServesToo(t *testing.T) {
	s := newTestQueue(t)
	ch := s.channel()
	require.NoError(t, ch.ExchangeDeclare(s.exchange, "topic", true, false, false, false, nil))
	var h receivedEvents
	s.listen(s.listener(h.handle))
	s.publish(ch, body(t, "instance.delete.end", "nova-compute:h1", "", messagebus.Payload(instance, "h1", "h1")))
	h.await(t, instance)
}

// The broker is killed and started again on the same disk.
func TestABrokerThatDiedForgotTheBindings(t *testing.T) {
	s := newTestQueue(t)
	p := s.novaRuns()
	var h receivedEvents
	l := s.listener(h.handle)
	began := make(chan struct{}, 9)
	l.OnConnected = func(context.Context) error { began <- struct{}{}; return nil }
	s.listen(l)
	<-began
	before := uuid.NewString()
	require.NoError(t, p.Send(messagebus.Instance("instance.delete.end", before, "h1")))
	h.await(t, before)

	require.NoError(t, s.broker.Kill())
	require.Eventually(t, func() bool { return strings.Contains(s.log.String(), "no connection to Nova's") }, soon,
		5*time.Millisecond)
	require.NoError(t, s.broker.Restart())

	// The exchange is gone too, until Nova sends a notification. Its library reconnects by
	// itself, and logs a warning.
	after := uuid.NewString()
	require.Eventually(t, func() bool {
		if err := p.Send(messagebus.Instance("instance.delete.end", after, "h1")); err != nil {
			t.Log(err)
		}
		return len(h.of(after)) > 0
	}, soon, 200*time.Millisecond, "log: %s", s.log)
	require.Equal(t, 2, s.connections())
	<-began // earlier notifications are lost
	require.Empty(t, began)
}

// They are delivered again later, not in a busy loop.
func TestFailedMessagesAreDeliveredAgain(t *testing.T) {
	s := newTestQueue(t)
	p := s.novaRuns()
	var h receivedEvents
	var calls []time.Time
	l := s.listener(nil)
	l.Handle = func(ctx context.Context, events []nova.Event) error {
		calls = append(calls, time.Now())
		if len(calls) <= 3 {
			return errors.New("Temporal is away")
		}
		return h.handle(ctx, events)
	}
	s.listen(l)
	ids := []string{uuid.NewString(), uuid.NewString(), uuid.NewString()}
	for _, id := range ids {
		// Ignored notifications between them must not be delivered again.
		require.NoError(t,
			p.Send(messagebus.Instance("instance.delete.end", id, "h1"), messagebus.Instance("instance.pause.end", id, "h1")))
	}
	for _, id := range ids {
		h.await(t, id)
	}
	require.Equal(t, 3, strings.Count(s.log.String(), "could not be handled"))
	require.Equal(t, 1, s.connections())
	require.Len(t, h.all(), 3)
	for i, least := range []time.Duration{l.Pause / 2, l.Pause, 2 * l.Pause} {
		require.GreaterOrEqual(t, calls[i+1].Sub(calls[i]), least)
	}
}

// The process is killed in its Handle.
func TestACrashBeforeTheAckLosesNothing(t *testing.T) {
	s := newTestQueue(t)
	p := s.novaRuns()
	self, err := os.Executable()
	require.NoError(t, err)
	child := exec.Command(self)
	child.Env = append(os.Environ(), "BURNISH_NOVA_CRASH="+s.broker.URL(), "BURNISH_NOVA_EXCHANGE="+s.exchange,
		"BURNISH_NOVA_QUEUE="+s.queue)
	out := &testlog.Log{}
	child.Stdout, child.Stderr = out, out
	require.NoError(t, child.Start())
	ch := s.channel()
	require.Eventually(t, func() bool {
		q, err := ch.QueueDeclarePassive(s.queue, true, false, false, false, nil)
		if err != nil {
			ch = s.channel() // the broker closes a channel that asks for a missing queue
		}
		return err == nil && q.Consumers == 1
	}, soon, 100*time.Millisecond, "%s", out)
	id := uuid.NewString()
	require.NoError(t, p.Send(messagebus.Instance("instance.delete.end", id, "h1")))
	require.ErrorContains(t, child.Wait(), "killed")
	require.Contains(t, out.String(), id)

	var h receivedEvents
	s.listen(s.listener(h.handle))
	h.await(t, id)
}

// They are handled in batches of at most Prefetch.
func TestMessagesWaitWhileDisconnected(t *testing.T) {
	s := newTestQueue(t)
	p := s.novaRuns()
	var h receivedEvents
	stop := s.listen(s.listener(h.handle))
	stop()
	const n = 100
	for range n {
		require.NoError(t, p.Send(messagebus.Instance("instance.delete.end", uuid.NewString(), "h1")))
	}
	l := s.listener(nil)
	l.Prefetch = 16
	first := make(chan struct{})
	l.Handle = func(ctx context.Context, events []nova.Event) error {
		<-first
		return h.handle(ctx, events)
	}
	s.listen(l)
	require.Never(t, func() bool { return len(h.all()) > 0 }, 200*time.Millisecond, 10*time.Millisecond)
	close(first)
	require.Eventually(t, func() bool { return len(h.all()) >= n }, soon, 5*time.Millisecond)
	seen := map[string]bool{}
	largest := 0
	for _, batch := range h.batches {
		largest = max(largest, len(batch))
		for _, e := range batch {
			seen[e.Instance] = true
		}
	}
	require.Len(t, seen, n)
	require.LessOrEqual(t, largest, 16)
	require.Greater(t, largest, 1, "waiting messages are one batch")
	require.Len(t, h.all(), n, "none was delivered twice")
}

// Each notification goes to one of them.
func TestTwoListenersShare(t *testing.T) {
	s := newTestQueue(t)
	p := s.novaRuns()
	var a, b receivedEvents
	s.listen(s.listener(a.handle))
	stopB := s.listen(s.listener(b.handle))
	const n = 60
	for range n {
		require.NoError(t, p.Send(messagebus.Instance("instance.delete.end", uuid.NewString(), "h1")))
	}
	require.Eventually(t, func() bool { return len(a.all())+len(b.all()) == n }, soon, 5*time.Millisecond)
	require.NotEmpty(t, a.all())
	require.NotEmpty(t, b.all())
	// One ends: the other gets everything.
	stopB()
	id := uuid.NewString()
	require.NoError(t, p.Send(messagebus.Instance("instance.delete.end", id, "h1")))
	a.await(t, id)
}

// Each kind is logged once; others are still handled, also of a real Notifier.
func TestPoisonAndOtherNotificationsAreDropped(t *testing.T) {
	s := newTestQueue(t)
	p := s.novaRuns()
	var h receivedEvents
	s.listen(s.listener(h.handle))
	ch := s.channel()
	kinds := poisons(t)
	for range 2 {
		for _, all := range kinds {
			s.publish(ch, all...)
		}
	}
	id := uuid.NewString()
	require.NoError(t, p.Send(
		messagebus.Instance("instance.power_off.end", id, "h1"),
		messagebus.Instance("instance.rebuild.end", id, "h1"),
		messagebus.Notification{EventType: "service.update", PublisherID: "nova-compute:h1", Payload: map[string]any{"nova_object.data": 5}},
		messagebus.Instance("instance.delete.end", id, "h1")))
	require.Equal(t, "instance.delete.end", h.await(t, id).Type)
	require.Eventually(t, func() bool { return strings.Count(s.log.String(), "is dropped") >= len(kinds) }, soon,
		5*time.Millisecond)
	require.Len(t, h.all(), 1)
	for kind := range kinds {
		require.Equal(t, 1, strings.Count(s.log.String(), kind), kind)
	}
	require.Equal(t, len(kinds), strings.Count(s.log.String(), "is dropped"))
	require.NotContains(t, s.log.String(), instance, "its content is not logged")
}

// Someone deletes Nova's exchange, and Nova declares it again.
func TestLostBindingsAreRestored(t *testing.T) {
	s := newTestQueue(t)
	s.novaRuns()
	var h receivedEvents
	l := s.listener(h.handle)
	l.Rebind = 100 * time.Millisecond
	s.listen(l)
	ch := s.channel()
	require.NoError(t, ch.ExchangeDelete(s.exchange, false, false))
	require.NoError(t, ch.ExchangeDeclare(s.exchange, "topic", false, false, false, false, nil))
	text := body(t, "instance.delete.end", "nova-compute:h1", "", messagebus.Payload(instance, "h1", "h1"))
	require.Eventually(t, func() bool {
		s.publish(ch, text)
		return len(h.of(instance)) > 0
	}, soon, 50*time.Millisecond)
}

// A queue that was deleted is declared again.
func TestAQueueThatWasDeleted(t *testing.T) {
	s := newTestQueue(t)
	p := s.novaRuns()
	var h receivedEvents
	s.listen(s.listener(h.handle))
	_, err := s.channel().QueueDelete(s.queue, false, false, false)
	require.NoError(t, err)
	s.connected(2)
	id := uuid.NewString()
	require.NoError(t, p.Send(messagebus.Instance("instance.delete.end", id, "h1")))
	h.await(t, id)
}

// The queue has a length limit, and is deleted without consumers.
func TestTheQueueIsBounded(t *testing.T) {
	s := newTestQueue(t)
	p := s.novaRuns()
	var h receivedEvents
	l := s.listener(h.handle)
	l.MaxLength = 5
	s.listen(l)()
	ids := make([]string, 12)
	for i := range ids {
		ids[i] = uuid.NewString()
		require.NoError(t, p.Send(messagebus.Instance("instance.delete.end", ids[i], "h1")))
	}
	again := s.listener(h.handle)
	again.MaxLength = l.MaxLength
	s.listen(again)
	h.await(t, ids[11])
	require.Len(t, h.all(), 5)
	require.Equal(t, ids[7], h.all()[0].Instance, "the oldest are dropped")

	abandoned := newTestQueue(t)
	abandoned.exchange = s.exchange
	l = abandoned.listener(h.handle)
	l.Expires = 500 * time.Millisecond
	abandoned.listen(l)()
	// Asking for the queue counts as a use, so wait longer than its expiry each time.
	require.Eventually(t, func() bool {
		_, err := abandoned.channel().QueueDeclarePassive(abandoned.queue, true, false, false, false, nil)
		return refused(err, amqp.NotFound)
	}, soon, 2*time.Second)
}

func refused(err error, code int) bool {
	var refusal *amqp.Error
	return errors.As(err, &refusal) && refusal.Code == code
}

// Another release of Burnish declared it.
func TestAQueueWithOtherLimitsServesToo(t *testing.T) {
	s := newTestQueue(t)
	p := s.novaRuns()
	_, err := s.channel().QueueDeclare(s.queue, true, false, false, false, nil)
	require.NoError(t, err)
	var h receivedEvents
	s.listen(s.listener(h.handle))
	id := uuid.NewString()
	require.NoError(t, p.Send(messagebus.Instance("instance.delete.end", id, "h1")))
	h.await(t, id)
	require.Contains(t, s.log.String(), "other settings")
}

// The first two do not answer, the third uses TLS.
func TestBrokersAndTLS(t *testing.T) {
	s := newTestQueue(t)
	p := s.novaRuns()
	var h receivedEvents
	l := s.listener(h.handle)
	l.URL = "amqp://guest:guest@127.0.0.1:1,guest:guest@[::1]:1/," + s.broker.TLSURL() + "?ssl_ca_file=" +
		s.broker.CAFile()
	s.listen(l)
	id := uuid.NewString()
	require.NoError(t, p.Send(messagebus.Instance("instance.delete.end", id, "h1")))
	h.await(t, id)

	// A certificate of an unknown authority is refused.
	doubting := s.listener(h.handle)
	doubting.URL = s.broker.TLSURL()
	s.run(doubting)
	require.Eventually(t, func() bool { return strings.Contains(s.log.String(), "unknown authority") }, soon,
		5*time.Millisecond)
	require.Equal(t, 1, s.connections())
}

// It may be corrected, so it is logged and tried again.
func TestWrongPassword(t *testing.T) {
	s := newTestQueue(t)
	l := s.listener(func(context.Context, []nova.Event) error { return nil })
	l.URL = strings.Replace(s.broker.URL(), "guest:guest", "burnish:mistaken", 1)
	s.run(l)
	require.Eventually(t, func() bool { return strings.Contains(s.log.String(), "403") }, soon, 5*time.Millisecond)
	require.NotContains(t, s.log.String(), "mistaken")
}

// The permissions and limits are those of docs/openstack.md.
func TestMinimalPermissions(t *testing.T) {
	s := newTestQueue(t)
	p := s.novaRuns()
	user, own := s.queue, "^"+s.queue+"$"
	require.NoError(t, s.broker.Control("add_user", user, "secret"))
	require.NoError(t, s.broker.Control("set_permissions", "-p", "/", user, own, own, "^("+s.exchange+"|"+s.queue+")$"))
	require.NoError(t, s.broker.Control("set_policy", "-p", "/", "--apply-to", "queues", "nova-notifications",
		`^versioned_notifications\.`, `{"max-length":10,"message-ttl":86400000}`))
	var h receivedEvents
	l := s.listener(h.handle)
	l.URL = strings.Replace(s.broker.TransportURL(), "guest:guest", user+":secret", 1)
	s.listen(l)
	id := ""
	for range 30 {
		id = uuid.NewString()
		require.NoError(t, p.Send(messagebus.Instance("instance.delete.end", id, "h1")))
	}
	h.await(t, id)
	require.Len(t, h.all(), 30)
	ch := s.channel()
	require.Eventually(t, func() bool {
		q, err := ch.QueueDeclarePassive("versioned_notifications.info", false, false, false, false, nil)
		require.NoError(t, err)
		return q.Messages == 10
	}, soon, 10*time.Millisecond)
	require.NoError(t, s.broker.Control("clear_policy", "-p", "/", "nova-notifications"))
}

// Invalid settings end Run at once.
func TestInvalidSettings(t *testing.T) {
	handle := func(context.Context, []nova.Event) error { return nil }
	err := (&nova.Listener{URL: "http://u:secret@h1", Handle: handle}).Run(t.Context())
	require.ErrorContains(t, err, "does not begin with amqp://")
	require.NotContains(t, err.Error(), "secret")
	require.ErrorContains(t, (&nova.Listener{URL: "amqp://127.0.0.1:1"}).Run(t.Context()), "no handler")
}

// Neither a broker that hangs nor one that does not answer delays the end.
func TestTheListenerStopsPromptly(t *testing.T) {
	s := newTestQueue(t)
	s.novaRuns()
	var called atomic.Bool
	l := s.listener(func(context.Context, []nova.Event) error { called.Store(true); return nil })
	stop := s.listen(l)
	require.NoError(t, s.broker.Freeze(true))
	defer func() { require.NoError(t, s.broker.Freeze(false)) }()
	began := time.Now()
	stop()
	require.Less(t, time.Since(began), soon/2)
	began = time.Now()
	stop = s.run(s.listener(l.Handle)) // it hangs in the handshake
	require.Never(t, called.Load, 300*time.Millisecond, 50*time.Millisecond)
	stop()
	require.Less(t, time.Since(began), soon/2)
}
