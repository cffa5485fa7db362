package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"

	"burnish/workflows/contract"
)

// footprint is what one turnover leaves in the history, on average over whole ones.
type footprint struct {
	events, activities, upserts, tasks, markers, bytes float64
}

// idleRun is the run of an idle device just after it continued as new.
type idleRun struct {
	events int64
	input  *historypb.WorkflowExecutionStartedEventAttributes
}

// history reads one run, "" for the present one.
func (s *side) history(ctx context.Context, id, run string) ([]*historypb.HistoryEvent, error) {
	var events []*historypb.HistoryEvent
	for pages := s.client.GetWorkflowHistory(ctx, id, run, false, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT); pages.HasNext(); {
		e, err := pages.Next()
		if err != nil {
			return nil, err
		}
		events = append(events, e)
	}
	return events, nil
}

// footprint looks at the newest run of a device that had more than one turnover.
func (s *side) footprint(ctx context.Context, id string) (footprint, error) {
	for run := ""; ; {
		events, err := s.history(ctx, id, run)
		if err != nil {
			return footprint{}, err
		}
		if f, cycles := footprintOf(events); cycles >= 2 {
			return f, nil
		}
		started := events[0].GetWorkflowExecutionStartedEventAttributes()
		if run = started.GetContinuedExecutionRunId(); run == "" {
			return footprint{}, fmt.Errorf("%s: no run had two turnovers", id)
		}
	}
}

// footprintOf counts from the first bind to the last: whole turnovers, wherever the
// run began and ended.
func footprintOf(events []*historypb.HistoryEvent) (f footprint, cycles int) {
	var binds []int
	for i, e := range events {
		request := e.GetWorkflowExecutionUpdateAcceptedEventAttributes().GetAcceptedRequest()
		if request.GetInput().GetName() == contract.UpdateBind {
			binds = append(binds, i)
		}
	}
	if cycles = len(binds) - 1; cycles < 1 {
		return f, 0
	}
	for _, e := range events[binds[0]:binds[cycles]] {
		f.events++
		f.bytes += float64(e.Size())
		switch e.GetEventType() {
		case enumspb.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED:
			f.activities++
		case enumspb.EVENT_TYPE_UPSERT_WORKFLOW_SEARCH_ATTRIBUTES:
			f.upserts++
		case enumspb.EVENT_TYPE_WORKFLOW_TASK_COMPLETED:
			f.tasks++
		case enumspb.EVENT_TYPE_MARKER_RECORDED:
			f.markers++
		}
	}
	for _, n := range []*float64{&f.events, &f.activities, &f.upserts, &f.tasks, &f.markers, &f.bytes} {
		*n /= float64(cycles)
	}
	return f, cycles
}

// alike says whether the baseline still does what the product does.
func alike(product, baseline footprint) error {
	if product.activities != baseline.activities || product.upserts != baseline.upserts {
		return fmt.Errorf("a turnover of the product has %.2g activities and %.2g upserts, one of the baseline %.2g and %.2g: bring baseline.go up to date",
			product.activities, product.upserts, baseline.activities, baseline.upserts)
	}
	return nil
}

// idle turns a device over until it continues as new with nothing to do, and looks at
// the run that it then waits in.
func (s *side) idle(ctx context.Context, id string) (idleRun, error) {
	before, _, err := s.settled(ctx, id)
	if err != nil {
		return idleRun{}, err
	}
	renewed := func() (bool, error) {
		run, length, err := s.settled(ctx, id)
		if err != nil || run == before {
			return false, err
		}
		events, err := s.history(ctx, id, run)
		if err != nil {
			return false, err
		}
		if int64(len(events)) != length {
			return false, errors.New("an idle device's history grows")
		}
		return true, nil
	}
	const most = 40
	for range most {
		instance, err := s.bind(ctx, id)
		if err != nil {
			return idleRun{}, err
		}
		done, err := renewed()
		if err != nil {
			return idleRun{}, err
		}
		if !done {
			if err := s.unbind(ctx, id, instance); err != nil {
				return idleRun{}, err
			}
			if done, err = renewed(); err != nil {
				return idleRun{}, err
			}
		}
		if done {
			events, err := s.history(ctx, id, "")
			if err != nil {
				return idleRun{}, err
			}
			return idleRun{events: int64(len(events)), input: events[0].GetWorkflowExecutionStartedEventAttributes()}, nil
		}
	}
	return idleRun{}, fmt.Errorf("%s did not continue as new within %d turnovers", id, most)
}

// settled waits until the run's history has stood still for a while, with nothing under
// way.
func (s *side) settled(ctx context.Context, id string) (run string, length int64, err error) {
	const still = 100 * time.Millisecond
	for deadline := time.Now().Add(cycleWithin); time.Now().Before(deadline); {
		d, err := s.client.DescribeWorkflowExecution(ctx, id, "")
		if err != nil {
			return "", 0, err
		}
		info := d.GetWorkflowExecutionInfo()
		if info.GetExecution().GetRunId() == run && info.GetHistoryLength() == length && d.GetPendingWorkflowTask() == nil && len(d.GetPendingActivities()) == 0 {
			return run, length, nil
		}
		run, length = info.GetExecution().GetRunId(), info.GetHistoryLength()
		select {
		case <-ctx.Done():
			return "", 0, ctx.Err()
		case <-time.After(still):
		}
	}
	return "", 0, fmt.Errorf("%s does not come to rest", id)
}
