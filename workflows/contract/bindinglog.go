package contract

import (
	"fmt"
	"slices"

	"burnish/internal/device"
)

// KeptBindingLog bounds the bytes that a BindingLog takes.
const KeptBindingLog = 832

// BindingLog says when the last bindings began and ended, by whom and why, within KeptBindings
// and KeptBindingLog. It is compressed JSON, as Archive is and for its reasons.
type BindingLog []byte

// bindingMoments are the moments of one binding.
type bindingMoments struct {
	Number int            `json:"n"`
	Began  *device.Moment `json:"began,omitempty"`
	Over   *device.Moment `json:"over,omitempty"`
}

// Began returns the log with the beginning of a binding.
func (l BindingLog) Began(number int, m device.Moment) (BindingLog, error) {
	return l.change(number, func(b *bindingMoments) { b.Began = &m })
}

// Over returns the log with the end of a binding.
func (l BindingLog) Over(number int, m device.Moment) (BindingLog, error) {
	return l.change(number, func(b *bindingMoments) { b.Over = &m })
}

// Of returns the bindings with what is known of their beginning and end.
func (l BindingLog) Of(bindings []device.Binding) ([]device.Binding, error) {
	all, err := l.moments()
	filled := slices.Clone(bindings)
	for i := range filled {
		b := &filled[i]
		if at := find(all, b.Number); at >= 0 {
			b.Began, b.Over = all[at].Began, all[at].Over
		}
	}
	return filled, err
}

func (l BindingLog) moments() ([]bindingMoments, error) {
	if len(l) == 0 {
		return nil, nil
	}
	var all []bindingMoments
	if err := Decompress(l, &all); err != nil {
		return nil, fmt.Errorf("read the log of bindings: %w", err)
	}
	return all, nil
}

func find(all []bindingMoments, number int) int {
	return slices.IndexFunc(all, func(b bindingMoments) bool { return b.Number == number })
}

func (l BindingLog) change(number int, how func(*bindingMoments)) (BindingLog, error) {
	all, err := l.moments()
	if err != nil {
		return nil, err
	}
	at := find(all, number)
	if at < 0 {
		all, at = append(all, bindingMoments{Number: number}), len(all)
	}
	how(&all[at])
	for _, m := range []*device.Moment{all[at].Began, all[at].Over} {
		if m != nil {
			m.Verb, m.By, m.Reason = cutTo(m.Verb, keptMomentReason), cutTo(m.By, keptName), cutTo(m.Reason, keptMomentReason)
		}
	}
	return compressLast(all[max(0, len(all)-KeptBindings):], KeptBindingLog)
}

// keptMomentReason bounds the verb and the reason of a moment, in bytes: the act has them too.
const keptMomentReason = 80
