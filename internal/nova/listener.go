// Package nova listens to Nova's versioned notifications, to learn early that a device
// may await cleaning. What it tells is a hint: it may come late, twice or never, and
// decides nothing (F6); the sweep is the net below it (S0.30).
package nova

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"burnish/internal/nova/brokers"
)

// Event is what one notification says that concerns devices.
type Event struct {
	// Type is Nova's event type, such as "instance.delete.end".
	Type string
	// Instance is the server's UUID.
	Instance string
	// Hosts are the compute hosts that it names, as Nova names them, in lower case, each
	// once: the instance's host and node, and the compute service that published it.
	Hosts []string
	// AllHosts says that it also concerns a host that it does not name: the other side
	// of a move, or all that is known where no host is named.
	AllHosts bool
	// At is Nova's time stamp in UTC; zero where it cannot be read.
	At time.Time
	// ID is the notification's message_id.
	ID string
}

// Listener reads Nova's notifications from a queue of its own. Several may share one
// queue: each message goes to one of them. Nothing that Nova or another consumer
// declared is changed, and no message is taken away from another's queue.
type Listener struct {
	// URL names the brokers, in the forms of brokers.Parse.
	URL string
	// Exchange is Nova's control_exchange; default "nova".
	Exchange string
	// Topics are routing keys; default versioned_notifications.info and .error.
	Topics []string
	// Queue is our own queue's name; default "burnish". Two installations on one broker
	// need two names.
	Queue string
	// Handle makes events durable. A message is acknowledged only after it returned nil;
	// after an error its messages come again, later. It may get an event twice.
	Handle func(context.Context, []Event) error
	// OnConnected, where it is set, is called each time that listening begins: what was told while
	// nobody listened is lost where the broker had forgotten our binding, or had no exchange
	// yet. After an error it begins anew.
	OnConnected func(context.Context) error
	// Log is where it tells what happens; default slog's.
	Log *slog.Logger

	// Prefetch is how many messages at most are in hand at once; default 64.
	Prefetch int
	// Expires is when the broker deletes the queue that nobody consumes; default 1 h.
	Expires time.Duration
	// MaxLength is how many messages the queue holds before it drops the oldest; default
	// 100,000.
	MaxLength int
	// Pause is waited after a failure, and doubles with each further one up to 30 times
	// as much; default 1 s.
	Pause time.Duration
	// HandleTimeout bounds one call of Handle; default 1 min.
	HandleTimeout time.Duration
	// Rebind is how often the bindings are renewed, for a broker that lost them without
	// losing the connection; default 1 min.
	Rebind time.Duration

	received, handled, ignored, poisoned, failed, reconnects atomic.Uint64
	connected                                                atomic.Bool
	// loggedKinds holds the kinds of poison that were logged.
	loggedKinds sync.Map
}

// Counts is what a Listener did since it was made.
type Counts struct {
	// Received counts messages delivered, each time that they are.
	Received uint64
	// Handled counts messages that Handle took.
	Handled uint64
	// Ignored counts notifications that say nothing about devices.
	Ignored uint64
	// Poison counts messages that nobody can read; they are dropped.
	Poison uint64
	// Failed counts calls of Handle that gave an error.
	Failed uint64
	// Reconnects counts connections after the first.
	Reconnects uint64
	// Connected says that messages are being consumed now.
	Connected bool
}

// Counts may be called at any time.
func (l *Listener) Counts() Counts {
	return Counts{
		Received: l.received.Load(), Handled: l.handled.Load(), Ignored: l.ignored.Load(), Poison: l.poisoned.Load(),
		Failed: l.failed.Load(), Reconnects: l.reconnects.Load(), Connected: l.connected.Load(),
	}
}

func (l *Listener) exchange() string { return cmp.Or(l.Exchange, "nova") }
func (l *Listener) queue() string    { return cmp.Or(l.Queue, "burnish") }
func (l *Listener) prefetch() int    { return cmp.Or(max(l.Prefetch, 0), 64) }
func (l *Listener) maxLength() int   { return cmp.Or(max(l.MaxLength, 0), 100_000) }

func (l *Listener) expires() time.Duration       { return cmp.Or(max(l.Expires, 0), time.Hour) }
func (l *Listener) firstPause() time.Duration    { return cmp.Or(max(l.Pause, 0), time.Second) }
func (l *Listener) handleTimeout() time.Duration { return cmp.Or(max(l.HandleTimeout, 0), time.Minute) }
func (l *Listener) rebind() time.Duration        { return cmp.Or(max(l.Rebind, 0), time.Minute) }

func (l *Listener) log() *slog.Logger { return cmp.Or(l.Log, slog.Default()) }

func (l *Listener) topics() []string {
	if len(l.Topics) == 0 {
		// Nova publishes failures (instance.create.error) under the second.
		return []string{"versioned_notifications.info", "versioned_notifications.error"}
	}
	return l.Topics
}

// Run listens until ctx ends, and returns its error. It connects again by itself, for as
// long as it takes; it gives up only on settings that can never work.
func (l *Listener) Run(ctx context.Context) error {
	all, err := brokers.Parse(l.URL)
	if err != nil {
		return fmt.Errorf("the URL of Nova's broker: %w", err)
	}
	if l.Handle == nil {
		return errors.New("nobody handles Nova's notifications")
	}
	wait := backoff{first: l.firstPause()}
	sessions := uint64(0)
	last := ""
	for i := 0; ; i++ {
		b := all[i%len(all)]
		s, err := l.open(ctx, b)
		if err == nil {
			if sessions++; sessions > 1 {
				l.reconnects.Add(1)
			}
			if err = l.onConnected(ctx); err == nil {
				l.connected.Store(true)
				l.log().Info("listening to Nova's notifications", "broker", b.String(), "queue", l.queue())
				last = ""
				since := time.Now()
				err = l.work(ctx, s)
				l.connected.Store(false)
				// Each beginning has all looked at: a broker that comes and goes must not have
				// that done all the time.
				if time.Since(since) > maxPauseFactor*l.firstPause() {
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
			l.log().Warn("Nova's notifications are not heard; the sweep goes on; trying again", "broker", b.String(), "error", err)
		}
		// All of a cluster's nodes are tried before it is given time.
		if i%len(all) == len(all)-1 {
			if err := wait.sleep(ctx, nil); err != nil {
				return err
			}
		}
	}
}

// onConnected tells that listening begins.
func (l *Listener) onConnected(ctx context.Context) error {
	if l.OnConnected == nil {
		return nil
	}
	bounded, cancel := context.WithTimeout(ctx, l.handleTimeout())
	defer cancel()
	return l.OnConnected(bounded)
}

// work takes what is delivered until the session or ctx ends.
func (l *Listener) work(ctx context.Context, s *session) error {
	// What waits already is one batch, and the library hands out one at a time: it waits
	// here. There is room for all that the broker sends before it sees an ack.
	waiting := make(chan amqp.Delivery, l.prefetch())
	done := make(chan struct{})
	defer close(done)
	go func() {
		defer close(waiting)
		for d := range s.deliveries {
			select {
			case waiting <- d:
			case <-done: // the library's goroutine must not wait for us
			}
		}
	}()
	renew := time.NewTicker(l.rebind())
	defer renew.Stop()
	wait := backoff{first: l.firstPause()}
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
					return errors.New("the broker cancelled the consumer")
				}
			}
			if err := l.batch(ctx, s, collect(d, waiting), &wait); err != nil {
				return err
			}
		}
	}
}

// collect adds what waits already to the first message.
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

// batch hands over what these messages say, and acknowledges them. Messages that Handle
// did not take go back to the queue after a pause. Nothing else is handled meanwhile:
// it would fail as well.
func (l *Listener) batch(ctx context.Context, s *session, all []amqp.Delivery, wait *backoff) error {
	var events []Event
	var carriers, empty []amqp.Delivery
	l.received.Add(uint64(len(all)))
	for _, d := range all {
		event, known, err := Parse(d.Body)
		switch {
		case err != nil:
			l.poisoned.Add(1)
			l.logPoison(err, d)
			empty = append(empty, d)
		case !known:
			l.ignored.Add(1)
			empty = append(empty, d)
		default:
			events = append(events, event)
			carriers = append(carriers, d)
		}
	}
	if len(events) > 0 {
		bounded, cancel := context.WithTimeout(ctx, l.handleTimeout())
		err := l.Handle(bounded, events)
		cancel()
		if err != nil {
			return l.requeue(ctx, s, carriers, empty, err, wait)
		}
		wait.reset()
		l.handled.Add(uint64(len(events)))
	}
	if err := all[len(all)-1].Ack(true); err != nil {
		return fmt.Errorf("acknowledge: %w", err)
	}
	return nil
}

// requeue acknowledges the empty ones, and the carriers go back to the queue.
func (l *Listener) requeue(ctx context.Context, s *session, carriers, empty []amqp.Delivery, why error, wait *backoff) error {
	if ctx.Err() != nil {
		return ctx.Err() // the broker gives them to another when we are gone
	}
	l.failed.Add(1)
	l.log().Warn("what Nova told could not be handed on; it comes again", "error", why)
	for _, d := range empty {
		if err := d.Ack(false); err != nil {
			return fmt.Errorf("acknowledge: %w", err)
		}
	}
	if err := wait.sleep(ctx, s.closed); err != nil {
		return err
	}
	// One by one: "multiple" with a tag that is settled already closes the channel.
	for _, d := range carriers {
		if err := d.Nack(false, true); err != nil {
			return fmt.Errorf("give back: %w", err)
		}
	}
	return nil
}

// logPoison logs a kind of poison once: whoever sends one sends many. What was in it stays
// unsaid, it may be a tenant's.
func (l *Listener) logPoison(err error, d amqp.Delivery) {
	if _, before := l.loggedKinds.LoadOrStore(err, true); !before {
		l.log().Warn("a message on Nova's exchange is dropped, and further ones of its kind are only counted",
			"reason", err, "routing_key", d.RoutingKey, "bytes", len(d.Body))
	}
}

// maxPauseFactor is how many times the first pause the longest is.
const maxPauseFactor = 30

// backoff are waited after failures, each twice as long as the one before.
type backoff struct {
	first, next time.Duration
}

func (p *backoff) reset() { p.next = 0 }

// sleep waits, or returns early with the reason: ctx's end, or that of a connection.
func (p *backoff) sleep(ctx context.Context, closed <-chan *amqp.Error) error {
	p.next = min(max(2*p.next, p.first), maxPauseFactor*p.first)
	// Workers that lost one broker do not come back to it all at once.
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
