package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/google/uuid"
	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	sdkclient "go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"golang.org/x/time/rate"

	"burnish/internal/device"
	"burnish/internal/testkit/proc"
	"burnish/internal/testkit/site"
	"burnish/workflows/client"
	"burnish/workflows/contract"
)

const (
	// deviceSize is that of a simulated device: erasing it takes no time.
	deviceSize = 4096
	// pollEvery is the pause between two polls for a device's state.
	pollEvery = time.Millisecond
	// turnoverWithin bounds one wait for a device of a variant.
	turnoverWithin = 2 * time.Minute
)

// devices are those of one server. Their state is read from the server, not from the worker.
type devices struct {
	client sdkclient.Client
	// bare: without search attributes and continue-as-new.
	bare bool
	// polls bounds the questions of all that wait for a state. Nil: no bound.
	polls *rate.Limiter
}

// update sends an update and waits for its result.
func (d devices) update(ctx context.Context, id, name string, in any) error {
	handle, err := d.client.UpdateWorkflow(ctx, sdkclient.UpdateWorkflowOptions{
		WorkflowID: id, UpdateName: name, Args: []any{in}, WaitForStage: sdkclient.WorkflowUpdateStageCompleted,
	})
	if err == nil {
		err = handle.Get(ctx, nil)
	}
	if err != nil {
		return fmt.Errorf("%s %s: %w", name, id, err)
	}
	return nil
}

// bind binds the device to a new instance.
func (d devices) bind(ctx context.Context, id string) (instance string, err error) {
	instance = uuid.NewString()
	return instance, d.update(ctx, id, contract.VerbBind.Update(), contract.BindInput{Instance: instance, Request: uuid.NewString()})
}

func (d devices) unbind(ctx context.Context, id, instance string) error {
	return d.update(ctx, id, contract.VerbUnbind.Update(), contract.UnbindInput{Instance: instance})
}

// await waits until the device is in a state.
func (d devices) await(ctx context.Context, id string, state device.State, within, every time.Duration) error {
	var failed error
	err := proc.Await(ctx, within, every, id+" to be "+string(state), func() (bool, string) {
		if d.polls != nil {
			if failed = d.polls.Wait(ctx); failed != nil {
				return true, ""
			}
		}
		description, err := d.client.DescribeWorkflowExecution(ctx, id, "")
		if err != nil {
			failed = err
			return true, ""
		}
		var now device.State
		now, failed = d.stateOf(description)
		return now == state || failed != nil, string(now)
	})
	return errors.Join(err, failed)
}

func (d devices) awaitAvailable(ctx context.Context, id string) error {
	return d.await(ctx, id, device.Available, turnoverWithin, pollEvery)
}

// stateOf reads the state from the search attributes. Without them a device with nothing
// pending is available.
func (d devices) stateOf(description *workflowservice.DescribeWorkflowExecutionResponse) (state device.State, err error) {
	info := description.GetWorkflowExecutionInfo()
	id := info.GetExecution().GetWorkflowId()
	if status := info.GetStatus(); status != enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING {
		return "", fmt.Errorf("%s is %s", id, status)
	}
	if d.bare {
		if len(description.GetPendingActivities()) == 0 && description.GetPendingWorkflowTask() == nil && info.GetHistoryLength() > 3 {
			state = device.Available
		}
		return state, nil
	}
	return stateIn(info)
}

// stateIn is the state in a device's search attributes, "" before it has one.
func stateIn(info *workflowpb.WorkflowExecutionInfo) (state device.State, err error) {
	payload := info.GetSearchAttributes().GetIndexedFields()[contract.AttrState.GetName()]
	if payload == nil {
		return "", nil
	}
	if err := converter.GetDefaultDataConverter().FromPayload(payload, &state); err != nil {
		return "", err
	}
	if state == device.Error {
		return "", fmt.Errorf("%s is in state error", info.GetExecution().GetWorkflowId())
	}
	return state, nil
}

// history reads one run, "" for the present one.
func (d devices) history(ctx context.Context, id, run string) ([]*historypb.HistoryEvent, error) {
	var events []*historypb.HistoryEvent
	for pages := d.client.GetWorkflowHistory(ctx, id, run, false, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT); pages.HasNext(); {
		e, err := pages.Next()
		if err != nil {
			return nil, err
		}
		events = append(events, e)
	}
	return events, nil
}

// runs yields the histories of a device, the present run first.
func (d devices) runs(ctx context.Context, id string, yield func([]*historypb.HistoryEvent) bool) error {
	for run := ""; ; {
		events, err := d.history(ctx, id, run)
		if err != nil || yield(events) {
			return err
		}
		if run = events[0].GetWorkflowExecutionStartedEventAttributes().GetContinuedExecutionRunId(); run == "" {
			return fmt.Errorf("%s: no run has what is looked for", id)
		}
	}
}

// position is the end of a history.
type position struct {
	run    string
	length int64
}

// settled waits until the history has not grown for a while, with nothing pending.
func (d devices) settled(ctx context.Context, id string) (at position, err error) {
	const quiet = 100 * time.Millisecond
	var failed error
	err = proc.Await(ctx, turnoverWithin, quiet, id+" to be idle", func() (bool, string) {
		description, err := d.client.DescribeWorkflowExecution(ctx, id, "")
		if failed = err; err != nil {
			return true, ""
		}
		info, before := description.GetWorkflowExecutionInfo(), at
		at = position{info.GetExecution().GetRunId(), info.GetHistoryLength()}
		return at == before && description.GetPendingWorkflowTask() == nil && len(description.GetPendingActivities()) == 0, fmt.Sprint(at)
	})
	return at, errors.Join(err, failed)
}

// variant is one of the workflows that are compared, with its activities in a worker process.
type variant struct {
	devices
	task
	name   string
	worker *workerProcess
	// program is another build of this program that runs the worker; "" means this one.
	program string
	files   string // the folder of its devices where they are files
}

// startVariant gives a variant its client and its worker process.
func (b *bench) startVariant(ctx context.Context, v *variant) (err error) {
	if v.Dir, err = b.folder(v.name); err != nil {
		return err
	}
	if v.Placement != "" {
		if v.files, err = b.folder(v.name, "files"); err != nil {
			return err
		}
	}
	if b.profiles != "" && v.CPUProfile == "" && v.HeapProfile == "" {
		v.CPUProfile = filepath.Join(b.profiles, v.name+".cpu")
		v.AllocProfile = filepath.Join(b.profiles, v.name+".allocs")
	}
	if v.worker, err = startWorkerProcess(ctx, v.name, v.program, b.dir, v.task); err != nil {
		return err
	}
	b.atEnd(v.worker.stop)
	if v.client, err = (&site.Server{Address: v.Address}).Dial(cmp.Or(v.Namespace, site.DefaultNamespace)); err != nil {
		return err
	}
	b.atEnd(func() error { v.client.Close(); return nil })
	return nil
}

func (v *variant) enrollment(name string) contract.Enrollment {
	e := contract.Enrollment{
		Name: name, Host: v.Host, Driver: "fake", Type: "BENCH", Owner: device.OwnerSelf,
		Settings: map[string]string{"size": fmt.Sprint(deviceSize)},
	}
	if v.files != "" {
		e.Driver, e.Settings = "block", map[string]string{"path": filepath.Join(v.files, name)}
	}
	return e
}

// enroll creates a device and waits until it is available.
func (v *variant) enroll(ctx context.Context, name string) (id string, err error) {
	name = v.name + "-" + name
	if v.files != "" {
		if err := os.WriteFile(filepath.Join(v.files, name), make([]byte, deviceSize), 0o600); err != nil {
			return "", err
		}
	}
	options := client.DeviceStart(v.enrollment(name), contract.Hardware{})
	options.TaskQueue = v.Queue
	if v.Product {
		_, err = v.client.ExecuteWorkflow(ctx, options, contract.WorkflowDeviceLifecycle, contract.DeviceInput{Name: name})
		if err == nil {
			err = v.update(ctx, options.ID, contract.VerbEnroll.Update(), contract.EnrollInput{Enrollment: v.enrollment(name), Provide: true})
		}
	} else {
		_, err = v.client.ExecuteWorkflow(ctx, options, entityWorkflow, entity{Enrollment: v.enrollment(name), Queue: v.Queue, Bare: v.bare})
	}
	if err != nil {
		return "", err
	}
	return options.ID, v.awaitAvailable(ctx, options.ID)
}

// unbindAndClean ends the binding and waits until the device is available again.
func (v *variant) unbindAndClean(ctx context.Context, id, instance string) error {
	released := v.worker.released(id)
	select {
	case <-released: // an earlier clean
	default:
	}
	if err := v.unbind(ctx, id, instance); err != nil {
		return err
	}
	// During the clean the server is not polled, so that no variant is disturbed: the worker
	// reports when the last activity has ended.
	select {
	case <-released:
	case <-v.worker.Done():
		return fmt.Errorf("%s ended: %s", v.worker.Name, v.worker.Tail())
	case <-time.After(turnoverWithin):
		return fmt.Errorf("%s was not released within %s", id, turnoverWithin)
	case <-ctx.Done():
		return ctx.Err()
	}
	return v.awaitAvailable(ctx, id)
}

// turnover is bind, unbind, available. It measures "bind", until the bind was answered, and
// "turnover", until the device was available again, both in milliseconds.
func (v *variant) turnover(id string) measurement {
	return func(ctx context.Context) (values, error) {
		began := time.Now()
		instance, err := v.bind(ctx, id)
		if err != nil {
			return nil, err
		}
		bound := time.Since(began)
		if err := v.unbindAndClean(ctx, id, instance); err != nil {
			return nil, err
		}
		return values{"bind": milliseconds(bound), "turnover": milliseconds(time.Since(began))}, nil
	}
}
