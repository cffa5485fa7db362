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

// work is what a BMC has accepted to do. It is journaled on the host.
type work struct {
	// Target is what was posted to.
	Target string `json:"target,omitempty"`
	// Task is its task; "": there is none, or it is gone. Start is the task's StartTime as it was first
	// read.
	Task  string `json:"task,omitempty"`
	Start string `json:"start,omitempty"`

	// doing says what it does, for the operator. stall is how long it may make no progress; 0: without
	// limit.
	doing   string
	stall   time.Duration
	percent int
	mark    string
	moved   time.Time // when mark last changed, in this attempt
}

// outcome is what a look at a work's task finds. A task that has failed is an error.
type outcome string

const (
	taskRuns outcome = "runs"
	// taskWaits: it waits for a reset of the server.
	taskWaits outcome = "waits"
	// succeeded: our own task says so.
	succeeded outcome = "succeeded"
	// unsettled: there is no task, or it says nothing any more. What has come of the work is read from the
	// hardware. It is never success by itself.
	unsettled outcome = "unsettled"
)

// follow looks once how far the work is; save keeps what it has learned. Errors: step_failed where our
// own task has failed, no_progress.
func (h *handle) follow(ctx context.Context, w *work, save func() error) (outcome, error) {
	if w.Task == "" {
		return unsettled, nil
	}
	asked := time.Now()
	t, err := h.readTask(ctx, w.Task)
	if err != nil {
		return "", err
	}
	if t == nil || !w.isOurs(t) {
		w.Task, w.Start = "", ""
		return unsettled, save()
	}
	if w.Start == "" && t.StartTime != "" {
		w.Task, w.Start = t.path, t.StartTime // what was followed may be its monitor
		if err := save(); err != nil {
			return "", err
		}
	}
	result, err := t.result(w.doing)
	if err != nil || result != taskRuns {
		return result, err
	}
	waits, err := h.waitsForReset(ctx, t)
	if err != nil || waits {
		return taskWaits, err
	}
	if time.Since(asked) > h.driver.timing.request {
		w.mark = "" // a time in which the BMC did not answer is not the task's
	}
	return taskRuns, w.moving(string(t.TaskState), t.PercentComplete)
}

// moving watches for work that makes no progress.
func (w *work) moving(state string, percent int) error {
	if now := fmt.Sprint(state, percent); now != w.mark {
		w.mark, w.moved, w.percent = now, time.Now(), percent
	}
	if w.stall > 0 && time.Since(w.moved) > w.stall {
		return hardware.Refused(device.CodeNoProgress,
			"see it on the BMC, and do not switch the server off; clean it again when it has ended",
			"the %s has made no progress for %v: %s, %d %%", w.doing, w.stall, state, percent)
	}
	return nil
}

// isOurs: the task is the one that this work has started, and not one that got the same number after the
// BMC restarted. A Dell never gives a number twice. Without StartTime and TargetUri nothing says so.
func (w *work) isOurs(t *task) bool {
	target := t.Payload.TargetURI
	if t.job() != "" {
		return true
	}
	if target != "" && !samePath(target, w.Target) || w.Start != "" && t.StartTime != w.Start {
		return false
	}
	return target != "" || t.StartTime != ""
}

// task is what the driver reads of a Task, of whatever vendor.
type task struct {
	path            string
	waits           bool // it has not begun, and waits for a reset of the server
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

// String names the task for an operator.
func (t *task) String() string { return hardware.OneLine(path.Base(t.path) + " (" + t.Name + ")") }

// job is the number of the task where it is a Dell's job.
func (t *task) job() string {
	if job := path.Base(t.path); strings.HasPrefix(job, "JID_") {
		return job
	}
	return ""
}

// result is what a task says of its end. It has succeeded only if it is Completed and OK, without a
// critical message: a failed job of an iDRAC is Completed too.
func (t *task) result(doing string) (outcome, error) {
	var said []string
	bad := t.TaskStatus == "Critical" || t.TaskStatus == "Warning"
	for _, m := range t.Messages {
		if m.Text != "" {
			said = append(said, m.Text)
		}
		bad = bad || m.critical()
	}
	switch {
	case t.active():
		return taskRuns, nil
	case t.TaskState != redfish.CompletedTaskState || bad:
	case t.TaskStatus == "OK":
		return succeeded, nil
	default:
		return unsettled, nil
	}
	return "", hardware.Refused(device.CodeStepFailed, "see the BMC's own log, correct the cause, then clean the server",
		"%s: the BMC's task ended as %s, %s: %s", doing, t.TaskState, t.TaskStatus,
		hardware.OneLine(strings.Join(said, "; ")))
}

// active: the task has not ended.
func (t *task) active() bool {
	return !slices.Contains([]redfish.TaskState{redfish.CompletedTaskState, redfish.ExceptionTaskState,
		redfish.KilledTaskState, redfish.CancelledTaskState}, t.TaskState)
}

// The kinds of what a task does, as its target or its name says.
func (t *task) changesBIOS() bool {
	return t.isOf("/bios", "bios.setup", "biosconfiguration", "bios config")
}
func (t *task) updates() bool { return t.isOf("updateservice", "firmware", "update") }
func (t *task) erases() bool  { return t.isOf("secureerase", "erase", "sanitize") }

// isOf: the task's target has this in it, or where it has none, its name one of these.
func (t *task) isOf(target string, names ...string) bool {
	if t.Payload.TargetURI != "" {
		return strings.Contains(strings.ToLower(t.Payload.TargetURI), target)
	}
	return slices.ContainsFunc(names, func(n string) bool { return strings.Contains(strings.ToLower(t.Name), n) })
}

// isAnothers: it is of another system behind this BMC than the one at this path.
func (t *task) isAnothers(system string) bool {
	const systems = "/redfish/v1/systems"
	of := t.Payload.TargetURI
	return within(of, systems) && !samePath(of, systems) && !within(of, system)
}

// waitsForReset: the task has not begun, and waits for a reset of the server. An iDRAC's task is New or
// Starting meanwhile, and its job says Scheduled.
func (h *handle) waitsForReset(ctx context.Context, t *task) (bool, error) {
	switch t.TaskState {
	case redfish.PendingTaskState, redfish.SuspendedTaskState:
		return true, nil
	case redfish.NewTaskState, redfish.StartingTaskState:
	default:
		return false, nil
	}
	for _, path := range h.jobPaths(t) {
		var body struct{ JobState string }
		err := h.get(ctx, path, &body)
		if hasStatus(err, http.StatusNotFound) {
			continue
		}
		return slices.Contains([]string{"Scheduled", "New", "Scheduling", "Waiting", "Pending", "ReadyForExecution",
			"Downloaded"}, body.JobState), err
	}
	return false, nil // it may begin at any moment
}

// jobPaths are where an iDRAC may have the job of a task.
func (h *handle) jobPaths(t *task) (all []string) {
	if t.job() == "" || h.last == nil {
		return nil
	}
	for _, manager := range paths(h.last.Links.ManagedBy) {
		if manager = strings.TrimSuffix(manager, "/"); manager != "" {
			all = append(all, manager+"/Jobs/"+t.job(), manager+"/Oem/Dell/Jobs/"+t.job())
		}
	}
	return all
}

// samePath compares two paths as BMCs write them: some add a slash, some change the case, some write
// a whole URL.
func samePath(a, b string) bool { return plainPath(a) == plainPath(b) }

// within: path is the resource of, or something below it.
func within(path, of string) bool { return strings.HasPrefix(plainPath(path)+"/", plainPath(of)+"/") }

func plainPath(path string) string {
	if u, err := url.Parse(path); err == nil && u.Host != "" {
		path = u.RequestURI()
	}
	return strings.ToLower(strings.TrimSuffix(path, "/"))
}

// readTask reads a task, or nil where it is gone, or only its monitor is left.
func (h *handle) readTask(ctx context.Context, uri string) (*task, error) {
	got, err := h.Get(ctx, uri)
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
func (h *handle) taskOf(a answer) string {
	var body struct {
		ID    link   `json:"@odata.id" bmc:"optional"`
		State string `json:"TaskState" bmc:"optional"`
	}
	if a.decode(&body) == nil && body.ID != "" &&
		(body.State != "" || strings.Contains(string(body.ID), "/TaskService/Tasks/")) {
		return string(body.ID)
	}
	location := h.bmc.path(a.Path, a.Header.Get("Location"))
	if job := path.Base(location); strings.HasPrefix(job, "JID_") {
		return tasksPath + "/" + job
	}
	if a.Status != http.StatusAccepted && !strings.Contains(location, "/TaskService/") {
		return "" // the Location of something that was created
	}
	return location
}

// tasks reads every task of the BMC that has not ended, anybody's.
func (h *handle) tasks(ctx context.Context) (all []*task, err error) {
	members, err := h.members(ctx, tasksPath)
	if hasStatus(err, http.StatusNotFound) {
		return nil, nil
	}
	for _, uri := range paths(members) {
		t := &task{path: uri}
		if t.job() != "" && h.ended[uri] {
			continue // a Dell keeps hundreds, and gives no number twice
		}
		switch err := h.get(ctx, uri, t); {
		case hasStatus(err, http.StatusNotFound): // it has just been forgotten
		case err != nil:
			return nil, err
		case t.TaskState == "":
			return nil, hardware.Refused(device.CodeToolOutputInvalid, "update the BMC's firmware",
				"the BMC's task %s has no state", t)
		case t.active():
			if t.waits, err = h.waitsForReset(ctx, t); err != nil {
				return nil, err
			}
			all = append(all, t)
		default:
			h.ended[uri] = true
		}
	}
	return all, err
}
