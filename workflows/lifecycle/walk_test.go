package lifecycle_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"burnish/internal/device"
	"burnish/workflows/contract"
)

var (
	walks    = flag.Int("walks", 60, "how many random walks TestWalk makes")
	walkSeed = flag.Uint64("walkseed", 0, "the only seed of TestWalk; 0: one seed for each walk")
)

// TestWalk sends random requests, hints, faults and crashes to a device and compares what
// happens with the oracle. A failed walk names its seed: -walkseed repeats it.
func TestWalk(t *testing.T) {
	first, n := uint64(1), *walks
	if *walkSeed != 0 {
		first, n = *walkSeed, 1
	}
	for seed := first; seed < first+uint64(n); seed++ {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			t.Parallel()
			walk(t, seed)
		})
	}
}

// The same seed gives the same walk, so that a failure can be repeated.
func TestWalk_IsDeterministic(t *testing.T) {
	for seed := uint64(1); seed <= 3; seed++ {
		first, second := walk(t, seed), walk(t, seed)
		require.Equal(t, first.log, second.log)
		require.Equal(t, first.scheduledActivities, second.scheduledActivities)
		require.Equal(t, first.inventory.Writes, second.inventory.Writes)
		require.Equal(t, first.clock(), second.clock())
	}
}

// walker is one random walk.
type walker struct {
	*deviceEnv
	*oracle
	r *rand.Rand
	// listing has random numbers of its own, so that known seeds keep their walks.
	listing *rand.Rand
	// overriders request and approve overrides.
	overriders *rand.Rand
	calls      []*call
	hints      []contract.Hint
	log        []string
	// recreations counts the providers that Nova created.
	recreations int
}

func walk(t *testing.T, seed uint64) *walker {
	r := rand.New(rand.NewPCG(seed, 0))
	policy := standardPolicy()
	policy.Automated = r.IntN(4) > 0
	policy.OnEnroll = r.IntN(4) > 0
	if r.IntN(4) == 0 {
		policy.OnInterrupt = device.InterruptError
	}
	policy.HostSilentAfter = time.Duration(1+r.IntN(10)) * time.Minute
	w := newDeviceEnv(t, policy)
	w.oneTimeUse = r.IntN(2) == 0
	if r.IntN(3) == 0 {
		w.owner, w.oneTimeUse = device.OwnerNova, true
	}
	if r.IntN(6) == 0 {
		w.host.discovery.Operation = ""
	}
	k := &walker{deviceEnv: w, oracle: newOracle(w), r: r, listing: rand.New(rand.NewPCG(seed, 1)),
		overriders: rand.New(rand.NewPCG(seed, 3))}
	w.signatures = overrideKey
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("seed %d: policy %+v, owner %s, one-time-use %v, operation %q", seed, policy, w.owner, w.oneTimeUse,
				w.host.discovery.Operation)
			for _, d := range k.log {
				t.Log(d)
			}
		}
	})
	k.enrollOrImport()
	if *walkSeed != 0 {
		w.trace = func(s string) { k.log = append(k.log, fmt.Sprint(w.clock().Sub(epoch), " ", s)) }
	}
	for range 60 {
		if !w.live || k.finished {
			break
		}
		k.act()
		k.overridersAct()
		k.wait()
	}
	k.healAndBindAgain()
	return k
}

func (k *walker) note(format string, args ...any) {
	k.log = append(k.log, fmt.Sprintf("%10s run %d %-16s ", k.clock().Sub(epoch).Round(time.Millisecond), k.runs,
		k.view().DeviceState)+fmt.Sprintf(format, args...))
}

func (k *walker) enrollOrImport() {
	e := k.enrollment()
	e.OperatorAssertsClean = k.r.IntN(3) == 0
	if e.OperatorAssertsClean && !k.policy.OnEnroll {
		k.assertedClean = true
	}
	in := contract.EnrollInput{Enrollment: e, Provide: k.r.IntN(4) > 0}
	if k.owner == device.OwnerNova && k.r.IntN(3) == 0 {
		in = contract.EnrollInput{Enrollment: k.enrollment(), Import: true, Provider: k.importable()}
	}
	c := k.deviceEnv.send(contract.VerbEnroll.Update(), "", in)
	ok[contract.Result](c)
	k.calls = append(k.calls, c)
	k.note("enrolled")
	if k.owner == device.OwnerNova {
		k.reconcileEveryMinute()
	}
}

// importable creates Nova's provider before the device is imported: in use, used and not
// cleaned since, or free, which counts as clean (D8). It returns the provider that was listed,
// which is sometimes not the present one.
func (k *walker) importable() (listed string) {
	kind := k.r.IntN(3)
	k.assertedClean = kind < 2
	k.inventory.Recreate("nova-0")
	switch kind {
	case 1:
		k.inventory.AllocateUnchecked("c-1")
		k.writesAll("c-1")
		fallthrough
	case 2:
		k.inventory.WriteByOther(1)
	}
	listed = k.inventory.NovaProvider
	switch k.listing.IntN(4) {
	case 0:
		listed = "" // by a client that does not name the provider
	case 1:
		if kind != 1 {
			k.assertedClean = false
			k.inventory.Recreate("nova-1")
		}
	}
	k.note("imported with %d consumers, reserved %d", len(k.inventory.Consumers), k.inventory.Reserved)
	return listed
}

// reconcileEveryMinute requests a re-check every minute, as the reconciliation of Placement does.
func (k *walker) reconcileEveryMinute() {
	k.after(time.Minute, func() {
		k.signal(contract.SignalObserved, contract.Hint{Source: "sweep"})
		k.reconcileEveryMinute()
	})
}

// wait lets a random time pass.
func (k *walker) wait() {
	d := []time.Duration{time.Millisecond, 300 * time.Millisecond, time.Second, 3 * time.Second, 10 * time.Second,
		time.Minute, 20 * time.Minute}[k.r.IntN(7)]
	k.pass(d + time.Duration(k.r.IntN(1000))*time.Microsecond)
}

// healAndBindAgain ends all faults: each device can be used again, and its next tenant gets a
// clean one.
func (k *walker) healAndBindAgain() {
	k.inventory.InjectFault, k.loseTask, k.noLocalCalls, k.faulty = nil, nil, false, false
	k.lag = func(string) (time.Duration, time.Duration) { return time.Millisecond, time.Millisecond }
	k.host.injectFault, k.host.cancelDelay = nil, 0
	k.host.restart()
	if k.inventory.ProviderGone {
		k.recreateProvider()
	}
	if !k.live {
		return
	}
	for len(k.inventory.Consumers) > 0 {
		k.inventory.Free(k.inventory.Consumers[0])
	}
	k.note("healed")
	k.signal(contract.SignalObserved, k.host.hint(k.clock()))
	k.pass(time.Hour)
	if k.finished || !k.live { // it was being forgotten
		return
	}
	if k.retired && k.live && k.inventory.Exists && k.inventory.Reserved != 1 {
		k.report("retired, and it is not reserved")
	}
	if k.instance != "" {
		k.unbind(k.instance)
	}
	v := k.settled()
	if v.DeviceState == device.Retired {
		return
	}
	if v.DeviceState == device.Unknown { // nothing records who has it (F24)
		k.note("cleaned by the operator")
		ok[contract.Result](k.cleanUp())
		k.settled()
	}
	k.note("to the last tenant")
	if k.owner == device.OwnerNova {
		k.useByNova("z")
		return
	}
	k.bindAgain("z")
	k.unbind("z")
	k.settled()
	k.idle()
}
