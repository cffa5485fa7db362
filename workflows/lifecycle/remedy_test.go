package lifecycle_test

import (
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

var update = flag.Bool("update", false, "write testdata/remedies.txt")

// situation is one state in which an operator may find a device.
type situation struct {
	name string
	lead func(*deviceEnv)
	// after lets what the remedies say is waited for come about.
	after func(*deviceEnv)
	shared,
	manual bool // automated cleaning is off
}

var situations = []situation{
	{name: "manageable", lead: func(w *deviceEnv) { ok[contract.Result](w.enroll(false)) }},
	{name: "manageable, on hold", lead: func(w *deviceEnv) { ok[contract.Result](w.enroll(false)); ok[contract.Result](w.maintain(false)) }},
	{name: "taken out of the offer", lead: func(w *deviceEnv) { w.makeAvailable(); ok[contract.Result](w.ask(contract.VerbManage.Update())) }},
	{name: "available", lead: (*deviceEnv).makeAvailable},
	{name: "claimed", lead: func(w *deviceEnv) { w.makeAvailable(); ok[contract.Result](w.claim("i1", 10*time.Minute)) }, after: func(w *deviceEnv) { w.pass(time.Hour) }},
	{name: "available, on hold", lead: func(w *deviceEnv) { w.makeAvailable(); ok[contract.Result](w.maintain(false)) }},
	{name: "offered without a clean", manual: true, lead: func(w *deviceEnv) {
		w.makeBound("i1")
		ok[contract.Result](w.unbind("i1"))
		require.True(w.t, w.reach(device.Available).NotSanitized)
	}},
	{name: "allocated", lead: func(w *deviceEnv) { w.makeBound("i1") }},
	{name: "allocated, on hold", lead: func(w *deviceEnv) { w.makeBound("i1"); ok[contract.Result](w.maintain(false)) }},
	{name: "pending_cleaning", lead: func(w *deviceEnv) {
		w.makeBound("i1")
		w.inventory.injectFault = func(string, bool) error { return lostAnswer() }
		ok[contract.Result](w.unbind("i1"))
	}, after: func(w *deviceEnv) { w.inventory.injectFault = nil }},
	{name: "pending_cleaning, automated cleaning off", manual: true, lead: func(w *deviceEnv) {
		w.oneTimeUse = true
		w.makeBound("i1")
		ok[contract.Result](w.unbind("i1"))
		w.until("the hold", func() bool { return w.view().Fault == string(device.CodeAutomatedCleanOff) })
	}},
	{name: "cleaning", lead: func(w *deviceEnv) { w.makeBound("i1"); ok[contract.Result](w.unbind("i1")); w.stepRuns("zero") }},
	{name: "cleaning, on hold for new tenants", lead: func(w *deviceEnv) {
		w.makeBound("i1")
		ok[contract.Result](w.maintain(false))
		ok[contract.Result](w.unbind("i1"))
		w.stepRuns("zero")
	}},
	{name: "cleaning by named steps", lead: func(w *deviceEnv) {
		ok[contract.Result](w.enroll(false))
		ok[contract.Result](w.cleanUp("zero", "verify"))
		w.stepRuns("zero")
	}},
	{name: "cleaning, held by its runbook", lead: func(w *deviceEnv) { w.makeRunbook(); ok[contract.Result](w.runbook("held")); w.onHold() }},
	{name: "cleaning, held by the runbook of its full clean", lead: func(w *deviceEnv) {
		w.setPolicy(withRunbook(standardPolicy(), "held", &clean.Match{Type: "NVME"}, holdStep, zeroStep, verifyStep))
		ok[contract.Result](w.enroll(true))
		w.onHold()
	}},
	{name: "being returned", lead: func(w *deviceEnv) {
		w.makeBound("i1")
		cleaned := false
		w.beforeCall = func(name string) {
			if name == contract.ActivityUnreserve {
				cleaned = true
				w.inventory.injectFault = func(string, bool) error { return lostAnswer() }
			}
		}
		ok[contract.Result](w.unbind("i1"))
		w.until("its return", func() bool { return cleaned })
		w.pass(time.Second)
	}, after: func(w *deviceEnv) { w.beforeCall, w.inventory.injectFault = nil, nil }},
	{name: "error", lead: (*deviceEnv).makeFailed},
	{name: "error, on hold", lead: func(w *deviceEnv) { w.makeFailed(); ok[contract.Result](w.maintain(false)) }},
	{name: "error, without an erase", lead: (*deviceEnv).makeUncleanable},
	{name: "error, quarantined", lead: func(w *deviceEnv) {
		w.makeBound("i1")
		w.host.injectFault = func(what string, _ int) error {
			if what == "zero" {
				return refuse(device.NeedsOperator, device.CodeWearLimitExceeded)
			}
			return nil
		}
		ok[contract.Result](w.unbind("i1"))
		w.reach(device.Error)
		w.host.injectFault = nil
	}},
	{name: "retired", lead: func(w *deviceEnv) { w.makeAvailable(); ok[contract.Result](w.ask(contract.VerbRetire.Update())) }},
	{name: "unknown, nothing records who has it", lead: func(w *deviceEnv) {
		w.makeAvailable()
		w.inventory.exists = false
		w.terminate()
		w.awaitNoRecord()
	}},
	{name: "unknown, the inventory is away", lead: func(w *deviceEnv) {
		w.makeAvailable()
		w.inventory.injectFault = func(string, bool) error { return lostAnswer() }
		w.terminate()
		w.pass(2 * time.Minute)
	}, after: func(w *deviceEnv) { w.inventory.injectFault = nil }},
	{name: "taken by another user of its pool", shared: true, lead: func(w *deviceEnv) {
		w.makeAvailable()
		require.True(w.t, w.pool.take())
		w.poll(contract.SignalTaken)
		w.reach(device.Manageable)
	}},
}

// ask is one command of an operator.
type ask struct {
	name string
	send func(*deviceEnv) *call
	// before makes the world such that the command has something to do.
	before func(*deviceEnv)
}

var asks = []ask{
	{name: "enroll elsewhere", send: func(w *deviceEnv) *call {
		e := w.enrollment()
		e.Host = "h2"
		return w.send(contract.VerbEnroll.Update(), "", contract.EnrollInput{Enrollment: e})
	}},
	{name: "provide", send: func(w *deviceEnv) *call { return w.ask(contract.VerbProvide.Update()) }},
	{name: "bind", send: func(w *deviceEnv) *call { return w.bind("i9", "r9") }},
	{name: "unbind", send: func(w *deviceEnv) *call { return w.unbind("i9") }},
	{name: "rebuild", send: func(w *deviceEnv) *call {
		return w.send(contract.VerbRebuild.Update(), "", contract.UnbindInput{Instance: "i9"})
	}},
	{name: "clean", send: func(w *deviceEnv) *call { return w.cleanUp() }},
	{name: "clean --steps", send: func(w *deviceEnv) *call { return w.cleanUp("zero") }},
	{name: "abort", send: func(w *deviceEnv) *call { return w.ask(contract.VerbAbort.Update()) }},
	{name: "release-hold", send: (*deviceEnv).releaseHold},
	{name: "manage", send: func(w *deviceEnv) *call { return w.ask(contract.VerbManage.Update()) }},
	{name: "maintain", send: func(w *deviceEnv) *call { return w.maintain(false) }},
	{name: "maintain --off", send: func(w *deviceEnv) *call { return w.maintain(true) }},
	{name: "retire", send: func(w *deviceEnv) *call { return w.ask(contract.VerbRetire.Update()) }},
	{name: "forget", send: func(w *deviceEnv) *call { return w.ask(contract.VerbForget.Update()) }},
	{name: "replace", send: func(w *deviceEnv) *call { return w.replace(contract.ReplaceInput{}) }, before: func(w *deviceEnv) { w.replaceHardware("S2") }},
	{name: "move", send: func(w *deviceEnv) *call { return w.move("d2") }},
	{name: "power", send: func(w *deviceEnv) *call { return w.setPower("on", "") }},
}

func (s situation) begin(t *testing.T) *deviceEnv {
	t.Helper()
	policy := standardPolicy()
	policy.Automated = !s.manual
	w := newDeviceEnv(t, policy)
	w.makePowered()
	if s.shared {
		w.share()
	}
	s.lead(w)
	return w
}

// way is one way in which a remedy can be followed: commands and waits, one after the other.
type way []string

var (
	// commands are written as behind "burnish": the verb, the device's name, flags and names.
	command = regexp.MustCompile(`\b([a-z-]+) d1((?: (?:--?[a-z]+|[A-Z]+|i\d|on|off|reset)\b)*)`)
	verbs   = []string{"provide", "bind", "unbind", "rebuild", "clean", "abort", "release-hold", "manage", "maintain",
		"retire", "forget", "replace", "move", "power", "show", "enroll", "steps", "history"}
)

// waysOf reads a remedy: "or" separates ways, "then" and commas what is done one after the other,
// and what follows "; then" belongs to each of the ways before it.
func waysOf(remedy string) []way {
	head, tail, _ := strings.Cut(remedy, "; then ")
	var ways []way
	for one := range strings.SplitSeq(head, ", or ") {
		w := partsOf(one)
		if tail != "" {
			w = append(w, partsOf(tail)...)
		}
		ways = append(ways, w)
	}
	return ways
}

func partsOf(text string) (w way) {
	for part := range strings.SplitSeq(strings.ReplaceAll(text, ", then ", ", "), ", ") {
		if found := command.FindString(part); found != "" {
			w = append(w, found)
		} else if strings.HasPrefix(part, "wait") {
			w = append(w, "wait")
		}
	}
	return w
}

// answered waits for the answer to a command. What the inventory's record of a past binding
// refuses is asked again as that refusal's own remedy says.
func (s situation) answered(w *deviceEnv, c *call) *call {
	w.until(c.verb+" accepted", func() bool { return c.accepted || c.done })
	if !c.done && s.after != nil {
		s.after(w)
	}
	c.wait()
	r, _ := contract.RefusalOf(c.err)
	if r.Fault.Code != device.CodeInUse || c.verb == contract.VerbPower.Update() {
		return c
	}
	ways := waysOf(r.Fault.Remedy)
	require.Len(w.t, ways, 1, r.Fault.Remedy)
	require.Contains(w.t, ways[0][0], c.verb+" d1", r.Fault.Remedy)
	require.Contains(w.t, ways[0][0], "--instance i1", r.Fault.Remedy)
	return s.follow(w, ways[0])
}

// follow does what the operator reads.
func (s situation) follow(w *deviceEnv, did way) (last *call) {
	for _, part := range did {
		if part == "wait" {
			if s.after != nil {
				s.after(w)
			}
			w.settled()
			continue
		}
		match := command.FindStringSubmatch(part)
		verb, flags := match[1], strings.Fields(match[2])
		require.Contains(w.t, verbs, verb, part)
		instance := ""
		if i := slices.Index(flags, "--instance"); i >= 0 {
			instance = flags[i+1]
		}
		in := contract.RetireInput{Reason: "R", Instance: instance}
		if verb == contract.VerbRetire.Update() {
			require.Contains(w.t, flags, "--reason", part)
		}
		switch verb {
		case "show":
			continue
		case contract.VerbUnbind.Update(), contract.VerbRebuild.Update():
			last = w.send(verb, "", contract.UnbindInput{Instance: instance})
		case contract.VerbPower.Update():
			last = w.setPower(flags[0], instance)
		case contract.VerbMove.Update():
			require.Equal(w.t, "NEW", flags[0], part)
			e := w.enrollment()
			e.Name = "d2"
			last = w.send(verb, "", contract.MoveInput{Enrollment: e, Instance: instance})
		case contract.VerbReplace.Update():
			last = w.replace(contract.ReplaceInput{Instance: instance})
		case contract.VerbMaintain.Update():
			require.Equal(w.t, []string{"--off"}, flags)
			last = w.maintain(true)
		case contract.VerbClean.Update():
			if slices.Contains(flags, "--steps") {
				last = w.cleanUp("zero")
			} else {
				last = w.cleanUp()
			}
		case "release-hold":
			last = w.releaseHold()
		default:
			last = w.send(verb, "", in)
		}
		last = s.answered(w, last)
		require.NoError(w.t, last.err, "the command %q of the remedy was refused: %s", part, w.describe())
		if w.live && verb != "forget" {
			if s.after != nil {
				s.after(w)
			}
			w.settled()
		}
	}
	return last
}

// holds says what became of the remedy's promise.
func (s situation) holds(w *deviceEnv, a ask, did way, last *call, remedy string) string {
	verb := strings.Fields(a.name)[0]
	v := w.view()
	switch {
	case strings.HasPrefix(remedy, "none is needed"), strings.Contains(remedy, "take another "),
		strings.HasSuffix(remedy, "at the hardware"):
		return ""
	case !w.live:
		return "" // forgotten: it can be enrolled again
	case last != nil && last.verb == verb:
		return "" // the command itself, as the remedy writes it
	case verb == "clean" && v.DeviceState != device.Error && !v.Dirty:
		return "" // it is clean
	case verb == "clean" && last != nil && last.verb == "release-hold":
		return "" // the clean went on
	case verb == "abort" || verb == "release-hold":
		if len(did) == 1 && did[0] == "show d1" {
			return "" // there is nothing to abort or to release
		}
	}
	if a.before != nil {
		a.before(w)
	}
	c := s.answered(w, a.send(w))
	switch r, _ := contract.RefusalOf(c.err); {
	case r.Fault.Code == device.CodeNoSuchStep:
		return "" // the state allows it now: a device without an erase has no step to name
	case v.DeviceState != device.Unknown && strings.HasPrefix(r.Fault.Remedy, "none is needed"):
		return "" // what was unknown is known: nobody has the device
	}
	if c.err != nil {
		return fmt.Sprintf("%s is still refused: %v", a.name, c.err)
	}
	return ""
}

// TestEveryRemedyWorks asks for everything in every situation, and follows each remedy of a
// refusal in each of its ways: afterwards the command is accepted, or the remedy has kept what it
// promised. The refusals are listed in testdata/remedies.txt, whose commands the command line's
// own tests parse.
func TestEveryRemedyWorks(t *testing.T) {
	began := time.Now()
	var lines []string
	refusals, followed := 0, 0
	for _, s := range situations {
		t.Run(s.name, func(t *testing.T) {
			w := s.begin(t)
			for _, a := range asks {
				c := a.send(w)
				w.until(a.name+" accepted", func() bool { return c.accepted || c.done })
				if !c.done {
					w.pass(time.Minute)
				}
				if c.accepted {
					w = s.begin(t) // it may have changed the device
				}
				if c.err == nil {
					continue
				}
				r, is := contract.RefusalOf(c.err)
				require.True(t, is, "%v", c.err)
				lines = append(lines, fmt.Sprintf("%s | %s | %s; %s", s.name, a.name, r.Fault.Message, r.Fault.Remedy))
				refusals++
				require.NotEmpty(t, r.Fault.Remedy, "%s: %s", a.name, r.Fault.Message)
				require.NotContains(t, r.Fault.Remedy, "\n")
				for _, did := range waysOf(r.Fault.Remedy) {
					if !t.Run(a.name+": "+strings.Join(did, ", "), func(t *testing.T) {
						followed++
						own := w
						if len(did) > 0 || a.before != nil {
							own = s.begin(t)
						}
						last := s.follow(own, did)
						require.Empty(t, s.holds(own, a, did, last, r.Fault.Remedy), "%s: %s", r.Fault.Message, r.Fault.Remedy)
					}) {
						t.Logf("%s: %s; %s", a.name, r.Fault.Message, r.Fault.Remedy)
					}
				}
			}
		})
	}
	t.Logf("%d situations, %d commands, %d refusals, %d ways followed in %s", len(situations), len(asks), refusals,
		followed, time.Since(began).Round(time.Millisecond))
	slices.Sort(lines)
	text := strings.Join(slices.Compact(lines), "\n") + "\n"
	const golden = "testdata/remedies.txt"
	if *update {
		require.NoError(t, os.WriteFile(golden, []byte(text), 0o644))
	}
	want, err := os.ReadFile(golden)
	require.NoError(t, err)
	require.True(t, string(want) == text, "the remedies have changed: go test ./workflows/lifecycle -run "+
		"TestEveryRemedyWorks -update writes %s again", golden)
}
