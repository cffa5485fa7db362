package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"go.temporal.io/sdk/activity"
	sdkclient "go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"burnish/activities"
	"burnish/internal/clean"
	"burnish/internal/clean/steps"
	"burnish/internal/device"
	"burnish/internal/inventory"
	"burnish/internal/inventory/backends"
	"burnish/internal/testkit/proc"
	"burnish/workflows/client"
	"burnish/workflows/contract"
	"burnish/workflows/instance"
	"burnish/workflows/lifecycle"
)

const (
	// instanceDevices are bound at once, by one request.
	instanceDevices = 8
	// slowInventory is the injected time of each inventory call.
	slowInventory = 250 * time.Millisecond
	// The bounds: a bind of instanceDevices compared with one of a single device.
	maxSlowBind, maxBind = 2, 6
)

// slowStore is an inventory each of whose calls takes some time.
type slowStore struct {
	inventory.Store
	delay atomic.Int64
}

func (s *slowStore) wait(ctx context.Context) {
	timer := time.NewTimer(time.Duration(s.delay.Load()))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

func (s *slowStore) Usages(ctx context.Context, id string) (inventory.Usage, error) {
	s.wait(ctx)
	return s.Store.Usages(ctx, id)
}

func (s *slowStore) Reservation(ctx context.Context, id string) (inventory.Reservation, error) {
	s.wait(ctx)
	return s.Store.Reservation(ctx, id)
}

func (s *slowStore) PutReserved(ctx context.Context, id string, generation int64, reserved int, record *device.Record) (inventory.Reservation, error) {
	s.wait(ctx)
	return s.Store.PutReserved(ctx, id, generation, reserved, record)
}

// instanceRun is a host with free devices, whose cleans take no time.
type instanceRun struct {
	devices *client.Client
	store   *slowStore
}

func (r *instanceRun) name(i int) string { return fmt.Sprintf("drive%d", i) }

// start starts the workers and enrolls the devices. The stop that it returns may always be called.
func (r *instanceRun) start(ctx context.Context, c sdkclient.Client, dir string) (stop func(), err error) {
	stop = func() {}
	planner, err := clean.NewPlanner(steps.All().Planning(), clean.Policy{
		Automated: true, OnEnroll: true, HostSilentAfter: 5 * time.Minute, StepSettings: device.StepSettings{TellAfter: 5 * time.Minute},
	})
	if err != nil {
		return stop, err
	}
	store, err := backends.Open(ctx, "file", backends.Options{Dir: filepath.Join(dir, "inventory")})
	if err != nil {
		return stop, err
	}
	r.devices, r.store = client.New(c), &slowStore{Store: store}
	control := worker.New(c, contract.Queue, worker.Options{MaxConcurrentWorkflowTaskExecutionSize: 100})
	devices := &lifecycle.Lifecycle{Planner: planner}
	control.RegisterWorkflowWithOptions(devices.DeviceLifecycle, workflow.RegisterOptions{Name: contract.WorkflowDeviceLifecycle})
	control.RegisterWorkflowWithOptions(instance.InstanceLifecycle, workflow.RegisterOptions{Name: contract.WorkflowInstance})
	register(control, (&activities.Control{Store: r.store, Client: r.devices}).Activities())
	register(control, (&activities.Instances{Client: r.devices}).Activities())
	host := worker.New(c, contract.HostQueue("bench"), worker.Options{DisableWorkflowWorker: true})
	for name, do := range noops.host {
		host.RegisterActivityWithOptions(do, activity.RegisterOptions{Name: name})
	}
	if err := errors.Join(host.Start(), control.Start()); err != nil {
		return stop, err
	}
	stop = func() { control.Stop(); host.Stop() }
	err = parallel(instanceDevices, func(i int) error {
		_, err := r.devices.Do(ctx, r.name(i), contract.VerbEnroll, contract.EnrollInput{Provide: true, Enrollment: contract.Enrollment{
			Name: r.name(i), Host: "bench", Driver: "fake", Type: "NVME", Owner: device.OwnerSelf,
		}})
		return err
	})
	return stop, errors.Join(err, r.awaitFree(ctx))
}

// awaitFree waits until all devices are available, by their workflows: a listing lags behind.
func (r *instanceRun) awaitFree(ctx context.Context) error {
	return proc.Await(ctx, 2*time.Minute, 50*time.Millisecond, "all devices to be available", func() (bool, string) {
		for i := range instanceDevices {
			v, err := r.devices.Query(ctx, r.name(i))
			if err != nil || v.DeviceState != device.Available {
				return false, fmt.Sprint(v.Name, " ", v.DeviceState, " ", err)
			}
		}
		return true, ""
	})
}

// bind measures the bind of n devices to a new instance, while each inventory call takes delay,
// and gives them back.
func (r *instanceRun) bind(n int, delay time.Duration) measurement {
	return func(ctx context.Context) (values, error) {
		in := contract.InstanceBindInput{}
		for i := range n {
			in.Devices = append(in.Devices, contract.DeviceChoice{Name: r.name(i), Tag: fmt.Sprint("role ", i)})
		}
		id := uuid.NewString()
		r.store.delay.Store(int64(delay))
		began := time.Now()
		result, err := r.devices.DoInstance(ctx, id, contract.VerbInstanceBind, in)
		took := milliseconds(time.Since(began))
		r.store.delay.Store(0)
		if err == nil && len(result.Instance.Devices) != n {
			err = fmt.Errorf("%d of %d devices are bound", len(result.Instance.Devices), n)
		}
		if err == nil {
			_, err = r.devices.DoInstance(ctx, id, contract.VerbInstanceRelease, contract.ReasonInput{})
		}
		return values{"bind": took}, errors.Join(err, r.awaitFree(ctx))
	}
}

// instances measures how long the bind of several devices takes, compared with one.
func (b *bench) instances(ctx context.Context) error {
	b.progress("instances: binds of 1 and of %d devices", instanceDevices)
	dir, err := b.folder("instances")
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
	r := &instanceRun{}
	stop, err := r.start(ctx, c, dir)
	defer stop()
	if err != nil {
		return err
	}
	if _, err := interleave(ctx, exactly(2), r.bind(instanceDevices, 0)); err != nil {
		return err
	}
	for _, m := range []struct {
		name  string
		delay time.Duration
		limit float64
	}{
		{fmt.Sprintf("bind of %d devices, %s an inventory call (baseline: 1 device)", instanceDevices, slowInventory), slowInventory, maxSlowBind},
		{fmt.Sprintf("bind of %d devices (baseline: 1 device)", instanceDevices), 0, maxBind},
	} {
		found, err := interleave(ctx, b.instanceRounds, r.bind(instanceDevices, m.delay), r.bind(1, m.delay))
		if err != nil {
			return err
		}
		all, one := found[0]["bind"], found[1]["bind"]
		b.add(compared(m.name, "ms", median(all), median(one), pairedRatio(all, one)).ratioAtMost(m.limit))
	}
	if err := b.guestReads(ctx, r); err != nil {
		return err
	}
	b.note("instances: %d rounds; devices whose hardware takes no time, on the inventory of files", b.instanceRounds.min)
	return nil
}
