package redfishsim

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

func (m *Machine) task(id string) *Task {
	if id == "" {
		return nil
	}
	for _, task := range m.state.Tasks {
		if task.ID == id {
			return task
		}
	}
	return nil
}

// workOf is the work of a task that has not ended.
func (m *Machine) workOf(task *Task) *Work {
	for _, w := range m.state.Work {
		if w.Task == task.ID {
			return w
		}
	}
	return nil
}

// newTask is the next task, in its state before it runs.
func (m *Machine) newTask(kind, name string, at time.Time) *Task {
	s := &m.state
	id := strconv.Itoa(s.NextTask)
	if m.config.JobIDs {
		id = fmt.Sprintf("JID_%012d", 471269252000+s.NextTask)
	}
	s.NextTask++
	task := &Task{ID: id, Kind: kind, Name: name, State: "New", Status: "OK", Start: at}
	s.Tasks = append(s.Tasks, task)
	return task
}

// from keeps the request that a task was made for.
func (m *Machine) from(c *call, task *Task) {
	task.TargetURI, task.Operation, task.Body = c.request.URL.Path, c.request.Method, string(c.body)
	if strings.HasPrefix(c.request.Header.Get("Content-Type"), "multipart/") || len(task.Body) > 1000 {
		task.Body = ""
	}
}

// stateCanceled is a TaskState.
const stateCanceled = "Cancelled" //nolint:misspell // Redfish's own spelling

const (
	tasks    = "/redfish/v1/TaskService/Tasks"
	monitors = "/redfish/v1/TaskService/TaskMonitors"
)

// accepted is the answer to a request that goes on as task.
func (m *Machine) accepted(c *call, task *Task, form Form) answer {
	uri, monitor := m.uri(tasks+"/"+task.ID), m.uri(monitors+"/"+task.ID)
	body := m.taskBody(task, c.at)
	a := answer{status: http.StatusAccepted, header: map[string]string{"Location": uri}}
	switch form {
	case LocationOnly:
	case BodyOnly:
		a.body, a.header = body, nil
	case Absolute:
		a.header["Location"], a.body = "https://"+c.request.Host+uri, body
	case OtherHost:
		a.header["Location"], a.body = "https://"+m.config.ForeignHost+uri, body
	case MonitorOnly:
		a.header["Location"] = monitor
	case MonitorBoth:
		a.header["Location"], a.body = monitor, body
	case NoTask, NoTaskOK:
		m.state.Tasks = slices.DeleteFunc(m.state.Tasks, func(other *Task) bool { return other == task })
		if w := m.workOf(task); w != nil {
			w.Task = ""
		}
		if form == NoTask {
			return answer{status: http.StatusNoContent}
		}
		return message(200, "iLO.2.14.UpdateInProgress", "The request was accepted.")
	default: // Both
		a.body = body
	}
	return a
}

// running brings a task's state and percentage up to the moment.
func (m *Machine) running(task *Task, at time.Time) (state string, percent int) {
	w := m.workOf(task)
	if w == nil {
		return task.State, task.Percent
	}
	if w.Waits {
		if m.config.JobIDs {
			return "Starting", 0
		}
		return "Pending", 0
	}
	whole := w.Due.Sub(w.Started)
	switch {
	case m.config.Endings[w.Kind] == Stalls:
		return "Running", 50
	case whole <= 0:
		return "Running", 0
	default:
		return "Running", int(max(0, min(99, 100*at.Sub(w.Started)/whole)))
	}
}

func (m *Machine) taskBody(task *Task, at time.Time) map[string]any {
	doc := m.doc("Task.v1_4_3.Task", tasks+"/"+task.ID, task.ID, task.Name)
	state, percent := m.running(task, at)
	list := []any{}
	for _, one := range task.Messages {
		entry := information(one.MessageID, one.Message, one.Severity)
		if m.config.MessageSeverity {
			delete(entry, "Severity")
			entry["MessageSeverity"] = one.Severity
		}
		list = append(list, entry)
	}
	with(doc, map[string]any{
		"TaskState": state, "TaskStatus": task.Status, "PercentComplete": percent, "Messages": list,
		"StartTime": m.stamp(task.Start), "TaskMonitor": m.uri(monitors + "/" + task.ID),
	})
	if !task.End.IsZero() {
		doc["EndTime"] = m.stamp(task.End)
	}
	if m.config.TaskHasPayload && task.TargetURI != "" {
		doc["Payload"] = map[string]any{
			"TargetUri": task.TargetURI, "HttpOperation": task.Operation, "JsonBody": task.Body,
			"HttpHeaders": []string{"Content-Type: application/json"},
		}
	}
	return doc
}

// stamp is a time as BMCs write it: by the second, but with a fraction where a test's
// seconds are milliseconds.
func (m *Machine) stamp(at time.Time) string {
	return at.Add(m.config.ClockSkew).UTC().Format("2006-01-02T15:04:05.000-07:00")
}

func (m *Machine) taskServiceDoc(c *call) answer {
	doc := m.doc("TaskService.v1_1_4.TaskService", "/redfish/v1/TaskService", "TaskService", "Task Service")
	return ok(with(doc, map[string]any{
		"ServiceEnabled": true, "Tasks": m.link(tasks), "DateTime": m.stamp(c.at), "Status": status("Enabled", "OK"),
		"CompletedTaskOverWritePolicy": "Oldest", "LifeCycleEventOnTaskStateChange": true,
	}))
}

func (m *Machine) tasksDoc(*call) answer {
	var members []string
	for _, task := range m.state.Tasks {
		members = append(members, tasks+"/"+task.ID)
	}
	return ok(m.collection("TaskCollection", tasks, members...))
}

func (m *Machine) taskDoc(c *call) answer {
	task := m.task(c.vars[0])
	if task == nil {
		return notFound()
	}
	a := ok(m.taskBody(task, c.at))
	if m.config.TaskAnswers202 && m.workOf(task) != nil {
		a.status = http.StatusAccepted
	}
	return a
}

// monitorDoc is 202 while the task runs, then its end, later 404.
func (m *Machine) monitorDoc(c *call) answer {
	task := m.task(c.vars[0])
	switch {
	case task == nil || !task.End.IsZero() && c.at.Sub(task.End) > m.config.Delays.Forget:
		return notFound()
	case m.workOf(task) != nil:
		return answer{status: http.StatusAccepted, body: m.taskBody(task, c.at),
			header: map[string]string{"Location": m.uri(monitors + "/" + task.ID), "Retry-After": "1"}}
	case m.config.MonitorEnds204:
		return answer{status: http.StatusNoContent}
	default:
		return ok(m.taskBody(task, c.at))
	}
}

// jobsDoc and jobDoc are iDRAC's own view of the same.
func (m *Machine) jobsDoc(c *call) answer {
	path := m.manager("Jobs")
	var members []string
	for _, task := range m.state.Tasks {
		members = append(members, path+"/"+task.ID)
	}
	doc := m.collection("DellJobCollection", path, members...)
	if strings.Contains(c.request.URL.RawQuery, "expand") && m.config.NoExpand == "" {
		list := []any{}
		for _, task := range m.state.Tasks {
			list = append(list, m.jobBody(task, c.at))
		}
		doc["Members"] = list
	}
	return ok(doc)
}

func (m *Machine) jobDoc(c *call) answer {
	if task := m.task(c.vars[0]); task != nil {
		return ok(m.jobBody(task, c.at))
	}
	return notFound()
}

func (m *Machine) jobBody(task *Task, at time.Time) map[string]any {
	doc := m.doc("DellJob.v1_1_0.DellJob", m.manager("Jobs/"+task.ID), task.ID, task.Name)
	state, percent := m.running(task, at)
	switch {
	case state == "Starting" || state == "New":
		state = "Scheduled"
	case state == "Completed" && (task.Status == "Critical" ||
		slices.ContainsFunc(task.Messages, func(one Message) bool { return one.Severity == "Critical" })):
		state = "Failed"
	case state == "Exception" || state == stateCanceled:
		state = "Failed"
	}
	text := "Task " + strings.ToLower(state)
	if n := len(task.Messages); n > 0 {
		text = task.Messages[n-1].Message
	}
	return with(doc, map[string]any{
		"JobState": state, "PercentComplete": percent, "JobType": task.JobType, "Message": text,
		"StartTime": "TIME_NOW", "EndTime": "TIME_NA", "ActualRunningStartTime": m.stamp(task.Start), "TargetSettingsURI": nil,
	})
}

// createJob makes a job of settings that are pending without one.
func (m *Machine) createJob(c *call) answer {
	target, _ := c.json["TargetSettingsURI"].(string)
	switch {
	case strings.TrimSuffix(target, "/") != m.system("Bios/"+m.config.BIOSSettings):
		return failure(400, "Base.1.8.PropertyValueNotInList",
			"The value for the property TargetSettingsURI is not in the list of acceptable values.")
	case m.biosJob() != nil || len(m.state.BIOS.Pending) == 0:
		return failure(400, "IDRAC.2.8.RAC052", "There are no pending data present to create a configuration job.")
	}
	m.changed = true
	return m.commitSettings(c)
}

// deleteJob takes a job back that still waits.
func (m *Machine) deleteJob(c *call) answer {
	task := m.task(c.vars[0])
	if task == nil {
		return notFound()
	}
	w := m.workOf(task)
	switch {
	case w == nil:
	case !w.Waits:
		return failure(400, "IDRAC.2.8.JCP030", "Unable to delete the job, because it is running.")
	default:
		m.changed = true
		m.end(w, Canceled, c.at)
		if w.Kind == KindBIOS {
			m.state.BIOS.Pending = nil
		}
		if component := m.state.component(w.Component, w.System); component != nil {
			component.Staged = ""
		}
	}
	m.state.Tasks = slices.DeleteFunc(m.state.Tasks, func(other *Task) bool { return other == task })
	return message(200, "Base.1.8.Success", "Successfully completed request.")
}
