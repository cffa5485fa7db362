package limits

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"burnish/internal/device"
	"burnish/workflows/contract"
)

var start = time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)

// line is a queue with a clock.
type line struct {
	*testing.T
	queue
	now   time.Time
	ended map[string]bool
}

func newLine(t *testing.T, limits device.Limits) *line {
	l := &line{T: t, now: start, ended: map[string]bool{}}
	l.LimitsState = &contract.LimitsState{Found: true,
		LimitsChange: contract.LimitsChange{Limits: &limits, TellAfter: 5 * time.Minute}}
	return l
}

// pass settles the queue, and sends its answers.
func (l *line) pass() map[string]contract.SlotAnswer {
	l.Helper()
	answers := map[string]contract.SlotAnswer{}
	l.settle(l.now)
	for _, i := range slices.Clone(l.answers) {
		answers[l.Slots[i].Device] = l.answer(i)
	}
	l.settle(l.now)
	require.Empty(l, l.answers, "nothing is answered twice")
	return answers
}

func (l *line) ask(name string, with ...func(*contract.SlotRequest)) {
	r := contract.SlotRequest{Device: name, Clean: name + "/1", Host: "h1", Model: "M", Steps: []string{"zero", "verify"},
		Since: l.now}
	for _, change := range with {
		change(&r)
	}
	l.request(l.now, r)
}

func (l *line) end(name, failed string, done ...string) {
	l.queue.report(l.now, contract.SlotReport{Device: name, Clean: name + "/1", Done: done, Failed: failed,
		Fault: device.CodeIO, Over: true})
}

func (l *line) has(names ...string) {
	l.Helper()
	l.pass()
	have := []string{}
	for _, s := range l.Slots {
		if s.Granted {
			have = append(have, s.Device)
		}
	}
	require.Equal(l, append([]string{}, names...), have)
}

func on(host string) func(*contract.SlotRequest) {
	return func(r *contract.SlotRequest) { r.Host = host }
}

func flashing(firmware ...string) func(*contract.SlotRequest) {
	return func(r *contract.SlotRequest) {
		r.Firmware, r.Steps = firmware, []string{"zero", "verify", stepReflash, stepVerify}
	}
}

// S3.38
func TestRequestsOverTheLimitWaitInOrder(t *testing.T) {
	l := newLine(t, device.Limits{ConcurrentCleans: 2})
	for _, name := range []string{"d1", "d2", "d3", "d4"} {
		l.ask(name)
	}
	answers := l.pass()
	require.True(t, answers["d1"].Granted)
	require.True(t, answers["d2"].Granted)
	require.False(t, answers["d4"].Granted)
	require.Equal(t, "queued for a slot (2nd in line): 2 of 2 cleans run", answers["d4"].Why.Message)
	require.Equal(t, device.Transient, answers["d4"].Why.Class, "it waits without an operator")
	l.end("d2", "")
	l.has("d1", "d3")
	require.Equal(t, 1, l.status("d4", 9).Waiting[0].Place)
	l.end("d4", "") // aborted while it waits
	l.end("d1", "")
	l.has("d3")
	require.Empty(t, l.status("", 9).Waiting)
}

func TestOneHostDoesNotHoldUpAnother(t *testing.T) {
	l := newLine(t, device.Limits{PerHost: 1})
	l.ask("a1", on("a"))
	l.ask("a2", on("a"))
	l.ask("b1", on("b"))
	require.Contains(t, l.pass()["a2"].Why.Message, "1 of 1 cleans run on host a")
	l.has("a1", "b1")
	l.end("a1", "")
	l.has("a2", "b1")
}

func TestAChangedLimitTakesEffect(t *testing.T) {
	l := newLine(t, device.Limits{ConcurrentCleans: 1})
	l.ask("d1")
	l.ask("d2")
	l.ask("d3")
	l.has("d1")
	l.Limits = &device.Limits{ConcurrentCleans: 2}
	l.has("d1", "d2")
	l.Limits = nil
	l.has("d1", "d2", "d3")
}

// A device has one request at a time: a later clean ends the one before it, whose report may
// be lost.
func TestALaterCleanEndsTheEarlierRequest(t *testing.T) {
	l := newLine(t, device.Limits{ConcurrentCleans: 1})
	l.ask("d1")
	l.ask("d2")
	l.has("d1")
	l.ask("d1", func(r *contract.SlotRequest) { r.Clean = "d1/2" })
	l.has("d2")
	l.end("d1", "zero") // of the earlier clean, and out of date
	require.Len(t, l.Slots, 2)
	require.Empty(t, l.Breakers)
}

// After a loss of the queue, devices ask once more: those with a slot keep it, also over the
// limit, and the others keep their order.
func TestAfterALossTheOrderIsKept(t *testing.T) {
	l := newLine(t, device.Limits{ConcurrentCleans: 1})
	l.OpensAt = start.Add(openAfter)
	at := func(minutes int, granted bool) func(*contract.SlotRequest) {
		return func(r *contract.SlotRequest) {
			r.Since, r.Granted = start.Add(time.Duration(minutes)*time.Minute), granted
		}
	}
	l.ask("d3", at(-3, false))
	l.ask("d1", at(-5, false))
	l.ask("d2", at(-4, false))
	l.has()
	l.ask("d8", at(-9, true))
	l.ask("d9", at(-8, true))
	l.has("d8", "d9")
	l.OpensAt = time.Time{}
	l.has("d8", "d9")
	l.end("d8", "")
	l.has("d9")
	for i, name := range []string{"d9", "d1", "d2"} {
		l.end(name, "")
		l.has([]string{"d1", "d2", "d3"}[i])
	}
}

func TestTheBreakerHoldsTheOthersOfTheModel(t *testing.T) {
	l := newLine(t, device.Limits{ConcurrentCleans: 4, Breaker: 3})
	for _, name := range []string{"d1", "d2", "d3", "running"} {
		l.ask(name)
	}
	l.has("d1", "d2", "d3", "running")
	l.ask("d4")
	l.ask("other", func(r *contract.SlotRequest) { r.Model = "N" })
	l.ask("unconcerned", func(r *contract.SlotRequest) { r.Steps = []string{"verify"} })
	l.pass()
	l.end("d1", "zero")
	l.end("d2", "zero")
	require.Empty(t, l.alarms())
	l.end("d3", "zero")
	answers := l.pass()
	require.Equal(t, []string{"zero"}, answers["running"].Hold, "a clean that runs does not begin the step either")
	require.Equal(t, device.CodeBreakerOpen, answers["running"].Why.Code)
	require.Equal(t, device.Transient, answers["d4"].Why.Class)
	require.Contains(t, answers["d4"].Why.Message, "zero failed 3 times in a row on model M, at last on d3 (io_error)")
	l.has("running", "other", "unconcerned")
	alarms := l.alarms()
	require.Len(t, alarms, 1, "one alarm for all")
	require.Equal(t, device.NeedsOperator, alarms[0].Class)
	require.Equal(t, `remove the cause, then resume --model "M" --step zero`, alarms[0].Remedy)
	require.Equal(t, 2, alarms[0].Waiting)

	// A clean that still runs may succeed with the step: the breaker stays.
	l.end("running", "", "zero", "verify")
	l.has("other", "unconcerned")
	require.False(t, l.resume("M", "verify", contract.Act{}))
	require.True(t, l.resume("M", "zero", contract.Act{}))
	require.False(t, l.resume("M", "zero", contract.Act{}))
	l.has("d4", "other", "unconcerned")
	require.Empty(t, l.alarms())
}

func TestASuccessEndsTheRowOfFailures(t *testing.T) {
	l := newLine(t, device.Limits{Breaker: 2})
	for i, failed := range []string{"zero", "verify", "", "zero"} {
		name := fmt.Sprint("d", i)
		l.ask(name)
		l.pass()
		l.end(name, failed, map[string][]string{"zero": nil, "verify": {"zero"}, "": {"zero", "verify"}}[failed]...)
		require.Empty(t, l.alarms(), "after %s", name)
	}
	l.ask("d9")
	l.pass()
	l.end("d9", "zero")
	require.Len(t, l.alarms(), 1)
}

func TestNewFirmwareGoesToOneDeviceFirst(t *testing.T) {
	l := newLine(t, device.Limits{Canary: true})
	l.ask("d1", flashing("BIOS 2"))
	l.ask("d2", flashing("BIOS 2"))
	l.ask("d3", flashing("BIOS 2", "BMC 7"))
	l.ask("other", flashing("BIOS 2"), func(r *contract.SlotRequest) { r.Model = "N" })
	l.ask("plain")
	answers := l.pass()
	require.Equal(t, []string{"BIOS 2"}, answers["d1"].Canary)
	require.NotNil(t, answers["d2"].Why, "it waits")
	require.Equal(t, device.CodeCanaryRunning, answers["d2"].Why.Code)
	require.Contains(t, answers["d2"].Why.Message, "the firmware BIOS 2 is new to model M; it goes to d1 first")
	l.has("d1", "other", "plain")
	l.queue.report(l.now, contract.SlotReport{Device: "d1", Clean: "d1/1", Done: []string{stepReflash}})
	l.has("d1", "other", "plain")
	l.queue.report(l.now, contract.SlotReport{Device: "d1", Clean: "d1/1", Done: []string{stepVerify}})
	l.has("d1", "d2", "d3", "other", "plain")
	require.Equal(t, []string{"BMC 7"}, l.Slots[2].Canary, "what else is new has its own first device")
	l.end("d1", "")
	l.ask("d4", flashing("BIOS 2"))
	l.has("d2", "d3", "other", "plain", "d4")
}

func TestFirmwareThatFailsOnItsFirstDeviceGoesToNoOther(t *testing.T) {
	for _, failed := range []string{stepReflash, stepVerify} {
		l := newLine(t, device.Limits{Canary: true})
		l.ask("d1", flashing("BIOS 2"))
		l.ask("d2", flashing("BIOS 2"))
		l.ask("d3", flashing("BIOS 2"))
		l.has("d1")
		l.end("d1", failed)
		l.has()
		require.Len(t, l.alarms(), 1)
		require.Contains(t, l.alarms()[0].Message, "the firmware BIOS 2 is new to model M, and "+failed+
			" failed on its first device, d1")
		require.Equal(t, 2, l.alarms()[0].Waiting)
		require.True(t, l.resume("M", failed, contract.Act{}))
		l.has("d2")
	}
	// One that ends before the firmware was written is no failure of it.
	l := newLine(t, device.Limits{Canary: true})
	l.ask("d1", flashing("BIOS 2"))
	l.ask("d2", flashing("BIOS 2"))
	l.has("d1")
	l.end("d1", "zero")
	l.has("d2")
	require.Empty(t, l.alarms())
}

func TestAFloorOfFreeCapacityHolds(t *testing.T) {
	l := newLine(t, device.Limits{ConcurrentCleans: 1, FreeCapacity: device.Capacity{Devices: 10}})
	take := func(r *contract.SlotRequest) { r.TakesCapacity = true }
	l.ask("d1")
	for _, name := range []string{"m1", "m2", "m3"} {
		l.ask(name, take)
	}
	l.ask("d2")
	l.has("d1")
	l.MayTake, l.Free, l.Floor, l.CountedAt = 2, 12, 10, l.now
	l.has("d1", "m1", "m2")
	require.Contains(t, l.status("m3", 9).Waiting[0].Message, "12 devices are free, and 10 must stay free")
	require.Equal(t, device.CodeFreeCapacity, l.status("m3", 9).Waiting[0].Code)
	// A clean of a dirty device takes no free one away: the floor does not hold it up.
	l.end("d1", "")
	l.has("m1", "m2", "d2")
	l.end("m1", "") // it was not taken after all
	l.has("m2", "m3", "d2")
	// An old count says nothing about the present.
	l.ask("m4", take)
	l.MayTake, l.now = 5, l.now.Add(time.Minute)
	l.has("m2", "m3", "d2")
	l.Limits.FreeCapacity = device.Capacity{}
	l.has("m2", "m3", "d2", "m4")
}

// A device gets its place when the request comes, and then each time that it is a quarter.
func TestADeviceGetsItsPlaceAFewTimes(t *testing.T) {
	l := newLine(t, device.Limits{ConcurrentCleans: 1})
	answers := map[string]int{}
	count := func() {
		for name := range l.pass() {
			answers[name]++
		}
	}
	for i := range 200 {
		l.ask(fmt.Sprint("d", i))
	}
	count()
	for i := range 199 {
		l.end(fmt.Sprint("d", i), "")
		count()
	}
	for name, n := range answers {
		require.LessOrEqual(t, n, 6, name)
	}
	require.Equal(t, 2, answers["d1"], "its place, and its slot")
}

// Whatever order events come in, the limits hold and no request is lost.
func TestLimitsHoldInEveryOrder(t *testing.T) {
	for seed := range uint64(30) {
		random := rand.New(rand.NewPCG(seed, 7))
		l := newLine(t, device.Limits{ConcurrentCleans: 5, PerHost: 2, Breaker: 3, Canary: true})
		open := map[string]bool{}
		for step := range 400 {
			name := fmt.Sprint("d", random.IntN(40))
			l.now = l.now.Add(time.Second)
			switch random.IntN(4) {
			case 0, 1:
				if !open[name] {
					l.ask(name, on(fmt.Sprint("h", random.IntN(4))), flashing(fmt.Sprint("F", step/100)))
					open[name] = true
				}
			case 2:
				l.end(name, []string{"", "", "", "zero"}[random.IntN(4)], "zero")
				delete(open, name)
			case 3:
				l.resume("M", "zero", contract.Act{})
			}
			l.pass()
			cleans, hosts, canaries := 0, map[string]int{}, map[string]int{}
			for _, s := range l.Slots {
				if s.Granted {
					cleans++
					hosts[s.Host]++
					for _, f := range s.Canary {
						canaries[f]++
					}
				}
			}
			require.LessOrEqual(t, cleans, 5)
			for host, n := range hosts {
				require.LessOrEqual(t, n, 2, host)
			}
			for f, n := range canaries {
				require.Equal(t, 1, n, f)
			}
			require.Len(t, l.Slots, len(open))
		}
	}
}

func TestTheQueueOfAWholeFleetFitsIntoAPayload(t *testing.T) {
	l := newLine(t, device.Limits{ConcurrentCleans: 50})
	for i := range 10_000 {
		l.ask(fmt.Sprintf("host%04d_0000:%02x:00.0", i/8, i%8), on(fmt.Sprintf("host%04d", i/8)),
			func(r *contract.SlotRequest) {
				r.Clean = fmt.Sprintf("%08x-aaaa-bbbb-cccc-%012x/12", rand.Uint32(), rand.Uint64()>>16)
			})
	}
	l.pass()
	state, err := packed(l.LimitsState)
	require.NoError(t, err)
	require.Less(t, len(state.Packed), 1<<20, "the limit of a payload is 2 MiB")
	require.NoError(t, unpack(state))
	require.Equal(t, l.Slots, state.Slots)
	require.Error(t, unpack(&contract.LimitsState{Packed: []byte("garbage")}))
}

// A resume goes, with the next answer and once, to the devices that waited for its breaker.
func TestAResumeGoesToTheDevicesThatWaited(t *testing.T) {
	q := queue{LimitsState: &contract.LimitsState{Found: true,
		LimitsChange: contract.LimitsChange{Limits: &device.Limits{Breaker: 1}}}}
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for _, s := range []contract.SlotRequest{
		{Device: "waits", Clean: "1", Model: "M", Steps: []string{"zero", "verify"}, Since: now},
		{Device: "has no such step", Clean: "2", Model: "M", Steps: []string{"sanitize"}, Since: now},
		{Device: "is of another model", Clean: "3", Model: "N", Steps: []string{"zero"}, Since: now},
		{Device: "leaves the offer", Clean: "4", Model: "M", Steps: []string{"zero"}, TakesCapacity: true, Since: now},
	} {
		q.Slots = append(q.Slots, contract.Slot{SlotRequest: s})
	}
	q.Breakers = []contract.Breaker{{Model: "M", Step: "zero", Failures: 1, Open: true}}
	q.settle(now)
	act := contract.ResumeInput{Model: "M", Step: "zero", Reason: "a new cable",
		Caller: contract.Caller{By: "ann@h1"}}.Act()
	require.True(t, q.resume("M", "zero", act))
	q.settle(now)
	for i, want := range []*contract.Act{&act, nil, nil, nil} {
		require.Equal(t, want, q.answer(i).Resumed, q.Slots[i].Device)
		require.Nil(t, q.answer(i).Resumed, "once")
	}
}
