package contract

import (
	"slices"

	"burnish/internal/device"
)

// Bindings are the last bindings, the present one last (KeptBindings), with when they began and
// ended, by whom and why.
type Bindings []device.Binding

// With returns the bindings with one more.
func (l Bindings) With(b device.Binding, began device.Moment) Bindings {
	b.Began = shortened(began)
	return append(slices.Clone(l[max(len(l)+1-KeptBindings, 0):]), b)
}

// Over returns the bindings in which that of a number is over.
func (l Bindings) Over(number int, m device.Moment) Bindings {
	return l.change(number, func(b *device.Binding) { b.Over = shortened(m) })
}

// Ended returns the bindings in which that of a number ended so.
func (l Bindings) Ended(number int, how string) Bindings {
	return l.change(number, func(b *device.Binding) { b.Ended = how })
}

// Replaced returns the bindings with this one in the place of that of its number.
func (l Bindings) Replaced(by device.Binding) Bindings {
	return l.change(by.Number, func(b *device.Binding) {
		by.Began, by.Over = b.Began, b.Over
		*b = by
	})
}

func (l Bindings) change(number int, how func(*device.Binding)) Bindings {
	l = slices.Clone(l)
	for i := range l {
		if l[i].Number == number {
			how(&l[i])
		}
	}
	return l
}

// Of finds a binding of an instance, and of a request unless that is "".
func (l Bindings) Of(instance, request string) (number int, found bool) {
	for _, b := range l {
		if device.SameTenant(instance, b.Instance) && (request == "" || b.Request == request) {
			return b.Number, true
		}
	}
	return 0, false
}

// keptMomentReason bounds the verb and the reason of a moment, in bytes: the act has them too.
const keptMomentReason = 80

func shortened(m device.Moment) *device.Moment {
	m.Verb, m.By, m.Reason = cutTo(m.Verb, keptMomentReason), cutTo(m.By, keptName), cutTo(m.Reason, keptMomentReason)
	return &m
}
