package oneviewsim

import (
	"fmt"
	"net/http"
	"time"
)

// The kinds of tasks.
const (
	taskCreate = "create"
	taskUpdate = "update"
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

// Effect is what a task has done when it ends otherwise than it should.
type Effect string

// The effects. A profile whose task ended half way stays on its server, in the state
// CreateFailed, UpdateFailed or DeleteFailed; a server's power is then as it was.
const (
	NoEffect Effect = "none"
	HalfDone Effect = "half done"
	Done     Effect = "done"
)

// TaskFault is how a task goes wrong.
type TaskFault struct {
	Ends   string // Completed, Warning, Error, Terminated, Killed; empty: as it should
	Effect Effect // empty: Done of Warning and Completed, else HalfDone
	// Shows is the state as long as the task runs: Pending, Suspended, Stopping, Interrupted,
	// Unknown or another one; empty: New, Starting, Running.
	Shows    string
	Stalls   bool // it never ends, see Appliance.Resume
	Vanishes bool // 404; what it does, it does
}

// Task is what the appliance does after it has answered a request.
type Task struct {
	ID, Name, Kind, User string
	Stage                string
	Ended                string // in which state; empty: it goes on
	Created, Modified    time.Time
	Began, Due           time.Time // of the stage
	Resource             string    // URI
	ResourceName         string
	Server, Profile      string // URIs
	Power, Control       string
	Force                bool
	Want                 Wanted
	Errors               []Problem
	Fault                TaskFault
	Request              int // the number of the request that began it
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

func (a *Appliance) taskDoc(t *Task, at time.Time) map[string]any {
	problems := []any{}
	for _, p := range t.Errors {
		problems = append(problems, refuse(0, p).body)
	}
	percent := t.percent(at)
	return map[string]any{
		"type": "TaskResourceV2", "category": "tasks", "uri": t.URI(), "name": t.Name, "owner": t.User, "taskState": t.State(),
		"percentComplete": percent, "computedPercentComplete": percent, "taskErrors": problems, "taskStatus": "", "stateReason": nil,
		"associatedResource": map[string]any{"resourceUri": orNull(t.Resource), "resourceName": t.ResourceName, "resourceCategory": t.category(), "associationType": "MANAGED_BY"},
		"created":            timestamp(t.Created), "modified": timestamp(t.Modified), "taskType": "User", "eTag": fmt.Sprint(percent),
	}
}

func (t *Task) category() string {
	if t.Kind == taskPower {
		return "server-hardware"
	}
	return "server-profiles"
}

func (a *Appliance) taskList(c *call) answer {
	var shown []*Task
	for _, t := range a.state.Tasks {
		if !t.Fault.Vanishes {
			shown = append(shown, t)
		}
	}
	return a.list(c, "TaskResourceCollection", "tasks", tasksPath, len(shown), func(i int) map[string]any {
		return a.taskDoc(shown[i], c.at)
	})
}

func (a *Appliance) taskOne(c *call) answer {
	t := a.tasks[tasksPath+"/"+c.id]
	if t == nil || t.Fault.Vanishes {
		return notFound(c.request.URL.Path)
	}
	return ok(a.taskDoc(t, c.at))
}

func (a *Appliance) newTask(c *call, name, kind, resource, resourceName string) *Task {
	n := a.number()
	t := &Task{
		ID: fmt.Sprintf("%08X-0000-4000-A000-%012X", n, n), Name: name, Kind: kind, User: c.user, Stage: stageAccepted,
		Created: c.at, Modified: c.at, Began: c.at, Due: c.at.Add(a.config.Delays.Accept), Resource: resource,
		ResourceName: resourceName,
		Fault:        a.taskFault, Request: a.now,
	}
	a.state.Tasks, a.tasks[t.URI()] = append(a.state.Tasks, t), t
	a.touch(t)
	return t
}

// accepted answers with a task.
func (a *Appliance) accepted(c *call, t *Task) answer {
	if t.Kind == taskPower {
		t.Due = c.at // it begins at once: what was checked holds
		a.advance(c.at)
	}
	location := t.URI()
	if a.config.TaskForm == Absolute {
		location = "https://" + c.request.Host + location
	}
	reply := answer{status: http.StatusAccepted}
	if a.config.TaskForm != BodyOnly {
		reply.header = map[string]string{"Location": location}
	}
	if a.config.TaskForm == BodyOnly || a.config.TaskForm == Both {
		reply.body = a.taskDoc(t, c.at)
	}
	return reply
}

// advance does what is due until now, in its order.
func (a *Appliance) advance(now time.Time) {
	for {
		var next *Task
		for _, t := range a.state.Tasks {
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
		if h := a.hardware[next.Server]; h != nil && h.Modified.After(at) {
			next.Modified = h.Modified
		}
		a.touch(next)
	}
}

// ready is false of a power task whose BMC has not done it yet.
func (a *Appliance) ready(t *Task) bool {
	h := a.hardware[t.Server]
	if t.Kind != taskPower || t.Stage != stageRunning || a.bmcs[t.Server] == nil || h == nil {
		return true
	}
	a.refresh(h)
	return h.Power == t.Power || a.ignored(t)
}

// ignored is true of a shutdown that the operating system ignores.
func (a *Appliance) ignored(t *Task) bool {
	return a.config.IgnoreShutdown && t.Power == Off && t.Control == "MomentaryPress"
}

// begin checks a task and starts what it does.
func (a *Appliance) begin(t *Task, at time.Time) {
	t.Stage, t.Began = stageRunning, at
	if t.Fault.effect() == NoEffect {
		// It does nothing, and ends when it would have.
		t.Due = at.Add(a.config.Delays.Accept)
		return
	}
	p, h, d := a.profiles[t.Profile], a.hardware[t.Server], a.config.Delays
	switch t.Kind {
	case taskCreate:
		if why := a.createProblem(t.Want); why != nil {
			t.end(Error, *why)
			return
		}
		created := a.addProfile(t.Want, t.User, at)
		created.State, created.Task, t.Profile, t.Resource = Creating, t.URI(), created.URI(), created.URI()
		a.doubled(t, created, at)
		a.show(h, ApplyingProfile)
		t.Due = at.Add(d.Apply)
	case taskUpdate:
		if p == nil {
			t.end(Error, gone(t))
			return
		}
		if why := a.updateProblem(p, t.Want); why != nil {
			t.end(Error, *why)
			return
		}
		if t.Want.Server != p.Hardware {
			a.assign(p, h)
		}
		p.Name, p.Description, p.State, p.Task = t.Want.Name, t.Want.Description, Updating, t.URI()
		a.touch(p)
		a.show(h, ApplyingProfile)
		t.Due = at.Add(d.Update)
	case taskDelete:
		if p == nil {
			t.end(Error, gone(t))
			return
		}
		if why := a.deleteProblem(p, t.Force); why != nil {
			t.end(Error, *why)
			return
		}
		p.State, p.Task = Deleting, t.URI()
		a.touch(p)
		a.show(h, RemovingProfile)
		t.Due = at.Add(d.Remove)
	case taskPower:
		a.beginPower(t, h, at)
	}
}

func gone(t *Task) Problem {
	return problem("ProfileNotFound", "The server profile "+t.ResourceName+" does not exist any more.", "", "")
}

// show sets a server's state, where there is a server.
func (a *Appliance) show(h *Hardware, state string) {
	if h != nil {
		h.State = state
		a.touch(h)
	}
}

func (a *Appliance) beginPower(t *Task, h *Hardware, at time.Time) {
	a.refresh(h)
	d := a.config.Delays
	if h.Power == t.Power && t.Control != "ColdBoot" && t.Control != "Reset" {
		t.end(Completed)
		return
	}
	if a.ignored(t) {
		t.Due = at.Add(d.Shutdown)
		return
	}
	if bmc := a.bmcs[t.Server]; bmc != nil {
		t.Due = at.Add(time.Millisecond)
		if err := bmc.SetPower(resetType(t.Power, t.Control)); err != nil {
			t.end(Error, powerFailed(err.Error()))
		}
		return
	}
	switch {
	case t.Power == On && h.Power == On:
		h.Power, t.Due = Resetting, at.Add(d.PowerOn)
	case t.Power == On:
		h.Power, t.Due = PoweringOn, at.Add(d.PowerOn)
	case t.Control == "MomentaryPress":
		h.Power, t.Due = PoweringOff, at.Add(d.Shutdown)
	default:
		h.Power, t.Due = PoweringOff, at.Add(d.PowerOff)
	}
	a.touch(h)
}

func powerFailed(details string) Problem {
	return problem("PowerOperationFailed", "The power operation request did not succeed.", details, "Retry the operation.")
}

func (f TaskFault) effect() Effect {
	switch {
	case f.Effect != "":
		return f.Effect
	case f.Ends == "" || f.Ends == Completed || f.Ends == Warning:
		return Done
	default:
		return HalfDone
	}
}

// end ends a task.
func (t *Task) end(state string, problems ...Problem) {
	t.Stage, t.Ended, t.Errors = stageEnded, state, append(t.Errors, problems...)
}

// finish ends what a task does.
func (a *Appliance) finish(t *Task, at time.Time) {
	ends := t.Fault.Ends
	if ends == "" {
		ends = Completed
	}
	var problems []Problem
	if ends != Completed {
		problems = []Problem{problem("SimulatedProblem", "The task "+t.Name+" of "+t.ResourceName+" has ended in "+ends+".",
			"As the test wanted it.", "Retry the operation.")}
	}
	if effect := t.Fault.effect(); effect != NoEffect {
		p, h := a.profiles[t.Profile], a.hardware[t.Server]
		if t.Kind == taskPower {
			problems = append(problems, a.finishPower(t, h, effect == Done)...)
			if a.ignored(t) {
				ends = Error
			}
		} else if p != nil {
			a.finishProfile(t, p, h, effect == Done, at)
		}
	}
	t.end(ends, problems...)
}

func (a *Appliance) finishPower(t *Task, h *Hardware, done bool) []Problem {
	switch {
	case a.ignored(t):
		return []Problem{powerFailed("The operating system ignored the request to shut down.")}
	case a.bmcs[t.Server] != nil: // it has done it
	case done:
		h.Power = t.Power
	case t.Power == On:
		h.Power = Off
	default:
		h.Power = On
	}
	a.touch(h)
	return nil
}

func (a *Appliance) finishProfile(t *Task, p *Profile, h *Hardware, done bool, at time.Time) {
	p.Modified = at
	a.touch(p)
	if !done {
		p.State = map[string]string{taskCreate: CreateFailed, taskUpdate: UpdateFailed, taskDelete: DeleteFailed}[t.Kind]
		p.Status = "Critical"
		a.show(h, ProfileError)
		return
	}
	if t.Kind == taskDelete {
		a.assign(p, nil)
		a.removeProfile(p)
		return
	}
	p.State, p.Status = Normal, "OK"
	a.show(h, ProfileApplied)
}
