package api

import (
	"net/http"
	"slices"

	"burnish/internal/device"
)

// statuses gives the status that answers a fault. A fault of the request is 400. What only waits for
// another system is 503. Every other fault is 409, of the device's state or hardware: another request, or
// the same one later, may be carried out. // S2.78, S2.79, S2.80, S3.28
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
	device.CodeNoSuchPath:         http.StatusNotFound,
	device.CodeMethodNotAllowed:   http.StatusMethodNotAllowed,
	device.CodeVersionUnsupported: http.StatusNotAcceptable,
	device.CodeRequestTooLarge:    http.StatusRequestEntityTooLarge,
	device.CodeMediaType:          http.StatusUnsupportedMediaType,
	device.CodeRequestReused:      http.StatusUnprocessableEntity,
	device.CodeTooManyRequests:    http.StatusTooManyRequests,

	device.CodeInternal:         http.StatusInternalServerError,
	device.CodeResultMismatch:   http.StatusInternalServerError,
	device.CodeNotProved:        http.StatusInternalServerError,
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

// statusOf is the status that answers a fault; 500 where the code is no fault's.
func statusOf(code device.Code) int {
	if status, ok := statuses[code]; ok {
		return status
	}
	if slices.Contains(device.Codes(), code) {
		return http.StatusConflict
	}
	return http.StatusInternalServerError
}
