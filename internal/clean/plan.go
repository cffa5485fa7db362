// Package clean plans cleans: which steps a clean consists of, in which order, and how long
// each may run. It is pure; the workflow records a plan before it carries it out.
package clean

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"burnish/internal/device"
)

// Phase orders steps before their priorities do (D13).
type Phase string

// The phases, in their order.
const (
	Prepare Phase = "prepare"
	Erase   Phase = "erase"
	Verify  Phase = "verify"
	Restore Phase = "restore"
)

var phases = []Phase{Prepare, Erase, Verify, Restore}

// interfaces in the order of ties between equal priorities (D6).
var interfaces = []string{"vendor", "power", "management", "firmware", "deploy", "bios", "raid"}

// Step is what a planner needs of a step; internal/clean/steps lists all of them.
type Step struct {
	Name      string
	Interface string
	Phase     Phase
	Priority  float64 // higher runs first within the phase; 0: not run by itself (S3.8)
	Version   int     // raised when a half-done step of the older version must start over (S3.16)
	// Abortable: a cancel may interrupt the step; the next clean can start from there.
	Abortable bool
	// Guards: the step finds what must not reach the next tenant. Only priority 0 leaves it out
	// of a full clean; a runbook does not.
	Guards bool
	// Applies says whether the step is for this device.
	Applies func(Subject) bool
	// Timeout is the budget of running time where no explicit one is set (D5).
	Timeout func(Subject) time.Duration
	// FromPolicy gives the arguments that the policy has for this device, a value that
	// becomes a JSON object, or nil for none. Not ok: the policy does not ask for the step.
	// Without FromPolicy it asks for it, without arguments.
	FromPolicy func(Policy, Subject) (args any, ok bool)
	// Args describes the arguments that a runbook or an operator may give.
	Args Schema
	// Combine makes the arguments of what FromPolicy gives (nil: nothing) and of what a runbook
	// or an operator gives. Without Combine the given arguments replace the policy's.
	Combine func(fromPolicy any, given map[string]any) (any, error)
}

// Subject is what a planner knows of a device.
type Subject struct {
	Name      string
	Type      string
	Operation device.Operation
	// Vendor, Model and Traits are what a policy chooses devices by.
	Vendor string
	Model  string
	Traits []string
	// Labels are the operator's; a runbook groups devices by one.
	Labels map[string]string
	// Properties are what a server consisted of when it was enrolled, Golden the profile of the policy that
	// it was enrolled with.
	Properties device.Properties
	Golden     string
	// NVMe: the device is an NVMe controller that answers commands, not only the saved
	// output of one.
	NVMe bool
	// Capabilities and Layout are those of an NVMe device; other devices have none.
	Capabilities device.Capabilities
	Layout       device.Layout
	Size         int64
	// SupportedSteps are the steps that the device's driver carries out itself.
	SupportedSteps []string
	// Priorities replaces steps' own for the devices of this driver; the policy's come first.
	Priorities map[string]float64
	// Estimate is the device's own estimate of how long its erase takes; 0: unknown.
	Estimate time.Duration
	// HostSteps gives the version of each step that the device's host worker knows.
	HostSteps map[string]int
}

// Policy is what the operator decides for all devices. internal/config lists the variables of the
// environment and the keys of policy.yaml that set it.
type Policy struct {
	// Priorities replaces steps' own; 0 switches a step off (S3.8, S3.9).
	Priorities map[string]float64 `json:"priorities,omitempty"`
	// Phases moves steps to another phase than their own. Only firmware_reflash can be moved,
	// and only to prepare (D13).
	Phases map[string]Phase `json:"phases,omitempty"`
	// HostSilentAfter is how long a step waits for its host until the operator is
	// informed.
	HostSilentAfter time.Duration `json:"host_silent_after"`
	// CleanupTimeout is the budget of running time for one whole clean; 0: each
	// step's own (D5).
	CleanupTimeout time.Duration `json:"cleanup_timeout,omitempty"`
	// Automated: a clean begins by itself when a binding ends (S3.6).
	Automated bool `json:"automated"`
	// OnEnroll: a device is dirty when it is enrolled (S3.2).
	OnEnroll bool `json:"on_enroll"`
	// NVMe is how NVMe devices are erased (S2.8, S2.9).
	NVMe ErasePolicy `json:"nvme,omitzero"`
	// Limits bound what happens to the fleet at once; nil: nothing is limited, and cleans
	// are not counted.
	Limits *device.Limits `json:"limits,omitempty"`
	PolicyLists
	device.StepSettings
}

// Planned is one step of a plan.
type Planned struct {
	Step     Step
	Priority float64
	Timeout  time.Duration
	// Args are its arguments, a JSON object; nil: it has none.
	Args json.RawMessage
}

// Planner makes plans from the steps that exist and a policy that was validated.
type Planner struct {
	steps  []Step
	policy Policy
	digest string
}

// NewPlanner validates the policy against the steps. It refuses a policy that switches off
// an erase or its verify, names a step that does not exist, gives two steps of one
// interface the same priority in one phase (S3.13), has an invalid erase policy (S2.23), or a
// runbook that is not carried out as it stands.
func NewPlanner(steps []Step, policy Policy) (*Planner, error) {
	if err := policy.NVMe.Validate(); err != nil {
		return nil, fmt.Errorf("policy: nvme: %w", err)
	}
	steps, err := moved(steps, policy.Phases)
	if err != nil {
		return nil, err
	}
	policy.Priorities, policy.Phases = maps.Clone(policy.Priorities), maps.Clone(policy.Phases)
	for name, priority := range policy.Priorities {
		i := slices.IndexFunc(steps, func(s Step) bool { return s.Name == name })
		switch {
		case i < 0:
			return nil, fmt.Errorf("policy: priorities: there is no step %q; the steps are %s", name,
				strings.Join(names(steps), ", "))
		case math.IsNaN(priority) || math.IsInf(priority, 0):
			return nil, fmt.Errorf("policy: priorities: %s: %v is not a valid priority", name, priority)
		case priority < 0:
			return nil, fmt.Errorf("policy: priorities: %s: %v is negative; 0 switches a step off", name, priority)
		case priority == 0 && (steps[i].Phase == Erase || steps[i].Phase == Verify):
			return nil,
				fmt.Errorf("policy: priorities: %s: 0 would return devices without it; an erase and its verify cannot be "+
					"switched off", name)
		}
	}
	policy.Runbooks = slices.Clone(policy.Runbooks)
	p := &Planner{steps: steps, policy: policy}
	for i, a := range steps {
		for _, b := range steps[i+1:] {
			if a.Phase == b.Phase && a.Interface == b.Interface && p.priority(a) == p.priority(b) && p.priority(a) != 0 {
				return nil, fmt.Errorf("policy: priorities: %s and %s of interface %s both have priority %v", a.Name, b.Name,
					a.Interface, p.priority(a))
			}
		}
	}
	if err := p.checkRunbooks(); err != nil {
		return nil, err
	}
	text, err := json.Marshal(policy)
	if err != nil {
		return nil, fmt.Errorf("policy: %w", err)
	}
	sum := sha256.Sum256(text)
	p.digest = hex.EncodeToString(sum[:8])
	return p, nil
}

// moved gives the steps in the phases that the policy has for them. An erase, its verify and
// what depends on them keep their places.
func moved(steps []Step, phases map[string]Phase) ([]Step, error) {
	if len(phases) == 0 {
		return steps, nil
	}
	steps = slices.Clone(steps)
	for _, name := range slices.Sorted(maps.Keys(phases)) {
		i := slices.IndexFunc(steps, func(s Step) bool { return s.Name == name })
		switch {
		case i < 0 || name != movable:
			return nil, fmt.Errorf("policy: phases: %s cannot be moved; only %s can", name, movable)
		case phases[name] != Prepare:
			return nil, fmt.Errorf("policy: phases: %s: %q is not %s, the only phase that it can be moved to", name,
				phases[name], Prepare)
		}
		steps[i].Phase = Prepare
	}
	return steps, nil
}

// movable is the only step that a policy can move to another phase.
const movable = "firmware_reflash"

// Policy is the policy planned by, Digest its fingerprint for the record.
func (p *Planner) Policy() Policy { return p.policy }

// Digest identifies the policy in records.
func (p *Planner) Digest() string { return p.digest }

// Full plans a clean that ends in available: the steps that the runbook of the device names,
// or else all that apply, by phase and priority. The plan always holds an erase and its
// verify; otherwise the answer is a fault.
func (p *Planner) Full(s Subject) ([]Planned, *device.Fault) {
	book, fault := p.Automated(s)
	if fault != nil {
		return nil, fault
	}
	standard, fault := p.standard(s)
	if fault != nil || book == nil {
		return standard, fault
	}
	return p.byRunbook(book, standard, s)
}

// include plans a step that applies to the device, with the arguments that a runbook gives it
// or nil, and says whether the policy asks for it.
func (p *Planner) include(step Step, s Subject,
	given json.RawMessage) (planned Planned, wanted bool, fault *device.Fault) {
	args, wanted, fault := p.argsFor(step, s, given)
	if fault != nil || !wanted {
		return Planned{}, false, fault
	}
	if _, known := s.HostSteps[step.Name]; !known {
		return Planned{}, false, tooOld(s, step.Name)
	}
	return p.planned(step, s, args), true, nil
}

// standard is the full plan of a device without a runbook.
func (p *Planner) standard(s Subject) ([]Planned, *device.Fault) {
	var plan []Planned
	has := map[Phase]bool{}
	for _, step := range p.steps {
		if p.priorityFor(step, s) == 0 || !step.Applies(s) {
			continue
		}
		planned, wanted, fault := p.include(step, s, nil)
		if fault != nil {
			return nil, fault
		}
		if !wanted {
			continue
		}
		plan = append(plan, planned)
		has[step.Phase] = true
	}
	if !has[Erase] || !has[Verify] {
		return nil, noErasePath()
	}
	p.order(plan)
	return plan, nil
}

func noErasePath() *device.Fault {
	return &device.Fault{
		Class: device.NeedsOperator, Code: device.CodeNoErasePath,
		Message: "nothing can erase this device and verify it",
		Remedy:  "retire it, or enroll it with a driver that can erase it",
	}
}

// Request is what an operator asks of a manual clean (S3.22): named steps, in that order,
// each with arguments as a JSON object, or a runbook.
type Request struct {
	Steps   []string
	Args    map[string]json.RawMessage
	Runbook string
}

// Manual plans what an operator asks for, as Ironic's manual cleaning does. It refuses a step
// that is not for this device, and arguments that do not fit.
func (p *Planner) Manual(s Subject, r Request) ([]Planned, *device.Fault) {
	if r.Runbook != "" {
		book, fault := p.Runbook(r.Runbook)
		if fault != nil {
			return nil, fault
		}
		return p.byHand(book, s)
	}
	var plan []Planned
	for _, name := range r.Steps {
		i := slices.IndexFunc(p.steps, func(step Step) bool { return step.Name == name && step.Applies(s) })
		if i < 0 {
			return nil, p.noSuchStep(name, s)
		}
		if _, known := s.HostSteps[name]; !known {
			return nil, tooOld(s, name)
		}
		if slices.ContainsFunc(plan, func(have Planned) bool { return have.Step.Name == name }) {
			continue
		}
		args, wanted, fault := p.argsFor(p.steps[i], s, r.Args[name])
		if fault != nil {
			return nil, fault
		}
		if !wanted {
			return nil, &device.Fault{Class: device.Permanent, Code: device.CodeInvalid,
				Message: fmt.Sprintf("%s has nothing to do: the policy has nothing for this device", name),
				Remedy:  "add it to the policy, or give the step's arguments with --arg"}
		}
		plan = append(plan, p.planned(p.steps[i], s, args))
	}
	for _, name := range slices.Sorted(maps.Keys(r.Args)) {
		if !slices.Contains(r.Steps, name) {
			return nil, &device.Fault{Class: device.Permanent, Code: device.CodeInvalid,
				Message: fmt.Sprintf("arguments are given for %s, which is not among the steps", name), Remedy: "name the step too"}
		}
	}
	return plan, nil
}

func (p *Planner) noSuchStep(name string, s Subject) *device.Fault {
	message := fmt.Sprintf("there is no step %q for this device", name)
	if OfWorkflow(name) {
		message = fmt.Sprintf("the step %s is for runbooks only", name)
	}
	return &device.Fault{
		Class: device.Permanent, Code: device.CodeNoSuchStep,
		Message: message, Remedy: "name one of " + strings.Join(p.applicable(s), ", "),
	}
}

// Enabled lists the steps of a full clean of this device in their order (S3.10); it is empty
// where there is no erase path.
func (p *Planner) Enabled(s Subject) []Planned {
	plan, fault := p.Full(s)
	if fault != nil {
		return nil
	}
	return plan
}

func tooOld(s Subject, step string) *device.Fault {
	return &device.Fault{
		Class: device.NeedsOperator, Code: device.CodeHostWorkerTooOld,
		Message: fmt.Sprintf("the host's worker does not know the step %s", step),
		Remedy:  "upgrade burnish-worker on the host, restart it, then clean " + s.Name,
	}
}

func (p *Planner) applicable(s Subject) []string {
	var fits []Step
	for _, step := range p.steps {
		if step.Applies(s) {
			fits = append(fits, step)
		}
	}
	return names(fits)
}

func (p *Planner) priority(s Step) float64 {
	if own, ok := p.policy.Priorities[s.Name]; ok {
		return own
	}
	return s.Priority
}

// priorityFor is the priority of a step of one device.
func (p *Planner) priorityFor(step Step, s Subject) float64 {
	if own, ok := s.Priorities[step.Name]; ok {
		step.Priority = own
	}
	return p.priority(step)
}

func (p *Planner) planned(step Step, s Subject, args json.RawMessage) Planned {
	timeout := p.policy.CleanupTimeout
	if timeout == 0 {
		timeout = step.Timeout(s)
	}
	return Planned{Step: step, Priority: p.priorityFor(step, s), Timeout: timeout, Args: args}
}

func (p *Planner) order(plan []Planned) {
	slices.SortStableFunc(plan, func(a, b Planned) int {
		return cmp.Or(
			cmp.Compare(slices.Index(phases, a.Step.Phase), slices.Index(phases, b.Step.Phase)),
			cmp.Compare(b.Priority, a.Priority),
			cmp.Compare(slices.Index(interfaces, a.Step.Interface), slices.Index(interfaces, b.Step.Interface)),
		)
	})
}

func names(steps []Step) []string {
	var all []string
	for _, s := range steps {
		all = append(all, s.Name)
	}
	return all
}
