package lifecycle_test

import (
	"errors"
	"fmt"
	"maps"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"burnish/internal/device"
	"burnish/workflows/contract"
)

const (
	blocks    = 4
	blockSize = 16 << 20
	// pace is what one block takes.
	pace = time.Second
)

// fakeHost is one host with one device of a few blocks. It behaves as a real host worker: it has
// a journal by clean and step and a record of the highest numbers, refuses superseded
// schedulings, and ends the steps of a killed worker when the next one starts.
type fakeHost struct {
	up        bool
	epoch     int // counts crashes: an attempt of an earlier epoch is dead
	steps     map[string]int
	discovery contract.DiscoveryResult // Identity, Operation, Note as discovery finds them

	blocks [blocks]string // who wrote it; "" is zero
	record contract.HostDeviceRecord
	known  bool // the record exists and was not deleted
	journal
	begunBy *journal // that of the step whose activity begins the next one

	running string // the step that runs now
	// brief: a block takes a millisecond.
	brief bool
	// follows is how many blocks of the next step the host processes in the activity of the one
	// before it; nil: it begins none there.
	follows func() int
	// cancelDelay is how long a canceled step continues.
	cancelDelay time.Duration
	// injectFault may fail a step before a block, or a discovery before its answer.
	injectFault func(what string, block int) error
	// misreport may change the result of a step.
	misreport func(*contract.StepResult)

	// power changes the power; powerCalls are the actions that arrived, "" for a read.
	power      func(action string) (contract.PowerResult, error)
	powerCalls []string

	inputs  []contract.StepInput // every scheduling that reached the host
	looks   []contract.DiscoverInput
	zeroed  func(block int)
	read    func(block int)
	changed func()
}

type journal struct {
	clean, step string
	seq         int64
	offset      int
	open, done  bool
	result      contract.StepResult
	ran         time.Duration
	before      *journal // the step before this one, in one activity with it
}

func newFakeHost() *fakeHost {
	h := &fakeHost{
		up: true, steps: map[string]int{"zero": 1, "verify": 1},
		discovery: contract.DiscoveryResult{
			Identity:  device.Identity{Serial: "S1", Vendor: "Acme", Model: "M1", Size: blocks * blockSize, Path: "/dev/d1"},
			Operation: device.Shred,
		},
	}
	h.writeAsTenant("enrolled")
	return h
}

// writeAsTenant fills the device with a tenant's data.
func (h *fakeHost) writeAsTenant(who string) {
	for i := range h.blocks {
		h.blocks[i] = who
	}
}

func (h *fakeHost) clean() bool { return h.blocks == [blocks]string{} }

// crash ends the worker as by kill -9; restart starts the next one.
func (h *fakeHost) crash()   { h.up = false; h.epoch++ }
func (h *fakeHost) restart() { h.up = true }

// attempt runs one attempt of one activity on the host. canceled says whether the
// server asked for a cancel; beat takes heartbeats; lostAfter is the heartbeat
// time-out.
func (h *fakeHost) attempt(ctx workflow.Context, j *job) (any, error) {
	switch j.name {
	case contract.ActivityDiscover:
		return h.discover(ctx, j.args[0].(contract.DiscoverInput))
	case contract.ActivityPower:
		call := j.args[0].(contract.PowerCall)
		h.powerCalls = append(h.powerCalls, call.Action)
		return h.power(call.Action)
	case contract.ActivityForget:
		h.known = false
		return nil, nil
	}
	version, ok := h.steps[j.name]
	if !ok {
		return nil, temporal.NewApplicationError("unable to find activityType="+j.name, "ActivityNotRegisteredError")
	}
	in := j.args[0].(contract.StepInput)
	h.inputs = append(h.inputs, in)
	switch {
	case in.Version != version:
		return nil, refuse(device.Permanent, device.CodePlanOutdated)
	case h.journal.seq == in.Seq+1 && h.journal.before != nil && h.journal.before.seq == in.Seq &&
		h.journal.before.clean == journalKey(in):
		return h.follow(ctx, j, in, h.journal.before.result)
	case in.Seq < h.journal.seq, in.Seq == h.journal.seq &&
		(h.journal.clean != journalKey(in) || h.journal.step != in.Step):
		return nil, contract.Refuse(contract.Refusal{
			Fault: device.Fault{Class: device.Permanent, Code: device.CodeSuperseded, Message: "scripted superseded", Remedy: "none"},
			Known: &contract.HostNumbers{Seq: h.record.Seq, Clean: h.record.Clean, Binding: h.record.Binding},
		})
	case in.Seq == h.journal.seq && h.journal.done:
		return h.follow(ctx, j, in, h.journal.result)
	case in.Identity.Differs(h.discovery.Identity) != "":
		return nil, refuse(device.NeedsOperator, device.MismatchCode(in.Identity.Differs(h.discovery.Identity)))
	}
	result, err := h.step(ctx, j, in, blocks)
	if err != nil {
		return nil, err
	}
	return h.follow(ctx, j, in, result)
}

// follow begins the next step in the same activity, as a host does.
func (h *fakeHost) follow(ctx workflow.Context, j *job, in contract.StepInput, done contract.StepResult) (any, error) {
	result := contract.StepAnswer{StepResult: done, SeenAt: workflow.Now(ctx).UTC()}
	if in.Next == nil || h.follows == nil || result.Firmware != "" || j.canceled() {
		return result, nil
	}
	upTo := h.follows()
	if upTo == 0 {
		return result, nil
	}
	next, epoch, before := in.Following(result.RunTime), h.epoch, h.journal
	if next.Seq == h.journal.seq {
		before = *h.journal.before
	}
	if next.Seq != h.journal.seq || !h.journal.done {
		h.begunBy = &before
		got, err := h.step(ctx, j, next, upTo)
		switch refusal, final := contract.RefusalOf(err); {
		case h.epoch != epoch: // killed: nothing is answered
			return nil, err
		case errors.Is(err, errHandedBack), err != nil && (!final || refusal.Fault.Class == device.Transient):
			return result, nil
		case err != nil:
			result.Next = &contract.NextResult{Refusal: &refusal}
			return result, nil
		default:
			result.Next = &contract.NextResult{Result: &got}
			return result, nil
		}
	}
	result.Next = &contract.NextResult{Result: &h.journal.result}
	return result, nil
}

// errHandedBack ends a step that follows another one and takes too long for that.
var errHandedBack = errors.New("handed back")

// journalKey is the journal's key of a clean.
func journalKey(in contract.StepInput) string {
	return fmt.Sprint(in.Clean, " g", in.Generation, " v", in.Version)
}

// step runs one attempt of a step, up to a block.
func (h *fakeHost) step(ctx workflow.Context, j *job, in contract.StepInput, upTo int) (contract.StepResult, error) {
	clean := journalKey(in)
	same := h.journal.clean == clean && h.journal.step == in.Step
	if same && h.journal.open && in.Settings.OnInterrupt == device.InterruptError {
		return contract.StepResult{}, refuse(device.NeedsOperator, device.CodeInterrupted)
	}
	if !same {
		h.journal = journal{clean: clean, step: in.Step, before: h.begunBy}
	}
	h.begunBy = nil
	h.journal.seq, h.journal.open, h.journal.done = in.Seq, true, false
	h.record.Seq, h.record.Clean = max(h.record.Seq, in.LastSeq()), max(h.record.Clean, in.Number)
	h.record.Binding = max(h.record.Binding, in.Binding)
	h.running = in.Step
	h.notify()
	err := h.processBlocks(ctx, j, in, upTo)
	h.running = ""
	h.notify()
	if err != nil {
		return contract.StepResult{}, err
	}
	h.journal.open, h.journal.done = false, true
	h.journal.result = contract.StepResult{Step: in.Step, Clean: in.Clean, Seq: in.Seq, Bytes: blocks * blockSize,
		Method: "testdriver", RunTime: h.journal.ran}
	if in.Step == "firmware_reflash" {
		h.journal.result.Firmware = h.discovery.Identity.Firmware
	}
	if h.misreport != nil {
		h.misreport(&h.journal.result)
	}
	return h.journal.result, nil
}

// processBlocks handles one block after the other.
func (h *fakeHost) processBlocks(ctx workflow.Context, j *job, in contract.StepInput, upTo int) error {
	epoch := h.epoch
	for h.journal.offset < blocks {
		if h.journal.offset >= upTo {
			h.journal.open = false
			return errHandedBack
		}
		block := h.journal.offset
		took := pace
		if h.brief {
			took = time.Millisecond
		}
		if !waitUntil(ctx, workflow.Now(ctx).Add(took), func() bool { return h.epoch != epoch || j.canceled() }) {
			h.journal.ran += took
		}
		switch {
		case h.epoch != epoch:
			// The worker is dead: the next one ends this attempt, or its heartbeat times out.
			h.running = ""
			if waitUntil(ctx, workflow.Now(ctx).Add(j.opts.HeartbeatTimeout), func() bool { return h.up }) {
				return refuse(device.Transient, device.CodeWorkerRestarted)
			}
			return temporal.NewHeartbeatTimeoutError(j.beat)
		case j.canceled():
			waitUntil(ctx, workflow.Now(ctx).Add(h.cancelDelay+time.Millisecond), func() bool { return false })
			h.journal.open = false
			return temporal.NewCanceledError()
		case h.journal.ran > in.Budget:
			h.journal.open = false
			return refuse(device.NeedsOperator, device.CodeTimeout)
		}
		if h.injectFault != nil {
			if err := h.injectFault(in.Step, block); err != nil {
				h.journal.open = false
				return err
			}
		}
		switch in.Step {
		case "verify":
			if h.read != nil {
				h.read(block)
			}
			if h.blocks[block] != "" {
				h.journal.open = false
				return refuse(device.NeedsOperator, device.CodeVerifyFailed)
			}
		case "zero", "sanitize":
			h.blocks[block] = ""
			if h.zeroed != nil {
				h.zeroed(block)
			}
		}
		h.journal.offset++
		j.beat = contract.Progress{Step: in.Step, Seq: in.Seq, Offset: int64(h.journal.offset) * blockSize,
			Size: in.Identity.Size, RunTime: h.journal.ran}
		j.beats++
	}
	return nil
}

func (h *fakeHost) discover(ctx workflow.Context, in contract.DiscoverInput) (any, error) {
	waitUntil(ctx, workflow.Now(ctx).Add(time.Second), func() bool { return false })
	h.looks = append(h.looks, in)
	if h.injectFault != nil {
		if err := h.injectFault(contract.ActivityDiscover, 0); err != nil {
			return nil, err
		}
	}
	if in.Known != (device.Identity{}) && in.Known.Differs(h.discovery.Identity) != "" {
		return nil, refuse(device.NeedsOperator, device.CodeIdentityChanged)
	}
	h.record.KnownBefore, h.known = h.known, true
	h.record.Enrollment, h.record.Identity = in.Enrollment, h.discovery.Identity
	h.record.Binding = max(h.record.Binding, in.Binding)
	facts, record := h.discovery, h.record
	facts.Steps, facts.Record, facts.ObservedAt = maps.Clone(h.steps), &record, workflow.Now(ctx).UTC()
	return facts, nil
}

func (h *fakeHost) notify() {
	if h.changed != nil {
		h.changed()
	}
}

// hint is what the host sends when its worker starts.
func (h *fakeHost) hint(now time.Time) contract.Hint {
	record := h.record
	return contract.Hint{
		Source: "host start", Host: &record, Started: true, ObservedAt: now.UTC().Format(time.RFC3339Nano),
	}
}

// refuse is a fault as an activity returns it.
func refuse(class device.Class, code device.Code) error {
	return refusal(device.Fault{Class: class, Code: code, Message: fmt.Sprintf("scripted %s", code), Remedy: "none"})
}

func refusal(f device.Fault) error {
	return contract.Refuse(contract.Refusal{Fault: f, Device: "d1"})
}
