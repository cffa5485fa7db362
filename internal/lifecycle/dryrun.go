package lifecycle

import (
	"strings"
	"time"

	"burnish/internal/device"
	"burnish/workflows/contract"
)

// DryRun answers what a request would do: it is decided on a copy, and followed to its answer as if all calls that it
// makes due succeed. Host, inventory and appliance are not asked, and their answers may still refuse the request.
// Nothing is recorded, and nothing changes.
func (d *State) DryRun(in contract.DryRunInput, now time.Time, by Settings) contract.DryRun {
	by = silent{by}
	then := d.Clone()
	then.now, then.by = now, by
	v := verbOf(in.Update)
	if v == nil {
		return then.refusedAhead(d.refuse(device.CodeInvalid, "there is no dry run of "+in.Update, "leave out --dry-run"))
	}
	input, err := v.read(in.Input)
	if err != nil {
		return then.refusedAhead(d.refuse(device.CodeInvalid, "the input of "+in.Update+" cannot be read: "+err.Error(),
			"send the input of the update"))
	}
	if err := then.refuses(v.asked, input); err != nil && !then.asksRecord(v.asked, err) {
		return then.refusedAhead(then.refusal(v.asked, input, err))
	}
	j := then.askAhead(v.asked, input, by)
	var looks bool
	var stops string
	for range maxAhead {
		if j.Ended && len(then.Undue()) == 0 {
			break
		}
		c, more := then.ahead(j, by)
		if !more {
			break
		}
		switch {
		case c == nil:
		case j.Ended && c.How.Way == ToStep:
			stops = c.Activity
		case c.Activity == contract.ActivityDiscover && strings.HasPrefix(c.Key, j.ID+"/"):
			looks = true
		}
	}
	if j.Err != nil {
		return then.refusedAhead(j.Err)
	}
	out := contract.DryRun{State: j.Result.Device.DeviceState, Already: j.Result.Already,
		Note: then.noteAhead(d, j, looks, stops)}
	if then.Finished || v.asked.Name == contract.VerbAbort.Name { // which the answer does not wait for
		out.State = then.Device.State
	}
	if has := d.tenant(); has != "" && then.tenant() == "" {
		out.Instance = has
	}
	if v.asked.Name == contract.VerbReleaseHold.Name || !cleanDue(d.Device) {
		out.Steps = then.stepsAhead(by)
	}
	return out
}

func (d *State) refusedAhead(err error) contract.DryRun {
	refusal, ok := contract.RefusalOf(err)
	if !ok {
		refusal = contract.Refusal{Device: d.Name, State: d.Device.State, Fault: *faultOf(err)}
	}
	return contract.DryRun{Refusal: &refusal}
}

// cleanDue says that a clean is due or under way, and does not wait for its operator's word that it begins.
func cleanDue(d device.Device) bool { return d.BeingCleaned() && !d.AwaitingManualClean }

// stepsAhead are the steps of the clean that is due, or that is under way.
func (d *State) stepsAhead(by Settings) (names []string) {
	for range maxAhead {
		if !cleanDue(d.Device) {
			return nil
		}
		if run := d.Clean; run != nil && len(run.Plan) > 0 {
			for _, p := range run.Plan[run.Next:] {
				names = append(names, p.Step)
			}
			return names
		}
		if _, more := d.ahead(nil, by); !more {
			return nil
		}
	}
	return nil
}

// noteAhead is what else is to be known of a request: what it needs of its host, and what it waits for.
func (d *State) noteAhead(was *State, j *Job, looks bool, stops string) string {
	switch in := j.In.(type) {
	case contract.MoveInput:
		return "it would go on as " + in.Enrollment.Name + ", if the host there finds its hardware"
	case contract.ReplaceInput:
		note := "if its host finds other hardware in its slot"
		if in.Provide {
			note += " that can be erased"
		}
		return note
	case contract.LabelInput:
		return "labels: " + device.LabelsText(d.Enrollment.Labels)
	}
	switch {
	case j.Verb.Name == contract.VerbAbort.Name && was.Taking != nil:
		return "it would no longer be taken out of the offer"
	case looks: // which a dry run does not ask for
		return "if its host finds the enrolled hardware"
	case stops != "":
		return "once the step " + stops + " has stopped"
	}
	switch j.Verb.Name {
	case contract.VerbRetire.Name, contract.VerbForget.Name, contract.VerbPower.Name, contract.VerbMigratePool.Name,
		contract.VerbAbort.Name: // what the answer says is said of what was done
		return ""
	}
	return j.Result.Note
}
