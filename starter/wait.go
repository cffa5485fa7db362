package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"burnish/internal/device"
	"burnish/workflows/client"
	"burnish/workflows/contract"
)

// The pause between two polls: short at first, longer the longer it takes.
const (
	minPollPause = 300 * time.Millisecond
	maxPollPause = 3 * time.Second
)

// waitLimit bounds a whole --wait where the operator gave a --timeout.
func (a *app) waitLimit(ctx context.Context) (context.Context, context.CancelFunc) {
	if !a.timeout.given {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, a.timeout.limit)
}

// A control worker that has just started begins the workflows of its clouds and appliances
// a moment later, and the server lists them after another.
const (
	startupPause  = 250 * time.Millisecond
	startupLimit  = 10 * time.Second
	startupSilent = time.Second // and then says that it waits
)

// afterStart asks until there is what a control worker serves, for as long as one that has
// just started may need.
func afterStart[T any](ctx context.Context, a *app, what string,
	ask func() (answer T, there bool, err error)) (T, error) {
	limit := min(startupLimit, a.timeout.limit)
	for waited := time.Duration(0); ; waited += startupPause {
		answer, there, err := ask()
		if there || waited >= limit {
			return answer, err
		}
		if waited == startupSilent {
			a.note("", fmt.Sprintf("no control worker serves %s yet: waiting %s for one that has just started", what, limit))
		}
		if err := a.pause(ctx, startupPause); err != nil {
			return answer, err
		}
	}
}

// served makes one request to what a control worker serves.
func served[T any](ctx context.Context, a *app, what string, request func(context.Context) (T, error)) (T, error) {
	return afterStart(ctx, a, what, func() (T, bool, error) {
		rctx, cancel := a.requestContext(ctx)
		defer cancel()
		answer, err := request(rctx)
		return answer, !client.NotFound(err), err
	})
}

// onlyServed is the cloud or appliance that control workers serve, where there is only one.
func (a *app) onlyServed(ctx context.Context, l deviceClient, what, flag string,
	names func(context.Context) ([]string, error), none *failure) (string, error) {
	all, err := afterStart(ctx, a, what, func() ([]string, bool, error) {
		all, err := ask(ctx, a, l, "", names)
		return all, len(all) > 0 || err != nil, err
	})
	switch {
	case err != nil:
		return "", a.explain(ctx, l, "", err)
	case len(all) == 0:
		return "", none
	case len(all) > 1:
		return "", usagef("several %ss are served: name one of %s by --%s", flag, strings.Join(all, ", "), flag)
	}
	return all[0], nil
}

// await returns when the device has left pending_cleaning and cleaning: nil if it was
// cleaned. limited is parent with the limit of the whole wait. slots bounds the concurrent
// polls.
func (a *app) await(parent, limited context.Context, l deviceClient, name string,
	slots chan struct{}) (contract.DeviceStatus, error) {
	began := a.now()
	noted := false
	for {
		slots <- struct{}{}
		v, _, err := a.deviceStatus(limited, l, name)
		<-slots
		if err == nil {
			ended, fail := cleanOutcome(v)
			if fail != nil {
				return v, fail
			}
			if ended {
				return v, nil
			}
			if v.NeedsOperator && !noted {
				noted = true
				a.note(name, "still waiting, but it needs an operator: "+attention(v))
			}
			err = a.pause(limited, min(max(a.now().Sub(began)/100, minPollPause), maxPollPause))
		}
		switch {
		case err == nil:
		case isUnreachable(err): // also when the end of --timeout is how it was noticed
			return v, err
		case errors.Is(limited.Err(), context.DeadlineExceeded) && parent.Err() == nil:
			return v, failf(device.CodeTimeout, "see burnish show "+name, "still running after %s", a.timeout.limit).
				about(name, v.DeviceState)
		case isInterrupted(parent):
			return v, interrupted("the clean goes on", "see burnish show "+name).about(name, v.DeviceState)
		default:
			return v, a.explain(parent, l, name, err)
		}
	}
}

// isUnreachable says that a failure is that of a server that does not answer.
func isUnreachable(err error) bool {
	var f *failure
	return errors.As(err, &f) && f.exit == exitUnreachable
}

// attention says why a device needs an operator, as far as it is known.
func attention(v contract.DeviceStatus) string {
	known := []string{v.Fault, v.LastError, v.Remedy}
	return strings.Join(slices.DeleteFunc(known, func(s string) bool { return s == "" }), "; ")
}

// cleanOutcome says whether a clean has ended, and how it failed: err is nil only for a device
// that was cleaned, or whose named steps are done. It decides the exit codes of --wait and of
// watch.
func cleanOutcome(v contract.DeviceStatus) (ended bool, err error) {
	f := &failure{exit: exitFailed, code: device.Code(v.Fault), device: v.Name, state: v.DeviceState, message: v.LastError,
		remedy: v.Remedy}
	switch v.DeviceState {
	case device.PendingCleaning, device.Cleaning:
		if f.code != device.CodeAutomatedCleanOff {
			return false, nil
		}
		if f.message == "" {
			f.message = "on hold in pending_cleaning: automated cleaning is off"
		}
		return true, f
	case device.Available, device.Manageable:
		return true, nil
	case device.Allocated:
		// Bound again between two polls, unless its last clean says otherwise.
		if n := len(v.Cleans); n > 0 && (v.Cleans[n-1].Outcome == "cleaned" || v.Cleans[n-1].Outcome == "steps_done") {
			return true, nil
		}
		f.code, f.message = device.CodeInUse, "the device is in use, and was not cleaned"
		return true, f
	case device.Unknown, device.Retired, device.Absent:
		if f.code == "" {
			f.code = device.CodeRefused
		}
		f.message, f.remedy = fmt.Sprintf("the device is in state %s, and was not cleaned", v.DeviceState),
			cmp.Or(f.remedy, "see burnish show "+v.Name)
		return true, f
	}
	if f.code == "" {
		f.code = device.CodeStepFailed
	}
	if f.message == "" {
		f.message = fmt.Sprintf("the device is in state %s", v.DeviceState)
	}
	if f.remedy == "" {
		f.remedy = "clean " + v.Name + " to try again"
	}
	f.message = fmt.Sprintf("%s: %s", f.code, f.message)
	return true, f
}
