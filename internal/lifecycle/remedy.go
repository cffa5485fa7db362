package lifecycle

import (
	"slices"
	"strings"

	"burnish/internal/device"
	"burnish/workflows/contract"
)

// This file says which way leads out of a refusal. The way is searched for with Decide on copies; its words are the
// table of acts, waits, and what follows.

// act is what an operator can do to a device.
type act struct {
	verb contract.Verb
	in   contract.Input
	// listed: it is in the list of what is allowed, with these flags. words are the flags of a remedy.
	listed        bool
	flags, words  string
	namesInstance bool
	// cost is what it costs to do it on the way to something else; 0: it is never done for something else.
	cost int
}

// acts are in the order in which they are listed and, where several lead to the same, proposed. To give a device up
// costs most: no way has it in which another one is left.
var acts = []act{
	{verb: contract.VerbProvide, in: contract.ReasonInput{}, listed: true, cost: 1},
	{verb: contract.VerbClean, in: contract.CleanInput{}, listed: true, cost: 1},
	{verb: contract.VerbManage, in: contract.TenantInput{}, listed: true, cost: 1},
	{verb: contract.VerbRetire, in: contract.RetireInput{}, listed: true, words: "--reason R", namesInstance: true, cost: 4},
	{verb: contract.VerbForget, in: contract.TenantInput{}, listed: true, cost: 4},
	{verb: contract.VerbBind, in: someBind, listed: true},
	{verb: contract.VerbUnbind, in: contract.UnbindInput{}, listed: true, namesInstance: true, cost: 1},
	{verb: contract.VerbReleaseHold, in: contract.ReasonInput{}, listed: true, cost: 1},
	{verb: contract.VerbPower, in: contract.PowerInput{Target: powerOn}, listed: true, flags: "on|off|reset",
		namesInstance: true},
	{verb: contract.VerbMaintain, in: contract.MaintenanceInput{Off: true}, words: "--off", cost: 1},
	abort,
}

var abort = act{verb: contract.VerbAbort, in: contract.ReasonInput{}, listed: true, cost: 2}

// someBind is a bind to an instance that has no device.
var someBind = contract.BindInput{Instance: "INSTANCE"}

// naming is the input of an act that names the instance.
func (a act) naming(instance string) contract.Input {
	switch in := a.in.(type) {
	case contract.RetireInput:
		in.Instance = instance
		return in
	case contract.UnbindInput:
		in.Instance = instance
		return in
	case contract.PowerInput:
		in.Instance = instance
		return in
	}
	return a.in
}

// instance is the one that has the device, by name; "" if none has, or if it is not known which.
func (d *State) instance() string {
	if b := d.Device.Binding; b != nil {
		return b.Instance
	}
	return ""
}

// allowedActions lists what an operator may ask of the device now: what Decide would not refuse, and would not answer
// with that there is nothing to change.
func (d *State) allowedActions() (all []string) {
	instance := d.instance()
	for _, a := range acts {
		v := verbOf(a.verb.Update())
		if !a.listed || v.check(d, a.naming(instance)) != nil || v.already != nil && v.already(d) {
			continue
		}
		text := a.verb.Name
		if a.flags != "" {
			text += " " + a.flags
		}
		if a.namesInstance && instance != "" {
			text += " --instance " + instance
		}
		all = append(all, text)
	}
	return all
}

// command is written as an operator types it behind "burnish".
func (d *State) command(verb string, words ...string) string {
	return strings.Join(append([]string{verb, d.Name}, words...), " ")
}

// way is a sequence of acts and waits, and the device after it.
type way struct {
	then  *State
	words []string
	cost  int
}

// place is what of a state decides which acts it allows.
type place struct {
	device.Device
	claimed, bound, held bool
}

func (d *State) place() place {
	p := place{Device: d.Device, claimed: d.Device.Claim != nil, bound: d.Device.Binding != nil,
		held: d.waits(contract.WaitHold)}
	p.Claim, p.Binding, p.Bindings = nil, nil, 0
	return p
}

// maxPlaces bounds a search.
const maxPlaces = 40

// ways are the cheapest ways to where the condition holds.
func (d *State) ways(holds func(*State) bool) (found []way) {
	seen := map[place]bool{}
	open := []way{{then: d.settled().goneOn()}}
	for len(open) > 0 && len(seen) < maxPlaces {
		next := 0
		for i, w := range open {
			if w.cost < open[next].cost {
				next = i
			}
		}
		w := open[next]
		open = slices.Delete(open, next, next+1)
		if len(found) > 0 && w.cost > found[0].cost {
			break
		}
		at := w.then.place()
		if seen[at] {
			continue
		}
		seen[at] = true
		if w.cost > 0 && holds(w.then) {
			found = append(found, w)
			continue
		}
		open = append(open, w.further()...)
	}
	return found
}

// further are the ways that go one step on.
func (w way) further() (all []way) {
	d := w.then
	goOn := func(then *State, words string, cost int) {
		all = append(all, way{then, append(slices.Clip(w.words), words), w.cost + cost})
	}
	if then, waits := d.waitedOut(); waits {
		goOn(then, d.waitWords(), 1)
	}
	for _, a := range acts {
		if a.cost == 0 || a.verb.Name == contract.VerbAbort.Name && !d.waits(contract.WaitHold) {
			continue // a clean that goes on is aborted at once, or not at all: see remedy
		}
		if then := d.after(a); then != nil {
			words, _ := d.wordsOf(a)
			goOn(then, words, a.cost)
		}
	}
	return all
}

// wordsOf are an act's words in a way, and its input. To end a binding comes after what only the operator knows.
func (d *State) wordsOf(a act) (words string, in contract.Input) {
	if a.verb.Name != contract.VerbUnbind.Name {
		return strings.TrimSpace(d.command(a.verb.Name, a.words)), a.in
	}
	return "once its instance has ended, " + d.command(a.verb.Name, "--instance "+d.instance()), a.naming(d.instance())
}

// after is the device after an act and what that waits for; nil if it is refused.
func (d *State) after(a act) *State {
	_, in := d.wordsOf(a)
	if verbOf(a.verb.Update()).check(d, in) != nil {
		return nil
	}
	then := d.settled()
	j := then.askAhead(a.verb, in, usual{})
	for range maxAhead {
		if j.Ended && len(then.Undue()) == 0 {
			break
		}
		if _, more := then.ahead(j, usual{}); !more {
			break
		}
	}
	if !j.Ended || j.Err != nil {
		return nil
	}
	_, _, _ = then.Answer(j.ID)
	return then.goneOn()
}

// goneOn is the device once a clean that is due has begun, which no operator is quick enough to forestall.
func (d *State) goneOn() *State {
	for i := 0; i < maxAhead && d.Device.State == device.PendingCleaning && cleanDue(d.Device); i++ {
		if _, more := d.ahead(nil, usual{}); !more {
			break
		}
	}
	return d
}

// settled is a copy that waits for no answer to what is being refused.
func (d *State) settled() *State {
	then := d.Clone()
	then.Jobs = slices.DeleteFunc(then.Jobs, func(j *Job) bool { return j.Ended })
	return then
}

// waitedOut is the device once all that it waits for has come; false: it waits for nothing that changes it.
func (d *State) waitedOut() (*State, bool) {
	then := d.settled()
	for range maxAhead {
		if _, more := then.ahead(nil, usual{}); !more {
			break
		}
	}
	return then, then.place() != d.place()
}

// waitWords say what is waited for.
func (d *State) waitWords() string {
	switch dev := d.Device; {
	case dev.Claim != nil:
		return "wait until its bind has ended"
	case dev.Returning:
		return "wait until it is available"
	case dev.State == device.Unknown:
		return "wait until the inventory has been read"
	case dev.NamedSteps:
		return "wait until its steps are done"
	}
	return "wait until it is clean"
}

// works says that the state lets a request be carried out, and that this does not end in state error.
func (d *State) works(asked contract.Verb, in contract.Input) bool {
	if d.Device.State == device.Absent { // forgotten: it can be enrolled in another way
		return true
	}
	err := verbOf(asked.Update()).check(d, in)
	if r, refused := contract.RefusalOf(err); refused && r.Fault.Code == device.CodeNoSuchStep {
		return true // which is another matter than the state
	}
	if err != nil {
		return false
	}
	then := d.settled()
	j := then.askAhead(asked, in, usual{})
	return (j.Err == nil) && (then.Device.State != device.Error || d.Device.State == device.Error)
}

// remedy is the way to where a request works that is refused now, or to what it is for: what follows "or" is another
// way, what follows "then" comes after the former has ended.
func (d *State) remedy(asked contract.Verb, in contract.Input) string {
	dev := d.Device
	taken := dev.LostRace || dev.State == device.Manageable && dev.Maintenance == device.MaintenanceTaken
	manual := false
	if clean, is := in.(contract.CleanInput); is {
		manual = clean.Manual()
	}
	const anotherServer = "take another server: this one is cleaned as soon as the other user has left it"
	holds := func(then *State) bool { return then.works(asked, in) }
	var or, after string // another way, and what follows an unbind
	switch asked.Name {
	case contract.VerbUnbind.Name, contract.VerbRebuild.Name:
		switch {
		case dev.State == device.Allocated && dev.Binding != nil:
			return "name the instance that has it: " + d.command(asked.Name, "--instance "+dev.Binding.Instance)
		case dev.State == device.Unknown && !dev.AwaitingManualClean:
			return d.waitWords()
		}
		return "none is needed: no instance has it"
	case contract.VerbBind.Name, contract.VerbClaim.Name, contract.VerbBurn.Name, contract.VerbUnclaim.Name:
		switch {
		case taken:
			return anotherServer
		case dev.Claim != nil:
			return "wait, or take another device"
		case dev.State == device.Allocated:
			return "take another device"
		}
		asked, in = contract.VerbBind, someBind
		offered := func(then *State) bool { return then.works(asked, in) }
		if then, waits := d.waitedOut(); waits && offered(then) {
			return d.waitWords()
		}
		holds = func(then *State) bool { // it is offered by itself then
			later, _ := then.waitedOut()
			return offered(then) || offered(later)
		}
	case contract.VerbProvide.Name:
		if taken {
			return anotherServer
		}
		after = ": it is then cleaned and available by itself"
	case contract.VerbClean.Name:
		if manual {
			break
		}
		switch {
		case taken:
			return anotherServer
		case dev.Claim != nil:
			return "none is needed: it is clean"
		case dev.State == device.Available:
			what := "it is clean"
			if dev.NotSanitized {
				what = "it is offered without a clean"
			}
			return what + "; to work on it by hand, " + sequence(d.command("manage"), d.command("clean", "--steps STEP"))
		case dev.State == device.Manageable:
			or = d.command("clean", "--steps STEP")
		case cleanDue(dev) && !dev.NamedSteps && !d.waits(contract.WaitHold), dev.Returning:
			return "none is needed: it is being cleaned"
		}
		after = ": the clean then starts by itself"
		holds = func(then *State) bool {
			return then.works(asked, in) || then.Device.State == device.Available || then.Device.Returning ||
				cleanDue(then.Device) && !then.Device.NamedSteps && !then.waits(contract.WaitHold)
		}
	case contract.VerbOverride.Name:
		switch {
		case taken:
			return anotherServer
		case dev.State == device.Error && dev.Maintenance == device.MaintenanceTaken:
			return d.command("manage") + ": it is cleaned as soon as the other user has left it"
		}
	case contract.VerbMaintain.Name:
		if dev.State == device.Retired {
			return "none is needed: a retired device is not offered"
		}
	}
	found := d.ways(holds)
	waits := len(found) == 0 || found[0].words[0] == d.waitWords()
	if waits && !dev.NamedSteps && !dev.AwaitingManualClean {
		if then := d.after(abort); then != nil { // who does not wait for a clean aborts it
			found = append(slices.Clip(found[:min(len(found), 1)]),
				then.from(way{then: then, words: []string{d.command("abort")}}, holds)...)
		}
	}
	if len(found) == 0 {
		return "show " + d.Name
	}
	text := alternatives(found)
	if first := found[0].words[0]; dev.AwaitingManualClean && dev.State == device.Unknown &&
		(first == d.command("clean") || first == d.command("manage")) {
		text = "find out whether an instance uses it; if none does, " + text // which gives it to the next tenant
	}
	switch {
	case found[0].then.Device.State == device.Absent && !dev.Cleanable:
		text += ", and enroll it with a driver that can erase it"
	case found[0].then.Device.State == device.Absent:
		text += ", and enroll it again"
	case after != "" && dev.State == device.Allocated && len(found[0].words) == 1:
		text += after
	case or != "":
		text += ", or " + or
	}
	return text
}

// from are the cheapest ways that begin with one.
func (d *State) from(begins way, holds func(*State) bool) []way {
	if holds(d) {
		return []way{begins}
	}
	found := d.ways(holds)
	for i := range found {
		found[i].words = append(slices.Clip(begins.words), found[i].words...)
	}
	return found[:min(len(found), 1)]
}

// alternatives joins several ways by "or". What ends all of them is said once.
func alternatives(ways []way) string {
	slices.SortStableFunc(ways, func(a, b way) int { return len(b.words) - len(a.words) })
	common := 0
	if len(ways) > 1 {
		for ; ; common++ {
			last := func(w way) string {
				if len(w.words) < common+2 { // each keeps its beginning
					return ""
				}
				return w.words[len(w.words)-1-common]
			}
			first := last(ways[0])
			if first == "" || slices.ContainsFunc(ways, func(w way) bool { return last(w) != first }) {
				break
			}
		}
	}
	var heads []string
	for _, w := range ways {
		heads = append(heads, sequence(w.words[:len(w.words)-common]...))
	}
	text := strings.Join(heads, ", or ")
	if common > 0 {
		text += "; then " + sequence(ways[0].words[len(ways[0].words)-common:]...)
	}
	return text
}

// sequence joins what is done one after the other.
func sequence(parts ...string) string {
	last := len(parts) - 1
	if last < 1 {
		return strings.Join(parts, "")
	}
	return strings.Join(parts[:last], ", ") + ", then " + parts[last]
}

// retireFirst is what must be done before the device can be enrolled in another way.
func (d *State) retireFirst() string {
	forget := d.command("forget")
	if d.Device.State == device.Retired {
		return forget
	}
	return d.remedy(contract.VerbForget, contract.TenantInput{}) + ", then " + forget
}

// tenantError refuses a request that would end the binding of an instance, and does not name it.
type tenantError struct{ has, named string }

func (e *tenantError) Error() string { return "instance " + e.has + " has the device, not " + e.named }

// nameTenantFirst is such a refusal in words.
func (d *State) nameTenantFirst(asked contract.Verb, e *tenantError) error {
	message, flags := e.Error(), []string{"--instance " + e.has}
	if e.named == "" {
		message = "instance " + e.has + " has the device: " + asked.Update() + " would end its binding"
	}
	remedy := ""
	switch asked.Name {
	case contract.VerbManage.Name:
		works := func(then *State) bool { return then.works(contract.VerbManage, contract.TenantInput{}) }
		if found := d.ways(works); d.Device.State == device.Allocated && len(found) > 0 {
			remedy = sequence(append(slices.Clip(found[0].words), d.command("manage"))...)
		}
	case contract.VerbRetire.Name:
		flags = append(flags, "--reason R")
	case contract.VerbMove.Name:
		flags = append([]string{"NEW"}, flags...)
	}
	if remedy == "" {
		remedy = "if that is intended, name it: " + d.command(asked.Name, flags...)
	}
	return d.refuse(device.CodeInUse, message, remedy)
}
