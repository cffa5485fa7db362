package nova

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"burnish/internal/nova/brokers"
)

// handshake is the timeout of the first answer of a broker.
const handshake = 10 * time.Second

// session is one connection with its channel and consumer.
type session struct {
	conn       *amqp.Connection
	ch         *amqp.Channel
	closed     chan *amqp.Error
	deliveries <-chan amqp.Delivery
}

// dial connects, until ctx ends.
func dial(ctx context.Context, b brokers.Broker) (*amqp.Connection, error) {
	config := amqp.Config{Properties: amqp.NewConnectionProperties()}
	config.Properties.SetClientConnectionName("burnish: Nova's notifications")
	settled := func() bool { return true }
	config.Dial = func(network, address string) (net.Conn, error) {
		conn, err := (&net.Dialer{Timeout: handshake}).DialContext(ctx, network, address)
		if err != nil {
			return nil, err
		}
		// The library removes the deadline when the broker has answered.
		if err := conn.SetDeadline(time.Now().Add(handshake)); err != nil {
			return nil, errors.Join(err, conn.Close())
		}
		settled = context.AfterFunc(ctx, func() { _ = conn.Close() }) // the handshake that it interrupts returns the error
		return conn, nil
	}
	conn, err := amqp.DialConfig(b.URI.String(), config)
	settled()
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", b, err)
	}
	return conn, nil
}

// open connects to a broker, waits for Nova's exchange, and declares, binds and consumes
// our queue. That also restores what a broker has lost.
func (l *Listener) open(ctx context.Context, b brokers.Broker) (*session, error) {
	conn, err := dial(ctx, b)
	if err != nil {
		return nil, err
	}
	s := &session{conn: conn, closed: conn.NotifyClose(make(chan *amqp.Error, 1))}
	// A broker that hangs must not delay the end. The call that this close interrupts
	// returns the error.
	defer context.AfterFunc(ctx, func() { _ = s.close() })()
	if err := l.consume(ctx, s); err != nil {
		return nil, errors.Join(err, s.close())
	}
	return s, nil
}

// close waits only briefly for the broker's answer.
func (s *session) close() error {
	if err := s.conn.CloseDeadline(time.Now().Add(2 * time.Second)); err != nil && !errors.Is(err, amqp.ErrClosed) {
		return fmt.Errorf("close the connection: %w", err)
	}
	return nil
}

func (l *Listener) consume(ctx context.Context, s *session) error {
	if err := l.awaitExchange(ctx, s); err != nil {
		return err
	}
	if err := l.declareQueue(s); err != nil {
		return err
	}
	if err := l.bind(s); err != nil {
		return err
	}
	if err := s.ch.Qos(l.Prefetch, 0, false); err != nil {
		return fmt.Errorf("limit the prefetch: %w", err)
	}
	var err error
	if s.deliveries, err = s.ch.Consume(l.Queue, "", false, false, false, false, nil); err != nil {
		return fmt.Errorf("consume the queue %s: %w", l.Queue, err)
	}
	return nil
}

// awaitExchange waits until Nova has declared its exchange. We never declare it: if ours
// were durable and Nova's not, or the other way round, the broker would refuse Nova's
// with 406, and Nova would drop its notifications without an error. Waiting is safe
// because Nova's services declare it when they start. Notifications from before our
// binding are lost (OnConnected), so the pauses are short.
func (l *Listener) awaitExchange(ctx context.Context, s *session) (err error) {
	logged := false
	for pause := l.Pause; ; pause = min(2*pause, 2*l.Pause) {
		if s.ch, err = s.conn.Channel(); err != nil {
			return fmt.Errorf("open a channel: %w", err)
		}
		// Passive only asks. The broker closes the channel if there is no exchange.
		err = s.ch.ExchangeDeclarePassive(l.Exchange, amqp.ExchangeTopic, false, false, false, false, nil)
		if err == nil {
			return nil
		}
		if !hasCode(err, amqp.NotFound) {
			return fmt.Errorf("find the exchange %s: %w", l.Exchange, err)
		}
		if !logged {
			logged = true
			l.Log.Info("Nova has not declared its exchange on this broker yet: waiting for it", "exchange", l.Exchange)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case reason := <-s.closed:
			return connectionLost(reason)
		case <-time.After(pause):
		}
	}
}

// declareQueue declares our queue. It is durable, because RabbitMQ 4.3 refuses queues
// that are neither durable nor exclusive. It is not exclusive, so that it keeps messages
// while we are disconnected. The broker deletes it after a time without consumers, and
// drops the oldest message when it is full, so that an abandoned queue never fills the
// broker. The periodic reconciliation finds what was dropped (S0.30).
func (l *Listener) declareQueue(s *session) error {
	_, err := s.ch.QueueDeclare(l.Queue, true, false, false, false, amqp.Table{
		"x-expires":    l.Expires.Milliseconds(),
		"x-max-length": int64(l.MaxLength),
		"x-overflow":   "drop-head",
	})
	if err == nil {
		return nil
	}
	if !hasCode(err, amqp.PreconditionFailed) {
		return fmt.Errorf("declare the queue %s: %w", l.Queue, err)
	}
	// A queue of another release, or of an operator, with other limits works as well.
	if s.ch, err = s.conn.Channel(); err != nil {
		return fmt.Errorf("open a channel: %w", err)
	}
	if _, err := s.ch.QueueDeclarePassive(l.Queue, true, false, false, false, nil); err != nil {
		return fmt.Errorf("use the queue %s, which has other settings: %w", l.Queue, err)
	}
	l.Log.Warn("the queue exists with other settings and is used unchanged", "queue", l.Queue)
	return nil
}

// bind binds our queue to Nova's notifications. It may be repeated.
func (l *Listener) bind(s *session) error {
	for _, topic := range topics {
		if err := s.ch.QueueBind(l.Queue, topic, l.Exchange, false, nil); err != nil {
			return fmt.Errorf("bind the queue %s to the exchange %s for %s: %w", l.Queue, l.Exchange, topic, err)
		}
	}
	return nil
}

func hasCode(err error, code int) bool {
	var refusal *amqp.Error
	return errors.As(err, &refusal) && refusal.Code == code
}

// connectionLost is the error of a connection that ended.
func connectionLost(reason *amqp.Error) error {
	if reason == nil {
		return errors.New("the connection to the broker ended")
	}
	return fmt.Errorf("the connection to the broker ended: %w", reason)
}
