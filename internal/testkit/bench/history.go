package main

import (
	"context"
	"errors"
	"fmt"

	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"

	"burnish/workflows/contract"
)

// footprint is what one turnover leaves in the history, on average over whole ones.
type footprint struct {
	events, activities, upserts, tasks, bytes float64
}

// footprint is that of the newest run with at least two whole turnovers.
func (v *variant) footprint(ctx context.Context, id string) (f footprint, err error) {
	err = v.runs(ctx, id, func(events []*historypb.HistoryEvent) bool {
		var turnovers int
		f, turnovers = footprintOf(events)
		return turnovers >= 2
	})
	return f, err
}

// footprintOf counts from the first bind to the last: whole turnovers, wherever the run
// began and ended.
func footprintOf(events []*historypb.HistoryEvent) (f footprint, turnovers int) {
	var binds []int
	for i, e := range events {
		request := e.GetWorkflowExecutionUpdateAcceptedEventAttributes().GetAcceptedRequest()
		if request.GetInput().GetName() == contract.VerbBind.Update() {
			binds = append(binds, i)
		}
	}
	if turnovers = len(binds) - 1; turnovers < 1 {
		return f, 0
	}
	for _, e := range events[binds[0]:binds[turnovers]] {
		f.events++
		f.bytes += float64(e.Size())
		switch e.GetEventType() {
		case enumspb.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED:
			f.activities++
		case enumspb.EVENT_TYPE_UPSERT_WORKFLOW_SEARCH_ATTRIBUTES:
			f.upserts++
		case enumspb.EVENT_TYPE_WORKFLOW_TASK_COMPLETED:
			f.tasks++
		}
	}
	for _, n := range []*float64{&f.events, &f.activities, &f.upserts, &f.tasks, &f.bytes} {
		*n /= float64(turnovers)
	}
	return f, turnovers
}

// What a turnover of the baseline is: the plain way, in which each call is an activity and each
// change of the state a write of search attributes.
const (
	baselineActivities = 5
	baselineUpserts    = 5
)

// checkBaseline checks that the baseline is what the product has been compared with before: a
// slower one would flatter it.
func checkBaseline(f footprint) error {
	if f.activities != baselineActivities || f.upserts != baselineUpserts {
		return fmt.Errorf("a turnover of the baseline has %.2g activities and %.2g upserts, and must have %d and %d",
			f.activities, f.upserts, baselineActivities, baselineUpserts)
	}
	return nil
}

// idleHistory turns a device over until it continues as new with nothing to do, and reads
// the run that it then waits in.
func (v *variant) idleHistory(ctx context.Context, id string) ([]*historypb.HistoryEvent, error) {
	before, err := v.settled(ctx, id)
	if err != nil {
		return nil, err
	}
	// continued is nil where the device is in the same run as before.
	continued := func() ([]*historypb.HistoryEvent, error) {
		now, err := v.settled(ctx, id)
		if err != nil || now.run == before.run {
			return nil, err
		}
		events, err := v.history(ctx, id, now.run)
		if err == nil && int64(len(events)) != now.length {
			err = errors.New("the history of an idle device grows")
		}
		return events, err
	}
	const most = 40
	for range most {
		instance, err := v.bind(ctx, id)
		if err != nil {
			return nil, err
		}
		if events, err := continued(); events != nil || err != nil {
			return events, err
		}
		if err := v.unbindAndClean(ctx, id, instance); err != nil {
			return nil, err
		}
		if events, err := continued(); events != nil || err != nil {
			return events, err
		}
	}
	return nil, fmt.Errorf("%s did not continue as new within %d turnovers", id, most)
}
