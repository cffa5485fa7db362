package lifecycle

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"burnish/internal/clean"
	"burnish/internal/clean/steps"
	"burnish/internal/device"
	"burnish/workflows/contract"
)

// scene is one device in its world, of which the test says what is asked and how calls end. A call ends as the world
// is, unless faults has one for its activity, or ends changes it.
type scene struct {
	*testing.T
	world
	d      *State
	e      contract.Enrollment
	now    time.Time
	policy clean.Policy
	real   bool // schedulers allocate from the inventory
	signed func(contract.OverrideClaims, []byte) bool
	host   contract.DiscoveryResult // what the host finds
	faults map[string]*device.Fault
	ends   map[string]func(Outcome) Outcome
	made   []string // the activities of the calls that ended
	asked  int
	// stopping: what is no longer due has not stopped yet.
	stopping bool
}

// sceneSettings are those of a scene's worker.
type sceneSettings struct {
	usual
	s *scene
}

func (s sceneSettings) Policy() clean.Policy { return s.s.policy }

func (s sceneSettings) planner() *clean.Planner {
	planner, err := clean.NewPlanner(steps.All().Planning(), s.s.policy)
	require.NoError(s.s, err)
	return planner
}

func (s sceneSettings) Plan(of clean.Subject, full bool, asked clean.Request) RecordedPlan {
	return Plan(s.planner(), of, full, asked)
}

func (s sceneSettings) Steps(of clean.Subject) []contract.CleanStep { return Steps(s.planner(), of) }

func (s sceneSettings) Choose(of device.Capabilities, action, strategy string) Choice {
	operation, fault := s.s.policy.NVMe.For(action, strategy).Resolve(of)
	return Choice{Operation: operation, Fault: fault}
}

func (s sceneSettings) Signed() (func(contract.OverrideClaims, []byte) bool, time.Time) {
	return s.s.signed, s.s.now
}

func (s sceneSettings) Archive(of contract.Archive, c contract.CleanSummary) contract.Archive {
	all, err := of.With(c)
	require.NoError(s.s, err)
	return all
}

func (s *scene) by() Settings { return sceneSettings{s: s} }

// newScene is a device that is not enrolled yet.
func newScene(t *testing.T) *scene {
	t.Helper()
	s := &scene{T: t, world: newWorld(), now: time.Date(2026, 11, 3, 4, 5, 6, 0, time.UTC),
		faults: map[string]*device.Fault{}, ends: map[string]func(Outcome) Outcome{},
		policy: clean.Policy{Automated: true, OnEnroll: true, HostSilentAfter: 5 * time.Minute},
		host: contract.DiscoveryResult{Identity: device.Identity{Serial: "S1", Vendor: "Acme", Model: "M1", Size: 64 << 20,
			Path: "/dev/d1"}, Operation: device.Shred, Power: true, Steps: map[string]int{"zero": 1, "verify": 1}},
		e: contract.Enrollment{Name: "d1", Host: "h1", Driver: "testdriver", Type: "NVME", Owner: device.OwnerSelf,
			Settings: map[string]string{"path": "/dev/d1"}},
	}
	s.policy.TellAfter, s.policy.Verify = 5*time.Minute, "full"
	s.d = New("d1", s.now)
	return s
}

// novas is a device of Nova's that is not enrolled yet.
func novas(t *testing.T) *scene {
	t.Helper()
	s := newScene(t)
	s.e.Owner, s.e.OneTimeUse = device.OwnerNova, true
	return s
}

// eachOwner is a scene for each owner of the device.
func eachOwner(t *testing.T, do func(*scene)) {
	t.Helper()
	for _, owner := range []device.Owner{device.OwnerSelf, device.OwnerNova} {
		t.Run(string(owner), func(t *testing.T) {
			s := newScene(t)
			s.e.Owner = owner
			do(s)
		})
	}
}

// manageable, available and bound bring the device there.
func manageable(t *testing.T, oneTimeUse bool) *scene {
	t.Helper()
	return newScene(t).enrolled(oneTimeUse)
}

func (s *scene) enrolled(oneTimeUse bool) *scene {
	s.Helper()
	s.e.OneTimeUse = s.e.OneTimeUse || oneTimeUse
	s.ok(contract.VerbEnroll, contract.EnrollInput{Enrollment: s.e})
	s.rest()
	return s
}

// offers enrolls the device and provides it.
func (s *scene) offers() *scene {
	s.Helper()
	s.ok(contract.VerbEnroll, contract.EnrollInput{Enrollment: s.e, Provide: true})
	s.reach(device.Available)
	s.rest()
	return s
}

// boundTo binds the device to an instance, which writes to it.
func (s *scene) boundTo(instance string) *scene {
	s.Helper()
	s.ok(contract.VerbBind, contract.BindInput{Instance: instance, Request: "r-" + instance})
	require.Equal(s, 1, s.inv.Reserved, "it is bound before it is burned")
	s.bytes = instance
	return s
}

// tenant is a device that i1 has.
func tenant(t *testing.T) *scene {
	t.Helper()
	return newScene(t).offers().boundTo("i1")
}

// released ends the binding of an instance.
func (s *scene) released(instance string) contract.Result {
	s.Helper()
	return s.ok(contract.VerbUnbind, contract.UnbindInput{Instance: instance})
}

// turnsOver ends the binding, and waits until the device is offered.
func (s *scene) turnsOver(instance string) {
	s.Helper()
	s.released(instance)
	s.reach(device.Available)
	s.rest()
}

// failed is a device whose clean after i1 has failed.
func failed(t *testing.T) *scene {
	t.Helper()
	return tenant(t).failsToClean()
}

func (s *scene) failsToClean() *scene {
	s.Helper()
	s.fails("zero", device.NeedsOperator, device.CodeIO)
	s.released(s.d.instance())
	s.reach(device.Error)
	s.rest()
	delete(s.faults, "zero")
	return s
}

func available(t *testing.T, oneTimeUse bool) *scene {
	t.Helper()
	s := newScene(t)
	s.e.OneTimeUse = oneTimeUse
	return s.offers()
}

func bound(t *testing.T, oneTimeUse bool) *scene {
	t.Helper()
	s := available(t, oneTimeUse)
	s.ok(contract.VerbBind, contract.BindInput{Instance: "i1", Request: "r1"})
	s.rest()
	return s
}

func (s *scene) decide(in Input) { s.d.Decide(in, s.now, s.by()) }

// send sends a request, and gives its job; nil and the refusal if it is refused when it arrives.
func (s *scene) send(v contract.Verb, in contract.Input) (*Job, error) {
	s.asked++
	asked := Asked{ID: fmt.Sprintf("%s-%d", v.Name, s.asked), Verb: v, In: in}
	if err := s.d.Arrives(asked, s.by()); err != nil {
		return nil, err
	}
	s.decide(asked)
	i := slices.IndexFunc(s.d.Jobs, func(j *Job) bool { return j.ID == asked.ID })
	require.GreaterOrEqual(s, i, 0)
	return s.d.Jobs[i], nil
}

// do sends a request, and ends calls until it is answered.
func (s *scene) do(v contract.Verb, in contract.Input) (contract.Result, error) {
	s.Helper()
	j, err := s.send(v, in)
	if err != nil {
		return contract.Result{}, err
	}
	for i := 0; !j.Ended && s.within(5*time.Minute); i++ {
		require.Less(s, i, 2000)
	}
	require.True(s, j.Ended, "%s waits without end: %q", v.Name, j.Phase)
	result, err, _ := s.d.Answer(j.ID)
	return result, err
}

func (s *scene) ok(v contract.Verb, in contract.Input) contract.Result {
	s.Helper()
	result, err := s.do(v, in)
	require.NoError(s, err)
	return result
}

// refused sends a request that is refused when it arrives, and gives the refusal.
func (s *scene) refused(code device.Code, v contract.Verb, in contract.Input) device.Fault {
	s.Helper()
	_, err := s.send(v, in)
	return s.faultOf(code, err)
}

// faultOf is that of a refusal, which must have this code.
func (s *scene) faultOf(code device.Code, err error) device.Fault {
	s.Helper()
	require.Error(s, err)
	r, _ := contract.RefusalOf(err)
	require.Equal(s, code, r.Fault.Code, "%v", err)
	return r.Fault
}

// next lets one thing happen that lasts for no longer than seconds.
func (s *scene) next() bool { return s.within(10 * time.Second) }

// within lets one thing happen: a call that is due ends, one that is not stops, or time passes, so much at most.
func (s *scene) within(most time.Duration) bool {
	undue := s.d.Undue()
	if len(undue) > 0 && !s.stopping {
		s.decide(Ended{Key: undue[0].Key, Outcome: NotMade()})
		return true
	}
	at, _ := s.d.Next()
	for _, j := range s.d.Jobs {
		if j.Ended || j.Call == nil || slices.ContainsFunc(undue, func(c Call) bool { return c.Key == j.Call.Key }) {
			continue
		}
		if s.make(j) {
			return true
		}
		if ready := s.ready[j.Call.Key]; at.IsZero() || ready.Before(at) {
			at = ready
		}
	}
	if !at.IsZero() && at.Sub(s.now) <= most {
		s.pass(max(at.Sub(s.now), 0))
		return true
	}
	return false
}

// end ends the call of a job.
func (s *scene) end(j *Job) { require.True(s, s.make(j), "%s waits", j.Phase) }

// answers ends the call of an activity before any other one.
func (s *scene) answers(activity string) {
	s.Helper()
	i := slices.IndexFunc(s.d.Jobs, func(j *Job) bool { return !j.Ended && j.Call != nil && j.Call.Activity == activity })
	require.GreaterOrEqual(s, i, 0, "%s is not due", activity)
	s.end(s.d.Jobs[i])
}

// lasts lets time pass, with all that happens meanwhile.
func (s *scene) lasts(d time.Duration) {
	s.Helper()
	for until, i := s.now.Add(d), 0; s.now.Before(until); i++ {
		require.Less(s, i, 20_000)
		if !s.within(until.Sub(s.now)) {
			s.pass(until.Sub(s.now))
		}
	}
}

// doing is what is under way.
func (s *scene) doing() string {
	text := fmt.Sprintf("%+v %+v retry %s pause %s", s.d.Status(), s.d.Intent, s.d.RetryAt, s.d.PausedUntil)
	for _, j := range s.d.Jobs {
		text += fmt.Sprintf("\n%s: %s, call %+v, until %s", j.ID, j.Phase, j.Call, j.Until)
	}
	return text
}

// reach lets things happen until the device is in a state.
func (s *scene) reach(state device.State) {
	s.Helper()
	for i := 0; s.d.Device.State != state; i++ {
		require.True(s, i < 5000 && s.within(24*time.Hour), "it is %s, and not %s: %s", s.d.Device.State, state, s.doing())
	}
}

// rest ends calls until nothing is under way but what lasts for longer than seconds.
func (s *scene) rest() {
	for i := 0; s.next(); i++ {
		require.Less(s, i, 1000, "it does not come to rest: %v", s.made[max(0, len(s.made)-10):])
	}
}

// looks are how often the host has looked.
func (s *scene) looks() (n int) {
	for _, activity := range s.made {
		if activity == contract.ActivityDiscover {
			n++
		}
	}
	return n
}

// until ends calls until one of the activity is due.
func (s *scene) until(activity string) {
	s.Helper()
	for i := 0; !slices.ContainsFunc(s.d.Due(), func(c Call) bool { return c.Activity == activity }); i++ {
		require.True(s, i < 1000 && s.within(time.Hour), "%s never becomes due: %+v", activity, s.d.Status())
	}
}

// pass lets time pass.
func (s *scene) pass(by time.Duration) {
	s.now = s.now.Add(by)
	s.decide(Come{})
}

// fails ends the calls of an activity with a fault, before they have effect.
func (s *scene) fails(activity string, class device.Class, code device.Code) {
	s.faults[activity] = refusing(class, code)
}

// hint asks the device to look at its inventory, refresh at its host, too.
func (s *scene) hint() {
	s.decide(Hinted{Signal: contract.SignalObserved, Hint: contract.Hint{Source: "sweep"}})
}

func (s *scene) refresh() {
	s.decide(Hinted{Signal: contract.SignalRefresh})
	s.rest()
}

// reached are copies of devices in every place that acts and waits lead to.
func reached(t *testing.T) map[place]*State {
	t.Helper()
	all := map[place]*State{}
	var walk func(d *State, way []string)
	walk = func(d *State, way []string) {
		at := d.place()
		if all[at] != nil || len(way) > 6 {
			return
		}
		all[at] = d
		if then, waits := d.waitedOut(); waits {
			walk(then, append(slices.Clip(way), "wait"))
		}
		tenant := d.instance()
		more := []act{
			{verb: contract.VerbMaintain, in: contract.MaintenanceInput{Reason: "fan"}},
			{verb: contract.VerbClaim, in: contract.BindInput{Instance: "i1", Request: "r1",
				Deadline: d.now.Add(time.Hour).Format(time.RFC3339)}},
			{verb: contract.VerbClean, in: contract.CleanInput{Steps: []string{"zero"}}},
			{verb: contract.VerbBind, in: contract.BindInput{Instance: "i1", Request: "r1"}},
		}
		for _, a := range slices.Concat(acts, more) {
			if d.Device.State == device.Absent || a.verb.Name == contract.VerbBind.Name && a.listed ||
				verbOf(a.verb.Update()).check(d, a.naming(tenant)) != nil {
				continue
			}
			then := d.settled()
			j := then.askAhead(a.verb, a.naming(tenant), usual{})
			for range maxAhead {
				if j.Ended {
					break
				}
				if _, more := then.ahead(j, usual{}); !more {
					break
				}
			}
			_, _, _ = then.Answer(j.ID)
			walk(then, append(slices.Clip(way), a.verb.Name))
		}
	}
	for _, oneTimeUse := range []bool{false, true} {
		walk(manageable(t, oneTimeUse).d, nil)
		s := newScene(t)
		s.host.Operation = ""
		require.False(t, s.enrolled(oneTimeUse).d.Device.Cleanable)
		walk(s.d, nil)
	}
	return all
}

// An action is allowed exactly if Decide does not refuse it, and has something to change.
func TestAllowedIsWhatDecideDoesNotRefuse(t *testing.T) {
	places := reached(t)
	t.Logf("%d places", len(places))
	require.Greater(t, len(places), 30)
	seen := map[string]int{}
	for at, d := range places {
		if d.Device.State == device.Absent {
			continue
		}
		allowed := d.allowedActions()
		for _, a := range acts {
			if !a.listed {
				continue
			}
			tenant := d.instance()
			then := d.Clone()
			j := then.askAhead(a.verb, a.naming(tenant), usual{})
			v := verbOf(a.verb.Update())
			asks := func() bool {
				return j.Phase == phConfirm || j.Phase == phNameRecorded && v.already != nil && v.already(d)
			}
			for i := 0; i < maxAhead && asks() && !j.Ended; i++ {
				_, _ = then.ahead(j, usual{}) // the record is asked who has it, before it is refused, or is so already
			}
			does := !j.Ended || j.Err == nil && !j.Result.Already
			if j.Ended && j.Err == nil && a.verb.Name == contract.VerbAbort.Name {
				does = true // a second one is answered with what the first waits for
			}
			listed := slices.ContainsFunc(allowed, func(s string) bool { return strings.Fields(s)[0] == a.verb.Name })
			require.Equal(t, does, listed, "%s of %+v: %v", a.verb.Name, at, allowed)
			if listed {
				seen[a.verb.Name]++
			}
		}
	}
	for _, a := range acts {
		if a.listed && a.verb.Name != contract.VerbReleaseHold.Name {
			require.NotZero(t, seen[a.verb.Name], "%s is allowed nowhere", a.verb.Name)
		}
	}
}

// From everywhere a refused request is told a remedy, and a way that is proposed leads to where the request works.
func TestARemedyLeadsOut(t *testing.T) {
	refusals, ways := 0, 0
	for at, d := range reached(t) {
		if d.Device.State == device.Absent {
			continue
		}
		for _, a := range slices.Concat(acts, []act{
			{verb: contract.VerbReplace, in: contract.ReplaceInput{}},
			{verb: contract.VerbMove, in: contract.MoveInput{Enrollment: contract.Enrollment{Name: "d2"}}},
			{verb: contract.VerbClean, in: contract.CleanInput{Steps: []string{"zero"}}},
		}) {
			in := a.naming("")
			if u, is := in.(contract.UnbindInput); is {
				u.Instance = "i9"
				in = u
			}
			err := verbOf(a.verb.Update()).check(d, in)
			if err == nil {
				continue
			}
			refusals++
			r, is := contract.RefusalOf(d.refusal(a.verb, in, err))
			require.True(t, is)
			require.NotEmpty(t, r.Fault.Remedy, "%s: %s", a.verb.Name, r.Fault.Message)
			for _, w := range d.ways(func(then *State) bool { return then.works(a.verb, in) }) {
				ways++
				require.NotEmpty(t, w.words)
				if w.then.Device.State == device.Absent {
					continue
				}
				again := w.then.settled()
				j := again.askAhead(a.verb, in, usual{})
				require.NoError(t, j.Err, "%s of %+v: %v", a.verb.Name, at, w.words)
			}
		}
	}
	t.Logf("%d refusals, %d ways", refusals, ways)
	require.Greater(t, ways, 50)
}

// A dry run changes nothing, and says what the request then does.
func TestADryRunIsDecideOnACopy(t *testing.T) {
	dry := func(s *scene, v contract.Verb, in string) contract.DryRun {
		return s.d.DryRun(contract.DryRunInput{Update: v.Update(), Input: []byte(in)}, s.now, s.by())
	}
	s := bound(t, true)
	before := *s.d.DeviceState
	require.Equal(t, contract.DryRun{State: device.PendingCleaning, Steps: []string{"zero", "verify"}, Instance: "i1"},
		dry(s, contract.VerbUnbind, `{"instance":"i1"}`))
	require.Equal(t, contract.DryRun{State: device.Allocated, Already: true},
		dry(s, contract.VerbBind, `{"instance":"i1","request":"r1"}`))
	require.Equal(t, contract.DryRun{State: device.Allocated},
		dry(s, contract.VerbPower, `{"target":"off","instance":"i1"}`))
	require.Equal(t, device.CodeInUse, dry(s, contract.VerbManage, `{}`).Refusal.Fault.Code)
	require.Equal(t, before, *s.d.DeviceState)

	s.ok(contract.VerbUnbind, contract.UnbindInput{Instance: "i1"})
	s.until("zero")
	require.Equal(t, contract.DryRun{State: device.Error, Note: "once the step zero has stopped"},
		dry(s, contract.VerbAbort, `{}`))
	s.rest()
	require.Equal(t, contract.DryRun{State: device.Available, Already: true}, dry(s, contract.VerbProvide, `{}`))
	s.ok(contract.VerbManage, contract.TenantInput{})
	require.Equal(t, contract.DryRun{State: device.PendingCleaning, Steps: []string{"zero", "verify"},
		Note: "if its host finds other hardware in its slot that can be erased"},
		dry(s, contract.VerbReplace, `{"provide":true}`))
	require.Equal(t, contract.DryRun{State: device.Cleaning, Note: "if its host finds the enrolled hardware"},
		dry(s, contract.VerbProvide, `{}`))
	require.Equal(t, contract.DryRun{State: device.Absent,
		Note: "it would go on as d2, if the host there finds its hardware"},
		dry(s, contract.VerbMove, `{"enrollment":{"name":"d2"}}`))
	s.ok(contract.VerbRetire, contract.RetireInput{Reason: "old"})
	require.Equal(t, contract.DryRun{}, dry(s, contract.VerbForget, `{}`))
	require.Equal(t, device.Retired, s.d.Device.State)
}

// replacing gives a retired device whose replacement has begun.
func replacing(t *testing.T) (s *scene, replace *Job) {
	t.Helper()
	s = available(t, false)
	s.ok(contract.VerbRetire, contract.RetireInput{Reason: "old"})
	s.rest()
	s.host.Identity.Serial = "S2"
	replace, err := s.send(contract.VerbReplace, contract.ReplaceInput{})
	require.NoError(t, err)
	return s, replace
}

// A device that is being replaced while it is to be forgotten keeps its provider.
func TestAForgetThatIsTooLateDeletesNothing(t *testing.T) {
	s, replace := replacing(t)
	forget, err := s.send(contract.VerbForget, contract.TenantInput{})
	require.NoError(t, err)
	s.made = nil
	s.rest()
	require.NoError(t, replace.Err)
	require.Error(t, forget.Err)
	require.NotContains(t, s.made, contract.ActivityDeleteProvider)
	require.Equal(t, device.Manageable, s.d.Device.State)
}

// What is asked of a copy is another request than one that its original was asked, and that waits: the search for the
// remedy of a request that is refused meanwhile asks both.
func TestWhatIsAskedAheadIsARequestOfItsOwn(t *testing.T) {
	s := manageable(t, false)
	s.d.by = s.by()
	first := s.d.askAhead(contract.VerbRetire, contract.RetireInput{}, usual{})
	then := s.d.Clone()
	second := then.askAhead(contract.VerbRetire, contract.RetireInput{}, usual{})
	require.False(t, first.Ended || second.Ended)
	require.NotEqual(t, first.ID, second.ID)
	for _, more := then.ahead(second, usual{}); more && !second.Ended; _, more = then.ahead(second, usual{}) {
	}
	require.True(t, second.Ended)
}

// A device that is replaced while it is to be retired, which it was when that was asked, is retired then.
func TestARetireThatIsSoAlreadyIsJudgedAfterTheRead(t *testing.T) {
	s, replace := replacing(t)
	retire, err := s.send(contract.VerbRetire, contract.RetireInput{Reason: "old, too"})
	require.NoError(t, err)
	s.rest()
	require.NoError(t, replace.Err)
	require.NoError(t, retire.Err)
	require.False(t, retire.Result.Already)
	require.Equal(t, []any{device.Retired, "old, too"}, []any{s.d.Device.State, s.d.HoldReason})
}
