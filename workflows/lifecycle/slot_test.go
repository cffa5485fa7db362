package lifecycle_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"burnish/internal/clean"
	"burnish/internal/device"
	"burnish/workflows/contract"
)

// fakeLimits is the workflow of the limits: it records what it gets, and answers what the
// test says.
type fakeLimits struct {
	requests []contract.SlotRequest
	reports  []contract.SlotReport
	gone     bool // no such workflow runs
	got      func(signal string)
}

func (l *fakeLimits) signal(name string, in any) error {
	if l.gone {
		return errors.New("no such workflow")
	}
	switch in := in.(type) {
	case contract.SlotRequest:
		l.requests = append(l.requests, in)
	case contract.SlotReport:
		l.reports = append(l.reports, in)
	default:
		return errors.New("neither a request nor a report")
	}
	if l.got != nil {
		l.got(name)
	}
	return nil
}

func limited(limits device.Limits) clean.Policy {
	p := standardPolicy()
	p.Limits = &limits
	return p
}

// grantAtOnce answers each request with a slot.
func (w *deviceEnv) grantAtOnce() {
	w.limits.got = func(signal string) {
		if signal == contract.SignalSlotRequest {
			w.answer(contract.SlotAnswer{Granted: true})
		}
	}
}

// answer answers the last request.
func (w *deviceEnv) answer(a contract.SlotAnswer) {
	if a.Clean == "" && !a.Again {
		a.Clean = w.limits.requests[len(w.limits.requests)-1].Clean
	}
	w.signal(contract.SignalObserved, contract.Hint{Slot: &a})
}

func queued(message string) contract.SlotAnswer {
	return contract.SlotAnswer{Why: &device.Fault{Class: device.Transient, Code: device.CodeWaitingForSlot,
		Message: message, Remedy: "wait"}}
}

// newQueued is a device whose clean waits for a slot.
func newQueued(t *testing.T, limits device.Limits) *deviceEnv {
	w := newDeviceEnv(t, limited(limits))
	w.grantAtOnce()
	w.makeBound("i1")
	w.limits = fakeLimits{}
	ok[contract.Result](w.unbind("i1"))
	w.until("a request", func() bool { return len(w.limits.requests) == 1 })
	return w
}

func TestWithoutLimitsNothingIsAsked(t *testing.T) {
	w := newBound(t)
	w.turnOver("i1")
	require.Empty(t, w.limits.requests)
	require.Empty(t, w.limits.reports)
}

// A clean keeps its slot over all its steps: it asks once, before the first, when the device
// is reserved, and gives it back once, after the last.
//
// S3.38
func TestACleanKeepsItsSlotOverAllItsSteps(t *testing.T) {
	w := newDeviceEnv(t, limited(device.Limits{ConcurrentCleans: 1}))
	w.grantAtOnce()
	w.makeBound("i1")
	w.limits.requests, w.limits.reports = nil, nil
	grant := w.limits.got
	steps := func() int {
		return len(slices.DeleteFunc(slices.Clone(w.host.inputs), func(in contract.StepInput) bool { return in.Number < 2 }))
	}
	w.limits.got = func(signal string) {
		if signal == contract.SignalSlotRequest && (w.inventory.Reserved != 1 || steps() != 0) {
			w.Errorf("asked before the device was reserved, or after a step")
		}
		if signal == contract.SignalSlotReport && steps() != 2 {
			w.Errorf("given back after %d steps of 2", steps())
		}
		grant(signal)
	}
	ok[contract.Result](w.unbind("i1"))
	w.returned()
	require.Len(t, w.limits.requests, 1)
	require.Len(t, w.limits.reports, 1)
	in, out := w.limits.requests[0], w.limits.reports[0]
	require.Equal(t, "d1 h1 M1", in.Device+" "+in.Host+" "+in.Model)
	require.Equal(t, []string{"zero", "verify"}, in.Steps)
	require.Equal(t, contract.SlotReport{Device: "d1", Clean: in.Clean, Done: in.Steps, Over: true}, out)
	w.requireNoWait()
}

// A device that waits is burned, says why, and costs nothing: a day without an activity. A tenant
// who binds and releases quickly waits for it.
//
// S3.46, F29
func TestADeviceThatWaitsForASlotShowsWhy(t *testing.T) {
	w := newQueued(t, device.Limits{ConcurrentCleans: 1})
	done, upserts := len(w.scheduledActivities), w.upserts
	w.answer(queued("queued for a slot (3rd in line): 1 of 1 cleans run"))
	w.pass(24 * time.Hour)
	v := w.requireWait(device.CodeWaitingForSlot, false)
	require.Equal(t, "queued for a slot (3rd in line): 1 of 1 cleans run", v.Waiting.Message)
	require.Equal(t, device.PendingCleaning, v.DeviceState)
	require.Equal(t, 1, w.inventory.Reserved)
	w.bind("i1", "again").refused(device.CodeRefused)
	require.Len(t, w.scheduledActivities, done, "neither an activity nor a try")
	require.Equal(t, upserts+1, w.upserts)

	stalled := queued("queued for a slot (1st in line): 1 of 1 cleans run")
	stalled.Stalled = true
	w.answer(stalled)
	w.pass(time.Second)
	w.requireWait(device.CodeWaitingForSlot, true)
	w.answer(queued("queued for a slot (1st in line): 1 of 1 cleans run"))
	w.pass(time.Second)
	w.requireWait(device.CodeWaitingForSlot, false)

	w.answer(contract.SlotAnswer{Granted: true})
	w.reach(device.Available)
	w.requireNoWait()
}

// Until the first answer a query shows what the device waits for.
func TestADeviceWithoutAnAnswerShowsIt(t *testing.T) {
	w := newQueued(t, device.Limits{})
	w.pass(time.Minute)
	require.Contains(t, w.requireWait(device.CodeWaitingForSlot, false).Waiting.Message,
		"the workflow limits has not answered yet")
	w.answer(contract.SlotAnswer{Granted: true})
	w.reach(device.Available)
	w.requireNoWait()
}

// Whatever ends a clean gives its slot back, or its place in the queue.
func TestWhateverEndsACleanGivesItsSlotBack(t *testing.T) {
	for name, tt := range map[string]struct {
		do     func(*deviceEnv)
		ends   device.State
		failed string
	}{
		"an abort in the queue": {func(w *deviceEnv) { ok[contract.Result](w.ask(contract.VerbAbort.Update())) }, device.Error, ""},
		"retired in the queue":  {func(w *deviceEnv) { ok[contract.Result](w.ask(contract.VerbRetire.Update())) }, device.Retired, ""},
		"a cancel in the queue": {func(w *deviceEnv) { w.cancel() }, device.Error, ""},
		"its host is ahead": {func(w *deviceEnv) {
			w.signal(contract.SignalObserved, w.hintFromNewerHost(func(r *contract.HostDeviceRecord) { r.Seq += 9 }))
			w.until("given back", func() bool { return len(w.limits.reports) > 0 })
			w.limits.reports = w.limits.reports[:1]
			w.grantAtOnce()
		}, "", ""},
		"an abort in a step": {func(w *deviceEnv) {
			w.answer(contract.SlotAnswer{Granted: true})
			w.stepRuns("zero")
			ok[contract.Result](w.ask(contract.VerbAbort.Update()))
		}, device.Error, ""},
		"a step that fails": {func(w *deviceEnv) {
			w.failStep("verify", 1, device.CodeVerifyFailed)
			w.answer(contract.SlotAnswer{Granted: true})
		}, device.Error, "verify"},
		"an unreachable host, then an abort": {func(w *deviceEnv) {
			w.host.up = false
			w.answer(contract.SlotAnswer{Granted: true})
			w.pass(time.Hour)
			ok[contract.Result](w.ask(contract.VerbAbort.Update()))
		}, device.Error, ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := newQueued(t, device.Limits{ConcurrentCleans: 1, Breaker: 1})
			clean := w.limits.requests[0].Clean
			at := w.clock()
			tt.do(w)
			if tt.ends != "" {
				w.reach(tt.ends)
			}
			w.until("a report", func() bool { return len(w.limits.reports) == 1 })
			if name == "an abort in the queue" {
				require.Less(t, w.clock().Sub(at), time.Second, "it works at once")
				require.Equal(t, string(device.CodeAborted), w.view().Fault)
			}
			require.Equal(t, clean, w.limits.reports[0].Clean)
			require.True(t, w.limits.reports[0].Over)
			require.Equal(t, tt.failed, w.limits.reports[0].Failed)
		})
	}
}

// A clean that has its slot does not begin a step that failed on others of its model.
func TestTheBreakerHolds(t *testing.T) {
	w := newQueued(t, device.Limits{Breaker: 3})
	w.answer(contract.SlotAnswer{Granted: true})
	w.stepRuns("zero")
	why := &device.Fault{Class: device.Transient, Code: device.CodeBreakerOpen, Message: "verify failed 3 times in a row",
		Remedy: "resume"}
	w.answer(contract.SlotAnswer{Granted: true, Hold: []string{"verify"}, Why: why})
	w.pass(24 * time.Hour)
	v := w.requireWait(device.CodeBreakerOpen, false)
	require.Equal(t, device.Cleaning, v.DeviceState)
	require.Equal(t, "zero", w.host.inputs[len(w.host.inputs)-1].Step)
	require.Empty(t, w.limits.reports, "it keeps its slot")
	w.answer(contract.SlotAnswer{Granted: true})
	w.reach(device.Available)
	w.requireNoWait()

	// An abort ends that wait, too.
	w.makeBound("i2")
	ok[contract.Result](w.unbind("i2"))
	w.until("a request", func() bool { return len(w.limits.requests) == 2 })
	w.answer(contract.SlotAnswer{Granted: true, Hold: []string{"zero"}, Why: why})
	w.pass(time.Minute)
	ok[contract.Result](w.ask(contract.VerbAbort.Update()))
	w.reach(device.Error)
}

// The workflow of the limits does not run: a control worker starts it with the request.
func TestARequestStartsTheLimits(t *testing.T) {
	w := newDeviceEnv(t, limited(device.Limits{ConcurrentCleans: 1}))
	w.limits.gone = true
	w.grantAtOnce()
	w.makeAvailable()
	require.Contains(t, w.scheduledActivities, contract.ActivityRequestSlot)
	require.Len(t, w.limits.requests, 1)
}

// After a loss of the queue a device asks once more, and says whether it has its slot.
func TestAfterALossADeviceAsksOnceMore(t *testing.T) {
	w := newQueued(t, device.Limits{ConcurrentCleans: 1})
	again := contract.SlotAnswer{Again: true}
	w.answer(again)
	w.until("another request", func() bool { return len(w.limits.requests) == 2 })
	require.Equal(t, w.limits.requests[0], w.limits.requests[1])
	w.answer(contract.SlotAnswer{Granted: true})
	w.stepRuns("verify")
	w.answer(again)
	w.until("another request", func() bool { return len(w.limits.requests) == 3 })
	require.True(t, w.limits.requests[2].Granted)
	require.Equal(t, w.limits.requests[0].Clean, w.limits.requests[2].Clean)
	w.returned()
	w.answer(again)
	w.pass(time.Minute)
	require.Len(t, w.limits.requests, 3, "who needs no slot asks for none")
	// A slot that it does not want is given back.
	reports := len(w.limits.reports)
	w.answer(contract.SlotAnswer{Clean: "an older one", Granted: true})
	w.until("a report", func() bool { return len(w.limits.reports) > reports })
	require.Equal(t, contract.SlotReport{Device: "d1", Clean: "an older one", Over: true}, w.limits.reports[reports])
}

// The first device of a model that gets new firmware reports as soon as it is verified.
func TestTheFirstDeviceReportsItsFirmware(t *testing.T) {
	p := limited(device.Limits{Canary: true})
	p.Firmware = []clean.FirmwarePolicy{
		{FirmwareImage: clean.FirmwareImage{Component: "BIOS", From: []string{"1"}, To: "2", SHA256: "0123456789abcdef0123"}}}
	w := newDeviceEnv(t, p)
	w.host.discovery.SupportedSteps = []string{"firmware_reflash", "verify_firmware", "bios_reset"}
	for _, step := range w.host.discovery.SupportedSteps {
		w.host.steps[step] = 1
	}
	reportsAt := map[string]string{}
	w.limits.got = func(signal string) {
		if signal == contract.SignalSlotRequest {
			w.answer(contract.SlotAnswer{Granted: true, Canary: w.limits.requests[0].Firmware})
		} else {
			last := w.limits.reports[len(w.limits.reports)-1]
			reportsAt[w.host.inputs[len(w.host.inputs)-1].Step] = last.Clean
			if last.Over != (len(last.Done) == 5) {
				w.Errorf("%+v", last)
			}
		}
	}
	w.makeAvailable()
	require.Equal(t, []string{"BIOS 2 (SHA-256 0123456789abcdef)"}, w.limits.requests[0].Firmware)
	require.Equal(t, []string{"verify_firmware"}, w.limits.reports[0].Done)
	require.Len(t, w.limits.reports, 2)
	require.NotContains(t, reportsAt, "firmware_reflash")
}

// Taking an available device out of the offer waits until enough others are free. It stays
// free for tenants meanwhile.
func TestTakingADeviceOutWaitsForFreeCapacity(t *testing.T) {
	w := newDeviceEnv(t, limited(device.Limits{FreeCapacity: device.Capacity{Devices: 1}}))
	w.grantAtOnce()
	w.makeAvailable()
	w.limits = fakeLimits{}
	manage := w.ask(contract.VerbManage.Update())
	w.until("a request", func() bool { return len(w.limits.requests) == 1 })
	require.True(t, w.limits.requests[0].TakesCapacity)
	w.answer(contract.SlotAnswer{Why: &device.Fault{Class: device.Transient, Code: device.CodeFreeCapacity,
		Message: "1 devices are free, and 1 must stay free", Remedy: "wait"}})
	w.pass(time.Hour)
	w.requireWait(device.CodeFreeCapacity, false)
	require.Equal(t, device.Available, w.view().DeviceState)
	require.Zero(t, w.inventory.Reserved)
	w.ask(contract.VerbManage.Update()).refused(device.CodeRefused)
	w.answer(contract.SlotAnswer{Granted: true})
	ok[contract.Result](manage)
	require.Equal(t, device.Manageable, w.view().DeviceState)
	w.until("a report", func() bool { return len(w.limits.reports) == 1 })
	require.True(t, w.limits.reports[0].Withdrawn)
	w.requireNoWait()

	// A tenant may get it meanwhile, or the operator may think again.
	for _, end := range []func(){
		func() { ok[contract.Result](w.bind("i1", "r1")) },
		func() { ok[contract.Result](w.ask(contract.VerbAbort.Update())) },
	} {
		if w.view().DeviceState == device.Manageable {
			ok[contract.Result](w.ask(contract.VerbProvide.Update()))
		} else {
			w.host.writeAsTenant("i1")
			w.grantAtOnce()
			ok[contract.Result](w.unbind("i1"))
		}
		w.returned()
		w.limits = fakeLimits{}
		manage := w.ask(contract.VerbManage.Update())
		w.until("a request", func() bool { return len(w.limits.requests) == 1 })
		end()
		manage.wait()
		require.Error(t, manage.err)
		require.NotEqual(t, device.Manageable, w.view().DeviceState)
		w.until("a report", func() bool { return len(w.limits.reports) == 1 })
		require.False(t, w.limits.reports[0].Withdrawn)
	}
	require.NotContains(t, w.view().LastRefusal, "defect")
}
