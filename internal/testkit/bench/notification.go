package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	historypb "go.temporal.io/api/history/v1"

	"burnish/internal/clean/steps"
	"burnish/internal/device"
	"burnish/internal/testkit/messagebus"
	"burnish/workflows/contract"
)

// notifications measures the time from Nova's instance.delete.end, as oslo.messaging
// sends it through a RabbitMQ, to the start of the first step of the clean on the host.
func (b *bench) notifications(ctx context.Context, c *cloud) (err error) {
	if why := messagebus.Missing(); why != "" {
		b.note("placement: notifications are skipped: %s", why)
		return nil
	}
	dir, err := os.MkdirTemp(b.dir, "rabbit-")
	if err != nil {
		return err
	}
	say(b.began, "placement: notifications")
	broker, err := messagebus.Start(dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, broker.Stop()) }()
	producer, err := messagebus.StartProducer(dir, broker.TransportURL(), "nova", "versioned_notifications")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, producer.Stop()) }()
	k, err := b.keeper("notice", c, "BURNISH_AMQP_URL="+broker.TransportURL())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, k.end()) }()
	n := &notices{keeper: k, cloud: c, producer: producer, name: strings.ToUpper(k.host)}
	if err := n.heard(ctx); err != nil {
		return err
	}
	// What listening begins with is no part of what is measured.
	if _, err := n.look(ctx); err != nil {
		return err
	}
	if _, err := n.rest(ctx); err != nil {
		return err
	}
	address := addressOf(0)
	n.provider = c.nova.Device(c.nova.Host(n.name), n.name, address, novasClass)
	if n.id, err = k.take(ctx, address, 1<<20); err != nil {
		return err
	}
	var all []notice
	for round := range b.clouds.rounds + 1 {
		one, err := n.round(ctx, false)
		if err != nil {
			return err
		}
		if round > 0 { // the first fills caches
			all = append(all, one)
		}
	}
	b.note("placement: %d rounds on one device, beside %d other providers; no sweep; the time runs from before oslo.messaging is told to send instance.delete.end, by the server's clock on this machine, to the attempt's start in the history",
		len(all), b.clouds.providers)
	of := func(all []notice, value func(notice) time.Duration) (values []float64) {
		for _, one := range all {
			values = append(values, float64(value(one))/float64(time.Millisecond))
		}
		return values
	}
	slowest := func(all []notice, what string) {
		n := slices.MaxFunc(all, func(a, b notice) int { return cmp.Compare(a.started, b.started) })
		b.note("placement: in the slowest round%s the device was told after %d ms, the step scheduled after %d ms, and begun after %d ms",
			what, n.told.Milliseconds(), n.scheduled.Milliseconds(), n.started.Milliseconds())
	}
	whole := of(all, func(n notice) time.Duration { return n.started })
	slowest(all, "")
	b.add(alone("instance.delete.end to the first clean step, p95", "ms", quantile(whole, 0.95)).atMost(firstStepAtMost))
	b.add(alone("  median", "ms", median(whole)))
	b.add(alone("  greatest", "ms", slices.Max(whole)))
	b.add(alone("  median until the device is told", "ms", median(of(all, func(n notice) time.Duration { return n.told }))))
	b.add(alone("  median until the step is scheduled", "ms", median(of(all, func(n notice) time.Duration { return n.scheduled }))))
	var within []notice
	for range max(1, b.clouds.rounds/4) {
		one, err := n.round(ctx, true)
		if err != nil {
			return err
		}
		within = append(within, one)
		if _, err := n.rest(ctx); err != nil {
			return err
		}
	}
	b.note("placement: %d more rounds in the middle of a sweep of %d providers", len(within), b.clouds.providers)
	slowest(within, " of those")
	beside := of(within, func(n notice) time.Duration { return n.started })
	b.add(alone("  in the middle of a sweep, median", "ms", median(beside)))
	b.add(alone("  in the middle of a sweep, greatest", "ms", slices.Max(beside)))
	return nil
}

// notices are the rounds of one device.
type notices struct {
	*keeper
	cloud              *cloud
	producer           *messagebus.Producer
	name, provider, id string // Nova's name of the host; the device's workflow
}

// heard waits until the worker listens. It waits for Nova to declare the exchange, which
// a service does when it has something to say.
func (n *notices) heard(ctx context.Context) error {
	if err := n.producer.Send(messagebus.Instance("instance.update", uuid.NewString(), n.name)); err != nil {
		return err
	}
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(startWithin); ; {
		text, err := os.ReadFile(n.worker.log)
		if err != nil {
			return err
		}
		if strings.Contains(string(text), "listening to Nova's notifications") {
			return nil
		}
		if time.Now().After(deadline) {
			return n.worker.failed(errors.New("it does not listen to Nova's notifications"))
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}

// round is one tenancy: Nova gives the device out and burns it, and takes it back; where it
// is wished, while a sweep has begun.
func (n *notices) round(ctx context.Context, sweeping bool) (notice, error) {
	instance := uuid.NewString()
	if err := n.cloud.nova.Allocate(ctx, n.provider, instance); err != nil {
		return notice{}, err
	}
	n.cloud.nova.Burn(n.provider)
	if err := n.producer.Send(messagebus.Instance("instance.create.end", instance, n.name)); err != nil {
		return notice{}, err
	}
	if err := n.await(ctx, n.id, device.Allocated); err != nil {
		return notice{}, err
	}
	if _, _, err := n.settled(ctx, n.id); err != nil {
		return notice{}, err
	}
	if err := n.cloud.nova.Deallocate(ctx, n.provider, instance); err != nil {
		return notice{}, err
	}
	if sweeping {
		if err := n.ask(ctx); err != nil {
			return notice{}, err
		}
	}
	sent := time.Now()
	if err := n.producer.Send(messagebus.Instance("instance.delete.end", instance, n.name)); err != nil {
		return notice{}, err
	}
	if err := n.awaitFree(ctx, n.id); err != nil {
		return notice{}, err
	}
	for run := ""; ; {
		events, err := n.history(ctx, n.id, run)
		if err != nil {
			return notice{}, err
		}
		if one, ok := noticeIn(events, contract.HostQueue(n.host), sent); ok {
			return one, nil
		}
		// The run may have ended with the clean.
		if run = events[0].GetWorkflowExecutionStartedEventAttributes().GetContinuedExecutionRunId(); run == "" {
			return notice{}, fmt.Errorf("%s: no step began after the notification", n.id)
		}
	}
}

// notice is what came after a notification, and how long after it.
type notice struct {
	told      time.Duration // the device was asked to look
	scheduled time.Duration // the first step of the clean was given to the host
	started   time.Duration // its attempt began there
}

// noticeIn finds the first step of a clean that was given to a host's queue after a time.
// A step that was tried again tells only its last attempt: that is none.
func noticeIn(events []*historypb.HistoryEvent, queue string, since time.Time) (n notice, ok bool) {
	var step int64
	for _, e := range events {
		after := e.GetEventTime().AsTime().Sub(since)
		if s := e.GetWorkflowExecutionSignaledEventAttributes(); s.GetSignalName() == contract.SignalObserved && after > 0 && n.told == 0 {
			n.told = after
		}
		s := e.GetActivityTaskScheduledEventAttributes()
		if step == 0 && after > 0 && s.GetTaskQueue().GetName() == queue && isStep(s.GetActivityType().GetName()) {
			step, n.scheduled = e.GetEventId(), after
		}
		if s := e.GetActivityTaskStartedEventAttributes(); step != 0 && s.GetScheduledEventId() == step {
			n.started = after
			return n, s.GetAttempt() == 1
		}
	}
	return n, false
}

func isStep(activity string) bool {
	for _, s := range steps.All() {
		if s.Name == activity {
			return true
		}
	}
	return false
}
