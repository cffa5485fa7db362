package contract

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"

	"burnish/internal/device"
)

// Bindings are the last bindings, the present one last (KeptBindings). In JSON they are a list of
// device.Binding; in memory they are packed, because each idle device of a worker has them. When
// they began and ended is not in them: a BindingLog says that.
type Bindings []byte

// The flags of a packed binding.
const (
	flagObserved = 1 << iota
	flagManaged
)

func packBinding(to []byte, b device.Binding) []byte {
	var flags byte
	if b.Observed {
		flags |= flagObserved
	}
	if b.Managed {
		flags |= flagManaged
	}
	to = append(binary.AppendVarint(to, int64(b.Number)), flags)
	for _, text := range []string{b.Instance, b.Request, b.Tag, b.Ended} {
		to = packText(to, text)
	}
	return to
}

func (u *unpacker) binding() device.Binding {
	b := device.Binding{Number: u.number()}
	flags := u.flags()
	b.Observed, b.Managed = flags&flagObserved != 0, flags&flagManaged != 0
	for _, text := range []*string{&b.Instance, &b.Request, &b.Tag, &b.Ended} {
		*text = u.text()
	}
	return b
}

func packBindings(all []device.Binding) Bindings {
	packed := make([]byte, 0, len(all)*packedLength)
	for _, b := range all {
		packed = packBinding(packed, b)
	}
	return append([]byte(nil), packed...) // without free room
}

// With returns the bindings with one more.
func (l Bindings) With(b device.Binding) Bindings {
	entries := (&unpacker{packed: l}).entries(KeptBindings+1, (*unpacker).skipBinding)
	entries = append(entries, packBinding(make([]byte, 0, 2*packedLength), b))
	return bytes.Join(entries[max(len(entries)-KeptBindings, 0):], nil)
}

func (u *unpacker) skipBinding() {
	u.number()
	u.flags()
	for range 4 {
		u.textParts()
	}
}

// Ended returns the bindings in which that of a number ended so.
func (l Bindings) Ended(number int, how string) Bindings {
	all := l.All()
	for i := range all {
		if all[i].Number == number {
			all[i].Ended = how
		}
	}
	return packBindings(all)
}

// Replaced returns the bindings with this one in the place of that of its number.
func (l Bindings) Replaced(b device.Binding) Bindings {
	all := l.All()
	for i := range all {
		if all[i].Number == b.Number {
			all[i] = b
		}
	}
	return packBindings(all)
}

// All are the bindings, the present one last.
func (l Bindings) All() []device.Binding {
	if len(l) == 0 {
		return nil
	}
	all := make([]device.Binding, 0, KeptBindings)
	u := unpacker{packed: l}
	for u.grow(); u.more(); {
		all = append(all, u.binding())
	}
	return all
}

// Of finds a binding of an instance, and of a request unless that is "".
func (l Bindings) Of(instance, request string) (number int, found bool) {
	if instance == "" {
		return 0, false
	}
	texts := make([]byte, 0, 4*packedLength) // of most, so that nothing is allocated
	name := packText(texts, instance)
	tenant := packText(name[len(name):], device.TenantUUID(instance))
	wanted := packText(tenant[len(tenant):], request)
	for u := (unpacker{packed: l}); u.more(); {
		number := u.number()
		u.flags()
		same := bytes.HasPrefix(u.packed, name) || bytes.HasPrefix(u.packed, tenant)
		u.textParts()
		if same && (request == "" || bytes.HasPrefix(u.packed, wanted)) {
			return number, true
		}
		for range 3 {
			u.textParts()
		}
	}
	return 0, false
}

// MarshalJSON writes the list.
func (l Bindings) MarshalJSON() ([]byte, error) { return json.Marshal(l.All()) }

// UnmarshalJSON reads the list.
func (l *Bindings) UnmarshalJSON(text []byte) error {
	all := make([]device.Binding, 0, KeptBindings)
	if err := json.Unmarshal(text, &all); err != nil {
		return fmt.Errorf("read the bindings: %w", err)
	}
	*l = packBindings(all)
	return nil
}
