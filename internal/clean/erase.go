package clean

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"burnish/internal/device"
)

// Action is clear_action of the erase policy: which kind of operation (S2.8).
type Action string

// Strategy is clear_strategy of the erase policy: by which operation (S2.9).
type Strategy string

// The actions and strategies; empty is auto.
const (
	ActionAuto     Action = "auto"
	ActionSanitize Action = "sanitize"
	ActionZero     Action = "zero"

	StrategyAuto   Strategy = "auto"
	StrategyCrypto Strategy = "crypto"
	StrategyBlock  Strategy = "block"
)

// ErasePolicy is the operator's choice of how NVMe devices are erased. The zero value is
// auto, auto.
type ErasePolicy struct {
	Action   Action   `json:"clear_action,omitempty"`
	Strategy Strategy `json:"clear_strategy,omitempty"`
}

// For is the policy of one device: what its own entry of device_spec says, and else this one
// (S2.105). The pair may be invalid although both are valid.
func (p ErasePolicy) For(action, strategy string) ErasePolicy {
	return ErasePolicy{Action: cmp.Or(Action(action), p.Action), Strategy: cmp.Or(Strategy(strategy), p.Strategy)}
}

// matrix gives the operations that each policy accepts, the preferred one first (S2.16 to
// S2.22). A pair that is not in it is refused (S2.23).
var matrix = map[Action]map[Strategy][]device.Operation{
	ActionAuto: {
		StrategyAuto:   {device.CryptoErase, device.BlockErase, device.WriteZeroes, device.Shred},
		StrategyCrypto: {device.CryptoErase},
		StrategyBlock:  {device.BlockErase, device.WriteZeroes, device.Shred},
	},
	ActionSanitize: {
		StrategyAuto:   {device.CryptoErase, device.BlockErase},
		StrategyCrypto: {device.CryptoErase},
		StrategyBlock:  {device.BlockErase},
	},
	ActionZero: {
		StrategyAuto:  {device.WriteZeroes, device.Shred},
		StrategyBlock: {device.WriteZeroes, device.Shred},
	},
}

// needs names the capability that each operation needs.
var needs = map[device.Operation]string{
	device.CryptoErase: "crypto erase (SANICAP bit 0)",
	device.BlockErase:  "block erase (SANICAP bit 1)",
	device.WriteZeroes: "write zeroes (ONCS bit 3)",
}

// String gives the policy with its keys.
func (p ErasePolicy) String() string {
	p = p.full()
	return fmt.Sprintf("clear_action=%s clear_strategy=%s", p.Action, p.Strategy)
}

// full replaces empty values by auto.
func (p ErasePolicy) full() ErasePolicy {
	if p.Action == "" {
		p.Action = ActionAuto
	}
	if p.Strategy == "" {
		p.Strategy = StrategyAuto
	}
	return p
}

// PolicyError names the key of an erase policy that is wrong, clear_action or
// clear_strategy, and says why in one line.
type PolicyError struct {
	Key, Message string
}

// Error gives the key and what is wrong with it.
func (e *PolicyError) Error() string { return e.Key + ": " + e.Message }

// Validate refuses an action or a strategy that does not exist, and the pair zero and
// crypto (S2.23). The error is a *PolicyError.
func (p ErasePolicy) Validate() error {
	p = p.full()
	strategies, ok := matrix[p.Action]
	if !ok {
		return &PolicyError{Key: "clear_action", Message: fmt.Sprintf("%q is not one of %s", p.Action,
			strings.Join(texts(ActionAuto, ActionSanitize, ActionZero), ", "))}
	}
	if _, ok := matrix[ActionAuto][p.Strategy]; !ok {
		return &PolicyError{Key: "clear_strategy", Message: fmt.Sprintf("%q is not one of %s", p.Strategy,
			strings.Join(texts(StrategyAuto, StrategyCrypto, StrategyBlock), ", "))}
	}
	if _, ok := strategies[p.Strategy]; !ok {
		return &PolicyError{Key: "clear_strategy",
			Message: fmt.Sprintf("%s is impossible with clear_action %s: want one of %s",
				p.Strategy, p.Action, strings.Join(texts(slices.Sorted(maps.Keys(strategies))...), ", "))}
	}
	return nil
}

// Resolve gives the operation that the policy chooses for a device with these
// capabilities: the first one that it accepts and the device supports (S2.16 to S2.22). It
// is locked in: there is no other choice at run time (S2.26, S2.27). Faults:
// invalid_setting for a policy that Validate refuses, policy_unsatisfied where the device
// supports no accepted operation (S2.25).
func (p ErasePolicy) Resolve(can device.Capabilities) (device.Operation, *device.Fault) {
	if err := p.Validate(); err != nil {
		return "", &device.Fault{
			Class: device.Permanent, Code: device.CodeInvalidSetting,
			Message: err.Error(), Remedy: "correct the erase policy: in the policy file, or in device_spec of host.yaml",
		}
	}
	p = p.full()
	accepted := matrix[p.Action][p.Strategy]
	var lacks []string
	for _, operation := range accepted {
		if can.Supports(operation) {
			return operation, nil
		}
		lacks = append(lacks, needs[operation])
	}
	return "", &device.Fault{
		Class: device.NeedsOperator, Code: device.CodePolicyUnsatisfied,
		Message: fmt.Sprintf("the policy %s needs %s, which the device does not support", p, strings.Join(lacks, " or ")),
		Remedy:  "choose another clear_action or clear_strategy, or remove the device",
	}
}

// Accepts says that the policy lets a device with these capabilities be erased by the operation.
func (p ErasePolicy) Accepts(can device.Capabilities, operation device.Operation) bool {
	p = p.full()
	return can.Supports(operation) && slices.Contains(matrix[p.Action][p.Strategy], operation)
}

// Erasure is how one device is erased: the one operation that the policy chooses for it,
// and the steps of its full clean.
type Erasure struct {
	Operation device.Operation
	Steps     []Planned
}

// Erasure chooses the policy's operation for the device and plans its full clean; the
// operation is locked in at discovery. Faults: those of ErasePolicy.Resolve and of Full,
// and no_erase_path for a device that has no namespace and cannot create one (F17).
func (p *Planner) Erasure(policy ErasePolicy, s Subject) (Erasure, *device.Fault) {
	operation, fault := policy.Resolve(s.Capabilities)
	if fault != nil {
		return Erasure{}, fault
	}
	if s.Layout == device.LayoutNone && !s.Capabilities.ManageNamespaces {
		return Erasure{}, &device.Fault{
			Class: device.NeedsOperator, Code: device.CodeNoErasePath,
			Message: fmt.Sprintf("%s: the device has no namespace and cannot create one (OACS bit 3)", operation),
			Remedy:  "create one namespace of the full size with the vendor's tool, or retire the device",
		}
	}
	s.Operation = operation
	steps, fault := p.Full(s)
	if fault != nil {
		return Erasure{}, fault
	}
	return Erasure{Operation: operation, Steps: steps}, nil
}

// texts converts names to strings.
func texts[T ~string](names ...T) []string {
	var all []string
	for _, name := range names {
		all = append(all, string(name))
	}
	return all
}
