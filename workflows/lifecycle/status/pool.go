package status

import (
	"burnish/internal/device"
	"burnish/workflows/contract"
)

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
