package inventory

import (
	"context"
	"fmt"

	"burnish/internal/device"
)

// tries bounds how often a rule starts over because somebody else writes the same
// provider. Five writers in a row is no accident; Temporal's retry takes it from there.
const maxTries = 5

// ReservationSnapshot is what the inventory said of a provider at one moment: that of the read of
// Used, at Generation.
type ReservationSnapshot struct {
	Generation int64    `json:"generation"`
	Total      int      `json:"total"`
	Reserved   int      `json:"reserved"`
	Used       int      `json:"used"`
	Consumers  []string `json:"consumers,omitempty"`
	// Before is the generation seen before our own write; Generation if nothing was
	// written. More than the one that the caller knew: somebody else wrote since.
	Before int64 `json:"before"`
}

// Burned says that no scheduler gives the device out: reserved == total (S0.3).
func (v ReservationSnapshot) Burned() bool { return v.Total > 0 && v.Reserved == v.Total }

// Read reads usages and stock and writes nothing. If the provider changed between
// the two it reads both again, up to five times, then conflict (transient).
//
// It may be repeated at will.
func Read(ctx context.Context, s Store, uuid string) (ReservationSnapshot, error) {
	return retryOnConflict(uuid, func(bool) (ReservationSnapshot, error) {
		u, err := s.Usages(ctx, uuid)
		if err != nil {
			return ReservationSnapshot{}, err
		}
		return readInventory(ctx, s, uuid, u)
	})
}

// EnsureReserved burns the provider, whoever uses it: F4, the first thing that a clean does.
// It reads usages and then writes reserved = total with the generation *of that
// read*, so that an allocation made in between fails the write instead of being
// wiped; it reads the stock back. A write that met another's starts over from the
// usages, up to five times, then conflict (transient).
//
// Used > 0 does not stop it: burned and in use is what a one-time-use device in a
// tenant's hands looks like. The ReservationSnapshot says so and the caller does nothing
// destructive. A provider that is burned already is written all the same: the new
// generation proves that nobody was given it since, and voids every write still on
// its way with an older one, such as a Unreserve whose answer was lost.
//
// With expect, a provider that is found at a higher generation is left as it is:
// inventory_generation_ahead, the inventory knows of a tenancy that the caller forgot (F10).
// What is written while EnsureReserved runs is not older news, and is told in the ReservationSnapshot.
//
// A repetition finds the provider burned and burns it again, one generation on. It
// cannot tell its own earlier write from another's: a caller whose earlier answer
// was lost repeats with expect nil.
func EnsureReserved(ctx context.Context, s Store, uuid string, expect *int64) (ReservationSnapshot, error) {
	return retryOnConflict(uuid, func(first bool) (ReservationSnapshot, error) {
		u, err := s.Usages(ctx, uuid)
		if err != nil {
			return ReservationSnapshot{}, err
		}
		if first && isAhead(u.Generation, expect) {
			return ReservationSnapshot{}, generationAhead(uuid, u.Generation, *expect)
		}
		v, err := readInventory(ctx, s, uuid, u)
		if err != nil {
			return ReservationSnapshot{}, err
		}
		put, err := reserveAll(ctx, s, uuid, v)
		if err != nil {
			return ReservationSnapshot{}, err
		}
		return readBackReserved(ctx, s, uuid, v, put)
	})
}

// ReserveForBind takes the provider out of every scheduler's sight for one new binding (S0.4)
// in four requests: usages, stock, the write (S0.34), the read back. Used > 0 is
// in_use; burned already is already_burned (S0.27); a generation higher than expect
// is inventory_generation_ahead (F10); it asks in this order, and what it refuses it leaves as
// it is. Unlike EnsureReserved it asks again each time it starts over: a device that was
// allocated and released between the look and the write is not clean. If somebody
// writes between our write and the read back, the provider may stay burned by us.
//
// A repetition after an answer that was lost sets maybeOwnWrite: then a burned, unused
// provider is taken for the earlier attempt's work, if it is exactly one write past
// expect, or if expect is nil. Two requests, no second write. maybeOwnWrite says that an
// attempt for this same binding may have got as far as its write; said of any other
// burn it hands one device to two tenants.
func ReserveForBind(ctx context.Context, s Store, uuid string, expect *int64, maybeOwnWrite bool) (ReservationSnapshot, error) {
	var wrote *int64 // the generation before this call's own write
	return retryOnConflict(uuid, func(bool) (ReservationSnapshot, error) {
		u, err := s.Usages(ctx, uuid)
		if err != nil {
			return ReservationSnapshot{}, err
		}
		v, err := readInventory(ctx, s, uuid, u)
		if err != nil {
			return ReservationSnapshot{}, err
		}
		ours := maybeOwnWrite || wrote != nil
		switch {
		case v.Used > 0:
			return ReservationSnapshot{}, InUse(uuid, v.Consumers)
		case v.Burned() && ours && (expect == nil || v.Generation == *expect+1):
			if wrote != nil {
				v.Before = *wrote
			}
			return v, nil
		case v.Burned() && !(ours && isAhead(v.Generation, expect)):
			return ReservationSnapshot{}, alreadyReserved(uuid, v.Generation)
		case isAhead(v.Generation, expect):
			return ReservationSnapshot{}, generationAhead(uuid, v.Generation, *expect)
		}
		put, err := reserveAll(ctx, s, uuid, v)
		if err != nil {
			return ReservationSnapshot{}, err
		}
		wrote = &v.Generation
		return readBackReserved(ctx, s, uuid, v, put)
	})
}

// Unreserve gives the provider back to the schedulers: F5. It writes reserved = 0 once,
// with the generation that the caller's history recorded when it last looked, and
// reads back. It never reads a generation to write with and never repeats itself: a
// generation that moved on means that somebody had the device since, and then it is
// not known to be clean.
//
// The ReservationSnapshot has the generation of our own write, not of the read back, so that what
// others wrote afterwards is newer; usages are not read, Used is 0.
//
// On conflict nothing was lowered, or it was lowered and raised again meanwhile; on
// inventory_unavailable nobody knows. A repetition with the same generation cannot
// do harm: where the first one took effect it ends in conflict. The caller Looks:
// reserved = 0 is done, the same generation is once more with it, anything else is
// reservation_changed.
func Unreserve(ctx context.Context, s Store, uuid string, generation int64) (ReservationSnapshot, error) {
	put, err := s.PutReserved(ctx, uuid, generation, 0)
	if err != nil {
		return ReservationSnapshot{}, err
	}
	back, err := s.Reservation(ctx, uuid)
	if err != nil {
		return ReservationSnapshot{}, err
	}
	switch {
	case back.Reserved == 0 && back.Generation >= put.Generation:
		return ReservationSnapshot{Generation: put.Generation, Total: back.Total, Before: generation}, nil
	case back.Generation == put.Generation:
		return ReservationSnapshot{}, notAsWritten(uuid, back, 0)
	default:
		return ReservationSnapshot{}, Conflict(uuid, put.Generation)
	}
}

// EnsureProvider makes the provider if there is none, and burns it: it is in no scheduler's
// sight before it is known to be clean.
//
// A repetition finds the provider, and burns it again; one that was given back
// meanwhile is burned too, so a device that is available is not published.
func EnsureProvider(ctx context.Context, s Store, p Provider) (ReservationSnapshot, error) {
	if err := s.Create(ctx, p); err != nil {
		return ReservationSnapshot{}, err
	}
	return EnsureReserved(ctx, s, p.UUID, nil)
}

// startOver runs try until it ends in something else than a conflict, but no more
// than five times; first is true the first time.
func retryOnConflict(uuid string, try func(first bool) (ReservationSnapshot, error)) (ReservationSnapshot, error) {
	for i := range maxTries {
		v, err := try(i == 0)
		if !isConflict(err) {
			return v, err
		}
	}
	return ReservationSnapshot{}, &device.Fault{
		Class:   device.Transient,
		Code:    device.CodeConflict,
		Message: fmt.Sprintf("provider %s was written by somebody else during each of %d tries", uuid, maxTries),
		Remedy:  "find out who else writes this provider; Burnish tries again",
	}
}

// complete adds the stock to usages that were read before it. A stock of another
// generation is a conflict: one view made of two moments can show a device unused
// that was allocated between them.
func readInventory(ctx context.Context, s Store, uuid string, u Usage) (ReservationSnapshot, error) {
	st, err := s.Reservation(ctx, uuid)
	if err != nil {
		return ReservationSnapshot{}, err
	}
	if st.Generation != u.Generation {
		return ReservationSnapshot{}, Conflict(uuid, u.Generation)
	}
	return ReservationSnapshot{
		Generation: u.Generation,
		Total:      st.Total,
		Reserved:   st.Reserved,
		Used:       u.Used,
		Consumers:  u.Consumers,
		Before:     u.Generation,
	}, nil
}

// burn writes reserved = total with the generation of what was seen.
func reserveAll(ctx context.Context, s Store, uuid string, seen ReservationSnapshot) (Reservation, error) {
	if seen.Total < 1 {
		return Reservation{}, Invalid(
			fmt.Sprintf("provider %s has total %d, so nothing of it can be reserved", uuid, seen.Total),
			"give its resource class total=1 and reserved=1 (S0.14)")
	}
	return s.PutReserved(ctx, uuid, seen.Generation, seen.Total)
}

// readBurned insists that the stock shows what burn wrote. A generation past our
// write's is a conflict: what was seen before it need no longer be true.
func readBackReserved(ctx context.Context, s Store, uuid string, seen ReservationSnapshot, put Reservation) (ReservationSnapshot, error) {
	back, err := s.Reservation(ctx, uuid)
	if err != nil {
		return ReservationSnapshot{}, err
	}
	if back.Generation != put.Generation {
		return ReservationSnapshot{}, Conflict(uuid, put.Generation)
	}
	v := seen
	v.Generation, v.Total, v.Reserved = back.Generation, back.Total, back.Reserved
	if !v.Burned() {
		return ReservationSnapshot{}, notAsWritten(uuid, back, seen.Total)
	}
	return v, nil
}

// newer says whether generation is past what the caller expects; nothing is where
// it expects nothing.
func isAhead(generation int64, expect *int64) bool {
	return expect != nil && generation > *expect
}

func generationAhead(uuid string, generation, expect int64) error {
	return &device.Fault{
		Class:   device.NeedsOperator,
		Code:    device.CodeInventoryGenerationAhead,
		Message: fmt.Sprintf("provider %s is at generation %d, Burnish knows of none after %d", uuid, generation, expect),
		Remedy:  "somebody wrote it, or Burnish's own records were put back to an earlier time: find out who had the device, then clean it",
	}
}

func alreadyReserved(uuid string, generation int64) error {
	return &device.Fault{
		Class:   device.Permanent,
		Code:    device.CodeAlreadyBurned,
		Message: fmt.Sprintf("provider %s is burned already, at generation %d", uuid, generation),
		Remedy:  "it was used, or is held by somebody else: clean it before it is bound",
	}
}

func notAsWritten(uuid string, back Reservation, want int) error {
	return Invalid(
		fmt.Sprintf("provider %s shows reserved=%d of %d after reserved=%d was written at generation %d",
			uuid, back.Reserved, back.Total, want, back.Generation),
		"the inventory does not keep what it accepts: check its version and whoever else writes it")
}
