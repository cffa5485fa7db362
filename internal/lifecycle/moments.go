package lifecycle

import (
	"fmt"
	"time"

	"burnish/internal/device"
	"burnish/workflows/contract"
)

// moment is a time at which something ends or begins by itself.
type moment struct {
	at   time.Time
	what string
	come func()
}

// moments are those that the state waits for.
func (d *State) moments() (all []moment) {
	add := func(at time.Time, what string, come func()) {
		if !at.IsZero() {
			all = append(all, moment{at, what, come})
		}
	}
	if d.claimPending() {
		add(d.Device.Claim.Deadline, "claim", d.claimExpired)
	}
	if p := d.pendingOverride(); p != nil {
		add(p.ExpiresAt, "override", d.overrideExpired)
	}
	add(d.nextOperatorCall(), "call the operator", d.callOperator)
	add(d.RetryAt, "retry", func() { d.RetryAt = time.Time{} })
	add(d.PausedUntil, "pause before the clean", d.pauseEnded)
	add(d.StepShownAt, "publish the step", func() {
		d.StepShownAt, d.Publish, d.StepLasts = time.Time{}, true, true
	})
	for _, j := range d.Jobs {
		if !j.Ended {
			add(j.Until, string(j.Phase), func() {
				d.acting, j.Until = j.Act, time.Time{}
				rowOf(j.Phase).then(d, j, Outcome{Again: true})
			})
		}
	}
	return all
}

// Next is the next moment that has to be told to Decide, and what it is for; zero if there is none.
func (d *State) Next() (at time.Time, what string) {
	for _, m := range d.moments() {
		if at.IsZero() || m.at.Before(at) {
			at, what = m.at, m.what
		}
	}
	return at, what
}

// claimPending says that the device is claimed and its burn has not begun.
func (d *State) claimPending() bool {
	c := d.Device.Claim
	return c != nil && !c.Burning
}

func (d *State) claimExpired() {
	d.must(device.Event{Kind: device.ClaimExpired})
	d.LastRefusal = "a claim expired before its burn began"
	d.Publish = true
}

func (d *State) overrideExpired() {
	d.dropOverride()
	d.LastRefusal = "a requested override expired before its approval"
	d.Publish = true
}

// The first and the longest pause between two tries of work that failed.
const (
	minBackoff = time.Second
	maxBackoff = 30 * time.Second
)

// backoff puts failed work off: longer each time, and at most until the next hint. The device shows the cause
// meanwhile.
func (d *State) backoff(f *device.Fault) {
	switch f.Code {
	case device.CodeHostUnreachable:
		d.waiting(contract.WaitHost, f)
	default:
		d.waiting(contract.WaitInventory, f)
	}
	if !d.RetryAt.IsZero() {
		return
	}
	pause := maxBackoff
	if d.Failures < 5 {
		pause = minBackoff << d.Failures
	}
	d.Failures++
	d.RetryAt = d.now.Add(pause)
}

// hinted ends a pause: what failed may succeed now.
func (d *State) hinted() { d.RetryAt = time.Time{} }

// recovered ends what backoff began.
func (d *State) recovered() {
	d.Failures = 0
	for _, waitsFor := range []string{contract.WaitInventory, contract.WaitHost, contract.WaitAppliance} {
		if !d.calling(waitsFor) {
			d.endWait(waitsFor)
		}
	}
}

// The pauses between cleans that begin again because another client writes the provider (F5): none before the second
// clean, then longer each time. The count ends after a quiet time.
const (
	minForeignPause = 5 * time.Second
	maxForeignPause = 10 * time.Minute
	// callAfterForeignWrites is how many of them call the operator.
	callAfterForeignWrites = 3
)

// pauseClean puts off the next clean of a device whose provider another client wrote again and again. Its reservation
// is kept up meanwhile.
func (d *State) pauseClean() bool {
	w := d.ForeignWrites
	if w == nil || w.Count < 2 || !d.Device.BeingCleaned() {
		return false
	}
	end := w.At.Add(min(minForeignPause<<min(w.Count-2, 10), maxForeignPause))
	if !end.After(d.now) {
		return false
	}
	f := &device.Fault{Class: device.Transient, Code: device.CodeReservationChanged,
		Message: fmt.Sprintf("another client wrote its provider during %d cleans, which had to begin again; the next one "+
			"begins at %s", w.Count, end.UTC().Format(time.RFC3339)),
		Remedy: "find out which other client writes this provider, and stop it"}
	if d.shared() {
		f.Message = fmt.Sprintf("others changed its server, or its provider, %d times, and it had to be cleaned again; "+
			"the next clean begins at %s", w.Count, end.UTC().Format(time.RFC3339))
		f.Remedy = "find out who changes it; if the appliance changes idle servers by itself, set ignore_etags in " +
			"oneview.yaml"
	}
	if w.Count >= callAfterForeignWrites {
		d.waitingUntil(contract.WaitPause, f, d.now)
	} else {
		d.waiting(contract.WaitPause, f)
	}
	d.PausedUntil, d.PausedIn, d.Intent.EnsureReserved = end, d.Device.State, true
	return true
}

func (d *State) pauseEnded() {
	d.PausedUntil = time.Time{}
	d.endWait(contract.WaitPause)
}

// foreignQuiet is the time without a foreign write after which they are counted from zero.
const foreignQuiet = 30 * time.Minute

// countForeignWrite records that another client wrote the device's provider, so that the device is cleaned again.
func (d *State) countForeignWrite() {
	w := d.ForeignWrites
	if w == nil || d.now.Sub(w.At) > foreignQuiet {
		w = &contract.ForeignWrites{}
	}
	d.ForeignWrites = &contract.ForeignWrites{Count: w.Count + 1, At: d.now.UTC()}
}
