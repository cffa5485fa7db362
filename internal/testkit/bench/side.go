package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/google/uuid"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"

	"burnish/internal/device"
	"burnish/workflows/contract"
)

const (
	// deviceSize is a simulated device's: so small that its erasure takes no time.
	deviceSize = 4096
	// askEvery is the pause between two questions whether a device is available.
	askEvery = time.Millisecond
	// cycleWithin bounds one wait, so that a lost device ends the program.
	cycleWithin = 2 * time.Minute
)

// side is one of those that are compared: a workflow with its activities, in a
// worker process.
type side struct {
	name    string
	product bool
	// least is the baseline without search attributes and continue-as-new.
	least   bool
	queue   string
	host    string
	client  client.Client
	workers *workers
	// placement is the URL of the inventory; a file's where it is empty. Its devices are
	// files in the folder files then.
	placement, files string
}

// lap is one turnover as its client saw it.
type lap struct {
	bind  time.Duration // until the bind was answered
	whole time.Duration // until the device was available again
}

func (s *side) enrolment(name string) contract.Enrollment {
	e := contract.Enrollment{
		Name: name, Host: s.host, Driver: "fake", Type: "BENCH", Owner: device.OwnerSelf,
		Settings: map[string]string{"size": fmt.Sprint(deviceSize)},
	}
	if s.placement != "" {
		e.Driver, e.Settings = "block", map[string]string{"path": filepath.Join(s.files, name)}
	}
	return e
}

// enroll makes a device of this side and waits until it is available.
func (s *side) enroll(ctx context.Context, name string) (id string, err error) {
	name = s.name + "-" + name
	if s.placement != "" {
		if err := os.WriteFile(filepath.Join(s.files, name), make([]byte, deviceSize), 0o600); err != nil {
			return "", err
		}
	}
	options := contract.StartOptions(name)
	options.TaskQueue = s.queue
	if !s.product {
		_, err := s.client.ExecuteWorkflow(ctx, options, entityWorkflow, entity{Enrolment: s.enrolment(name), Queue: s.queue, Least: s.least})
		if err != nil {
			return "", err
		}
		return options.ID, s.awaitFree(ctx, options.ID)
	}
	if _, err := s.client.ExecuteWorkflow(ctx, options, contract.WorkflowDeviceLifecycle, contract.DeviceInput{Name: name}); err != nil {
		return "", err
	}
	in := contract.EnrollInput{Enrollment: s.enrolment(name), Provide: true}
	if err := s.update(ctx, options.ID, contract.UpdateEnroll, in); err != nil {
		return "", err
	}
	return options.ID, s.awaitFree(ctx, options.ID)
}

// update sends an update and waits for its answer.
func (s *side) update(ctx context.Context, id, name string, in any) error {
	handle, err := s.client.UpdateWorkflow(ctx, client.UpdateWorkflowOptions{
		WorkflowID: id, UpdateName: name, Args: []any{in}, WaitForStage: client.WorkflowUpdateStageCompleted,
	})
	if err == nil {
		err = handle.Get(ctx, nil)
	}
	if err != nil {
		return fmt.Errorf("%s %s: %w", name, id, err)
	}
	return nil
}

// bind gives the device to a new instance.
func (s *side) bind(ctx context.Context, id string) (instance string, err error) {
	instance = uuid.NewString()
	return instance, s.update(ctx, id, contract.UpdateBind, contract.BindInput{Instance: instance, Request: uuid.NewString()})
}

// unbind ends the tenancy and waits until the device is available again.
func (s *side) unbind(ctx context.Context, id, instance string) error {
	released := s.workers.release(id)
	select {
	case <-released: // of an earlier wait
	default:
	}
	if err := s.update(ctx, id, contract.UpdateUnbind, contract.UnbindInput{Instance: instance}); err != nil {
		return err
	}
	// While the clean runs nothing is asked, so that neither side is disturbed; the
	// worker tells when the last activity is done.
	select {
	case <-released:
	case <-s.workers.ended:
		return s.workers.failed(errors.New("it ended"))
	case <-time.After(cycleWithin):
		return fmt.Errorf("%s was not given back within %s", id, cycleWithin)
	case <-ctx.Done():
		return ctx.Err()
	}
	return s.awaitFree(ctx, id)
}

// cycle is bind, unbind, available.
func (s *side) cycle(ctx context.Context, id string) (lap, error) {
	began := time.Now()
	instance, err := s.bind(ctx, id)
	if err != nil {
		return lap{}, err
	}
	l := lap{bind: time.Since(began)}
	if err := s.unbind(ctx, id, instance); err != nil {
		return lap{}, err
	}
	l.whole = time.Since(began)
	return l, nil
}

// awaitFree asks the server, not the worker, until the device is available.
func (s *side) awaitFree(ctx context.Context, id string) error {
	return s.await(ctx, id, device.Available)
}

// await asks the server, not the worker, until the device is in a state.
func (s *side) await(ctx context.Context, id string, state device.State) error {
	for deadline := time.Now().Add(cycleWithin); ; {
		d, err := s.client.DescribeWorkflowExecution(ctx, id, "")
		if err != nil {
			return err
		}
		there, err := s.isIn(d, state)
		if there || err != nil {
			return err
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%s did not become %s within %s", id, state, cycleWithin)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(askEvery):
		}
	}
}

func (s *side) isIn(d *workflowservice.DescribeWorkflowExecutionResponse, wanted device.State) (bool, error) {
	info := d.GetWorkflowExecutionInfo()
	if status := info.GetStatus(); status != enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING {
		return false, fmt.Errorf("%s is %s", info.GetExecution().GetWorkflowId(), status)
	}
	if s.least {
		// Without search attributes: nothing is under way any more.
		return len(d.GetPendingActivities()) == 0 && d.GetPendingWorkflowTask() == nil && info.GetHistoryLength() > 3, nil
	}
	p := info.GetSearchAttributes().GetIndexedFields()[contract.AttrState.GetName()]
	if p == nil {
		return false, nil
	}
	var state device.State
	if err := converter.GetDefaultDataConverter().FromPayload(p, &state); err != nil {
		return false, err
	}
	if state == device.Error {
		return false, fmt.Errorf("%s is in error", info.GetExecution().GetWorkflowId())
	}
	return state == wanted, nil
}
