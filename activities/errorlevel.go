package activities

import (
	"log/slog"
	"math/bits"

	"burnish/internal/device"
)

// ErrorLevel is the level of the SDK's line about an activity that returned an error. Of what
// is tried again and again, fewer and fewer attempts are worth a line: the device shows what
// it waits for.
func ErrorLevel(err error, attempt int32) slog.Level {
	f := faultIn(err)
	switch {
	case f == nil: // canceled
		return slog.LevelDebug
	case f.Code == device.CodeInternal:
		return slog.LevelError
	case f.Class == device.Permanent: // a request that cannot be carried out
		return slog.LevelInfo
	case f.Class == device.NeedsOperator:
		return slog.LevelWarn
	}
	switch f.Code {
	case device.CodeWaitingForSlot, device.CodeWorkerStopping, device.CodeInterrupted, device.CodeWorkerRestarted:
		return slog.LevelDebug
	}
	if bits.OnesCount32(uint32(attempt)) > 1 {
		return slog.LevelDebug
	}
	return slog.LevelWarn
}
