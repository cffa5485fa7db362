package lifecycle

import (
	"cmp"
	"context"
	"encoding/json"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/testsuite"

	"burnish/activities"
	"burnish/internal/device"
	"burnish/internal/proof"
	"burnish/internal/testkit/inventorysim"
	"burnish/workflows/contract"
)

// world is what the calls of a scene's device find: the inventory with its rules, the host and what is on the
// hardware, the appliance of a shared pool.
type world struct {
	inv *inventorysim.Inventory
	// bytes are whose data is on the device; "" is none. wiped counts the erases of it, inputs are the steps that its
	// host was asked for.
	bytes  string
	wiped  int
	inputs []contract.StepInput
	// away: no worker of the host takes anything. record is what the host knows of the device, if it is known there.
	away   bool
	record contract.HostDeviceRecord
	known  bool
	power  func(action string) (contract.PowerResult, *device.Fault)
	powers []string // the actions that arrived
	// pool is the appliance of a device in a shared pool; nil if it is in none. pools asks it.
	pool  *fakePool
	pools activities.Pools
	// other has the same hardware, listed: once the device itself is. previous is the run of its workflow that ended
	// before, says what its instance answers. names are those that were left for a host, moved what goes on elsewhere.
	other, listed string
	unreadable    bool // a record of the hardware cannot be read
	previous      contract.PreviousRun
	says          contract.InstanceAnswer
	asks          []contract.InstanceQuestion
	names         []contract.ForgetLaterInput
	moved         []contract.DeviceState
	taken         bool   // the new name of a move
	before        func() // is called before each call has effect
	// slots are those that the limits were asked for; limitsAway: no worker takes the question.
	slots      []contract.SlotRequest
	limitsAway bool
	// gate has the host prove what it did, which signs with key; nil: it is believed.
	gate *proof.Gate
	key  proof.HostKey
	// tries are how often a call was made, ready when it is made again or given up, began its first attempt.
	tries        map[string]int
	ready, began map[string]time.Time
}

// activityContext is one in which activities run outside of any environment.
var activityContext = sync.OnceValues(func() (context.Context, error) {
	var suite testsuite.WorkflowTestSuite
	env := suite.NewTestActivityEnvironment()
	var own context.Context
	env.RegisterActivityWithOptions(func(ctx context.Context) error { own = ctx; return nil },
		activity.RegisterOptions{Name: "capture"})
	_, err := env.ExecuteActivity("capture")
	return context.WithoutCancel(own), err
})

func newWorld() world {
	return world{inv: &inventorysim.Inventory{}, bytes: "enrolled", tries: map[string]int{}, ready: map[string]time.Time{},
		began: map[string]time.Time{}, power: func(action string) (contract.PowerResult, *device.Fault) {
			return contract.PowerResult{State: map[string]string{"off": "off"}[action]}, nil
		}}
}

// make makes a call that is due, unless it must wait, and says whether it was made.
func (s *scene) make(j *Job) bool {
	c := *j.Call
	onHost := c.How.Host != ""
	if until := s.ready[c.Key]; s.now.Before(until) && (!onHost || s.away) {
		return false
	}
	if f := s.faults[c.Activity]; f != nil {
		s.ended(c, Outcome{Fault: f})
		return true
	}
	if onHost && s.away {
		within := c.How.StartWithin
		if c.How.Way == ToPower {
			within = hostResponse
		}
		if s.ready[c.Key].IsZero() || within == 0 {
			s.ready[c.Key] = s.now.Add(cmp.Or(within, time.Hour))
			return false
		}
		s.ended(c, Outcome{NotStarted: true, Fault: &device.Fault{Class: device.NeedsOperator,
			Code:    device.CodeHostUnreachable,
			Message: "no worker of this host took its task in time", Remedy: "start burnish-worker on the host"}})
		return true
	}
	s.tries[c.Key]++
	if s.began[c.Key].IsZero() {
		s.began[c.Key] = s.now
	}
	if s.before != nil {
		s.before()
	}
	o := s.carriedOut(c, s.tries[c.Key]-1)
	if f := o.Fault; f != nil && f.Class == device.Transient && s.again(c, f) {
		return true
	}
	s.ended(c, o)
	return true
}

// again: a call that failed for a while is made once more, as the server does, and reports that it waits.
func (s *scene) again(c Call, f *device.Fault) bool {
	within := c.How.Within
	switch {
	case c.How.Once:
		return false
	case c.How.Way == ToInventory && c.How.Client && within == 0:
		within = time.Minute
	case c.How.Way == ToProfile && c.How.Client:
		within = 3 * time.Minute
	case c.How.Client && c.How.Host != "" && s.tries[c.Key] >= 3:
		return false
	}
	pause := min(200*time.Millisecond<<min(s.tries[c.Key], 10), 10*time.Second)
	if within > 0 && s.now.Add(pause).After(s.began[c.Key].Add(within)) {
		return false
	}
	s.ready[c.Key] = s.now.Add(pause)
	if s.tries[c.Key] == 1 && c.How.InTask {
		s.ready[c.Key] = s.now // as the activity, at once
		return true
	}
	report := contract.WaitReport{For: cmp.Or(c.WaitsFor, contract.WaitInventory), Fault: *f}
	if in, is := c.In.(contract.StepInput); is {
		report.Seq = in.Seq
	}
	s.decide(Hinted{Signal: contract.SignalObserved, Hint: contract.Hint{Wait: &report}})
	return true
}

// ended is how a call ends for the device.
func (s *scene) ended(c Call, o Outcome) {
	s.made = append(s.made, c.Activity)
	if ends := s.ends[c.Activity]; ends != nil {
		o = ends(o)
	}
	s.decide(Ended{Key: c.Key, Outcome: o})
}

// carriedOut is what a call finds, earlier times after it was made before.
func (s *scene) carriedOut(c Call, earlier int) Outcome {
	ctx, err := activityContext()
	require.NoError(s, err)
	control := &activities.Control{Store: s.inv, Real: s.real, Gate: s.gate}
	if c.Activity == contract.ActivityForget {
		s.known = false
		return Outcome{}
	}
	switch in := c.In.(type) {
	case contract.ReservationRequest:
		in.EarlierWrites = earlier
		found, err := map[string]func(context.Context, contract.ReservationRequest) (device.Inventory, error){
			contract.ActivityEnsureProvider: control.EnsureProvider, contract.ActivityReserveForBind: control.ReserveForBind,
			contract.ActivityReadReservation: control.ReadReservation, contract.ActivityUnreserve: control.Unreserve,
			contract.ActivityEnsureReserved: control.EnsureReserved, contract.ActivityDeleteProvider: control.DeleteProvider,
		}[c.Activity](ctx, in)
		return s.outcome(&found, err)
	case contract.PoolRequest:
		found, err := map[string]func(context.Context, contract.PoolRequest) (contract.PoolSnapshot, error){
			contract.ActivityReadPool: s.pools.ReadPool, contract.ActivityApplyProfile: s.pools.ApplyProfile,
			contract.ActivityRemoveProfile: s.pools.RemoveProfile,
		}[c.Activity](ctx, in)
		return s.outcome(&found, err)
	case contract.DiscoverInput:
		return s.discovered(in)
	case contract.StepInput:
		return s.stepped(in)
	case contract.PowerCall:
		s.powers = append(s.powers, in.Action)
		found, f := s.power(in.Action)
		return Outcome{Found: &found, Fault: f}
	case contract.FindBySerialInput:
		if s.unreadable && !in.Listed {
			return Outcome{Fault: refusing(device.NeedsOperator, device.CodeInventoryInvalid)}
		}
		found := contract.DeviceBySerial{Name: s.other}
		if in.Listed {
			found.Name = s.listed
		}
		return Outcome{Found: &found}
	case contract.InstanceQuestion:
		s.asks = append(s.asks, in)
		return Outcome{Found: &s.says}
	case contract.ForgetLaterInput:
		s.names = append(s.names, in)
	case contract.SlotRequest:
		s.slots = append(s.slots, in)
		switch {
		case s.limitsAway && c.Activity == contract.ActivityRequestSlot:
			return Outcome{Fault: refusing(device.Transient, device.CodeServerUnreachable)}
		case s.limitsAway:
			return Outcome{Fault: refusing(device.Permanent, device.CodeNotFound)}
		}
	case contract.DeviceInput:
		if s.taken {
			return Outcome{Fault: &device.Fault{Class: device.Permanent, Code: device.CodeAlreadyExists, Message: "it runs"}}
		}
		s.moved = append(s.moved, s.copied(in.State))
	default:
		require.Equal(s, contract.ActivityFindPreviousRun, c.Activity)
		previous := s.previous
		return Outcome{Found: &previous}
	}
	return Outcome{}
}

// outcome is that of an activity.
func (s *scene) outcome(found any, err error) Outcome {
	if err == nil {
		return Outcome{Found: found}
	}
	r, is := contract.RefusalOf(err)
	require.True(s, is, "%v", err)
	return Outcome{Fault: &r.Fault}
}

// refusing is the fault of a code.
func refusing(class device.Class, code device.Code) *device.Fault {
	return &device.Fault{Class: class, Code: code, Message: string(code), Remedy: "r"}
}

// discovered is what the host finds in its slot.
func (s *scene) discovered(in contract.DiscoverInput) Outcome {
	if in.Known != (device.Identity{}) && in.Known.Differs(s.host.Identity) != "" {
		return Outcome{Fault: refusing(device.NeedsOperator, device.CodeIdentityChanged)}
	}
	s.record.KnownBefore, s.known = s.known, true
	s.record.Enrollment, s.record.Identity = in.Enrollment, s.host.Identity
	s.record.Binding = max(s.record.Binding, in.Binding)
	found, record := s.host, s.record
	found.Steps, found.Record, found.ObservedAt = maps.Clone(s.host.Steps), &record, s.now.UTC()
	if in.Reservation != "" {
		signed, err := activities.SignFound(s.key, "h1", in, found)
		require.NoError(s, err)
		found.Statement = signed
	}
	return Outcome{Found: &found}
}

// stepTime is what a step takes.
const stepTime = 4 * time.Second

// stepped is one attempt of a step on the host.
func (s *scene) stepped(in contract.StepInput) Outcome {
	version, has := s.host.Steps[in.Step]
	switch s.inputs = append(s.inputs, in); {
	case !has:
		return Outcome{Fault: &device.Fault{Class: device.NeedsOperator, Code: device.CodeHostWorkerTooOld,
			Message: "no such step", Remedy: "upgrade burnish-worker there"}}
	case in.Version != version:
		return Outcome{Fault: refusing(device.Permanent, device.CodePlanOutdated)}
	case in.Seq <= s.record.Seq:
		return Outcome{Fault: refusing(device.Permanent, device.CodeSuperseded),
			Known: &contract.HostNumbers{Seq: s.record.Seq, Clean: s.record.Clean, Binding: s.record.Binding}}
	case in.Identity.Differs(s.host.Identity) != "":
		return Outcome{Fault: refusing(device.NeedsOperator, device.MismatchCode(in.Identity.Differs(s.host.Identity)))}
	case in.Budget < stepTime:
		return Outcome{Fault: refusing(device.NeedsOperator, device.CodeTimeout)}
	}
	s.record.Seq, s.record.Clean = in.LastSeq(), max(s.record.Clean, in.Number)
	s.record.Binding = max(s.record.Binding, in.Binding)
	result := contract.StepResult{Step: in.Step, Clean: in.Clean, Seq: in.Seq, RunTime: stepTime}
	switch in.Step {
	case "zero", "sanitize":
		s.bytes = ""
		s.wiped++
	case "verify":
		if s.bytes != "" {
			return Outcome{Fault: refusing(device.NeedsOperator, device.CodeVerifyFailed)}
		}
	case "firmware_reflash":
		result.Firmware = s.host.Identity.Firmware
	}
	statement := ""
	if in.Reservation != "" {
		signed, err := activities.SignStep(s.key, "h1", in, result)
		require.NoError(s, err)
		statement = signed
	}
	return Outcome{Found: &contract.StepAnswer{StepResult: result, Statement: statement, SeenAt: s.now.UTC()}}
}

// stepsRun are the steps that reached the host.
func (s *scene) stepsRun() (names []string) {
	for _, in := range s.inputs {
		names = append(names, in.Step)
	}
	return names
}

// hostStarts: a worker of the host starts, and reports the device as it knows it, changed by change.
func (s *scene) hostStarts(change ...func(*contract.HostDeviceRecord)) {
	record := s.record
	for _, each := range change {
		each(&record)
	}
	s.away = false
	s.decide(Hinted{Signal: contract.SignalObserved, Hint: contract.Hint{
		Source: "host start", Host: &record, Started: true,
		ObservedAt: s.now.UTC().Format(time.RFC3339Nano)}})
}

// terminated: the device's workflow ended, and its host brings it back.
func (s *scene) terminated() {
	record := s.record
	s.d = Recover(&record, s.now, s.by())
	s.decide(Come{})
	s.hostStarts()
}

// copied is a state as it is handed over.
func (s *scene) copied(of *contract.DeviceState) (state contract.DeviceState) {
	text, err := json.Marshal(of)
	require.NoError(s, err)
	require.NoError(s, json.Unmarshal(text, &state))
	return state
}

// renewed: the device continues as new, with nothing but what is handed over.
func (s *scene) renewed() {
	s.Helper()
	s.d.Jobs = slices.DeleteFunc(s.d.Jobs, func(j *Job) bool { return j.Ended }) // answered
	for i := 0; !s.d.Quiet(); i++ {
		s.d.Mail = nil
		require.True(s, s.d.Quiet() || i < 500 && s.within(24*time.Hour), "it cannot continue as new: %s", s.doing())
	}
	s.putBack(s.d.DeviceState)
}

// putBack: the device's workflow has this memory.
func (s *scene) putBack(memory *contract.DeviceState) {
	state := s.copied(memory)
	s.d = &State{DeviceState: &state}
	s.decide(Come{})
}

// forgets what happens in since: the database is put back to before it.
func (s *scene) forgets(since func()) {
	s.Helper()
	s.rest()
	memory := s.copied(s.d.DeviceState)
	since()
	s.rest()
	s.putBack(&memory)
}

// recreated: Nova re-creates the provider, with the same generation by coincidence; used: an instance uses the new one
// and leaves it reserved.
func (s *scene) recreated(used bool) {
	generation := s.inv.Generation
	s.inv.Recreate(s.inv.NovaProvider + "+")
	if used {
		s.inv.Allocate("c-used")
		s.inv.WriteByOther(1)
		s.bytes = "c-used"
		s.inv.Free("c-used")
	}
	s.inv.Generation = generation
}

// usedAndFreed: an instance uses the device, unseen.
func (s *scene) usedAndFreed(consumer string) {
	s.Helper()
	require.True(s, s.inv.Allocate(consumer))
	s.bytes = consumer
	s.inv.Free(consumer)
}

// shares puts the device into a shared pool, before it is enrolled.
func (s *scene) shares() *scene {
	s.pool = newFakePool()
	s.pools = activities.Pools{Pools: s.pool, Log: slog.New(slog.DiscardHandler)}
	s.host.Type, s.e.Type = "NODE", "NODE"
	s.e.Pool = &contract.Pool{Appliance: "rack1", Hardware: "/rest/server-hardware/1",
		Template: "/rest/server-profile-templates/1", Dynamic: true}
	s.inv.OnWrite = func(what string) {
		require.False(s, what == "put" && s.inv.Reserved == 0 && s.pool.ours() > 0, "it is offered with a profile of ours")
	}
	return s
}

// offeredClean fails the scene if the device is offered with anybody's data.
func (s *scene) offeredClean() {
	s.inv.OnWrite = func(what string) {
		require.False(s, what == "put" && s.inv.Reserved == 0 && s.bytes != "", "offered with the data of %s", s.bytes)
	}
}

// returned requires that the device is available, clean, and free in the inventory.
func (s *scene) returned() {
	s.Helper()
	s.reach(device.Available)
	s.rest()
	require.Equal(s, []any{"", 0}, []any{s.bytes, s.inv.Reserved})
}

// kept requires that the device is reserved in a state, with this fault.
func (s *scene) kept(state device.State, code device.Code) {
	s.Helper()
	s.reach(state)
	s.rest()
	require.Equal(s, []any{string(code), 1}, []any{s.d.Status().Fault, s.inv.Reserved})
}

// cleans are those of the archive.
func (s *scene) cleans() []contract.CleanSummary {
	all, err := s.d.Archive.Cleans()
	require.NoError(s, err)
	return all
}

func (s *scene) lastClean() contract.CleanSummary {
	all := s.cleans()
	require.NotEmpty(s, all)
	return all[len(all)-1]
}

func (s *scene) calls(activity string) int {
	return len(slices.DeleteFunc(slices.Clone(s.made), func(made string) bool { return made != activity }))
}
