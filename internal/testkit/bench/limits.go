package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"sync"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/activity"
	sdkclient "go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"burnish/activities"
	"burnish/internal/clean"
	"burnish/internal/clean/steps"
	"burnish/internal/device"
	"burnish/internal/inventory/backends"
	"burnish/internal/testkit/proc"
	"burnish/workflows/client"
	"burnish/workflows/contract"
	"burnish/workflows/lifecycle"
	"burnish/workflows/limits"
)

// minBusy is the share of its time that each slot must be busy while requests wait.
const minBusy = 0.95

// slotRun is a fleet that is cleaned through a few slots. Its servers are fakes: a step only
// takes its time.
type slotRun struct {
	devices, slots int
	work           time.Duration // of one clean, half more or less

	mu     sync.Mutex
	cleans map[string]*busy // by device
	most   int              // that were cleaned at once
	// enrolled is when all devices had asked for their clean.
	enrolled time.Time
}

// busy is the time of one clean, from the start of its first step to the end of its last.
type busy struct {
	from, to time.Time
	over     bool
}

func (r *slotRun) step(ctx context.Context, in contract.StepInput) (contract.StepResult, error) {
	r.mu.Lock()
	b, ok := r.cleans[in.Enrollment.Name]
	if !ok {
		b = &busy{from: time.Now()}
		r.cleans[in.Enrollment.Name] = b
	}
	running := 0
	for _, other := range r.cleans {
		if !other.over {
			running++
		}
	}
	r.most = max(r.most, running)
	r.mu.Unlock()
	timer := time.NewTimer(time.Duration(float64(r.work) / 2 * (0.5 + rand.Float64())))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
		return contract.StepResult{}, ctx.Err()
	}
	r.mu.Lock()
	b.to, b.over = time.Now(), in.Step == "verify"
	r.mu.Unlock()
	return noopStep(ctx, in)
}

// workers registers everything, with the real inventory activities on files.
func (r *slotRun) workers(c sdkclient.Client, dir string) (control, host worker.Worker, policy contract.LimitsChange, err error) {
	policy = contract.LimitsChange{Limits: &device.Limits{ConcurrentCleans: r.slots, Breaker: 3}, TellAfter: 5 * time.Minute}
	planner, err := clean.NewPlanner(steps.All().Planning(), clean.Policy{
		Automated: true, OnEnroll: true, HostSilentAfter: 5 * time.Minute, Limits: policy.Limits, StepSettings: device.StepSettings{TellAfter: policy.TellAfter},
	})
	if err != nil {
		return nil, nil, policy, err
	}
	store, err := backends.Open(context.Background(), "file", backends.Options{Dir: filepath.Join(dir, "inventory")})
	if err != nil {
		return nil, nil, policy, err
	}
	worker.SetStickyWorkflowCacheSize(2*r.devices + 100)
	control = worker.New(c, contract.Queue, worker.Options{MaxConcurrentWorkflowTaskExecutionSize: 100})
	devices := &lifecycle.Lifecycle{Planner: planner}
	control.RegisterWorkflowWithOptions(devices.DeviceLifecycle, workflow.RegisterOptions{Name: contract.WorkflowDeviceLifecycle})
	control.RegisterWorkflowWithOptions(limits.Limits, workflow.RegisterOptions{Name: contract.WorkflowLimits})
	register(control, (&activities.Control{Store: store, Client: client.New(c)}).Activities())
	register(control, (&activities.Limits{Client: client.New(c), Policy: policy}).Activities())
	host = worker.New(c, contract.HostQueue("bench"), worker.Options{DisableWorkflowWorker: true})
	for name, do := range noops.host {
		if name == "zero" || name == "verify" {
			do = r.step
		}
		host.RegisterActivityWithOptions(do, activity.RegisterOptions{Name: name})
	}
	return control, host, policy, nil
}

// run has all devices cleaned, and returns when each is available.
func (r *slotRun) run(ctx context.Context, c sdkclient.Client, dir string) (err error) {
	r.cleans = map[string]*busy{}
	control, host, policy, err := r.workers(c, dir)
	if err != nil {
		return err
	}
	if err := errors.Join(host.Start(), control.Start()); err != nil {
		return err
	}
	defer host.Stop()
	defer control.Stop()
	devices := client.New(c)
	if err := devices.ChangeLimits(ctx, policy); err != nil {
		return err
	}
	var wait sync.WaitGroup
	failed := make(chan error, r.devices)
	atOnce := make(chan struct{}, 40)
	for i := range r.devices {
		wait.Go(func() {
			atOnce <- struct{}{}
			defer func() { <-atOnce }()
			_, err := devices.Do(ctx, r.name(i), contract.VerbEnroll, contract.EnrollInput{Provide: true, Enrollment: contract.Enrollment{
				Name: r.name(i), Host: "bench", Driver: "fake", Type: "NODE", Owner: device.OwnerSelf,
			}})
			failed <- err
		})
	}
	wait.Wait()
	close(failed)
	for err := range failed {
		if err != nil {
			return fmt.Errorf("enroll: %w", err)
		}
	}
	r.enrolled = time.Now()
	within := 2*time.Minute + 4*time.Duration(r.devices/r.slots+1)*r.work
	return proc.Await(ctx, within, time.Second, "all devices to be available", func() (bool, string) {
		found, err := devices.List(ctx, client.Filter{States: []device.State{device.Available}})
		return err == nil && len(found) == r.devices, fmt.Sprintf("%d of %d, %v", len(found), r.devices, err)
	})
}

func (r *slotRun) name(i int) string { return fmt.Sprintf("node%04d", i) }

// busyShare is the least share of its time that a slot was busy, from when all slots were
// busy and all devices waited until the last clean got its slot: then nothing waits any more.
// handOver are the times from the end of a clean to the first step of the next in its slot.
func (r *slotRun) busyShare() (share float64, handOver []time.Duration) {
	var all []busy
	for _, b := range r.cleans {
		all = append(all, *b)
	}
	slices.SortFunc(all, func(a, b busy) int { return a.from.Compare(b.from) })
	if len(all) < r.slots {
		return 0, nil
	}
	from, to := later(all[r.slots-1].from, r.enrolled), all[len(all)-1].from
	free, used := make([]time.Time, r.slots), make([]time.Duration, r.slots)
	for _, b := range all {
		slot := 0 // the one that has been free for longest
		for i := range free {
			if free[i].Before(free[slot]) {
				slot = i
			}
		}
		if !free[slot].Before(from) {
			handOver = append(handOver, b.from.Sub(free[slot]))
		}
		free[slot] = b.to
		if start, end := later(b.from, from), earlier(b.to, to); end.After(start) {
			used[slot] += end.Sub(start)
		}
	}
	return float64(slices.Min(used)) / float64(to.Sub(from)), handOver
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// queueCost counts what waiting costs one device: the timers and activities between its
// request and its slot, and all events there.
func queueCost(ctx context.Context, c sdkclient.Client, workflowID string) (events, polls int, err error) {
	history := c.GetWorkflowHistory(ctx, workflowID, "", false, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	waits := false
	for history.HasNext() {
		e, err := history.Next()
		if err != nil {
			return 0, 0, err
		}
		switch e.GetEventType() {
		case enumspb.EVENT_TYPE_SIGNAL_EXTERNAL_WORKFLOW_EXECUTION_INITIATED:
			waits = e.GetSignalExternalWorkflowExecutionInitiatedEventAttributes().GetSignalName() == contract.SignalSlotRequest
		case enumspb.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED:
			if waits && e.GetActivityTaskScheduledEventAttributes().GetTaskQueue().GetName() != contract.Queue {
				return events, polls, nil // its first step
			}
			if waits {
				polls++
			}
		case enumspb.EVENT_TYPE_TIMER_STARTED:
			if waits {
				polls++
			}
		}
		if waits {
			events++
		}
	}
	return events, polls, fmt.Errorf("%s never got a slot", workflowID)
}

// limits measures a fleet that is cleaned through a few slots.
func (b *bench) limits(ctx context.Context) error {
	r := &slotRun{devices: b.slotDevices, slots: b.slots, work: b.slotWork}
	b.progress("limits: %d devices through %d slots", r.devices, r.slots)
	dir, err := b.folder("limits")
	if err != nil {
		return err
	}
	server, err := b.server(ctx, dir)
	if err != nil {
		return err
	}
	c, err := server.Dial("default")
	if err != nil {
		return err
	}
	defer c.Close()
	began := time.Now()
	if err := r.run(ctx, c, dir); err != nil {
		return err
	}
	took := time.Since(began)
	var polls, most int
	for i := range r.devices {
		events, n, err := queueCost(ctx, c, contract.WorkflowID(r.name(i)))
		if err != nil {
			return err
		}
		polls, most = polls+n, max(most, events)
	}
	ideal := time.Duration(r.devices) * r.work / time.Duration(r.slots)
	b.note("limits: %d fakes through %d slots, %s a clean, half more or less; %.0f s from the first enrollment, %.0f s of work for each slot",
		r.devices, r.slots, r.work, took.Seconds(), ideal.Seconds())
	share, handOver := r.busyShare()
	var gaps []float64
	for _, gap := range handOver {
		gaps = append(gaps, milliseconds(gap))
	}
	b.add(
		single("limits: least time that a slot was busy", "%", 100*share).atLeast(100*minBusy),
		single("  from one clean to the next in its slot, median", "ms", median(gaps)),
		single("  from one clean to the next in its slot, p95", "ms", quantile(gaps, 0.95)),
		single("  most cleans at once", "", float64(r.most)).atMost(float64(r.slots)),
		single("  timers and activities of all devices that waited", "", float64(polls)).atMost(0),
		single("  most events of a device that waited", "", float64(most)),
	)
	return nil
}
