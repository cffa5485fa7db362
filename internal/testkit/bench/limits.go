package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/sdk/worker"

	"burnish/internal/device"
	"burnish/internal/testkit/must"
	"burnish/internal/testkit/proc"
	"burnish/workflows/client"
	"burnish/workflows/contract"
)

// minBusy is the share of its time that each slot must be busy while requests wait.
const minBusy = 0.95

// slotWork is the time of one clean, half more or less: so long that handing a slot over is no
// twentieth of it.
const slotWork = 20 * time.Second

// busy is the time of one clean, from the start of its first step to the end of its last.
type busy struct{ from, to time.Time }

// slotRun is a fleet that is cleaned through a few slots. Its servers are fakes: a step only
// takes its time.
type slotRun struct {
	mu           sync.Mutex
	cleans       map[string]*busy // by device
	running, max int              // cleans at once
}

func (r *slotRun) step(ctx context.Context, in contract.StepInput) (contract.StepResult, error) {
	name, last := in.Enrollment.Name, in.Step == "verify"
	r.mu.Lock()
	if r.cleans[name] == nil {
		r.cleans[name] = &busy{from: time.Now()}
		r.running++
		r.max = max(r.max, r.running)
	}
	r.mu.Unlock()
	timer := time.NewTimer(time.Duration(float64(slotWork) / 2 * (0.5 + rand.Float64())))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
		return contract.StepResult{}, ctx.Err()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.cleans[name].to = time.Now(); last {
		r.running--
	}
	return noStep(ctx, in)
}

// limits measures a fleet that is cleaned through a few slots.
func (b *bench) limits(ctx context.Context) {
	devices, slots := scale(b, 1000, 30), scale(b, 50, 5)
	worker.SetStickyWorkflowCacheSize(2*devices + 100)
	p := must.Get(b.place(ctx, "limits"))
	r := &slotRun{cleans: map[string]*busy{}}
	c := crew{
		queue: contract.Queue, store: must.Get(fileStore(ctx, p.Dir)), hosts: []string{p.Host},
		limits: &device.Limits{ConcurrentCleans: slots, Breaker: 3},
		steps:  map[string]any{contract.ActivityDiscover: noDiscover, "zero": r.step, "verify": r.step},
	}
	must.Get(b.start(p, c))
	must.Do(p.burnish.ChangeLimits(ctx, c.limitsChange()))
	b.progress("limits: %d devices through %d slots", devices, slots)
	name := func(i int) string { return fmt.Sprintf("node%04d", i) }
	must.Do(parallel(40, devices, func(i int) error {
		_, err := p.burnish.Do(ctx, name(i), contract.VerbEnroll,
			contract.EnrollInput{Provide: true, Enrollment: fakeDevice(name(i), p.Host)})
		return err
	}))
	enrolled := time.Now()
	within := 2*time.Minute + 4*time.Duration(devices/slots+1)*slotWork
	must.Do(proc.Await(ctx, within, time.Second, "all devices to be available", func() (bool, string) {
		found, err := p.burnish.List(ctx, client.Filter{client.ByState: client.States(device.Available)})
		return err == nil && len(found) == devices, fmt.Sprintf("%d of %d, %v", len(found), devices, err)
	}))
	polls := 0
	for i := range devices {
		polls += p.pollsInQueue(ctx, contract.WorkflowID(name(i)))
	}
	b.note("limits: %d fakes through %d slots, %s a clean, half more or less", devices, slots, slotWork)
	b.add(
		single("least time that a slot was busy", "%", 100*busyShare(r.cleans, slots, enrolled)).atLeast(100*minBusy),
		single("  most cleans at once", "", float64(r.max)).atMost(float64(slots)),
		single("  timers and activities of all devices that waited", "", float64(polls)).atMost(0),
	)
}

// busyShare is the least share of its time that a slot was busy, from when all slots were busy and
// all devices waited until the last clean got its slot: then nothing waits any more.
func busyShare(cleans map[string]*busy, slots int, enrolled time.Time) float64 {
	var all []busy
	for _, b := range cleans {
		all = append(all, *b)
	}
	slices.SortFunc(all, func(a, b busy) int { return a.from.Compare(b.from) })
	if len(all) < slots {
		return 0
	}
	from, to := later(all[slots-1].from, enrolled), all[len(all)-1].from
	free, used := make([]time.Time, slots), make([]time.Duration, slots)
	for _, b := range all {
		slot := 0 // the one that has been free for longest
		for i := range free {
			if free[i].Before(free[slot]) {
				slot = i
			}
		}
		free[slot] = b.to
		end := b.to
		if end.After(to) {
			end = to
		}
		used[slot] += max(0, end.Sub(later(b.from, from)))
	}
	return float64(slices.Min(used)) / float64(to.Sub(from))
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// pollsInQueue counts the timers and activities of a device between its request and its slot.
func (p *place) pollsInQueue(ctx context.Context, id string) (polls int) {
	events := must.Get(p.history(ctx, id, ""))
	requested := func(e *historypb.HistoryEvent) bool {
		return e.GetSignalExternalWorkflowExecutionInitiatedEventAttributes().GetSignalName() == contract.SignalSlotRequest
	}
	from := slices.IndexFunc(events, requested)
	must.Be(from >= 0, "%s never asked for a slot", id)
	for _, e := range events[from:] {
		switch e.GetEventType() {
		case enumspb.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED:
			if e.GetActivityTaskScheduledEventAttributes().GetTaskQueue().GetName() != contract.Queue {
				return polls // its first step
			}
			polls++
		case enumspb.EVENT_TYPE_TIMER_STARTED:
			polls++
		}
	}
	must.Be(false, "%s never got a slot", id)
	return polls
}
