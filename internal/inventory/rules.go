package inventory

import (
	"context"
	"fmt"

	"burnish/internal/device"
)

// tries bounds how often a rule starts over because somebody else writes the same
// provider. Five writers in a row is no accident; Temporal's retry takes it from there.
const tries = 5

// View is what the inventory said of a provider at one moment: that of the read of
// Used, at Generation.
type View struct {
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
func (v View) Burned() bool { return v.Total > 0 && v.Reserved == v.Total }

// Look reads usages and stock and writes nothing. If the provider changed between
// the two it reads both again, up to five times, then conflict (transient).
//
// It may be repeated at will.
func Look(ctx context.Context, s Store, uuid string) (View, error) {
	return startOver(uuid, func(bool) (View, error) {
		u, err := s.Usages(ctx, uuid)
		if err != nil {
			return View{}, err
		}
		return complete(ctx, s, uuid, u)
	})
}

// Raise burns the provider, whoever uses it: F4, the first thing that a clean does.
// It reads usages and then writes reserved = total with the generation *of that
// read*, so that an allocation made in between fails the write instead of being
// wiped; it reads the stock back. A write that met another's starts over from the
// usages, up to five times, then conflict (transient).
//
// Used > 0 does not stop it: burned and in use is what a one-time-use device in a
// tenant's hands looks like. The View says so and the caller does nothing
// destructive. A provider that is burned already is written all the same: the new
// generation proves that nobody was given it since, and voids every write still on
// its way with an older one, such as a Lower whose answer was lost.
//
// With expect, a provider that is found at a higher generation is left as it is:
// inventory_newer, the inventory knows of a tenancy that the caller forgot (F10).
// What is written while Raise runs is not older news, and is told in the View.
//
// A repetition finds the provider burned and burns it again, one generation on. It
// cannot tell its own earlier write from another's: a caller whose earlier answer
// was lost repeats with expect nil.
func Raise(ctx context.Context, s Store, uuid string, expect *int64) (View, error) {
	return startOver(uuid, func(first bool) (View, error) {
		u, err := s.Usages(ctx, uuid)
		if err != nil {
			return View{}, err
		}
		if first && newer(u.Generation, expect) {
			return View{}, inventoryNewer(uuid, u.Generation, *expect)
		}
		v, err := complete(ctx, s, uuid, u)
		if err != nil {
			return View{}, err
		}
		put, err := burn(ctx, s, uuid, v)
		if err != nil {
			return View{}, err
		}
		return readBurned(ctx, s, uuid, v, put)
	})
}

// Burn takes the provider out of every scheduler's sight for one new binding (S0.4)
// in four requests: usages, stock, the write (S0.34), the read back. Used > 0 is
// in_use; burned already is already_burned (S0.27); a generation higher than expect
// is inventory_newer (F10); it asks in this order, and what it refuses it leaves as
// it is. Unlike Raise it asks again each time it starts over: a device that was
// allocated and released between the look and the write is not clean. If somebody
// writes between our write and the read back, the provider may stay burned by us.
//
// A repetition after an answer that was lost sets mayBeOurs: then a burned, unused
// provider is taken for the earlier attempt's work, if it is exactly one write past
// expect, or if expect is nil. Two requests, no second write. mayBeOurs says that an
// attempt for this same binding may have got as far as its write; said of any other
// burn it hands one device to two tenants.
func Burn(ctx context.Context, s Store, uuid string, expect *int64, mayBeOurs bool) (View, error) {
	var wrote *int64 // the generation before this call's own write
	return startOver(uuid, func(bool) (View, error) {
		u, err := s.Usages(ctx, uuid)
		if err != nil {
			return View{}, err
		}
		v, err := complete(ctx, s, uuid, u)
		if err != nil {
			return View{}, err
		}
		ours := mayBeOurs || wrote != nil
		switch {
		case v.Used > 0:
			return View{}, InUse(uuid, v.Consumers)
		case v.Burned() && ours && (expect == nil || v.Generation == *expect+1):
			if wrote != nil {
				v.Before = *wrote
			}
			return v, nil
		case v.Burned() && !(ours && newer(v.Generation, expect)):
			return View{}, alreadyBurned(uuid, v.Generation)
		case newer(v.Generation, expect):
			return View{}, inventoryNewer(uuid, v.Generation, *expect)
		}
		put, err := burn(ctx, s, uuid, v)
		if err != nil {
			return View{}, err
		}
		wrote = &v.Generation
		return readBurned(ctx, s, uuid, v, put)
	})
}

// Lower gives the provider back to the schedulers: F5. It writes reserved = 0 once,
// with the generation that the caller's history recorded when it last looked, and
// reads back. It never reads a generation to write with and never repeats itself: a
// generation that moved on means that somebody had the device since, and then it is
// not known to be clean.
//
// The View has the generation of our own write, not of the read back, so that what
// others wrote afterwards is newer; usages are not read, Used is 0.
//
// On conflict nothing was lowered, or it was lowered and raised again meanwhile; on
// inventory_unavailable nobody knows. A repetition with the same generation cannot
// do harm: where the first one took effect it ends in conflict. The caller Looks:
// reserved = 0 is done, the same generation is once more with it, anything else is
// reclaimed.
func Lower(ctx context.Context, s Store, uuid string, generation int64) (View, error) {
	put, err := s.PutReserved(ctx, uuid, generation, 0)
	if err != nil {
		return View{}, err
	}
	back, err := s.Stock(ctx, uuid)
	if err != nil {
		return View{}, err
	}
	switch {
	case back.Reserved == 0 && back.Generation >= put.Generation:
		return View{Generation: put.Generation, Total: back.Total, Before: generation}, nil
	case back.Generation == put.Generation:
		return View{}, notAsWritten(uuid, back, 0)
	default:
		return View{}, Conflict(uuid, put.Generation)
	}
}

// Publish makes the provider if there is none, and burns it: it is in no scheduler's
// sight before it is known to be clean.
//
// A repetition finds the provider, and burns it again; one that was given back
// meanwhile is burned too, so a device that is available is not published.
func Publish(ctx context.Context, s Store, p Provider) (View, error) {
	if err := s.Create(ctx, p); err != nil {
		return View{}, err
	}
	return Raise(ctx, s, p.UUID, nil)
}

// startOver runs try until it ends in something else than a conflict, but no more
// than five times; first is true the first time.
func startOver(uuid string, try func(first bool) (View, error)) (View, error) {
	for i := range tries {
		v, err := try(i == 0)
		if !isConflict(err) {
			return v, err
		}
	}
	return View{}, &device.Fault{
		Class:   device.Transient,
		Code:    device.CodeConflict,
		Message: fmt.Sprintf("provider %s was written by somebody else during each of %d tries", uuid, tries),
		Remedy:  "find out who else writes this provider; Burnish tries again",
	}
}

// complete adds the stock to usages that were read before it. A stock of another
// generation is a conflict: one view made of two moments can show a device unused
// that was allocated between them.
func complete(ctx context.Context, s Store, uuid string, u Usage) (View, error) {
	st, err := s.Stock(ctx, uuid)
	if err != nil {
		return View{}, err
	}
	if st.Generation != u.Generation {
		return View{}, Conflict(uuid, u.Generation)
	}
	return View{
		Generation: u.Generation,
		Total:      st.Total,
		Reserved:   st.Reserved,
		Used:       u.Used,
		Consumers:  u.Consumers,
		Before:     u.Generation,
	}, nil
}

// burn writes reserved = total with the generation of what was seen.
func burn(ctx context.Context, s Store, uuid string, seen View) (Stock, error) {
	if seen.Total < 1 {
		return Stock{}, Invalid(
			fmt.Sprintf("provider %s has total %d, so nothing of it can be reserved", uuid, seen.Total),
			"give its resource class total=1 and reserved=1 (S0.14)")
	}
	return s.PutReserved(ctx, uuid, seen.Generation, seen.Total)
}

// readBurned insists that the stock shows what burn wrote. A generation past our
// write's is a conflict: what was seen before it need no longer be true.
func readBurned(ctx context.Context, s Store, uuid string, seen View, put Stock) (View, error) {
	back, err := s.Stock(ctx, uuid)
	if err != nil {
		return View{}, err
	}
	if back.Generation != put.Generation {
		return View{}, Conflict(uuid, put.Generation)
	}
	v := seen
	v.Generation, v.Total, v.Reserved = back.Generation, back.Total, back.Reserved
	if !v.Burned() {
		return View{}, notAsWritten(uuid, back, seen.Total)
	}
	return v, nil
}

// newer says whether generation is past what the caller expects; nothing is where
// it expects nothing.
func newer(generation int64, expect *int64) bool {
	return expect != nil && generation > *expect
}

func inventoryNewer(uuid string, generation, expect int64) error {
	return &device.Fault{
		Class:   device.NeedsOperator,
		Code:    device.CodeInventoryNewer,
		Message: fmt.Sprintf("provider %s is at generation %d, Burnish knows of none after %d", uuid, generation, expect),
		Remedy:  "somebody wrote it, or Burnish's own records were put back to an earlier time: find out who had the device, then clean it",
	}
}

func alreadyBurned(uuid string, generation int64) error {
	return &device.Fault{
		Class:   device.Permanent,
		Code:    device.CodeAlreadyBurned,
		Message: fmt.Sprintf("provider %s is burned already, at generation %d", uuid, generation),
		Remedy:  "it was used, or is held by somebody else: clean it before it is bound",
	}
}

func notAsWritten(uuid string, back Stock, want int) error {
	return Invalid(
		fmt.Sprintf("provider %s shows reserved=%d of %d after reserved=%d was written at generation %d",
			uuid, back.Reserved, back.Total, want, back.Generation),
		"the inventory does not keep what it accepts: check its version and whoever else writes it")
}
