package device

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// StepSettings are the operator's settings that the steps of a clean obey. A worker reads
// them once; the plan records them, each step's input carries that record, and the step
// gets it unchanged. A new setting is one field here, the check of its values, and its use
// in the step. internal/config lists the variables of the environment and the keys of
// policy.yaml that set the fields.
type StepSettings struct {
	// Verify is how much a verify reads: "full", or "sample:N" for one block in N.
	Verify string `json:"verify,omitempty"`
	// OnInterrupt is how a step ends that a crash interrupted (D1).
	OnInterrupt OnInterrupt `json:"on_interrupt,omitempty"`
	// Wear limits the wear of a device that goes to another tenant (S0.32).
	Wear WearLimits `json:"wear,omitzero"`
	// SanitizeStall is how long a sanitize may make no progress before an operator is
	// called; 0: without limit.
	SanitizeStall time.Duration `json:"sanitize_stall,omitempty"`
	// TellAfter is how long a device may wait without progress until its operator is called.
	TellAfter time.Duration `json:"tell_after,omitempty"`
}

// OnInterrupt says what a step does that finds itself interrupted by a crash; empty is
// InterruptResume.
type OnInterrupt string

// A step either goes on from its last resume point, or ends in a fault.
const (
	InterruptResume OnInterrupt = "resume"
	InterruptError  OnInterrupt = "error"
)

// Validate checks what the environment sets. The error has one line for each variable,
// which begins with its name.
func (s StepSettings) Validate() error {
	var wrong []error
	if _, err := s.SampleInterval(); err != nil {
		wrong = append(wrong, fmt.Errorf("VERIFY: %q is neither full nor sample:N", s.Verify))
	}
	if s.OnInterrupt != "" && s.OnInterrupt != InterruptResume && s.OnInterrupt != InterruptError {
		wrong = append(wrong, fmt.Errorf("ON_INTERRUPT: %q is neither resume nor error", s.OnInterrupt))
	}
	return errors.Join(wrong...)
}

// SampleInterval is the number of blocks of which a verify reads one: N where Verify is
// "sample:N", 1 where it is "full" or empty.
func (s StepSettings) SampleInterval() (int64, error) {
	if s.Verify == "" || s.Verify == "full" {
		return 1, nil
	}
	text, ok := strings.CutPrefix(s.Verify, "sample:")
	n, err := strconv.ParseInt(text, 10, 32)
	if !ok || err != nil || n < 1 {
		return 0, &Fault{Class: NeedsOperator, Code: CodeInvalidSetting,
			Message: fmt.Sprintf("verify %q is neither full nor sample:N", s.Verify), Remedy: "correct BURNISH_VERIFY"}
	}
	return n, nil
}
