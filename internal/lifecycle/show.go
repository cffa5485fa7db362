package lifecycle

import (
	"slices"
	"strings"
	"time"

	"burnish/internal/device"
	"burnish/workflows/contract"
)

// This file derives from a device's state what people and programs read of it. All of it is a pure function.

// Show is a device's status. It has no progress, which comes from the running activity's
// heartbeat, and no ended bindings and cleans, which only the query adds.
func Show(s *contract.DeviceState) contract.DeviceStatus {
	v := contract.DeviceStatus{
		UUID: s.UUID, Name: s.Name, Type: s.Enrollment.Type,
		Vendor: s.Host.Identity.Vendor, Model: s.Host.Identity.Model, Serial: s.Host.Identity.Serial,
		Hostname: s.Enrollment.Host, StdBoardInfo: boardInfo(s),
		Path: s.Host.Identity.Path, Firmware: s.Host.Identity.Firmware, SizeBytes: max(0, s.Host.Identity.Size),
		MAC: s.Host.Identity.MAC, LiveMigratable: s.Host.LiveMigratable,
		Status: s.Device.Status, DeviceState: s.Device.State, Dirty: s.Device.Dirty,
		Maintenance: s.Device.InMaintenance(), MaintenanceReason: maintenanceReason(s), CleanStep: cleanStep(s),
		LastError: lastError(s), LastRefusal: s.LastRefusal, NeedsOperator: needsOperator(s), Waiting: waiting(s),
		CreatedAt: s.CreatedAt.Truncate(time.Second), UpdatedAt: s.UpdatedAt.Truncate(time.Second),
		Driver: s.Enrollment.Driver, Owner: s.Device.Owner, OneTimeUse: s.Device.OneTimeUse,
		NotSanitized: s.Device.NotSanitized, Operation: s.Host.Operation, ErasePolicy: ownErasePolicy(s.Host),
		Steps: s.Steps, Labels: s.Enrollment.Labels, StateSince: s.StateSince.Truncate(time.Second),
	}
	v.Pool = sharedPool(s)
	if o := s.Override; o != nil && (o.Pending != nil || o.Approved != nil) {
		v.Override = &contract.StatusOverride{Pending: o.Pending, Approved: o.Approved}
	}
	if b := s.Device.Binding; b != nil {
		instance := b.Instance
		v.InstanceUUID, v.Binding = &instance, b.Number
	}
	if c := s.Clean; c != nil {
		v.Runbook = c.Runbook
	}
	if c := s.Device.Claim; c != nil {
		v.ClaimedBy = c.Instance
	}
	if f := Fault(s); f != nil {
		v.Fault, v.Remedy = string(f.Code), f.Remedy
	}
	return v
}

// Whole is the device with its history, as a query gives it.
func (d *State) Whole() (contract.DeviceStatus, error) {
	v := withOverrideNumbers(d.Status(), d.DeviceState)
	var err error
	v.Bindings, v.Acts = d.History, d.Acts
	v.Cleans, err = d.Archive.Cleans()
	if p, unreadable := device.ParseProperties(d.Host.Identity.Properties); unreadable == nil {
		v.Setup = p.Setup // the steps say what is unreadable
	}
	return v, err
}

// withOverrideNumbers adds what an override is signed with, if the device can be overridden.
func withOverrideNumbers(v contract.DeviceStatus, s *contract.DeviceState) contract.DeviceStatus {
	if s.Device.State != device.Error {
		return v
	}
	numbers := s.OverrideNumbers()
	o := contract.StatusOverride{}
	if v.Override != nil {
		o = *v.Override
	}
	o.Numbers = &numbers
	v.Override = &o
	return v
}

// Memo is what the server keeps of the status beside the search attributes.
func Memo(s *contract.DeviceState) contract.StatusMemo {
	f := contract.StatusMemo{
		Name: s.Name, Vendor: s.Host.Identity.Vendor, Model: s.Host.Identity.Model,
		StdBoardInfo: boardInfo(s), Status: s.Device.Status,
		Path: s.Host.Identity.Path, Firmware: s.Host.Identity.Firmware, SizeBytes: max(0, s.Host.Identity.Size),
		MAC: s.Host.Identity.MAC, LiveMigratable: s.Host.LiveMigratable,
		Maintenance: s.Device.InMaintenance(), MaintenanceReason: maintenanceReason(s),
		LastError: lastError(s), LastRefusal: s.LastRefusal, CreatedAt: s.CreatedAt.Truncate(time.Second),
		Waiting: waiting(s),
		Driver:  s.Enrollment.Driver, Owner: s.Device.Owner, OneTimeUse: s.Device.OneTimeUse,
		NotSanitized: s.Device.NotSanitized, Operation: s.Host.Operation, Steps: s.Steps, Provider: s.Provider,
		Labels: s.Enrollment.Labels,
	}
	f.Pool = sharedPool(s)
	f.Bindings, f.Cleans = s.Device.Bindings, s.Cleans
	if s.Device.Owner == device.OwnerNova && s.Device.Allocatable() && !s.GenerationUncertain {
		f.Generation = s.Generation
	}
	if fault := Fault(s); fault != nil {
		f.Remedy = fault.Remedy
	}
	switch s.Device.State {
	case device.Manageable, device.Error, device.Retired:
		f.Left = s.Left()
	case device.PendingCleaning:
		if s.Device.AwaitingManualClean {
			f.Left = s.Left()
		}
	}
	return f
}

// ownErasePolicy is what the device's entry of device_spec says about its erase, or "".
func ownErasePolicy(host contract.DiscoveryResult) string {
	var keys []string
	if host.ClearAction != "" {
		keys = append(keys, "clear_action="+host.ClearAction)
	}
	if host.ClearStrategy != "" {
		keys = append(keys, "clear_strategy="+host.ClearStrategy)
	}
	return strings.Join(keys, " ")
}

// boardInfo is what Cyborg shows of the board: the PCI device's number, and the address, which
// may have been given in the name alone (S2.34).
func boardInfo(s *contract.DeviceState) contract.BoardInfo {
	b := contract.BoardInfo{ProductID: s.Host.Identity.Product, PCIAddress: s.Enrollment.Address,
		Operation: s.Host.Operation}
	if _, address, found := device.SplitName(s.Name); found && b.PCIAddress == "" {
		b.PCIAddress = address
	}
	return b
}

func maintenanceReason(s *contract.DeviceState) string {
	if !s.Device.InMaintenance() {
		return ""
	}
	reason := string(s.Device.Maintenance)
	if p := s.Enrollment.Pool; p != nil && s.Device.Maintenance == device.MaintenanceTaken {
		reason += ": another user of " + p.Appliance + " has the server"
	}
	if s.HoldReason != "" {
		reason += ": " + s.HoldReason
	}
	return reason
}

func cleanStep(s *contract.DeviceState) *contract.CleanStep {
	c := s.Clean
	if s.Device.State != device.Cleaning || c == nil || c.Next >= len(c.Plan) {
		return nil
	}
	p := c.Plan[c.Next]
	return &contract.CleanStep{Step: p.Step, Priority: p.Priority, Interface: p.Interface}
}

// Fault is the present fault: a wait for which the operator was called, the recorded one,
// or else the cause of a wait.
func Fault(s *contract.DeviceState) *device.Fault {
	w := wait(s)
	if w == nil || s.Fault != nil && !w.Called {
		return s.Fault
	}
	f := w.Fault
	if w.Called {
		f.Class = device.NeedsOperator
	}
	return &f
}

// wait is the one that is shown: one for which the operator was called, or else the oldest.
func wait(s *contract.DeviceState) *contract.Wait {
	if len(s.Waits) == 0 {
		return nil
	}
	if i := slices.IndexFunc(s.Waits, func(w contract.Wait) bool { return w.Called }); i > 0 {
		return &s.Waits[i]
	}
	return &s.Waits[0]
}

func waiting(s *contract.DeviceState) *contract.StatusWait {
	w := wait(s)
	if w == nil {
		return nil
	}
	return &contract.StatusWait{For: w.For, Code: w.Fault.Code, Message: w.Fault.Message,
		Since: w.Since.Truncate(time.Second)}
}

// lastError is the recorded one, or else the cause of a wait.
func lastError(s *contract.DeviceState) string {
	if w := wait(s); w != nil && (w.Called || s.LastError == "") {
		return w.Fault.Message
	}
	return s.LastError
}

// needsOperator says that the device waits for an operator.
func needsOperator(s *contract.DeviceState) bool {
	w := wait(s)
	return s.Device.State == device.Error || s.Device.AwaitingManualClean || w != nil && w.Called ||
		s.Device.Maintenance == device.MaintenanceQuarantined ||
		s.Fault != nil && (s.Fault.Class == device.NeedsOperator || s.Device.State == device.Unknown)
}

// CleanUnderWay says that the device is being cleaned or waits for its clean.
func CleanUnderWay(s *contract.DeviceState) bool {
	return (s.Device.State == device.PendingCleaning || s.Device.State == device.Cleaning) && !s.Device.Returning
}

// sharedPool is the device's pool as clients read it; nil if it has none.
func sharedPool(s *contract.DeviceState) *contract.StatusPool {
	if s.Enrollment.Pool == nil {
		return nil
	}
	p := &contract.StatusPool{
		Pool: *s.Enrollment.Pool, LostRace: s.Device.LostRace,
		Taken: s.Device.Maintenance == device.MaintenanceTaken && s.Device.Status == device.Enabled,
	}
	if s.Pool != nil {
		p.PoolState = *s.Pool
	}
	return p
}

// poolText is the pool in one line: who has the server, as far as the device knows.
func poolText(s *contract.DeviceState) string {
	p := sharedPool(s)
	if p == nil {
		return ""
	}
	who := "no profile"
	switch {
	case !p.Dynamic:
		who = "pre-allocated"
	case s.Device.Maintenance == device.MaintenanceTaken || p.LostRace:
		who = "another user has the server"
	case p.Profile != "":
		who = "ours, profile " + p.Profile
	case p.Applying:
		who = "a profile is being applied"
	}
	return p.Appliance + ": " + who
}
