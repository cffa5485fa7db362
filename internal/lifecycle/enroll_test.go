package lifecycle

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"burnish/internal/clean"
	"burnish/internal/device"
	"burnish/workflows/contract"
)

func (s *scene) enrollment() contract.EnrollInput {
	return contract.EnrollInput{Enrollment: s.e, Provide: true}
}

// A refused enrollment leaves nothing behind: the workflow fails, and its host has no record of it. A completed
// workflow means that its device was forgotten. A second request in time is carried out.
func TestARefusedEnrollmentEndsTheWorkflow(t *testing.T) {
	for name, c := range map[string]struct {
		lead func(*scene)
		code device.Code
	}{
		"no worker polls for the host": {func(s *scene) { s.away = true }, device.CodeHostUnreachable},
		"the host refuses it": {func(s *scene) {
			s.fails(contract.ActivityDiscover, device.NeedsOperator, device.CodeNotAllowed)
		}, device.CodeNotAllowed},
		"another name": {func(s *scene) { s.e.Name = "d2" }, device.CodeInvalid},
		"the inventory refuses it": {func(s *scene) {
			s.inv.InjectFault = func(string, bool) error { return refusing(device.NeedsOperator, device.CodeInventoryInvalid) }
		}, device.CodeInventoryInvalid},
		"the inventory is unavailable": {func(s *scene) { s.inv.InjectFault = away }, device.CodeInventoryUnavailable},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t)
			c.lead(s)
			s.refusal(c.code, contract.VerbEnroll, s.enrollment())
			s.away = false
			s.lasts(time.Hour)
			require.True(t, s.d.Finished)
			ended, is := contract.RefusalOf(s.d.FinishErr)
			require.True(t, is && ended.Fault.Code == c.code, "failed, not completed: %v", s.d.FinishErr)
			require.Equal(t, []any{false, 0, false}, []any{s.known, len(s.inputs), s.d.Enrolled})
		})
	}
	s := newScene(t)
	s.fails(contract.ActivityDiscover, device.NeedsOperator, device.CodeNotAllowed)
	a, err := s.send(contract.VerbEnroll, s.enrollment())
	require.NoError(t, err)
	b, err := s.send(contract.VerbEnroll, s.enrollment())
	require.NoError(t, err)
	s.answers(contract.ActivityDiscover)
	delete(s.faults, contract.ActivityDiscover)
	s.returned()
	require.Error(t, a.Err)
	require.NoError(t, b.Err)
}

// Before it is enrolled a device accepts only enroll; the same enrollment again changes nothing, and one with other
// settings is refused.
//
// F13
func TestEnrollWithOtherSettingsIsRefused(t *testing.T) {
	s := newScene(t)
	s.refused(device.CodeNotFound, contract.VerbBind, bindI1)
	s.refused(device.CodeNotFound, contract.VerbForget, contract.TenantInput{})
	s.decide(CleanAsked{})
	s.decide(Hinted{Signal: contract.SignalRefresh})
	s.enrolled(false)
	require.False(t, s.ok(contract.VerbEnroll, s.enrollment()).Already, "it is provided")
	s.returned()
	made := len(s.made)
	require.True(t, s.ok(contract.VerbEnroll, s.enrollment()).Already)
	s.boundTo("i1").renewed()
	require.True(t, s.ok(contract.VerbEnroll, s.enrollment()).Already)
	require.Equal(t, []any{made + 1, device.Allocated}, []any{len(s.made), s.d.Device.State})
	for name, change := range map[string]func(*contract.Enrollment){
		"driver":      func(e *contract.Enrollment) { e.Driver = "block" },
		"host":        func(e *contract.Enrollment) { e.Host = "h2" },
		"address":     func(e *contract.Enrollment) { e.Address = "0000:01:00.0" },
		"owner":       func(e *contract.Enrollment) { e.Owner = device.OwnerNova },
		"settings":    func(e *contract.Enrollment) { e.Settings = map[string]string{"path": "/dev/other"} },
		"fewer":       func(e *contract.Enrollment) { e.Settings = nil },
		"one-time":    func(e *contract.Enrollment) { e.OneTimeUse = true },
		"more of it":  func(e *contract.Enrollment) { e.Settings = map[string]string{"path": "/dev/d1", "x": "y"} },
		"the host up": func(e *contract.Enrollment) { e.Host, e.Driver = "H1", "other" },
	} {
		in := s.enrollment()
		change(&in.Enrollment)
		before := s.d.place()
		f := s.refusal(device.CodeAlreadyExists, contract.VerbEnroll, in)
		require.Equal(t, before, s.d.place(), name)
		if name == "fewer" {
			require.Contains(t, f.Message, "other settings: path=/dev/d1")
		}
	}
	in := s.enrollment()
	in.Enrollment.Host = "H1"
	require.True(t, s.ok(contract.VerbEnroll, in).Already)
}

// A host that was away when a device was forgotten has a record of it. That says nothing of the device that has the
// name now, at another host.
//
// F25, F35
func TestTheRecordOfAFormerHostIsNotThisDevices(t *testing.T) {
	for _, lead := range []string{"available", "allocated", "manageable"} {
		s := newScene(t)
		leads[lead](s)
		was, binding, state := s.d.Host.Identity, s.d.Device.Bindings, s.d.Device.State
		s.hostStarts(func(r *contract.HostDeviceRecord) {
			r.Enrollment.Host, r.Identity.Serial = "h9", "S9"
			r.Seq, r.Clean, r.Binding = r.Seq+9, r.Clean+9, r.Binding+9
		})
		s.lasts(time.Hour)
		require.Equal(t, []any{was, binding, state}, []any{s.d.Host.Identity, s.d.Device.Bindings, s.d.Device.State})
	}
}

// A name whose workflow was lost is enrolled with other hardware, on another host. Hardware that is known under another
// name is refused as ever, and nothing is left. Else the device is the instance's that the record or the ended run
// names: nobody else gets it, nothing is erased before that instance has left, and the former hardware stays recorded.
//
// F24, F35
func TestTheSameNameOnAnotherHost(t *testing.T) {
	ended := contract.PreviousRun{RunID: "ended", Instance: "i1"}
	for name, c := range map[string]struct {
		run        contract.PreviousRun
		unrecorded bool
		other      string
	}{
		"its tenant is recorded":                           {contract.PreviousRun{}, false, ""},
		"and its run has ended":                            {ended, false, ""},
		"only its run has ended":                           {ended, true, ""},
		"the hardware is another's":                        {contract.PreviousRun{}, false, "d2"},
		"the hardware is another's, and its run has ended": {ended, false, "d2"},
	} {
		t.Run(name, func(t *testing.T) {
			s := tenant(t)
			former := s.d.Host.Identity.Hardware()
			s.d, s.known, s.record = New("d1", s.now), false, contract.HostDeviceRecord{}
			s.e.Host, s.host.Identity.Serial, s.other, s.previous = "h2", "S2", c.other, c.run
			if c.unrecorded {
				s.inv.Tenant = nil
			}
			wiped, writes := s.wiped, len(s.inv.Writes)
			in := s.enrollment()
			in.Provide = true
			_, err := s.do(contract.VerbEnroll, in)
			s.lasts(24 * time.Hour)
			require.Equal(t, []any{wiped, 1, "i1"}, []any{s.wiped, s.inv.Reserved, s.bytes})
			if c.other != "" {
				s.faultOf(device.CodeDuplicateSerial, err)
				require.Equal(t, []any{true, false, writes}, []any{s.d.Finished, s.known, len(s.inv.Writes)})
				return
			}
			require.NoError(t, err)
			require.Equal(t, []any{device.Allocated, "i1"}, []any{s.d.Device.State, s.d.instance()})
			s.refusal(device.CodeRefused, contract.VerbBind, bindI2)
			require.Equal(t, []string{former, s.d.Host.Identity.Hardware()}, s.inv.Hardware)
		})
	}
}

// The numbers continue from the host's record of an earlier enrollment.
//
// F10
func TestNumbersNeverGoBack(t *testing.T) {
	s := newScene(t)
	s.record = contract.HostDeviceRecord{Binding: 7, Clean: 9, Seq: 40}
	s.offers()
	require.True(t, s.inputs[0].Seq > 40 && s.inputs[0].Number > 9)
	s.boundTo("i1")
	require.Equal(t, 8, s.d.Device.Binding.Number)
}

// A fake device is never in an inventory from which schedulers allocate.
//
// F13
func TestFakeDeviceIsRefusedInARealInventory(t *testing.T) {
	for _, imported := range []bool{false, true} {
		eachOwner(t, func(s *scene) {
			s.real, s.e.Driver = true, "fake"
			in := s.enrollment()
			in.Import = imported
			code := device.CodeNotAllowed
			if imported && s.e.Owner == device.OwnerSelf {
				code = device.CodeInvalid
			}
			s.refusal(code, contract.VerbEnroll, in)
			require.Empty(s, s.inv.Writes)
		})
	}
}

// What is not enrolled cannot be retired, and its path is more likely wrong than gone.
func TestEnrollOfAMissingPathNamesTheEnrollment(t *testing.T) {
	for said, want := range map[string]string{
		"put the device back, or retire it":              "correct the path or address in the enrollment, or attach the device to host h1, then enroll it again",
		"check the server's drives, and enroll it again": "check the server's drives, and enroll it again",
	} {
		s := newScene(t)
		s.fails(contract.ActivityDiscover, device.NeedsOperator, device.CodeTargetMissing)
		s.faults[contract.ActivityDiscover].Remedy = said
		require.Equal(t, want, s.refusal(device.CodeTargetMissing, contract.VerbEnroll, s.enrollment()).Remedy)
	}
}

// A device is one-time-use only if its enrollment says so; then its provider has the trait, which does not mean dirty.
//
// S0.2, S0.10
func TestOneTimeUseIsOptIn(t *testing.T) {
	for _, oneTime := range []bool{false, true} {
		s := available(t, oneTime)
		require.Equal(t, oneTime, s.d.Status().OneTimeUse)
		if oneTime {
			require.Contains(t, s.inv.Created.Traits, "HW_PCI_ONE_TIME_USE")
		} else {
			require.NotContains(t, s.inv.Created.Traits, "HW_PCI_ONE_TIME_USE")
		}
	}
}

// A device is cleaned on enrollment, unless that is off and the operator asserts that it is clean; it is burned in each
// case.
//
// S3.2
func TestCleanOnEnrollment(t *testing.T) {
	for _, c := range []struct {
		onEnroll, asserted, cleaned bool
	}{{true, false, true}, {true, true, true}, {false, false, true}, {false, true, false}} {
		s := newScene(t)
		s.policy.OnEnroll, s.e.OperatorAssertsClean = c.onEnroll, c.asserted
		r := s.ok(contract.VerbEnroll, contract.EnrollInput{Enrollment: s.e})
		require.Equal(t, []any{c.cleaned, device.Manageable, 1}, []any{r.Device.Dirty, r.Device.DeviceState, s.inv.Reserved})
		if c.asserted && c.onEnroll {
			require.Equal(t, "--clean was not accepted: cleaning on enrollment is on", r.Device.LastRefusal)
		}
		s.ok(contract.VerbProvide, noInput)
		s.reach(device.Available)
		require.Equal(t, []any{c.cleaned, 0}, []any{s.wiped > 0, s.inv.Reserved})
	}
}

// mismatched is a device in error, because its clean found other hardware.
func mismatched(t *testing.T) *scene {
	t.Helper()
	s := tenant(t)
	s.host.Identity.Serial, s.bytes = "S2", "unknown data"
	s.released("i1")
	s.kept(device.Error, device.CodeSerialMismatch)
	require.Equal(t, "unknown data", s.bytes, "nothing was written")
	return s
}

// Replace starts the next unit: it is dirty and has the device's history, and its own operation.
//
// D10
func TestReplaceStartsTheNextUnit(t *testing.T) {
	for name, provide := range map[string]bool{"then provide": false, "with --provide": true} {
		t.Run(name, func(t *testing.T) {
			s := mismatched(t)
			s.offeredClean()
			s.host.Operation = device.WriteZeroes
			r := s.ok(contract.VerbReplace, contract.ReplaceInput{Provide: provide})
			require.Equal(t, []any{"S2", true, device.WriteZeroes}, []any{r.Device.Serial, r.Device.Dirty, r.Device.Operation})
			if !provide {
				require.Equal(t, []any{device.Manageable, ""}, []any{r.Device.DeviceState, r.Device.Fault})
				s.renewed()
				s.ok(contract.VerbProvide, noInput)
			}
			s.returned()
			require.Equal(t, device.Unit{Number: 2, Serial: "S2"}, s.d.Device.Unit)
			require.Len(t, s.d.History, 1, "the first unit's binding is kept")
			s.boundTo("i2")
			require.Equal(t, 2, s.d.Device.Binding.Number)
		})
	}
}

// What comes into the slot of a device that was moved there was not moved: another device that has the former name
// counts, at the replacement and at each clean.
//
// D10, F35
func TestTheNextUnitWasNotMovedHere(t *testing.T) {
	s := mismatched(t)
	s.d.MovedFrom = "d0"
	for _, v := range []contract.Verb{contract.VerbReplace, contract.VerbProvide} {
		in := contract.Input(noInput)
		if v.Name == contract.VerbReplace.Name {
			in = contract.ReplaceInput{}
		}
		var asked contract.FindBySerialInput
		s.watched(func() {
			_, err := s.send(v, in)
			require.NoError(t, err)
		}, contract.ActivityFindBySerial, &asked)
		require.Equal(t, []string{device.Identity{Serial: "S2"}.Hardware(), ""}, []string{asked.Hardware, asked.MovedFrom})
	}
	s.returned()
}

// Replace and move are refused of what is not out of service, of hardware that is not what they say, and of a name that
// cannot be; the device goes on as it was.
//
// D10
func TestReplaceAndMoveAreRefused(t *testing.T) {
	move := func(to string) contract.MoveInput {
		return contract.MoveInput{Enrollment: contract.Enrollment{Name: to, Host: "h1", Driver: "testdriver"}}
	}
	for _, state := range []string{"available", "allocated", "cleaning"} {
		s := newScene(t)
		leads[state](s)
		s.refusal(device.CodeRefused, contract.VerbReplace, contract.ReplaceInput{})
		s.refusal(device.CodeRefused, contract.VerbMove, move("d2"))
	}
	s := manageable(t, false)
	s.refusal(device.CodeRefused, contract.VerbReplace, contract.ReplaceInput{}) // the same hardware
	require.Equal(t, device.CodeRefused, s.d.Acts[len(s.d.Acts)-1].Fault,
		"it was accepted, and the discovery said otherwise")
	for _, to := range []string{"", "a b", "a/b", "d1 ", "d1"} {
		s.unchanged(func() { s.refused(device.CodeInvalid, contract.VerbMove, move(to)) })
	}
	s.taken = true
	s.refusal(device.CodeAlreadyExists, contract.VerbMove, move("d2"))
	was := s.host.Identity
	s.taken, s.host.Identity.Serial = false, "S2"
	s.refusal(device.CodeIdentityChanged, contract.VerbMove, move("d2"))
	s.host.Identity = was
	require.Equal(t, []any{0, true}, []any{len(s.moved), s.inv.Exists})
	s.ok(contract.VerbProvide, noInput)
	s.returned()

	s = mismatched(t)
	s.other = "d7"
	require.Contains(t, s.refusal(device.CodeDuplicateSerial, contract.VerbReplace, contract.ReplaceInput{}).Remedy,
		"move d7 d1")
	s.asksOther()
	s.other = ""
	s.fails(contract.ActivityDiscover, device.NeedsOperator, device.CodeFilesystemSignature)
	s.refusal(device.CodeFilesystemSignature, contract.VerbReplace, contract.ReplaceInput{})
	require.Equal(t, device.Error, s.d.Device.State)
}

// asksOther requires that the device with the same serial was asked to re-check, once.
func (s *scene) asksOther() {
	s.Helper()
	require.Len(s, s.d.Mail, 1)
	m := s.d.Mail[0]
	require.Equal(s, []any{"device/d7", contract.SignalRefresh,
		contract.Hint{Source: "duplicate serial", DuplicateAt: "d1"}},
		[]any{m.To, m.Signal, m.In})
	s.d.Mail = nil
}

// Move transfers state and history to the new name, and ends the old one, whose provider and record are deleted. What
// was moved is dirty, whatever it was, and reserved first; what is left under its former name is its own.
//
// D10, F27, F35
func TestMoveKeepsStateAndHistory(t *testing.T) {
	for name, c := range map[string]struct {
		lead  func(*scene)
		state device.State
	}{
		"in error": {leads["error"], device.Error},
		"clean": {func(s *scene) {
			s.offers().boundTo("i1").turnsOver("i1")
			s.ok(contract.VerbManage, contract.TenantInput{})
		}, device.Manageable},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t)
			c.lead(s)
			e := s.e
			e.Name = "d2"
			require.Equal(t, "continues as d2", s.ok(contract.VerbMove, contract.MoveInput{Enrollment: e}).Note)
			s.rest()
			require.NoError(t, s.d.FinishErr)
			require.Equal(t, []any{true, false, false, 1}, []any{s.d.Finished, s.inv.Exists, s.known, len(s.moved)})
			next := s.moved[0]
			require.Equal(t, []any{"d2", contract.DeviceUUID("d2"), "d2", c.state, true, 1, 2, 1},
				[]any{next.Name, next.UUID, next.Enrollment.Name, next.Device.State, next.Device.Dirty, next.Device.Bindings,
					next.Cleans, len(next.History)})
			s.bytes = "unknown data"
			s.offeredClean()
			s.putBack(&next)
			s.rest()
			require.Equal(t, []any{true, 1}, []any{s.inv.Exists, s.inv.Reserved})
			s.ends[contract.ActivityFindBySerial] = func(o Outcome) Outcome { return o }
			if c.state == device.Error {
				s.ok(contract.VerbClean, all)
			} else {
				s.ok(contract.VerbProvide, noInput)
			}
			s.returned()
			s.boundTo("i2")
			require.Equal(t, 2, s.d.Device.Binding.Number)
		})
	}
}

// Of the new slot is what the operator names; all else is the old one's.
//
// D10
func TestMoveKeepsWhatItDoesNotName(t *testing.T) {
	s := newScene(t)
	s.e.Address, s.e.OperatorAssertsClean = "0000:01:00.0", true
	s.enrolled(true)
	for _, c := range []struct{ named, want contract.Enrollment }{
		{contract.Enrollment{Name: "d2"}, contract.Enrollment{Name: "d2", Host: "h1", Driver: "testdriver",
			Settings: map[string]string{"path": "/dev/d1"}}},
		{contract.Enrollment{Name: "d2", Host: "h2", Driver: "other", Address: "0000:02:00.0",
			Settings: map[string]string{"slot": "2"}, Pool: &contract.Pool{Appliance: "rack2"}},
			contract.Enrollment{Name: "d2", Host: "h2", Driver: "other", Address: "0000:02:00.0",
				Settings: map[string]string{"path": "/dev/d1", "slot": "2"}, Pool: &contract.Pool{Appliance: "rack2"}}},
	} {
		c.want.Type, c.want.Owner, c.want.OneTimeUse = s.e.Type, s.e.Owner, true
		move := newScene(t)
		move.putBack(s.d.DeviceState)
		move.ok(contract.VerbMove, contract.MoveInput{Enrollment: c.named})
		require.Equal(t, c.want, move.moved[0].Enrollment)
		require.Equal(t, s.e.Settings, s.d.Enrollment.Settings)
	}
}

// A serial that another device has is not enrolled a second time, by a listing or by the host's records; an
// enrollment, a replacement and each clean ask for every record of the hardware, too. That other device is asked to
// re-check.
//
// F23, F35
func TestHardwareThatIsRecordedElsewhereIsNotEnrolled(t *testing.T) {
	for name, c := range map[string]struct {
		lead  func(*scene)
		known bool
	}{
		"by a listing": {func(s *scene) { s.other = "d7" }, false},
		"by its host": {func(s *scene) {
			s.fails(contract.ActivityDiscover, device.NeedsOperator, device.CodeDuplicateSerial)
			s.faults[contract.ActivityDiscover].Other = "d7"
		}, false},
		"by a listing, and its host knew it before": {func(s *scene) { s.other, s.known = "d7", true }, true},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t)
			c.lead(s)
			var asked contract.FindBySerialInput
			s.watched(func() { _, _ = s.send(contract.VerbEnroll, s.enrollment()) }, contract.ActivityFindBySerial, &asked)
			s.rest()
			s.asksOther()
			require.Equal(t, []any{true, false, c.known, "enrolled"}, []any{s.d.Finished, s.inv.Exists, s.known, s.bytes})
			if s.faults[contract.ActivityDiscover] == nil {
				require.Equal(t, []string{"S1", s.host.Identity.Hardware()}, []string{asked.Serial, asked.Hardware})
			}
		})
	}
}

// watched gives what a call was asked with, if it was made.
func (s *scene) watched(begin func(), activity string, asked *contract.FindBySerialInput) {
	begin()
	for i := 0; i < 100; i++ {
		for _, c := range s.d.Due() {
			if in, is := c.In.(contract.FindBySerialInput); is && c.Activity == activity {
				*asked = in
			}
		}
		if !s.next() {
			return
		}
	}
}

// Two devices with one serial that are enrolled at the same moment do not find each other before they are enrolled.
// Once listed, each searches again before it is cleaned or returned, and an operator decides.
//
// F23
func TestDuplicateSerialEnrolledAtTheSameMoment(t *testing.T) {
	for name, asserted := range map[string]bool{"to be cleaned": false, "to be returned without a clean": true} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t)
			s.listed, s.policy.OnEnroll, s.e.OperatorAssertsClean = "d7", !asserted, asserted
			s.ok(contract.VerbEnroll, s.enrollment())
			s.kept(device.Error, device.CodeDuplicateSerial)
			require.Contains(t, s.d.Status().LastError, "d7")
			require.NotContains(t, s.made, "zero")
			require.NotContains(t, s.made, contract.ActivityUnreserve)
			s.asksOther()
			s.ok(contract.VerbClean, all)
			s.returned()
		})
	}
}

// A device whose serial was found at a second slot is not offered any more, whatever its own host finds, until an
// operator cleans it; a bound one stays its tenant's, and is not returned after the unbind.
//
// F23
func TestDuplicateSerialTakesTheDeviceOutOfTheOffer(t *testing.T) {
	for name, c := range map[string]struct {
		at   string
		sees func(*scene)
		code device.Code
	}{
		"its own host finds it too":          {"available", func(*scene) {}, device.CodeDuplicateSerial},
		"its own host does not answer":       {"available", func(s *scene) { s.away = true }, device.CodeDuplicateSerial},
		"its own host reports another fault": {"available", func(s *scene) { s.fails(contract.ActivityDiscover, device.Permanent, device.CodeIO) }, device.CodeDuplicateSerial},
		"its own host does not find it": {"available", func(s *scene) {
			s.fails(contract.ActivityDiscover, device.NeedsOperator, device.CodeTargetMissing)
		}, device.CodeTargetMissing},
		"during its clean": {"cleaning", func(*scene) {}, device.CodeDuplicateSerial},
		"bound":            {"allocated", func(*scene) {}, device.CodeDuplicateSerial},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t)
			leads[c.at](s)
			c.sees(s)
			s.decide(Hinted{Signal: contract.SignalRefresh, Hint: contract.Hint{Source: "duplicate serial", DuplicateAt: "d7"}})
			if c.at == "allocated" {
				s.rest()
				v := s.d.Status()
				require.Equal(t, []any{device.Allocated, true, string(c.code), true},
					[]any{v.DeviceState, v.Dirty, v.Fault, v.NeedsOperator})
				require.Contains(t, v.LastError, "d7")
				s.released("i1")
			}
			s.kept(device.Error, c.code)
			require.True(t, s.d.Device.Dirty && s.d.Status().NeedsOperator)
			s.renewed()
			s.refused(device.CodeRefused, contract.VerbBind, bindI2)
			s.away = false
			delete(s.faults, contract.ActivityDiscover)
			s.ok(contract.VerbClean, all)
			s.returned()
		})
	}
}

// Each clean asks before its first step, also one that an operator begins: as long as another name has a record of the
// hardware, or that cannot be read, nothing is written. An inventory that does not answer is waited for, visibly.
//
// F29, F35
func TestEachCleanAsksForOtherRecordsOfItsHardware(t *testing.T) {
	for name, c := range map[string]struct {
		appears func(*scene)
		code    device.Code
	}{
		"recorded":   {func(s *scene) { s.other = "d7" }, device.CodeDuplicateSerial},
		"unreadable": {func(s *scene) { s.unreadable = true }, device.CodeInventoryInvalid},
	} {
		t.Run(name, func(t *testing.T) {
			eachOwner(t, func(s *scene) {
				s.enrolled(false)
				c.appears(s)
				for _, v := range []contract.Verb{contract.VerbProvide, contract.VerbClean} {
					in := contract.Input(noInput)
					if v.Name == contract.VerbClean.Name {
						in = all
					}
					var asked contract.FindBySerialInput
					s.watched(func() { s.ok(v, in) }, contract.ActivityFindBySerial, &asked)
					s.kept(device.Error, c.code)
					require.True(s, s.d.Status().NeedsOperator && s.d.Device.Dirty)
					require.Zero(s, s.wiped)
					if name == "recorded" && s.e.Owner == device.OwnerSelf {
						require.Equal(s, s.host.Identity.Hardware(), asked.Hardware)
					}
				}
				s.other, s.unreadable = "", false
				s.ok(contract.VerbClean, all)
				s.returned()
			})
		})
	}
}

// The hardware of an imported device is not known before its host has seen it. It is asked for then: before it is
// cleaned, and also where nothing is to be cleaned. One that its host brings back is recorded with its hardware.
//
// F23, F35
func TestTheHardwareOfAnImportedDeviceIsAskedFor(t *testing.T) {
	for reserved := range 2 {
		for _, listed := range []bool{true, false} {
			s := novas(t)
			if listed {
				s.listed = "d7"
			}
			s.other = "d7"
			s.importing(reserved)
			s.kept(device.Error, device.CodeDuplicateSerial)
			require.Zero(t, s.wiped)
		}
	}
	s := newScene(t).offers()
	s.inv.Hardware = nil
	s.terminated()
	s.lasts(time.Hour)
	s.returned()
	require.Equal(t, []string{s.host.Identity.Hardware()}, s.inv.Hardware)
}

// drive is an NVMe drive that can do everything.
func drive(t *testing.T, erase clean.ErasePolicy) *scene {
	t.Helper()
	s := newScene(t)
	s.policy.NVMe, s.policy.SanitizeStall, s.policy.Wear = erase, time.Hour, device.WearLimits{PercentUsed: 80}
	s.host.Steps = map[string]int{}
	for _, step := range []string{"security_check", "wear_check", "sanitize", "zero", "consolidate_namespaces", "verify",
		"firmware_reflash", "verify_firmware"} {
		s.host.Steps[step] = 1
	}
	s.host.Operation, s.host.Type, s.host.Layout = "", "NVME", device.LayoutWhole
	s.host.Capabilities = &device.Capabilities{CryptoErase: true, BlockErase: true, WriteZeroes: true,
		ManageNamespaces: true}
	s.host.Estimates = map[device.Operation]time.Duration{device.CryptoErase: time.Hour}
	s.host.Identity.Vendor, s.host.Identity.Product = "8086", "0a54"
	return s
}

func stepsOf(c contract.CleanSummary) (names []string) {
	for _, step := range c.Steps {
		names = append(names, step.Step)
	}
	return names
}

// The operation, type, class and traits are recorded and shown (S2.32, S2.33, S2.15); the steps have the policy's
// limits.
//
// S2.26, S2.34, S2.106
func TestTheResolvedOperationIsRecordedAndShown(t *testing.T) {
	s := drive(t, clean.ErasePolicy{})
	s.e.Address, s.e.Type = "0000:01:00.0", ""
	s.offers()
	board := contract.BoardInfo{ProductID: "0a54", PCIAddress: "0000:01:00.0", Operation: device.CryptoErase}
	v, memo := s.d.Status(), Memo(s.d.DeviceState)
	require.Equal(t, []any{device.CryptoErase, board, "NVME"}, []any{v.Operation, v.StdBoardInfo, v.Type})
	require.Equal(t, []any{device.CryptoErase, board}, []any{memo.Operation, memo.StdBoardInfo}, "for listings")
	require.Equal(t, []string{"security_check", "wear_check", "sanitize", "consolidate_namespaces", "verify"},
		stepsOf(s.lastClean()))
	for _, in := range s.inputs {
		require.Equal(t, []any{device.CryptoErase, 80, time.Hour},
			[]any{in.Operation, int(in.Settings.Wear.PercentUsed), in.Settings.SanitizeStall})
		if in.Step == "sanitize" {
			require.Equal(t, 2*time.Hour, in.Budget, "twice its own estimate")
		}
	}
	require.Equal(t, []string{"d1", "CUSTOM_NVME_8086_0A54"}, []string{s.inv.Created.Name, s.inv.Created.Class})
	require.Subset(t, s.inv.Created.Traits, []string{"HW_NVME_CES", "HW_NVME_WZS"})
}

// Another policy, or another entry of the device, does not replace the operation of a device that is in use, and
// neither does a failed erase: only a discovery in error or of an idle one does. A device's own entry comes first.
//
// S2.26, S2.28, S2.29, S2.99, S2.105
func TestANewPolicyReplacesNothingWhileTheDriveIsUsed(t *testing.T) {
	s := drive(t, clean.ErasePolicy{}).offers().boundTo("i1")
	s.policy.NVMe = clean.ErasePolicy{Action: clean.ActionZero}
	s.refresh()
	require.Equal(t, device.CryptoErase, s.d.Host.Operation)
	s.fails("sanitize", device.NeedsOperator, device.CodeSanitizeFailed)
	s.released("i1")
	for range 2 {
		s.kept(device.Error, device.CodeSanitizeFailed)
		require.Equal(t, device.CryptoErase, s.d.Host.Operation, "no fallback to another operation")
		s.ok(contract.VerbClean, all)
		s.rest()
	}
	delete(s.faults, "sanitize")
	s.refresh()
	require.Equal(t, device.WriteZeroes, s.d.Host.Operation)
	s.ok(contract.VerbClean, all)
	s.returned()
	require.NotContains(t, stepsOf(s.lastClean()), "sanitize")

	s = drive(t, clean.ErasePolicy{})
	s.host.ClearAction = "zero"
	s.offers()
	require.Equal(t, []any{device.WriteZeroes, "clear_action=zero"}, []any{s.d.Host.Operation, s.d.Status().ErasePolicy})
	s.policy.NVMe = clean.ErasePolicy{Action: clean.ActionSanitize, Strategy: clean.StrategyBlock}
	s.refresh()
	require.Equal(t, device.WriteZeroes, s.d.Host.Operation, "its own action")
	s.boundTo("i1")
	s.host.ClearAction, s.host.ClearStrategy = "sanitize", "crypto"
	s.refresh()
	require.Equal(t, []any{device.WriteZeroes, "clear_action=sanitize clear_strategy=crypto"},
		[]any{s.d.Host.Operation, s.d.Status().ErasePolicy})
	s.turnsOver("i1")
	require.Equal(t, device.WriteZeroes, s.lastClean().Operation)
	s.refresh()
	require.Equal(t, device.CryptoErase, s.d.Host.Operation, "the next clean's")
	s.host.ClearAction, s.host.ClearStrategy = "", ""
	s.refresh()
	require.Equal(t, []any{device.BlockErase, ""}, []any{s.d.Host.Operation, s.d.Status().ErasePolicy})
}

// A drive that cannot satisfy the policy, or whose own entry contradicts it, is refused at enrollment, and later taken
// out of the pool; it is never returned as one that nothing can clean (D4), also after a recovery.
//
// S2.25, S2.98, D4
func TestAPolicyThatCannotBeSatisfiedExcludes(t *testing.T) {
	s := drive(t, clean.ErasePolicy{Action: clean.ActionSanitize})
	s.host.Capabilities = &device.Capabilities{WriteZeroes: true}
	s.refusal(device.CodePolicyUnsatisfied, contract.VerbEnroll, s.enrollment())
	s.rest()
	require.Equal(t, []any{true, false}, []any{s.d.Finished, s.known})
	for name, c := range map[string]struct {
		changes func(*scene)
		code    device.Code
	}{
		"unsatisfied": {func(s *scene) {
			s.policy.NVMe.Strategy, s.host.Capabilities = clean.StrategyCrypto, &device.Capabilities{WriteZeroes: true}
		}, device.CodePolicyUnsatisfied},
		"half of it is its own": {func(s *scene) {
			s.policy.NVMe.Action, s.host.ClearStrategy = clean.ActionSanitize, "block"
			s.host.Capabilities = &device.Capabilities{CryptoErase: true}
		}, device.CodePolicyUnsatisfied},
		"contradictory": {func(s *scene) { s.policy.NVMe.Strategy, s.host.ClearAction = clean.StrategyCrypto, "zero" },
			device.CodeInvalidSetting},
	} {
		t.Run(name, func(t *testing.T) {
			s := drive(t, clean.ErasePolicy{}).offers()
			host, policy := s.host, s.policy
			c.changes(s)
			s.refresh()
			s.kept(device.Error, c.code)
			require.Equal(t, device.CryptoErase, s.d.Host.Operation, "nothing is replaced")
			s.ok(contract.VerbClean, all)
			s.kept(device.Error, c.code)
			s.host, s.policy = host, policy
			s.refresh()
			s.ok(contract.VerbClean, all)
			s.returned()

			s = drive(t, clean.ErasePolicy{}).offers().boundTo("i1")
			c.changes(s)
			s.refresh()
			s.turnsOver("i1")
			require.Equal(t, device.CryptoErase, s.cleans()[1].Operation, "the recorded operation")
		})
	}
	s = drive(t, clean.ErasePolicy{}).offers().boundTo("i1")
	s.host.Capabilities, s.policy.NVMe.Action = &device.Capabilities{}, clean.ActionSanitize
	s.terminated()
	s.lasts(time.Minute)
	s.released("i1")
	s.kept(device.Error, device.CodePolicyUnsatisfied)
	require.False(t, s.d.Device.NotSanitized)
}

// Another layout takes the device out of the offer; another MAC, or mark, is no other device.
//
// S0.24, S1.16
func TestWhatIsAnotherDevice(t *testing.T) {
	s := drive(t, clean.ErasePolicy{})
	s.host.Identity.MAC, s.host.LiveMigratable = "52:54:00:00:00:01", true
	s.offers()
	require.Equal(t, []any{"52:54:00:00:00:01", true}, []any{s.d.Status().MAC, s.d.Status().LiveMigratable})
	s.host.Identity.MAC, s.host.LiveMigratable = "52:54:00:00:00:02", false
	s.refresh()
	v := s.d.Status()
	require.Equal(t, []any{"52:54:00:00:00:02", false, device.Available, ""},
		[]any{v.MAC, v.LiveMigratable, v.DeviceState, v.Fault})
	s.host.Layout = device.LayoutSplit
	s.refresh()
	s.kept(device.Error, device.CodeNamespaceLayoutMismatch)
}

// A worn drive is quarantined until a check finds it within its limits; nothing was erased.
//
// S0.32
func TestAWornDriveIsQuarantined(t *testing.T) {
	s := drive(t, clean.ErasePolicy{}).offers().boundTo("i1")
	s.fails("wear_check", device.NeedsOperator, device.CodeWearLimitExceeded)
	s.released("i1")
	for range 2 {
		s.kept(device.Error, device.CodeWearLimitExceeded)
		require.Equal(t, []any{string(device.MaintenanceQuarantined), "i1"}, []any{s.d.Status().MaintenanceReason, s.bytes})
		r := s.ok(contract.VerbMaintain, off)
		require.Equal(t, []bool{false, false}, []bool{r.Already, r.Device.Maintenance}, "the operator ends a quarantine")
		s.ok(contract.VerbClean, all)
		s.rest()
	}
	delete(s.faults, "wear_check")
	s.ok(contract.VerbClean, all)
	s.returned()
	require.False(t, s.d.Device.InMaintenance())
}

// The host enrolls the version that Burnish's own step gave the drive: it is recorded before the drive is offered, and
// the next clean compares with it.
//
// F20, F27
func TestANewFirmwareVersionIsEnrolledBeforeTheDriveIsOffered(t *testing.T) {
	s := drive(t, clean.ErasePolicy{})
	s.policy.Firmware = []clean.FirmwarePolicy{
		{FirmwareImage: clean.FirmwareImage{From: []string{"1"}, To: "2", Image: "/fw", SHA256: "00"}}}
	s.host.Identity.Firmware, s.host.SupportedSteps = "1", []string{"firmware_reflash", "verify_firmware"}
	s.offers().boundTo("i1")
	s.ends["firmware_reflash"] = func(o Outcome) Outcome {
		s.host.Identity.Firmware, o.Found.(*contract.StepAnswer).Firmware = "2", "2"
		return o
	}
	s.turnsOver("i1")
	require.Equal(t, "2", s.d.Status().Firmware)
	require.Subset(t, stepsOf(s.lastClean()), []string{"firmware_reflash", "verify_firmware"})
	s.inputs = nil
	s.boundTo("i2").turnsOver("i2")
	require.NotEmpty(t, s.inputs)
	for _, in := range s.inputs {
		require.Equal(t, "2", in.Identity.Firmware, in.Step)
		if in.Step == "firmware_reflash" {
			require.JSONEq(t, `{"components":[{"from":["1"],"to":"2","image":"/fw","sha256":"00"}]}`, string(in.Args))
		}
	}
}
