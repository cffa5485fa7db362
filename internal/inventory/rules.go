package inventory

import (
	"context"
	"fmt"

	"burnish/internal/device"
)

// maxTries bounds how often a call starts again because another client writes the same
// provider. After that Temporal retries the activity.
const maxTries = 5

// Holder is what a write says of who has the device (F24).
type Holder struct {
	// Record is to be written; nil keeps what the provider records.
	Record *device.Record
	// Left is the instance that had the device last, as far as the caller knows: its record,
	// at a generation up to LeftGeneration, is out of date. A later one is a binding that
	// the caller does not know of.
	Left           string
	LeftGeneration int64
	// Earlier is how many writes of this very call may have been made before, without the caller knowing their answers.
	Earlier int64
	// Receipt gives the receipt of the reservation from what the provider was before it and is now; nil: none.
	Receipt func(before, now device.Inventory) string
}

// replaces gives the record to be written over what the provider records now; nil keeps
// that. An instance that the caller does not name keeps its record.
func (h Holder) replaces(v device.Inventory) *device.Record {
	if h.Record == nil || v.Witness == device.WitnessBound && !v.HeldBy(h.Record.Tenant) &&
		!(v.HeldBy(h.Left) && v.Generation <= h.LeftGeneration) {
		return nil
	}
	return h.Record
}

// mayHaveWritten says that an earlier attempt of this call may have left the record. None recorded that an operator
// holds the device if this one does not: that is an act which the caller does not know of (F43).
func (h Holder) mayHaveWritten(v device.Inventory) bool {
	return h.Record == nil || v.Hold == device.HoldNone || v.Hold == h.Record.Hold
}

// Read reads usages and reservation and writes nothing. If the provider changes
// between the two reads, it reads both again, up to five times; then the fault is
// conflict (transient).
func Read(ctx context.Context, s Store, uuid string) (device.Inventory, error) {
	return retryOnConflict(uuid, func(bool) (device.Inventory, error) {
		u, err := s.Usages(ctx, uuid)
		if err != nil {
			return device.Inventory{}, err
		}
		return readInventory(ctx, s, uuid, u)
	})
}

// EnsureReserved burns the provider, also while it is used: F4, the first thing that a
// clean does. It reads usages and then writes reserved = total with the generation *of
// that read*, so that an allocation made in between makes the write fail; then it reads
// the reservation back. After a conflict with another write it starts again from the
// usages, up to five times; then the fault is conflict (transient).
//
// It also burns a provider with Used > 0: a one-time-use device that a tenant has is
// burned and in use. The snapshot says so, and the caller must not destroy anything. A
// provider that is burned already is written again: the new generation proves that
// nothing was allocated since, and invalidates every write that is under way with an
// older one, such as an Unreserve whose answer was lost.
//
// With expect, a provider at a higher generation is not changed, unless an earlier attempt may
// have written it, and the fault is inventory_generation_ahead: the inventory may know of a binding
// that the caller does not (F10). Writes of other clients while EnsureReserved runs are not that fault; the
// snapshot shows them.
//
// The same write records what holder says of who has the device (F24). If the provider
// records an instance that holder does not name, that record stays, and the snapshot
// shows it: the caller must not destroy anything.
//
// A second call finds the provider burned and writes it again, at the next generation.
// It cannot tell the write of the first call from another client's: a caller that lost
// the first answer repeats with expect nil.
func EnsureReserved(ctx context.Context, s Store, uuid string, expect *int64, holder Holder) (device.Inventory, error) {
	return retryOnConflict(uuid, func(first bool) (device.Inventory, error) {
		u, err := s.Usages(ctx, uuid)
		if err != nil {
			return device.Inventory{}, err
		}
		ahead := first && isAhead(u.Generation, expect)
		if ahead && u.Generation > *expect+holder.Earlier {
			return device.Inventory{}, generationAhead(uuid, u.Generation, *expect)
		}
		v, err := readInventory(ctx, s, uuid, u)
		if err != nil {
			return device.Inventory{}, err
		}
		if ahead && !holder.mayHaveWritten(v) {
			return device.Inventory{}, generationAhead(uuid, u.Generation, *expect)
		}
		put, err := reserveAll(ctx, s, uuid, v, holder.replaces(v))
		if err != nil {
			return device.Inventory{}, err
		}
		now, err := readBackReserved(ctx, s, uuid, v, put)
		if err == nil && holder.Receipt != nil {
			now.Receipt = holder.Receipt(v, now)
		}
		return now, err
	})
}

// ReserveForBind burns the provider for one new binding (S0.4), in four requests: usages,
// reservation, the write (S0.34), the read back. The write records the instance (F24). The
// faults, checked in this order, are in_use for Used > 0, already_burned (S0.27),
// inventory_generation_ahead for a generation higher than expect (F10), and in_use for the
// record of another instance; a provider that is refused is not changed. Unlike
// EnsureReserved it checks them again each time that it starts again: a device that was
// allocated and released between the read and the write is not clean. If another client
// writes between our write and the read back, the provider may stay burned by us.
//
// A caller that lost the answer repeats with maybeOwnWrite: then a burned, unused
// provider counts as burned by the earlier attempt if it is exactly one write past
// expect, or if expect is nil, and if it records the instance; one that records the instance
// also at expect itself, which is then a read that came after that attempt (F42). That takes
// two requests and no second write. Set maybeOwnWrite only if an attempt for this same binding
// may have written: otherwise one device goes to two tenants.
//
// Without a record, for a provider of Nova's, none is written or asked for.
func ReserveForBind(ctx context.Context, s Store, uuid string, record *device.Record, expect *int64,
	maybeOwnWrite bool) (device.Inventory, error) {
	wrote := false
	return retryOnConflict(uuid, func(bool) (device.Inventory, error) {
		u, err := s.Usages(ctx, uuid)
		if err != nil {
			return device.Inventory{}, err
		}
		v, err := readInventory(ctx, s, uuid, u)
		if err != nil {
			return device.Inventory{}, err
		}
		ours := (maybeOwnWrite || wrote) && (record == nil || v.HeldBy(record.Tenant))
		switch {
		case v.Used > 0:
			return device.Inventory{}, InUse(uuid, v.Consumers)
		case v.Burned() && ours && (expect == nil || v.Generation == *expect+1 || record != nil && v.Generation == *expect):
			return v, nil
		case v.Burned() && !(ours && isAhead(v.Generation, expect)):
			return device.Inventory{}, alreadyReserved(uuid, v.Generation)
		case isAhead(v.Generation, expect):
			return device.Inventory{}, generationAhead(uuid, v.Generation, *expect)
		case record != nil && v.Witness == device.WitnessBound && !v.HeldBy(record.Tenant):
			return device.Inventory{}, InUse(uuid, []string{v.Tenant})
		}
		put, err := reserveAll(ctx, s, uuid, v, record)
		if err != nil {
			return device.Inventory{}, err
		}
		wrote = true
		return readBackReserved(ctx, s, uuid, v, put)
	})
}

// Unreserve makes the device available to schedulers: F5. It writes reserved = 0 once,
// with the generation that the caller recorded in its history, and reads back. It never
// reads a generation in order to write, and never retries: if the generation changed,
// the device may have been allocated since, and is not known to be clean.
//
// The snapshot has the generation of our own write, not of the read back, so that writes
// of others after it are newer. Usages are not read, and Used is 0.
//
// After a conflict, reserved was not lowered, or it was lowered and raised again; after
// inventory_unavailable the outcome is unknown. A second call with the same generation
// is harmless: if the first one took effect, it ends in a conflict. The caller Reads:
// reserved = 0 means done, the same generation means try again with it, and anything
// else means reservation_changed.
func Unreserve(ctx context.Context, s Store, uuid string, generation int64) (device.Inventory, error) {
	put, err := s.PutReserved(ctx, uuid, generation, 0, nil)
	if err != nil {
		return device.Inventory{}, err
	}
	back, err := s.Reservation(ctx, uuid)
	if err != nil {
		return device.Inventory{}, err
	}
	switch {
	case back.Reserved == 0 && back.Generation >= put.Generation:
		return device.Inventory{Generation: put.Generation, Total: back.Total, Record: back.Record}, nil
	case back.Generation == put.Generation:
		return device.Inventory{}, notAsWritten(uuid, back, 0)
	default:
		return device.Inventory{}, Conflict(uuid, put.Generation)
	}
}

// EnsureProvider creates the provider if there is none, and burns it: no scheduler may
// allocate the device before it is known to be clean.
//
// A second call burns the provider again, also if it was unreserved meanwhile: do not
// call it for a device that is available.
func EnsureProvider(ctx context.Context, s Store, p Provider) (device.Inventory, error) {
	if err := s.Create(ctx, p); err != nil {
		return device.Inventory{}, err
	}
	return EnsureReserved(ctx, s, p.UUID, nil, Holder{})
}

// retryOnConflict calls try until its result is not a conflict, at most five times;
// first is true the first time.
func retryOnConflict(uuid string, try func(first bool) (device.Inventory, error)) (device.Inventory, error) {
	for i := range maxTries {
		v, err := try(i == 0)
		if !isConflict(err) {
			return v, err
		}
	}
	return device.Inventory{}, &device.Fault{
		Class:   device.Transient,
		Code:    device.CodeConflict,
		Message: fmt.Sprintf("another client wrote provider %s during each of %d tries", uuid, maxTries),
		Remedy:  "find out which other client writes this provider; Burnish tries again",
	}
}

// readInventory adds the reservation to usages that were read before it. Another
// generation is a conflict: a snapshot of two moments could show a device as unused
// that was allocated between them.
func readInventory(ctx context.Context, s Store, uuid string, u Usage) (device.Inventory, error) {
	st, err := s.Reservation(ctx, uuid)
	if err != nil {
		return device.Inventory{}, err
	}
	if st.Generation != u.Generation {
		return device.Inventory{}, Conflict(uuid, u.Generation)
	}
	return device.Inventory{
		Generation: u.Generation,
		Total:      st.Total,
		Reserved:   st.Reserved,
		Used:       u.Used,
		Consumers:  u.Consumers,
		Record:     st.Record,
	}, nil
}

// reserveAll writes reserved = total with the generation of the snapshot, and the record.
func reserveAll(ctx context.Context, s Store, uuid string, seen device.Inventory,
	record *device.Record) (Reservation, error) {
	if seen.Total < 1 {
		return Reservation{}, Invalid(
			fmt.Sprintf("provider %s has total %d, so it cannot be reserved", uuid, seen.Total),
			"give its resource class total=1 and reserved=1")
	}
	return s.PutReserved(ctx, uuid, seen.Generation, seen.Total, record)
}

// readBackReserved checks that reserveAll took effect. A generation after our write's
// is a conflict: what was read before may no longer be true.
func readBackReserved(ctx context.Context, s Store, uuid string, seen device.Inventory,
	put Reservation) (device.Inventory, error) {
	back, err := s.Reservation(ctx, uuid)
	if err != nil {
		return device.Inventory{}, err
	}
	if back.Generation != put.Generation {
		return device.Inventory{}, Conflict(uuid, put.Generation)
	}
	v := seen
	v.Generation, v.Total, v.Reserved = back.Generation, back.Total, back.Reserved
	v.Record = back.Record
	if !v.Burned() {
		return device.Inventory{}, notAsWritten(uuid, back, seen.Total)
	}
	return v, nil
}

// isAhead says whether generation is past what the caller expects; nil expects nothing.
func isAhead(generation int64, expect *int64) bool {
	return expect != nil && generation > *expect
}

func generationAhead(uuid string, generation, expect int64) error {
	return &device.Fault{
		Class: device.NeedsOperator,
		Code:  device.CodeInventoryGenerationAhead,
		Message: fmt.Sprintf("provider %s is at generation %d, and the last one that Burnish knows is %d", uuid,
			generation, expect),
		Remedy: "another client wrote it, or Burnish's records were restored from a backup: find out who had the device, " +
			"then clean it",
	}
}

func alreadyReserved(uuid string, generation int64) error {
	return &device.Fault{
		Class:   device.Permanent,
		Code:    device.CodeAlreadyBurned,
		Message: fmt.Sprintf("provider %s is already burned, at generation %d", uuid, generation),
		Remedy:  "it was used, or another client reserved it: clean it before it is bound",
	}
}

func notAsWritten(uuid string, back Reservation, want int) error {
	return Invalid(
		fmt.Sprintf("provider %s shows reserved=%d of %d after reserved=%d was written at generation %d",
			uuid, back.Reserved, back.Total, want, back.Generation),
		"the inventory does not keep what it accepts: check its version and its other clients")
}
