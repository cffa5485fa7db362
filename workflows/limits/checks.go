package limits

import (
	"slices"
	"time"

	"go.temporal.io/sdk/workflow"

	"burnish/workflows/calls"
	"burnish/workflows/contract"
)

// Nothing in this file runs while no request waits.

// findCleans has the devices that are being cleaned ask once more, in the first run: an
// earlier one may have been lost with its queue. Those that have slots say so before the
// first slot is given.
func (l *run) findCleans(ctx workflow.Context) {
	var found contract.FindCleansResult
	opts := calls.WithLongCall(ctx, contract.Queue, "find running cleans", 10*time.Minute, time.Minute)
	if err := workflow.ExecuteActivity(opts, contract.ActivityFindCleans).Get(opts, &found); err != nil {
		workflow.GetLogger(ctx).Warn("running cleans were not found", "error", err)
	}
	l.Found, l.changed = true, true
	if found.Asked > 0 {
		l.OpensAt = workflow.Now(ctx).UTC().Add(openAfter)
	}
}

// wake is when something is due although nothing happens; zero if nothing is.
func (l *run) wake() time.Time {
	var next time.Time
	for _, at := range []time.Time{l.OpensAt, l.stallAt(), l.checkAt(), l.countAt(), l.groupsAt()} {
		if !at.IsZero() && (next.IsZero() || at.Before(next)) {
			next = at
		}
	}
	return next
}

// due says that time alone changes what the requests wait for.
func (l *run) due(now time.Time) bool { return passed(l.OpensAt, now) || passed(l.stallAt(), now) }

func (l *run) onTime(now time.Time) {
	l.changed = true
	if passed(l.OpensAt, now) {
		l.OpensAt = time.Time{}
	}
	if passed(l.stallAt(), now) {
		l.Stalled = true
	}
}

// passed: a time has come; zero is never.
func passed(at, now time.Time) bool { return !at.IsZero() && !now.Before(at) }

// stallAt is when the operator is called because nothing moves.
func (l *run) stallAt() time.Time {
	if l.Stalled || l.MovedAt.IsZero() || l.TellAfter <= 0 || l.firstInLine() < 0 {
		return time.Time{}
	}
	return l.MovedAt.Add(l.TellAfter)
}

func (l *run) checkAt() time.Time {
	if l.checking || l.firstInLine() < 0 {
		return time.Time{}
	}
	return l.CheckAt
}

// countAt is when free devices are counted: only while a request waits for them.
func (l *run) countAt() time.Time {
	if l.counting || l.MayTake > 0 || !l.Found ||
		!slices.ContainsFunc(l.Slots, func(s contract.Slot) bool { return s.TakesCapacity && !s.Granted }) {
		return time.Time{}
	}
	if l.CountAt.IsZero() {
		return l.MovedAt // which is set while a request waits
	}
	return l.CountAt
}

// groupsAt is when the devices of groups that wait are found: when one of them arrives, and now and then, because one
// may be retired, or get the label.
func (l *run) groupsAt() time.Time {
	if l.looking || !l.Found || len(l.waitingGroups()) == 0 {
		return time.Time{}
	}
	return l.GroupsAt
}

// findGroups lets go on whose group is there.
func (l *run) findGroups(ctx workflow.Context) {
	in := contract.FindGroupsInput{Groups: l.waitingGroups()}
	l.GroupsAt = workflow.Now(ctx).UTC().Add(min(lookAfter<<min(l.Looks, 10), maxCountAfter))
	l.Looks++
	var found contract.FindGroupsResult
	opts := workflow.WithScheduleToCloseTimeout(calls.WithLongCall(ctx, contract.Queue, "find the devices of groups",
		time.Minute, 0), 5*time.Minute)
	if err := workflow.ExecuteActivity(opts, contract.ActivityFindGroups, in).Get(opts, &found); err != nil {
		workflow.GetLogger(ctx).Warn("the devices of groups were not found", "error", err)
		return
	}
	l.gather(found.Devices)
	l.changed = true
}

// startTimer waits until a time, or until an earlier one counts, or this run must end.
func (l *run) startTimer(ctx workflow.Context, at time.Time) {
	l.waiting, l.wakeAt = true, at
	workflow.Go(ctx, func(ctx workflow.Context) {
		_, err := workflow.AwaitWithOptions(ctx, workflow.AwaitOptions{
			Timeout: at.Sub(workflow.Now(ctx)), TimerOptions: workflow.TimerOptions{Summary: "check the queue"},
		}, func() bool { return !l.wakeAt.Equal(at) })
		if err != nil {
			workflow.GetLogger(ctx).Warn("timer ended early", "error", err)
		}
		if l.wakeAt.Equal(at) {
			l.waiting, l.wakeAt = false, time.Time{}
		}
	})
}

// checkHolders takes back the slots of devices that are not being cleaned: their workflows
// were terminated, or reset, or their report was lost.
func (l *run) checkHolders(ctx workflow.Context) {
	asked, in := map[string]string{}, contract.HoldersInput{}
	for _, s := range l.Slots {
		switch {
		case !s.Granted:
			continue
		case s.TakesCapacity:
			in.Taking = append(in.Taking, s.Device)
		default:
			in.Cleaned = append(in.Cleaned, s.Device)
		}
		asked[s.Device] = s.Clean
	}
	l.Checks++
	l.CheckAt = workflow.Now(ctx).UTC().Add(min(checkAfter<<min(l.Checks, 10), maxCheckAfter))
	if len(asked) == 0 {
		return
	}
	var found contract.HoldersResult
	opts := workflow.WithScheduleToCloseTimeout(calls.WithLongCall(ctx, contract.Queue, "check the slots", time.Minute, 0),
		5*time.Minute)
	if err := workflow.ExecuteActivity(opts, contract.ActivityCheckHolders, in).Get(opts, &found); err != nil {
		workflow.GetLogger(ctx).Warn("the slots were not checked", "error", err)
		return
	}
	for _, name := range found.Lost {
		if i := l.index(name); i >= 0 && l.Slots[i].Granted && l.Slots[i].Clean == asked[name] {
			workflow.GetLogger(ctx).Warn("a slot is taken back: its device is not being cleaned", "device", name)
			l.remove(workflow.Now(ctx).UTC(), i)
			l.changed = true
		}
	}
}

// countFree counts the devices that a tenant can get, and so how many may be taken out of
// the offer.
func (l *run) countFree(ctx workflow.Context) {
	in := contract.CountFreeInput{Withdrawn: slices.Clone(l.Withdrawn)}
	for _, s := range l.Slots {
		if s.TakesCapacity && s.Granted {
			in.Taking = append(in.Taking, s.Device)
		}
	}
	l.CountAt = workflow.Now(ctx).UTC().Add(min(countAfter<<min(l.Counts, 10), maxCountAfter))
	l.Counts++
	var found contract.CountFreeResult
	opts := workflow.WithScheduleToCloseTimeout(calls.WithLongCall(ctx, contract.Queue, "count free devices", time.Minute,
		0), 5*time.Minute)
	if err := workflow.ExecuteActivity(opts, contract.ActivityCountFree, in).Get(opts, &found); err != nil {
		workflow.GetLogger(ctx).Warn("free devices were not counted", "error", err)
		return
	}
	granted := 0 // since the count began
	for _, s := range l.Slots {
		if s.TakesCapacity && s.Granted && !slices.Contains(in.Taking, s.Device) {
			granted++
		}
	}
	l.CountedAt = workflow.Now(ctx).UTC()
	l.Free, l.Floor = found.Free, l.limits().FreeCapacity.Floor(found.InService)
	l.MayTake = max(0, found.Free-l.Floor-granted)
	l.Withdrawn = slices.DeleteFunc(l.Withdrawn, func(name string) bool { return slices.Contains(found.Settled, name) })
	l.changed = true
}
