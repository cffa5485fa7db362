package device

import (
	"errors"
	"slices"
)

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
	// Other is the other device of a duplicate_serial.
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

// HasCode says that an error is a fault with one of these codes, or holds one.
func HasCode(err error, codes ...Code) bool {
	f, ok := AsFault(err)
	return ok && slices.Contains(codes, f.Code)
}

// The codes of faults, by who raises them.
const (
	// The workflow and its steps.
	CodeAborted           Code = "aborted"
	CodeTimeout           Code = "timeout"
	CodeHostUnreachable   Code = "host_unreachable"
	CodeHostWorkerTooOld  Code = "host_worker_too_old"
	CodePlanOutdated      Code = "plan_outdated"
	CodeNoErasePath       Code = "no_erase_path"
	CodeNoSuchStep        Code = "no_such_step"
	CodeNoSuchRunbook     Code = "no_such_runbook"
	CodeOnHold            Code = "on_hold"
	CodeRunbookWait       Code = "runbook_wait"
	CodeWaitingForGroup   Code = "waiting_for_group"
	CodeInterrupted       Code = "interrupted"
	CodeWorkerRestarted   Code = "worker_restarted"
	CodeWorkerStopping    Code = "worker_stopping"
	CodeServerUnreachable Code = "server_unreachable"
	CodeWaitingForSlot    Code = "waiting_for_slot"
	CodeBreakerOpen       Code = "breaker_open"
	CodeCanaryRunning     Code = "canary_running"
	CodeFreeCapacity      Code = "free_capacity"
	CodePowerUnknown      Code = "power_unknown"
	CodeNoPowerControl    Code = "no_power_control"
	CodeNoProgress        Code = "no_progress"
	CodeSuperseded        Code = "superseded"
	CodeResultMismatch    Code = "result_mismatch"
	CodeNotProved         Code = "not_proved"
	CodeVerifyFailed      Code = "verify_failed"
	CodeStepFailed        Code = "step_failed"
	CodeInternal          Code = "internal"
	CodeAutomatedCleanOff Code = "automated_clean_off"
	CodeTenantUnrecorded  Code = "tenant_unrecorded"
	CodeTenantLeft        Code = "tenant_left"

	// The inventory.
	CodeAlreadyBurned            Code = "already_burned"
	CodeInUse                    Code = "in_use"
	CodeConflict                 Code = "conflict"
	CodeReservationChanged       Code = "reservation_changed"
	CodeInventoryGenerationAhead Code = "inventory_generation_ahead"
	CodeInventoryUnavailable     Code = "inventory_unavailable"
	CodeInventoryInvalid         Code = "inventory_invalid"
	CodeReservationUnknown       Code = "reservation_unknown"
	CodeNoProvider               Code = "no_provider"

	// The device in hand.
	CodeUnknownDriver           Code = "unknown_driver"
	CodeInvalidSetting          Code = "invalid_setting"
	CodeInvalidConfig           Code = "invalid_configuration"
	CodeNotAllowed              Code = "not_allowed"
	CodeOverwriteUnsupported    Code = "overwrite_unsupported"
	CodeIdentityChanged         Code = "identity_changed"
	CodeForeignWrite            Code = "foreign_write"
	CodeSerialMismatch          Code = "serial_mismatch"
	CodeDuplicateSerial         Code = "duplicate_serial"
	CodeTargetMissing           Code = "target_missing"
	CodeTargetBusy              Code = "target_busy"
	CodeTargetShared            Code = "target_shared"
	CodeFilesystemSignature     Code = "filesystem_signature"
	CodePolicyUnsatisfied       Code = "policy_unsatisfied"
	CodeToolOutputInvalid       Code = "tool_output_invalid"
	CodeToolTooOld              Code = "tool_too_old"
	CodeToolMissing             Code = "tool_missing"
	CodeCommandRefused          Code = "command_refused"
	CodeNamespaceLayoutMismatch Code = "namespace_layout_mismatch"
	CodeSanitizeRunning         Code = "sanitize_running"
	CodeSanitizeFailed          Code = "sanitize_failed"
	CodeSanitizeStalled         Code = "sanitize_stalled"
	CodeWearLimitExceeded       Code = "wear_limit_exceeded"
	CodeSecurityLocked          Code = "security_locked"
	CodeFirmwareChanged         Code = "firmware_changed"
	CodeFirmwareNotListed       Code = "firmware_not_listed"
	CodeFirmwareImage           Code = "firmware_image_invalid"
	CodeFirmwareUnknown         Code = "firmware_update_unknown"
	CodeFirmwareNotActive       Code = "firmware_not_active"
	CodeWriteProtected          Code = "write_protected"
	CodeIO                      Code = "io_error"
	CodeStateDirError           Code = "state_dir_error"
	CodeFenceHeld               Code = "fence_held"

	// A server and its BMC.
	CodeBMCUnreachable     Code = "bmc_unreachable"
	CodeBMCLoginRefused    Code = "bmc_login_refused"
	CodeBMCSessionLimit    Code = "bmc_session_limit"
	CodeServerNotReady     Code = "server_not_ready"
	CodeBIOSMismatch       Code = "bios_mismatch"
	CodeBIOSSettingInvalid Code = "bios_setting_invalid"
	CodeBIOSJobWaiting     Code = "bios_job_waiting"
	CodePropertiesMismatch Code = "properties_mismatch"
	CodeSecretInvalid      Code = "secret_invalid"
	CodeDrivesChanged      Code = "drives_changed"
	CodeDriveNotErasable   Code = "drive_not_erasable"
	CodeEraseUnknown       Code = "erase_unknown"
	CodeSetupMismatch      Code = "setup_mismatch"
	CodeNotCovered         Code = "not_covered"
	CodeTPMNotCleared      Code = "tpm_not_cleared"

	// A server's shared pool.
	CodeServerTaken          Code = "server_taken"
	CodeApplianceUnreachable Code = "appliance_unreachable"
	CodeApplianceRefused     Code = "appliance_refused"
	CodeProfileFailed        Code = "profile_failed"
	CodeProfileStuck         Code = "profile_stuck"

	// Requests.
	CodeRefused       Code = "refused"
	CodeInvalid       Code = "invalid"
	CodeNotFound      Code = "not_found"
	CodeAlreadyExists Code = "already_exists"
	CodeBindingEnded  Code = "binding_ended"
	CodeRequestReused Code = "request_reused"
	CodeUnreachable   Code = "unreachable"

	// An override (D2).
	CodeOverrideOff      Code = "override_off"
	CodeOverrideUnsigned Code = "override_unsigned"
	CodeSamePrincipal    Code = "same_principal"

	// Who may use the HTTP API.
	CodeNotAuthenticated          Code = "not_authenticated"
	CodeAuthenticationUnavailable Code = "authentication_unavailable"
	CodeForbidden                 Code = "forbidden"
	CodeTooManyRequests           Code = "too_many_requests"

	// The form of a request to the HTTP API.
	CodeNoSuchPath         Code = "no_such_path"
	CodeMethodNotAllowed   Code = "method_not_allowed"
	CodeVersionUnsupported Code = "version_unsupported"
	CodeRequestTooLarge    Code = "request_too_large"
	CodeMediaType          Code = "media_type_unsupported"
)
