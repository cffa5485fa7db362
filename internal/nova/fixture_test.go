package nova_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"
	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"

	"burnish/internal/nova"
	"burnish/internal/testkit/messagebus"
	"burnish/internal/testkit/testlog"
)

// soon is how long a test waits for what must happen.
const soon = 60 * time.Second

// shared is the broker of all tests of this package; each has an exchange and a queue
// of its own.
var shared struct {
	sync.Mutex
	dir    string
	broker *messagebus.Broker
	err    error
}

func TestMain(m *testing.M) {
	if os.Getenv("BURNISH_NOVA_CRASH") != "" {
		crash()
	}
	code := m.Run()
	if shared.broker != nil {
		if err := shared.broker.Stop(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	if shared.dir != "" {
		if left := processesOf(shared.dir); len(left) > 0 {
			fmt.Fprintln(os.Stderr, "processes of the broker are left:", left)
			code = 1
		}
		if err := os.RemoveAll(shared.dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

// processesOf are the processes that have a folder in their environment, as all of a
// broker's do.
func processesOf(dir string) (left []string) {
	all, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, path := range all {
		// A process may end while it is inspected.
		if text, err := os.ReadFile(path); err == nil && bytes.Contains(text, []byte("="+dir)) {
			left = append(left, path)
		}
	}
	return left
}

func theBroker(t *testing.T) *messagebus.Broker {
	t.Helper()
	if why := messagebus.Missing(); why != "" {
		t.Skip(why)
	}
	shared.Lock()
	defer shared.Unlock()
	if shared.dir == "" {
		if shared.dir, shared.err = os.MkdirTemp("", "burnish-nova"); shared.err == nil {
			shared.broker, shared.err = messagebus.Start(shared.dir)
		}
	}
	require.NoError(t, shared.err)
	return shared.broker
}

// testQueue is an exchange and a queue of one test on the shared broker.
type testQueue struct {
	t        *testing.T
	broker   *messagebus.Broker
	exchange string
	queue    string
	log      *testlog.Log
}

func newTestQueue(t *testing.T) *testQueue {
	name := uuid.NewString()[:8]
	return &testQueue{t: t, broker: theBroker(t), exchange: "nova-" + name, queue: "burnish-" + name, log: &testlog.Log{}}
}

// novaRuns is a producer that has said something, so that its exchange is there.
func (s *testQueue) novaRuns() *messagebus.Producer {
	s.t.Helper()
	p := s.producer()
	require.NoError(s.t, p.Send(messagebus.Instance("instance.power_on.end", uuid.NewString(), "h1")))
	return p
}

func (s *testQueue) producer() *messagebus.Producer {
	s.t.Helper()
	p, err := messagebus.StartProducer(s.t.TempDir(), s.broker.TransportURL(), s.exchange, "versioned_notifications")
	require.NoError(s.t, err)
	s.t.Cleanup(func() { require.NoError(s.t, p.Stop()) })
	return p
}

// channel is a client of its own, beside listeners and producers.
func (s *testQueue) channel() *amqp.Channel {
	s.t.Helper()
	conn, err := amqp.Dial(s.broker.URL())
	require.NoError(s.t, err)
	s.t.Cleanup(func() {
		if err := conn.Close(); err != nil && !errors.Is(err, amqp.ErrClosed) {
			s.t.Error(err)
		}
	})
	ch, err := conn.Channel()
	require.NoError(s.t, err)
	return ch
}

// publish sends bodies as they are.
func (s *testQueue) publish(ch *amqp.Channel, bodies ...[]byte) {
	s.t.Helper()
	for _, one := range bodies {
		require.NoError(s.t, ch.Publish(s.exchange, "versioned_notifications.info", false, false, amqp.Publishing{Body: one}))
	}
}

func (s *testQueue) listener(handle func(context.Context, []nova.Event) error) *nova.Listener {
	return &nova.Listener{
		URL: s.broker.URL(), Exchange: s.exchange, Queue: s.queue, Handle: handle, Pause: 50 * time.Millisecond,
		Log: slog.New(slog.NewTextHandler(s.log, nil)),
	}
}

// run starts a listener, and gives back what stops it and waits for its end.
func (s *testQueue) run(l *nova.Listener) (stop func()) {
	s.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- l.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		select {
		case err := <-ended:
			require.ErrorIs(s.t, err, context.Canceled)
		case <-time.After(soon):
			s.t.Error("the listener does not end")
		}
	})
	s.t.Cleanup(stop)
	return stop
}

// listen runs a listener until it is connected.
func (s *testQueue) listen(l *nova.Listener) (stop func()) {
	s.t.Helper()
	before := s.connections()
	stop = s.run(l)
	s.connected(before + 1)
	return stop
}

// connections counts the connections of the test's listeners.
func (s *testQueue) connections() int {
	return strings.Count(s.log.String(), "listening to Nova's notifications")
}

func (s *testQueue) connected(n int) {
	s.t.Helper()
	require.Eventually(s.t, func() bool { return s.connections() >= n }, soon, 5*time.Millisecond, "log: %s", s.log)
}

// receivedEvents collects the events that a Handle received.
type receivedEvents struct {
	sync.Mutex
	batches [][]nova.Event
}

func (h *receivedEvents) handle(_ context.Context, events []nova.Event) error {
	h.Lock()
	defer h.Unlock()
	h.batches = append(h.batches, slices.Clone(events))
	return nil
}

func (h *receivedEvents) all() (all []nova.Event) {
	h.Lock()
	defer h.Unlock()
	return slices.Concat(h.batches...)
}

// of are the events about an instance.
func (h *receivedEvents) of(id string) (all []nova.Event) {
	for _, e := range h.all() {
		if e.Instance == id {
			all = append(all, e)
		}
	}
	return all
}

func (h *receivedEvents) await(t *testing.T, id string) nova.Event {
	t.Helper()
	require.Eventually(t, func() bool { return len(h.of(id)) > 0 }, soon, 5*time.Millisecond)
	return h.of(id)[0]
}

// crash is a process that dies between its Handle and the ack.
func crash() {
	l := nova.Listener{
		URL: os.Getenv("BURNISH_NOVA_CRASH"), Exchange: os.Getenv("BURNISH_NOVA_EXCHANGE"),
		Queue: os.Getenv("BURNISH_NOVA_QUEUE"),
		Handle: func(_ context.Context, events []nova.Event) error {
			fmt.Println(events[0].Instance)
			return syscall.Kill(os.Getpid(), syscall.SIGKILL)
		},
	}
	fmt.Fprintln(os.Stderr, l.Run(context.Background()))
	os.Exit(1)
}
