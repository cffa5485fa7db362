package lifecycle_test

import (
	"fmt"
	"time"

	"burnish/internal/device"
	"burnish/internal/testkit/inventorysim"
	"burnish/workflows/contract"
)

func (k *walker) anyInstance() string { return fmt.Sprintf("i%d", k.r.IntN(4)) }

func (k *walker) send(verb string, in any) {
	c := k.deviceEnv.send(verb, "", in)
	k.calls = append(k.calls, c)
	k.note("%s %+v", c.id, in)
}

// act does one thing.
func (k *walker) act() {
	r := k.r
	n := r.IntN(34)
	if k.owner == device.OwnerNova && n < 11 { // only Nova binds its devices (F6)
		k.scheduler()
		k.hint()
		return
	}
	switch n {
	case 0, 1, 2, 3, 4:
		in := contract.BindInput{Instance: k.anyInstance()}
		if r.IntN(3) > 0 {
			in.Request = fmt.Sprintf("q%d", r.IntN(40))
		}
		k.send(contract.VerbBind.Update(), in)
	case 5:
		k.send(contract.VerbClaim.Update(), contract.BindInput{
			Instance: k.anyInstance(), Deadline: k.clock().Add(time.Duration(1+r.IntN(600)) * time.Second).Format(time.RFC3339),
		})
	case 6:
		k.send(contract.VerbBurn.Update(), contract.BindInput{Instance: k.anyInstance()})
	case 7:
		k.send(contract.VerbUnclaim.Update(), contract.BindInput{Instance: k.anyInstance()})
	case 8, 9, 10, 11:
		instance := k.anyInstance()
		if k.instance != "" && r.IntN(4) > 0 {
			instance = k.instance
		}
		k.unbind(instance)
	case 12:
		k.send(contract.VerbRebuild.Update(), contract.UnbindInput{Instance: k.anyInstance()})
	case 13, 14:
		in := contract.CleanInput{Reason: "walk"}
		if r.IntN(3) == 0 {
			in.Steps = [][]string{{"zero"}, {"verify"}, {"zero", "verify"}}[r.IntN(3)]
		}
		if r.IntN(2) == 0 {
			k.signal(contract.SignalClean, in)
			k.note("signal clean %+v", in)
			return
		}
		k.send(contract.VerbClean.Update(), in)
	case 15:
		k.send(contract.VerbAbort.Update(), contract.ReasonInput{})
	case 16:
		k.send(contract.VerbManage.Update(), contract.ReasonInput{})
	case 17, 18:
		k.send(contract.VerbProvide.Update(), contract.ReasonInput{})
	case 19, 20:
		k.send(contract.VerbMaintain.Update(), contract.MaintenanceInput{Off: r.IntN(2) == 0})
	case 21, 22, 23:
		k.hint()
	case 24:
		k.repeat()
	case 25, 26:
		k.inventoryTrouble()
	case 27, 28:
		k.hostTrouble()
	case 29:
		k.signalThen(contract.SignalRefresh, contract.Hint{}, func() { k.env.SetContinueAsNewSuggested(true) })
		k.note("continue as new")
	case 30:
		k.cancel()
		k.note("cancel")
	case 31, 32:
		k.scheduler()
	case 33:
		k.rareEvent()
	}
}

// overridersAct requests an override of a device in state error, or approves one, rightly or
// not, so that it may arrive when the device has changed.
func (k *walker) overridersAct() {
	v := k.view()
	if k.overriders.IntN(4) > 0 || v.DeviceState != device.Error || v.Override == nil {
		return
	}
	in := k.newOverride(fmt.Sprint("x", len(k.calls)))
	if p := v.Override.Pending; p != nil && k.overriders.IntN(4) > 0 {
		in = contract.OverrideInput{Approve: p.ID}
	}
	k.send(contract.VerbOverride.Update(), k.signed([]string{"alice", "bob"}[k.overriders.IntN(2)], in))
}

// unbind requests the end of an instance's binding. The instance ignores answers from then on.
func (k *walker) unbind(instance string) {
	k.bindingEnded(instance)
	for _, c := range k.calls {
		if in, is := c.in.(contract.BindInput); is && in.Instance == instance && !c.done {
			c.abandoned = true
		}
	}
	k.send(contract.VerbUnbind.Update(), contract.UnbindInput{Instance: instance})
}

// hint sends what hosts and reconciliation send: new, old, for another binding, repeated.
func (k *walker) hint() {
	h := contract.Hint{Source: "walk"}
	switch k.r.IntN(5) {
	case 0:
		h = k.host.hint(k.clock())
	case 1:
		h.Binding = k.r.IntN(4)
	case 2:
		h.ObservedAt = k.clock().Add(-time.Duration(k.r.IntN(600)) * time.Second).Format(time.RFC3339Nano)
	case 3:
		if len(k.hints) > 0 {
			h = k.hints[k.r.IntN(len(k.hints))]
		}
	}
	name := []string{contract.SignalObserved, contract.SignalReleased, contract.SignalRefresh}[k.r.IntN(3)]
	k.hints = append(k.hints, h)
	k.signal(name, h)
	k.note("%s from %s for binding %d, observed at %s", name, h.Source, h.Binding, h.ObservedAt)
}

// repeat sends an earlier update again under its own ID.
func (k *walker) repeat() {
	if len(k.calls) == 0 {
		return
	}
	c := k.calls[k.r.IntN(len(k.calls))]
	if !c.done || c.run == k.runs {
		return // one run remembers its own updates
	}
	if in, is := c.in.(contract.UnbindInput); is {
		k.bindingEnded(in.Instance)
	}
	again := k.deviceEnv.send(c.verb, c.id, c.in)
	again.repeated = true
	if c.abandoned {
		again.abandoned = true
	}
	k.note("repeated %s", c.id)
}

func (k *walker) inventoryTrouble() {
	r := k.r
	switch r.IntN(5) {
	case 0:
		k.inventory.InjectFault, k.loseTask, k.noLocalCalls, k.faulty = nil, nil, false, false
		k.lag = func(string) (time.Duration, time.Duration) { return time.Millisecond, time.Millisecond }
		k.note("inventory healed")
	case 1:
		share := 1 + r.IntN(4)
		k.faulty = true
		k.inventory.InjectFault = func(string, bool) error {
			if r.IntN(share+4) < share {
				return inventorysim.LostAnswer()
			}
			return nil
		}
		k.note("inventory loses %d in %d calls", share, share+4)
	case 2:
		longest := 1 + r.IntN(14_000)
		k.lag = func(string) (time.Duration, time.Duration) {
			return time.Duration(1+r.IntN(longest)) * time.Millisecond, time.Duration(1+r.IntN(longest)) * time.Millisecond
		}
		k.note("inventory takes up to %d ms each way", longest)
	case 3:
		codes := []func() error{
			inventorysim.Fails(device.NeedsOperator, device.CodeInventoryInvalid),
			inventorysim.Fails(device.Transient, device.CodeConflict), inventorysim.LostAnswer,
		}
		code, call, after := codes[r.IntN(3)], []string{"Usages", "Reservation", "PutReserved"}[r.IntN(3)], r.IntN(2) == 0
		n := 1 + r.IntN(6)
		k.faulty = true
		k.inventory.InjectFault = inventorysim.Times(n, call, after, code)
		k.note("inventory fails %d %s after=%v: %v", n, call, after, code())
	case 4:
		share := 1 + r.IntN(4)
		k.loseTask, k.noLocalCalls = func(string) bool { return r.IntN(share) == 0 }, r.IntN(3) == 0
		k.note("1 in %d tasks is lost after its call; all calls are activities: %v", share, k.noLocalCalls)
	}
}

func (k *walker) hostTrouble() {
	r := k.r
	switch r.IntN(7) {
	case 6:
		upTo := r.IntN(2*blocks + 1)
		k.host.follows = func() int { return min(upTo, blocks) }
		k.note("verify follows zero in its activity up to block %d", upTo)
	case 0:
		k.host.crash()
		k.note("host crashes")
	case 1, 2:
		if !k.host.up {
			k.signal(contract.SignalObserved, k.host.hint(k.clock()))
		}
		k.host.restart()
		k.host.injectFault, k.host.cancelDelay = nil, 0
		k.note("host healed")
	case 3:
		code := []device.Code{device.CodeIO, device.CodeVerifyFailed, device.CodeStateDirError}[r.IntN(3)]
		class := []device.Class{device.Transient, device.Permanent, device.NeedsOperator}[r.IntN(3)]
		share := 2 + r.IntN(8)
		k.host.injectFault = func(string, int) error {
			if r.IntN(share) == 0 {
				return refuse(class, code)
			}
			return nil
		}
		k.note("host fails 1 in %d with %s %s", share, class, code)
	case 4:
		k.host.cancelDelay = time.Duration(r.IntN(100)) * time.Second
	case 5:
		step := []string{"zero", "verify"}[r.IntN(2)]
		k.host.steps[step]++
		k.note("host has version %d of %s", k.host.steps[step], step)
	}
}

// useByNova allocates the device to the last consumer and frees it.
func (k *walker) useByNova(consumer string) {
	k.makeAllocatable()
	if !k.inventory.Allocate(consumer) {
		k.t.Fatalf("the last consumer cannot allocate it: %s", k.describe())
	}
	k.writesAll(consumer)
	k.inventory.WriteByOther(1)
	for range 2 {
		k.signal(contract.SignalObserved, contract.Hint{Source: "sweep"})
		k.pass(time.Hour)
		k.settled()
		k.inventory.Free(consumer)
	}
	k.makeAllocatable()
}

// scheduler allocates and frees a device of Nova's, as Nova does.
func (k *walker) scheduler() {
	if k.owner != device.OwnerNova {
		return
	}
	switch {
	case k.r.IntN(6) == 0 && !k.inventory.ProviderGone && k.inventory.Exists && len(k.inventory.Consumers) == 0:
		k.inventory.ProviderGone = true
		k.note("Nova's provider is gone")
		return
	case k.inventory.ProviderGone:
		k.recreateProvider()
		return
	case len(k.inventory.Consumers) == 1 && k.r.IntN(3) == 0: // migrated
		k.inventory.AllocateUnchecked(fmt.Sprintf("m%d", k.r.IntN(100)))
		k.note("consumers %v", k.inventory.Consumers)
		return
	}
	if len(k.inventory.Consumers) > 0 {
		k.note("%s leaves", k.inventory.Consumers[0])
		k.inventory.Free(k.inventory.Consumers[0])
		return
	}
	consumer := fmt.Sprintf("c%d", k.r.IntN(100))
	if k.recreatedUnreserved || k.cleanedUnread() {
		return // the exceptions: see oracle
	}
	if k.inventory.Allocate(consumer) {
		k.writesAll(consumer)
		k.inventory.WriteByOther(1) // Nova burns what is one-time-use
		k.note("%s allocates", consumer)
	}
}

// anewProvider has Nova make the provider again, free, now and then with the generation
// that the old one had.
func (k *walker) recreateProvider() {
	k.recreations++
	generation := k.inventory.Generation
	k.inventory.Recreate(fmt.Sprint("nova-again-", k.recreations))
	if k.r.IntN(2) == 0 {
		k.inventory.Generation = generation
	}
	k.note("Nova re-created its provider at generation %d", k.inventory.Generation)
}

// seldom is what does not happen every day.
func (k *walker) rareEvent() {
	n := k.r.IntN(6)
	if n < 3 && !k.host.known {
		return // imported and not discovered yet: without a record its host cannot recover it
	}
	switch n {
	case 0:
		h := k.host.hint(k.clock())
		h.Host.Seq += int64(k.r.IntN(3))
		h.Host.Clean += k.r.IntN(2)
		k.signal(contract.SignalObserved, h)
		k.note("host knows %+v", *h.Host)
	case 1, 2:
		if k.view().DeviceState == device.Unknown {
			return // TestRecovery_TerminatedAgainWhileUnknown
		}
		k.terminate()
		k.retired = false // what is left of it is resolved, as any device of which nothing is known
		k.note("terminated, known tenant %q", k.publishedInstance)
	case 3:
		k.send(contract.VerbRetire.Update(), contract.RetireInput{Lost: k.r.IntN(2) == 0})
	case 4:
		k.send(contract.VerbForget.Update(), contract.ReasonInput{})
	case 5:
		k.send(contract.VerbEnroll.Update(), contract.EnrollInput{Enrollment: k.enrollment()})
	}
}
