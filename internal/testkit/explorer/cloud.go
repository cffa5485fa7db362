package explorer

import (
	"fmt"
	"hash/maphash"
	"slices"
	"strings"
	"time"

	"burnish/internal/device"
	"burnish/internal/lifecycle"
	"burnish/workflows/contract"
)

// Act is what an instance is asked to do.
type Act struct {
	Name string // in stories
	ID   string
	Verb contract.Verb
	In   contract.Input
}

// Call is what an act waits for.
type Call struct {
	Activity string // or CallNow
	Devices  contract.DevicesCall
	Pick     contract.PickInput
}

// CallNow asks what time it is.
const CallNow = "now"

// Reply is the answer to a call, or a device that left meanwhile.
type Reply struct {
	Left    *contract.DeviceLeft
	Now     time.Time
	Devices contract.DevicesAnswer
	Pick    contract.PickAnswer
	Err     error
}

// Progress is how far an act is: State is what a query shows. Without a Call it has ended.
type Progress struct {
	State *contract.InstanceState
	Call  *Call
	Err   error
}

// Instance carries an act out from the state before it, with the answers that were recorded, as far as these go.
// Without a verb it only tells the instance which devices have left.
type Instance func(before *contract.InstanceState, act Act, recorded []Reply) Progress

// Cloud is an instance and two devices. Apart: each is on a host of its own.
type Cloud struct {
	Instance Instance
	Apart    bool
	Acts     []Act
}

// cloud is everything at one moment.
type cloud struct {
	devices [2]world
	now     time.Time
	// before is the instance between two acts, or what its last run has shown; nil: it had none. doing: in the middle
	// of an act.
	before         *contract.InstanceState
	running, doing bool
	act            *Act
	recorded       []Reply
	at             Progress
	sent           [2]string // the request of the call to each device; "": it has to be sent
	outcomes       [2]*contract.DeviceOutcome
	signals        []contract.DeviceLeft // on their way
	ids            uint8

	faults, binds, acts uint8 // how many are left: binds are those of another instance
}

// instance is its UUID.
var instance = first.id()

// clouds searches them.
type clouds struct {
	*explorer
	Cloud
	ofDevice []move
}

// Explore visits the worlds within the bounds, until a promise is broken: Acts are the instance's, Binds those of
// another one.
func (c Cloud) Explore(b Bounds) Result {
	s := &clouds{explorer: newExplorer(Self), Cloud: c}
	s.apart = c.Apart
	for _, m := range s.moves {
		name, _, _ := strings.Cut(m.name, ", and the task is lost")
		if !slices.Contains(notInClouds, name) && !strings.Contains(name, "operator") {
			s.ofDevice = append(s.ofDevice, m)
		}
	}
	reaches := move{name: "the instance's call reaches it", do: func(t turn) bool { return t.of.reaches(t) }}
	s.ofDevice = append(s.ofDevice, reaches, lost(reaches))
	var names []string
	for _, d := range []string{"d1", "d2"} {
		for _, m := range s.ofDevice {
			names = append(names, d+": "+m.name)
		}
	}
	for _, a := range c.Acts {
		names = append(names, "the client: "+a.Name)
	}
	names = append(names, "the instance learns that a device left", "the instance's call ends without an answer",
		"the instance's workflow is terminated")
	start := &cloud{now: epoch, faults: b.Faults, binds: b.Binds, acts: b.Acts}
	for n := range start.devices {
		start.devices[n] = *s.begin(Bounds{}, int8(n))
	}
	return space[cloud]{names, nil, s.make, s.key, s.describe, b.Progress}.search(start, b.Worlds)
}

// notInClouds are moves of what is not explored with an instance.
var notInClouds = []string{
	"first binds it", "first unbinds it", "first claims it", "first burns its claim", "first gives its claim back",
	"first's client is killed while it waits", "two principals override it", "the database is saved",
	"the inventory is saved", "the hardware is swapped", "somebody writes to it while it is offered",
}

func (s *clouds) make(c *cloud, i int) (made bool, broken string) {
	s.broke = ""
	n := len(s.ofDevice)
	switch at := i - 2*n; {
	case at < 0:
		made = s.moveOf(c, &c.devices[i/n], s.ofDevice[i%n])
	case at < len(s.Acts):
		made = s.begins(c, s.Acts[at])
	case at == len(s.Acts):
		made = s.learns(c)
	case at == len(s.Acts)+1:
		made = s.unanswered(c)
	default:
		made = s.terminated(c)
	}
	if made && s.broke == "" {
		s.goesOn(c)
		s.check(c)
	}
	return made, s.broke
}

// moveOf makes a move of one device, with what is left of the cloud's bounds.
func (s *clouds) moveOf(c *cloud, w *world, m move) bool {
	w.faults, w.binds, w.now = c.faults, c.binds, c.now
	if !m.do(turn{explorer: s.explorer, w: w, of: c}) {
		return false
	}
	c.faults, c.binds, c.now = w.faults, w.binds, w.now
	w.faults, w.binds = 0, 0
	for n := range c.devices {
		c.devices[n].now = c.now
	}
	if w.d != nil || c.sent[w.number] == "" || c.outcomes[w.number] != nil {
		return true
	}
	c.sent[w.number] = "" // it is sent again, but for a claim, which ends with its run
	if a := c.at.Call.Activity; a == contract.ActivityClaimDevices || a == contract.ActivityUnclaimDevices {
		c.refuse(w, device.CodeNotFound)
	}
	return true
}

func (c *cloud) refuse(w *world, code device.Code) {
	c.outcomes[w.number] = &contract.DeviceOutcome{Device: contract.HeldDevice{Name: w.name()},
		Fault: &device.Fault{Class: device.Permanent, Code: code}}
}

// asked is the call's part for one device, nil if it has none, or has answered.
func (c *cloud) asked(w *world) *contract.DeviceCall {
	if c.at.Call == nil || c.outcomes[w.number] != nil {
		return nil
	}
	for _, d := range c.at.Call.Devices.Devices {
		if d.Name == w.name() {
			return &d
		}
	}
	return nil
}

var verbs = map[string]contract.Verb{
	contract.ActivityClaimDevices: contract.VerbClaim, contract.ActivityBurnDevices: contract.VerbBurn,
	contract.ActivityUnclaimDevices: contract.VerbUnclaim, contract.ActivityUnbindDevices: contract.VerbUnbind,
	contract.ActivityRebuildDevices: contract.VerbRebuild, contract.ActivityConfirmDevices: contract.VerbBurn,
}

// reaches: the request of the call comes to one device, as activities.Instances sends it.
func (c *cloud) reaches(t turn) bool {
	if c.asked(t.w) == nil || c.sent[t.w.number] != "" {
		return false
	}
	call := c.at.Call
	v := verbs[call.Activity]
	unbinds := v.Name == contract.VerbUnbind.Name
	if t.w.d == nil {
		if unbinds && (!t.w.inv.recorded || t.w.inv.tenant == first) {
			return false // the record does not say that it has left
		}
		c.refuse(t.w, device.CodeNotFound)
		return true
	}
	var in contract.Input = contract.UnbindInput{Instance: instance, ByInstance: unbinds}
	mine := &t.w.tenants[0]
	switch v.Name {
	case contract.VerbUnbind.Name:
		*mine = tenant{}
	case contract.VerbRebuild.Name:
	default:
		b := contract.BindInput{Instance: instance, Request: call.Devices.Request, Managed: true}
		if call.Activity == contract.ActivityConfirmDevices {
			b.Request, b.Held = c.asked(t.w).Request, true
		}
		if v.Name == contract.VerbClaim.Name {
			b.Deadline = call.Devices.Deadline.Format(time.RFC3339)
		}
		mine.denied, in = noDenial, b
	}
	c.ids++
	asked := lifecycle.Asked{ID: fmt.Sprint("i", c.ids), Verb: v, In: in}
	if err := t.w.d.Arrives(asked, settings{t}); err != nil {
		refusal, _ := contract.RefusalOf(err)
		if unbinds && refusal.State == device.Unknown {
			return false // asked again
		}
		c.refuse(t.w, refusal.Fault.Code)
		return true
	}
	c.sent[t.w.number] = asked.ID
	t.decide(asked)
	return true
}

// answered: a device has answered a request.
func (c *cloud) answered(w *world, j *lifecycle.Job) {
	if j.ID != c.sent[w.number] {
		return
	}
	refusal, _ := contract.RefusalOf(j.Err)
	switch unbinds := j.Verb.Name == contract.VerbUnbind.Name; {
	case unbinds && j.Err != nil && refusal.State == device.Unknown:
		c.sent[w.number] = "" // asked again
	case j.Err != nil:
		c.refuse(w, refusal.Fault.Code)
	default:
		o := &contract.DeviceOutcome{Device: contract.HeldDevice{Name: w.name(), Type: "NVME", Host: w.d.Enrollment.Host,
			Binding: j.Result.Binding}, Already: j.Result.Already}
		if j.Verb.Name == contract.VerbRebuild.Name {
			o.Device.Binding = j.Result.Device.Binding
		}
		c.outcomes[w.number] = o
	}
}

// signaled: a device tells the instance what it must know.
func (c *cloud) signaled(mail []lifecycle.Mail) {
	for _, m := range mail {
		if left, ok := m.In.(contract.DeviceLeft); ok && c.running && m.To == contract.InstanceWorkflowID(instance) {
			c.signals = append(slices.Clip(c.signals), left)
		}
	}
}

// says is what the instance answers to a device that has a binding by a record alone, as activities.Instances asks it.
func (c *cloud) says(name string) lifecycle.Outcome {
	s := c.shown()
	known := s == nil || s.Phase != contract.InstanceReleased && has(held(s), name)
	if !known && c.doing && s.Phase != contract.InstanceReleased {
		return lifecycle.Outcome{Fault: noAnswer}
	}
	return lifecycle.Outcome{Found: &contract.InstanceAnswer{Left: !known}}
}

func (c *cloud) shown() *contract.InstanceState {
	if c.act != nil {
		return c.at.State
	}
	return c.before
}

// held are the devices that the instance has, or may have.
func held(s *contract.InstanceState) []contract.HeldDevice {
	if s == nil {
		return nil
	}
	all := slices.Concat(s.Devices, s.Unsettled)
	if s.Move != nil {
		all = append(all, s.Move.Source...)
	}
	return all
}

func has(all []contract.HeldDevice, name string) bool {
	return slices.ContainsFunc(all, func(d contract.HeldDevice) bool { return d.Name == name })
}

// bound are the devices that say they are bound to the instance.
func (c *cloud) bound() (all []contract.HeldDevice) {
	for n := range c.devices {
		w := &c.devices[n]
		d := contract.HeldDevice{Name: w.name(), Type: "NVME"}
		if w.d != nil && bindingOf(w) != nil {
			d.Binding = bindingOf(w).Number
		} else if w.d != nil || w.endedWith != first {
			continue
		}
		all = append(all, d)
	}
	return all
}

// bindingOf is the device's binding to the instance, nil if it has none.
func bindingOf(w *world) *device.Binding {
	if b := w.d.Device.Binding; b != nil && b.Instance == instance {
		return b
	}
	return nil
}

// begins: a client asks the instance to do something; a run that was terminated is followed by another one.
func (s *clouds) begins(c *cloud, act Act) bool {
	if c.act != nil || c.acts == 0 {
		return false
	}
	_, binds := act.In.(contract.InstanceBindInput)
	before := c.before
	if !c.running {
		if before = c.lost(binds); !binds && before.Phase == contract.InstanceBinding {
			return false
		}
	}
	c.ids++
	act.ID = fmt.Sprint("a", c.acts)
	if at := s.Instance(before, act, nil); at.Call == nil && at.Err != nil {
		return false // refused when it comes
	}
	c.acts--
	c.before, c.running, c.doing, c.act, c.recorded = before, true, true, &act, nil
	c.at = s.Instance(before, act, nil)
	c.asks()
	return true
}

// lost is what a new run begins with, as client.Client gives it.
func (c *cloud) lost(binds bool) *contract.InstanceState {
	state := &contract.InstanceState{UUID: instance, Phase: contract.InstanceActive}
	last := c.before
	lives := last != nil && last.Phase != contract.InstanceReleased
	if lives {
		state.Unsettled, state.Granted = slices.Clone(last.Unsettled), last.Granted
		state.Devices = c.notLeft(last.Devices, last.Unsettled)
	}
	if lives && last.Move != nil {
		move := *last.Move
		move.Source = c.notLeft(move.Source, last.Unsettled)
		if len(state.Devices)+len(move.Source) > 0 {
			state.Move, state.Phase = &move, contract.InstanceMigrating
		}
	}
	if lives || !binds {
		for _, d := range c.bound() {
			if !has(held(state), d.Name) {
				state.Devices = append(state.Devices, d)
			}
		}
	}
	if len(held(state)) == 0 {
		state.Phase = contract.InstanceBinding
	}
	return state
}

func (c *cloud) notLeft(devices, unsettled []contract.HeldDevice) (kept []contract.HeldDevice) {
	for _, d := range devices {
		w := &c.devices[d.Name[1]-'1']
		if knows := w.d != nil && w.d.Device.State != device.Unknown; has(unsettled, d.Name) || knows && bindingOf(w) == nil {
			continue
		} else if knows {
			d.Binding = bindingOf(w).Number
		}
		kept = append(kept, d)
	}
	return kept
}

// asks begins the call that the act waits for now.
func (c *cloud) asks() { c.sent, c.outcomes = [2]string{}, [2]*contract.DeviceOutcome{} }

// reply answers the call.
func (s *clouds) reply(c *cloud, r Reply) {
	c.recorded = append(slices.Clip(c.recorded), r)
	c.at = s.Instance(c.before, *c.act, c.recorded)
	if r.Left == nil {
		c.asks()
	}
}

// goesOn answers what is known at once, and ends the act.
func (s *clouds) goesOn(c *cloud) {
	for c.act != nil && s.broke == "" {
		call := c.at.Call
		if call == nil {
			s.ended(c)
			return
		}
		var r Reply
		switch call.Activity {
		case CallNow:
			r.Now = c.now
		case contract.ActivityPickDevices:
			for _, choice := range call.Pick.Named {
				host := "h1"
				if s.apart {
					host = "h" + choice.Name[1:]
				}
				r.Pick.Devices = append(r.Pick.Devices, choice)
				r.Pick.Known = append(r.Pick.Known, contract.HeldDevice{Name: choice.Name, Type: "NVME", Host: host})
			}
		case contract.ActivityFindBound:
			r.Pick.Known = c.bound()
		default:
			for n := range c.devices {
				if c.asked(&c.devices[n]) != nil {
					return
				}
			}
			for _, d := range call.Devices.Devices {
				r.Devices.Outcomes = append(r.Devices.Outcomes, *c.outcomes[d.Name[1]-'1'])
			}
		}
		s.reply(c, r)
	}
}

// ended: the act has ended, refused without effect, or granted with all of it.
func (s *clouds) ended(c *cloud) {
	act, err := c.act, c.at.Err
	c.before, c.act, c.recorded, c.doing = c.at.State, nil, nil, false
	c.at = Progress{}
	if c.running = c.before.Phase != contract.InstanceReleased; !c.running {
		c.signals = nil
	}
	in, binds := act.In.(contract.InstanceBindInput)
	for n := range c.devices {
		w := &c.devices[n]
		if w.d == nil {
			continue
		}
		b := bindingOf(w)
		if err != nil && b != nil && b.Request == act.ID && !has(c.before.Devices, w.name()) {
			s.broken(fmt.Sprintf("%s is refused (%v), and %s is bound by it", act.Name, err, w.name()))
		}
		if err == nil && binds && len(c.signals) == 0 && w.d.Device.State != device.Unknown && b == nil &&
			slices.ContainsFunc(in.Devices, func(d contract.DeviceChoice) bool { return d.Name == w.name() }) {
			s.broken(act.Name + " is granted, and " + w.name() + " is not bound")
		}
	}
}

func (s *clouds) learns(c *cloud) bool {
	if len(c.signals) == 0 || !c.running {
		return false
	}
	left := c.signals[0]
	if c.signals = c.signals[1:]; c.act != nil {
		s.reply(c, Reply{Left: &left})
		return true
	}
	c.before = s.Instance(c.before, Act{}, []Reply{{Left: &left}}).State
	c.running = c.before.Phase != contract.InstanceReleased
	return true
}

// unanswered: a call that a client waits for is given up. What was sent goes on.
func (s *clouds) unanswered(c *cloud) bool {
	if c.act == nil || c.faults == 0 {
		return false
	}
	switch c.at.Call.Activity {
	case contract.ActivityClaimDevices, contract.ActivityUnclaimDevices, contract.ActivityRebuildDevices,
		contract.ActivityConfirmDevices:
		c.faults--
		s.reply(c, Reply{Err: fmt.Errorf("no answer")})
		return true
	}
	return false
}

func (s *clouds) terminated(c *cloud) bool {
	if !c.running || c.faults == 0 {
		return false
	}
	c.faults--
	c.before = c.shown()
	c.act, c.recorded, c.at, c.running, c.signals = nil, nil, Progress{}, false, nil
	c.asks()
	return true
}

// check looks for a broken promise: of the devices, and of what they and the instance say when nothing happens any
// more.
func (s *clouds) check(c *cloud) {
	quiet := c.act == nil && len(c.signals) == 0
	for n := range c.devices {
		t := turn{explorer: s.explorer, w: &c.devices[n], of: c}
		t.check()
		quiet = quiet && t.quiet()
	}
	if !quiet {
		return
	}
	for n := range c.devices {
		w := &c.devices[n]
		b, told := bindingOf(w), turn{explorer: s.explorer, w: w}.operatorKnows(first)
		i := slices.IndexFunc(held(c.before), func(d contract.HeldDevice) bool { return d.Name == w.name() })
		switch {
		case b != nil && i < 0 && !told:
			s.broken(w.name() + " stays bound to the instance, which does not have it")
		case c.running && i >= 0 && (b == nil || b.Number != held(c.before)[i].Binding):
			s.broken("the instance has " + w.name() + ", which is not bound to it")
		}
	}
}

func (s *clouds) key(c *cloud) uint64 {
	k := keyer{as: map[int64]int64{}}
	k.hash.SetSeed(s.seed)
	for n := range c.devices {
		k.number(int64(s.explorer.key(&c.devices[n])))
		k.flags(c.sent[n] != "", c.outcomes[n] != nil)
		if o := c.outcomes[n]; o != nil {
			k.reply(Reply{Devices: contract.DevicesAnswer{Outcomes: []contract.DeviceOutcome{*o}}})
		}
	}
	maphash.WriteComparable(&k.hash, [5]uint8{c.faults, c.binds, c.acts, 0, 0})
	k.flags(c.running, c.doing, c.act != nil)
	if c.act != nil {
		k.text(c.act.Name)
	}
	if b := c.before; b != nil {
		k.text(string(b.Phase), string(b.Granted))
		for _, list := range [][]contract.HeldDevice{b.Devices, b.Unsettled, held(b)} {
			for _, d := range list {
				k.text(d.Name, d.Request)
				k.number(int64(d.Binding))
			}
			k.text("")
		}
	}
	var last time.Time
	for _, r := range c.recorded {
		if k.reply(r); !r.Now.IsZero() {
			k.flags(r.Now.Sub(last) > time.Minute) // claims end by the clock
			last = r.Now
		}
	}
	for _, left := range c.signals {
		k.reply(Reply{Left: &left})
	}
	return k.hash.Sum64()
}

func (k *keyer) reply(r Reply) {
	if r.Left != nil {
		k.text("left", r.Left.Device)
		k.number(int64(r.Left.Binding))
	}
	k.flags(r.Err != nil)
	for _, o := range r.Devices.Outcomes {
		k.text(o.Device.Name)
		k.number(int64(o.Device.Binding))
		if o.Fault != nil {
			k.text(string(o.Fault.Code))
		}
	}
}

func (s *clouds) describe(c *cloud) string {
	var b strings.Builder
	fmt.Fprintf(&b, "instance: running %t", c.running)
	if i := c.shown(); i != nil {
		fmt.Fprintf(&b, ", %s", i.Phase)
		for _, d := range held(i) {
			fmt.Fprintf(&b, ", %s by %d", d.Name, d.Binding)
		}
	}
	if c.act != nil {
		fmt.Fprintf(&b, ", %s", c.act.Name)
		if call := c.at.Call; call != nil {
			fmt.Fprintf(&b, " waits for %s", call.Activity)
		}
	}
	for n := range c.devices {
		fmt.Fprintf(&b, "\n      %s: %s", c.devices[n].name(), s.explorer.describe(&c.devices[n]))
	}
	return b.String()
}
