package lifecycle

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"burnish/internal/clean"
	"burnish/internal/device"
	"burnish/workflows/contract"
)

// heldByItsRunbook is a device whose manual clean is held.
func (s *scene) heldByItsRunbook() {
	s.enrolled(false)
	s.policy.Runbooks = []clean.Runbook{{Name: "held", Steps: []clean.RunbookStep{{Step: "zero"}, {Step: "verify"},
		{Step: "hold", Args: json.RawMessage(`{"reason":"look at it"}`)}}}}
	s.ok(contract.VerbClean, contract.CleanInput{Runbook: "held"})
	s.rest()
	require.Equal(s, string(device.CodeOnHold), s.d.Status().Fault)
}

// requests are verbs with inputs, each in many states.
var requests = map[string]struct {
	v  contract.Verb
	in contract.Input
}{
	"provide":         {contract.VerbProvide, contract.ReasonInput{}},
	"clean":           {contract.VerbClean, contract.CleanInput{}},
	"named steps":     {contract.VerbClean, only("zero", "verify")},
	"an unknown step": {contract.VerbClean, only("polish")},
	"a runbook":       {contract.VerbClean, contract.CleanInput{Runbook: "none"}},
	"abort":           {contract.VerbAbort, contract.ReasonInput{}},
	"release_hold":    {contract.VerbReleaseHold, contract.ReasonInput{}},
	"manage":          {contract.VerbManage, contract.TenantInput{}},
	"manage of i1":    {contract.VerbManage, contract.TenantInput{Instance: "i1"}},
	"maintain":        {contract.VerbMaintain, fan},
	"maintain off":    {contract.VerbMaintain, off},
	"retire":          {contract.VerbRetire, gaveUp("")},
	"retire of i1":    {contract.VerbRetire, gaveUp("i1")},
	"retire of i2":    {contract.VerbRetire, gaveUp("i2")},
	"retire as lost":  {contract.VerbRetire, lost("i1")},
	"forget":          {contract.VerbForget, contract.TenantInput{Instance: "i1"}},
	"label":           {contract.VerbLabel, contract.LabelInput{LabelChange: device.LabelChange{Set: map[string]string{"rack": "a"}}}},
	"no label":        {contract.VerbLabel, contract.LabelInput{LabelChange: device.LabelChange{Remove: []string{"rack"}}}},
	"a wrong label":   {contract.VerbLabel, contract.LabelInput{LabelChange: device.LabelChange{Set: map[string]string{"rack": "a b"}}}},
	"replace":         {contract.VerbReplace, contract.ReplaceInput{Instance: "i1"}},
	"move":            {contract.VerbMove, contract.MoveInput{Enrollment: contract.Enrollment{Name: "d2"}, Instance: "i1"}},
	"move nowhere":    {contract.VerbMove, contract.MoveInput{Enrollment: contract.Enrollment{Name: "d1"}}},
}

func (s *scene) dry(v contract.Verb, in any) contract.DryRun {
	text, err := json.Marshal(in)
	require.NoError(s, err)
	return s.d.DryRun(contract.DryRunInput{Update: v.Update(), Input: text}, s.now, s.by())
}

// In each state, a dry run of each request says what that then does: the state that it leads to, that nothing
// changes, or the refusal in its own words. The dry run itself changes nothing.
func TestADryRunSaysWhatTheRequestDoes(t *testing.T) {
	states := map[string]func(*scene){
		"held by its runbook":  (*scene).heldByItsRunbook,
		"clean and manageable": func(s *scene) { s.offers().ok(contract.VerbManage, contract.TenantInput{}) },
		"waits for its operator": func(s *scene) {
			s.e.OneTimeUse = true
			s.offers().boundTo("i1")
			s.policy.Automated = false
			s.released("i1")
		},
	}
	for name, lead := range leads {
		states[name] = lead
	}
	for state, lead := range states {
		for name, r := range requests {
			t.Run(state+"/"+name, func(t *testing.T) {
				s := newScene(t)
				lead(s)
				if r.v.Name == contract.VerbReplace.Name && state != "cleaning" {
					s.host.Identity.Serial = "S2"
				}
				var would contract.DryRun
				s.unchanged(func() { would = s.dry(r.v, r.in) })
				tenant := s.d.instance()
				s.inputs = nil
				done, err := s.do(r.v, r.in)
				if would.Refusal != nil {
					got, _ := contract.RefusalOf(err)
					require.Equal(t, *would.Refusal, got)
					return
				}
				require.NoError(t, err, "%+v", would)
				require.Equal(t, would.Already, done.Already)
				switch r.v.Name {
				case contract.VerbForget.Name, contract.VerbMove.Name:
					require.Empty(t, would.State)
					require.True(t, s.d.Finished)
					return
				case contract.VerbAbort.Name:
					s.reach(would.State)
				default:
					require.Equal(t, would.State, done.Device.DeviceState)
				}
				if tenant != "" && done.Device.InstanceUUID == nil {
					require.Equal(t, tenant, would.Instance)
				} else {
					require.Empty(t, would.Instance)
				}
				if len(would.Steps) > 0 {
					s.rest()
					require.Equal(t, would.Steps, s.stepsRun())
				}
			})
		}
	}
	s := tenant(t)
	for _, v := range []contract.Verb{{Name: "polish"}, contract.VerbRetire} {
		require.Equal(t, device.CodeInvalid, s.dry(v, []string{"no input"}).Refusal.Fault.Code)
	}
}

// No request ends the binding of an instance that it does not name, whatever else it says.
func TestNoRequestEndsABindingUnnamed(t *testing.T) {
	for name, r := range requests {
		for _, instance := range []string{"", "i2"} {
			text, err := json.Marshal(r.in)
			require.NoError(t, err)
			var in map[string]any
			require.NoError(t, json.Unmarshal(text, &in))
			delete(in, "instance")
			if instance != "" {
				in["instance"] = instance
			}
			text, err = json.Marshal(in)
			require.NoError(t, err)
			input, err := Read(r.v, text)
			if err != nil {
				continue // it has no instance
			}
			s := tenant(t)
			require.Empty(t, s.dry(r.v, in).Instance)
			_, _ = s.do(r.v, input)
			s.rest()
			require.Equal(t, []any{device.Allocated, "i1", false}, []any{s.d.Device.State, s.d.instance(), s.d.Finished}, name)
		}
	}
}

// repeated sends a request a second time under its own ID, in a later run.
func (s *scene) repeated(id string, v contract.Verb, in contract.Input) error {
	asked := Asked{ID: id, Verb: v, In: in}
	if err := s.d.Arrives(asked, s.by()); err != nil {
		return err
	}
	s.decide(asked)
	for i := 0; i < 1000; i++ {
		if _, err, ok := s.d.Answer(id); ok {
			return err
		}
		require.True(s, s.within(time.Minute))
	}
	return nil
}

// A request that is repeated under its ID, in a later run, changes nothing, also when another instance has the device
// by then; one that failed fails again, and a bind whose binding has ended is refused. Who has the device is asked
// before it is answered (F36).
func TestARepeatedRequestChangesNothing(t *testing.T) {
	claimed := func(s *scene) { s.offers().ok(contract.VerbClaim, s.claiming(1000*time.Hour)) }
	for name, c := range map[string]struct {
		lead  func(*scene)
		v     contract.Verb
		in    func(*scene) contract.Input
		fails device.Code // with the next tenant
	}{
		"enroll":  {func(*scene) {}, contract.VerbEnroll, func(s *scene) contract.Input { return s.enrollment() }, ""},
		"provide": {leads["manageable"], contract.VerbProvide, func(*scene) contract.Input { return noInput }, ""},
		"claim":   {leads["available"], contract.VerbClaim, func(s *scene) contract.Input { return s.claiming(1000 * time.Hour) }, ""},
		"burn":    {claimed, contract.VerbBurn, func(*scene) contract.Input { return bindI1 }, device.CodeBindingEnded},
		"unclaim": {claimed, contract.VerbUnclaim, func(*scene) contract.Input { return bindI1 }, ""},
		"bind":    {leads["available"], contract.VerbBind, func(*scene) contract.Input { return bindI1 }, device.CodeBindingEnded},
		"bind without a request": {leads["available"], contract.VerbBind,
			func(*scene) contract.Input { return contract.BindInput{Instance: "i1"} }, device.CodeBindingEnded},
		"rebuild":  {leads["allocated"], contract.VerbRebuild, func(*scene) contract.Input { return ofI1 }, device.CodeRefused},
		"unbind":   {leads["allocated"], contract.VerbUnbind, func(*scene) contract.Input { return ofI1 }, ""},
		"clean":    {leads["error"], contract.VerbClean, func(*scene) contract.Input { return all }, ""},
		"steps":    {leads["manageable"], contract.VerbClean, func(*scene) contract.Input { return only("verify") }, ""},
		"release":  {(*scene).heldByItsRunbook, contract.VerbReleaseHold, func(*scene) contract.Input { return noInput }, ""},
		"abort":    {leads["cleaning"], contract.VerbAbort, func(*scene) contract.Input { return noInput }, ""},
		"manage":   {leads["available"], contract.VerbManage, func(*scene) contract.Input { return contract.TenantInput{} }, ""},
		"maintain": {leads["available"], contract.VerbMaintain, func(*scene) contract.Input { return fan }, ""},
		"off":      {leads["held"], contract.VerbMaintain, func(*scene) contract.Input { return off }, ""},
		"power": {leads["available"], contract.VerbPower,
			func(*scene) contract.Input { return contract.PowerInput{Target: "reset"} }, ""},
		"retire": {leads["available"], contract.VerbRetire, func(*scene) contract.Input { return gaveUp("") }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t)
			c.lead(s)
			s.bytes = ""
			in := c.in(s)
			_ = s.ok(c.v, in)
			id := fmt.Sprintf("%s-%d", c.v.Name, s.asked)
			again := func() error {
				s.renewed()
				before, place := s.copied(s.d.DeviceState), s.d.place()
				s.made = nil
				err := s.repeated(id, c.v, in)
				s.lasts(time.Hour)
				require.Equal(t, len(s.made), s.calls(contract.ActivityReadReservation), "%v", s.made)
				require.Equal(t, place, s.d.place())
				require.Equal(t, []any{before.Device.Bindings, before.Cleans}, []any{s.d.Device.Bindings, s.d.Cleans})
				return err
			}
			s.rest()
			require.NoError(t, again())
			if s.d.Device.State == device.Retired {
				return
			}
			for s.d.instance() != "i9" {
				switch d := s.d.Device; {
				case d.Binding != nil:
					s.turnsOver(d.Binding.Instance)
				case d.Claim != nil:
					s.ok(contract.VerbUnclaim, bindI1)
				case d.State == device.Error:
					s.ok(contract.VerbClean, all)
				case d.InMaintenance():
					s.ok(contract.VerbMaintain, off)
				case d.State == device.Manageable:
					s.ok(contract.VerbProvide, noInput)
				default:
					s.boundTo("i9")
				}
				s.rest()
			}
			if err := again(); c.fails != "" {
				s.faultOf(c.fails, err)
			} else {
				require.NoError(t, err)
			}
			require.Equal(t, "i9", s.d.instance())
		})
	}
}

// The clean signal is refused as the request is, and that is shown; it changes nothing then.
func TestTheCleanSignalInEveryState(t *testing.T) {
	for name, lead := range leads {
		s := newScene(t)
		lead(s)
		place := s.d.place()
		s.decide(CleanAsked{In: contract.CleanInput{Reason: "test"}})
		if name == "error" {
			s.returned()
			continue
		}
		require.Equal(t, place, s.d.place(), name)
		require.Contains(t, s.d.LastRefusal, "the clean signal was refused", name)
	}
}

var update = flag.Bool("update", false, "write testdata/remedies.txt")

// situations are states in which an operator may find a device.
func situations() map[string]func(*scene) {
	found := map[string]func(*scene){
		"cleaning, held by its runbook": (*scene).heldByItsRunbook,
		"taken out of the offer":        func(s *scene) { s.offers().ok(contract.VerbManage, contract.TenantInput{}) },
		"manageable, on hold":           func(s *scene) { s.enrolled(false).ok(contract.VerbMaintain, fan) },
		"allocated, on hold":            func(s *scene) { s.offers().boundTo("i1").ok(contract.VerbMaintain, fan) },
		"error, on hold":                func(s *scene) { leads["error"](s); s.ok(contract.VerbMaintain, fan); s.rest() },
		"error, without an erase": func(s *scene) {
			s.e.OneTimeUse = true
			s.offers()
			s.host.Operation = ""
			s.refresh()
			s.boundTo("i1").released("i1")
			s.reach(device.Error)
			s.rest()
		},
		"pending_cleaning": func(s *scene) { s.offers().boundTo("i1").released("i1") },
		"pending_cleaning, automated cleaning off": func(s *scene) {
			s.e.OneTimeUse = true
			s.offers().boundTo("i1")
			s.policy.Automated = false
			s.released("i1")
		},
		"cleaning by named steps": func(s *scene) { s.enrolled(false).ok(contract.VerbClean, only("zero", "verify")); s.until("zero") },
		"being returned":          func(s *scene) { s.offers().boundTo("i1").released("i1"); s.until(contract.ActivityUnreserve) },
		"unknown, nothing records who has it": func(s *scene) {
			s.offers().boundTo("i1")
			s.inv.Tenant = nil
			s.terminated()
			s.lasts(time.Hour)
		},
		"taken by another user of its pool": func(s *scene) {
			s.shares().offers()
			s.pool.take()
			s.decide(Hinted{Signal: contract.SignalTaken})
			s.reach(device.Manageable)
			s.rest()
		},
	}
	for name, lead := range leads {
		found[name] = lead
	}
	found["claimed"] = func(s *scene) { s.offers().ok(contract.VerbClaim, s.claiming(10*time.Minute)) }
	return found
}

// command is written as behind "burnish": the verb, the device's name, flags and names.
var command = regexp.MustCompile(`\b([a-z-]+) d1((?: (?:--?[a-z]+|[A-Z]+|i\d|on|off|reset)\b)*)`)

// typed is what an operator types as a remedy says; ok is false of what only shows something.
func typed(text string) (v contract.Verb, in contract.Input, ok bool) {
	m := command.FindStringSubmatch(text)
	flags := strings.Fields(m[2])
	instance := ""
	if i := slices.Index(flags, "--instance"); i >= 0 {
		instance = flags[i+1]
	}
	switch m[1] {
	case "provide":
		return contract.VerbProvide, noInput, true
	case "clean":
		if slices.Contains(flags, "--steps") {
			return contract.VerbClean, only("zero"), true
		}
		return contract.VerbClean, all, true
	case "abort":
		return contract.VerbAbort, noInput, true
	case "release-hold":
		return contract.VerbReleaseHold, noInput, true
	case "manage":
		return contract.VerbManage, contract.TenantInput{Instance: instance}, true
	case "retire":
		return contract.VerbRetire, gaveUp(instance), true
	case "forget":
		return contract.VerbForget, contract.TenantInput{Instance: instance}, true
	case "unbind":
		return contract.VerbUnbind, of(instance), true
	case "maintain":
		return contract.VerbMaintain, off, true
	}
	return v, nil, false
}

// In every situation each refused request has a remedy, and each of its ways can be followed as it is written: no
// command of it is refused. testdata/remedies.txt lists them; the command line's own tests parse its commands.
func TestEveryRemedyCanBeFollowed(t *testing.T) {
	asks := slices.Concat(acts, []act{
		{verb: contract.VerbEnroll, in: contract.EnrollInput{Enrollment: contract.Enrollment{Name: "d1", Host: "h2",
			Driver: "testdriver",
			Owner:  device.OwnerSelf}}},
		{verb: contract.VerbRebuild, in: of("i9")}, {verb: contract.VerbClean, in: only("zero")},
		{verb: contract.VerbMaintain, in: fan}, {verb: contract.VerbReplace, in: contract.ReplaceInput{}},
		{verb: contract.VerbMove, in: contract.MoveInput{Enrollment: contract.Enrollment{Name: "d2"}}},
	})
	var lines []string
	followed := 0
	for name, lead := range situations() {
		for _, a := range asks {
			s := newScene(t)
			lead(s)
			in := a.in
			if u, is := in.(contract.UnbindInput); is {
				u.Instance = "i9"
				in = u
			}
			_, err := s.doLong(a.verb, in)
			if err == nil {
				continue
			}
			r, is := contract.RefusalOf(err)
			require.True(t, is, "%v", err)
			remedy := r.Fault.Remedy
			require.NotEmpty(t, remedy, "%s: %s: %s", name, a.verb.Name, r.Fault.Message)
			require.NotContains(t, remedy, "\n")
			lines = append(lines, fmt.Sprintf("%s | %s | %s; %s", name, shownVerb(a.verb, in), r.Fault.Message, remedy))
			head, tail, _ := strings.Cut(remedy, "; then ")
			for way := range strings.SplitSeq(head, ", or ") {
				s := newScene(t)
				lead(s)
				for part := range strings.SplitSeq(strings.ReplaceAll(way+", "+tail, ", then ", ", "), ", ") {
					if !command.MatchString(part) {
						s.lasts(time.Hour)
						continue
					}
					if v, in, ok := typed(part); ok && !s.d.Finished {
						followed++
						_, err := s.do(v, in)
						if again, _ := contract.RefusalOf(err); again.Fault.Code == device.CodeInUse { // of a past binding's record
							require.Contains(t, again.Fault.Remedy, "--instance i1")
							continue
						}
						require.NoError(t, err, "%s, %s: the command %q of the remedy %q is refused", name, a.verb.Name, part, remedy)
						s.lasts(time.Hour)
					}
				}
			}
		}
	}
	require.Greater(t, followed, 150)
	slices.Sort(lines)
	text := strings.Join(slices.Compact(lines), "\n") + "\n"
	const golden = "testdata/remedies.txt"
	if *update {
		require.NoError(t, os.WriteFile(golden, []byte(text), 0o644))
	}
	want, err := os.ReadFile(golden)
	require.NoError(t, err)
	require.True(t, string(want) == text, "the remedies have changed: go test ./internal/lifecycle -run "+
		"TestEveryRemedyCanBeFollowed -update writes %s again", golden)
}

// doLong is do of a request that may have to wait for long.
func (s *scene) doLong(v contract.Verb, in contract.Input) (contract.Result, error) {
	j, err := s.send(v, in)
	if err != nil {
		return contract.Result{}, err
	}
	for i := 0; !j.Ended && i < 500 && s.within(time.Hour); i++ {
	}
	result, err, _ := s.d.Answer(j.ID)
	return result, err
}
