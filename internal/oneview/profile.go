package oneview

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"time"

	"burnish/internal/device"
	"burnish/internal/hardware"
)

// call is one Read, Apply or Remove. It looks at the server, decides what is next, does it and
// looks again, until the goal is reached: so a second call, after a crash or a lost answer,
// goes on where the first one ended, and no answer of the appliance is believed that a look
// does not confirm.
type call struct {
	s        *session
	server   Server
	settings Settings
	progress Progress
	began    time.Time

	// body is the profile to be created, from the template.
	body map[string]json.RawMessage
	// tries counts the requests of each kind of change, last is why the last one failed.
	tries map[changeKind]int
	last  map[changeKind]error
	// changed is when the profile's last change was accepted or lost, and which it was.
	changed time.Time
	changes changeKind
	// over are the tasks that have ended, failed is why the last one of them failed.
	over   map[string]bool
	failed error
	// removed is when the task ended that has removed the profile from the server, by the
	// appliance's clock; zero if that is not known. prompt: the answer to the last request that
	// changed a profile was no more than a blink behind the look before it.
	removed time.Time
	prompt  bool
	// pressed and held are when the server was asked to switch off, notOff is why that failed.
	pressed, held time.Time
	notOff        error
}

// changeKind is what a request changes.
type changeKind string

const (
	create changeKind = "create the profile"
	remove changeKind = "remove the profile"
	press  changeKind = "shut the server down"
	hold   changeKind = "switch the server off"
)

// maxTries bounds how often a request is sent that was refused, lost or without effect.
const maxTries = 3

// step is what is next.
type step struct {
	done bool
	// prepare: read the template.
	prepare bool
	// change is the request to send; "": wait.
	change  changeKind
	request request
	// task is what is waited for; "": for the server's state. until bounds it; zero: the
	// call's own time.
	task  string
	until time.Time
	doing string
	// removes: the task removes the profile from the server.
	removes bool
}

var uuidForm = regexp.MustCompile(`^[0-9A-Fa-f-]{8,64}$`)

func newCall(s *session, server Server, settings Settings, progress Progress) (*call, error) {
	invalid := func(what, value string) error {
		return &device.Fault{Class: device.NeedsOperator, Code: device.CodeInvalid,
			Message: fmt.Sprintf("%q is not a valid %s", value, what), Remedy: enrollAgain(what)}
	}
	if s.resource(server.Hardware, hardwarePath+"/") != server.Hardware || server.Hardware == "" {
		return nil, invalid("server_hardware_uri", server.Hardware)
	}
	if s.resource(server.Template, templatesPath+"/") != server.Template {
		return nil, invalid("server_profile_template_uri", server.Template)
	}
	if !uuidForm.MatchString(server.UUID) {
		return nil, invalid("UUID of a device", server.UUID)
	}
	if progress == nil {
		progress = func(int, string) error { return nil }
	}
	return &call{
		s: s, server: server, settings: settings, progress: progress, began: time.Now(),
		tries: make(map[changeKind]int), last: make(map[changeKind]error), over: make(map[string]bool),
	}, nil
}

// Apply makes sure that the server has Burnish's profile, and gives its URI.
func (p *Appliances) Apply(ctx context.Context, appliance string, server Server, progress Progress) (Found, error) {
	return p.reach(ctx, appliance, server, progress, goal{
		next: (*call).nextOfApply, gap: (*call).gapOfApply, spare: func(o device.Ownership) bool {
			return o == device.PoolFree
		},
	})
}

// Remove switches the server off and removes Burnish's profile from it.
func (p *Appliances) Remove(ctx context.Context, appliance string, server Server, progress Progress) (Found, error) {
	return p.reach(ctx, appliance, server, progress, goal{
		next: (*call).nextOfRemove, gap: (*call).gapOfRemove, spare: func(o device.Ownership) bool {
			return o != device.PoolOurs
		},
	})
}

// goal is what a call reaches: next decides, spare says whose servers' spare profiles it must know,
// and gap whether others may have used the server unseen.
type goal struct {
	next  func(*call, view) (step, error)
	spare func(device.Ownership) bool
	gap   func(*call, view) bool
}

// reach looks, decides and acts until the goal is reached.
func (p *Appliances) reach(ctx context.Context, appliance string, server Server, progress Progress,
	to goal) (Found, error) {
	s, settings, err := p.acquire(ctx, appliance)
	if err != nil {
		return Found{}, err
	}
	defer p.release(ctx, s)
	c, err := newCall(s, server, settings, progress)
	if err != nil {
		return Found{}, err
	}
	for {
		v, err := c.look(ctx, to.spare)
		if err != nil {
			return Found{}, err
		}
		todo, err := to.next(c, v)
		if err != nil || todo.done {
			found := v.found()
			found.Gap = to.gap(c, v)
			return found, err
		}
		switch {
		case todo.prepare:
			err = c.prepare(ctx)
		case todo.change != "":
			err = c.change(ctx, v, todo)
		default:
			err = c.follow(ctx, todo)
		}
		if err != nil {
			return v.found(), err
		}
	}
}

// prepare reads the profile to be created from the template.
func (c *call) prepare(ctx context.Context) error {
	var body map[string]json.RawMessage
	_, err := c.s.get(ctx, c.server.Template+"/new-profile", &body)
	if hasStatus(err, http.StatusNotFound) {
		return c.s.refused(enrollAgain("server_profile_template_uri"), "it has no template %s", c.server.Template)
	}
	if err != nil {
		return c.s.fault(ctx, err)
	}
	if body == nil {
		return c.s.refused("see the template on the appliance", "the template %s gives no profile", c.server.Template)
	}
	for key, value := range map[string]string{"name": c.server.UUID, "serverHardwareUri": c.server.Hardware} {
		if body[key], err = json.Marshal(value); err != nil {
			return err
		}
	}
	c.body = body
	return nil
}

// change sends the request of a step, and is the only way to send one that changes something,
// but for login and logout. It reads the server once more before it sends: if another user was
// faster, or its power has changed, nothing is sent, and the caller looks again. A request that
// was not answered is never repeated without a look.
func (c *call) change(ctx context.Context, v view, todo step) error {
	if err := c.progress(0, todo.doing); err != nil {
		return err
	}
	asked := time.Now().Round(0) // without Go's own clock, which stops while the machine is suspended
	now, err := c.readHardware(ctx)
	if err != nil {
		return err
	}
	if now.Profile != v.hardware.Profile || now.Power != v.hardware.Power ||
		now.State != v.hardware.State || now.Tag != v.hardware.Tag {
		return c.pause(ctx, time.Time{}, 0, todo.doing)
	}
	if todo.change == create {
		if c.body["description"], err = json.Marshal(c.describe(now)); err != nil {
			return err
		}
	}
	// Last, so that a worker that was frozen in the reads changes nothing that another attempt
	// may have settled since (F32).
	if err := hardware.MayWrite(ctx); err != nil {
		return err
	}
	if todo.change == create && c.server.Tag != "" && time.Since(asked) > device.Blink {
		return c.pause(ctx, time.Time{}, 0, todo.doing) // what the slow read said is old by now
	}
	c.tries[todo.change]++
	got, err := c.s.authorized(ctx, todo.request)
	if todo.change == create || todo.change == remove {
		c.prompt = err == nil && time.Since(asked) <= device.Blink
	}
	var no *refusal
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case err == nil:
		c.last[todo.change], c.failed = nil, nil
		c.sent(todo.change)
		if task := c.taskOf(got); task != "" {
			err = c.follow(ctx, step{
				task: task, doing: todo.doing, until: c.powerLimit(todo.change),
				removes: todo.change == remove && v.owner == device.PoolOurs,
			})
		}
		if todo.change == press || todo.change == hold {
			c.notOff, c.failed = c.failed, nil
		}
		return err
	case hasStatus(err, http.StatusUnauthorized): // it was not carried out, and the look logs in
		c.last[todo.change] = c.s.fault(ctx, err)
		return nil
	case passes(err):
		c.last[todo.change] = c.s.fault(ctx, err)
		if todo.change == create || todo.change == remove {
			c.sent(todo.change)
		}
		return c.pause(ctx, time.Time{}, 0, todo.doing)
	case !errors.As(err, &no):
		return err
	case no.Status == http.StatusConflict || no.Status == http.StatusPreconditionFailed || no.Status == http.StatusLocked:
	default:
		c.tries[todo.change] = maxTries // another look may show why
	}
	c.last[todo.change] = c.s.fault(ctx, err)
	return c.pause(ctx, time.Time{}, 0, todo.doing)
}

// sent notes a change that was accepted, or may have been.
func (c *call) sent(kind changeKind) {
	now := time.Now()
	switch kind {
	case press:
		c.pressed = now
	case hold:
		c.held = now
	default:
		c.changed, c.changes = now, kind
	}
}

// taskOf finds the task in the answer to a change: in the Location or in the body.
func (c *call) taskOf(a answer) string {
	if uri := c.s.resource(a.Header.Get("Location"), tasksPath+"/"); uri != "" {
		return uri
	}
	var body struct {
		URI string `json:"uri"`
	}
	if len(a.Body) == 0 || json.Unmarshal(a.Body, &body) != nil {
		return "" // the look shows what has come of it
	}
	return c.s.resource(body.URI, tasksPath+"/")
}

// task is a task of the appliance.
type task struct {
	State    string    `json:"taskState"`
	Percent  int       `json:"percentComplete"`
	Errors   []problem `json:"taskErrors"`
	Modified string    `json:"modified"`
}

// follow waits for the end of a task, or a pause where there is none to follow.
func (c *call) follow(ctx context.Context, what step) error {
	uri := c.s.resource(what.task, tasksPath+"/")
	if uri == "" || c.over[uri] {
		return c.pause(ctx, time.Time{}, 0, what.doing)
	}
	for {
		var t task
		_, err := c.s.get(ctx, uri, &t)
		if hasStatus(err, http.StatusNotFound) {
			c.over[uri] = true // the look settles what has come of it
			return nil
		}
		if err != nil {
			return c.s.fault(ctx, err)
		}
		switch t.State {
		case "Completed", "Warning":
			if c.over[uri] = true; what.removes {
				c.removed = moment(t.Modified)
			}
			return nil
		case "Error", "Terminated", "Killed":
			c.over[uri], c.failed = true, c.taskFailed(uri, t)
			return nil
		case "New", "Starting", "Pending", "Running", "Suspended", "Stopping":
		default: // Interrupted, Unknown: the look settles what has come of it
			return c.pause(ctx, time.Time{}, t.Percent, what.doing)
		}
		if !what.until.IsZero() && time.Now().After(what.until) {
			return nil
		}
		if err := c.pause(ctx, what.until, t.Percent, what.doing); err != nil {
			return err
		}
	}
}

func (c *call) taskFailed(uri string, t task) error {
	said := t.State
	for _, p := range t.Errors {
		said += ": " + p.String()
	}
	return c.profileFailed("the task %s ended as %s", uri, hardware.OneLine(said))
}

// profileFailed is the fault of a profile that is not applied, or not removed.
func (c *call) profileFailed(format string, args ...any) *device.Fault {
	return &device.Fault{Class: device.NeedsOperator, Code: device.CodeProfileFailed,
		Remedy:  "see the task on the appliance",
		Message: fmt.Sprintf("the appliance %s: ", c.s.name) + fmt.Sprintf(format, args...)}
}

// pause reports the progress and waits for the next look, until a given time at most. The
// call's own time is apply_timeout.
func (c *call) pause(ctx context.Context, until time.Time, percent int, doing string) error {
	if err := c.progress(percent, doing); err != nil {
		return err
	}
	if limit := c.settings.ApplyTimeout; time.Since(c.began) > limit {
		return &device.Fault{Class: device.NeedsOperator, Code: device.CodeProfileStuck,
			Remedy:  "see the task on the appliance; raise apply_timeout if it needs longer",
			Message: fmt.Sprintf("the appliance %s: %s takes longer than %v", c.s.name, doing, limit)}
	}
	wait := c.s.timing.poll
	if left := time.Until(until); !until.IsZero() && left < wait {
		wait = max(left, time.Millisecond)
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
