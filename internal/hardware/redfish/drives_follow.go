package redfish

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/stmcginnis/gofish/redfish"

	"burnish/internal/device"
	"burnish/internal/hardware"
)

// follow looks once how far a drive's erase is that this clean has sent.
func (e *eraser) follow(ctx context.Context, r *eraseRecord) error {
	if r.State == eraseSent || r.Task == "" {
		if err := e.find(ctx, r); err != nil || r.State != eraseAccepted {
			return err // not found yet, or to be sent again
		}
	}
	if r.Task == "" {
		return e.followOperation(ctx, r)
	}
	t, err := e.h.c.readTask(ctx, r.Task)
	if err != nil {
		return err
	}
	if t == nil || !r.isOurs(t) {
		// It is gone, or only a monitor is. What the drive does says more.
		r.Task, r.Start = "", ""
		return e.save()
	}
	if r.Start == "" && t.StartTime != "" {
		r.Start = t.StartTime
		if err := e.save(); err != nil {
			return err
		}
	}
	result, err := t.result(r.action)
	if err == nil {
		r.waits, err = e.h.waitsForReset(ctx, t)
	}
	switch {
	case err != nil:
		return err
	case result == unsettled:
		return eraseUnknown(r, "its task %s has ended without a result", r.Task)
	case result == succeeded:
		return e.ended(r)
	}
	return e.moved(r, t.PercentComplete, string(t.TaskState))
}

// ended records that the controller says that the drive is erased.
func (e *eraser) ended(r *eraseRecord) error {
	r.State, r.Ended, r.percent, r.waits = eraseDone, time.Now().Round(0), 100, false
	return e.save()
}

// moved watches for an erase that makes no progress.
func (e *eraser) moved(r *eraseRecord, percent int, state string) error {
	r.percent = percent
	if now := fmt.Sprint(percent, state); now != r.mark {
		r.mark, r.moved = now, time.Now()
	}
	if r.action.Stall > 0 && time.Since(r.moved) > r.action.Stall {
		return hardware.Refused(device.CodeNoProgress, "see the drive on the BMC; clean the server again to continue waiting",
			"the erase of the drive %s has made no progress for %v: %s, %d %%", r.drive.Serial, r.action.Stall, state, percent)
	}
	return nil
}

// find looks for what has come of a request that has no task: its answer was lost, named none,
// or its task is gone. Only a task or an operation that was not there before the request, and
// is of this drive, is ours.
func (e *eraser) find(ctx context.Context, r *eraseRecord) error {
	all, err := e.h.c.tasks(ctx)
	if err != nil {
		return err
	}
	if i := slices.IndexFunc(all, func(t *task) bool { return r.isNew(t) && r.isFor(t) && r.isOurs(t) }); i >= 0 {
		return e.found(r, all[i].path)
	}
	// A Dell job does not say of which drive it is. A new one can only be this request's where
	// no other erase is without its task.
	var jobs []string
	for _, t := range all {
		if r.isNew(t) && t.Payload.TargetURI == "" && t.erases() && r.isOurs(t) && !e.hasTask(t.path) {
			jobs = append(jobs, t.path)
		}
	}
	if len(jobs) == 1 && e.withoutTask() == 1 {
		return e.found(r, jobs[0])
	}
	if r.State != eraseSent {
		return nil
	}
	doing, err := e.operation(ctx, r)
	if err != nil {
		return err
	}
	if doing != nil {
		r.Seen = true
		return e.found(r, string(doing.AssociatedTask))
	}
	// A BMC may show a task late, after a restart later.
	if r.looked.IsZero() {
		r.looked = time.Now()
	}
	if time.Since(r.looked) > e.h.c.bmc.timing.settle {
		if r.notReady > 0 && r.notReady < maxTries {
			// It said that it was not ready, and nothing shows that it has begun.
			r.State = ""
			return e.save()
		}
		again, err := e.mayNotHaveBegun(ctx, r, all)
		if err != nil {
			return err
		}
		if again {
			r.State, r.Again = "", true
			return e.save()
		}
		return eraseUnknown(r, "the answer to the request was lost, and neither a task nor the drive shows an erase")
	}
	return nil
}

// mayNotHaveBegun: a worker has ended between its record of a request and the answer, and reading
// shows nothing of the request for as long as BMCs take to show it: it was never sent, or not
// carried out. It is sent once more. Were it carried out all the same, the drive would be erased
// twice in this clean, which harms nothing; each of the two is this clean's.
//
// Only where a BMC shows an erase after its end can reading say so: with a task. An iLO
// has none; an erase that has ended unseen and one that was never sent look the same.
//
// The same holds where the answer was lost, and the BMC says that it has restarted since: nothing waits
// for that request any more, and one that had begun would have its task, on a BMC that keeps them.
func (e *eraser) mayNotHaveBegun(ctx context.Context, r *eraseRecord, all []*task) (bool, error) {
	if r.Again {
		return false, nil
	}
	restarted, keepsTasks, err := e.h.bmcRestarted(ctx, &r.work)
	restarted = restarted && keepsTasks // a drive erases on without its BMC
	if err != nil || r.Answered || r.Lost && !restarted {
		return false, err
	}
	s, err := e.h.c.readSystem(ctx, e.h.system)
	if err != nil || s.hpe() != nil && !restarted {
		return false, err
	}
	for _, t := range all {
		if r.isNew(t) && (r.isFor(t) || t.Payload.TargetURI == "" && t.erases() && !e.hasTask(t.path)) {
			return false, nil // it may be this request's
		}
	}
	for _, mark := range r.Before {
		if !restarted && !slices.ContainsFunc(all, func(t *task) bool { return t.mark() == mark }) {
			return false, nil // the BMC forgets tasks
		}
	}
	way, why, err := e.h.wayToErase(ctx, r.drive)
	if err != nil || why != "" {
		return false, err
	}
	r.way = way
	return true, nil
}

// found records what a request has become.
func (e *eraser) found(r *eraseRecord, uri string) error {
	r.State, r.Answered, r.Task, r.Start, r.looked = eraseAccepted, true, uri, "", time.Time{}
	return e.save()
}

// followOperation looks at the drive itself, where there is no task.
func (e *eraser) followOperation(ctx context.Context, r *eraseRecord) error {
	doing, err := e.operation(ctx, r)
	if err != nil {
		return err
	}
	if doing != nil {
		r.looked = time.Time{}
		if !r.Seen {
			r.Seen = true
			if err := e.save(); err != nil {
				return err
			}
		}
		return e.moved(r, doing.PercentageComplete, doing.OperationName)
	}
	if wrong := r.drive.unhealthy(); wrong != "" {
		return hardware.Refused(device.CodeStepFailed, "see the drive on the BMC, replace it if it has failed",
			"the drive %s has ended its erase, and %s", r.drive.Serial, wrong)
	}
	if r.Seen {
		return e.ended(r)
	}
	if r.looked.IsZero() {
		r.looked = time.Now()
	}
	if time.Since(r.looked) > e.h.c.bmc.timing.settle {
		return eraseUnknown(r, "the BMC has accepted the request, and neither a task nor the drive shows what has come of it")
	}
	return nil
}

// operation reads what the drive does now; nil: nothing. The server must have ended POST: a
// BMC shows no drives before.
func (e *eraser) operation(ctx context.Context, r *eraseRecord) (*driveOperation, error) {
	if err := e.h.ensureOn(ctx, e.run); err != nil {
		return nil, err
	}
	return e.h.driveOperation(ctx, r.drive)
}

// driveOperation reads again what a drive does.
func (h *handle) driveOperation(ctx context.Context, d *drive) (*driveOperation, error) {
	for i, shown := range d.Shown {
		now := &driveResource{path: shown.path}
		if err := h.c.get(ctx, shown.path, now); err != nil {
			return nil, driveUnreadable(err)
		}
		if have := hardware.CanonicalSerial(now.SerialNumber); have != d.Serial {
			return nil, hardware.Refused(device.CodeDrivesChanged, "put the enrolled drive back, then clean the server again",
				"%s was the drive %s and is %q now", shown.path, d.Serial, have)
		}
		d.Shown[i] = now
	}
	return d.operation(), nil
}

func eraseUnknown(r *eraseRecord, format string, args ...any) error {
	return hardware.Refused(device.CodeEraseUnknown, "see the drive on the BMC; clean the server again: each drive is "+
		"erased again",
		"whether the drive %s was erased is unknown: %s", r.drive.Serial, fmt.Sprintf(format, args...))
}

// mark distinguishes a task from another one that gets its number after a restart of the BMC.
func (t *task) mark() string { return t.path + " " + t.StartTime }

// isNew: the task was not there before the request.
func (r *eraseRecord) isNew(t *task) bool { return !slices.Contains(r.Before, t.mark()) }

// isFor: the task says that it is of this drive.
func (r *eraseRecord) isFor(t *task) bool {
	return t.Payload.TargetURI != "" &&
		slices.ContainsFunc(r.drive.Shown, func(s *driveResource) bool { return within(t.Payload.TargetURI, s.path) })
}

// within: path is the resource of, or something below it.
func within(path, of string) bool {
	return strings.HasPrefix(plainPath(path)+"/", plainPath(of)+"/")
}

// erases: a task's name says that it erases something.
func (t *task) erases() bool {
	name := strings.ToLower(t.Name)
	return strings.Contains(name, "erase") || strings.Contains(name, "sanitize")
}

// hasTask: the task is that of a drive's erase already.
func (e *eraser) hasTask(uri string) bool {
	return slices.ContainsFunc(e.records, func(r *eraseRecord) bool { return samePath(r.Task, uri) })
}

// withoutTask counts the erases that were sent and have no task.
func (e *eraser) withoutTask() int {
	n := 0
	for _, r := range e.records {
		if (r.State == eraseSent || r.State == eraseAccepted) && r.Task == "" {
			n++
		}
	}
	return n
}

// waitForOthers waits for erases that this clean has not sent: a tenant's, or those of an
// earlier clean. They do not count, and ours is sent after them. One that waits for a reset
// gets it.
func (e *eraser) waitForOthers(ctx context.Context) error {
	pauses := e.h.c.bmc.timing.wait(always)
	defer pauses.stop()
	last, moved := "", time.Now()
	for {
		doing, staged, err := e.others(ctx)
		if err != nil {
			return err
		}
		switch {
		case doing == "" && !staged:
			return nil
		case doing == "" && e.journal.ForeignReset:
			return hardware.Refused(device.CodeStepFailed, "delete the job on the BMC, then clean the server again",
				"an erase that was not this clean's still waits for a reset after one")
		case doing == "":
			e.journal.ForeignReset = true
			if err := e.save(); err != nil {
				return err
			}
			if err := e.h.restartForDrives(ctx, e.run); err != nil {
				return err
			}
			continue
		}
		if err := e.h.progress(e.run, e.percent(), "waits for an erase that runs already: "+doing); err != nil {
			return err
		}
		if doing != last {
			last, moved = doing, time.Now()
		}
		if stall := e.stall(); stall > 0 && time.Since(moved) > stall {
			return hardware.Refused(device.CodeNoProgress, "see the drive on the BMC; clean the server again to continue "+
				"waiting",
				"an erase that runs already has made no progress for %v: %s", stall, doing)
		}
		if _, err := pauses.next(ctx, 0); err != nil {
			return err
		}
	}
}

// stall is how long the slowest drive's erase may make no progress.
func (e *eraser) stall() (most time.Duration) {
	for _, r := range e.records {
		most = max(most, r.action.Stall)
	}
	return most
}

// others finds an erase that is not this clean's, of a drive that is not begun. staged: one
// waits for a reset.
func (e *eraser) others(ctx context.Context) (doing string, staged bool, err error) {
	all, err := e.h.c.tasks(ctx)
	if err != nil {
		return "", false, err
	}
	for _, r := range e.records {
		if r.State != "" {
			continue
		}
		for _, t := range all {
			if !t.active() || !r.isFor(t) {
				continue
			}
			waits, err := e.h.waitsForReset(ctx, t)
			if err != nil {
				return "", false, err
			}
			if !waits {
				return fmt.Sprintf("drive %s, task %s, %d %%", r.drive.Serial, t.path, t.PercentComplete), false, nil
			}
			staged = true
		}
		now, err := e.operation(ctx, r)
		if err != nil {
			return "", false, err
		}
		if now != nil {
			return fmt.Sprintf("drive %s, %s, %d %%", r.drive.Serial, now.OperationName, now.PercentageComplete), false, nil
		}
	}
	for _, t := range all {
		// A job that does not say of which drive it is.
		if t.active() && t.Payload.TargetURI == "" && t.erases() && !e.hasTask(t.path) {
			waits, err := e.h.waitsForReset(ctx, t)
			if err != nil {
				return "", false, err
			}
			if !waits {
				return fmt.Sprintf("task %s, %d %%", t.path, t.PercentComplete), false, nil
			}
			staged = true
		}
	}
	return "", staged, nil
}

// waitsForReset: the task has not begun, and waits for a reset of the server.
func (h *handle) waitsForReset(ctx context.Context, t *task) (bool, error) {
	switch t.TaskState {
	case redfish.NewTaskState:
		if !strings.Contains(t.path, "/JID_") {
			return false, nil // it may begin at any moment
		}
	case redfish.PendingTaskState, redfish.SuspendedTaskState, redfish.StartingTaskState:
	default:
		return false, nil
	}
	s, err := h.c.readSystem(ctx, h.system)
	if err != nil {
		return false, err
	}
	return h.isScheduled(ctx, s, t)
}
