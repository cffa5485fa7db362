package redfish

import (
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

// restarts is how far they are together, as it is journaled on the host under its name.
type restarts struct {
	Stage biosStage `json:"stage,omitempty"`
	// Asked is what was asked for a step before the last restart.
	Asked map[string]asked `json:"asked,omitempty"`
	// Count counts the restarts.
	Count int `json:"count,omitempty"`
}

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
	h     *handle
	run   hardware.StepRun
	setup device.Setup
	args  device.RestoreArgs
	rec   restarts
}

// restoreWithRestart brings the items of a step to what was recorded, with a restart where they differ, and
// reads them after it.
func (h *handle) restoreWithRestart(ctx context.Context, run hardware.StepRun) (string, error) {
	r := &restorer{h: h, run: run}
	var err error
	if r.setup, r.args, err = h.wantedSetup(run); err != nil {
		return "", err
	}
	if _, err := run.Load(restartsEvidence, &r.rec); err != nil {
		return "", err
	}
	if r.rec.Asked == nil {
		r.rec.Asked = map[string]asked{}
	}
	before := r.rec.Count
	for {
		// An earlier attempt, or step, was interrupted in a restart.
		if err := r.restart(ctx); err != nil {
			return "", err
		}
		c, done, err := r.check(ctx)
		if err != nil {
			return "", err
		}
		if done {
			if err := c.check(r.args.Require); err != nil {
				return "", err
			}
			return c.note() + r.restartNote(before), nil
		}
		if err := r.askAll(ctx); err != nil {
			return "", err
		}
	}
}

// restartNote counts the restarts.
func (r *restorer) restartNote(before int) string {
	n := r.rec.Count - before
	note := fmt.Sprintf("; restarts: %d", n)
	with := slices.DeleteFunc(slices.Sorted(maps.Keys(r.rec.Asked)), func(s string) bool { return s == r.run.Step })
	if n > 0 && len(with) > 0 {
		note += ", shared with " + strings.Join(with, ", ")
	}
	return note
}

func (r *restorer) save(stage biosStage) error {
	r.rec.Stage = stage
	return r.run.Save(restartsEvidence, r.rec)
}

// restart restarts the server if that was begun, and waits for what comes into force with it.
func (r *restorer) restart(ctx context.Context) error {
	if r.rec.Stage == biosAsked || r.rec.Stage == biosOff {
		r.h.percent = 20
		err := r.h.restartFrom(ctx, r.run, &r.rec.Stage, r.save)
		if f, is := device.AsFault(err); is && f.Code == device.CodeNoProgress && r.askedTPM() {
			return hardware.Refused(device.CodeTPMNotCleared, "agree at the server's console to clear its TPM, or refuse it; "+
				"then clean the server", "%s; it may wait at its console for somebody who agrees to clear the TPM", f.Message)
		}
		if err != nil {
			return err
		}
	}
	if r.rec.Stage != biosStarted {
		return nil
	}
	if _, err := r.h.awaitBIOSJobs(ctx, r.run); err != nil {
		return err
	}
	r.rec.Count++
	return r.save(biosDone)
}

func (r *restorer) askedTPM() bool { return r.rec.Asked[stepTPMClear].TPM == tpmAsked }

// check compares the step's items with what is wanted. done: they are so. One that was asked for before the
// last restart and is not so is a fault.
func (r *restorer) check(ctx context.Context) (c coverage, done bool, err error) {
	step := r.run.Step
	was := r.rec.Asked[step]
	if r.trustsNothing() {
		return c, false, nil
	}
	done = true
	for _, item := range itemsOf(step) {
		want, restored := r.setup[item.name], slices.Contains(was.Items, item.name)
		if restored { // some show it only a while after the start
			if err := r.h.shows(ctx, r.run, item, want); err != nil {
				return c, false, err
			}
		}
		is, err := item.read(r.h, ctx)
		if err != nil {
			return c, false, err
		}
		known, err := c.known(item, is, want)
		if err != nil {
			return c, false, err
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
			return c, false, mismatch("%s%s", is.describe(item.name, differ, want), was.Refused)
		case len(differ) > 0:
			done = false
		case restored && is.hidden:
			c.restored = append(c.restored, item.name+" (set back to the vendor's, and not shown)")
		case restored:
			c.restored = append(c.restored, item.name)
		default:
			c.same = append(c.same, item.name)
		}
	}
	if step == stepTPMClear {
		cleared, err := r.tpmCleared(ctx, &c)
		return c, done && cleared, err
	}
	return c, done, nil
}

// trustsNothing: a lockdown was lifted, and the server not restarted since. In a lockdown a BMC may show the
// boot order of before.
func (r *restorer) trustsNothing() bool { return r.h.lifted && r.rec.Count == 0 }

// askAll asks for what this step and the later ones of the plan want. What the BMC refuses meanwhile, such
// as a second change while a job waits, that step asks for itself.
func (r *restorer) askAll(ctx context.Context) error {
	if err := r.h.endPOST(ctx, r.run); err != nil {
		return err
	}
	if _, _, err := r.h.takeBack(ctx, r.run); err != nil {
		return err
	}
	before := r.rec.Asked[r.run.Step]
	if r.trustsNothing() { // what is to be asked for, only a restart shows
		return r.save(biosAsked)
	}
	for _, step := range restartSteps {
		own := step == r.run.Step
		if _, was := r.rec.Asked[step]; !own && (was || !slices.Contains(r.run.Rest, step)) {
			continue
		}
		a, later, err := r.ask(ctx, step, own, before)
		if err != nil {
			return err
		}
		if !later && (own || len(a.Items) > 0 || a.TPM != "") {
			r.rec.Asked[step] = a
		}
	}
	return r.save(biosAsked)
}

// ask asks for what one step wants. later: the BMC refuses it for now, and it is not the own one.
func (r *restorer) ask(ctx context.Context, step string, own bool, before asked) (a asked, later bool, err error) {
	for _, item := range itemsOf(step) {
		if later, err := r.askItem(ctx, item, own, &a); err != nil || later {
			return a, later, err
		}
	}
	if step == stepTPMClear {
		later, err = r.askTPM(ctx, &a, own, before)
		if f, is := device.AsFault(err); is && !own && f.Code == device.CodeTPMNotCleared {
			return a, true, nil // the step itself finds it again, and says it
		}
		if err != nil || later {
			return a, later, err
		}
	}
	return a, false, nil
}

// askItem asks for each entry of an item that differs, each by the first way that the BMC takes. One request may
// be for several entries, and an entry that is gone changes those of others.
func (r *restorer) askItem(ctx context.Context, item setupItem, own bool, a *asked) (later bool, err error) {
	want, tried, sent := r.setup[item.name], map[string]bool{}, map[string]bool{}
	for {
		is, err := item.read(r.h, ctx)
		if err != nil || want == nil || is.is == nil {
			return false, err
		}
		differ := is.differs(want)
		if is.hidden {
			differ = []string{hiddenKey}
		}
		differ = slices.DeleteFunc(differ, func(key string) bool { return tried[key] })
		if len(differ) == 0 {
			return false, nil
		}
		key := differ[0]
		if tried[key] = true; !slices.Contains(a.Items, item.name) {
			a.Items = append(a.Items, item.name)
		}
		if err := r.h.progress(r.run, 10, "restores "+item.name+": "+hardware.OneLine(key)); err != nil {
			return false, err
		}
		for _, way := range is.waysTo(key, want) {
			id := fmt.Sprint(way)
			if sent[id] {
				break
			}
			sent[id] = true
			refusedWith, err := r.sendPatiently(ctx, way, own)
			if err != nil || refusedWith == nil {
				if err != nil {
					return false, err
				}
				break
			}
			if !own && mayBeAskedAgain(refusedWith) {
				return true, nil
			}
			a.Refused = ": " + refusedWith.Error()
		}
	}
}

// sendPatiently sends the requests of a way, again where an answer was lost: each asks for a state. What the
// BMC refuses for now, it sends again for the own step only.
func (r *restorer) sendPatiently(ctx context.Context, way []request, own bool) (refusedWith, err error) {
	err = r.h.until(ctx, r.run, r.h.driver.timing.post, func() (done bool, doing string, err error) {
		refusedWith, err = r.h.send(ctx, way)
		if err != nil || !isLost(refusedWith) && !(own && mayBeAskedAgain(refusedWith)) {
			return err == nil, "", err
		}
		if own { // a job of the one whose answer was lost may wait, and be in the way
			_, _, err = r.h.takeBack(ctx, r.run)
		}
		return false, "asks again: " + hardware.OneLine(refusedWith.Error()), err
	}, nil)
	return refusedWith, err
}

// unlocked runs a step with the lockdown lifted, where there is one, and sets it again: as it was recorded,
// else as it was found.
func (h *handle) unlocked(ctx context.Context, run hardware.StepRun, do step) (note string, err error) {
	r, err := h.readLockdown(ctx)
	if err != nil || r.is == nil {
		if err != nil {
			return "", err
		}
		return do(h, ctx, run)
	}
	const evidence = "lockdown"
	found := map[string]string{}
	if h.lifted, err = run.Load(evidence, &found); err != nil {
		return "", err
	}
	locked := slices.ContainsFunc(slices.Collect(maps.Values(r.is)), func(v string) bool { return v != unlockedAs(v) })
	if locked {
		if !h.lifted {
			if err := run.Save(evidence, r.is); err != nil {
				return "", err
			}
			found, h.lifted = r.is, true
		}
		off := map[string]string{}
		for key := range r.is {
			off[key] = unlockedAs(r.is[key])
		}
		if err := h.restoreItem(ctx, run, lockdownItem, off, &coverage{}); err != nil {
			return "", err
		}
	}
	note, err = do(h, ctx, run)
	if !h.lifted || ctx.Err() != nil {
		return note, err
	}
	enrolled, wrong := device.ParseProperties(h.enrolled.Properties)
	if want := enrolled.Setup[device.SetupLockdown]; want != nil {
		found = want
	}
	if wrong == nil {
		wrong = h.restoreItem(ctx, run, lockdownItem, found, &coverage{})
	}
	return note, errors.Join(err, wrong)
}
