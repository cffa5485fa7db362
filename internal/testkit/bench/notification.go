package main

import (
	"cmp"
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
	"burnish/internal/testkit/openstack"
	"burnish/internal/testkit/site"
	"burnish/workflows/contract"
)

// notified is one device, and Nova that allocates it, deallocates it and notifies.
type notified struct {
	*installation
	nova         openstack.Client
	producer     *messagebus.Producer
	novaHost     string
	provider, id string // the device's provider and workflow
}

// notificationLatency measures the time from Nova's instance.delete.end, sent by
// oslo.messaging through a RabbitMQ, to the start of the clean's first step on the host.
func (b *bench) notificationLatency(ctx context.Context, c *cloud) error {
	if missing := messagebus.Missing(); missing != "" {
		b.note("placement: notifications are skipped: %s", missing)
		return nil
	}
	b.progress("placement: notifications")
	dir, err := os.MkdirTemp(b.dir, "rabbit-")
	if err != nil {
		return err
	}
	broker, err := messagebus.Start(dir)
	if err != nil {
		return err
	}
	b.atEnd(broker.Stop)
	n := &notified{nova: c.nova}
	if n.producer, err = messagebus.StartProducer(dir, broker.TransportURL(), "nova", "versioned_notifications"); err != nil {
		return err
	}
	b.atEnd(n.producer.Stop)
	if n.installation, err = b.installOn(ctx, c, "notice", "BURNISH_AMQP_URL="+broker.TransportURL()); err != nil {
		return err
	}
	if err := n.prepare(ctx, c.server); err != nil {
		return err
	}
	if _, err := interleave(ctx, exactly(1), n.round(false)); err != nil { // it fills caches
		return err
	}
	idle, err := interleave(ctx, exactly(b.notifications), n.round(false))
	if err != nil {
		return err
	}
	b.note("placement: %d rounds on one device, beside %d other providers, without a reconciliation; the time runs from before oslo.messaging sends instance.delete.end, by the server's clock on this machine, to the attempt's start in the history",
		b.notifications, b.providers)
	started := idle[0]["started"]
	b.noteSlowest(idle[0], "")
	b.add(
		single("instance.delete.end to the first clean step, p95", "ms", quantile(started, 0.95)).atMost(maxFirstStep),
		single("  median", "ms", median(started)), single("  greatest", "ms", slices.Max(started)),
		single("  median until the device is signaled", "ms", median(idle[0]["signaled"])),
		single("  median until the step is scheduled", "ms", median(idle[0]["scheduled"])),
	)
	busy, err := interleave(ctx, exactly(max(1, b.notifications/4)), n.round(true))
	if err != nil {
		return err
	}
	started = busy[0]["started"]
	b.note("placement: %d more rounds in the middle of a reconciliation of %d providers", len(started), b.providers)
	b.noteSlowest(busy[0], " of those")
	b.add(single("  in the middle of a reconciliation, median", "ms", median(started)), single("  in the middle of a reconciliation, greatest", "ms", slices.Max(started)))
	return nil
}

func (b *bench) noteSlowest(s series, which string) {
	n := slices.Index(s["started"], slices.MaxFunc(s["started"], cmp.Compare))
	b.note("placement: in the slowest round%s the device was signaled after %.0f ms, the step scheduled after %.0f ms, and started after %.0f ms",
		which, s["signaled"][n], s["scheduled"][n], s["started"][n])
}

// prepare waits until the worker listens and enrolls the device.
func (n *notified) prepare(ctx context.Context, server *openstack.Server) error {
	n.novaHost = strings.ToUpper(n.Host)
	// The worker waits until Nova declares the exchange, which it does with its first message.
	if err := n.producer.Send(messagebus.Instance("instance.update", uuid.NewString(), n.novaHost)); err != nil {
		return err
	}
	if err := n.worker.Await(ctx, site.StartWithin, func(log string) bool {
		return strings.Contains(log, "listening to Nova's notifications")
	}); err != nil {
		return err
	}
	// Listening starts with a reconciliation, which is not measured.
	if _, err := n.reconcile(ctx); err != nil {
		return err
	}
	root := openstack.Row{UUID: uuid.NewString(), Name: n.novaHost, Class: "VCPU"}
	row := deviceRow(root, addressOf(0))
	if err := server.Fill(ctx, []openstack.Row{root, row}); err != nil {
		return err
	}
	n.provider = row.UUID
	var err error
	n.id, err = n.importDevice(ctx, addressOf(0))
	return err
}

// round is one binding: Nova allocates and reserves the device and deallocates it again,
// where wanted while a reconciliation runs. It measures the stages in milliseconds.
func (n *notified) round(reconciling bool) measurement {
	return func(ctx context.Context) (values, error) {
		instance := uuid.NewString()
		if err := n.nova.Allocate(ctx, n.provider, instance); err != nil {
			return nil, err
		}
		if err := errors.Join(n.nova.WriteReserved(ctx, n.provider, 1),
			n.producer.Send(messagebus.Instance("instance.create.end", instance, n.novaHost)),
			n.await(ctx, n.id, device.Allocated, turnoverWithin, pollEvery)); err != nil {
			return nil, err
		}
		if _, err := n.settled(ctx, n.id); err != nil {
			return nil, err
		}
		if err := n.nova.Deallocate(ctx, n.provider, instance); err != nil {
			return nil, err
		}
		if reconciling {
			if err := n.requestReconcile(ctx); err != nil {
				return nil, err
			}
		}
		sent := time.Now()
		if err := errors.Join(n.producer.Send(messagebus.Instance("instance.delete.end", instance, n.novaHost)), n.awaitAvailable(ctx, n.id)); err != nil {
			return nil, err
		}
		var stages values
		err := n.runs(ctx, n.id, func(events []*historypb.HistoryEvent) bool { // the run may have ended with the clean
			stages = stagesOf(events, contract.HostQueue(n.Host), sent)
			return stages != nil
		})
		if err == nil && reconciling {
			_, err = n.reconciled(ctx, 1)
		}
		return stages, err
	}
}

// stagesOf finds the first step of a clean on a host's queue after a time, and how long
// after it the device was "signaled", the step "scheduled" and its attempt "started". It is
// nil without such a step, or after a second attempt, whose history lacks the first.
func stagesOf(events []*historypb.HistoryEvent, queue string, since time.Time) values {
	stages, step := values{"signaled": 0}, int64(0)
	for _, e := range events {
		after := e.GetEventTime().AsTime().Sub(since)
		if after <= 0 {
			continue
		}
		if s := e.GetWorkflowExecutionSignaledEventAttributes(); s.GetSignalName() == contract.SignalObserved && stages["signaled"] == 0 {
			stages["signaled"] = milliseconds(after)
		}
		s := e.GetActivityTaskScheduledEventAttributes()
		if step == 0 && s.GetTaskQueue().GetName() == queue && isStep(s.GetActivityType().GetName()) {
			step, stages["scheduled"] = e.GetEventId(), milliseconds(after)
		}
		if s := e.GetActivityTaskStartedEventAttributes(); step != 0 && s.GetScheduledEventId() == step {
			if s.GetAttempt() != 1 {
				return nil
			}
			stages["started"] = milliseconds(after)
			return stages
		}
	}
	return nil
}

func isStep(activity string) bool {
	for _, s := range steps.All() {
		if s.Name == activity {
			return true
		}
	}
	return false
}
