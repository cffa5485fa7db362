package device

import "errors"

// Class says who can do something about a Fault.
type Class string

// The classes of faults.
const (
	// Transient: the same call may work later; Temporal's retry policy repeats it.
	Transient Class = "transient"
	// Permanent: the same call will fail again.
	Permanent Class = "permanent"
	// NeedsOperator: nothing but a person's act helps.
	NeedsOperator Class = "needs_operator"
)

// Code names one kind of fault. Every code has a page in docs/faults.md.
type Code string

// Fault is an error that an operator can act upon: what, and what to do. Message
// and Remedy are one line each.
type Fault struct {
	Class   Class  `json:"class"`
	Code    Code   `json:"code"`
	Message string `json:"message"`
	Remedy  string `json:"remedy,omitempty"`
	// Other is the other device that an identity_taken speaks of.
	Other string `json:"other,omitempty"`
}

// Error gives the message, and the remedy where there is one.
func (f *Fault) Error() string {
	if f.Remedy == "" {
		return f.Message
	}
	return f.Message + "; " + f.Remedy
}

// AsFault finds the Fault in err's chain.
func AsFault(err error) (*Fault, bool) {
	var f *Fault
	ok := errors.As(err, &f)
	return f, ok
}

// The codes of faults, by who raises them.
const (
	// The workflow and its steps.
	CodeAborted           Code = "aborted"
	CodeTimeout           Code = "timeout"
	CodeHostSilent        Code = "host_silent"
	CodeHostWorkerTooOld  Code = "host_worker_too_old"
	CodePlanOutdated      Code = "plan_outdated"
	CodeNoErasePath       Code = "no_erase_path"
	CodeNoSuchStep        Code = "no_such_step"
	CodeInterrupted       Code = "interrupted"
	CodeWorkerRestarted   Code = "worker_restarted"
	CodeWorkerStopping    Code = "worker_stopping"
	CodeLostContact       Code = "lost_contact"
	CodeSlotWait          Code = "slot_wait"
	CodeSuperseded        Code = "superseded"
	CodeVerifyFailed      Code = "verify_failed"
	CodeStepFailed        Code = "step_failed"
	CodeInternal          Code = "internal"
	CodeAutomatedCleanOff Code = "automated_clean_off"
	CodeRecovered         Code = "recovered"

	// The inventory.
	CodeAlreadyBurned        Code = "already_burned"
	CodeInUse                Code = "in_use"
	CodeConflict             Code = "conflict"
	CodeReclaimed            Code = "reclaimed"
	CodeInventoryNewer       Code = "inventory_newer"
	CodeInventoryUnavailable Code = "inventory_unavailable"
	CodeInventoryInvalid     Code = "inventory_invalid"
	CodeBurnUnknown          Code = "burn_unknown"
	CodeNoProvider           Code = "no_provider"

	// The device in hand.
	CodeUnknownDriver     Code = "unknown_driver"
	CodeInvalidSetting    Code = "invalid_setting"
	CodeInvalidConfig     Code = "invalid_configuration"
	CodeNotAllowed        Code = "not_allowed"
	CodeNotInPlace        Code = "not_in_place"
	CodeIdentityChanged   Code = "identity_changed"
	CodeReplaced          Code = "replaced"
	CodeIdentityTaken     Code = "identity_taken"
	CodeTargetMissing     Code = "target_missing"
	CodeTargetBusy        Code = "target_busy"
	CodeTargetShared      Code = "target_shared"
	CodeForeignSignature  Code = "foreign_signature"
	CodePolicyUnsatisfied Code = "policy_unsatisfied"
	CodeToolOutput        Code = "tool_output"
	CodeToolTooOld        Code = "tool_too_old"
	CodeToolMissing       Code = "tool_missing"
	CodeCommandRefused    Code = "command_refused"
	CodeLayout            Code = "layout"
	CodeSanitizeRunning   Code = "sanitize_running"
	CodeSanitizeFailed    Code = "sanitize_failed"
	CodeSanitizeStalled   Code = "sanitize_stalled"
	CodeWornOut           Code = "worn_out"
	CodeLocked            Code = "locked"
	CodeFirmwareChanged   Code = "firmware_changed"
	CodeWriteProtected    Code = "write_protected"
	CodeIO                Code = "io_error"
	CodeStateDir          Code = "state_dir"
	CodeFenceHeld         Code = "fence_held"
	CodeHostRecordNewer   Code = "host_record_newer"

	// Requests.
	CodeRefused       Code = "refused"
	CodeInvalid       Code = "invalid"
	CodeNotFound      Code = "not_found"
	CodeAlreadyExists Code = "already_exists"
	CodeBindingOver   Code = "binding_over"
	CodeUnreachable   Code = "unreachable"
)
