package device

// MustReserve says that the reservation must be raised, with the record written again, after an
// event changed the device. A clean, and the resolution of an unknown device, begin with that.
func MustReserve(was, next Device, by EventKind) bool {
	return leftOffer(was, next, by) || mayBeLowered(was, next) || holdUnrecorded(was, next)
}

// leftOffer: a device that leaves the offer other than by a burn must be reserved too (S2.40).
func leftOffer(was, next Device, by EventKind) bool {
	return Offered(was) && !Offered(next) && by != Burned && next.State != Unknown &&
		(next.State != PendingCleaning || next.AwaitingManualClean)
}

// Offered says that the reservation of such a device is 0: it is allocatable, or claimed and not
// burned yet.
func Offered(d Device) bool { return d.State == Available && !d.InMaintenance() }

// mayBeLowered: a task that was lost may have lowered the reservation of a device that is not
// offered now (SAFETY F30).
func mayBeLowered(was, next Device) bool {
	switch {
	case next.State == Retired:
		return was.State != Retired
	case was.State != Cleaning || was.NamedSteps:
		return false
	case next.State == Available:
		return next.InMaintenance()
	}
	return next.State != Cleaning && next.State != PendingCleaning && next.State != Unknown
}

// holdUnrecorded: an operator holds the device now, which its provider does not record yet
// (SAFETY F43). A device that is new has no record: it waits for its operator in any case (D16).
// One that an instance has keeps the record of that: this memory may be older.
func holdUnrecorded(was, next Device) bool {
	return next.Owner != OwnerNova && was.State != Absent && next.State != Allocated && next.Binding == nil &&
		next.Hold() != was.Hold() && next.Hold() != HoldNone
}
