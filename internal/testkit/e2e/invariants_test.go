package e2e

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/converter"

	"burnish/internal/testkit/openstack"
	"burnish/workflows/contract"
)

// checkInvariants describes each window of a watched device that lasted too long. A
// timeline that cannot be read is a violation too: a test that stops its server starts it
// again before it ends.
func (c *Cloud) checkInvariants() []string {
	c.mu.Lock()
	watched, writes := maps.Clone(c.watched), slices.Clone(c.writes)
	c.mu.Unlock()
	timelines, err := c.timelines(watched, writes)
	if err != nil {
		return []string{"it is unknown how long a reserved device was available: " + err.Error()}
	}
	var all []string
	for _, provider := range slices.Sorted(maps.Keys(timelines)) {
		for _, violation := range timelines[provider].violations() {
			all = append(all, watched[provider].Name+" was "+violation)
		}
	}
	return all
}

// timelines reads the timeline of each watched provider.
func (c *Cloud) timelines(watched map[string]Device, writes []openstack.Change) (map[string]timeline, error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute) // the test's own is over
	defer cancel()
	end := time.Now()
	placement, err := c.histories(ctx, contract.ReconcileWorkflowID("default"))
	if err != nil {
		return nil, err
	}
	sweeps, ofHost, err := sweepsOf(placement, c.Host, end)
	if err != nil {
		return nil, err
	}
	completed := slices.DeleteFunc(slices.Clone(ofHost), func(s sweep) bool { return !s.completed })
	down := slices.Concat(downtimes(lifetimes(c.Controls()), end), downtimes(lifetimes(c.Server.Processes), end), unanswered(c.Recorder.Exchanges()))
	outages := mergeOutages(down, spansOf(sweeps))
	all := map[string]timeline{}
	for provider, d := range watched {
		events, err := c.histories(ctx, contract.WorkflowID(d.Name))
		if err != nil {
			return nil, err
		}
		l := timeline{sweepInterval: c.sweepInterval, sweeps: spansOf(ofHost), completed: spansOf(completed), outages: outages, end: end}
		l.hints = hintsOf(events)
		if l.statuses, err = statusesOf(events); err != nil {
			return nil, fmt.Errorf("%s: %w", d.Name, err)
		}
		for _, w := range writes {
			if w.UUID == provider {
				l.writes = append(l.writes, w)
			}
		}
		all[provider] = l
	}
	return all, nil
}

// sweepInterval reads the pause between two sweeps out of a worker's environment.
func sweepInterval(env []string) time.Duration {
	every := time.Minute // where nothing is set
	for _, pair := range env {
		if value, ok := strings.CutPrefix(pair, "BURNISH_SWEEP_INTERVAL="); ok {
			every, _ = time.ParseDuration(value) // what it cannot read, the worker refuses
		}
	}
	return every
}

// histories are those of all runs of a workflow; none where there is no such workflow.
func (c *Cloud) histories(ctx context.Context, id string) ([][]*historypb.HistoryEvent, error) {
	now, err := c.Client.DescribeWorkflowExecution(ctx, id, "")
	if errors.As(err, new(*serviceerror.NotFound)) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	// The listing may not know of the newest run yet.
	runs := map[string]bool{now.GetWorkflowExecutionInfo().GetExecution().GetRunId(): true}
	listed, err := c.Client.ListWorkflow(ctx, &workflowservice.ListWorkflowExecutionsRequest{Query: fmt.Sprintf("WorkflowId = '%s'", id), PageSize: 1000})
	if err != nil {
		return nil, err
	}
	for _, e := range listed.GetExecutions() {
		runs[e.GetExecution().GetRunId()] = true
	}
	var histories [][]*historypb.HistoryEvent
	for run := range runs {
		var events []*historypb.HistoryEvent
		all := c.Client.GetWorkflowHistory(ctx, id, run, false, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
		for all.HasNext() {
			event, err := all.Next()
			if err != nil {
				return nil, err
			}
			events = append(events, event)
		}
		histories = append(histories, events)
	}
	return histories, nil
}

// statusesOf reads what a device's workflow published: the search attribute that sweeps
// read, and the memo, which says whether the device is in maintenance. At the end of the
// workflow the device is no longer enrolled.
func statusesOf(runs [][]*historypb.HistoryEvent) ([]status, error) {
	events := slices.Concat(runs...)
	slices.SortStableFunc(events, func(a, b *historypb.HistoryEvent) int {
		return cmp.Or(a.GetEventTime().AsTime().Compare(b.GetEventTime().AsTime()), cmp.Compare(a.GetEventId(), b.GetEventId()))
	})
	var all []status
	var now status
	finished := true
	for _, e := range events {
		var attributes, memo map[string]*commonpb.Payload
		next := now
		finished = false
		switch e.GetEventType() {
		case enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_STARTED: // with the values of the run before
			started := e.GetWorkflowExecutionStartedEventAttributes()
			attributes, memo = started.GetSearchAttributes().GetIndexedFields(), started.GetMemo().GetFields()
		case enumspb.EVENT_TYPE_UPSERT_WORKFLOW_SEARCH_ATTRIBUTES:
			attributes = e.GetUpsertWorkflowSearchAttributesEventAttributes().GetSearchAttributes().GetIndexedFields()
		case enumspb.EVENT_TYPE_WORKFLOW_PROPERTIES_MODIFIED:
			memo = e.GetWorkflowPropertiesModifiedEventAttributes().GetUpsertedMemo().GetFields()
		case enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_COMPLETED, enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_FAILED,
			enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_CANCELED, enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_TERMINATED,
			enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_TIMED_OUT:
			next, finished = status{}, true
		}
		if p := attributes[contract.AttrState.GetName()]; p != nil {
			next.State = ""
			if err := converter.GetDefaultDataConverter().FromPayload(p, &next.State); err != nil {
				return nil, fmt.Errorf("its state: %w", err)
			}
		}
		if p := memo[contract.MemoStatus]; p != nil {
			var facts contract.StatusMemo
			if err := converter.GetDefaultDataConverter().FromPayload(p, &facts); err != nil {
				return nil, fmt.Errorf("its facts: %w", err)
			}
			next.Maintenance = facts.Maintenance
		}
		if next != now {
			next.At = e.GetEventTime().AsTime()
			all = append(all, next)
			now = next
		}
	}
	if !finished && !slices.ContainsFunc(all, func(t status) bool { return t.State != "" }) {
		return nil, errors.New("its workflow published no state")
	}
	return all, nil
}

// hintsOf are the moments at which a device's workflow was asked to read its reservation.
func hintsOf(runs [][]*historypb.HistoryEvent) (all []time.Time) {
	for _, e := range slices.Concat(runs...) {
		if e.GetEventType() == enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_SIGNALED {
			all = append(all, e.GetEventTime().AsTime())
		}
	}
	return all
}

// sweep is the time of a sweep, from when it was asked for until it ended, and whether it
// came to its end.
type sweep struct {
	span
	completed bool
}

// spansOf are the times of sweeps, in their order.
func spansOf(sweeps []sweep) (all []span) {
	for _, s := range sweeps {
		all = append(all, s.span)
	}
	slices.SortFunc(all, func(a, b span) int { return a.From.Compare(b.From) })
	return all
}

// sweepsOf finds the sweeps in the histories of the cloud's workflow, each from when it
// was asked for until it ended: all of them, and those that include a host.
func sweepsOf(runs [][]*historypb.HistoryEvent, host string, end time.Time) (all, ofHost []sweep, err error) {
	for _, events := range runs {
		ended, completed := map[int64]time.Time{}, map[int64]bool{}
		for _, e := range events {
			for _, of := range []int64{
				e.GetActivityTaskCompletedEventAttributes().GetScheduledEventId(),
				e.GetActivityTaskFailedEventAttributes().GetScheduledEventId(),
				e.GetActivityTaskTimedOutEventAttributes().GetScheduledEventId(),
				e.GetActivityTaskCanceledEventAttributes().GetScheduledEventId(),
			} {
				ended[of] = e.GetEventTime().AsTime()
			}
			completed[e.GetActivityTaskCompletedEventAttributes().GetScheduledEventId()] = true
		}
		for _, e := range events {
			scheduled := e.GetActivityTaskScheduledEventAttributes()
			if scheduled.GetActivityType().GetName() != contract.ActivityReconcileInventory {
				continue
			}
			one := sweep{span{From: e.GetEventTime().AsTime(), To: end}, completed[e.GetEventId()]}
			if to, ok := ended[e.GetEventId()]; ok {
				one.To = to
			}
			all = append(all, one)
			var in contract.ReconcileInput
			if err := converter.GetDefaultDataConverter().FromPayloads(scheduled.GetInput(), &in); err != nil {
				return nil, nil, fmt.Errorf("the input of a sweep: %w", err)
			}
			if len(in.Hosts) == 0 && len(in.Instances) == 0 || slices.Contains(in.Hosts, strings.ToLower(host)) {
				ofHost = append(ofHost, one)
			}
		}
	}
	return all, ofHost, nil
}
