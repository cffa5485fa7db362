package lifecycle

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"burnish/internal/clean"
	"burnish/internal/device"
	"burnish/workflows/contract"
)

// scene is one device, of which the test says what is asked and how calls end. A call ends well, as the device knows
// the world, unless ends says otherwise for its activity.
type scene struct {
	*testing.T
	d      *State
	now    time.Time
	policy clean.Policy
	signed func(contract.OverrideClaims, []byte) bool
	host   contract.DiscoveryResult
	ends   map[string]func(Outcome) Outcome
	made   []string // the activities of the calls that ended
	asked  int
}

// sceneSettings are those of a scene's worker.
type sceneSettings struct {
	usual
	s *scene
}

func (s sceneSettings) Policy() clean.Policy { return s.s.policy }

func (s sceneSettings) Plan(of clean.Subject, full bool, asked clean.Request) RecordedPlan {
	made := RecordedPlan{Policy: s.s.policy}
	if full && of.Operation == "" {
		made.Fault = &device.Fault{Class: device.NeedsOperator, Code: device.CodeNoErasePath, Message: "none"}
		return made
	}
	names := asked.Steps
	if full {
		names = []string{"zero", "verify"}
	}
	for _, name := range names {
		p := contract.Planned{Step: name, Timeout: time.Hour, Phase: string(clean.Erase)}
		if name == "verify" {
			p.Phase = string(clean.Verify)
		}
		if name == clean.StepHold {
			p.Args = []byte(`{"reason":"a look"}`)
		}
		made.Plan = append(made.Plan, p)
	}
	return made
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
	s := &scene{T: t, now: time.Date(2026, 11, 3, 4, 5, 6, 0, time.UTC), ends: map[string]func(Outcome) Outcome{},
		policy: clean.Policy{Automated: true, OnEnroll: true, HostSilentAfter: 5 * time.Minute},
		host: contract.DiscoveryResult{Identity: device.Identity{Serial: "S1"}, Operation: "shred", Power: true,
			Steps: map[string]int{"zero": 1, "verify": 1, "noop": 1}},
	}
	s.policy.TellAfter = 5 * time.Minute
	s.d = New("d1", s.now)
	s.ends[contract.ActivityDiscover] = func(Outcome) Outcome {
		found := s.host
		found.ObservedAt = s.now
		return Outcome{Found: &found}
	}
	return s
}

// manageable, available and bound bring the device there.
func manageable(t *testing.T, oneTimeUse bool) *scene {
	t.Helper()
	return newScene(t).enrolled(oneTimeUse)
}

func (s *scene) enrolled(oneTimeUse bool) *scene {
	s.ok(contract.VerbEnroll, contract.EnrollInput{Enrollment: contract.Enrollment{Name: "d1", Host: "h1",
		Driver: "testdriver", Type: "NVME", Owner: device.OwnerSelf, OneTimeUse: oneTimeUse}})
	s.rest()
	return s
}

func available(t *testing.T, oneTimeUse bool) *scene {
	t.Helper()
	s := manageable(t, oneTimeUse)
	s.ok(contract.VerbProvide, contract.ReasonInput{})
	s.rest()
	require.Equal(t, device.Available, s.d.Device.State)
	return s
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
	for !j.Ended && s.next() {
		require.Less(s, len(s.made), 1000)
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

// next ends one call that is due, or stops one that is not.
func (s *scene) next() bool {
	for _, c := range s.d.Undue() {
		s.decide(Ended{Key: c.Key, Outcome: NotMade()})
		return true
	}
	for _, j := range s.d.Jobs {
		if !j.Ended && j.Call != nil {
			s.end(j)
			return true
		}
	}
	if at, _ := s.d.Next(); !at.IsZero() && at.Sub(s.now) <= 10*time.Second {
		s.pass(at.Sub(s.now))
		return true
	}
	return false
}

// end ends the call of a job.
func (s *scene) end(j *Job) {
	c := *j.Call
	s.made = append(s.made, c.Activity)
	o := Outcome{Found: s.d.supposed(j, c)}
	if ends := s.ends[c.Activity]; ends != nil {
		o = ends(o)
	}
	s.decide(Ended{Key: c.Key, Outcome: o})
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
	for !slices.ContainsFunc(s.d.Due(), func(c Call) bool { return c.Activity == activity }) {
		require.True(s, s.next(), "%s never becomes due", activity)
	}
}

// pass lets time pass.
func (s *scene) pass(by time.Duration) {
	s.now = s.now.Add(by)
	s.decide(Come{})
}

// fails ends the calls of an activity with a fault.
func (s *scene) fails(activity string, class device.Class, code device.Code) {
	s.ends[activity] = func(Outcome) Outcome {
		return Outcome{Fault: &device.Fault{Class: class, Code: code, Message: string(code), Remedy: "r"}}
	}
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
			for i := 0; i < maxAhead && j.Phase == phConfirm && !j.Ended; i++ {
				_, _ = then.ahead(j, usual{}) // the record is asked who has it, before it is refused
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

// A device that is being replaced while it is to be forgotten keeps its provider.
func TestAForgetThatIsTooLateDeletesNothing(t *testing.T) {
	s := available(t, false)
	s.ok(contract.VerbRetire, contract.RetireInput{Reason: "old"})
	s.rest()
	s.ends[contract.ActivityDiscover] = nil // the supposed hardware is another one
	replace, err := s.send(contract.VerbReplace, contract.ReplaceInput{})
	require.NoError(t, err)
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
