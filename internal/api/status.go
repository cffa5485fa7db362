package api

import (
	"net/http"

	"burnish/internal/device"
)

// statuses gives the status that answers each fault. A fault of the request is 400, one of
// the device's state or hardware 409: another request, or the same one later, may be carried
// out. What only waits for another system is 503.
var statuses = map[device.Code]int{
	// The request itself.
	device.CodeInvalid:            http.StatusBadRequest,
	device.CodeInvalidSetting:     http.StatusBadRequest,
	device.CodeInvalidConfig:      http.StatusBadRequest,
	device.CodeUnknownDriver:      http.StatusBadRequest,
	device.CodeNoSuchStep:         http.StatusBadRequest,
	device.CodeNoSuchRunbook:      http.StatusBadRequest,
	device.CodeNoPowerControl:     http.StatusBadRequest,
	device.CodeNotAllowed:         http.StatusBadRequest,
	device.CodeBIOSSettingInvalid: http.StatusBadRequest,
	// S2.74, S2.75: the device cannot be cleaned, or its host's worker cannot do it.
	device.CodeNoErasePath:          http.StatusBadRequest,
	device.CodeHostWorkerTooOld:     http.StatusBadRequest,
	device.CodePolicyUnsatisfied:    http.StatusBadRequest,
	device.CodeOverwriteUnsupported: http.StatusBadRequest,
	device.CodeDriveNotErasable:     http.StatusBadRequest,

	device.CodeNotAuthenticated:   http.StatusUnauthorized,
	device.CodeForbidden:          http.StatusForbidden,
	device.CodeOverrideOff:        http.StatusForbidden,
	device.CodeSamePrincipal:      http.StatusForbidden,
	device.CodeNotFound:           http.StatusNotFound,
	device.CodeMethodNotAllowed:   http.StatusMethodNotAllowed,
	device.CodeVersionUnsupported: http.StatusNotAcceptable,
	device.CodeRequestTooLarge:    http.StatusRequestEntityTooLarge,
	device.CodeMediaType:          http.StatusUnsupportedMediaType,
	device.CodeRequestReused:      http.StatusUnprocessableEntity,
	device.CodeTooManyRequests:    http.StatusTooManyRequests,

	// What the device's state does not allow. // S2.78, S2.79, S2.80, S3.28
	device.CodeRefused:                  http.StatusConflict,
	device.CodeAlreadyExists:            http.StatusConflict,
	device.CodeBindingEnded:             http.StatusConflict,
	device.CodeAlreadyBurned:            http.StatusConflict,
	device.CodeInUse:                    http.StatusConflict,
	device.CodeConflict:                 http.StatusConflict,
	device.CodeReservationChanged:       http.StatusConflict,
	device.CodeInventoryGenerationAhead: http.StatusConflict,
	device.CodeReservationUnknown:       http.StatusConflict,
	device.CodeNoProvider:               http.StatusConflict,
	device.CodeTenantUnrecorded:         http.StatusConflict,
	device.CodeAutomatedCleanOff:        http.StatusConflict,
	device.CodeAborted:                  http.StatusConflict,
	device.CodeInterrupted:              http.StatusConflict,
	device.CodeSuperseded:               http.StatusConflict,
	device.CodePlanOutdated:             http.StatusConflict,
	device.CodeOnHold:                   http.StatusConflict,
	device.CodeRunbookWait:              http.StatusConflict,
	device.CodeWaitingForSlot:           http.StatusConflict,
	device.CodeBreakerOpen:              http.StatusConflict,
	device.CodeCanaryRunning:            http.StatusConflict,
	device.CodeFreeCapacity:             http.StatusConflict,
	device.CodeServerTaken:              http.StatusConflict,
	device.CodeFenceHeld:                http.StatusConflict,
	device.CodeOverrideUnsigned:         http.StatusConflict,

	// What the hardware is, or does.
	device.CodeIdentityChanged:         http.StatusConflict,
	device.CodeSerialMismatch:          http.StatusConflict,
	device.CodeDuplicateSerial:         http.StatusConflict,
	device.CodeTargetMissing:           http.StatusConflict,
	device.CodeTargetBusy:              http.StatusConflict,
	device.CodeTargetShared:            http.StatusConflict,
	device.CodeFilesystemSignature:     http.StatusConflict,
	device.CodeToolOutputInvalid:       http.StatusConflict,
	device.CodeToolTooOld:              http.StatusConflict,
	device.CodeToolMissing:             http.StatusConflict,
	device.CodeCommandRefused:          http.StatusConflict,
	device.CodeNamespaceLayoutMismatch: http.StatusConflict,
	device.CodeSanitizeRunning:         http.StatusConflict,
	device.CodeSanitizeFailed:          http.StatusConflict,
	device.CodeSanitizeStalled:         http.StatusConflict,
	device.CodeWearLimitExceeded:       http.StatusConflict,
	device.CodeSecurityLocked:          http.StatusConflict,
	device.CodeFirmwareChanged:         http.StatusConflict,
	device.CodeFirmwareNotListed:       http.StatusConflict,
	device.CodeFirmwareImage:           http.StatusConflict,
	device.CodeFirmwareUnknown:         http.StatusConflict,
	device.CodeFirmwareNotActive:       http.StatusConflict,
	device.CodeWriteProtected:          http.StatusConflict,
	device.CodeIO:                      http.StatusConflict,
	device.CodeVerifyFailed:            http.StatusConflict,
	device.CodeStepFailed:              http.StatusConflict,
	device.CodeNoProgress:              http.StatusConflict,
	device.CodeBIOSMismatch:            http.StatusConflict,
	device.CodeBIOSJobWaiting:          http.StatusConflict,
	device.CodePropertiesMismatch:      http.StatusConflict,
	device.CodeSecretInvalid:           http.StatusConflict,
	device.CodeDrivesChanged:           http.StatusConflict,
	device.CodeEraseUnknown:            http.StatusConflict,
	device.CodeBMCLoginRefused:         http.StatusConflict,
	device.CodeApplianceRefused:        http.StatusConflict,
	device.CodeProfileFailed:           http.StatusConflict,
	device.CodeProfileStuck:            http.StatusConflict,

	device.CodeInternal:         http.StatusInternalServerError,
	device.CodeResultMismatch:   http.StatusInternalServerError,
	device.CodeStateDirError:    http.StatusInternalServerError,
	device.CodeInventoryInvalid: http.StatusInternalServerError,

	// Another system does not answer, or not yet.
	device.CodeUnreachable:               http.StatusServiceUnavailable,
	device.CodeAuthenticationUnavailable: http.StatusServiceUnavailable,
	device.CodeServerUnreachable:         http.StatusServiceUnavailable,
	device.CodeHostUnreachable:           http.StatusServiceUnavailable,
	device.CodeInventoryUnavailable:      http.StatusServiceUnavailable,
	device.CodeBMCUnreachable:            http.StatusServiceUnavailable,
	device.CodeBMCSessionLimit:           http.StatusServiceUnavailable,
	device.CodeServerNotReady:            http.StatusServiceUnavailable,
	device.CodeApplianceUnreachable:      http.StatusServiceUnavailable,
	device.CodeWorkerRestarted:           http.StatusServiceUnavailable,
	device.CodeWorkerStopping:            http.StatusServiceUnavailable,

	// It was sent, and may still be carried out, or may have been.
	device.CodeTimeout:      http.StatusGatewayTimeout,
	device.CodePowerUnknown: http.StatusGatewayTimeout,
}
