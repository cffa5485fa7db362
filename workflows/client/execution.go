package client

import (
	"fmt"
	"math"
	"strings"
	"time"

	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/sdk/converter"

	"burnish/internal/device"
	"burnish/workflows/contract"
)

// Execution is what the Temporal server knows about a run of a device's workflow. It
// needs no worker.
type Execution struct {
	Name    string    `json:"name"`
	RunID   string    `json:"run_id,omitempty"`
	Running bool      `json:"running"`
	Started time.Time `json:"started,omitzero"`
	// Ended is when a run that is not running ended; Forgotten is set if the device was
	// forgotten, and Failed if the run failed, as after a refused enrollment.
	Ended     time.Time `json:"ended,omitzero"`
	Forgotten bool      `json:"forgotten,omitempty"`
	Failed    bool      `json:"failed,omitempty"`
	// HowEnded says in words how a run ended that did not end by itself, when and by whom.
	// Only Describe gives it.
	HowEnded string `json:"how_ended,omitempty"`
	// Status is what search attributes and memo contain. It has no binding number and no
	// history: only the workflow knows those.
	Status contract.DeviceStatus `json:"status"`
	// Memo is the rest of the memo.
	Memo contract.StatusMemo `json:"-"`
	// Pending are the running activities, by the name of the step.
	Pending map[string]Pending `json:"pending,omitempty"`
	// Err is set if attributes or memo cannot be read.
	Err error `json:"-"`

	attributesErr error
	// continued: the run ended by continuing as new.
	continued bool
}

// Pending is one running activity.
type Pending struct {
	Progress *contract.Progress `json:"progress,omitempty"` // its last heartbeat
	Started  bool               `json:"started,omitempty"`  // a worker has it
	Attempt  int32              `json:"attempt,omitempty"`
	Failure  string             `json:"failure,omitempty"` // of the previous attempt
	Next     time.Time          `json:"next,omitzero"`     // of the next attempt
}

// executionOf reads one run.
func executionOf(info *workflowpb.WorkflowExecutionInfo, activities []*workflowpb.PendingActivityInfo) Execution {
	e := Execution{
		Name:    strings.TrimPrefix(info.GetExecution().GetWorkflowId(), contract.WorkflowID("")),
		RunID:   info.GetExecution().GetRunId(),
		Running: info.GetStatus() == enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING,
		Started: info.GetStartTime().AsTime(),
		Pending: map[string]Pending{},

		Forgotten: info.GetStatus() == enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED,
		Failed:    info.GetStatus() == enumspb.WORKFLOW_EXECUTION_STATUS_FAILED,
		continued: info.GetStatus() == enumspb.WORKFLOW_EXECUTION_STATUS_CONTINUED_AS_NEW,
	}
	if at := info.GetCloseTime(); at != nil {
		e.Ended = at.AsTime()
	}
	if p, ok := info.GetMemo().GetFields()[contract.MemoStatus]; ok {
		if err := converter.GetDefaultDataConverter().FromPayload(p, &e.Memo); err != nil {
			e.Err = fmt.Errorf("the memo of %s cannot be read: %w", e.Name, err)
		}
	}
	var err error
	if e.Status, err = statusOf(e.Name, info.GetSearchAttributes().GetIndexedFields(), e.Memo); err != nil {
		e.attributesErr = fmt.Errorf("the search attributes of %s cannot be read: %w", e.Name, err)
		e.Err = e.attributesErr
	}
	for _, a := range activities {
		p := Pending{
			Started: a.GetState() != enumspb.PENDING_ACTIVITY_STATE_SCHEDULED,
			Attempt: a.GetAttempt(),
			Failure: a.GetLastFailure().GetMessage(),
		}
		if at := a.GetNextAttemptScheduleTime(); at != nil {
			p.Next = at.AsTime()
		}
		// The heartbeat of an activity that is not a step is not a Progress.
		var beat contract.Progress
		if d := a.GetHeartbeatDetails(); d != nil && converter.GetDefaultDataConverter().FromPayloads(d, &beat) == nil {
			p.Progress = &beat
		}
		e.Pending[a.GetActivityType().GetName()] = p
	}
	return e
}

// statusOf builds a device's status from search attributes and memo.
func statusOf(name string, fields map[string]*commonpb.Payload,
	memo contract.StatusMemo) (contract.DeviceStatus, error) {
	var instance, step string
	v := contract.DeviceStatus{
		Name: name, UUID: contract.DeviceUUID(name),
		Vendor: memo.Vendor, Model: memo.Model, StdBoardInfo: memo.StdBoardInfo, Path: memo.Path, Firmware: memo.Firmware,
		SizeBytes: memo.SizeBytes,
		MAC:       memo.MAC, LiveMigratable: memo.LiveMigratable,
		Status: memo.Status, Maintenance: memo.Maintenance, MaintenanceReason: memo.MaintenanceReason,
		LastError: memo.LastError, LastRefusal: memo.LastRefusal, Remedy: memo.Remedy, CreatedAt: memo.CreatedAt,
		Driver: memo.Driver, Owner: memo.Owner, OneTimeUse: memo.OneTimeUse, NotSanitized: memo.NotSanitized,
		Operation: memo.Operation, Steps: memo.Steps, Waiting: memo.Waiting, Pool: memo.Pool,
		Labels: memo.Labels,
	}
	for key, into := range map[interface{ GetName() string }]any{
		contract.AttrState: &v.DeviceState, contract.AttrUUID: &v.UUID, contract.AttrSerial: &v.Serial,
		contract.AttrType: &v.Type, contract.AttrHost: &v.Hostname, contract.AttrInstance: &instance,
		contract.AttrStep: &step, contract.AttrFault: &v.Fault, contract.AttrNeedsOperator: &v.NeedsOperator,
		contract.AttrDirty: &v.Dirty, contract.AttrUpdated: &v.UpdatedAt,
	} {
		if p, ok := fields[key.GetName()]; ok {
			if err := converter.GetDefaultDataConverter().FromPayload(p, into); err != nil {
				return contract.DeviceStatus{Name: name, UUID: contract.DeviceUUID(name)}, fmt.Errorf("%s: %w", key.GetName(), err)
			}
		}
	}
	if instance != "" {
		v.InstanceUUID = &instance
	}
	if step != "" {
		v.CleanStep = &contract.CleanStep{Step: step}
		for _, s := range memo.Steps {
			if s.Step == step {
				v.CleanStep = &s
			}
		}
	}
	return normalize(v), nil
}

// normalize gives a status the same form in a listing and in a query: times in UTC and whole
// seconds.
func normalize(v contract.DeviceStatus) contract.DeviceStatus {
	v.StateSince = v.StateSince.UTC().Truncate(time.Second)
	v.CreatedAt, v.UpdatedAt = v.CreatedAt.UTC().Truncate(time.Second), v.UpdatedAt.UTC().Truncate(time.Second)
	return v
}

// Progress is how far the device's running step is, by its last heartbeat; nil if none
// runs. v is the device's status, of the workflow or of the execution itself.
func (e Execution) Progress(v contract.DeviceStatus, now time.Time) *contract.StatusProgress {
	if v.CleanStep == nil {
		return nil
	}
	p, ok := e.Pending[v.CleanStep.Step]
	if !ok {
		return nil
	}
	shown := &contract.StatusProgress{Attempt: p.Attempt}
	if p.Progress != nil {
		shown.Done, shown.Total, shown.Waiting = p.Progress.Offset, p.Progress.Size, p.Progress.Waiting
		shown.ProgressAt, shown.BudgetEnds = p.Progress.ProgressAt.UTC().Truncate(time.Second),
			p.Progress.BudgetEnds.UTC().Truncate(time.Second)
		if shown.Total > 0 {
			shown.Percent = math.Floor(1000*float64(shown.Done)/float64(shown.Total)) / 10
		} else {
			shown.Percent, shown.Doing = float64(p.Progress.Percent), p.Progress.Doing
		}
	}
	switch {
	case p.Next.After(now):
		shown.Waiting = "next attempt at " + p.Next.UTC().Format(time.RFC3339)
		if p.Failure != "" {
			shown.Waiting += ", after: " + strings.Join(strings.Fields(p.Failure), " ")
		}
	case !p.Started:
		shown.Waiting = "waiting for a worker of host " + v.Hostname
	}
	return shown
}

// Released reports whether an operator has given the device up: it was forgotten, or it is
// retired.
func (e Execution) Released() bool { return e.Forgotten || e.Status.DeviceState == device.Retired }

// Moves reports whether a move may be under way, or was when the run ended: no other state allows
// one.
func (e Execution) Moves() bool {
	return e.Absent() || e.Status.DeviceState == device.Manageable || e.Status.DeviceState == device.Error
}

// Absent reports whether the workflow runs, but its device was never enrolled.
func (e Execution) Absent() bool { return e.Status.DeviceState == device.Absent }
