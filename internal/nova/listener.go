// Package nova listens to Nova's versioned notifications, to find out early that a device
// may need cleaning. An event is a hint: it may be late, duplicate or lost, and decides
// nothing (F6); the periodic reconciliation finds what was lost (S0.30).
package nova

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"burnish/internal/nova/brokers"
)

// Event is what one notification says about devices.
type Event struct {
	// Type is Nova's event type, such as "instance.delete.end".
	Type string
	// Instance is the server's UUID.
	Instance string
	// Hosts are the compute hosts in the notification, with Nova's names in lower case:
	// the instance's host and node, and the host of the compute service that published it.
	Hosts []string
	// AllHosts says that any host may be concerned: the notification does not name the
	// other host of a move, or names none.
	AllHosts bool
}

// Listener reads Nova's notifications from its own queue. Several may share one queue:
// each message goes to one of them. It changes nothing that Nova or another consumer
// declared, and takes no message from another's queue.
type Listener struct {
	// URL names the brokers, in the forms of brokers.Parse.
	URL string
	// Exchange is Nova's control_exchange; default "nova".
	Exchange string
	// Queue is the name of our queue; default "burnish". Two installations on one broker
	// need two names.
	Queue string
	// Handle makes events durable. Messages are acknowledged only after it returns nil;
	// after an error they are delivered again later. It may get an event twice.
	Handle func(context.Context, []Event) error
	// OnConnected, if it is set, is called after each connection: earlier notifications are
	// lost if the broker had no exchange or had lost our binding. After an error the
	// Listener connects again.
	OnConnected func(context.Context) error
	// Log defaults to slog's default.
	Log *slog.Logger

	// Prefetch is the limit of unacknowledged messages; default 64. MaxLength is how many messages
	// the queue holds before it drops the oldest; default 100,000.
	Prefetch, MaxLength int
	// Expires is after how long without a consumer the broker deletes the queue; default 1 h.
	// Rebind is how often the bindings are declared again, for a broker that lost them but not the
	// connection; default 1 min. Pause is the wait after a failure; it doubles with each further
	// failure, up to 30 times; default 1 s.
	Expires, Rebind, Pause time.Duration

	// loggedKinds are the kinds of poison messages that were logged.
	loggedKinds sync.Map
}

// topics are the routing keys; Nova publishes failures (instance.create.error) with the second.
var topics = []string{"versioned_notifications.info", "versioned_notifications.error"}

// handleTimeout bounds one call of Handle or OnConnected.
const handleTimeout = time.Minute

// setDefaults gives what is not set its default.
func (l *Listener) setDefaults() {
	l.Exchange, l.Queue = cmp.Or(l.Exchange, "nova"), cmp.Or(l.Queue, "burnish")
	l.Log = cmp.Or(l.Log, slog.Default())
	l.Prefetch, l.MaxLength = cmp.Or(l.Prefetch, 64), cmp.Or(l.MaxLength, 100_000)
	l.Expires, l.Rebind = cmp.Or(l.Expires, time.Hour), cmp.Or(l.Rebind, time.Minute)
	l.Pause = cmp.Or(l.Pause, time.Second)
}

// Run listens until ctx ends, and returns its error. It reconnects without limit; it
// gives up only on invalid settings.
func (l *Listener) Run(ctx context.Context) error {
	all, err := brokers.Parse(l.URL)
	if err != nil {
		return fmt.Errorf("URL of Nova's broker: %w", err)
	}
	if l.Handle == nil {
		return errors.New("no handler for Nova's notifications")
	}
	l.setDefaults()
	wait := backoff{first: l.Pause}
	last := ""
	for i := 0; ; i++ {
		b := all[i%len(all)]
		s, err := l.open(ctx, b)
		if err == nil {
			if err = l.onConnected(ctx); err == nil {
				l.Log.Info("listening to Nova's notifications", "broker", b.String(), "queue", l.Queue)
				last = ""
				since := time.Now()
				err = l.work(ctx, s)
				// Each connection reconciles all devices: a broker that disconnects often must
				// not cause that all the time.
				if time.Since(since) > maxPauseFactor*l.Pause {
					wait.reset()
				}
			}
			err = errors.Join(err, s.close())
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if text := err.Error(); text != last {
			last = text
			l.Log.Warn("no connection to Nova's notifications; the periodic reconciliation continues; trying again", "broker",
				b.String(), "error", err)
		}
		// All nodes of a cluster are tried before a pause.
		if i%len(all) == len(all)-1 {
			if err := wait.sleep(ctx, nil); err != nil {
				return err
			}
		}
	}
}

// onConnected calls OnConnected.
func (l *Listener) onConnected(ctx context.Context) error {
	if l.OnConnected == nil {
		return nil
	}
	bounded, cancel := context.WithTimeout(ctx, handleTimeout)
	defer cancel()
	return l.OnConnected(bounded)
}

// work handles deliveries until the session or ctx ends.
func (l *Listener) work(ctx context.Context, s *session) error {
	// The library delivers one message at a time, and all that wait make one batch: they
	// are collected here. The channel has room for all unacknowledged messages.
	waiting := make(chan amqp.Delivery, l.Prefetch)
	done := make(chan struct{})
	defer close(done)
	go func() {
		defer close(waiting)
		for d := range s.deliveries {
			select {
			case waiting <- d:
			case <-done: // the library's goroutine must not block
			}
		}
	}()
	renew := time.NewTicker(l.Rebind)
	defer renew.Stop()
	wait := backoff{first: l.Pause}
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-renew.C:
			if err := l.bind(s); err != nil {
				return err
			}
		case d, ok := <-waiting:
			if !ok {
				select {
				case reason := <-s.closed:
					return connectionLost(reason)
				default:
					return errors.New("the broker canceled the consumer")
				}
			}
			if err := l.batch(ctx, s, collect(d, waiting), &wait); err != nil {
				return err
			}
		}
	}
}

// collect adds the waiting messages to the first one.
func collect(first amqp.Delivery, waiting <-chan amqp.Delivery) []amqp.Delivery {
	batch := []amqp.Delivery{first}
	for len(batch) < cap(waiting) {
		select {
		case d, ok := <-waiting:
			if !ok {
				return batch
			}
			batch = append(batch, d)
		default:
			return batch
		}
	}
	return batch
}

// batch handles the events of these messages and acknowledges them. If Handle fails, its
// messages go back to the queue after a pause. Nothing else is handled meanwhile: it
// would fail as well.
func (l *Listener) batch(ctx context.Context, s *session, all []amqp.Delivery, wait *backoff) error {
	var events []Event
	var carriers, empty []amqp.Delivery
	for _, d := range all {
		event, known, err := Parse(d.Body)
		switch {
		case err != nil:
			l.logPoison(err, d)
			empty = append(empty, d)
		case !known:
			empty = append(empty, d)
		default:
			events = append(events, event)
			carriers = append(carriers, d)
		}
	}
	if len(events) > 0 {
		bounded, cancel := context.WithTimeout(ctx, handleTimeout)
		err := l.Handle(bounded, events)
		cancel()
		if err != nil {
			return l.requeue(ctx, s, carriers, empty, err, wait)
		}
		wait.reset()
	}
	if err := all[len(all)-1].Ack(true); err != nil {
		return fmt.Errorf("acknowledge: %w", err)
	}
	return nil
}

// requeue acknowledges the messages without events, and returns the others to the queue.
func (l *Listener) requeue(ctx context.Context, s *session, carriers, empty []amqp.Delivery, why error,
	wait *backoff) error {
	if ctx.Err() != nil {
		return ctx.Err() // the broker delivers them to another consumer
	}
	l.Log.Warn("Nova's notifications could not be handled; they will be delivered again", "error", why)
	for _, d := range empty {
		if err := d.Ack(false); err != nil {
			return fmt.Errorf("acknowledge: %w", err)
		}
	}
	if err := wait.sleep(ctx, s.closed); err != nil {
		return err
	}
	// One by one: "multiple" with a tag that is already acknowledged closes the channel.
	for _, d := range carriers {
		if err := d.Nack(false, true); err != nil {
			return fmt.Errorf("requeue: %w", err)
		}
	}
	return nil
}

// logPoison logs each kind of poison message once, without its content, which may be a
// tenant's.
func (l *Listener) logPoison(err error, d amqp.Delivery) {
	if _, before := l.loggedKinds.LoadOrStore(err, true); !before {
		l.Log.Warn("an unreadable message on Nova's exchange is dropped; so are further ones of this kind, without a line",
			"reason", err, "routing_key", d.RoutingKey, "bytes", len(d.Body))
	}
}

// maxPauseFactor is the ratio of the longest pause to the first.
const maxPauseFactor = 30

// backoff is the pause after failures; each is twice as long as the one before.
type backoff struct {
	first, next time.Duration
}

func (p *backoff) reset() { p.next = 0 }

// sleep waits, or returns the error of ctx or of a closed connection.
func (p *backoff) sleep(ctx context.Context, closed <-chan *amqp.Error) error {
	p.next = min(max(2*p.next, p.first), maxPauseFactor*p.first)
	// Random, so that workers do not all reconnect to a broker at once.
	timer := time.NewTimer(p.next/2 + rand.N(p.next/2+1))
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case reason := <-closed:
		return connectionLost(reason)
	case <-timer.C:
		return nil
	}
}
