package lifecycle

import (
	"slices"

	"burnish/internal/device"
	"burnish/workflows/contract"
)

// Phrase is the state in words that follow "a device" or "the device is": "in state error",
// "allocated to" an instance.
func Phrase(s *contract.DeviceState) string {
	words, isState := describe(s)
	if isState {
		return "in state " + words
	}
	return words
}

// describe is the state in words, with the details that an operator must know. isState says
// that the words begin with the state's own name.
func describe(s *contract.DeviceState) (words string, isState bool) {
	dev := s.Device
	switch {
	case dev.State == device.Allocated && dev.Binding != nil:
		return "allocated to " + dev.Binding.Instance, false
	case dev.Claim != nil:
		return "claimed by " + dev.Claim.Instance, false
	case dev.State == device.Available && dev.InMaintenance():
		return "on hold (state: available)", false
	case dev.Returning:
		return "cleaning (the device is being returned)", true
	case dev.State == device.Cleaning && onHold(s):
		return "cleaning (on hold)", true
	case dev.AwaitingManualClean && dev.State == device.Unknown:
		return "unknown (nothing records who has the device)", true
	case dev.AwaitingManualClean:
		return "pending_cleaning (automated cleaning is off)", true
	}
	return string(dev.State), true
}

// onHold says that the clean waits for the operator to release it.
func onHold(s *contract.DeviceState) bool {
	return slices.ContainsFunc(s.Waits, func(w contract.Wait) bool { return w.For == contract.WaitHold })
}
