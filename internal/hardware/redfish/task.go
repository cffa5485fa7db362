package redfish

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/stmcginnis/gofish/redfish"

	"burnish/internal/device"
	"burnish/internal/hardware"
)

// action is what starts work on the BMC.
type action struct {
	// Name is that of the work in the journal.
	Name string
	// Doing says what it does, for the operator.
	Doing string
	// Stall is how long its task may make no progress, Budget how long it may take; 0:
	// without limit.
	Stall, Budget time.Duration
}

// outcome is what is known of an action in the end. A task that has failed is an error.
type outcome string

const (
	// succeeded: our own task says that it has succeeded.
	succeeded outcome = "succeeded"
	// scheduled: our task waits for a reset of the system, which the caller gives it before
	// it follows the task on.
	scheduled outcome = "scheduled"
	// unsettled: there is no task, it is gone, or the answer was lost. The caller finds out
	// by reading the state whether the work was done. It is never success by itself.
	unsettled outcome = "unsettled"
)

// work is an action that may have been started. It is journaled on the host.
type work struct {
	action action
	// Target is what was posted to. Sent is when, by the BMC's own clock; zero: unknown.
	// Began is when, by the host's.
	Target string    `json:"target"`
	Sent   time.Time `json:"sent,omitzero"`
	Began  time.Time `json:"began"`
	// Answered: the BMC has accepted it. Task is its task, "" where there is none.
	Answered bool   `json:"answered,omitempty"`
	Task     string `json:"task,omitempty"`
	// Start is the task's StartTime as it was first read.
	Start string `json:"start,omitempty"`
}

// mostDrift is how much the clocks of a BMC and of the host may differ more than before. A BMC may
// start with a wrong time, and correct it later.
const mostDrift = 10 * time.Second

// bmcRestarted: the BMC says that it has started since it was sent the request. What it did itself
// then is over, and what it had not begun it does not begin any more. False where it does not say.
// keepsTasks: its tasks survive that, as Dell's jobs do.
func (h *handle) bmcRestarted(ctx context.Context, w *work) (restarted, keepsTasks bool, err error) {
	s, err := h.c.readSystem(ctx, h.system)
	if err != nil {
		return false, false, err
	}
	now := h.c.bmc.now()
	if w.Sent.IsZero() || now.IsZero() || (now.Sub(w.Sent)-time.Since(w.Began)).Abs() > mostDrift {
		return false, false, nil
	}
	for _, link := range s.Links.ManagedBy {
		var manager struct {
			LastResetTime string `bmc:"optional"`
			Links         dellLinks
		}
		if err := ignoreRefusal(h.c.get(ctx, string(link), &manager)); err != nil {
			return false, false, err
		}
		if at, err := time.Parse(time.RFC3339, manager.LastResetTime); err == nil && !at.Before(w.Sent) {
			return true, manager.Links.Oem.Dell.Jobs != "", nil
		}
	}
	return false, false, nil
}

// followTask waits for the end of the work's task. Errors: step_failed where our own task has
// failed, no_progress, timeout.
func (h *handle) followTask(ctx context.Context, run hardware.StepRun, w *work) (outcome, error) {
	var last string
	lastChange := time.Now()
	waiting := h.c.bmc.timing.wait(365 * 24 * time.Hour)
	defer waiting.stop()
	for {
		asked := time.Now()
		t, err := h.c.readTask(ctx, w.Task)
		if err != nil {
			return "", err
		}
		if t == nil || !w.isOurs(t) {
			return unsettled, nil
		}
		if w.Start == "" && t.StartTime != "" {
			w.Start = t.StartTime
			if err := run.Save(w.action.Name, w); err != nil {
				return "", err
			}
		}
		switch result, err := t.result(w.action); {
		case err != nil:
			return "", err
		case result != "":
			return result, nil
		}
		if err := h.progress(run, t.PercentComplete, w.action.Doing); err != nil {
			return "", err
		}
		// A time in which the BMC did not answer is not the task's.
		if now := fmt.Sprint(t.TaskState, t.PercentComplete, len(t.Messages)); now != last ||
			time.Since(asked) > h.c.bmc.timing.request {
			last, lastChange = now, time.Now()
		}
		if err := w.checkTime(lastChange, t); err != nil {
			return "", err
		}
		if _, err := waiting.next(ctx, 0); err != nil {
			return "", err
		}
	}
}

// checkTime: the task has stalled, or its budget is spent.
func (w *work) checkTime(lastChange time.Time, t *task) error {
	if w.action.Stall > 0 && time.Since(lastChange) > w.action.Stall {
		return hardware.Refused(device.CodeNoProgress, "see the task on the BMC; clean the server again when it has ended",
			"%s: the BMC's task %s has made no progress for %v: %s, %d %%", w.action.Doing, w.Task, w.action.Stall, t.TaskState,
			t.PercentComplete)
	}
	if w.action.Budget > 0 && time.Since(w.Began) > w.action.Budget {
		return hardware.Refused(device.CodeTimeout, "see the task on the BMC; clean the server again when it has ended",
			"%s: the BMC's task %s takes longer than %v: %s, %d %%", w.action.Doing, w.Task, w.action.Budget, t.TaskState,
			t.PercentComplete)
	}
	return nil
}

// task is what the driver reads of a Task, of whatever vendor.
type task struct {
	path            string
	ID              link `json:"@odata.id" bmc:"optional"`
	Name            string
	TaskState       redfish.TaskState
	TaskStatus      string
	StartTime       string `bmc:"optional"`
	PercentComplete int
	Messages        []message
	Payload         struct {
		TargetURI string `json:"TargetUri"`
	}
}

// result is what a task says of its end: "" while it runs. It has succeeded only if it is
// Completed and OK, without a critical message: a failed job of an iDRAC is Completed too.
func (t *task) result(a action) (outcome, error) {
	var said []string
	bad := t.TaskStatus == "Critical" || t.TaskStatus == "Warning"
	for _, m := range t.Messages {
		if m.Text != "" {
			said = append(said, m.Text)
		}
		bad = bad || m.critical()
	}
	switch t.TaskState {
	case redfish.CompletedTaskState:
		if bad {
			break
		}
		if t.TaskStatus != "OK" {
			return unsettled, nil
		}
		return succeeded, nil
	case redfish.ExceptionTaskState, redfish.KilledTaskState, redfish.CancelledTaskState:
	case redfish.PendingTaskState:
		return scheduled, nil
	default:
		return "", nil
	}
	return "", hardware.Refused(device.CodeStepFailed, "see the BMC's own log, correct the cause, then clean the server",
		"%s: the BMC's task ended as %s, %s: %s", a.Doing, t.TaskState, t.TaskStatus,
		hardware.OneLine(strings.Join(said, "; ")))
}

// active: the task has not ended.
func (t *task) active() bool {
	return !slices.Contains([]redfish.TaskState{redfish.CompletedTaskState, redfish.ExceptionTaskState,
		redfish.KilledTaskState, redfish.CancelledTaskState}, t.TaskState)
}

// isOurs: the task is the one that this work has started, and not one that got the same number
// after the BMC restarted. Without StartTime and TargetUri nothing says so.
func (w *work) isOurs(t *task) bool {
	if w.Start != "" && t.StartTime == w.Start {
		return true
	}
	if t.Payload.TargetURI != "" && !samePath(t.Payload.TargetURI, w.Target) {
		return false
	}
	started, err := time.Parse(time.RFC3339, t.StartTime)
	if err != nil || w.Sent.IsZero() {
		return t.Payload.TargetURI != "" && w.Start == ""
	}
	// The BMC's clock has whole seconds.
	return !started.Before(w.Sent.Add(-2 * time.Second))
}

// samePath compares two paths as BMCs write them: some add a slash, some change the case, some write
// a whole URL.
func samePath(a, b string) bool { return plainPath(a) == plainPath(b) }

func plainPath(path string) string {
	if u, err := url.Parse(path); err == nil && u.Host != "" {
		path = u.RequestURI()
	}
	return strings.ToLower(strings.TrimSuffix(path, "/"))
}

// readTask reads a task, or nil where it is gone, or only its monitor is left.
func (c *client) readTask(ctx context.Context, uri string) (*task, error) {
	got, err := c.Get(ctx, uri)
	if r, ok := asRefusal(err); ok && r.Status < 500 {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	t := &task{}
	if len(got.Body) > 0 {
		if err := got.decode(t); err != nil {
			return nil, err
		}
	}
	t.path = cmp.Or(string(t.ID), uri)
	switch {
	case t.TaskState != "":
		return t, nil
	case got.Status == http.StatusAccepted:
		t.TaskState = redfish.RunningTaskState // a monitor, while the task runs
		return t, nil
	}
	return nil, nil
}

// tasksPath is where every BMC has its tasks.
const tasksPath = "/redfish/v1/TaskService/Tasks"

// taskOf finds the task in the answer to a request, "" where it names none: in the body, in the
// Location, or by the number of Dell's job at the end of the Location.
func (c *client) taskOf(a answer) string {
	var body struct {
		ID    link   `json:"@odata.id" bmc:"optional"`
		State string `json:"TaskState" bmc:"optional"`
	}
	if a.decode(&body) == nil && body.ID != "" &&
		(body.State != "" || strings.Contains(string(body.ID), "/TaskService/Tasks/")) {
		return string(body.ID)
	}
	location := c.bmc.path(a.Path, a.Header.Get("Location"))
	if job := path.Base(location); strings.HasPrefix(job, "JID_") {
		return tasksPath + "/" + job
	}
	if a.Status != http.StatusAccepted && !strings.Contains(location, "/TaskService/") {
		return "" // the Location of something that was created
	}
	return location
}

// tasks reads every task of the BMC, with its path.
func (c *client) tasks(ctx context.Context) ([]*task, error) {
	paths, err := c.members(ctx, tasksPath)
	if hasStatus(err, http.StatusNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var all []*task
	for _, uri := range paths {
		t := &task{path: uri}
		switch err := c.get(ctx, uri, t); {
		case hasStatus(err, http.StatusNotFound): // it has just been forgotten
		case err != nil:
			return nil, err
		case t.TaskState == "":
			return nil, hardware.Refused(device.CodeToolOutputInvalid, "update the BMC's firmware",
				"the BMC's task %s (%s) has no state", uri, hardware.OneLine(t.Name))
		default:
			all = append(all, t)
		}
	}
	return all, nil
}
