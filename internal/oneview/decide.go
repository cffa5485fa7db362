package oneview

import (
	"fmt"
	"net/http"
	"time"

	"burnish/internal/device"
	"burnish/internal/hardware"
)

// nextOfApply decides what is next until the server has Burnish's profile.
func (c *call) nextOfApply(v view) (step, error) {
	switch v.owner {
	case device.PoolTaken:
		return step{}, c.taken(v)
	case device.PoolOurs:
		switch {
		case v.applied == nil || v.applied.busy() || v.changing():
			return c.await(v.applied, "applying the profile"), nil
		case v.applied.failed() || v.hardware.State == profileError:
			// One that an earlier call has left half done is removed, and another one applied.
			switch {
			case c.failed != nil:
				return step{}, c.failed
			case c.settling(remove):
				return c.await(nil, "removing the profile"), nil
			}
			return c.removal(v, v.applied)
		}
		return step{done: true}, nil
	}
	switch {
	case v.spare != nil && v.spare.Hardware != "" && v.spare.Hardware != c.server.Hardware:
		return step{}, c.s.refused("see the profile on the appliance; remove it there",
			"another user has put the profile %s (%s) on %s", v.spare.Name, v.spare.URI, v.spare.Hardware)
	case v.spare != nil && v.spare.busy() || v.changing():
		return c.await(v.spare, "applying the profile"), nil
	case c.failed != nil:
		return step{}, c.failed
	case c.settling(create), v.spare != nil && c.settling(remove):
		return c.await(nil, "applying the profile"), nil
	case c.gapOfApply(v): // SAFETY F34: a tenant does not get what others have left
		return step{done: true}, nil
	case v.spare != nil:
		return c.removal(v, v.spare)
	case !c.server.Applying:
		return step{}, &device.Fault{Class: device.Permanent, Code: device.CodeInternal,
			Message: "a profile is applied only after it was recorded that one is requested"}
	case v.hardware.Power != powerOff:
		return c.switchOff(v)
	case c.body == nil:
		return step{prepare: true}, nil
	}
	return c.send(create, "applying the profile", request{Method: http.MethodPost, Path: profilesPath, Body: c.body})
}

// nextOfRemove decides what is next until no profile of Burnish's is left.
func (c *call) nextOfRemove(v view) (step, error) {
	if v.owner == device.PoolOurs {
		switch {
		case v.applied == nil || v.applied.busy() || v.changing():
			return c.await(v.applied, "removing the profile"), nil
		case c.failed != nil:
			return step{}, c.failed
		case c.settling(remove):
			return c.await(nil, "removing the profile"), nil
		}
		return c.removal(v, v.applied)
	}
	switch {
	case v.spare != nil && v.spare.busy():
		return c.await(v.spare, "removing the profile"), nil
	case v.spare != nil && v.spare.Hardware == "",
		v.spare != nil && v.spare.Hardware == c.server.Hardware && v.owner == device.PoolFree:
		switch {
		case c.failed != nil:
			return step{}, c.failed
		case c.settling(remove):
			return c.await(nil, "removing the profile"), nil
		}
		return c.removal(v, v.spare)
	case v.spare != nil: // another user has put it elsewhere, and it is theirs
		return step{done: true}, nil
	case v.owner == device.PoolFree && v.changing():
		return c.await(nil, "removing the profile"), nil
	case v.owner == device.PoolFree && c.server.Applying && c.server.Recorded == "" && c.changes == "" &&
		time.Since(c.began) < c.s.timing.settle:
		// A request that a crash has left may not show yet.
		return c.await(nil, "looking for a profile"), nil
	}
	return step{done: true}, nil
}

// changing: a task is at work on the server.
func (v view) changing() bool {
	switch v.hardware.State {
	case applyingProfile, removingProfile, updatingFirmware:
		return true
	}
	return false
}

// settling: a change that was accepted or lost a moment ago may not show yet.
func (c *call) settling(kind changeKind) bool {
	return c.changes == kind && time.Since(c.changed) < c.s.timing.settle
}

// await waits for the task of a profile, or for the server's state.
func (c *call) await(p *serverProfile, doing string) step {
	if p == nil {
		return step{doing: doing}
	}
	return step{task: p.Task, doing: doing, removes: p.State == deleting && p.Hardware == c.server.Hardware}
}

// removal removes a profile of Burnish's. The server must be off; one that does not have the
// profile is left alone.
func (c *call) removal(v view, p *serverProfile) (step, error) {
	if v.owner == device.PoolOurs && v.hardware.Power != powerOff {
		return c.switchOff(v)
	}
	return c.send(remove, "removing the profile", request{Method: http.MethodDelete, Path: p.URI, IfMatch: p.ETag})
}

// switchOff asks the operating system first, then switches off at once.
func (c *call) switchOff(v view) (step, error) {
	const doing = "switching the server off"
	request := func(control string) request {
		return request{Method: http.MethodPut, Path: c.server.Hardware + "/powerState",
			Body: map[string]string{"powerState": powerOff, "powerControl": control}}
	}
	limit := c.powerLimit(press)
	switch {
	case v.hardware.Power != powerOn && v.hardware.Power != "Unknown":
		return step{doing: doing}, nil // it changes
	case c.pressed.IsZero():
		return c.send(press, doing, request("MomentaryPress"))
	case c.held.IsZero() && c.notOff == nil && time.Now().Before(limit):
		return step{doing: doing, until: limit}, nil
	case c.held.IsZero():
		return c.send(hold, doing, request("PressAndHold"))
	case c.notOff != nil:
		return step{}, c.notOff
	case time.Now().Before(c.powerLimit(hold)):
		return step{doing: doing}, nil
	}
	return step{}, c.profileFailed("the server does not switch off: it is %s", v.hardware.Power)
}

// powerLimit is until when the server's power is waited for; zero for other changes.
func (c *call) powerLimit(kind changeKind) time.Time {
	switch kind {
	case press:
		return c.pressed.Add(c.s.timing.press)
	case hold:
		return c.held.Add(c.s.timing.hold)
	}
	return time.Time{}
}

// send sends a change, unless it was sent too often.
func (c *call) send(kind changeKind, doing string, r request) (step, error) {
	if c.tries[kind] < maxTries {
		return step{change: kind, doing: doing, request: r}, nil
	}
	if err := c.last[kind]; err != nil {
		return step{}, err
	}
	return step{}, c.profileFailed("it was asked %d times to %s, and the server does not show it", maxTries, kind)
}

// taken is the fault of a server that another user has.
func (c *call) taken(v view) error {
	return &device.Fault{Class: device.NeedsOperator, Code: device.CodeServerTaken,
		Message: fmt.Sprintf("another user of the appliance %s has the server: the profile %s is applied to it", c.s.name,
			hardware.OneLine(v.hardware.Profile)),
		Remedy: "nothing; it is cleaned when the other user removes the profile"}
}
