package device

// Codes lists every code of a fault, as docs/faults.md does.
func Codes() []Code {
	return []Code{
		CodeAborted, CodeTimeout, CodeHostUnreachable, CodeHostWorkerTooOld, CodePlanOutdated, CodeNoErasePath,
		CodeNoSuchStep, CodeNoSuchRunbook, CodeOnHold, CodeRunbookWait, CodeWaitingForGroup, CodeInterrupted,
		CodeWorkerRestarted, CodeWorkerStopping, CodeServerUnreachable, CodeWaitingForSlot, CodeBreakerOpen,
		CodeCanaryRunning,
		CodeFreeCapacity, CodePowerUnknown, CodeNoPowerControl, CodeNoProgress, CodeSuperseded, CodeResultMismatch,
		CodeNotProved,
		CodeVerifyFailed, CodeStepFailed, CodeInternal, CodeAutomatedCleanOff, CodeTenantUnrecorded, CodeTenantLeft,
		CodeAlreadyBurned, CodeInUse, CodeConflict, CodeReservationChanged, CodeInventoryGenerationAhead,
		CodeInventoryUnavailable, CodeInventoryInvalid, CodeReservationUnknown, CodeNoProvider, CodeUnknownDriver,
		CodeInvalidSetting, CodeInvalidConfig, CodeNotAllowed, CodeOverwriteUnsupported, CodeIdentityChanged,
		CodeForeignWrite, CodeSerialMismatch, CodeDuplicateSerial, CodeTargetMissing, CodeTargetBusy, CodeTargetShared,
		CodeFilesystemSignature, CodePolicyUnsatisfied, CodeToolOutputInvalid, CodeToolTooOld, CodeToolMissing,
		CodeCommandRefused, CodeNamespaceLayoutMismatch, CodeSanitizeRunning, CodeSanitizeFailed,
		CodeSanitizeStalled, CodeWearLimitExceeded, CodeSecurityLocked, CodeFirmwareChanged, CodeFirmwareNotListed,
		CodeFirmwareImage, CodeFirmwareUnknown, CodeFirmwareNotActive, CodeWriteProtected, CodeIO, CodeStateDirError,
		CodeFenceHeld, CodeBMCUnreachable, CodeBMCLoginRefused, CodeBMCSessionLimit, CodeServerNotReady,
		CodeBIOSMismatch, CodeBIOSSettingInvalid, CodeBIOSJobWaiting, CodePropertiesMismatch, CodeSecretInvalid,
		CodeDrivesChanged, CodeDriveNotErasable, CodeEraseUnknown, CodeSetupMismatch, CodeNotCovered, CodeTPMNotCleared,
		CodeServerTaken, CodeApplianceUnreachable,
		CodeApplianceRefused, CodeProfileFailed, CodeProfileStuck, CodeRefused, CodeInvalid, CodeNotFound,
		CodeAlreadyExists, CodeBindingEnded, CodeRequestReused, CodeUnreachable, CodeOverrideOff,
		CodeOverrideUnsigned, CodeSamePrincipal, CodeNotAuthenticated, CodeAuthenticationUnavailable, CodeForbidden,
		CodeTooManyRequests, CodeNoSuchPath, CodeMethodNotAllowed, CodeVersionUnsupported, CodeRequestTooLarge,
		CodeMediaType,
	}
}
