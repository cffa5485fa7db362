package limits

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"burnish/internal/device"
	"burnish/workflows/contract"
)

// The steps that write firmware, and that prove it.
const (
	stepReflash = "firmware_reflash"
	stepVerify  = "verify_firmware"
)

// queue decides which requests have a slot. It is pure: its caller records the time.
type queue struct {
	*contract.LimitsState
	// answers are the requests whose devices must get an answer, those with a slot
	// first. obstacles are what the requests wait for, by their index.
	answers   []int
	obstacles map[int]obstacle
	verified  map[contract.VerifiedFirmware]bool // as Verified; nil after a change
}

// obstacle is what one request waits for.
type obstacle struct {
	place int
	code  device.Code
	// key separates two obstacles with one code.
	key     string
	breaker *contract.Breaker
	device  string // that has the firmware first
	busy    int    // of limit cleans run
	limit   int
	host    string
}

// tally is what the requests with a slot use.
type tally struct {
	cleans   int
	onHost   map[string]int
	canaries map[string]*contract.Slot // by model and firmware
	// groups count as one clean each, and as one on each of their hosts.
	groups map[string]bool
	taking int
}

func (t *tally) add(s *contract.Slot) {
	if s.TakesCapacity {
		t.taking++
		return
	}
	once := func(what string) int {
		if s.Group != "" && t.groups[what] {
			return 0
		}
		t.groups[what] = s.Group != ""
		return 1
	}
	t.cleans += once(s.Group)
	t.onHost[s.Host] += once(s.Host + "\n" + s.Group)
	for _, firmware := range s.Canary {
		t.canaries[s.Model+"\n"+firmware] = s
	}
}

// goesAlong says that a request has its slot with its group's: waiting for the rest, which waits for it, it would wait
// forever.
func (t *tally) goesAlong(s *contract.Slot) bool { return s.Group != "" && t.groups[s.Group] }

func (q *queue) tally() *tally {
	t := &tally{onHost: map[string]int{}, canaries: map[string]*contract.Slot{}, groups: map[string]bool{}}
	for i := range q.Slots {
		if q.Slots[i].Granted {
			t.add(&q.Slots[i])
		}
	}
	return t
}

// index finds the request of a device; -1 if there is none. A device has one at a time.
func (q *queue) index(name string) int {
	return slices.IndexFunc(q.Slots, func(s contract.Slot) bool { return s.Device == name })
}

// request adds a request at its place in the order of arrival. One that is there already is
// answered again; an earlier one of the same device is over.
func (q *queue) request(now time.Time, r contract.SlotRequest) {
	if i := q.index(r.Device); i >= 0 {
		if s := &q.Slots[i]; s.Clean == r.Clean {
			s.Answered, s.Opened = false, max(s.Opened, r.Opened)
			q.arrived(now, s, r.Arrived)
			if r.Granted && !s.Granted {
				s.Granted, s.Canary = true, r.Canary
				q.moved(now)
			}
			return
		}
		q.remove(now, i)
	}
	at := len(q.Slots)
	if now.Before(q.OpensAt) { // devices ask once more: their order is that of the first time
		for at > 0 && q.Slots[at-1].Since.After(r.Since) {
			at--
		}
	}
	q.Slots = slices.Insert(q.Slots, at, contract.Slot{SlotRequest: r})
	if r.Arrived > r.Opened {
		q.GroupsAt, q.Looks = now, 0
	}
}

func (q *queue) remove(now time.Time, i int) {
	q.Slots = slices.Delete(q.Slots, i, i+1)
	q.moved(now)
}

// moved records progress of the queue.
func (q *queue) moved(now time.Time) {
	q.MovedAt, q.Stalled, q.Checks, q.CheckAt = now, false, 0, now.Add(checkAfter)
}

// report records what became of a clean. One of another clean than the present one is out
// of date.
func (q *queue) report(now time.Time, r contract.SlotReport) {
	i := q.index(r.Device)
	if i < 0 || q.Slots[i].Clean != r.Clean {
		return
	}
	s := &q.Slots[i]
	q.arrived(now, s, r.Arrived)
	for _, step := range r.Done {
		q.succeeded(s, step)
	}
	if r.Failed != "" {
		q.failed(now, s, r)
	}
	if r.Withdrawn {
		q.Withdrawn = append(q.Withdrawn, s.Device)
		q.Withdrawn = q.Withdrawn[max(0, len(q.Withdrawn)-contract.KeptWithdrawn):]
	}
	if !r.Over {
		return
	}
	if r.Failed == "" && !s.TakesCapacity && s.Granted { // one more may be free soon
		q.CountAt, q.Counts = now.Add(countAfter), 0
	}
	if s.TakesCapacity && s.Granted && !r.Withdrawn {
		q.MayTake++
	}
	q.remove(now, i)
}

// succeeded ends the row of failures of a step. An open breaker stays open. The step that
// proves firmware also opens it for the others of the model.
func (q *queue) succeeded(s *contract.Slot, step string) {
	if i := q.breaker(s.Model, step); i >= 0 && !q.Breakers[i].Open {
		q.Breakers = slices.Delete(q.Breakers, i, i+1)
	}
	if step != stepVerify && (step != stepReflash || slices.Contains(s.Steps, stepVerify)) {
		return
	}
	for _, firmware := range s.Firmware {
		if v := (contract.VerifiedFirmware{Model: s.Model, Firmware: firmware}); !slices.Contains(q.Verified, v) {
			q.Verified = append(q.Verified, v)
		}
	}
	q.Verified = q.Verified[max(0, len(q.Verified)-contract.KeptVerified):]
	q.verified, s.Canary = nil, nil
}

// failed counts a failure. A row that is long enough, and one failure of the first device
// that gets new firmware, open the breaker.
func (q *queue) failed(now time.Time, s *contract.Slot, r contract.SlotReport) {
	i := q.breaker(s.Model, r.Failed)
	if i < 0 {
		i = len(q.Breakers)
		q.Breakers = append(q.Breakers, contract.Breaker{Model: s.Model, Step: r.Failed})
	}
	b := &q.Breakers[i]
	b.Device, b.Fault = r.Device, r.Fault
	if s.Group == "" || !slices.Contains(b.Groups, s.Group) {
		b.Failures++
	}
	if s.Group != "" && !slices.Contains(b.Groups, s.Group) {
		b.Groups = append(b.Groups, s.Group)
	}
	if len(s.Canary) > 0 && (r.Failed == stepReflash || r.Failed == stepVerify) {
		b.Canary = strings.Join(s.Canary, ", ")
	}
	limit := q.limits().Breaker
	if !b.Open && (b.Canary != "" || limit > 0 && b.Failures >= limit) {
		b.Open, b.At = true, now
	}
	for len(q.Breakers) > contract.KeptBreakers {
		oldest := slices.IndexFunc(q.Breakers, func(b contract.Breaker) bool { return !b.Open })
		if oldest < 0 {
			break
		}
		q.Breakers = slices.Delete(q.Breakers, oldest, oldest+1)
	}
}

func (q *queue) breaker(model, step string) int {
	return slices.IndexFunc(q.Breakers, func(b contract.Breaker) bool { return b.Model == model && b.Step == step })
}

// resume closes a breaker, and says whether it was open. Each device that waited for it gets
// the operator's act with its next answer.
func (q *queue) resume(model, step string, act contract.Act) bool {
	i := q.breaker(model, step)
	if i < 0 || !q.Breakers[i].Open {
		return false
	}
	for i := range q.Slots {
		if s := &q.Slots[i]; s.Model == model && slices.Contains(s.Steps, step) && !s.TakesCapacity {
			s.Resumed = &act
		}
	}
	q.Breakers = slices.Delete(q.Breakers, i, i+1)
	return true
}

// limits are those of the policy; none where it has none any more.
func (q *queue) limits() device.Limits {
	if q.Limits == nil {
		return device.Limits{}
	}
	return *q.Limits
}

// settle gives slots to the requests that may have one, in their order, and finds what the
// others wait for and which devices must be informed. A request that waits for something of its
// own, as its host, does not hold up those behind it.
func (q *queue) settle(now time.Time) {
	if now.Sub(q.CountedAt) > countAfter { // tenants got devices since
		q.MayTake = 0
	}
	used := q.tally()
	for i := range q.Slots {
		s := &q.Slots[i]
		if s.Granted {
			continue
		}
		if _, blocked := q.obstacle(s, used, now); blocked {
			continue
		}
		s.Granted, s.Answered = true, false
		if s.TakesCapacity {
			q.MayTake--
		} else {
			s.Canary = q.unverified(s)
		}
		used.add(s)
		q.moved(now)
	}
	q.obstacles, q.answers = map[int]obstacle{}, q.answers[:0]
	var waiting []int
	for i := range q.Slots {
		s := &q.Slots[i]
		if !s.Granted {
			o, _ := q.obstacle(s, used, now)
			waiting = append(waiting, i)
			o.place = len(waiting)
			q.obstacles[i] = o
		} else if !s.Answered || s.Cause != q.grantedCause(s) {
			q.answers = append(q.answers, i)
		}
	}
	if len(waiting) == 0 {
		q.MovedAt, q.CheckAt, q.CountAt, q.Stalled, q.Checks = time.Time{}, time.Time{}, time.Time{}, false, 0
		return
	}
	if q.MovedAt.IsZero() {
		q.moved(now)
	}
	first := q.firstInLine()
	for _, i := range waiting {
		s, o := &q.Slots[i], q.obstacles[i]
		// A device gets its place again when it is a quarter of the last one: a few times on
		// its way through a long queue, not each time that it moves.
		if cause := q.cause(o, i == first); !s.Answered || s.Cause != cause || 4*o.place <= s.Place {
			q.answers = append(q.answers, i)
		}
	}
}

// held are the steps that a clean with a slot must not begin.
func (q *queue) held(s *contract.Slot) string {
	var steps []string
	for _, b := range q.Breakers {
		if b.Open && b.Model == s.Model && slices.Contains(s.Steps, b.Step) {
			steps = append(steps, b.Step)
		}
	}
	return strings.Join(steps, " ")
}

// grantedCause is what the answer to a clean with a slot says, in short.
func (q *queue) grantedCause(s *contract.Slot) string {
	cause := q.held(s)
	if s.Arrived > s.Opened && s.MissingInAll > 0 {
		cause += fmt.Sprintf("; %d missing: %s", s.MissingInAll, strings.Join(s.Missing, " "))
	}
	return cause
}

func (q *queue) unverified(s *contract.Slot) []string {
	if !q.limits().Canary {
		return nil
	}
	if q.verified == nil {
		q.verified = map[contract.VerifiedFirmware]bool{}
		for _, v := range q.Verified {
			q.verified[v] = true
		}
	}
	var all []string
	for _, firmware := range s.Firmware {
		if !q.verified[contract.VerifiedFirmware{Model: s.Model, Firmware: firmware}] {
			all = append(all, firmware)
		}
	}
	return all
}

// obstacle is what keeps a request from its slot.
func (q *queue) obstacle(s *contract.Slot, used *tally, now time.Time) (o obstacle, blocked bool) {
	limits := q.limits()
	switch {
	case !q.Found || now.Before(q.OpensAt):
		return obstacle{code: device.CodeWaitingForSlot, key: "opening"}, true
	case s.TakesCapacity:
		if limits.FreeCapacity == (device.Capacity{}) || q.MayTake > 0 {
			return o, false
		}
		return obstacle{code: device.CodeFreeCapacity}, true
	}
	for i := range q.Breakers {
		if b := &q.Breakers[i]; b.Open && b.Model == s.Model && slices.Contains(s.Steps, b.Step) {
			return obstacle{code: device.CodeBreakerOpen, key: b.Step, breaker: b}, true
		}
	}
	for _, firmware := range q.unverified(s) {
		first, ok := used.canaries[s.Model+"\n"+firmware]
		if ok && (s.Group == "" || first.Group != s.Group) {
			return obstacle{code: device.CodeCanaryRunning, key: firmware, device: first.Device}, true
		}
	}
	if used.goesAlong(s) {
		return o, false
	}
	if n := used.onHost[s.Host]; limits.PerHost > 0 && n >= limits.PerHost {
		return obstacle{code: device.CodeWaitingForSlot, key: "host", busy: n, limit: limits.PerHost, host: s.Host}, true
	}
	if limits.ConcurrentCleans > 0 && used.cleans >= limits.ConcurrentCleans {
		return obstacle{code: device.CodeWaitingForSlot, key: "fleet", busy: used.cleans, limit: limits.ConcurrentCleans},
			true
	}
	return o, false
}

// firstInLine is the first request that waits for others to move; -1 if there is none. One
// that waits for an open breaker waits for its operator.
func (q *queue) firstInLine() int {
	for i := range q.Slots {
		if o, waits := q.obstacles[i]; waits && o.code != device.CodeBreakerOpen {
			return i
		}
	}
	return -1
}

// cause is what a device's answer says, in short.
func (q *queue) cause(o obstacle, first bool) string {
	cause := string(o.code) + " " + o.key
	if first && q.Stalled {
		cause += " stalled"
	}
	return cause
}

// answer makes the answer to a request's device, and records it.
func (q *queue) answer(i int) contract.SlotAnswer {
	s := &q.Slots[i]
	s.Answered = true
	a := contract.SlotAnswer{Clean: s.Clean, Granted: s.Granted, Canary: s.Canary, Resumed: s.Resumed}
	s.Resumed = nil
	a.Opened = s.Opened
	if s.Granted {
		s.Cause, s.Place = q.grantedCause(s), 0
		a.Missing = missingFault(s)
		if a.Hold = strings.Fields(q.held(s)); len(a.Hold) == 0 {
			return a
		}
		a.Why = q.breakerFault(&q.Breakers[q.breaker(s.Model, a.Hold[0])])
		return a
	}
	o, first := q.obstacles[i], q.firstInLine() == i
	s.Cause, s.Place = q.cause(o, first), o.place
	a.Why, a.Stalled = q.fault(s, o), first && q.Stalled
	return a
}

// fault is what a request waits for, as an operator reads it.
func (q *queue) fault(s *contract.Slot, o obstacle) *device.Fault {
	f := &device.Fault{Class: device.Transient, Code: o.code}
	line := contract.QueuedForSlot(o.place) + ": "
	switch {
	case o.breaker != nil:
		f = q.breakerFault(o.breaker)
		f.Message = line + f.Message
	case o.code == device.CodeCanaryRunning:
		f.Message = fmt.Sprintf("%sthe firmware %s is new to model %s; it goes to %s first, and the others wait until "+
			"that has verified it", line, o.key, s.Model, o.device)
		f.Remedy = "wait"
	case o.code == device.CodeFreeCapacity:
		f.Message = fmt.Sprintf("%s%d devices are free, and %d must stay free for tenants", line, q.Free, q.Floor)
		f.Remedy = "wait until more devices are free, or abort " + s.Device +
			"; maintain takes a device out of the offer at once"
	case o.key == "host":
		f.Message = fmt.Sprintf("%s%d of %d cleans run on host %s", line, o.busy, o.limit, o.host)
		f.Remedy = "wait, or raise per_host in the policy's limits"
	case o.key == "fleet":
		f.Message = fmt.Sprintf("%s%d of %d cleans run", line, o.busy, o.limit)
		f.Remedy = "wait, or raise concurrent_cleans in the policy's limits"
	default:
		f.Message = line + "the workflow of the limits has started, and finds out which cleans run"
		f.Remedy = "wait a moment"
	}
	return f
}

// breakerFault is what a clean waits for that an open breaker holds back. It is no alarm of
// its own: the workflow of the limits raises one for all.
func (q *queue) breakerFault(b *contract.Breaker) *device.Fault {
	f := &device.Fault{Class: device.Transient, Code: device.CodeBreakerOpen}
	if b.Canary != "" {
		f.Message = fmt.Sprintf("the firmware %s is new to model %s, and %s failed on its first device, %s (%s)", b.Canary,
			b.Model, b.Step, b.Device, b.Fault)
	} else {
		f.Message = fmt.Sprintf("%s failed %d times in a row on model %s, at last on %s (%s)", b.Step, b.Failures, b.Model,
			b.Device, b.Fault)
	}
	f.Remedy = fmt.Sprintf("remove the cause, then resume --model %q --step %s", b.Model, b.Step)
	return f
}

// alarms are the causes for which the limits need the operator.
func (q *queue) alarms() []contract.LimitsAlarm {
	var all []contract.LimitsAlarm
	for i := range q.Breakers {
		b := &q.Breakers[i]
		if !b.Open {
			continue
		}
		alarm := contract.LimitsAlarm{Fault: *q.breakerFault(b)}
		alarm.Class = device.NeedsOperator
		for i := range q.Slots {
			if s := &q.Slots[i]; q.obstacles[i].breaker == b || s.Granted && b.Model == s.Model &&
				slices.Contains(s.Steps, b.Step) {
				alarm.Waiting++
			}
		}
		all = append(all, alarm)
	}
	if first := q.firstInLine(); q.Stalled && first >= 0 {
		f := *q.fault(&q.Slots[first], q.obstacles[first])
		f.Class = device.NeedsOperator
		f.Message = fmt.Sprintf("nothing has moved in the queue since %s; the first is %s: %s",
			q.MovedAt.UTC().Format(time.RFC3339), q.Slots[first].Device, f.Message)
		f.Remedy = "look at the cleans that run; abort gives a slot back"
		all = append(all, contract.LimitsAlarm{Fault: f, Waiting: len(q.obstacles)})
	}
	return all
}

// status is what clients read, of one device or, with "", of the first requests in line.
func (q *queue) status(name string, atMost int) contract.LimitsStatus {
	s := contract.LimitsStatus{Limits: q.Limits, Queued: len(q.obstacles), Alarms: q.alarms()}
	s.Running = q.tally().cleans
	for i := range q.Slots {
		o, waits := q.obstacles[i]
		if !waits || name != "" && q.Slots[i].Device != name || len(s.Waiting) >= atMost {
			continue
		}
		s.Waiting = append(s.Waiting, contract.SlotWait{Device: q.Slots[i].Device, Place: o.place, Since: q.Slots[i].Since,
			Fault: *q.fault(&q.Slots[i], o)})
	}
	return s
}
