package oneviewsim

import (
	"fmt"
	"net/http"
	"time"
)

// The kinds of tasks.
const (
	taskCreate = "create"
	taskDelete = "delete"
	taskPower  = "power"
)

// The stages of a task.
const (
	stageAccepted = "accepted" // the answer was given, and nothing is done or checked
	stageRunning  = "running"
	stageEnded    = "ended"
)

// The states in which a task ends.
const (
	Completed  = "Completed"
	Warning    = "Warning"
	Error      = "Error"
	Terminated = "Terminated"
	Killed     = "Killed"
)

// The effects of a task that ends otherwise than it should. A profile whose task ended half way
// stays on its server, in the state CreateFailed or DeleteFailed; a server's power is then as it
// was.
const (
	NoEffect Effect = "none"
	HalfDone Effect = "half done"
	Done     Effect = "done"
)

// Task is what the appliance does after it has answered a request.
type Task struct {
	ID, Name, Kind, User string
	Stage                string
	Ended                string // in which state; empty: it goes on
	Created, Modified    time.Time
	Began, Due           time.Time // of the stage
	Server, Profile      string    // URIs
	Power, Control       string
	Want                 Wanted
	Errors               []*Problem
	Fault                TaskFault
}

// URI is the task's.
func (t *Task) URI() string { return tasksPath + "/" + t.ID }

func (t *Task) pending() bool { return t.Stage != stageEnded }

// State is as the appliance shows it.
func (t *Task) State() string {
	switch {
	case t.Stage == stageEnded:
		return t.Ended
	case t.Fault.Shows != "":
		return t.Fault.Shows
	case t.Stage == stageAccepted:
		return "Starting"
	default:
		return "Running"
	}
}

func (t *Task) percent(at time.Time) int {
	switch {
	case t.Stage == stageEnded:
		return 100
	case t.Stage == stageAccepted:
		return 0
	case t.Fault.Stalls:
		return 50
	}
	whole := max(t.Due.Sub(t.Began), 1)
	return min(99, max(1, int(100*at.Sub(t.Began)/whole)))
}

func (a *Appliance) taskDoc(t *Task) map[string]any {
	problems := []any{}
	for _, p := range t.Errors {
		problems = append(problems, refuse(0, p).Body)
	}
	percent, resource := t.percent(time.Now()), t.Profile
	if t.Kind == taskPower {
		resource = t.Server
	}
	return map[string]any{
		"type": "TaskResourceV2", "category": "tasks", "uri": t.URI(), "name": t.Name, "owner": t.User,
		"taskState": t.State(), "percentComplete": percent, "taskErrors": problems, "eTag": fmt.Sprint(percent),
		"created": timestamp(t.Created), "modified": timestamp(t.Modified),
		"associatedResource": map[string]any{"resourceUri": orNull(resource)},
	}
}

func (a *Appliance) newTask(c *call, t Task) *Task {
	n := a.number()
	t.ID, t.User, t.Stage = fmt.Sprintf("%08X-0000-4000-A000-%012X", n, n), c.Entry.User, stageAccepted
	t.Created, t.Modified, t.Began, t.Due = c.At, c.At, c.At, c.At.Add(a.Conf.Delays.Accept)
	t.Fault = a.taskFault
	a.Data.Tasks = append(a.Data.Tasks, &t)
	return &t
}

// accepted answers with a task.
func (a *Appliance) accepted(c *call, t *Task) answer {
	location := t.URI()
	if a.Conf.TaskForm == Absolute {
		location = "https://" + c.Host + location
	}
	reply := answer{Status: http.StatusAccepted}
	if a.Conf.TaskForm != BodyOnly {
		reply.Header = map[string]string{"Location": location}
	}
	if a.Conf.TaskForm == BodyOnly || a.Conf.TaskForm == Both {
		reply.Body = a.taskDoc(t)
	}
	return reply
}

// advance does what is due until now, in its order.
func (a *Appliance) advance(now time.Time) {
	for {
		var next *Task
		for _, t := range a.Data.Tasks {
			if t.pending() && !t.Due.After(now) && !(t.Stage == stageRunning && t.Fault.Stalls) &&
				(next == nil || t.Due.Before(next.Due)) && a.ready(t) {
				next = t
			}
		}
		if next == nil {
			return
		}
		at := next.Due
		next.Modified, a.doing = at, at
		if next.Stage == stageAccepted {
			a.begin(next, at)
		} else {
			a.finish(next, at)
		}
		a.doing = time.Time{}
		// A task ends after what it has done.
		if h := find(a.Data.Hardware, next.Server); h != nil && h.Modified.After(at) {
			next.Modified = h.Modified
		}
	}
}

// ready is false of a power task whose BMC has not done it yet.
func (a *Appliance) ready(t *Task) bool {
	h := find(a.Data.Hardware, t.Server)
	if t.Kind != taskPower || t.Stage != stageRunning || a.bmcs[t.Server] == nil || h == nil {
		return true
	}
	a.refresh(h)
	return h.Power == t.Power || a.ignored(t)
}

// ignored is true of a shutdown that the operating system ignores.
func (a *Appliance) ignored(t *Task) bool {
	return a.Conf.IgnoreShutdown && t.Power == Off && t.Control == "MomentaryPress"
}

// begin checks a task and starts what it does.
func (a *Appliance) begin(t *Task, at time.Time) {
	t.Stage, t.Began = stageRunning, at
	if t.Fault.Effect == NoEffect {
		// It does nothing, and ends when it would have.
		t.Due = at.Add(a.Conf.Delays.Accept)
		return
	}
	h := find(a.Data.Hardware, t.Server)
	switch t.Kind {
	case taskCreate:
		if why := a.createProblem(t.Want, h); why != nil {
			t.end(Error, why)
			return
		}
		p := a.addProfile(t.Want, h, t.User, at)
		p.State, p.Task, t.Profile = creating, t.URI(), p.URI()
		a.show(h, applyingProfile)
		t.Due = at.Add(a.Conf.Delays.Apply)
	case taskDelete:
		p := find(a.Data.Profiles, t.Profile)
		if p == nil {
			t.end(Error, problem("ProfileNotFound", "The server profile "+t.Profile+" does not exist any more.", ""))
			return
		}
		if h != nil {
			if why := a.notOff(h); why != nil {
				t.end(Error, why)
				return
			}
		}
		p.State, p.Task = deleting, t.URI()
		p.Version++
		a.show(h, removingProfile)
		t.Due = at.Add(a.Conf.Delays.Remove)
	case taskPower:
		a.beginPower(t, h, at)
	}
}

// show sets a server's state, where there is a server.
func (a *Appliance) show(h *Hardware, state string) {
	if h != nil {
		h.State = state
		a.changed(h)
	}
}

func (a *Appliance) beginPower(t *Task, h *Hardware, at time.Time) {
	a.refresh(h)
	d := a.Conf.Delays
	bmc := a.bmcs[t.Server]
	switch {
	case h.Power == t.Power:
		t.end(Completed)
		return
	case a.ignored(t):
		t.Due = at.Add(d.Shutdown)
		return
	case bmc != nil:
		t.Due = at.Add(time.Millisecond)
		if err := bmc.SetPower(resetType(t.Power, t.Control)); err != nil {
			t.end(Error, powerFailed(err.Error()))
		}
		return
	case t.Power == On:
		h.Power, t.Due = poweringOn, at.Add(d.PowerOn)
	case t.Control == "MomentaryPress":
		h.Power, t.Due = poweringOff, at.Add(d.Shutdown)
	default:
		h.Power, t.Due = poweringOff, at.Add(d.PowerOff)
	}
	a.changed(h)
}

func powerFailed(details string) *Problem {
	return problem("PowerOperationFailed", "The power operation request did not succeed.", details)
}

// end ends a task.
func (t *Task) end(state string, problems ...*Problem) {
	t.Stage, t.Ended, t.Errors = stageEnded, state, append(t.Errors, problems...)
}

// finish ends what a task does.
func (a *Appliance) finish(t *Task, at time.Time) {
	ends, effect := t.Fault.Ends, t.Fault.Effect
	if ends == "" {
		ends = Completed
	}
	if ends != Completed {
		t.Errors = append(t.Errors, problem("SimulatedProblem", "The task "+t.Name+" has ended in "+ends+".", ""))
	}
	if effect == "" && ends != Completed && ends != Warning {
		effect = HalfDone
	}
	p, h := find(a.Data.Profiles, t.Profile), find(a.Data.Hardware, t.Server)
	switch {
	case effect == NoEffect:
	case t.Kind == taskPower && a.ignored(t):
		t.end(Error, powerFailed("The operating system ignored the request to shut down."))
		return
	case t.Kind == taskPower:
		if a.bmcs[t.Server] == nil { // otherwise the BMC has done it
			h.Power = map[bool]string{true: On, false: Off}[(t.Power == On) == (effect != HalfDone)]
		}
		a.changed(h)
	case p == nil:
	case effect == HalfDone:
		p.State = map[string]string{taskCreate: createFailed, taskDelete: deleteFailed}[t.Kind]
		p.Status, p.Modified = "Critical", at
		p.Version++
		a.show(h, ProfileError)
	case t.Kind == taskDelete:
		a.removeFrom(p, find(a.Data.Hardware, p.Hardware))
	default:
		p.State, p.Status, p.Modified = Normal, "OK", at
		p.Version++
		a.show(h, ProfileApplied)
	}
	t.end(ends)
}
