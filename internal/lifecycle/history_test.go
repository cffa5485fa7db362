package lifecycle

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"burnish/internal/device"
	"burnish/internal/testkit/inventorysim"
	"burnish/workflows/contract"
)

var ann = contract.Caller{By: "ann (42)", From: "192.0.2.7"}

// did are the verbs of the device's acts.
func (s *scene) did() (verbs []string) {
	for _, a := range s.d.Acts {
		verbs = append(verbs, strings.TrimSpace(a.Verb+" "+a.Detail))
	}
	return verbs
}

func (s *scene) lastAct() contract.Act { return s.d.Acts[len(s.d.Acts)-1] }

// The device keeps who did what, from where, when and why. What is refused, repeated, or changes nothing, leaves no
// act; what was accepted and failed says so. The clean signal and a Cancel are acts, too, and say what they are.
func TestActsAreKept(t *testing.T) {
	s := newScene(t).offers()
	s.pass(time.Minute)
	s.ok(contract.VerbMaintain, contract.MaintenanceInput{Reason: "a new\nfan", Caller: ann})
	require.Equal(t, contract.Act{At: s.now.UTC(), Verb: "maintain", By: "ann (42)", From: "192.0.2.7",
		Reason:  "a new fan",
		Request: fmt.Sprint("maintain-", s.asked)}, s.lastAct())
	s.ok(contract.VerbMaintain, off)
	s.refused(device.CodeRefused, contract.VerbClean, all)
	s.ok(contract.VerbProvide, noInput)
	s.boundTo("i1").turnsOver("i1")
	s.renewed()
	want := []string{"enroll provide", "maintain", "maintain off", "bind i1", "unbind i1"}
	require.Equal(t, want, s.did())
	s.inv.InjectFault = inventorysim.Times(1, "PutReserved", true,
		inventorysim.Fails(device.NeedsOperator, device.CodeInventoryInvalid))
	s.refusal(device.CodeInventoryInvalid, contract.VerbBind, bindI2)
	require.Equal(t, device.CodeInventoryInvalid, s.lastAct().Fault)

	s = tenant(t)
	acts := len(s.d.Acts)
	s.decide(Canceled{})
	require.Len(t, s.d.Acts, acts, "it changes nothing")
	s.released("i1")
	s.until("zero")
	s.decide(Canceled{})
	s.kept(device.Error, device.CodeAborted)
	last := s.lastAct()
	require.Equal(t, []string{"abort", "by a Cancel", "", contract.FromCancel},
		[]string{last.Verb, last.Detail, last.By, last.From})
	s.decide(CleanAsked{In: contract.CleanInput{Reason: "again"}})
	s.decide(CleanAsked{In: contract.CleanInput{Reason: "twice"}})
	s.returned()
	last = s.lastAct()
	require.Equal(t, []string{"clean", "", contract.FromSignal, "again"},
		[]string{last.Verb, last.By, last.From, last.Reason})
}

// The last 20 acts are kept, with bounded texts.
func TestActsAreBounded(t *testing.T) {
	s := newScene(t).offers()
	long := strings.Repeat("ä", 1000)
	for i := range 27 {
		in := contract.MaintenanceInput{Reason: fmt.Sprint("hold ", i)}
		if i >= 15 {
			in = contract.MaintenanceInput{Reason: long, Caller: contract.Caller{By: long, From: long}}
		}
		s.ok(contract.VerbMaintain, in)
		s.ok(contract.VerbMaintain, off)
		if i == 14 {
			require.Equal(t, "hold 5", s.d.Acts[0].Reason)
		}
	}
	size := 0
	for _, a := range s.d.Acts {
		size += len(a.By) + len(a.From) + len(a.Reason) + len(a.Request)
	}
	require.Len(t, s.d.Acts, 20)
	require.LessOrEqual(t, size, 20*5*contract.KeptActText)
	require.Equal(t, strings.Repeat("ä", 98)+"…", s.d.Acts[18].Reason)
}

// Each binding says when it began and ended, by whom and why, also where a retirement ends it or the inventory shows
// it; and each clean, who asked for it, and at which step and why it failed, also after the next one, in a later run.
func TestBindingsAndCleansSayWhenAndByWhom(t *testing.T) {
	s := newScene(t)
	in := s.enrollment()
	in.Caller = ann
	s.ok(contract.VerbEnroll, in)
	s.returned()
	s.pass(time.Minute)
	began := s.now
	s.ok(contract.VerbBind, contract.BindInput{Instance: "i1", Request: "r1", Reason: "a demo", Caller: ann})
	s.pass(time.Hour)
	s.ok(contract.VerbUnbind, contract.UnbindInput{Instance: "i1", Caller: contract.Caller{By: "bob@h1"}})
	s.returned()
	s.boundTo("i2").ok(contract.VerbRetire, contract.RetireInput{Instance: "i2", Reason: "worn out", Caller: ann})
	s.renewed()
	first, second := s.d.History[0], s.d.History[1]
	require.WithinDuration(t, began, first.Began.At, time.Second)
	require.Equal(t, []string{"bind", "ann (42)", "a demo", "unbind", "bob@h1"},
		[]string{first.Began.Verb, first.Began.By, first.Began.Reason, first.Over.Verb, first.Over.By})
	require.WithinDuration(t, began.Add(time.Hour), first.Over.At, time.Second)
	require.Equal(t, []string{"", "retire", "ann (42)", "worn out"},
		[]string{second.Began.By, second.Over.Verb, second.Over.By, second.Over.Reason})
	require.Equal(t, []string{"ann (42)", contract.ByBurnish}, []string{s.cleans()[0].By, s.cleans()[1].By})

	s = novas(t).offers().allocated("i7")
	of := s.d.History[len(s.d.History)-1].Began
	require.Equal(t, []string{"observed_in_use", contract.ByBurnish, "the inventory shows it in use"},
		[]string{of.Verb, of.By, of.Reason})

	s = newScene(t)
	s.ends["verify"] = func(Outcome) Outcome {
		f := refusing(device.NeedsOperator, device.CodeVerifyFailed)
		f.Message = "block 1 is not zero"
		return Outcome{Fault: f, Progress: &contract.Progress{Step: "verify", Offset: 16 << 20, Size: 64 << 20}, Attempt: 3}
	}
	s.ok(contract.VerbEnroll, s.enrollment())
	s.kept(device.Error, device.CodeVerifyFailed)
	delete(s.ends, "verify")
	s.ok(contract.VerbClean, contract.CleanInput{Reason: "again", Caller: ann})
	s.returned()
	s.renewed()
	cleans := s.cleans()
	require.Equal(t, []any{"failed", device.CodeVerifyFailed, &contract.CleanFailure{Step: "verify", Offset: 16 << 20,
		Size: 64 << 20, Attempt: 3, Message: "block 1 is not zero"}},
		[]any{cleans[0].Outcome, cleans[0].Fault, cleans[0].Failure})
	require.Equal(t, []any{"ann (42)", "again", (*contract.CleanFailure)(nil)},
		[]any{cleans[1].By, cleans[1].Reason, cleans[1].Failure})
	whole, err := s.d.Whole()
	require.NoError(t, err)
	events := contract.HistoryOf(whole).Events()
	require.Contains(t, fmt.Sprint(events), contract.ByBurnish)
}

// Labels are kept with the device: from its enrollment, over later runs. They show in the listing, and changing them
// is an act, and no change of the device, whose state says since when it has it.
func TestLabelsAreKept(t *testing.T) {
	s := newScene(t)
	s.e.Labels = map[string]string{"rack": "a"}
	s.offers()
	label := func(change device.LabelChange) contract.LabelInput {
		return contract.LabelInput{LabelChange: change, Caller: ann}
	}
	since, updated := s.d.StateSince, s.d.UpdatedAt
	s.pass(time.Hour)
	s.ok(contract.VerbLabel, label(device.LabelChange{Set: map[string]string{"tier": "gold"}}))
	require.Equal(t, []any{"label", "tier=gold", "ann (42)", updated},
		[]any{s.lastAct().Verb, s.lastAct().Detail, s.lastAct().By, s.d.UpdatedAt})
	f := s.refusal(device.CodeInvalid, contract.VerbLabel, label(device.LabelChange{Set: map[string]string{"rack": "b"}}))
	require.Equal(t, []string{"label rack is a already", "use --overwrite"}, []string{f.Message, f.Remedy})
	require.True(t, s.ok(contract.VerbLabel, label(device.LabelChange{Set: map[string]string{"rack": "a"}})).Already)
	s.ok(contract.VerbLabel, label(device.LabelChange{Set: map[string]string{"rack": "b"}, Overwrite: true}))
	s.e.Labels = nil
	s.ok(contract.VerbEnroll, s.enrollment()) // again: the labels that it has stay
	s.renewed()
	want := map[string]string{"rack": "b", "tier": "gold"}
	require.Equal(t, []any{want, want}, []any{s.d.Status().Labels, Memo(s.d.DeviceState).Labels})
	s.ok(contract.VerbLabel, label(device.LabelChange{Remove: []string{"rack", "tier"}}))
	require.Empty(t, s.d.Status().Labels)
	require.Equal(t, since, s.d.StateSince)
	s.ok(contract.VerbManage, contract.TenantInput{})
	require.True(t, s.d.StateSince.After(since))
}

// While an overridden device waits for its return, or a call is under way that was asked for before its approval, an
// instance uses it and leaves: two principals have accepted other data, and it is cleaned.
//
// D2, F28, F34
func TestOverrideAcceptsNoLaterData(t *testing.T) {
	read := contract.ActivityReadReservation
	for name, c := range map[string]struct {
		activity string
		ask      func(*scene)
	}{
		"it waits for its host": {"", nil},
		"a reservation":         {contract.ActivityEnsureReserved, func(s *scene) { s.inv.WriteByOther(0); s.hint() }},
		"a read":                {read, (*scene).hint},
		"the read of manage":    {read, func(s *scene) { _, _ = s.send(contract.VerbManage, contract.TenantInput{}) }},
		"the read of retire":    {read, func(s *scene) { _, _ = s.send(contract.VerbRetire, gaveUp("")) }},
		"the read of unbind":    {read, func(s *scene) { _, _ = s.send(contract.VerbUnbind, of("c1")) }},
	} {
		for use, another := range map[string]bool{"the same provider": false, "another provider": true} {
			t.Run(name+", "+use, func(t *testing.T) {
				s := novas(t)
				s.signed = uncleanable(t).signed
				s.offers().allocated("c1")
				s.fails("verify", device.NeedsOperator, device.CodeIO)
				s.inv.Free("c1")
				s.hint()
				s.reach(device.Error)
				s.rest()
				delete(s.faults, "verify")
				s.requested("x1")
				approved := s.sign("bob", approval)
				s.offeredClean()
				if c.ask == nil {
					s.away = true
				} else {
					c.ask(s)
					s.until(c.activity)
				}
				s.ok(contract.VerbOverride, approved)
				if another {
					s.inv.Recreate("again")
				} else if s.inv.Reserved == 1 {
					s.inv.WriteByOther(0)
				}
				require.True(t, s.inv.Allocate("c2"))
				s.inv.WriteByOther(1)
				s.bytes = "c2"
				s.inv.Free("c2")
				s.hint()
				s.away = false
				s.lasts(time.Hour)
				s.returned()
				require.False(t, s.d.Device.NotSanitized)
			})
		}
	}
}

// An export gives a device back what it does not have: what it counted and has no record of, what was before it was
// enrolled here, and labels that it lacks. It changes nothing else, and is refused if no export says it.
func TestAnExportedHistoryIsAdded(t *testing.T) {
	s := newScene(t)
	s.record.Clean = 3
	s.offers()
	require.Equal(t, 4, s.d.Cleans)
	s.ok(contract.VerbLabel, contract.LabelInput{LabelChange: device.LabelChange{Set: map[string]string{"rack": "a"}}})
	before := s.d.CreatedAt.Add(-time.Hour)
	in := contract.ImportHistoryInput{
		Labels: map[string]string{"rack": "old", "tier": "gold"},
		Cleans: []contract.CleanSummary{{Number: 2, Outcome: "failed"}, {Number: 3, Outcome: "cleaned"},
			{Number: 4, Outcome: "aborted"}},
		Acts: []contract.Act{{At: before, Verb: "bind", Request: "r1"}, {At: s.now.Add(time.Hour), Verb: "bind"}},
	}
	state, own := s.d.Device, s.d.Acts[0]
	s.ok(contract.VerbImportHistory, in)
	require.Equal(t, state, s.d.Device)
	require.Equal(t, map[string]string{"rack": "a", "tier": "gold"}, s.d.Enrollment.Labels)
	cleans, err := s.d.Archive.Cleans()
	require.NoError(t, err)
	var numbers []string
	for _, c := range cleans {
		numbers = append(numbers, fmt.Sprint(c.Number, " ", c.Outcome))
	}
	require.Equal(t, []string{"2 failed", "3 cleaned", "4 cleaned"}, numbers)
	require.Equal(t, []contract.Act{{At: before, Verb: "bind"}, own}, []contract.Act(s.d.Acts[:2]))
	require.Equal(t, "import_history 3 cleans, 2 acts", s.did()[len(s.d.Acts)-1])
	require.True(t, s.ok(contract.VerbImportHistory, in).Already)

	for _, wrong := range []contract.ImportHistoryInput{
		{Labels: map[string]string{"no key!": "x"}},
		{Cleans: []contract.CleanSummary{{Number: 2}, {Number: 1}}},
		{Acts: []contract.Act{{At: s.now}, {At: before}}},
		{Cleans: make([]contract.CleanSummary, contract.KeptCleans+1)},
	} {
		s.refused(device.CodeInvalid, contract.VerbImportHistory, wrong)
	}
}
