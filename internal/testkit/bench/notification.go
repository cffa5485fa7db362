package main

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	historypb "go.temporal.io/api/history/v1"

	"burnish/internal/clean/steps"
	"burnish/internal/device"
	"burnish/internal/testkit/messagebus"
	"burnish/internal/testkit/must"
	"burnish/internal/testkit/openstack"
	"burnish/internal/testkit/site"
	"burnish/workflows/contract"
)

const maxFirstStep = 1000 // milliseconds, p95

// notified is one device, and Nova that allocates it, deallocates it and notifies.
type notified struct {
	*place
	nova         openstack.Client
	producer     *messagebus.Producer
	novaHost     string
	provider, id string // the device's provider and workflow
}

// notifications measures the time from Nova's instance.delete.end, sent by oslo.messaging through a
// RabbitMQ, to the start of the clean's first step on the host.
func (b *bench) notifications(ctx context.Context, c *cloud) {
	if missing := messagebus.Missing(); missing != "" {
		b.note("placement: notifications are skipped: %s", missing)
		return
	}
	b.progress("placement: notifications")
	dir := must.Get(os.MkdirTemp(b.dir, "rabbit-"))
	broker := must.Get(messagebus.Start(dir))
	b.atEnd(broker.Stop)
	n := &notified{nova: c.nova}
	n.producer = must.Get(messagebus.StartProducer(dir, broker.TransportURL(), "nova", "versioned_notifications"))
	b.atEnd(n.producer.Stop)
	n.place = b.installationOn(ctx, c, "notice", "BURNISH_AMQP_URL="+broker.TransportURL())
	n.prepare(ctx, c.server)
	got := warm(ctx, 1, scale(b, 40, 5), n.round)
	b.add(single("instance.delete.end to the first clean step, p95", "ms",
		quantile(got[0][took], 0.95)).atMost(maxFirstStep))
}

// prepare waits until the worker listens and enrolls the device.
func (n *notified) prepare(ctx context.Context, server *openstack.Server) {
	n.novaHost = strings.ToUpper(n.Host)
	// The worker waits until Nova declares the exchange, which it does with its first message.
	must.Do(n.producer.Send(messagebus.Instance("instance.update", uuid.NewString(), n.novaHost)))
	must.Do(n.worker.Await(ctx, site.StartWithin, func(log string) bool {
		return strings.Contains(log, "listening to Nova's notifications")
	}))
	// Listening starts with a reconciliation, which is not measured.
	n.reconcile(ctx)
	root := openstack.Row{UUID: uuid.NewString(), Name: n.novaHost, Class: "VCPU"}
	row := deviceRow(root, addressOf(0))
	must.Do(server.Fill(ctx, []openstack.Row{root, row}))
	n.provider, n.id = row.UUID, n.importDevice(ctx, addressOf(0))
}

// round is one binding: Nova allocates and reserves the device and deallocates it again. It measures
// the milliseconds from then to the first step.
func (n *notified) round(ctx context.Context) (values, error) {
	instance := uuid.NewString()
	must.Do(n.nova.Allocate(ctx, n.provider, instance))
	must.Do(errors.Join(n.nova.WriteReserved(ctx, n.provider, 1),
		n.producer.Send(messagebus.Instance("instance.create.end", instance, n.novaHost)),
		n.await(ctx, n.id, device.Allocated)))
	must.Get(n.settled(ctx, n.id))
	must.Do(n.nova.Deallocate(ctx, n.provider, instance))
	sent := time.Now()
	must.Do(errors.Join(n.producer.Send(messagebus.Instance("instance.delete.end", instance, n.novaHost)),
		n.await(ctx, n.id, device.Available)))
	var first time.Duration
	// The run may have ended with the clean.
	found := must.Get(n.runs(ctx, n.id, func(events []*historypb.HistoryEvent) bool {
		first = firstStep(events, contract.HostQueue(n.Host), sent)
		return first > 0
	}))
	must.Be(found, "no run of %s has a step after its notification", n.id)
	return values{took: milliseconds(first)}, nil
}

// firstStep finds the first step of a clean on a host's queue after a time, and how long after it its
// attempt started. It is 0 without such a step, or after a second attempt, whose history lacks the
// first.
func firstStep(events []*historypb.HistoryEvent, queue string, since time.Time) time.Duration {
	step := int64(0)
	for _, e := range events {
		after := e.GetEventTime().AsTime().Sub(since)
		if after <= 0 {
			continue
		}
		s := e.GetActivityTaskScheduledEventAttributes()
		isStep := slices.ContainsFunc(steps.All(),
			func(one steps.Step) bool { return one.Name == s.GetActivityType().GetName() })
		if step == 0 && isStep && s.GetTaskQueue().GetName() == queue {
			step = e.GetEventId()
		}
		if s := e.GetActivityTaskStartedEventAttributes(); step != 0 && s.GetScheduledEventId() == step {
			if s.GetAttempt() != 1 {
				return 0
			}
			return after
		}
	}
	return 0
}
