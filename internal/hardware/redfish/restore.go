package redfish

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"burnish/internal/device"
	"burnish/internal/hardware"
)

// The steps of this file need a restart to take effect. They share it: the first of them that runs asks
// for what the later ones of the plan want too.
var restartSteps = []string{stepBootRestore, stepSecureBootRestore, stepTPMClear}

// restartsEvidence is the name of the record of their restarts.
const restartsEvidence = "restarts"

// asked is what was asked for one step.
type asked struct {
	// Items were asked for.
	Items []string `json:"items,omitempty"`
	// TPM is how far the clear of the TPM is.
	TPM tpmStage `json:"tpm,omitempty"`
	// Before is the value of the TPM's attribute when nothing is wanted.
	Before string `json:"before,omitempty"`
	// Refused is why a request was refused.
	Refused string `json:"refused,omitempty"`
}

// restorer carries out one attempt of one of these steps.
type restorer struct {
	cycle
	setup device.Setup
	said  coverage // of the last look
}

// restoreWithRestart brings the items of a step to what was recorded, with a restart where they differ, and
// reads them after it.
func (h *handle) restoreWithRestart(ctx context.Context, run hardware.StepRun) (string, error) {
	setup, args, err := h.wantedSetup(run)
	if err != nil {
		return "", err
	}
	r := &restorer{cycle: cycle{h: h, run: run, name: restartsEvidence}, setup: setup}
	err = r.do(ctx, r.check, r.ask)
	if f, is := device.AsFault(err); is && f.Code == device.CodeNoProgress && r.rec.Stage == stageOff &&
		r.rec.Asked[stepTPMClear].TPM == tpmAsked {
		return "", hardware.Refused(device.CodeTPMNotCleared, "agree at the server's console to clear its TPM, or refuse "+
			"it; then clean the server", "%s; it may wait at its console for somebody who agrees to clear the TPM", f.Message)
	}
	if err != nil {
		return "", err
	}
	note := r.said.note() + fmt.Sprintf("; restarts: %d", r.restarts())
	with := slices.DeleteFunc(slices.Sorted(maps.Keys(r.rec.Asked)), func(s string) bool { return s == run.Step })
	if r.restarts() > 0 && len(with) > 0 {
		note += ", shared with " + strings.Join(with, ", ")
	}
	return note, r.said.check(args.Require)
}

// check compares the step's items with what is wanted. One that was asked for before the last restart and is not so
// is a fault.
func (r *restorer) check(ctx context.Context) (done bool, err error) {
	if r.trustsNothing() {
		return false, nil
	}
	step, c := r.run.Step, coverage{}
	was := r.rec.Asked[step]
	done = true
	for _, item := range itemsOf(step) {
		want, restored := r.setup[item.name], slices.Contains(was.Items, item.name)
		if restored { // some show it only a while after the start
			if err := r.h.shows(ctx, r.run, item, want); err != nil {
				return false, err
			}
		}
		is, err := item.read(r.h, ctx)
		if err != nil {
			return false, err
		}
		known, err := c.known(item, is, want)
		if err != nil {
			return false, err
		}
		if !known {
			continue
		}
		differ := is.differs(want)
		if is.hidden && !restored {
			differ = []string{hiddenKey}
		}
		switch {
		case len(differ) > 0 && (restored || item.step == stepTPMClear):
			return false, mismatch("%s%s", is.describe(item.name, differ, want), was.Refused)
		case len(differ) > 0:
			done = false
		case restored && is.hidden:
			c.restored = append(c.restored, item.name+" (set back to the vendor's, and not shown)")
		default:
			c.add(item.name, restored)
		}
	}
	if step == stepTPMClear {
		cleared, err := r.tpmCleared(ctx, &c)
		if err != nil {
			return false, err
		}
		done = done && cleared
	}
	r.said = c
	return done, nil
}

// trustsNothing: a lockdown was lifted, and the server not restarted since. In a lockdown a BMC may show the
// boot order of before.
func (r *restorer) trustsNothing() bool { return r.h.lifted && r.rec.Count == 0 }

// ask asks for what this step and the later ones of the plan want. What the BMC refuses meanwhile, such
// as a second change while a job waits, that step asks for itself.
func (r *restorer) ask(ctx context.Context) (bool, error) {
	if err := r.h.endPOST(ctx, r.run); err != nil {
		return false, err
	}
	if _, _, err := r.h.takeBack(ctx, r.run); err != nil {
		return false, err
	}
	if r.trustsNothing() { // what is to be asked for, only a restart shows
		return true, nil
	}
	before := r.rec.Asked[r.run.Step]
	for _, step := range restartSteps {
		own := step == r.run.Step
		if _, was := r.rec.Asked[step]; !own && (was || !slices.Contains(r.run.Rest, step)) {
			continue
		}
		a, later, err := r.askFor(ctx, step, own, before)
		if err != nil {
			return false, err
		}
		if !later && (own || len(a.Items) > 0 || a.TPM != "") {
			if r.rec.Asked == nil {
				r.rec.Asked = map[string]asked{}
			}
			r.rec.Asked[step] = a
		}
	}
	return true, nil
}

// askFor asks for what one step wants. later: the BMC refuses it for now, and it is not the own one.
func (r *restorer) askFor(ctx context.Context, step string, own bool, before asked) (a asked, later bool, err error) {
	r.h.percent = 10
	for _, item := range itemsOf(step) {
		b, err := r.h.bring(ctx, r.run, item, r.setup[item.name], true, own)
		if err != nil || b.later {
			return a, b.later, err
		}
		if b.asked {
			a.Items = append(a.Items, item.name)
		}
		a.Refused = cmp.Or(b.why, a.Refused)
	}
	if step != stepTPMClear {
		return a, false, nil
	}
	later, err = r.askTPM(ctx, &a, own, before)
	if f, is := device.AsFault(err); is && !own && f.Code == device.CodeTPMNotCleared {
		return a, true, nil // the step itself finds it again, and says it
	}
	return a, later, err
}

// unlocked runs a step with the lockdown lifted, where there is one, and sets it again: as it was recorded,
// else as it was found.
func (h *handle) unlocked(ctx context.Context, run hardware.StepRun, do step) (note string, err error) {
	const evidence = "lockdown"
	r, err := h.readLockdown(ctx)
	if err != nil {
		return "", err
	}
	found, off := map[string]string{}, map[string]string{}
	if h.lifted, err = run.Load(evidence, &found); err != nil {
		return "", err
	}
	for key, value := range r.is {
		off[key] = unlockedAs(value)
	}
	if !maps.Equal(off, r.is) {
		if !h.lifted {
			if err := run.Save(evidence, r.is); err != nil {
				return "", err
			}
			found, h.lifted = r.is, true
		}
		if err := h.restoreItem(ctx, run, lockdownItem, off, &coverage{}); err != nil {
			return "", err
		}
	}
	note, err = do(h, ctx, run)
	if !h.lifted || ctx.Err() != nil {
		return note, err
	}
	enrolled, wrong := h.enrolledProperties()
	if want := enrolled.Setup[device.SetupLockdown]; want != nil {
		found = want
	}
	if wrong == nil {
		wrong = h.restoreItem(ctx, run, lockdownItem, found, &coverage{})
	}
	return note, errors.Join(err, wrong)
}
