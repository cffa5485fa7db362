package redfishsim

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// stateCanceled is a TaskState.
const stateCanceled = "Cancelled" //nolint:misspell // Redfish's own spelling

const (
	tasks    = root + "/TaskService/Tasks"
	monitors = root + "/TaskService/TaskMonitors"
)

func (m *Machine) task(id string) *Task {
	for _, task := range m.Data.Tasks {
		if id != "" && task.ID == id {
			return task
		}
	}
	return nil
}

// workOf is the work of a task that has not ended.
func (m *Machine) workOf(task *Task) *Work {
	for _, w := range m.Data.Work {
		if w.Task == task.ID {
			return w
		}
	}
	return nil
}

// newTask is the next task, in its state before it runs; c is the request that it is made for.
func (m *Machine) newTask(kind, name, job string, c *call) *Task {
	s := &m.Data
	id := strconv.Itoa(s.NextTask)
	if m.Conf.JobIDs {
		id = fmt.Sprintf("JID_%012d", 471269252000+s.NextTask)
	}
	s.NextTask++
	task := &Task{ID: id, Kind: kind, Name: name, JobType: job, State: "New", Status: "OK", Start: c.At,
		TargetURI: c.URL.Path, Operation: c.Method}
	s.Tasks = append(s.Tasks, task)
	return task
}

func (m *Machine) dropTask(task *Task) {
	m.Data.Tasks = slices.DeleteFunc(m.Data.Tasks, func(other *Task) bool { return other == task })
}

// accepted is the answer to a request that goes on as task.
func (m *Machine) accepted(c *call, task *Task, form Form) answer {
	if form == NoTask || form == NoTaskOK {
		m.dropTask(task)
		if w := m.workOf(task); w != nil {
			w.Task = ""
		}
		if form == NoTask {
			return answer{Status: http.StatusNoContent}
		}
		return message(200, "iLO.2.14.UpdateInProgress", "The request was accepted.")
	}
	location := m.uri(tasks + "/" + task.ID)
	a := answer{Status: http.StatusAccepted, Body: m.tree(c.At, tasks).node(tasks + "/" + task.ID).doc}
	switch form {
	case Absolute:
		location = "https://" + c.Host + location
	case MonitorBoth:
		location = m.uri(monitors + "/" + task.ID)
	}
	if form == LocationOnly {
		a.Body = nil
	}
	a.Header = map[string]string{"Location": location}
	return a
}

// percent is how far a work has come.
func (m *Machine) percent(w *Work, at time.Time) int {
	whole := w.Due.Sub(w.Started)
	switch {
	case w.Waits:
		return 0
	case m.Conf.Endings[w.Kind] == Stalls:
		return 50
	default:
		return int(max(0, min(99, 100*at.Sub(w.Started)/max(whole, 1))))
	}
}

// stamp is a time as BMCs write it: by the second, but with a fraction where a test's
// seconds are milliseconds.
func (m *Machine) stamp(at time.Time) string {
	return at.Add(m.Conf.ClockSkew).UTC().Format("2006-01-02T15:04:05.000-07:00")
}

func (t *tree) addTasks() {
	t.add("TaskService.v1_1_4.TaskService", root+"/TaskService", "Task Service", doc{
		"ServiceEnabled": true, "Tasks": t.link(tasks), "DateTime": t.stamp(t.at),
		"CompletedTaskOverWritePolicy": "Oldest", "LifeCycleEventOnTaskStateChange": true,
	})
	t.list("Task", tasks)
	jobs := t.manager("/Jobs")
	if t.Conf.JobIDs { // they are iDRAC's own view of the same
		t.list("DellJob", jobs)
	}
	for _, task := range t.Data.Tasks {
		w := t.workOf(task)
		state, percent := task.State, task.Percent
		switch {
		case w != nil && w.Waits && t.Conf.JobIDs:
			state, percent = "Starting", 0
		case w != nil && w.Waits:
			state, percent = "Pending", 0
		case w != nil:
			state, percent = "Running", t.percent(w, t.at)
		}
		t.addTask(task, w, state, percent)
		if t.Conf.JobIDs {
			t.addJob(jobs, task, w, state, percent)
		}
	}
}

func (t *tree) addTask(task *Task, w *Work, state string, percent int) {
	severity := "Severity"
	if t.is(OpenBMC) { // under its newer name
		severity = "MessageSeverity"
	}
	messages := []any{}
	for _, one := range task.Messages {
		entry := information(one.MessageID, one.Message, one.Severity)
		delete(entry, "Severity")
		entry[severity] = one.Severity
		messages = append(messages, entry)
	}
	monitor := monitors + "/" + task.ID
	r := t.member("Task.v1_4_3.Task", tasks, task.ID, task.Name, doc{
		"TaskState": state, "TaskStatus": task.Status, "PercentComplete": percent, "Messages": messages,
		"StartTime": t.stamp(task.Start), "TaskMonitor": t.uri(monitor),
	})
	if !task.End.IsZero() {
		r.doc["EndTime"] = t.stamp(task.End)
	}
	if !t.is(IDRAC) && task.TargetURI != "" {
		r.doc["Payload"] = doc{"TargetUri": task.TargetURI, "HttpOperation": task.Operation}
	}
	if t.is(IDRAC) && w != nil {
		t.do("GET", tasks+"/"+task.ID, func(*call) answer { return answer{Status: http.StatusAccepted, Body: r.doc} })
	}
	// A monitor is 202 while the task runs, then says that it has ended, later 404.
	if task.End.IsZero() || t.at.Sub(task.End) <= t.Conf.Delays.Forget {
		t.do("GET", monitor, func(*call) answer {
			if w == nil {
				return answer{Status: http.StatusNoContent}
			}
			return answer{Status: http.StatusAccepted, Body: r.doc,
				Header: map[string]string{"Location": t.uri(monitor), "Retry-After": "1"}}
		})
	}
}

func (t *tree) addJob(jobs string, task *Task, w *Work, state string, percent int) {
	critical := slices.ContainsFunc(task.Messages, func(one Message) bool { return one.Severity == "Critical" })
	switch {
	case state == "Starting" || state == "New":
		state = "Scheduled"
	case state == "Completed" && (task.Status == "Critical" || critical), state == "Exception", state == stateCanceled:
		state = "Failed"
	}
	text := "Task " + strings.ToLower(state)
	if n := len(task.Messages); n > 0 {
		text = task.Messages[n-1].Message
	}
	t.member("DellJob.v1_1_0.DellJob", jobs, task.ID, task.Name, doc{
		"JobState": state, "PercentComplete": percent, "JobType": task.JobType, "Message": text,
		"StartTime": "TIME_NOW", "EndTime": "TIME_NA", "ActualRunningStartTime": t.stamp(task.Start),
		"TargetSettingsURI": nil,
	})
	// One that still waits is taken back.
	t.do("DELETE", jobs+"/"+task.ID, func(c *call) answer {
		switch {
		case w == nil:
		case !w.Waits:
			return failure(400, "IDRAC.2.8.JCP030", "Unable to delete the job, because it is running.")
		default:
			c.Entry.Changed = true
			t.end(w, Canceled, c.At)
			if w.Kind == KindBIOS {
				t.Data.BIOS.Pending, t.Data.Setup.OrderPending = nil, nil
			}
			if component := t.Data.component(w.Component, w.System); component != nil {
				component.Staged = ""
			}
		}
		t.dropTask(task)
		return success()
	})
}
