package lifecycle_test

import (
	"fmt"
	"math/rand/v2"
	"time"

	"burnish/internal/device"
	"burnish/workflows/contract"
)

// sharePool puts the walk's device into a shared pool. The oracle knows from the appliance
// alone who has the server.
func (k *walker) sharePool(others *rand.Rand) {
	k.others = others
	k.share()
	k.beforeCall = func(name string) {
		if _, step := k.host.steps[name]; (step || name == contract.ActivityPower) && k.pool.taken() {
			k.report("%s works at a server that another user has", name)
		}
		if name == contract.ActivityUnreserve && k.pool.ours() > 0 {
			k.report("it is offered with a profile of Burnish's")
		}
	}
	answered := k.oracle.answered
	k.deviceEnv.answered = func(c *call) {
		answered(c)
		out, is := c.out.(contract.Result)
		if c.err == nil && is && (c.verb == contract.VerbBind.Update() || c.verb == contract.VerbBurn.Update()) &&
			!out.Already && k.pool.taken() {
			k.report("bind succeeded, and another user has the server")
		}
	}
	written := k.inventory.onWrite
	if written == nil {
		written = func(string) {}
	}
	k.inventory.onWrite = func(what string) { written(what); k.inventoryWritten(what) }
}

// pollAgain is the round of the polls, every five minutes.
func (k *walker) pollAgain() {
	k.after(5*time.Minute, func() {
		switch v, taken := k.view(), k.pool.taken(); {
		case !k.live || v.Pool == nil:
		case taken && (v.DeviceState == device.Available || v.DeviceState == device.Error && v.Pool.LostRace):
			k.signal(contract.SignalTaken, contract.Hint{Source: "poll"})
		case !taken && v.DeviceState == device.Manageable && v.Pool.Taken,
			!taken && v.DeviceState == device.Available && v.Pool.ChangedBy(fmt.Sprint(k.pool.version)):
			k.signal(contract.SignalFreed, contract.Hint{Source: "poll"})
		}
		k.pollAgain()
	})
}

// othersAct has the other users of the pool take and leave the server, the polls give their
// hints, right or wrong, and the appliance lose answers.
func (k *walker) othersAct() {
	if k.others == nil {
		return
	}
	switch k.others.IntN(8) {
	case 0, 1:
		if k.pool.take() {
			k.writesAll("theirs")
			k.note("others take the server")
		}
	case 2:
		if k.pool.taken() {
			k.pool.leave()
			k.note("others leave the server")
		}
	case 3, 4:
		name := []string{contract.SignalTaken, contract.SignalFreed}[k.others.IntN(2)]
		k.signal(name, contract.Hint{Source: "poll"})
		k.note("poll %s", name)
	case 5:
		share := 1 + k.others.IntN(4)
		k.pool.injectFault = func(string, bool) error {
			if k.others.IntN(share+4) < share {
				return unreachable()
			}
			return nil
		}
		k.note("appliance loses %d in %d calls", share, share+4)
	case 6:
		k.pool.injectFault = nil
	}
}

// othersLeave ends what the others did: the device must be usable again.
func (k *walker) othersLeave() {
	if k.others == nil {
		return
	}
	k.pool.injectFault = nil
	k.pass(10 * time.Minute)
	k.pool.leave()
	k.pass(10 * time.Minute)
	if v := k.view(); k.live && v.DeviceState == device.Available && k.pool.ours() > 0 {
		k.report("available with a profile of Burnish's")
	}
}
