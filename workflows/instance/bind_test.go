package instance

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/temporal"

	"burnish/internal/device"
	"burnish/internal/nova/metadata"
	"burnish/workflows/contract"
)

const other = "99999999-2222-3333-4444-555555555555"

// bind sends a bind of named devices.
func (e *env) bind(id string, texts ...string) *answer {
	return e.update(id, contract.VerbInstanceBind.Update(), contract.InstanceBindInput{Devices: choices(texts...)})
}

func (e *env) attach(id string, texts ...string) *answer {
	return e.update(id, contract.VerbInstanceAttach.Update(), contract.InstanceBindInput{Devices: choices(texts...)})
}

func (e *env) release() {
	e.update("release", contract.VerbInstanceRelease.Update(), contract.ReasonInput{})
}

// requireRefused requires that the act was refused, for the reason.
func requireRefused(t *testing.T, a *answer, code device.Code, message string) {
	t.Helper()
	require.True(t, a.done, "the act has no answer")
	require.Error(t, a.err)
	refusal, ok := contract.RefusalOf(a.err)
	require.True(t, ok, "%v", a.err)
	require.Equal(t, code, refusal.Fault.Code, "%v", a.err)
	require.Contains(t, refusal.Fault.Message, message)
}

// count counts the calls of an activity.
func (f *fleet) count(activity string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := 0
	for _, asked := range f.asked {
		if strings.HasPrefix(asked, activity+" ") {
			n++
		}
	}
	return n
}

// take gives a device to another instance.
func (f *fleet) take(name string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	d := f.find(name)
	d.Device.State, d.Bindings = device.Allocated, d.Bindings+1
	d.Device.Binding, d.Dirty = &device.Binding{Number: d.Bindings, Instance: other}, true
}

// ends ends a device's binding, and does not tell its instance.
func (f *fleet) ends(name string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	d := f.find(name)
	d.Device.State, d.Device.Binding = device.PendingCleaning, nil
}

// An instance gets all devices that it names, with their tags, also while it runs. When it is
// released, all are cleaned and its workflow ends.
//
// S1.1, S1.2
func TestBindNamedDevices(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	e.add("h1", "NVME", "h1_a", "h1_b", "h1_c")
	var bound, attached *answer
	e.then(func() { bound = e.bind("u1", "h1_a oracledb", "h1_b") })
	e.then(func() {
		require.NoError(t, bound.err)
		require.False(t, bound.Already)
		s := e.status()
		require.Equal(t, contract.InstanceActive, s.Phase)
		require.Equal(t, []string{"h1_a", "h1_b"}, devicesOf(s))
		require.Equal(t, "oracledb", s.Devices[0].Tag)
		require.Empty(t, s.Devices[1].Tag)
		require.Equal(t, []string{"oracledb"}, metadata.New(s).Devices[1].Tags, "the guest reads it; no tag comes first")
		require.Equal(t, 1, s.Devices[0].Binding)
		require.Equal(t, "oracledb", e.find("h1_a").Binding.Tag, "the device knows it, too")
		require.Equal(t, "u1", s.Devices[0].Request)
		require.Equal(t, "h1", s.Host)
		require.Equal(t, []string{"h1_a", "h1_b"}, e.held(guest))
		require.Equal(t, "bind", s.Acts[0].Verb)
		attached = e.attach("u2", "h1_c cache")
	})
	e.then(func() {
		require.NoError(t, attached.err)
		require.Equal(t, "cache", e.status().Devices[2].Tag)
		require.Equal(t, []string{"cache"}, metadata.New(e.status()).Devices[1].Tags)
		e.release()
	})
	e.run(nil)
	require.NoError(t, e.GetWorkflowError())
	require.Equal(t, contract.InstanceReleased, e.status().Phase)
	require.Equal(t, []string{"h1_a", "h1_b", "h1_c"}, e.cleaned())
}

// A device that is named and lost is no other one's fault: the claims are given back,
// nothing is burned and nothing is cleaned.
func TestBindThatLosesARaceHoldsAndCleansNothing(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	e.add("h1", "NVME", "h1_a", "h1_b", "h1_c")
	e.take("h1_b")
	var bound *answer
	e.then(func() { bound = e.bind("u1", "h1_a", "h1_b", "h1_c") })
	e.run(nil)
	require.NoError(t, e.GetWorkflowError())
	requireRefused(t, bound, device.CodeRefused, "h1_b: ")
	require.Empty(t, e.held(guest))
	require.Empty(t, e.cleaned())
	require.Zero(t, e.count(contract.ActivityBurnDevices))
	for _, name := range []string{"h1_a", "h1_c"} {
		require.Nil(t, e.find(name).Claim, "%s is claimed", name)
	}
	require.Equal(t, contract.InstanceReleased, e.status().Phase)
}

// A request for free devices picks others when it loses a race.
func TestBindByRequestPicksAgain(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	e.add("h1", "NVME", "h1_a", "h1_b", "h1_c")
	e.stale = true
	raced := false
	e.onAsk = func(activity string, names []string) {
		if activity == contract.ActivityClaimDevices && !raced {
			raced = true
			e.take(names[0])
		}
	}
	var bound *answer
	e.then(func() {
		bound = e.update("u1", contract.VerbInstanceBind.Update(),
			contract.InstanceBindInput{Requests: []contract.DeviceRequest{{Type: "nvme", Count: 2}}})
	})
	e.then(func() {
		require.NoError(t, bound.err)
		require.Equal(t, []string{"h1_b", "h1_c"}, e.held(guest))
		require.Empty(t, e.cleaned())
		e.release()
	})
	e.run(nil)
	require.Equal(t, 2, e.count(contract.ActivityClaimDevices))
}

// The rounds are bounded: where others take every device, the request is refused.
func TestBindByRequestGivesUp(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	e.add("h1", "NVME", "h1_a", "h1_b", "h1_c", "h1_d", "h1_e", "h1_f", "h1_g", "h1_h", "h1_i", "h1_j")
	e.onAsk = func(activity string, names []string) {
		if activity == contract.ActivityClaimDevices {
			e.take(names[0])
		}
	}
	var bound *answer
	e.then(func() {
		bound = e.update("u1", contract.VerbInstanceBind.Update(),
			contract.InstanceBindInput{Requests: []contract.DeviceRequest{{Type: "NVME"}}})
	})
	e.run(nil)
	requireRefused(t, bound, device.CodeRefused, "claim is not possible")
	require.Equal(t, maxRounds, e.count(contract.ActivityClaimDevices))
	require.Empty(t, e.held(guest))
}

// If one burn fails, the devices that are bound are unbound and cleaned; the one that
// failed cleans itself.
func TestBindThatFailsToBurnUnbindsWhatItBound(t *testing.T) {
	t.Parallel()
	for n, failing := range []string{"h1_a", "h1_b", "h1_c"} {
		e := newEnv(t)
		e.add("h1", "NVME", "h1_a", "h1_b", "h1_c")
		e.find(failing).failBurns = true
		var bound *answer
		e.then(func() { bound = e.bind("u1", "h1_a", "h1_b", "h1_c") })
		e.run(nil)
		requireRefused(t, bound, device.CodeRefused, failing+": the burn failed")
		require.Empty(t, e.held(guest), "case %d", n)
		require.Equal(t, []string{"h1_a", "h1_b", "h1_c"}, e.cleaned(), "case %d", n)
		require.Contains(t, e.status().LastError, "the burn failed")
	}
}

// A burn that gives no answer is asked again until it does: it is never rolled back blindly.
func TestBurnWithoutAnswerIsAskedAgain(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	e.add("h1", "NVME", "h1_a", "h1_b")
	burns := 0
	e.fails = func(activity string) error {
		if activity != contract.ActivityBurnDevices {
			return nil
		}
		switch burns++; burns {
		case 1:
			return errors.New("the connection was lost") // retried by the server
		case 2:
			return temporal.NewNonRetryableApplicationError("no answer", "defect", nil)
		}
		return nil
	}
	var bound *answer
	e.then(func() { bound = e.bind("u1", "h1_a", "h1_b") })
	e.step += time.Minute
	e.then(func() {
		require.NoError(t, bound.err)
		require.Equal(t, []string{"h1_a", "h1_b"}, e.held(guest))
		e.release()
	})
	e.run(nil)
	require.Equal(t, 3, burns)
	require.Equal(t, 1, e.count(contract.ActivityUnbindDevices), "only the release unbinds")
}

// Claims that give no answer are given up: they end by themselves.
func TestClaimWithoutAnswerIsGivenUp(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	e.add("h1", "NVME", "h1_a")
	e.fails = func(activity string) error {
		if activity == contract.ActivityClaimDevices {
			return errors.New("no answer")
		}
		return nil
	}
	var bound *answer
	e.then(func() { bound = e.bind("u1", "h1_a") })
	e.run(nil)
	require.Error(t, bound.err)
	require.Empty(t, e.held(guest))
	require.Empty(t, e.cleaned())
	require.Equal(t, 1, e.count(contract.ActivityUnclaimDevices))
}

// Claims that were granted too late for the burns are given back, and nothing is cleaned.
func TestClaimsThatCameTooLateAreNotBurned(t *testing.T) {
	t.Parallel()
	w := newDirect()
	w.add("h1", "NVME", "h1_a")
	w.onAsk = func(activity string, _ []string) {
		if activity == contract.ActivityClaimDevices {
			w.clock = w.clock.Add(claimFor - burnWithin + time.Second)
		}
	}
	w.now = func() time.Time { return w.clock.Add(-claimFor) } // the device's clock is behind
	_, err := bindAct.carryOut(w.instance, contract.InstanceBindInput{Devices: choices("h1_a")}, "u1")
	require.ErrorContains(t, err, "too late")
	require.Zero(t, w.count(contract.ActivityBurnDevices))
	require.Nil(t, w.find("h1_a").Claim)
}

// A bind of the same devices and tags is granted already; one of others is refused.
func TestBindAgain(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	e.add("h1", "NVME", "h1_a", "h1_b", "h1_c")
	var same, sameRequest, more, tags, requested *answer
	e.then(func() {
		e.update("u1", contract.VerbInstanceBind.Update(),
			contract.InstanceBindInput{Request: "r1", Devices: choices("h1_a x", "h1_b")})
	})
	e.then(func() {
		same = e.bind("u2", "h1_b", "h1_a x")
		sameRequest = e.update("u3", contract.VerbInstanceBind.Update(),
			contract.InstanceBindInput{Request: "r1", Requests: []contract.DeviceRequest{{Type: "NVME"}}})
		more = e.bind("u4", "h1_a x", "h1_b", "h1_c")
		tags = e.bind("u5", "h1_a", "h1_b")
		requested = e.update("u6", contract.VerbInstanceBind.Update(),
			contract.InstanceBindInput{Requests: []contract.DeviceRequest{{Type: "NVME"}}})
	})
	e.then(func() {
		require.NoError(t, same.err)
		require.True(t, same.Already)
		require.NoError(t, sameRequest.err)
		require.True(t, sameRequest.Already)
		for _, a := range []*answer{more, tags, requested} {
			requireRefused(t, a, device.CodeConflict, "other devices or tags")
		}
		require.Equal(t, 1, e.count(contract.ActivityClaimDevices))
		require.Equal(t, []string{"h1_a", "h1_b"}, e.held(guest))
		e.release()
	})
	e.run(nil)
}

// An instance is bound already if its devices say so, with one question for all of them: not by what it remembers. A
// first bind asks no device more. That no device has answered is no such answer either.
//
// F36
func TestBoundAlreadyIsWhatTheDevicesSay(t *testing.T) {
	t.Parallel()
	bind, attach := contract.VerbInstanceBind.Update(), contract.VerbInstanceAttach.Update()
	type in = contract.InstanceBindInput
	acts := map[string]struct {
		verb string
		in   in
	}{
		"the same request":         {bind, in{Request: "r1", Devices: choices("h1_a db", "h1_b")}},
		"its attach":               {attach, in{Request: "r1", Devices: choices("h1_a db", "h1_b")}},
		"the same devices":         {bind, in{Request: "r2", Devices: choices("h1_b", "h1_a db")}},
		"a device that it has":     {attach, in{Request: "r2", Devices: choices("h1_a")}},
		"the bind of that device":  {attach, in{Request: "r1", Devices: choices("h1_a db"), OfDevice: true}},
		"the request of any disks": {bind, in{Request: "r1", Requests: []contract.DeviceRequest{{Type: "NVME", Count: 2}}}},
	}
	for name, act := range acts {
		for state, c := range map[string]struct {
			happens func(*env)
			code    device.Code
			message string
			left    int // of the devices that the instance is bound to
		}{
			"bound": {func(*env) {}, "", "", 2},
			"ended": {func(e *env) { e.ends("h1_a") }, device.CodeBindingEnded, "h1_a: the binding", 1},
			"taken": {func(e *env) { e.take("h1_a") }, device.CodeBindingEnded, "h1_a: the binding", 1},
			"claimed for it once more": {func(e *env) {
				e.ends("h1_a")
				e.find("h1_a").Device.State = device.Available
				e.find("h1_a").Claim = &device.Claim{Instance: guest, Request: "r3", Deadline: e.now().Add(time.Hour)}
			}, device.CodeBindingEnded, "h1_a: the binding", 1},
			"without a workflow": {func(e *env) { e.find("h1_a").info.Name = "gone" }, device.CodeNotFound, "may come back", 2},
			"no answer": {func(e *env) {
				e.fails = func(activity string) error {
					if activity == contract.ActivityConfirmDevices {
						return errors.New("no answer")
					}
					return nil
				}
			}, device.CodeInternal, "", 2},
		} {
			t.Run(name+", "+state, func(t *testing.T) {
				t.Parallel()
				e := newEnv(t)
				e.add("h1", "NVME", "h1_a", "h1_b", "h1_c")
				var first, again *answer
				e.then(func() {
					first = e.update("u1", bind, in{Request: "r1", Devices: choices("h1_a db", "h1_b")})
				})
				e.then(func() {
					require.NoError(t, first.err)
					require.Equal(t, []string{contract.ActivityClaimDevices + " [h1_a h1_b]",
						contract.ActivityBurnDevices + " [h1_a h1_b]"}, e.asked)
					c.happens(e)
					again = e.update("u2", act.verb, act.in)
				})
				e.step += time.Hour
				e.then(func() {
					require.True(t, again.done)
					switch {
					case c.code == "":
						require.NoError(t, again.err)
						require.True(t, again.Already)
						require.Equal(t, 1, e.count(contract.ActivityConfirmDevices))
					case c.message == "":
						require.Error(t, again.err)
					default:
						requireRefused(t, again, c.code, c.message)
					}
					require.Equal(t, 1, e.count(contract.ActivityClaimDevices))
					require.Equal(t, 1, e.count(contract.ActivityBurnDevices))
					require.Len(t, e.held(guest), c.left)
					e.fails = nil
					e.release()
				})
				e.run(nil)
			})
		}
	}
}

// The answer to a request is known by its ID in a later run. Whoever repeats it goes on with the devices that the
// instance has by it: they are asked before it is given again.
//
// F36
func TestWhatIsRepeatedInALaterRunIsAskedOfItsDevices(t *testing.T) {
	t.Parallel()
	in := contract.InstanceBindInput{Devices: choices("h1_a", "h1_b")}
	to, none := contract.InstanceMoveInput{To: "h2"}, contract.ReasonInput{}
	does := func(_ bool, err error) error { return err }
	moves := func(i *instance) error { return does(migrateAct.carryOut(i, to, "u2")) }
	for _, c := range []struct {
		verb contract.Verb
		in   any
		id   string
		do   func(*instance) error // after the bind u1
		asks []string
	}{
		{contract.VerbInstanceBind, in, "u1", nil, []string{"h1_a", "h1_b"}},
		{contract.VerbInstanceAttach, in, "u1", nil, []string{"h1_a", "h1_b"}},
		{contract.VerbInstanceRebuild, none, "u2", func(i *instance) error {
			return does(rebuildAct.carryOut(i, none, "u2"))
		}, []string{"h1_a", "h1_b"}},
		{contract.VerbInstanceMigrate, to, "u2", moves, []string{"h2_a", "h2_b"}},
		{contract.VerbInstanceLiveMigrate, to, "u2", moves, []string{"h2_a", "h2_b"}},
		{contract.VerbInstanceEvacuate, to, "u2", func(i *instance) error {
			return does(evacuateAct.carryOut(i, to, "u2"))
		}, []string{"h2_a", "h2_b"}},
		{contract.VerbInstanceConfirm, none, "u3", func(i *instance) error {
			return errors.Join(moves(i), does(confirmAct.carryOut(i, none, "u3")))
		}, []string{"h2_a", "h2_b"}},
		{contract.VerbInstanceRevert, none, "u3", func(i *instance) error {
			return errors.Join(moves(i), does(revertAct.carryOut(i, none, "u3")))
		}, []string{"h1_a", "h1_b"}},
	} {
		for _, ended := range []bool{false, true} {
			w := newDirect()
			w.add("h1", "NVME", "h1_a", "h1_b")
			w.add("h2", "NVME", "h2_a", "h2_b")
			_, err := bindAct.carryOut(w.instance, in, "u1")
			require.NoError(t, err)
			if c.do != nil {
				require.NoError(t, c.do(w.instance))
			}
			w.log().Record(c.id, nil)
			e := newEnv(t)
			e.fleet.devices = w.fleet.devices
			if ended {
				e.ends(c.asks[0])
			}
			var again *answer
			e.then(func() { again = e.update(c.id, c.verb.Update(), c.in) })
			e.then(func() {
				if ended {
					requireRefused(t, again, device.CodeBindingEnded, c.asks[0]+": the binding")
				} else {
					require.NoError(t, again.err)
					require.True(t, again.Already)
				}
				require.Equal(t, []string{fmt.Sprint(contract.ActivityConfirmDevices, " ", c.asks)}, e.asked, c.verb.Name)
				require.Empty(t, e.status().Acts, "what changed nothing is no act")
				e.release()
			})
			e.run(w.InstanceState)
		}
	}
}

// A device whose bind is not recorded says by its instance's name alone whether it is bound to it.
//
// F36
func TestADeviceWithoutARequestIsAskedToo(t *testing.T) {
	t.Parallel()
	w := newDirect()
	w.add("h1", "NVME", "h1_a")
	in := contract.InstanceBindInput{Devices: choices("h1_a")}
	_, err := bindAct.carryOut(w.instance, in, "u1")
	require.NoError(t, err)
	w.Devices[0].Request = ""
	already, err := attachAct.carryOut(w.instance, in, "u2")
	require.NoError(t, err)
	require.True(t, already)
	w.ends("h1_a")
	_, err = attachAct.carryOut(w.instance, in, "u3")
	require.ErrorContains(t, err, "has ended")
}

// S1.3, S1.4: of two attaches with the same tag at once exactly one is granted; a disk and a
// NIC may have the same tag.
func TestTagIsUniqueAlsoAtOnce(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	e.add("h1", "NVME", "h1_a", "h1_b", "h1_c")
	e.add("h1", "DISK", "h1_d")
	e.add("h1", "NIC", "h1_n")
	var first, second, disk, nic, both *answer
	e.then(func() { e.bind("u1", "h1_a") })
	e.then(func() {
		first, second = e.attach("u2", "h1_b db"), e.attach("u3", "h1_c db")
		disk, nic = e.attach("u4", "h1_d db"), e.attach("u5", "h1_n db")
		both = e.attach("u6", "h1_c two", "h1_d two")
	})
	e.then(func() {
		require.NoError(t, first.err)
		requireRefused(t, second, device.CodeConflict, `tag "db"`)
		requireRefused(t, disk, device.CodeConflict, `tag "db"`)
		require.NoError(t, nic.err)
		requireRefused(t, both, device.CodeConflict, `tag "two"`)
		require.Equal(t, []string{"h1_a", "h1_b", "h1_n"}, e.held(guest))
		require.Equal(t, 3, e.count(contract.ActivityClaimDevices), "what is refused claims nothing")
		e.release()
	})
	e.run(nil)
}

// What can never be bound is refused when it arrives, and claims nothing.
//
// S1.10, S1.35
func TestRefusedOnArrival(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	e.add("h1", "NVME", "h1_a", "h1_b")
	e.add("h2", "NVME", "h2_a")
	long := strings.Repeat("ü", 61)
	var refused []*answer
	var messages []string
	refuse := func(message string, verb string, in any) {
		messages = append(messages, message)
		refused = append(refused, e.update("r"+string(rune('a'+len(refused))), verb, in))
	}
	e.then(func() { e.bind("u1", "h1_a") })
	e.then(func() {
		attach := contract.VerbInstanceAttach.Update()
		refuse("61 characters", attach,
			contract.InstanceBindInput{Devices: []contract.DeviceChoice{{Name: "h1_b", Tag: long}}})
		refuse("comma or a slash", attach, contract.InstanceBindInput{Devices: choices("h1_b a,b")})
		refuse("named twice", attach, contract.InstanceBindInput{Devices: choices("h1_b", "h1_b")})
		refuse("bus \"isa\"", attach,
			contract.InstanceBindInput{
				Devices: []contract.DeviceChoice{{Name: "h1_b", Guest: []contract.GuestAddress{{Bus: "isa"}}}}})
		refuse("no device", attach, contract.InstanceBindInput{})
		refuse("with bind only", attach, contract.InstanceBindInput{Devices: choices("h1_b"), Project: "p"})
		refuse("not migrating", contract.VerbInstanceConfirm.Update(), contract.ReasonInput{})
		refuse("not migrating", contract.VerbInstanceRevert.Update(), contract.ReasonInput{})
		refuse("on h1 already", contract.VerbInstanceMigrate.Update(), contract.InstanceMoveInput{To: "h1"})
		refuse("2 devices are named", contract.VerbInstanceMigrate.Update(),
			contract.InstanceMoveInput{To: "h2", Devices: choices("h2_a", "h2_b")})
		refuse("longer than", attach,
			contract.InstanceBindInput{Reason: strings.Repeat("x", maxInput), Devices: choices("h1_b")})
	})
	var elsewhere, unknown *answer
	e.then(func() { elsewhere, unknown = e.attach("u2", "h2_a"), e.attach("u3", "h9_x") })
	e.then(func() {
		for n, a := range refused {
			require.False(t, a.accepted, messages[n])
			refusal, ok := contract.RefusalOf(a.err)
			require.True(t, ok, messages[n])
			require.Contains(t, refusal.Fault.Message, messages[n])
		}
		requireRefused(t, elsewhere, device.CodeRefused, "h2_a is on host h2")
		requireRefused(t, unknown, device.CodeNotFound, "h9_x")
		require.Equal(t, 1, e.count(contract.ActivityClaimDevices))
		e.release()
	})
	e.run(nil)
}

// A run whose first act was refused when it arrived ends by itself.
func TestRunWithoutAnActEnds(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	var bound *answer
	e.then(func() { bound = e.bind("u1", "h1_a a,b") })
	e.run(nil)
	require.Error(t, bound.err)
	require.NoError(t, e.GetWorkflowError())
	require.Equal(t, contract.InstanceReleased, e.status().Phase)
}

// An attach of a device that the instance has records where the guest finds it now.
func TestAttachRecordsTheGuestsAddress(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	e.add("h1", "NVME", "h1_a")
	at := []contract.GuestAddress{{Bus: "pci", Address: "0000:00:05.0"}}
	in := contract.InstanceBindInput{Devices: []contract.DeviceChoice{{Name: "h1_a", Guest: at}}}
	var first, again, tagged *answer
	e.then(func() { e.bind("u1", "h1_a db") })
	e.then(func() { first = e.update("u2", contract.VerbInstanceAttach.Update(), in) })
	e.then(func() {
		again, tagged = e.update("u3", contract.VerbInstanceAttach.Update(), in), e.attach("u4", "h1_a web")
	})
	e.then(func() {
		require.NoError(t, first.err)
		require.False(t, first.Already)
		require.True(t, again.Already)
		requireRefused(t, tagged, device.CodeConflict, "another tag")
		d := e.status().Devices[0]
		require.Equal(t, at, d.Guest)
		require.Equal(t, "db", d.Tag)
		require.Equal(t, 1, e.count(contract.ActivityClaimDevices))
		acts := e.status().Acts
		require.False(t, slices.ContainsFunc(acts, func(a contract.Act) bool { return a.Request == "u3" }),
			"what changed nothing is no act")
		e.release()
	})
	e.run(nil)
}

// A request that was granted binds nothing more when it is repeated, also when its devices have
// left in the meantime; one that was refused may be sent again.
func TestRequestIsGrantedOnce(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	e.add("h1", "NVME", "h1_a", "h1_b", "h1_c")
	attach := func(id string, count int) *answer {
		return e.update(id, contract.VerbInstanceAttach.Update(),
			contract.InstanceBindInput{Request: "r1", Requests: []contract.DeviceRequest{{Type: "NVME", Count: count}}})
	}
	var refused, granted, repeated *answer
	e.then(func() { e.bind("u1", "h1_a") })
	e.then(func() { refused = attach("u2", 5) })
	e.then(func() { granted = attach("u3", 1) })
	e.then(func() {
		e.update("u4", contract.VerbInstanceDetach.Update(), contract.InstanceDetachInput{Devices: []string{"h1_b"}})
	})
	e.then(func() { repeated = attach("u5", 1) })
	e.then(func() {
		requireRefused(t, refused, device.CodeConflict, "too few")
		require.False(t, granted.Already)
		require.NoError(t, repeated.err)
		require.True(t, repeated.Already)
		require.Equal(t, []string{"h1_a"}, e.held(guest))
		e.release()
	})
	e.run(nil)
}

// A granted request is known after more updates than an instance keeps.
//
// F41
func TestGrantedRequestIsKnownAfterManyUpdates(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	e.add("h1", "NVME", "h1_a", "h1_b")
	attach := func(id, request string) *answer {
		return e.update(id, contract.VerbInstanceAttach.Update(),
			contract.InstanceBindInput{Request: request, Requests: []contract.DeviceRequest{{Type: "NVME", Count: 1}}})
	}
	var repeated *answer
	e.then(func() { attach("u1", "r1") })
	for n := range contract.KeptUpdates + 5 {
		e.then(func() {
			e.update(fmt.Sprint("other ", n), contract.VerbInstanceRebuild.Update(), contract.ReasonInput{})
		})
	}
	e.then(func() { repeated = attach("u2", "r1") })
	e.then(func() {
		require.NoError(t, repeated.err)
		require.True(t, repeated.Already)
		require.Len(t, e.held(guest), 1)
		e.release()
	})
	e.run(nil)
}
