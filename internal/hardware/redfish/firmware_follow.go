package redfish

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"burnish/internal/device"
	"burnish/internal/hardware"
)

// verdict is what one look at an update finds.
type verdict int

const (
	looksOn      verdict = iota // it goes on
	looksIdle                   // nothing shows that it goes on
	looksWaiting                // it waits for a reset
	looksWritten                // the BMC has ended its work
	looksUndone                 // it has failed before the BMC had the image
)

// follow waits until the component runs its version. again: it is proved that nothing has come
// of the request, which may be made again.
func (u *update) follow(ctx context.Context) (again bool, err error) {
	pauses := u.h.c.bmc.timing.wait(always)
	defer pauses.stop()
	for {
		service, all, now, err := u.read(ctx)
		if err != nil {
			return false, err
		}
		found, err := u.look(ctx, service, all, now)
		switch {
		case err != nil:
			return false, err
		case found == looksUndone:
			return true, nil
		case found != looksOn:
			// It may have ended between the two reads.
			if _, _, now, err = u.read(ctx); err != nil {
				return false, err
			}
		}
		if now.Version == u.image.To && found != looksOn {
			return false, u.finish(ctx, service)
		}
		acted, err := u.act(ctx, service, all, now, found)
		if err != nil {
			return false, err
		}
		if acted && u.Phase == "" {
			return true, nil
		}
		if acted {
			pauses.again()
			continue
		}
		if _, err := pauses.next(ctx, 0); err != nil {
			return false, err
		}
	}
}

// finish waits for the end of POST, and takes back what the update has changed besides.
func (u *update) finish(ctx context.Context, service *updateService) error {
	if u.PushTargets {
		if err := u.patchTargets(ctx, service, []string{}); err != nil {
			return err
		}
	}
	// A BMC may have reset the server by itself.
	return u.h.ensureOn(ctx, u.run)
}

// act does what follows from a look. again: look again at once.
func (u *update) act(ctx context.Context, service *updateService, all []*software, now *software,
	found verdict) (again bool, err error) {
	if found == looksIdle || found == looksWritten {
		if u.quiet.IsZero() {
			u.quiet = time.Now()
		}
	} else {
		u.quiet = time.Time{}
	}
	switch found {
	case looksOn:
		return false, u.progress(u.percent, "the BMC works on it")
	case looksWaiting:
		return true, u.reset(ctx)
	case looksWritten:
		switch {
		case service.Actions.StartUpdate.Target != "" && !u.Starting && u.Way == wayPushed:
			return true, u.startUpload(ctx, service)
		case time.Since(u.quiet) <= u.h.c.bmc.timing.settle:
		case u.Resets == 0 && !u.bmc:
			return true, u.reset(ctx)
		default:
			return false,
				notActive("%s still runs version %q after its update to %q: the BMC says that it has succeeded, and the server "+
					"was reset %d times",
					u.image.Component, now.Version, u.image.To, u.Resets)
		}
	default:
		if time.Since(u.quiet) > u.patience() {
			if never, err := u.neverBegan(ctx, service, all, now); never || err != nil {
				return never, err
			}
			return false, hardware.Refused(device.CodeFirmwareUnknown,
				"see the firmware on the BMC, and finish or repeat the update there; then clean the server again",
				"what has come of the update of %s to %q is unknown: it runs %q, and the BMC shows neither a task "+
					"nor a staged image", u.image.Component, u.image.To, now.Version)
		}
	}
	return false, u.progress(u.percent, "waits until the BMC shows the new version")
}

// neverBegan proves that nothing has come of the request, which was sent and not answered: the
// component runs what it ran before, nothing is staged or being written, and there is no task that
// was not there before. That holds where the BMC says that it has restarted since: what it was
// writing itself, it does not write any more. It holds also where a worker has ended between its
// record of the request and the answer, on a BMC that shows each update for as long as it runs. It is
// believed once. A BMC that writes its own firmware restarts for it, which proves nothing.
func (u *update) neverBegan(ctx context.Context, service *updateService, all []*software, now *software) (bool, error) {
	if u.bmc || u.Answered || u.Retried > 0 || u.Phase != updateSent || now.Version != u.From {
		return false, nil
	}
	restarted, _, err := u.h.bmcRestarted(ctx, &u.work)
	if err != nil {
		return false, err
	}
	running, staged, err := u.h.updates(ctx, service, all)
	if err != nil || running != "" || staged != "" && !u.Starting {
		return false, err
	}
	// What a StartUpdate has begun does not wait to be started any more.
	if !restarted && (u.Lost && staged == "" || !u.wouldShow(service)) {
		return false, nil
	}
	tasks, err := u.h.c.tasks(ctx)
	if err != nil {
		return false, err
	}
	there := map[string]bool{}
	for _, t := range tasks {
		there[t.mark()] = true
		if t.updates() && !slices.Contains(u.Before, t.mark()) {
			return false, nil
		}
	}
	for _, mark := range u.Before {
		if !restarted && !there[mark] {
			return false, nil // the BMC forgets tasks
		}
	}
	u.Retried, u.quiet, u.Phase = u.Retried+1, time.Time{}, ""
	if staged != "" {
		u.Phase = updateDone // what was uploaded is there
	}
	u.Starting = false
	return true, u.save()
}

// wouldShow: the BMC shows an update from its acceptance to its end: by a task, as Redfish wants it
// for a multipart push, or by the state of its update service.
func (u *update) wouldShow(service *updateService) bool {
	if hpe := service.hpe(); hpe != nil {
		return strings.EqualFold(hpe.State, "Idle")
	}
	return len(u.Before) > 0 && (u.Starting || samePath(u.Target, string(service.MultipartHTTPPushURI)))
}

// patience is how long nothing need show what becomes of the update. A BMC that has accepted
// it without a task shows only the new version, in the end.
func (u *update) patience() time.Duration {
	if u.Phase == updateAccepted && u.Tasks == 0 {
		return u.h.c.bmc.timing.stall
	}
	return u.h.c.bmc.timing.settle
}

// reset gives the update its reset. The power layer refuses it while anything is written. A
// server that is in POST already, by the BMC's own reset, is waited for instead.
func (u *update) reset(ctx context.Context) error {
	if _, err := u.h.readReady(ctx); err != nil {
		if f, ok := device.AsFault(err); !ok || f.Code != device.CodeServerNotReady {
			return err
		}
		return u.h.ensureOn(ctx, u.run)
	}
	if u.Resets >= 2 {
		return notActive("the update of %s to %q (%s) still waits for a reset after %d resets", u.image.Component, u.image.To,
			u.Task, u.Resets)
	}
	u.Resets++
	if err := u.save(); err != nil {
		return err
	}
	u.quiet = time.Time{}
	return u.h.restart(ctx, u.run)
}

// look reads once how far the update is.
func (u *update) look(ctx context.Context, service *updateService, all []*software, now *software) (verdict, error) {
	if u.Phase == updateDone {
		return looksWritten, nil
	}
	if state := service.busy(); state != "" {
		return looksOn, u.changed("the update service is "+state, 0)
	}
	if u.Task == "" {
		if err := u.find(ctx); err != nil {
			return 0, err
		}
	}
	if u.Task != "" {
		return u.lookAtTask(ctx, now)
	}
	// There is no task.
	if staged := slices.ContainsFunc(all, func(s *software) bool {
		return s.staged() && s.Version == u.image.To
	}); staged && !u.Starting {
		return looksWritten, u.written()
	}
	if service.hpe() == nil {
		return looksIdle, nil
	}
	queue, err := u.h.updateQueue(ctx, service)
	if err != nil {
		return 0, err
	}
	// Before the update there was none, so that what is there is ours.
	if slices.ContainsFunc(queue, func(q queuedUpdate) bool { return q.State != "Pending" }) {
		return looksOn, u.changed("the queued update is "+queue[0].State, 0)
	}
	if len(queue) > 0 {
		return looksWaiting, nil
	}
	if u.Phase != updateAccepted {
		return looksIdle, nil
	}
	if service.hpe().State == "Error" {
		return 0, hardware.Refused(device.CodeStepFailed, "see the BMC's own log, correct the cause, then clean the server",
			"%s: the update service has ended it with an error", u.action.Doing)
	}
	return looksWritten, u.written()
}

// written records that the BMC has ended its work.
func (u *update) written() error {
	u.Phase = updateDone
	return u.save()
}

// lookAtTask reads the update's task.
func (u *update) lookAtTask(ctx context.Context, now *software) (verdict, error) {
	t, err := u.h.c.readTask(ctx, u.Task)
	if err != nil {
		return 0, err
	}
	if t == nil || !u.isOurs(t) {
		u.Task, u.Start = "", "" // it is gone
		return looksIdle, u.save()
	}
	if u.Start == "" && t.StartTime != "" {
		u.Start = t.StartTime
		if err := u.save(); err != nil {
			return 0, err
		}
	}
	if u.Tasks++; u.Tasks == 1 {
		if err := u.save(); err != nil {
			return 0, err
		}
	}
	result, err := t.result(u.action)
	if err != nil && u.Way == wayServed && u.serving == nil && now.Version == u.From && u.Retried < 2 {
		// The worker that served the image has ended. The task has failed, and the component
		// runs what it ran before.
		u.Phase, u.Retried = "", u.Retried+1
		return looksUndone, u.save()
	}
	if err != nil {
		return 0, err
	}
	waits, err := u.h.waitsForReset(ctx, t)
	switch {
	case err != nil:
		return 0, err
	case result == succeeded:
		return looksWritten, u.written()
	case waits:
		return looksWaiting, nil
	case result == unsettled:
		return looksIdle, nil
	}
	u.percent = t.PercentComplete
	return looksOn, u.changed(string(t.TaskState), t.PercentComplete)
}

// changed watches for an update that makes no progress.
func (u *update) changed(state string, percent int) error {
	if now := fmt.Sprint(state, percent); now != u.mark {
		u.mark, u.moved = now, time.Now()
	}
	if stall := u.h.c.bmc.timing.stall; time.Since(u.moved) > stall {
		return hardware.Refused(device.CodeNoProgress, "see the update on the BMC, and do not switch the server off; "+
			"clean it again when it has ended",
			"%s has made no progress for %v: %s, %d %%", u.action.Doing, stall, state, percent)
	}
	return nil
}

// find looks for the task of a request whose answer was lost, or named none. A task that was
// there before the request is another's.
func (u *update) find(ctx context.Context) error {
	all, err := u.h.c.tasks(ctx)
	if err != nil {
		return err
	}
	var ours []*task
	for _, t := range all {
		if !slices.Contains(u.Before, t.mark()) && t.updates() && u.isOurs(t) {
			ours = append(ours, t)
		}
	}
	if len(ours) != 1 {
		return nil
	}
	u.Phase, u.Answered, u.Task, u.Start = updateAccepted, true, ours[0].path, ""
	return u.save()
}
