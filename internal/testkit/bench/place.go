package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/google/uuid"
	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	workflowpb "go.temporal.io/api/workflow/v1"
	sdkclient "go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"golang.org/x/time/rate"

	"burnish/internal/device"
	"burnish/internal/testkit/must"
	"burnish/internal/testkit/proc"
	"burnish/internal/testkit/site"
	"burnish/workflows/client"
	"burnish/workflows/contract"
)

// turnoverWithin bounds one wait.
const turnoverWithin = 10 * time.Minute

// place is a real server with a database of its own, and the devices on it.
type place struct {
	*site.Site
	sdk     sdkclient.Client
	burnish *client.Client
	worker  *site.Worker // a real one, of those places that have one
	ends    signals      // of the activities that a crew signals, if one does
	// pollEvery is the pause between two polls for the state of a device; polls bounds those of all
	// together: the questions of many that wait would take the server's processors.
	pollEvery time.Duration
	polls     *rate.Limiter
}

// place starts a server until the end of the part.
func (b *bench) place(ctx context.Context, name string) (*place, error) {
	dir, err := b.folder(name)
	if err != nil {
		return nil, err
	}
	server := &site.Server{Program: b.programs.Server, Dir: dir}
	if err := server.Start(ctx); err != nil {
		return nil, err
	}
	b.atEnd(func() error { return server.Process.Stop() })
	return b.placeOn(server, site.DefaultNamespace, name)
}

// placeOn is a namespace of a server that runs.
func (b *bench) placeOn(server *site.Server, namespace, name string) (*place, error) {
	dir, err := b.folder(name)
	if err != nil {
		return nil, err
	}
	p := &place{pollEvery: time.Millisecond, polls: rate.NewLimiter(rate.Inf, 1)}
	if p.Site, err = site.New(b.programs, server, namespace, fmt.Sprintf("bench-%d-%s", os.Getpid(), name),
		dir); err != nil {
		return nil, err
	}
	if p.sdk, err = server.Dial(namespace); err != nil {
		return nil, err
	}
	p.burnish = client.New(p.sdk)
	b.atEnd(func() error { p.sdk.Close(); return nil })
	return p, nil
}

// noSweep leaves out the rounds that ask each device which has no provider to look again: those that are
// only listed have none.
const noSweep = "BURNISH_SWEEP_INTERVAL=0"

// installation is a place with a real worker in role all.
func (b *bench) installation(ctx context.Context, name string, env ...string) (*place, error) {
	p, err := b.place(ctx, name)
	if err != nil {
		return nil, err
	}
	p.worker = p.Worker("all", env...)
	if err := p.worker.Start(ctx); err != nil {
		return nil, err
	}
	b.atEnd(func() error { return p.worker.Process.Stop() })
	return p, nil
}

// update sends an update and waits for its result.
func (p *place) update(ctx context.Context, id, name string, in any) error {
	handle, err := p.sdk.UpdateWorkflow(ctx, sdkclient.UpdateWorkflowOptions{
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
func (p *place) bind(ctx context.Context, id string) (instance string, err error) {
	instance = uuid.NewString()
	return instance, p.update(ctx, id, contract.VerbBind.Update(),
		contract.BindInput{Instance: instance, Request: uuid.NewString()})
}

func (p *place) unbind(ctx context.Context, id, instance string) error {
	return p.update(ctx, id, contract.VerbUnbind.Update(), contract.UnbindInput{Instance: instance})
}

// enroll enrolls a device and waits until it is available.
func (p *place) enroll(ctx context.Context, in contract.EnrollInput) (id string, err error) {
	id = contract.WorkflowID(in.Enrollment.Name)
	if _, err := p.burnish.Do(ctx, in.Enrollment.Name, contract.VerbEnroll, in); err != nil {
		return id, fmt.Errorf("enroll %s: %w", in.Enrollment.Name, err)
	}
	return id, p.await(ctx, id, device.Available)
}

// fakeDevice is a simulated device of a host: erasing it takes no time.
func fakeDevice(name, host string) contract.Enrollment {
	return contract.Enrollment{
		Name: name, Host: host, Driver: "fake", Type: "BENCH", Owner: device.OwnerSelf,
		Settings: map[string]string{"size": "4096"},
	}
}

// enrollFake enrolls a simulated device of the place's host.
func (p *place) enrollFake(ctx context.Context, name string) (id string, err error) {
	return p.enroll(ctx, contract.EnrollInput{Enrollment: fakeDevice(name, p.Host), Provide: true})
}

// await waits until the device is in a state, by the server alone.
func (p *place) await(ctx context.Context, id string, state device.State) error {
	return awaitNoError(ctx, p.pollEvery, id+" to be "+string(state), func() (bool, string, error) {
		now, err := p.state(ctx, id)
		return now == state, string(now), err
	})
}

// awaitNoError waits until a condition holds. An error of it ends the wait.
func awaitNoError(ctx context.Context, every time.Duration, what string,
	condition func() (done bool, state string, err error)) error {
	var failed error
	err := proc.Await(ctx, turnoverWithin, every, what, func() (bool, string) {
		done, state, err := condition()
		failed = err
		return done || err != nil, state
	})
	if failed != nil {
		return failed
	}
	return err
}

func (p *place) state(ctx context.Context, id string) (device.State, error) {
	if err := p.polls.Wait(ctx); err != nil {
		return "", err
	}
	description, err := p.sdk.DescribeWorkflowExecution(ctx, id, "")
	if err != nil {
		return "", err
	}
	return stateIn(description.GetWorkflowExecutionInfo())
}

// stateIn is the state in a device's search attributes, "" before it has one.
func stateIn(info *workflowpb.WorkflowExecutionInfo) (state device.State, err error) {
	id := info.GetExecution().GetWorkflowId()
	if status := info.GetStatus(); status != enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING {
		return "", fmt.Errorf("%s is %s", id, status)
	}
	payload := info.GetSearchAttributes().GetIndexedFields()[contract.AttrState.GetName()]
	if payload == nil {
		return "", nil
	}
	if err := converter.GetDefaultDataConverter().FromPayload(payload, &state); err != nil {
		return "", err
	}
	if state == device.Error {
		return "", fmt.Errorf("%s is in state error", id)
	}
	return state, nil
}

// unbindAndClean ends the binding and waits until the device is available again. Where a crew signals
// the end of the clean, the server is not polled until then, so that nothing is disturbed.
func (p *place) unbindAndClean(ctx context.Context, id, instance string) error {
	ended := p.ends.of(id)
	select {
	case <-ended: // an earlier clean
	default:
	}
	if err := p.unbind(ctx, id, instance); err != nil {
		return err
	}
	if p.ends.expected {
		select {
		case <-ended:
		case <-time.After(turnoverWithin):
			return fmt.Errorf("%s was not cleaned within %s", id, turnoverWithin)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return p.await(ctx, id, device.Available)
}

// turnover is bind, unbind, clean, available. It measures "bind", until the bind was answered, and
// "turnover", until the device was available again, both in milliseconds.
func (p *place) turnover(id string) measurement {
	return func(ctx context.Context) (values, error) {
		began := time.Now()
		instance, err := p.bind(ctx, id)
		if err != nil {
			return nil, err
		}
		bound := time.Since(began)
		err = p.unbindAndClean(ctx, id, instance)
		return values{"bind": milliseconds(bound), "turnover": milliseconds(time.Since(began))}, err
	}
}

// binds are the times of so many binds, one turnover after the other.
func (p *place) binds(ctx context.Context, id string, times int) []float64 {
	return must.Get(interleave(ctx, times, p.turnover(id)))[0]["bind"]
}

// cleaned is the clean of a turnover of the real worker.
func (p *place) cleaned(ctx context.Context, id string) contract.CleanSummary {
	must.Get(p.turnover(id)(ctx))
	v := must.Get(p.burnish.Query(ctx, strings.TrimPrefix(id, contract.WorkflowID(""))))
	return v.Cleans[len(v.Cleans)-1]
}

// runTime is the running time of a step of a clean.
func runTime(clean contract.CleanSummary, step string) time.Duration {
	for _, s := range clean.Steps {
		if s.Step == step {
			return s.RunTime
		}
	}
	return 0
}

// history reads one run, "" for the present one.
func (p *place) history(ctx context.Context, id, run string) ([]*historypb.HistoryEvent, error) {
	var events []*historypb.HistoryEvent
	pages := p.sdk.GetWorkflowHistory(ctx, id, run, false, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	for pages.HasNext() {
		e, err := pages.Next()
		if err != nil {
			return nil, err
		}
		events = append(events, e)
	}
	return events, nil
}

// runs yields the histories of a workflow, the present run first, until one is what is looked for.
func (p *place) runs(ctx context.Context, id string, yield func([]*historypb.HistoryEvent) (found bool)) (found bool,
	err error) {
	for run := ""; ; {
		events, err := p.history(ctx, id, run)
		if err != nil || yield(events) {
			return true, err
		}
		if run = started(events).GetContinuedExecutionRunId(); run == "" {
			return false, nil
		}
	}
}

func started(events []*historypb.HistoryEvent) *historypb.WorkflowExecutionStartedEventAttributes {
	return events[0].GetWorkflowExecutionStartedEventAttributes()
}

// position is the end of a history.
type position struct {
	run    string
	length int64
}

// settled waits until the history has not grown for a while, with nothing pending.
func (p *place) settled(ctx context.Context, id string) (at position, err error) {
	const quiet = 100 * time.Millisecond
	err = awaitNoError(ctx, quiet, id+" to be idle", func() (bool, string, error) {
		description, err := p.sdk.DescribeWorkflowExecution(ctx, id, "")
		info, before := description.GetWorkflowExecutionInfo(), at
		at = position{info.GetExecution().GetRunId(), info.GetHistoryLength()}
		idle := description.GetPendingWorkflowTask() == nil && len(description.GetPendingActivities()) == 0
		return at == before && idle, fmt.Sprint(at), err
	})
	return at, err
}
