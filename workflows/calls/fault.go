package calls

import (
	"errors"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/temporal"

	"burnish/internal/device"
	"burnish/workflows/contract"
)

// FaultIn is FaultOf for an error that may be nil.
func FaultIn(err error) *device.Fault {
	if err == nil {
		return nil
	}
	return FaultOf(err)
}

// FaultOf converts any error of a call to the fault that an operator reads.
func FaultOf(err error) *device.Fault {
	if f, ok := device.AsFault(err); ok {
		return f
	}
	if r, ok := contract.RefusalOf(err); ok {
		if string(r.Fault.Code) == NotRegistered {
			return &device.Fault{Class: device.NeedsOperator, Code: device.CodeHostWorkerTooOld,
				Message: "the worker does not know this step: " + r.Fault.Message,
				Remedy:  "upgrade burnish-worker there and restart it, then clean the device again"}
		}
		return &r.Fault
	}
	var late *temporal.TimeoutError
	if errors.As(err, &late) {
		if IsScheduleToStart(late) {
			return HostUnreachable("")
		}
		return &device.Fault{Class: device.Transient, Code: device.CodeTimeout, Message: "no answer in time"}
	}
	if temporal.IsCanceledError(err) {
		return &device.Fault{Class: device.NeedsOperator, Code: device.CodeAborted, Message: "canceled"}
	}
	return &device.Fault{Class: device.Permanent, Code: device.CodeInternal, Message: err.Error()}
}

// HostUnreachable is the fault of a host whose worker does not start an activity; host may
// be "".
func HostUnreachable(host string) *device.Fault {
	f := &device.Fault{Class: device.NeedsOperator, Code: device.CodeHostUnreachable,
		Message: "no worker of this host took its task in time", Remedy: "start burnish-worker on the host"}
	if host != "" {
		f.Message = "no worker of host " + host + " took its task in time"
		f.Remedy = "start burnish-worker on " + host + "; the clean then continues automatically"
	}
	return f
}

// IsScheduleToStart says that no worker started the activity in time.
func IsScheduleToStart(e *temporal.TimeoutError) bool {
	return e.TimeoutType() == enumspb.TIMEOUT_TYPE_SCHEDULE_TO_START
}
